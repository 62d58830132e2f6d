//! Bisections: find the candidate at which a cost changed, by runs that compare it with both ends.
//!
//! A bisection is [`crate::execute`] in a loop. Its state is written after every step, and its runs are stored like any
//! others, so an interrupted bisection continues with the run that was interrupted, and no measurement is lost.

mod candidates;

pub use candidates::{Candidates, FILE_PLACEHOLDER, LEVEL_PLACEHOLDER, TREE_PLACEHOLDER};

use crate::error::{CellError, Result, RunError, require};
use crate::execute::{Destination, RunRequest, check, execute};
use crate::recorder::{Beginning, Consumer};
use crate::work;
use fsarena_core::bisect::{Bisection, Comparison, ComparisonResult, Effect, Ending, FORMAT, Purpose, steps};
use fsarena_core::cell::Variant;
use fsarena_core::claim::{Claim, Pair, Relation, RightSide};
use fsarena_core::event::{Cause, Event, VariantDeparture};
use fsarena_core::observations::{ComparedSeries, claim_series};
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::setting_text::setting;
use fsarena_core::{names::unknown, number::plural, safe::shorten, schedule::mix, state::RunState};
use fsarena_stats::bisect::{
    COUNTED_ROUNDS, judge_confirmation, judge_counted_step, judge_ends, judge_step, next_look,
};
use fsarena_stats::sequential::Centre;
use fsarena_store::RunDir;
use fsarena_sys::{Error, cancel, input};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The directory of bisections in a directory of runs.
const BISECTIONS_DIR: &str = "bisects";
/// The file with the state of one.
const FILE_NAME: &str = "bisect.json";
/// The largest such file, in bytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The most characters of the reason to skip a candidate that a message shows.
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
    runs: PathBuf,
    candidates: Candidates,
    /// When the part of the time that the state does not count yet began.
    counted_until: Instant,
}

/// What comes next.
enum NextAction {
    /// Make the variant of a candidate.
    Make(String),
    /// Do more rounds of the comparison with this index.
    Measure(usize),
    /// Nothing is left to do.
    End(Ending),
}

/// The ids of the bisections in a directory of runs, the oldest first.
pub fn ids(runs: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runs.join(BISECTIONS_DIR)).into_iter().flatten().flatten();
    let begun = entries.filter(|entry| entry.path().join(FILE_NAME).is_file());
    let mut ids: Vec<String> = begun.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.sort();
    ids
}

/// The two sides of the claim of a bisection.
///
/// # Errors
/// A claim that cannot be bisected; the message shows the form.
pub fn bisected_pair(claim: &Claim) -> Result<&Pair> {
    let form = "write it `TASK.METRIC: candidate <= baseline within 1%`, with <=, >= or ==";
    let wrong = || RunError::Plan(format!("`{claim}` cannot be bisected; {form}"));
    let Relation::Pair(pair) = &claim.relation else { return Err(wrong()) };
    let has_both_sides = pair.left == "candidate" && pair.right == RightSide::Variant("baseline".into());
    let is_plain = pair.op.tolerates() && pair.factor == 1.0 && claim.average.is_typical();
    if has_both_sides && is_plain { Ok(pair) } else { Err(wrong()) }
}

impl Bisector {
    /// Begins a bisection: gives it an id and a directory, and resolves its ends.
    ///
    /// # Errors
    /// Ends that do not exist or are in the wrong order, a claim or a number of rounds that cannot decide anything, or a
    /// directory that cannot be made.
    pub fn begin(mut state: Bisection, runs: &Path) -> Result<Bisector> {
        bisected_pair(&state.claim)?;
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let now: String = now.chars().filter(char::is_ascii_digit).collect();
        let base = format!("{}-{}", &now[..8], &now[8..]);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let bisections_dir = runs.join(BISECTIONS_DIR);
        std::fs::create_dir_all(&bisections_dir).map_err(Error::io("making", &bisections_dir))?;
        for id in std::iter::once(base.clone()).chain(numbered) {
            match std::fs::create_dir(bisections_dir.join(&id)) {
                Ok(()) => state.id = id,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(Error::io("making", &bisections_dir.join(&id))(error).into()),
            }
            break;
        }
        let dir = bisections_dir.join(&state.id);
        let prepared = Bisector::prepare(state, runs, &dir);
        if prepared.is_err() {
            // At most the empty directory of the clone is in it yet.
            let _ = std::fs::remove_dir(dir.join("build"));
            let _ = std::fs::remove_dir(&dir);
        }
        let bisector = prepared?;
        bisector.save()?;
        Ok(bisector)
    }

