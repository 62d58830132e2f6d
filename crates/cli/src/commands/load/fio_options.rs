//! fio's options on the command line of `fsarena load`: flags with the effect that they have in fio, and the reasons to refuse
//! the others.

use crate::failure::{Failure, usage_error};
use clap::builder::BoolishValueParser;
use clap::{Arg, ArgAction};
use fsarena_load::fio::options;

/// Makes an argument a switch as in fio: `--direct`, `--direct=1` or `--direct=0`.
pub trait Switch {
    /// The argument as a switch.
    fn switch(self) -> Self;
}

impl Switch for Arg {
    fn switch(self) -> Arg {
        let switch = self.value_name("0|1").num_args(0..=1).require_equals(true).default_missing_value("1");
        switch.value_parser(BoolishValueParser::new()).hide_possible_values(true).action(ArgAction::Set)
    }
}

/// fio's options that `fsarena load` takes besides its own flags.
#[derive(Debug, clap::Args)]
pub struct FioFlags {
    /// Name of the load, in its result
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    pub name: Vec<String>,
    #[command(flatten)]
    implied: ImpliedSwitches,
    /// The opposite of --direct
    #[arg(long, switch(), conflicts_with = "direct", hide = true)]
    pub buffered: Option<bool>,
    /// Write percentage of a mixed workload
    #[arg(long, value_name = "PERCENT", value_parser = parse_whole_percent, conflicts_with = "rwmixread", hide = true)]
    pub rwmixwrite: Option<u8>,
    /// Format of the result in fio's words: normal or json
    #[arg(long = "output-format", value_name = "FORMAT", value_parser = parse_output_format, conflicts_with = "format", hide = true)]
    pub output_format: Option<&'static str>,
    /// When to show progress: never or auto
    #[arg(long, value_name = "WHEN", value_parser = parse_eta, hide = true)]
    eta: Option<bool>,
}

/// fio's switches for what `fsarena load` always does. They can be switched on only.
#[derive(Debug, clap::Args)]
struct ImpliedSwitches {
    /// Read or write until --runtime is over: always so
    #[arg(long = "time_based", switch(), hide = true)]
    time_based: Option<bool>,
    /// Add up the figures of all threads: always so
    #[arg(long = "group_reporting", switch(), hide = true)]
    group_reporting: Option<bool>,
    /// Use threads instead of processes: always so
    #[arg(long, switch(), hide = true)]
    thread: Option<bool>,
    /// Let random blocks repeat: always so
    #[arg(long, switch(), hide = true)]
    norandommap: Option<bool>,
    /// Use the same offsets in each run: so for one --seed
    #[arg(long, switch(), hide = true)]
    randrepeat: Option<bool>,
    /// Write new bytes in each write: always so
    #[arg(long = "refill_buffers", switch(), hide = true)]
    refill_buffers: Option<bool>,
    /// Overwrite files that were filled before: so without --create-on-open
    #[arg(long, switch(), hide = true)]
    overwrite: Option<bool>,
}

impl ImpliedSwitches {
    /// Refuses switches that are switched off, with the reason.
    fn refuse_off(&self) -> Result<(), Failure> {
        let switches = [
            (
                "time_based",
                self.time_based,
                "a load always runs for --runtime; to end it after its bytes, use --io-size",
            ),
            ("group_reporting", self.group_reporting, "the figures are always those of all threads together"),
            ("thread", self.thread, "a load always uses threads; fio's processes: fsarena run job.fio"),
            (
                "norandommap",
                self.norandommap,
                "random blocks can always repeat; fio's map of blocks: fsarena run job.fio",
            ),
            ("randrepeat", self.randrepeat, "one --seed gives the same offsets each time; for others, use --seed N"),
            ("refill_buffers", self.refill_buffers, "each write has new bytes; for the same ones, use --zero-buffers"),
            (
                "overwrite",
                self.overwrite,
                "files are filled before they are written; to create them by writes, use --create-on-open",
            ),
        ];
        match switches.into_iter().find(|(_, value, _)| *value == Some(false)) {
            Some((name, _, why)) => usage_error(format!("--{name}=0: {why}")),
            None => Ok(()),
        }
    }
}

