//! The head of a report: the question and the machine.

use crate::number::{plural, with_unit};
use crate::section::{Detail, Document, Report, Section};
use crate::{document::Part, report::images, words::listed};
use fsarena_core::event::{Note, NoteKind, OF_DIRECTORY};
use fsarena_core::factor::DIR;
use fsarena_core::host::{self, Host, Storage};
use fsarena_core::{names::distinct, plan::Backing, record::RunRecord, sample::Unit};

/// The title and what was asked.
pub const SECTION: Section = Section { chapter: None, from: Detail::Brief, add };

/// The most machines that are described.
pub const MACHINES: usize = 8;

/// Study, question, machine, rounds.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    let (record, plan) = (&report.record, &report.record.plan);
    document.heading(1, format!("{}: {}", plan.name, plan.title));
    let full = detail >= Detail::Full;
    if full {
        document.text(&plan.question);
    }
    for (cell, why) in record.violations() {
        document.loud(format!("{}, round {}: {why}", record.name(cell.variant), cell.round + 1));
    }
    if let Some(confounded) = confounded(record) {
        document.loud(confounded);
    }
    let rounds = report.analyses.first().map_or(0, |analysis| analysis.grid.rounds.len());
    let planned = format!(" of {} planned", plan.stop.rounds_here());
    let warmup = match plan.stop.warmup_here() {
        0 => String::new(),
        rounds => format!(" after {} of warm-up, which no figure counts", plural(rounds as usize, "round")),
    };
    let mut facts = vec![format!(
        "{}{}{warmup}, scale {}, seed {}, on {}",
        plural(rounds, "round"),
        if plan.stop.open_ended() { "" } else { &planned },
        plan.scale.name(),
        plan.seed,
        place(record)
    )];
    if full {
        facts.insert(0, format!("run {}, begun {}, fsarena {}", record.id, record.started, record.version));
        facts.extend(record.hosts.iter().take(MACHINES).map(machine));
        let more = record.hosts.len().saturating_sub(MACHINES);
        facts.extend((more > 0).then(|| format!("and {}", plural(more, "more machine"))));
        facts.extend(report.resolution.clone());
    }
    if let Some(shard) = plan.stop.shard {
        let of = plan.stop.rounds;
        document.loud(format!(
            "SHARD {shard}: a part of {of} rounds. Merge all shards first: fsarena merge RUN…"
        ));
    }
    if !record.status.complete {
        document.loud(format!("NOT COMPLETE: {}", record.status.why));
    }
    document.parts.push(Part::Facts(facts));
}

/// What differs between existing directories besides what the reader wants to compare; none where fsarena made the
/// filesystems itself.
fn confounded(record: &RunRecord) -> Option<String> {
    if record.plan.device.backing != Backing::Dir || record.variants.len() < 2 {
        return None;
    }
    let names: Vec<&str> = record.names().into_iter().take(MACHINES).collect();
    let described: Vec<String> = names.iter().map(|name| directory(record, name)).collect();
    let mount = |name: &&str| noted(record, name, OF_DIRECTORY[0]);
    let first = names.first().and_then(mount);
    Some(if first.is_some() && names.iter().all(|name| mount(name) == first) {
        format!(
            "These directories lie on one filesystem, so what differs between them is not the filesystem: {}.",
            described.join("; ")
        )
    } else {
        format!(
            "These directories are used as they are: they differ in age, fullness and fragmentation besides their \
             filesystems, and the figures cannot tell which of these matters: {}.",
            described.join("; ")
        )
    })
}

/// A directory under test: `/srv (ext4 on /dev/sda1, 61% full)`.
fn directory(record: &RunRecord, variant: &str) -> String {
    let facts: Vec<&str> = OF_DIRECTORY.into_iter().filter_map(|task| noted(record, variant, task)).collect();
    if facts.is_empty() { variant.into() } else { format!("{variant} ({})", facts.join(", ")) }
}

