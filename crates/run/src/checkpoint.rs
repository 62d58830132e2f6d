//! Checkpoints in the cache: stored contents of the devices of a filesystem that took long to make, such as an aged
//! filesystem.
//! The name of a checkpoint begins with a hash of its history: everything that decides its content, such as the files,
//! the mkfs command and the kernel.
//!
//! A checkpoint is a file: each distinct block once, then for each block of the devices the number of the distinct
//! block that it equals, then a description. The files that fsarena makes consist of few distinct blocks, so a
//! checkpoint of an aged image is much smaller than the image.

use crate::error::{Result, RunError};
use fsarena_core::event::TreeState;
use fsarena_fs::device_copy;
use fsarena_fs::lifecycle::Devices;
use fsarena_sys::lock::{LockedFile, describe_lock_holders};
use fsarena_sys::{Error, dirs, kernel::SysRoot};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, TryLockError};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The size of a block in bytes: the usual block size of filesystems.
const BLOCK_BYTES: usize = 4096;
/// The size of a block on a small device, in bytes.
const SMALL_BLOCK_BYTES: usize = 1024;
/// Below this size, in bytes, a device is small: mke2fs(8) then makes blocks of 1024 bytes.
const SMALL_DEVICE_BYTES: u64 = 512 << 20;
/// The last bytes of every checkpoint. They contain the version of the format.
const MAGIC: &[u8; 16] = b"fsarena-state-2\n";
/// fsarena removes a checkpoint that no run has used for longer than this.
const MAX_UNUSED_TIME: Duration = Duration::from_secs(60 * 24 * 3600);

/// The description of a checkpoint.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// The history that decides the content, as JSON, so that people who look at the file can read it.
    pub history: String,
    /// The number of parts of the history that have been performed.
    #[serde(rename = "part")]
    pub parts_done: u32,
    /// The sizes of the devices in bytes.
    #[serde(rename = "devices")]
    pub device_bytes: Vec<u64>,
    /// The command that made the filesystem.
    pub mkfs: String,
    /// The features of the filesystem, as its own tool prints them.
    pub features: String,
    /// The files at the end of the history; None until the history is complete.
    #[serde(rename = "left")]
    pub final_tree: Option<TreeState>,
    /// The size of a block in bytes.
    #[serde(rename = "block")]
    block_bytes: usize,
    /// The number of distinct blocks.
    #[serde(rename = "blocks")]
    distinct_blocks: u32,
    /// The digest of the distinct blocks and of the block numbers.
    digest: String,
}

impl CheckpointInfo {
    /// The description of devices after the first part of a history. [`CheckpointCache::save`] sets the fields that
    /// describe the devices and the file.
    pub fn new(history: &str, mkfs: &str, features: &str) -> CheckpointInfo {
        CheckpointInfo {
            history: history.into(),
            parts_done: 1,
            mkfs: mkfs.into(),
            features: features.into(),
            ..CheckpointInfo::default()
        }
    }
}

/// The checkpoints in the cache of this user. Only one run at a time can open the cache: if two runs restored the same
/// checkpoint, two attached filesystems would have the same UUID.
#[derive(Debug)]
pub struct CheckpointCache {
    dir: PathBuf,
    /// The lock file, which stays locked as long as this value exists.
    _lock: LockedFile,
}

impl CheckpointCache {
    /// Opens the checkpoints in the cache, and removes those that no run has used for 60 days.
    ///
    /// # Errors
    /// Another run uses them, or the directory cannot be made.
    pub fn open() -> Result<CheckpointCache> {
        CheckpointCache::open_at(&dirs::cache_dir().join("aged"))
    }

