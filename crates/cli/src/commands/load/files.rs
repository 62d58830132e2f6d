//! The files of a load: files that fsarena makes and removes again, or a file that the user names.

use super::flags::Args;
use crate::failure::{Failure, usage_error};
use bytesize::ByteSize;
use fsarena_core::exit::ExitCode;
use fsarena_engine::{FileSpec, Files, LoadJob};
use fsarena_run::ScratchDir;
use fsarena_sys::{dirs, none_if_missing};
use rustix::fs::{CWD, RenameFlags};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Default size of a file, in bytes.
const DEFAULT_FILE_BYTES: u64 = 1 << 30;

/// Where the files of a load are.
pub struct LoadFiles {
    /// The temporary directory in which fsarena makes files. A new file of `--file` is renamed out of it.
    pub scratch: ScratchDir,
    /// The file that the user names with `--file`, and whether it exists; None without the flag.
    named_file: Option<(PathBuf, bool)>,
}

impl LoadFiles {
    /// Makes the temporary directory. Refuses a `--file` that is not a regular file.
    pub fn make(args: &Args, job: &LoadJob) -> Result<LoadFiles, Failure> {
        let named_file = args.file.as_deref().map(check_named_file).transpose()?;
        let parent = match &args.file {
            Some(file) => file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            None => &args.dir,
        };
        let parent = existing_directory(parent)?;
        let exists = matches!(named_file, Some((_, true)));
        if exists && args.size.is_some() {
            return usage_error("--size is for files that are made; one that is there has its own size");
        }
        if !exists && !job.open.recreate {
            check_free_space(&parent, u64::from(args.nrfiles).saturating_mul(args.size.unwrap_or(DEFAULT_FILE_BYTES)))?;
        }
        Ok(LoadFiles { scratch: make_scratch_dir(&parent)?, named_file })
    }

    /// Makes the files of the load, filled and synced; with `--create-on-open` only their names.
    pub fn make_files(&self, args: &Args, job: &LoadJob) -> Result<Files, Failure> {
        let bytes = args.size.unwrap_or(DEFAULT_FILE_BYTES);
        if job.open.recreate {
            return Ok(Files::planned(self.scratch.dir(), args.nrfiles, bytes));
        }
        let files = match &self.named_file {
            Some((path, true)) => Files::existing(vec![path.clone()])?,
            new_file => {
                let spec = FileSpec {
                    count: args.nrfiles,
                    bytes_per_file: bytes,
                    content: job.content,
                    seed: job.seed,
                    verified_block_bytes: job.verify.then_some(job.block_bytes),
                };
                let prepared = Files::prepare(self.scratch.dir(), &spec)?;
                match new_file {
                    Some((path, _)) => rename_file(&prepared.paths()[0], path)?,
                    None => prepared,
                }
            }
        };
        if args.invalidate {
            files.drop_cached_pages()?;
        }
        Ok(files)
    }
}

/// The file that the user names, and whether it exists. Refuses anything but a regular file.
fn check_named_file(path: &Path) -> Result<(PathBuf, bool), Failure> {
    let meta = none_if_missing(std::fs::metadata(path)).map_err(Failure::for_path(path))?;
    let Some(file_type) = meta.map(|meta| meta.file_type()) else { return Ok((path.into(), false)) };
    if file_type.is_file() {
        return Ok((path.into(), true));
    }
    let objection = if file_type.is_block_device() {
        "is a block device, and a load could destroy what is on it; `fsarena run engel --fs raw` measures the bare \
         device below an image that fsarena made"
    } else if file_type.is_dir() {
        "is a directory; --dir makes files in it"
    } else {
        "is not a regular file"
    };
    Err(Failure::new(ExitCode::Refused, format!("refused: {} {objection}", path.display())))
}

/// Makes a temporary directory below an existing one.
pub fn make_scratch_dir(parent: &Path) -> Result<ScratchDir, Failure> {
    Ok(ScratchDir::make(&existing_directory(parent)?, "fsarena-load")?)
}

/// The absolute path of an existing directory.
fn existing_directory(path: &Path) -> Result<PathBuf, Failure> {
    let directory = path.canonicalize().map_err(Failure::for_path(path))?;
    if !directory.is_dir() {
        return usage_error(format!("{}: not a directory; --dir names where files are made", path.display()));
    }
    Ok(directory)
}

/// Checks that the filesystem of a directory has `needed_bytes` free.
fn check_free_space(dir: &Path, needed_bytes: u64) -> Result<(), Failure> {
    let free_bytes = dirs::free_bytes(dir)?;
    if free_bytes >= needed_bytes {
        return Ok(());
    }
    let (dir, needed, free) = (dir.display(), ByteSize(needed_bytes), ByteSize(free_bytes));
    let shortage = format!("too little room in {dir}: {needed} needed, {free} free");
    Err(Failure::new(ExitCode::Missing, format!("{shortage}; take a smaller --size, or another --dir")))
}

/// Renames a finished file to the name that the user gave. Fails if a file of that name exists by now.
fn rename_file(old: &Path, new: &Path) -> Result<Files, Failure> {
    rustix::fs::renameat_with(CWD, old, CWD, new, RenameFlags::NOREPLACE)
        .map_err(|error| Failure::for_path(new)(error.into()))?;
    Ok(Files::existing(vec![new.into()])?)
}
