//! `fsarena bisect`: finds the commit, kernel or other candidate at which a cost changed.

use crate::commands::ab::max_slowdown::{MaxSlowdown, gate_claims, parse_max_slowdown};
use crate::commands::analyse::rerun;
use crate::commands::handle_signals;
use crate::commands::list::{newest_of_series, suite_kernels};
use crate::commands::run::variants::{Levels, plan_of_variants};
use crate::commands::run::{self, FactorLevels, parse_factor};
use crate::failure::{CommandResult, Failure, usage_error};
use crate::flags::{absolute_path, absolute_text, hide_refused};
use crate::output;
use crate::terminal::progress::Progress;
use fsarena_core::bisect::{Bisection, CandidateSource, Ending, FORMAT_VERSION};
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::exit::ExitCode;
use fsarena_core::plan::{Backing, OPEN_ENDED_ROUNDS, Plan};
use fsarena_core::{factor, record::RunRecord};
use fsarena_guest::debian::{flavour_of, matches_version, sort_releases};
use fsarena_guest::kernel::{DEBIAN, KernelDirs};
use fsarena_report::bisect::{bisection_page, exit_code};
use fsarena_report::functions::counted_instructions;
use fsarena_report::page::{FORMATS, Page};
use fsarena_run::bisect::{BisectDisplay, Bisector, FILE_PLACEHOLDER, LEVEL_PLACEHOLDER, TREE_PLACEHOLDER};
use fsarena_run::{Consumer, work};
use fsarena_stats::comparison::median;
use fsarena_store::RunDir;
use fsarena_sys::cancel;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Find the commit, kernel or other candidate at which a cost changed
///
/// GOOD meets the claim and BAD does not. Candidates are the commits of --repo after GOOD up to BAD, each built by --build; or
/// the levels of --levels from GOOD to BAD; or, if both ends are Debian kernels such as debian:6.1, the kernels of Debian's suites
/// between them. Each step measures GOOD, the candidate and BAD in the same rounds, and decides which end the candidate is nearer
/// to: by counts (--on exact), or by time, with at most 5% error for the whole bisection. Candidates that do not build, boot or
/// do the work are skipped.
///
/// --variant says how a commit becomes a variant [default: kernel={tree}]: {tree} is the directory in which it was built,
/// {file:PATH} the content of a file there.
///
/// The exit code is 0 if the candidate was found, 3 if BAD meets the claim too, and 4 if the time or the rounds did not suffice.
/// An interrupted bisection continues with --resume, an inconclusive one if its command is repeated with a larger --budget.
// clap names the group of a structure after the structure, and several structures are called `Args`.
#[derive(Debug, clap::Args)]
#[group(id = "bisection")]
#[command(mut_args(adapt_help))]
pub struct Args {
    /// Candidate that meets the claim: a commit, a level of --levels, or a kernel of Debian
    #[arg(value_name = "GOOD", required_unless_present = "resume")]
    good: Option<String>,
    /// Candidate that does not, after GOOD
    #[arg(value_name = "BAD", required_unless_present = "resume")]
    bad: Option<String>,
    /// Git repository whose commits are bisected; fsarena builds in a clone and changes nothing in it
    #[arg(long, value_name = "DIR", conflicts_with = "levels", help_heading = "Candidates")]
    repo: Option<PathBuf>,
    /// Command that builds a commit in its tree, split into words as a shell does, without a shell; repeatable, in order
    #[arg(long, value_name = "COMMAND", requires = "repo", help_heading = "Candidates")]
    build: Vec<String>,
    /// Follow only the first parent of each merge
    #[arg(long, requires = "repo", help_heading = "Candidates")]
    first_parent: bool,
    /// Only commits that change this path of the repository; repeatable
    #[arg(long, value_name = "PATH", requires = "repo", help_heading = "Candidates")]
    path: Vec<String>,
    /// Factor whose levels are bisected, in order: `kernel=debian:6.1,debian:6.12,debian:7.3`
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = parse_factor, help_heading = "Candidates")]
    levels: Option<FactorLevels>,
    /// Largest accepted slowdown, such as `0.5%` or `commit.latency_p99=5%`, instead of --claim
    #[arg(long, value_name = "[TASK.METRIC=]PERCENT", value_parser = parse_max_slowdown, conflicts_with = "claim", help_heading = "Claims")]
    max_slowdown: Option<MaxSlowdown>,
    #[command(flatten)]
    run: run::Args,
}

