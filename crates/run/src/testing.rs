//! Synthetic runs for tests.

use fsarena_core::cell::{Cell, TaskId, TaskInfo, Variant};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{plan::Plan, record::RunRecord, state::RunState};
use std::collections::BTreeSet;

/// The record of a run of these filesystems with these claims, before its first event.
pub fn empty_record(filesystems: &[&str], claims: &[&str]) -> RunRecord {
    let list = |texts: &[&str]| texts.iter().map(|text| format!("'{text}'")).collect::<Vec<_>>().join(",");
    let plan: Plan = toml::from_str(&format!(
        "name = 't'\ntitle = ''\nquestion = ''\nscale = 'tiny'\nseed = 1\nclaims = [{}]\n[factors]\n\
         fs = [{}]\n[device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\n\
         backing = {{ kind = 'ram' }}\n[stop]\nrounds = 400\nwhen_decided = true\n[idle]\n\
         timeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n[[workload]]\nuse = 'coreutils'\n",
        list(claims),
        list(filesystems)
    ))
    .unwrap();
    let variants = fsarena_core::matrix::expand(&plan);
    RunRecord::new(plan, variants)
}

/// The sample of a task that takes `seconds`.
pub fn sample(task: &str, seconds: f64) -> Sample {
    let mut readings = Readings::default();
    readings.set("elapsed_ns", seconds * 1e9);
    let task = TaskInfo { id: TaskId::new(task), title: "Touch".into(), number: None, in_totals: true };
    Sample { task, started_at: 5.0, readings, series: vec![], latencies: Default::default() }
}

/// All events of one cell whose only task takes `seconds`.
fn cell_events(plan: &Plan, variant: &Variant, round: u32, seconds: f64) -> [Event; 3] {
    let (variant, workload) = (variant.clone(), plan.workloads[0].clone());
    let cell = Cell { round, position: 0, variant, workload, scale: plan.scale, seed: 1 };
    let id = cell.id();
    let sample = CellEvent::Sample(sample("touch", seconds));
    [
        Event::CellStarted { cell },
        Event::Cell { cell: id.clone(), event: sample },
        Event::CellFinished { cell: id, outcome: Outcome::Done },
    ]
}

/// Three filesystems with the seconds that their tasks take: ext2 and ext4 are equally fast, xfs is slower.
pub const EXT2_EXT4_XFS: [(&str, f64); 3] = [("ext2", 1.0), ("ext4", 1.0), ("xfs", 1.5)];

/// The record of a simulated run of `rounds` rounds, and the names of its variants. `task_seconds` has the filesystems,
/// each with the seconds that its task takes, to which 1% of noise is added. Each cell takes two seconds in all.
pub fn simulated_run(task_seconds: &[(&str, f64)], claims: &[&str], rounds: u32) -> (RunRecord, BTreeSet<String>) {
    let names: Vec<&str> = task_seconds.iter().map(|(name, _)| *name).collect();
    let mut state = RunState::new(empty_record(&names, claims));
    let (plan, variants) = (state.record.plan.clone(), state.record.variants.clone());
    for round in 0..rounds {
        for (index, (_, seconds)) in task_seconds.iter().enumerate() {
            let noise = fsarena_core::schedule::mix(index as u64, u64::from(round)) % 21;
            let seconds = seconds * (0.99 + noise as f64 / 1000.0);
            for (time, event) in cell_events(&plan, &variants[index], round, seconds).iter().enumerate() {
                state.apply(time as f64, event);
            }
        }
    }
    (state.record, names.iter().map(|name| name.to_string()).collect())
}
