//! `fsarena history --fail-on-change`: alarms each new change of a history once, and confirms it in fresh rounds.

use crate::commands::handle_signals;
use crate::failure::{CommandResult, Failure};
use crate::terminal::progress::Progress;
use fsarena_core::observations::claim_series;
use fsarena_core::{exit::ExitCode, number::effect_and_interval};
use fsarena_report::history::{HistoryQuery, LevelChange};
use fsarena_report::page::Page;
use fsarena_run::alarms::{Alarm, AlarmOutcome, Alarms};
use fsarena_run::confirmation::{ChangeToConfirm, Confirmation};
use fsarena_run::{Consumer, Destination, RunRequest, execute};
use fsarena_stats::change_point::alarm_error_divisor;
use fsarena_stats::judge::judge_claims;
use fsarena_stats::verdict::{self, Verdict};
use fsarena_store::RunDir;
use fsarena_sys::cancel;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// The largest number of runs before a change that are tried, to find one whose variant can be made again.
const MAX_TRIED_RUNS: usize = 8;

/// Confirms the changes of a history in fresh rounds.
pub struct ChangeConfirmer<'a> {
    /// The directory of runs.
    pub runs_dir: &'a Path,
    /// The longest time of the fresh rounds of one change.
    pub budget: Option<Duration>,
    /// Whether to print no progress.
    pub quiet: bool,
}

/// What is known of a change after the attempt to confirm it: the outcome, a sentence, and the run with fresh rounds.
type ConfirmationResult = (AlarmOutcome, String, Option<String>);

