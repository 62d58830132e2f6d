//! `fsarena recover`: removes the mounts, devices and files that a killed fsarena left.

use crate::failure::print_message;
use crate::failure::{CommandResult, Failure};
use fsarena_core::{exit::ExitCode, number::plural};
use fsarena_sys::{kernel::SysRoot, undo};
use std::io::Write;

/// Clean up after a killed fsarena: mounts, loop devices, images
///
/// Every run records what it sets up before it does so. fsarena undoes what ended runs left: it ends their processes,
/// unmounts, detaches loop devices, and removes images. It leaves runs in progress alone, also in other containers, and runs
/// of other hosts that share the state directory. It touches nothing else, and it is safe to run it twice.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Also undo what runs of this host left; only if that host no longer exists, or this machine had its name
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// Recovers, and prints what it undid.
pub fn run(args: Args) -> CommandResult {
    let state_dir = undo::state_dir();
    let show = &mut print_message;
    let recovered = undo::recover(&SysRoot::host(), &state_dir, args.host.as_deref(), show)?;
    let undo::RecoveryCounts { undone, failed, still_running: running, of_other_hosts } = recovered;
    let _ = writeln!(std::io::stdout(), "{undone} undone, {failed} failed, {running} still running");
    if failed > 0 {
        let message = "cannot undo everything: free what the messages above name, then run `fsarena recover` again";
        return Err(Failure::new(ExitCode::Missing, message));
    }
    if of_other_hosts > 0 {
        let journals = plural(of_other_hosts, "journal");
        let message = format!("{journals} of other hosts: see above how to recover them");
        return Err(Failure::new(ExitCode::Refused, message));
    }
    Ok(ExitCode::Done)
}
