//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals
//! ([`crate::table`]): a verdict may be asked for at every look, and over all of them it errs with the
//! probability of one test.

mod outcome;

pub use outcome::{Outcome, Region, Verdict, exit_code};

use crate::{evalue::e_value, sequential::Centre};
use fsarena_core::claim::{Extreme, Op, Pair};
use fsarena_core::sample::Direction;

/// Level of the intervals that tell variants apart.
pub(crate) const ALPHA: f64 = 0.05;

/// Judges a claim about a pair from its paired log ratios d_i = ln(left_i/right_i), in the order of the
/// rounds; [`crate::pairs::log_ratios`]`(right, left)` gives them. `margin` is what the user said matters,
/// as a fraction: the `within` of a claim that names none, and the width of "equivalent". None without
/// any round.
///
/// - A tolerant claim (`==`, `<=`, `>=`) is held where the 90% interval lies in its region: two one-sided
///   tests at 5% (TOST; Schuirmann 1987), or one of them. It is refuted where the 95% interval lies outside.
/// - A strict claim (`<`, `>`, `!=`) is held or refuted where the 95% interval lies on one side of its
///   threshold. Where it is neither and the 90% interval lies within the margin, the variants are equivalent.
pub fn judge(pair: &Pair, d: &[f64], margin: Option<f64>) -> Option<Verdict> {
    let centre = Centre::of(d)?;
    let region = Region::of(pair, margin);
    let factor = pair.factor.ln();
    let small = if pair.op.tolerates() { pair.fraction().or(margin) } else { margin };
    let outcome = match region.judge(centre.wide, centre.narrow) {
        Outcome::Inconclusive if !pair.op.tolerates() && matters_not(&centre, factor, small) => {
            Outcome::Equivalent
        }
        outcome => outcome,
    };
    Some(Verdict {
        negligible: !centre.provisional && negligible(&centre, factor, small),
        edges: [region.low.exp_m1(), region.high.exp_m1()],
        e_value: e_value(d, threshold(pair, &region, centre.estimate)),
        ..Verdict::of(&centre, outcome)
    })
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
struct Race {
    rival: usize,
    centre: Centre,
    /// Evidence that the two differ, in either direction.
    e_value: f64,
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
    if direction == Direction::Neutral {
        return None;
    }
    let ahead_is_below = claim.is_least(direction);
    let races: Vec<Race> = rivals
        .iter()
        .enumerate()
        .filter_map(|(rival, d)| {
            let signed: Vec<f64> = d.as_ref().iter().map(|d| if ahead_is_below { *d } else { -*d }).collect();
            Some(Race { rival, centre: Centre::of(&signed)?, e_value: e_value(&signed, 0.0) })
        })
        .collect();
    let complete = races.len() == rivals.len() && races.iter().all(|race| !race.centre.provisional);
    let (outcome, decisive) = decide(&races, complete, margin)?;
    let outcome = outcome.turned(claim.negated);
    // Back to the signs of the claim, for people.
    let centre = Centre::of(rivals[decisive.rival].as_ref())?;
    let provisional = centre.provisional || (!complete && outcome == Outcome::Inconclusive);
    Some(Verdict {
        provisional,
        e_value: decisive.e_value,
        rival: Some(decisive.rival),
        negligible: !provisional && negligible(&decisive.centre, 0.0, margin),
        ..Verdict::of(&centre, outcome)
    })
}

/// The outcome before any negation, with the rival that it hangs on.
fn decide(races: &[Race], complete: bool, margin: Option<f64>) -> Option<(Outcome, &Race)> {
    let ahead = |race: &Race| race.centre.wide.1 < 0.0;
    let beaten = |race: &Race| {
        let enough = races.len() == 1 || race.e_value * ALPHA >= races.len() as f64;
        !race.centre.provisional && race.centre.wide.0 > 0.0 && enough
    };
    if let Some(race) = nearest(races.iter().filter(|race| beaten(race)), |race| race.centre.wide.0) {
        return Some((Outcome::Refuted, race));
    }
    let closest = nearest(races.iter(), |race| race.centre.wide.1)?;
    if !complete {
        return Some((Outcome::Inconclusive, races.iter().min_by_key(|race| race.centre.rounds)?));
    }
    if ahead(closest) {
        return Some((Outcome::Held, closest));
    }
    let as_good = |race: &Race| ahead(race) || matters_not(&race.centre, 0.0, margin);
    let outcome = if races.iter().all(as_good) { Outcome::Equivalent } else { Outcome::Inconclusive };
    Some((outcome, closest))
}

/// The race with the largest value of `of`: the one that is the furthest from being won.
fn nearest<'a>(races: impl Iterator<Item = &'a Race>, of: impl Fn(&Race) -> f64) -> Option<&'a Race> {
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