    /// Finds the ends and the number of candidates.
    fn prepare(mut state: Bisection, runs: &Path, dir: &Path) -> Result<Bisector> {
        let candidates = Candidates::of(&state, dir)?;
        state.good = candidates.find(&state.good)?;
        state.bad = candidates.find(&state.bad)?;
        candidates.check_order(&state.good, &state.bad)?;
        state.candidate_count = candidates.remaining(&[&state.good], &state.bad)?.len() + 1;
        let share = state.next_error_split(Purpose::Ends, steps(state.candidate_count));
        let first = next_look(0, share as usize).unwrap_or(usize::MAX);
        require(first <= state.max_rounds, || {
            let most = setting("max_rounds", &state.max_rounds.to_string());
            let candidates = plural(state.candidate_count, "candidate");
            RunError::Plan(format!("{most}: the ends of {candidates} require at least {first} rounds"))
        })?;
        Ok(Bisector { state, dir: dir.into(), runs: runs.into(), candidates, counted_until: Instant::now() })
    }

    /// Opens a bisection to continue it, by its id or as `latest`.
    ///
    /// # Errors
    /// There is none of this id, or its file is damaged.
    pub fn open(runs: &Path, name: &str) -> Result<Bisector> {
        let ids = ids(runs);
        let found = match name {
            "latest" => ids.last(),
            name => ids.iter().find(|id| *id == name),
        };
        let Some(id) = found else {
            return Err(RunError::Plan(unknown("bisection", name, ids.iter().map(String::as_str)).into()));
        };
        let dir = runs.join(BISECTIONS_DIR).join(id);
        let file = dir.join(FILE_NAME);
        let bytes = input::read(&file, MAX_FILE_BYTES).map_err(Error::io("reading", &file))?;
        let damaged = |why: String| RunError::Plan(format!("{}: {why}", file.display()));
        let state: Bisection = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
        require(state.format == FORMAT, || damaged(format!("written by a newer fsarena (format {})", state.format)))?;
        let candidates = Candidates::of(&state, &dir)?;
        Ok(Bisector { state, dir, runs: runs.into(), candidates, counted_until: Instant::now() })
    }

    /// Opens the last bisection of these candidates by this claim and work, if it was inconclusive and `asked` allows more
    /// time or rounds. With `any_seed`, its seed can be another one. None if there is no such bisection.
    ///
    /// # Errors
    /// Its candidates cannot be read, or it took longer than the budget of `asked`.
    pub fn resume_inconclusive(asked: &Bisection, any_seed: bool, runs: &Path) -> Result<Option<Bisector>> {
        for id in ids(runs).iter().rev() {
            let Ok(mut earlier) = Bisector::open(runs, id) else { continue };
            if earlier.has_same_question(asked, any_seed) {
                let taken_up = earlier.extend(asked.budget_s, asked.max_rounds)?;
                earlier.state.command.clone_from(&asked.command);
                return Ok(Some(earlier).filter(|_| taken_up));
            }
        }
        Ok(None)
    }

    /// Whether this bisection is about the same candidates, claim and work as another one.
    fn has_same_question(&self, asked: &Bisection, any_seed: bool) -> bool {
        let own = &self.state;
        let is_end = |name: &str, end: &str| self.candidates.find(name).is_ok_and(|id| id == end);
        let plan = |text: &str| {
            let plan = Plan::of_stored(text).ok()?;
            Some(Plan { seed: if any_seed { 0 } else { plan.seed }, stop: StopPlan::default(), ..plan })
        };
        own.history == asked.history
            && own.template == asked.template
            && own.claim == asked.claim
            && own.user == asked.user
            && plan(&own.plan) == plan(&asked.plan)
            && is_end(&asked.good, &own.good)
            && is_end(&asked.bad, &own.bad)
    }

