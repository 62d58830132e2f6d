//! Churn: creates, deletes, overwrites and appends to files with the sizes and ages of a published profile.

use super::profile::{Ages, Directories, draw_size};
use crate::payload::noise;
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What decides the operations of churn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChurnPlan {
    /// The seed.
    pub seed: u64,
    /// The size of the filesystem in bytes.
    pub capacity: u64,
    /// The share of the capacity that files take.
    pub fullness: f64,
    /// The bytes to write once the files take that share, in hundredths of the capacity.
    pub percent: u32,
}

/// The bytes of a block, in which the space of a file is counted and contents are drawn.
pub const BLOCK: usize = 4096;
/// The space that a file takes besides its blocks, in bytes: its inode and its name.
const FILE_OVERHEAD: u64 = 512;
/// Of a hundred writes, so many append to a file, and as many overwrite a part of one. The others create a file. The profile
/// has no such figures.
const APPENDS: u32 = 15;
/// The largest file is this part of the capacity.
const LARGEST_PART: u64 = 64;
/// The data is synced whenever this part of the capacity was written.
const SYNC_PART: u64 = 64;
/// The number of blocks that all contents are made of: enough that no filesystem compresses 128 KiB of them.
const POOL_BLOCKS: usize = 4096;

impl ChurnPlan {
    /// The bytes to write once the filesystem is filled.
    pub fn churned_bytes(&self) -> u64 {
        (u128::from(self.capacity) * u128::from(self.percent) / 100) as u64
    }

    /// The number of parts that the history has: one for each time that the capacity is written. The filesystem is mounted
    /// anew for each part.
    pub fn parts(&self) -> u32 {
        self.percent.div_ceil(100)
    }

    /// The bytes that files may take.
    fn target(&self) -> u64 {
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
        let pool = noise(POOL_SEED, POOL_BLOCKS * BLOCK);
        let mut performer = Performer { dir, dirs: vec![], places: BTreeMap::new(), pool };
        for (of_part, operation) in self.operations().take_while(|(of_part, _)| *of_part <= part) {
            performer.perform(&operation, of_part == part)?;
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
        /// Where, in bytes.
        offset: u64,
        /// How much, in bytes.
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

/// A file that exists.
#[derive(Debug, Clone, Copy)]
struct Living {
    bytes: u64,
    /// Its index in [`Churn::numbers`].
    at: usize,
}

/// The space of a file of so many bytes.
fn space_of(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK as u64) + FILE_OVERHEAD
}

/// The operations of a history. It is an iterator over the part of each operation, and the operation.
pub struct Churn {
    plan: ChurnPlan,
    rng: ChaCha8Rng,
    ages: Ages,
    dirs: Directories,
    made_dirs: usize,
    /// The files that exist, by number, and their numbers in the order of their deaths.
    living: BTreeMap<u64, Living>,
    deaths: BTreeMap<(u64, u64), u64>,
    /// The numbers of the files that exist, in any order.
    numbers: Vec<u64>,
    space: u64,
    /// The number of files so far.
    files: u64,
    /// Bytes of created files so far: the clock of lifetimes.
    created: u64,
    /// Bytes written since the filesystem was filled; None before.
    churned: Option<u64>,
    unsynced: u64,
    /// The write that waits until there is space for it.
    pending: Option<Pending>,
    ended: bool,
}

/// A write that needs space.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// The file to append to; None for a new file.
    append: Option<u64>,
    bytes: u64,
}

impl Churn {
    fn new(plan: ChurnPlan) -> Churn {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(plan.seed, 0xC4));
        Churn {
            plan,
            ages: Ages::new(),
            dirs: Directories::draw(&mut rng),
            rng,
            made_dirs: 0,
            living: BTreeMap::new(),
            deaths: BTreeMap::new(),
            numbers: vec![],
            space: 0,
            files: 0,
            created: 0,
            churned: None,
            unsynced: 0,
            pending: None,
            ended: false,
        }
    }

