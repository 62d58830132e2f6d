//! Every counter, one file each.

pub mod command;
pub mod device;
pub mod http;
pub mod log;
pub mod prometheus;
pub mod squid;
