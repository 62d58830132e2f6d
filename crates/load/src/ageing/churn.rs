//! Churn: creates, deletes, overwrites and appends to files with the sizes and ages of a published profile.

use super::profile::{AgeDistribution, DirectoryTree, draw_size};
use crate::payload::generate_noise;
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    pub capacity: u64,
    /// The share of the capacity that files take.
    pub fullness: f64,
    /// The bytes to write after the files have taken that share for the first time, in per cent of the capacity.
    pub percent: u32,
}

/// The bytes of a block, in which the space of a file is counted and contents are drawn.
pub const BLOCK_BYTES: usize = 4096;
/// The space that a file takes besides its blocks, in bytes: its inode and its name.
const FILE_OVERHEAD: u64 = 512;
/// The percentage of writes that append to a file. The same percentage overwrites a part of a file; the other writes create a
/// file. The profile has no such figures.
const APPEND_PERCENT: u32 = 15;
/// The capacity divided by this number is the size of the largest file.
const LARGEST_FILE_DIVISOR: u64 = 64;
/// The data is synced whenever the capacity divided by this number has been written.
const SYNC_DIVISOR: u64 = 64;
/// The number of blocks that all contents are made of: enough that no filesystem compresses 128 KiB of them.
const POOL_BLOCKS: usize = 4096;

impl ChurnPlan {
    /// The bytes to write after the filesystem has been filled.
    pub fn bytes_to_churn(&self) -> u64 {
        (u128::from(self.capacity) * u128::from(self.percent) / 100) as u64
    }

    /// The number of parts of the history: one for each time that the capacity is written. The filesystem is mounted again for
    /// each part.
    pub fn parts(&self) -> u32 {
        self.percent.div_ceil(100)
    }

    /// The bytes that files may take.
    fn target_bytes(&self) -> u64 {
        (self.capacity as f64 * self.fullness) as u64
    }

    /// All operations of the history, each with the part that it belongs to.
    pub fn operations(&self) -> Churn {
        Churn::new(*self)
    }

    /// Performs a part of the history in a directory, which holds what the earlier parts left.
    ///
    /// # Errors
    /// If the filesystem refuses an operation.
    pub fn perform_part(&self, part: u32, dir: &Path) -> io::Result<()> {
        let pool = generate_noise(POOL_SEED, POOL_BLOCKS * BLOCK_BYTES);
        let mut performer = HistoryPerformer { dir, dirs: vec![], dir_of_file: BTreeMap::new(), pool };
        for (operation_part, operation) in self.operations().take_while(|(operation_part, _)| *operation_part <= part) {
            performer.perform_or_follow(&operation, operation_part == part)?;
        }
        Ok(())
    }
}

/// The seed of the blocks that contents are made of. It is the same for all histories.
const POOL_SEED: u64 = 0xA6E;

/// One operation of churn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum Operation {
    /// Make a directory below another one. The parent of the first is the directory of the history.
    MakeDir {
        /// Its number.
        dir: usize,
        /// The number of the directory above it.
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
    /// Its index in [`Churn::numbers`].
    index: usize,
}

/// The space that a file of this size takes, in bytes.
fn space_bytes(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_BYTES as u64) + FILE_OVERHEAD
}

/// An iterator over the operations of a history, each after the number of the part that it belongs to.
pub struct Churn {
    plan: ChurnPlan,
    rng: ChaCha8Rng,
    ages: AgeDistribution,
    dirs: DirectoryTree,
    made_dirs: usize,
    /// The files that exist, by number, and their numbers in the order of their deaths.
    live_files: BTreeMap<u64, LiveFile>,
    deaths: BTreeMap<(u64, u64), u64>,
    /// The numbers of the files that exist, in any order.
    live_numbers: Vec<u64>,
    used_bytes: u64,
    /// The number of files created so far.
    created_files: u64,
    /// Bytes of created files so far: the clock of lifetimes.
    created_bytes: u64,
    /// Bytes written since the filesystem was filled; None before.
    churned_bytes: Option<u64>,
    unsynced_bytes: u64,
    /// The write that waits until there is space for it.
    pending: Option<PendingWrite>,
    has_ended: bool,
}

