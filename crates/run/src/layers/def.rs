//! The definition of a layer, and the start of the programs that serve FUSE layers.

use crate::executor::CommandLog;
use fsarena_core::event::{CommandEnd, CommandRecord};
use fsarena_load::workload::Room;
use fsarena_sys::process_output::{describe_output, make_memory_file, read_tail};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{Error, argv, argv::Argv, kernel::SysRoot, limits, mount};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A layer.
pub struct LayerDef {
    /// Its level of the factor `layer`, without the number.
    pub id: &'static str,
    /// The largest number in a level; 1 if the level has no number.
    pub max_count: u32,
    /// The kernel module, which is also the kernel's name of its filesystem.
    pub module: &'static str,
    /// The programs that it requires, each with its Debian package. The first one serves it.
    pub programs: &'static [(&'static str, &'static str)],
    /// The room that work through the layer takes on the filesystem below.
    pub room: fn(Room) -> Room,
    /// Mounts it. Returns the program that serves it, if any.
    pub mount: fn(&LayerSite, CommandLog) -> Result<Option<Child>, Error>,
    /// How it keeps prepared files unchanged; None for layers that do not copy files up.
    pub copy_up: Option<CopyUpDef>,
    /// A file of the layer whose fsync makes the program write what it holds in memory, because FUSE does not pass
    /// syncfs on. None for layers that hold nothing in memory.
    pub sync_file: Option<&'static str>,
}

/// How a layer keeps the files that were prepared for a task unchanged in directories below it, like the image of a
/// container, and copies them up when the task changes them. The argument of its functions is the directory of the
/// filesystem below.
pub struct CopyUpDef {
    /// Moves what was written through the layer to the directories below it. The layer must be unmounted.
    pub commit: fn(&Path) -> Result<(), Error>,
    /// The number and bytes of the files that were copied up since then and still exist.
    pub copied_up: fn(&Path) -> Result<(u64, u64), Error>,
}

/// The arguments of [`LayerDef::mount`].
pub struct LayerSite<'a> {
    /// The mounted filesystem, which has the directories of the layer.
    pub below: &'a Path,
    /// The mount point of the layer, in that filesystem.
    pub merged: PathBuf,
    /// The number in the level.
    pub count: u32,
    /// The commands that start the programs, in the order of the definition.
    pub programs: &'a [Vec<String>],
}

impl LayerSite<'_> {
    /// The command that starts a program, by its index in the definition.
    ///
    /// # Errors
    /// The request has no such program.
    pub fn command(&self, index: usize) -> Result<Argv, Error> {
        match self.programs.get(index).and_then(|words| words.split_first()) {
            Some((program, args)) => Ok(Argv::new(program).args(args)),
            None => {
                let why = format!("the request names no program {index}");
                Err(Error::Unusable { object: self.merged.clone(), why })
            }
        }
    }
}

/// How long fsarena waits for the program of a layer to mount it or to end.
pub const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes a directory and its missing parents.
///
/// # Errors
/// The filesystem refuses.
pub fn make_dirs(dir: &Path) -> Result<(), Error> {
    fsarena_sys::dirs::make_dirs(dir).map_err(Error::io("making", dir))
}

/// The number of bytes at the end of a program's standard error that an error message quotes.
const QUOTED_STDERR_BYTES: u64 = 1024;

/// Starts the program of a layer in the process group of this agent, with which it ends, and waits until it has mounted
/// the layer.
///
/// # Errors
/// The program ended, or mounted nothing in time, so fsarena killed it. The message quotes its last output.
pub fn start_fuse_program(site: &LayerSite, argv: &Argv, log: CommandLog) -> Result<Child, Error> {
    let mut stderr = make_memory_file("stderr").map_err(Error::io("making", "a file in memory"))?;
    let words = argv.words();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(argv::journal_variable()).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(stderr.try_clone().map_err(Error::io("making", "a file in memory"))?);
    let started = Instant::now();
    let mut child = limits::spawn(&mut command).map_err(Error::io("starting", &words[0]))?;
    let mut has_ended = false;
    let mounted = wait_until(Instant::now() + PROGRAM_TIMEOUT, Cancel::Never, || {
        has_ended = child.try_wait().is_ok_and(|status| status.is_some());
        (has_ended || mount::is_mounted(&SysRoot::host(), &site.merged).unwrap_or(false)).then_some(())
    });
    let ms = started.elapsed().as_millis() as u64;
    let argv = words.clone();
    let ended = CommandEnd::Started;
    log(CommandRecord { argv, times: 1, last: None, cwd: None, ended, ms, output: None });
    if mounted.is_ok() && !has_ended {
        return Ok(child);
    }
    let _ = child.kill().and_then(|()| child.wait());
    let output = read_tail(&mut stderr, QUOTED_STDERR_BYTES).unwrap_or_default();
    let why = format!("{} mounted nothing: {}", words[0], describe_output(&output));
    Err(Error::Unusable { object: site.merged.clone(), why })
}
