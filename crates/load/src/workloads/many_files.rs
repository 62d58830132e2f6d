//! `many-files`: creates files of 1 to 10 KB in 100 × n directories, then reads them back and verifies their checksums,
//! as the program of Sohail Shaikh's "Billion-files File Systems" (2024) does.
//!
//! Names, sizes and contents follow from the number of a file, so that the memory of the load does not grow with the
//! files.

use crate::payload::Noise;
use crate::task::{Action, Result, StartState, Task, TaskError, failed_to, info};
use crate::workload::{Job, Place, Room, Survey, Workload, remark_note};
use fsarena_core::cell::TaskInfo;
use fsarena_core::metric::reading;
use fsarena_core::sample::Readings;
use fsarena_core::schedule::mix;
use fsarena_core::setting::{SettingDef, WorkloadDef};
use fsarena_sys::cancel;
use statrs::distribution::{ContinuousCDF, Normal};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// The workload.
pub struct ManyFiles;

const DEF: WorkloadDef = WorkloadDef {
    id: "many-files",
    help: "create files of 1 to 10 KB in 100 × n directories, read them back and verify their checksums",
    metrics: &["elapsed", "synced", "stored_bytes", "overhead_ratio", reading::SLAB_GROWTH],
    settings: &[
        SettingDef::int("files", 0..=2_000_000_000, 0)
            .help("number of files; 0 for 10 million at scale paper, 200,000 at quick, 1,000 at tiny"),
        SettingDef::int("top_directories", 1..=10_000, 100).help("directories at the top"),
        SettingDef::int("files_per_directory", 1..=10_000_000, 100_000).help(
            "most files of a directory: each directory at the top has as many below it as the files need, at least one",
        ),
        SettingDef::choice("read", &["cached", "cold"], "cached")
            .help("whether reading begins with what creating left in the page cache, or after a new mount"),
    ],
};

/// Mean and standard deviation of the size of a file in bytes: `normal_random` in the author's `main.c`.
const FILE_BYTES_MEAN_AND_SD: (f64, f64) = (5500.0, 1000.0);
/// The smallest and the largest size: `BfFS.h`.
const FILE_BYTES_LIMITS: (f64, f64) = (1024.0, 10_240.0);
/// Bytes of the CRC-32 at the end of a file.
const CHECKSUM_BYTES: usize = 4;
/// The number of distinct sizes: the (i + ½)/n quantiles of their distribution.
const SIZE_COUNT: usize = 4096;
/// The number of files after which the load looks for a signal.
const FILES_BETWEEN_SIGNAL_CHECKS: u64 = 256;

/// The number of files of a job, and the directories in which they lie.
#[derive(Debug, Clone)]
struct FileLayout {
    file_count: u64,
    top_directories: u64,
    /// Number of directories in each directory at the top.
    subdirectories: u64,
}

impl FileLayout {
    fn from_job(job: &Job) -> FileLayout {
        let file_count = job.int_or_by_scale("files", [10_000_000, 200_000, 1_000]);
        let top_directories = job.settings.int("top_directories") as u64;
        let max_files_per_directory = job.settings.int("files_per_directory") as u64;
        let subdirectories = file_count.div_ceil(top_directories * max_files_per_directory).max(1);
        FileLayout { file_count, top_directories, subdirectories }
    }

    /// The number of directories that hold files.
    fn directory_count(&self) -> u64 {
        self.top_directories * self.subdirectories
    }

    /// The number of files in a directory. The remainder of the division goes to the first directories, one file each.
    fn files_in(&self, directory: u64) -> u64 {
        let directory_count = self.directory_count();
        self.file_count / directory_count + u64::from(directory < self.file_count % directory_count)
    }

    /// The path of a directory that holds files: `ROOT/TOP/SUB`, two numbers below the root.
    fn directory_path(&self, root: &Path, directory: u64) -> PathBuf {
        let (top, sub) = (directory / self.subdirectories, directory % self.subdirectories);
        root.join(top.to_string()).join(sub.to_string())
    }

