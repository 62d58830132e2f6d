//! A run beside another run, or beside published figures; samples of other tools beside each other.

mod order;
mod published;
mod runs;
mod samples;

pub use published::compare_published;
pub use runs::compare_runs;
pub use samples::compare_samples;
