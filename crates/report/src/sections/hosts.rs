//! The hosts of a merged run: whether they give the same answer.

use crate::document::{Cell, Table, labelled_row};
use crate::number::{beside, plural, ratio};
use crate::section::{Chapter, Detail, Document, Report, Section};
use fsarena_core::event::{NoteKind, Outcome};
use fsarena_core::observations::combine_tasks;
use fsarena_core::record::RunRecord;
use fsarena_stats::hosts::{Hosts, compare};
use fsarena_stats::ratio::{Ratio, log_ratios};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the hosts of a merged run give the same answer.
pub const HOSTS: Section = Section::new(Chapter::Answer, add_hosts);

/// The most hosts that are shown and named.
const MAX_HOSTS: usize = 30;

/// The rounds of a run by host.
struct Strata<'a> {
    names: Vec<&'a str>,
    /// The host of each column.
    host: Vec<usize>,
    /// For each variant other than the reference: `xfs/ext4`, and its log ratio to the reference by column.
    pairs: Vec<(String, Vec<f64>)>,
}

impl Strata<'_> {
    /// The ratio on some hosts.
    fn ratio(&self, d: &[f64], keep: impl Fn(usize) -> bool) -> Option<Ratio> {
        let kept = d.iter().zip(&self.host).filter(|(d, host)| !d.is_nan() && keep(**host));
        Ratio::of(kept.map(|(d, _)| *d).collect())
    }
}

fn add_hosts(document: &mut Document, report: &Report, _: Detail) {
    let Some(strata) = strata(report) else { return };
    let d: Vec<Vec<f64>> = strata.pairs.iter().map(|(_, d)| d.clone()).collect();
    let hosts = compare(&d, &strata.host, strata.names.len(), report.record.plan.seed);
    document.heading(3, "Does the answer differ by host?");
    document.text(hosts_verdict(&strata, &hosts));
    let odd: &[usize] = if let Hosts::Differ(odd) = &hosts { odd } else { &[] };
    document.list(odd.iter().take(MAX_HOSTS).flat_map(|host| without(&strata, *host)).collect());
    document.table(host_table(&report.record, &strata, odd));
    if strata.names.len() > MAX_HOSTS {
        document.text(format!("{} more hosts are not shown.", strata.names.len() - MAX_HOSTS));
    }
}

/// The hosts of the rounds; `None` if all are of one.
fn strata(report: &Report) -> Option<Strata<'_>> {
    let record = &report.record;
    let analysis = report.analyses.first()?;
    let names: BTreeSet<&str> = record.hosts.iter().map(|host| host.hostname.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.len() < 2 {
        return None;
    }
    let of = by_round(record);
    let host = |round: &u32| names.binary_search(of.get(round)?).ok();
    let host: Vec<usize> = analysis.grid.rounds.iter().map(host).collect::<Option<_>>()?;
    let comparison = &analysis.overall.as_ref()?.main().comparison;
    let reference = comparison.best()?;
    let (_, values) = combine_tasks(record, &analysis.metric.id).ok()?;
    let pair = |variant: &usize| {
        let rounds = values[reference].iter().zip(&values[*variant]);
        let ratio = |(a, b): (&f64, &f64)| log_ratios(&[*a], &[*b]).d.first().copied().unwrap_or(f64::NAN);
        (format!("{}/{}", record.name(*variant), record.name(reference)), rounds.map(ratio).collect())
    };
    let others = comparison.order.iter().filter(|variant| **variant != reference);
    let pairs: Vec<_> = others.map(pair).collect();
    (!pairs.is_empty()).then_some(Strata { names, host, pairs })
}

/// The host of each round.
fn by_round(record: &RunRecord) -> BTreeMap<u32, &str> {
    record.cells.iter().map(|cell| (cell.round, record.hosts[cell.host].hostname.as_str())).collect()
}

/// The answer to the question, in a sentence.
fn hosts_verdict(strata: &Strata, hosts: &Hosts) -> String {
    let count = plural(strata.names.len(), "host");
    match hosts {
        Hosts::TooFew => format!("Inconclusive: {count} have too few rounds each to compare them."),
        Hosts::Alike => format!("No significant difference between {count}."),
        Hosts::Differ(odd) => {
            let names: Vec<&str> = odd.iter().take(MAX_HOSTS).map(|host| strata.names[*host]).collect();
            let more = if odd.len() > MAX_HOSTS { ", …" } else { "" };
            format!(
                "Yes: of {count}, {}{more} differ significantly from the others (5% for all together). All rounds of all \
                 hosts are in the answer.",
                names.join(", ")
            )
        }
    }
}

/// The ratios with all hosts, and without one that differs.
fn without(strata: &Strata, host: usize) -> Vec<String> {
    let line = |(name, d): &(String, Vec<f64>)| {
        let (all, others) = (strata.ratio(d, |_| true)?, strata.ratio(d, |other| other != host)?);
        let said = |of: Ratio| ratio(of.value, of.low, of.high);
        let host = strata.names[host];
        Some(format!("without {host}: {name} {}, with all hosts {}", said(others), said(all)))
    };
    strata.pairs.iter().take(MAX_HOSTS).filter_map(line).collect()
}

/// A row for each host; those that differ come first.
fn host_table(record: &RunRecord, strata: &Strata, odd: &[usize]) -> Table {
    let ratios = strata.pairs.iter().map(|(name, _)| name.as_str());
    let header = ["host", "rounds"].into_iter().chain(ratios).chain(["failed cells", "began while busy"]);
    let troubles = troubles(record);
    let rest = (0..strata.names.len()).filter(|host| !odd.contains(host));
    Table::figures(header).with(odd.iter().copied().chain(rest).take(MAX_HOSTS).map(|host| {
        let rounds = strata.host.iter().filter(|of| **of == host).count();
        let ratios = strata.pairs.iter().map(|(_, d)| {
            let ratio = strata.ratio(d, |of| of == host);
            ratio.map_or("–".into(), |ratio| beside(ratio.value, &[1.0]))
        });
        let (failed, busy) = troubles.get(strata.names[host]).copied().unwrap_or_default();
        let counts = [failed, busy].map(|count| count.to_string());
        let figures = std::iter::once(rounds.to_string()).chain(ratios).chain(counts);
        let cells = labelled_row(strata.names[host], figures.map(Cell::from));
        cells.into_iter().map(|cell| cell.strong_if(odd.contains(&host))).collect()
    }))
}

/// Cells that failed and tasks that began on a busy machine, by host.
fn troubles(record: &RunRecord) -> BTreeMap<&str, (usize, usize)> {
    let of = by_round(record);
    let mut troubles: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for cell in record.cells.iter().filter(|cell| matches!(cell.outcome, Outcome::Failed { .. })) {
        troubles.entry(&record.hosts[cell.host].hostname).or_default().0 += 1;
    }
    let busy = record.notes_of(NoteKind::IdleTimeout).filter_map(|(round, _)| of.get(&round?));
    busy.for_each(|host| troubles.entry(host).or_default().1 += 1);
    troubles
}
