//! Two sections: warnings, which cast doubt on the figures (failures, unequal conditions, disturbances), and remarks.

use crate::document::{Detail, Document};
use crate::number::{percent, plural};
use crate::{phrases::shorten_list_to, report::Report};
use fsarena_core::event::{MEANWHILE_SEPARATOR, Note, NoteKind, Outcome};
use fsarena_core::observations::{Grid, never_steady};
use fsarena_core::{names::distinct, record::RunRecord, setting_text::setting};
use fsarena_stats::comparison::median;
use std::collections::{BTreeMap, BTreeSet};

/// Adds failures, unfair conditions and disturbances; in a brief report only the most important ones of each group.
pub fn add_warnings(document: &mut Document, report: &Report, detail: Detail) {
    let record = &report.record;
    let mut disturbances: Vec<String> = dropped_rounds(record).collect();
    disturbances.extend(unsteady_loads_sentence(record));
    disturbances.extend(busy_machine_sentence(record));
    disturbances.extend(carry_over_sentence(report));
    let groups = [
        ("Failed", failures(record)),
        ("Is the comparison fair?", fairness_notes(record)),
        ("Disturbances", disturbances),
    ];
    if detail >= Detail::Full {
        for (title, items) in groups {
            document.titled_list(title, items);
        }
        return;
    }
    let mut items: Vec<Vec<String>> = groups.into_iter().map(|(_, items)| items).collect();
    // These are remarks, so they are in no group above. The full report has them in its section with remarks.
    items.push(notes_where(record, Note::is_advice));
    document.titled_list("Warnings", first_of_each(items));
}

/// The first items of each group, and the number of the others. Groups and items are in the order of importance.
fn first_of_each(groups: Vec<Vec<String>>) -> Vec<String> {
    const MAX_ITEMS: usize = 3;
    let all: usize = groups.iter().map(Vec::len).sum();
    let mut shown: Vec<String> = groups.into_iter().flat_map(|items| items.into_iter().take(MAX_ITEMS)).collect();
    let more = all - shown.len();
    if more > 0 {
        shown.push(format!("and {} in the whole report", plural(more, "lesser note")));
    }
    shown
}

/// The notes on fairness. Those about single variants come first.
fn fairness_notes(record: &RunRecord) -> Vec<String> {
    let mut notes = notes_where(record, |note| note.kind == NoteKind::Fairness && note.variant.is_some());
    notes.extend(notes_where(record, |note| note.kind == NoteKind::Fairness && note.variant.is_none()));
    notes
}

/// The variants that left the run and the cells that failed, each with the reason.
fn failures(record: &RunRecord) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    for cell in &record.cells {
        if let Outcome::Failed { why, .. } = &cell.outcome {
            let name = record.name(cell.variant);
            // The note on a variant that left the run contains the reason of its last failed cell.
            let is_noted = record
                .notes_of(NoteKind::VariantFailed)
                .any(|(_, note)| note.variant.as_deref() == Some(name) && note.text.contains(why.as_str()));
            if !is_noted {
                items.push(format!("{name}, round {}: {why}", cell.round + 1));
            }
        }
    }
    items
}

/// Every dropped round with its reason.
fn dropped_rounds(record: &RunRecord) -> impl Iterator<Item = String> {
    record.notes_of(NoteKind::Dropped).map(|(round, note)| {
        let round = round.map_or(String::new(), |round| format!("round {} ", round + 1));
        format!("{round}dropped: {}", note.text)
    })
}

/// A sentence on the loads that did not become steady in any round, with a longer run time to try. `None` if there are none.
fn unsteady_loads_sentence(record: &RunRecord) -> Option<String> {
    let cells = never_steady(record);
    if cells.is_empty() {
        return None;
    }
    let names = cells.iter().map(|(task, variant)| format!("{} at {}", record.name(*variant), record.tasks[*task].id));
    let names = shorten_list_to(names.collect(), 3, "loads").join(", ");
    let longest = cells.iter().filter_map(|(task, variant)| load_seconds(record, *task, *variant)).reduce(f64::max);
    let can_run_longer = record.plan.workloads.iter().any(|plan| plan.settings.0.contains_key("seconds"));
    let remedy = match longest {
        Some(seconds) if can_run_longer => {
            // The run does not show how long a load must run to become steady, so four times its length is a guess.
            let seconds = format!("seconds={}", (4.0 * seconds).ceil());
            format!(" For the steady state: {}.", setting("set", &seconds))
        }
        _ => String::new(),
    };
    Some(format!("Steady in no round: {names}. The ranking holds for loads of this length.{remedy}"))
}

/// The median run time of the load of a task on a variant, in seconds.
fn load_seconds(record: &RunRecord, task: usize, variant: usize) -> Option<f64> {
    let grid = Grid::of(record, "elapsed")?;
    median(&grid.values[task][variant])
}

/// A warning if the variant that ran before changes the primary metric significantly.
fn carry_over_sentence(report: &Report) -> Option<String> {
    let metric = &report.analyses.first()?.metric;
    let carry_over = report.carry_over().filter(|carry_over| carry_over.significant)?;
    let size = percent(carry_over.change.abs());
    let direction = if carry_over.change > 0.0 { "higher" } else { "lower" };
    Some(format!(
        "Order effect (95% confidence): in cells right after {}, {} of the other variants is {size} {direction} than \
         elsewhere. Random order keeps the comparison fair.",
        report.record.name(carry_over.after),
        metric.id
    ))
}

