//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals
//! ([`crate::table`]): a verdict may be asked for at every look, and over all of them it errs with the
//! probability of one test.

mod outcome;

pub use outcome::{Outcome, Region, Verdict, exit_code};

use crate::{evalue::e_value, mean_ratio::SharedCosts, sequential::Centre};
use fsarena_core::claim::{Extreme, Op, Pair};
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

#[cfg(test)]
mod tests;