impl ChangeConfirmer<'_> {
    /// Checks in fresh rounds every change that has no alarm with a result yet, and adds the alarms of all changes to the
    /// page. Returns the exit code: 3 if fresh rounds confirmed a change; else 4 if the rounds of a change were inconclusive
    /// or could not run; else 0.
    pub fn check_changes(&self, changes: &[LevelChange], query: &HistoryQuery, page: &mut Page) -> CommandResult {
        handle_signals()?;
        let mut alarms = Alarms::open(self.runs_dir)?;
        let (mut exit_code, mut shown) = (ExitCode::Done, vec![]);
        for change in changes {
            let has_risen = change.ln_change > 0.0;
            let is_for_change =
                |alarm: &&Alarm| alarm.has_risen == has_risen && change.runs_nearby.contains(&alarm.first_run);
            let known = alarms.of_history(query).filter(is_for_change).last().cloned();
            if let Some(known) = known.as_ref().filter(|known| known.outcome != AlarmOutcome::NotConfirmable) {
                shown.push((change, known.clone()));
                continue;
            }
            let is_known = known.is_some();
            let (number, first_run) = match known {
                Some(known) => (known.number, known.first_run),
                None => (alarms.next_number(query), change.first_run.clone()),
            };
            let Some((outcome, why, confirmation_run)) = self.confirm(change, query, number)? else { continue };
            let history = query.clone();
            let alarm = Alarm { history, number, first_run, has_risen, outcome, why, confirmation_run };
            alarms.store(alarm.clone())?;
            shown.push((change, alarm));
            match outcome {
                AlarmOutcome::Confirmed => exit_code = ExitCode::Refuted,
                AlarmOutcome::NotConfirmed => {}
                // It was alarmed already, and nothing more is known.
                AlarmOutcome::NotConfirmable if is_known => {}
                _ if exit_code == ExitCode::Done => exit_code = ExitCode::Inconclusive,
                _ => {}
            }
        }
        add_to_page(page, &shown, exit_code);
        Ok(exit_code)
    }

    /// Confirms a change, as the alarm of this number. None if it is too early for an alarm.
    fn confirm(
        &self,
        change: &LevelChange,
        query: &HistoryQuery,
        number: u32,
    ) -> Result<Option<ConfirmationResult>, Failure> {
        let read = |run: &String| fsarena_store::read(&RunDir::find(self.runs_dir, run)?);
        let to_confirm = ChangeToConfirm {
            variant: &query.variant,
            metric: &query.metric,
            ln_change: change.ln_change,
            error_split: alarm_error_divisor(number),
            budget_s: self.budget.map(|budget| budget.as_secs_f64()),
        };
        let after = read(&change.runs_after[0])?;
        let mut obstacle = None;
        for run in change.runs_before.iter().take(MAX_TRIED_RUNS) {
            match to_confirm.plan(&read(run)?, &after, self.runs_dir) {
                Confirmation::Plan(plan) => {
                    let request = RunRequest::new(*plan, Destination::NewRun(self.runs_dir.into()));
                    return self.run_fresh_rounds(request).map(Some);
                }
                Confirmation::NotPossible(why) => drop(obstacle.get_or_insert(why)),
                Confirmation::SameSides => {}
            }
        }
        Ok(match obstacle {
            Some(why) => Some((AlarmOutcome::NotConfirmable, format!("No fresh rounds: {why}"), None)),
            // Fresh rounds would compare a variant with itself, so only later runs can show that it is a change.
            None if change.confirmed => {
                let why = "Later runs confirm it, and nothing that runs store differs before and after it: no option, program, or \
                           kernel; look for what else changed on this machine";
                Some((AlarmOutcome::NotConfirmable, why.into(), None))
            }
            None => None,
        })
    }

    /// Runs the fresh rounds and judges the change by them.
    fn run_fresh_rounds(&self, request: RunRequest) -> Result<ConfirmationResult, Failure> {
        let mut progress = Progress::new(self.quiet);
        progress.show_message(&format!("{}: fresh rounds, to confirm it", request.plan.title));
        let executed = execute(request, &mut [&mut progress]);
        drop(progress);
        cancel::check()?;
        let outcome = match executed {
            Ok(outcome) => outcome,
            Err(error) => return Ok((AlarmOutcome::NotConfirmable, format!("No fresh rounds: {error}"), None)),
        };
        let judged = judge_claims(claim_series(&outcome.record, &outcome.record.plan.claims));
        let Some(judged) = judged.first() else {
            return Ok((AlarmOutcome::Inconclusive, "No fresh round has values".into(), None));
        };
        let alarm_outcome = match judged.outcome() {
            verdict::Outcome::Refuted => AlarmOutcome::Confirmed,
            verdict::Outcome::Held | verdict::Outcome::Equivalent => AlarmOutcome::NotConfirmed,
            verdict::Outcome::Inconclusive => AlarmOutcome::Inconclusive,
        };
        let difference =
            judged.verdict.map_or_else(|| judged.why_unjudged.clone().unwrap_or_default(), describe_difference);
        let why = format!("{difference}; claim: {}", judged.claim.text);
        Ok((alarm_outcome, why, outcome.run.map(|run| run.id())))
    }
}

/// The difference of the fresh rounds in words.
fn describe_difference(verdict: Verdict) -> String {
    let (effect, interval) = effect_and_interval(verdict.effect, verdict.interval, &[]);
    format!("{effect} [{interval}] in {} fresh rounds", verdict.rounds)
}

/// Adds the alarms to a page.
fn add_to_page(page: &mut Page, alarms: &[(&LevelChange, Alarm)], exit_code: ExitCode) {
    let alarm_line = |(change, alarm): &(&LevelChange, Alarm)| {
        let run = alarm.confirmation_run.as_ref().map_or(String::new(), |run| format!(" (run {run})"));
        let (number, outcome) = (alarm.number, alarm.outcome.name());
        format!("Alarm {number}, {outcome}. {} {}{run}.", change.sentence, alarm.why)
    };
    page.document.heading(2, "Alarms");
    let mut lines: Vec<String> = alarms.iter().map(alarm_line).collect();
    if lines.is_empty() {
        lines.push("No change to alarm.".into());
    }
    page.document.list(lines);
    page.json["alarms"] = json!(alarms.iter().map(|(_, alarm)| alarm).collect::<Vec<_>>());
    page.json["exit"] = json!(exit_code as u8);
}
