//! The files of a load: made by fsarena and removed again, or one that the user names.

use super::flags::Args;
use crate::failure::{Failure, usage};
use bytesize::ByteSize;
use fsarena_core::exit::ExitCode;
use fsarena_engine::{FileSpec, Files, LoadJob};
use fsarena_run::ScratchDir;
use fsarena_sys::dirs;
use rustix::fs::{CWD, RenameFlags};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Default size of a file, in bytes.
const SIZE: u64 = 1 << 30;

/// A directory that fsarena makes below the requested one.
pub struct Place {
    room: ScratchDir,
    /// The file that the user names, and whether it is there already.
    named: Option<(PathBuf, bool)>,
}

impl Place {
    /// Makes the directory. Refuses a `--file` that is not a regular file.
    pub fn open(args: &Args, job: &LoadJob) -> Result<Place, Failure> {
        let named = args.file.as_deref().map(named).transpose()?;
        let parent = match &args.file {
            Some(file) => file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            None => &args.dir,
        };
        let parent = directory(parent)?;
        let there = matches!(named, Some((_, true)));
        if there && args.size.is_some() {
            return usage("--size is for files that are made; one that is there has its own size");
        }
        if !there && !job.open.recreate {
            room(&parent, u64::from(args.nrfiles).saturating_mul(args.size.unwrap_or(SIZE)))?;
        }
        Ok(Place { named, ..Place::below(&parent)? })
    }

    /// A directory of our own below an existing one.
    pub fn below(parent: &Path) -> Result<Place, Failure> {
        Ok(Place { room: ScratchDir::make(&directory(parent)?, "fsarena-load")?, named: None })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        self.room.dir()
    }

    /// The files of the load, written and on the device.
    pub fn files(&self, args: &Args, job: &LoadJob) -> Result<Files, Failure> {
        let bytes = args.size.unwrap_or(SIZE);
        if job.open.recreate {
            return Ok(Files::planned(self.dir(), args.nrfiles, bytes));
        }
        let files = match &self.named {
            Some((path, true)) => Files::existing(vec![path.clone()])?,
            named => {
                let spec = FileSpec {
                    count: args.nrfiles,
                    bytes,
                    content: job.content,
                    seed: job.seed,
                    verify_block: job.verify.then_some(job.block_bytes),
                };
                let made = Files::prepare(self.dir(), &spec)?;
                match named {
                    Some((path, _)) => moved(&made.paths()[0], path)?,
                    None => made,
                }
            }
        };
        if args.invalidate {
            files.forget()?;
        }
        Ok(files)
    }

    /// Removes what fsarena made, but not the file that the user named.
    pub fn leave(self) -> Result<(), Failure> {
        Ok(self.room.clear()?)
    }
}

/// The file that the user names, and whether it is there. Anything but a regular file is refused.
fn named(path: &Path) -> Result<(PathBuf, bool), Failure> {
    let kind = match std::fs::metadata(path) {
        Ok(meta) => meta.file_type(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok((path.into(), false)),
        Err(error) => return Err(Failure::file(path)(error)),
    };
    if kind.is_file() {
        return Ok((path.into(), true));
    }
    let what = if kind.is_block_device() {
        "is a block device, and a load could destroy what is on it; `fsarena run engel --fs raw` measures the bare \
         device below an image that fsarena made"
    } else if kind.is_dir() {
        "is a directory; --dir makes files in it"
    } else {
        "is not a regular file"
    };
    Err(Failure::new(ExitCode::Refused, format!("refused: {} {what}", path.display())))
}

/// An existing directory, by its absolute path.
fn directory(path: &Path) -> Result<PathBuf, Failure> {
    let found = path.canonicalize().map_err(Failure::file(path))?;
    if !found.is_dir() {
        return usage(format!("{}: not a directory; --dir names where files are made", path.display()));
    }
    Ok(found)
}

fn room(dir: &Path, needed: u64) -> Result<(), Failure> {
    let free = dirs::free_bytes(dir)?;
    if free >= needed {
        return Ok(());
    }
    let (dir, needed, free) = (dir.display(), ByteSize(needed), ByteSize(free));
    let sizes = format!("too little room in {dir}: {needed} needed, {free} free");
    Err(Failure::new(ExitCode::Missing, format!("{sizes}; take a smaller --size, or another --dir")))
}

/// Gives a finished file the name that the user wants, where nothing has taken it meanwhile.
fn moved(from: &Path, to: &Path) -> Result<Files, Failure> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        .map_err(|error| Failure::file(to)(error.into()))?;
    Ok(Files::existing(vec![to.into()])?)
}
