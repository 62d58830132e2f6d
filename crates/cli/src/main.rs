//! `fsarena`: arguments and wiring, nothing else.

mod args;
#[cfg(test)]
mod book;
mod commands;
mod complete;
mod failure;
mod flags;
mod listing;
mod progress;
mod running;
mod terminal;

use clap::Parser;
use clap_complete::CompleteEnv;
use fsarena_core::exit::ExitCode;
use fsarena_core::safe;
use rustix::fs::Mode;
use std::io::Write;
use std::path::PathBuf;

fn main() -> std::process::ExitCode {
    keep_own_rights();
    fsarena_run::take_over();
    look_in_sbin();
    failure::report_panics();
    // Where a shell completes a line, this answers it and ends the process.
    CompleteEnv::with_factory(complete::command).complete();
    terminal::choose_color(std::env::args_os());
    // Unwinding undoes what the command set up.
    let result = std::panic::catch_unwind(|| parsed().run());
    let signal = fsarena_sys::cancel::requested();
    let code = match result {
        Ok(Ok(code)) => code,
        // The reader of a pipe may close it early.
        Ok(Err(failure)) if failure.is_broken_pipe() => ExitCode::Done,
        Ok(Err(failure)) => {
            match failure.exit_code() {
                ExitCode::Internal if signal.is_none() => failure::report_bug(&failure.to_string()),
                _ => drop(writeln!(std::io::stderr(), "fsarena: {failure}")),
            }
            failure.exit_code()
        }
        Err(_) => ExitCode::Internal,
    };
    if let Some(signal) = signal {
        // fsarena has cleaned up: it ends by the signal, as its sender expects.
        fsarena_sys::cancel::die_by(signal);
    }
    std::process::ExitCode::from(code.code())
}

/// The command line. An error repeats the argument at fault: a long one, or one with control characters, is printed
/// shortened and made harmless.
fn parsed() -> args::Cli {
    args::Cli::try_parse().unwrap_or_else(|error| {
        let text = error.render().to_string();
        let message = safe::message(&text);
        if !error.use_stderr() || message == text.trim_end() {
            error.exit();
        }
        drop(writeln!(std::io::stderr(), "{message}"));
        std::process::exit(error.exit_code());
    })
}

/// Whatever the umask, this user can read and write what fsarena makes.
fn keep_own_rights() {
    let umask = rustix::process::umask(Mode::RWXU | Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask - Mode::RWXU);
}

/// Adds the directories of mkfs, losetup and others to `PATH`, which lacks them for users and for root after `su`.
fn look_in_sbin() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for dir in ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from) {
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    if let Ok(path) = std::env::join_paths(dirs) {
        // SAFETY: this is the only thread, so no other reads the environment.
        unsafe { std::env::set_var("PATH", path) };
    }
}
