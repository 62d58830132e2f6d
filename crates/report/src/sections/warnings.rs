//! Three sections: warnings, which cast doubt on the figures (failures, unequal conditions, disturbances); remarks; and
//! warnings about commands of the user that are unsuitable to compare filesystems (too short, bound by the CPU, not using
//! the filesystem).

use crate::document::{Detail, Document};
use crate::number::{percent, plural, with_unit};
use crate::phrases::{list_sentence, shorten_list_to};
use crate::report::Report;
use fsarena_core::event::{MEANWHILE_SEPARATOR, Note, NoteKind, Outcome};
use fsarena_core::observations::{Grid, never_steady};
use fsarena_core::{metric::reading, names::distinct, record::RunRecord, sample::Unit, setting_text::setting};
use fsarena_stats::comparison::median;
use std::collections::{BTreeMap, BTreeSet};

/// Adds failures, unfair conditions and disturbances; in a brief report only the most important ones of each group.
pub fn add_warnings(document: &mut Document, report: &Report, detail: Detail) {
    let record = &report.record;
    let mut disturbances: Vec<String> = dropped_round_sentences(record).collect();
    disturbances.extend(unsteady_loads_sentence(record));
    disturbances.extend(busy_machine_sentence(record));
    disturbances.extend(carry_over_sentence(report));
    let groups = [
        ("Failed", failure_sentences(record)),
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
    document.titled_list("Warnings", first_of_each_group(items));
}

/// The first items of each group, and the number of the others. Groups and items are in the order of importance.
fn first_of_each_group(groups: Vec<Vec<String>>) -> Vec<String> {
    const MAX_ITEMS: usize = 3;
    let item_count: usize = groups.iter().map(Vec::len).sum();
    let mut shown: Vec<String> = groups.into_iter().flat_map(|items| items.into_iter().take(MAX_ITEMS)).collect();
    let hidden_count = item_count - shown.len();
    if hidden_count > 0 {
        shown.push(format!("and {} in the whole report", plural(hidden_count, "lesser note")));
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
fn failure_sentences(record: &RunRecord) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    for cell in &record.cells {
        if let Outcome::Failed { why, .. } = &cell.outcome {
            let name = record.variant_name(cell.variant);
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
fn dropped_round_sentences(record: &RunRecord) -> impl Iterator<Item = String> {
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
    let names =
        cells.iter().map(|(task, variant)| format!("{} at {}", record.variant_name(*variant), record.tasks[*task].id));
    let names = shorten_list_to(names.collect(), 3, "loads").join(", ");
    // The longest of the median run times of these loads, in seconds.
    let longest_s = Grid::of(record, "elapsed").and_then(|grid| {
        cells.iter().filter_map(|(task, variant)| median(&grid.values[*task][*variant])).reduce(f64::max)
    });
    let can_run_longer = record.plan.workloads.iter().any(|plan| plan.settings.0.contains_key("seconds"));
    let remedy = match longest_s {
        Some(longest_s) if can_run_longer => {
            // The run does not show how long a load must run to become steady, so four times its length is a guess.
            let longer = format!("seconds={}", (4.0 * longest_s).ceil());
            format!(" For the steady state: {}.", setting("set", &longer))
        }
        _ => String::new(),
    };
    Some(format!("Steady in no round: {names}. The ranking holds for loads of this length.{remedy}"))
}

/// A warning if the variant that ran before changes the primary metric significantly.
fn carry_over_sentence(report: &Report) -> Option<String> {
    let metric = &report.analyses.first()?.metric;
    let carry_over = report.carryover().filter(|carry_over| carry_over.is_significant)?;
    let size = percent(carry_over.relative_change.abs());
    let direction = if carry_over.relative_change > 0.0 { "higher" } else { "lower" };
    Some(format!(
        "Order effect (95% confidence): in cells right after {}, {} of the other variants is {size} {direction} than \
         elsewhere. Random order keeps the comparison fair.",
        report.record.variant_name(carry_over.predecessor),
        metric.id
    ))
}

/// A sentence with the number of tasks that began on a busy machine, by variant, and the processes that kept it busy. `None` if
/// there are none.
fn busy_machine_sentence(record: &RunRecord) -> Option<String> {
    let (mut tasks_by_variant, mut tasks_by_process) = (BTreeMap::<&str, usize>::new(), BTreeMap::<&str, usize>::new());
    for (_, note) in record.notes_of(NoteKind::IdleTimeout) {
        *tasks_by_variant.entry(note.variant.as_deref().unwrap_or("no variant")).or_default() += 1;
        let list = note.text.split_once(MEANWHILE_SEPARATOR).map_or("", |(_, processes)| processes);
        // The list is like `rsync (4711) moved 35.0 MiB, …`. A program with several processes counts once for each note.
        let names: BTreeSet<&str> = list.split(", ").filter_map(|process| Some(process.split_once(" (")?.0)).collect();
        for name in names {
            *tasks_by_process.entry(name).or_default() += 1;
        }
    }
    let task_count: usize = tasks_by_variant.values().sum();
    if task_count == 0 {
        return None;
    }
    let mut busiest: Vec<(&str, usize)> = tasks_by_process.into_iter().collect();
    busiest.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    busiest.truncate(3);
    let busiest: Vec<_> = busiest.iter().map(|(name, tasks)| format!("{name} ({})", plural(*tasks, "task"))).collect();
    let busiest_processes = list_sentence(" Busy meanwhile", &busiest).unwrap_or_default();
    let variants: Vec<_> = tasks_by_variant.iter().map(|(name, tasks)| format!("{name} {tasks}")).collect();
    Some(format!(
        "The machine was still busy when {} began ({}).{busiest_processes}",
        plural(task_count, "task"),
        variants.join(", ")
    ))
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

/// The notes that pass the filter. Equal notes on several variants become one sentence.
fn notes_where(record: &RunRecord, filter: impl Fn(&Note) -> bool) -> Vec<String> {
    let mut grouped: Vec<(&Note, Vec<&str>)> = vec![];
    for (_, note) in record.notes.iter().filter(|(_, note)| filter(note)) {
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

/// A task is short if it takes less than this number of times the time of the command `true`.
const SHORT_FACTOR: f64 = 10.0;
/// The smallest number of bytes written to other disks that gets a warning.
const MIN_BYTES_ELSEWHERE: f64 = 1e6;
/// The smallest number of bytes written to other disks that gets a warning, as a share of those written to the device under
/// test.
const MIN_SHARE_ELSEWHERE: f64 = 0.01;
/// The share of user CPU time from which a task is bound by the CPU.
const CPU_BOUND_SHARE: f64 = 0.9;

/// Adds warnings about unsuitable tasks if the tasks are commands of the user.
pub fn add_unsuitable_tasks(document: &mut Document, report: &Report, detail: Detail) {
    if report.record.plan.can_print_metrics() {
        let warnings = unsuitable_task_warnings(&report.record);
        document.list(if detail < Detail::Full { shorten_list_to(warnings, 4, "warnings") } else { warnings });
    }
}

/// A sentence for each task and each reason why it is unsuitable to compare filesystems.
fn unsuitable_task_warnings(record: &RunRecord) -> Vec<String> {
    // The median of each task over all variants and rounds.
    let medians = |metric: &str| -> Vec<Option<f64>> {
        let Some(grid) = Grid::of(record, metric) else { return vec![None; record.tasks.len()] };
        grid.values.iter().map(|variants| median(&variants.concat())).collect()
    };
    let [elapsed_s, user_s, cpu_s, startup_ns] = ["elapsed", "user", "cpu", reading::PROCESS_START].map(medians);
    let device_bytes = [reading::DEVICE_READ_BYTES, reading::DEVICE_WRITTEN_BYTES].map(medians);
    let other_disks = [(reading::SOURCE_WRITTEN_BYTES, "source"), (reading::ROOT_WRITTEN_BYTES, "root")];
    let written_elsewhere = other_disks.map(|(id, disk)| (disk, medians(id)));
    let mut warnings = vec![];
    for (index, task) in record.tasks.iter().enumerate().filter(|(_, task)| task.in_totals) {
        let (name, Some(elapsed_s)) = (&task.id, elapsed_s[index]) else { continue };
        let startup_s = startup_ns[index].map(|ns| ns / 1e9);
        if let Some(startup_s) = startup_s.filter(|startup_s| elapsed_s < SHORT_FACTOR * startup_s) {
            warnings.push(format!(
                "{name} takes {}, and `true` takes {} here, so starting programs dominates: let the task do more work.",
                with_unit(elapsed_s, Unit::Seconds),
                with_unit(startup_s, Unit::Seconds)
            ));
        }
        if device_bytes.iter().all(|medians| medians[index] == Some(0.0)) {
            warnings.push(format!(
                "{name} moved no byte to or from the device: it uses the page cache or no file of the filesystem."
            ));
        }
        let min_bytes = MIN_BYTES_ELSEWHERE.max(MIN_SHARE_ELSEWHERE * device_bytes[1][index].unwrap_or(0.0));
        for (disk, written) in &written_elsewhere {
            if let Some(written) = written[index].filter(|written| *written >= min_bytes) {
                let written = with_unit(written, Unit::Bytes);
                warnings.push(format!(
                    "While {name} ran, {written} were written to the {disk} disk, outside the filesystem under test: \
                     write to $FSARENA_DIR."
                ));
            }
        }
        // If several CPUs work, their total time exceeds the elapsed time.
        let total_s = cpu_s[index].unwrap_or(0.0).max(elapsed_s);
        let user_share = user_s[index].map(|user_s| (user_s / total_s).min(1.0));
        if let Some(share) = user_share.filter(|share| *share >= CPU_BOUND_SHARE) {
            warnings.push(format!(
                "{} of {name} is user CPU time: a faster filesystem could save about {} at most.",
                percent(share),
                percent((1.0 - share).max(0.001)),
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::{cell::Variant, event::Cause, record::CellRecord};

    #[test]
    fn the_first_notes_of_each_group_are_shown_and_the_others_counted() {
        let long_text = "a sentence of a note that is far longer than two lines of a terminal have room for ".repeat(4);
        let group = |name: &str, count: usize| (0..count).map(|index| format!("{name} {index}, {long_text}")).collect();
        let shown = first_of_each_group(vec![group("failed", 1), group("unfair", 5), vec![], group("to do", 4)]);
        assert!(shown[0].starts_with("failed 0") && shown[1].starts_with("unfair 0"), "{shown:#?}");
        assert!(shown[..7].iter().all(|item| item.ends_with(&long_text)), "{shown:#?}");
        assert_eq!(shown[7..], ["and 3 lesser notes in the whole report"]);
        assert_eq!(first_of_each_group(vec![vec!["one".into()]]), ["one"]);
    }

    #[test]
    fn cells_of_two_variants_that_failed_for_one_reason_are_both_listed() {
        let mut record = RunRecord::default();
        let variant = |name: &str| Variant { name: name.into(), levels: BTreeMap::new() };
        record.variants = ["ext4", "xfs"].map(variant).into();
        let failed_cell = |variant, round| CellRecord {
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
        record.cells = vec![failed_cell(0, 0), failed_cell(1, 1)];
        assert_eq!(failure_sentences(&record), ["ext4, round 1: no space", "xfs, round 2: no space"]);
        let left = Note::new(NoteKind::VariantFailed, "failed in round 1 and left the run: no space");
        record.notes = vec![(None, left.variant("ext4"))];
        let noted = "ext4: failed in round 1 and left the run: no space";
        assert_eq!(failure_sentences(&record), [noted, "xfs, round 2: no space"]);
    }

    #[test]
    fn fairness_notes_on_single_variants_come_first() {
        let mut record = RunRecord::default();
        let notes = [Note::new(NoteKind::Fairness, "all alike"), Note::new(NoteKind::Fairness, "lazy").variant("ext4")];
        record.notes = notes.map(|note| (None, note)).into();
        assert_eq!(fairness_notes(&record), ["ext4: lazy", "all alike"]);
    }
}
