//! Churn: creates, deletes, overwrites and appends to files with the sizes and ages of a published profile; its
//! source is in `profile.rs`.

use super::profile::{AgeDistribution, DirectoryTree, draw_file_bytes};
use crate::payload::generate_noise;
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The parameters that determine the operations of churn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChurnPlan {
    /// The seed.
    pub seed: u64,
    /// The size of the filesystem in bytes.
    #[serde(rename = "capacity")]
    pub capacity_bytes: u64,
    /// The share of the capacity that files take, from 0 to 1.
    pub fullness: f64,
    /// The bytes to write after the filesystem has been filled, in per cent of the capacity; at least 1. The filesystem has been
    /// filled once the files have taken `fullness` of it for the first time.
    #[serde(rename = "percent")]
    pub churn_percent: u32,
}

/// The bytes of a block. A file takes whole blocks, and its contents are whole blocks of the pool.
pub const BLOCK_BYTES: usize = 4096;
/// The space that a file takes besides its blocks, in bytes: its inode and its name.
const FILE_OVERHEAD_BYTES: u64 = 512;
/// The percentage of writes that append to a file. The same percentage overwrites a part of a file; the other writes
/// create a file. The profile has no such figures.
const APPEND_PERCENT: u32 = 15;
/// The capacity divided by this number is the size of the largest file.
const LARGEST_FILE_DIVISOR: u64 = 64;
/// The data is synced whenever the capacity divided by this number has been written.
const SYNC_DIVISOR: u64 = 64;
/// The number of blocks in the pool of which all contents consist. With so many blocks, 128 KiB of contents rarely repeat a
/// block, so no filesystem can compress them.
const POOL_BLOCKS: usize = 4096;

impl ChurnPlan {
    /// The bytes to write after the filesystem has been filled.
    pub fn bytes_to_churn(&self) -> u64 {
        (u128::from(self.capacity_bytes) * u128::from(self.churn_percent) / 100) as u64
    }

    /// The number of parts of the history: one for each time that the capacity is written. The filesystem is mounted
    /// again for each part.
    pub fn part_count(&self) -> u32 {
        self.churn_percent.div_ceil(100)
    }

    /// The bytes that files may take.
    fn target_bytes(&self) -> u64 {
        (self.capacity_bytes as f64 * self.fullness) as u64
    }

    /// All operations of the history, each with the part that it belongs to.
    pub fn operations(&self) -> ChurnOperations {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(self.seed, 0xC4));
        ChurnOperations {
            plan: *self,
            ages: AgeDistribution::new(),
            dirs: DirectoryTree::draw(&mut rng),
            rng,
            made_dirs: 0,
            live_files: BTreeMap::new(),
            files_by_death: BTreeSet::new(),
            live_numbers: vec![],
            used_bytes: 0,
            created_files: 0,
            clock_bytes: 0,
            churned_bytes: None,
            unsynced_bytes: 0,
            pending_write: None,
            has_ended: false,
        }
    }

    /// Performs a part of the history in a directory, which holds what the earlier parts left.
    ///
    /// # Errors
    /// If the filesystem refuses an operation.
    pub fn perform_part(&self, part: u32, dir: &Path) -> io::Result<()> {
        let pool = generate_noise(POOL_SEED, POOL_BLOCKS * BLOCK_BYTES);
        let mut performer = HistoryPerformer { dir, dirs: vec![], dir_of_file: BTreeMap::new(), pool };
        for (operation_part, operation) in self.operations().take_while(|(operation_part, _)| *operation_part <= part) {
            performer.perform_or_track(&operation, operation_part == part)?;
        }
        Ok(())
    }
}

/// The seed of the blocks that contents are made of. It is the same for all histories.
const POOL_SEED: u64 = 0xA6E;

/// One operation of churn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum ChurnOperation {
    /// Make a directory in another one. The directory with the number 0 is made in the directory of the history.
    MakeDir {
        /// Its number.
        dir: usize,
        /// The number of the directory above it. Directory 0 has itself as its parent.
        parent: usize,
    },
    /// Make a file.
    Create {
        /// Its number.
        file: u64,
        /// Its directory.
        dir: usize,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Write into a file, over its contents or at its end.
    Write {
        /// Its number.
        file: u64,
        /// The offset in bytes.
        offset: u64,
        /// The number of bytes.
        bytes: u64,
        /// A number that the new contents depend on.
        version: u64,
    },
    /// Remove a file.
    Delete {
        /// Its number.
        file: u64,
    },
    /// Sync the filesystem.
    Sync,
}

/// A file that exists at this point of the history.
#[derive(Debug, Clone, Copy)]
struct LiveFile {
    bytes: u64,
    /// Its index in [`ChurnOperations::live_numbers`].
    index: usize,
}

