//! The tasks as the author did them: with the real programs.

use super::op::{Op, SPLIT_LETTERS, nth};
use fsarena_sys::argv::Argv;
use std::ffi::OsString;

/// The argument vectors of an operation, one for each process the author started.
pub fn argvs(op: &Op, clones: bool) -> Vec<Argv> {
    let program = || Argv::new(op.program());
    // From coreutils 9 on, cp clones where it can unless it is told not to.
    let copy = || program().arg(if clones { "--reflink=auto" } else { "--reflink=never" });
    let one = match op {
        Op::Touch(dir, count) => {
            return (0..*count).map(|n| program().arg(dir.join(nth("f", n)))).collect();
        }
        Op::MakeDirs(dir, count) => {
            return (0..*count).map(|n| program().arg(dir.join(nth("d", n)))).collect();
        }
        Op::CopyInto(from, into, count) => {
            return (0..*count).map(|n| copy().arg(from).arg(into.join(n.to_string()))).collect();
        }
        Op::Find(dir) => program().arg(dir).quiet(),
        Op::Remove(dir) => program().arg("-r").arg(dir),
        Op::Copy(from, to) => copy().arg(from).arg(to),
        Op::CopyTree(from, to) => copy().arg("-r").arg(from).arg(to),
        Op::Untar(archive, into) => program().arg("xf").arg(archive).arg("-C").arg(into),
        Op::Tar(archive, within, name) => program().arg("cf").arg(archive).arg("-C").arg(within).arg(name),
        Op::Create(file, mebibytes) => {
            let mut out = OsString::from("of=");
            out.push(file);
            program().arg("if=/dev/zero").arg(out).arg("bs=1M").arg(format!("count={mebibytes}"))
        }
        Op::Split(file, piece, into) => {
            let [letters, piece] = [SPLIT_LETTERS.to_string(), piece.to_string()];
            program().args(["-a", &letters, "-b", &piece]).arg(file).arg(into.join("x"))
        }
        Op::Cat(file) => program().arg(file).quiet(),
    };
    vec![one]
}
