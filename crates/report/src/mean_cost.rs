//! The ratio of mean cost in words, cells and JSON. It stands beside the ratio in a typical round, which rare stalls hardly
//! change.

use crate::document::{Cell, Source, labelled};
use crate::number::{self, beside, effect_lines};
use crate::typical::absolute;
use fsarena_core::sample::Unit;
use fsarena_stats::analyse::CombinedTasks;
use fsarena_stats::average::mean;
use fsarena_stats::comparison::Comparison;
use fsarena_stats::mean_ratio::{FIRST_ROUND, MeanRatio, Withheld};
use serde_json::{Value, json};

/// The difference of B over A: `+7.5% [−1.8% to +22%]`, or why it has no interval.
pub fn difference(ratio: &MeanRatio) -> String {
    let (value, interval) = difference_lines(ratio);
    match ratio.interval {
        Ok(_) => format!("{value} [{interval}]"),
        Err(why) => format!("{value} (no interval: {})", why.words()),
    }
}

/// The same over its interval.
pub fn difference_cell(ratio: &MeanRatio) -> Cell {
    let (value, interval) = difference_lines(ratio);
    Cell::two(value, interval)
}

fn difference_lines(ratio: &MeanRatio) -> (String, String) {
    let (low, high) = ratio.interval.unwrap_or((ratio.value, ratio.value));
    let (value, interval) = effect_lines(ratio.value - 1.0, (low - 1.0, high - 1.0), &[]);
    (value, if ratio.interval.is_ok() { interval } else { second_line(ratio) })
}

/// What no number of rounds excludes: `stalls rarer than about one in 8 rounds (3/24) are not excluded`.
pub fn unseen(rounds: usize) -> String {
    let one_in = (rounds as f64 / 3.0).round().max(1.0);
    format!("stalls rarer than about one in {one_in} rounds (3/{rounds}) are not excluded")
}

/// The same as a sentence below a ratio of mean cost.
pub fn caveat(rounds: usize) -> String {
    format!("Mean cost counts the slow rounds that were seen: {}.", unseen(rounds))
}

/// Whether any variant has the rounds that an interval takes.
pub fn has_enough_rounds(comparison: &Comparison) -> bool {
    comparison.variants.iter().filter_map(|one| one.mean_ratio).any(|ratio| ratio.rounds >= FIRST_ROUND)
}

/// The fewest rounds of any ratio.
pub fn fewest_rounds(comparison: &Comparison) -> Option<usize> {
    comparison.variants.iter().filter_map(|variant| Some(variant.mean_ratio?.rounds)).min()
}

/// A row of the ratios of mean cost to the best variant, which shows its own mean.
pub fn row(title: String, all: &CombinedTasks, unit: Unit) -> Vec<Cell> {
    let best = all.comparison.best();
    let cell = |(variant, rounds): (usize, &Vec<f64>)| {
        let own = mean(rounds.iter().filter(|value| !value.is_nan()));
        let cell = match all.comparison.variants[variant].mean_ratio {
            Some(ratio) => Cell::two(beside(ratio.value, &[1.0]), second_line(&ratio)),
            None if best == Some(variant) => Cell::two("1.00", absolute(Some(own), unit)).strong(),
            None => absolute(Some(own).filter(|own| !own.is_nan()), unit).into(),
        };
        cell.made_of(Source::of(None, std::iter::once(variant).chain(best)))
    };
    labelled(title, all.values.iter().enumerate().map(cell))
}

/// The interval below a ratio, or in few words why there is none.
fn second_line(ratio: &MeanRatio) -> String {
    match ratio.interval {
        Ok((low, high)) => number::interval(low, high),
        Err(Withheld::FewRounds) => format!("under {FIRST_ROUND} rounds"),
        Err(Withheld::OneRound) => "one round decides".into(),
        Err(Withheld::Unbounded) => "no interval".into(),
    }
}

/// The same for programs.
pub fn json(ratio: &MeanRatio) -> Value {
    let (low, high) = ratio.interval.map_or((None, None), |(low, high)| (Some(low), Some(high)));
    json!({
        "value": ratio.value,
        "low": low,
        "high": high,
        "rounds": ratio.rounds,
        "no_interval_because": ratio.interval.err().map(Withheld::words),
        "stalls_not_excluded_share": ratio.unseen(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_what_is_not_known() {
        let told = |interval| difference(&MeanRatio { value: 1.075, rounds: 24, interval });
        assert_eq!(told(Ok((0.98, 1.22))), "+7.5% [−2% to +22%]");
        assert_eq!(
            told(Err(Withheld::OneRound)),
            "+7.5% (no interval: one round makes up most of the spread)"
        );
        assert_eq!(unseen(24), "stalls rarer than about one in 8 rounds (3/24) are not excluded");
    }
}