    fn open_at(dir: &Path) -> Result<CheckpointCache> {
        dirs::make_dirs(dir).map_err(Error::io("making", dir))?;
        let path = dir.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(Error::io("opening", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(Error::io("locking", &path)(error).into()),
            Err(TryLockError::WouldBlock) => {
                let holders = describe_lock_holders(&SysRoot::host(), &lock);
                return Err(RunError::Missing(format!(
                    "{holders} uses the aged images in {}, and two filesystems with the same UUID must not be attached at \
                     the same time; wait until it has ended, or set FSARENA_CACHE_DIR to another directory",
                    dir.display()
                )));
            }
        }
        for path in checkpoint_files(dir, "") {
            let used = path.metadata().and_then(|meta| meta.modified());
            if used.is_ok_and(|used| used.elapsed().is_ok_and(|idle| idle > MAX_UNUSED_TIME)) {
                // If this fails, the next run tries again.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(CheckpointCache { dir: dir.into(), _lock: LockedFile::new(lock) })
    }

    /// The hash of a history, with which the names of its checkpoint files begin.
    pub fn history_key(history: &str) -> String {
        blake3::hash(history.as_bytes()).to_hex()[..32].into()
    }

    /// The undamaged checkpoint of a history with the most parts done; None if there is none.
    pub fn find_last(&self, history: &str) -> Option<Checkpoint> {
        let files = checkpoint_files(&self.dir, &CheckpointCache::history_key(history));
        let checkpoints = files.iter().filter_map(|path| Checkpoint::open(path).ok());
        let last = checkpoints.max_by_key(|checkpoint| checkpoint.info.parts_done)?;
        // The time of the last use. If it cannot be set, the checkpoint may be removed early.
        let _ = last.file.set_modified(SystemTime::now());
        Some(last)
    }

    /// Saves the content of devices. Replaces the earlier checkpoints of the history.
    ///
    /// # Errors
    /// The devices cannot be read, or the checkpoint cannot be written.
    pub fn save(&self, mut info: CheckpointInfo, devices: &Devices) -> Result<Checkpoint> {
        let key = CheckpointCache::history_key(&info.history);
        let earlier = checkpoint_files(&self.dir, &key);
        // The file has no name until it is complete, so nothing of it stays if this process is killed.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(CWD, &self.dir, flags, mode).map_err(io::Error::from);
        let file = File::from(file.map_err(Error::io("making a checkpoint in", &self.dir))?);
        info.device_bytes = devices.iter().map(|device| device.size_bytes()).collect();
        let is_small = info.device_bytes.iter().any(|bytes| *bytes < SMALL_DEVICE_BYTES);
        info.block_bytes = if is_small { SMALL_BLOCK_BYTES } else { BLOCK_BYTES };
        let (parts_done, mut writer) = (info.parts_done, BlockWriter::new(&file, info.block_bytes));
        for device in devices.iter() {
            device_copy::read_device(device, &mut |chunk| writer.write_chunk(chunk))?;
        }
        let path = self.dir.join(format!("{key}.{parts_done:05}"));
        let finished = writer.finish(info);
        finished.map_err(Error::io("writing the checkpoint", &path))?;
        let _ = std::fs::remove_file(&path);
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        let named = rustix::fs::linkat(CWD, &unnamed, CWD, &path, AtFlags::SYMLINK_FOLLOW);
        named.map_err(|error| Error::io("naming the checkpoint", &path)(error.into()))?;
        for old in earlier.iter().filter(|old| **old != path) {
            std::fs::remove_file(old).map_err(Error::io("removing", old))?;
        }
        Ok(Checkpoint::open(&path).map_err(Error::io("reading", &path))?)
    }
}

/// The checkpoints in a directory whose names begin with a key.
fn checkpoint_files(dir: &Path, key: &str) -> Vec<PathBuf> {
    // The name of the lock file has no dot.
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_checkpoint = |name: &str| name.starts_with(key) && name.contains('.');
    let paths = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_checkpoint));
    paths.map(|entry| entry.path()).collect()
}

/// Writes the blocks of a checkpoint, each distinct block once.
struct BlockWriter<'a> {
    output: BufWriter<&'a File>,
    block_bytes: usize,
    /// The number of each block so far.
    block_numbers: Vec<u32>,
    /// The numbers of the distinct blocks, by the hash of the block.
    numbers_by_hash: HashMap<[u8; 16], u32>,
    hasher: blake3::Hasher,
    /// The last block and its number. A block often equals the one before it, which then needs no hash.
    last: Option<(Vec<u8>, u32)>,
}

