//! The operations of everyday programs, and who does them.

use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting::{SettingDef, Settings};
use std::path::PathBuf;

/// Who does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// The real programs.
    Commands,
    /// Their system calls, in this process.
    Native,
}

/// Whether a copy may share blocks with what it copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reflink {
    /// Copies may not share blocks: they read and write every byte.
    Never,
    /// Copies try to clone the file, then `copy_file_range`.
    Auto,
}

/// The setting that chooses a [`Driver`].
pub const DRIVER: SettingDef = SettingDef::choice("driver", &["commands", "native"], "commands")
    .help("commands runs the real programs; native does their system calls in-process");

/// The setting that chooses [`Reflink`].
pub const REFLINK: SettingDef = SettingDef::choice("reflink", &["never", "auto"], "never")
    .help("never makes cp copy; auto lets it clone blocks where the filesystem can");

impl Driver {
    /// Reads [`DRIVER`].
    pub fn of(settings: &Settings) -> Driver {
        if settings.text(DRIVER.id) == "native" { Driver::Native } else { Driver::Commands }
    }

    /// What a report must say of it.
    pub fn remark(self) -> Note {
        let text = match self {
            Driver::Commands => {
                "driver=commands: the real programs ran; starting a process is part of every time"
            }
            Driver::Native => {
                "driver=native: the system calls of the programs were done in-process, without starting any"
            }
        };
        Note::new(NoteKind::Remark, text)
    }
}

impl Reflink {
    /// Reads [`REFLINK`].
    pub fn of(settings: &Settings) -> Reflink {
        if settings.text(REFLINK.id) == "auto" { Reflink::Auto } else { Reflink::Never }
    }

    /// What a report must say of it.
    pub fn remark(self) -> Note {
        match self {
        Reflink::Never => {
            Note::new(NoteKind::Remark, "reflink=never: every copy reads and writes all bytes, on every filesystem")
        }
        Reflink::Auto => Note::new(
            NoteKind::Fairness,
            "reflink=auto: where the filesystem can clone (btrfs, xfs, bcachefs) cp copies no data, elsewhere it does",
        )
        .fix("--set reflink=never"),
    }
    }
}

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
