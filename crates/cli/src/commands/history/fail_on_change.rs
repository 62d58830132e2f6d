//! `fsarena history --fail-on-change`: alarms each new change of a history once, and confirms it in fresh rounds.

use crate::commands::handle_signals;
use crate::failure::{Failure, Outcome};
use crate::terminal::progress::Progress;
use fsarena_core::observations::claim_series;
use fsarena_core::{exit::ExitCode, number::effect_and_interval};
use fsarena_report::history::{FoundChange, HistoryQuery};
use fsarena_report::page::Page;
use fsarena_run::alarms::{Alarm, AlarmOutcome, Alarms, HistoryKey};
use fsarena_run::confirmation::{ChangeToConfirm, Confirmation};
use fsarena_run::{Consumer, Destination, RunRequest, execute};
use fsarena_stats::change_point::alarm_error_divisor;
use fsarena_stats::judge::judge_all;
use fsarena_stats::verdict::{self, Verdict};
use fsarena_store::RunDir;
use fsarena_sys::cancel;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// How many runs before a change are tried for one whose side can be made again.
const MAX_TRIED_RUNS: usize = 8;

/// How to confirm changes.
pub struct ChangeConfirmer<'a> {
    /// The directory of runs.
    pub runs: &'a Path,
    /// The longest time of the fresh rounds of one change.
    pub budget: Option<Duration>,
    /// Whether to print no progress.
    pub quiet: bool,
}

/// What is known of a change after the attempt to confirm it: the outcome, a sentence, and the run with fresh rounds.
type ConfirmationResult = (AlarmOutcome, String, Option<String>);

impl ChangeConfirmer<'_> {
    /// Checks every change that has no alarm with a result yet, in fresh rounds, and adds the alarms of all changes to
    /// the page. Returns the exit code: 3 if fresh rounds confirmed a change, else 4 if they were inconclusive or could
    /// not run for one, else 0.
    pub fn alarm(&self, found: &[FoundChange], query: &HistoryQuery, page: &mut Page) -> Outcome {
        handle_signals()?;
        let HistoryQuery { study, metric, variant, reference } = query.clone();
        let history = HistoryKey { study, metric, variant, reference };
        let mut alarms = Alarms::open(self.runs)?;
        let (mut exit, mut shown) = (ExitCode::Done, vec![]);
        for change in found {
            let rose = change.ln_change > 0.0;
            let is_same = |alarm: &&Alarm| alarm.rose == rose && change.near.contains(&alarm.run);
            let known = alarms.of_history(&history).filter(is_same).last().cloned();
            if let Some(known) = known.as_ref().filter(|known| known.outcome != AlarmOutcome::NotConfirmable) {
                shown.push((change, known.clone()));
                continue;
            }
            let number = known.as_ref().map_or_else(|| alarms.next_number(&history), |known| known.number);
            let Some((outcome, why, confirmation)) = self.confirm(change, query, number)? else { continue };
            let run = known.as_ref().map_or_else(|| change.run.clone(), |known| known.run.clone());
            let alarm = Alarm { history: history.clone(), number, run, rose, outcome, why, confirmation };
            alarms.store(alarm.clone())?;
            shown.push((change, alarm));
            match outcome {
                AlarmOutcome::Confirmed => exit = ExitCode::Refuted,
                AlarmOutcome::NotConfirmed => {}
                // It was alarmed already, and nothing more is known.
                AlarmOutcome::NotConfirmable if known.is_some() => {}
                _ if exit == ExitCode::Done => exit = ExitCode::Inconclusive,
                _ => {}
            }
        }
        add_to_page(page, &shown, exit);
        Ok(exit)
    }

    /// Confirms a change, as the alarm of this number. None if it is too early for an alarm.
    fn confirm(
        &self,
        change: &FoundChange,
        query: &HistoryQuery,
        number: u32,
    ) -> Result<Option<ConfirmationResult>, Failure> {
        let read = |run: &String| fsarena_store::read(&RunDir::find(self.runs, run)?);
        let to_confirm = ChangeToConfirm {
            variant: &query.variant,
            metric: &query.metric,
            ln_change: change.ln_change,
            error_split: alarm_error_divisor(number),
            budget_s: self.budget.map(|budget| budget.as_secs_f64()),
        };
        let after = read(&change.after[0])?;
        let mut obstacle = None;
        for run in change.before.iter().take(MAX_TRIED_RUNS) {
            match to_confirm.plan(&read(run)?, &after, self.runs) {
                Confirmation::Plan(plan) => {
                    return self.compare(RunRequest::new(*plan, Destination::NewRun(self.runs.into()))).map(Some);
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

    /// Runs the fresh rounds.
    fn compare(&self, request: RunRequest) -> Result<ConfirmationResult, Failure> {
        let mut progress = Progress::new(self.quiet);
        progress.show_message(&format!("{}: fresh rounds, to confirm it", request.plan.title));
        let executed = execute(request, &mut [&mut progress]);
        drop(progress);
        cancel::check()?;
        let outcome = match executed {
            Ok(outcome) => outcome,
            Err(error) => {
                return Ok((AlarmOutcome::NotConfirmable, format!("No fresh rounds: {error}"), None));
            }
        };
        let judged = judge_all(claim_series(&outcome.record, &outcome.record.plan.claims));
        let Some(judged) = judged.first() else {
            return Ok((AlarmOutcome::Inconclusive, "No fresh round has values".into(), None));
        };
        let alarm_outcome = match judged.outcome() {
            verdict::Outcome::Refuted => AlarmOutcome::Confirmed,
            verdict::Outcome::Held | verdict::Outcome::Equivalent => AlarmOutcome::NotConfirmed,
            verdict::Outcome::Inconclusive => AlarmOutcome::Inconclusive,
        };
        let found = judged.verdict.map_or_else(|| judged.why_unjudged.clone().unwrap_or_default(), describe_difference);
        let why = format!("{found}; claim: {}", judged.claim.text);
        Ok((alarm_outcome, why, outcome.run.map(|run| run.id())))
    }
}

/// The difference of the fresh rounds in words.
fn describe_difference(verdict: Verdict) -> String {
    let (effect, interval) = effect_and_interval(verdict.effect, verdict.interval, &[]);
    format!("{effect} [{interval}] in {} fresh rounds", verdict.rounds)
}

/// Adds the alarms to a page.
fn add_to_page(page: &mut Page, alarms: &[(&FoundChange, Alarm)], exit: ExitCode) {
    let line = |(change, alarm): &(&FoundChange, Alarm)| {
        let run = alarm.confirmation.as_ref().map_or(String::new(), |run| format!(" (run {run})"));
        let (number, outcome) = (alarm.number, alarm.outcome.name());
        format!("Alarm {number}, {outcome}. {} {}{run}.", change.sentence, alarm.why)
    };
    page.document.heading(2, "Alarms");
    let no_alarm = ["No change to alarm.".to_string()];
    let lines: Vec<String> = alarms.iter().map(line).collect();
    page.document.list(if lines.is_empty() { no_alarm.into() } else { lines });
    page.json["alarms"] = json!(alarms.iter().map(|(_, alarm)| alarm).collect::<Vec<_>>());
    page.json["exit"] = json!(exit as u8);
}