/// The space that a file of this size takes, in bytes.
fn file_space_bytes(file_bytes: u64) -> u64 {
    file_bytes.next_multiple_of(BLOCK_BYTES as u64) + FILE_OVERHEAD_BYTES
}

/// An iterator over the operations of a history, each with the number of its part.
pub struct ChurnOperations {
    plan: ChurnPlan,
    rng: ChaCha8Rng,
    ages: AgeDistribution,
    dirs: DirectoryTree,
    /// The number of directories made so far.
    made_dirs: usize,
    /// The files that exist, by number.
    live_files: BTreeMap<u64, LiveFile>,
    /// The time of death (see `clock_bytes`) and the number of each file that exists.
    files_by_death: BTreeSet<(u64, u64)>,
    /// The numbers of the files that exist, in any order.
    live_numbers: Vec<u64>,
    /// The space of the files that exist.
    used_bytes: u64,
    /// The number of files created so far.
    created_files: u64,
    /// The clock of lifetimes: the bytes of the files created since the filesystem was filled, without appends to them.
    clock_bytes: u64,
    /// Bytes written since the filesystem was filled; None before.
    churned_bytes: Option<u64>,
    /// Bytes written since the last sync.
    unsynced_bytes: u64,
    /// The write that waits until deletions have made space for it.
    pending_write: Option<PendingWrite>,
    has_ended: bool,
}

/// A drawn write.
enum DrawnWrite {
    /// Overwrites a part of a file.
    Overwrite(ChurnOperation),
    /// Appends to a file or makes a new one.
    NeedsSpace(PendingWrite),
}

/// A write that needs space.
#[derive(Debug, Clone, Copy)]
struct PendingWrite {
    /// The file to append to; None for a new file.
    append_to: Option<u64>,
    bytes: u64,
}

impl ChurnOperations {
    /// The part of the history that the next operation belongs to.
    fn current_part(&self) -> u32 {
        let part = self.churned_bytes.unwrap_or(0) / self.plan.capacity_bytes.max(1);
        (part as u32).min(self.plan.part_count() - 1)
    }

    fn count_written(&mut self, bytes: u64) {
        self.unsynced_bytes += bytes;
        if let Some(churned) = &mut self.churned_bytes {
            *churned += bytes;
        }
    }

    fn next_operation(&mut self) -> Option<ChurnOperation> {
        if self.made_dirs < self.dirs.parents.len() {
            let dir = self.made_dirs;
            self.made_dirs += 1;
            return Some(ChurnOperation::MakeDir { dir, parent: self.dirs.parents[dir] });
        }
        if self.churned_bytes.is_some_and(|churned| churned >= self.plan.bytes_to_churn()) {
            self.has_ended = true;
            return Some(ChurnOperation::Sync);
        }
        if self.unsynced_bytes >= self.plan.capacity_bytes / SYNC_DIVISOR {
            self.unsynced_bytes = 0;
            return Some(ChurnOperation::Sync);
        }
        let pending = match self.pending_write.take() {
            Some(pending) => pending,
            None => match self.draw_write() {
                DrawnWrite::Overwrite(operation) => return Some(operation),
                DrawnWrite::NeedsSpace(pending) => pending,
            },
        };
        if self.used_bytes + file_space_bytes(pending.bytes) <= self.plan.target_bytes() {
            return Some(self.apply_write(pending));
        }
        // If `churned_bytes` is still None, this write is the first that does not fit: the filesystem has been filled now.
        self.churned_bytes.get_or_insert(0);
        let Some((_, file)) = self.files_by_death.pop_first() else {
            // A single file is larger than the space that files may take.
            self.has_ended = true;
            return Some(ChurnOperation::Sync);
        };
        self.pending_write = Some(pending);
        self.remove_live_file(file);
        Some(ChurnOperation::Delete { file })
    }

    /// Draws the next write. Until the filesystem has been filled, each write makes a new file.
    fn draw_write(&mut self) -> DrawnWrite {
        let draw = self.rng.random_range(0..100);
        let bytes = draw_file_bytes(&mut self.rng, (self.plan.capacity_bytes / LARGEST_FILE_DIVISOR).max(1));
        if self.churned_bytes.is_none() || self.live_numbers.is_empty() || draw >= 2 * APPEND_PERCENT {
            return DrawnWrite::NeedsSpace(PendingWrite { append_to: None, bytes });
        }
        let file = self.live_numbers[self.rng.random_range(0..self.live_numbers.len())];
        if draw < APPEND_PERCENT {
            return DrawnWrite::NeedsSpace(PendingWrite { append_to: Some(file), bytes });
        }
        let length = self.live_files[&file].bytes;
        let bytes = bytes.min(length);
        let blocks = (length - bytes) / BLOCK_BYTES as u64;
        let offset = self.rng.random_range(0..=blocks) * BLOCK_BYTES as u64;
        let version = self.churned_bytes.unwrap_or(0);
        self.count_written(bytes);
        DrawnWrite::Overwrite(ChurnOperation::Write { file, offset, bytes, version })
    }

