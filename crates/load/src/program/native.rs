//! The tasks without programs: the same system calls, in this process. Guests without a userland need it.
//!
//! The calls and their order follow strace of coreutils 9.1, findutils 4.9 and tar 1.34;
//! docs/reference/workloads.md compares the numbers of calls.

mod archive;
mod calls;
mod copy;
mod create;
mod split;
mod untar;
mod walk;

use super::commands;
use super::op::{Op, Reflink};
use crate::task::{Action, Call, Error};

/// The work, logged as the commands it stands for.
pub fn action(op: &Op, reflink: Reflink) -> Action {
    let argvs = commands::argvs(op, reflink);
    let first = argvs.iter().take(1).flat_map(|argv| argv.words());
    let op = op.clone();
    let call = Call::new(first, move || perform(&op, reflink));
    Action::Call(Call { times: argvs.len() as u64, ..call })
}

fn perform(op: &Op, reflink: Reflink) -> Result<(), Error> {
    match op {
        Op::Touch { dir, count } => create::touch(dir, *count),
        Op::MakeDirs { dir, count } => create::directories(dir, *count),
        Op::Find { dir } => walk::find(dir),
        Op::Remove { dir } => walk::remove(dir),
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
