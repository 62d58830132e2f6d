//! The error type of this crate: commands, system calls, and machine states that stop fsarena; and the remedy for errors that
//! a limit of this process or of the machine causes.

use fsarena_core::event::CommandEnd;
use fsarena_core::exit::{ExitCode, HasExitCode, is_resource_shortage};
use fsarena_core::setting_text::setting;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Why something could not be set up, removed or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A system call failed.
    #[error("{doing} {path:?}: {source}{}", remedy_suffix(.source))]
    Io {
        /// What fsarena was doing: "reading", "removing".
        doing: &'static str,
        /// The file, device or directory.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// This machine or process lacks something, such as room on a disk; the text explains what to do.
    #[error("{0}")]
    Missing(String),
    /// A mount point stays in use.
    #[error("{target:?} cannot be unmounted, it is in use by {}", describe_using_processes(.processes))]
    Busy {
        /// The mount point.
        target: PathBuf,
        /// The processes that use it.
        processes: Vec<UsingProcess>,
    },
    /// A path no longer leads to the object that fsarena made, so fsarena does not touch it.
    #[error("{path:?} is left alone: {why}")]
    NotOurs {
        /// The file or directory.
        path: PathBuf,
        /// The difference.
        why: String,
    },
    /// A directory that fsarena made contains files that it did not make, so fsarena keeps the directory and the files.
    #[error("fsarena keeps the directory {dir:?}: it holds files that fsarena did not make: {}", join_first_names(.names))]
    ForeignFiles {
        /// The directory.
        dir: PathBuf,
        /// The names in it.
        names: Vec<String>,
    },
    /// A device, directory or process is not in the state that fsarena requires.
    #[error("{}: {why}", .object.display())]
    Unusable {
        /// The path of the device or directory, or a description such as `process 12`.
        object: PathBuf,
        /// Its state.
        why: String,
    },
    /// A kernel file has an unexpected format.
    #[error("{path:?} has a format that fsarena does not understand: {why}")]
    BadFormat {
        /// The file.
        path: PathBuf,
        /// How it differs.
        why: String,
    },
    /// A file or directory of the kernel cannot be read, so fsarena cannot determine the state of the machine.
    #[error("{path:?} cannot be read ({source}), and fsarena requires it to check the machine: {fix}")]
    KernelUnreadable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
        /// The command that makes it readable.
        fix: &'static str,
    },
    /// A path that the undo journal cannot hold, because it is not UTF-8.
    #[error(
        "{path:?} is not valid UTF-8, and the undo journal can only hold UTF-8 paths: name another directory ({runs}, {on}, FSARENA_STATE_DIR), or rename it",
        path = .0, runs = setting("runs", ""), on = setting("on", "")
    )]
    NotUtf8(PathBuf),
    /// The directory of the undo journals cannot be written.
    #[error(
        "{dir:?} cannot be written ({source}), and fsarena keeps its undo journal there: name a directory that you can write to in FSARENA_STATE_DIR"
    )]
    StateDirUnwritable {
        /// The directory.
        dir: PathBuf,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// A signal interrupted fsarena.
    #[error("interrupted by signal {signal}")]
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// Why an external command failed or could not run.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No directory of `PATH` has the program.
    #[error("{program} is not installed")]
    NotFound {
        /// Its name.
        program: String,
    },
    /// The user named a file that cannot be executed.
    #[error("{program} cannot be executed: {why}")]
    NotExecutable {
        /// Its name or path.
        program: String,
        /// Why, and what to do.
        why: String,
    },
    /// The system could not start the command.
    #[error("{program} could not be started: {source}{}", remedy_suffix(.source))]
    NotStarted {
        /// Its name.
        program: String,
        /// The error of the system call.
        source: std::io::Error,
    },
    /// The command ran and failed.
    #[error("{command} failed ({ended}): {output}")]
    Failed {
        /// The argument vector, for people.
        command: String,
        /// How it ended.
        ended: CommandEnd,
        /// The output of the command.
        output: String,
    },
    /// A signal interrupted fsarena, so fsarena killed the command or did not start it.
    #[error("{program} was interrupted by signal {signal}")]
    Interrupted {
        /// Its name.
        program: String,
        /// The signal that fsarena received.
        signal: i32,
    },
}

impl CommandError {
    /// Whether a signal ended the command: the program crashed or was killed from outside, so another attempt may succeed.
    pub fn was_ended_by_signal(&self) -> bool {
        matches!(self, CommandError::Failed { ended: CommandEnd::Signal(_), .. })
    }
}

impl HasExitCode for CommandError {
    fn exit_code(&self) -> ExitCode {
        match self {
            CommandError::NotFound { .. } => ExitCode::Missing,
            CommandError::NotExecutable { .. } => ExitCode::Usage,
            CommandError::NotStarted { source, .. } if is_resource_shortage(source) => ExitCode::Missing,
            _ => ExitCode::Internal,
        }
    }
}

/// A process that uses something at or below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsingProcess {
    /// Its number.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// How it uses the directory.
    pub uses: Vec<&'static str>,
}

