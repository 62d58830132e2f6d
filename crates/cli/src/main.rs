//! `fsarena`: arguments and wiring, nothing else.

mod args;
mod commands;
mod failure;
mod flags;
mod listing;
mod progress;
mod running;
mod terminal;

use clap::Parser;
use fsarena_core::exit::ExitCode;
use std::io::Write;
use std::path::PathBuf;

fn main() -> std::process::ExitCode {
    fsarena_run::take_over();
    look_in_sbin();
    let result = args::Cli::parse().run();
    let signal = fsarena_sys::cancel::requested();
    let code = match result {
        Ok(code) => code,
        // Whoever closed our output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::Done,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "fsarena: {failure}");
            failure.exit_code()
        }
    };
    if let Some(signal) = signal {
        // Everything is cleaned up: now end as whoever sent the signal expects.
        fsarena_sys::cancel::die_by(signal);
    }
    std::process::ExitCode::from(code.code())
}

/// mkfs, losetup and their like lie where the `PATH` of an ordinary user, or of root after `su`, does not
/// look.
fn look_in_sbin() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for dir in ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    if let Ok(path) = std::env::join_paths(dirs) {
        // SAFETY: nothing has started a thread yet that could read the environment.
        unsafe { std::env::set_var("PATH", path) };
    }
}
