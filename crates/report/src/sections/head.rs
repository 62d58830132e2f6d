//! The sections with the title and the main facts of a run, everything needed to repeat it, and what it did not test.

use crate::advice::MERGE_COMMAND;
use crate::document::{Cell, Detail, Document, Part, Table, row};
use crate::number::{percent, plural, with_unit};
use crate::phrases::{join_with_and, shorten_list, shorten_list_to};
use crate::report::{Report, image_storage};
use fsarena_core::event::{Activity, DIRECTORY_NOTES, MOUNT_NOTE, Note, NoteKind};
use fsarena_core::factor::{AGE, DIR, FILL, FS, MKFS, MOUNT, OPTIONS, age};
use fsarena_core::host::{self, Host, Storage};
use fsarena_core::observations::{Grid, RoundsByImage};
use fsarena_core::{metric::reading, names::distinct, plan::Backing, record::RunRecord, sample::Unit};
use std::collections::BTreeMap;

/// The largest number of machines, or of directories in a warning, that a report describes.
const MAX_MACHINES: usize = 8;

/// Adds the title, the question, warnings, and the facts: rounds, scale, seed, storage and machines.
pub fn add_head(document: &mut Document, report: &Report, detail: Detail) {
    let (record, plan) = (&report.record, &report.record.plan);
    document.heading(1, format!("{}: {}", plan.name, plan.title));
    let is_full = detail >= Detail::Full;
    if is_full {
        document.text(&plan.question);
    }
    for (cell, why) in record.violations() {
        document.warning(format!("{}, round {}: {why}", record.variant_name(cell.variant), cell.round + 1));
    }
    let debug_kernels: Vec<&Note> = record.notes_of(NoteKind::DebugKernel).map(|(_, note)| note).collect();
    for note in distinct(debug_kernels) {
        document.warning(note.text.as_str());
    }
    if let Some(warning) = existing_directories_warning(record) {
        document.warning(warning);
    }
    let facts = main_facts(report, is_full);
    if let Some(shard) = plan.stop.shard {
        let all = plan.stop.rounds;
        document.warning(format!("SHARD {shard}: a part of {all} rounds. Merge all shards first: {MERGE_COMMAND}"));
    }
    if !record.status.complete {
        document.warning(format!("NOT COMPLETE: {}", record.status.why));
    }
    document.parts.push(Part::Facts(facts));
}

/// The main facts of a run: rounds, scale, seed and storage; for a full report also its id, its machines, and the
/// smallest detectable difference.
fn main_facts(report: &Report, is_full: bool) -> Vec<String> {
    let (record, plan) = (&report.record, &report.record.plan);
    let grid = report.analyses.first().map(|analysis| &analysis.grid);
    let rounds = grid.map_or(0, |grid| grid.by_round().rounds.len());
    let planned = format!(" of {} planned", plan.stop.rounds_here());
    let warmup = match plan.stop.warmup_here() {
        0 => String::new(),
        rounds => format!(" after {} of warm-up, which no figure counts", plural(rounds as usize, "round")),
    };
    let mut facts = vec![format!(
        "{}{}{warmup}, scale {}, seed {}, on {}",
        plural(rounds, "round"),
        if plan.stop.is_open_ended() { "" } else { &planned },
        plan.scale.name(),
        plan.seed,
        describe_storage(record)
    )];
    facts.extend(grid.and_then(Grid::images).map(describe_images));
    if is_full {
        facts.insert(0, format!("run {}, begun {}, fsarena {}", record.id, record.started, record.version));
        facts.extend(record.hosts.iter().take(MAX_MACHINES).map(describe_machine));
        facts.extend(omitted_machines_note(record));
        facts.extend(report.resolution_sentence.clone());
    }
    facts
}

/// The number of machines after the first [`MAX_MACHINES`]; `None` if there are no more.
fn omitted_machines_note(record: &RunRecord) -> Option<String> {
    let count = record.hosts.len().saturating_sub(MAX_MACHINES);
    (count > 0).then(|| format!("and {}", plural(count, "more machine")))
}

/// The aged images of a run, and how they affect its figures.
fn describe_images(images: &RoundsByImage) -> String {
    let rounds = match images.complete_passes {
        1 => "one round".to_string(),
        passes => format!("{passes} rounds"),
    };
    let left_out_note = match images.uncounted_rounds {
        0 => String::new(),
        rounds => format!("; {} of an incomplete pass count nowhere", plural(rounds, "round")),
    };
    format!(
        "{}, {rounds} on each: each image is a random sample of aged filesystems, so intervals are over images{left_out_note}",
        plural(images.image_count, "aged image")
    )
}

