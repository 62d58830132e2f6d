//! How it was measured: everything needed to repeat the run.

use super::head::{MACHINES, place};
use crate::document::{Cell, Part, Table, row};
use crate::number::{percent, with_unit};
use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_core::event::SpentOn;
use fsarena_core::record::RunRecord;
use fsarena_core::{event::NoteKind, sample::Unit};
use std::collections::BTreeMap;

/// Everything needed to repeat the run.
pub const SECTION: Section = Section::full(Chapter::Method, add);

/// Machine, options, order, time spent and plan.
fn add(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    document.heading(3, "The run");
    document.table(Table::pairs(["run", ""], run(record)));
    for host in record.hosts.iter().take(MACHINES) {
        document.heading(3, format!("Machine {}", host.hostname));
        let facts = [("kernel", &host.kernel), ("boot", &host.boot_id)];
        let facts = facts.into_iter().chain(host.facts.iter().map(|(key, value)| (key.as_str(), value)));
        document.table(Table::pairs(["fact", ""], facts.map(|(key, value)| (key, value.clone()))));
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
}

fn run(record: &RunRecord) -> [(&'static str, String); 12] {
    let plan = &record.plan;
    let status = if record.status.complete { "complete" } else { "not complete" };
    let idle = format!(
        "at most {} dirty or in writeback and {}% of time stalled on I/O, for at most {} s",
        plan.idle.dirty, plan.idle.io_pressure_percent, plan.idle.timeout_s
    );
    [
        ("id", record.id.clone()),
        ("fsarena", record.version.clone()),
        ("begun", record.started.clone()),
        ("ended", record.ended.clone()),
        ("status", format!("{status}: {}", record.status.why)),
        ("seed", plan.seed.to_string()),
        ("filesystems are on", place(record)),
        ("idle means", idle),
        ("tasks that began on a busy machine", counted(record, NoteKind::IdleTimeout)),
        ("rounds dropped", counted(record, NoteKind::Dropped)),
        ("fairness warnings", counted(record, NoteKind::Fairness)),
        ("commands", format!("{}; each is in command.log of the run", record.commands)),
    ]
}

/// How often something was noted; that it never was says something too.
fn counted(record: &RunRecord, kind: NoteKind) -> String {
    match record.notes_of(kind).count() {
        0 => "none".into(),
        count => count.to_string(),
    }
}

/// One row for each variant and task with options, which may take several lines, and in how many cells they were so.
fn options(record: &RunRecord) -> Table {
    let mut counted: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (_, note) in record.notes_of(NoteKind::Options) {
        let variant = note.variant.as_deref().unwrap_or("all variants");
        let task = note.task.as_deref().unwrap_or("options");
        *counted.entry((variant, task, &note.text)).or_default() += 1;
    }
    let row = |((variant, task, text), times): ((&str, &str, &str), usize)| {
        let lines = text.lines().flat_map(broken).collect();
        row![variant, task, Cell { lines, ..Cell::default() }, times.to_string()]
    };
    Table::words(["variant", "task", "options", "cells"]).with(counted.into_iter().map(row))
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
        let names: Vec<&str> = cells.iter().map(|(_, variant)| record.name(*variant)).collect();
        format!("round {}: {}", round + 1, names.join(", "))
    };
    rounds.into_iter().map(line).collect()
}

/// The parts of the time of all cells; what no part names is called "other".
fn shares(record: &RunRecord) -> Vec<(&str, String)> {
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    for (part, ns) in record.cells.iter().flat_map(|cell| &cell.spent) {
        *parts.entry(part.name()).or_default() += ns;
    }
    let Some(total) = parts.remove(SpentOn::Total.name()).filter(|total| *total > 0) else { return vec![] };
    let other = total.saturating_sub(parts.values().sum());
    let show = |ns: u64| {
        let seconds = with_unit(ns as f64, Unit::Nanoseconds);
        format!("{} ({seconds})", percent(ns as f64 / total as f64))
    };
    parts.into_iter().chain([("other", other)]).map(|(name, ns)| (name, show(ns))).collect()
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