    /// Appends to a file or creates one in the simulated history, and returns the operation.
    fn apply_write(&mut self, PendingWrite { append_to, bytes }: PendingWrite) -> ChurnOperation {
        if let Some((file, mut live)) = append_to.and_then(|file| Some((file, *self.live_files.get(&file)?))) {
            let (offset, version) = (live.bytes, self.churned_bytes.unwrap_or(0));
            self.used_bytes -= file_space_bytes(live.bytes);
            live.bytes += bytes;
            self.used_bytes += file_space_bytes(live.bytes);
            self.live_files.insert(file, live);
            self.count_written(bytes);
            return ChurnOperation::Write { file, offset, bytes, version };
        }
        let (file, dir) = (self.created_files, self.dirs.draw_directory(&mut self.rng));
        self.created_files += 1;
        let lifetime_hours = match self.churned_bytes {
            None => self.ages.draw_remaining_hours(&mut self.rng),
            Some(_) => self.ages.draw_lifetime_hours(&mut self.rng),
        };
        // In the mean lifetime of a file, the bytes of all files are created once.
        let bytes_per_hour = self.plan.target_bytes() as f64 / self.ages.mean_lifetime_hours();
        // The clock stands at 0 until the filesystem has been filled.
        let death = (self.clock_bytes + (lifetime_hours * bytes_per_hour) as u64, file);
        let live = LiveFile { bytes, index: self.live_numbers.len() };
        if self.churned_bytes.is_some() {
            self.clock_bytes += bytes;
        }
        self.used_bytes += file_space_bytes(live.bytes);
        self.live_files.insert(file, live);
        self.files_by_death.insert(death);
        self.live_numbers.push(file);
        self.count_written(bytes);
        ChurnOperation::Create { file, dir, bytes }
    }

    /// Removes a file from the files that exist.
    fn remove_live_file(&mut self, file: u64) {
        if let Some(live) = self.live_files.remove(&file) {
            self.used_bytes -= file_space_bytes(live.bytes);
            self.live_numbers.swap_remove(live.index);
            // The last number has moved to this index.
            if let Some(moved_number) = self.live_numbers.get(live.index) {
                self.live_files.entry(*moved_number).and_modify(|moved| moved.index = live.index);
            }
        }
        // A write that would have appended to the file makes a new one instead.
        if let Some(pending) = &mut self.pending_write
            && pending.append_to == Some(file)
        {
            pending.append_to = None;
        }
    }
}

impl Iterator for ChurnOperations {
    type Item = (u32, ChurnOperation);

    fn next(&mut self) -> Option<(u32, ChurnOperation)> {
        if self.has_ended {
            return None;
        }
        // Determine the part before the operation counts: the write that reaches the end of a part belongs to that part.
        let part = self.current_part();
        self.next_operation().map(|operation| (part, operation))
    }
}

/// Performs operations in a directory.
struct HistoryPerformer<'a> {
    dir: &'a Path,
    /// The paths of the directories so far, by number.
    dirs: Vec<PathBuf>,
    /// The number of the directory of each file that exists, by the file's number.
    dir_of_file: BTreeMap<u64, usize>,
    /// The blocks that contents consist of.
    pool: Vec<u8>,
}