/// The warning that existing directories differ in more than their filesystem. `None` if fsarena created the filesystems
/// itself.
fn existing_directories_warning(record: &RunRecord) -> Option<String> {
    if record.plan.device.backing != Backing::Dir || record.variants.len() < 2 {
        return None;
    }
    let names = record.variant_names();
    let directories = names.iter().map(|name| describe_directory(record, name)).collect();
    let directories = shorten_list_to(directories, MAX_MACHINES, "directories").join("; ");
    let mount = |name: &&str| directory_note(record, name, MOUNT_NOTE);
    let first_mount = names.first().and_then(mount);
    Some(if first_mount.is_some() && names.iter().all(|name| mount(name) == first_mount) {
        format!(
            "These directories lie on one filesystem, so their differences are not those of filesystems: {directories}."
        )
    } else {
        format!(
            "These directories are used as they are: they differ in age, fullness and fragmentation besides their \
             filesystems, and the figures do not show which of these matters: {directories}."
        )
    })
}

/// A directory under test: `/srv (ext4 on /dev/sda1, 61% full)`.
fn describe_directory(record: &RunRecord, variant: &str) -> String {
    let facts: Vec<&str> = DIRECTORY_NOTES.into_iter().filter_map(|tag| directory_note(record, variant, tag)).collect();
    if facts.is_empty() { variant.into() } else { format!("{variant} ({})", facts.join(", ")) }
}

/// The text of a note about a directory under test, without the mount options after the colon. `tag` is one of
/// [`DIRECTORY_NOTES`]; the note has it instead of a task.
fn directory_note<'r>(record: &'r RunRecord, variant: &str, tag: &str) -> Option<&'r str> {
    let mut notes = record.notes_of(NoteKind::Options).map(|(_, note)| note);
    let matches = |note: &&Note| note.task.as_deref() == Some(tag) && note.variant.as_deref() == Some(variant);
    notes.find(matches).and_then(|note| note.text.split(": ").next())
}

/// The machine in one line.
fn describe_machine(host: &Host) -> String {
    let fact = |name: &str| host.facts.get(name);
    let mut facts = vec![format!("machine {}", host.hostname), format!("kernel {}", host.kernel)];
    facts.extend(fact("cpu").cloned());
    facts.extend(fact("cpu_threads").map(|count| format!("{count} CPU threads")));
    facts.extend(fact("memory").map(|size| format!("memory {}", format_memory_size(size))));
    facts.join(", ")
}

/// Formats a memory size that the kernel states as `24684092 kB` in a readable unit.
fn format_memory_size(size: &str) -> String {
    let kib = size.strip_suffix(" kB").and_then(|number| number.parse::<f64>().ok());
    kib.map_or(size.to_string(), |kib| with_unit(1024.0 * kib, Unit::Bytes))
}

/// The backing storage: `loop images in /data on vda (ext4; Samsung SSD 980, firmware 3B4QFXO7)`.
pub fn describe_storage(record: &RunRecord) -> String {
    match (&record.plan.device.backing, image_storage(record)) {
        (Backing::Loop { .. }, Some(images)) => format!("loop images in {images}"),
        (Backing::Loop { path: None }, None) => "loop images".into(),
        (Backing::Loop { path: Some(path) }, None) => format!("loop images in {}", path.display()),
        (Backing::Ram, _) => "loop images in memory".into(),
        (Backing::Zram, _) => "zram devices (compressed memory)".into(),
        (Backing::Erase { path, .. }, _) => {
            let disk = find_storage(record, host::ERASED_PREFIX).and_then(|storage| storage.disk_label());
            let disk = disk.map_or(String::new(), |disk| format!(" ({disk})"));
            format!("the device {}{disk}", path.display())
        }
        (Backing::Dir, _) => describe_directories(record),
        (guest @ Backing::Guest(_), images) => {
            let place = images.map_or(String::new(), |images| format!(", kept in {images}"));
            format!("image files in {}{place}", guest.executor())
        }
    }
}

/// The directories under test with their devices: `existing directories: /a on sda1 (ext4), /b on sdb1 (xfs)`.
fn describe_directories(record: &RunRecord) -> String {
    let levels = record.variants.iter().map(|variant| variant.level(DIR));
    let storages = distinct(levels).into_iter().filter_map(|dir| find_storage(record, &host::directory_prefix(dir)));
    let storages: Vec<String> = storages.map(|storage| storage.to_string()).collect();
    if storages.is_empty() {
        return "existing directories".into();
    }
    format!("existing directories: {}", join_with_and(&storages))
}

/// The storage in the host facts with this prefix; `None` if no host has these facts.
fn find_storage(record: &RunRecord, prefix: &str) -> Option<Storage> {
    record.hosts.iter().find_map(|host| Storage::from_facts(&host.facts, prefix))
}

