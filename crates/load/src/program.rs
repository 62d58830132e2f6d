//! What everyday programs do, by running them or by their system calls. Guests without a userland need the calls.
//!
//! The calls and their order follow strace of coreutils 9.1, findutils 4.9 and tar 1.34;
//! docs/reference/workloads.md compares the numbers of calls.

mod archive;
mod calls;
mod copy;
mod create;
mod op;
mod untar;

use crate::error::{Result, at};
use crate::task::{Action, Call};
pub use op::{DRIVER, Driver, Op, REFLINK};
use std::path::Path;

/// The action that does an operation. Native calls are logged as the commands that they stand for.
pub fn action(op: &Op, Driver { native, clones }: Driver) -> Action {
    let mut argvs = op.argvs(clones);
    if native {
        let (first, op) = (argvs.iter().take(1).flat_map(|argv| argv.words()), op.clone());
        let call = Call::new(first, move || perform(&op, clones));
        return Action::Call(Call { times: argvs.len() as u64, ..call });
    }
    match argvs.len() {
        1 => Action::Run(argvs.remove(0)),
        _ => Action::RunEach(argvs),
    }
}

fn perform(op: &Op, clones: bool) -> Result<()> {
    match op {
        Op::Touch(dir, count) => create::touch(dir, *count),
        Op::MakeDirs(dir, count) => create::directories(dir, *count),
        Op::Find(dir) => copy::find(dir),
        Op::Remove(dir) => copy::remove(dir),
        Op::Copy(from, to) => copy::file(from, to, clones),
        Op::CopyInto(from, into, count) => {
            (0..*count).try_for_each(|n| copy::file(from, &into.join(n.to_string()), clones))
        }
        Op::CopyTree(from, to) => copy::tree(from, to, clones),
        Op::Untar(archive, into) => untar::unpack(archive, into),
        Op::Tar(archive, within, name) => archive::pack(archive, within, name),
        Op::Create(file, mebibytes) => create::zeros(file, *mebibytes),
        Op::Split(file, piece, into) => create::split(file, *piece as usize, into),
        Op::Cat(file) => copy::cat(file),
    }
}

/// Untimed, makes the directory that an operation writes into, and removes what an earlier cell left on the
/// other disk.
pub fn clear_the_way(op: &Op) -> Option<Action> {
    let (doing, path, call): (_, _, fn(&Path) -> std::io::Result<()>) = match op {
        Op::Touch(dir, _) | Op::MakeDirs(dir, _) | Op::Split(_, _, dir) | Op::CopyInto(_, dir, _) => {
            ("mkdir", dir, |dir| std::fs::create_dir(dir))
        }
        Op::Copy(_, to) if to.exists() => ("rm", to, |file| std::fs::remove_file(file)),
        _ => return None,
    };
    Some(Action::on(doing, path, move |path| call(path).map_err(at(doing, path))))
}
