//! `fsarena`: arguments and wiring, nothing else.

mod args;
mod commands;
mod complete;
#[cfg(test)]
#[allow(dead_code)] // Another test program reads pages by it too.
mod doc_pages;
#[cfg(test)]
mod doc_tests;
mod explicit_flags;
mod failure;
mod flags;
mod output;
mod running;
mod terminal;

use args::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;
use fsarena_core::{exit::ExitCode, safe};
use fsarena_run::config::Config;
use fsarena_sys::program;
use rustix::fs::Mode;
use std::{io::Write, path::PathBuf};

fn main() -> std::process::ExitCode {
    keep_own_rights();
    fsarena_run::format_settings_by(flags::flag_text);
    fsarena_run::run_as_agent_if_requested();
    look_in_sbin();
    failure::report_panics();
    // Where a shell completes a line, this answers it and ends the process.
    CompleteEnv::with_factory(|| complete::command(Cli::command())).complete();
    let config = Config::load().and_then(|config| config.checked(&Cli::command()));
    let settings = config.as_ref().ok();
    output::choose_color(std::env::args_os(), settings.and_then(|config| config.get("color")));
    // Unwinding undoes what the command set up.
    let result = std::panic::catch_unwind(|| {
        let command = parsed(settings);
        match config.as_ref().err() {
            Some(error) if !command.needs_no_config() => Err(error.clone().into()),
            _ => command.run(),
        }
    });
    let signal = fsarena_sys::cancel::requested();
    let code = match result {
        Ok(Ok(code)) => code,
        // The reader of a pipe may close it early.
        Ok(Err(failure)) if failure.broken_pipe => ExitCode::Done,
        Ok(Err(failure)) => {
            match failure.exit_code() {
                ExitCode::Internal if signal.is_none() => failure::report_bug(&failure.to_string()),
                _ => drop(writeln!(std::io::stderr(), "fsarena: {failure}")),
            }
            failure.exit_code()
        }
        Err(panic) => failure::exit_code_of_panic(&*panic),
    };
    if let Some(signal) = signal {
        // fsarena has cleaned up: it ends by the signal, as its sender expects.
        fsarena_sys::cancel::die_by(signal);
    }
    std::process::ExitCode::from(code.code())
}

/// The command line. An error repeats the argument at fault: a long one, or one with control characters, is printed
/// shortened and made harmless.
fn parsed(config: Option<&Config>) -> Cli {
    let mut command = config.map_or_else(Cli::command, |config| config.defaults(Cli::command()));
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| hinted(error).format(&mut command)).unwrap_or_else(|error| {
        let text = error.render().to_string();
        let message = safe::message(&text);
        if !error.use_stderr() || message == text.trim_end() {
            error.exit();
        }
        drop(writeln!(std::io::stderr(), "{message}"));
        std::process::exit(error.exit_code());
    })
}

/// The error of a command line, with the way to time a program where its arguments stand without `--`: `run git clone x`.
fn hinted(mut error: clap::Error) -> clap::Error {
    let words: Vec<String> = std::env::args().collect();
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_wrong =
        |word: &String| word == wrong || (wrong.starts_with('-') && word.starts_with(wrong.as_str()));
    let at = words.iter().position(is_wrong).filter(|at| *at > 2 && words[1] == "run");
    let program = at.map(|at| at - 1).filter(|at| program::find(&words[*at]).is_some());
    if let Some(at) = program.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        let tip = format!("to time a program, write it after `--`: fsarena run -- {}", words[at..].join(" "));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Whatever the umask, this user can read and write what fsarena makes.
fn keep_own_rights() {
    let umask = rustix::process::umask(Mode::RWXU | Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask - Mode::RWXU);
}

/// Adds the directories of mkfs, losetup and others to `PATH`, which lacks them for users and for root after `su`. An unset
/// or empty `PATH` becomes what a login shell has: a shell would look in the current directory, which is no place for mkfs.
fn look_in_sbin() {
    let path = std::env::var_os("PATH").filter(|path| !path.is_empty());
    let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
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

/// Reports that no user is found, to the only caller that is linked: `std::env::home_dir`, which clap_complete calls to
/// complete `~/` and which asks for the user where HOME is unset.
///
/// In a static program glibc's own function loads the libnss_*.so of this machine, which can crash it.
#[cfg(target_feature = "crt-static")]
#[unsafe(no_mangle)]
extern "C" fn getpwuid_r(
    _uid: u32,
    _entry: *mut std::ffi::c_void,
    _buffer: *mut std::ffi::c_char,
    _size: usize,
    _found: *mut *mut std::ffi::c_void,
) -> std::ffi::c_int {
    // ENOENT: the caller then reads none of what it passed.
    2
}
