//! The log of what fsarena wrote to devices of the user, so that a later run may overwrite them: signatures of
//! filesystems, and fingerprints of samples of the content.
//!
//! A signature shows that a device has a filesystem. Devices with plain dm-crypt, VeraCrypt or a database have no signature:
//! only samples of the content show that such a device is in use, and whether its content is as fsarena left it.

use crate::{Error, error::refused};
use fsarena_sys::lock::{LockedFile, describe_lock_holders, open_lock_file};
use fsarena_sys::{Error as SysError, argv::Argv, device::BlockDevice, input, kernel::SysRoot, none_if_missing, undo};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A signature that wipefs(8) finds on a device: a filesystem, a RAID or LVM member, a partition table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Its type: `ext4`, `LVM2_member`, `gpt`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its UUID; None if it has none.
    pub uuid: Option<String>,
}

/// The types of partition tables, as wipefs names them.
const PARTITION_TABLES: &[&str] =
    &["gpt", "PMBR", "dos", "mac", "bsd", "sun", "sgi", "aix", "ultrix", "unixware", "solaris", "dasd", "atari"];

impl Signature {
    /// Whether it is a partition table.
    pub fn is_partition_table(&self) -> bool {
        PARTITION_TABLES.contains(&self.kind.as_str())
    }
}

/// Reads the signatures of a device with wipefs(8), which changes nothing.
///
/// # Errors
/// wipefs is not installed, fails, or prints something unexpected. The caller must not treat the device as empty then.
pub fn read_signatures(device: &Path) -> Result<Vec<Signature>, Error> {
    let argv = Argv::new("wipefs").args(["--no-act", "--json"]).arg(device).env("LC_ALL", "C");
    let text = argv.run_checked(&mut |_| {})?.stdout;
    parse_wipefs(&text).map_err(|error| {
        let why = format!("wipefs prints something unexpected ({error})");
        refused(device, why, "Look at it with `wipefs --no-act`")
    })
}

/// Parses the JSON of wipefs; empty output means a device without signatures.
fn parse_wipefs(text: &str) -> Result<Vec<Signature>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Output {
        signatures: Vec<Signature>,
    }

    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    Ok(serde_json::from_str::<Output>(text)?.signatures)
}

/// A line of the log.
#[derive(Serialize, Deserialize)]
struct LogEntry {
    /// The stable name of the device: its path in `/dev/disk/by-id`.
    device: PathBuf,
    #[serde(flatten)]
    content: LogContent,
}

/// What fsarena wrote to a device.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum LogContent {
    /// The fingerprint of the content when a run released the device.
    Content {
        #[serde(rename = "content")]
        fingerprint: Fingerprint,
    },
    /// A signature that mkfs wrote.
    Signature(Signature),
}

/// The log of the signatures and contents that fsarena has left on devices of the user, as JSON lines in the state directory.
///
/// A later run may overwrite a device whose content is unchanged since the last run. A signature alone does not show that: it
/// stays the same when a user mounts the filesystem and stores files in it. A run that was killed logs signatures only.
#[derive(Debug, Clone)]
pub struct WrittenLog {
    path: PathBuf,
}

impl WrittenLog {
    /// The log in a state directory. Neither the log nor the directory has to exist yet.
    pub fn open(state_dir: &Path) -> WrittenLog {
        WrittenLog { path: state_dir.join("written.jsonl") }
    }

    /// Locks a device, so that no other run overwrites it until the lock is released. Errors name it by `stable_name`.
    ///
    /// The lock is on a file in the state directory, because mkfs and mount lock the device itself (`O_EXCL`, flock(2))
    /// and would fail or wait if fsarena held these locks.
    ///
    /// # Errors
    /// The state directory cannot be written. [`Error::Refused`] if another run has locked the device.
    pub fn lock_device(&self, device: &BlockDevice, stable_name: &Path) -> Result<LockedFile, Error> {
        let state_dir = self.path.parent().unwrap_or(Path::new("/"));
        undo::make_state_dir(state_dir)?;
        let file = open_lock_file(state_dir, &format!("erase-{}", device.name))?;
        match file.try_lock() {
            Ok(()) => Ok(LockedFile::new(file)),
            Err(TryLockError::Error(error)) => Err(SysError::io("locking", stable_name)(error).into()),
            Err(TryLockError::WouldBlock) => {
                let holders = describe_lock_holders(&SysRoot::host(), &file);
                let why = format!("{holders} erases it in another run");
                Err(refused(stable_name, why, "Wait until that run has ended"))
            }
        }
    }

