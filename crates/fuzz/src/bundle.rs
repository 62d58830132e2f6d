//! The target for bundles that come from elsewhere.

use crate::support::{self, assert_sensible};
use fsarena_store::Error;
use fsarena_store::archive::{Limits, extract, files_below};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::{fs, path::Path};

/// Limits that small inputs can reach.
const LIMITS: Limits = Limits { members: 16, bytes: 1 << 20, ratio: 20, free_bytes: 64 << 10 };

/// Extracts an archive, and checks that nothing but regular files below one directory was written, and not too much. An input
/// that begins with `z` is an archive behind that; any other is a tar file behind its first byte, which the target compresses.
pub fn bundle(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let archive = match first {
        b'z' => rest.to_vec(),
        _ => compress_to_vec(rest, CompressionLevel::Fastest),
    };
    let dir = support::path("bundle");
    let (file, into) = (dir.join("a.tar.zst"), dir.join("into"));
    fs::create_dir_all(&into).and_then(|()| fs::write(&file, &archive)).expect("a place");
    let extracted = extract(&file, &into, LIMITS);
    assert_eq!(entries(&dir), ["a.tar.zst", "into"], "nothing is written elsewhere");
    let (files, size) = check_regular(&into);
    assert!(files <= LIMITS.members && size <= LIMITS.bytes, "{files} files of {size} bytes");
    match extracted {
        Ok(names) => {
            let mut names = names;
            names.sort_unstable();
            assert_eq!(files_below(&into).expect("a directory"), names);
        }
        Err(error) => {
            assert!(!matches!(error, Error::Unfit(..)), "{error}");
            assert_sensible(&error, bytes);
        }
    }
    fs::remove_dir_all(&dir).expect("a directory");
}

/// The sorted names in a directory.
fn entries(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().expect("a name")).collect();
    names.sort_unstable();
    names
}

/// Checks that a directory has only regular files and directories. Returns the number of files and their size in bytes.
fn check_regular(dir: &Path) -> (usize, u64) {
    let (mut files, mut size) = (0, 0);
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let meta = path.symlink_metadata().expect("a file");
        assert!(meta.is_dir() || meta.is_file(), "{}", path.display());
        if meta.is_dir() {
            let below = check_regular(&path);
            (files, size) = (files + below.0, size + below.1);
        } else {
            (files, size) = (files + 1, size + meta.len());
        }
    }
    (files, size)
}
