//! The section with warnings about commands of the user that are unsuitable to compare filesystems: too short, bound by the
//! CPU, or not using the filesystem.

use crate::document::{Detail, Document};
use crate::number::{percent, with_unit};
use crate::{report::Report, words::shorten_list_to};
use fsarena_core::{metric::reading, observations::Grid, record::RunRecord, sample::Unit};
use fsarena_stats::comparison::median;

/// A task is short if it takes less than this number of times the time of the command `true`.
const SHORT: f64 = 10.0;
/// The smallest number of bytes written to other disks that gets a warning.
const SOME_BYTES: f64 = 1e6;
/// The smallest number of bytes written to other disks that gets a warning, as a share of those written to the device under
/// test.
const SOME_SHARE: f64 = 0.01;
/// The share of user CPU time from which a task is bound by the CPU.
const CPU_BOUND: f64 = 0.9;

/// Adds the warnings if the tasks are commands of the user.
pub fn add_own_work(document: &mut Document, report: &Report, detail: Detail) {
    if report.record.plan.prints() {
        let lints = lints(&report.record);
        document.list(if detail < Detail::Full { shorten_list_to(lints, 4, "warnings") } else { lints });
    }
}

/// A sentence for each task and each reason why it is unsuitable.
fn lints(record: &RunRecord) -> Vec<String> {
    // The median of each task over all variants and rounds.
    let medians = |metric: &str| -> Vec<Option<f64>> {
        let Some(grid) = Grid::of(record, metric) else { return vec![None; record.tasks.len()] };
        grid.values.iter().map(|variants| median(&variants.concat())).collect()
    };
    let [elapsed, user, cpu, start] = ["elapsed", "user", "cpu", reading::START].map(medians);
    let bytes = [reading::DEVICE_READ, reading::DEVICE_WRITTEN].map(medians);
    let elsewhere = [(reading::SOURCE_WRITTEN, "source"), (reading::ROOT_WRITTEN, "root")];
    let elsewhere = elsewhere.map(|(id, disk)| (disk, medians(id)));
    let mut lints = vec![];
    for (at, task) in record.tasks.iter().enumerate().filter(|(_, task)| task.in_totals) {
        let (name, Some(elapsed)) = (&task.id, elapsed[at]) else { continue };
        if let Some(start) = start[at].map(|ns| ns / 1e9).filter(|start| elapsed < SHORT * start) {
            lints.push(format!(
                "{name} takes {}, and `true` takes {} here, so starting programs dominates: let the task do more work.",
                with_unit(elapsed, Unit::Seconds),
                with_unit(start, Unit::Seconds)
            ));
        }
        if bytes.iter().all(|medians| medians[at] == Some(0.0)) {
            lints.push(format!(
                "{name} moved no byte to or from the device: it uses the page cache or no file of the filesystem."
            ));
        }
        let least = SOME_BYTES.max(SOME_SHARE * bytes[1][at].unwrap_or(0.0));
        for (disk, written) in &elsewhere {
            if let Some(written) = written[at].filter(|written| *written >= least) {
                let written = with_unit(written, Unit::Bytes);
                lints.push(format!(
                    "While {name} ran, {written} were written to the {disk} disk, outside the filesystem under test: \
                     write to $FSARENA_DIR."
                ));
            }
        }
        // If several CPUs work, their total time exceeds the elapsed time.
        let busy = cpu[at].unwrap_or(0.0).max(elapsed);
        if let Some(share) = user[at].map(|user| (user / busy).min(1.0)).filter(|share| *share >= CPU_BOUND) {
            lints.push(format!(
                "{} of {name} is user CPU time: a faster filesystem could save about {} at most.",
                percent(share),
                percent((1.0 - share).max(0.001)),
            ));
        }
    }
    lints
}
