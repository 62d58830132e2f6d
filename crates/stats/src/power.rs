//! The resolution of a machine: the smallest detectable difference within a budget, computed before the run. Also the test
//! whether identical variants are found different more often than by chance.

use crate::average::median;
use crate::critical_values::{self, FIRST_LOOK_ROUNDS, LOOKS};
use crate::hodges_lehmann::WalshAverages;
use crate::ranks::pairs;
use crate::sequential::excludes_zero;
use fsarena_core::number::{percent, plural, three_digits};
use fsarena_core::schedule::mix;
use std::fmt;

/// For each look the effect, in standard deviations of d, that the sequential test finds by this look in four of five runs.
/// Simulated under normal noise; `examples/power.rs` computes it again.
pub const DETECTABLE_EFFECTS_IN_SD: [f64; LOOKS.len()] = [
    1.915, 1.613, 1.306, 1.111, 0.926, 0.799, 0.702, 0.610, 0.535, 0.474, 0.417, 0.368, 0.326, 0.289, 0.257, 0.228,
    0.202, 0.176,
];

/// For each look the distance of d from the margin, in standard deviations of d: at this distance a claim of a gate passes in four
/// of five runs, at this look or before. Simulated like [`DETECTABLE_EFFECTS_IN_SD`], with one-sided 95% bounds.
pub const GATE_DISTANCES_IN_SD: [f64; LOOKS.len()] = [
    1.554, 1.350, 1.166, 0.981, 0.841, 0.718, 0.631, 0.554, 0.486, 0.431, 0.379, 0.334, 0.296, 0.263, 0.232, 0.206,
    0.183, 0.159,
];

/// The spread of d from a pilot of a few rounds: 1.0483 times the median of all |d_i − d_j|, i < j (Shamos 1976; Rousseeuw and
/// Croux 1993, section 3). It estimates the standard deviation of normal noise with an efficiency of 86%, and one spike in the
/// pilot hardly changes it. None for fewer than three rounds.
pub fn spread(d: &[f64]) -> Option<f64> {
    if d.len() < 3 || d.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let gaps: Vec<f64> = pairs(d.len()).map(|(i, j)| (d[i] - d[j]).abs()).collect();
    Some(1.0483 * median(&gaps)?)
}

/// The smallest detectable effect as a fraction, for `rounds` rounds of d with this spread: the effect that four of five runs
/// find. None for fewer than 8 rounds.
pub fn detectable_effect(spread: f64, rounds: usize) -> Option<f64> {
    let look = LOOKS.iter().position(|look| Some(*look) == critical_values::last_look_by(rounds))?;
    Some((DETECTABLE_EFFECTS_IN_SD[look] * spread).exp_m1())
}

/// The number of rounds that find an effect (a fraction above 0) in four of five runs. None if 400 do not suffice.
pub fn rounds_to_detect(spread: f64, effect: f64) -> Option<usize> {
    rounds_at_first_look_within(&DETECTABLE_EFFECTS_IN_SD, spread, effect)
}

/// The number of rounds of the first look whose effect is at most ln(1 + `difference`). `effects_in_sd` has the effect of each look
/// in standard deviations of d, which is `spread`.
fn rounds_at_first_look_within(effects_in_sd: &[f64], spread: f64, difference: f64) -> Option<usize> {
    let look = effects_in_sd.iter().position(|effect| effect * spread <= difference.ln_1p())?;
    Some(LOOKS[look].rounds)
}

/// The number of rounds in which a gate of one claim passes a candidate that equals the baseline, in four of five runs. None if
/// 400 do not suffice.
pub fn rounds_to_pass(spread: f64, margin: f64) -> Option<usize> {
    rounds_at_first_look_within(&GATE_DISTANCES_IN_SD, spread, margin)
}

/// A forecast of the results of a time budget on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Forecast {
    /// The budget, in seconds.
    pub budget_s: f64,
    /// The number of rounds within the budget.
    pub rounds: usize,
    /// The smallest effect that these rounds can detect, as a fraction. None for fewer than 8 rounds.
    pub detectable_effect: Option<f64>,
    /// The effect that the user wants to detect, as a fraction.
    pub wanted_effect: f64,
    /// The time to detect that effect, in seconds. None if 400 rounds do not suffice.
    pub time_to_wanted_effect_s: Option<f64>,
    /// The time until the first verdict is possible, in seconds.
    pub first_verdict_s: f64,
}

