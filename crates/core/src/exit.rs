//! The exit codes that scripts rely on.

use std::io::{self, ErrorKind};

/// How `fsarena` ends. The numbers are a contract: they change only with a major version. Where every variant failed, the
/// cause says which it is ([`crate::event::Cause::exit_code`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Done, and no claim refuted or left open.
    Done = 0,
    /// A bug or an unexpected failure of the machine.
    Internal = 1,
    /// Wrong usage or a bad plan.
    Usage = 2,
    /// A claim was refuted.
    Refuted = 3,
    /// A claim was left inconclusive.
    Inconclusive = 4,
    /// Refused, because going on could destroy something.
    Refused = 5,
    /// Something this machine lacks; the message says what to install or to free.
    Missing = 6,
}

impl ExitCode {
    /// How a load ends whose system call failed. A full disk is something to free, a limit one to raise and a missing file
    /// one to name rightly, not a bug.
    pub fn of_failed_call(error: &io::Error) -> ExitCode {
        if is_shortage(error) || error.kind() == ErrorKind::NotFound {
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

/// Whether a system call failed because something is used up: room, memory, or what a resource limit allows of files,
/// processes and file sizes.
pub fn is_shortage(error: &io::Error) -> bool {
    /// EAGAIN, ENFILE and EMFILE on Linux; the last two are of no kind of their own.
    const LIMITS: [i32; 3] = [11, 23, 24];
    match error.kind() {
        ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded
        | ErrorKind::FileTooLarge
        | ErrorKind::OutOfMemory => true,
        _ => error.raw_os_error().is_some_and(|number| LIMITS.contains(&number)),
    }
}

/// An error that knows which documented exit code it ends the program with.
///
/// Each crate has its own error type; this trait is all that they share.
pub trait Exits: std::error::Error + Send + Sync + 'static {
    /// The documented exit code of this failure.
    fn exit_code(&self) -> ExitCode;
}
