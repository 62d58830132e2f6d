//! The options of the player.

use fsarena_engine::Content;
use std::time::Duration;

/// How clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMode {
    /// Processes, as in the real dbench.
    Processes,
    /// Threads of one process: they share its table of open files.
    Threads,
}

/// The options of the player.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Number of clients.
    pub clients: u32,
    /// How clients run.
    pub mode: ClientMode,
    /// Length of the warm-up, in which nothing counts; zero for none.
    pub warm_up: Duration,
    /// Length of the measured phase.
    pub measured: Duration,
    /// Limit for each client in megabytes (10⁶) a second, or `None` without a limit.
    pub rate_mb_s: Option<f64>,
    /// The content of writes for which the loadfile gives no pattern.
    pub content: Content,
    /// The seed of everything random.
    pub seed: u64,
}
