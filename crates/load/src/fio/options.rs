//! The options of fio's jobs: those that fsarena passes on, and why it refuses the others.
//!
//! Only known options pass, so that an option of a later fio cannot leave the filesystem under test. The lists follow
//! the manual of fio 3.33 and the options that versions up to 3.41 added.

/// What fsarena does with an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionRule {
    /// It passes with any value, because none can leave the filesystem under test.
    Any,
    /// It passes if its value has only relative names of files, separated by `:`.
    Files,
    /// It passes unless its value contains this text, which is refused for this reason.
    Without(&'static str, &'static str),
    /// It passes with an I/O engine of [`ENGINES`].
    Engine,
    /// It changes only what fio prints. fsarena drops the option, because fsarena reads the figures of every job.
    Dropped,
    /// It is refused for this reason.
    Refused(&'static str),
}

/// The I/O engines that work on files by name, below the working directory. `cpuio` does no I/O.
pub const ENGINES: &str = "sync psync vsync pvsync pvsync2 libaio linuxaio posixaio io_uring mmap splice falloc ftruncate \
    filecreate filestat filedelete dircreate dirstat dirdelete cpuio";

/// Options that pass with any value.
const UNRESTRICTED_OPTIONS: &str = "description name wait_for lockfile unique_filename bs ba bsrange bssplit bs_unaligned bs_is_seq_rand \
    randrepeat randseed norandommap softrandommap ignore_error rw_sequencer iodepth iodepth_batch iodepth_batch_complete_min \
    iodepth_batch_complete_max iodepth_low serialize_overlap io_submit_mode size io_size filesize file_append offset \
    offset_increment offset_align number_ios num_range random_generator random_distribution percentage_random \
    percentage_sequential allrandrepeat nrfiles file_service_type filetype openfiles fallocate fadvise_hint fsync fdatasync \
    write_barrier sync_file_range direct atomic buffered overwrite loops numjobs startdelay runtime time_based verify_only \
    ramp_time ramp_size clocksource iomem_align verify do_verify verify_interval verify_offset verify_fatal verify_dump \
    verify_async verify_async_cpus verify_backlog verify_backlog_batch experimental_verify verify_state_load \
    verify_state_save verify_header_seed verify_pattern_interval verify_write_sequence trim_percentage trim_verify_zero \
    trim_backlog trim_backlog_batch zonemode zonesize zonecapacity zonerange zoneskip read_beyond_wp max_open_zones \
    job_max_open_zones ignore_zone_limits zone_reset_threshold zone_reset_frequency write_zone_remainder lockmem rwmixread \
    rwmixwrite nice prio prioclass priohint thinktime thinktime_spin thinktime_blocks thinktime_blocks_type thinktime_iotime \
    rate rate_min rate_process rate_cycle rate_ignore_thinktime rate_iops rate_iops_min max_latency latency_target \
    latency_window latency_percentile latency_run invalidate sync write_hint create_serialize create_fsync create_on_open \
    allow_file_create pre_read cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy end_fsync end_syncfs \
    fsync_on_close unlink unlink_each_loop exitall exit_what exitall_on_error stonewall new_group thread comm per_job_logs \
    bwavgtime iopsavgtime log_entries log_avg_msec log_hist_msec log_hist_coarseness log_window_value log_offset log_prio \
    log_issue_time log_compression log_compression_cpus log_store_compressed log_alternate_epoch \
    log_alternate_epoch_clock_id job_start_clock_id block_error_percentiles stats zero_buffers refill_buffers \
    scramble_buffers buffer_compress_percentage buffer_compress_chunk dedupe_percentage dedupe_mode \
    dedupe_working_set_percentage dedupe_global disk_util gtod_reduce disable_lat disable_clat disable_slat \
    disable_bw_measurement gtod_cpu continue_on_error error_dump kb_base unit_base hugepage-size flow_id flow flow_sleep \
    steadystate steadystate_duration steadystate_ramp_time steadystate_check_interval cpuload cpuchunks cpumode \
    exit_on_io_done thp hipri hipri_percentage uncached nowait cmdprio_percentage cmdprio_class cmdprio cmdprio_bssplit \
    fixedbufs registerfiles sqthread_poll sqthread_poll_cpu nonvectored force_async userspace_reap stat_type \
    rwmixcycle thinkcycles verifysort verifysort_nr";

/// Options that change only what fio prints.
const DROPPED_OPTIONS: &str = "group_reporting unified_rw_reporting clat_percentiles lat_percentiles slat_percentiles percentile_list \
    significant_figures";

const PATTERN_FILE_REASON: &str = "reads a file; write the pattern itself";

