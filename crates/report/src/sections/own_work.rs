//! The section with warnings about commands of the user that are unsuitable to compare filesystems: too short, bound by the
//! CPU, or not using the filesystem.

use crate::document::{Detail, Document};
use crate::number::{percent, with_unit};
use crate::{phrases::shorten_list_to, report::Report};
use fsarena_core::{metric::reading, observations::Grid, record::RunRecord, sample::Unit};
use fsarena_stats::comparison::median;

/// A task is short if it takes less than this number of times the time of the command `true`.
const SHORT_FACTOR: f64 = 10.0;
/// The smallest number of bytes written to other disks that gets a warning.
const MIN_BYTES_ELSEWHERE: f64 = 1e6;
/// The smallest number of bytes written to other disks that gets a warning, as a share of those written to the device under
/// test.
const MIN_SHARE_ELSEWHERE: f64 = 0.01;
/// The share of user CPU time from which a task is bound by the CPU.
const CPU_BOUND_SHARE: f64 = 0.9;

/// Adds the warnings if the tasks are commands of the user.
pub fn add_own_work(document: &mut Document, report: &Report, detail: Detail) {
    if report.record.plan.can_print_metrics() {
        let warnings = unsuitable_task_warnings(&report.record);
        document.list(if detail < Detail::Full { shorten_list_to(warnings, 4, "warnings") } else { warnings });
    }
}

/// A sentence for each task and each reason why it is unsuitable.
fn unsuitable_task_warnings(record: &RunRecord) -> Vec<String> {
    // The median of each task over all variants and rounds.
    let medians = |metric: &str| -> Vec<Option<f64>> {
        let Some(grid) = Grid::of(record, metric) else { return vec![None; record.tasks.len()] };
        grid.values.iter().map(|variants| median(&variants.concat())).collect()
    };
    let [elapsed, user, cpu, startup] = ["elapsed", "user", "cpu", reading::PROCESS_START].map(medians);
    let device_bytes = [reading::DEVICE_READ, reading::DEVICE_WRITTEN].map(medians);
    let elsewhere = [(reading::SOURCE_WRITTEN, "source"), (reading::ROOT_WRITTEN, "root")];
    let elsewhere = elsewhere.map(|(id, disk)| (disk, medians(id)));
    let mut warnings = vec![];
    for (at, task) in record.tasks.iter().enumerate().filter(|(_, task)| task.in_totals) {
        let (name, Some(elapsed)) = (&task.id, elapsed[at]) else { continue };
        if let Some(startup) = startup[at].map(|ns| ns / 1e9).filter(|startup| elapsed < SHORT_FACTOR * startup) {
            warnings.push(format!(
                "{name} takes {}, and `true` takes {} here, so starting programs dominates: let the task do more work.",
                with_unit(elapsed, Unit::Seconds),
                with_unit(startup, Unit::Seconds)
            ));
        }
        if device_bytes.iter().all(|medians| medians[at] == Some(0.0)) {
            warnings.push(format!(
                "{name} moved no byte to or from the device: it uses the page cache or no file of the filesystem."
            ));
        }
        let min_bytes = MIN_BYTES_ELSEWHERE.max(MIN_SHARE_ELSEWHERE * device_bytes[1][at].unwrap_or(0.0));
        for (disk, written) in &elsewhere {
            if let Some(written) = written[at].filter(|written| *written >= min_bytes) {
                let written = with_unit(written, Unit::Bytes);
                warnings.push(format!(
                    "While {name} ran, {written} were written to the {disk} disk, outside the filesystem under test: \
                     write to $FSARENA_DIR."
                ));
            }
        }
        // If several CPUs work, their total time exceeds the elapsed time.
        let total_cpu = cpu[at].unwrap_or(0.0).max(elapsed);
        if let Some(share) = user[at].map(|user| (user / total_cpu).min(1.0)).filter(|share| *share >= CPU_BOUND_SHARE)
        {
            warnings.push(format!(
                "{} of {name} is user CPU time: a faster filesystem could save about {} at most.",
                percent(share),
                percent((1.0 - share).max(0.001)),
            ));
        }
    }
    warnings
}
