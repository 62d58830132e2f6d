//! Ages a filesystem: performs the operations of a history in a directory.
//!
//! A history depends on its seed only, not on the filesystem or the time, so equal histories leave equal trees.
//!
//! * [`churn`]: creates, deletes, overwrites and appends to files, with the sizes and ages of `profile`.
//! * [`git_pulls`]: pulls the commits of a git repository, which `git_history` generates.
//! * [`tree_copy`]: copies trees and computes their digests.

pub mod churn;
mod git_history;
pub mod git_pulls;
mod profile;
pub mod tree_copy;

pub use churn::{ChurnOperations, ChurnPlan};
pub use git_pulls::GitPulls;

/// The directory of an aged filesystem, below its root, that ageing creates files in.
pub const AGED_DIR: &str = "aged";
