//! A report as charts see it, and the marks that they share.

use crate::number::with_unit;
use crate::report::Report;
use crate::words::label;
use fsarena_charts::colour::{Colour, of_variants, shade_numbers};
use fsarena_charts::{Dash, Key, Mark, Shape, Sign};
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Unit;
use fsarena_core::schedule::mix;
use fsarena_stats::grid::Grid;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table;
use fsarena_stats::walsh::Walsh;

/// The most tasks that one picture holds; of more, only all together.
pub const MOST: usize = 40;
/// An interval longer than this many times the longest bar ends there with an arrow: more would make the bars short.
pub const REACH: f64 = 2.0;

/// How far the dot of a round lies beside its row, from −½ to ½: by chance, but the same every time.
pub fn spread(round: usize, row: usize) -> f64 {
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

/// The values of each composite task, `[task][variant][round]`.
pub fn tasks<'g>(record: &'g RunRecord, grid: &'g Grid) -> Vec<(String, &'g Vec<Vec<f64>>)> {
    grid.tasks(record).map(|(task, values)| (label(task), values)).collect()
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
}