/// What was noted of a directory under test, without the options of its mount.
fn noted<'r>(record: &'r RunRecord, variant: &str, task: &str) -> Option<&'r str> {
    let mut notes = record.notes_of(NoteKind::Options).map(|(_, note)| note);
    let of = |note: &&Note| note.task.as_deref() == Some(task) && note.variant.as_deref() == Some(variant);
    notes.find(of).and_then(|note| note.text.split(": ").next())
}

/// The machine in one line.
fn machine(host: &Host) -> String {
    let fact = |name: &str| host.facts.get(name);
    let mut words = vec![format!("machine {}", host.hostname), format!("kernel {}", host.kernel)];
    words.extend(fact("cpu").cloned());
    words.extend(fact("cpu_threads").map(|count| format!("{count} CPU threads")));
    words.extend(fact("memory").map(|size| format!("memory {}", memory(size))));
    words.join(", ")
}

/// `24684092 kB`, as the kernel writes it, in a unit that can be read.
fn memory(size: &str) -> String {
    let kib = size.strip_suffix(" kB").and_then(|number| number.parse::<f64>().ok());
    kib.map_or(size.to_string(), |kib| with_unit(1024.0 * kib, Unit::Bytes))
}

/// What carried the filesystems: `loop images in /data on vda (ext4; Samsung SSD 980, firmware 3B4QFXO7)`.
pub fn place(record: &RunRecord) -> String {
    match (&record.plan.device.backing, images(record)) {
        (Backing::Loop { .. }, Some(images)) => format!("loop images in {images}"),
        (Backing::Loop { path: None }, None) => "loop images".into(),
        (Backing::Loop { path: Some(path) }, None) => format!("loop images in {}", path.display()),
        (Backing::Ram, _) => "loop images in memory".into(),
        (Backing::Zram, _) => "zram devices (compressed memory)".into(),
        (Backing::Erase { path, .. }, _) => {
            let disk = storage(record, host::ERASED).and_then(|storage| storage.disk());
            let disk = disk.map_or(String::new(), |disk| format!(" ({disk})"));
            format!("the device {}{disk}", path.display())
        }
        (Backing::Dir, _) => directories(record),
        (guest @ Backing::Guest(_), images) => {
            let kept = images.map_or(String::new(), |images| format!(", kept in {images}"));
            format!("image files in {}{kept}", guest.executor())
        }
    }
}

/// `existing directories: /a on sda1 (ext4), /b on sdb1 (xfs)`.
fn directories(record: &RunRecord) -> String {
    let levels = record.variants.iter().map(|variant| variant.level(DIR));
    let known = distinct(levels).into_iter().filter_map(|dir| storage(record, &host::directory(dir)));
    let known: Vec<String> = known.map(|storage| storage.to_string()).collect();
    if known.is_empty() {
        return "existing directories".into();
    }
    format!("existing directories: {}", listed(&known))
}

fn storage(record: &RunRecord, of: &str) -> Option<Storage> {
    record.hosts.iter().find_map(|host| Storage::read(&host.facts, of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::Variant;

    fn of_mounts(mounts: [&str; 2]) -> Option<String> {
        let mut record = RunRecord::default();
        record.plan.device.backing = Backing::Dir;
        for (name, mount) in ["/a", "/b"].into_iter().zip(mounts) {
            record.variants.push(Variant { name: name.into(), levels: Default::default() });
            let notes = [format!("{mount}: rw,relatime"), "61% full".into()];
            let notes = OF_DIRECTORY.into_iter().zip(notes);
            let note = |(task, text)| Note::new(NoteKind::Options, text).task(task).variant(name);
            record.notes.extend(notes.map(|one| (None, note(one))));
        }
        confounded(&record)
    }

    #[test]
    fn directories_confound_age_and_fullness_or_lie_on_one_filesystem() {
        let said = of_mounts(["ext4 on /dev/a", "xfs on /dev/b"]).unwrap();
        assert!(said.contains("age, fullness and fragmentation"), "{said}");
        assert!(said.ends_with(": /a (ext4 on /dev/a, 61% full); /b (xfs on /dev/b, 61% full)."), "{said}");
        let said = of_mounts(["ext4 on /dev/a"; 2]).unwrap();
        assert!(said.contains("lie on one filesystem"), "{said}");
    }
}
