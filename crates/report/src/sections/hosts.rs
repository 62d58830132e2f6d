//! The hosts of a merged run: whether they give the same answer.

use super::{Detail, Section};
use crate::document::{Chapter, Document, Table, row};
use crate::report::Report;
use fsarena_core::event::{NoteKind, Outcome};
use fsarena_core::number::{beside, plural};
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::composites;
use fsarena_stats::hosts::{Hosts, compare};
use fsarena_stats::pairs::log_ratios;
use fsarena_stats::ratio::Ratio;
use std::collections::{BTreeMap, BTreeSet};

/// What the hosts say.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// The most hosts that are shown and named.
const SHOWN: usize = 30;

/// The rounds of a run by host.
struct Strata<'a> {
    names: Vec<&'a str>,
    /// The host of each column.
    host: Vec<usize>,
    /// For each variant other than the reference: its index, and its log ratio to the reference by column.
    pairs: Vec<(usize, Vec<f64>)>,
    reference: usize,
}

fn parts(report: &Report, _: Detail) -> Document {
    let mut document = Document::default();
    let Some(strata) = strata(report) else { return document };
    let d: Vec<Vec<f64>> = strata.pairs.iter().map(|(_, d)| d.clone()).collect();
    let hosts = compare(&d, &strata.host, strata.names.len(), report.record.plan.seed);
    document.heading(3, "Does the answer differ by host?");
    document.text(verdict(&strata, &hosts));
    let odd: &[usize] = if let Hosts::Differ(odd) = &hosts { odd } else { &[] };
    document.list(odd.iter().take(SHOWN).flat_map(|host| without(report, &strata, *host)).collect());
    document.table(table(report, &strata, odd));
    if strata.names.len() > SHOWN {
        document.text(format!("{} more hosts are not shown.", strata.names.len() - SHOWN));
    }
    document
}

/// The hosts of the rounds; none where all are of one.
fn strata(report: &Report) -> Option<Strata<'_>> {
    let record = &report.record;
    let analysis = report.analyses.first()?;
    let names: Vec<&str> =
        record.hosts.iter().map(|host| host.hostname.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    if names.len() < 2 || !record.plan.device.backing.ranks() {
        return None;
    }
    let name = |cell: &fsarena_core::record::CellRecord| record.hosts[cell.host].hostname.as_str();
    let of: BTreeMap<u32, &str> = record.cells.iter().map(|cell| (cell.round, name(cell))).collect();
    let host = |round: &u32| names.binary_search(of.get(round)?).ok();
    let host: Vec<usize> = analysis.grid.rounds.iter().map(host).collect::<Option<_>>()?;
    let overall = analysis.overall.as_ref()?;
    let comparison = overall.total.as_ref().map_or(&overall.geometric.comparison, |total| &total.comparison);
    let reference = comparison.best()?;
    let (_, values) = composites(record, &analysis.metric.id).ok()?;
    let pair = |variant: usize| -> (usize, Vec<f64>) {
        let rounds = values[reference].iter().zip(&values[variant]);
        let ratio = |(a, b): (&f64, &f64)| log_ratios(&[*a], &[*b]).d.first().copied().unwrap_or(f64::NAN);
        (variant, rounds.map(ratio).collect())
    };
    let others = comparison.order.iter().filter(|variant| **variant != reference);
    let pairs: Vec<_> = others.map(|variant| pair(*variant)).collect();
    (!pairs.is_empty()).then_some(Strata { names, host, pairs, reference })
}

/// The answer to the question, in a sentence.
fn verdict(strata: &Strata, hosts: &Hosts) -> String {
    let count = plural(strata.names.len(), "host");
    match hosts {
        Hosts::TooFew => format!("Inconclusive: {count} have too few rounds each to compare them."),
        Hosts::Alike => format!("No significant difference between {count}."),
        Hosts::Differ(odd) => {
            let names: Vec<&str> = odd.iter().take(SHOWN).map(|host| strata.names[*host]).collect();
            let more = if odd.len() > SHOWN { ", …" } else { "" };
            format!(
                "Yes: of {count}, {}{more} differ significantly from the others (5% for all together). All rounds of all \
                 hosts are in the answer.",
                names.join(", ")
            )
        }
    }
}

/// The ratios with all hosts, and without one that differs.
fn without(report: &Report, strata: &Strata, host: usize) -> Vec<String> {
    let line = |(variant, d): &(usize, Vec<f64>)| {
        let rest = |keep: &dyn Fn(usize) -> bool| {
            let kept = d.iter().zip(&strata.host).filter(|(d, host)| !d.is_nan() && keep(**host));
            Ratio::of(kept.map(|(d, _)| *d).collect())
        };
        let said = |ratio: Ratio| fsarena_core::number::ratio(ratio.value, ratio.low, ratio.high);
        let (all, others) = (rest(&|_| true)?, rest(&|other| other != host)?);
        let name = |variant: usize| &report.record.variants[variant].name;
        Some(format!(
            "without {}: {}/{} {}, with all hosts {}",
            strata.names[host],
            name(*variant),
            name(strata.reference),
            said(others),
            said(all)
        ))
    };
    strata.pairs.iter().take(SHOWN).filter_map(line).collect()
}

/// What each host measured, those that differ first.
fn table(report: &Report, strata: &Strata, odd: &[usize]) -> Table {
    let record = &report.record;
    let name = |variant: usize| record.variants[variant].name.clone();
    let ratios =
        strata.pairs.iter().map(|(variant, _)| format!("{}/{}", name(*variant), name(strata.reference)));
    let mut table = Table::figures(
        ["host", "rounds"]
            .map(String::from)
            .into_iter()
            .chain(ratios)
            .chain(["failed cells".into(), "began while busy".into()]),
    );
    let troubles = troubles(record);
    let rest = (0..strata.names.len()).filter(|host| !odd.contains(host));
    for host in odd.iter().copied().chain(rest).take(SHOWN) {
        let rounds = strata.host.iter().filter(|of| **of == host).count();
        let mut row = row![strata.names[host], rounds.to_string()];
        for (_, d) in &strata.pairs {
            let own = d.iter().zip(&strata.host).filter(|(d, of)| **of == host && !d.is_nan());
            let ratio = Ratio::of(own.map(|(d, _)| *d).collect());
            row.push(ratio.map_or("–".into(), |ratio| beside(ratio.value, &[1.0])).into());
        }
        let (failed, busy) = troubles.get(strata.names[host]).copied().unwrap_or_default();
        row.extend([failed.to_string().into(), busy.to_string().into()]);
        table.rows.push(if odd.contains(&host) {
            row.into_iter().map(|cell| cell.strong()).collect()
        } else {
            row
        });
    }
    table
}

/// Cells that failed and tasks that began on a busy machine, by host.
fn troubles(record: &RunRecord) -> BTreeMap<&str, (usize, usize)> {
    let mut troubles: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut of_round: BTreeMap<u32, &str> = BTreeMap::new();
    for cell in &record.cells {
        let name = record.hosts[cell.host].hostname.as_str();
        of_round.insert(cell.round, name);
        troubles.entry(name).or_default().0 += usize::from(matches!(cell.outcome, Outcome::Failed { .. }));
    }
    for (round, note) in &record.notes {
        if let (NoteKind::IdleTimeout, Some(name)) = (note.kind, round.and_then(|round| of_round.get(&round)))
        {
            troubles.entry(name).or_default().1 += 1;
        }
    }
    troubles
}