    /// Allows more time or rounds. A bisection that was inconclusive for the lack of them goes on: its comparisons keep
    /// their rounds. Returns whether it goes on.
    ///
    /// # Errors
    /// It took longer than this budget.
    fn extend(&mut self, budget_s: Option<f64>, max_rounds: usize) -> Result<bool> {
        let has_more_time = self.state.budget_s.is_some_and(|old| budget_s.is_none_or(|new| new > old));
        if !has_more_time && max_rounds <= self.state.max_rounds {
            return Ok(false);
        }
        require(budget_s.is_none_or(|budget| budget > self.state.elapsed_s), || {
            let seconds = self.state.elapsed_s.ceil();
            let budget = setting("budget", &format!("{}s", budget_s.unwrap_or_default()));
            RunError::Plan(format!("{budget}: bisection {} has taken {seconds} s already", self.state.id))
        })?;
        (self.state.budget_s, self.state.max_rounds) = (budget_s, max_rounds);
        if !matches!(self.state.ending, Some(Ending::Inconclusive { .. })) {
            return Ok(self.state.ending.is_none());
        }
        let seconds_left = self.left_s();
        for comparison in &mut self.state.comparisons {
            // Steps that are still needed are reopened one after the other.
            if comparison.purpose != Purpose::Step && comparison.result == Some(ComparisonResult::Inconclusive) {
                (comparison.result, comparison.allowed_s) =
                    (None, seconds_left.map(|seconds_left| comparison.seconds + seconds_left / 2.0));
            }
        }
        self.state.ending = None;
        self.save()?;
        Ok(true)
    }

    /// The directory of its state, of the clone and of the variants that were made.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bisects until it ends, or until a signal interrupts it. Returns whether it has ended.
    ///
    /// # Errors
    /// An end that cannot be made or measured, or something that prevents every comparison.
    pub fn run(&mut self, display: &mut dyn BisectDisplay) -> Result<bool> {
        while self.state.ending.is_none() {
            match self.next()? {
                NextAction::Make(id) => self.make(&id, display)?,
                NextAction::Measure(at) => self.measure(at, display)?,
                NextAction::End(ending) => self.state.ending = Some(ending),
            }
            self.save()?;
            if cancel::requested().is_some() {
                break;
            }
        }
        let ended = self.state.ending.is_some();
        if ended {
            // Some hundred megabytes that can be made again.
            let _ = std::fs::remove_dir_all(self.machines_dir());
        }
        Ok(ended)
    }

    /// The directory of the machines that the guests of all steps begin with.
    fn machines_dir(&self) -> PathBuf {
        let dir = self.dir.join("machines");
        std::path::absolute(&dir).unwrap_or(dir)
    }

    /// Writes the state, so that the file is either the old or the new one.
    fn save(&self) -> Result<()> {
        save(&self.state, &self.dir.join(FILE_NAME))
    }

