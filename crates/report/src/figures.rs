//! Figures that several sections show: the typical value of a variant, and its ratio of mean cost. Rare stalls hardly change
//! the ratio in a typical round, so reports show the ratio of mean cost beside it.

use crate::document::{Cell, FigureSource, labelled_row};
use crate::number::{self, effect_and_interval, interval_ends, three_digits_beside, with_unit};
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::{Analysis, CombinedTasks};
use fsarena_stats::comparison::{Comparison, median};
use fsarena_stats::mean_ratio::{MeanRatio, ROUNDS_FOR_MEAN_RATIO, WithheldReason};
use fsarena_stats::{average::mean, critical_values::FIRST_LOOK_ROUNDS, ratio::Ratio};
use serde_json::{Value, json};

/// A cell with the median of the rounds, and the interval of the typical value in its second line. Without an interval if
/// there is only one round or a value is zero.
pub fn median_cell(values: &[f64], unit: Unit) -> Cell {
    let mut interval = String::new();
    if let Some(typical) = Ratio::typical_value(values)
        && !values.iter().any(|value| *value <= 0.0)
    {
        let (low, high) = interval_ends(typical.low, typical.high, unit);
        // The ends are equal if all rounds have the same value.
        if low != high {
            interval = format!("{low}–{high}");
        }
    }
    Cell::two_lines(value_or_dash(median(values), unit), interval)
}

/// For each variant a cell with its median, linked to this task. `values` are by variant and round.
pub fn median_cells(values: &[Vec<f64>], unit: Unit, task: Option<usize>) -> impl Iterator<Item = Cell> {
    let cell = move |(variant, rounds): (usize, &Vec<f64>)| {
        median_cell(rounds, unit).with_source(FigureSource::new(task, [variant]))
    };
    values.iter().enumerate().map(cell)
}

/// Formats a value with its unit; `–` for `None`.
pub fn value_or_dash(value: Option<f64>, unit: Unit) -> String {
    value.map_or("–".to_string(), |value| with_unit(value, unit))
}

/// Explains the interval or range below each median in tables.
pub fn medians_legend(analyses: &[Analysis]) -> String {
    let most_rounds = analyses.iter().map(|analysis| analysis.grid.rounds.len()).max().unwrap_or(0);
    if most_rounds < FIRST_LOOK_ROUNDS {
        format!(
            "Below each median is the range of the rounds: fewer than {FIRST_LOOK_ROUNDS} rounds give no exact interval."
        )
    } else {
        let mut results =
            analyses.iter().flat_map(|analysis| &analysis.tasks).flat_map(|task| &task.comparison.variants);
        // A variant that left the run early has values of a few rounds.
        let has_few_rounds = results.any(|result| (2..FIRST_LOOK_ROUNDS).contains(&result.rounds));
        let range_note = if has_few_rounds {
            format!(", or the range of its rounds if they are fewer than {FIRST_LOOK_ROUNDS}")
        } else {
            String::new()
        };
        format!(
            "Below each median is its 95% confidence interval{range_note}. It includes the drift of the machine; comparisons \
             within rounds do not."
        )
    }
}

/// How much more B costs than A, in per cent: `+7.5% [−2% to +22%]`, or why it has no interval.
pub fn describe_mean_ratio(ratio: &MeanRatio) -> String {
    let (value, interval) = mean_ratio_lines(ratio);
    match ratio.interval {
        Ok(_) => format!("{value} [{interval}]"),
        Err(reason) => format!("{value} (no interval: {})", reason.name()),
    }
}

/// A cell with how much more B costs than A, in per cent, and its interval in the second line.
pub fn mean_ratio_cell(ratio: &MeanRatio) -> Cell {
    let (value, interval) = mean_ratio_lines(ratio);
    Cell::two_lines(value, interval)
}

/// How much more B costs than A, in per cent; and the interval, or why there is none.
fn mean_ratio_lines(ratio: &MeanRatio) -> (String, String) {
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    let (value, interval) = effect_and_interval(ratio.value - 1.0, (low - 1.0, high - 1.0), &[]);
    (value, if ratio.interval.is_ok() { interval } else { interval_or_reason(ratio) })
}

/// A clause about the stalls that this number of rounds may miss, by the rule of three: `stalls rarer than about one in 8
/// rounds (3/24) are not excluded`.
pub fn unseen_stalls_clause(rounds: usize) -> String {
    let one_in = (rounds as f64 / 3.0).round().max(1.0);
    format!("stalls rarer than about one in {one_in} rounds (3/{rounds}) are not excluded")
}

/// The caveat below a ratio of mean cost.
pub fn mean_cost_caveat(rounds: usize) -> String {
    format!("Mean cost counts the slow rounds that were seen: {}.", unseen_stalls_clause(rounds))
}

