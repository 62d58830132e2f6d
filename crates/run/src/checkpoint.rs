//! Checkpoints in the cache: the content of the devices of a filesystem that took long to bring into a state, under a hash of
//! the history that decides this content.
//!
//! A file has each different block once, then the number of the block at each place of the devices, then a description. The
//! contents that fsarena itself makes repeat few blocks, so an aged image takes a small part of its size.

use crate::error::{Result, RunError};
use fsarena_core::event::TreeState;
use fsarena_fs::device_copy;
use fsarena_fs::lifecycle::Devices;
use fsarena_sys::{Error, dirs, kernel::SysRoot, lock};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The bytes of a block: that in which filesystems place the parts of files, which is smaller on small devices.
const BLOCK_BYTES: usize = 4096;
const SMALL_BLOCK_BYTES: usize = 1024;
/// The size of a device below which mke2fs(8) takes small blocks.
const SMALL_DEVICE_BYTES: u64 = 512 << 20;
/// The version of the format, and the end of every checkpoint.
const MAGIC: &[u8; 16] = b"fsarena-state-2\n";
/// fsarena removes checkpoints that no run has used for so long.
const MAX_UNUSED_TIME: Duration = Duration::from_secs(60 * 24 * 3600);

/// The description of a checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointInfo {
    /// What decides the content, as JSON, for people who look at the file.
    pub history: String,
    /// The number of parts of the history that are done.
    #[serde(rename = "part")]
    pub parts_done: u32,
    /// The sizes of the devices in bytes.
    #[serde(rename = "devices")]
    pub device_bytes: Vec<u64>,
    /// The command that made the filesystem.
    pub mkfs: String,
    /// The features of the filesystem, as its own tool prints them.
    pub features: String,
    /// The files that the history left, once it is complete.
    #[serde(rename = "left")]
    pub left_tree: Option<TreeState>,
    /// The bytes of a block.
    #[serde(rename = "block")]
    block_bytes: usize,
    /// The number of different blocks.
    #[serde(rename = "blocks")]
    distinct_blocks: u32,
    /// The digest of these blocks and of the numbers.
    digest: String,
}

impl CheckpointInfo {
    /// The description of devices after `parts_done` parts of a history.
    pub fn new(history: &str, parts_done: u32, mkfs: &str, features: &str) -> CheckpointInfo {
        let (history, mkfs, features) = (history.into(), mkfs.into(), features.into());
        CheckpointInfo {
            history,
            parts_done,
            mkfs,
            features,
            device_bytes: vec![],
            left_tree: None,
            block_bytes: BLOCK_BYTES,
            distinct_blocks: 0,
            digest: String::new(),
        }
    }
}

/// The checkpoints of this user. One run at a time uses them, because a filesystem that is attached twice has two devices of
/// the same UUID.
#[derive(Debug)]
pub struct CheckpointCache {
    dir: PathBuf,
    /// Locked as long as this exists.
    _lock: File,
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
        if lock.try_lock().is_err() {
            let holders = lock::describe_holders(&SysRoot::host(), &lock);
            return Err(RunError::Missing(format!(
                "{holders} uses the aged images in {}, and two filesystems with the same UUID must not be attached at the same \
                 time; wait until it has ended, or set FSARENA_CACHE_DIR to another directory",
                dir.display()
            )));
        }
        for path in checkpoint_files(dir, "") {
            let used = path.metadata().and_then(|meta| meta.modified());
            if used.is_ok_and(|used| used.elapsed().is_ok_and(|idle| idle > MAX_UNUSED_TIME)) {
                // If this fails, the next run tries again.
                let _ = std::fs::remove_file(path);
            }
        }
        Ok(CheckpointCache { dir: dir.into(), _lock: lock })
    }

    /// The hash of a history: the name of its checkpoints.
    pub fn history_key(history: &str) -> String {
        blake3::hash(history.as_bytes()).to_hex()[..32].into()
    }

    /// The last checkpoint of a history; None if there is none, or if it is damaged.
    pub fn find(&self, history: &str) -> Option<Checkpoint> {
        let mut found: Vec<Checkpoint> = checkpoint_files(&self.dir, &CheckpointCache::history_key(history))
            .into_iter()
            .filter_map(|path| Checkpoint::open(&path).ok())
            .collect();
        found.sort_by_key(|saved| saved.info.parts_done);
        let last = found.pop()?;
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
        // Without a name until it is complete: nothing is left if this process is killed.
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(CWD, &self.dir, flags, mode).map_err(io::Error::from);
        let file = File::from(file.map_err(Error::io("making a checkpoint in", &self.dir))?);
        info.device_bytes = devices.all().map(|device| device.size_bytes()).collect();
        let is_small = info.device_bytes.iter().any(|bytes| *bytes < SMALL_DEVICE_BYTES);
        info.block_bytes = if is_small { SMALL_BLOCK_BYTES } else { BLOCK_BYTES };
        let (part, mut writer) = (info.parts_done, BlockWriter::new(&file, info.block_bytes));
        for device in devices.all() {
            device_copy::read(device, &mut |chunk| writer.add(chunk))?;
        }
        let path = self.dir.join(format!("{key}.{part:05}"));
        let finished = writer.finish(info);
        finished.map_err(Error::io("writing the checkpoint", &path))?;
        let _ = std::fs::remove_file(&path);
        let from = format!("/proc/self/fd/{}", file.as_raw_fd());
        let named = rustix::fs::linkat(CWD, &from, CWD, &path, AtFlags::SYMLINK_FOLLOW);
        named.map_err(|error| Error::io("naming the checkpoint", &path)(error.into()))?;
        for old in earlier.iter().filter(|old| **old != path) {
            std::fs::remove_file(old).map_err(Error::io("removing", old))?;
        }
        Ok(Checkpoint::open(&path).map_err(Error::io("reading", &path))?)
    }
}

