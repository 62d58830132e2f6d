//! The k-th smallest of very many values that need not be listed.

/// A multiset of numbers given by a rule, such as all sums of two lists.
pub(crate) trait Multiset {
    /// How many values are at most each of some limits. Several at once take hardly longer than one where each waits for
    /// memory.
    fn counts<const N: usize>(&self, limits: [f64; N]) -> [usize; N];

    /// How many values are at most `limit`.
    fn count(&self, limit: f64) -> usize {
        self.counts([limit])[0]
    }

    /// The values above `low` and at most `high`.
    fn between(&self, low: f64, high: f64) -> Vec<f64>;

    /// The number of values.
    fn len(&self) -> usize;

    /// The smallest and the largest value.
    fn range(&self) -> (f64, f64);
}

/// The `k`-th smallest value, `k` from 1.
///
/// Narrows the range by value until few candidates are left, then selects among those: O(n log) for a
/// multiset of n² values, where sorting it all would be O(n² log n).
///
/// # Panics
/// Where `k` is not in 1..=len.
pub(crate) fn kth(set: &impl Multiset, k: usize, few: usize) -> f64 {
    assert!((1..=set.len()).contains(&k), "rank {k} of {}", set.len());
    neighbours(set, k, k, few).0
}

/// The median: the mean of the two middle values where the number is even.
pub(crate) fn median(set: &impl Multiset, few: usize) -> f64 {
    let half = set.len() / 2;
    if set.len() % 2 == 1 {
        return kth(set, half + 1, few);
    }
    let (lower, upper) = neighbours(set, half, half + 1, few);
    (lower + upper) / 2.0
}

/// The `first`-th and the `last`-th smallest value, which is the same or the next one.
fn neighbours(set: &impl Multiset, first: usize, last: usize, few: usize) -> (f64, f64) {
    let (smallest, largest) = set.range();
    let mut bracket = Bracket { low: smallest.next_down(), high: largest, below: 0, up_to: set.len() };
    while bracket.up_to - bracket.below > few {
        let Some(cuts) = bracket.cuts(first, set.len()) else {
            return (bracket.high, bracket.high); // neighbouring numbers: all that is left are ties
        };
        for (cut, count) in cuts.into_iter().zip(set.counts(cuts)) {
            if count >= last && cut < bracket.high {
                (bracket.high, bracket.up_to) = (cut, count);
            } else if count < first && cut > bracket.low {
                (bracket.low, bracket.below) = (cut, count);
            } else if (first..last).contains(&count) {
                return (kth(set, first, few), kth(set, last, few)); // the cut fell between the two
            }
        }
    }
    let mut candidates = set.between(bracket.low, bracket.high);
    let (_, lower, above) = candidates.select_nth_unstable_by(first - bracket.below - 1, f64::total_cmp);
    let upper = above.iter().copied().min_by(f64::total_cmp).filter(|_| last > first);
    (*lower, upper.unwrap_or(*lower))
}

/// Values above `low` and at most `high`, with how many there are up to either.
struct Bracket {
    low: f64,
    high: f64,
    below: usize,
    up_to: usize,
}

impl Bracket {
    /// How far cuts are from where the rank should lie, as parts of the way to either end: near, so that both ends come
    /// near at once, and far, so that a bracket of any values gets narrower.
    const BESIDE: [f64; 2] = [0.05, 0.3];
    /// Averages crowd in the middle: their ranks grow about evenly there, and towards the ends the log odds of their
    /// ranks do. This part of the bracket counts as its end.
    const TAIL: f64 = 0.05;

    /// Where it is cut next to find this rank, of `all`. None where no number lies within.
    fn cuts(&self, rank: usize, all: usize) -> Option<[f64; 4]> {
        let (below, up_to, rank) = (self.below as f64, self.up_to as f64, rank as f64 - 0.5);
        let log_odds = |rank: f64| ((rank + 0.5) / (all as f64 - rank + 0.5)).ln();
        let mut at = (rank - below) / (up_to - below);
        if at.min(1.0 - at) < Bracket::TAIL {
            at = (log_odds(rank) - log_odds(below)) / (log_odds(up_to) - log_odds(below));
        }
        let [near, far] = Bracket::BESIDE;
        let parts = [at * (1.0 - far), at * (1.0 - near), at + near * (1.0 - at), at + far * (1.0 - at)];
        let cut = |part: f64| self.low + (self.high - self.low) * part;
        let within = |cut: &f64| self.low < *cut && *cut < self.high;
        let middle = Some(cut(0.5)).filter(within)?;
        Some(parts.map(|part| Some(cut(part)).filter(within).unwrap_or(middle)))
    }
}