/// Forecasts from the log ratios d of a pilot and the seconds that one of its rounds took. None if the pilot has fewer than
/// three rounds or took no time.
pub fn forecast(pilot: &[f64], round_s: f64, budget_s: f64, wanted_effect: f64) -> Option<Forecast> {
    if !(round_s > 0.0 && budget_s >= 0.0) {
        return None;
    }
    let spread = spread(pilot)?;
    // The budget can be a number of rounds times `round_s`; the quotient is then rounded to a number just below it.
    let rounds = (budget_s / round_s * (1.0 + 1e-12)) as usize;
    Some(Forecast {
        budget_s,
        rounds,
        detectable_effect: detectable_effect(spread, rounds),
        wanted_effect,
        time_to_wanted_effect_s: rounds_to_detect(spread, wanted_effect).map(|rounds| rounds as f64 * round_s),
        first_verdict_s: critical_values::FIRST_LOOK_ROUNDS as f64 * round_s,
    })
}

impl fmt::Display for Forecast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = format_budget(self.budget_s);
        let Some(detectable) = self.detectable_effect else {
            let (rounds, needed) = (plural(self.rounds, "round"), format_duration(self.first_verdict_s));
            return write!(f, "{budget} allows {rounds}, and a verdict requires {FIRST_LOOK_ROUNDS}: allow {needed}");
        };
        let wanted = percent(self.wanted_effect);
        let smallest = match detectable {
            size if size >= 1.0 => format!("a factor of {}", three_digits(1.0 + size)),
            size if size < 1e-4 => "under 0.01%".into(),
            size => percent(size),
        };
        write!(f, "smallest detectable difference in {budget}: {smallest}; ")?;
        match self.time_to_wanted_effect_s {
            Some(seconds) => write!(f, "{wanted} requires {}", format_duration(seconds)),
            None => write!(f, "{wanted} requires more than 400 rounds"),
        }
    }
}

/// Formats the time that a user gave, in hours or minutes if it is a whole number of them and at least two.
fn format_budget(seconds: f64) -> String {
    for (unit, name) in [(3600.0, "hours"), (60.0, "minutes")] {
        if seconds >= 2.0 * unit && (seconds / unit).fract() == 0.0 {
            return format!("{} {name}", seconds / unit);
        }
    }
    format!("{:.0} seconds", seconds.floor())
}

/// Formats the time that something requires, rounded up.
fn format_duration(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s < 99.5 => (s.ceil(), "second"),
        s if s < 99.5 * 60.0 => ((s / 60.0).ceil(), "minute"),
        s => ((s / 3600.0).ceil(), "hour"),
    };
    format!("{number} {unit}{}", if number == 1.0 { "" } else { "s" })
}

/// The number of permutations in [`p_value_of_false_verdicts`].
const PERMUTATIONS: u64 = 2_000;

/// Whether the 95% interval of d excludes 0, with enough rounds for a verdict.
fn differs(d: &[f64]) -> bool {
    WalshAverages::new(d.to_vec()).as_ref().is_some_and(excludes_zero)
}

/// Judges identical variants: one verdict for each batch of 8 rounds of each series of their log ratios d. Returns the number of all
/// verdicts and the number of those that found a difference. Only the first `rounds` rounds of each series count.
pub fn count_false_verdicts(d_of_identical: &[Vec<f64>], rounds: usize) -> (usize, usize) {
    let batches = d_of_identical.iter().flat_map(|d| d[..d.len().min(rounds)].chunks_exact(FIRST_LOOK_ROUNDS));
    batches.fold((0, 0), |(all, false_verdicts), batch| (all + 1, false_verdicts + usize::from(differs(batch))))
}

