//! The interface of a counter of requests.

use crate::error::Error;

/// A counter of requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// Reads the current number.
    ///
    /// # Errors
    /// The number cannot be read; the next attempt may succeed.
    fn read(&mut self) -> Result<f64, Trouble>;

    /// Checks, before a watch begins, that the user did not mistype a name. A service that is down passes.
    ///
    /// # Errors
    /// The service or this machine lacks the name.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The error of a counter that could not be read, in words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble(pub String);

impl Trouble {
    /// An error with this description.
    pub fn new(what: impl Into<String>) -> Trouble {
        Trouble(what.into())
    }
}
