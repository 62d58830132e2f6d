//! `fio-job`: the jobs of a fio job file, run by the real fio.
//!
//! Jobs between two `stonewall`s run at the same time, and are one task. If such a task has several jobs, each job is a
//! part with its own figures. Before the first task, fio makes the files of all jobs untimed, as it does at the start
//! of a run.

use crate::fio::job::FioJob;
use crate::fio::{JobFile, output};
use crate::task::{self, Action, Result, Task, TaskError, failed_to};
use crate::workload::{Demands, Job, Place, Room, Survey, Workload, fairness_note, remark_note};
use fsarena_core::event::Note;
use fsarena_core::names::distinct;
use fsarena_core::sample::{TaskOutput, TaskPart};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, number::plural};
use fsarena_sys::argv::Argv;
use fsarena_sys::dirs;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The workload.
pub struct FioJobFile;

const DEF: WorkloadDef = WorkloadDef {
    id: "fio-job",
    help: "the jobs of a fio job file, by the real fio: fsarena run job.fio --fs ext4,xfs",
    metrics: &["iops", "bandwidth", "latency_p99"],
    settings: &[
        SettingDef::text("job").help("text of the job file, without includes and variables"),
        SettingDef::text("file").help("name of the job file, for messages"),
        SettingDef::size("room", 0..=1 << 50, 0)
            .help("bytes of all files of the jobs together; 0 to take them from the jobs"),
    ],
};

/// The name of the fio job file that only makes the files of the jobs.
const LAYOUT_FILE: &str = "layout.fio";
/// Longest name of a task in bytes. If the names of its jobs together are longer, the task has only the first.
const MAX_TASK_NAME_BYTES: usize = 60;
/// Smallest space of the filesystem in bytes, because logs and state files of fio need some too.
const MIN_SPACE_BYTES: u64 = 16 << 20;

/// Jobs that run at the same time.
struct JobGroup {
    info: TaskInfo,
    jobs: Vec<FioJob>,
    /// Each name of its jobs, and the description of the part with their figures; empty if all jobs have the same name.
    parts: Vec<(String, TaskInfo)>,
}

/// The name of the job file, for messages.
fn job_file_name(job: &Job) -> &str {
    match job.settings.text("file") {
        "" => "job",
        name => name,
    }
}

fn parse_job_file(job: &Job) -> Result<JobFile> {
    let parsed = JobFile::parse(job_file_name(job), job.settings.text("job"));
    parsed.map_err(|error| TaskError::Plan(error.to_string()))
}

/// The groups of jobs in a job file. Each is a task.
fn job_groups(file: &JobFile) -> Vec<JobGroup> {
    let mut used_names = vec![];
    let mut groups = vec![];
    for jobs in file.job_groups() {
        let names = distinct(jobs.iter().map(|job| job.name.clone()));
        let joined_names = names.iter().map(|name| task_name(name)).collect::<Vec<_>>().join("+");
        let name = match &names[..] {
            [first, _, ..] if joined_names.len() > MAX_TASK_NAME_BYTES => {
                format!("{}+{}-others", task_name(first), names.len() - 1)
            }
            _ => joined_names,
        };
        let describe = |name: &str| match jobs.iter().find(|job| job.name == name) {
            Some(job) => format!("{name}: {}", job.main_options()),
            None => name.to_string(),
        };
        let title = match &names[..] {
            [only] => describe(only),
            names => format!("{} at the same time", names.join(", ")),
        };
        let info = task::info(&take_unused_name(&mut used_names, &name), title, []);
        let mut parts = vec![];
        for name in names.iter().filter(|_| names.len() > 1) {
            let part_name = take_unused_name(&mut used_names, &task_name(name));
            parts.push((name.clone(), task::info(&part_name, describe(name), [])));
        }
        groups.push(JobGroup { info, jobs, parts });
    }
    groups
}

/// The name of a task for a job: each character that claims accept only in quotes becomes `-`.
fn task_name(job_name: &str) -> String {
    let is_accepted = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    job_name.chars().map(|letter| if is_accepted(letter) { letter } else { '-' }).collect()
}

/// Returns the first unused name of `name`, `name-2`, …, and adds it to the used names.
fn take_unused_name(used_names: &mut Vec<String>, name: &str) -> String {
    let unused_name = task::first_free_name(name, |candidate| {
        used_names.iter().all(|used_name| used_name != candidate) && !task::is_reserved_name(candidate)
    });
    used_names.push(unused_name.clone());
    unused_name
}

