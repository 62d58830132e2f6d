//! What everyday programs do, by running them or by their system calls.

mod commands;
mod native;
mod op;

use crate::{error::at, task::Action};
pub use op::{DRIVER, Driver, Op, REFLINK, Reflink};
use std::path::Path;

/// The action that does an operation.
pub fn action(op: &Op, driver: Driver, reflink: Reflink) -> Action {
    match driver {
        Driver::Commands => commands::action(op, reflink),
        Driver::Native => native::action(op, reflink),
    }
}

/// Untimed, makes the directory that an operation writes into, and removes what an earlier cell left on the
/// other disk.
pub fn clear_the_way(op: &Op) -> Option<Action> {
    let (doing, path, call): (_, _, fn(&Path) -> std::io::Result<()>) = match op {
        Op::Touch { dir, .. }
        | Op::MakeDirs { dir, .. }
        | Op::Split { into: dir, .. }
        | Op::CopyInto { into: dir, .. } => ("mkdir", dir, |dir| std::fs::create_dir(dir)),
        Op::Copy { to, .. } if to.exists() => ("rm", to, |file| std::fs::remove_file(file)),
        _ => return None,
    };
    Some(Action::on(doing, path, move |path| call(path).map_err(at(doing, path))))
}
