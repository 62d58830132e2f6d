//! Tests of filesystems on real loop devices. They are one program, so that it is linked once.

mod common;
mod guard;
mod lifecycle;
mod recover;