impl FioFlags {
    /// Whether fio's `--eta=never` hides the progress.
    pub fn hides_progress(&self) -> bool {
        self.eta == Some(false)
    }
}

/// Refuses values that have an effect in fio and would have none in `fsarena load`. `has_size_limit` is whether a number of
/// operations or bytes ends the load, `creates_by_writes` whether its writes create the files.
pub fn refuse_ineffective_values(fio: &FioFlags, has_size_limit: bool, creates_by_writes: bool) -> Result<(), Failure> {
    if fio.name.len() > 1 {
        return usage_error(
            "--name: a load is one job; write several jobs into a job file and run it: fsarena run job.fio --fs ext4",
        );
    }
    fio.implied.refuse_off()?;
    if fio.implied.time_based.is_some() && has_size_limit {
        return usage_error(
            "--time_based: conflicts with --number-ios and --io-size, which end a load earlier; leave out one",
        );
    }
    if fio.implied.overwrite.is_some() && creates_by_writes {
        return usage_error(
            "--overwrite: conflicts with --create-on-open, which begins with empty files; leave out one",
        );
    }
    Ok(())
}

/// Reads a percentage from 0 to 100, `70%` or `70`.
pub fn parse_whole_percent(text: &str) -> Result<u8, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    number.filter(|percent| *percent <= 100).ok_or_else(|| "write a whole percentage up to 100: `70%`".into())
}

/// Reads `normal` or `json` of fio, and returns the name of the format in fsarena.
fn parse_output_format(text: &str) -> Result<&'static str, String> {
    match text {
        "normal" => Ok("term"),
        "json" => Ok("json"),
        "json+" => Err("use `json`: it has percentiles and every interval".into()),
        _ => Err("fsarena prints `normal` and `json`; for other formats of its own see --format".into()),
    }
}

/// Reads fio's `auto` or `never`, and returns whether progress is shown.
fn parse_eta(text: &str) -> Result<bool, String> {
    match text {
        "never" => Ok(false),
        "auto" => Ok(true),
        _ => Err("progress is shown on a terminal (`auto`), or not at all (`never`)".into()),
    }
}

/// The reasons to refuse options, by the names of options that share one.
const REFUSED_OPTIONS: [(&str, &str); 22] = [
    (
        "stonewall wait_for wait_for_previous new_group startdelay exitall section",
        "a load is one job; write several into a job file: fsarena run job.fio",
    ),
    (
        "thinktime thinktime_blocks thinktime_spin thinktime_iotime",
        "set a pace with --rate, and --rate-process for the gaps",
    ),
    (
        "rate_min rate_iops_min rate_cycle max_latency latency_target latency_window latency_percentile",
        "a load does not adapt its rate; give it one with --rate and read the latencies of --format json",
    ),
    (
        "bsrange bssplit blocksize_range bs_unaligned ba blockalign",
        "a load has one block size; use --bs, once for each size",
    ),
    ("loops", "use --runtime, --number-ios or --io-size to set the length of the load"),
    ("output", "redirect the result: fsarena load … > FILE"),
    ("minimal terse-version append-terse", "use --format json"),
    (
        "write_bw_log write_lat_log write_iops_log write_hist_log log_avg_msec bandwidth-log latency-log status-interval",
        "--format json has every interval of the time series",
    ),
    (
        "clat_percentiles lat_percentiles slat_percentiles percentile_list",
        "the table has p50, p99 and p99.9, and --format json more",
    ),
    (
        "gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement clocksource",
        "every latency is measured, and its cost is part of the result; leave it out",
    ),
    ("fsync_on_close end_syncfs sync_file_range write_barrier", "use --end-fsync, --fsync N, --fdatasync N or --sync"),
    ("fallocate", "files are filled with data before they are used; to create them by writes, use --create-on-open"),
    ("unlink unlink_each_loop", "files in --dir are always removed, and the one of --file is kept"),
    (
        "offset offset_increment io_limit",
        "a load uses whole files; choose their size with --size, and its bytes with --io-size",
    ),
    ("file_service_type openfiles", "threads share all files of --nrfiles, which stay open"),
    (
        "scramble_buffers buffer_pattern buffer_compress_percentage dedupe_percentage",
        "writes have random bytes, or zeros with --zero-buffers",
    ),
    (
        "cpus_allowed cpumask numa_cpu_nodes nice prio prioclass",
        "start the load by another program: taskset -c 0 fsarena load …",
    ),
    (
        "iodepth_batch iodepth_batch_submit iodepth_batch_complete_max iodepth_low hipri fixedbufs registerfiles sqthread_poll",
        "the engine chooses how to use the ring; --iodepth and --batch are yours",
    ),
    ("exec_prerun exec_postrun", "run the command before or after fsarena"),
    ("readonly", "a load makes its files first; --file names one that exists, which --rw read leaves unchanged"),
    ("client server remote-config", "one load from several machines: fsarena-mpi"),
    (
        "profile read_iolog write_iolog opendir",
        "a load reads and writes files that its options describe; real traces: fsarena run -- fio …",
    ),
];

