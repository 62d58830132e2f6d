//! One cell again, under the lock tracepoints.

use super::again::{self, Scene, no_task};
use crate::failure::Failure;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::{exit::ExitCode, names::unknown, plan::Plan, record::RunRecord};
use fsarena_report::document::{Document, Part};
use fsarena_report::page::Page;
use fsarena_run::protocol::Profiling;
use fsarena_stats::matrix::fresh::restricted;
use fsarena_sys::{kernel::Kernel, process};
use fsarena_trace::{Options, Profile, Target, Tracer};
use serde_json::json;

/// Locks and functions that are printed, and callers of each.
const TOP: usize = 8;
const CALLERS: usize = 4;

/// A cell to be explained.
pub struct Choice {
    variant: Variant,
    task: TaskId,
}

impl Choice {
    /// A task of a run by its name, and a variant; the first that did the task where none is named.
    pub fn named(record: &RunRecord, task: &str, variant: Option<&str>) -> Result<Choice, Failure> {
        let found = record.tasks.iter().find(|info| info.id.to_string() == task);
        let found = found.ok_or_else(|| no_task(record, task))?;
        let chosen = match variant {
            Some(name) => record.variants.iter().find(|variant| variant.name == name),
            None => record.variants.first(),
        };
        let variant = chosen.cloned().ok_or_else(|| {
            let known = record.variants.iter().map(|variant| variant.name.as_str());
            unknown("variant", variant.unwrap_or_default(), known).at(format!("in run {}", record.id))
        })?;
        Ok(Choice { variant, task: found.id.clone() })
    }

    /// The run's plan with nothing but this cell.
    fn plan(&self, plan: &Plan) -> Plan {
        let title = format!("{} {} again, traced", self.variant.name, self.task);
        let mut alone = again::one_round(plan, title, vec![self.variant.clone()]);
        let number = |name: &str| self.task.params.get(name)?.parse::<u64>().ok();
        if let (Some(size), Some(threads)) = (number("bs"), number("threads")) {
            let only = |workload| restricted(workload, &self.task.name, size, &[threads as u32].into());
            alone.workloads = plan.workloads.iter().map(only).collect();
        }
        alone
    }
}

/// Runs the cell again and says what it waited for.
pub fn explain(scene: Scene, record: &RunRecord, choice: &Choice) -> Result<Page, Failure> {
    // Report missing kernel support before making anything.
    let trial = Options::locks(Target::Pids(vec![std::process::id()]), 0);
    drop(Tracer::start(&trial)?);
    let plan = choice.plan(&record.plan);
    let profiles = again::profiles(scene, plan, Profiling::Locks, &choice.task)?;
    let profile = profiles.get(&choice.variant.name).ok_or_else(|| {
        let message = format!("{} did not come to {}", choice.variant.name, choice.task);
        Failure::new(ExitCode::Internal, message)
    })?;
    let boot = process::boot_id(&Kernel::host());
    let elsewhere = record.hosts.iter().all(|host| host.boot_id != boot);
    Ok(page(record, choice, profile, elsewhere))
}

fn page(record: &RunRecord, choice: &Choice, profile: &Profile, elsewhere: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("What {} waits for in {}", choice.variant.name, choice.task));
    match profile.locks.first() {
        Some(first) => document.text(format!(
            "{:.0}% of the time that all threads waited for locks: {} ← {}.",
            100.0 * first.share,
            first.function,
            first.taker()
        )),
        None => {
            document.text(
                "CPU stacks, no lock found: no thread waited for a kernel lock, so lock contention does not limit this cell.",
            )
        }
    }
    document.parts.push(Part::Code("text", profile.text(TOP, CALLERS)));
    if elsewhere {
        document.text(format!(
            "Run {} was measured in another boot or on another machine; this is what happens here and now.",
            record.id
        ));
    }
    let json = json!({
        "format": 1,
        "run": record.id,
        "variant": choice.variant.name,
        "task": choice.task.to_string(),
        "measured_elsewhere": elsewhere,
        "profile": profile,
    });
    Page { document, json }
}
