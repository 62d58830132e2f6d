//! Opening files as a job wants them, and the alignment that direct I/O needs.

use super::error::{Error, Result};
use super::files::Files;
use super::job::{Durability, Job};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::process::{Resource, getrlimit};
use rustix::{fd::OwnedFd, io::Errno};
use std::path::Path;

/// Alignment taken for granted where the kernel does not say (before Linux 6.1): the sector.
const SECTOR: u32 = 512;
/// Descriptors of this program beside the files of a load.
const OTHERS: u64 = 32;

/// Opens every file once, for all threads.
///
/// # Errors
/// Where one cannot be opened so, its blocks need another alignment, or this process may not have that many files open.
pub fn open_all(job: &Job, files: &Files) -> Result<Vec<OwnedFd>> {
    let needed = files.paths.len() as u64 + OTHERS;
    if getrlimit(Resource::Nofile).maximum.is_some_and(|most| most < needed) {
        let what = format!("this load needs {needed} open files in one process");
        let advice = "; raise the hard limit (`ulimit -Hn`), or take fewer files";
        return Err(Error::Resource { what, source: Errno::MFILE.into(), advice });
    }
    files.paths.iter().map(|path| open(job, path)).collect()
}

fn open(job: &Job, path: &Path) -> Result<OwnedFd> {
    let mut flags = OFlags::CLOEXEC | if job.writes() { OFlags::RDWR } else { OFlags::RDONLY };
    flags |= match job.open.durability {
        Durability::Plain => OFlags::empty(),
        Durability::Dsync => OFlags::DSYNC,
        Durability::Sync => OFlags::SYNC,
    };
    if job.open.recreate {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io("removing", path)(error));
            }
            _ => flags |= OFlags::CREATE | OFlags::EXCL,
        }
    }
    with(path, flags, job.open.direct, job.block_bytes)
}

/// Opens one file to be read, or to be written where it makes it.
///
/// # Errors
/// Where it cannot be opened so, or its blocks need another alignment.
pub fn one(path: &Path, write: bool, direct: bool, block_bytes: u32) -> Result<OwnedFd> {
    let access = if write { OFlags::WRONLY | OFlags::CREATE } else { OFlags::RDONLY };
    with(path, OFlags::CLOEXEC | access, direct, block_bytes)
}

fn with(path: &Path, flags: OFlags, direct: bool, block_bytes: u32) -> Result<OwnedFd> {
    let flags = if direct { flags | OFlags::DIRECT } else { flags };
    let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map_err(|error| {
        if error == Errno::INVAL && direct {
            let why = "its filesystem has no direct I/O; take buffered I/O or another filesystem".into();
            return Error::Files { path: path.into(), why };
        }
        Error::io("opening", path)(error)
    })?;
    if direct {
        check_alignment(path, block_bytes, dio_align(path))?;
    }
    Ok(file)
}

/// The alignment of offsets and lengths that direct I/O on a file needs, in bytes, as statx tells it.
pub fn dio_align(path: &Path) -> u32 {
    match rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::DIOALIGN) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::DIOALIGN) => {
            found.stx_dio_offset_align.max(1)
        }
        _ => SECTOR,
    }
}

fn check_alignment(path: &Path, block: u32, needed: u32) -> Result {
    if block.is_multiple_of(needed) {
        return Ok(());
    }
    Err(Error::Alignment(format!(
        "{path:?} needs blocks aligned to {needed} bytes, and this load has blocks of {block}; take a multiple of {needed}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_below_the_alignment_is_refused_by_name() {
        assert!(check_alignment(Path::new("/f"), 4096, 512).is_ok());
        let said = check_alignment(Path::new("/f"), 512, 4096).unwrap_err().to_string();
        assert!(said.contains("aligned to 4096 bytes") && said.contains("blocks of 512"), "{said}");
    }

    #[test]
    fn files_made_anew_are_empty() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::planned(dir.path(), 2, 4096);
        std::fs::write(&files.paths[1], "old").unwrap();
        let mut job = Job { read_share: 0.0, ..Job::default() };
        job.open.recreate = true;
        open_all(&job, &files).unwrap();
        assert!(files.paths.iter().all(|path| std::fs::metadata(path).unwrap().len() == 0));
    }
}
