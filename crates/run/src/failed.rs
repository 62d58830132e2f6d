//! The failure of a cell: its message and its cause.

use fsarena_core::event::{Cause, Outcome};
use fsarena_core::exit::Exits;

/// A failure of one cell. It ends the part of its variant in the run, and no other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What failed, and what it said.
    pub why: String,
    /// The cause.
    pub cause: Cause,
}

impl Failed {
    /// A failure for this cause.
    pub fn new(cause: Cause, why: impl Into<String>) -> Failed {
        Failed { why: why.into(), cause }
    }

    /// The failure of this part of the cell.
    pub fn of(self, part: &str) -> Failed {
        Failed { why: format!("{part}: {}", self.why), ..self }
    }

    /// The failure of a command that was given these options. Where the user chose them, they are to blame.
    pub fn with_options(self, options: &str) -> Failed {
        match self.cause {
            Cause::Work if !options.is_empty() => Failed { cause: Cause::Usage, ..self },
            _ => self,
        }
    }
}

impl<E: Exits> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed { why: error.to_string(), cause: Cause::of(error.exit_code()) }
    }
}

impl From<Failed> for Outcome {
    fn from(Failed { why, cause }: Failed) -> Outcome {
        Outcome::Failed { why, cause }
    }
}
