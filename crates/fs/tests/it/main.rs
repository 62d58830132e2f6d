//! Filesystems on real loop devices. One program, so that it is linked once.

mod common;
mod guard;
mod lifecycle;
mod recover;