impl BlockWriter<'_> {
    fn new(file: &File, block_bytes: usize) -> BlockWriter<'_> {
        BlockWriter {
            block_bytes,
            output: BufWriter::with_capacity(1 << 20, file),
            block_numbers: vec![],
            numbers_by_hash: HashMap::new(),
            hasher: blake3::Hasher::new(),
            last: None,
        }
    }

    /// Writes a part of a device. Its length must be a multiple of the block size, except at the end of the device.
    fn write_chunk(&mut self, chunk: &[u8]) -> io::Result<()> {
        for block in chunk.chunks(self.block_bytes) {
            if let Some((last, number)) = &self.last
                && last == block
            {
                self.block_numbers.push(*number);
                continue;
            }
            let hash = blake3::hash(block);
            let key: [u8; 16] = hash.as_bytes()[..16].try_into().unwrap_or_default();
            let next = self.numbers_by_hash.len() as u32;
            let number = *self.numbers_by_hash.entry(key).or_insert(next);
            if number == next {
                let mut padded = block.to_vec();
                padded.resize(self.block_bytes, 0);
                self.hasher.update(&padded);
                self.output.write_all(&padded)?;
            }
            self.block_numbers.push(number);
            self.last = Some((block.to_vec(), number));
        }
        Ok(())
    }

    /// Writes the block numbers and the description, and syncs the file.
    fn finish(mut self, info: CheckpointInfo) -> io::Result<()> {
        let numbers: Vec<u8> = self.block_numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.hasher.update(&numbers);
        self.output.write_all(&numbers)?;
        let digest = self.hasher.finalize().to_hex()[..32].to_string();
        let info =
            serde_json::to_vec(&CheckpointInfo { distinct_blocks: self.numbers_by_hash.len() as u32, digest, ..info })?;
        self.output.write_all(&info)?;
        self.output.write_all(&(info.len() as u64).to_le_bytes())?;
        self.output.write_all(MAGIC)?;
        self.output.flush()?;
        self.output.get_ref().sync_all()
    }
}

/// A checkpoint in the cache.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its description.
    pub info: CheckpointInfo,
    /// The size of its file in bytes.
    pub file_bytes: u64,
    file: File,
    /// For each block of the devices, the number of the distinct block that it equals.
    block_numbers: Vec<u32>,
}

