//! The commands of the program, each in a separate module.

pub mod ab;
pub mod advise;
pub mod analyse;
pub mod bisect;
pub mod bundle;
pub mod compare;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod history;
pub mod list;
pub mod load;
pub mod merge;
pub mod recover;
pub mod report;
pub mod run;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod show;
pub mod verify;
pub mod watch;
