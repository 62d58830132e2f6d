//! Verdicts on "best is X".

use super::{ALPHA, Outcome, Verdict, region::Region};
use crate::{evalue::e_value, sequential::Centre};
use fsarena_core::claim::{End, Extreme};
use fsarena_core::sample::Direction;

/// Another variant, in the rounds that it shares with the variant of the claim.
#[derive(Debug, Clone, Copy)]
pub struct Rival<'a> {
    /// ln(variant/rival), one a round.
    pub d: &'a [f64],
}

/// One rival, with signs such that below 0 the claimed variant is ahead.
struct Race {
    rival: usize,
    centre: Centre,
    /// Evidence that the two differ, in either direction.
    e_value: f64,
}

/// Judges a claim about all variants; `rivals` are all the other variants, and [`Verdict::rival`] is an index into
/// them.
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
    rivals: &[Rival],
    direction: Direction,
    margin: Option<f64>,
) -> Option<Verdict> {
    let ahead_is_below = match (direction, claim.end) {
        (Direction::Neutral, _) => return None,
        (Direction::Lower, End::Best) | (Direction::Higher, End::Worst) => true,
        (Direction::Higher, End::Best) | (Direction::Lower, End::Worst) => false,
    };
    let races: Vec<Race> = rivals
        .iter()
        .enumerate()
        .filter_map(|(rival, Rival { d })| {
            let signed: Vec<f64> = d.iter().map(|d| if ahead_is_below { *d } else { -*d }).collect();
            Some(Race { rival, centre: Centre::of(&signed)?, e_value: e_value(&signed, 0.0) })
        })
        .collect();
    let complete = races.len() == rivals.len() && races.iter().all(|race| !race.centre.provisional);
    let (outcome, decisive) = decide(&races, complete, margin)?;
    let outcome = match outcome {
        Outcome::Held if claim.negated => Outcome::Refuted,
        Outcome::Refuted if claim.negated => Outcome::Held,
        outcome => outcome,
    };
    // Back to the signs of the claim, for people.
    let centre = Centre::of(rivals[decisive.rival].d)?;
    let provisional = centre.provisional || (!complete && outcome == Outcome::Inconclusive);
    Some(Verdict {
        provisional,
        e_value: decisive.e_value,
        rival: Some(decisive.rival),
        negligible: !provisional && negligible(&decisive.centre, margin),
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
        return Some((Outcome::Inconclusive, thinnest(races)?));
    }
    if ahead(closest) {
        return Some((Outcome::Held, closest));
    }
    let as_good = |race: &Race| {
        let within = |x| Region::around(0.0, x).covers(race.centre.narrow);
        ahead(race) || margin.is_some_and(within)
    };
    let outcome = if races.iter().all(as_good) { Outcome::Equivalent } else { Outcome::Inconclusive };
    Some((outcome, closest))
}

/// The race with the largest value of `of`: the one that is the furthest from being won.
fn nearest<'a>(races: impl Iterator<Item = &'a Race>, of: impl Fn(&Race) -> f64) -> Option<&'a Race> {
    races.max_by(|a, b| of(a).total_cmp(&of(b)))
}

/// The race with the fewest rounds.
fn thinnest(races: &[Race]) -> Option<&Race> {
    races.iter().min_by_key(|race| race.centre.rounds)
}

fn negligible(centre: &Centre, margin: Option<f64>) -> bool {
    let differs = !Region::around(0.0, 0.0).meets(centre.wide);
    differs && margin.is_some_and(|x| Region::around(0.0, x).covers(centre.narrow))
}
