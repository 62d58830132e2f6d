//! The k-th smallest of very many values that need not be listed.

/// A multiset of numbers given by a rule, such as all sums of two lists.
pub(crate) trait Multiset {
    /// How many values are at most `limit`.
    fn count(&self, limit: f64) -> usize;

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
    let below = set.count(smallest);
    if last <= below {
        return (smallest, smallest);
    }
    if first <= below {
        return (smallest, kth(set, last, few));
    }
    let mut bracket = Bracket { low: smallest, high: largest, below, up_to: set.len() };
    let mut cut = Cut::default();
    while bracket.up_to - bracket.below > few {
        let Some(middle) = cut.of(&bracket, first, set.len()) else {
            return (bracket.high, bracket.high); // neighbouring numbers: all that is left are ties
        };
        let count = set.count(middle);
        if count >= last {
            (bracket.high, bracket.up_to) = (middle, count);
        } else if count < first {
            (bracket.low, bracket.below) = (middle, count);
        } else {
            return (kth(set, first, few), kth(set, last, few)); // the cut fell between the two
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

/// Where a bracket is cut next: by turns a little beyond where the rank should lie, on either side so that both ends
/// come near, and in the middle, which halves the bracket whatever the values are.
#[derive(Default)]
struct Cut {
    cuts: u32,
}

impl Cut {
    /// How far beyond, as a part of the way to the nearer end.
    const BEYOND: f64 = 0.1;
    /// Averages crowd in the middle: their ranks grow about evenly there, and towards the ends the log odds of their
    /// ranks do. This part of the bracket counts as its end.
    const TAIL: f64 = 0.05;

    /// None where no number lies within the bracket, which is of `all` values.
    fn of(&mut self, bracket: &Bracket, rank: usize, all: usize) -> Option<f64> {
        let (low, high, rank) = (bracket.below as f64, bracket.up_to as f64, rank as f64 - 0.5);
        let log_odds = |rank: f64| ((rank + 0.5) / (all as f64 - rank + 0.5)).ln();
        let mut at = (rank - low) / (high - low);
        if at.min(1.0 - at) < Cut::TAIL {
            at = (log_odds(rank) - log_odds(low)) / (log_odds(high) - log_odds(low));
        }
        let beyond = Cut::BEYOND * at.min(1.0 - at);
        let part = match self.cuts % 3 {
            0 => at + beyond,
            1 => at - beyond,
            _ => 0.5,
        };
        self.cuts += 1;
        let cut = |part: f64| bracket.low + (bracket.high - bracket.low) * part;
        [cut(part), cut(0.5)].into_iter().find(|cut| bracket.low < *cut && *cut < bracket.high)
    }
}
