//! One cell again, under the lock tracepoints.

use super::Args;
use super::again::{self, no_task};
use super::confirm::restricted;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::room::Room;
use fsarena_core::cell::{TaskId, Variant};
use fsarena_core::event::Event;
use fsarena_core::exit::ExitCode;
use fsarena_core::matrix;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::record::RunRecord;
use fsarena_report::document::{Document, Part};
use fsarena_report::page::Page;
use fsarena_run::dir::Directories;
use fsarena_run::executor::Executor;
use fsarena_run::local::Local;
use fsarena_run::preflight;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::process;
use fsarena_trace::{Options, Profile, Target, Tracer};
use serde_json::json;
use std::path::Path;

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
        let variant = match variant {
            Some(name) => record.variants.iter().find(|variant| variant.name == name),
            None => record.variants.first(),
        };
        let variant = variant.cloned().ok_or_else(|| {
            let known: Vec<&str> = record.variants.iter().map(|variant| variant.name.as_str()).collect();
            let message = format!("run {} has no such variant; it has {}", record.id, known.join(", "));
            Failure::new(ExitCode::Usage, message)
        })?;
        Ok(Choice { variant, task: found.id.clone() })
    }

    /// The run's plan with nothing but this cell.
    fn plan(&self, plan: &Plan) -> Plan {
        let mut alone = plan.clone();
        alone.variants = vec![self.variant.clone()];
        alone.stop.rounds = 1;
        let number = |name: &str| self.task.params.get(name)?.parse::<u64>().ok();
        if let (Some(size), Some(threads)) = (number("bs"), number("threads")) {
            let only = |workload| restricted(workload, &self.task.name, size, &[threads as u32].into());
            alone.workloads = plan.workloads.iter().map(only).collect();
        }
        alone
    }
}

/// Runs the cell again and says what it waited for. Nothing of it is stored: the tracer is part of what was
/// measured.
pub fn explain(args: &Args, record: &RunRecord, choice: &Choice) -> Result<Page, Failure> {
    // What is missing is said before anything is made.
    let trial = Options::locks(Target::Pids(vec![std::process::id()]), 0);
    drop(Tracer::start(&trial)?);
    let kernel = Kernel::host();
    let plan = choice.plan(&record.plan);
    let mut progress = Progress::new(args.quiet);
    progress.say(&format!("{} {} again, traced", choice.variant.name, choice.task));
    let profile = traced(&kernel, &plan, choice, &args.runs.runs, &mut progress)?;
    let elsewhere = record.hosts.iter().all(|host| host.boot_id != process::boot_id(&kernel));
    Ok(page(record, choice, &profile, elsewhere))
}

fn traced(
    kernel: &Kernel,
    plan: &Plan,
    choice: &Choice,
    runs: &Path,
    progress: &mut Progress,
) -> Result<Profile, Failure> {
    let variants = matrix::expand(plan);
    let check = preflight::check(kernel, plan, &variants, runs)?;
    std::fs::create_dir_all(runs).map_err(Failure::file(runs))?;
    let room = Room::make(runs, "explain")?;
    let (journal, dir) = (room.journal(), room.dir());
    let mut tell = |event: Event| {
        progress.show(&event);
        Ok(())
    };
    let mut executor: Box<dyn Executor> = match plan.device.backing {
        Backing::Dir => {
            Box::new(Directories::start(kernel, plan, &variants, journal, dir, &mut tell)?.tracing())
        }
        Backing::Guest(_) => {
            let message = "a guest is not traced; explain a run of this kernel (--on loop)";
            return Err(Failure::new(ExitCode::Usage, message));
        }
        _ => Box::new(Local::start(kernel, plan, &check, journal, dir, &mut tell)?.tracing()),
    };
    let mut profile = None;
    for cell in matrix::cells(plan, &variants, &[0], 0) {
        profile = again::run(&mut *executor, &cell, &choice.task)?;
        if profile.is_some() {
            break;
        }
    }
    executor.finish(&mut tell)?;
    room.clear()?;
    profile.ok_or_else(|| {
        let message = format!("{} did not come to {}", choice.variant.name, choice.task);
        Failure::new(ExitCode::Internal, message)
    })
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
        None => document
            .text("No thread waited for a lock: whatever limits this cell, it is no lock of the kernel."),
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