    /// Whether fsarena wrote this signature to the device with this stable name; false for a signature without a UUID, which
    /// any program could have written.
    ///
    /// # Errors
    /// The log exists and cannot be read.
    pub fn has_signature(&self, device: &Path, signature: &Signature) -> Result<bool, Error> {
        let is_same = |entry: &LogContent| matches!(entry, LogContent::Signature(logged) if logged == signature);
        Ok(signature.uuid.is_some() && self.entries_of(device)?.iter().any(is_same))
    }

    /// The fingerprint of the content that the last run left on the device with this stable name.
    ///
    /// # Errors
    /// The log exists and cannot be read.
    pub fn last_fingerprint(&self, device: &Path) -> Result<Option<Fingerprint>, Error> {
        let fingerprint_of = |entry| match entry {
            LogContent::Content { fingerprint } => Some(fingerprint),
            LogContent::Signature(_) => None,
        };
        Ok(self.entries_of(device)?.into_iter().filter_map(fingerprint_of).next_back())
    }

    /// The entries of a device, oldest first. Skips lines that are not entries.
    fn entries_of(&self, device: &Path) -> Result<Vec<LogContent>, Error> {
        let bytes = none_if_missing(std::fs::read(&self.path)).map_err(SysError::io("reading", &self.path))?;
        // By bytes: a crash can leave a line that is not UTF-8.
        let bytes = bytes.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| serde_json::from_slice::<LogEntry>(line).ok());
        Ok(entries.filter(|entry| entry.device == device).map(|entry| entry.content).collect())
    }

    /// Adds signatures that were just written to the device with this stable name, except for those without a UUID, which
    /// [`WrittenLog::has_signature`] ignores.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn add_signatures(&self, device: &Path, signatures: &[Signature]) -> Result<(), Error> {
        for signature in signatures {
            if signature.uuid.is_some() && !self.has_signature(device, signature)? {
                self.append(device, LogContent::Signature(signature.clone()))?;
            }
        }
        Ok(())
    }

    /// Adds the fingerprint of the content that a run leaves on the device with this stable name.
    ///
    /// # Errors
    /// The log cannot be written.
    pub fn add_fingerprint(&self, device: &Path, fingerprint: Fingerprint) -> Result<(), Error> {
        self.append(device, LogContent::Content { fingerprint })
    }

    fn append(&self, device: &Path, content: LogContent) -> Result<(), Error> {
        let entry = LogEntry { device: device.into(), content };
        let mut text = serde_json::to_string(&entry)
            .map_err(|error| SysError::io("encoding a line of", &self.path)(error.into()))?;
        text.push('\n');
        let append = || -> std::io::Result<()> {
            std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
            let mut file = File::options().read(true).append(true).create(true).open(&self.path)?;
            input::end_torn_line(&mut file)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        Ok(append().map_err(SysError::io("writing", &self.path))?)
    }
}

/// The smallest sample in bytes. Direct I/O requires whole logical blocks, and few devices have larger blocks.
const MIN_SAMPLE_BYTES: u64 = 4096;
/// The largest sample in bytes.
const MAX_SAMPLE_BYTES: u64 = 1 << 20;
/// A device of up to this size in bytes is read completely.
const WHOLE_DEVICE_BYTES: u64 = 64 << 20;
/// The bytes read at the beginning of a larger device, where most filesystems have superblocks, allocation maps and logs.
const HEAD_BYTES: u64 = 16 << 20;
/// The bytes read at the end of a larger device, where backup superblocks, RAID metadata and hidden volumes are.
const TAIL_BYTES: u64 = 4 << 20;
/// The offsets in bytes of copies of superblocks: those of btrfs (64 MiB, 256 GiB), and some of ext2, ext3 and ext4 with blocks of
/// 2 KiB (32, 96 and 160 MiB) and 4 KiB (from 128 MiB on). With blocks of 1 KiB the first copy is within [`HEAD_BYTES`].
const SUPERBLOCK_OFFSETS: [u64; 9] =
    [32 << 20, 64 << 20, 96 << 20, 128 << 20, 160 << 20, 384 << 20, 640 << 20, 1152 << 20, 256 << 30];
