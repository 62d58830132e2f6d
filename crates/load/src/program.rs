//! The operations of everyday programs (cp, rm, tar, …). fsarena runs the programs, or makes their system calls itself,
//! because some guests have no programs.
//!
//! The calls and their order follow strace of coreutils 9.1, findutils 4.9 and tar 1.34;
//! docs/reference/coreutils.md compares the numbers of calls.

mod archives;
mod coreutils;
mod op;

use crate::task::{Action, Call, Result, failed_to};
use crate::workload::{fairness, remark};
use fsarena_core::event::Note;
use fsarena_core::setting::{SettingDef, Settings};
use fsarena_core::setting_text::setting;
use std::path::Path;

pub use op::Op;

/// Makes the action of an operation. The log has the commands, also if fsarena makes their system calls itself.
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
        Op::Touch(dir, count) => coreutils::touch(dir, *count),
        Op::MakeDirs(dir, count) => coreutils::make_directories(dir, *count),
        Op::Find(dir) => coreutils::find(dir),
        Op::Remove(dir) => coreutils::remove_tree(dir),
        Op::Copy(from, to) => coreutils::copy_file(from, to, clones),
        Op::CopyInto(from, into, count) => {
            (0..*count).try_for_each(|n| coreutils::copy_file(from, &into.join(n.to_string()), clones))
        }
        Op::CopyTree(from, to) => coreutils::copy_tree(from, to, clones),
        Op::Untar(archive, into) => archives::unpack(archive, into),
        Op::Tar(archive, within, name) => archives::pack(archive, within, name),
        Op::Create(file, mebibytes) => coreutils::write_zeros(file, *mebibytes),
        Op::Split(file, piece, into) => coreutils::split_file(file, *piece as usize, into),
        Op::Cat(file) => coreutils::cat(file),
    }
}

/// Makes the untimed action that prepares the destination of an operation: it creates the directory that the operation
/// writes to, or removes a file that an earlier cell left on the source disk.
pub fn prepare_destination(op: &Op) -> Option<Action> {
    let (doing, path, call): (_, _, fn(&Path) -> std::io::Result<()>) = match op {
        Op::Touch(dir, _) | Op::MakeDirs(dir, _) | Op::Split(_, _, dir) | Op::CopyInto(_, dir, _) => {
            ("mkdir", dir, |dir| std::fs::create_dir(dir))
        }
        Op::Copy(_, to) if to.exists() => ("rm", to, |file| std::fs::remove_file(file)),
        _ => return None,
    };
    Some(Action::on(doing, path, move |path| call(path).map_err(failed_to(doing, path))))
}

/// The setting that chooses the real programs or their system calls.
pub const DRIVER: SettingDef = SettingDef::choice("driver", &["commands", "native"], "commands")
    .help("commands runs the real programs; native does their system calls in-process");

/// The setting that allows copies to share blocks.
pub const REFLINK: SettingDef = SettingDef::choice("reflink", &["never", "auto"], "never")
    .help("never makes cp copy; auto lets it clone blocks where the filesystem can");

/// How operations are performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// Make the system calls in this process instead of running the programs.
    pub native: bool,
    /// Copies try to clone the file, then `copy_file_range`. Otherwise they read and write every byte.
    pub clones: bool,
}

impl Driver {
    /// Reads [`DRIVER`] and [`REFLINK`].
    pub fn from_settings(settings: &Settings) -> Driver {
        Driver { native: settings.text(DRIVER.id) == "native", clones: settings.text(REFLINK.id) == "auto" }
    }

    /// The notes on the driver in every report.
    pub fn remarks(self) -> [Note; 2] {
        let driver = if self.native {
            "driver=native: the system calls of the programs were done in-process, without starting any"
        } else {
            "driver=commands: the real programs ran; starting a process is part of every time"
        };
        let copies = if self.clones {
            let text = "reflink=auto: where the filesystem can clone (btrfs, xfs, bcachefs) cp copies no data, elsewhere it does";
            fairness(text).fix(setting("set", "reflink=never"))
        } else {
            remark("reflink=never: every copy reads and writes all bytes, on every filesystem")
        };
        [remark(driver), copies]
    }
}
