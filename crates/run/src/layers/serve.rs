//! Starts the programs that serve FUSE filesystems.

use super::def::{LayerSite, PROGRAM_TIMEOUT};
use crate::executor::Log;
use fsarena_core::event::{CommandEnd, CommandRecord};
use fsarena_sys::process_output::{or_printed_nothing, tail};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{Error, argv, argv::Argv, kernel::SysRoot, limits, mount};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How many bytes at the end of the program's standard error a failure quotes.
const LAST_BYTES: u64 = 1024;

/// Starts the program of a layer in the foreground, where it stays in the process group of this agent and ends with it, and
/// waits until it has mounted the layer.
///
/// # Errors
/// If it ends, or has mounted nothing in time; then it is killed. The message quotes its last output.
pub fn serve(site: &LayerSite, argv: &Argv, log: Log) -> Result<Child, Error> {
    let mut errors = argv::memory_file("stderr").map_err(Error::io("making", "a file in memory"))?;
    let words = argv.words();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(argv::mark()).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(Error::io("making", "a file in memory"))?);
    let begun = Instant::now();
    let mut child = limits::spawn(&mut command).map_err(Error::io("starting", &words[0]))?;
    let mut ended = false;
    let mounted = wait_until(Instant::now() + PROGRAM_TIMEOUT, Cancel::Never, || {
        ended = child.try_wait().is_ok_and(|status| status.is_some());
        (ended || mount::is_mounted(&SysRoot::host(), &site.merged).unwrap_or(false)).then_some(())
    });
    let ms = begun.elapsed().as_millis() as u64;
    let argv = words.clone();
    log(CommandRecord {
        argv,
        times: 1,
        last: None,
        cwd: None,
        ended: CommandEnd::Started,
        ms,
        output: None,
    });
    if mounted.is_ok() && !ended {
        return Ok(child);
    }
    let _ = child.kill().and_then(|()| child.wait());
    let said = tail(&mut errors, LAST_BYTES).unwrap_or_default();
    let why = format!("{} mounted nothing: {}", words[0], or_printed_nothing(&said));
    Err(Error::Unfit { what: site.merged.clone(), why })
}
