//! What was asked, on which machine.

use crate::document::Document;
use crate::number::plural;
use crate::report::Report;
use fsarena_core::plan::Backing;

/// Study, question, machine, blocks.
pub fn add(document: &mut Document, report: &Report) {
    let (record, plan) = (&report.record, &report.record.plan);
    document.heading(1, format!("{}: {}", plan.name, plan.title));
    document.text(&plan.question);
    let blocks = report.analyses.first().map_or(0, |analysis| analysis.blocks.len());
    let mut facts = vec![
        format!("run {}, begun {}, fsarena {}", record.id, record.started, record.version),
        format!(
            "{} of {} planned, scale {}, seed {}, on {}",
            plural(blocks, "block"),
            plan.stop.blocks,
            plan.scale.name(),
            plan.seed,
            backing(&plan.device.backing)
        ),
    ];
    for host in &record.hosts {
        let named = ["cpu", "cpu_threads", "memory"];
        let known = named
            .iter()
            .filter_map(|fact| Some((fact, host.facts.get(*fact)?)))
            .map(|(name, fact)| format!(", {name} {fact}"));
        facts.push(format!("machine {}, kernel {}{}", host.hostname, host.kernel, known.collect::<String>()));
    }
    facts.extend(report.resolution.clone());
    if !record.status.complete {
        facts.push(format!("NOT COMPLETE: {}", record.status.why));
    }
    document.list(facts);
}

/// What carries the filesystems, in words.
pub fn backing(backing: &Backing) -> String {
    match backing {
        Backing::Loop { path: None } => "loop images".into(),
        Backing::Loop { path: Some(path) } => format!("loop images in {}", path.display()),
        Backing::Ram => "loop images in memory".into(),
        Backing::Erase { path, .. } => format!("the device {}", path.display()),
        Backing::Dir => "existing directories".into(),
    }
}
