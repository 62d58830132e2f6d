//! The parts of a run that its executors share.

use crate::privsep::Agents;
use crate::protocol::{Power, Request};
use crate::{layout::Layout, preflight::Check, work::workload};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::{event::Note, metric::Declared, plan::Plan};
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_sys::{kernel::SysRoot, undo::Journal};
use std::path::{Path, PathBuf};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// A run that has been checked and is about to begin.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The machine.
    pub kernel: SysRoot,
    /// The plan, with everything that only a trial here could decide.
    pub plan: Plan,
    /// The requirements of the plan.
    pub check: Check,
    /// Where everything is noted before it is done.
    pub journal: Journal,
    /// The directory of the run.
    pub dir: PathBuf,
    /// The part that its agents play.
    pub agents: Agents,
    /// The metrics that its commands have declared so far by printing them.
    pub declared: Rc<RefCell<Declared>>,
}

impl RunContext {
    /// The name of its directory.
    pub fn id(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The devices of a variant.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn layout(&self, variant: &Variant) -> Result<Layout, fsarena_fs::Error> {
        Layout::of(&self.plan, variant, self.check.size_bytes)
    }

    /// The request to an agent that works in `root`, where nothing is mounted and no device is known.
    pub fn request(&self, cell: &Cell, root: &Path, other: &Path) -> Request {
        Request {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount: None,
            root: root.into(),
            other: other.into(),
            device: None,
            profiling: self.agents.profiling,
            role: self.agents.role.clone(),
            power: Power::On,
            server_user: self.agents.server_user(&cell.workload.name),
            client: None,
            declared: self.declared.borrow().clone(),
        }
    }

    /// What makes the variants unequal.
    pub fn unfair(&self, facts: &BTreeMap<String, VariantFacts>) -> Vec<Note> {
        let clones = |asked| workload(&self.plan, asked).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        // A level that is varied alone differs from its plain variant in nothing else.
        let alone: Vec<&str> = self.plan.vary.keys().map(String::as_str).collect();
        fairness::lint(&facts.values().cloned().collect::<Vec<_>>(), may_clone, &alone)
    }
}
