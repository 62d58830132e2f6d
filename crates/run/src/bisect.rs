//! Bisections: find the candidate at which a cost changed, by runs that compare candidates with both ends, GOOD and
//! BAD. Candidates are the commits of a repository, or the levels of a list.
//!
//! A bisection calls [`crate::execute`] in a loop. It writes its state after every action, and stores its runs like any
//! others. So an interrupted bisection continues with the run that was interrupted, and loses no measurement.

mod candidates;

pub use candidates::{Candidates, FILE_PLACEHOLDER, LEVEL_PLACEHOLDER, TREE_PLACEHOLDER};

use crate::error::{CellError, Result, RunError, require};
use crate::execute::{Destination, RunRequest, check, execute};
use crate::json_files::{check_format, damaged_error, dirs_with_file, read_json, write_json};
use crate::recorder::{Consumer, RunSetup};
use crate::work;
use fsarena_core::bisect::{
    Bisection, Comparison, ComparisonResult, Effect, Ending, FORMAT_VERSION, Purpose, worst_case_steps,
};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, PairRelation, Relation, RightSide};
use fsarena_core::event::{Cause, Event, VariantDeparture};
use fsarena_core::observations::{ComparedSeries, claim_series};
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{escape::shorten, names::unknown_name, number::plural, schedule::mix, state::RunState};
use fsarena_stats::bisect::{
    ROUNDS_FOR_COUNTS, judge_confirmation, judge_ends, judge_step, judge_step_by_counts, rounds_at_next_look,
};
use fsarena_stats::sequential::Centre;
use fsarena_store::RunDir;
use fsarena_sys::lock::{LockedFile, describe_lock_holders};
use fsarena_sys::{Error, cancel, dirs, kernel::SysRoot};
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The directory of bisections in a directory of runs.
const BISECTIONS_DIR: &str = "bisects";
/// The file with the state of a bisection, in its directory.
const FILE_NAME: &str = "bisect.json";
/// The size limit of this file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A message shows at most this many characters of the reason to skip a candidate.
const MAX_REASON_CHARS: usize = 300;

/// Shows the progress of a bisection.
pub trait BisectDisplay {
    /// Shows a message about the bisection.
    fn show(&mut self, line: &str);
    /// A display for the next run.
    fn run_display(&mut self) -> Box<dyn Consumer>;
}

/// A bisection with its directories.
pub struct Bisector {
    /// Its state.
    pub state: Bisection,
    dir: PathBuf,
    runs_dir: PathBuf,
    candidates: Candidates,
    /// The time up to which [`Bisection::elapsed_s`] counts.
    counted_until: Instant,
    /// The directory of the bisection, which stays locked as long as this value exists.
    _lock: LockedFile,
}

/// The next action of a bisection.
enum NextAction {
    /// Make the variant of the candidate with this id.
    Make(String),
    /// Measure more rounds of the comparison with this index.
    Measure(usize),
    /// End the bisection.
    End(Ending),
}

/// The ids of the bisections in a directory of runs, the oldest first.
fn bisection_ids(runs_dir: &Path) -> Vec<String> {
    dirs_with_file(&runs_dir.join(BISECTIONS_DIR), FILE_NAME)
}

/// Locks the directory of a bisection: two processes would build their candidates in the same clone.
///
/// # Errors
/// Another process has locked it, or it cannot be opened.
fn lock_dir(dir: &Path) -> Result<LockedFile> {
    let lock = File::open(dir).map_err(Error::io("opening", dir))?;
    // Some network filesystems do not support locks: the bisection then runs without one.
    if matches!(lock.try_lock(), Err(TryLockError::WouldBlock)) {
        let holders = describe_lock_holders(&SysRoot::host(), &lock);
        let dir = dir.display();
        return Err(RunError::Missing(format!("{holders} runs the bisection in {dir}; wait until it has ended")));
    }
    Ok(LockedFile::new(lock))
}

/// Returns the two sides of a claim, if it can be bisected.
///
/// # Errors
/// The claim cannot be bisected; the message shows the accepted form.
fn bisected_pair(claim: &Claim) -> Result<&PairRelation> {
    let form = "write it `TASK.METRIC: candidate <= baseline within 1%`, with <=, >= or ==";
    let not_bisectable = || RunError::Plan(format!("`{claim}` cannot be bisected; {form}"));
    let Relation::Pair(pair) = &claim.relation else { return Err(not_bisectable()) };
    let has_both_sides = pair.left == "candidate" && pair.right == RightSide::Variant("baseline".into());
    let is_plain = pair.op.has_tolerance() && pair.factor == 1.0 && claim.average.is_typical();
    if has_both_sides && is_plain { Ok(pair) } else { Err(not_bisectable()) }
}