    /// Decides what comes next, from the state alone and the history.
    fn next(&mut self) -> Result<NextAction> {
        for end in [&self.state.good, &self.state.bad] {
            if !self.state.tried.contains_key(end) {
                return Ok(NextAction::Make(end.clone()));
            }
        }
        let (good, bad) = (self.state.good.clone(), self.state.bad.clone());
        let Some(ends) = self.state.ends() else {
            let steps = steps(self.state.candidate_count);
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
        if let Some(at) = self.state.comparisons.iter().position(|one| one.result.is_none()) {
            return Ok(NextAction::Measure(at));
        }
        let (goods, first_bad) = self.state.bracket();
        let remaining = self.candidates.remaining(&goods, first_bad)?;
        let last_good = goods[goods.len() - 1].to_string();
        let goods: Vec<String> = goods.into_iter().map(String::from).collect();
        let first_bad = first_bad.to_string();
        let failed = remaining.iter().filter(|id| self.is_set_aside(id)).count();
        let open: Vec<&String> = remaining.iter().filter(|id| !self.is_set_aside(id)).collect();
        if let Some(id) = choose_candidate(&open, failed) {
            if !self.state.tried.contains_key(id) {
                return Ok(NextAction::Make(id.clone()));
            }
            let (id, steps) = (id.clone(), steps(open.len() + 1));
            return Ok(self.begin_comparison(Purpose::Step, &[&good, &id, &bad], steps));
        }
        if let Some(at) = self.reopen(&remaining) {
            return Ok(NextAction::Measure(at));
        }
        let undecided = remaining.iter().filter(|id| self.is_undecided(id)).count();
        if undecided > 0 {
            let candidates = plural(undecided, "candidate");
            let why = format!(
                "the rounds or the time did not suffice for {candidates} between the last good one and the first bad one"
            );
            let possible = remaining.into_iter().chain([first_bad]).collect();
            return Ok(NextAction::End(Ending::Inconclusive { why, possible }));
        }
        let parent = match self.candidates.first_parent(&first_bad)? {
            Some(parent) if goods.contains(&parent) => parent,
            // A merge, or a commit whose parent changes none of the paths: only the parent differs from it in nothing else.
            Some(parent) if remaining.is_empty() => match self.state.tried.get(&parent) {
                None => return Ok(NextAction::Make(parent)),
                Some(made) if made.skipped.is_none() => parent,
                Some(_) => last_good,
            },
            _ => last_good,
        };
        Ok(self.confirm(parent, first_bad, remaining))
    }

    /// Whether a candidate was skipped or set aside.
    fn is_set_aside(&self, id: &str) -> bool {
        self.state.tried.get(id).is_some_and(|candidate| candidate.skipped.is_some()) || self.is_undecided(id)
    }

    /// Whether the step of a candidate was inconclusive.
    fn is_undecided(&self, id: &str) -> bool {
        let mut steps = self.state.comparisons.iter().filter(|one| one.purpose == Purpose::Step);
        steps.any(|one| one.subject() == id && one.result == Some(ComparisonResult::Inconclusive))
    }

    /// Adds a comparison. `steps` are the steps that are left, this one included.
    fn begin_comparison(&mut self, purpose: Purpose, candidates: &[&str], steps: usize) -> NextAction {
        let mut comparison = Comparison::new(purpose, candidates, self.state.next_error_split(purpose, steps));
        let parts = match purpose {
            Purpose::Ends => steps + 2,
            Purpose::Step => steps + 1,
            Purpose::Confirmation => 1,
        };
        comparison.allowed_s = self.left_s().map(|seconds_left| seconds_left / parts as f64);
        self.state.comparisons.push(comparison);
        NextAction::Measure(self.state.comparisons.len() - 1)
    }

    /// The seconds that are left of the budget.
    fn left_s(&self) -> Option<f64> {
        Some(self.state.budget_s? - self.state.elapsed_s)
    }

    /// Continues an inconclusive step of one of these candidates, if it may have more rounds and the budget has time for them.
    fn reopen(&mut self, remaining: &[String]) -> Option<usize> {
        for at in 0..self.state.comparisons.len() {
            let one = &self.state.comparisons[at];
            let inconclusive = one.result == Some(ComparisonResult::Inconclusive);
            if !inconclusive
                || one.stuck
                || one.purpose != Purpose::Step
                || !remaining.iter().any(|id| id == one.subject())
            {
                continue;
            }
            // The confirmation needs the other half.
            let allowed = self.left_s().map(|seconds_left| one.seconds + seconds_left / 2.0);
            let has_time = |rounds| allowed.is_none_or(|allowed| expected_s(one, rounds) <= allowed);
            if self.next_rounds(one).is_some_and(has_time) {
                let one = &mut self.state.comparisons[at];
                (one.result, one.allowed_s) = (None, allowed);
                return Some(at);
            }
        }
        None
    }

    /// Confirms that the first bad candidate differs from the last good one, or ends. The ends of a bisection without candidates
    /// between them are confirmed already.
    fn confirm(&mut self, parent: String, child: String, possible: Vec<String>) -> NextAction {
        let pair = [parent.as_str(), child.as_str()];
        let confirmation = self
            .state
            .comparisons
            .iter()
            .position(|one| matches!(one.purpose, Purpose::Ends | Purpose::Confirmation) && one.candidates == pair);
        let Some(at) = confirmation else {
            return self.begin_comparison(Purpose::Confirmation, &pair, 0);
        };
        let title = |id: &str| self.state.candidate(id).title();
        let why = match self.state.comparisons[at].result {
            None => return NextAction::Measure(at),
            Some(ComparisonResult::NoChange) => {
                format!("{} and {} do not differ, so the steps contradict each other", title(&parent), title(&child))
            }
            Some(ComparisonResult::Inconclusive) => {
                format!("it is inconclusive whether {} differs from {}", title(&child), title(&parent))
            }
            Some(_) => return NextAction::End(Ending::Found { parent, child, possible }),
        };
        let possible = std::iter::once(child).chain(possible).collect();
        NextAction::End(Ending::Inconclusive { why, possible })
    }

    /// Makes the variant of a candidate.
    fn make(&mut self, id: &str, display: &mut dyn BisectDisplay) -> Result<()> {
        let made = self.candidates.make(id);
        self.count_time();
        let made = match made {
            Err(_) if cancel::requested().is_some() => return Ok(()),
            made => made?,
        };
        if let Some(why) = &made.skipped {
            if [&self.state.good, &self.state.bad].into_iter().any(|end| end == id) {
                return Err(RunError::Cell { variant: made.title(), source: CellError::new(Cause::Work, why.clone()) });
            }
            display.show(&format!("skipped {}: {}", made.title(), shorten(why, MAX_REASON_CHARS)));
        }
        self.state.tried.insert(id.into(), made);
        Ok(())
    }

    /// Adds the time since the last call to that of the bisection.
    fn count_time(&mut self) -> f64 {
        let seconds = self.counted_until.elapsed().as_secs_f64();
        self.state.elapsed_s += seconds;
        self.counted_until = Instant::now();
        seconds
    }

    /// The rounds after which a comparison is judged next; None if it has as many as it may have.
    fn next_rounds(&self, comparison: &Comparison) -> Option<usize> {
        let rounds_done = comparison.effect.map_or(0, |effect| effect.rounds);
        if self.state.figures_are_counts && comparison.purpose == Purpose::Step && rounds_done < COUNTED_ROUNDS {
            return Some(COUNTED_ROUNDS);
        }
        let next = next_look(rounds_done, comparison.error_split as usize)?.min(self.state.max_rounds);
        (next > rounds_done).then_some(next)
    }

    /// Measures the next rounds of a comparison, or completes its interrupted run, and judges it.
    fn measure(&mut self, at: usize, display: &mut dyn BisectDisplay) -> Result<()> {
        let comparison = &self.state.comparisons[at];
        let last = comparison.runs.last().map(|id| RunDir::find(&self.runs, id)).transpose()?;
        let unfinished = match last {
            Some(run) if !fsarena_store::read(&run)?.status.complete => Some(run),
            // A signal or a kill came between the end of the run and the verdict.
            Some(_) if comparison.judged_runs < comparison.runs.len() => return self.judge(at, display),
            _ => None,
        };
        let mut request = match unfinished {
            Some(run) => RunRequest::resume(run, None, None)?,
            None => {
                let rounds_done = comparison.effect.map_or(0, |effect| effect.rounds);
                let Some(rounds) = self.next_rounds(comparison).filter(|_| self.has_time_for_more(comparison)) else {
                    self.state.comparisons[at].result = Some(ComparisonResult::Inconclusive);
                    return Ok(());
                };
                let plan = self.plan(at, rounds - rounds_done)?;
                if let Err(why) = work::check(&plan) {
                    require(comparison.purpose == Purpose::Step, || RunError::Plan(why.clone()))?;
                    self.skip(at, &why, display);
                    return Ok(());
                }
                RunRequest::new(plan, Destination::NewRun(self.runs.clone()))
            }
        };
        request.user.clone_from(&self.state.user);
        request.machines_dir = Some(self.machines_dir());
        let mut consumer = display.run_display();
        let mut registrar = RunRegistrar { file: self.dir.join(FILE_NAME), state: &mut self.state, at, saved: Ok(()) };
        let result = execute(request, &mut [&mut *consumer, &mut registrar]);
        let saved = registrar.saved;
        drop(consumer);
        let seconds = self.count_time();
        self.state.comparisons[at].seconds += seconds;
        saved?;
        match result {
            _ if cancel::requested().is_some() => Ok(()),
            Ok(_) => self.judge(at, display),
            Err(error) if self.is_candidate_at_fault(at, &error) => {
                self.skip(at, &error.to_string(), display);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a comparison may take the time of its next rounds. Its first ones always run if any time is left.
    fn has_time_for_more(&self, comparison: &Comparison) -> bool {
        let Some(allowed) = comparison.allowed_s else { return true };
        if comparison.runs.is_empty() {
            return allowed > 0.0;
        }
        self.next_rounds(comparison).is_some_and(|rounds| expected_s(comparison, rounds) <= allowed)
    }

    /// Whether only the candidate of a step is to blame for an error that ended its run: the ends pass every check.
    fn is_candidate_at_fault(&self, at: usize, error: &RunError) -> bool {
        let one = &self.state.comparisons[at];
        if one.purpose != Purpose::Step || matches!(error, RunError::EveryVariantFailed(_) | RunError::Agent(_)) {
            return false;
        }
        let Ok(mut plan) = self.plan(at, 1) else { return false };
        plan.variants.remove(1);
        let mut request = RunRequest::new(plan, Destination::NewRun(self.runs.clone()));
        request.user.clone_from(&self.state.user);
        check(&request).is_ok()
    }

    /// Skips the candidate of a comparison.
    fn skip(&mut self, at: usize, why: &str, display: &mut dyn BisectDisplay) {
        let one = &mut self.state.comparisons[at];
        one.result = Some(ComparisonResult::Skipped);
        let id = one.subject().to_string();
        if let Some(candidate) = self.state.tried.get_mut(&id) {
            candidate.skipped = Some(why.into());
            display.show(&format!("skipped {}: {}", candidate.title(), shorten(why, MAX_REASON_CHARS)));
        }
    }

    /// The plan of the next run of a comparison.
    fn plan(&self, at: usize, rounds: usize) -> Result<Plan> {
        let one = &self.state.comparisons[at];
        let damaged = |why: String| RunError::Plan(format!("{}: {why}", self.dir.join(FILE_NAME).display()));
        let base = Plan::of_stored(&self.state.plan).map_err(damaged)?;
        let variants: Vec<Variant> = one.candidates.iter().map(|id| self.variant(id)).collect();
        let title = self.state.candidate(one.subject()).title();
        let question = match one.purpose {
            Purpose::Ends => "Does BAD differ from GOOD?".to_string(),
            Purpose::Step => format!("Is {title} nearer to GOOD or to BAD?"),
            Purpose::Confirmation => format!("Does {title} differ from the last good candidate?"),
        };
        let mut claims = vec![];
        if one.purpose != Purpose::Step {
            let mut claim = self.state.claim.clone();
            claim.replace_roles(&[&variants[0].name, &variants[1].name]);
            claims.push(claim);
        }
        // Further rounds need other data than the first ones.
        let seed = mix(mix(base.seed, at as u64), one.runs.len() as u64);
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
    fn judge(&mut self, at: usize, display: &mut dyn BisectDisplay) -> Result<()> {
        let PooledRounds { rounds, departure } = self.rounds(at)?;
        let comparison = &self.state.comparisons[at];
        let (purpose, share) = (comparison.purpose, comparison.error_split as usize);
        if let Some((candidate, exit)) = departure {
            if purpose == Purpose::Step && candidate == 1 {
                self.skip(at, &exit.why, display);
                return Ok(());
            }
            let variant = self.state.candidate(&comparison.candidates[candidate]).title();
            return Err(RunError::Cell { variant, source: CellError::new(exit.cause, exit.why) });
        }
        let differences: Vec<f64> = rounds.iter().map(|round| round[1] - round[0]).collect();
        let before = comparison.effect.map_or(0, |effect| effect.rounds);
        let effect = Centre::of(&differences).map(|centre| Effect {
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
                judge_ends(bisected_pair(&self.state.claim)?, &differences, margin, share)
            }
            Purpose::Step => {
                let counted = self.state.figures_are_counts.then(|| judge_counted_step(&triples, direction)).flatten();
                counted.or_else(|| judge_step(&triples, direction, share))
            }
            Purpose::Confirmation => {
                let whole_effect =
                    self.state.ends().and_then(|ends| ends.effect).map_or(0.0, |ends| ends.estimate.ln_1p());
                judge_confirmation(&differences, direction, whole_effect, share)
            }
        };
        // Every round had a value of zero, or was dropped: further ones would too.
        let stuck = differences.len() <= before;
        let comparison = &mut self.state.comparisons[at];
        comparison.judged_runs = comparison.runs.len();
        comparison.effect = effect;
        comparison.stuck = stuck;
        comparison.result = result.or(stuck.then_some(ComparisonResult::Inconclusive));
        if comparison.result.is_some() {
            display.show(&self.describe(at));
        }
        Ok(())
    }

    /// The rounds of a comparison so far.
    fn rounds(&self, at: usize) -> Result<PooledRounds> {
        let one = &self.state.comparisons[at];
        let names: Vec<String> = one.candidates.iter().map(|id| self.variant(id).name).collect();
        let subject = &self.state.claim.subject;
        let claims: Vec<Claim> =
            names[1..].iter().map(|name| Claim::equality(subject.clone(), name, &names[0], None)).collect();
        let mut rounds = vec![];
        for id in &one.runs {
            let record = fsarena_store::read(&RunDir::find(&self.runs, id)?)?;
            let state = RunState::new(record);
            let departures = state.departures();
            let departure = names.iter().enumerate().find_map(|(at, name)| Some((at, departures.get(name)?.clone())));
            if departure.is_some() {
                return Ok(PooledRounds { rounds, departure });
            }
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

    /// A line about a comparison that was judged.
    fn describe(&self, at: usize) -> String {
        let one = &self.state.comparisons[at];
        let result = one.result.map_or("", ComparisonResult::name);
        let title = self.state.candidate(one.subject()).title();
        let effect = one.effect.map_or(String::new(), |effect| {
            let percent = |fraction: f64| format!("{:+.3}%", 100.0 * fraction);
            let (low, high) = (percent(effect.low), percent(effect.high));
            format!(", {} [{low}, {high}] in {}", percent(effect.estimate), plural(effect.rounds, "round"))
        });
        let what = match one.purpose {
            Purpose::Ends => format!("BAD against GOOD: {result}"),
            Purpose::Step => format!("{title}: {result}"),
            Purpose::Confirmation => format!("{title} against the last good candidate: {result}"),
        };
        let against = if one.purpose == Purpose::Step { " against GOOD" } else { "" };
        format!("{what}{effect}{against}")
    }
}

/// The rounds of all runs of a comparison.
struct PooledRounds {
    /// The logarithms of the figures of all candidates in each round that has all.
    rounds: Vec<Vec<f64>>,
    /// The first candidate that left a run, with the reason.
    departure: Option<(usize, VariantDeparture)>,
}

/// The seconds that a comparison will have taken after that number of rounds, if they take as long as those so far.
fn expected_s(comparison: &Comparison, rounds: usize) -> f64 {
    match comparison.effect {
        Some(effect) if effect.rounds > 0 => comparison.seconds * rounds as f64 / effect.rounds as f64,
        _ => comparison.seconds,
    }
}

/// Chooses the candidate to test of those that are open, the best first, if `failed` of the same range could not be tested: each
/// failure moves the choice on, because neighbours of a commit that does not build often do not build either.
fn choose_candidate<'a>(open: &[&'a String], failed: usize) -> Option<&'a String> {
    // Multiples of the golden ratio spread evenly; the power prefers the middle of the range.
    let place = (failed as f64 * 0.618_034).fract().powf(1.5);
    open.get((place * open.len() as f64) as usize).copied()
}

/// Writes the state of a bisection.
fn save(state: &Bisection, file: &Path) -> Result<()> {
    let text = serde_json::to_vec_pretty(state).map_err(|error| RunError::Plan(error.to_string()))?;
    let new_file = file.with_extension("new");
    std::fs::write(&new_file, text).map_err(Error::io("writing", &new_file))?;
    Ok(std::fs::rename(&new_file, file).map_err(Error::io("writing", file))?)
}

/// Adds a run to its comparison when it begins, so that a bisection that is killed finds it again.
struct RunRegistrar<'a> {
    file: PathBuf,
    state: &'a mut Bisection,
    at: usize,
    saved: Result<()>,
}

impl Consumer for RunRegistrar<'_> {
    fn begin(&mut self, beginning: &Beginning) {
        let Some(id) = beginning.run.map(RunDir::id) else { return };
        let runs = &mut self.state.comparisons[self.at].runs;
        if !runs.contains(&id) {
            runs.push(id);
            self.saved = save(self.state, &self.file);
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
    fn failures_move_the_choice_away_from_the_middle() {
        let all: Vec<String> = (0..10).map(|id| id.to_string()).collect();
        let open: Vec<&String> = all.iter().collect();
        assert_eq!(choose_candidate(&open, 0).unwrap(), "0");
        let chosen: std::collections::BTreeSet<_> =
            (1..5).filter_map(|failed| choose_candidate(&open, failed)).collect();
        assert!(chosen.len() >= 3, "{chosen:?}");
        assert_eq!(choose_candidate(&[], 3), None);
    }
}
