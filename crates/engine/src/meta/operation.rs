//! The metadata operations, one system call each (create and open are followed by close).

use super::super::error::{Error, Result};
use rustix::fs::{Dir, Mode, OFlags, XattrFlags};
use rustix::{fd::OwnedFd, io::Errno};
use serde::Serialize;
use std::{ffi::CStr, mem::MaybeUninit};

/// The attribute that xattr operations set and get.
const ATTRIBUTE: &CStr = c"user.fsarena";
/// Its value: short enough to fit into any inode that has room for some.
const VALUE: &[u8; 16] = b"0123456789abcdef";

/// A metadata operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Make a file that is not there, write its content if it is to have any, and close it.
    Create,
    /// Open a file for reading, and close it.
    Open,
    /// Open a file, read what `create` wrote to it, and close it.
    Read,
    /// `stat` a file.
    Stat,
    /// `stat` a directory.
    StatDir,
    /// List the whole directory that a file is in.
    Readdir,
    /// Give a file another name in its directory; the phases after it use that one.
    Rename,
    /// Make a second name of a file.
    Link,
    /// Make a symbolic link to a file.
    Symlink,
    /// Change the mode of a file.
    Chmod,
    /// Set an extended attribute of 16 bytes.
    Setxattr,
    /// Get that attribute.
    Getxattr,
    /// Remove a file.
    Unlink,
    /// Make a directory.
    Mkdir,
    /// Remove a directory.
    Rmdir,
}

/// The names that one operation needs.
pub struct Names<'a> {
    /// The name itself, an absolute path.
    pub name: &'a CStr,
    /// A second one beside it.
    pub second: &'a CStr,
    /// The directory of both.
    pub directory: &'a CStr,
    /// What a file holds.
    pub content: &'a [u8],
}

impl Operation {
    /// Every operation.
    pub const ALL: [Operation; 15] = {
        use Operation::*;
        [
            Create, Open, Read, Stat, StatDir, Readdir, Rename, Link, Symlink, Chmod, Setxattr, Getxattr,
            Unlink, Mkdir, Rmdir,
        ]
    };

    /// Their names, in that order.
    const NAMES: [&'static str; Operation::ALL.len()] = [
        "create", "open", "read", "stat", "stat_dir", "readdir", "rename", "link", "symlink", "chmod",
        "setxattr", "getxattr", "unlink", "mkdir", "rmdir",
    ];

    /// Its name in readings, jobs and errors.
    pub const fn name(self) -> &'static str {
        Operation::NAMES[self as usize]
    }

    /// Does it.
    ///
    /// # Errors
    /// The error of the system call.
    #[inline(always)]
    pub fn perform(self, names: &Names) -> Result<(), Errno> {
        let file_mode = Mode::from_raw_mode(0o644);
        match self {
            Operation::Create => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let file = rustix::fs::open(names.name, flags, file_mode)?;
                if names.content.is_empty() { Ok(()) } else { write(&file, names.content) }
            }
            Operation::Open => {
                rustix::fs::open(names.name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(drop)
            }
            Operation::Read => read(names.name, names.content.len()),
            Operation::Stat | Operation::StatDir => rustix::fs::stat(names.name).map(drop),
            Operation::Readdir => list(names.directory),
            Operation::Rename => rustix::fs::rename(names.name, names.second),
            Operation::Link => rustix::fs::link(names.name, names.second),
            Operation::Symlink => rustix::fs::symlink(names.name, names.second),
            Operation::Chmod => rustix::fs::chmod(names.name, Mode::from_raw_mode(0o600)),
            Operation::Setxattr => rustix::fs::setxattr(names.name, ATTRIBUTE, VALUE, XattrFlags::empty()),
            Operation::Getxattr => rustix::fs::getxattr(names.name, ATTRIBUTE, &mut [0; 64][..]).map(drop),
            Operation::Unlink => rustix::fs::unlink(names.name),
            Operation::Mkdir => rustix::fs::mkdir(names.name, Mode::from_raw_mode(0o755)),
            Operation::Rmdir => rustix::fs::rmdir(names.name),
        }
    }
}

fn write(file: &OwnedFd, mut content: &[u8]) -> Result<(), Errno> {
    while !content.is_empty() {
        content = &content[rustix::io::write(file, content)?..];
    }
    Ok(())
}

/// Opens a file and reads what `create` wrote to it, as mdtest does: nothing of an empty one.
fn read(name: &CStr, bytes: usize) -> Result<(), Errno> {
    let file = rustix::fs::open(name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); 16 << 10];
    let mut left = bytes;
    while left > 0 {
        match rustix::io::read(&file, &mut buffer)?.0.len() {
            // The file is shorter than what was written to it.
            0 => return Err(Errno::NODATA),
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

fn list(directory: &CStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut entries = Dir::new(rustix::fs::open(directory, flags, Mode::empty())?)?;
    entries.try_for_each(|entry| entry.map(drop))
}

/// Whether each phase finds what it needs: files between `create` and `unlink`, directories between `mkdir`
/// and `rmdir`, and no name is made twice.
///
/// # Errors
/// [`Error::Job`] naming the phase that does not fit.
pub fn check_order(phases: &[Operation]) -> Result {
    let (mut files, mut dirs, mut attributes) = (false, false, false);
    let mut made = vec![];
    for &phase in phases {
        let missing = match phase {
            Operation::Create if files => Some("names that an `unlink` removed"),
            Operation::Mkdir if dirs => Some("names that an `rmdir` removed"),
            Operation::Rmdir | Operation::StatDir if !dirs => Some("a `mkdir` before it"),
            Operation::Getxattr if files && !attributes => Some("a `setxattr` before it"),
            Operation::Link | Operation::Symlink if made.contains(&phase) => Some("to be there once only"),
            Operation::Create | Operation::Mkdir | Operation::Rmdir | Operation::StatDir => None,
            _ if !files => Some("a `create` before it"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(Error::Job(format!("the phase `{}` needs {missing}", phase.name())));
        }
        match phase {
            Operation::Create => files = true,
            Operation::Unlink => (files, attributes) = (false, false),
            Operation::Mkdir => dirs = true,
            Operation::Rmdir => dirs = false,
            Operation::Setxattr => attributes = true,
            _ => {}
        }
        made.push(phase);
    }
    Ok(())
}

/// Makes the error of an operation that failed on a name.
#[cold]
pub fn failed(operation: Operation, names: &Names, source: Errno) -> Error {
    let path = std::path::PathBuf::from(names.name.to_string_lossy().into_owned());
    Error::Io { doing: operation.name(), path, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::Operation::*;
    use super::*;

    #[test]
    fn operations_have_the_names_of_jobs() {
        for operation in Operation::ALL {
            assert_eq!(serde_json::to_value(operation).unwrap(), operation.name());
        }
    }

    #[test]
    fn phases_must_find_what_they_need() {
        assert!(check_order(&[Create, Stat, Unlink, Create, Unlink, Mkdir, Rmdir]).is_ok());
        let said = |phases: &[Operation]| check_order(phases).unwrap_err().to_string();
        assert!(said(&[Stat]).contains("`stat` needs a `create`"));
        assert!(said(&[Create, Unlink, Stat]).contains("`stat` needs a `create`"));
        assert!(said(&[Create, Create]).contains("removed"));
        assert!(said(&[Rmdir]).contains("mkdir"));
        assert!(said(&[Create, Getxattr]).contains("setxattr"));
        assert!(said(&[Create, Link, Link]).contains("once"));
    }
}
