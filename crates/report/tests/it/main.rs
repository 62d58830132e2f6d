//! Tests of the formats that reports are written to and read from. They form one program, so that Cargo links it once.

mod aged_images;
mod clients;
mod exports;
mod findings;
mod fixture;
mod foreign;
mod formats;
mod growth;
mod hostile;
mod import;
mod live;
mod logs;
mod modes;
mod never_wrong;
mod own_work;
mod pictures;
mod ranking;
mod snapshots;
