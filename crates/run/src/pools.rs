//! Pools of filesystems ([`PoolDef`]): opens, closes and checks the pool in a guest, with the program of the filesystem
//! on the source disk.

use crate::executor::CommandLog;
use crate::packed_programs::{self, SOURCE_DIR};
use fsarena_fs::{def::PoolDef, filesystems};
use fsarena_sys::{Error, argv::Argv};
use rustix::fs::{CWD, FileType, Mode};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The pool of a mounted filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Pool {
    def: PoolDef,
    program: &'static str,
}

impl Pool {
    /// The pool of a filesystem, by the kernel's name of the filesystem; None for a filesystem without pools.
    pub fn of(fs_type: &str) -> Option<Pool> {
        let def = filesystems::find(fs_type).ok()?;
        Some(Pool { def: def.pool?, program: def.mkfs })
    }

    /// The source that a mount of the pool names.
    pub fn source(&self) -> &'static Path {
        Path::new(self.def.name)
    }

    /// Makes the device node that the program expects for a device, and returns its path.
    ///
    /// # Errors
    /// The device is missing, or the node cannot be made, for instance because it exists already.
    pub fn make_node(&self, device: &Path) -> Result<PathBuf, Error> {
        let node = Path::new(self.def.node);
        let rdev = device.metadata().map_err(Error::io("looking at", device))?.rdev();
        let made = rustix::fs::mknodat(CWD, node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, rdev);
        made.map_err(|error| Error::io("making", node)(error.into()))?;
        Ok(node.into())
    }

    /// Opens the pool.
    ///
    /// # Errors
    /// Its program fails.
    pub fn open(&self, log: CommandLog) -> Result<(), Error> {
        self.run_program(self.def.open, log).map(drop)
    }

    /// Closes the pool, so that the kernel drops its cache.
    ///
    /// # Errors
    /// The pool is in use.
    pub fn close(&self, log: CommandLog) -> Result<(), Error> {
        self.run_program(self.def.close, log).map(drop)
    }

    /// Makes the pool write now what its background threads would write during the next task.
    ///
    /// # Errors
    /// Its program fails.
    pub fn sync(&self, log: CommandLog) -> Result<(), Error> {
        self.run_program(self.def.sync, log).map(drop)
    }

    /// Checks that the open pool has no known error.
    ///
    /// # Errors
    /// The program of the pool fails, or reports an error of the pool; the message is that report.
    pub fn check_health(&self, log: CommandLog) -> Result<(), Error> {
        let (args, healthy) = self.def.health;
        let printed = self.run_program(args, log)?;
        if printed.contains(healthy) {
            return Ok(());
        }
        Err(Error::Unusable { object: format!("the pool {}", self.def.name).into(), why: printed })
    }

    /// Limits the filesystem's own cache, which no control group limits, to `bytes` or the least that the kernel
    /// accepts.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn limit_cache(&self, bytes: u64) -> Result<(), Error> {
        let (path, min_bytes) = self.def.cache_limit;
        std::fs::write(path, bytes.max(min_bytes).to_string()).map_err(Error::io("writing", path))
    }

    /// Runs the program of the pool with these arguments, and returns its standard output.
    fn run_program(&self, args: &[&str], log: CommandLog) -> Result<String, Error> {
        let argv: Argv = packed_programs::packed_command(Path::new(SOURCE_DIR), self.program).args(args);
        Ok(argv.run_checked(log)?.stdout)
    }
}
