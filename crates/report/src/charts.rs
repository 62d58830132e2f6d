//! Every kind of chart, one file each: from an analysed run to plain data for the renderer. A kind draws nothing that
//! the run does not carry: where it has no data it makes no chart.

use crate::number::{plural, with_unit};
use crate::report::Report;
use fsarena_charts::colour::{Colour, of_variants, shade_numbers};
use fsarena_charts::{Chart, Dash, Key, Mark, Shape, Sign};
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Unit;
use fsarena_core::schedule::mix;
use fsarena_stats::analyse::Analysis;
use fsarena_stats::grid::Grid;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table;
use fsarena_stats::walsh::Walsh;

mod bars;
mod clients;
mod cpu;
mod curves;
mod heatmaps;
mod latency;
mod modes;
mod narrowing;
mod pooled;
mod raw;
mod requests;
mod schedulers;
mod spent;
pub mod standing;
mod strips;
mod time_series;
mod timeline;

/// A kind of chart: the charts of it that a run has data for.
type Kind = fn(&Seen) -> Vec<Chart>;

/// Every kind by the name of its file, in the order of a report. A new kind is a file in `charts/` and a line here.
const KINDS: &[(&str, Kind)] = &[
    ("standing", standing::charts),
    ("bars", bars::charts),
    ("raw", raw::charts),
    ("clients", clients::charts),
    ("schedulers", schedulers::charts),
    ("requests", requests::charts),
    ("heatmaps", heatmaps::charts),
    ("curves", curves::charts),
    ("modes", modes::charts),
    ("strips", strips::charts),
    ("narrowing", narrowing::charts),
    ("latency", latency::charts),
    ("pooled", pooled::charts),
    ("time_series", time_series::charts),
    ("timeline", timeline::charts),
    ("cpu", cpu::charts),
    ("spent", spent::charts),
];

/// Every chart of a report. Bars side by side rank whatever the words say, so a run that can rank nothing has none.
pub fn all(report: &Report) -> Vec<Chart> {
    if !report.ranks() {
        return vec![];
    }
    let seen = Seen::of(report);
    KINDS.iter().flat_map(|(_, charts)| charts(&seen)).collect()
}

/// How far the dot of a round lies beside its row, from −½ to ½: by chance, but the same every time.
fn spread(round: usize, row: usize) -> f64 {
    (mix(round as u64, row as u64) % 1000) as f64 / 1000.0 - 0.5
}

/// A report as charts see it.
pub struct Seen<'a> {
    /// The report.
    pub report: &'a Report,
    /// The colour of each variant.
    pub colours: Vec<Colour>,
    /// The line of each variant.
    pub dashes: Vec<Dash>,
}

impl<'a> Seen<'a> {
    /// A report and the colours of its variants.
    pub fn of(report: &'a Report) -> Seen<'a> {
        let variants = &report.record.variants;
        let dashes = shade_numbers(variants).into_iter().map(Dash::of_shade).collect();
        Seen { report, colours: of_variants(variants), dashes }
    }

    /// The run.
    pub fn record(&self) -> &'a RunRecord {
        &self.report.record
    }

    /// The name of a variant.
    pub fn name(&self, variant: usize) -> &'a str {
        &self.report.record.variants[variant].name
    }

    /// The values of a metric by task, variant and round; without the rounds that were dropped.
    pub fn grid(&self, metric: &str) -> Option<(MetricInfo, Grid)> {
        Grid::of(self.record(), metric)
    }

    /// The names of all variants but some.
    pub fn others(&self, variants: &[usize]) -> Vec<String> {
        let all = 0..self.record().variants.len();
        all.filter(|variant| !variants.contains(variant))
            .map(|variant| self.name(variant).to_string())
            .collect()
    }

    /// The legend of some variants, with their lines and the shapes of their points where they have some.
    pub fn legend(&self, variants: impl IntoIterator<Item = usize>, shapes: bool) -> Vec<Key> {
        let key = |variant: usize| {
            let series = Sign::Series(Shape::of_series(variant), self.dashes[variant]);
            let sign = if shapes { series } else { Sign::Area(1.0) };
            Key::new(self.name(variant), self.colours[variant], sign)
        };
        variants.into_iter().map(key).collect()
    }
}