/// Adds the facts of the run, the machines, the options, the order of the variants, the time spent, and the plan.
pub fn add_circumstances(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    document.heading(3, "The run");
    document.table(Table::of_pairs(["run", ""], run_facts(record)));
    for host in record.hosts.iter().take(MAX_MACHINES) {
        document.heading(3, format!("Machine {}", host.hostname));
        let facts = [("kernel", &host.kernel), ("boot", &host.boot_id)];
        let facts = facts.into_iter().chain(host.facts.iter().map(|(key, value)| (key.as_str(), value)));
        document.table(Table::of_pairs(["fact", ""], facts.map(|(key, value)| (key, value.clone()))));
    }
    if let Some(note) = omitted_machines_note(record) {
        document.text(note);
    }
    let options = option_table(record);
    if !options.rows.is_empty() {
        document.heading(3, "Options, as mkfs and the kernel report them");
        document.table(options);
    }
    document.heading(3, "Order of the variants in every round");
    document.list(variant_orders(record));
    document.heading(3, "Where the time went");
    document.table(Table::of_pairs(["part", "share"], time_shares(record)));
    document.heading(3, "The plan, as resolved");
    document.parts.push(Part::Code("toml", report.plan_toml.clone()));
}

/// The facts of the run: their names and values.
fn run_facts(record: &RunRecord) -> [(&'static str, String); 12] {
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
        ("filesystems are on", describe_storage(record)),
        ("idle means", idle),
        ("tasks that began on a busy machine", note_count(record, NoteKind::IdleTimeout)),
        ("rounds dropped", note_count(record, NoteKind::Dropped)),
        ("fairness warnings", note_count(record, NoteKind::Fairness)),
        ("commands", format!("{}; each is in command.log of the run", record.command_count)),
    ]
}

/// The number of notes of a kind; `none` for 0.
fn note_count(record: &RunRecord, kind: NoteKind) -> String {
    match record.notes_of(kind).count() {
        0 => "none".into(),
        count => count.to_string(),
    }
}

/// A table of the options that mkfs and the kernel reported, by variant and task, with the number of cells that had them.
fn option_table(record: &RunRecord) -> Table {
    let mut cell_counts: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for (_, note) in record.notes_of(NoteKind::Options) {
        let variant = note.variant.as_deref().unwrap_or("all variants");
        let task = note.task.as_deref().unwrap_or("options");
        *cell_counts.entry((variant, task, &note.text)).or_default() += 1;
    }
    let row = |((variant, task, text), count): ((&str, &str, &str), usize)| {
        let lines = text.lines().flat_map(break_options).collect();
        row![variant, task, Cell { lines, ..Cell::default() }, count.to_string()]
    };
    Table::of_words(["variant", "task", "options", "cells"]).with_rows(cell_counts.into_iter().map(row))
}

/// The largest length of a line of a list without blanks, in bytes.
const MAX_LINE_BYTES: usize = 90;

/// Replaces each run of blanks by one, and breaks a long list without blanks, such as mount options, after a comma. Terminals
/// and browsers break lines only at blanks.
fn break_options(line: &str) -> Vec<String> {
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.contains(' ') || line.len() <= MAX_LINE_BYTES {
        return vec![line];
    }
    let mut lines = vec![String::new()];
    for option in line.split_inclusive(',') {
        match lines.last_mut().filter(|last| last.is_empty() || last.len() + option.len() <= MAX_LINE_BYTES) {
            Some(last) => last.push_str(option),
            None => lines.push(option.into()),
        }
    }
    lines
}

/// For each round a line with its variants in the order in which they ran.
fn variant_orders(record: &RunRecord) -> Vec<String> {
    let mut rounds: BTreeMap<u32, Vec<(u32, usize)>> = BTreeMap::new();
    for cell in &record.cells {
        rounds.entry(cell.round).or_default().push((cell.position, cell.variant));
    }
    let line = |(round, mut cells): (u32, Vec<(u32, usize)>)| {
        cells.sort_unstable();
        let names: Vec<&str> = cells.iter().map(|(_, variant)| record.variant_name(*variant)).collect();
        format!("round {}: {}", round + 1, names.join(", "))
    };
    rounds.into_iter().map(line).collect()
}

/// The name of each activity with its share of the total time of all cells. The last one, "other", has the rest.
fn time_shares(record: &RunRecord) -> Vec<(&str, String)> {
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    for (part, ns) in record.cells.iter().flat_map(|cell| &cell.spent) {
        *parts.entry(part.name()).or_default() += ns;
    }
    let Some(total) = parts.remove(Activity::Total.name()).filter(|total| *total > 0) else { return vec![] };
    let other = total.saturating_sub(parts.values().sum());
    let format_share = |ns: u64| {
        let seconds = with_unit(ns as f64, Unit::Nanoseconds);
        format!("{} ({seconds})", percent(ns as f64 / total as f64))
    };
    parts.into_iter().chain([("other", other)]).map(|(name, ns)| (name, format_share(ns))).collect()
}