/// The checkpoints in a directory whose names begin with a key.
fn checkpoint_files(dir: &Path, key: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_checkpoint = |name: &str| name.starts_with(key) && name.contains('.');
    let paths = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_checkpoint));
    paths.map(|entry| entry.path()).collect()
}

/// Writes the blocks of a checkpoint, each different one once.
struct BlockWriter<'a> {
    output: BufWriter<&'a File>,
    block_bytes: usize,
    numbers: Vec<u32>,
    numbers_by_hash: HashMap<[u8; 16], u32>,
    hasher: blake3::Hasher,
    /// The last block and its number: neighbours are often equal.
    last: Option<(Vec<u8>, u32)>,
}

impl BlockWriter<'_> {
    fn new(file: &File, block_bytes: usize) -> BlockWriter<'_> {
        BlockWriter {
            block_bytes,
            output: BufWriter::with_capacity(1 << 20, file),
            numbers: vec![],
            numbers_by_hash: HashMap::new(),
            hasher: blake3::Hasher::new(),
            last: None,
        }
    }

    fn add(&mut self, chunk: &[u8]) -> io::Result<()> {
        for block in chunk.chunks(self.block_bytes) {
            if let Some((last, number)) = &self.last
                && last == block
            {
                self.numbers.push(*number);
                continue;
            }
            let hash = blake3::hash(block);
            let key: [u8; 16] = hash.as_bytes()[..16].try_into().unwrap_or_default();
            let next = self.numbers_by_hash.len() as u32;
            let number = *self.numbers_by_hash.entry(key).or_insert(next);
            if number == next {
                let mut whole = block.to_vec();
                whole.resize(self.block_bytes, 0);
                self.hasher.update(&whole);
                self.output.write_all(&whole)?;
            }
            self.numbers.push(number);
            self.last = Some((block.to_vec(), number));
        }
        Ok(())
    }

    /// Writes the numbers and the description, and syncs the file.
    fn finish(mut self, info: CheckpointInfo) -> io::Result<()> {
        let numbers: Vec<u8> = self.numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
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
    /// The bytes that it takes.
    pub bytes: u64,
    file: File,
    /// The number of the block at each place.
    numbers: Vec<u32>,
}

