//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals ([`crate::critical_values`]). A
//! verdict can be computed at every look; the error probability over all looks together is that of a single test.

use crate::evalue::e_value;
use crate::mean_ratio::{SharedCosts, WithheldReason};
use crate::sequential::Centre;
use fsarena_core::claim::{ClaimOperator, ExtremeRelation, PairRelation};
use fsarena_core::exit::ExitCode;
use fsarena_core::sample::Direction;

/// The level of the intervals that decide whether variants differ.
pub(crate) const ALPHA: f64 = 0.05;

/// Judges a claim about a pair from its paired log ratios d_i = ln(left_i/right_i), in the order of the rounds, as
/// [`crate::ratio::log_ratios`]`(right, left)` returns them. `margin` is the difference that matters, as a fraction:
/// the tolerance of a tolerant claim that does not state its own with the word `within`, and the limit of "equivalent".
/// None without any round.
///
/// - A tolerant claim (`==`, `<=`, `>=`) is held if the interval is inside its region, and refuted if the 95% interval
///   is outside. With a tolerance, "inside" is tested with the 90% interval: by two one-sided tests at 5% (TOST;
///   Schuirmann 1987) for `==`, and by one such test for `<=` and `>=`. Without a tolerance, it is tested with the 95% interval.
/// - A strict claim (`<`, `>`, `!=`) is the negation of a tolerant one: held if the interval is outside, refuted if it
///   is inside. Only for `!=` with a fraction is "inside" tested with the 90% interval. If the claim is neither held
///   nor refuted, and the 90% interval is within the margin, the variants are equivalent.
pub fn judge_pair(pair: &PairRelation, d: &[f64], margin: Option<f64>) -> Option<Verdict> {
    let centre = Centre::from_log_ratios(d)?;
    let threshold = nearest_threshold(pair, &Region::of_claim(pair, margin), centre.estimate);
    Some(Verdict { e_value: e_value(d, threshold), ..judge_centre(pair, &centre, margin) })
}

/// Judges a claim about mean costs by the same rules, with the intervals of [`crate::mean_ratio`]. The claim is inconclusive if
/// these are withheld. Its e-value is 1, so e-BH over several claims never selects it.
pub fn judge_pair_by_means(pair: &PairRelation, costs: &SharedCosts, margin: Option<f64>) -> Verdict {
    judge_centre(pair, &Centre::from_mean_costs(costs), margin)
}

/// The verdict by the intervals of a centre. Its e-value is 1.
fn judge_centre(pair: &PairRelation, centre: &Centre, margin: Option<f64>) -> Verdict {
    let region = Region::of_claim(pair, margin);
    let log_factor = pair.factor.ln();
    let small_difference = if pair.op.has_tolerance() { pair.fraction().or(margin) } else { margin };
    let outcome = match region.judge(centre.interval_95, centre.interval_90) {
        Outcome::Inconclusive if !pair.op.has_tolerance() && is_within_margin(centre, log_factor, small_difference) => {
            Outcome::Equivalent
        }
        outcome => outcome,
    };
    Verdict {
        negligible: !centre.provisional && is_negligible(centre, log_factor, small_difference),
        edges: [region.low.exp_m1(), region.high.exp_m1()],
        ..Verdict::from_centre(centre, outcome)
    }
}

/// The end of the claim's region that is nearest to the estimate.
fn nearest_threshold(pair: &PairRelation, region: &Region, estimate: f64) -> f64 {
    match pair.op {
        ClaimOperator::Less | ClaimOperator::AtLeast => region.low,
        ClaimOperator::More | ClaimOperator::AtMost => region.high,
        ClaimOperator::Equal | ClaimOperator::NotEqual if estimate < pair.factor.ln() => region.low,
        ClaimOperator::Equal | ClaimOperator::NotEqual => region.high,
    }
}

/// The comparison of the claimed variant with one rival. Signs are such that values below 0 mean that the claimed variant is
/// ahead.
struct RivalComparison {
    /// The index of the rival.
    rival: usize,
    centre: Centre,
    /// Evidence that the two differ, in either direction.
    e_value: f64,
    /// Whether the rival is ahead, corrected for the number of rivals.
    rival_is_ahead: bool,
}

