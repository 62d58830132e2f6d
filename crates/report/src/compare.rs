//! A run beside another run, or beside published figures.

mod order;
mod published;
mod runs;

pub use published::compare_published;
pub use runs::compare_runs;
