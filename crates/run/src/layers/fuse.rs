//! A FUSE filesystem that passes every request on: what a filesystem in user space costs at least.

use super::def::{LayerDef, LayerSite, PROGRAM_TIMEOUT, make_dirs};
use crate::executor::Log;
use fsarena_core::event::CommandRecord;
use fsarena_sys::process_output::{or_printed_nothing, tail};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{Error, argv, kernel::SysRoot, limits, mount};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// The layer: bindfs, which has one thread and no cache of its own.
pub const LAYER: LayerDef =
    LayerDef { id: "fuse", most: 1, module: "fuse", program: Some(("bindfs", "bindfs")), mount };

/// How many bytes at the end of the program's standard error a failure quotes.
const LAST_BYTES: u64 = 1024;

/// Starts bindfs over a directory of the filesystem, and waits until it is mounted.
fn mount(site: &LayerSite, log: Log) -> Result<Option<Child>, Error> {
    let files = site.below.join("files");
    make_dirs(&files)?;
    let Some((program, args)) = site.program.split_first() else {
        return Err(Error::Unfit { what: "bindfs".into(), why: "the request names no program".into() });
    };
    let mut errors = argv::memory_file("stderr").map_err(Error::io("making", "a file in memory"))?;
    // In the foreground it stays in the process group of this agent, and ends with it.
    let mut command = Command::new(program);
    command.args(args).arg("-f").arg(&files).arg(&site.merged).envs(argv::mark());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(Error::io("making", "a file in memory"))?);
    let begun = Instant::now();
    let mut child = limits::spawn(&mut command).map_err(Error::io("starting", program))?;
    let mut ended = false;
    let mounted = wait_until(Instant::now() + PROGRAM_TIMEOUT, Cancel::Never, || {
        ended = child.try_wait().is_ok_and(|status| status.is_some());
        (ended || mount::is_mounted(&SysRoot::host(), &site.merged).unwrap_or(false)).then_some(())
    });
    let words = site.program.iter().cloned().chain(["-f".into()]);
    let argv = words.chain([&files, &site.merged].map(|path| path.display().to_string())).collect();
    let ms = begun.elapsed().as_millis() as u64;
    log(CommandRecord { argv, times: 1, last: None, cwd: None, ended: "started".into(), ms, output: None });
    if mounted.is_ok() && !ended {
        return Ok(Some(child));
    }
    let _ = child.kill().and_then(|()| child.wait());
    let said = tail(&mut errors, LAST_BYTES).unwrap_or_default();
    let why = format!("bindfs mounted nothing: {}", or_printed_nothing(&said));
    Err(Error::Unfit { what: site.merged.clone(), why })
}