impl Bisector {
    /// Begins a bisection: gives it an id and a directory, and resolves its ends.
    ///
    /// # Errors
    /// Ends that do not exist or are in the wrong order, a claim or a number of rounds that cannot decide anything, or
    /// a directory that cannot be made.
    pub fn begin(mut state: Bisection, runs_dir: &Path) -> Result<Bisector> {
        bisected_pair(&state.claim)?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let digits: String = now.chars().filter(char::is_ascii_digit).collect();
        let base_id = format!("{}-{}", &digits[..8], &digits[8..]);
        let numbered_ids = (2..).map(|number| format!("{base_id}-{number}"));
        let bisections_dir = runs_dir.join(BISECTIONS_DIR);
        dirs::make_dirs(&bisections_dir).map_err(Error::io("making", &bisections_dir))?;
        for id in std::iter::once(base_id.clone()).chain(numbered_ids) {
            match std::fs::create_dir(bisections_dir.join(&id)) {
                Ok(()) => state.id = id,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::io("making", &bisections_dir.join(&id))(error).into()),
            }
            break;
        }
        let dir = bisections_dir.join(&state.id);
        let prepared = Bisector::prepare(state, runs_dir, &dir);
        if prepared.is_err() {
            // So far the directory contains at most the empty directory of the clone.
            let _ = std::fs::remove_dir(dir.join("build"));
            let _ = std::fs::remove_dir(&dir);
        }
        let bisector = prepared?;
        bisector.save()?;
        Ok(bisector)
    }

    /// Resolves the ends of a new bisection, counts its candidates, and checks that it may have enough rounds.
    fn prepare(mut state: Bisection, runs_dir: &Path, dir: &Path) -> Result<Bisector> {
        let lock = lock_dir(dir)?;
        let candidates = Candidates::open(&state, dir)?;
        state.good = candidates.resolve(&state.good)?;
        state.bad = candidates.resolve(&state.bad)?;
        candidates.check_order(&state.good, &state.bad)?;
        state.candidate_count = candidates.remaining(&[&state.good], &state.bad)?.len() + 1;
        let error_split = state.next_error_split(Purpose::Ends, worst_case_steps(state.candidate_count));
        let least_rounds = rounds_at_next_look(0, error_split as usize).unwrap_or(usize::MAX);
        require(least_rounds <= state.max_rounds, || {
            let max_rounds = setting("max_rounds", &state.max_rounds.to_string());
            let candidates = plural(state.candidate_count, "candidate");
            RunError::Plan(format!("{max_rounds}: the ends of {candidates} require at least {least_rounds} rounds"))
        })?;
        let (dir, runs_dir, counted_until) = (dir.into(), runs_dir.into(), Instant::now());
        Ok(Bisector { state, dir, runs_dir, candidates, counted_until, _lock: lock })
    }

    /// Opens a bisection to continue it, by its id or as `latest`.
    ///
    /// # Errors
    /// No bisection has this id, its file is damaged, or another process runs it.
    pub fn open(runs_dir: &Path, name: &str) -> Result<Bisector> {
        let ids = bisection_ids(runs_dir);
        let found = match name {
            "latest" => ids.last(),
            name => ids.iter().find(|id| *id == name),
        };
        let Some(id) = found else {
            return Err(RunError::Plan(unknown_name("bisection", name, ids.iter().map(String::as_str)).into()));
        };
        let dir = runs_dir.join(BISECTIONS_DIR).join(id);
        let lock = lock_dir(&dir)?;
        let file = dir.join(FILE_NAME);
        let state = read_json::<Bisection>(&file, MAX_FILE_BYTES)?;
        let state = state.ok_or_else(|| damaged_error(&file, "the file has been removed"))?;
        check_format(&file, state.format, FORMAT_VERSION)?;
        require(state.comparisons.iter().all(|comparison| comparison.candidates.len() >= 2), || {
            damaged_error(&file, "a comparison has fewer than two candidates")
        })?;
        let candidates = Candidates::open(&state, &dir)?;
        let counted_until = Instant::now();
        Ok(Bisector { state, dir, runs_dir: runs_dir.into(), candidates, counted_until, _lock: lock })
    }

    /// Opens the last bisection with the same candidates, claim and work as `new`, if it was interrupted or
    /// inconclusive, and if `new` allows more time or rounds. None if there is no such bisection.
    /// If `ignores_seed` is set, the two may have different seeds.
    ///
    /// # Errors
    /// The bisection has taken longer than the budget of `new` already, or its state cannot be written.
    pub fn resume_inconclusive(new: &Bisection, ignores_seed: bool, runs_dir: &Path) -> Result<Option<Bisector>> {
        for id in bisection_ids(runs_dir).iter().rev() {
            let Ok(mut earlier) = Bisector::open(runs_dir, id) else { continue };
            if earlier.has_same_question(new, ignores_seed) {
                let continues = earlier.allow_more(new.budget_s, new.max_rounds)?;
                earlier.state.command.clone_from(&new.command);
                return Ok(Some(earlier).filter(|_| continues));
            }
        }
        Ok(None)
    }

    /// Whether this bisection is about the same candidates, claim and work as another one.
    fn has_same_question(&self, other: &Bisection, ignores_seed: bool) -> bool {
        let state = &self.state;
        let is_end = |name: &str, end: &str| self.candidates.resolve(name).is_ok_and(|id| id == end);
        let plan_of_work = |text: &str| {
            let plan = Plan::of_stored(text).ok()?;
            Some(Plan { seed: if ignores_seed { 0 } else { plan.seed }, stop: StopPlan::default(), ..plan })
        };
        state.source == other.source
            && state.template == other.template
            && state.claim == other.claim
            && state.user == other.user
            && plan_of_work(&state.plan) == plan_of_work(&other.plan)
            && is_end(&other.good, &state.good)
            && is_end(&other.bad, &state.bad)
    }

    /// Allows more time or rounds. Returns whether the bisection continues: if this is more than before, and it was
    /// interrupted or inconclusive. Its comparisons keep their rounds.
    ///
    /// # Errors
    /// The bisection has taken longer than this budget already, or its state cannot be written.
    fn allow_more(&mut self, budget_s: Option<f64>, max_rounds: usize) -> Result<bool> {
        let has_more_time = self.state.budget_s.is_some_and(|old_s| budget_s.is_none_or(|new_s| new_s > old_s));
        if !has_more_time && max_rounds <= self.state.max_rounds {
            return Ok(false);
        }
        require(budget_s.is_none_or(|budget_s| budget_s > self.state.elapsed_s), || {
            let seconds = self.state.elapsed_s.ceil();
            let budget = setting("budget", &format!("{}s", budget_s.unwrap_or_default()));
            RunError::Plan(format!("{budget}: bisection {} has taken {seconds} s already", self.state.id))
        })?;
        (self.state.budget_s, self.state.max_rounds) = (budget_s, max_rounds);
        if !matches!(self.state.ending, Some(Ending::Inconclusive { .. })) {
            return Ok(self.state.ending.is_none());
        }
        let budget_left_s = self.budget_left_s();
        for comparison in &mut self.state.comparisons {
            // `reopen_step` reopens the steps that are still needed, one at a time.
            if comparison.purpose != Purpose::Step && comparison.result == Some(ComparisonResult::Inconclusive) {
                (comparison.result, comparison.allowed_s) =
                    (None, budget_left_s.map(|left_s| comparison.elapsed_s + left_s / 2.0));
            }
        }
        self.state.ending = None;
        self.save()?;
        Ok(true)
    }

    /// The directory with the state of the bisection, the clone, and the variants that were made.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Runs the bisection until it ends or a signal interrupts it. Returns whether it has ended.
    ///
    /// # Errors
    /// An end that cannot be made or measured, or something that prevents every comparison.
    pub fn run(&mut self, display: &mut dyn BisectDisplay) -> Result<bool> {
        while self.state.ending.is_none() {
            match self.next_action()? {
                NextAction::Make(id) => self.make_variant(&id, display)?,
                NextAction::Measure(index) => self.measure_comparison(index, display)?,
                NextAction::End(ending) => self.state.ending = Some(ending),
            }
            self.save()?;
            if cancel::received_signal().is_some() {
                break;
            }
        }
        let has_ended = self.state.ending.is_some();
        if has_ended {
            // They take some hundred megabytes, and fsarena can make them again. If removing them fails, they stay.
            let _ = std::fs::remove_dir_all(self.machines_dir());
        }
        Ok(has_ended)
    }

    /// The directory of saved guest machines. Guests that count instructions begin with a saved machine in all runs.
    fn machines_dir(&self) -> PathBuf {
        let dir = self.dir.join("machines");
        std::path::absolute(&dir).unwrap_or(dir)
    }

    /// Writes the state to its file.
    fn save(&self) -> Result<()> {
        write_json(&self.dir.join(FILE_NAME), &self.state)
    }

    /// Decides the next action by the state and the candidates. Adds or reopens the comparison that is to be measured.
    fn next_action(&mut self) -> Result<NextAction> {
        for end in [&self.state.good, &self.state.bad] {
            if !self.state.tried.contains_key(end) {
                return Ok(NextAction::Make(end.clone()));
            }
        }
        let (good, bad) = (self.state.good.clone(), self.state.bad.clone());
        let Some(ends) = self.state.ends_comparison() else {
            let steps = worst_case_steps(self.state.candidate_count);
            return Ok(self.begin_comparison(Purpose::Ends, &[&good, &bad], steps));
        };
        match ends.result {
            None => return Ok(NextAction::Measure(0)),
            Some(ComparisonResult::NoChange) => return Ok(NextAction::End(Ending::NoChange)),
            Some(ComparisonResult::Inconclusive) => {
                let why = "it is inconclusive whether BAD differs from GOOD".into();
                return Ok(NextAction::End(Ending::Inconclusive { why, possible: vec![] }));
            }
            Some(_) => {}
        }
        if let Some(index) = self.state.comparisons.iter().position(|comparison| comparison.result.is_none()) {
            return Ok(NextAction::Measure(index));
        }
        let (goods, first_bad) = self.state.bracket();
        let remaining = self.candidates.remaining(&goods, first_bad)?;
        let last_good = goods[goods.len() - 1].to_string();
        let goods: Vec<String> = goods.into_iter().map(String::from).collect();
        let first_bad = first_bad.to_string();
        let set_aside_count = remaining.iter().filter(|id| self.is_set_aside(id)).count();
        let open: Vec<&String> = remaining.iter().filter(|id| !self.is_set_aside(id)).collect();
        if let Some(id) = choose_candidate(&open, set_aside_count) {
            if !self.state.tried.contains_key(id) {
                return Ok(NextAction::Make(id.clone()));
            }
            let (id, steps) = (id.clone(), worst_case_steps(open.len() + 1));
            return Ok(self.begin_comparison(Purpose::Step, &[&good, &id, &bad], steps));
        }
        if let Some(index) = self.reopen_step(&remaining) {
            return Ok(NextAction::Measure(index));
        }
        let inconclusive = remaining.iter().filter(|id| self.is_step_inconclusive(id)).count();
        if inconclusive > 0 {
            let candidates = plural(inconclusive, "candidate");
            let why = format!(
                "the rounds or the time did not suffice for {candidates} between the last good one and the first bad one"
            );
            let possible = remaining.into_iter().chain([first_bad]).collect();
            return Ok(NextAction::End(Ending::Inconclusive { why, possible }));
        }
        let parent = match self.candidates.first_parent(&first_bad)? {
            Some(parent) if goods.contains(&parent) => parent,
            // The parent is not a candidate: `first_bad` is a merge, or its parent changes none of the paths.
            // A comparison with the parent shows the effect of `first_bad` alone.
            Some(parent) if remaining.is_empty() => match self.state.tried.get(&parent) {
                None => return Ok(NextAction::Make(parent)),
                Some(made) if made.skip_reason.is_none() => parent,
                Some(_) => last_good,
            },
            _ => last_good,
        };
        Ok(self.confirm(parent, first_bad, remaining))
    }

    /// Whether a candidate was skipped, or its step was inconclusive.
    fn is_set_aside(&self, id: &str) -> bool {
        self.state.tried.get(id).is_some_and(|candidate| candidate.skip_reason.is_some())
            || self.is_step_inconclusive(id)
    }

    /// Whether the step of a candidate was inconclusive.
    fn is_step_inconclusive(&self, id: &str) -> bool {
        let mut steps = self.state.comparisons.iter().filter(|comparison| comparison.purpose == Purpose::Step);
        steps.any(|step| step.tested_candidate() == id && step.result == Some(ComparisonResult::Inconclusive))
    }

    /// Adds a comparison, as the next to measure. `steps_left` is the number of steps to come, including this one.
    fn begin_comparison(&mut self, purpose: Purpose, candidates: &[&str], steps_left: usize) -> NextAction {
        let mut comparison = Comparison::new(purpose, candidates, self.state.next_error_split(purpose, steps_left));
        let comparisons_left = match purpose {
            Purpose::Ends => steps_left + 2,
            Purpose::Step => steps_left + 1,
            Purpose::Confirmation => 1,
        };
        comparison.allowed_s = self.budget_left_s().map(|left_s| left_s / comparisons_left as f64);
        self.state.comparisons.push(comparison);
        NextAction::Measure(self.state.comparisons.len() - 1)
    }

    /// The rest of the budget in seconds; None without a budget.
    fn budget_left_s(&self) -> Option<f64> {
        Some(self.state.budget_s? - self.state.elapsed_s)
    }

    /// Reopens an inconclusive step of one of these candidates, if it may have more rounds and the budget has time for
    /// them. Returns the index of its comparison.
    fn reopen_step(&mut self, remaining: &[String]) -> Option<usize> {
        for index in 0..self.state.comparisons.len() {
            let comparison = &self.state.comparisons[index];
            if comparison.result != Some(ComparisonResult::Inconclusive)
                || comparison.stuck
                || comparison.purpose != Purpose::Step
                || !remaining.iter().any(|id| id == comparison.tested_candidate())
            {
                continue;
            }
            // The confirmation needs the other half of the time.
            let allowed_s = self.budget_left_s().map(|left_s| comparison.elapsed_s + left_s / 2.0);
            let has_time = |rounds| allowed_s.is_none_or(|allowed_s| expected_s(comparison, rounds) <= allowed_s);
            if self.next_rounds(comparison).is_some_and(has_time) {
                let comparison = &mut self.state.comparisons[index];
                (comparison.result, comparison.allowed_s) = (None, allowed_s);
                return Some(index);
            }
        }
        None
    }

    /// Returns the action that compares the first bad candidate with the last good one, or ends the bisection if they have been
    /// compared. The comparison of GOOD with BAD counts too, if no candidate lies between them.
    fn confirm(&mut self, last_good: String, first_bad: String, possible: Vec<String>) -> NextAction {
        let pair = [last_good.as_str(), first_bad.as_str()];
        let confirmation = self.state.comparisons.iter().position(|comparison| {
            matches!(comparison.purpose, Purpose::Ends | Purpose::Confirmation) && comparison.candidates == pair
        });
        let Some(index) = confirmation else {
            return self.begin_comparison(Purpose::Confirmation, &pair, 0);
        };
        let title = |id: &str| self.state.candidate(id).title();
        let why = match self.state.comparisons[index].result {
            None => return NextAction::Measure(index),
            Some(ComparisonResult::NoChange) => {
                let (good, bad) = (title(&last_good), title(&first_bad));
                format!("{good} and {bad} do not differ, so the steps contradict each other")
            }
            Some(ComparisonResult::Inconclusive) => {
                format!("it is inconclusive whether {} differs from {}", title(&first_bad), title(&last_good))
            }
            Some(_) => return NextAction::End(Ending::Found { last_good, first_bad, possible }),
        };
        let possible = std::iter::once(first_bad).chain(possible).collect();
        NextAction::End(Ending::Inconclusive { why, possible })
    }

    /// Makes the variant of a candidate.
    fn make_variant(&mut self, id: &str, display: &mut dyn BisectDisplay) -> Result<()> {
        let candidate = self.candidates.make(id);
        self.count_time();
        let candidate = match candidate {
            Err(_) if cancel::received_signal().is_some() => return Ok(()),
            candidate => candidate?,
        };
        if let Some(why) = &candidate.skip_reason {
            if [&self.state.good, &self.state.bad].into_iter().any(|end| end == id) {
                let source = CellError::new(Cause::Work, why.clone());
                return Err(RunError::Cell { variant: candidate.title(), source });
            }
            display.show(&format!("skipped {}: {}", candidate.title(), shorten(why, MAX_REASON_CHARS)));
        }
        self.state.tried.insert(id.into(), candidate);
        Ok(())
    }

    /// Adds the time since the last call to the elapsed time of the bisection, and returns it in seconds.
    fn count_time(&mut self) -> f64 {
        let seconds = self.counted_until.elapsed().as_secs_f64();
        self.state.elapsed_s += seconds;
        self.counted_until = Instant::now();
        seconds
    }

    /// The number of rounds after which a comparison is judged next; None if it has the largest number of rounds.
    fn next_rounds(&self, comparison: &Comparison) -> Option<usize> {
        let rounds_done = comparison.effect.map_or(0, |effect| effect.rounds);
        if self.state.figures_are_counts && comparison.purpose == Purpose::Step && rounds_done < ROUNDS_FOR_COUNTS {
            return Some(ROUNDS_FOR_COUNTS);
        }
        let next = rounds_at_next_look(rounds_done, comparison.error_split as usize)?.min(self.state.max_rounds);
        (next > rounds_done).then_some(next)
    }

    /// Measures the next rounds of a comparison, or completes its interrupted run, and judges it.
    fn measure_comparison(&mut self, index: usize, display: &mut dyn BisectDisplay) -> Result<()> {
        let comparison = &self.state.comparisons[index];
        let last_run = comparison.runs.last().map(|id| RunDir::find(&self.runs_dir, id)).transpose()?;
        let unfinished_run = match last_run {
            Some(run) if !fsarena_store::read(&run)?.status.complete => Some(run),
            // fsarena was interrupted between the end of the run and the verdict.
            Some(_) if comparison.judged_runs < comparison.runs.len() => return self.judge_comparison(index, display),
            _ => None,
        };
        let mut request = match unfinished_run {
            Some(run) => RunRequest::resume(run, None, None)?,
            None => {
                let rounds_done = comparison.effect.map_or(0, |effect| effect.rounds);
                let Some(rounds) = self.next_rounds(comparison).filter(|_| self.has_time_for_more(comparison)) else {
                    self.state.comparisons[index].result = Some(ComparisonResult::Inconclusive);
                    return Ok(());
                };
                let plan = self.plan_run(index, rounds - rounds_done)?;
                if let Err(why) = work::check_workloads(&plan) {
                    require(comparison.purpose == Purpose::Step, || RunError::Plan(why.clone()))?;
                    self.skip_candidate(index, &why, display);
                    return Ok(());
                }
                RunRequest::new(plan, Destination::NewRun(self.runs_dir.clone()))
            }
        };
        request.user.clone_from(&self.state.user);
        request.shared_machines_dir = Some(self.machines_dir());
        let mut consumer = display.run_display();
        let mut registrar =
            RunRegistrar { file: self.dir.join(FILE_NAME), state: &mut self.state, index, saved: Ok(()) };
        let result = execute(request, &mut [&mut *consumer, &mut registrar]);
        let saved = registrar.saved;
        drop(consumer);
        let seconds = self.count_time();
        self.state.comparisons[index].elapsed_s += seconds;
        saved?;
        match result {
            _ if cancel::received_signal().is_some() => Ok(()),
            Ok(_) => self.judge_comparison(index, display),
            Err(error) if self.is_candidate_at_fault(index, &error) => {
                self.skip_candidate(index, &error.to_string(), display);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the allowed time of a comparison is long enough for its next rounds. The first rounds run if any time is
    /// left.
    fn has_time_for_more(&self, comparison: &Comparison) -> bool {
        let Some(allowed_s) = comparison.allowed_s else { return true };
        if comparison.runs.is_empty() {
            return allowed_s > 0.0;
        }
        self.next_rounds(comparison).is_some_and(|rounds| expected_s(comparison, rounds) <= allowed_s)
    }

    /// Whether the candidate of a step is the only cause of an error that ended its run: a run of the ends alone passes
    /// every check.
    fn is_candidate_at_fault(&self, index: usize, error: &RunError) -> bool {
        let comparison = &self.state.comparisons[index];
        if comparison.purpose != Purpose::Step || matches!(error, RunError::EveryVariantFailed(_) | RunError::Agent(_))
        {
            return false;
        }
        let Ok(mut plan) = self.plan_run(index, 1) else { return false };
        // The variants of a step are GOOD, the candidate and BAD.
        plan.variants.remove(1);
        let mut request = RunRequest::new(plan, Destination::NewRun(self.runs_dir.clone()));
        request.user.clone_from(&self.state.user);
        check(&request).is_ok()
    }

    /// Skips the candidate of a step.
    fn skip_candidate(&mut self, index: usize, why: &str, display: &mut dyn BisectDisplay) {
        let comparison = &mut self.state.comparisons[index];
        comparison.result = Some(ComparisonResult::Skipped);
        let id = comparison.tested_candidate().to_string();
        if let Some(candidate) = self.state.tried.get_mut(&id) {
            candidate.skip_reason = Some(why.into());
            display.show(&format!("skipped {}: {}", candidate.title(), shorten(why, MAX_REASON_CHARS)));
        }
    }

    /// Plans the next run of a comparison, with this number of rounds.
    fn plan_run(&self, index: usize, rounds: usize) -> Result<Plan> {
        let comparison = &self.state.comparisons[index];
        let base = Plan::of_stored(&self.state.plan).map_err(|why| damaged_error(&self.dir.join(FILE_NAME), why))?;
        let variants: Vec<Variant> = comparison.candidates.iter().map(|id| self.variant(id)).collect();
        let title = self.state.candidate(comparison.tested_candidate()).title();
        let question = match comparison.purpose {
            Purpose::Ends => "Does BAD differ from GOOD?".to_string(),
            Purpose::Step => format!("Is {title} nearer to GOOD or to BAD?"),
            Purpose::Confirmation => format!("Does {title} differ from the last good candidate?"),
        };
        let mut claims = vec![];
        if comparison.purpose != Purpose::Step {
            let mut claim = self.state.claim.clone();
            claim.replace_roles(&[&variants[0].name, &variants[1].name]);
            claims.push(claim);
        }
        // Each run has its own seed, so that its rounds work on other data than the rounds of earlier runs.
        let seed = mix(mix(base.seed, index as u64), comparison.runs.len() as u64);
        let margin = base.stop.margin;
        let stop = StopPlan { rounds: rounds as u32, warmup: base.stop.warmup, margin, ..StopPlan::default() };
        Ok(Plan { title: format!("bisect {}", self.state.id), question, seed, claims, variants, stop, ..base })
    }

    /// The variant of a candidate that was made.
    fn variant(&self, id: &str) -> Variant {
        let candidate = self.state.candidate(id);
        Variant { name: candidate.label, levels: candidate.levels }
    }

    /// Judges a comparison by the rounds of all its runs.
    fn judge_comparison(&mut self, index: usize, display: &mut dyn BisectDisplay) -> Result<()> {
        let PooledRounds { rounds, departure } = self.read_rounds(index)?;
        let comparison = &self.state.comparisons[index];
        let (purpose, error_split) = (comparison.purpose, comparison.error_split as usize);
        if let Some((candidate, departure)) = departure {
            if purpose == Purpose::Step && candidate == 1 {
                self.skip_candidate(index, &departure.why, display);
                return Ok(());
            }
            let variant = self.state.candidate(&comparison.candidates[candidate]).title();
            return Err(RunError::Cell { variant, source: CellError::new(departure.cause, departure.why) });
        }
        let differences: Vec<f64> = rounds.iter().map(|round| round[1] - round[0]).collect();
        let rounds_before = comparison.effect.map_or(0, |effect| effect.rounds);
        let effect = Centre::from_log_ratios(&differences).map(|centre| Effect {
            estimate: centre.estimate.exp_m1(),
            low: centre.interval_95.0.exp_m1(),
            high: centre.interval_95.1.exp_m1(),
            rounds: differences.len(),
        });
        let triples: Vec<[f64; 3]> = rounds.iter().filter_map(|round| (&round[..]).try_into().ok()).collect();
        let direction = self.state.direction().unwrap_or(1.0);
        let result = match purpose {
            Purpose::Ends => {
                let margin = Plan::of_stored(&self.state.plan).map_or(0.01, |plan| plan.stop.margin());
                judge_ends(bisected_pair(&self.state.claim)?, &differences, margin, error_split)
            }
            Purpose::Step => {
                let result_by_counts =
                    self.state.figures_are_counts.then(|| judge_step_by_counts(&triples, direction)).flatten();
                result_by_counts.or_else(|| judge_step(&triples, direction, error_split))
            }
            Purpose::Confirmation => {
                let whole_effect =
                    self.state.ends_comparison().and_then(|ends| ends.effect).map_or(0.0, |ends| ends.estimate.ln_1p());
                judge_confirmation(&differences, direction, whole_effect, error_split)
            }
        };
        // No new round counts, because each had a value of zero or was dropped. Further rounds would not count either.
        let stuck = differences.len() <= rounds_before;
        let comparison = &mut self.state.comparisons[index];
        comparison.judged_runs = comparison.runs.len();
        comparison.effect = effect;
        comparison.stuck = stuck;
        comparison.result = result.or(stuck.then_some(ComparisonResult::Inconclusive));
        if comparison.result.is_some() {
            display.show(&self.describe_comparison(index));
        }
        Ok(())
    }

    /// Reads the rounds of all runs of a comparison.
    fn read_rounds(&self, index: usize) -> Result<PooledRounds> {
        let comparison = &self.state.comparisons[index];
        let names: Vec<String> = comparison.candidates.iter().map(|id| self.variant(id).name).collect();
        let subject = &self.state.claim.subject;
        let claims: Vec<Claim> =
            names[1..].iter().map(|name| Claim::equality(subject.clone(), name, &names[0], None)).collect();
        let mut rounds = vec![];
        for id in &comparison.runs {
            let record = fsarena_store::read(&RunDir::find(&self.runs_dir, id)?)?;
            let state = RunState::new(record);
            let departures = state.departures();
            let departure =
                names.iter().enumerate().find_map(|(candidate, name)| Some((candidate, departures.get(name)?.clone())));
            if departure.is_some() {
                return Ok(PooledRounds { rounds, departure });
            }
            // The values of each candidate. The first candidate is the right side of every claim.
            let mut columns: Vec<Vec<f64>> = vec![];
            for series in claim_series(&state.record, &claims) {
                let series = series.series.map_err(|why| RunError::Plan(format!("run {id}: {why}")))?;
                let ComparedSeries::Pair { left, right, .. } = series else { continue };
                if columns.is_empty() {
                    columns.push(right.values);
                }
                columns.push(left);
            }
            for round in 0..columns[0].len() {
                let logs: Vec<f64> = columns.iter().map(|values| values[round].ln()).collect();
                if logs.iter().all(|ln| ln.is_finite()) {
                    rounds.push(logs);
                }
            }
        }
        Ok(PooledRounds { rounds, departure: None })
    }

    /// Describes the result of a comparison in one line.
    fn describe_comparison(&self, index: usize) -> String {
        let comparison = &self.state.comparisons[index];
        let result = comparison.result.map_or("", ComparisonResult::name);
        let title = self.state.candidate(comparison.tested_candidate()).title();
        let effect = comparison.effect.map_or(String::new(), |effect| {
            let percent = |fraction: f64| format!("{:+.3}%", 100.0 * fraction);
            let (low, high) = (percent(effect.low), percent(effect.high));
            format!(", {} [{low}, {high}] in {}", percent(effect.estimate), plural(effect.rounds, "round"))
        });
        let text = match comparison.purpose {
            Purpose::Ends => format!("BAD against GOOD: {result}"),
            Purpose::Step => format!("{title}: {result}"),
            Purpose::Confirmation => format!("{title} against the last good candidate: {result}"),
        };
        let reference = if comparison.purpose == Purpose::Step { " against GOOD" } else { "" };
        format!("{text}{effect}{reference}")
    }
}

/// The rounds of all runs of a comparison.
struct PooledRounds {
    /// For each round that has figures of all candidates, the logarithms of these figures, in the order of the
    /// candidates.
    rounds: Vec<Vec<f64>>,
    /// The index of the first candidate that left a run, and why it left; None if none did.
    departure: Option<(usize, VariantDeparture)>,
}

/// The seconds that a comparison will have taken after `rounds` rounds in all, if each takes as long as the mean so
/// far.
fn expected_s(comparison: &Comparison, rounds: usize) -> f64 {
    match comparison.effect {
        Some(effect) if effect.rounds > 0 => comparison.elapsed_s * rounds as f64 / effect.rounds as f64,
        _ => comparison.elapsed_s,
    }
}

/// Chooses the next candidate to test. `open` are the candidates that can be tested, those that halve the range best
/// first. `set_aside_count` candidates of the range were skipped or inconclusive. Each of them changes the distance of
/// the choice from the middle, because neighbours of a commit that does not build often do not build either.
fn choose_candidate<'a>(open: &[&'a String], set_aside_count: usize) -> Option<&'a String> {
    // The fractions of multiples of the golden ratio spread evenly over 0 to 1. The power makes small ones more likely:
    // a choice near the middle, at the beginning of `open`.
    let fraction = (set_aside_count as f64 * 0.618_034).fract().powf(1.5);
    open.get((fraction * open.len() as f64) as usize).copied()
}

