//! The common parts of every machine axis.

use crate::error::{Result, RunError};
use fsarena_core::{cell::Variant, event::Note, factor::FactorDef, plan::Plan};
use fsarena_sys::cgroup::{self, Group};
use fsarena_sys::undo::{self, UndoGuard};
use fsarena_sys::{device::BlockDevice, kernel::SysRoot};
use std::path::PathBuf;

/// An axis: a factor, and how its levels are checked and set up.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The factor: what its levels mean.
    pub def: FactorDef,
    /// Whether it makes sense where the variants are directories as they are.
    pub of_directories: bool,
    /// Refuses, before anything is made, a level that this machine, plan or filesystem cannot have.
    pub check: fn(&LevelCheck) -> Result<()>,
    /// Sets the level up for one cell; does nothing if the devices themselves are the level.
    pub set_up: fn(&mut CellSetup) -> Result<(), fsarena_sys::Error>,
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
    pub const fn checked(self, check: fn(&LevelCheck) -> Result<()>) -> Axis {
        Axis { check, ..self }
    }

    /// The same, with what brings a level about.
    pub const fn set_up(self, set_up: fn(&mut CellSetup) -> Result<(), fsarena_sys::Error>) -> Axis {
        Axis { set_up, ..self }
    }
}

/// A variant to check against a machine.
pub struct LevelCheck<'a> {
    /// The machine.
    pub kernel: &'a SysRoot,
    /// The plan.
    pub plan: &'a Plan,
    /// The variant.
    pub variant: &'a Variant,
}

/// A cell that is about to begin, and whose conditions are set up.
pub struct CellSetup<'a> {
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

/// The conditions of a cell while it runs. Dropping them undoes them.
#[derive(Debug, Default)]
pub struct Conditions {
    /// Where the measuring process runs.
    pub confine: Confine,
    /// What a reader should know of how it was done.
    pub notes: Vec<Note>,
    guards: Vec<UndoGuard>,
}

/// The control groups and CPUs that a process and its children are confined to.
#[derive(Debug, Clone, Default)]
pub struct Confine {
    groups: Vec<PathBuf>,
    /// The CPUs that it may use; None for all.
    pub cpus: Option<Vec<usize>>,
}

impl Confine {
    /// Confines a process that has started no other yet.
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

    /// Whether there is a control group, which lists its processes.
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
    /// Undoes all conditions, the last first.
    ///
    /// # Errors
    /// Where something cannot be undone; it stays in the journal.
    pub fn undo(mut self) -> Result<(), fsarena_sys::Error> {
        while let Some(guard) = self.guards.pop() {
            guard.undo()?;
        }
        Ok(())
    }

    /// Adds something to undo with the conditions.
    pub fn keep(&mut self, guard: UndoGuard) {
        self.guards.push(guard);
    }

    /// Adds a group to run the measuring process in.
    pub fn join(&mut self, group: Group) {
        self.confine.groups.push(group.path().to_path_buf());
        self.guards.extend(group.into_guards());
    }
}

impl Drop for Conditions {
    fn drop(&mut self) {
        // The last first, as by `undo`; a vector drops its first first.
        while self.guards.pop().is_some() {}
    }
}

/// A level that the plan cannot have.
pub fn wrong(check: &LevelCheck, factor: &str, why: impl std::fmt::Display) -> RunError {
    RunError::Plan(format!("variant {}: {factor}={}: {why}", check.variant.name, check.variant.level(factor)))
}

/// A level that this machine lacks.
pub fn lacking(check: &LevelCheck, factor: &str, why: impl std::fmt::Display) -> RunError {
    RunError::Missing(format!(
        "variant {}: {factor}={}: {why}",
        check.variant.name,
        check.variant.level(factor)
    ))
}

/// A level that was found wrong although it had been checked: the store was changed by hand.
pub fn unfit(what: &str) -> impl FnOnce(String) -> fsarena_sys::Error {
    move |why| fsarena_sys::Error::Unfit { what: what.into(), why }
}
