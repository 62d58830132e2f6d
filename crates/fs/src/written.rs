//! Fingerprints of the filesystems that fsarena left on devices, so that a later run may overwrite them.

use crate::{Error, error::refused, safety::Fingerprint};
use fsarena_sys::{Error as SysError, argv::Argv, found};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::{fs::File, io::Write};

/// What wipefs(8) finds on a device: a filesystem, a RAID or LVM member, a partition table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Its type: `ext4`, `LVM2_member`, `gpt`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its UUID, where it has one.
    pub uuid: Option<String>,
}

/// Types of partition tables in wipefs's words.
const PARTITION_TABLES: &[&str] = &[
    "gpt", "PMBR", "dos", "mac", "bsd", "sun", "sgi", "aix", "ultrix", "unixware", "solaris", "dasd", "atari",
];

impl Signature {
    /// Whether it is a partition table.
    pub fn is_partition_table(&self) -> bool {
        PARTITION_TABLES.contains(&self.kind.as_str())
    }
}

/// Reads the signatures of a device with wipefs(8), which changes nothing.
///
/// # Errors
/// Where wipefs is not installed, fails, or prints something unexpected: none of that means "empty".
pub fn signatures(device: &Path) -> Result<Vec<Signature>, Error> {
    let argv = Argv::new("wipefs").args(["--no-act", "--json"]).arg(device).env("LC_ALL", "C");
    let text = argv.expect(&mut |_| {})?.stdout;
    let why = |error| format!("wipefs prints something unexpected ({error})");
    parse(&text).map_err(|error| refused(device, why(error), "Look at it with `wipefs --no-act`"))
}

fn parse(text: &str) -> Result<Vec<Signature>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Printed {
        signatures: Vec<Signature>,
    }
    // Nothing at all means a device without any.
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    Ok(serde_json::from_str::<Printed>(text)?.signatures)
}

/// A line of the log.
#[derive(Serialize, Deserialize)]
struct Entry {
    /// The device's stable name.
    device: PathBuf,
    #[serde(flatten)]
    left: Left,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Left {
    /// The whole content, when a run gave the device back.
    Content { content: Fingerprint },
    /// What mkfs wrote.
    Signature(Signature),
}

/// The log of what fsarena wrote, one JSON line each, in the state directory.
///
/// A later run may overwrite a device whose content is still as the last run left it. A signature alone does not show
/// that: it stays the same when a user mounts the filesystem and stores files in it. A run that was killed leaves
/// signatures only.
#[derive(Debug, Clone)]
pub struct WrittenLog {
    path: PathBuf,
}

impl WrittenLog {
    /// The log in a state directory; it need not exist yet.
    pub fn open(state_dir: &Path) -> WrittenLog {
        WrittenLog { path: state_dir.join("written.jsonl") }
    }

    /// Whether fsarena wrote that signature to the device of that stable name. One without a UUID could be anybody's.
    ///
    /// # Errors
    /// Where the log exists and cannot be read.
    pub fn contains(&self, device: &Path, signature: &Signature) -> Result<bool, Error> {
        let same = |left: &Left| matches!(left, Left::Signature(found) if found == signature);
        Ok(signature.uuid.is_some() && self.left(device)?.iter().any(same))
    }

    /// The content that the last run left on the device of that stable name.
    ///
    /// # Errors
    /// Where the log exists and cannot be read.
    pub fn content(&self, device: &Path) -> Result<Option<Fingerprint>, Error> {
        let content = |left| match left {
            Left::Content { content } => Some(content),
            Left::Signature(_) => None,
        };
        Ok(self.left(device)?.into_iter().filter_map(content).next_back())
    }

    fn left(&self, device: &Path) -> Result<Vec<Left>, Error> {
        let text = found(std::fs::read_to_string(&self.path)).map_err(SysError::io("reading", &self.path))?;
        let entries = text
            .as_deref()
            .unwrap_or_default()
            .lines()
            .filter_map(|line| serde_json::from_str::<Entry>(line).ok());
        Ok(entries.filter(|entry| entry.device == device).map(|entry| entry.left).collect())
    }

