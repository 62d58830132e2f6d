//! The section on whether the hosts of a merged run give the same answer.

use crate::document::{Cell, Detail, Document, Table, labelled_row};
use crate::number::{plural, ratio_with_interval, three_digits_beside};
use crate::report::Report;
use fsarena_core::event::{NoteKind, Outcome};
use fsarena_core::record::RunRecord;
use fsarena_stats::hosts::{HostEffect, compare_hosts};
use fsarena_stats::ratio::{Ratio, log_ratios};
use std::collections::{BTreeMap, BTreeSet};

/// The largest number of hosts in a table or a sentence.
const MAX_HOSTS: usize = 30;

/// The comparisons of a run, with the host of each round.
struct HostRounds<'a> {
    /// The names of the hosts, sorted.
    names: Vec<&'a str>,
    /// The index of the host of each round.
    host_of_round: Vec<usize>,
    /// For each variant other than the best one: its name (`xfs/ext4`), and its log ratio to the best one in each round.
    pairs: Vec<(String, Vec<f64>)>,
}

impl HostRounds<'_> {
    /// The ratio of a pair of variants, from the rounds on the hosts for which `includes_host` is true.
    fn ratio_on(&self, log_ratios: &[f64], includes_host: impl Fn(usize) -> bool) -> Option<Ratio> {
        let rounds = log_ratios.iter().zip(&self.host_of_round);
        let included = rounds.filter(|(log_ratio, host)| !log_ratio.is_nan() && includes_host(**host));
        Ratio::from_log_ratios(included.map(|(log_ratio, _)| *log_ratio).collect())
    }
}

/// Adds the verdict, and a table of the ratios on each host; nothing for a run on a single host.
pub fn add_hosts(document: &mut Document, report: &Report, _: Detail) {
    let Some(rounds) = host_rounds(report) else { return };
    let log_ratios: Vec<Vec<f64>> = rounds.pairs.iter().map(|(_, log_ratios)| log_ratios.clone()).collect();
    let effect = compare_hosts(&log_ratios, &rounds.host_of_round, rounds.names.len(), report.record.plan.seed);
    document.heading(3, "Does the answer differ by host?");
    document.text(hosts_verdict_sentence(&rounds, &effect));
    let differing: &[usize] = if let HostEffect::Differ(differing) = &effect { differing } else { &[] };
    document.list(differing.iter().take(MAX_HOSTS).flat_map(|host| ratios_without_host(&rounds, *host)).collect());
    document.table(host_table(&report.record, &rounds, differing));
    if rounds.names.len() > MAX_HOSTS {
        document.text(format!("{} not shown.", plural(rounds.names.len() - MAX_HOSTS, "more host")));
    }
}

/// The comparisons with the host of each round; `None` if the run has a single host or nothing to compare.
fn host_rounds(report: &Report) -> Option<HostRounds<'_>> {
    let record = &report.record;
    let analysis = report.analyses.first()?;
    let names: BTreeSet<&str> = record.hosts.iter().map(|host| host.hostname.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    if names.len() < 2 {
        return None;
    }
    let host_names = hosts_by_round(record);
    let host_index = |round: &u32| names.binary_search(host_names.get(round)?).ok();
    let grid = analysis.grid.by_round();
    let host_of_round: Vec<usize> = grid.rounds.iter().map(host_index).collect::<Option<_>>()?;
    let comparison = &analysis.overall.as_ref()?.total_or_geometric().comparison;
    let reference = comparison.best()?;
    let values = grid.combined();
    let pair = |variant: &usize| {
        let rounds = values[reference].iter().zip(&values[*variant]);
        let ratio = |(a, b): (&f64, &f64)| log_ratios(&[*a], &[*b]).d.first().copied().unwrap_or(f64::NAN);
        (format!("{}/{}", record.variant_name(*variant), record.variant_name(reference)), rounds.map(ratio).collect())
    };
    let others = comparison.order.iter().filter(|variant| **variant != reference);
    let pairs: Vec<_> = others.map(pair).collect();
    (!pairs.is_empty()).then_some(HostRounds { names, host_of_round, pairs })
}

