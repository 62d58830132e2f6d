//! Ages a filesystem: performs the operations of a history in a directory.
//!
//! A history depends on its seed only, not on the filesystem or the time, so equal histories leave equal trees.

pub mod churn;
mod git_history;
pub mod git_pulls;
mod profile;
pub mod tree_copy;

pub use churn::{ChurnOperations, ChurnPlan};
pub use git_pulls::GitPulls;

/// The directory of an aged filesystem, below its root, that ageing creates files in.
pub const AGED_DIR: &str = "aged";
