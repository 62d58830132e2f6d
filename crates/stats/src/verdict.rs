//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals
//! ([`crate::table`]): a verdict may be asked for at every look, and over all of them it errs with the
//! probability of one test.

use crate::evalue::e_value;
use crate::mean_ratio::{SharedCosts, Withheld};
use crate::sequential::Centre;
use fsarena_core::claim::{Extreme, Op, Pair};
use fsarena_core::exit::ExitCode;
use fsarena_core::sample::Direction;

/// Level of the intervals that tell variants apart.
pub(crate) const ALPHA: f64 = 0.05;

/// Judges a claim about a pair from its paired log ratios d_i = ln(left_i/right_i), in the order of the
/// rounds; [`crate::ratio::log_ratios`]`(right, left)` gives them. `margin` is what the user said matters,
/// as a fraction: the `within` of a claim that names none, and the width of "equivalent". None without
/// any round.
///
/// - A tolerant claim (`==`, `<=`, `>=`) is held where the 90% interval lies in its region: two one-sided
///   tests at 5% (TOST; Schuirmann 1987), or one of them. It is refuted where the 95% interval lies outside.
/// - A strict claim (`<`, `>`, `!=`) is held or refuted where the 95% interval lies on one side of its
///   threshold. Where it is neither and the 90% interval lies within the margin, the variants are equivalent.
pub fn judge(pair: &Pair, d: &[f64], margin: Option<f64>) -> Option<Verdict> {
    let centre = Centre::of(d)?;
    let edge = threshold(pair, &Region::of(pair, margin), centre.estimate);
    Some(Verdict { e_value: e_value(d, edge), ..judge_centre(pair, &centre, margin) })
}

/// Judges a claim about mean costs by the same rules, with the intervals of [`crate::mean_ratio`]. It is inconclusive where
/// these are withheld, and has no e-value: a family of claims does not count it.
pub fn judge_means(pair: &Pair, costs: &SharedCosts, margin: Option<f64>) -> Verdict {
    judge_centre(pair, &Centre::of_means(costs), margin)
}

fn judge_centre(pair: &Pair, centre: &Centre, margin: Option<f64>) -> Verdict {
    let region = Region::of(pair, margin);
    let factor = pair.factor.ln();
    let small = if pair.op.tolerates() { pair.fraction().or(margin) } else { margin };
    let outcome = match region.judge(centre.wide, centre.narrow) {
        Outcome::Inconclusive if !pair.op.tolerates() && matters_not(centre, factor, small) => {
            Outcome::Equivalent
        }
        outcome => outcome,
    };
    Verdict {
        negligible: !centre.provisional && negligible(centre, factor, small),
        edges: [region.low.exp_m1(), region.high.exp_m1()],
        ..Verdict::of(centre, outcome)
    }
}

/// The end of the region that is nearest to the estimate; the middle for `==` and `!=` without a margin.
fn threshold(pair: &Pair, region: &Region, estimate: f64) -> f64 {
    match pair.op {
        Op::Less | Op::AtLeast => region.low,
        Op::More | Op::AtMost => region.high,
        Op::Equal | Op::NotEqual if estimate < pair.factor.ln() => region.low,
        Op::Equal | Op::NotEqual => region.high,
    }
}

/// One rival, with signs such that below 0 the claimed variant is ahead.
struct RivalComparison {
    rival: usize,
    centre: Centre,
    /// Evidence that the two differ, in either direction.
    e_value: f64,
    /// Whether the rival is ahead, corrected for the number of rivals.
    beaten: bool,
}

