//! Simulated histories: how often `fsarena history --fail-on-change` confirms a change wrongly.

use super::noise::{Noise, Order, SD, differences, normal};
use crate::average::median;
use crate::change_point::{SHORTEST, e_divisive, is_same_change};
use crate::gate::outcome_at;
use crate::hodges_lehmann::Walsh;
use crate::table::LOOKS;
use crate::verdict::Outcome;
use rand::Rng;

/// The runs of a history.
pub const RUNS: usize = 24;
/// The rounds of a run.
const ROUNDS: usize = 8;
/// How far the level moves from one run to the next, as a share of the noise: so far that the search finds many changes.
const STEP: f64 = 0.5;

/// Whether fresh rounds confirm some change of a history wrongly. The history is searched after each run. In the fresh rounds of
/// each alarm, the sides differ by exactly half of what the history shows: the largest difference that is no confirmation.
/// `split` is the number of parts of the error, of which the k-th alarm spends one.
pub fn confirms_wrongly(noise: Noise, split: fn(u32) -> u32, rng: &mut impl Rng) -> bool {
    let mut level = 0.0;
    let mut levels = vec![];
    for rounds in differences(noise, Order::Random, RUNS * ROUNDS, rng).chunks(ROUNDS) {
        level += STEP * SD * normal(rng);
        levels.push(level + median(rounds).unwrap_or(0.0));
    }
    let mut alarms: Vec<(usize, bool)> = vec![];
    for runs in 2 * SHORTEST..=RUNS {
        let levels = &levels[..runs];
        let splits: Vec<usize> = e_divisive(levels).iter().map(|split| split.at).collect();
        for (number, at) in splits.iter().enumerate() {
            let begin = number.checked_sub(1).map_or(0, |earlier| splits[earlier]);
            let end = splits.get(number + 1).copied().unwrap_or(runs);
            let medians = median(&levels[begin..*at]).zip(median(&levels[*at..end]));
            let change = medians.map_or(0.0, |(before, after)| after - before);
            let alarm = (*at, change > 0.0);
            if alarms.iter().any(|known| is_same_change(*known, alarm)) {
                continue;
            }
            alarms.push(alarm);
            if confirms_half(change.abs() / 2.0, noise, split(alarms.len() as u32) as usize, rng) {
                return true;
            }
        }
    }
    false
}

/// Whether fresh rounds with a difference of exactly `half` confirm that it is larger.
fn confirms_half(half: f64, noise: Noise, split: usize, rng: &mut impl Rng) -> bool {
    let rounds = LOOKS[LOOKS.len() - 1].n;
    let d: Vec<f64> = differences(noise, Order::Random, rounds, rng).into_iter().map(|d| d + half).collect();
    let at = |n: usize| {
        let walsh = Walsh::new(d[..n].to_vec());
        walsh.map_or(Outcome::Inconclusive, |walsh| outcome_at(&walsh, half, split))
    };
    let outcomes = LOOKS.iter().map(|look| at(look.n));
    outcomes.into_iter().find(|outcome| *outcome != Outcome::Inconclusive) == Some(Outcome::Refuted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change_point::alarm_split;
    use crate::simulate::{count, stream};

    #[test]
    fn only_the_levels_of_later_alarms_keep_false_confirmations_rare() {
        let wrong = |split| count(400, |run| confirms_wrongly(Noise::Normal, split, &mut stream(1, run)));
        let (with, without) = (wrong(alarm_split), wrong(|_| 1));
        assert!(with <= 20 && without >= 2 * with, "{with} {without}");
    }
}