/// A write that needs space.
#[derive(Debug, Clone, Copy)]
struct PendingWrite {
    /// The file to append to; None for a new file.
    append_to: Option<u64>,
    bytes: u64,
}

impl Churn {
    fn new(plan: ChurnPlan) -> Churn {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(plan.seed, 0xC4));
        Churn {
            plan,
            ages: AgeDistribution::new(),
            dirs: DirectoryTree::draw(&mut rng),
            rng,
            made_dirs: 0,
            live_files: BTreeMap::new(),
            deaths: BTreeMap::new(),
            live_numbers: vec![],
            used_bytes: 0,
            created_files: 0,
            created_bytes: 0,
            churned_bytes: None,
            unsynced_bytes: 0,
            pending: None,
            has_ended: false,
        }
    }

    fn current_part(&self) -> u32 {
        let part = self.churned_bytes.unwrap_or(0) / self.plan.capacity.max(1);
        (part as u32).min(self.plan.parts() - 1)
    }

    fn count_written(&mut self, bytes: u64) {
        self.unsynced_bytes += bytes;
        if let Some(churned) = &mut self.churned_bytes {
            *churned += bytes;
        }
    }

    fn next_operation(&mut self) -> Option<Operation> {
        if self.made_dirs < self.dirs.parents.len() {
            let dir = self.made_dirs;
            self.made_dirs += 1;
            return Some(Operation::MakeDir { dir, parent: self.dirs.parents[dir] });
        }
        if self.churned_bytes.is_some_and(|churned| churned >= self.plan.bytes_to_churn()) {
            self.has_ended = true;
            return Some(Operation::Sync);
        }
        if self.unsynced_bytes >= self.plan.capacity / SYNC_DIVISOR {
            self.unsynced_bytes = 0;
            return Some(Operation::Sync);
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => match self.draw_write() {
                Ok(operation) => return Some(operation),
                Err(pending) => pending,
            },
        };
        if self.used_bytes + space_bytes(pending.bytes) <= self.plan.target_bytes() {
            return Some(self.apply_write(pending));
        }
        if self.churned_bytes.is_none() {
            // The files take their share for the first time.
            self.churned_bytes = Some(0);
        }
        let Some((_, file)) = self.deaths.pop_first() else {
            // A single file is larger than the space that files may take.
            self.has_ended = true;
            return Some(Operation::Sync);
        };
        self.pending = Some(pending);
        self.remove_live_file(file);
        Some(Operation::Delete { file })
    }

    /// Draws the next write: an overwrite, or a write that needs space.
    fn draw_write(&mut self) -> Result<Operation, PendingWrite> {
        let draw = self.rng.random_range(0..100);
        let bytes = draw_size(&mut self.rng, (self.plan.capacity / LARGEST_FILE_DIVISOR).max(1));
        if self.churned_bytes.is_none() || self.live_numbers.is_empty() || draw >= 2 * APPEND_PERCENT {
            return Err(PendingWrite { append_to: None, bytes });
        }
        let file = self.live_numbers[self.rng.random_range(0..self.live_numbers.len())];
        if draw < APPEND_PERCENT {
            return Err(PendingWrite { append_to: Some(file), bytes });
        }
        let length = self.live_files[&file].bytes;
        let bytes = bytes.min(length);
        let blocks = (length - bytes) / BLOCK_BYTES as u64;
        let offset = self.rng.random_range(0..=blocks) * BLOCK_BYTES as u64;
        let version = self.churned_bytes.unwrap_or(0);
        self.count_written(bytes);
        Ok(Operation::Write { file, offset, bytes, version })
    }

    fn apply_write(&mut self, PendingWrite { append_to, bytes }: PendingWrite) -> Operation {
        if let Some((file, mut live)) = append_to.and_then(|file| Some((file, *self.live_files.get(&file)?))) {
            let (offset, version) = (live.bytes, self.churned_bytes.unwrap_or(0));
            self.used_bytes -= space_bytes(live.bytes);
            live.bytes += bytes;
            self.used_bytes += space_bytes(live.bytes);
            self.live_files.insert(file, live);
            self.count_written(bytes);
            return Operation::Write { file, offset, bytes, version };
        }
        let (file, dir) = (self.created_files, self.dirs.draw_directory(&mut self.rng));
        self.created_files += 1;
        let hours = match self.churned_bytes {
            None => self.ages.draw_remaining_lifetime(&mut self.rng),
            Some(_) => self.ages.draw_lifetime(&mut self.rng),
        };
        // In the mean lifetime of a file, as many bytes are created as all files have.
        let bytes_per_hour = self.plan.target_bytes() as f64 / self.ages.mean_lifetime();
        let now = self.churned_bytes.map_or(0, |_| self.created_bytes);
        let death = (now + (hours * bytes_per_hour) as u64, file);
        let live = LiveFile { bytes, index: self.live_numbers.len() };
        if self.churned_bytes.is_some() {
            self.created_bytes += bytes;
        }
        self.used_bytes += space_bytes(live.bytes);
        self.live_files.insert(file, live);
        self.deaths.insert(death, file);
        self.live_numbers.push(file);
        self.count_written(bytes);
        Operation::Create { file, dir, bytes }
    }

    fn remove_live_file(&mut self, file: u64) {
        if let Some(live) = self.live_files.remove(&file) {
            self.used_bytes -= space_bytes(live.bytes);
            self.live_numbers.swap_remove(live.index);
            if let Some(moved) = self.live_numbers.get(live.index) {
                self.live_files.entry(*moved).and_modify(|moved| moved.index = live.index);
            }
        }
        if self.pending.is_some_and(|pending| pending.append_to == Some(file)) {
            self.pending = self.pending.map(|pending| PendingWrite { append_to: None, ..pending });
        }
    }
}