/// Judges a claim about the best or the worst variant. `rivals` has for each other variant the values ln(variant/rival) in the
/// rounds that it shares with the variant of the claim; [`Verdict::rival`] is an index into it.
///
/// - **held**: the variant is ahead of every rival, each at 95%. The claim is an intersection, so each part is tested at
///   the full level (intersection–union test; Berger 1982).
/// - **refuted**: some rival is ahead. Each of k rivals could be ahead by chance, so with more than one rival the e-value must
///   reach k/0.05 (Bonferroni).
/// - **equivalent**: neither of these, but the variant is ahead of each rival or within `margin` of it.
///
/// None if no rival shares a round with the variant, or if neither direction is better.
pub fn judge_extreme(
    claim: &ExtremeRelation,
    rivals: &[impl AsRef<[f64]>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_about_smallest(direction);
    let compared = rivals.iter().filter(|d| !d.as_ref().is_empty()).count();
    let comparison = |(rival, d): (usize, &[f64])| {
        let signed: Vec<f64> = d.iter().map(|d| if ahead_is_below { *d } else { -*d }).collect();
        let (centre, e_value) = (Centre::from_log_ratios(&signed)?, e_value(&signed, 0.0));
        let has_enough_evidence = compared == 1 || e_value * ALPHA >= compared as f64;
        let rival_is_ahead = centre.interval_95.0 > 0.0 && has_enough_evidence;
        Some(RivalComparison { rival, centre, e_value, rival_is_ahead })
    };
    let comparisons = rivals.iter().map(AsRef::as_ref).enumerate().filter_map(comparison).collect();
    judge_comparisons(claim, comparisons, rivals.len(), direction, margin)
}

/// Judges a claim about the best or the worst mean cost, by the same rules. `rivals` has for each rival the costs of
/// both; None if they share no round. A rival is ahead if the one-sided bound of the ratio at level 0.05/(2k) excludes
/// 1, where k is the number of rivals.
pub fn judge_extreme_by_means(
    claim: &ExtremeRelation,
    rivals: &[Option<SharedCosts>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_about_smallest(direction);
    let comparison = |(rival, costs): (usize, &Option<SharedCosts>)| {
        let costs = costs.as_ref()?;
        let centre = Centre::from_mean_costs(costs);
        let (low, high) = costs.bounds(2 * rivals.len()).unwrap_or((0.0, f64::INFINITY));
        let rival_is_ahead = if ahead_is_below { low > 1.0 } else { high < 1.0 };
        let centre = if ahead_is_below { centre } else { centre.exchanged() };
        Some(RivalComparison { rival, centre, e_value: 1.0, rival_is_ahead })
    };
    judge_comparisons(
        claim,
        rivals.iter().enumerate().filter_map(comparison).collect(),
        rivals.len(),
        direction,
        margin,
    )
}

/// Combines the comparisons with the rivals that share a round; `rivals` is the number of all rivals.
fn judge_comparisons(
    claim: &ExtremeRelation,
    comparisons: Vec<RivalComparison>,
    rivals: usize,
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    if direction == Direction::Neutral {
        return None;
    }
    let is_complete =
        comparisons.len() == rivals && comparisons.iter().all(|comparison| !comparison.centre.provisional);
    let (outcome, decisive) = decide_outcome(&comparisons, is_complete, margin)?;
    let outcome = outcome.negated_if(claim.negated);
    // Restore the signs of the claim for the report.
    let signed = decisive.centre;
    let centre = if claim.is_about_smallest(direction) { signed } else { signed.exchanged() };
    let provisional = centre.provisional || (!is_complete && outcome == Outcome::Inconclusive);
    Some(Verdict {
        provisional,
        e_value: decisive.e_value,
        rival: Some(decisive.rival),
        negligible: !provisional && is_negligible(&signed, 0.0, margin),
        ..Verdict::from_centre(&centre, outcome)
    })
}

/// The outcome without negation, and the comparison that decides it.
fn decide_outcome(
    comparisons: &[RivalComparison],
    is_complete: bool,
    margin: Option<f64>,
) -> Option<(Outcome, &RivalComparison)> {
    let is_ahead = |comparison: &RivalComparison| comparison.centre.interval_95.1 < 0.0;
    let rivals_ahead =
        comparisons.iter().filter(|comparison| !comparison.centre.provisional && comparison.rival_is_ahead);
    if let Some(comparison) = with_largest_end(rivals_ahead, |comparison| comparison.centre.interval_95.0) {
        return Some((Outcome::Refuted, comparison));
    }
    let closest = with_largest_end(comparisons.iter(), |comparison| comparison.centre.interval_95.1)?;
    if !is_complete {
        return Some((Outcome::Inconclusive, comparisons.iter().min_by_key(|comparison| comparison.centre.rounds)?));
    }
    if is_ahead(closest) {
        return Some((Outcome::Held, closest));
    }
    let is_as_good =
        |comparison: &RivalComparison| is_ahead(comparison) || is_within_margin(&comparison.centre, 0.0, margin);
    let outcome = if comparisons.iter().all(is_as_good) { Outcome::Equivalent } else { Outcome::Inconclusive };
    Some((outcome, closest))
}

/// The comparison with the largest `end` of an interval: the one in which the claimed variant is least ahead.
fn with_largest_end<'a>(
    comparisons: impl Iterator<Item = &'a RivalComparison>,
    end: impl Fn(&RivalComparison) -> f64,
) -> Option<&'a RivalComparison> {
    comparisons.max_by(|a, b| end(a).total_cmp(&end(b)))
}

