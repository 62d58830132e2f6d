//! How a load is played.

use fsarena_engine::Content;
use std::time::Duration;

/// What clients are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMode {
    /// Processes, as in the real dbench.
    Processes,
    /// Threads of one process: they share its table of open files.
    Threads,
}

/// How a program is played.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Clients at work.
    pub clients: u32,
    /// What they are.
    pub mode: ClientMode,
    /// Before anything counts. Zero for no warm-up.
    pub warm_up: Duration,
    /// While it counts.
    pub measured: Duration,
    /// Megabytes (10⁶) a second that each client is held to.
    pub rate_mb_s: Option<f64>,
    /// The content of writes for which the loadfile gives no pattern.
    pub content: Content,
    /// The seed of all that is random.
    pub seed: u64,
}
