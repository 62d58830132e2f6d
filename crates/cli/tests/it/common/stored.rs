//! Stores runs with the store's own writer: nothing is measured, and the figures are the same each time.

use fsarena_core::cell::{Cell, TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, CommandEnd, CommandRecord, Event, Note, NoteKind, Outcome};
use fsarena_core::host::{IMAGES_PREFIX, Storage};
use fsarena_core::metric::{LIFECYCLE_READINGS, TIMER_READINGS, reading};
use fsarena_core::sample::{ReadingDef, Readings, Sample};
use fsarena_core::{host::Host, matrix, plan::Plan, schedule::mix};
use fsarena_store::{RunDir, Writer};
use std::path::Path;

const PLAN: &str = r#"
name = "example"
title = "Three tasks"
question = "Which filesystem is faster at them?"
scale = "quick"
seed = 7
[factors]
fs = ["ext2", "ext3", "xfs"]
[device]
direct_io = true
discard = false
other_fs = "ext4"
backing = { kind = "loop" }
[stop]
rounds = 8
[idle]
timeout_s = 5.0
dirty = "4 MiB"
io_pressure_percent = 10.0
[[workload]]
use = "coreutils"
driver = "commands"
"#;

/// The tasks: id, title, number, and usual time in seconds.
const TASKS: [(&str, &str, Option<&str>, f64); 4] = [
    ("mkfs", "Make the filesystem", None, 0.05),
    ("touch", "Touch 313 files", Some("001"), 0.4),
    ("untar", "Untar the tree of 625 files", Some("009"), 1.6),
    ("rm-tree", "Remove the tree of 625 files", Some("011"), 0.25),
];

/// Stores a run of three filesystems over eight rounds. Each filesystem takes a tenth longer than the one before, but all take
/// the same time to remove the tree. The noise is 1%.
pub fn store_run(runs: &Path) -> RunDir {
    let plan: Plan = toml::from_str(PLAN).unwrap();
    let run = RunDir::create(runs, &plan, "0.1.0").unwrap();
    let facts = [("cpu", "Example 3000"), ("cpu_threads", "2"), ("memory", "4096000 kB")];
    let host = Host {
        hostname: "bench".into(),
        boot_id: "0b00".into(),
        kernel: "6.18.0".into(),
        facts: facts.map(|(name, fact)| (name.to_string(), fact.to_string())).into(),
    };
    let mut writer = Writer::open(&run, &host, &readings()).unwrap();
    let variants = matrix::expand(&plan);
    for round in 0..plan.stop.rounds {
        for cell in matrix::cells_of_round(&plan, &variants, &[0, 1, 2], round) {
            let variant_index = variants.iter().position(|variant| variant.name == cell.variant.name).unwrap();
            for event in noisy_events(&cell, variant_index as f64) {
                writer.apply(&event).unwrap();
            }
        }
    }
    let note = Note::new(NoteKind::Fairness, "keeps no journal").variant("ext2").fix("compare like with like");
    writer.apply(&Event::Note(note)).unwrap();
    writer.apply(&Event::RunFinished { why: "all 8 rounds are done".into(), complete: true }).unwrap();
    run
}

/// The readings of its samples.
pub fn readings() -> Vec<ReadingDef> {
    TIMER_READINGS.iter().chain(LIFECYCLE_READINGS).copied().collect()
}

/// Records the start of such a run.
pub fn begin_run(writer: &mut Writer, run: &RunDir) {
    let plan = run.plan().unwrap();
    let variants = matrix::expand(&plan).into_iter().map(|variant| variant.name).collect();
    let (rounds, tasks_per_cell) = (plan.stop.rounds, TASKS.len() as u32);
    let started = Event::RunStarted { rounds, variants, tasks_per_cell, already_done: 0, budget_s: None };
    writer.apply(&started).unwrap();
}

/// Records a round of such a run, from its beginning to its end.
pub fn record_round(writer: &mut Writer, run: &RunDir, round: u32) {
    let plan = run.plan().unwrap();
    let variants = matrix::expand(&plan);
    let order = variants.iter().map(|variant| variant.name.clone()).collect();
    writer.apply(&Event::RoundStarted { round, order }).unwrap();
    for cell in matrix::cells_of_round(&plan, &variants, &[0, 1, 2], round) {
        let variant_index = variants.iter().position(|variant| variant.name == cell.variant.name).unwrap();
        noisy_events(&cell, variant_index as f64).iter().for_each(|event| writer.apply(event).unwrap());
    }
    writer.apply(&Event::RoundFinished { round }).unwrap();
}

/// Stores a run in which every text is `text`.
pub fn store_run_of_text(runs: &Path, text: &str) -> RunDir {
    let mut plan: Plan = toml::from_str(PLAN).unwrap();
    (plan.title, plan.question) = (text.into(), text.into());
    plan.factors.insert("fs".into(), vec![text.into(), format!("{text}2"), format!("{text}3")]);
    let run = RunDir::create(runs, &plan, text).unwrap();
    let facts = [(text.to_string(), text.to_string())].into();
    let host = Host { hostname: text.into(), boot_id: text.into(), kernel: text.into(), facts };
    let mut writer = Writer::open(&run, &host, &readings()).unwrap();
    begin_run(&mut writer, &run);
    for number in 0..3 {
        record_round(&mut writer, &run, number);
    }
    for kind in [NoteKind::Fairness, NoteKind::Remark, NoteKind::Options] {
        let note = Note { task: Some(text.into()), ..Note::new(kind, text) };
        writer.apply(&Event::Note(note.variant(text).fix(text))).unwrap();
    }
    writer.apply(&Event::RunFinished { why: text.into(), complete: false }).unwrap();
    drop(writer);
    run
}

