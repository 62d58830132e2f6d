//! How it was measured: everything needed to repeat the run.

use super::{Detail, Section};
use crate::document::{Cell, Chapter, Document, Part, Table, row};
use crate::number::percent;
use crate::report::Report;
use fsarena_core::event::NoteKind;
use fsarena_core::record::RunRecord;
use std::collections::BTreeMap;

/// Everything needed to repeat the run.
pub const SECTION: Section = Section { chapter: Some(Chapter::Method), parts };

/// Machine, options, order, time spent and plan.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    if detail < Detail::Full {
        return document;
    }
    let record = &report.record;
    document.heading(3, "The run");
    document.table(Table::pairs(["run", ""], run(record)));
    for host in record.hosts.iter().take(super::head::MACHINES) {
        document.heading(3, format!("Machine {}", host.hostname));
        let mut facts =
            vec![("kernel".to_string(), host.kernel.clone()), ("boot".into(), host.boot_id.clone())];
        facts.extend(host.facts.iter().map(|(key, value)| (key.clone(), value.clone())));
        document.table(Table::pairs(["fact", ""], facts));
    }
    let options = options(record);
    if !options.rows.is_empty() {
        document.heading(3, "Options, as mkfs and the kernel report them");
        document.table(options);
    }
    document.heading(3, "Order of the variants in every round");
    document.list(orders(record));
    document.heading(3, "Where the time went");
    document.table(Table::pairs(["part", "share"], shares(record)));
    document.heading(3, "The plan, as resolved");
    document.parts.push(Part::Code("toml", report.plan.clone()));
    document
}

fn run(record: &RunRecord) -> Vec<(String, String)> {
    let plan = &record.plan;
    let status = if record.status.complete { "complete" } else { "not complete" };
    let row = |key: &str, value: String| (key.to_string(), value);
    vec![
        row("id", record.id.clone()),
        row("fsarena", record.version.clone()),
        row("begun", record.started.clone()),
        row("ended", record.ended.clone()),
        row("status", format!("{status}: {}", record.status.why)),
        row("seed", plan.seed.to_string()),
        row("filesystems are on", super::head::place(record)),
        row(
            "idle means",
            format!(
                "at most {} dirty or in writeback and {}% of time stalled on I/O, for at most {} s",
                plan.idle.dirty, plan.idle.io_pressure_percent, plan.idle.timeout_s
            ),
        ),
        row("tasks that began on a busy machine", counted(record, NoteKind::IdleTimeout)),
        row("rounds dropped", counted(record, NoteKind::Dropped)),
        row("fairness warnings", counted(record, NoteKind::Fairness)),
        row("commands", format!("{}; each is in command.log of the run", record.commands)),
    ]
}

/// How often something was noted; that it never was says something too.
fn counted(record: &RunRecord, kind: NoteKind) -> String {
    match record.notes.iter().filter(|(_, note)| note.kind == kind).count() {
        0 => "none".into(),
        count => count.to_string(),
    }
}

/// One row for each variant and task with options, which may take several lines, and in how many cells they were so.
fn options(record: &RunRecord) -> Table {
    let mut counted: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (_, note) in record.notes.iter().filter(|(_, note)| note.kind == NoteKind::Options) {
        let (variant, task) =
            (note.variant.as_deref().unwrap_or("all variants"), note.task.as_deref().unwrap_or("options"));
        *counted.entry((variant, task, &note.text)).or_default() += 1;
    }
    let mut table = Table::words(["variant", "task", "options", "cells"]);
    let row = |((variant, task, text), times): (&(&str, &str, &str), &usize)| -> Vec<Cell> {
        let lines = text.lines().flat_map(broken).collect();
        row![*variant, *task, Cell { lines, ..Cell::default() }, times.to_string()]
    };
    table.rows = counted.iter().map(row).collect();
    table
}

/// Characters of a list without blanks that stand in one line.
const LINE: usize = 90;

/// Normalises blanks and breaks a long list without blanks, such as mount options, after a comma: terminals and
/// browsers break lines only at blanks.
fn broken(line: &str) -> Vec<String> {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.contains(' ') || line.len() <= LINE {
        return vec![line];
    }
    let mut lines = vec![String::new()];
    for option in line.split_inclusive(',') {
        match lines.last_mut().filter(|last| last.is_empty() || last.len() + option.len() <= LINE) {
            Some(last) => last.push_str(option),
            None => lines.push(option.into()),
        }
    }
    lines
}

fn orders(record: &RunRecord) -> Vec<String> {
    let mut rounds: BTreeMap<u32, Vec<(u32, usize)>> = BTreeMap::new();
    for cell in &record.cells {
        rounds.entry(cell.round).or_default().push((cell.position, cell.variant));
    }
    let line = |(round, mut cells): (u32, Vec<(u32, usize)>)| {
        cells.sort_unstable();
        let names: Vec<&str> =
            cells.iter().map(|(_, variant)| record.variants[*variant].name.as_str()).collect();
        format!("round {}: {}", round + 1, names.join(", "))
    };
    rounds.into_iter().map(line).collect()
}

/// The parts of the time of all cells; what no part names is called "other".
fn shares(record: &RunRecord) -> Vec<(String, String)> {
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, ns) in record.cells.iter().flat_map(|cell| &cell.spent) {
        *parts.entry(name).or_default() += ns;
    }
    let Some(total) = parts.remove("total").filter(|total| *total > 0) else { return vec![] };
    let other = total.saturating_sub(parts.values().sum());
    let show = |name: &str, ns: u64| {
        let seconds = crate::number::with_unit(ns as f64, fsarena_core::sample::Unit::Nanoseconds);
        (name.to_string(), format!("{} ({seconds})", percent(ns as f64 / total as f64)))
    };
    let mut rows: Vec<_> = parts.iter().map(|(name, ns)| show(name, *ns)).collect();
    rows.push(show("other", other));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_go_on_after_a_comma() {
        assert_eq!(broken("Inode size:\t  256"), ["Inode size: 256"]);
        let options = ["rw"; 60].join(",");
        let lines = broken(&options);
        assert_eq!(lines.concat(), options);
        assert!(lines.len() == 2 && lines[0].ends_with(',') && lines[0].len() <= LINE, "{lines:?}");
    }
}
