//! What is written from the same record every time, and what is read. One program, so that it is linked once.

mod clients;
mod exports;
mod findings;
mod fixture;
mod formats;
mod hostile;
mod import;
mod live;
mod logs;
mod pictures;
mod ranking;
mod snapshots;
