//! Digests of what the cache keeps. A file has its digest in its name, so both come into being at once; a kernel package
//! has the digests of its files beside them.

use fsarena_sys::found;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Read, Result};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Bytes of SHA-256 that are kept: enough against any damage.
const LENGTH: usize = 16;
const PART: usize = 1 << 20;

/// A digest in the making.
#[derive(Default)]
pub(crate) struct Digester(Sha256);

impl Digester {
    pub(crate) fn add(&mut self, part: &[u8]) {
        self.0.update(part);
    }

    pub(crate) fn end(self) -> String {
        self.0.finalize()[..LENGTH].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The digest of all that can be read from here.
pub(crate) fn of(mut from: impl Read) -> Result<String> {
    let (mut digester, mut part) = (Digester::default(), vec![0; PART]);
    loop {
        match from.read(&mut part)? {
            0 => return Ok(digester.end()),
            count => digester.add(&part[..count]),
        }
    }
}

/// The digest of several parts in this order, each with its length. Every build computes the same, which the hashers of
/// the standard library do not promise: such a digest can be the name of an entry of the cache.
pub(crate) fn of_parts<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> String {
    let mut digester = Digester::default();
    for part in parts {
        let part = part.as_ref();
        digester.add(&(part.len() as u64).to_le_bytes());
        digester.add(part);
    }
    digester.end()
}

/// The name of an entry with this digest.
pub(crate) fn name(head: &str, digest: &str) -> String {
    format!("{head}.{digest}")
}

/// The entries of a directory that [`name`] has named so.
pub(crate) fn named(dir: &Path, head: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is = |name: &str| {
        let end = name.strip_prefix(head).and_then(|rest| rest.strip_prefix('.'));
        end.is_some_and(|end| end.len() == 2 * LENGTH && end.bytes().all(|byte| byte.is_ascii_hexdigit()))
    };
    entries.filter(|entry| entry.file_name().to_str().is_some_and(is)).map(|entry| entry.path()).collect()
}

/// Whether the name of an entry has the digest of these contents.
pub(crate) fn fits(entry: &Path, contents: impl Read) -> bool {
    let digest = entry.extension().and_then(|digest| digest.to_str());
    digest.is_some() && of(contents).ok().as_deref() == digest
}

/// The list of digests, a line for each file.
const LIST: &str = "digests";
/// The parts of a package that guests use.
const PARTS: [&str; 3] = ["boot", "lib", "usr/lib"];

/// Writes the list.
///
/// # Errors
/// Where a file cannot be read, or the list not written.
pub(crate) fn note(package: &Path) -> Result<()> {
    std::fs::write(package.join(LIST), digests(package)?)
}

/// Whether every file is as it was. A package that an older fsarena unpacked gets its list now.
pub(crate) fn is_whole(package: &Path) -> bool {
    match found(std::fs::read_to_string(package.join(LIST))) {
        Ok(Some(list)) => digests(package).is_ok_and(|now| now == list),
        Ok(None) => {
            // Only root can write to the cache that others share.
            let _ = note(package);
            true
        }
        Err(_) => false,
    }
}

fn digests(package: &Path) -> Result<String> {
    let mut list = String::new();
    for part in PARTS.iter().map(|part| package.join(part)).filter(|part| part.is_dir()) {
        for entry in WalkDir::new(part).sort_by_file_name() {
            let entry = entry?;
            if entry.file_type().is_file() {
                let name = entry.path().strip_prefix(package).unwrap_or(entry.path());
                list += &format!("{}  {}\n", of(File::open(entry.path())?)?, name.display());
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_beginning_of_sha256() {
        assert_eq!(of(&b"abc"[..]).unwrap(), "ba7816bf8f01cfea414140de5dae2223");
    }

    #[test]
    fn the_digest_of_parts_is_the_same_in_every_build() {
        // printf '\1\0\0\0\0\0\0\0a\2\0\0\0\0\0\0\0bc' | sha256sum
        assert_eq!(of_parts(["a", "bc"]), "9a8acca1b6c6c0befd3fbc756aed625d");
        assert_ne!(of_parts(["ab", "c"]), of_parts(["a", "bc"]));
        assert_ne!(of_parts(["", "a"]), of_parts(["a", ""]));
    }

    #[test]
    fn an_entry_fits_its_own_contents_alone() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join(name("state", &of(&b"abc"[..]).unwrap()));
        std::fs::write(&entry, "abc").unwrap();
        std::fs::write(dir.path().join("state.other"), "").unwrap();
        assert_eq!(named(dir.path(), "state"), std::slice::from_ref(&entry));
        assert!(fits(&entry, &b"abc"[..]) && !fits(&entry, &b"abd"[..]) && !fits(&entry, &b""[..]));
    }
}
