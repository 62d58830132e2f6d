//! What casts doubt on the figures: failures, unequal conditions, disturbances; and remarks.

use crate::number::{percent, plural};
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::few_of;
use fsarena_core::event::{MEANWHILE, Note, NoteKind, Outcome};
use fsarena_core::observations::{Grid, never_steady};
use fsarena_core::record::RunRecord;
use fsarena_stats::comparison::median;
use std::collections::{BTreeMap, BTreeSet};

/// Warnings.
pub const WARNINGS: Section = Section::new(Chapter::Answer, add_warnings);

/// Failures, fairness, drops, and tasks that began on a busy machine; in brief the most important of each, whole.
fn add_warnings(document: &mut Document, report: &Report, detail: Detail) {
    let record = &report.record;
    let disturbances = dropped_rounds(record).chain(unsteady_loads(record)).chain(busy_tasks(record));
    let disturbances = disturbances.chain(carry_over_sentence(report)).collect();
    let told = [
        ("Failed", failures(record)),
        ("Is the comparison fair?", fairness_notes(record)),
        ("Disturbances", disturbances),
    ];
    if detail >= Detail::Full {
        for (title, items) in told {
            document.titled_list(title, items);
        }
        return;
    }
    let to_do = notes_where(record, Note::asks_the_user);
    let groups: Vec<Vec<String>> = told.into_iter().map(|(_, items)| items).chain([to_do]).collect();
    document.titled_list("Warnings", first_of_each(groups));
}

/// The first of each group, the groups and their items by importance, and how many more there are.
fn first_of_each(groups: Vec<Vec<String>>) -> Vec<String> {
    /// The most items of one group.
    const MOST: usize = 3;
    let all: usize = groups.iter().map(Vec::len).sum();
    let mut shown: Vec<String> = groups.into_iter().flat_map(|items| items.into_iter().take(MOST)).collect();
    let more = all - shown.len();
    shown.extend((more > 0).then(|| format!("and {} in the whole report", plural(more, "lesser note"))));
    shown
}

/// The fairness notes; those about single variants come first.
fn fairness_notes(record: &RunRecord) -> Vec<String> {
    let of = |one: bool| {
        notes_where(record, |note| note.kind == NoteKind::Fairness && note.variant.is_some() == one)
    };
    [of(true), of(false)].concat()
}