    /// Notes signatures just written to the device of that stable name.
    ///
    /// # Errors
    /// Where the log cannot be written.
    pub fn note(&self, device: &Path, signatures: &[Signature]) -> Result<(), Error> {
        for signature in signatures {
            if !self.contains(device, signature)? {
                self.append(device, Left::Signature(signature.clone()))?;
            }
        }
        Ok(())
    }

    /// Notes the content that a run leaves on the device of that stable name.
    ///
    /// # Errors
    /// Where the log cannot be written.
    pub fn note_content(&self, device: &Path, content: Fingerprint) -> Result<(), Error> {
        self.append(device, Left::Content { content })
    }

    fn append(&self, device: &Path, left: Left) -> Result<(), Error> {
        let entry = Entry { device: device.into(), left };
        let mut text =
            serde_json::to_string(&entry).map_err(|e| SysError::io("noting in", &self.path)(e.into()))?;
        text.push('\n');
        let append = || -> std::io::Result<()> {
            std::fs::create_dir_all(self.path.parent().unwrap_or(Path::new("/")))?;
            let mut file = File::options().append(true).create(true).open(&self.path)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()
        };
        Ok(append().map_err(SysError::io("writing", &self.path))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(kind: &str, uuid: Option<&str>) -> Signature {
        Signature { kind: kind.into(), uuid: uuid.map(str::to_string) }
    }

    #[test]
    fn wipefs_is_read() {
        let text = r#"{"signatures": [
            {"device":"loop0", "offset":"0x438", "type":"ext4", "uuid":"13e0-7e", "label":null},
            {"device":"loop0", "offset":"0x1fe", "type":"dos", "uuid":null, "label":null}]}"#;
        let found = parse(text).unwrap();
        assert_eq!(found, [signature("ext4", Some("13e0-7e")), signature("dos", None)]);
        assert_eq!(found.iter().map(Signature::is_partition_table).collect::<Vec<_>>(), [false, true]);
        assert_eq!(parse("\n").unwrap(), []);
        assert!(parse("loop0: trouble").is_err());
    }

    #[test]
    fn the_content_that_the_last_run_left_counts() {
        let dir = tempfile::tempdir().unwrap();
        let log = WrittenLog::open(dir.path());
        let (a, b) = (Path::new("/dev/disk/by-id/a"), Path::new("/dev/disk/by-id/b"));
        let content = |seed: u64| -> Fingerprint {
            serde_json::from_value(serde_json::json!({ "size_bytes": 4096, "seed": seed, "hash": "00" }))
                .unwrap()
        };
        assert_eq!(log.content(a).unwrap(), None);
        log.note(a, &[signature("ext4", Some("1"))]).unwrap();
        assert_eq!(log.content(a).unwrap(), None);
        log.note_content(a, content(1)).unwrap();
        log.note_content(a, content(2)).unwrap();
        log.note_content(b, content(3)).unwrap();
        assert_eq!(log.content(a).unwrap(), Some(content(2)));
        assert!(log.contains(a, &signature("ext4", Some("1"))).unwrap());
    }

    /// A line as fsarena 0.1.0 wrote it.
    #[test]
    fn a_log_of_the_first_version_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let line = r#"{"device":"/dev/disk/by-id/a","type":"ext4","uuid":"1"}"#;
        std::fs::write(dir.path().join("written.jsonl"), format!("{line}\n")).unwrap();
        let log = WrittenLog::open(dir.path());
        let device = Path::new("/dev/disk/by-id/a");
        assert!(log.contains(device, &signature("ext4", Some("1"))).unwrap());
        assert_eq!(log.content(device).unwrap(), None);
    }

    #[test]
    fn only_what_was_written_to_that_device_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let log = WrittenLog::open(&dir.path().join("not yet"));
        let (a, b) = (Path::new("/dev/disk/by-id/a"), Path::new("/dev/disk/by-id/b"));
        let ours = signature("ext4", Some("1"));
        assert!(!log.contains(a, &ours).unwrap());
        log.note(a, &[ours.clone(), signature("jfs", None)]).unwrap();
        assert!(log.contains(a, &ours).unwrap());
        assert!(!log.contains(b, &ours).unwrap());
        assert!(!log.contains(a, &signature("ext4", Some("2"))).unwrap());
        assert!(!log.contains(a, &signature("jfs", None)).unwrap());
    }
}
