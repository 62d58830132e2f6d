//! `recovery`: fsarena writes files until it cuts the power of the disk, times how long the filesystem takes to come
//! back, and checks that every file that was synced before the cut is intact.

use crate::payload::describe_difference;
use crate::task::{self, Action, Result, Task, TaskError, failed_to};
use crate::workload::{Job, Place, PowerCut, Room, Survey, Workload, remark_note};
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::TaskInfo, metric::reading, sample::Readings, schedule::mix};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{io::Write, os::unix::fs::FileExt};

/// The workload.
pub struct Recovery;

/// Number of files that exist at a time. Each new file replaces an older one.
const LIVE_FILES: u64 = 512;
/// Of this number of consecutive files, the last one is synced, with its directory.
const FILES_PER_SYNC: u64 = 4;
/// Number of directories that the files are spread over.
const DIRECTORY_COUNT: u64 = 7;
/// Bytes of the largest file.
const MAX_FILE_BYTES: usize = 64 << 10;
/// The earliest time of the cut, as a share of the setting `seconds`.
const EARLIEST_CUT_SHARE: f64 = 0.25;
/// How long the task waits for the cut after the last possible time.
const OVERDUE_TIMEOUT: Duration = Duration::from_secs(60);
/// The file on the source disk with the number of files that were written when the last sync returned.
const PROGRESS_FILE: &str = "synced";
/// Largest number of files that an error names.
const MAX_NAMED_FILES: usize = 5;

const DEF: WorkloadDef = WorkloadDef {
    id: "recovery",
    help: "write files, cut the power, then time how long the filesystem takes to come back, and verify the synced files",
    metrics: &["elapsed", reading::FILES_LOST],
    settings: &[
        SettingDef::float("seconds", 0.1..=300.0, 10.0)
            .help("the power is cut at an instant drawn between a quarter of this time and all of it"),
        SettingDef::choice("cut", &["barrier", "any"], "barrier")
            .help("writes that the disk keeps: those up to its last flush, or by chance any of the later ones too"),
    ],
};

impl Workload for Recovery {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        vec![
            task::info("recover", "Come back after a power cut", []),
            task_outside_totals("fsck", "Check the filesystem"),
        ]
    }

    fn survey(&self, _: &Job) -> Result<Survey> {
        let text = "recover: until the filesystem is mounted again, with fsck before that where the filesystem needs it; \
                    fsck: a full check after that, which changes nothing";
        // The source disk also holds the programs that check filesystems, and their libraries.
        let room = Room {
            bytes: LIVE_FILES * MAX_FILE_BYTES as u64,
            inodes: LIVE_FILES + DIRECTORY_COUNT,
            source_bytes: 64 << 20,
        };
        Ok(Survey { room, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn make_inputs(&self, _: &Job, place: &Place) -> Result<()> {
        let path = place.source_dir.join(PROGRESS_FILE);
        std::fs::write(&path, 0u64.to_le_bytes()).map_err(failed_to("write", &path))
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let seed = job.seed;
        let time_limit = Duration::from_secs_f64(job.settings.float("seconds")) + OVERDUE_TIMEOUT;
        let paths = (place.root.clone(), place.source_dir.join(PROGRESS_FILE));
        let write = Action::call_with(&paths, ["write", "fsync"], move |(root, progress)| {
            let start = Instant::now();
            write_files(root, progress, seed, &mut |_| start.elapsed() < time_limit)?;
            Err::<Readings, _>(TaskError::Unfit("the power was not cut".into()))
        });
        let verify = Action::call_with(&paths, ["cmp"], move |(root, progress)| {
            verify_files(root, read_progress(progress)?, seed)
        });
        Ok(vec![
            Task::new(task_outside_totals(PowerCut::WORK_TASK, "Work until the power is cut"), write),
            Task::new(task_outside_totals(PowerCut::VERIFY_TASK, "Read the files of before the cut"), verify),
        ])
    }

    fn power_cut(&self, job: &Job) -> Option<PowerCut> {
        let share = EARLIEST_CUT_SHARE + (1.0 - EARLIEST_CUT_SHARE) * (mix(job.seed, 1) as f64 / u64::MAX as f64);
        let delay = Duration::from_secs_f64(share * job.settings.float("seconds"));
        Some(PowerCut { delay, survivors_seed: (job.settings.text("cut") == "any").then(|| mix(job.seed, 2)) })
    }
}

/// Describes a task that the totals of reports leave out.
fn task_outside_totals(id: &str, title: &str) -> TaskInfo {
    TaskInfo { in_totals: false, ..task::info(id, title, []) }
}

/// Whether the file with this number is synced.
fn is_synced(number: u64) -> bool {
    number % FILES_PER_SYNC == FILES_PER_SYNC - 1
}

/// The path of a file below the root.
fn relative_path(number: u64) -> PathBuf {
    PathBuf::from(format!("d{}/f{number:06}", number % DIRECTORY_COUNT))
}

fn file_contents(seed: u64, number: u64) -> Vec<u8> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, number));
    let mut bytes = vec![0; rng.random_range(1..=MAX_FILE_BYTES)];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Writes files one after the other while `continues_with` returns true for the number of the next file. After each