/// Options whose values are checked.
const CHECKED_OPTIONS: [(&str, OptionRule); 13] = [
    ("filename", OptionRule::Files),
    ("directory", OptionRule::Files),
    ("filename_format", OptionRule::Files),
    ("write_bw_log", OptionRule::Files),
    ("write_lat_log", OptionRule::Files),
    ("write_iops_log", OptionRule::Files),
    ("write_hist_log", OptionRule::Files),
    ("write_iolog", OptionRule::Files),
    // fio would read a pattern such as `'file'` from that file, and would map its memory `mmap:/file` from that file.
    ("verify_pattern", OptionRule::Without("'", PATTERN_FILE_REASON)),
    ("buffer_pattern", OptionRule::Without("'", PATTERN_FILE_REASON)),
    ("mem", OptionRule::Without(":", "maps a file into memory; write it without a file")),
    ("ioengine", OptionRule::Engine),
    ("rw", OptionRule::Without("trim", "discards blocks of a device, and the jobs work on files")),
];

const OTHER_ENGINE_REASON: &str = "belongs to an I/O engine that does not work on files of the filesystem under test";
const TRACE_REASON: &str =
    "replays a trace, which names its own files and devices; write the load as options (rw, bs, rate_iops, …)";

/// Options that are refused, with the reason.
const REFUSED_OPTIONS: [(&str, &str); 12] = [
    ("exec_prerun exec_postrun", "runs a command outside the job; remove it, and prepare files with options of a job"),
    ("opendir", "takes whatever files lie below a directory; name the files with filename= or nrfiles="),
    (
        "read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale replay_align replay_time_scale \
         replay_skip merge_blktrace_file merge_blktrace_scalars merge_blktrace_iters",
        TRACE_REASON,
    ),
    (
        "ioscheduler",
        "changes the scheduler of a disk for all programs; compare schedulers as levels of the factor `scheduler`",
    ),
    ("cgroup cgroup_weight cgroup_nodelete", "changes the control groups of this machine; remove it"),
    ("profile", "replaces the job by one of fio's own, which takes devices; write the load as options"),
    ("uid gid", "changes the user of fio; the setting `user` chooses the user of all jobs"),
    (
        "fill_device fill_fs",
        "writes until the filesystem is full; write size= instead; the setting `size` makes the filesystem larger or smaller",
    ),
    ("create_only", "makes files and measures nothing; remove it: fsarena makes the files before it times a job"),
    ("allow_mounted_write", "is for devices, and the jobs work on files; remove it"),
    (
        "program arguments grace_time std_redirect hostname bindname port protocol proto nodelay listen pingpong interface \
         ttl window_size mss verb clustername rbdname pool clientname conf busy_poll touch_objects volume brick \
         single-instance skip_bad readfua writefua sg_write_mode stream_id cmd_type md_per_io_size pi_act pi_chk apptag \
         apptag_mask uri nfs_url namenode hdfsdirectory chunk_size cont object_class donorname inplace serverip \
         direct_write_to_pmem busy_wait_polling gpu_dev_ids cuda_io http_host http_user http_pass https http_mode \
         http_s3_region http_s3_key http_s3_keyid http_swift_auth_token http_verbose xnvme_async xnvme_sync xnvme_admin \
         xnvme_dev_nsid xnvme_iovec libblkio_driver libblkio_path",
        OTHER_ENGINE_REASON,
    ),
    (
        "fdp fdp_pli fdp_pli_select plids plid_select dataplacement data_placement dp_scheme",
        "places data on a device that the job names; remove it",
    ),
];

/// Other names of options, each with the name that this module uses.
const OPTION_ALIASES: [(&str, &str); 23] = [
    ("readwrite", "rw"),
    ("blocksize", "bs"),
    ("blockalign", "ba"),
    ("blocksize_range", "bsrange"),
    ("blocksize_unaligned", "bs_unaligned"),
    ("iodepth_batch_submit", "iodepth_batch"),
    ("iodepth_batch_complete", "iodepth_batch_complete_min"),
    ("io_limit", "io_size"),
    ("fileoffset", "offset"),
    ("nr_files", "nrfiles"),
    ("timeout", "runtime"),
    ("iomem", "mem"),
    ("mem_align", "iomem_align"),
    ("ratemin", "rate_min"),
    ("ratecycle", "rate_cycle"),
    ("wait_for_previous", "stonewall"),
    ("log_max_value", "log_window_value"),
    ("log_unix_epoch", "log_alternate_epoch"),
    ("disable_bw", "disable_bw_measurement"),
    ("ss", "steadystate"),
    ("ss_dur", "steadystate_duration"),
    ("ss_ramp", "steadystate_ramp_time"),
    ("ss_interval", "steadystate_check_interval"),
];

/// Converts an alias of an option to the option's name. Any other name stays as it is.
pub fn canonical_name(name: &str) -> &str {
    OPTION_ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// The rule of an option by its name or alias; None for an unknown option.
pub fn find_rule(name: &str) -> Option<OptionRule> {
    let name = canonical_name(name);
    let is_in = |names: &str| names.split_whitespace().any(|known| known == name);
    if let Some((_, rule)) = CHECKED_OPTIONS.iter().find(|(checked, _)| *checked == name) {
        return Some(*rule);
    }
    if let Some((_, reason)) = REFUSED_OPTIONS.iter().find(|(names, _)| is_in(names)) {
        return Some(OptionRule::Refused(reason));
    }
    if is_in(DROPPED_OPTIONS) {
        return Some(OptionRule::Dropped);
    }
    is_in(UNRESTRICTED_OPTIONS).then_some(OptionRule::Any)
}

/// The names and aliases of all options that fsarena accepts.
pub fn accepted_names() -> impl Iterator<Item = &'static str> {
    let checked = CHECKED_OPTIONS.iter().map(|(name, _)| *name);
    let aliases = OPTION_ALIASES.iter().map(|(alias, _)| *alias);
    UNRESTRICTED_OPTIONS.split_whitespace().chain(DROPPED_OPTIONS.split_whitespace()).chain(checked).chain(aliases)
}

