//! The variants of an exact run again, sampled: where their instructions go.

use crate::failure::{Failure, usage};
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::record::RunRecord;
use fsarena_report::document::Page;
use fsarena_report::functions::{self, FunctionSamples, counted_instructions};
use fsarena_run::{Consumer, again};
use fsarena_stats::comparison::median;
use fsarena_store::RunDir;
use std::path::Path;

/// What the sampler calls all that is not the kernel.
const USER: &str = "(user code)";
/// The directory of flame graphs in that of the run.
const DIR: &str = "profile";

/// Runs every variant once more and says where the instructions of a task went. Only the flame graphs are stored:
/// sampling is work too.
pub fn profile(
    runs: &Path,
    what: &str,
    record: &RunRecord,
    task: &str,
    progress: &mut dyn Consumer,
) -> Result<Page, Failure> {
    if !matches!(&record.plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact) {
        let run = &record.id;
        return usage(format!("run {run} did not count instructions; profile a run with --on exact"));
    }
    let (task, counted_instructions) = counted_instructions(record, task)?;
    let mut variants = record.variants.clone();
    variants.retain(|variant| counted_instructions.contains_key(&variant.name));
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let mut profiles = again::stacks(&record.plan, variants, &task, runs, progress)?;
    let sampled = |variant: String| {
        let stacks = profiles.remove(&variant)?.stacks.into_iter().filter(|stack| stack.frames != [USER]);
        Some(FunctionSamples {
            instructions: counted_instructions.get(&variant).and_then(|values| median(values)).unwrap_or(0.0),
            stacks: stacks.map(|stack| (stack.frames, stack.samples)).collect(),
            variant,
        })
    };
    let variants: Vec<FunctionSamples> = names.into_iter().filter_map(sampled).collect();
    let dir = RunDir::find(runs, what)?.path().join(DIR);
    let pictures = functions::write_flame_graphs(&dir, &task.to_string(), &variants)?;
    Ok(functions::page(&record.id, &task.to_string(), &variants, &pictures))
}
