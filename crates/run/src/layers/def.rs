//! The definition of a layer, and what layers have in common.

use crate::executor::Log;
use fsarena_sys::Error;
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
    /// The program that serves it, and the Debian package of that program.
    pub program: Option<(&'static str, &'static str)>,
    /// Mounts it. Returns the program that serves it, if there is one.
    pub mount: fn(&LayerSite, Log) -> Result<Option<Child>, Error>,
}

/// Where a layer is mounted, and how.
pub struct LayerSite<'a> {
    /// The mounted filesystem, with the directories that the layer is made of.
    pub below: &'a Path,
    /// The directory in it that the layer is mounted on.
    pub merged: PathBuf,
    /// The number behind the level.
    pub count: u32,
    /// The command that starts the program.
    pub program: &'a [String],
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
