//! The type of an axis of the machine, and the conditions that axes set up for a cell.

use crate::error::{Result, RunError};
use fsarena_core::{cell::Variant, event::Note, factor::FactorDef, plan::Plan};
use fsarena_sys::cgroup::{self, ControlGroup, Controller};
use fsarena_sys::undo::{self, UndoGuard};
use fsarena_sys::{device::BlockDevice, kernel::SysRoot, lock::LockedFile};
use std::{fmt::Display, path::PathBuf};

/// An axis: a factor, with functions that check and set up its levels.
#[derive(Clone, Copy)]
pub struct Axis {
    /// The factor with the definition of its levels.
    pub def: FactorDef,
    /// Whether variants that are existing directories can have this axis.
    pub allows_directories: bool,
    /// Refuses, before anything is made, a level that this machine, plan or filesystem does not support.
    pub check: fn(&LevelCheck) -> Result<()>,
    /// Sets up the level for one cell. Does nothing for axes that only determine the devices of the run.
    pub set_up: fn(&mut CellSetup) -> Result<(), fsarena_sys::Error>,
}

impl Axis {
    /// A new axis, for formatted devices only, that every machine supports and that sets nothing up. `id` is the name
    /// of its factor, `example_levels` lists levels, `help` is the help text, and `check_level` checks the syntax of a level.
    pub const fn new(
        id: &'static str,
        example_levels: &'static str,
        help: &'static str,
        check_level: fn(&str) -> Result<(), String>,
    ) -> Axis {
        let def = FactorDef { id, default: "", example_levels, help, check: check_level };
        Axis { def, allows_directories: false, check: |_| Ok(()), set_up: |_| Ok(()) }
    }

    /// Also allows the axis for variants that are existing directories.
    pub const fn also_for_directories(self) -> Axis {
        Axis { allows_directories: true, ..self }
    }

    /// Sets the function that refuses levels which a machine or plan does not support.
    pub const fn with_check(self, check: fn(&LevelCheck) -> Result<()>) -> Axis {
        Axis { check, ..self }
    }

    /// Sets the function that sets up a level for a cell.
    pub const fn with_set_up(self, set_up: fn(&mut CellSetup) -> Result<(), fsarena_sys::Error>) -> Axis {
        Axis { set_up, ..self }
    }
}

/// The arguments of [`Axis::check`]: a variant to check against this machine.
pub struct LevelCheck<'a> {
    /// The root of the kernel's files.
    pub kernel: &'a SysRoot,
    /// The plan.
    pub plan: &'a Plan,
    /// The variant.
    pub variant: &'a Variant,
    /// The factor of the axis.
    pub factor: &'static str,
}

impl<'a> LevelCheck<'a> {
    /// The level of the axis.
    pub fn level(&self) -> &'a str {
        self.variant.level(self.factor)
    }

    /// The error of a level that does not fit the plan or its workload.
    pub fn plan_error(&self, why: impl Display) -> RunError {
        RunError::Plan(self.describe(why))
    }

    /// The error of a level that this machine does not support.
    pub fn missing_error(&self, why: impl Display) -> RunError {
        RunError::Missing(self.describe(why))
    }

    fn describe(&self, why: impl Display) -> String {
        format!("variant {}: {}={}: {why}", self.variant.name, self.factor, self.level())
    }
}

/// The arguments of [`Axis::set_up`]: a cell whose levels are being set up.
pub struct CellSetup<'a> {
    /// The root of the kernel's files.
    pub kernel: &'a SysRoot,
    /// The undo journal, which gets each change before it is made.
    pub journal: &'a undo::Journal,
    /// The variant.
    pub variant: &'a Variant,
    /// The factor of the axis.
    pub factor: &'static str,
    /// All devices of the filesystem of the cell.
    pub devices: &'a [&'a BlockDevice],
    /// The conditions set up so far.
    pub conditions: &'a mut Conditions,
}

