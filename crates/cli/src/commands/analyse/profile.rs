//! The variants of an exact run again, sampled: where their instructions go.

use super::again::{self, Scene, no_task};
use crate::failure::{Failure, usage};
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::{cell::TaskId, metric::reading, record::RunRecord};
use fsarena_report::functions::{self, Sampled, flame};
use fsarena_report::page::Page;
use fsarena_run::protocol::Profiling;
use fsarena_stats::comparison::median;
use fsarena_store::RunDir;
use std::{collections::BTreeMap, path::Path};

/// Samples in 10⁹ instructions: a prime, so as not to keep task with anything. A sample costs some ten thousand.
const PER_BILLION: u32 = 20_011;
/// The metric that samples are scaled to: instructions of the kernel only, without those of programs.
const METRIC: &str = reading::KERNEL_INSTRUCTIONS;
/// What the sampler calls all that is not the kernel.
const USER: &str = "(user code)";
/// The directory of flame graphs in that of the run.
const DIR: &str = "profile";

/// Runs every variant once more and says where the instructions of a task went. Nothing of it is stored but the pictures:
/// sampling is work too.
pub fn profile(scene: Scene, what: &str, record: &RunRecord, task: &str) -> Result<Page, Failure> {
    if !matches!(&record.plan.device.backing, Backing::Guest(guest) if guest.emulator == Emulator::Exact) {
        let run = &record.id;
        return usage(format!("run {run} did not count instructions; profile a run with --on exact"));
    }
    let (task, counted) = counted(record, task)?;
    let mut variants = record.variants.clone();
    variants.retain(|variant| counted.contains_key(&variant.name));
    let names: Vec<String> = variants.iter().map(|variant| variant.name.clone()).collect();
    let title = format!("{} variants again, sampled in {task}", names.len());
    let plan = again::one_round(&record.plan, title, variants);
    let mut profiles = again::profiles(scene, plan, Profiling::Stacks { hz: PER_BILLION }, &task)?;
    let sampled = |variant: String| {
        let stacks = profiles.remove(&variant)?.stacks.into_iter().filter(|stack| stack.frames != [USER]);
        Some(Sampled {
            instructions: counted.get(&variant).and_then(|values| median(values)).unwrap_or(0.0),
            stacks: stacks.map(|stack| (stack.frames, stack.samples)).collect(),
            variant,
        })
    };
    let variants: Vec<Sampled> = names.into_iter().filter_map(sampled).collect();
    let dir = RunDir::find(scene.runs, what)?.path().join(DIR);
    let pictures = draw(&dir, &task.to_string(), &variants)?;
    Ok(functions::page(&record.id, &task.to_string(), &variants, &pictures))
}

/// The task of a name, or the one that took most; and its instructions by variant, one number a round.
fn counted(record: &RunRecord, name: &str) -> Result<(TaskId, BTreeMap<String, Vec<f64>>), Failure> {
    let Some((_, values)) = record.metric(METRIC) else {
        return usage(format!("run {} has counted nothing yet", record.id));
    };
    let mut counted: BTreeMap<TaskId, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let task = &record.tasks[record.samples.task[row] as usize];
        let variant = &record.variants[record.cells[record.samples.cell[row] as usize].variant];
        if task.in_composite {
            let of_task = counted.entry(task.id.clone()).or_default();
            of_task.entry(variant.name.clone()).or_default().push(*value);
        }
    }
    let most = |of_task: &BTreeMap<String, Vec<f64>>| of_task.values().flatten().copied().fold(0.0, f64::max);
    let named = counted.into_iter().filter(|(task, _)| name.is_empty() || task.to_string() == name);
    named.max_by(|a, b| most(&a.1).total_cmp(&most(&b.1))).ok_or_else(|| no_task(record, name))
}

/// Writes the flame graphs, and says which file shows what.
fn draw(dir: &Path, task: &str, variants: &[Sampled]) -> Result<Vec<(String, String)>, Failure> {
    std::fs::create_dir_all(dir).map_err(Failure::file(dir))?;
    let mut pictures = vec![];
    let mut keep = |about: String, name: String, svg: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, svg).map_err(Failure::file(&path))?;
        pictures.push((about, path.display().to_string()));
        Ok::<(), Failure>(())
    };
    for (at, variant) in variants.iter().enumerate() {
        let about = format!("{} {task}", variant.variant);
        keep(about.clone(), format!("{}-{at}.svg", plain(task)), flame::of_one(&about, variant)?)?;
    }
    if let [a, b] = variants {
        let about = format!("{task}: {} against {}", b.variant, a.variant);
        keep(about.clone(), format!("{}-difference.svg", plain(task)), flame::of_two(&about, [a, b])?)?;
    }
    Ok(pictures)
}

/// A name that any filesystem takes.
fn plain(task: &str) -> String {
    task.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}
