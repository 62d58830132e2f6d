//! What simulated runs say of a promise.

/// Whether a promise is kept, inconclusive after these few runs, or broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It is kept.
    Kept,
    /// The runs are too few.
    Open,
    /// It is broken.
    Broken,
}

impl State {
    /// What people and programs read.
    pub fn name(self) -> &'static str {
        match self {
            State::Kept => "ok",
            State::Open => "too few runs",
            State::Broken => "BROKEN",
        }
    }
}