/// The p value of a number of false verdicts, by a permutation test: if the two variants are identical, they could have been
/// exchanged in any round. Each permutation exchanges them in random rounds, in all series at once, because the series depend
/// on each other. The p value counts the observed order as one of the permutations (Phipson and Smyth 2010).
pub fn p_value_of_false_verdicts(d_of_identical: &[Vec<f64>], rounds: usize, false_verdicts: usize, seed: u64) -> f64 {
    let at_least_as_many = (0..PERMUTATIONS).filter(|permutation| {
        let swapped = |round: usize| mix(mix(seed, *permutation), round as u64) & 1 == 1;
        let sign = |(round, d): (usize, &f64)| if swapped(round) { -d } else { *d };
        let flipped: Vec<Vec<f64>> = d_of_identical.iter().map(|d| d.iter().enumerate().map(sign).collect()).collect();
        count_false_verdicts(&flipped, rounds).1 >= false_verdicts
    });
    (at_least_as_many.count() + 1) as f64 / (PERMUTATIONS + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_matches_values_computed_by_hand() {
        // The gaps between 1, 2, 4 and 8 are 1, 2, 3, 4, 6, 7; their median is 3.5.
        assert!((spread(&[1.0, 8.0, 2.0, 4.0]).unwrap() - 1.0483 * 3.5).abs() < 1e-12);
        assert_eq!(spread(&[1.0, 2.0]), None);
        assert_eq!(spread(&[1.0, 2.0, f64::NAN]), None);
    }

    #[test]
    fn more_rounds_detect_smaller_effects() {
        assert_eq!(detectable_effect(0.01, 7), None);
        assert_eq!(detectable_effect(0.01, 9), detectable_effect(0.01, 8));
        assert!(DETECTABLE_EFFECTS_IN_SD.windows(2).all(|pair| pair[1] < pair[0]));
        assert!((detectable_effect(0.01, 8).unwrap() - (0.01 * DETECTABLE_EFFECTS_IN_SD[0]).exp_m1()).abs() < 1e-15);
    }

    #[test]
    fn rounds_and_effect_are_each_other_s_inverse() {
        for look in LOOKS {
            let effect = detectable_effect(0.02, look.rounds).unwrap() * 1.000_001;
            assert_eq!(rounds_to_detect(0.02, effect), Some(look.rounds));
        }
        assert_eq!(rounds_to_detect(0.02, 1e-5), None);
    }

    #[test]
    fn a_gate_passes_sooner_than_a_difference_of_its_margin_is_found() {
        // ln(1.01) is 0.559 spreads, and the distance at 38 rounds is 0.554.
        assert_eq!((rounds_to_pass(0.0178, 0.01), rounds_to_detect(0.0178, 0.01)), (Some(38), Some(48)));
        assert_eq!((rounds_to_pass(0.001, 0.01), rounds_to_pass(0.1, 0.005)), (Some(8), None));
        assert!(GATE_DISTANCES_IN_SD.iter().zip(DETECTABLE_EFFECTS_IN_SD).all(|(gate, both)| *gate < both));
    }

    #[test]
    fn a_forecast_is_printed_as_a_sentence() {
        // A spread of 0.010483, 30 s a round.
        let pilot = [0.01, 0.02, 0.0, 0.01, 0.02];
        let forecast_text = |budget, wanted| forecast(&pilot, 30.0, budget, wanted).unwrap().to_string();
        assert_eq!(
            forecast_text(600.0, 0.01),
            "smallest detectable difference in 10 minutes: 0.98%; 1% requires 10 minutes"
        );
        assert_eq!(
            forecast_text(100.0, 0.01),
            "100 seconds allows 3 rounds, and a verdict requires 8: allow 4 minutes"
        );
        assert!(forecast_text(30.0, 0.01).starts_with("30 seconds allows 1 round, and "));
        let noisy = pilot.map(|d| 100.0 * d);
        let text = forecast(&noisy, 30.0, 600.0, 0.01).unwrap().to_string();
        assert!(text.starts_with("smallest detectable difference in 10 minutes: a factor of 2.6"), "{text}");
        assert!(forecast_text(600.0, 0.000_1).ends_with("; 0.01% requires more than 400 rounds"));
        // 10·x/x is 9.999999999999998.
        let x = 471.792_605_790_823_7;
        assert_eq!(forecast(&pilot, x, 10.0 * x, 0.01).unwrap().rounds, 10);
        assert_eq!(forecast(&pilot[..2], 30.0, 600.0, 0.01), None);
        assert_eq!(forecast(&pilot, 0.0, 600.0, 0.01), None);
    }

    #[test]
    fn a_budget_is_never_rounded_up() {
        let texts = [45.5, 60.0, 120.0, 5400.0, 6000.0, 7200.0, 9000.0].map(format_budget);
        let expected = ["45 seconds", "60 seconds", "2 minutes", "90 minutes", "100 minutes", "2 hours", "150 minutes"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn percentages_have_three_digits() {
        let texts = [0.0233, 0.01, 0.105, 0.000_123, 1.5].map(percent);
        assert_eq!(texts, ["2.33%", "1%", "10.5%", "0.0123%", "150%"]);
    }

    /// The log ratios d of two series of 16 rounds. In the first batch of the first series, all are above 0.
    fn two_series() -> Vec<Vec<f64>> {
        let noise = |index: u64| (mix(3, index) % 1000) as f64 / 1000.0 - 0.5;
        let mut first: Vec<f64> = (0..16).map(noise).collect();
        first[..8].iter_mut().for_each(|d| *d = d.abs() + 0.01);
        vec![first, (16..32).map(noise).collect()]
    }

    #[test]
    fn each_series_and_batch_has_a_verdict() {
        assert_eq!(count_false_verdicts(&two_series(), 16), (4, 1));
        // A batch of fewer than 8 rounds has no verdict.
        assert_eq!(count_false_verdicts(&two_series(), 15).0, 2);
    }

    #[test]
    fn chance_explains_one_false_verdict_but_not_four() {
        assert!(p_value_of_false_verdicts(&two_series(), 16, 1, 7) > 0.01);
        let biased = vec![vec![0.01; 16]; 2];
        assert_eq!(count_false_verdicts(&biased, 16), (4, 4));
        // All of one sign in two batches: 4 of 2^16 ways.
        assert!(p_value_of_false_verdicts(&biased, 16, 4, 7) < 0.01);
    }
}
