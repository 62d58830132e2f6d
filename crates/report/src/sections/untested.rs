//! What the answer does not cover: options, syncing work, age and fill, the device.

use super::head::place;
use super::{Detail, Section};
use crate::document::{Chapter, Document};
use crate::report::Report;
use fsarena_core::factor::{FS, MKFS, MOUNT, OPTIONS};
use fsarena_core::plan::Backing;
use fsarena_core::record::RunRecord;

/// Names what the run did not test.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// A task with as many cache flushes syncs as it goes; one at the end is what every task has.
const FLUSHES: f64 = 10.0;

fn parts(report: &Report, _: Detail) -> Document {
    let mut document = Document::default();
    let record = &report.record;
    let filesystems = record.variants.iter().any(|variant| !variant.level(FS).is_empty());
    if record.samples.is_empty() || !filesystems || !report.ranks() {
        return document;
    }
    let mut what = vec![];
    what.extend((!varies(record)).then_some("other mkfs and mount options".to_string()));
    what.extend((!syncs(record)).then_some("work that syncs often".into()));
    what.push("an aged or full filesystem".into());
    what.extend(match record.plan.device.backing {
        Backing::Erase { .. } | Backing::Dir => None,
        _ => Some(format!("another device: the filesystems were on {}", place(record))),
    });
    document.text(format!("Not tested: {}.", what.join("; ")));
    document
}

/// Whether a filesystem ran with different options.
fn varies(record: &RunRecord) -> bool {
    [OPTIONS, MKFS, MOUNT].iter().any(|factor| {
        record
            .variants
            .iter()
            .any(|one| record.variants.iter().any(|other| one.level(factor) != other.level(factor)))
    })
}

/// Whether a task syncs as it goes; so it is taken where the device does not count its flushes.
fn syncs(record: &RunRecord) -> bool {
    let Some((_, rows)) = record.metric("device_flushes_count") else { return true };
    rows.iter().all(|count| count.is_nan()) || rows.iter().any(|count| *count >= FLUSHES)
}