/// A sentence with the number of tasks that began on a busy machine, by variant, and the processes that kept it busy. `None` if
/// there are none.
fn busy_machine_sentence(record: &RunRecord) -> Option<String> {
    let (mut by_variant, mut processes) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for (_, note) in record.notes_of(NoteKind::IdleTimeout) {
        *by_variant.entry(note.variant.as_deref().unwrap_or("no variant")).or_default() += 1;
        let list = note.text.split_once(MEANWHILE_SEPARATOR).map_or("", |(_, processes)| processes);
        // The list is like `rsync (4711) moved 35.0 MiB, …`. A program with several processes counts once for each note.
        let names: BTreeSet<&str> = list.split(", ").filter_map(|one| Some(one.split_once(" (")?.0)).collect();
        for name in names {
            *processes.entry(name).or_default() += 1;
        }
    }
    let tasks: usize = by_variant.values().sum();
    if tasks == 0 {
        return None;
    }
    let mut busiest: Vec<(&str, usize)> = processes.into_iter().collect();
    busiest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    busiest.truncate(3);
    let busy: Vec<_> = busiest.iter().map(|(name, tasks)| format!("{name} ({})", plural(*tasks, "task"))).collect();
    let busy = if busy.is_empty() { String::new() } else { format!(" Busy meanwhile: {}.", busy.join(", ")) };
    let variants: Vec<_> = by_variant.iter().map(|(name, tasks)| format!("{name} {tasks}")).collect();
    let variants = variants.join(", ");
    Some(format!("The machine was still busy when {} began ({variants}).{busy}", plural(tasks, "task")))
}

/// Adds the remarks, and the readings that were unavailable.
pub fn add_remarks(document: &mut Document, report: &Report, _: Detail) {
    let kinds = [NoteKind::Remark, NoteKind::Unavailable];
    let remarks = kinds.into_iter().flat_map(|kind| notes_of_kind(&report.record, kind));
    document.titled_list("Remarks", remarks.collect());
}

/// The notes of one kind. Equal notes on several variants become one sentence.
pub fn notes_of_kind(record: &RunRecord, kind: NoteKind) -> Vec<String> {
    notes_where(record, |note| note.kind == kind)
}

/// The notes for which `keep` is true. Equal notes on several variants become one sentence.
pub fn notes_where(record: &RunRecord, keep: impl Fn(&Note) -> bool) -> Vec<String> {
    let mut grouped: Vec<(&Note, Vec<&str>)> = vec![];
    for (_, note) in record.notes.iter().filter(|(_, note)| keep(note)) {
        let is_equal = |other: &Note| (&other.text, &other.fix, &other.task) == (&note.text, &note.fix, &note.task);
        let variant = note.variant.as_deref();
        match grouped.iter_mut().find(|(other, _)| is_equal(other)) {
            Some((_, variants)) => variants.extend(variant),
            None => grouped.push((note, variant.into_iter().collect())),
        }
    }
    grouped.into_iter().map(|(note, variants)| note_sentence(note, &distinct(variants))).collect()
}

/// A note as a sentence: the variants and the task, the text, and the remedy.
fn note_sentence(note: &Note, variants: &[&str]) -> String {
    let mut subject = vec![variants.join(", ")];
    subject.extend(note.task.clone());
    subject.retain(|word| !word.is_empty());
    let subject = if subject.is_empty() { String::new() } else { format!("{}: ", subject.join(", ")) };
    let remedy = note.fix.as_ref().map_or(String::new(), |remedy| format!(" (remedy: {remedy})"));
    format!("{subject}{}{remedy}", note.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::{cell::Variant, event::Cause, record::CellRecord};

    #[test]
    fn the_first_notes_of_each_group_are_shown_and_the_others_counted() {
        let long = "a sentence of a note that is far longer than two lines of a terminal have room for ".repeat(4);
        let group = |name: &str, count: usize| (0..count).map(|at| format!("{name} {at}, {long}")).collect();
        let shown = first_of_each(vec![group("failed", 1), group("unfair", 5), vec![], group("to do", 4)]);
        assert!(shown[0].starts_with("failed 0") && shown[1].starts_with("unfair 0"), "{shown:#?}");
        assert!(shown[..7].iter().all(|item| item.ends_with(&long)), "{shown:#?}");
        assert_eq!(shown[7..], ["and 3 lesser notes in the whole report"]);
        assert_eq!(first_of_each(vec![vec!["one".into()]]), ["one"]);
    }

    #[test]
    fn cells_of_two_variants_that_failed_for_one_reason_are_both_listed() {
        let mut record = RunRecord::default();
        let variant = |name: &str| Variant { name: name.into(), levels: BTreeMap::new() };
        record.variants = ["ext4", "xfs"].map(variant).into();
        let failed = |variant, round| CellRecord {
            id: String::new(),
            round,
            position: 0,
            variant,
            workload: String::new(),
            outcome: Outcome::Failed { why: "no space".into(), cause: Cause::Work },
            host: 0,
            started_at: 0.0,
            spent: vec![],
        };
        record.cells = vec![failed(0, 0), failed(1, 1)];
        assert_eq!(failures(&record), ["ext4, round 1: no space", "xfs, round 2: no space"]);
        let left = Note::new(NoteKind::VariantFailed, "failed in round 1 and left the run: no space");
        record.notes = vec![(None, left.variant("ext4"))];
        let noted = "ext4: failed in round 1 and left the run: no space";
        assert_eq!(failures(&record), [noted, "xfs, round 2: no space"]);
    }

    #[test]
    fn fairness_notes_on_single_variants_come_first() {
        let mut record = RunRecord::default();
        let notes = [Note::new(NoteKind::Fairness, "all alike"), Note::new(NoteKind::Fairness, "lazy").variant("ext4")];
        record.notes = notes.map(|note| (None, note)).into();
        assert_eq!(fairness_notes(&record), ["ext4: lazy", "all alike"]);
    }
}