/// The flags of `run` that this command sets itself, or that make no sense for it.
pub const REFUSED_FLAGS: &str =
    "vary after stage shard rounds find within by save_baseline exit_style export weight current full dry_run";

/// Hides the flags that this command refuses from its help, and describes the claim of a bisection.
fn adapt_help(arg: clap::Arg) -> clap::Arg {
    if arg.get_id() == "claim" {
        let example = "`total.elapsed: candidate <= baseline within 1%`";
        return arg.help(format!("Claim that GOOD meets and BAD does not, with `candidate` and `baseline`: {example}"));
    }
    hide_refused(arg, REFUSED_FLAGS)
}

/// Begins or continues a bisection, and prints what it found.
pub fn run(args: Args) -> CommandResult {
    let refused = REFUSED_FLAGS.split(' ');
    args.run.explicit_flags.refuse(refused, "bisect determines this itself, or does not need it")?;
    let format = args.run.format.id;
    if !FORMATS.contains(&format) {
        return usage_error(format!("--format {format}: bisect has {}", FORMATS.join(", ")));
    }
    handle_signals()?;
    let (runs_dir, quiet) = (args.run.runs.dir.clone(), args.run.quiet);
    let mut bisector = match &args.run.resume {
        Some(id) => resume(&args, id)?,
        None => begin(args)?,
    };
    let mut display = BisectProgress { quiet, progress: Progress::new(quiet) };
    let is_unfinished = bisector.state.ending.is_none();
    if is_unfinished {
        let (id, dir) = (&bisector.state.id, bisector.dir().display());
        display.show(&format!("bisect {id} in {dir}; continue it after an interruption: fsarena bisect --resume {id}"));
    }
    let ended = bisector.run(&mut display)?;
    if !ended {
        display.show(&format!("interrupted; continue: fsarena bisect --resume {}", bisector.state.id));
        return Ok(ExitCode::Inconclusive);
    }
    let mut functions = None;
    if is_unfinished {
        match functions_that_grew(&bisector.state, &runs_dir, &mut display.progress) {
            Ok(found) => functions = found,
            Err(failure) if cancel::received_signal().is_some() => return Err(failure),
            // The answer does not depend on the functions. The guests that measure them can fail like any others.
            Err(failure) => display.show(&format!("the functions that grew are missing: {failure}")),
        }
    }
    drop(display);
    let page = bisection_page(&bisector.state, &repeat_commands(&bisector.state, &runs_dir), functions);
    output::print_page(&page, format)?;
    Ok(exit_code(&bisector.state))
}

/// Opens a bisection to continue it.
fn resume(args: &Args, id: &str) -> Result<Bisector, Failure> {
    let names_candidates_or_claim =
        args.good.is_some() || args.repo.is_some() || args.levels.is_some() || args.max_slowdown.is_some();
    if names_candidates_or_claim {
        return usage_error("--resume: the bisection keeps its candidates, its claim and its work; leave out the rest");
    }
    Ok(Bisector::open(&args.run.runs.dir, id)?)
}