/// What to use instead of an option of fio that `fsarena load` lacks; None if fio has no such option either.
pub fn option_advice(option: &str) -> Option<String> {
    let name = option.trim_start_matches('-').split('=').next().unwrap_or_default();
    let with_underscores = name.replace('-', "_");
    let is_in = |names: &str| names.split_whitespace().any(|known| known == name || known == with_underscores);
    if let Some((_, advice)) = REFUSED_OPTIONS.iter().find(|(names, _)| is_in(names)) {
        return Some((*advice).to_string());
    }
    options::find_rule(&with_underscores)?;
    Some("the load engine lacks this option of fio; write it into a job file, which the real fio runs: fsarena run job.fio".into())
}

/// The reason to refuse an I/O engine of fio; None for an unknown word.
pub fn engine_advice(engine: &str) -> Option<String> {
    let instead = match engine {
        "libaio" | "linuxaio" | "posixaio" => {
            "use --ioengine io_uring, which also keeps --iodepth operations in flight"
        }
        "vsync" | "pvsync" | "pvsync2" | "splice" => "use --ioengine psync, which calls pread and pwrite",
        _ if options::ENGINES.split_whitespace().any(|known| known == engine) => {
            "use sync, io_uring or mmap; for names and directories use --meta create,stat,unlink"
        }
        _ => return None,
    };
    Some(format!("the load engine lacks fio's {engine}; {instead}, or run the real fio: fsarena run job.fio"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn common_options_of_fio_are_flags_or_have_advice() {
        let cli = Cli::command();
        let load = cli.find_subcommand("load").unwrap();
        let has_flag = |name: &str| {
            load.get_arguments().any(|arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            })
        };
        let common = "name filename directory rw readwrite bs blocksize size filesize nrfiles numjobs iodepth direct buffered \
            ioengine runtime time_based ramp_time group_reporting fsync fdatasync end_fsync sync rwmixread rwmixwrite randseed \
            random_distribution rate rate_iops rate_process thinktime thread verify output-format output eta stonewall loops \
            norandommap randrepeat refill_buffers zero_buffers invalidate io_size number_ios create_on_open fallocate \
            startdelay bssplit bsrange iodepth_batch iodepth_batch_complete_min write_bw_log percentile_list gtod_reduce unlink \
            overwrite cpus_allowed minimal section exec_prerun offset openfiles";
        for name in common.split_whitespace() {
            assert!(has_flag(name) != option_advice(&format!("--{name}")).is_some_and(|_| !has_flag(name)), "{name}");
        }
        // Every word of the advice that is a flag exists.
        for (names, advice) in REFUSED_OPTIONS {
            assert!(names.split_whitespace().all(|name| !has_flag(name)), "{names}: a flag and refused");
            let words = advice.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            for flag in words.filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty()) {
                assert!(has_flag(flag), "{flag}");
            }
        }
        assert_eq!(option_advice("--no-such-option"), None);
    }

    #[test]
    fn engines_of_fio_have_advice() {
        assert!(engine_advice("libaio").unwrap().contains("--ioengine io_uring"));
        assert!(engine_advice("filecreate").unwrap().contains("--meta"));
        assert_eq!(engine_advice("turbo"), None);
    }
}
