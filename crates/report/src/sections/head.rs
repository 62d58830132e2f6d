//! The head of a report: the question and the machine.

use crate::number::{plural, with_unit};
use crate::section::{Detail, Document, Report, Section};
use crate::{document::Part, report::images, words::listed};
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