    /// Calls `visit` with the path and the number of every file, directory by directory.
    fn for_each_file(&self, root: &Path, mut visit: impl FnMut(&Path, u64) -> Result<()>) -> Result<()> {
        let mut number = 0;
        let mut path = String::new();
        for directory in 0..self.directory_count() {
            let dir = self.directory_path(root, directory);
            for file in 0..self.files_in(directory) {
                path.clear();
                write!(path, "{}/file-{file}.bin", dir.display()).expect("text can be written to memory");
                visit(Path::new(&path), number)?;
                number += 1;
                if number.is_multiple_of(FILES_BETWEEN_SIGNAL_CHECKS) {
                    cancel::check().map_err(|error| TaskError::Unfit(error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    /// Makes the directories, then the files. Returns the readings of the task.
    fn create_all(&self, root: &Path, contents: &FileContents) -> Result<Readings> {
        for directory in 0..self.directory_count() {
            let dir = self.directory_path(root, directory);
            std::fs::create_dir_all(&dir).map_err(failed_to("make", &dir))?;
        }
        let mut buffer = vec![];
        self.for_each_file(root, |path, number| {
            contents.fill_buffer(number, &mut buffer);
            let mut file = File::create_new(path).map_err(failed_to("create", path))?;
            file.write_all(&buffer).map_err(failed_to("write", path))
        })?;
        Ok(self.readings())
    }

    /// Reads every file and verifies its checksum. Returns the readings of the task.
    fn read_all(&self, root: &Path) -> Result<Readings> {
        let mut buffer = vec![0; FILE_BYTES_LIMITS.1 as usize + 1];
        self.for_each_file(root, |path, _| {
            let mut file = File::open(path).map_err(failed_to("open", path))?;
            read_and_verify(&mut file, path, &mut buffer)
        })?;
        Ok(self.readings())
    }

    /// The number of files, as the number of calls of a task.
    fn readings(&self) -> Readings {
        Readings([(reading::CALLS.to_string(), self.file_count as f64)].into())
    }
}

/// Reads a file until its contents have their checksum: with one call, except on a filesystem that returns a file in
/// parts.
fn read_and_verify(file: &mut impl Read, path: &Path, buffer: &mut [u8]) -> Result<()> {
    let mut read_bytes = 0;
    loop {
        let part_bytes = file.read(&mut buffer[read_bytes..]).map_err(failed_to("read", path))?;
        read_bytes += part_bytes;
        if has_checksum(&buffer[..read_bytes]) {
            return Ok(());
        }
        if part_bytes == 0 {
            let text = format!("DATA LOSS: {} has another checksum than when it was written", path.display());
            return Err(TaskError::Violation(text));
        }
    }
}

/// Whether the last four bytes of a file are the CRC-32 of the others.
fn has_checksum(contents: &[u8]) -> bool {
    let split_contents = contents.split_last_chunk::<CHECKSUM_BYTES>();
    split_contents.is_some_and(|(data, checksum)| crc32fast::hash(data).to_le_bytes() == *checksum)
}

/// The contents of files, by their numbers.
struct FileContents {
    noise: Noise,
    sizes: Vec<usize>,
    seed: u64,
}

impl FileContents {
    fn new(seed: u64) -> FileContents {
        FileContents { noise: Noise::new(seed, FILE_BYTES_LIMITS.1 as usize), sizes: file_sizes(), seed }
    }

    /// Replaces the buffer by the contents of the file with a number: noise, and its CRC-32.
    fn fill_buffer(&self, number: u64, buffer: &mut Vec<u8>) {
        let size = self.sizes[mix(self.seed, number) as usize % SIZE_COUNT];
        let data = self.noise.contents(number, size - CHECKSUM_BYTES);
        buffer.clear();
        buffer.extend_from_slice(data);
        buffer.extend_from_slice(&crc32fast::hash(data).to_le_bytes());
    }
}

/// The sizes of files in bytes, each equally frequent: quantiles of a normal distribution.
fn file_sizes() -> Vec<usize> {
    let normal = Normal::standard();
    let ((mean, deviation), (min_bytes, max_bytes)) = (FILE_BYTES_MEAN_AND_SD, FILE_BYTES_LIMITS);
    let mut sizes = vec![];
    for index in 0..SIZE_COUNT {
        let standard_quantile = normal.inverse_cdf((index as f64 + 0.5) / SIZE_COUNT as f64);
        sizes.push((mean + deviation * standard_quantile).clamp(min_bytes, max_bytes).round() as usize);
    }
    sizes
}

impl Workload for ManyFiles {
    fn def(&self) -> &'static WorkloadDef {
        &DEF
    }

    fn outline(&self, _: &Job) -> Vec<TaskInfo> {
        vec![info("create", "Create files", []), info("read", "Read files and verify their checksums", [])]
    }

    fn survey(&self, job: &Job) -> Result<Survey> {
        let layout = FileLayout::from_job(job);
        let block_bytes: usize = file_sizes().iter().map(|size| size.next_multiple_of(4096)).sum();
        let mean_block_bytes = (block_bytes / SIZE_COUNT) as u64;
        let inodes = layout.file_count + layout.top_directories + layout.directory_count();
        let room = Room { bytes: layout.file_count * mean_block_bytes, inodes, source_bytes: 0 };
        let read_text = match job.settings.text("read") {
            "cold" => "after a new mount",
            _ => "at once, from the page cache as far as it holds them",
        };
        let text = format!(
            "many-files: {} files of 5.5 KB on average in {} directories below {}, incompressible; they are read in the order \
             of their creation, {read_text}, and the CRC-32 of each is verified",
            layout.file_count,
            layout.directory_count(),
            layout.top_directories
        );
        Ok(Survey { room, remarks: vec![remark_note(text)], ..Survey::default() })
    }

    fn tasks(&self, job: &Job, place: &Place) -> Result<Vec<Task>> {
        let (root, layout) = (place.root.join("many-files"), FileLayout::from_job(job));
        let (reads_cold, seed) = (job.settings.text("read") == "cold", job.seed);
        // The preparation of the first task makes the contents, so that its timed work does not.
        let contents: Arc<OnceLock<FileContents>> = Arc::default();
        let prepare_contents = Action::call_with(&contents, ["prepare", "contents"], move |contents| {
            contents.get_or_init(|| FileContents::new(seed));
            Ok(())
        });
        let input = (layout.clone(), contents, root.clone());
        let logged_argv = ["create", &root.display().to_string()];
        let create = Action::call_with(&input, logged_argv, move |(layout, contents, root)| {
            layout.create_all(root, contents.get_or_init(|| FileContents::new(seed)))
        });
        let read = Action::call_on("read", &root, move |root| layout.read_all(root));
        let mut tasks: Vec<Task> = vec![];
        for (info, work) in self.outline(job).into_iter().zip([create, read]) {
            let start_state = if reads_cold && !tasks.is_empty() { StartState::Remounted } else { StartState::Warm };
            tasks.push(Task { start_state, ..Task::new(info, work) });
        }
        tasks[0].preparation = vec![prepare_contents];
        Ok(tasks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{job, perform_all, place};

    #[test]
    fn every_file_is_created_and_read_and_a_changed_one_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(
            &DEF,
            7,
            &[("files", "250"), ("top_directories", "3"), ("files_per_directory", "50"), ("read", "cold")],
        );
        let mut tasks = ManyFiles.tasks(&job, &place(dir.path())).unwrap().into_iter();
        let created = perform_all(tasks.next().unwrap().work);
        assert_eq!(created.readings.get(reading::CALLS), Some(250.0));
        let files: Vec<_> = walkdir::WalkDir::new(dir.path())
            .into_iter()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.file_type().is_file())
            .collect();
        // 2 directories in each of 3, with 42 files in the first four and 41 in the others.
        assert_eq!(files.len(), 250);
        assert!(files.iter().all(|file| (1024..=10_240).contains(&file.metadata().unwrap().len())));
        let last_path = dir.path().join("many-files/2/1/file-40.bin");
        assert!(last_path.is_file() && !dir.path().join("many-files/2/1/file-41.bin").exists());

        let read_task = tasks.next().unwrap();
        assert_eq!(read_task.start_state, StartState::Remounted);
        perform_all(read_task.work);
        let mut contents = std::fs::read(&last_path).unwrap();
        contents[17] ^= 1;
        std::fs::write(&last_path, contents).unwrap();
        let layout = FileLayout::from_job(&job);
        let error = layout.read_all(&dir.path().join("many-files")).unwrap_err();
        assert!(matches!(&error, TaskError::Violation(text) if text.contains("2/1/file-40.bin has another checksum")));
    }

    #[test]
    fn a_file_that_is_read_in_parts_is_intact() {
        let mut contents = vec![];
        FileContents::new(1).fill_buffer(0, &mut contents);
        let (first, rest) = contents.split_at(1000);
        let verify = |rest: &[u8]| {
            let mut buffer = vec![0; FILE_BYTES_LIMITS.1 as usize + 1];
            read_and_verify(&mut first.chain(rest), Path::new("f"), &mut buffer)
        };
        assert!(verify(rest).is_ok());
        assert!(verify(&rest[1..]).is_err() && verify(&[]).is_err());
    }

    #[test]
    fn directories_and_sizes_are_those_of_the_author() {
        let counts_of = |files: &str| {
            let layout = FileLayout::from_job(&job(&DEF, 1, &[("files", files)]));
            (layout.directory_count(), layout.files_in(0))
        };
        assert_eq!(counts_of("1000000000"), (10_000, 100_000));
        assert_eq!(counts_of("10000000"), (100, 100_000));
        assert_eq!(counts_of("200000"), (100, 2_000));
        let sizes = file_sizes();
        let mean = sizes.iter().sum::<usize>() as f64 / SIZE_COUNT as f64;
        let variance = sizes.iter().map(|size| (*size as f64 - mean).powi(2)).sum::<f64>() / SIZE_COUNT as f64;
        assert!((mean - 5500.0).abs() < 1.0 && (variance.sqrt() - 1000.0).abs() < 5.0, "{mean} {variance}");
    }
}