/// Judges a claim about all variants. `rivals` are ln(variant/rival) of all the other variants, in the rounds that they share
/// with the variant of the claim; [`Verdict::rival`] is an index into them.
///
/// - **held**: ahead of every rival, each at 95%. The claim is an intersection, so each part is tested at
///   the full level (intersection–union test; Berger 1982).
/// - **refuted**: some rival is ahead. Here any of k rivals may be the one by chance, so with more than one
///   the evidence is an e-value of k/0.05 (Bonferroni).
/// - **equivalent**: neither, but within `margin` of or ahead of each.
///
/// None where no rival shares a round with the variant, or where neither way is better.
pub fn judge_extreme(
    claim: &Extreme,
    rivals: &[impl AsRef<[f64]>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_least(direction);
    let racing = rivals.iter().filter(|d| !d.as_ref().is_empty()).count();
    let race = |(rival, d): (usize, &[f64])| {
        let signed: Vec<f64> = d.iter().map(|d| if ahead_is_below { *d } else { -*d }).collect();
        let (centre, e_value) = (Centre::of(&signed)?, e_value(&signed, 0.0));
        let enough = racing == 1 || e_value * ALPHA >= racing as f64;
        Some(RivalComparison { rival, centre, e_value, beaten: centre.wide.0 > 0.0 && enough })
    };
    let races = rivals.iter().map(AsRef::as_ref).enumerate().filter_map(race).collect();
    judge_races(claim, races, rivals.len(), direction, margin)
}

/// Judges a claim about the mean costs of all variants, by the same rules. `rivals` are the costs of the variant over those
/// of each rival, none where they share no round. Of k rivals one is ahead where its bound at level 0.05/2k says so.
pub fn judge_extreme_means(
    claim: &Extreme,
    rivals: &[Option<SharedCosts>],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = claim.is_least(direction);
    let race = |(rival, costs): (usize, &Option<SharedCosts>)| {
        let costs = costs.as_ref()?;
        let centre = Centre::of_means(costs);
        let (low, high) = costs.bounds(2 * rivals.len()).unwrap_or((0.0, f64::INFINITY));
        let beaten = if ahead_is_below { low > 1.0 } else { high < 1.0 };
        let centre = if ahead_is_below { centre } else { centre.exchanged() };
        Some(RivalComparison { rival, centre, e_value: 1.0, beaten })
    };
    judge_races(claim, rivals.iter().enumerate().filter_map(race).collect(), rivals.len(), direction, margin)
}

/// Judges the races with those of `rivals` that share a round.
fn judge_races(
    claim: &Extreme,
    races: Vec<RivalComparison>,
    rivals: usize,
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    if direction == Direction::Neutral {
        return None;
    }
    let complete = races.len() == rivals && races.iter().all(|race| !race.centre.provisional);
    let (outcome, decisive) = decide(&races, complete, margin)?;
    let outcome = outcome.turned(claim.negated);
    // Back to the signs of the claim, for people.
    let signed = decisive.centre;
    let centre = if claim.is_least(direction) { signed } else { signed.exchanged() };
    let provisional = centre.provisional || (!complete && outcome == Outcome::Inconclusive);
    Some(Verdict {
        provisional,
        e_value: decisive.e_value,
        rival: Some(decisive.rival),
        negligible: !provisional && negligible(&signed, 0.0, margin),
        ..Verdict::of(&centre, outcome)
    })
}

/// The outcome before any negation, with the rival that it hangs on.
fn decide(
    races: &[RivalComparison],
    complete: bool,
    margin: Option<f64>,
) -> Option<(Outcome, &RivalComparison)> {
    let ahead = |race: &RivalComparison| race.centre.wide.1 < 0.0;
    let beaten = races.iter().filter(|race| !race.centre.provisional && race.beaten);
    if let Some(race) = nearest(beaten, |race| race.centre.wide.0) {
        return Some((Outcome::Refuted, race));
    }
    let closest = nearest(races.iter(), |race| race.centre.wide.1)?;
    if !complete {
        return Some((Outcome::Inconclusive, races.iter().min_by_key(|race| race.centre.rounds)?));
    }
    if ahead(closest) {
        return Some((Outcome::Held, closest));
    }
    let as_good = |race: &RivalComparison| ahead(race) || matters_not(&race.centre, 0.0, margin);
    let outcome = if races.iter().all(as_good) { Outcome::Equivalent } else { Outcome::Inconclusive };
    Some((outcome, closest))
}

/// The race with the largest value of `of`: the one that is the furthest from being won.
fn nearest<'a>(
    races: impl Iterator<Item = &'a RivalComparison>,
    of: impl Fn(&RivalComparison) -> f64,
) -> Option<&'a RivalComparison> {
    races.max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// Whether the 90% interval lies within a factor of 1 + margin around another one, the logarithm of which is given.
fn matters_not(centre: &Centre, factor: f64, margin: Option<f64>) -> bool {
    margin.is_some_and(|margin| Region::around(factor, margin).covers(centre.narrow))
}

/// Whether the variants differ from that factor, but by less than matters.
fn negligible(centre: &Centre, factor: f64, margin: Option<f64>) -> bool {
    !Region::around(factor, 0.0).meets(centre.wide) && matters_not(centre, factor, margin)
}

/// The outcome of a judged claim.
pub use fsarena_core::claim::ClaimOutcome as Outcome;