/// sync it stores the number of written files in the file at `progress_path`.
fn write_files(
    root: &Path,
    progress_path: &Path,
    seed: u64,
    continues_with: &mut dyn FnMut(u64) -> bool,
) -> Result<()> {
    let progress_file =
        OpenOptions::new().write(true).open(progress_path).map_err(failed_to("write", progress_path))?;
    let store_progress =
        |count: u64| progress_file.write_all_at(&count.to_le_bytes(), 0).and_then(|()| progress_file.sync_data());
    store_progress(0).map_err(failed_to("write", progress_path))?;
    for number in 0..DIRECTORY_COUNT {
        let dir = root.join(format!("d{number}"));
        std::fs::create_dir(&dir).map_err(failed_to("make", &dir))?;
    }
    File::open(root).and_then(|dir| Ok(rustix::fs::syncfs(dir)?)).map_err(failed_to("sync", root))?;
    for number in (0..).take_while(|number| continues_with(*number)) {
        let path = root.join(relative_path(number));
        if let Some(oldest) = number.checked_sub(LIVE_FILES) {
            let oldest_path = root.join(relative_path(oldest));
            std::fs::remove_file(&oldest_path).map_err(failed_to("remove", &oldest_path))?;
        }
        let mut file = File::create(&path).map_err(failed_to("write", &path))?;
        file.write_all(&file_contents(seed, number)).map_err(failed_to("write", &path))?;
        if is_synced(number) {
            let dir = path.parent().unwrap_or(root);
            file.sync_all().and_then(|()| File::open(dir)?.sync_all()).map_err(failed_to("write", &path))?;
            store_progress(number + 1).map_err(failed_to("write", progress_path))?;
        }
    }
    Ok(())
}

