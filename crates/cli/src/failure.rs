//! The failure of a command: its message and its documented exit code.

use fsarena_core::escape;
use fsarena_core::exit::{ExitCode, HasExitCode, is_resource_shortage};
use fsarena_sys::limits;
use std::io::{self, ErrorKind, Write};
use std::{any::Any, error::Error, fmt, panic::Location};

/// The failure of a command.
#[derive(Debug)]
pub struct Failure {
    message: String,
    code: ExitCode,
    /// Whether the reader of standard output closed it.
    pub broken_pipe: bool,
    /// The error of the library that failed; None if the command itself refused.
    error: Option<Box<dyn Error + Send + Sync>>,
}

/// Returns the failure of wrong usage. The message names what is wrong and what to do instead.
pub fn usage_error<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::new(ExitCode::Usage, message))
}

/// The result of a command: the exit code, or the failure to print.
pub type CommandResult = Result<ExitCode, Failure>;

impl Failure {
    /// A failure with this exit code, of the command itself.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Failure {
        Failure { message: message.into(), code, broken_pipe: false, error: None }
    }

    /// The documented exit code.
    pub fn exit_code(&self) -> ExitCode {
        self.code
    }

    /// Returns the function that turns an I/O error of the file or directory `path` into a failure, for `map_err`.
    pub fn for_path(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Failure {
        move |error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::new(ExitCode::Usage, format!("No such file or directory: {}", path.display()))
            }
            _ => Failure::new(io_exit_code(&error, ExitCode::Usage), format!("{}: {error}", path.display())),
        }
    }
}

/// The exit code of an I/O error: a full disk is something that the machine lacks, a wrong path is wrong usage. Other
/// errors have the code `default`.
fn io_exit_code(error: &std::io::Error, default: ExitCode) -> ExitCode {
    match error.kind() {
        // A file that is too large for its format is the wrong file, not a lack of memory.
        _ if fsarena_sys::input::is_refusal(error) => ExitCode::Usage,
        ErrorKind::ReadOnlyFilesystem => ExitCode::Missing,
        _ if is_resource_shortage(error) => ExitCode::Missing,
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::AlreadyExists => ExitCode::Usage,
        _ => default,
    }
}

/// Prints an internal error, and how to report it.
pub fn report_bug(message: &str) {
    let repository = env!("CARGO_PKG_REPOSITORY");
    let recipient = if repository.is_empty() { "its maintainers" } else { repository };
    print_message(&format!(
        "fsarena: {message}\nThis is a bug in fsarena. Please report it to {recipient}, with the output of `fsarena doctor`."
    ));
}

/// Installs a panic hook that reports panics as internal errors. It prints a backtrace only if `RUST_BACKTRACE` is set.
pub fn install_panic_hook() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
            default_hook(panic);
        }
        if is_thread_limit(panic.payload()) {
            print_message(&format!("fsarena: {}", limits::NO_THREADS_MESSAGE));
            return;
        }
        report_bug(&describe_panic(panic.payload(), panic.location()));
    }));
}

/// The exit code of the program after a panic.
pub fn exit_code_of_panic(payload: &dyn Any) -> ExitCode {
    if is_thread_limit(payload) { ExitCode::Missing } else { ExitCode::Internal }
}

/// Whether the standard library panicked because the system refused a thread: that is a limit, not a bug.
fn is_thread_limit(payload: &dyn Any) -> bool {
    panic_message(payload).is_some_and(|text| text.contains(limits::SPAWN_PANIC_TEXT))
}

/// The message of a panic; None if its payload is not text.
fn panic_message(payload: &dyn Any) -> Option<&str> {
    payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied())
}

/// The message of a panic as an internal error, with its place in the source.
fn describe_panic(payload: &dyn Any, place: Option<&Location>) -> String {
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    let message = panic_message(payload).unwrap_or("a panic");
    format!("internal error: {message}{place}")
}

/// Escapes control characters: a failure quotes text of users, files and programs.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape::message(&self.message))
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.as_ref()?.source()
    }
}

/// The failure of a library ends the command with the exit code of its error. If that is the code of a bug and an I/O error is
/// the cause, the exit code is that of the I/O error.
impl<E: HasExitCode> From<E> for Failure {
    fn from(error: E) -> Failure {
        let io_error = io_cause(&error);
        let code = match (error.exit_code(), io_error) {
            (ExitCode::Internal, Some(io_error)) => io_exit_code(io_error, ExitCode::Internal),
            (code, _) => code,
        };
        let broken_pipe = io_error.is_some_and(is_broken_pipe);
        Failure { message: error.to_string(), code, broken_pipe, error: Some(Box::new(error)) }
    }
}

/// A failure to write results to standard output.
pub fn printing_failure(error: std::io::Error) -> Failure {
    let (code, broken_pipe) = (io_exit_code(&error, ExitCode::Internal), is_broken_pipe(&error));
    let message = format!("standard output: {error}");
    Failure { message, code, broken_pipe, error: Some(Box::new(error)) }
}

fn is_broken_pipe(error: &std::io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

/// The I/O error in the chain of causes.
fn io_cause<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    error.downcast_ref().or_else(|| error.source().and_then(io_cause))
}

/// Prints a message to standard error. A closed standard error is not a failure.
pub fn print_message(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_in_one_line_with_its_place() {
        let describe = |payload: &dyn Any| describe_panic(payload, Some(Location::caller()));
        let (text, place) = ("index out of bounds", format!(" ({}:", file!()));
        for line in [describe(&text), describe(&text.to_string())] {
            assert!(line.starts_with(&format!("internal error: {text}{place}")), "{line}");
        }
        assert_eq!(describe_panic(&7, None), "internal error: a panic");
    }
}
