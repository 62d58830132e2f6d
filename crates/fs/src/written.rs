//! The signatures that fsarena wrote to devices given to it, so that a later run may overwrite its own.

use crate::Error;
use fsarena_sys::Error as SysError;
use fsarena_sys::argv::Argv;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

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
/// Where wipefs is not installed, fails, or says what cannot be read: none of that means "empty".
pub fn signatures(device: &Path) -> Result<Vec<Signature>, Error> {
    let argv = Argv::new("wipefs").args(["--no-act", "--json"]).arg(device).env("LC_ALL", "C");
    let text = argv.expect(&mut |_| {})?.stdout;
    parse(&text).map_err(|why| Error::Refused {
        what: device.into(),
        why: format!("wipefs says what cannot be read ({why})"),
        fix: "Look at it with `wipefs --no-act`".into(),
    })
}

fn parse(text: &str) -> Result<Vec<Signature>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Printed {
        signatures: Vec<Signature>,
    }
    // On a device without any it prints nothing at all.
    if text.trim().is_empty() {
        return Ok(vec![]);
    }
    Ok(serde_json::from_str::<Printed>(text)?.signatures)
}

#[derive(Serialize, Deserialize)]
struct Entry {
    device: PathBuf,
    #[serde(flatten)]
    signature: Signature,
}

/// The list of written signatures, one JSON line each, in the state directory.
#[derive(Debug, Clone)]
pub struct WrittenLog {
    path: PathBuf,
}

impl WrittenLog {
    /// The list in a state directory; it need not exist yet.
    pub fn open(state_dir: &Path) -> WrittenLog {
        WrittenLog { path: state_dir.join("written.jsonl") }
    }

    /// Whether fsarena wrote that signature to the device of that stable name. One without a UUID cannot
    /// be told from anybody else's.
    ///
    /// # Errors
    /// Where the list is there and cannot be read.
    pub fn contains(&self, device: &Path, signature: &Signature) -> Result<bool, Error> {
        let text = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(SysError::io("reading", &self.path))?,
        };
        let same = |entry: &Entry| entry.device == device && entry.signature == *signature;
        let mut entries = text.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok());
        Ok(signature.uuid.is_some() && entries.any(|entry| same(&entry)))
    }

    /// Notes signatures just written to the device of that stable name.
    ///
    /// # Errors
    /// Where the list cannot be written.
    pub fn note(&self, device: &Path, signatures: &[Signature]) -> Result<(), Error> {
        let mut text = String::new();
        for signature in signatures {
            if !self.contains(device, signature)? {
                let entry = Entry { device: device.into(), signature: signature.clone() };
                text += &serde_json::to_string(&entry)
                    .map_err(|e| SysError::io("noting in", &self.path)(e.into()))?;
                text.push('\n');
            }
        }
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
