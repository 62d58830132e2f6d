//! Copies trees in the order of their names, and computes their digests.

use fsarena_core::event::TreeDigest;
use fsarena_sys::{dirs, extents};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::{ffi::OsStr, path::Path};
use walkdir::{DirEntry, WalkDir};

/// The bits of a mode that a digest includes: the type, and whether the owner may execute the file. The others depend
/// on the umask.
const DIGESTED_MODE_BITS: u32 = 0o170_100;

/// The entries below a directory in the order of their names, each with its path below that directory.
fn walk_sorted(root: &Path) -> impl Iterator<Item = io::Result<DirEntry>> {
    let walk = WalkDir::new(root).min_depth(1).sort_by(|a, b| a.file_name().cmp(b.file_name()));
    walk.into_iter().map(|entry| entry.map_err(io::Error::from))
}

/// Whether the file at this path of a tree has data that git keeps about one copy of a repository: inode numbers,
/// times, and where commits were fetched from. A digest leaves out its contents.
fn is_git_bookkeeping(path: &Path) -> bool {
    let mut parts = path.iter().skip_while(|part| *part != ".git").skip(1);
    parts.next().is_some_and(|first| ["index", "FETCH_HEAD", "ORIG_HEAD", "logs"].map(OsStr::new).contains(&first))
}

/// Computes the digest of everything below a directory.
///
/// # Errors
/// If a file cannot be read.
pub fn digest_tree(root: &Path) -> io::Result<TreeDigest> {
    let (mut hasher, mut files, mut bytes) = (blake3::Hasher::new(), 0, 0);
    let mut buffer = vec![0; 1 << 20];
    for entry in walk_sorted(root) {
        let entry = entry?;
        let (meta, path) = (entry.metadata()?, entry.path());
        let relative = path.strip_prefix(root).unwrap_or(path);
        let name = relative.as_os_str().as_bytes();
        let includes_contents = meta.is_file() && !is_git_bookkeeping(relative);
        let length = if includes_contents { meta.len() } else { 0 };
        for number in [name.len() as u64, u64::from(meta.mode() & DIGESTED_MODE_BITS), length] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(name);
        if meta.is_symlink() {
            hasher.update(std::fs::read_link(path)?.as_os_str().as_bytes());
        } else if meta.is_file() {
            (files, bytes) = (files + 1, bytes + length);
        }
        if includes_contents {
            let mut file = File::open(path)?;
            while let read_bytes @ 1.. = file.read(&mut buffer)? {
                hasher.update(&buffer[..read_bytes]);
            }
        }
    }
    Ok(TreeDigest { digest: hasher.finalize().to_hex()[..32].into(), files, bytes })
}

/// Computes the digest of the positions of the extents of all files below a directory, in the order of the files'
/// names. None if the filesystem does not report extents.
///
/// # Errors
/// If the filesystem cannot be synced, or a file cannot be opened.
pub fn digest_layout(root: &Path) -> io::Result<Option<String>> {
    rustix::fs::syncfs(File::open(root)?)?;
    let mut hasher = blake3::Hasher::new();
    for entry in walk_sorted(root) {
        let entry = entry?;
        if !entry.file_type().is_file() {
            continue;
        }
        let Ok(extents) = extents::extents_of(&File::open(entry.path())?) else { return Ok(None) };
        hasher.update(&(extents.len() as u64).to_le_bytes());
        for extent in extents {
            for number in [extent.logical, extent.physical, extent.length, extent.flags.into()] {
                hasher.update(&number.to_le_bytes());
            }
        }
    }
    Ok(Some(hasher.finalize().to_hex()[..32].into()))
}

/// Copies everything below a directory into another directory, in the order of the names. The copies have
/// the same permissions and times of modification. Special files are refused.
///
/// # Errors
/// If a file cannot be read or written.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    let mut directories: Vec<(std::path::PathBuf, Metadata)> = vec![];
    for entry in walk_sorted(from) {
        let entry = entry?;
        let (meta, path) = (entry.metadata()?, entry.path());
        let target = to.join(path.strip_prefix(from).unwrap_or(path));
        if meta.is_dir() {
            dirs::make_dir(&target)?;
            directories.push((target, meta));
        } else if meta.is_symlink() {
            symlink(std::fs::read_link(path)?, &target)?;
        } else if meta.is_file() {
            let mut file = File::create_new(&target)?;
            io::copy(&mut File::open(path)?, &mut file)?;
            copy_times_and_mode(&file, &meta)?;
        } else {
            return Err(io::Error::other(format!("{} is a special file", path.display())));
        }
    }
    // Last, because a read-only directory accepts no files, and each new file changes the time of its directory.
    for (path, meta) in directories.iter().rev() {
        copy_times_and_mode(&File::open(path)?, meta)?;
    }
    Ok(())
}

fn copy_times_and_mode(file: &File, meta: &Metadata) -> io::Result<()> {
    file.set_modified(meta.modified()?)?;
    file.set_permissions(PermissionsExt::from_mode(meta.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn only_bookkeeping_of_git_inside_a_tree_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(".git/logs");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(root.join("file"), "text").unwrap();
        std::fs::write(root.join(".git/index"), "inode numbers").unwrap();
        assert_eq!(digest_tree(&root).unwrap().bytes, 4);
    }

    #[test]
    fn a_copy_has_the_same_digest_and_times() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| -> PathBuf { dir.path().join(name) };
        std::fs::create_dir_all(path("from/sub")).unwrap();
        std::fs::create_dir(path("to")).unwrap();
        std::fs::write(path("from/sub/file"), "text").unwrap();
        symlink("file", path("from/sub/link")).unwrap();
        std::fs::set_permissions(path("from/sub"), PermissionsExt::from_mode(0o555)).unwrap();
        copy_tree(&path("from"), &path("to")).unwrap();
        let [original, copy] = ["from", "to"].map(|name| digest_tree(&path(name)).unwrap());
        assert_eq!((original.files, original.bytes), (1, 4));
        assert_eq!(original, copy);
        let modified = |name: &str| path(name).metadata().unwrap().modified().unwrap();
        assert_eq!(modified("from/sub"), modified("to/sub"));
        std::fs::write(path("to/sub/file"), "tex?").unwrap();
        assert_ne!(digest_tree(&path("to")).unwrap(), original);
        std::fs::set_permissions(path("from/sub"), PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(path("to/sub"), PermissionsExt::from_mode(0o755)).unwrap();
    }
}
