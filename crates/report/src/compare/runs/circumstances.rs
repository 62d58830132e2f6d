//! What the runs of a comparison are, what differs between them, and what their readers should know.

use super::{ComparedRun, RunPair};
use crate::document::{Cell, Document, Table, row};
use crate::sections::{head, warnings::notes_of_kind};
use crate::words::{begun, each_host, label};
use crate::{compare::answer::counted, number::plural};
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::{event::NoteKind, record::RunRecord};

/// The most runs that are columns; more are rows.
const COLUMNS: usize = 4;

/// The runs, their differences and their warnings. `letters` are what they are called.
pub fn add(document: &mut Document, sides: &[&ComparedRun], pairs: &[RunPair], letters: &[String]) {
    document.table(machines(sides, letters));
    let warnings: Vec<String> =
        sides.iter().zip(letters).flat_map(|(side, letter)| warnings(side.record, letter)).collect();
    if !warnings.is_empty() {
        document.heading(3, "Warnings");
        document.list(warnings);
    }
    for pair in pairs {
        let (a, b, metric) = (pair.a.record, pair.b.record, &pair.a.analysis.metric.id);
        let differences = differences(a, b);
        // If there are only two runs, the title names them and the answer says how they differ.
        if pairs.len() > 1 {
            document.heading(3, format!("run {} beside run {}, by {metric}", b.id, a.id));
            document.list(differences.clone());
        }
        if differences.is_empty() {
            document
                .text("Nothing that was recorded differs between them: machine, kernel, scale, settings.");
        }
    }
}

/// Facts of each run.
fn machines(sides: &[&ComparedRun], letters: &[String]) -> Table {
    let names =
        ["", "study", "begun", "machine", "kernel", "filesystems on", "scale", "rounds", "ended", "fsarena"];
    let mut rows: Vec<Vec<Cell>> = vec![names.into_iter().map(Cell::from).collect()];
    for (side, letter) in sides.iter().zip(letters) {
        let record = side.record;
        let ended = if record.status.complete { "complete".to_string() } else { record.status.why.clone() };
        rows.push(row![
            format!("{letter}: {}", record.id),
            record.plan.name.as_str(),
            begun(&record.started),
            hostnames(record),
            kernels(record),
            head::describe_storage(record),
            record.plan.scale.name(),
            side.analysis.grid.rounds.len().to_string(),
            ended,
            record.version.as_str(),
        ]);
    }
    if sides.len() <= COLUMNS {
        let columns = names.len();
        rows = (0..columns).map(|at| rows.iter().map(|row| row[at].clone()).collect()).collect();
    }
    let heads = rows.remove(0);
    Table { rows, ..Table::words(heads.iter().map(|cell| cell.lines.concat())) }
}

fn hostnames(record: &RunRecord) -> String {
    each_host(record, ", ", |host| host.hostname.clone())
}

fn kernels(record: &RunRecord) -> String {
    each_host(record, ", ", |host| host.kernel.clone())
}

/// What a reader of a run should know.
fn warnings(record: &RunRecord, letter: &str) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    items.extend(notes_of_kind(record, NoteKind::Fairness));
    let count = |kind: NoteKind| record.notes_of(kind).count();
    let counted = [
        (count(NoteKind::Dropped), "round", "dropped because something disturbed them"),
        (count(NoteKind::IdleTimeout), "task", "begun on a busy machine"),
    ];
    let counted = counted.into_iter().filter(|(count, ..)| *count > 0);
    items.extend(counted.map(|(count, what, why)| format!("{} {why}", plural(count, what))));
    items.into_iter().map(|item| format!("{letter}: {item}")).collect()
}

/// Tasks and variants of only one of two runs, which cannot be compared.
pub fn left_out(pair: &RunPair, [a, b]: [&str; 2]) -> Vec<String> {
    let variants = |side: &ComparedRun| side.record.names().into_iter().map(String::from).collect();
    let tasks = |side: &ComparedRun| side.analysis.tasks.iter().map(|task| label(&task.task)).collect();
    let mut items = vec![];
    let mut only = |what: &str, these: Vec<String>, others: Vec<String>, letter: &str| {
        let only: Vec<String> = these.into_iter().filter(|name| !others.contains(name)).collect();
        if !only.is_empty() {
            items.push(format!("Not compared, for only {letter} has values: {}.", counted(&only, what)));
        }
    };
    for (these, others, letter) in [(pair.a, pair.b, a), (pair.b, pair.a, b)] {
        only("variant", variants(these), variants(others), letter);
        only("task", tasks(these), tasks(others), letter);
    }
    items
}

/// What the comparison of runs cannot tell from a difference of filesystems: all that changed with time, and where nothing
/// else differs, that this alone is compared.
/// Instructions depend on no machine: of those it is none.
pub fn confounded(pairs: &[RunPair]) -> Option<String> {
    let counts = |pair: &RunPair| match &pair.a.record.plan.device.backing {
        Backing::Guest(guest) => guest.emulator == Emulator::Exact,
        _ => false,
    };
    if pairs.iter().all(counts) {
        return None;
    }
    let alike = |pair: &RunPair| {
        let [a, b] = [pair.a.record, pair.b.record];
        a.variants == b.variants && differences(a, b).is_empty()
    };
    let apart = match pairs {
        [pair] => between(&pair.a.record.started, &pair.b.record.started)
            .map_or(String::new(), |time| format!(" {time} apart")),
        _ => String::new(),
    };
    let time = format!(
        "Different runs{apart}, without common rounds: whatever changed on the machine between them (load, temperature, \
         free space) is in these ratios."
    );
    Some(match pairs.iter().all(alike) {
        true => format!(
            "{time} Nothing else that was recorded differs, the variants included: what is better or worse here is the \
             machine, not a filesystem."
        ),
        false => time,
    })
}

/// The time between the beginnings of two runs, RFC 3339: `10 s`, `3 min`, `5 h`, `2 days`.
fn between(a: &str, b: &str) -> Option<String> {
    let [a, b] = [a, b].map(|time| time.parse::<jiff::Timestamp>().ok());
    let seconds = b?.duration_since(a?).as_secs().unsigned_abs();
    Some(match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    })
}

/// What differs between the runs besides the time.
pub fn differences(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let mut items = Vec::new();
    let mut differ = |what: &str, x: String, y: String| {
        if x != y {
            items.push(format!("{what} differs: {x} in {}, {y} in {}", a.id, b.id));
        }
    };
    differ("The scale of the work", a.plan.scale.name().into(), b.plan.scale.name().into());
    differ("The machine", hostnames(a), hostnames(b));
    differ("The kernel", kernels(a), kernels(b));
    differ("What carries the filesystems", head::describe_storage(a), head::describe_storage(b));
    if a.plan.workloads != b.plan.workloads {
        items.push("The settings of the workload differ: the work is not the same.".into());
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_runs_is_a_round_number() {
        let since = |b: &str| between("2026-11-25T10:00:00Z", b);
        assert_eq!(since("2026-11-25T10:00:10Z").as_deref(), Some("10 s"));
        assert_eq!(since("2026-11-25T09:30:00Z").as_deref(), Some("30 min"));
        assert_eq!(since("2026-11-28T10:00:00.5Z").as_deref(), Some("3 days"));
        assert_eq!(since("yesterday"), None);
    }
}