/// The typical value of some rounds with its interval; none of one round. Zero has no logarithm: where rounds have it,
/// the interval is that of the values as they are.
pub fn typical(values: &[f64]) -> Option<Ratio> {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let rounds = known.len();
    if rounds < 2 || known.iter().any(|value| *value < 0.0) {
        return None;
    }
    if known.iter().all(|value| *value > 0.0) {
        return Ratio::of(known.into_iter().map(f64::ln).collect());
    }
    let walsh = Walsh::new(known)?;
    let exact = table::at(rounds).map(|look| walsh.interval(look.c05));
    let (low, high) = exact.unwrap_or_else(|| walsh.extremes());
    Some(Ratio { value: walsh.estimate(), low, high, rounds, provisional: exact.is_none() })
}

/// A bar from zero in a slot of names, with its whisker and its figure.
pub fn bar(
    at: f64,
    value: f64,
    whisker: Option<(f64, f64)>,
    limit: f64,
    colour: Colour,
    unit: Unit,
) -> Vec<Mark> {
    let mut marks = vec![Mark::Box { x: (0.0, value), y: (at - 0.38, at + 0.38), colour, opacity: 1.0 }];
    let mut figure = with_unit(value, unit);
    if let Some(x) = whisker {
        marks.push(Mark::Across { x, y: at, beyond: (x.1 > limit).then(String::new) });
        if x.1 > limit {
            figure.push_str(&format!(" →{}", with_unit(x.1, unit)));
        }
    }
    marks.push(Mark::figure(at, figure));
    marks
}

/// A sentence, with a space before it, on what a picture leaves out; nothing where there is nothing.
pub fn not_drawn(what: &[String], why: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" Not drawn: {} ({why}).", listed(what)) }
}

/// `a`, `a and b`, `a, b and 5 more`.
pub fn listed(what: &[String]) -> String {
    const MOST: usize = 6;
    match what {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if what.len() <= MOST => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {}", what[..MOST].join(", "), plural(what.len() - MOST, "other")),
    }
}

/// The values of each composite task, `[task][variant][round]`.
pub fn tasks<'g>(record: &'g RunRecord, grid: &'g Grid) -> Vec<(String, &'g Vec<Vec<f64>>)> {
    grid.tasks(record).map(|(task, values)| (crate::sections::label(task), values)).collect()
}

/// `total elapsed`, `geometric mean of iops`, or the one task there is: what an analysis says of all tasks.
pub fn over_all(analysis: &Analysis) -> String {
    let metric = &analysis.metric.id;
    match &analysis.overall {
        Some(overall) if overall.tasks == 1 => metric.clone(),
        Some(overall) if overall.total.is_some() => format!("total {metric}"),
        _ => format!("geometric mean of {metric}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_have_an_interval_too() {
        let some = typical(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0]).unwrap();
        assert_eq!((some.low, some.high, some.provisional), (0.0, 4.0, false));
        let few = typical(&[0.0, f64::NAN, 3.0]).unwrap();
        assert_eq!((few.low, few.high, few.provisional), (0.0, 3.0, true));
        assert_eq!(typical(&[2.0; 9]).unwrap().rounds, 9);
        assert_eq!(typical(&[1.0]), None);
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
        assert_eq!(listed(&names[..2]), "t0 and t1");
        assert_eq!(listed(&names), "t0, t1, t2, t3, t4, t5 and 2 others");
        assert_eq!(not_drawn(&[], "x"), "");
    }

    #[test]
    fn every_file_is_registered() {
        let mut files: Vec<String> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/charts"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        let mut ids: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
        files.sort();
        ids.sort_unstable();
        assert_eq!(files, ids);
    }
}