/// A task with at least this many flushes of the device's cache syncs often. Every task has one flush at its end.
const MIN_SYNCING_FLUSHES: f64 = 10.0;

/// Adds a sentence with what the run did not test. Adds nothing if the run compared no filesystems, or tested everything that
/// the sentence could name.
pub fn add_untested(document: &mut Document, report: &Report, _: Detail) {
    let record = &report.record;
    let compares_filesystems = record.variants.iter().any(|variant| !variant.level(FS).is_empty());
    if record.samples.is_empty() || !compares_filesystems {
        return;
    }
    let mut untested = vec![];
    let not_compared: Vec<String> = record.not_compared().iter().map(ToString::to_string).collect();
    if !not_compared.is_empty() {
        untested
            .push(format!("{}, which did not fit in the budget", shorten_list(not_compared, "variants").join(", ")));
    }
    if ![OPTIONS, MKFS, MOUNT].into_iter().any(|factor| record.varies(factor)) {
        untested.push("other mkfs and mount options".to_string());
    }
    if !syncs_often(record) {
        untested.push("work that syncs often".into());
    }
    let is_filled = record.variants.iter().any(|variant| !variant.level(FILL).is_empty());
    let is_aged = record.variants.iter().any(|variant| matches!(age::parse_age(variant.level(AGE)), Ok(Some(_))));
    let untested_states = match (is_aged, is_filled) {
        (true, true) => None,
        (true, false) => Some("a full filesystem"),
        (false, true) => Some("an aged filesystem"),
        (false, false) => Some("an aged or full filesystem"),
    };
    untested.extend(untested_states.map(String::from));
    if !matches!(record.plan.device.backing, Backing::Erase { .. } | Backing::Dir) {
        untested.push(format!("another device: the filesystems were on {}", describe_storage(record)));
    }
    if !untested.is_empty() {
        document.text(format!("Not tested: {}.", untested.join("; ")));
    }
}

/// Whether any task syncs often while it runs. Also true if the device does not count its flushes.
fn syncs_often(record: &RunRecord) -> bool {
    let Some((_, flushes)) = record.metric(reading::DEVICE_FLUSHES) else { return true };
    flushes.iter().all(|count| count.is_nan()) || flushes.iter().any(|count| *count >= MIN_SYNCING_FLUSHES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::Variant;

    /// The warning for directories with these mounts: /a, /b, and so on.
    fn warning_for_mounts(mounts: &[&str]) -> Option<String> {
        let mut record = RunRecord::default();
        record.plan.device.backing = Backing::Dir;
        for (letter, mount) in ('a'..).zip(mounts) {
            let name = format!("/{letter}");
            record.variants.push(Variant { name: name.clone(), levels: Default::default() });
            let notes = [format!("{mount}: rw,relatime"), "61% full".into()];
            let notes = DIRECTORY_NOTES.into_iter().zip(notes);
            let note = |(task, text)| Note::new(NoteKind::Options, text).task(task).variant(name.as_str());
            record.notes.extend(notes.map(|task_and_text| (None, note(task_and_text))));
        }
        existing_directories_warning(&record)
    }

    #[test]
    fn existing_directories_get_a_warning() {
        let warning = warning_for_mounts(&["ext4 on /dev/a", "xfs on /dev/b"]).unwrap();
        assert!(warning.contains("age, fullness and fragmentation"), "{warning}");
        assert!(warning.ends_with(": /a (ext4 on /dev/a, 61% full); /b (xfs on /dev/b, 61% full)."), "{warning}");
        let warning = warning_for_mounts(&["ext4 on /dev/a"; 2]).unwrap();
        assert!(warning.contains("lie on one filesystem"), "{warning}");
        // The warning names eight directories at most, but all count.
        let ninth_differs = [&["ext4 on /dev/a"; 8][..], &["xfs on /dev/b"][..]].concat();
        let warning = warning_for_mounts(&ninth_differs).unwrap();
        assert!(warning.contains("age, fullness and fragmentation"), "{warning}");
        assert!(warning.ends_with("; and 2 more directories."), "{warning}");
    }

    #[test]
    fn machines_after_the_eighth_are_counted() {
        let note_for = |count: usize| {
            omitted_machines_note(&RunRecord { hosts: vec![Host::default(); count], ..RunRecord::default() })
        };
        assert_eq!((note_for(8), note_for(10)), (None, Some("and 2 more machines".into())));
    }

    #[test]
    fn long_lists_break_after_a_comma() {
        assert_eq!(break_options("Inode size:\t  256"), ["Inode size: 256"]);
        let options = ["rw"; 60].join(",");
        let lines = break_options(&options);
        assert_eq!(lines.concat(), options);
        assert!(lines.len() == 2 && lines[0].ends_with(',') && lines[0].len() <= MAX_LINE_BYTES, "{lines:?}");
    }
}
