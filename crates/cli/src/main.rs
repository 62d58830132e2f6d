//! The program `fsarena`: prepares the process, parses the command line, runs the command and sets the exit code.

mod args;
mod commands;
mod complete;
#[cfg(test)]
#[allow(dead_code)] // The integration tests use its other functions.
mod doc_pages;
#[cfg(test)]
mod doc_tests;
mod failure;
mod flags;
mod output;
mod terminal;

use args::Cli;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches};
use clap_complete::CompleteEnv;
use commands::load::fio_options;
use flags::ExitStyle;
use fsarena_core::{escape, exit::ExitCode};
use fsarena_run::config::Config;
use fsarena_sys::program;
use rustix::fs::Mode;
use std::path::PathBuf;

fn main() -> std::process::ExitCode {
    clear_owner_bits_of_umask();
    fsarena_run::format_settings_by(flags::format_flag);
    fsarena_run::run_as_agent_if_requested();
    add_sbin_to_path();
    failure::install_panic_hook();
    // If a shell started fsarena to complete a command line, this prints the completions and ends the process.
    CompleteEnv::with_factory(|| complete::add_completers(Cli::command())).complete();
    let config = Config::load().and_then(|config| config.check_against(&Cli::command()));
    let settings = config.as_ref().ok();
    output::apply_color_choice(std::env::args_os(), settings.and_then(|config| config.get("color")));
    let style = ExitStyle::from_args(std::env::args_os());
    // A panic must not end the process before its unwinding has removed what the command set up.
    let result = std::panic::catch_unwind(|| {
        let command = parse_command_line(settings, style);
        match config.as_ref().err() {
            Some(error) if !command.works_without_config() => Err(error.clone().into()),
            _ => command.run(),
        }
    });
    let signal = fsarena_sys::cancel::received_signal();
    let code = match result {
        Ok(Ok(code)) => code,
        // The reader of a pipe may close it early. Nothing was found out about a commit then.
        Ok(Err(failure)) if failure.broken_pipe && style == ExitStyle::Fsarena => ExitCode::Done,
        Ok(Err(failure)) => {
            match failure.exit_code() {
                ExitCode::Internal if signal.is_none() => failure::report_bug(&failure.to_string()),
                _ => crate::failure::print_message(&format!("fsarena: {failure}")),
            }
            failure.exit_code()
        }
        Err(panic) => failure::exit_code_of_panic(&*panic),
    };
    if let Some(signal) = signal {
        // After the clean-up fsarena ends by the signal, so that the parent process sees that.
        fsarena_sys::cancel::die_by_signal(signal);
    }
    std::process::ExitCode::from(style.exit_status(code))
}

/// Parses the command line, with the settings of the config file as defaults. Prints help or a usage error and ends the
/// process if clap requires that.
///
/// An error quotes the wrong argument. If that is long or has control characters, the message is shortened and escaped.
fn parse_command_line(config: Option<&Config>, style: ExitStyle) -> Cli {
    let mut command = config.map_or_else(Cli::command, |config| config.set_defaults(Cli::command()));
    let matches = command.try_get_matches_from_mut(std::env::args_os());
    let error = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => return cli,
        Err(error) => with_program_hint(error).format(&mut command),
    };
    let text = error.render().to_string();
    let message = escape::message(&text);
    if !error.use_stderr() {
        error.exit();
    }
    if message == text.trim_end() {
        drop(error.print());
    } else {
        crate::failure::print_message(&message);
    }
    std::process::exit(style.exit_status(ExitCode::Usage).into());
}

/// Adds a hint to the error of a command line like `run git clone x`: to time a program, write it after `--`. For `load`,
/// names what replaces an option of fio.
fn with_program_hint(mut error: clap::Error) -> clap::Error {
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let Some(ContextValue::String(wrong_arg)) = error.get(ContextKind::InvalidArg) else { return error };
    if args.get(1).is_some_and(|word| word == "load") {
        if let Some(tip) = fio_advice(&error, wrong_arg) {
            error.remove(ContextKind::SuggestedArg);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        return error;
    }
    let is_wrong =
        |arg: &String| arg == wrong_arg || (wrong_arg.starts_with('-') && arg.starts_with(wrong_arg.as_str()));
    let Some(wrong_index) = args.iter().position(is_wrong) else { return error };
    if wrong_index > 2
        && args[1] == "run"
        && program::find(&args[wrong_index - 1]).is_some()
        && error.kind() == ErrorKind::UnknownArgument
    {
        let command = args[wrong_index - 1..].join(" ");
        let tip = format!("to time a program, write it after `--`: fsarena run -- {command}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// What to use instead of an argument of fio that `fsarena load` lacks; None if `wrong_arg` is not one of fio.
fn fio_advice(error: &clap::Error, wrong_arg: &str) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidValue)) {
        (ErrorKind::UnknownArgument, _) if wrong_arg.ends_with(".fio") => {
            Some(format!("the real fio runs job files, on fresh filesystems: fsarena run {wrong_arg} --fs ext4"))
        }
        (ErrorKind::UnknownArgument, _) => fio_options::option_advice(wrong_arg),
        (ErrorKind::InvalidValue, Some(ContextValue::String(engine))) if wrong_arg.starts_with("--ioengine") => {
            fio_options::engine_advice(engine)
        }
        _ => None,
    }
}

/// Removes the owner's bits from the umask, so that this user can read and write the files that fsarena makes.
fn clear_owner_bits_of_umask() {
    let umask = rustix::process::umask(Mode::RWXU | Mode::RWXG | Mode::RWXO);
    rustix::process::umask(umask - Mode::RWXU);
}

/// Adds the directories of mkfs, losetup and others to `PATH`, which lacks them for users and for root after `su`. If `PATH`
/// is unset or empty, uses the `PATH` of a login shell: an empty one would mean the current directory, and mkfs must not be
/// started from there.
fn add_sbin_to_path() {
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

/// Replaces glibc's function in a static program, and always reports that the user is not found. glibc's function would
/// load the libnss_*.so of this machine, which can crash a static program.
///
/// Its only caller is `std::env::home_dir` if HOME is unset; clap_complete calls that to complete `~/`.
#[cfg(target_feature = "crt-static")]
#[unsafe(no_mangle)]
extern "C" fn getpwuid_r(
    _uid: u32,
    _entry: *mut std::ffi::c_void,
    _buffer: *mut std::ffi::c_char,
    _size: usize,
    _found: *mut *mut std::ffi::c_void,
) -> std::ffi::c_int {
    // ENOENT: the caller then does not read its buffers.
    2
}

/// Replaces glibc's function in a static program, and always reports that the host is not found, for the same reason.
/// fsarena connects to addresses only, so nothing calls it, but the standard library refers to it.
#[cfg(target_feature = "crt-static")]
#[unsafe(no_mangle)]
extern "C" fn getaddrinfo(
    _host: *const std::ffi::c_char,
    _service: *const std::ffi::c_char,
    _hints: *const std::ffi::c_void,
    _found: *mut *mut std::ffi::c_void,
) -> std::ffi::c_int {
    // EAI_FAIL: the caller then does not read what was found.
    -4
}

/// Replaces glibc's function in a static program. It frees nothing, because [`getaddrinfo`] never finds anything.
#[cfg(target_feature = "crt-static")]
#[unsafe(no_mangle)]
extern "C" fn freeaddrinfo(_found: *mut std::ffi::c_void) {}
