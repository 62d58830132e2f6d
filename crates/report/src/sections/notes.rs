//! What a reader may want to know beside the figures.

use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::record::RunRecord;

/// Remarks.
pub const SECTION: Section = Section::full(Chapter::Method, add);

fn add(document: &mut Document, report: &Report, _: Detail) {
    let kinds = [NoteKind::Remark, NoteKind::Unavailable];
    let remarks = kinds.into_iter().flat_map(|kind| gathered(&report.record, kind));
    document.titled_list("Remarks", remarks.collect());
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
        let at = seen.iter().position(|(other, _)| same(other)).unwrap_or(seen.len());
        if at == seen.len() {
            seen.push((note, vec![]));
        }
        let variants = &mut seen[at].1;
        variants.extend(note.variant.as_deref().filter(|variant| !variants.contains(variant)));
    }
    seen.into_iter().map(|(note, variants)| sentence(note, &variants)).collect()
}

fn sentence(note: &Note, variants: &[&str]) -> String {
    let mut subject = vec![variants.join(", ")];
    subject.extend(note.task.clone());
    subject.retain(|word| !word.is_empty());
    let subject = if subject.is_empty() { String::new() } else { format!("{}: ", subject.join(", ")) };
    let fix = note.fix.as_ref().map_or(String::new(), |fix| format!(" (remedy: {fix})"));
    format!("{subject}{}{fix}", note.text)
}
