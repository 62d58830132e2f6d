//! Writes a run with made-up samples in DIR, and prints the time to write a cell, the time to read the run, and the peak
//! memory. `fsarena report` can be timed on that run:
//!
//! ```text
//! cargo run --release -p fsarena-store --example make_big_run -- DIR [ROWS [TASKS [SHARDS]]]
//! fsarena report DIR/<the id that it prints>
//! ```
//!
//! ROWS is the number of values. The default is 1,008,000: 400 rounds of 5 variants, 24 tasks (TASKS) and 21 readings.
//! With SHARDS it writes that number of shards, which have only the readings of the timer, for `fsarena merge DIR`.

use fsarena_core::cell::{Cell, TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, Event, Outcome};
use fsarena_core::host::{BUILD_FACT, Host};
use fsarena_core::metric::{TIMER_READINGS, reading};
use fsarena_core::sample::{ReadingDef, Readings, Sample, Unit};
use fsarena_core::{matrix, plan::Plan, plan::shard::Shard};
use fsarena_store::{RunDir, Writer, read};
use std::time::{Duration, Instant};
use std::{error::Error, path::Path};

const VARIANT_COUNT: u32 = 5;

const PLAN: &str = "
name = 'big'
title = 'A big run of made-up samples'
question = 'How fast are the store and the reports?'
scale = 'tiny'
seed = 1
[factors]
fs = ['ext2', 'ext3', 'ext4', 'xfs', 'btrfs']
[device]
direct_io = true
discard = false
other_fs = 'ext4'
backing = { kind = 'ram' }
[stop]
rounds = 1
[idle]
timeout_s = 1.0
dirty = '4 MiB'
io_pressure_percent = 5.0
[[workload]]
use = 'made-up'
";

/// Nineteen readings in addition to the two of the timer.
const FURTHER_READINGS: [(&str, Unit); 19] = [
    (reading::USER_CPU, Unit::Nanoseconds),
    (reading::SYSTEM_CPU, Unit::Nanoseconds),
    (reading::TREE_CPU_SYNCED, Unit::Nanoseconds),
    (reading::MACHINE_CPU, Unit::Nanoseconds),
    (reading::WRITTEN_BYTES, Unit::Bytes),
    (reading::READ_BYTES, Unit::Bytes),
    (reading::DEVICE_WRITTEN_BYTES, Unit::Bytes),
    (reading::DEVICE_READ_BYTES, Unit::Bytes),
    ("device_reads", Unit::Count),
    ("device_writes", Unit::Count),
    ("device_flushes", Unit::Count),
    ("device_busy_ns", Unit::Nanoseconds),
    ("device_queue_ns", Unit::Nanoseconds),
    ("pressure_io_some_ns", Unit::Nanoseconds),
    ("pressure_io_full_ns", Unit::Nanoseconds),
    ("pressure_cpu_some_ns", Unit::Nanoseconds),
    ("iowait_ns", Unit::Nanoseconds),
    ("dirty_at_return_bytes", Unit::Bytes),
    ("peak_memory_bytes", Unit::Bytes),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("usage: make_big_run DIR [ROWS [TASKS [SHARDS]]]")?;
    let value_count: u32 = args.next().map_or(Ok(1_008_000), |count| count.parse())?;
    let tasks: u32 = args.next().map_or(Ok(24), |tasks| tasks.parse())?;
    let shards: Option<u32> = args.next().map(|shards| shards.parse()).transpose()?;

    let defs = if shards.is_some() { TIMER_READINGS.to_vec() } else { definitions() };
    let rounds = value_count.div_ceil(VARIANT_COUNT * tasks * defs.len() as u32);
    let mut plan: Plan = toml::from_str(PLAN)?;
    plan.stop.rounds = rounds;
    if let Some(count) = shards {
        for number in 1..=count {
            plan.stop.shard = Some(Shard { number, count });
            let run = RunDir::create(Path::new(&dir), &plan, env!("CARGO_PKG_VERSION"))?;
            write_cells(&run, &plan, &defs, (rounds, tasks))?;
        }
        return Ok(());
    }
    let run = RunDir::create(Path::new(&dir), &plan, env!("CARGO_PKG_VERSION"))?;
    let time_per_cell = write_cells(&run, &plan, &defs, (rounds, tasks))?;
    println!("{}: {time_per_cell:?} a cell to write", run.path().display());

    let start = Instant::now();
    let record = read(&run)?;
    let values: usize = record.samples.values.iter().flatten().filter(|value| !value.is_nan()).count();
    println!("{values} values read in {:?}, {}", start.elapsed(), peak_memory()?);
    Ok(())
}

/// The definitions of all readings of the run.
fn definitions() -> Vec<ReadingDef> {
    let definition = |&(id, unit)| ReadingDef::lower(id, unit).help("made up");
    TIMER_READINGS.iter().copied().chain(FURTHER_READINGS.iter().map(definition)).collect()
}

/// Writes all cells through the store, like a real run. Returns the mean time to store a cell.
fn write_cells(
    run: &RunDir,
    plan: &Plan,
    defs: &[ReadingDef],
    (rounds, tasks): (u32, u32),
) -> Result<Duration, Box<dyn Error>> {
    let variants = matrix::expand(plan);
    let live: Vec<usize> = (0..variants.len()).collect();
    let hostname = plan.stop.shard.map_or(String::new(), |shard| format!("host{:03}", shard.number));
    let facts = [(BUILD_FACT.to_string(), "made-up".to_string())].into();
    let mut writer = Writer::open(run, &Host { hostname, facts, ..Host::default() }, defs)?;
    let mut write_time = Duration::ZERO;
    for round in (0..rounds).filter(|round| plan.stop.runs_round(*round)) {
        let cells = matrix::cells_of_round(plan, &variants, &live, round);
        let order = cells.iter().map(|cell| cell.variant.name.clone()).collect();
        writer.apply(&Event::RoundStarted { round, order })?;
        for cell in cells {
            let events = cell_events(&cell, defs, tasks);
            let start = Instant::now();
            for event in &events {
                writer.apply(event)?;
            }
            write_time += start.elapsed();
        }
        writer.apply(&Event::RoundFinished { round })?;
    }
    writer.apply(&Event::RunFinished { why: "all rounds done".into(), complete: true })?;
    Ok(write_time / (rounds * VARIANT_COUNT).max(1))
}

fn cell_events(cell: &Cell, defs: &[ReadingDef], tasks: u32) -> Vec<Event> {
    let id = cell.id();
    let mut events = vec![Event::CellStarted { cell: cell.clone() }];
    for task in 0..tasks {
        let mut readings = Readings::default();
        for (index, def) in defs.iter().enumerate() {
            // The values differ from cell to cell, so that none are equal by accident.
            let jitter = 1.0 + (cell.seed % 1_000) as f64 / 1e4 + cell.variant.name.len() as f64 / 10.0;
            readings.set(def.id, 1e6 * (task + 1) as f64 * (index + 1) as f64 * jitter);
        }
        let info = TaskInfo {
            id: TaskId::new(format!("task{task:03}")),
            title: format!("Task {task}"),
            number: Some(format!("{:03}", task + 1)),
            in_totals: true,
        };
        let sample = Sample { task: info, started_at: 1.7e9, readings, series: vec![], latencies: Default::default() };
        events.push(Event::Cell { cell: id.clone(), event: CellEvent::Sample(sample) });
    }
    events.push(Event::CellFinished { cell: id, outcome: Outcome::Done });
    events
}

/// The line of `/proc/self/status` with the peak memory of this process.
fn peak_memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    Ok(status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown").to_string())
}
