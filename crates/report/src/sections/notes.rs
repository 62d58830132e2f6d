//! What a reader must know beside the figures.

use super::{Detail, Section};
use crate::document::{Chapter, Document};
use crate::number::plural;
use crate::report::Report;
use fsarena_core::event::{Note, NoteKind, Outcome};
use fsarena_core::record::RunRecord;
use std::collections::BTreeMap;

/// What disturbed the run.
pub const SECTION: Section = Section { chapter: Some(Chapter::Method), parts };

/// Failures, fairness, drops, tasks that began on a busy machine, and everything else that was noted.
fn parts(report: &Report, _: Detail) -> Document {
    let mut document = Document::default();
    let record = &report.record;
    let failed = failures(record);
    if !failed.is_empty() {
        document.heading(3, "Failed");
        document.list(failed);
    }
    let fairness = gathered(record, NoteKind::Fairness);
    if !fairness.is_empty() {
        document.heading(3, "Is the comparison fair?");
        document.list(fairness);
    }
    let mut told = drops(record);
    told.extend(timeouts(record));
    if !told.is_empty() {
        document.heading(3, "Disturbances");
        document.list(told);
    }
    let mut remarks = gathered(record, NoteKind::Remark);
    remarks.extend(gathered(record, NoteKind::Unavailable));
    if !remarks.is_empty() {
        document.heading(3, "Remarks");
        document.list(remarks);
    }
    document
}

/// Variants that left the run and cells that failed, with the words of what failed.
fn failures(record: &RunRecord) -> Vec<String> {
    let mut items = gathered(record, NoteKind::VariantFailed);
    for cell in &record.cells {
        if let Outcome::Failed { why, .. } = &cell.outcome {
            let name = &record.variants[cell.variant].name;
            // The note that the variant left repeats the words of its last cell.
            if !items.iter().any(|item| item.contains(why.as_str())) {
                items.push(format!("{name}, round {}: {why}", cell.round + 1));
            }
        }
    }
    items
}

/// Notes of one kind; those that say the same of several variants become one.
pub fn gathered(record: &RunRecord, kind: NoteKind) -> Vec<String> {
    let mut seen: Vec<(&Note, Vec<&str>)> = Vec::new();
    for (_, note) in record.notes.iter().filter(|(_, note)| note.kind == kind) {
        let same =
            |other: &Note| (&other.text, &other.fix, &other.task) == (&note.text, &note.fix, &note.task);
        let variants = match seen.iter_mut().find(|(other, _)| same(other)) {
            Some((_, variants)) => variants,
            None => {
                seen.push((note, vec![]));
                &mut seen.last_mut().expect("just pushed").1
            }
        };
        if let Some(variant) = note.variant.as_deref().filter(|variant| !variants.contains(variant)) {
            variants.push(variant);
        }
    }
    seen.into_iter().map(|(note, variants)| sentence(note, &variants)).collect()
}

fn sentence(note: &Note, variants: &[&str]) -> String {
    let mut subject = variants.join(", ");
    if let Some(task) = &note.task {
        subject = if subject.is_empty() { task.clone() } else { format!("{subject}, {task}") };
    }
    let fix = note.fix.as_ref().map_or(String::new(), |fix| format!(" (remedy: {fix})"));
    if subject.is_empty() { format!("{}{fix}", note.text) } else { format!("{subject}: {}{fix}", note.text) }
}

/// Every dropped round with its reason.
fn drops(record: &RunRecord) -> Vec<String> {
    let dropped = record.notes.iter().filter(|(_, note)| note.kind == NoteKind::Dropped);
    dropped
        .map(|(round, note)| match round {
            Some(round) => format!("round {} dropped: {}", round + 1, note.text),
            None => format!("dropped: {}", note.text),
        })
        .collect()
}

/// How many tasks began on a busy machine, by variant.
fn timeouts(record: &RunRecord) -> Option<String> {
    let mut by_variant: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, note) in record.notes.iter().filter(|(_, note)| note.kind == NoteKind::IdleTimeout) {
        *by_variant.entry(note.variant.as_deref().unwrap_or("no variant")).or_default() += 1;
    }
    let times: usize = by_variant.values().sum();
    let variants: Vec<String> =
        by_variant.iter().map(|(variant, count)| format!("{variant} {count}")).collect();
    (times > 0).then(|| {
        format!("The machine was still busy when {} began ({}).", plural(times, "task"), variants.join(", "))
    })
}
