//! What a task does, whoever does it.

use std::path::PathBuf;

/// What one of the programs does.
#[derive(Debug, Clone)]
pub enum Op {
    /// `touch`, once a file.
    Touch { dir: PathBuf, count: u64 },
    /// `mkdir`, once a directory.
    MakeDirs { dir: PathBuf, count: u64 },
    /// `find DIR`.
    Find { dir: PathBuf },
    /// `rm -r DIR`.
    Remove { dir: PathBuf },
    /// `cp FROM TO`.
    Copy { from: PathBuf, to: PathBuf },
    /// `cp FROM INTO/0`, `cp FROM INTO/1`, …
    CopyInto { from: PathBuf, into: PathBuf, count: u64 },
    /// `cp -r FROM TO`.
    CopyTree { from: PathBuf, to: PathBuf },
    /// `tar xf ARCHIVE -C INTO`.
    Untar { archive: PathBuf, into: PathBuf },
    /// `tar cf ARCHIVE -C WITHIN NAME`.
    Tar { archive: PathBuf, within: PathBuf, name: &'static str },
    /// `dd if=/dev/zero of=FILE bs=1M count=N`.
    Create { file: PathBuf, mebibytes: u64 },
    /// `split -a 5 -b PIECE FILE INTO/x`.
    Split { file: PathBuf, piece: u64, into: PathBuf },
    /// `cat FILE > /dev/null`.
    Cat { file: PathBuf },
}

/// How many letters `split` puts behind `x`: 26⁵ pieces, as two letters would not do for 10,486.
pub const SPLIT_LETTERS: usize = 5;

impl Op {
    /// The program that does it.
    pub fn program(&self) -> &'static str {
        match self {
            Op::Touch { .. } => "touch",
            Op::MakeDirs { .. } => "mkdir",
            Op::Find { .. } => "find",
            Op::Remove { .. } => "rm",
            Op::Copy { .. } | Op::CopyInto { .. } | Op::CopyTree { .. } => "cp",
            Op::Untar { .. } | Op::Tar { .. } => "tar",
            Op::Create { .. } => "dd",
            Op::Split { .. } => "split",
            Op::Cat { .. } => "cat",
        }
    }
}

/// The name of the n-th file or directory.
pub fn nth(prefix: &str, n: u64) -> String {
    format!("{prefix}{n:05}")
}
