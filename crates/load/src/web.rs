//! The requests that web caches receive, and the readings of them.

pub mod contents;
pub mod readings;
pub mod settings;
pub mod wire;