/// Begins a bisection of these arguments.
fn begin(args: Args) -> Result<Bisector, Failure> {
    let Args { good, bad, repo, build, first_parent, path, levels, max_slowdown, mut run } = args;
    let (Some(mut good), Some(mut bad)) = (good, bad) else { return usage_error("name GOOD and BAD") };
    // The levels of every candidate, with placeholders for what differs between candidates.
    let mut template = match &run.variant[..] {
        [] => Levels::new(),
        [levels] => levels.clone(),
        _ => return usage_error("--variant: one says how every candidate becomes a variant"),
    };
    let source = match (repo, levels) {
        (Some(repo), _) => {
            if run.variant.is_empty() {
                template.insert(factor::KERNEL.into(), TREE_PLACEHOLDER.into());
            }
            let repo = absolute_text(&repo)?;
            CandidateSource::Git {
                repo,
                build: build.iter().map(|text| split_command(text)).collect::<Result<_, _>>()?,
                first_parent,
                paths: path,
            }
        }
        (None, Some((id, levels))) => {
            let absolute_level = |level: &str| run::absolute_level(&id, level);
            (good, bad) = (absolute_level(&good)?, absolute_level(&bad)?);
            let levels = levels.iter().map(|level| absolute_level(level)).collect::<Result<_, _>>()?;
            template.insert(id, LEVEL_PLACEHOLDER.into());
            CandidateSource::List(levels)
        }
        (None, None) => {
            let levels = debian_kernels(&mut good, &mut bad)?;
            template.insert(factor::KERNEL.into(), LEVEL_PLACEHOLDER.into());
            CandidateSource::List(levels)
        }
    };
    if template.contains_key(factor::DIR) {
        return usage_error("--variant: bisect makes filesystems, so `dir` is not possible");
    }
    let claim_flags = std::mem::take(&mut run.claim);
    let plan = comparison_plan(&mut run, &template)?;
    let claim = choose_claim(claim_flags, max_slowdown, run.metric.first().map(String::as_str), &plan)?;
    // Levels that are common to all candidates come from flags and from the plan.
    template = plan.variants[0].levels.clone().into_iter().chain(template).collect();
    template.remove(run::variants::NAME_KEY);
    let figures_are_counts = plan.device.backing.counts_instructions();
    let plan_toml = toml::to_string(&plan).map_err(|error| Failure::new(ExitCode::Internal, error.to_string()))?;
    let state = Bisection {
        format: FORMAT_VERSION,
        id: String::new(),
        command: std::env::args_os().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect(),
        source,
        template,
        plan: plan_toml,
        claim,
        user: run.user.clone(),
        figures_are_counts,
        max_rounds: run.max_rounds.unwrap_or(OPEN_ENDED_ROUNDS) as usize,
        budget_s: run.budget.map(|budget| budget.as_secs_f64()),
        elapsed_s: 0.0,
        good,
        bad,
        candidate_count: 0,
        tried: BTreeMap::new(),
        comparisons: vec![],
        ending: None,
    };
    let runs_dir = absolute_path(&run.runs.dir)?;
    if let Some(earlier) = Bisector::resume_inconclusive(&state, run.seed.is_none(), &runs_dir)? {
        return Ok(earlier);
    }
    Ok(Bisector::begin(state, &runs_dir)?)
}

/// The plan of a comparison. Its variants are equal: they have those levels of the template that all candidates share.
fn comparison_plan(run: &mut run::Args, template: &Levels) -> Result<Plan, Failure> {
    let is_common = |level: &String| {
        ![LEVEL_PLACEHOLDER, TREE_PLACEHOLDER, FILE_PLACEHOLDER].iter().any(|placeholder| level.contains(placeholder))
    };
    let common: Levels = template.clone().into_iter().filter(|(_, level)| is_common(level)).collect();
    run.refuse_ignored(false)?;
    let parsed_plan = run::read_plan_without_stages(run, "bisect")?;
    let mut overrides = run.overrides()?;
    let mut common = run::absolute_variant(common)?;
    for (id, levels) in std::mem::take(&mut overrides.factors) {
        match &levels[..] {
            [level] if !template.contains_key(&id) => drop(common.insert(id, level.clone())),
            [_] => return usage_error(format!("--{id}: each candidate has its own {id}; leave out the flag")),
            _ => return usage_error(format!("--{id}: all candidates have the same {id}, so name one level")),
        }
    }
    let plan = plan_of_variants(&[common.clone(), common], parsed_plan, overrides)?;
    match plan.device.backing {
        Backing::Guest(_) => Ok(plan),
        _ if template.contains_key(factor::KERNEL) => {
            usage_error("kernels boot in guests: add --on exact or --on qemu")
        }
        Backing::Dir => usage_error("bisect makes filesystems, so it cannot run in directories as they are"),
        _ => Ok(plan),
    }
}

