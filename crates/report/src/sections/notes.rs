//! What a reader may want to know beside the figures.

use super::{Detail, Section};
use crate::document::{Chapter, Document};
use crate::report::Report;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::RunRecord;

/// Remarks.
pub const SECTION: Section = Section { chapter: Some(Chapter::Method), parts };

fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let mut remarks = gathered(&report.record, NoteKind::Remark);
    remarks.extend(gathered(&report.record, NoteKind::Unavailable));
    if detail >= Detail::Full && !remarks.is_empty() {
        document.heading(3, "Remarks");
        document.list(remarks);
    }
    document
}

/// Notes of one kind; those that say the same of several variants become one.
pub fn gathered(record: &RunRecord, kind: NoteKind) -> Vec<String> {
    gathered_where(record, |note| note.kind == kind)
}

/// The same of the notes that `keep` chooses.
pub fn gathered_where(record: &RunRecord, keep: impl Fn(&Note) -> bool) -> Vec<String> {
    let mut seen: Vec<(&Note, Vec<&str>)> = Vec::new();
    for (_, note) in record.notes.iter().filter(|(_, note)| keep(note)) {
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
