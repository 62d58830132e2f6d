//! The context of a run: the parts that every executor needs.

use crate::privsep::AgentConfig;
use crate::protocol::{AgentRequest, Power};
use crate::shell::ShellSession;
use crate::{device_layout::DeviceLayout, file_layout, preflight::Requirements, work::find_workload};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::{event::Note, metric::DeclaredMetrics, plan::Plan};
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_sys::{kernel::SysRoot, undo::Journal};
use std::path::{Path, PathBuf};
use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

/// A run that has been checked and is about to begin.
#[derive(Debug, Clone)]
pub struct RunContext {
    /// The root of the kernel's files.
    pub kernel: SysRoot,
    /// The plan, with the settings that a trial on this machine determined.
    pub plan: Plan,
    /// The requirements of the plan.
    pub requirements: Requirements,
    /// The undo journal: each change of the machine is written there before it is made.
    pub journal: Journal,
    /// The directory of the run.
    pub dir: PathBuf,
    /// The roles and users of its agents.
    pub agent_config: AgentConfig,
    /// The metrics that commands of the run have printed so far.
    pub declared: Rc<RefCell<DeclaredMetrics>>,
    /// The shell that its only cell runs instead of tasks, if it runs one.
    pub shell: Option<ShellSession>,
    /// The directory for machines that several runs share, if they do.
    pub machines_dir: Option<PathBuf>,
}

impl RunContext {
    /// The id of the run: the name of its directory.
    pub fn id(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The devices of a variant.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn layout(&self, variant: &Variant) -> Result<DeviceLayout, fsarena_fs::Error> {
        DeviceLayout::of(&self.plan, variant, self.requirements.size_bytes)
    }

    /// The request to an agent that works in the directory `root`, without a mount and without a known device. `source_dir` is
    /// the directory on the source disk.
    pub fn request(&self, cell: &Cell, root: &Path, source_dir: &Path) -> AgentRequest {
        AgentRequest {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount: None,
            root: root.into(),
            source_dir: source_dir.into(),
            device: None,
            profiling: self.agent_config.profiling,
            role: self.agent_config.role.clone(),
            power: Power::On,
            server_user: self.agent_config.server_user(&cell.workload.name),
            client: None,
            declared: self.declared.borrow().clone(),
            paths_to_copy: None,
            only_makes_files: false,
            age_step: None,
            measures_layout: file_layout::is_measured(&self.plan),
            paths_to_look_up: vec![],
            shell: None,
        }
    }

    /// Notes on differences between the variants that make their comparison unfair.
    pub fn fairness_notes(&self, facts: &BTreeMap<String, VariantFacts>) -> Vec<Note> {
        let clones = |planned| find_workload(&self.plan, planned).is_ok_and(|(work, job)| work.may_clone(&job));
        let may_clone = self.plan.workloads.iter().any(clones);
        // A level that is varied alone differs from its plain variant in nothing else.
        let alone: Vec<&str> = self.plan.vary.keys().map(String::as_str).collect();
        fairness::lint(&facts.values().cloned().collect::<Vec<_>>(), may_clone, &alone)
    }
}
