//! The typical value of a variant, in its unit and with its interval.

use crate::document::{Cell, Source};
use crate::number::{ends, with_unit};
use fsarena_core::sample::Unit;
use fsarena_stats::{analyse::Analysis, comparison::median, ratio::Ratio, table::FIRST_LOOK};

/// The median of the rounds above the interval of the typical value. Zero values and single rounds have no interval.
pub fn cell(values: &[f64], unit: Unit) -> Cell {
    let typical = Ratio::typical(values).filter(|_| !values.iter().any(|value| *value <= 0.0));
    let ends = |typical: Ratio| ends(typical.low, typical.high, unit);
    // Omit the interval if all rounds have the same value.
    let ends = typical.map(ends).filter(|(low, high)| low != high);
    let interval = ends.map_or(String::new(), |(low, high)| format!("{low}–{high}"));
    Cell::two(absolute(median(values), unit), interval)
}

/// The same of each variant, `values[variant][round]`, with the samples of the task behind it.
pub fn cells(values: &[Vec<f64>], unit: Unit, task: Option<usize>) -> impl Iterator<Item = Cell> {
    let figures = values.iter().enumerate();
    figures.map(move |(variant, rounds)| cell(rounds, unit).made_of(Source::of(task, [variant])))
}

/// A value that may not be there.
pub fn absolute(value: Option<f64>, unit: Unit) -> String {
    value.map_or("–".to_string(), |value| with_unit(value, unit))
}

/// What stands below the medians.
pub fn words(analyses: &[Analysis]) -> String {
    let most = analyses.iter().map(|analysis| analysis.grid.rounds.len()).max().unwrap_or(0);
    match most < FIRST_LOOK {
        true => "Below each median is the range of the rounds: fewer than 8 rounds give no exact interval.".into(),
        false => "Below each median is its 95% confidence interval. It includes the drift of the machine; comparisons \
                  within rounds do not."
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_with_its_interval() {
        let values: Vec<f64> = (1..=9).map(f64::from).chain([f64::NAN]).collect();
        // c = 0 at nine rounds: the whole range.
        assert_eq!(cell(&values, Unit::Seconds).lines, ["5.00 s", "1.00 s–9.00 s"]);
        assert_eq!(cell(&[3.0], Unit::Seconds).lines, ["3.00 s"]);
        assert_eq!(cell(&[0.0, 3.0, 4.0], Unit::Seconds).lines, ["3.00 s"]);
        assert_eq!(cell(&[f64::NAN], Unit::Seconds).lines, ["–"]);
    }
}