    fn part(&self) -> u32 {
        let part = self.churned.unwrap_or(0) / self.plan.capacity.max(1);
        (part as u32).min(self.plan.parts() - 1)
    }

    fn count_written(&mut self, bytes: u64) {
        self.unsynced += bytes;
        if let Some(churned) = &mut self.churned {
            *churned += bytes;
        }
    }

    fn next_operation(&mut self) -> Option<Operation> {
        if self.made_dirs < self.dirs.parents.len() {
            let dir = self.made_dirs;
            self.made_dirs += 1;
            return Some(Operation::MakeDir { dir, parent: self.dirs.parents[dir] });
        }
        if self.churned.is_some_and(|churned| churned >= self.plan.churned_bytes()) {
            self.ended = true;
            return Some(Operation::Sync);
        }
        if self.unsynced >= self.plan.capacity / SYNC_PART {
            self.unsynced = 0;
            return Some(Operation::Sync);
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => match self.draw_write() {
                Ok(operation) => return Some(operation),
                Err(pending) => pending,
            },
        };
        if self.space + space_of(pending.bytes) <= self.plan.target() {
            return Some(self.write(pending));
        }
        if self.churned.is_none() {
            // It is full for the first time.
            self.churned = Some(0);
        }
        let Some((_, file)) = self.deaths.pop_first() else {
            // A file alone is larger than the share that may be filled.
            self.ended = true;
            return Some(Operation::Sync);
        };
        self.pending = Some(pending);
        self.remove(file);
        Some(Operation::Delete { file })
    }

    /// Draws the next write: an overwrite, or a write that needs space.
    fn draw_write(&mut self) -> Result<Operation, Pending> {
        let kind = self.rng.random_range(0..100);
        let bytes = draw_size(&mut self.rng, (self.plan.capacity / LARGEST_PART).max(1));
        if self.churned.is_none() || self.numbers.is_empty() || kind >= 2 * APPENDS {
            return Err(Pending { append: None, bytes });
        }
        let file = self.numbers[self.rng.random_range(0..self.numbers.len())];
        if kind < APPENDS {
            return Err(Pending { append: Some(file), bytes });
        }
        let length = self.living[&file].bytes;
        let bytes = bytes.min(length);
        let blocks = (length - bytes) / BLOCK as u64;
        let offset = self.rng.random_range(0..=blocks) * BLOCK as u64;
        let version = self.churned.unwrap_or(0);
        self.count_written(bytes);
        Ok(Operation::Write { file, offset, bytes, version })
    }

    fn write(&mut self, Pending { append, bytes }: Pending) -> Operation {
        if let Some((file, mut living)) = append.and_then(|file| Some((file, *self.living.get(&file)?))) {
            let (offset, version) = (living.bytes, self.churned.unwrap_or(0));
            self.space -= space_of(living.bytes);
            living.bytes += bytes;
            self.space += space_of(living.bytes);
            self.living.insert(file, living);
            self.count_written(bytes);
            return Operation::Write { file, offset, bytes, version };
        }
        let (file, dir) = (self.files, self.dirs.draw_place(&mut self.rng));
        self.files += 1;
        let hours = match self.churned {
            None => self.ages.draw_rest(&mut self.rng),
            Some(_) => self.ages.draw_lifetime(&mut self.rng),
        };
        // In the mean lifetime of a file as much is created as there are files.
        let bytes_per_hour = self.plan.target() as f64 / self.ages.mean_lifetime();
        let now = self.churned.map_or(0, |_| self.created);
        let death = (now + (hours * bytes_per_hour) as u64, file);
        let living = Living { bytes, at: self.numbers.len() };
        if self.churned.is_some() {
            self.created += bytes;
        }
        self.space += space_of(living.bytes);
        self.living.insert(file, living);
        self.deaths.insert(death, file);
        self.numbers.push(file);
        self.count_written(bytes);
        Operation::Create { file, dir, bytes }
    }