impl Checkpoint {
    /// Opens a checkpoint and checks its digest.
    ///
    /// # Errors
    /// The file cannot be read, or it is damaged.
    fn open(path: &Path) -> io::Result<Checkpoint> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "this checkpoint is damaged");
        let file = File::open(path)?;
        let file_bytes = file.metadata()?.len();
        // The file ends with the length of the description, and MAGIC.
        let mut tail = [0; 8 + MAGIC.len()];
        let tail_offset = file_bytes.checked_sub(tail.len() as u64).ok_or_else(damaged)?;
        file.read_exact_at(&mut tail, tail_offset)?;
        let info_bytes = u64::from_le_bytes(tail[..8].try_into().unwrap_or_default());
        let info_offset = tail_offset.checked_sub(info_bytes).filter(|_| tail[8..] == *MAGIC).ok_or_else(damaged)?;
        let mut info = vec![0; info_bytes as usize];
        file.read_exact_at(&mut info, info_offset)?;
        let info: CheckpointInfo = serde_json::from_slice(&info)?;
        let block_bytes = (info.block_bytes as u64).max(1);
        let block_count: u64 = info.device_bytes.iter().map(|bytes| bytes.div_ceil(block_bytes)).sum();
        let blocks_bytes = u64::from(info.distinct_blocks) * block_bytes;
        if blocks_bytes + 4 * block_count != info_offset {
            return Err(damaged());
        }
        let mut numbers = vec![0; 4 * block_count as usize];
        file.read_exact_at(&mut numbers, blocks_bytes)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut blocks = (&file).take(blocks_bytes);
        while let count @ 1.. = blocks.read(&mut buffer)? {
            hasher.update(&buffer[..count]);
        }
        hasher.update(&numbers);
        if hasher.finalize().to_hex()[..32] != *info.digest {
            return Err(damaged());
        }
        let numbers = numbers.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default()));
        let block_numbers: Vec<u32> = numbers.collect();
        if block_numbers.iter().any(|number| *number >= info.distinct_blocks) {
            return Err(damaged());
        }
        Ok(Checkpoint { info, file_bytes, file, block_numbers })
    }

    /// Writes the content to devices, over their whole size.
    ///
    /// # Errors
    /// The devices have other sizes, or cannot be written.
    pub fn restore(&self, devices: &Devices) -> Result<()> {
        let sizes: Vec<u64> = devices.iter().map(|device| device.size_bytes()).collect();
        if sizes != self.info.device_bytes {
            let why = format!("an image of {:?} bytes does not fit devices of {sizes:?} bytes", self.info.device_bytes);
            return Err(RunError::Plan(why));
        }
        let mut index = 0;
        for device in devices.iter() {
            device_copy::write_device(device, &mut |chunk| {
                let numbers = &self.block_numbers[index..index + chunk.len().div_ceil(self.info.block_bytes)];
                index += numbers.len();
                self.read_blocks(numbers, chunk)
            })?;
        }
        Ok(())
    }

    /// Reads the blocks with these numbers into `content`. Blocks that follow each other in the file are read together.
    /// A block that is repeated, such as a block of zeros, is read once and copied.
    fn read_blocks(&self, numbers: &[u32], content: &mut [u8]) -> io::Result<()> {
        let (mut done, block_bytes) = (0, self.info.block_bytes);
        while done < numbers.len() {
            let is_consecutive = |index: &usize| numbers[*index] == numbers[done] + (*index - done) as u32;
            let count = (done..numbers.len()).take_while(is_consecutive).count();
            let end = content.len().min((done + count) * block_bytes);
            let offset = u64::from(numbers[done]) * block_bytes as u64;
            self.file.read_exact_at(&mut content[done * block_bytes..end], offset)?;
            let last = done + count - 1;
            done += count;
            while done < numbers.len() && numbers[done] == numbers[last] && (done + 1) * block_bytes <= content.len() {
                content.copy_within(last * block_bytes..(last + 1) * block_bytes, done * block_bytes);
                done += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_fs::safety::ScratchDevice;
    use fsarena_sys::{image, undo::Journal};

    #[test]
    fn a_checkpoint_restores_a_device_in_full_and_damage_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let cache = CheckpointCache::open_at(&dir.path().join("aged")).unwrap();
        assert!(CheckpointCache::open_at(&dir.path().join("aged")).is_err(), "it is locked");
        let image = image::create(&journal, &dir.path().join("image"), 1 << 20, false).unwrap();
        let device = ScratchDevice::from_image(image);
        let mut content = vec![0u8; 1 << 20];
        content[70_000..80_000].fill(7);
        content[500_000..500_100].fill(9);
        std::fs::write(device.path(), &content).unwrap();

        cache.save(CheckpointInfo::new("history", "mkfs", ""), &(&device).into()).unwrap();
        let second_part = CheckpointInfo { parts_done: 2, ..CheckpointInfo::new("history", "mkfs", "") };
        let saved = cache.save(second_part, &(&device).into()).unwrap();
        assert!(saved.file_bytes < 30_000, "{} bytes", saved.file_bytes);
        assert_eq!(checkpoint_files(&cache.dir, "").len(), 1, "the earlier one is replaced");
        assert!(cache.find_last("other").is_none());

        std::fs::write(device.path(), vec![1u8; 1 << 20]).unwrap();
        cache.find_last("history").unwrap().restore(&(&device).into()).unwrap();
        assert!(std::fs::read(device.path()).unwrap() == content);

        let path = checkpoint_files(&cache.dir, "").remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(cache.find_last("history").is_none());
    }
}
