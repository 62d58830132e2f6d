//! What counts requests.

use crate::error::Error;

/// Something that counts requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// The number now.
    ///
    /// # Errors
    /// Where it cannot be had, in words for people; the next try may succeed.
    fn read(&mut self) -> Result<f64, Trouble>;

    /// Refuses what the user probably mistyped, before a watch begins. A service that is down is no mistake.
    ///
    /// # Errors
    /// A name that the service or this machine lacks.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Why a counter could not be read, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl Trouble {
    /// From what happened.
    pub fn new(what: impl Into<String>) -> Trouble {
        Trouble(what.into())
    }
}