/// The name of the job file of a group on the source disk.
fn group_file_name(index: usize) -> String {
    format!("{}.fio", index + 1)
}

/// The command that runs a job file of the source disk in the filesystem under test.
fn fio_command(place: &Place, file_name: &str) -> Argv {
    Argv::new("fio")
        .args(["--output-format=json+", "--eta=never"])
        .arg(place.source_dir.join(file_name))
        .cwd(&place.root)
}

/// The actions that make the directories that jobs name, and then the files of all jobs.
fn preparation_actions(file: &JobFile, place: &Place) -> Vec<Action> {
    let jobs = file.jobs();
    let mut actions = vec![];
    for dir in distinct(jobs.iter().flat_map(|job| job.directories()).map(PathBuf::from)) {
        let path = place.root.join(dir);
        actions.push(Action::call_on("mkdir", &path, |path| dirs::make_dirs(path).map_err(failed_to("make", path))));
    }
    actions.push(Action::Run(fio_command(place, LAYOUT_FILE).discard_stdout()));
    actions
}

/// Parses the figures of a group from the output of fio.
fn parse_group_output(parts: &[(String, TaskInfo)], printed: &str) -> Result<TaskOutput> {
    let to_error = |reason: String| output::output_error(printed, &reason);
    let jobs = output::parse_jobs(printed).map_err(to_error)?;
    let combine = |jobs: &[&output::JobFigures]| output::combine_jobs(jobs).map_err(to_error);
    if parts.is_empty() {
        return combine(&jobs.iter().collect::<Vec<_>>());
    }
    let mut output = TaskOutput::default();
    for (name, info) in parts {
        // A job with stats=0 has no figures.
        let clones: Vec<_> = jobs.iter().filter(|job| job.name == *name).collect();
        if !clones.is_empty() {
            let TaskOutput { readings, latencies, .. } = combine(&clones)?;
            output.parts.push(TaskPart { task: info.clone(), readings, latencies });
        }
    }
    Ok(output)
}

/// The name and version of the installed fio: `fio-3.33`; `fio` if it does not start, which the preflight reports.
fn installed_version() -> String {
    let printed = Argv::new("fio").arg("--version").run().map(|finished| finished.stdout);
    let version = printed.unwrap_or_default().trim().to_string();
    if version.starts_with("fio-") { version } else { "fio".into() }
}

/// The notes on these jobs in every report.
fn remarks(name: &str, groups: &[JobGroup]) -> Vec<Note> {
    let jobs: Vec<&FioJob> = groups.iter().flat_map(|group| &group.jobs).collect();
    let counts = format!("{} in {}", plural(jobs.len(), "job"), plural(groups.len(), "group"));
    let text = format!(
        "{name}: {counts}, by the real {}; it made the files untimed, and latencies are its completion latencies (clat)",
        installed_version()
    );
    let mut notes = vec![remark_note(text)];
    if jobs.iter().any(|job| LOG_OPTIONS.iter().any(|log| job.is_on(log))) {
        let text = format!("{name}: fio writes its logs to the filesystem under test, which ends with the round");
        notes.push(remark_note(text));
    }
    notes.extend(durability_notes(&jobs));
    notes
}

