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
/// Bisects the range by value until few candidates are left, then selects among those: O(n log) for a
/// multiset of n² values, where sorting it all would be O(n² log n).
///
/// # Panics
/// Where `k` is not in 1..=len.
pub(crate) fn kth(set: &impl Multiset, k: usize, few: usize) -> f64 {
    assert!((1..=set.len()).contains(&k), "rank {k} of {}", set.len());
    let (smallest, mut high) = set.range();
    let mut below = set.count(smallest);
    if k <= below {
        return smallest;
    }
    let (mut low, mut up_to) = (smallest, set.len());
    while up_to - below > few {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return high; // neighbouring numbers: all that is left are ties
        }
        let count = set.count(middle);
        if count >= k {
            (high, up_to) = (middle, count);
        } else {
            (low, below) = (middle, count);
        }
    }
    let mut candidates = set.between(low, high);
    *candidates.select_nth_unstable_by(k - below - 1, f64::total_cmp).1
}

/// The median: the mean of the two middle values where the number is even.
pub(crate) fn median(set: &impl Multiset, few: usize) -> f64 {
    let half = set.len() / 2;
    if set.len() % 2 == 1 {
        return kth(set, half + 1, few);
    }
    (kth(set, half, few) + kth(set, half + 1, few)) / 2.0
}
