//! Ages a mounted filesystem in the agent, by one step of its history at a time.

use crate::error::{CellError, CellResult};
use crate::executor::CommandLog;
use fsarena_core::event::TreeState;
use fsarena_load::ageing::{ChurnPlan, GitPulls, tree_copy};
use fsarena_load::{invocation::Invocation, payload::make_empty_dir, task::TaskError};
use fsarena_sys::Error;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};

/// The directory for a copy of these files, below the directory of the agent.
const TREE_DIR: &str = "tree";

/// The longest time that one run of an ageing command may take.
const COMMAND_TIME_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// A method of ageing a filesystem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgeingMethod {
    /// Create, delete, overwrite and append to files.
    Churn(ChurnPlan),
    /// Pull the commits of a git repository.
    Git(GitPulls),
    /// Run a command of the user several times.
    Command {
        /// The value of `FSARENA_SEED` in its environment.
        seed: u64,
        /// How often it runs.
        runs: u32,
        /// The program and its arguments.
        #[serde(rename = "words")]
        argv: Vec<String>,
        /// The digest of the program.
        #[serde(rename = "program")]
        program_digest: String,
    },
}

/// One step of an agent that ages a filesystem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgeingStep {
    /// Perform one part of a history. The agent has performed the parts before it.
    Part {
        /// The method of ageing.
        #[serde(rename = "work")]
        method: AgeingMethod,
        /// The number of the part, from 0.
        part: u32,
    },
    /// Copy the files from the filesystem to the directory of the agent.
    CopyOut,
    /// Copy the files from the directory of the agent to the filesystem.
    CopyIn,
    /// Compute the digests of the files that the setup of a workload left. The agent runs the setup before
    /// [`perform_step`].
    Setup,
}

impl AgeingMethod {
    /// The number of parts of the history. A checkpoint is saved after each part.
    pub fn part_count(&self) -> u32 {
        match self {
            AgeingMethod::Churn(plan) => plan.part_count(),
            AgeingMethod::Git(pulls) => pulls.part_count(),
            AgeingMethod::Command { runs, .. } => *runs,
        }
    }

    /// Whether it leaves the same files each time, on every filesystem.
    pub fn is_reproducible(&self) -> bool {
        !matches!(self, AgeingMethod::Command { .. })
    }

    /// Performs one part in the directory `dir`. `agent_dir` is for files that later parts need.
    fn perform_part(&self, part: u32, dir: &Path, agent_dir: &Path, log: CommandLog) -> CellResult {
        match self {
            AgeingMethod::Churn(plan) => plan.perform_part(part, dir).map_err(Error::io("ageing", dir))?,
            AgeingMethod::Git(pulls) => pulls.perform_part(part, dir, agent_dir, log)?,
            AgeingMethod::Command { seed, argv, .. } => {
                let env = [
                    ("FSARENA_DIR".to_string(), dir.as_os_str().to_owned()),
                    ("FSARENA_SEED".to_string(), seed.to_string().into()),
                    ("FSARENA_AGEING_RUN".to_string(), (part + 1).to_string().into()),
                ];
                let (argv, dir, env) = (argv.clone(), dir.into(), env.into());
                let command = Invocation { argv, dir, env, time_limit: COMMAND_TIME_LIMIT, metric_rules: vec![] };
                command.run_and_log(log)?;
            }
        }
        Ok(())
    }
}

/// Performs a step on the files in `root`, which is [`fsarena_load::ageing::AGED_DIR`] of the filesystem, or for a setup the directory of its
/// workload. `agent_dir` is the directory of the agent. Returns the state of the files after the step; None if the
/// history has further parts.
///
/// # Errors
/// If the filesystem refuses an operation, for example because it is full.
pub fn perform_step(
    step: &AgeingStep,
    root: &Path,
    agent_dir: &Path,
    log: CommandLog,
) -> Result<Option<TreeState>, CellError> {
    let tree_dir = agent_dir.join(TREE_DIR);
    match step {
        AgeingStep::Part { method, part } => {
            method.perform_part(*part, root, agent_dir, log).map_err(|error| error.with_part("ageing"))?;
            if *part + 1 < method.part_count() {
                return Ok(None);
            }
        }
        AgeingStep::CopyOut => {
            make_empty_dir(&tree_dir).map_err(TaskError::from)?;
            tree_copy::copy_tree(root, &tree_dir).map_err(Error::io("copying", root))?;
        }
        AgeingStep::Setup => {}
        AgeingStep::CopyIn => tree_copy::copy_tree(&tree_dir, root).map_err(Error::io("copying to", root))?,
    }
    let tree = tree_copy::digest_tree(root).map_err(Error::io("reading", root))?;
    let layout = tree_copy::digest_layout(root).map_err(Error::io("reading", root))?;
    Ok(Some(TreeState { tree, layout }))
}
