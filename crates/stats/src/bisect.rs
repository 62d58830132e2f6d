//! The decisions of a bisection: whether its ends differ, which of them a candidate is nearer to, and whether the first bad
//! candidate differs from the last good one.
//!
//! All are bounds of [`crate::critical_values`] on one side, at 5%/`error_split` over all looks. The shares of all comparisons
//! of a bisection add up to 1, so it ends at a wrong candidate in at most 5% of cases: a bisection that ends wrong has made at
//! least one wrong decision ([`crate::simulate`] measures how many do).

use crate::critical_values;
use crate::hodges_lehmann::WalshAverages;
use crate::verdict::Region;
use fsarena_core::bisect::ComparisonResult;
use fsarena_core::claim::PairRelation;

/// The logarithms of the figures of GOOD, of a candidate and of BAD in one round.
pub type StepRound = [f64; 3];

/// The number of rounds whose counts decide a step, if these rounds agree. Counts hardly vary from round to round, unless the
/// workload draws other data in each round.
pub const ROUNDS_FOR_COUNTS: usize = 2;
/// The largest distance of a candidate's count from the count of an end, as a share of the distance between the ends.
const NEAR_SHARE: f64 = 0.25;

/// The lower and the upper bound of the centre of these differences, each at level 5%/`error_split`. None with too few rounds.
fn bounds(d: &[f64], error_split: usize) -> Option<(f64, f64)> {
    Some(WalshAverages::new(d.to_vec())?.interval(critical_values::critical_value(d.len(), error_split)?))
}

/// Judges the ends by d = ln(BAD/GOOD): [`ComparisonResult::More`] or `Less` if the claim is refuted, `NoChange` if it holds.
/// `margin` is for claims without a percentage. None if the rounds do not decide it.
pub fn judge_ends(pair: &PairRelation, d: &[f64], margin: f64, error_split: usize) -> Option<ComparisonResult> {
    let (region, (low, high)) = (Region::of_claim(pair, Some(margin)), bounds(d, error_split)?);
    if low > region.high {
        Some(ComparisonResult::More)
    } else if high < region.low {
        Some(ComparisonResult::Less)
    } else if low >= region.low && high <= region.high {
        Some(ComparisonResult::NoChange)
    } else {
        None
    }
}

/// Judges a step: [`ComparisonResult::Good`] or `Bad`, the end that the candidate is nearer to. `sign` is 1 if BAD has
/// more than GOOD, else −1. None if the rounds do not decide it.
///
/// With d = ln(candidate) − ½·(ln(GOOD) + ln(BAD)), the candidate is bad if the lower bound of d is above 0. It must also have
/// significantly more than GOOD. The second condition keeps the level whatever the noise is: if the candidate is as good as
/// GOOD, both can be exchanged in every round. The first condition alone would need symmetric noise. The candidate is good by
/// the reverse conditions, against BAD.
pub fn judge_step(rounds: &[StepRound], sign: f64, error_split: usize) -> Option<ComparisonResult> {
    let c = critical_values::critical_value(rounds.len(), error_split)?;
    let walsh =
        |value: fn(&StepRound) -> f64| WalshAverages::new(rounds.iter().map(|round| sign * value(round)).collect());
    let middle = walsh(|[good, candidate, bad]| candidate - 0.5 * (good + bad))?;
    if middle.lies_above(c, 0.0) && walsh(|[good, candidate, _]| candidate - good)?.lies_above(c, 0.0) {
        return Some(ComparisonResult::Bad);
    }
    if middle.lies_below(c, 0.0) && walsh(|[_, candidate, bad]| candidate - bad)?.lies_below(c, 0.0) {
        return Some(ComparisonResult::Good);
    }
    None
}

/// Judges a step by counts, such as instructions, which hardly vary between rounds: in each round the candidate must be near
/// the same end. None if it is not, or with fewer rounds than [`ROUNDS_FOR_COUNTS`]; then [`judge_step`] decides with more
/// rounds. `sign` is as in [`judge_step`].
pub fn judge_step_by_counts(rounds: &[StepRound], sign: f64) -> Option<ComparisonResult> {
    let ends_differ = rounds.iter().all(|[good, _, bad]| sign * (bad - good) > 0.0);
    if rounds.len() < ROUNDS_FOR_COUNTS || !ends_differ {
        return None;
    }
    // On a scale on which GOOD is at 0 and BAD at 1.
    let position = |[good, candidate, bad]: &StepRound| (candidate - good) / (bad - good);
    if rounds.iter().all(|round| position(round).abs() <= NEAR_SHARE) {
        Some(ComparisonResult::Good)
    } else if rounds.iter().all(|round| (position(round) - 1.0).abs() <= NEAR_SHARE) {
        Some(ComparisonResult::Bad)
    } else {
        None
    }
}

/// Judges by d = ln(first bad candidate/last good one) whether the two differ in the same direction as the ends, whose
/// ln(BAD/GOOD) is about `full_difference`. [`ComparisonResult::NoChange`] if the difference is less than an eighth of that.
/// None if the rounds do not decide it. `sign` is as in [`judge_step`].
pub fn judge_confirmation(d: &[f64], sign: f64, full_difference: f64, error_split: usize) -> Option<ComparisonResult> {
    let signed: Vec<f64> = d.iter().map(|d| sign * d).collect();
    let (low, high) = bounds(&signed, error_split)?;
    if low > 0.0 {
        Some(ComparisonResult::Confirmed)
    } else if high < full_difference.abs() / 8.0 {
        Some(ComparisonResult::NoChange)
    } else {
        None
    }
}

