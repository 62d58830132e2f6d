//! The context of a run: the parts that every executor needs.

use crate::privsep::AgentConfig;
use crate::protocol::{AgentRequest, Power};
use crate::shell::ShellSession;
use crate::{device_layout::DeviceLayout, file_layout, preflight::Requirements, work::find_workload};
use fsarena_core::cell::{Cell, Variant};
use fsarena_core::{event::Note, metric::DeclaredMetrics, plan::Plan};
use fsarena_fs::def::FsDef;
use fsarena_fs::fairness::{self, VariantFacts};
use fsarena_fs::lifecycle::VariantOptions;
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
    pub declared_metrics: Rc<RefCell<DeclaredMetrics>>,
    /// The shell that the only cell of the run starts instead of running tasks; None for a run with tasks.
    pub shell: Option<ShellSession>,
    /// The directory of saved guest machines that this run shares with others; None if it shares none.
    pub shared_machines_dir: Option<PathBuf>,
}

impl RunContext {
    /// The id of the run: the name of its directory.
    pub fn id(&self) -> String {
        self.dir.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The devices below the filesystem of a variant.
    ///
    /// # Errors
    /// An unknown filesystem or option set.
    pub fn device_layout(&self, variant: &Variant) -> Result<DeviceLayout, fsarena_fs::Error> {
        DeviceLayout::of(&self.plan, variant, self.requirements.size_bytes)
    }

    /// The request to an agent that runs a cell in the directory `root`, without mounting a filesystem. Callers add the
    /// mount, the device and everything else that differs from the defaults. `source_dir` is the directory on the
    /// source disk.
    pub fn agent_request(&self, cell: &Cell, root: &Path, source_dir: &Path) -> AgentRequest {
        AgentRequest {
            cell: cell.clone(),
            idle: self.plan.idle.clone(),
            mount: None,
            root: root.into(),
            source_dir: source_dir.into(),
            device: None,
            profiled_task: self.agent_config.profiled_task.clone(),
            role: self.agent_config.role.clone(),
            power: Power::On,
            server_user: self.agent_config.server_user(&cell.workload.name),
            client: None,
            declared_metrics: self.declared_metrics.borrow().clone(),
            paths_to_copy: None,
            only_makes_files: false,
            ageing_step: None,
            measures_layout: file_layout::is_measured(&self.plan),
            paths_to_look_up: vec![],
            shell: None,
        }
    }

    /// Notes on differences between the variants that make their comparison unfair. `facts` are the facts of each
    /// variant, by its name.
    pub fn fairness_notes(&self, facts: &BTreeMap<String, VariantFacts>) -> Vec<Note> {
        let may_clone =
            self.plan.workloads.iter().any(|planned| {
                find_workload(&self.plan, planned).is_ok_and(|(workload, job)| workload.may_clone(&job))
            });
        // A factor of `vary` is varied alone: a variant with one of its levels differs from another variant in nothing
        // else.
        let varied_alone: Vec<&str> = self.plan.vary.keys().map(String::as_str).collect();
        fairness::lint(&facts.values().cloned().collect::<Vec<_>>(), may_clone, &varied_alone)
    }
}

/// The facts of the filesystem of a variant that has not been mounted yet, so that the mount options in effect are
/// unknown.
pub fn facts_before_mount(
    variant: &Variant,
    def: &'static FsDef,
    options: VariantOptions,
    size_bytes: u64,
    features: String,
) -> VariantFacts {
    let Variant { name, levels } = variant.clone();
    VariantFacts { name, def, options, effective_options: String::new(), size_bytes, features, levels }
}
