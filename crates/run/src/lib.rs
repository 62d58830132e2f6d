//! The runner: rounds to events, idle wait, stopping, and the executors behind the seam.
//!
//! Cell in, samples out: an [`executor::Executor`] takes a cell and says what happened. Everything that
//! is measured happens in an agent process ([`agent`]), on this kernel as in any other place, so that a
//! cell can be killed whole and its CPU time is its own.

pub mod agent;
pub mod axes;
pub mod bench;
mod carrier;
pub mod child;
pub mod deciding;
pub mod dir;
pub mod executor;
mod forecast;
pub mod guest;
pub mod idle;
pub mod inside;
pub mod layout;
pub mod ledger;
pub mod local;
mod other;
pub mod preflight;
pub mod protocol;
pub mod runner;
pub mod stopping;
pub mod target;
pub mod work;