/// Reads the number of files that were written when the last sync returned.
fn read_progress(progress_path: &Path) -> Result<u64> {
    let mut bytes = [0; 8];
    let result = File::open(progress_path).and_then(|file| file.read_exact_at(&mut bytes, 0));
    result.map_err(failed_to("read", progress_path))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Compares the files from before the cut with their expected contents. `written_count` is the stored progress. Files
/// that were not synced may be lost.
fn verify_files(root: &Path, written_count: u64, seed: u64) -> Result<Readings> {
    if written_count == 0 {
        let suggestion = setting("set", "seconds=60");
        let reason =
            format!("the power was cut before the first file was synced; give the work more time: {suggestion}");
        return Err(TaskError::Unfit(reason));
    }
    let (mut synced_count, mut lost_count, mut damaged_files) = (0u64, 0u64, vec![]);
    // After the last sync, further files up to the next sync may have been written, each of which removed an old file.
    for number in (written_count + FILES_PER_SYNC).saturating_sub(LIVE_FILES)..written_count {
        synced_count += u64::from(is_synced(number));
        match describe_difference(&root.join(relative_path(number)), &file_contents(seed, number)) {
            Some(difference) if is_synced(number) => {
                damaged_files.push(format!("{} ({difference})", relative_path(number).display()));
            }
            Some(_) => lost_count += 1,
            None => {}
        }
    }
    if !damaged_files.is_empty() {
        let ellipsis = if damaged_files.len() > MAX_NAMED_FILES { ", …" } else { "" };
        return Err(TaskError::Violation(format!(
            "DATA LOSS: {} of {synced_count} files that were synced before the power cut are not intact: {}{ellipsis}",
            damaged_files.len(),
            damaged_files[..damaged_files.len().min(MAX_NAMED_FILES)].join(", ")
        )));
    }
    let mut readings = Readings::default();
    readings.set(reading::FILES_SYNCED, synced_count as f64);
    readings.set(reading::FILES_LOST, lost_count as f64);
    Ok(readings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::job;

    /// Writes `count` files. Returns the directory, the root, and the stored progress.
    fn write_count(count: u64) -> (tempfile::TempDir, PathBuf, u64) {
        let dir = tempfile::tempdir().unwrap();
        let (root, progress) = (dir.path().join("root"), dir.path().join("synced"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&progress, [9; 8]).unwrap();
        write_files(&root, &progress, 7, &mut |number| number < count).unwrap();
        (dir, root, read_progress(&progress).unwrap())
    }

    #[test]
    fn intact_files_are_counted_and_lost_ones_without_sync_are_allowed() {
        let (_dir, root, progress) = write_count(LIVE_FILES + 10);
        assert_eq!(progress, LIVE_FILES + 8);
        let reading_of = |id: &str| verify_files(&root, progress, 7).unwrap().get(id).unwrap();
        // The oldest four may be removed before the next sync.
        assert_eq!((reading_of(reading::FILES_SYNCED), reading_of(reading::FILES_LOST)), (127.0, 0.0));
        std::fs::remove_file(root.join(relative_path(20))).unwrap();
        std::fs::write(root.join(relative_path(501)), "").unwrap();
        assert_eq!((reading_of(reading::FILES_SYNCED), reading_of(reading::FILES_LOST)), (127.0, 2.0));
    }

    #[test]
    fn a_damaged_synced_file_is_a_violation_with_its_name() {
        let (_dir, root, progress) = write_count(40);
        let error = || verify_files(&root, progress, 7).unwrap_err().to_string();
        std::fs::remove_file(root.join(relative_path(3))).unwrap();
        let mut bytes = file_contents(7, 7);
        bytes[0] ^= 1;
        std::fs::write(root.join(relative_path(7)), &bytes).unwrap();
        std::fs::write(root.join(relative_path(11)), &file_contents(7, 11)[1..]).unwrap();
        assert!(error().starts_with("DATA LOSS: 3 of 10 files that were synced"), "{}", error());
        assert!(error().contains("intact: d3/f000003 (missing), d0/f000007 (other contents), d4/f000011 ("));
        (12..40).for_each(|number| std::fs::write(root.join(relative_path(number)), "").unwrap());
        assert!(error().contains("10 of 10") && error().ends_with(", …"), "{}", error());
        assert!(verify_files(&root, 0, 7).unwrap_err().to_string().contains("set=seconds"));
    }

    #[test]
    fn the_instant_of_the_cut_is_drawn_from_the_seed() {
        let delay_of = |seed| Recovery.power_cut(&job(&DEF, seed, &[])).unwrap().delay.as_secs_f64();
        assert_eq!(delay_of(1), delay_of(1));
        let delays: Vec<f64> = (0..200).map(delay_of).collect();
        let count_between = |low: f64, high: f64| delays.iter().filter(|delay| (low..high).contains(delay)).count();
        assert_eq!(count_between(2.5, 10.001), 200);
        assert!(count_between(2.5, 4.0) > 20 && count_between(8.5, 10.0) > 20);
    }
}