/// The processes that use a mount, and the command that kills them.
fn describe_using_processes(processes: &[UsingProcess]) -> String {
    if processes.is_empty() {
        return "something that shows in no process that this user may inspect (another mount, swap, a loop device, or a \
                process of another user); end that and run `fsarena recover`"
            .into();
    }
    let (mut descriptions, mut pids) = (vec![], vec![]);
    for UsingProcess { pid, name, uses } in processes {
        descriptions.push(format!("{pid} ({name}: {})", uses.join(", ")));
        pids.push(pid.to_string());
    }
    format!("{}; end that and undo the rest: kill {} && fsarena recover", descriptions.join(", "), pids.join(" "))
}

/// The first five names, and how many more there are.
fn join_first_names(names: &[String]) -> String {
    const MAX_SHOWN: usize = 5;
    match names.len().checked_sub(MAX_SHOWN) {
        Some(hidden @ 1..) => format!("{}, and {hidden} more", names[..MAX_SHOWN].join(", ")),
        _ => names.join(", "),
    }
}

impl Error {
    /// Returns a function that turns the error of a system call on a path into an [`Error::Io`], for `map_err`.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        move |source| Error::Io { doing, path, source }
    }

    /// Returns a function that turns the error of reading a file of the kernel into an [`Error::KernelUnreadable`], for
    /// `map_err`.
    pub fn kernel_unreadable(path: impl AsRef<Path>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.as_ref().to_path_buf();
        // In tests the path begins with a fake root. The first component `proc` or `sys` decides, because `/proc/sys` is part
        // of `/proc`.
        let first = path.components().find(|part| ["proc", "sys"].map(OsStr::new).contains(&part.as_os_str()));
        let fix = match first {
            Some(part) if part.as_os_str() == "sys" => "mount the whole of /sys: `mount -t sysfs sysfs /sys`",
            _ => "mount the whole of /proc: `mount -t proc proc /proc`",
        };
        move |source| Error::KernelUnreadable { path, source, fix }
    }
}

/// Turns the return value of a system call of libc into a result: the call has failed if the value is negative.
///
/// # Errors
/// The error of the call (errno(3)).
pub fn check_return(value: libc::c_int) -> Result<libc::c_int, Errno> {
    if value >= 0 {
        return Ok(value);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Turns the error "not found" into `Ok(None)`, and a success into `Ok(Some)`.
///
/// # Errors
/// Every other error, unchanged.
pub fn none_if_missing<T>(result: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

impl HasExitCode for Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Error::Command(error) => error.exit_code(),
            Error::Io { source, .. } if is_resource_shortage(source) => ExitCode::Missing,
            Error::Missing(_) | Error::Busy { .. } | Error::KernelUnreadable { .. } => ExitCode::Missing,
            Error::StateDirUnwritable { source, .. }
                if is_resource_shortage(source) || source.kind() == std::io::ErrorKind::ReadOnlyFilesystem =>
            {
                ExitCode::Missing
            }
            Error::NotUtf8(_) | Error::StateDirUnwritable { .. } => ExitCode::Usage,
            Error::NotOurs { .. } | Error::ForeignFiles { .. } => ExitCode::Refused,
            _ => ExitCode::Internal,
        }
    }
}

/// The beginning of the panic message with which the standard library reports that it cannot create a thread.
pub const SPAWN_PANIC_TEXT: &str = "failed to spawn thread";
/// fsarena's message if it cannot create a thread.
pub const NO_THREADS_MESSAGE: &str = "the system gives this process no more threads: raise the limit of processes (`ulimit -u`, \
                              pids.max of the control group), or take fewer threads";

/// The advice for an error that a limit of this process or of the machine caused; None for other errors.
pub fn limit_remedy(error: &std::io::Error) -> Option<String> {
    let hard_limit_text = |resource| match getrlimit(resource).maximum {
        Some(limit) => format!("the hard limit is {limit}"),
        None => "the limit of the whole machine is reached".into(),
    };
    Some(match Errno::from_io_error(error).unwrap_or(Errno::IO) {
        Errno::MFILE => format!(
            "too many files for one process ({}): raise it (`ulimit -Hn`, LimitNOFILE= of a service), or take fewer \
             clients or files",
            hard_limit_text(Resource::Nofile)
        ),
        Errno::NFILE => "the machine has no more open files: raise fs.file-max (sysctl)".into(),
        Errno::AGAIN => format!(
            "no more processes or threads ({}): raise it (`ulimit -u`, pids.max of the control group), or take fewer \
             threads",
            hard_limit_text(Resource::Nproc)
        ),
        _ if error.kind() == std::io::ErrorKind::FileTooLarge => format!(
            "a file grew beyond the limit of file sizes of this process (`ulimit -f`), or beyond what its filesystem can hold: \
             raise the limit (`ulimit -f unlimited`), or take a smaller {}",
            setting("scale", "")
        ),
        _ => return None,
    })
}

/// The [`limit_remedy`] as the end of a message (`; too many files …`); empty for errors without one.
pub fn remedy_suffix(error: &std::io::Error) -> String {
    limit_remedy(error).map_or(String::new(), |remedy| format!("; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn only_errors_of_limits_have_a_remedy() {
        for (errno, command) in [(Errno::MFILE, "ulimit -Hn"), (Errno::FBIG, "ulimit -f"), (Errno::AGAIN, "ulimit -u")]
        {
            assert!(limit_remedy(&errno.into()).unwrap().contains(command));
        }
        assert_eq!(limit_remedy(&Errno::NOENT.into()), None);
        assert_eq!(limit_remedy(&io::Error::other("x")), None);
    }
}