impl Iterator for Churn {
    type Item = (u32, Operation);

    fn next(&mut self) -> Option<(u32, Operation)> {
        if self.has_ended {
            return None;
        }
        // The part before the operation: a part ends with the write that reaches its end.
        let part = self.current_part();
        self.next_operation().map(|operation| (part, operation))
    }
}

/// Performs operations in a directory.
struct HistoryPerformer<'a> {
    dir: &'a Path,
    /// The directories so far.
    dirs: Vec<PathBuf>,
    /// The directory of each file that exists.
    dir_of_file: BTreeMap<u64, usize>,
    /// The blocks that contents consist of.
    pool: Vec<u8>,
}

impl HistoryPerformer<'_> {
    /// Performs an operation, or if `performs` is false only records which directories and files it makes or removes.
    fn perform_or_follow(&mut self, operation: &Operation, performs: bool) -> io::Result<()> {
        match *operation {
            Operation::MakeDir { dir, parent } => {
                let above = self.dirs.get(parent).map_or(self.dir, PathBuf::as_path);
                let path = above.join(format!("d{dir}"));
                if performs {
                    std::fs::create_dir(&path)?;
                }
                self.dirs.push(path);
            }
            Operation::Create { file, dir, bytes } => {
                self.dir_of_file.insert(file, dir);
                if performs {
                    self.write_contents(&File::create_new(self.path(file))?, file, 0, bytes, 0)?;
                }
            }
            Operation::Write { file, offset, bytes, version } if performs => {
                let open = File::options().write(true).open(self.path(file))?;
                self.write_contents(&open, file, offset, bytes, version + 1)?;
            }
            Operation::Delete { file } => {
                if performs {
                    std::fs::remove_file(self.path(file))?;
                }
                self.dir_of_file.remove(&file);
            }
            Operation::Sync if performs => rustix::fs::syncfs(File::open(self.dir)?)?,
            Operation::Write { .. } | Operation::Sync => {}
        }
        Ok(())
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dirs[self.dir_of_file[&file]].join(format!("f{file}"))
    }

    /// Writes contents that depend on the file, the offset and the version. They consist of whole blocks of the pool, so that an
    /// image of the device has few different blocks.
    fn write_contents(&self, to: &File, file: u64, offset: u64, bytes: u64, version: u64) -> io::Result<()> {
        let end = offset + bytes;
        let mut at = offset;
        let mut buffer = Vec::with_capacity(WRITE_BYTES);
        while at < end {
            buffer.clear();
            let begin = at;
            while at < end && buffer.len() + BLOCK_BYTES <= WRITE_BYTES {
                let (block, within) = (at / BLOCK_BYTES as u64, at as usize % BLOCK_BYTES);
                let length = (BLOCK_BYTES - within).min((end - at) as usize);
                let number = mix(mix(file, version), block) as usize % POOL_BLOCKS;
                buffer.extend_from_slice(&self.pool[number * BLOCK_BYTES + within..][..length]);
                at += length as u64;
            }
            to.write_all_at(&buffer, begin)?;
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

    const PLAN: ChurnPlan = ChurnPlan { seed: 3, capacity: 16 << 20, fullness: 0.5, percent: 150 };

    fn digest(operations: impl Iterator<Item = (u32, Operation)>) -> blake3::Hash {
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
    fn files_take_the_given_share_during_churn() {
        let (mut living, mut written, mut filled) = (BTreeMap::new(), 0, 0);
        for (part, operation) in PLAN.operations() {
            assert!(part < PLAN.parts());
            match operation {
                Operation::Create { file, bytes, .. } => drop(living.insert(file, bytes)),
                Operation::Write { file, offset, bytes, .. } => {
                    let length = living.get_mut(&file).expect("it exists");
                    assert!(offset <= *length);
                    *length = (*length).max(offset + bytes);
                }
                Operation::Delete { file } => drop(living.remove(&file).expect("it exists")),
                Operation::MakeDir { .. } | Operation::Sync => {}
            }
            let space: u64 = living.values().map(|bytes| space_bytes(*bytes)).sum();
            assert!(space <= PLAN.target_bytes());
            if let Operation::Create { bytes, .. } | Operation::Write { bytes, .. } = operation {
                written += bytes;
                // The filesystem is full at the first deletion, and nearly full from then on.
                filled = filled.max(space);
                assert!(
                    written < 8 << 20 || space > PLAN.target_bytes() * 9 / 10,
                    "{space} of {}",
                    PLAN.target_bytes()
                );
            }
        }
        let expected_bytes = PLAN.bytes_to_churn() + PLAN.target_bytes() * 9 / 10 - 512 * living.len() as u64;
        assert!(
            (expected_bytes / 10 * 8..expected_bytes / 10 * 12).contains(&written),
            "{written} written, about {expected_bytes}"
        );
    }

    #[test]
    fn parts_one_after_the_other_leave_the_same_tree_in_another_directory() {
        let plan = ChurnPlan { capacity: 4 << 20, ..PLAN };
        let digest_of = |plan: ChurnPlan| {
            // A sync there costs nothing.
            let dir = tempfile::tempdir_in("/dev/shm").unwrap();
            (0..plan.parts()).for_each(|part| plan.perform_part(part, dir.path()).unwrap());
            tree_copy::digest(dir.path()).unwrap()
        };
        assert_eq!(plan.parts(), 2);
        assert_eq!(digest_of(plan), digest_of(plan));
        assert_ne!(digest_of(plan), digest_of(ChurnPlan { seed: 4, ..plan }));
    }
}
