//! The definition of a layer, and what layers have in common.

use crate::executor::Log;
use fsarena_load::workload::Room;
use fsarena_sys::{Error, argv::Argv};
use std::path::{Path, PathBuf};
use std::{process::Child, time::Duration};

/// A layer.
pub struct LayerDef {
    /// The level of the factor, without the number behind it.
    pub id: &'static str,
    /// How many directories it can be made of; 1 if its level has no number.
    pub most: u32,
    /// The kernel module, which is the kernel's name of its filesystem too.
    pub module: &'static str,
    /// The programs that serve and make it, each with its Debian package. The first one serves it.
    pub programs: &'static [(&'static str, &'static str)],
    /// The room that work through the layer takes on the filesystem below.
    pub room: fn(Room) -> Room,
    /// Mounts it. Returns the program that serves it, if there is one.
    pub mount: fn(&LayerSite, Log) -> Result<Option<Child>, Error>,
    /// The place for the files that are prepared for a task, from which a change copies them up. None if the layer has none.
    pub image: Option<ImageDef>,
    /// A file of the layer whose fsync has the program write what it holds in memory: FUSE does not pass syncfs on. None if
    /// nothing is held there.
    pub sync_file: Option<&'static str>,
}

/// The part of a layer that keeps prepared files unchanged, as the image of a container. Its functions get the directory of
/// the filesystem below.
pub struct ImageDef {
    /// Adds what was written through the layer. The layer is not mounted.
    pub commit: fn(&Path) -> Result<(), Error>,
    /// The number of files that were copied up since then and are still there, and their bytes.
    pub copied_up: fn(&Path) -> Result<(u64, u64), Error>,
}

/// Where a layer is mounted, and how.
pub struct LayerSite<'a> {
    /// The mounted filesystem, with the directories that the layer is made of.
    pub below: &'a Path,
    /// The directory in it that the layer is mounted on.
    pub merged: PathBuf,
    /// The number behind the level.
    pub count: u32,
    /// The commands that start the programs, in the order of the definition.
    pub programs: &'a [Vec<String>],
}

impl LayerSite<'_> {
    /// The command that starts one of the programs, by its place in the definition.
    ///
    /// # Errors
    /// If the request has no such program.
    pub fn command(&self, index: usize) -> Result<Argv, Error> {
        match self.programs.get(index).and_then(|words| words.split_first()) {
            Some((program, args)) => Ok(Argv::new(program).args(args)),
            None => {
                let why = format!("the request names no program {index}");
                Err(Error::Unfit { what: self.merged.clone(), why })
            }
        }
    }
}

/// How long fsarena waits for the program of a layer to mount it or to end.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes a directory and those above it.
///
/// # Errors
/// Where the filesystem refuses.
pub fn make_dirs(dir: &Path) -> Result<(), Error> {
    fsarena_sys::dirs::make_dirs(dir).map_err(Error::io("making", dir))
}