    fn remove(&mut self, file: u64) {
        if let Some(living) = self.living.remove(&file) {
            self.space -= space_of(living.bytes);
            self.numbers.swap_remove(living.at);
            if let Some(moved) = self.numbers.get(living.at) {
                self.living.entry(*moved).and_modify(|moved| moved.at = living.at);
            }
        }
        if self.pending.is_some_and(|pending| pending.append == Some(file)) {
            self.pending = self.pending.map(|pending| Pending { append: None, ..pending });
        }
    }
}

impl Iterator for Churn {
    type Item = (u32, Operation);

    fn next(&mut self) -> Option<(u32, Operation)> {
        if self.ended {
            return None;
        }
        // The part before the operation: a part ends with the write that reaches its end.
        let part = self.part();
        self.next_operation().map(|operation| (part, operation))
    }
}

/// Performs operations in a directory.
struct Performer<'a> {
    dir: &'a Path,
    /// The directories so far.
    dirs: Vec<PathBuf>,
    /// The directory of each file that exists.
    places: BTreeMap<u64, usize>,
    /// The blocks that contents are made of.
    pool: Vec<u8>,
}

impl Performer<'_> {
    /// Performs an operation, or only follows it.
    fn perform(&mut self, operation: &Operation, really: bool) -> io::Result<()> {
        match *operation {
            Operation::MakeDir { dir, parent } => {
                let above = self.dirs.get(parent).map_or(self.dir, PathBuf::as_path);
                let path = above.join(format!("d{dir}"));
                if really {
                    std::fs::create_dir(&path)?;
                }
                self.dirs.push(path);
            }
            Operation::Create { file, dir, bytes } => {
                self.places.insert(file, dir);
                if really {
                    self.write(&File::create_new(self.path(file))?, file, 0, bytes, 0)?;
                }
            }
            Operation::Write { file, offset, bytes, version } if really => {
                let open = File::options().write(true).open(self.path(file))?;
                self.write(&open, file, offset, bytes, version + 1)?;
            }
            Operation::Delete { file } => {
                if really {
                    std::fs::remove_file(self.path(file))?;
                }
                self.places.remove(&file);
            }
            Operation::Sync if really => rustix::fs::syncfs(File::open(self.dir)?)?,
            Operation::Write { .. } | Operation::Sync => {}
        }
        Ok(())
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dirs[self.places[&file]].join(format!("f{file}"))
    }

    /// Writes contents that depend on the file, the place and the version. Equal blocks of two files are at equal places of
    /// blocks, so that an image of the device has few different blocks.
    fn write(&self, to: &File, file: u64, offset: u64, bytes: u64, version: u64) -> io::Result<()> {
        let end = offset + bytes;
        let mut at = offset;
        let mut buffer = Vec::with_capacity(WRITE_BYTES);
        while at < end {
            buffer.clear();
            let begin = at;
            while at < end && buffer.len() + BLOCK <= WRITE_BYTES {
                let (block, within) = (at / BLOCK as u64, at as usize % BLOCK);
                let length = (BLOCK - within).min((end - at) as usize);
                let number = mix(mix(file, version), block) as usize % POOL_BLOCKS;
                buffer.extend_from_slice(&self.pool[number * BLOCK + within..][..length]);
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
    fn files_take_the_given_share_while_so_much_is_written() {
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
            let space: u64 = living.values().map(|bytes| space_of(*bytes)).sum();
            assert!(space <= PLAN.target());
            if let Operation::Create { bytes, .. } | Operation::Write { bytes, .. } = operation {
                written += bytes;
                // It is filled at the first deletion; from then on few files are missing.
                filled = filled.max(space);
                assert!(written < 8 << 20 || space > PLAN.target() * 9 / 10, "{space} of {}", PLAN.target());
            }
        }
        let least = PLAN.churned_bytes() + PLAN.target() * 9 / 10 - 512 * living.len() as u64;
        assert!((least / 10 * 8..least / 10 * 12).contains(&written), "{written} written, about {least}");
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
