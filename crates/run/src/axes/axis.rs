//! The common parts of every machine axis.

use crate::executor::{Fatal, Result};
use fsarena_core::{cell::Variant, event::Note, factor::FactorDef, plan::Plan};
use fsarena_sys::cgroup::{self, Group};
use fsarena_sys::undo::{self, UndoGuard};
use fsarena_sys::{device::BlockDevice, kernel::SysRoot};
use std::path::PathBuf;

/// What one factor changes.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The factor: what its levels mean.
    pub def: FactorDef,
    /// Whether it makes sense where the variants are directories as they are.
    pub of_directories: bool,
    /// Says before anything is made why this machine, this plan or this filesystem cannot have the variant's level.
    pub check: fn(&Asked) -> Result<()>,
    /// Brings the level about for one cell; nothing where the devices themselves are the level.
    pub set_up: fn(&mut Stage) -> Result<(), fsarena_sys::Error>,
}

impl Axis {
    /// An axis of the devices below a filesystem: the name of its factor, examples of levels, help for people, and what
    /// checks that a level is one. Every machine has its levels, and nothing is set up for a cell.
    pub const fn of_devices(
        id: &'static str,
        example: &'static str,
        help: &'static str,
        level: fn(&str) -> Result<(), String>,
    ) -> Axis {
        let def = FactorDef { id, default: "", example, help, check: level };
        Axis { def, of_directories: false, check: |_| Ok(()), set_up: |_| Ok(()) }
    }

    /// The same, which makes sense also where the variants are directories as they are.
    pub const fn and_directories(self) -> Axis {
        Axis { of_directories: true, ..self }
    }

    /// The same, with what says why a level cannot be had.
    pub const fn checked(self, check: fn(&Asked) -> Result<()>) -> Axis {
        Axis { check, ..self }
    }

    /// The same, with what brings a level about.
    pub const fn set_up(self, set_up: fn(&mut Stage) -> Result<(), fsarena_sys::Error>) -> Axis {
        Axis { set_up, ..self }
    }
}

/// The variant to set up.
pub struct Asked<'a> {
    /// The machine.
    pub kernel: &'a SysRoot,
    /// The plan.
    pub plan: &'a Plan,
    /// The variant.
    pub variant: &'a Variant,
}

/// One cell that is about to begin.
pub struct Stage<'a> {
    /// The machine.
    pub kernel: &'a SysRoot,
    /// Where everything is noted before it is done.
    pub journal: &'a undo::Journal,
    /// The variant.
    pub variant: &'a Variant,
    /// All devices of its filesystem.
    pub devices: &'a [&'a BlockDevice],
    /// The conditions set up so far.
    pub done: &'a mut Conditions,
}

/// What holds while a cell runs. Dropping it undoes it.
#[derive(Debug, Default)]
pub struct Conditions {
    /// Where the measuring process runs.
    pub confine: Confine,
    /// What a reader should know of how it was done.
    pub notes: Vec<Note>,
    armed: Vec<UndoGuard>,
}

/// Where a process and all that it starts is confined to.
#[derive(Debug, Clone, Default)]
pub struct Confine {
    groups: Vec<PathBuf>,
    /// The CPUs that it may use; none where all.
    pub cpus: Option<Vec<usize>>,
}

impl Confine {
    /// Puts a process there. It has started nothing yet.
    ///
    /// # Errors
    /// Where the kernel refuses.
    pub fn enter(&self, pid: i32) -> Result<(), fsarena_sys::Error> {
        self.groups.iter().try_for_each(|group| cgroup::enter(group, pid))?;
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter().filter(|cpu| **cpu < rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
        rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(pid), &set).map_err(|error| {
            let why = format!("it cannot be bound to CPUs {cpus:?}: {}", std::io::Error::from(error));
            fsarena_sys::Error::Unfit { what: format!("process {pid}").into(), why }
        })
    }

    /// Whether it has a control group, which says which processes are there.
    pub fn has_group(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Kills every process in its control groups.
    ///
    /// # Errors
    /// If one has not ended after 30 s.
    pub fn end_processes(&self) -> Result<(), fsarena_sys::Error> {
        self.groups.iter().try_for_each(|group| cgroup::end_processes(&SysRoot::host(), group))
    }

    /// Whether the kernel has killed a process there because the memory of its group was used up.
    pub fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(|group| cgroup::kills(group) > 0)
    }
}

impl Conditions {
    /// Undoes it all, the last first.
    ///
    /// # Errors
    /// Where something cannot be undone; it stays in the journal.
    pub fn undo(mut self) -> Result<(), fsarena_sys::Error> {
        while let Some(armed) = self.armed.pop() {
            armed.undo()?;
        }
        Ok(())
    }

    /// Has something undone with the rest.
    pub fn keep(&mut self, armed: UndoGuard) {
        self.armed.push(armed);
    }

    /// Has the measuring process run in a group.
    pub fn join(&mut self, group: Group) {
        self.confine.groups.push(group.path().to_path_buf());
        self.armed.extend(group.into_guards());
    }
}

impl Drop for Conditions {
    fn drop(&mut self) {
        // The last first, as by `undo`; a vector drops its first first.
        while self.armed.pop().is_some() {}
    }
}

/// A level that the plan cannot have.
pub fn wrong(asked: &Asked, factor: &str, why: impl std::fmt::Display) -> Fatal {
    Fatal::Plan(format!("variant {}: {factor}={}: {why}", asked.variant.name, asked.variant.level(factor)))
}

/// A level that this machine lacks.
pub fn lacking(asked: &Asked, factor: &str, why: impl std::fmt::Display) -> Fatal {
    Fatal::Missing(format!("variant {}: {factor}={}: {why}", asked.variant.name, asked.variant.level(factor)))
}

/// A level that was found wrong although it had been checked: the store was changed by hand.
pub fn unfit(what: &str) -> impl FnOnce(String) -> fsarena_sys::Error {
    move |why| fsarena_sys::Error::Unfit { what: what.into(), why }
}