/// Whether any variant has enough rounds for an interval of its mean cost.
pub fn has_mean_cost_interval(comparison: &Comparison) -> bool {
    comparison
        .variants
        .iter()
        .filter_map(|variant| variant.mean_ratio)
        .any(|ratio| ratio.rounds >= ROUNDS_FOR_MEAN_RATIO)
}

/// The smallest number of rounds of any ratio of mean cost; `None` if no variant has such a ratio.
pub fn fewest_mean_cost_rounds(comparison: &Comparison) -> Option<usize> {
    comparison.variants.iter().filter_map(|variant| Some(variant.mean_ratio?.rounds)).min()
}

/// A table row with the ratio of each variant's mean cost to the mean cost of the best variant. The best variant's cell also
/// shows its mean, and variants without a ratio have only the mean.
pub fn mean_cost_row(title: String, combined: &CombinedTasks, unit: Unit) -> Vec<Cell> {
    let best = combined.comparison.best();
    let costs = combined.mean_costs.as_ref().unwrap_or(&combined.values);
    let cell = |(variant, rounds): (usize, &Vec<f64>)| {
        let own_mean = mean(rounds.iter().filter(|value| !value.is_nan()));
        let cell = match combined.comparison.variants[variant].mean_ratio {
            Some(ratio) => Cell::two_lines(three_digits_beside(ratio.value, &[1.0]), interval_or_reason(&ratio)),
            None if best == Some(variant) => Cell::two_lines("1.00", value_or_dash(Some(own_mean), unit)).highlighted(),
            None => value_or_dash(Some(own_mean).filter(|mean| !mean.is_nan()), unit).into(),
        };
        cell.with_source(FigureSource::new(None, std::iter::once(variant).chain(best)))
    };
    labelled_row(title, costs.iter().enumerate().map(cell))
}

/// The interval of a ratio, or a few words on why it has none.
fn interval_or_reason(ratio: &MeanRatio) -> String {
    match ratio.interval {
        Ok((low, high)) => number::ratio_interval(low, high),
        Err(WithheldReason::FewRounds) => format!("under {ROUNDS_FOR_MEAN_RATIO} rounds"),
        Err(WithheldReason::OneRoundDominates) => "one round decides".into(),
        Err(WithheldReason::Unbounded) => "no interval".into(),
    }
}

/// A ratio of mean cost as JSON.
pub fn mean_ratio_json(ratio: &MeanRatio) -> Value {
    let (low, high) = ratio.interval.map_or((None, None), |(low, high)| (Some(low), Some(high)));
    json!({
        "value": ratio.value,
        "low": low,
        "high": high,
        "rounds": ratio.rounds,
        "no_interval_because": ratio.interval.err().map(WithheldReason::name),
        "stalls_not_excluded_share": ratio.possible_stall_share(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;
    use fsarena_stats::{comparison::compare, regret::Regrets};

    #[test]
    fn a_cell_shows_the_median_and_an_interval_if_there_is_one() {
        let values: Vec<f64> = (1..=9).map(f64::from).chain([f64::NAN]).collect();
        // With nine rounds, the exact interval is the whole range.
        assert_eq!(median_cell(&values, Unit::Seconds).lines, ["5.00 s", "1.00 s–9.00 s"]);
        assert_eq!(median_cell(&[3.0], Unit::Seconds).lines, ["3.00 s"]);
        assert_eq!(median_cell(&[0.0, 3.0, 4.0], Unit::Seconds).lines, ["3.00 s"]);
        assert_eq!(median_cell(&[f64::NAN], Unit::Seconds).lines, ["–"]);
    }

    #[test]
    fn the_best_variant_has_the_mean_of_the_costs_of_ratios_of_means() {
        let values = vec![vec![1.0, 1.0], vec![2.0, 2.0]];
        let combined = CombinedTasks {
            comparison: compare(&values, Direction::Lower),
            values,
            mean_costs: Some(vec![vec![3.0, 5.0], vec![8.0, 8.0]]),
            left_out_rounds: vec![0, 0],
            regrets: Regrets::default(),
        };
        assert_eq!(mean_cost_row("MEAN".into(), &combined, Unit::Seconds)[1].lines, ["1.00", "4.00 s"]);
    }

    #[test]
    fn a_ratio_without_an_interval_states_the_reason() {
        let describe = |interval| describe_mean_ratio(&MeanRatio { value: 1.075, rounds: 24, interval });
        assert_eq!(describe(Ok((0.98, 1.22))), "+7.5% [−2% to +22%]");
        assert_eq!(
            describe(Err(WithheldReason::OneRoundDominates)),
            "+7.5% (no interval: one round makes up most of the spread)"
        );
        assert_eq!(unseen_stalls_clause(24), "stalls rarer than about one in 8 rounds (3/24) are not excluded");
    }
}
