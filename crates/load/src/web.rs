//! What caches of web pages are asked for, and what is measured of them.

pub mod account;
pub mod contents;
pub mod readings;
pub mod requests;
pub mod settings;