/// The bytes read at each of [`SUPERBLOCK_OFFSETS`].
const SUPERBLOCK_BYTES: u64 = 64 << 10;
/// The number of equal parts of a larger device, with one random sample in each. Data at least as long as two parts covers a
/// whole part, and so its sample.
const RANDOM_SAMPLES: u64 = 1000;

/// A fingerprint of a device's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// The size of the device in bytes.
    size_bytes: u64,
    /// The seed of the offsets of the random samples.
    seed: u64,
    /// The BLAKE3 hash of all samples and their offsets, in hexadecimal digits.
    hash: String,
}

/// The content of a device as its samples show it.
#[derive(Debug)]
pub struct SampledContent {
    /// The fingerprint of the samples.
    pub fingerprint: Fingerprint,
    /// Whether all bytes are 0 or all are 0xff: erased flash reads as one or the other.
    pub is_blank: bool,
}

impl SampledContent {
    /// Reads samples of a device: both ends, the offsets of superblocks, and a thousand random offsets.
    ///
    /// # Errors
    /// The device cannot be read, or `check_cancelled` returns an error.
    pub fn read(
        device: &BlockDevice,
        check_cancelled: impl Fn() -> Result<(), SysError>,
    ) -> Result<SampledContent, SysError> {
        let mut seed = [0; 8];
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| SysError::io("choosing samples of", &device.path)(error.into()))?;
        SampledContent::read_with_seed(device, u64::from_le_bytes(seed), check_cancelled)
    }

    /// Reads the samples whose random offsets come from a seed.
    fn read_with_seed(
        device: &BlockDevice,
        seed: u64,
        check_cancelled: impl Fn() -> Result<(), SysError>,
    ) -> Result<SampledContent, SysError> {
        let unknown_size =
            || SysError::Unusable { object: device.path.clone(), why: "the kernel reports no size for it".into() };
        let size_bytes = device.size_bytes().filter(|bytes| *bytes > 0).ok_or_else(unknown_size)?;
        let unit_bytes = u64::from(device.logical_block_size().unwrap_or(0)).max(MIN_SAMPLE_BYTES);
        let failed = |error| SysError::io("reading the content of", &device.path)(error);
        // Direct reads, because the page cache may have outdated content.
        let direct = OFlags::DIRECT.bits() as i32;
        let file = File::options().read(true).custom_flags(direct).open(&device.path).map_err(failed)?;
        let mut buffer = vec![0u8; (MAX_SAMPLE_BYTES + unit_bytes) as usize];
        let start = buffer.as_ptr().align_offset(unit_bytes as usize);
        let mut hasher = blake3::Hasher::new();
        let (mut is_all_zeros, mut is_all_ones) = (true, true);
        for (offset, length) in sample_ranges(size_bytes, seed, unit_bytes) {
            check_cancelled()?;
            let sample = &mut buffer[start..start + length as usize];
            file.read_exact_at(sample, offset).map_err(failed)?;
            is_all_zeros &= sample.iter().all(|byte| *byte == 0);
            is_all_ones &= sample.iter().all(|byte| *byte == 0xff);
            hasher.update(&offset.to_le_bytes()).update(sample);
        }
        let hash = hasher.finalize().to_hex().to_string();
        Ok(SampledContent {
            fingerprint: Fingerprint { size_bytes, seed, hash },
            is_blank: is_all_zeros || is_all_ones,
        })
    }
}

impl Fingerprint {
    /// Whether the samples of the device still have this fingerprint.
    ///
    /// # Errors
    /// The device cannot be read, or `check_cancelled` returns an error.
    pub fn matches(
        &self,
        device: &BlockDevice,
        check_cancelled: impl Fn() -> Result<(), SysError>,
    ) -> Result<bool, SysError> {
        let has_same_size = device.size_bytes() == Some(self.size_bytes);
        Ok(has_same_size && SampledContent::read_with_seed(device, self.seed, check_cancelled)?.fingerprint == *self)
    }
}

