//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals ([`crate::critical_values`]). A
//! verdict can be computed at every look; the error probability over all looks together is that of a single test.

use crate::evalue::e_value;
use crate::mean_ratio::{SharedCosts, WithheldReason};
use crate::sequential::Centre;
use fsarena_core::claim::{Extreme, Op, Pair};
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
///   is outside. With a tolerance, "inside" is tested with the 90% interval: two one-sided tests at 5% (TOST;
///   Schuirmann 1987), or one of them. Without one it is tested with the 95% interval.
/// - A strict claim (`<`, `>`, `!=`) is the negation of a tolerant one: held if the interval is outside, refuted if it
///   is inside. Only for `!=` with a fraction is "inside" tested with the 90% interval. If the claim is neither held
///   nor refuted, and the 90% interval is within the margin, the variants are equivalent.
pub fn judge(pair: &Pair, d: &[f64], margin: Option<f64>) -> Option<Verdict> {
    let centre = Centre::of(d)?;
    let edge = threshold(pair, &Region::of(pair, margin), centre.estimate);
    Some(Verdict { e_value: e_value(d, edge), ..judge_centre(pair, &centre, margin) })
}

/// Judges a claim about mean costs by the same rules, with the intervals of [`crate::mean_ratio`]. The claim is inconclusive if
/// these are withheld. Its e-value is 1, so e-BH over several claims never selects it.
pub fn judge_means(pair: &Pair, costs: &SharedCosts, margin: Option<f64>) -> Verdict {
    judge_centre(pair, &Centre::of_means(costs), margin)
}

/// The verdict by the intervals of a centre. Its e-value is 1.
fn judge_centre(pair: &Pair, centre: &Centre, margin: Option<f64>) -> Verdict {
    let region = Region::of(pair, margin);
    let factor = pair.factor.ln();
    let small_difference = if pair.op.tolerates() { pair.fraction().or(margin) } else { margin };
    let outcome = match region.judge(centre.interval_95, centre.interval_90) {
        Outcome::Inconclusive if !pair.op.tolerates() && is_within_margin(centre, factor, small_difference) => {
            Outcome::Equivalent
        }
        outcome => outcome,
    };
    Verdict {
        negligible: !centre.provisional && is_negligible(centre, factor, small_difference),
        edges: [region.low.exp_m1(), region.high.exp_m1()],
        ..Verdict::of(centre, outcome)
    }
}

/// The end of the claim's region that is nearest to the estimate.
fn threshold(pair: &Pair, region: &Region, estimate: f64) -> f64 {
    match pair.op {
        Op::Less | Op::AtLeast => region.low,
        Op::More | Op::AtMost => region.high,
        Op::Equal | Op::NotEqual if estimate < pair.factor.ln() => region.low,
        Op::Equal | Op::NotEqual => region.high,
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
    claim: &Extreme,
    rivals: &[impl AsRef<[f64]>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_about_smallest(direction);
    let compared = rivals.iter().filter(|d| !d.as_ref().is_empty()).count();
    let comparison = |(rival, d): (usize, &[f64])| {
        let signed: Vec<f64> = d.iter().map(|d| if ahead_is_below { *d } else { -*d }).collect();
        let (centre, e_value) = (Centre::of(&signed)?, e_value(&signed, 0.0));
        let enough = compared == 1 || e_value * ALPHA >= compared as f64;
        Some(RivalComparison { rival, centre, e_value, rival_is_ahead: centre.interval_95.0 > 0.0 && enough })
    };
    let comparisons = rivals.iter().map(AsRef::as_ref).enumerate().filter_map(comparison).collect();
    judge_comparisons(claim, comparisons, rivals.len(), direction, margin)
}

/// Judges a claim about the best or the worst mean cost, by the same rules. `rivals` has for each rival the costs of
/// both; None if they share no round. A rival is ahead if the one-sided bound of the ratio at level 0.05/(2k) excludes
/// 1, where k is the number of rivals.
pub fn judge_extreme_means(
    claim: &Extreme,
    rivals: &[Option<SharedCosts>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_about_smallest(direction);
    let comparison = |(rival, costs): (usize, &Option<SharedCosts>)| {
        let costs = costs.as_ref()?;
        let centre = Centre::of_means(costs);
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
    claim: &Extreme,
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
        ..Verdict::of(&centre, outcome)
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

/// Whether the 90% interval is within a factor of 1 + margin around another factor, whose logarithm is given.
fn is_within_margin(centre: &Centre, factor: f64, margin: Option<f64>) -> bool {
    margin.is_some_and(|margin| Region::around(factor, margin).covers(centre.interval_90))
}

/// Whether the ratio differs significantly from that factor, but by less than the margin.
fn is_negligible(centre: &Centre, factor: f64, margin: Option<f64>) -> bool {
    !Region::around(factor, 0.0).overlaps(centre.interval_95) && is_within_margin(centre, factor, margin)
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
    /// For a claim about the best or the worst, the rival that decided it or keeps it inconclusive.
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

    fn of(centre: &Centre, outcome: Outcome) -> Verdict {
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
    /// The region of a claim: the table in [`Pair`] in numbers. `margin` applies to tolerant claims without their own.
    pub fn of(pair: &Pair, margin: Option<f64>) -> Region {
        let by = pair.fraction().unwrap_or(0.0);
        let within = pair.fraction().or(margin).unwrap_or(0.0);
        let factor = pair.factor.ln();
        let (low, high) = match pair.op {
            Op::Less => (factor + (-by).ln_1p(), f64::INFINITY),
            Op::More => (f64::NEG_INFINITY, factor + by.ln_1p()),
            Op::NotEqual => (factor - by.ln_1p(), factor + by.ln_1p()),
            Op::Equal => (factor - within.ln_1p(), factor + within.ln_1p()),
            Op::AtMost => (f64::NEG_INFINITY, factor + within.ln_1p()),
            Op::AtLeast => (factor - within.ln_1p(), f64::INFINITY),
        };
        let has_margin = match pair.op {
            Op::Less | Op::More => false,
            Op::NotEqual => by > 0.0,
            Op::Equal | Op::AtMost | Op::AtLeast => within > 0.0,
        };
        Region { low, high, negated: !pair.op.tolerates(), has_margin }
    }

    /// The values that differ from a centre by at most a factor of 1 + `margin`.
    pub fn around(centre: f64, margin: f64) -> Region {
        let reach = margin.ln_1p();
        Region { low: centre - reach, high: centre + reach, negated: false, has_margin: margin > 0.0 }
    }

    /// Whether an interval lies in [low, high].
    fn covers(&self, (low, high): (f64, f64)) -> bool {
        self.low <= low && high <= self.high
    }

    /// Whether an interval has a value in common with [low, high].
    fn overlaps(&self, (low, high): (f64, f64)) -> bool {
        !(high < self.low || low > self.high)
    }

    /// What the intervals show about the claim: the 95% interval refutes it; the 90% interval shows that it
    /// holds if the region has a margin, otherwise the 95% interval does.
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
mod tests;