impl<'a> CellSetup<'a> {
    /// The level of the axis.
    pub fn level(&self) -> &'a str {
        self.variant.level(self.factor)
    }

    /// Parses the level of the axis.
    ///
    /// # Errors
    /// The message of `parse`. fsarena checks all levels before a run begins, so only a changed plan of a stored run
    /// has an invalid one.
    pub fn parse_level<T>(&self, parse: fn(&str) -> Result<T, String>) -> Result<T, fsarena_sys::Error> {
        parse(self.level()).map_err(|why| fsarena_sys::Error::Unusable { object: self.factor.into(), why })
    }

    /// Finds the cgroup controller that the level needs. `v1_name` is its name in version 1 of control groups, `v2_name`
    /// its name in version 2.
    ///
    /// # Errors
    /// The kernel has no such controller. fsarena checks that before a run begins, except for the kernels of guests.
    pub fn find_controller(
        &self,
        v1_name: &'static str,
        v2_name: &'static str,
    ) -> Result<Controller, fsarena_sys::Error> {
        Controller::find(self.kernel, v1_name, v2_name).ok_or_else(|| {
            let why = format!("this kernel has no cgroup controller {v2_name}");
            fsarena_sys::Error::Unusable { object: format!("{}={}", self.factor, self.level()).into(), why }
        })
    }
}

/// The levels that are set up for a cell. Dropping them undoes them.
#[derive(Debug, Default)]
pub struct Conditions {
    /// The control groups and CPUs of the measuring process.
    pub confinement: Confinement,
    /// Notes for the report on how the levels were set up.
    pub notes: Vec<Note>,
    guards: Vec<UndoGuard>,
    /// The locks of machine-wide attributes, which are released after `guards` have restored these.
    locks: Vec<LockedFile>,
}

/// The control groups and CPUs that a process and its children are confined to.
#[derive(Debug, Clone, Default)]
pub struct Confinement {
    /// The directories of the control groups.
    groups: Vec<PathBuf>,
    /// The CPUs that it may use; None for all.
    pub cpus: Option<Vec<usize>>,
}

impl Confinement {
    /// Confines a process, which must not have started other processes yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self, pid: i32) -> Result<(), fsarena_sys::Error> {
        self.groups.iter().try_for_each(|group| cgroup::add_process(group, pid))?;
        let Some(cpus) = &self.cpus else { return Ok(()) };
        let mut set = rustix::thread::CpuSet::new();
        cpus.iter().filter(|cpu| **cpu < rustix::thread::CpuSet::MAX_CPU).for_each(|cpu| set.set(*cpu));
        rustix::thread::sched_setaffinity(rustix::process::Pid::from_raw(pid), &set).map_err(|error| {
            let why = format!("it cannot be bound to CPUs {cpus:?}: {}", std::io::Error::from(error));
            fsarena_sys::Error::Unusable { object: format!("process {pid}").into(), why }
        })
    }

    /// Whether the process is confined to a control group, which lists it and its children.
    pub fn has_group(&self) -> bool {
        !self.groups.is_empty()
    }

    /// Kills every process in the control groups, and waits until they have ended.
    ///
    /// # Errors
    /// A process has not ended after 30 s.
    pub fn end_processes(&self) -> Result<(), fsarena_sys::Error> {
        self.groups.iter().try_for_each(|group| cgroup::kill_processes(&SysRoot::host(), group))
    }

    /// Whether the kernel has killed a process in its control groups because the group exceeded its memory limit.
    pub fn ran_out_of_memory(&self) -> bool {
        self.groups.iter().any(|group| cgroup::oom_kills(group) > 0)
    }
}

impl Conditions {
    /// Undoes all conditions, in reverse order.
    ///
    /// # Errors
    /// A change cannot be undone; it stays in the undo journal.
    pub fn undo(mut self) -> Result<(), fsarena_sys::Error> {
        while let Some(guard) = self.guards.pop() {
            guard.undo()?;
        }
        Ok(())
    }

    /// Adds a guard that undoes a change when the conditions are undone.
    pub fn add_guard(&mut self, guard: UndoGuard) {
        self.guards.push(guard);
    }

    /// Adds the lock of attributes that the conditions change. It is released when the conditions are undone.
    pub fn add_lock(&mut self, lock: LockedFile) {
        self.locks.push(lock);
    }

    /// Adds a control group that the measuring process will run in.
    pub fn add_group(&mut self, group: ControlGroup) {
        self.confinement.groups.push(group.path().to_path_buf());
        self.guards.extend(group.into_guards());
    }
}

impl Drop for Conditions {
    fn drop(&mut self) {
        // In reverse order, as `undo` does. A vector would drop its elements from the first on.
        while self.guards.pop().is_some() {}
    }
}