/// Options with which fio writes a log. The log is lost with the filesystem under test.
const LOG_OPTIONS: [&str; 5] = ["write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "write_iolog"];

/// The fairness notes on how jobs make their writes durable.
fn durability_notes(jobs: &[&FioJob]) -> Vec<Note> {
    let mut names_by_durability: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for job in jobs {
        if let Some(durability) = job.durability_options() {
            let names = names_by_durability.entry(durability).or_default();
            if !names.contains(&job.name.as_str()) {
                names.push(&job.name);
            }
        }
    }
    let mut notes = vec![];
    if names_by_durability.len() > 1 {
        let describe = |(durability, names): (&String, &Vec<&str>)| {
            let durability = if durability.is_empty() { "buffered, without a sync" } else { durability.as_str() };
            format!("{} ({durability})", names.join(", "))
        };
        let descriptions: Vec<String> = names_by_durability.iter().map(describe).collect();
        let text = format!(
            "the durability of writes differs between jobs: {}: compare variants at one job, not one job with another",
            descriptions.join("; ")
        );
        notes.push(fairness_note(text).fix("give all jobs the same direct=, sync=, fsync=, fdatasync= and end_fsync="));
    }
    if let Some(names) = names_by_durability.get("") {
        let text = format!(
            "{}: buffered writes without a sync: the rate can be that of the page cache, and leaves out the time until the data is on the device",
            names.join(", ")
        );
        notes.push(fairness_note(text).fix("set end_fsync=1, fsync=N or direct=1 in the job file"));
    }
    notes
}

/// The space for the files of all jobs; jobs that name the same files share them. `configured_bytes` is the setting
/// `room`, and 0 without it.
fn space_needed(jobs: &[&FioJob], configured_bytes: u64) -> Result<Room> {
    // Bytes and number of the files of each set.
    let mut file_sets: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for job in jobs {
        let needs = match job.file_needs() {
            Ok(needs) => needs,
            Err(_) if configured_bytes > 0 => continue,
            Err(error) => {
                return Err(TaskError::Plan(format!("{error}, or set the room: {}", setting("set", "room=2g"))));
            }
        };
        let (bytes, count) = file_sets.entry(needs.file_set_key).or_default();
        (*bytes, *count) = ((*bytes).max(needs.bytes), (*count).max(needs.count));
    }
    let (mut file_bytes, mut inodes) = (0u64, 0u64);
    for (bytes, count) in file_sets.values() {
        file_bytes = file_bytes.saturating_add(*bytes);
        inodes = inodes.saturating_add(*count);
    }
    if configured_bytes > 0 {
        file_bytes = configured_bytes;
    }
    // Twice the data: a copy-on-write filesystem keeps old blocks until it commits.
    let bytes = file_bytes.saturating_mul(2).max(MIN_SPACE_BYTES);
    Ok(Room { bytes, inodes, source_bytes: 0 })
}

impl Workload for FioJobFile {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, job: &Job) -> Vec<TaskInfo> {
        // The survey reports a job file that cannot be read.
        let Ok(file) = parse_job_file(job) else { return vec![] };
        let mut infos = vec![];
        for group in job_groups(&file) {
            infos.push(group.info);
            infos.extend(group.parts.into_iter().map(|(_, info)| info));
        }
        infos
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        if job.settings.text("job").trim().is_empty() {
            let reason = "the workload fio-job has no job; run a job file: fsarena run job.fio";
            return Err(TaskError::Plan(reason.into()));
        }
        let groups = job_groups(&parse_job_file(job)?);
        let jobs: Vec<&FioJob> = groups.iter().flat_map(|group| &group.jobs).collect();
        let room = space_needed(&jobs, job.settings.int("room") as u64)?;
        let demands = Demands { direct_io: jobs.iter().any(|job| job.uses_direct_io()), ..Demands::default() };
        Ok(Survey { room, demands, remarks: remarks(job_file_name(job), &groups), ..Survey::default() })
    }

    fn programs(&self, _job: &Job) -> Vec<&'static str> {
        vec!["fio"]
    }

    fn make_inputs(&self, job: &Job, place: &Place) -> Result<()> {
        let file = parse_job_file(job)?;
        let mut texts = vec![(LAYOUT_FILE.to_string(), format!("[global]\ncreate_only=1\n{}", file.text()))];
        for (index, group) in job_groups(&file).iter().enumerate() {
            texts.push((group_file_name(index), file.text_with_jobs(&group.jobs)));
        }
        for (name, text) in texts {
            let path = place.source_dir.join(name);
            std::fs::write(&path, text).map_err(failed_to("write", &path))?;
        }
        Ok(())
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let file = parse_job_file(job)?;
        let mut first_preparation = preparation_actions(&file, place);
        let mut tasks = vec![];
        for (index, JobGroup { info, parts, .. }) in job_groups(&file).into_iter().enumerate() {
            let parse = move |printed: &str| parse_group_output(&parts, printed);
            let work = Action::RunAndParse(fio_command(place, &group_file_name(index)), Box::new(parse));
            tasks.push(Task::new(info, work).with_preparation(first_preparation.drain(..)));
        }
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place, task_ids};

    const MIXED: &str = "[global]\nsize=1m\nrw=randwrite\n[fill disk]\nrw=write\nend_fsync=1\n[read.er]\nstonewall\nrw=randread\n\
        [writer]\nfsync=8\nnumjobs=2\n[mount]\nstonewall\nwait_for=writer\n";

    fn job_of(text: &str) -> Job {
        job(&DEF, 1, &[("job", text), ("file", "a.fio")])
    }

    #[test]
    fn tasks_are_the_groups_between_stonewalls_and_their_jobs() {
        let job = job_of(MIXED);
        assert_eq!(
            task_ids(&FioJobFile.outline(&job)),
            ["fill-disk", "read-er+writer", "read-er", "writer", "mount-2"]
        );
        let dir = tempfile::tempdir().unwrap();
        FioJobFile.make_inputs(&job, &place(dir.path())).unwrap();
        let text = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(text("2.fio").contains("[writer]") && !text("2.fio").contains("[fill disk]"));
        // The job that is waited for ran in the group before.
        assert!(text("3.fio").ends_with("[mount]\nstonewall\n"), "{}", text("3.fio"));
        assert!(
            text(LAYOUT_FILE).starts_with("[global]\ncreate_only=1\n") && text(LAYOUT_FILE).contains("[fill disk]")
        );
        let tasks = FioJobFile.tasks(&job, &place(dir.path())).unwrap();
        assert_eq!(tasks.iter().map(|task| task.preparation.len()).collect::<Vec<_>>(), [1, 0, 0]);
    }

    #[test]
    fn the_survey_has_the_room_and_names_unequal_durability() {
        let survey = FioJobFile.survey(&job_of(MIXED)).unwrap();
        assert_eq!((survey.room.bytes, survey.room.inodes), (MIN_SPACE_BYTES, 5));
        let texts: Vec<&str> = survey.remarks.iter().map(|note| note.text.as_str()).collect();
        let has = |words: &str| texts.iter().any(|text| text.contains(words));
        assert!(has("mount (buffered, without a sync); fill disk (end_fsync=1); writer (fsync=8)"), "{texts:?}");
        assert!(has("mount: buffered writes without a sync"), "{texts:?}");
        let equal_durability = FioJobFile
            .survey(&job_of("[a]\nrw=write\ndirect=1\nsize=1g\n[b]\nrw=randwrite\ndirect=1\nsize=1g"))
            .unwrap();
        assert_eq!((equal_durability.remarks.len(), equal_durability.room.bytes), (1, 4 << 30));
        assert!(equal_durability.demands.direct_io);
    }

    #[test]
    fn an_invalid_job_is_an_error_of_the_plan() {
        let error = |text: &str| FioJobFile.survey(&job_of(text)).unwrap_err().to_string();
        assert!(error("[a]\nfilename=/dev/sda\n").starts_with("a.fio:2: filename=/dev/sda would leave"));
        assert!(error("[a]\nsize=10%\n").contains("set=room=2g"));
        assert!(error(" ").contains("has no job"));
        assert!(error("[a]\ninclude b.fio\n").contains("a job in a plan includes no file"));
        let with_room = job(&DEF, 1, &[("job", "[a]\nsize=10%\n"), ("room", "1g")]);
        assert_eq!(FioJobFile.survey(&with_room).unwrap().room.bytes, 2 << 30);
    }

    #[test]
    fn the_real_fio_runs_every_group_and_its_jobs_have_figures() {
        if !fsarena_sys::testkit::has_program("fio") {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let job = job_of(&MIXED.replace("[fill disk]\n", "[fill disk]\ndirectory=in/side\n"));
        let place = place(dir.path());
        FioJobFile.make_inputs(&job, &place).unwrap();
        let mut parts = vec![];
        for task in FioJobFile.tasks(&job, &place).unwrap() {
            let name = task.info.id.to_string();
            perform_all(task.preparation);
            let output = perform_all(task.work);
            assert_eq!(output.readings.get("all_iops_per_s").is_some(), output.parts.is_empty(), "{name}");
            parts.extend(output.parts);
        }
        assert!(dir.path().join("in/side").is_dir());
        let reading_of = |part: usize, id: &str| parts[part].readings.get(id);
        assert_eq!(
            (reading_of(0, "read_operations_count"), reading_of(0, "write_operations_count")),
            (Some(256.0), None)
        );
        // Two clones of 256 writes each.
        assert_eq!(reading_of(1, "write_operations_count"), Some(512.0));
        assert!(reading_of(1, "all_latency_p99_ns").is_some() && parts[1].latencies.count() == 512);
    }
}
