//! The operations of everyday programs, who does them, and the commands that do them.

use crate::workload::{fairness, remark};
use fsarena_core::event::Note;
use fsarena_core::setting::{SettingDef, Settings};
use fsarena_sys::argv::Argv;
use std::{ffi::OsString, path::PathBuf};

/// The setting that chooses the real programs or their system calls.
pub const DRIVER: SettingDef = SettingDef::choice("driver", &["commands", "native"], "commands")
    .help("commands runs the real programs; native does their system calls in-process");

/// The setting that allows copies to share blocks.
pub const REFLINK: SettingDef = SettingDef::choice("reflink", &["never", "auto"], "never")
    .help("never makes cp copy; auto lets it clone blocks where the filesystem can");

/// Who does the operations, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Their system calls, in this process, instead of the real programs.
    pub native: bool,
    /// Copies try to clone the file, then `copy_file_range`. Otherwise they read and write every byte.
    pub clones: bool,
}

impl Driver {
    /// Reads [`DRIVER`] and [`REFLINK`].
    pub fn of(settings: &Settings) -> Driver {
        Driver { native: settings.text(DRIVER.id) == "native", clones: settings.text(REFLINK.id) == "auto" }
    }

    /// What a report must say of it.
    pub fn remarks(self) -> [Note; 2] {
        let driver = match self.native {
            false => "driver=commands: the real programs ran; starting a process is part of every time",
            true => {
                "driver=native: the system calls of the programs were done in-process, without starting any"
            }
        };
        let copies = match self.clones {
            false => remark("reflink=never: every copy reads and writes all bytes, on every filesystem",
            ),
            true => fairness("reflink=auto: where the filesystem can clone (btrfs, xfs, bcachefs) cp copies no data, elsewhere it does",
            )
            .fix("--set reflink=never"),
        };
        [remark(driver), copies]
    }
}

/// What one of the programs does.
#[derive(Debug, Clone)]
pub enum Op {
    /// `touch`, once a file, in a directory.
    Touch(PathBuf, u64),
    /// `mkdir`, once a directory, in a directory.
    MakeDirs(PathBuf, u64),
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
    Create(PathBuf, u64),
    /// `split -a 5 -b PIECE FILE INTO/x`: the file, the bytes of a piece, and where they go.
    Split(PathBuf, u64, PathBuf),
    /// `cat FILE > /dev/null`.
    Cat(PathBuf),
}

/// How many letters `split` puts behind `x`: 26⁵ pieces, as two letters would not do for 10,486.
pub const SPLIT_LETTERS: usize = 5;

impl Op {
    /// The program that does it.
    pub fn program(&self) -> &'static str {
        match self {
            Op::Touch(..) => "touch",
            Op::MakeDirs(..) => "mkdir",
            Op::Find(..) => "find",
            Op::Remove(..) => "rm",
            Op::Copy(..) | Op::CopyInto(..) | Op::CopyTree(..) => "cp",
            Op::Untar(..) | Op::Tar(..) => "tar",
            Op::Create(..) => "dd",
            Op::Split(..) => "split",
            Op::Cat(..) => "cat",
        }
    }

    /// The argument vectors of an operation, one for each process the author started.
    pub fn argvs(&self, clones: bool) -> Vec<Argv> {
        let program = || Argv::new(self.program());
        // From coreutils 9 on, cp clones where it can unless it is told not to.
        let copy = || program().arg(if clones { "--reflink=auto" } else { "--reflink=never" });
        let one = match self {
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
            Op::Tar(archive, within, name) => {
                program().arg("cf").arg(archive).arg("-C").arg(within).arg(name)
            }
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
}

/// The name of the n-th file or directory.
pub fn nth(prefix: &str, n: u64) -> String {
    format!("{prefix}{n:05}")
}