/// The claim to bisect: from --claim or --max-slowdown; by default the main metric over all tasks stays within the margin.
fn choose_claim(
    claims: Vec<String>,
    max_slowdown: Option<MaxSlowdown>,
    main_metric: Option<&str>,
    plan: &Plan,
) -> Result<Claim, Failure> {
    if let Some(limit) = max_slowdown {
        return Ok(gate_claims(&[limit], main_metric, plan)?.concat().parse()?);
    }
    match &claims[..] {
        [] => {
            let percent = (plan.stop.margin() * 1e8).round() / 1e6;
            let subject = Quantity::of_all(main_metric.unwrap_or(work::main_metric_of_plan(plan)));
            Ok(Claim::equality(subject, "candidate", "baseline", Some(percent)))
        }
        [text] => Ok(text.parse()?),
        _ => usage_error("--claim: a bisection follows one claim"),
    }
}

/// Splits a command into words as a shell does, without any other meaning of a shell.
fn split_command(text: &str) -> Result<Vec<String>, Failure> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(words),
        _ => usage_error(format!("--build '{text}': not a command; check its quotation marks")),
    }
}

/// Replaces GOOD and BAD by the exact releases of these kernels, and returns the kernels of Debian from GOOD to BAD, of
/// the flavour of GOOD: those at hand, and the newest of each series in Debian's suites.
fn debian_kernels(good: &mut String, bad: &mut String) -> Result<Vec<String>, Failure> {
    let prefix = format!("{DEBIAN}:");
    let versions = [&*good, &*bad].map(|end| end.strip_prefix(&prefix).map(String::from));
    let [Some(first), Some(last)] = versions else {
        return usage_error(
            "name what is bisected: --repo DIR --build COMMAND for commits, --levels FACTOR=LEVEL,… for a list, or two kernels of \
             Debian, such as debian:6.1 debian:7.3",
        );
    };
    let kernel_dirs = KernelDirs::of_this_machine(None);
    let (at_hand, in_suites) = (kernel_dirs.releases(), suite_kernels(&kernel_dirs)?);
    let suite_releases: Vec<&str> = in_suites.iter().map(|kernel| kernel.release.as_str()).collect();
    let releases =
        sort_releases(at_hand.iter().cloned().chain(suite_releases.iter().map(|release| release.to_string())));
    let newest_index = |version: &str| {
        let index = releases.iter().rposition(|release| matches_version(release, version));
        index.ok_or_else(|| {
            let message = format!("{DEBIAN}:{version}: no such kernel; list them: fsarena list kernels");
            Failure::new(ExitCode::Usage, message)
        })
    };
    let (good_index, bad_index) = (newest_index(&first)?, newest_index(&last)?);
    // Debian removes earlier kernels of a series from its mirrors, though its lists still have some.
    let flavour = flavour_of(&releases[good_index]);
    let offered = if flavour.is_some() { suite_releases } else { newest_of_series(&suite_releases) };
    let is_candidate = |index: usize, release: &String| {
        let is_available = at_hand.contains(release) || offered.contains(&release.as_str());
        let is_between = index > good_index && index < bad_index;
        index == good_index || index == bad_index || is_between && is_available && flavour_of(release) == flavour
    };
    let candidates = releases.iter().enumerate().filter(|(index, release)| is_candidate(*index, release));
    let levels: Vec<String> = candidates.map(|(_, release)| format!("{prefix}{release}")).collect();
    (*good, *bad) = (format!("{prefix}{}", releases[good_index]), format!("{prefix}{}", releases[bad_index]));
    Ok(levels)
}

