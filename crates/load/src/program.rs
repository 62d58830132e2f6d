//! The operations of everyday programs (cp, rm, tar, …). fsarena runs the programs, or makes their system calls itself,
//! because some guests have no programs.
//!
//! The calls and their order follow strace of coreutils 9.1, findutils 4.9 and tar 1.34;
//! docs/reference/coreutils.md compares the numbers of calls.

mod archives;
mod coreutils;
mod op;

use crate::task::{Action, Call, Result, failed_to};
use crate::workload::{fairness_note, remark_note};
use fsarena_core::event::Note;
use fsarena_core::setting::{SettingDef, Settings};
use fsarena_core::setting_text::setting;
use std::path::Path;

pub use op::Op;

/// Makes the action that performs an operation. The log has its commands even if fsarena makes their system calls
/// itself.
pub fn make_action(op: &Op, Driver { is_native, may_clone }: Driver) -> Action {
    let mut argvs = op.argvs(may_clone);
    if is_native {
        let (first_argv, op) = (argvs.iter().take(1).flat_map(|argv| argv.words()), op.clone());
        let call = Call::new(first_argv, move || make_system_calls(&op, may_clone));
        return Action::Call(Call { replaced_commands: argvs.len() as u64, ..call });
    }
    match argvs.len() {
        1 => Action::Run(argvs.remove(0)),
        _ => Action::RunEach(argvs),
    }
}

fn make_system_calls(op: &Op, may_clone: bool) -> Result<()> {
    match op {
        Op::Touch(dir, count) => coreutils::touch_files(dir, *count),
        Op::MakeDirectories(dir, count) => coreutils::make_directories(dir, *count),
        Op::Find(dir) => coreutils::find(dir),
        Op::Remove(dir) => coreutils::remove_tree(dir),
        Op::Copy(from, to) => coreutils::copy_file(from, to, may_clone),
        Op::CopyInto(from, into, count) => {
            (0..*count).try_for_each(|number| coreutils::copy_file(from, &into.join(number.to_string()), may_clone))
        }
        Op::CopyTree(from, to) => coreutils::copy_tree(from, to, may_clone),
        Op::Untar(archive, into) => archives::unpack(archive, into),
        Op::Tar(archive, within, name) => archives::pack(archive, within, name),
        Op::WriteZeros(file, mebibytes) => coreutils::write_zeros(file, *mebibytes),
        Op::Split(file, piece_bytes, into) => coreutils::split_file(file, *piece_bytes as usize, into),
        Op::Cat(file) => coreutils::cat(file),
    }
}

/// Makes the untimed action that prepares the destination of an operation: it creates the directory that the operation
/// writes to, or removes a file that an earlier cell left on the source disk.
pub fn prepare_destination_action(op: &Op) -> Option<Action> {
    let (command_name, path, system_call): (_, _, fn(&Path) -> std::io::Result<()>) = match op {
        Op::Touch(dir, _) | Op::MakeDirectories(dir, _) | Op::Split(_, _, dir) | Op::CopyInto(_, dir, _) => {
            ("mkdir", dir, |dir| std::fs::create_dir(dir))
        }
        Op::Copy(_, to) if to.exists() => ("rm", to, |file| std::fs::remove_file(file)),
        _ => return None,
    };
    let run = move |path: &Path| system_call(path).map_err(failed_to(command_name, path));
    Some(Action::call_on(command_name, path, run))
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
    /// Whether fsarena makes the system calls in this process instead of running the programs.
    pub is_native: bool,
    /// Whether copies try to clone the file, and then `copy_file_range`. Otherwise they read and write every byte.
    pub may_clone: bool,
}

impl Driver {
    /// Reads [`DRIVER`] and [`REFLINK`].
    pub fn from_settings(settings: &Settings) -> Driver {
        Driver { is_native: settings.text(DRIVER.id) == "native", may_clone: settings.text(REFLINK.id) == "auto" }
    }

    /// The notes on the driver in every report.
    pub fn remarks(self) -> [Note; 2] {
        let driver = if self.is_native {
            "driver=native: the system calls of the programs were done in-process, without starting any"
        } else {
            "driver=commands: the real programs ran; starting a process is part of every time"
        };
        let copies = if self.may_clone {
            let text = "reflink=auto: where the filesystem can clone (btrfs, xfs, bcachefs) cp copies no data, elsewhere it does";
            fairness_note(text).fix(setting("set", "reflink=never"))
        } else {
            remark_note("reflink=never: every copy reads and writes all bytes, on every filesystem")
        };
        [remark_note(driver), copies]
    }
}