/// The offsets and lengths of the samples of a device, in bytes, sorted by offset. No length is above [`MAX_SAMPLE_BYTES`].
/// Random samples are `unit_bytes` long and start at a multiple of that.
fn sample_ranges(size_bytes: u64, seed: u64, unit_bytes: u64) -> Vec<(u64, u64)> {
    if size_bytes <= WHOLE_DEVICE_BYTES {
        return split_range(0, size_bytes).collect();
    }
    let mut bits = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut random_number = || {
        let mut bytes = [0; 8];
        bits.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    };
    let units = size_bytes / unit_bytes;
    let mut ranges = vec![];
    for part in 0..RANDOM_SAMPLES {
        let (first_unit, end_unit) = (part * units / RANDOM_SAMPLES, (part + 1) * units / RANDOM_SAMPLES);
        let unit = first_unit + random_number() % (end_unit - first_unit);
        ranges.push((unit * unit_bytes, unit_bytes));
    }
    let superblocks = SUPERBLOCK_OFFSETS.iter().filter(|offset| **offset + SUPERBLOCK_BYTES <= size_bytes);
    ranges.extend(superblocks.map(|offset| (*offset, SUPERBLOCK_BYTES)));
    ranges.extend(split_range(0, HEAD_BYTES).chain(split_range(size_bytes - TAIL_BYTES, TAIL_BYTES)));
    ranges.sort_unstable();
    ranges
}