/// Whether every ratio in the 90% interval differs from a factor by less than the margin. `log_factor` is the logarithm of the
/// factor.
fn is_within_margin(centre: &Centre, log_factor: f64, margin: Option<f64>) -> bool {
    margin.is_some_and(|margin| Region::around(log_factor, margin).covers(centre.interval_90))
}

/// Whether the ratio differs significantly from a factor, but by less than the margin. `log_factor` is the logarithm of the
/// factor.
fn is_negligible(centre: &Centre, log_factor: f64, margin: Option<f64>) -> bool {
    !Region::around(log_factor, 0.0).overlaps(centre.interval_95) && is_within_margin(centre, log_factor, margin)
}

/// The outcome of a judged claim.
pub use fsarena_core::claim::ClaimOutcome as Outcome;

/// The exit code for these outcomes: refuted if any is refuted, else inconclusive if any is inconclusive, else success.
pub fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    if outcomes.contains(&Outcome::Refuted) {
        ExitCode::Refuted
    } else if outcomes.contains(&Outcome::Inconclusive) {
        ExitCode::Inconclusive
    } else {
        ExitCode::Done
    }
}

/// The two bounds of left/right − 1 that decide a claim of a gate, as fractions. None if the rounds do not suffice for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateBounds {
    /// The lower bound. It fails a claim of the form `<=`.
    pub low: Option<f64>,
    /// The upper bound. It passes a claim of the form `<=`.
    pub high: Option<f64>,
}

/// A judged claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The outcome. Always inconclusive if `provisional`.
    pub outcome: Outcome,
    /// Whether there is no exact interval: there are fewer than 8 rounds, or an interval by mean cost is withheld.
    pub provisional: bool,
    /// Why an interval by mean cost is withheld. Then the intervals are the range of the rounds.
    pub withheld: Option<WithheldReason>,
    /// The estimated ratio left/right minus 1: exp(θ) − 1. For a claim about the best or the worst: the variant / `rival`.
    pub effect: f64,
    /// Its 95% interval.
    pub interval: (f64, f64),
    /// Its 90% interval, for equivalence.
    pub interval_90: (f64, f64),
    /// The ends of the claim's region as fractions: a tolerant claim is true between them, a strict one outside. A
    /// verdict compares the interval with them. 0 and 0 for a claim about the best or the worst.
    pub edges: [f64; 2],
    /// The number of rounds.
    pub rounds: usize,
    /// Whether the difference is significant, but smaller than the margin.
    pub negligible: bool,
    /// Whether the sign test disagrees: the variants differ in the shape of their distribution, not only in location.
    pub shapes_differ: bool,
    /// The evidence against "the claimed threshold is the truth", for [`crate::evalue::e_bh`] over a family of
    /// claims. Anytime-valid.
    pub e_value: f64,
    /// For a claim about the best or the worst, the index of the rival that decides it or keeps it inconclusive.
    pub rival: Option<usize>,
    /// For a claim of a gate, the bounds that decide it ([`crate::gate`]).
    pub gate: Option<GateBounds>,
}

