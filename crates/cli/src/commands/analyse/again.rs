//! Tasks of a stored run again, for what each of them spends its time on.

use crate::{failure::Failure, running::unstored};
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::plan::{Plan, StopPlan};
use fsarena_core::{exit::ExitCode, names::unknown, record::RunRecord};
use fsarena_run::{Keep, Request, protocol::Profiling};
use fsarena_trace::Profile;
use std::{collections::BTreeMap, path::Path};

/// Where the runs are, and whether progress is shown.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    pub runs: &'a Path,
    pub quiet: bool,
}

/// One round of a plan with these variants, of which nothing is claimed.
pub fn one_round(plan: &Plan, title: String, variants: Vec<Variant>) -> Plan {
    let stop = StopPlan { rounds: 1, warmup: 0, budget_s: None, when_decided: false, ..plan.stop.clone() };
    Plan { title, question: String::new(), variants, claims: vec![], stop, ..plan.clone() }
}

/// Runs a plan once more, and gives the profiles of one task: the first of each variant. Nothing of it is stored, for the
/// tracer is part of what was measured.
pub fn profiles(
    scene: Scene,
    plan: Plan,
    profiling: Profiling,
    wanted: &TaskId,
) -> Result<BTreeMap<String, Profile>, Failure> {
    let mut request = Request::new(plan, Keep::Nothing(scene.runs.into()));
    request.profiling = Some(profiling);
    let (mut variant, mut found) = (String::new(), BTreeMap::new());
    unstored(request, scene.quiet, |event| match event {
        Event::CellStarted { cell } => variant.clone_from(&cell.variant.name),
        Event::Cell { what: CellEvent::Profile { task, profile }, .. } if task == wanted => {
            found.entry(variant.clone()).or_insert_with(|| profile.clone());
        }
        _ => {}
    })?;
    let read = |(variant, profile)| match serde_json::from_value(profile) {
        Ok(profile) => Ok((variant, profile)),
        Err(error) => {
            let message = format!("{variant}: the measuring process sent no profile: {error}");
            Err(Failure::new(ExitCode::Internal, message))
        }
    };
    found.into_iter().map(read).collect()
}

/// The failure that a run lacks a task.
pub fn no_task(record: &RunRecord, name: &str) -> Failure {
    let tasks = record.tasks.iter().filter(|task| task.in_composite);
    let known: Vec<String> = tasks.map(|task| task.id.to_string()).collect();
    unknown("task", name, known.iter().map(String::as_str)).at(format!("in run {}", record.id)).into()
}