impl Checkpoint {
    /// Opens a checkpoint.
    fn open(path: &Path) -> io::Result<Checkpoint> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "this checkpoint is damaged");
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        let end = 8 + MAGIC.len() as u64;
        let mut tail = [0; 24];
        file.read_exact_at(&mut tail, bytes.checked_sub(end).ok_or_else(damaged)?)?;
        let length = u64::from_le_bytes(tail[..8].try_into().unwrap_or_default());
        let begin = (bytes - end).checked_sub(length).filter(|_| tail[8..] == *MAGIC).ok_or_else(damaged)?;
        let mut info = vec![0; length as usize];
        file.read_exact_at(&mut info, begin)?;
        let info: CheckpointInfo = serde_json::from_slice(&info)?;
        let block = (info.block_bytes as u64).max(1);
        let places: u64 = info.device_bytes.iter().map(|bytes| bytes.div_ceil(block)).sum();
        let blocks_bytes = u64::from(info.distinct_blocks) * block;
        if blocks_bytes + 4 * places != begin {
            return Err(damaged());
        }
        let mut numbers = vec![0; 4 * places as usize];
        file.read_exact_at(&mut numbers, blocks_bytes)?;
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut blocks = (&file).take(blocks_bytes);
        loop {
            match blocks.read(&mut buffer)? {
                0 => break,
                count => {
                    hasher.update(&buffer[..count]);
                }
            }
        }
        hasher.update(&numbers);
        if hasher.finalize().to_hex()[..32] != *info.digest {
            return Err(damaged());
        }
        let numbers = numbers.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().unwrap_or_default()));
        let numbers: Vec<u32> = numbers.collect();
        if numbers.iter().any(|number| *number >= info.distinct_blocks) {
            return Err(damaged());
        }
        Ok(Checkpoint { info, bytes, file, numbers })
    }

    /// Writes the content to devices of the same sizes, in full.
    ///
    /// # Errors
    /// The devices have other sizes, or cannot be written.
    pub fn restore(&self, devices: &Devices) -> Result<()> {
        let sizes: Vec<u64> = devices.all().map(|device| device.size_bytes()).collect();
        if sizes != self.info.device_bytes {
            let why = format!("an image of {:?} bytes does not fit devices of {sizes:?} bytes", self.info.device_bytes);
            return Err(RunError::Plan(why));
        }
        let mut index = 0;
        for device in devices.all() {
            device_copy::write(device, &mut |chunk| {
                let numbers = &self.numbers[index..index + chunk.len().div_ceil(self.info.block_bytes)];
                index += numbers.len();
                self.read_blocks(numbers, chunk)
            })?;
        }
        Ok(())
    }
}

impl Checkpoint {
    /// Reads the blocks with these numbers. Reads blocks together that follow each other in the file, and copies a block that
    /// is repeated, such as that of zeros.
    fn read_blocks(&self, numbers: &[u32], to: &mut [u8]) -> io::Result<()> {
        let (mut at, block) = (0, self.info.block_bytes);
        while at < numbers.len() {
            let follows = |index: &usize| numbers[*index] == numbers[at] + (*index - at) as u32;
            let count = (at..numbers.len()).take_while(follows).count();
            let end = to.len().min((at + count) * block);
            self.file.read_exact_at(&mut to[at * block..end], u64::from(numbers[at]) * block as u64)?;
            let last = at + count - 1;
            at += count;
            while at < numbers.len() && numbers[at] == numbers[last] && (at + 1) * block <= to.len() {
                to.copy_within(last * block..(last + 1) * block, at * block);
                at += 1;
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
        let store = CheckpointCache::open_at(&dir.path().join("aged")).unwrap();
        assert!(CheckpointCache::open_at(&dir.path().join("aged")).is_err(), "it is locked");
        let image = image::create(&journal, &dir.path().join("image"), 1 << 20, false).unwrap();
        let device = ScratchDevice::from_image(image);
        let mut content = vec![0u8; 1 << 20];
        content[70_000..80_000].fill(7);
        content[500_000..500_100].fill(9);
        std::fs::write(device.path(), &content).unwrap();

        store.save(CheckpointInfo::new("history", 1, "mkfs", ""), &(&device).into()).unwrap();
        let saved = store.save(CheckpointInfo::new("history", 2, "mkfs", ""), &(&device).into()).unwrap();
        assert!(saved.bytes < 30_000, "{} bytes", saved.bytes);
        assert_eq!(checkpoint_files(&store.dir, "").len(), 1, "the earlier one is replaced");
        assert!(store.find("other").is_none());

        std::fs::write(device.path(), vec![1u8; 1 << 20]).unwrap();
        store.find("history").unwrap().restore(&(&device).into()).unwrap();
        assert!(std::fs::read(device.path()).unwrap() == content);

        let path = checkpoint_files(&store.dir, "").remove(0);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[5000] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        assert!(store.find("history").is_none());
    }
}
