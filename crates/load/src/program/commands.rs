//! The tasks as the author did them: with the real programs.

use super::op::{Op, Reflink, SPLIT_LETTERS, nth};
use crate::task::Action;
use fsarena_sys::argv::Argv;
use std::{ffi::OsString, path::Path};

/// The commands that do it.
pub fn action(op: &Op, reflink: Reflink) -> Action {
    let mut argvs = argvs(op, reflink);
    match argvs.len() {
        1 => Action::Run(argvs.remove(0)),
        _ => Action::RunEach(argvs),
    }
}

/// The argument vectors of an operation, one for each process the author started.
pub fn argvs(op: &Op, reflink: Reflink) -> Vec<Argv> {
    let program = || Argv::new(op.program());
    // From coreutils 9 on, cp clones where it can unless it is told not to.
    let copy = || program().arg(if reflink == Reflink::Never { "--reflink=never" } else { "--reflink=auto" });
    match op {
        Op::Touch { dir, count } => (0..*count).map(|n| program().arg(dir.join(nth("f", n)))).collect(),
        Op::MakeDirs { dir, count } => (0..*count).map(|n| program().arg(dir.join(nth("d", n)))).collect(),
        Op::Find { dir } => vec![program().arg(dir).quiet()],
        Op::Remove { dir } => vec![program().arg("-r").arg(dir)],
        Op::Copy { from, to } => vec![copy().arg(from).arg(to)],
        Op::CopyInto { from, into, count } => {
            (0..*count).map(|n| copy().arg(from).arg(into.join(n.to_string()))).collect()
        }
        Op::CopyTree { from, to } => vec![copy().arg("-r").arg(from).arg(to)],
        Op::Untar { archive, into } => vec![program().arg("xf").arg(archive).arg("-C").arg(into)],
        Op::Tar { archive, within, name } => {
            vec![program().arg("cf").arg(archive).arg("-C").arg(within).arg(name)]
        }
        Op::Create { file, mebibytes } => vec![
            program()
                .arg("if=/dev/zero")
                .arg(joined("of=", file))
                .arg("bs=1M")
                .arg(format!("count={mebibytes}")),
        ],
        Op::Split { file, piece, into } => vec![
            program()
                .arg("-a")
                .arg(SPLIT_LETTERS.to_string())
                .arg("-b")
                .arg(piece.to_string())
                .arg(file)
                .arg(into.join("x")),
        ],
        Op::Cat { file } => vec![program().arg(file).quiet()],
    }
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}