/// Variants that left the run and cells that failed, with the words of what failed.
fn failures(record: &RunRecord) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    for cell in &record.cells {
        if let Outcome::Failed { why, .. } = &cell.outcome {
            let name = record.name(cell.variant);
            // The note that the variant left repeats the words of its last cell.
            if !items.iter().any(|item| item.contains(why.as_str())) {
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

/// The loads that never became steady, and how to find their steady state.
fn unsteady_loads(record: &RunRecord) -> Option<String> {
    let cells = never_steady(record);
    let longest = cells.iter().filter_map(|(task, variant)| load_seconds(record, *task, *variant));
    let longest = longest.reduce(f64::max);
    let named = cells
        .iter()
        .map(|(task, variant)| format!("{} at {}", record.name(*variant), record.tasks[*task].id));
    let named = few_of(named.collect(), 3).join(", ");
    let can_run_longer = record.plan.workloads.iter().any(|plan| plan.settings.0.contains_key("seconds"));
    let remedy = longest.filter(|_| can_run_longer).map_or(String::new(), |seconds| {
        format!(" For the steady state: --set seconds={}.", (4.0 * seconds).ceil())
    });
    (!cells.is_empty())
        .then(|| format!("Steady in no round: {named}. The ranking holds for loads of this length.{remedy}"))
}

/// How long the load of a task usually ran, in seconds.
fn load_seconds(record: &RunRecord, task: usize, variant: usize) -> Option<f64> {
    let grid = Grid::of(record, "elapsed")?;
    median(&grid.values[task][variant])
}

/// A warning if the previous variant changes the primary metric significantly.
fn carry_over_sentence(report: &Report) -> Option<String> {
    let metric = &report.analyses.first()?.metric;
    let carry = report.carry_over().filter(|carry| carry.significant)?;
    let size = percent(carry.change.abs());
    let direction = if carry.change > 0.0 { "higher" } else { "lower" };
    Some(format!(
        "The variant before matters (95% confidence): right after {}, {} of the other variants is {size} {direction} than \
         else. Random order keeps the comparison fair.",
        report.record.name(carry.after),
        metric.id
    ))
}

/// How many tasks began on a busy machine, by variant, and which processes kept it busy.
fn busy_tasks(record: &RunRecord) -> Option<String> {
    let (mut by_variant, mut processes) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for (_, note) in record.notes_of(NoteKind::IdleTimeout) {
        *by_variant.entry(note.variant.as_deref().unwrap_or("no variant")).or_default() += 1;
        let named = note.text.split_once(MEANWHILE).map_or("", |(_, processes)| processes);
        // `rsync (4711) moved 35.0 MiB`: the same program counts once for each wait.
        let names: BTreeSet<&str> =
            named.split(", ").filter_map(|one| Some(one.split_once(" (")?.0)).collect();
        for name in names {
            *processes.entry(name).or_default() += 1;
        }
    }
    let times: usize = by_variant.values().sum();
    let counts = |all: &[(&str, usize)]| {
        all.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    };
    (times > 0).then(|| {
        let mut named: Vec<(&str, usize)> = processes.into_iter().collect();
        named.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        named.truncate(3);
        let busy = counts(&named);
        let by = if busy.is_empty() { String::new() } else { format!(" Busy meanwhile: {busy}.") };
        let variants = counts(&by_variant.into_iter().collect::<Vec<_>>());
        format!("The machine was still busy when {} began ({variants}).{by}", plural(times, "task"))
    })
}

/// Remarks.
pub const REMARKS: Section = Section::full(Chapter::Method, add_remarks);

fn add_remarks(document: &mut Document, report: &Report, _: Detail) {
    let kinds = [NoteKind::Remark, NoteKind::Unavailable];
    let remarks = kinds.into_iter().flat_map(|kind| notes_of_kind(&report.record, kind));
    document.titled_list("Remarks", remarks.collect());
}

/// Notes of one kind; those that say the same of several variants become one.
pub fn notes_of_kind(record: &RunRecord, kind: NoteKind) -> Vec<String> {
    notes_where(record, |note| note.kind == kind)
}

/// The notes that `keep` selects; equal notes of several variants become one sentence.
pub fn notes_where(record: &RunRecord, keep: impl Fn(&Note) -> bool) -> Vec<String> {
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
    seen.into_iter().map(|(note, variants)| note_sentence(note, &variants)).collect()
}

fn note_sentence(note: &Note, variants: &[&str]) -> String {
    let mut subject = vec![variants.join(", ")];
    subject.extend(note.task.clone());
    subject.retain(|word| !word.is_empty());
    let subject = if subject.is_empty() { String::new() } else { format!("{}: ", subject.join(", ")) };
    let fix = note.fix.as_ref().map_or(String::new(), |fix| format!(" (remedy: {fix})"));
    format!("{subject}{}{fix}", note.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_important_notes_are_shown_whole_and_the_others_counted() {
        let long =
            "a sentence of a note that is far longer than two lines of a terminal have room for ".repeat(4);
        let group = |name: &str, count: usize| (0..count).map(|at| format!("{name} {at}, {long}")).collect();
        let shown = first_of_each(vec![group("failed", 1), group("unfair", 5), vec![], group("to do", 4)]);
        assert!(shown[0].starts_with("failed 0") && shown[1].starts_with("unfair 0"), "{shown:#?}");
        assert!(shown[..7].iter().all(|item| item.ends_with(&long)), "{shown:#?}");
        assert_eq!(shown[7..], ["and 3 lesser notes in the whole report"]);
        assert_eq!(first_of_each(vec![vec!["one".into()]]), ["one"]);
    }

    #[test]
    fn what_favours_single_variants_comes_first() {
        let mut record = RunRecord::default();
        let notes = [
            Note::new(NoteKind::Fairness, "all alike"),
            Note::new(NoteKind::Fairness, "lazy").variant("ext4"),
        ];
        record.notes = notes.map(|note| (None, note)).into();
        assert_eq!(fairness_notes(&record), ["ext4: lazy", "all alike"]);
    }
}