/// The name of the host of each round.
fn hosts_by_round(record: &RunRecord) -> BTreeMap<u32, &str> {
    record.cells.iter().map(|cell| (cell.round, record.hosts[cell.host].hostname.as_str())).collect()
}

/// The answer to the question, in a sentence.
fn hosts_verdict_sentence(rounds: &HostRounds, effect: &HostEffect) -> String {
    let count = plural(rounds.names.len(), "host");
    match effect {
        HostEffect::TooFewRounds => {
            format!("Inconclusive: {count} have too few rounds each to compare them.")
        }
        HostEffect::Alike => format!("No significant difference between {count}."),
        HostEffect::Differ(differing) => {
            let names: Vec<&str> = differing.iter().take(MAX_HOSTS).map(|host| rounds.names[*host]).collect();
            let ellipsis = if differing.len() > MAX_HOSTS { ", …" } else { "" };
            format!(
                "Yes: of {count}, {}{ellipsis} differ significantly from the others (5% for all together). All rounds of all \
                 hosts are in the answer.",
                names.join(", ")
            )
        }
    }
}

/// For each pair of variants a line with its ratio without one host, and with all hosts.
fn ratios_without_host(rounds: &HostRounds, host: usize) -> Vec<String> {
    let line = |(pair, log_ratios): &(String, Vec<f64>)| {
        let with_all = rounds.ratio_on(log_ratios, |_| true)?;
        let without = rounds.ratio_on(log_ratios, |other| other != host)?;
        Some(format!(
            "without {}: {pair} {}, with all hosts {}",
            rounds.names[host],
            ratio_with_interval(without.value, without.low, without.high),
            ratio_with_interval(with_all.value, with_all.low, with_all.high)
        ))
    };
    rounds.pairs.iter().take(MAX_HOSTS).filter_map(line).collect()
}

/// A table with a row for each host: the number of rounds, the ratios, and the troubles. The hosts that differ come first.
fn host_table(record: &RunRecord, rounds: &HostRounds, differing: &[usize]) -> Table {
    let pairs = rounds.pairs.iter().map(|(name, _)| name.as_str());
    let header = ["host", "rounds"].into_iter().chain(pairs).chain(["failed cells", "began while busy"]);
    let mut table = Table::of_figures(header);
    let troubles = troubles_by_host(record);
    let alike = (0..rounds.names.len()).filter(|host| !differing.contains(host));
    for host in differing.iter().copied().chain(alike).take(MAX_HOSTS) {
        let name = rounds.names[host];
        let round_count = rounds.host_of_round.iter().filter(|other| **other == host).count();
        let mut figures = vec![round_count.to_string()];
        for (_, log_ratios) in &rounds.pairs {
            let ratio = rounds.ratio_on(log_ratios, |other| other == host);
            figures.push(ratio.map_or("–".into(), |ratio| three_digits_beside(ratio.value, &[1.0])));
        }
        let (failed, busy) = troubles.get(name).copied().unwrap_or_default();
        figures.extend([failed, busy].map(|count| count.to_string()));
        let cells = labelled_row(name, figures.into_iter().map(Cell::from));
        table.rows.push(cells.into_iter().map(|cell| cell.highlighted_if(differing.contains(&host))).collect());
    }
    table
}

/// For each host the number of cells that failed, and of tasks that began on a busy machine.
fn troubles_by_host(record: &RunRecord) -> BTreeMap<&str, (usize, usize)> {
    let host_names = hosts_by_round(record);
    let mut troubles: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for cell in record.cells.iter().filter(|cell| matches!(cell.outcome, Outcome::Failed { .. })) {
        troubles.entry(&record.hosts[cell.host].hostname).or_default().0 += 1;
    }
    for (round, _) in record.notes_of(NoteKind::IdleTimeout) {
        if let Some(host) = round.and_then(|round| host_names.get(&round)) {
            troubles.entry(host).or_default().1 += 1;
        }
    }
    troubles
}