/// The commands that repeat what a bisection found.
fn repeat_commands(state: &Bisection, runs_dir: &Path) -> Vec<String> {
    let join_quoted = |words: &[&str]| shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "));
    let mut commands = vec![];
    if let Some(Ending::Found { last_good, first_bad, .. }) = &state.ending {
        if let CandidateSource::Git { repo, .. } = &state.source {
            commands.push(join_quoted(&["git", "-C", repo, "show", first_bad]));
        }
        if let Some(run) = last_run(state, last_good, first_bad) {
            let plan = runs_dir.join(run).join("plan.toml").display().to_string();
            if state.figures_are_counts {
                let profile = join_quoted(&["fsarena", "analyse", run, "--profile"]);
                commands.push(format!("{profile}  # the functions again"));
            }
            commands.push(format!("{}  # the last comparison again", join_quoted(&["fsarena", "run", &plan])));
        }
    }
    let words: Vec<&str> = std::iter::once("fsarena").chain(state.command.iter().map(String::as_str)).collect();
    commands.push(format!("{}  # the whole bisection again", join_quoted(&words)));
    commands
}

/// The last run that compared the last good candidate with the first bad one.
fn last_run<'a>(state: &'a Bisection, last_good: &str, first_bad: &str) -> Option<&'a String> {
    let pair = [last_good, first_bad];
    state.comparisons.iter().rfind(|comparison| comparison.candidates == pair)?.runs.last()
}

/// The functions in which the first bad candidate takes more instructions than the last good one, in the task with the
/// largest change. None if no candidate was found, or if the figures are not counts.
fn functions_that_grew(state: &Bisection, runs_dir: &Path, progress: &mut Progress) -> Result<Option<Page>, Failure> {
    let Some(Ending::Found { last_good, first_bad, .. }) = &state.ending else { return Ok(None) };
    let Some(run) = last_run(state, last_good, first_bad).filter(|_| state.figures_are_counts) else {
        return Ok(None);
    };
    let run_dir = RunDir::find(runs_dir, run)?;
    let record = fsarena_store::read(&run_dir)?;
    let task = task_that_grew(&record);
    Ok(Some(rerun::profile_variants(runs_dir, &run_dir, &record, &task, progress)?))
}

/// The task with the largest difference between the median counts of the two variants of a run; empty if no task has counts.
fn task_that_grew(record: &RunRecord) -> String {
    let mut largest = (0.0, String::new());
    for info in &record.tasks {
        let Ok((task, counted)) = counted_instructions(record, &info.id.to_string()) else { continue };
        let medians: Vec<f64> = counted.values().filter_map(|values| median(values)).collect();
        if let [first, second] = medians[..]
            && (first - second).abs() > largest.0
        {
            largest = ((first - second).abs(), task.to_string());
        }
    }
    largest.1
}

/// Shows a bisection and its runs on standard error.
struct BisectProgress {
    quiet: bool,
    progress: Progress,
}

impl BisectDisplay for BisectProgress {
    fn show(&mut self, line: &str) {
        self.progress.show_message(line);
    }

    fn run_display(&mut self) -> Box<dyn Consumer> {
        Box::new(Progress::new(self.quiet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_command_is_split_without_a_shell() {
        assert_eq!(split_command("make -j8 CFLAGS='-O2 -g' $x;").unwrap(), ["make", "-j8", "CFLAGS=-O2 -g", "$x;"]);
        assert!(split_command("make 'x").is_err() && split_command("").is_err());
    }
}