impl Verdict {
    /// The largest difference in either direction that the 95% interval allows, as a fraction: 0.03 for 3%. The run excludes
    /// larger differences.
    pub fn largest_possible_difference(&self) -> f64 {
        self.interval.0.abs().max(self.interval.1.abs())
    }

    /// The verdict with the estimate and the intervals of a centre, and without an e-value, region or rival. The outcome is
    /// inconclusive if the centre is provisional.
    fn from_centre(centre: &Centre, outcome: Outcome) -> Verdict {
        let ends = |(low, high): (f64, f64)| (low.exp_m1(), high.exp_m1());
        Verdict {
            outcome: if centre.provisional { Outcome::Inconclusive } else { outcome },
            provisional: centre.provisional,
            withheld: centre.withheld,
            effect: centre.estimate.exp_m1(),
            interval: ends(centre.interval_95),
            interval_90: ends(centre.interval_90),
            edges: [0.0; 2],
            rounds: centre.rounds,
            negligible: false,
            shapes_differ: centre.is_asymmetric(),
            e_value: 1.0,
            rival: None,
            gate: None,
        }
    }
}

/// The values of θ = ln(left/right) for which a claim is true: the interval [low, high], or with `negated` all values outside
/// it. A tolerant claim is true inside a closed interval, a strict claim outside one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The lower end; −∞ if unbounded.
    pub low: f64,
    /// The upper end; ∞ if unbounded.
    pub high: f64,
    /// Whether the claim is true outside, not inside.
    pub negated: bool,
    /// Whether a margin above 0 widens the region, so that two one-sided tests show that a value lies inside. Never for
    /// `<` and `>`, whose fraction moves their threshold.
    has_margin: bool,
}

impl Region {
    /// The region of a claim: the table in [`PairRelation`] in numbers. `margin` applies to tolerant claims without their own.
    pub fn of_claim(pair: &PairRelation, margin: Option<f64>) -> Region {
        // `by` is the fraction of a strict claim, and `within` is the fraction of a tolerant claim.
        let by = pair.fraction().unwrap_or(0.0);
        let within = pair.fraction().or(margin).unwrap_or(0.0);
        let factor = pair.factor.ln();
        let (low, high) = match pair.op {
            ClaimOperator::Less => (factor + (-by).ln_1p(), f64::INFINITY),
            ClaimOperator::More => (f64::NEG_INFINITY, factor + by.ln_1p()),
            ClaimOperator::NotEqual => (factor - by.ln_1p(), factor + by.ln_1p()),
            ClaimOperator::Equal => (factor - within.ln_1p(), factor + within.ln_1p()),
            ClaimOperator::AtMost => (f64::NEG_INFINITY, factor + within.ln_1p()),
            ClaimOperator::AtLeast => (factor - within.ln_1p(), f64::INFINITY),
        };
        let has_margin = match pair.op {
            ClaimOperator::Less | ClaimOperator::More => false,
            ClaimOperator::NotEqual => by > 0.0,
            ClaimOperator::Equal | ClaimOperator::AtMost | ClaimOperator::AtLeast => within > 0.0,
        };
        Region { low, high, negated: !pair.op.has_tolerance(), has_margin }
    }

