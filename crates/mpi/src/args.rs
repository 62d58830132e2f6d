//! The command line of `fsarena-mpi`, and the run that it requests.

use clap::{Parser, Subcommand};
use fsarena_core::names::{self, unknown_name};
use fsarena_core::plan::file::{self, PlanFile};
use fsarena_core::plan::{Backing, Plan, limits};
use fsarena_core::{factor, plan::resolve::Overrides, scale::Scale, schedule::mix, study};
use fsarena_mpi::ranks::Ranks;
use fsarena_run::{Destination, RunError, RunRequest, directories::Clients, registry};
use fsarena_store::RunDir;
use fsarena_sys::input;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The default study.
const DEFAULT_STUDY: &str = "shared";

/// The arguments that define a new run. A resumed run has its own plan.
const NEW_RUN_ARGUMENTS: [&str; 9] =
    ["on", "plan", "source_dir", "rounds", "scale", "workload", "set", "claim", "seed"];

/// One load from many clients: mpirun -n 64 fsarena-mpi run PLAN --on dir:/mnt/shared
///
/// Each rank is a client. All clients begin each task of the plan together, in a directory that all machines share.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Box<RunArgs>),
    /// Measure what messages, clocks, waiting and merging take on these machines
    Measure,
}

/// Run a study or plan with every rank as a client, store every sample, and print the answer
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Study or plan file
    #[arg(default_value = DEFAULT_STUDY)]
    plan: String,
    /// Shared directory, the same on all machines; repeat it to compare filesystems
    #[arg(long, value_name = "dir:PATH", value_parser = parse_directory, required_unless_present = "resume")]
    on: Vec<PathBuf>,
    /// Shared directory for inputs [default: the first of --on]
    #[arg(long = "other", value_name = "DIR")]
    source_dir: Option<PathBuf>,
    /// Rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Size of the work: tiny, quick or paper
    #[arg(long, value_parser = |text: &str| names::find_by_id("scale", text, Scale::ALL, |scale| scale.name()))]
    scale: Option<Scale>,
    /// Workload instead of the plan's only one
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// Setting of the workload; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    set: Vec<(String, String)>,
    /// Claim to judge, such as `write-own.bandwidth: a > b by 5%`; repeatable
    #[arg(long, value_name = "CLAIM")]
    claim: Vec<String>,
    /// Seed of everything random
    #[arg(long)]
    seed: Option<u64>,
    /// Time after which a task of one client counts as hung
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_timeout)]
    pub timeout: Duration,
    /// Directory of runs, on the machine of rank 0
    #[arg(
        id = "runs",
        long = "runs",
        value_name = "DIR",
        env = "FSARENA_RUNS",
        hide_env_values = true,
        default_value = "runs"
    )]
    runs_dir: PathBuf,
    /// Go on with an interrupted run, with the same number of ranks
    #[arg(long, value_name = "RUN", conflicts_with_all = NEW_RUN_ARGUMENTS)]
    resume: Option<String>,
    /// User that the work runs as, on every machine
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

fn parse_directory(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("dir:").ok_or("use dir:PATH; ranks share a directory")?;
    std::path::absolute(path).map_err(|error| error.to_string())
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("use NAME=VALUE")?;
    Ok((name.into(), value.into()))
}

/// Parses a time limit: above 0, and as short as every time of a plan.
fn parse_timeout(text: &str) -> Result<Duration, String> {
    let timeout = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if timeout.is_zero() {
        return Err("must be above 0".into());
    }
    limits::checked_duration(timeout.as_secs_f64()).map(|_| timeout)
}

impl RunArgs {
    /// Makes the request for a new or resumed run.
    ///
    /// # Errors
    /// If the plan is invalid, or the run cannot be resumed by this number of ranks.
    pub fn make_request(&self, ranks: &Ranks) -> Result<RunRequest, RunError> {
        let mut request = match &self.resume {
            Some(name) => resume_request(&self.runs_dir, name, ranks)?,
            None => RunRequest::new(self.resolve_plan()?, Destination::NewRun(self.runs_dir.clone())),
        };
        request.user = self.user.clone();
        Ok(request)
    }

    /// The plan of the study or file, with the arguments applied. Its stages are left out: only `fsarena run` runs a
    /// study stage by stage.
    fn resolve_plan(&self) -> Result<Plan, RunError> {
        let (origin, bytes) = match study::find(&self.plan) {
            Some(study) => (format!("study {}", study.name), study.plan_toml.as_bytes().to_vec()),
            None => (self.plan.clone(), read_plan(&self.plan)?),
        };
        let parsed_plan = PlanFile::parse(&origin, &bytes)?;
        let dirs = self.on.iter().map(|dir| dir.display().to_string()).collect();
        let now_ns = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let overrides = Overrides {
            scale: self.scale,
            seed: self.seed,
            rounds: self.rounds,
            claims: self.claim.clone(),
            factors: vec![(factor::DIR.into(), dirs)],
            workload: self.workload.clone(),
            settings: self.set.clone(),
            backing: Some(Backing::Dir),
            source_dir: self.source_dir.clone().or(self.on.first().cloned()),
            fresh_seed: mix(now_ns as u64, u64::from(std::process::id())),
            ..Overrides::default()
        };
        registry::resolve(&parsed_plan, &overrides)
    }
}

/// Reads a plan file. If that fails, the error also suggests studies with a similar name.
fn read_plan(name: &str) -> Result<Vec<u8>, RunError> {
    input::read(Path::new(name), file::MAX_PLAN_BYTES as u64).map_err(|error| {
        let studies = study::STUDIES.iter().map(|study| study.name);
        RunError::Plan(format!("{} ({error})", unknown_name("study or plan file", name, studies)))
    })
}

/// The request to resume a run, which must have the same number of clients.
fn resume_request(runs_dir: &Path, name: &str, ranks: &Ranks) -> Result<RunRequest, RunError> {
    let run = RunDir::find(runs_dir, name)?;
    let record = fsarena_store::read(&run)?;
    let clients_before = record.hosts.first().and_then(|host| host.facts.get("clients"));
    let clients_now = ranks.count().to_string();
    if clients_before.is_some_and(|before| *before != clients_now) {
        let before = clients_before.map_or("", String::as_str);
        let message = format!("run {} has {before} clients: resume it with mpirun -n {before}", run.id());
        return Err(RunError::Plan(message));
    }
    RunRequest::resume(run, None, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_takes_no_argument_of_a_new_run() {
        let is_accepted = |flags: &[&str]| {
            let words = ["fsarena-mpi", "run", "--resume", "latest"];
            Args::try_parse_from(words.iter().chain(flags)).is_ok()
        };
        assert!(is_accepted(&[]) && is_accepted(&["--timeout", "10s", "--user", "nobody", "--runs", "other"]));
        for flags in
            [["--rounds", "3"], ["--set", "bs=4096"], ["--other", "/tmp"], ["--on", "dir:/tmp"], ["--seed", "1"]]
        {
            assert!(!is_accepted(&flags), "{flags:?}");
        }
    }

    #[test]
    fn a_time_limit_is_above_zero_and_cannot_overflow() {
        assert_eq!(parse_timeout("10s"), Ok(Duration::from_secs(10)));
        for text in ["0s", "500000000000years", "soon"] {
            assert!(parse_timeout(text).is_err(), "{text}");
        }
    }
}