/// The exit code that all claims together call for: a refuted one before an inconclusive one. Equivalence is an
/// answer.
pub fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    if outcomes.contains(&Outcome::Refuted) {
        ExitCode::Refuted
    } else if outcomes.contains(&Outcome::Inconclusive) {
        ExitCode::Inconclusive
    } else {
        ExitCode::Done
    }
}

/// A judged claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// What became of it. Always inconclusive where it is provisional.
    pub outcome: Outcome,
    /// Under 8 rounds nothing is exact; or an interval by mean cost is withheld.
    pub provisional: bool,
    /// Why an interval by mean cost is withheld: the intervals are then the range of the rounds.
    pub withheld: Option<Withheld>,
    /// Left over right, minus 1: the estimate exp(θ) − 1. Of a claim about all variants, the variant over `rival`.
    pub effect: f64,
    /// Its 95% interval.
    pub interval: (f64, f64),
    /// Its 90% interval, for equivalence.
    pub narrow: (f64, f64),
    /// The ends of what the claim allows, as fractions: the interval is held against them.
    pub edges: [f64; 2],
    /// Rounds behind it.
    pub rounds: usize,
    /// The difference is real, but smaller than the margin: smaller than what you said matters.
    pub negligible: bool,
    /// The sign test disagrees: the variants differ in shape, not only in place.
    pub shapes_differ: bool,
    /// The evidence against "the claimed threshold is the truth", for [`crate::evalue::e_bh`] over a family of
    /// claims. Anytime-valid.
    pub e_value: f64,
    /// Of a claim about all variants, the rival that decided it or leaves it open.
    pub rival: Option<usize>,
}

impl Verdict {
    /// The largest difference, either way, that the rounds leave possible at 95%: what is larger, the run
    /// excludes. As a fraction: 0.03 for 3%.
    pub fn excludes(&self) -> f64 {
        self.interval.0.abs().max(self.interval.1.abs())
    }

    fn of(centre: &Centre, outcome: Outcome) -> Verdict {
        let ends = |(low, high): (f64, f64)| (low.exp_m1(), high.exp_m1());
        Verdict {
            outcome: if centre.provisional { Outcome::Inconclusive } else { outcome },
            provisional: centre.provisional,
            withheld: centre.withheld,
            effect: centre.estimate.exp_m1(),
            interval: ends(centre.wide),
            narrow: ends(centre.narrow),
            edges: [0.0; 2],
            rounds: centre.rounds,
            negligible: false,
            shapes_differ: centre.shapes_differ(),
            e_value: 1.0,
            rival: None,
        }
    }
}

/// The θ = ln(left/right) in [low, high], or all others where `negated`: a tolerant claim holds on a closed
/// interval, a strict one outside of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The lower end; −∞ where there is none.
    pub low: f64,
    /// The upper end; ∞ where there is none.
    pub high: f64,
    /// Whether the claim is true outside, not inside.
    pub negated: bool,
    /// Whether the claim tolerates or demands a difference of some size: what lies in between is then
    /// shown by one-sided tests.
    margin: bool,
}

impl Region {
    /// The region of a claim; the table in [`Pair`] in numbers. `margin` serves tolerant claims that name
    /// none.
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
        let margin = match pair.op {
            Op::Less | Op::More => false,
            Op::NotEqual => by > 0.0,
            Op::Equal | Op::AtMost | Op::AtLeast => within > 0.0,
        };
        Region { low, high, negated: !pair.op.tolerates(), margin }
    }

    /// A factor of 1 + x either way around a centre.
    pub fn around(centre: f64, x: f64) -> Region {
        Region { low: centre - x.ln_1p(), high: centre + x.ln_1p(), negated: false, margin: x > 0.0 }
    }

    /// Whether an interval lies in [low, high].
    fn covers(&self, (low, high): (f64, f64)) -> bool {
        self.low <= low && high <= self.high
    }

    /// Whether an interval has a value in common with [low, high].
    fn meets(&self, (low, high): (f64, f64)) -> bool {
        !(high < self.low || low > self.high)
    }

    /// What an interval says of the claim; the narrow one of what lies inside, where one-sided tests show that.
    pub(crate) fn judge(&self, wide: (f64, f64), narrow: (f64, f64)) -> Outcome {
        let outcome = if !self.meets(wide) {
            Outcome::Refuted
        } else if self.covers(if self.margin { narrow } else { wide }) {
            Outcome::Held
        } else {
            Outcome::Inconclusive
        };
        outcome.turned(self.negated)
    }
}

#[cfg(test)]
mod tests;