    /// The values that differ from a centre by at most a factor of 1 + `margin`.
    pub fn around(centre: f64, margin: f64) -> Region {
        let half_width = margin.ln_1p();
        Region { low: centre - half_width, high: centre + half_width, negated: false, has_margin: margin > 0.0 }
    }

    /// Whether an interval lies in [low, high].
    fn covers(&self, (low, high): (f64, f64)) -> bool {
        self.low <= low && high <= self.high
    }

    /// Whether an interval has a value in common with [low, high].
    fn overlaps(&self, (low, high): (f64, f64)) -> bool {
        !(high < self.low || low > self.high)
    }

    /// The outcome of the claim by two intervals of θ. The 95% interval can refute it. If the region has a margin, the 90%
    /// interval can show that it holds; otherwise the 95% interval.
    pub(crate) fn judge(&self, interval_95: (f64, f64), interval_90: (f64, f64)) -> Outcome {
        let outcome = if !self.overlaps(interval_95) {
            Outcome::Refuted
        } else if self.covers(if self.has_margin { interval_90 } else { interval_95 }) {
            Outcome::Held
        } else {
            Outcome::Inconclusive
        };
        outcome.negated_if(self.negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mean_ratio::{SharedCosts, WithheldReason};
    use fsarena_core::claim::{Claim, ExtremeRelation, Relation};
    use fsarena_core::{exit::ExitCode, sample::Direction};

    fn pair(text: &str) -> PairRelation {
        match text.parse::<Claim>().unwrap().relation {
            Relation::Pair(pair) => pair,
            other => panic!("{other:?}"),
        }
    }

    fn extreme(text: &str) -> ExtremeRelation {
        match text.parse::<Claim>().unwrap().relation {
            Relation::Extreme(extreme) => extreme,
            other => panic!("{other:?}"),
        }
    }

    /// The log ratios of 24 rounds around `centre`, evenly spread by ±0.0115. The critical value is c(.05) = 55 of 300
    /// averages.
    fn log_ratios_around(centre: f64) -> Vec<f64> {
        (0..24).map(|i| centre + f64::from(i * 7 % 24) / 1000.0 - 0.0115).collect()
    }

    fn outcome(text: &str, d: &[f64]) -> Outcome {
        judge_pair(&pair(text), d, None).unwrap().outcome
    }

    #[test]
    fn a_verdict_has_effect_intervals_and_e_value() {
        let verdict = judge_pair(&pair("x: a < b"), &log_ratios_around(-0.05), None).unwrap();
        // Walsh averages of 0…23 are 0, .5, 1, 1, 1.5, 1.5, …: the number of them ≤ s/2 is counted by
        // numpy.sort([(i+j)/2 for i in range(24) for j in range(i, 24)])[[55, 244]] = 6.5 and 16.5.
        let ends = [-0.05 + 0.0065 - 0.0115, -0.05 + 0.0165 - 0.0115].map(f64::exp_m1);
        assert_eq!(verdict.outcome, Outcome::Held);
        assert!((verdict.effect - (-0.05f64).exp_m1()).abs() < 1e-12);
        assert!((verdict.interval.0 - ends[0]).abs() < 1e-12 && (verdict.interval.1 - ends[1]).abs() < 1e-12);
        assert!((verdict.largest_possible_difference() + ends[0]).abs() < 1e-12);
        assert!(!verdict.provisional && !verdict.shapes_differ && !verdict.negligible);
        assert_eq!((verdict.rounds, verdict.rival), (24, None));
        assert!(verdict.e_value > 20.0);
    }

    #[test]
    fn strict_claims_are_held_or_refuted_by_the_95_per_cent_interval() {
        assert_eq!(outcome("x: a < b", &log_ratios_around(-0.05)), Outcome::Held);
        assert_eq!(outcome("x: a > b", &log_ratios_around(-0.05)), Outcome::Refuted);
        assert_eq!(outcome("x: a < b", &log_ratios_around(0.05)), Outcome::Refuted);
        assert_eq!(outcome("x: a > b", &log_ratios_around(0.05)), Outcome::Held);
        assert_eq!(outcome("x: a != b", &log_ratios_around(0.05)), Outcome::Held);
        for text in ["x: a < b", "x: a > b", "x: a != b"] {
            assert_eq!(outcome(text, &log_ratios_around(0.001)), Outcome::Inconclusive);
        }
    }

    #[test]
    fn by_demands_a_minimal_difference() {
        // −0.05 is 4.9% below; the interval ends at −0.0550 and −0.0450: 5.35% and 4.40% below.
        assert_eq!(outcome("x: a < b by 4%", &log_ratios_around(-0.05)), Outcome::Held);
        assert_eq!(outcome("x: a < b by 5%", &log_ratios_around(-0.05)), Outcome::Inconclusive);
        assert_eq!(outcome("x: a < b by 6%", &log_ratios_around(-0.05)), Outcome::Refuted);
        assert_eq!(outcome("x: a > b by 4%", &log_ratios_around(0.05)), Outcome::Held);
        assert_eq!(outcome("x: a != b by 4%", &log_ratios_around(0.05)), Outcome::Held);
        assert_eq!(outcome("x: a != b by 7%", &log_ratios_around(0.05)), Outcome::Refuted);
    }

    #[test]
    fn within_allows_a_difference() {
        assert_eq!(outcome("x: a == b within 1%", &log_ratios_around(0.001)), Outcome::Held);
        assert_eq!(outcome("x: a == b within 0.4%", &log_ratios_around(0.001)), Outcome::Inconclusive);
        assert_eq!(outcome("x: a == b within 1%", &log_ratios_around(0.05)), Outcome::Refuted);
        assert_eq!(outcome("x: a <= b within 1%", &log_ratios_around(0.001)), Outcome::Held);
        assert_eq!(outcome("x: a <= b within 1%", &log_ratios_around(-0.05)), Outcome::Held);
        assert_eq!(outcome("x: a <= b within 1%", &log_ratios_around(0.05)), Outcome::Refuted);
        assert_eq!(outcome("x: a >= b within 1%", &log_ratios_around(-0.05)), Outcome::Refuted);
        // ln 0.97 = −0.0305; 3% less of that is −0.0600.
        assert_eq!(outcome("x: a >= 0.97 * b within 3%", &log_ratios_around(-0.05)), Outcome::Held);
        assert_eq!(outcome("x: a >= 0.97 * b within 1%", &log_ratios_around(-0.05)), Outcome::Refuted);
    }

    #[test]
    fn a_claim_without_a_percentage_uses_the_margin_of_the_run() {
        let judged = |text, centre, margin| judge_pair(&pair(text), &log_ratios_around(centre), Some(margin)).unwrap();
        assert_eq!(judged("x: a < b", 0.001, 0.01).outcome, Outcome::Equivalent);
        assert_eq!(judged("x: a == b", 0.001, 0.01).outcome, Outcome::Held);
        assert_eq!(judged("x: a == b within 0.4%", 0.001, 0.01).outcome, Outcome::Inconclusive);
        let small = judged("x: a > b", 0.01, 0.02);
        assert!(small.outcome == Outcome::Held && small.negligible, "real, but smaller than what matters");
        let small = judged("x: a == b", 0.01, 0.02);
        assert!(small.outcome == Outcome::Held && small.negligible, "equivalent, and yet different");
    }

    #[test]
    fn with_few_rounds_a_claim_is_inconclusive() {
        let verdict = judge_pair(&pair("x: a < b"), &[-1.0; 7], None).unwrap();
        assert_eq!((verdict.outcome, verdict.provisional, verdict.rounds), (Outcome::Inconclusive, true, 7));
        assert_eq!(outcome("x: a < b", &[-1.0; 8]), Outcome::Held);
        assert_eq!(judge_pair(&pair("x: a < b"), &[], None), None);
    }

    #[test]
    fn equal_values_decide_claims_without_spread() {
        assert_eq!(outcome("x: a == b", &[0.0; 8]), Outcome::Held);
        assert_eq!(outcome("x: a <= b", &[0.0; 8]), Outcome::Held);
        assert_eq!(outcome("x: a < b", &[0.0; 8]), Outcome::Refuted);
        assert_eq!(outcome("x: a != b", &[0.0; 8]), Outcome::Refuted);
    }

    fn outcome_and_rival(
        text: &str,
        rivals: &[&[f64]],
        direction: Direction,
        margin: Option<f64>,
    ) -> Option<(Outcome, usize)> {
        judge_extreme(&extreme(text), rivals, direction, margin).map(|v| (v.outcome, v.rival.unwrap()))
    }

    #[test]
    fn best_is_held_only_if_ahead_of_every_rival() {
        let (ahead, far_ahead, equal, behind) =
            (log_ratios_around(-0.05), log_ratios_around(-0.2), log_ratios_around(0.001), log_ratios_around(0.05));
        let judged = |rivals: &[&[f64]]| outcome_and_rival("x: best is a", rivals, Direction::Lower, None).unwrap();
        assert_eq!(judged(&[&far_ahead, &ahead]), (Outcome::Held, 1));
        assert_eq!(judged(&[&far_ahead, &equal]), (Outcome::Inconclusive, 1));
        assert_eq!(judged(&[&far_ahead, &behind, &equal]), (Outcome::Refuted, 1));
        assert_eq!(judged(&[&behind]), (Outcome::Refuted, 0));
        assert_eq!(outcome_and_rival("x: best is a", &[&far_ahead], Direction::Neutral, None), None);
    }

    #[test]
    fn best_and_worst_follow_the_metric() {
        let (below, above) = (log_ratios_around(-0.05), log_ratios_around(0.05));
        for (text, d, direction, expected) in [
            ("x: best is a", &below, Direction::Higher, Outcome::Refuted),
            ("x: best is a", &above, Direction::Higher, Outcome::Held),
            ("x: worst is a", &above, Direction::Lower, Outcome::Held),
            ("x: worst is a", &below, Direction::Higher, Outcome::Held),
            ("x: best is not a", &below, Direction::Lower, Outcome::Refuted),
            ("x: worst is not a", &below, Direction::Lower, Outcome::Held),
        ] {
            assert_eq!(outcome_and_rival(text, &[d], direction, None).unwrap().0, expected, "{text} {direction:?}");
        }
    }

    #[test]
    fn best_is_equivalent_if_within_the_margin_of_each_rival() {
        let (ahead, equal) = (log_ratios_around(-0.05), log_ratios_around(0.001));
        let judged =
            |margin| outcome_and_rival("x: best is a", &[&ahead, &equal], Direction::Lower, Some(margin)).unwrap();
        assert_eq!(judged(0.01), (Outcome::Equivalent, 1));
        assert_eq!(judged(0.004), (Outcome::Inconclusive, 1));
    }

    #[test]
    fn a_rival_that_left_early_keeps_the_claim_inconclusive() {
        let (ahead, early) = (log_ratios_around(-0.05), vec![-0.2; 3]);
        let rivals = [&ahead[..], &early[..]];
        let verdict = judge_extreme(&extreme("x: best is a"), &rivals, Direction::Lower, None).unwrap();
        assert_eq!((verdict.outcome, verdict.provisional, verdict.rival), (Outcome::Inconclusive, true, Some(1)));
    }

    #[test]
    fn one_of_many_rivals_ahead_by_luck_is_not_enough() {
        // n = 8 and every round ahead: 95% for one rival, not for the best of six.
        let (behind, equal) =
            (vec![0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08], log_ratios_around(0.0)[..8].to_vec());
        let six: Vec<&[f64]> = vec![&behind, &equal, &equal, &equal, &equal, &equal];
        assert_eq!(outcome_and_rival("x: best is a", &[&behind], Direction::Lower, None).unwrap().0, Outcome::Refuted);
        assert_eq!(outcome_and_rival("x: best is a", &six, Direction::Lower, None).unwrap().0, Outcome::Inconclusive);
    }

    #[test]
    fn a_refuted_claim_determines_the_exit_code() {
        use Outcome::{Equivalent, Held, Inconclusive, Refuted};
        assert_eq!(exit_code(&[Inconclusive, Refuted, Held]), ExitCode::Refuted);
        assert_eq!(exit_code(&[Held, Inconclusive, Equivalent]), ExitCode::Inconclusive);
        assert_eq!(exit_code(&[Held, Equivalent]), ExitCode::Done);
        assert_eq!(exit_code(&[]), ExitCode::Done);
    }

    /// The costs over 48 rounds of a variant that takes 3% less time than the other one, except in `stalls` of eight rounds, in
    /// which it takes `cost`.
    fn costs_with_stalls(stalls: usize, cost: f64) -> SharedCosts {
        let right: Vec<f64> = (0..48).map(|i| 1.0 + f64::from(i * 7 % 48) / 4800.0).collect();
        let left = (0..48).map(|i| if i % 8 < stalls { cost } else { 0.97 }).collect::<Vec<f64>>();
        SharedCosts::new(&right, &left).unwrap()
    }

    #[test]
    fn claims_by_mean_hold_by_the_interval_of_the_means() {
        let outcome = |text: &str, costs: &SharedCosts| judge_pair_by_means(&pair(text), costs, Some(0.01)).outcome;
        assert_eq!(outcome("x: a < b", &costs_with_stalls(0, 0.0)), Outcome::Held);
        assert_eq!(outcome("x: a > b by 2%", &costs_with_stalls(4, 3.0)), Outcome::Held);
        assert_eq!(outcome("x: a < b by 1%", &costs_with_stalls(4, 3.0)), Outcome::Refuted);
        assert_eq!(outcome("x: a < b", &costs_with_stalls(1, 1.3)), Outcome::Inconclusive);
        assert_eq!(outcome("x: a == b within 20%", &costs_with_stalls(1, 1.3)), Outcome::Held);
        let verdict = judge_pair_by_means(&pair("x: a < b"), &costs_with_stalls(0, 0.0), None);
        assert_eq!((verdict.rounds, verdict.e_value, verdict.withheld), (48, 1.0, None));
    }

    #[test]
    fn a_verdict_by_mean_is_withheld_with_its_interval() {
        let one_round: Vec<f64> = (0..48).map(|i| if i == 9 { 30.0 } else { 0.97 }).collect();
        let costs = SharedCosts::new(&[1.0; 48], &one_round).unwrap();
        let verdict = judge_pair_by_means(&pair("x: a > b"), &costs, None);
        assert_eq!(
            (verdict.outcome, verdict.withheld),
            (Outcome::Inconclusive, Some(WithheldReason::OneRoundDominates))
        );
        // The ratio of the means lies between those of the rounds.
        assert!((verdict.interval.0 + 0.03).abs() < 1e-9 && (verdict.interval.1 - 29.0).abs() < 1e-9);
    }

    #[test]
    fn the_best_by_mean_is_ahead_of_every_rival() {
        let judged = |text: &str, rivals: Vec<Option<SharedCosts>>| {
            let verdict = judge_extreme_by_means(&extreme(text), &rivals, Direction::Lower, Some(0.01)).unwrap();
            (verdict.outcome, verdict.rival)
        };
        let (ahead, behind) = (|| Some(costs_with_stalls(0, 0.0)), || Some(costs_with_stalls(4, 3.0)));
        assert_eq!(judged("x: best is a", vec![ahead(), ahead()]).0, Outcome::Held);
        assert_eq!(judged("x: best is a", vec![ahead(), behind()]), (Outcome::Refuted, Some(1)));
        assert_eq!(judged("x: best is not a", vec![ahead(), behind()]).0, Outcome::Held);
        assert_eq!(judged("x: worst is a", vec![behind(), behind()]).0, Outcome::Held);
        assert_eq!(judged("x: best is a", vec![ahead(), None]).0, Outcome::Inconclusive);
        assert_eq!(judge_extreme_by_means(&extreme("x: best is a"), &[ahead()], Direction::Neutral, None), None);
    }
}
