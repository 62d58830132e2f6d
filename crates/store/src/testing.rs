//! Shared code for the tests of this crate.

use crate::{RunDir, Writer};
use fsarena_core::cell::{Cell, TaskId, TaskInfo};
use fsarena_core::event::{CellEvent, CommandEnd, CommandRecord, Event, Outcome};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{host::Host, metric::TIMER_READINGS, plan::Plan};
use std::path::Path;

/// A plan that compares filesystems by one workload.
pub(crate) fn plan(filesystems: &[&str]) -> Plan {
    let quoted: Vec<_> = filesystems.iter().map(|fs| format!("'{fs}'")).collect();
    toml::from_str(&format!(
        "name = 'tasks'\ntitle = 'Tasks'\nquestion = 'Which?'\nscale = 'tiny'\nseed = 7\n\
         [factors]\nfs = [{}]\n\
         [device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\nbacking = {{ kind = 'ram' }}\n\
         [stop]\nrounds = 8\n\
         [idle]\ntimeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n\
         [[workload]]\nuse = 'tasks'\n",
        quoted.join(",")
    ))
    .unwrap()
}

/// A host with this boot id.
pub(crate) fn host(boot_id: &str) -> Host {
    let facts = [("cpu".to_string(), "fast".to_string())].into();
    Host { hostname: "h".into(), boot_id: boot_id.into(), kernel: "6.18".into(), facts }
}

/// The cells of one round.
pub(crate) fn cells(plan: &Plan, round: u32) -> Vec<Cell> {
    let variants = fsarena_core::matrix::expand(plan);
    let live: Vec<_> = (0..variants.len()).collect();
    fsarena_core::matrix::cells_of_round(plan, &variants, &live, round)
}

/// A sample of a task with an elapsed time.
pub(crate) fn sample(task: &str, elapsed_ns: f64) -> Sample {
    let mut readings = Readings::default();
    readings.set("elapsed_ns", elapsed_ns);
    let task = TaskInfo { id: TaskId::new(task), title: task.to_uppercase(), number: None, in_totals: true };
    Sample { task, started_at: 1e9, readings, series: vec![], latencies: Default::default() }
}

/// The record of a command that succeeded.
pub(crate) fn command(program: &str) -> CommandRecord {
    CommandRecord {
        argv: vec![program.into()],
        times: 1,
        last: None,
        cwd: None,
        ended: CommandEnd::Exit(0),
        ms: 1,
        output: None,
    }
}

/// Creates a run and opens it for writing.
pub(crate) fn create_run(root: &Path, plan: &Plan) -> (RunDir, Writer) {
    let run = RunDir::create(root, plan, "0.1.0").unwrap();
    let writer = Writer::open(&run, &host("b1"), TIMER_READINGS).unwrap();
    (run, writer)
}

/// Applies the events of a whole cell with two tasks.
pub(crate) fn run_cell(writer: &mut Writer, cell: &Cell, outcome: Outcome) {
    run_unfinished_cell(writer, cell);
    writer.apply(&Event::CellFinished { cell: cell.id(), outcome }).unwrap();
}

/// Applies the events of a cell with two tasks, without its end.
pub(crate) fn run_unfinished_cell(writer: &mut Writer, cell: &Cell) {
    writer.apply(&Event::CellStarted { cell: cell.clone() }).unwrap();
    for task in ["untar", "remove"] {
        let event = CellEvent::Sample(sample(task, f64::from(cell.round * 10 + cell.position)));
        writer.apply(&Event::Cell { cell: cell.id(), event }).unwrap();
    }
}
