//! What the answer does not cover: options, syncing work, age and fill, the device.

use super::head::place;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::few;
use fsarena_core::factor::{FS, MKFS, MOUNT, OPTIONS};
use fsarena_core::metric::reading;
use fsarena_core::{plan::Backing, record::RunRecord};

/// Names what the run did not test.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

/// A task with as many cache flushes syncs as it goes; one at the end is what every task has.
const FLUSHES: f64 = 10.0;

fn add(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    let filesystems = record.variants.iter().any(|variant| !variant.level(FS).is_empty());
    if record.samples.is_empty() || !filesystems {
        return;
    }
    let mut options = [OPTIONS, MKFS, MOUNT].into_iter();
    let device = !matches!(record.plan.device.backing, Backing::Erase { .. } | Backing::Dir);
    let not_compared = record.not_compared();
    let what = [
        (!not_compared.is_empty()).then(|| {
            format!(
                "{}, which the budget did not hold",
                few(not_compared.iter().map(ToString::to_string).collect()).join(", ")
            )
        }),
        (!options.any(|factor| record.varies(factor))).then(|| "other mkfs and mount options".to_string()),
        (!syncs(record)).then(|| "work that syncs often".into()),
        Some("an aged or full filesystem".into()),
        device.then(|| format!("another device: the filesystems were on {}", place(record))),
    ];
    document.text(format!("Not tested: {}.", what.into_iter().flatten().collect::<Vec<_>>().join("; ")));
}

/// Whether a task syncs as it goes; so it is taken where the device does not count its flushes.
fn syncs(record: &RunRecord) -> bool {
    let Some((_, rows)) = record.metric(reading::DEVICE_FLUSHES) else { return true };
    rows.iter().all(|count| count.is_nan()) || rows.iter().any(|count| *count >= FLUSHES)
}
