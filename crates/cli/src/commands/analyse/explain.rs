//! One cell again, under the lock tracepoints.

use fsarena_core::record::RunRecord;
use fsarena_probe::trace::Profile;
use fsarena_report::document::Page;
use fsarena_report::document::{Document, Part};
use fsarena_run::again::Choice;
use fsarena_sys::{kernel::SysRoot, process};
use serde_json::json;

/// Locks and functions that are printed, and callers of each.
const TOP: usize = 8;
const CALLERS: usize = 4;

/// What the cell waited for.
pub fn page(record: &RunRecord, choice: &Choice, profile: &Profile) -> Page {
    let boot = process::boot_id(&SysRoot::host()).ok();
    let elsewhere = record.hosts.iter().all(|host| Some(&host.boot_id) != boot.as_ref());
    let mut document = Document::default();
    document.heading(1, format!("What {} waits for in {}", choice.variant.name, choice.task));
    match profile.locks.first() {
        Some(first) => document.text(format!(
            "{:.0}% of the time that all threads waited for locks: {} ← {}.",
            100.0 * first.share,
            first.function,
            first.taker()
        )),
        None => {
            document.text(
                "CPU stacks, no lock found: no thread waited for a kernel lock, so lock contention does not limit this cell.",
            )
        }
    }
    document.parts.push(Part::Code("text", profile.text(TOP, CALLERS)));
    if elsewhere {
        document.text(format!(
            "Run {} was measured in another boot or on another machine; this is what happens here and now.",
            record.id
        ));
    }
    let json = json!({
        "format": 1,
        "run": record.id,
        "variant": choice.variant.name,
        "task": choice.task.to_string(),
        "measured_elsewhere": elsewhere,
        "profile": profile,
    });
    Page { document, json }
}
