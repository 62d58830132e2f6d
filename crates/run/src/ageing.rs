//! Ages a mounted filesystem, in the agent.

use crate::error::{CellError, CellResult};
use crate::executor::Log;
use fsarena_core::event::TreeState;
use fsarena_load::ageing::{ChurnPlan, GitPulls, tree_copy};
use fsarena_load::{invocation::Invocation, payload::make_empty_dir, task::TaskError};
use fsarena_sys::Error;
use serde::{Deserialize, Serialize};
use std::{path::Path, time::Duration};

/// The directory of the files of an aged filesystem, below its root.
pub const AGED_DIR: &str = "aged";
/// Where an agent keeps a copy of these files, below its own directory.
const TREE_DIR: &str = "tree";

/// The longest time that one run of an ageing command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// What ages a filesystem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgeWork {
    /// Files are created, deleted, overwritten and appended to.
    Churn(ChurnPlan),
    /// Commits are pulled.
    Git(GitPulls),
    /// A command of the user runs again and again.
    Command {
        /// The seed that it finds as `$FSARENA_SEED`.
        seed: u64,
        /// How often it runs.
        runs: u32,
        /// The program and its arguments.
        words: Vec<String>,
        /// The digest of the program.
        #[serde(rename = "program")]
        program_digest: String,
    },
}

/// What an agent does to age a filesystem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgeStep {
    /// A part of a history, which follows the parts before it.
    Part {
        /// The history.
        work: AgeWork,
        /// The number of the part, from 0.
        part: u32,
    },
    /// Copy the files to the directory of the agent.
    CopyOut,
    /// Copy the files from the directory of the agent.
    CopyIn,
    /// Describe the files that the setup of a workload left. The agent runs the setup before [`perform_step`].
    Setup,
}

impl AgeWork {
    /// The number of parts that the history has. A checkpoint follows each of them.
    pub fn part_count(&self) -> u32 {
        match self {
            AgeWork::Churn(plan) => plan.parts(),
            AgeWork::Git(pulls) => pulls.parts(),
            AgeWork::Command { runs, .. } => *runs,
        }
    }

    /// Whether it leaves the same files wherever it is repeated.
    pub fn is_reproducible(&self) -> bool {
        !matches!(self, AgeWork::Command { .. })
    }

    /// Performs a part in a directory. `agent_dir` keeps what later parts need.
    fn perform_part(&self, part: u32, dir: &Path, agent_dir: &Path, log: Log) -> CellResult {
        match self {
            AgeWork::Churn(plan) => plan.perform_part(part, dir).map_err(Error::io("ageing", dir))?,
            AgeWork::Git(pulls) => pulls.perform_part(part, dir, agent_dir, log)?,
            AgeWork::Command { seed, words, .. } => {
                let env = [("FSARENA_DIR", dir.as_os_str().to_owned()), ("FSARENA_SEED", seed.to_string().into())];
                let number = [("FSARENA_AGEING_RUN", (part + 1).to_string().into())];
                let env = env.into_iter().chain(number).map(|(name, value)| (name.to_string(), value)).collect();
                let (argv, dir) = (words.clone(), dir.into());
                let command = Invocation { argv, dir, env, time_limit: COMMAND_LIMIT, metric_rules: vec![] };
                command.run_and_log(log)?;
            }
        }
        Ok(())
    }
}

/// Performs a step on the files in `root`: [`AGED_DIR`] of the filesystem, or the directory of its workload for a setup.
/// `agent_dir` is the agent's own directory. Returns what the step left, unless a part of the history follows.
///
/// # Errors
/// If the filesystem refuses an operation, for example because it is full.
pub fn perform_step(step: &AgeStep, root: &Path, agent_dir: &Path, log: Log) -> Result<Option<TreeState>, CellError> {
    let tree_dir = agent_dir.join(TREE_DIR);
    match step {
        AgeStep::Part { work, part } => {
            work.perform_part(*part, root, agent_dir, log).map_err(|failed| failed.with_part("ageing"))?;
            if *part + 1 < work.part_count() {
                return Ok(None);
            }
        }
        AgeStep::CopyOut => {
            make_empty_dir(&tree_dir).map_err(TaskError::from)?;
            tree_copy::copy(root, &tree_dir).map_err(Error::io("copying", root))?;
        }
        AgeStep::Setup => {}
        AgeStep::CopyIn => tree_copy::copy(&tree_dir, root).map_err(Error::io("copying to", root))?,
    }
    let tree = tree_copy::digest(root).map_err(Error::io("reading", root))?;
    let layout = tree_copy::layout_digest(root).map_err(Error::io("reading", root))?;
    Ok(Some(TreeState { tree, layout }))
}
