//! What the tests of this crate share.

use crate::{RunDir, Writer};
use fsarena_core::cell::{Cell, StepId, StepInfo};
use fsarena_core::event::{CellEvent, CommandRecord, Event, Outcome};
use fsarena_core::host::Host;
use fsarena_core::metric::TIMER;
use fsarena_core::plan::Plan;
use fsarena_core::sample::{Readings, Sample};
use std::path::Path;

/// A plan that compares filesystems by one workload.
pub(crate) fn plan(filesystems: &[&str]) -> Plan {
    let quoted: Vec<_> = filesystems.iter().map(|fs| format!("'{fs}'")).collect();
    toml::from_str(&format!(
        "name = 'tasks'\ntitle = 'Tasks'\nquestion = 'Which?'\nscale = 'tiny'\nseed = 7\n\
         [factors]\nfs = [{}]\n\
         [device]\ndirect_io = true\ndiscard = false\nother_fs = 'ext4'\nbacking = {{ kind = 'ram' }}\n\
         [stop]\nblocks = 8\n\
         [settle]\ntimeout_s = 1.0\ndirty = '4 MiB'\nio_pressure_percent = 5.0\n\
         [[workload]]\nuse = 'tasks'\n",
        quoted.join(",")
    ))
    .unwrap()
}

/// A machine.
pub(crate) fn host(boot_id: &str) -> Host {
    let facts = [("cpu".to_string(), "fast".to_string())].into();
    Host { hostname: "h".into(), boot_id: boot_id.into(), kernel: "6.18".into(), facts }
}

/// The cells of one block.
pub(crate) fn cells(plan: &Plan, block: u32) -> Vec<Cell> {
    let arms = fsarena_core::matrix::expand(plan);
    let live: Vec<_> = (0..arms.len()).collect();
    fsarena_core::matrix::cells(plan, &arms, &live, block)
}

/// A sample with the timer's readings.
pub(crate) fn sample(step: &str, elapsed_ns: f64) -> Sample {
    let mut readings = Readings::default();
    readings.set("elapsed_ns", elapsed_ns);
    let step =
        StepInfo { id: StepId::new(step), title: step.to_uppercase(), number: None, in_composite: true };
    Sample { step, started_at: 1e9, readings, series: vec![] }
}

/// A command that ran.
pub(crate) fn command(program: &str) -> CommandRecord {
    CommandRecord {
        argv: vec![program.into()],
        times: 1,
        last: None,
        cwd: None,
        ended: "exit 0".into(),
        ms: 1,
    }
}

/// A new run with its writer.
pub(crate) fn writer(root: &Path, plan: &Plan) -> (RunDir, Writer) {
    let run = RunDir::create(root, plan, "0.1.0").unwrap();
    let writer = Writer::open(&run, &host("b1"), TIMER).unwrap();
    (run, writer)
}

/// Applies a whole cell with two steps.
pub(crate) fn run_cell(writer: &mut Writer, cell: &Cell, outcome: Outcome) {
    begin_cell(writer, cell);
    writer.apply(&Event::CellFinished { cell: cell.id(), outcome }).unwrap();
}

/// Applies a cell up to just before its end.
pub(crate) fn begin_cell(writer: &mut Writer, cell: &Cell) {
    writer.apply(&Event::CellStarted { cell: cell.clone() }).unwrap();
    for step in ["untar", "remove"] {
        let what = CellEvent::Sample(sample(step, f64::from(cell.block * 10 + cell.position)));
        writer.apply(&Event::Cell { cell: cell.id(), what }).unwrap();
    }
}
