//! The operations of everyday programs, and the commands that perform them.

use fsarena_sys::argv::Argv;
use std::{ffi::OsString, path::PathBuf};

/// An operation of one of the programs.
#[derive(Debug, Clone)]
pub enum Op {
    /// `touch DIR/f00000`, `touch DIR/f00001`, …, this many times.
    Touch(PathBuf, u64),
    /// `mkdir DIR/d00000`, `mkdir DIR/d00001`, …, this many times.
    MakeDirectories(PathBuf, u64),
    /// `find DIR`.
    Find(PathBuf),
    /// `rm -r DIR`.
    Remove(PathBuf),
    /// `cp FROM TO`.
    Copy(PathBuf, PathBuf),
    /// `cp FROM INTO/0`, `cp FROM INTO/1`, …, this many times.
    CopyInto(PathBuf, PathBuf, u64),
    /// `cp -r FROM TO`.
    CopyTree(PathBuf, PathBuf),
    /// `tar xf ARCHIVE -C INTO`.
    Untar(PathBuf, PathBuf),
    /// `tar cf ARCHIVE -C WITHIN NAME`.
    Tar(PathBuf, PathBuf, &'static str),
    /// `dd if=/dev/zero of=FILE bs=1M count=N`.
    WriteZeros(PathBuf, u64),
    /// `split -a 5 -b PIECE FILE INTO/x`: the file, the bytes of a piece, and the directory of the pieces.
    Split(PathBuf, u64, PathBuf),
    /// `cat FILE > /dev/null`.
    Cat(PathBuf),
}

/// Number of letters that `split` appends to `x`. Five letters name 26⁵ pieces; two letters are too few for the 10,486
/// pieces of the smallest size.
pub const SPLIT_LETTERS: usize = 5;

impl Op {
    /// The program that performs the operation.
    pub fn program(&self) -> &'static str {
        match self {
            Op::Touch(..) => "touch",
            Op::MakeDirectories(..) => "mkdir",
            Op::Find(..) => "find",
            Op::Remove(..) => "rm",
            Op::Copy(..) | Op::CopyInto(..) | Op::CopyTree(..) => "cp",
            Op::Untar(..) | Op::Tar(..) => "tar",
            Op::WriteZeros(..) => "dd",
            Op::Split(..) => "split",
            Op::Cat(..) => "cat",
        }
    }

    /// The argument vectors of the operation, one for each process. `may_clone` as in `Driver`.
    pub fn argvs(&self, may_clone: bool) -> Vec<Argv> {
        let program = || Argv::new(self.program());
        // Since coreutils 9, cp clones by default.
        let copy_program = || program().arg(if may_clone { "--reflink=auto" } else { "--reflink=never" });
        let argv = match self {
            Op::Touch(dir, count) => {
                return (0..*count).map(|number| program().arg(dir.join(numbered_name("f", number)))).collect();
            }
            Op::MakeDirectories(dir, count) => {
                return (0..*count).map(|number| program().arg(dir.join(numbered_name("d", number)))).collect();
            }
            Op::CopyInto(from, into, count) => {
                return (0..*count).map(|number| copy_program().arg(from).arg(into.join(number.to_string()))).collect();
            }
            Op::Find(dir) => program().arg(dir).discard_stdout(),
            Op::Remove(dir) => program().arg("-r").arg(dir),
            Op::Copy(from, to) => copy_program().arg(from).arg(to),
            Op::CopyTree(from, to) => copy_program().arg("-r").arg(from).arg(to),
            Op::Untar(archive, into) => program().arg("xf").arg(archive).arg("-C").arg(into),
            Op::Tar(archive, within, name) => program().arg("cf").arg(archive).arg("-C").arg(within).arg(name),
            Op::WriteZeros(file, mebibytes) => {
                let mut output_operand = OsString::from("of=");
                output_operand.push(file);
                program().arg("if=/dev/zero").arg(output_operand).arg("bs=1M").arg(format!("count={mebibytes}"))
            }
            Op::Split(file, piece_bytes, into) => {
                let [letters, piece_bytes] = [SPLIT_LETTERS.to_string(), piece_bytes.to_string()];
                program().args(["-a", &letters, "-b", &piece_bytes]).arg(file).arg(into.join("x"))
            }
            Op::Cat(file) => program().arg(file).discard_stdout(),
        };
        vec![argv]
    }
}

/// The name of the file or directory with this number, such as `f00003`.
pub fn numbered_name(prefix: &str, number: u64) -> String {
    format!("{prefix}{number:05}")
}