/// The number of rounds at which a comparison with `rounds_done` rounds is judged next: at the first look that has bounds, then
/// each time at a look with at least 1.4 times the rounds, because the rounds up to each look are a separate run, which costs
/// time to start. None after the last look.
pub fn rounds_at_next_look(rounds_done: usize, error_split: usize) -> Option<usize> {
    let first = critical_values::rounds_for_first_bound(error_split);
    let min_rounds = first.max((rounds_done * 7).div_ceil(5));
    critical_values::LOOKS.iter().map(|look| look.rounds).find(|n| *n >= min_rounds && *n > rounds_done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::claim::{Claim, Relation};

    fn pair(text: &str) -> PairRelation {
        match text.parse::<Claim>().unwrap().relation {
            Relation::Pair(pair) => pair,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_ends_differ_if_a_bound_is_beyond_the_margin() {
        // Ten rounds, an eighth of the error: c = 0, the extremes of the averages, which are those of the values.
        let d: Vec<f64> = (1..=10).map(|i| 0.01 + f64::from(i) / 1000.0).collect();
        let at_most = |percent: f64| pair(&format!("x: candidate <= baseline within {percent}%"));
        assert_eq!(judge_ends(&at_most(1.0), &d, 0.0, 8), Some(ComparisonResult::More));
        assert_eq!(judge_ends(&at_most(1.5), &d, 0.0, 8), None);
        assert_eq!(judge_ends(&at_most(2.1), &d, 0.0, 8), Some(ComparisonResult::NoChange));
        assert_eq!(judge_ends(&at_most(1.0), &d[..9], 0.0, 8), None, "too few rounds for an eighth of 5%");
        let less: Vec<f64> = d.iter().map(|d| -d).collect();
        assert_eq!(judge_ends(&at_most(1.0), &less, 0.0, 8), Some(ComparisonResult::NoChange));
        let equal = pair("x: candidate == baseline within 1%");
        assert_eq!(judge_ends(&equal, &less, 0.0, 8), Some(ComparisonResult::Less));
    }

    #[test]
    fn a_step_is_nearer_to_one_end() {
        let rounds = |candidate: f64, n: i32| -> Vec<StepRound> {
            (0..n).map(|i| [0.0, candidate + f64::from(i % 3) / 1000.0, 0.1]).collect()
        };
        assert_eq!(judge_step(&rounds(0.0, 10), 1.0, 8), Some(ComparisonResult::Good));
        assert_eq!(judge_step(&rounds(0.1, 10), 1.0, 8), Some(ComparisonResult::Bad));
        assert_eq!(judge_step(&rounds(0.049, 10), 1.0, 8), None, "in the middle");
        assert_eq!(judge_step(&rounds(0.1, 9), 1.0, 8), None);
        // BAD has less.
        let negated: Vec<StepRound> = rounds(0.1, 10).iter().map(|round| round.map(|ln| -ln)).collect();
        assert_eq!(judge_step(&negated, -1.0, 8), Some(ComparisonResult::Bad));
    }

    #[test]
    fn two_rounds_of_counts_decide_a_step_if_they_agree() {
        let judge = |positions: &[f64]| {
            let rounds: Vec<StepRound> = positions.iter().map(|position| [1.0, 1.0 + 0.01 * position, 1.01]).collect();
            judge_step_by_counts(&rounds, 1.0)
        };
        assert_eq!(judge(&[0.0, 0.2]), Some(ComparisonResult::Good));
        assert_eq!(judge(&[1.0, 0.9]), Some(ComparisonResult::Bad));
        assert_eq!([judge(&[0.0]), judge(&[0.0, 1.0]), judge(&[0.5, 0.5]), judge(&[2.0, 2.0])], [None; 4]);
        assert_eq!(judge_step_by_counts(&[[1.0, 1.0, 1.0]; 2], 1.0), None, "the ends are equal");
    }

    #[test]
    fn a_confirmation_needs_a_difference_in_the_direction_of_the_ends() {
        let judged = |d: f64| judge_confirmation(&[d; 10], 1.0, 0.08, 8);
        assert_eq!(judged(0.001), Some(ComparisonResult::Confirmed));
        assert_eq!([judged(0.0), judged(-0.08)], [Some(ComparisonResult::NoChange); 2]);
        assert_eq!(judge_confirmation(&[-0.001; 10], -1.0, 0.08, 8), Some(ComparisonResult::Confirmed));
    }

    #[test]
    fn each_look_has_at_least_1_4_times_the_rounds_of_the_one_before() {
        let first = rounds_at_next_look(0, 8);
        let looks: Vec<usize> = std::iter::successors(first, |rounds| rounds_at_next_look(*rounds, 8)).collect();
        assert_eq!(looks, [10, 15, 24, 38, 60, 96, 152, 242, 400]);
        let at_next_look = [rounds_at_next_look(0, 2), rounds_at_next_look(2, 8), rounds_at_next_look(0, 65)];
        assert_eq!(at_next_look, [Some(8), Some(10), Some(15)]);
    }
}