/// Checks the value of an option.
///
/// # Errors
/// The text describes what the option would do, and what to write instead. It continues a sentence that begins with the name
/// and value of the option.
pub fn check_value(rule: OptionRule, value: &str) -> Result<(), String> {
    let refuse = |reason: &str| Err(reason.to_string());
    match rule {
        OptionRule::Any | OptionRule::Dropped => Ok(()),
        OptionRule::Refused(reason) => refuse(reason),
        OptionRule::Files => check_files(value),
        OptionRule::Without(text, reason) if value.contains(text) => refuse(reason),
        OptionRule::Without(..) => Ok(()),
        OptionRule::Engine => check_engine(value),
    }
}

fn check_files(value: &str) -> Result<(), String> {
    let error = "would leave the filesystem under test; write a relative name, or remove it: the working directory of fio \
                  is the filesystem under test";
    for path in value.split(':').map(str::trim) {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") || path.starts_with('~') {
            return Err(error.into());
        }
        if path == "-" {
            return Err("means standard input or output; write the name of a file".into());
        }
        if path.contains('\\') {
            return Err("has a backslash; write a name without it".into());
        }
        if path.is_empty() {
            return Err("has an empty name; write a relative name".into());
        }
    }
    Ok(())
}

fn check_engine(value: &str) -> Result<(), String> {
    if value.starts_with("external") || value.contains(['/', ':']) {
        return Err("loads code from a file; use one of fio's own engines, such as libaio or io_uring".into());
    }
    if ENGINES.split_whitespace().any(|engine| engine == value) {
        return Ok(());
    }
    Err(format!("does not work on files of the filesystem under test. Available: {}", ENGINES.replace(' ', ", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_sys::argv::Argv;

    #[test]
    fn every_option_of_the_installed_fio_has_a_rule() {
        if !fsarena_sys::testkit::has_program("fio") {
            return;
        }
        let output_of = |argument: &str| Argv::new("fio").arg(argument).run().unwrap().stdout;
        let engines = ["libaio", "io_uring", "pvsync2", "mmap", "cpuio", "filestat"];
        let mut help = output_of("--cmdhelp=all");
        engines.iter().for_each(|engine| help.push_str(&output_of(&format!("--enghelp={engine}"))));
        let names: Vec<&str> = help.lines().filter_map(|line| Some(line.split_once(':')?.0.trim())).collect();
        assert!(names.len() > 200, "{help}");
        let unknown: Vec<&&str> = names.iter().filter(|name| find_rule(name).is_none()).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }

    #[test]
    fn every_name_has_one_rule() {
        let refused = REFUSED_OPTIONS.iter().flat_map(|(names, _)| names.split_whitespace());
        let mut names: Vec<&str> = accepted_names().chain(refused).collect();
        names.sort_unstable();
        let duplicates: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(duplicates.is_empty(), "{duplicates:?}");
        assert!(OPTION_ALIASES.iter().all(|(_, name)| find_rule(name).is_some()));
    }

    #[test]
    fn values_that_leave_the_filesystem_are_refused() {
        let is_refused = |name: &str, value: &str| check_value(find_rule(name).unwrap(), value).is_err();
        for (name, value) in [
            ("filename", "/dev/sda"),
            ("filename", "a:/dev/sda"),
            ("filename", "a/../../b"),
            ("filename", "-"),
            ("filename", "a\\:b"),
            ("directory", "/mnt"),
            ("directory", ".."),
            ("filename_format", "/tmp/$jobnum"),
            ("write_bw_log", "/tmp/log"),
            ("exec_prerun", "rm -rf /"),
            ("ioengine", "external:/tmp/x.so"),
            ("ioengine", "./x.so"),
            ("ioengine", "exec"),
            ("ioengine", "sg"),
            ("iomem", "mmap:/dev/sda"),
            ("verify_pattern", "'/etc/passwd'"),
            ("rw", "randtrim"),
            ("read_iolog", "trace"),
            ("opendir", "data"),
        ] {
            assert!(is_refused(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("filename", "a:b/c..d"),
            ("directory", "data"),
            ("write_bw_log", "mine"),
            ("ioengine", "libaio"),
            ("mem", "mmap"),
            ("verify_pattern", "0xdeadface\"abcd\"-12"),
            ("readwrite", "randrw"),
            ("filename_format", "$jobname/$filenum"),
        ] {
            assert!(!is_refused(name, value), "{name}={value}");
        }
        assert_eq!(find_rule("exec_everything"), None);
    }
}