impl HistoryPerformer<'_> {
    /// Performs an operation. If `performs` is false, only tracks which directories and files it makes or removes.
    fn perform_or_track(&mut self, operation: &ChurnOperation, performs: bool) -> io::Result<()> {
        match *operation {
            ChurnOperation::MakeDir { dir, parent } => {
                let parent_path = self.dirs.get(parent).map_or(self.dir, PathBuf::as_path);
                let path = parent_path.join(format!("d{dir}"));
                if performs {
                    std::fs::create_dir(&path)?;
                }
                self.dirs.push(path);
            }
            ChurnOperation::Create { file, dir, bytes } => {
                self.dir_of_file.insert(file, dir);
                if performs {
                    self.write_contents(&File::create_new(self.path(file))?, file, 0, bytes, 0)?;
                }
            }
            ChurnOperation::Write { file, offset, bytes, version } if performs => {
                let open_file = File::options().write(true).open(self.path(file))?;
                self.write_contents(&open_file, file, offset, bytes, version + 1)?;
            }
            ChurnOperation::Delete { file } => {
                if performs {
                    std::fs::remove_file(self.path(file))?;
                }
                self.dir_of_file.remove(&file);
            }
            ChurnOperation::Sync if performs => rustix::fs::syncfs(File::open(self.dir)?)?,
            ChurnOperation::Write { .. } | ChurnOperation::Sync => {}
        }
        Ok(())
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dirs[self.dir_of_file[&file]].join(format!("f{file}"))
    }

    /// Writes contents that depend on the file, the offset and the version. They consist of whole blocks of the pool,
    /// so that an image of the device has few different blocks.
    fn write_contents(&self, open_file: &File, file: u64, offset: u64, bytes: u64, version: u64) -> io::Result<()> {
        let end = offset + bytes;
        let mut position = offset;
        let mut buffer = Vec::with_capacity(WRITE_BYTES);
        while position < end {
            buffer.clear();
            let write_offset = position;
            while position < end && buffer.len() + BLOCK_BYTES <= WRITE_BYTES {
                let (block, offset_in_block) = (position / BLOCK_BYTES as u64, position as usize % BLOCK_BYTES);
                let length = (BLOCK_BYTES - offset_in_block).min((end - position) as usize);
                let pool_block = mix(mix(file, version), block) as usize % POOL_BLOCKS;
                buffer.extend_from_slice(&self.pool[pool_block * BLOCK_BYTES + offset_in_block..][..length]);
                position += length as u64;
            }
            open_file.write_all_at(&buffer, write_offset)?;
        }
        Ok(())
    }
}

/// The largest write, in bytes.
const WRITE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ageing::tree_copy;

    const PLAN: ChurnPlan = ChurnPlan { seed: 3, capacity_bytes: 16 << 20, fullness: 0.5, churn_percent: 150 };

    fn digest(operations: impl Iterator<Item = (u32, ChurnOperation)>) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for operation in operations {
            hasher.update(format!("{operation:?}").as_bytes());
        }
        hasher.finalize()
    }

    #[test]
    fn equal_seeds_give_equal_operations() {
        assert_eq!(digest(PLAN.operations()), digest(PLAN.operations()));
        assert_ne!(digest(PLAN.operations()), digest(ChurnPlan { seed: 4, ..PLAN }.operations()));
    }

    #[test]
    fn files_take_their_share_of_the_capacity_during_churn() {
        let (mut live_file_bytes, mut written_bytes) = (BTreeMap::new(), 0);
        for (part, operation) in PLAN.operations() {
            assert!(part < PLAN.part_count());
            match operation {
                ChurnOperation::Create { file, bytes, .. } => drop(live_file_bytes.insert(file, bytes)),
                ChurnOperation::Write { file, offset, bytes, .. } => {
                    let length = live_file_bytes.get_mut(&file).expect("it exists");
                    assert!(offset <= *length);
                    *length = (*length).max(offset + bytes);
                }
                ChurnOperation::Delete { file } => drop(live_file_bytes.remove(&file).expect("it exists")),
                ChurnOperation::MakeDir { .. } | ChurnOperation::Sync => {}
            }
            let space: u64 = live_file_bytes.values().map(|bytes| file_space_bytes(*bytes)).sum();
            assert!(space <= PLAN.target_bytes());
            if let ChurnOperation::Create { bytes, .. } | ChurnOperation::Write { bytes, .. } = operation {
                written_bytes += bytes;
                // The files take their share at the first deletion, and nearly that from then on.
                assert!(
                    written_bytes < 8 << 20 || space > PLAN.target_bytes() * 9 / 10,
                    "{space} of {}",
                    PLAN.target_bytes()
                );
            }
        }
        let expected_bytes = PLAN.bytes_to_churn() + PLAN.target_bytes() * 9 / 10 - 512 * live_file_bytes.len() as u64;
        assert!(
            (expected_bytes / 10 * 8..expected_bytes / 10 * 12).contains(&written_bytes),
            "{written_bytes} written, about {expected_bytes}"
        );
    }

    #[test]
    fn parts_one_after_the_other_leave_the_same_tree_in_another_directory() {
        let plan = ChurnPlan { capacity_bytes: 4 << 20, ..PLAN };
        let digest_of = |plan: ChurnPlan| {
            // A sync in memory costs nothing.
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            (0..plan.part_count()).for_each(|part| plan.perform_part(part, dir.path()).unwrap());
            tree_copy::digest_tree(dir.path()).unwrap()
        };
        assert_eq!(plan.part_count(), 2);
        assert_eq!(digest_of(plan), digest_of(plan));
        assert_ne!(digest_of(plan), digest_of(ChurnPlan { seed: 4, ..plan }));
    }
}
