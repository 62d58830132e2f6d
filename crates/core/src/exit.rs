//! The documented exit codes of fsarena.

use std::io::{self, ErrorKind};

/// The exit code of `fsarena`. Scripts rely on the numbers, so they change only with a major version. If every variant failed,
/// [`crate::event::Cause::exit_code`] selects the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Success; no claim is refuted or inconclusive.
    Done = 0,
    /// A bug or an unexpected failure of the machine.
    Internal = 1,
    /// Wrong usage or a bad plan.
    Usage = 2,
    /// A claim was refuted.
    Refuted = 3,
    /// A claim was left inconclusive.
    Inconclusive = 4,
    /// fsarena refused to continue, because it could destroy data.
    Refused = 5,
    /// The machine lacks a program, a kernel feature or a resource; the message names what to install or to free.
    Missing = 6,
}

impl ExitCode {
    /// The exit code for a load whose system call failed. [`ExitCode::Missing`] for a full disk, a resource limit or
    /// a missing file, which the user can fix; [`ExitCode::Internal`] for any other error.
    pub fn of_failed_call(error: &io::Error) -> ExitCode {
        if is_resource_shortage(error) || error.kind() == ErrorKind::NotFound {
            ExitCode::Missing
        } else {
            ExitCode::Internal
        }
    }

    /// The code as the operating system sees it.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Whether a system call failed for lack of a resource: disk space or memory is used up, or a limit on open files, processes or
/// file sizes is reached.
pub fn is_resource_shortage(error: &io::Error) -> bool {
    /// EAGAIN, ENFILE and EMFILE on Linux. [`ErrorKind`] has no kind for the last two.
    const LIMIT_ERRORS: [i32; 3] = [11, 23, 24];
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge | ErrorKind::OutOfMemory => true,
        _ => error.raw_os_error().is_some_and(|number| LIMIT_ERRORS.contains(&number)),
    }
}

/// An error with a documented exit code.
///
/// Each crate has its own error type; all of them implement this trait.
pub trait HasExitCode: std::error::Error + Send + Sync + 'static {
    /// The documented exit code of this failure.
    fn exit_code(&self) -> ExitCode;
}