/// A consumer that adds a run to its comparison when the run begins, so that a bisection that was killed finds the run
/// again.
struct RunRegistrar<'a> {
    file: PathBuf,
    state: &'a mut Bisection,
    /// The index of the comparison.
    index: usize,
    /// Whether the state could be written.
    saved: Result<()>,
}

impl Consumer for RunRegistrar<'_> {
    fn begin(&mut self, setup: &RunSetup) {
        let Some(id) = setup.run_dir.map(RunDir::id) else { return };
        let runs = &mut self.state.comparisons[self.index].runs;
        if !runs.contains(&id) {
            runs.push(id);
            self.saved = write_json(&self.file, self.state);
        }
    }

    fn receive(&mut self, _: &Event, _: &RunState) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_claims_about_candidate_and_baseline_are_bisected() {
        let accepts = |text: &str| bisected_pair(&text.parse().unwrap()).is_ok();
        assert!(accepts("total.elapsed: candidate <= baseline within 1%"));
        assert!(accepts("rndwr.iops: candidate >= baseline") && accepts("cp.synced: candidate == baseline"));
        for wrong in [
            "x.elapsed: candidate < baseline by 1%",
            "x.elapsed: baseline <= candidate",
            "x.elapsed: candidate <= 2 * baseline",
            "x.elapsed: candidate <= baseline within 1% by mean",
            "x.elapsed: best is candidate",
        ] {
            assert!(!accepts(wrong), "{wrong}");
        }
    }

    #[test]
    fn one_process_at_a_time_runs_a_bisection() {
        let dir = tempfile::tempdir().unwrap();
        let lock = lock_dir(dir.path()).unwrap();
        let error = lock_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("wait until it has ended"), "{error}");
        drop(lock);
        assert!(lock_dir(dir.path()).is_ok());
    }

    #[test]
    fn candidates_that_were_set_aside_move_the_choice_away_from_the_middle() {
        let ids: Vec<String> = (0..10).map(|id| id.to_string()).collect();
        let open: Vec<&String> = ids.iter().collect();
        assert_eq!(choose_candidate(&open, 0).unwrap(), "0");
        let chosen: std::collections::BTreeSet<_> =
            (1..5).filter_map(|set_aside_count| choose_candidate(&open, set_aside_count)).collect();
        assert!(chosen.len() >= 3, "{chosen:?}");
        assert_eq!(choose_candidate(&[], 3), None);
    }
}