/// Stores a complete run of these filesystems over some rounds, with images in `/data` on an ext4. `cost` returns the factors
/// by which the times of a filesystem in a round exceed the usual time: until its commands return, and until their data is
/// synced.
pub fn store_planted_run(
    runs: &Path,
    filesystems: &[&str],
    rounds: u32,
    cost: impl Fn(&str, u32) -> [f64; 2],
) -> RunDir {
    store_planted_run_with(runs, filesystems, rounds, None, cost)
}

/// Stores a run like [`store_planted_run`]. Each sample also has the reading `extra`, with the same value.
pub fn store_planted_run_with(
    runs: &Path,
    filesystems: &[&str],
    rounds: u32,
    extra: Option<(ReadingDef, f64)>,
    cost: impl Fn(&str, u32) -> [f64; 2],
) -> RunDir {
    let mut plan: Plan = toml::from_str(PLAN).unwrap();
    plan.factors.insert("fs".into(), filesystems.iter().map(|fs| fs.to_string()).collect());
    plan.stop.rounds = rounds;
    let run = RunDir::create(runs, &plan, "0.1.0").unwrap();
    let some_text = |text: &str| Some(text.to_string());
    let storage = Storage {
        directory: some_text("/data"),
        filesystem: some_text("ext4"),
        device: some_text("sda1"),
        model: some_text("Example 2000"),
        firmware: some_text("1.07"),
        is_rotating: false,
    };
    let (hostname, boot_id, kernel) = ("bench".into(), "0b00".into(), "6.18.0".into());
    let host = Host { hostname, boot_id, kernel, facts: storage.to_facts(IMAGES_PREFIX) };
    let defs: Vec<ReadingDef> = readings().into_iter().chain(extra.map(|(def, _)| def)).collect();
    let mut writer = Writer::open(&run, &host, &defs).unwrap();
    let variants = matrix::expand(&plan);
    for round in 0..rounds {
        for cell in matrix::cells_of_round(&plan, &variants, &(0..variants.len()).collect::<Vec<_>>(), round) {
            let [elapsed, synced] = cost(&cell.variant.name, round);
            let times = |_: usize, seconds: f64| [elapsed, 1.25 * synced].map(|cost| 1e9 * seconds * cost);
            for mut event in cell_events(&cell, times) {
                if let (Event::Cell { event: CellEvent::Sample(sample), .. }, Some((def, value))) = (&mut event, extra)
                {
                    sample.readings.set(def.id, value);
                }
                writer.apply(&event).unwrap();
            }
        }
    }
    let why = format!("all {rounds} rounds are done");
    writer.apply(&Event::RunFinished { why, complete: true }).unwrap();
    run
}

/// The events of a cell in [`store_run`]: `variant_index` tenths slower than the first variant, with noise.
fn noisy_events(cell: &Cell, variant_index: f64) -> Vec<Event> {
    cell_events(cell, |task, seconds| {
        let noise = mix(u64::from(cell.round), task as u64 + 10 * variant_index as u64) % 2001;
        let factor = if TASKS[task].0 == "rm-tree" { 1.0 } else { 1.0 + variant_index / 10.0 };
        let elapsed = (seconds * factor * (0.99 + noise as f64 / 100_000.0) * 1e9).round();
        [elapsed, 1.25 * elapsed]
    })
}

/// The events of a cell. `times` returns the nanoseconds that a task takes until it returns and until it is synced, from its
/// index and its usual time in seconds.
fn cell_events(cell: &Cell, times: impl Fn(usize, f64) -> [f64; 2]) -> Vec<Event> {
    let cell_event = |event| Event::Cell { cell: cell.id(), event };
    let mut events = vec![Event::CellStarted { cell: cell.clone() }];
    for (index, (id, title, number, seconds)) in TASKS.into_iter().enumerate() {
        let [elapsed, synced] = times(index, seconds);
        let mut readings = Readings::default();
        readings.set(reading::ELAPSED, elapsed);
        readings.set(reading::SYNCED, synced);
        let task = TaskInfo {
            id: TaskId::new(id),
            title: title.into(),
            number: number.map(String::from),
            in_totals: number.is_some(),
        };
        events.push(cell_event(CellEvent::Command(command(id))));
        events.push(cell_event(CellEvent::Sample(Sample {
            task,
            started_at: 1.8e9,
            readings,
            series: vec![],
            latencies: Default::default(),
        })));
    }
    events.push(Event::CellFinished { cell: cell.id(), outcome: Outcome::Done });
    events
}

/// The record of a command that succeeded.
fn command(word: &str) -> CommandRecord {
    let argv = vec!["do".into(), word.into(), "a file\nname".into()];
    CommandRecord { argv, times: 1, last: None, cwd: None, ended: CommandEnd::Exit(0), ms: 3, output: None }
}
