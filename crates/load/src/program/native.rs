//! The tasks without programs: the same system calls, in this process. Guests without a userland need it.
//!
//! The calls and their order follow strace of coreutils 9.1, findutils 4.9 and tar 1.34;
//! docs/reference/workloads.md compares the numbers of calls.

mod archive;
mod copy;
mod create;
mod dir;
mod records;
mod remove;
mod split;
mod untar;

use super::commands;
use super::{Op, Reflink};
use crate::task::{Action, Call, Error};
use fsarena_core::sample::Readings;
use rustix::io::Errno;
use std::path::Path;

/// What cp, cat and split read at a time.
const BUFFER: usize = 128 << 10;

/// The work, logged as the commands it stands for.
pub fn action(op: &Op, reflink: Reflink) -> Action {
    let argvs = commands::argvs(op, reflink);
    let first = argvs.iter().take(1).flat_map(|argv| argv.words());
    let op = op.clone();
    let mut call = Call::new(first, move || {
        perform(&op, reflink)?;
        Ok(Readings::default())
    });
    call.times = argvs.len() as u64;
    Action::Call(call)
}

fn perform(op: &Op, reflink: Reflink) -> Result<(), Error> {
    match op {
        Op::Touch { dir, count } => create::touch(dir, *count),
        Op::MakeDirs { dir, count } => create::directories(dir, *count),
        Op::Find { dir } => dir::find(dir),
        Op::Remove { dir } => remove::tree(dir),
        Op::Copy { from, to } => copy::file(from, to, reflink),
        Op::CopyInto { from, into, count } => {
            (0..*count).try_for_each(|n| copy::file(from, &into.join(n.to_string()), reflink))
        }
        Op::CopyTree { from, to } => copy::tree(from, to, reflink),
        Op::Untar { archive, into } => untar::unpack(archive, into),
        Op::Tar { archive, within, name } => archive::pack(archive, within, name),
        Op::Create { file, mebibytes } => create::zeros(file, *mebibytes),
        Op::Split { file, piece, into } => split::split(file, *piece as usize, into),
        Op::Cat { file } => copy::cat(file),
    }
}

/// Names the file that a system call failed on: `.map_err(at("open", path))`.
fn at<'a>(doing: &'a str, path: &'a Path) -> impl FnOnce(Errno) -> Error + 'a {
    move |errno| Error::io(format!("{doing} {}", path.display()))(errno)
}