/// Splits the range of `length` bytes from `start` on into samples of at most [`MAX_SAMPLE_BYTES`].
fn split_range(start: u64, length: u64) -> impl Iterator<Item = (u64, u64)> {
    let offsets = (0..length).step_by(MAX_SAMPLE_BYTES as usize);
    offsets.map(move |offset| (start + offset, MAX_SAMPLE_BYTES.min(length - offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(kind: &str, uuid: Option<&str>) -> Signature {
        Signature { kind: kind.into(), uuid: uuid.map(str::to_string) }
    }

    #[test]
    fn the_json_of_wipefs_is_parsed() {
        let text = r#"{"signatures": [
            {"device":"loop0", "offset":"0x438", "type":"ext4", "uuid":"13e0-7e", "label":null},
            {"device":"loop0", "offset":"0x1fe", "type":"dos", "uuid":null, "label":null}]}"#;
        let found = parse_wipefs(text).unwrap();
        assert_eq!(found, [signature("ext4", Some("13e0-7e")), signature("dos", None)]);
        assert_eq!(found.iter().map(Signature::is_partition_table).collect::<Vec<_>>(), [false, true]);
        assert_eq!(parse_wipefs("\n").unwrap(), []);
        assert!(parse_wipefs("loop0: trouble").is_err());
    }

    #[test]
    fn the_last_logged_content_of_a_device_counts() {
        let dir = tempfile::tempdir().unwrap();
        let log = WrittenLog::open(dir.path());
        let (a, b) = (Path::new("/dev/disk/by-id/a"), Path::new("/dev/disk/by-id/b"));
        let content = |seed: u64| -> Fingerprint {
            serde_json::from_value(serde_json::json!({ "size_bytes": 4096, "seed": seed, "hash": "00" })).unwrap()
        };
        assert_eq!(log.last_fingerprint(a).unwrap(), None);
        log.add_signatures(a, &[signature("ext4", Some("1"))]).unwrap();
        assert_eq!(log.last_fingerprint(a).unwrap(), None);
        log.add_fingerprint(a, content(1)).unwrap();
        log.add_fingerprint(a, content(2)).unwrap();
        log.add_fingerprint(b, content(3)).unwrap();
        assert_eq!(log.last_fingerprint(a).unwrap(), Some(content(2)));
        assert!(log.has_signature(a, &signature("ext4", Some("1"))).unwrap());
    }

    #[test]
    fn an_entry_after_a_damaged_line_is_read() {
        let (device, logged) = (Path::new("/dev/disk/by-id/a"), signature("ext4", Some("1")));
        let (cut_short, not_text) = (&br#"{"device":"/dev/disk/by-id/a","ty"#[..], &b"\xff\0\n"[..]);
        for damaged in [cut_short, not_text] {
            let dir = tempfile::tempdir().unwrap();
            let log = WrittenLog::open(dir.path());
            std::fs::write(dir.path().join("written.jsonl"), damaged).unwrap();
            log.add_signatures(device, std::slice::from_ref(&logged)).unwrap();
            assert!(log.has_signature(device, &logged).unwrap(), "{damaged:?}");
        }
    }

    #[test]
    fn a_signature_without_a_uuid_is_not_logged() {
        let dir = tempfile::tempdir().unwrap();
        let log = WrittenLog::open(dir.path());
        log.add_signatures(Path::new("/dev/disk/by-id/a"), &[signature("jfs", None)]).unwrap();
        assert!(!dir.path().join("written.jsonl").exists());
    }

    /// A line as fsarena 0.1.0 wrote it.
    #[test]
    fn a_log_of_the_first_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = r#"{"device":"/dev/disk/by-id/a","type":"ext4","uuid":"1"}"#;
        std::fs::write(dir.path().join("written.jsonl"), format!("{line}\n")).unwrap();
        let log = WrittenLog::open(dir.path());
        let device = Path::new("/dev/disk/by-id/a");
        assert!(log.has_signature(device, &signature("ext4", Some("1"))).unwrap());
        assert_eq!(log.last_fingerprint(device).unwrap(), None);
    }

    #[test]
    fn only_signatures_logged_for_the_same_device_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let log = WrittenLog::open(&dir.path().join("not yet"));
        let (a, b) = (Path::new("/dev/disk/by-id/a"), Path::new("/dev/disk/by-id/b"));
        let logged = signature("ext4", Some("1"));
        assert!(!log.has_signature(a, &logged).unwrap());
        log.add_signatures(a, &[logged.clone(), signature("jfs", None)]).unwrap();
        assert!(log.has_signature(a, &logged).unwrap());
        assert!(!log.has_signature(b, &logged).unwrap());
        assert!(!log.has_signature(a, &signature("ext4", Some("2"))).unwrap());
        assert!(!log.has_signature(a, &signature("jfs", None)).unwrap());
    }

    const GIB: u64 = 1 << 30;

    #[test]
    fn a_small_device_is_read_whole() {
        let ranges = sample_ranges(64 << 20, 7, MIN_SAMPLE_BYTES);
        assert_eq!((ranges.len(), ranges[0], ranges[63]), (64, (0, 1 << 20), (63 << 20, 1 << 20)));
        assert_eq!(sample_ranges((1 << 20) + 512, 7, MIN_SAMPLE_BYTES), [(0, 1 << 20), (1 << 20, 512)]);
    }

    #[test]
    fn a_large_device_is_read_at_its_ends_its_superblocks_and_once_in_each_thousandth() {
        let size = 1000 * GIB;
        let ranges = sample_ranges(size, 7, MIN_SAMPLE_BYTES);
        assert_eq!(ranges.len(), 16 + 4 + 9 + 1000);
        assert!(ranges.iter().map(|(_, length)| length).sum::<u64>() < 26 << 20);
        assert!(ranges.contains(&(15 << 20, 1 << 20)) && ranges.contains(&(size - (1 << 20), 1 << 20)));
        assert!(ranges.contains(&(64 << 20, 64 << 10)) && ranges.contains(&(256 * GIB, 64 << 10)));
        for part in 0..1000 {
            let is_within = |offset: u64| (part * GIB..(part + 1) * GIB).contains(&offset);
            assert!(ranges.iter().any(|(offset, length)| *length == 4096 && is_within(*offset)), "{part}");
        }
        assert!(ranges.iter().all(|(offset, length)| offset % 4096 == 0 && offset + length <= size));
    }

    #[test]
    fn the_seed_chooses_the_samples_and_large_blocks_are_read_whole() {
        assert_eq!(sample_ranges(GIB, 1, MIN_SAMPLE_BYTES), sample_ranges(GIB, 1, MIN_SAMPLE_BYTES));
        assert_ne!(sample_ranges(GIB, 1, MIN_SAMPLE_BYTES), sample_ranges(GIB, 2, MIN_SAMPLE_BYTES));
        let ranges = sample_ranges(GIB, 1, 16 << 10);
        assert!(ranges.iter().all(|(offset, length)| offset % (16 << 10) == 0 && length % (16 << 10) == 0));
    }
}
