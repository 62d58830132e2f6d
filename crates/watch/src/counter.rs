//! What counts requests.

/// Something that counts requests: a number that only grows, until the counting program restarts.
pub trait Counter: Send {
    /// The number now.
    ///
    /// # Errors
    /// Where it cannot be had, in words for people; the next try may succeed.
    fn read(&mut self) -> Result<f64, Trouble>;
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
