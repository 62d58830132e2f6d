//! Finds change points in a series over runs, and checks whether later runs confirm them.
//!
//! **Search**: E-divisive (Matteson and James 2014, "A nonparametric approach for multiple change point analysis of
//! multivariate data", J. Am. Stat. Assoc. 109). For a split at τ of the first κ values, let x be the n values
//! before τ and y the m values from τ to κ. Then `Q = nm/(n+m) · (2·mean|x−y| − mean|x−x′| − mean|y−y′|)`; the means of
//! |x−x′| and |y−y′| are over unordered pairs. The largest Q of all segments is tested by permuting values within their
//! segments. If it is significant, the segment is split there, and the search continues.
//!
//! **Confirmation**: the search selects values that look like a change, so the same values cannot confirm it. Only new values
//! can: the first [`CONFIRMING_VALUES`] values after the shortest prefix of the series in which the search finds the change. A
//! single one-sided Mann–Whitney test checks whether they are beyond the values before the change.

use crate::{average::median, hodges_lehmann::mann_whitney};
use chacha20::ChaCha8Rng;
use rand::{SeedableRng, seq::SliceRandom};

/// The fewest values between two changes.
pub const SHORTEST_SEGMENT: usize = 3;
/// The number of later values that are tested to confirm a change.
pub const CONFIRMING_VALUES: usize = 3;
/// The level of both tests.
const LEVEL: f64 = 0.05;
/// Permutations of a test, as in the authors' program.
const PERMUTATIONS: usize = 199;

/// The best split of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Split {
    /// The index of the first value after it.
    pub index: usize,
    /// The probability of a split with a Q at least as large by chance.
    pub p_value: f64,
}

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The index of the first value on the new level.
    pub index: usize,
    /// The median of the values before it, back to the previous change.
    pub median_before: f64,
    /// The median of the values from it on, up to the next change.
    pub median_after: f64,
    /// The probability of a split with a Q at least as large by chance.
    pub p_value: f64,
    /// The length of the shortest prefix of the series in which the search finds it.
    pub prefix_length: usize,
    /// Whether later values confirm it.
    pub confirmation: Confirmation,
}

/// Whether later values confirm a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Confirmation {
    /// Later values confirm the change.
    Confirmed {
        /// The probability of such values if nothing had changed.
        p: f64,
    },
    /// Later values do not confirm the change, or there are too few yet.
    Suspected {
        /// The number of values that are still missing; 0 if there are enough and they do not confirm the change.
        missing_values: usize,
    },
}

/// The number by which the error of the k-th alarm of a history is divided, k(k+1). An alarm is a change that `fsarena
/// history --fail-on-change` tests in fresh rounds. All alarms of a history share an error of 5%: alarm k, counted from 1, may
/// use the part 1/(k(k+1)) of it. The parts of any number of alarms, 1/2 + 1/6 + 1/12 + …, add up to less than 1.
pub fn alarm_error_divisor(number: u32) -> u32 {
    number.saturating_mul(number + 1)
}

/// Whether two changes, each an index and whether the values rise, are the same: their indices differ by less than
/// [`SHORTEST_SEGMENT`], and both rise or both fall.
pub fn is_same_change(a: (usize, bool), b: (usize, bool)) -> bool {
    a.0.abs_diff(b.0) < SHORTEST_SEGMENT && a.1 == b.1
}

/// Finds the changes of a series of finite values, in its order.
pub fn find_changes(values: &[f64]) -> Vec<Change> {
    let splits = e_divisive(values);
    let mut changes = vec![];
    for (number, &Split { index, p_value }) in splits.iter().enumerate() {
        let start = number.checked_sub(1).map_or(0, |previous| splits[previous].index);
        let end = splits.get(number + 1).map_or(values.len(), |next| next.index);
        let (before, after) = (&values[start..index], &values[index..end]);
        let [median_before, median_after] = [before, after].map(|values| median(values).unwrap_or(f64::NAN));
        let prefix_length = shortest_prefix_with_change(values, index);
        let confirmation = confirm(before, &values[prefix_length..], median_after > median_before);
        changes.push(Change { index, median_before, median_after, p_value, prefix_length, confirmation });
    }
    changes
}

/// The length of the shortest prefix of the series in which the search finds a change at `index`, or less than
/// [`SHORTEST_SEGMENT`] away.
fn shortest_prefix_with_change(values: &[f64], index: usize) -> usize {
    let is_near = |split: &Split| split.index.abs_diff(index) < SHORTEST_SEGMENT;
    (index + SHORTEST_SEGMENT..values.len())
        .find(|n| e_divisive(&values[..*n]).iter().any(is_near))
        .unwrap_or(values.len())
}

/// Tests whether the first [`CONFIRMING_VALUES`] later values are beyond the values before a change.
fn confirm(before: &[f64], later: &[f64], rises: bool) -> Confirmation {
    let Some(tested) = later.get(..CONFIRMING_VALUES) else {
        return Confirmation::Suspected { missing_values: CONFIRMING_VALUES - later.len() };
    };
    let is_beyond = |new: f64, old: f64| if rises { new > old } else { new < old };
    // The Mann–Whitney statistic U: the number of pairs in which the later value is not beyond the earlier one.
    let u: usize = tested.iter().map(|new| before.iter().filter(|old| !is_beyond(*new, **old)).count()).sum();
    let p: f64 = mann_whitney(before.len(), CONFIRMING_VALUES)[..=u].iter().sum();
    // The tolerance allows for rounding: an exact p of 1/20 must count.
    if p <= LEVEL + 1e-12 { Confirmation::Confirmed { p } } else { Confirmation::Suspected { missing_values: 0 } }
}

/// Finds the significant splits of a series by E-divisive, in the order of the series. The random permutations depend only on
/// the length of the series.
pub fn e_divisive(values: &[f64]) -> Vec<Split> {
    let mut splits: Vec<Split> = Vec::new();
    let mut rng = ChaCha8Rng::seed_from_u64(values.len() as u64);
    loop {
        let ends = || splits.iter().map(|split| split.index).chain([values.len()]);
        let segments: Vec<(usize, usize)> = std::iter::once(0).chain(ends()).zip(ends()).collect();
        let Some((index, q)) = best_split_of_segments(values, &segments) else { return splits };
        let mut shuffled = values.to_vec();
        let (mut at_least_as_large, mut p_value) = (0, 0.0);
        for _ in 0..PERMUTATIONS {
            for (start, end) in &segments {
                shuffled[*start..*end].shuffle(&mut rng);
            }
            // The tolerance allows for rounding: an equal split must count.
            let is_as_large = |(_, other_q)| other_q >= q * (1.0 - 1e-9);
            at_least_as_large += usize::from(best_split_of_segments(&shuffled, &segments).is_some_and(is_as_large));
            p_value = (at_least_as_large + 1) as f64 / (PERMUTATIONS + 1) as f64;
            // Further permutations cannot lower the count, so the split stays insignificant.
            if p_value > LEVEL || q <= 0.0 {
                return splits;
            }
        }
        splits.push(Split { index, p_value });
        splits.sort_by_key(|split| split.index);
    }
}

/// The index and the Q of the split with the largest Q of all segments, which are ranges of indices.
fn best_split_of_segments(values: &[f64], segments: &[(usize, usize)]) -> Option<(usize, f64)> {
    let best = |(start, end): &(usize, usize)| best_split(&values[*start..*end]).map(|(index, q)| (start + index, q));
    segments.iter().filter_map(best).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The index and the Q of the split of a segment with the largest Q over every τ and κ; the first of equal ones. None if the
/// segment is too short.
fn best_split(values: &[f64]) -> Option<(usize, f64)> {
    let n = values.len();
    let mut best: Option<(usize, f64)> = None;
    // After the iteration for `kappa`: `within[k]` is the sum of |a − b| over all pairs in `values[..k]`, for k up to
    // `kappa`, and `between[tau]` is the sum of |a − b| over a in `values[..tau]` and b in `values[tau..kappa]`.
    let mut within = vec![0.0; n + 1];
    let mut between = vec![0.0; n + 1];
    for kappa in 1..=n {
        let last = kappa - 1;
        // The sum of distances from the new last value to the first τ values.
        let mut distances = 0.0;
        for tau in 0..last {
            between[tau] += distances;
            distances += (values[last] - values[tau]).abs();
        }
        between[last] += distances;
        within[kappa] = within[last] + distances;
        for tau in SHORTEST_SEGMENT..(kappa + 1).saturating_sub(SHORTEST_SEGMENT) {
            let after = within[kappa] - within[tau] - between[tau];
            let q = energy_statistic((tau, within[tau]), (kappa - tau, after), between[tau]);
            if best.is_none_or(|(_, best_q)| q > best_q) {
                best = Some((tau, q));
            }
        }
    }
    best
}

/// Q of two groups, from the size and the sum of distances within each, and the sum of distances between them.
fn energy_statistic((n, within_x): (usize, f64), (m, within_y): (usize, f64), between: f64) -> f64 {
    let pairs = |count: f64| count * (count - 1.0) / 2.0;
    let (n, m) = (n as f64, m as f64);
    n * m / (n + m) * (2.0 * between / (n * m) - within_x / pairs(n) - within_y / pairs(m))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistic_matches_values_computed_by_hand() {
        // Every distance between is 1, none within: 3·3/6 · 2.
        assert_eq!(best_split(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), Some((3, 3.0)));
        // Between: 4+5+6 + 3+4+5 + 2+3+4 = 36, a mean of 36/9 = 4. The mean within each group is 4/3. Q = 1.5 · (8 − 8/3) = 8.
        let (index, q) = best_split(&[0.0, 1.0, 2.0, 4.0, 5.0, 6.0]).unwrap();
        assert_eq!(index, 3);
        assert!((q - 8.0).abs() < 1e-12, "{q}");
        assert_eq!(best_split(&[1.0; 5]), None);
    }

    /// Computes the best split directly from the definition.
    fn best_split_by_definition(values: &[f64]) -> (usize, f64) {
        let mean = |pairs: Vec<f64>| pairs.iter().sum::<f64>() / pairs.len() as f64;
        let within = |z: &[f64]| {
            mean((0..z.len()).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| (z[i] - z[j]).abs()).collect())
        };
        let mut best = (0, f64::NEG_INFINITY);
        for kappa in 2 * SHORTEST_SEGMENT..=values.len() {
            for tau in SHORTEST_SEGMENT..=kappa - SHORTEST_SEGMENT {
                let (x, y) = (&values[..tau], &values[tau..kappa]);
                let between = mean(x.iter().flat_map(|x| y.iter().map(move |y| (x - y).abs())).collect());
                let (n, m) = (x.len() as f64, y.len() as f64);
                let q = n * m / (n + m) * (2.0 * between - within(x) - within(y));
                if q > best.1 + 1e-12 {
                    best = (tau, q);
                }
            }
        }
        best
    }

    /// Deterministic noise between −0.5 and 0.5.
    fn noise(n: u32) -> impl Iterator<Item = f64> {
        (0..n).map(|i| f64::from(i * 37 % 101) / 100.0 - 0.5)
    }

    #[test]
    fn running_sums_agree_with_the_definition() {
        let values: Vec<f64> = noise(23).enumerate().map(|(i, e)| if i < 9 { e } else { e + 0.7 }).collect();
        let (fast, slow) = (best_split(&values).unwrap(), best_split_by_definition(&values));
        assert_eq!(fast.0, slow.0);
        assert!((fast.1 - slow.1).abs() < 1e-9, "{fast:?} {slow:?}");
    }

    #[test]
    fn a_level_that_changes_twice_is_split_twice() {
        let level = |i: usize| if (12..24).contains(&i) { 2.0 } else { 0.0 };
        let values: Vec<f64> = noise(36).enumerate().map(|(i, e)| level(i) + e).collect();
        let splits: Vec<usize> = e_divisive(&values).iter().map(|split| split.index).collect();
        assert_eq!(splits, [12, 24]);
    }

    #[test]
    fn noise_constants_and_few_values_have_no_change() {
        assert_eq!(e_divisive(&noise(30).collect::<Vec<_>>()), []);
        assert_eq!(e_divisive(&[2.0; 20]), []);
        assert_eq!(e_divisive(&[]), []);
        // Of 20 ways to put six values into two threes, two are as far apart as this: p = 0.1.
        assert_eq!(e_divisive(&[0.0, 0.1, 0.2, 9.0, 9.1, 9.2]), []);
    }

    #[test]
    fn later_values_confirm_a_change_or_do_not() {
        let before: Vec<f64> = noise(8).collect();
        let changes_with = |later: &[f64]| find_changes(&[&before[..], later].concat());
        let three = changes_with(&[5.0, 5.2, 5.1]);
        assert_eq!((three.len(), three[0].index), (1, 8), "{three:?}");
        let missing_values = CONFIRMING_VALUES - (11 - three[0].prefix_length);
        assert_eq!(three[0].confirmation, Confirmation::Suspected { missing_values });
        let stays = changes_with(&[5.0, 5.2, 5.1, 5.0, 5.3, 5.1, 5.2]);
        // The three tested values are beyond the other eight: 1 of 165 ways to choose three of eleven.
        let Confirmation::Confirmed { p } = stays[0].confirmation else { panic!("{stays:?}") };
        assert!((p - 1.0 / 165.0).abs() < 1e-12, "{p}");
        assert!((stays[0].median_after - 5.1).abs() < 0.11 && stays[0].median_before.abs() < 0.5);
        let returns = changes_with(&[5.0, 5.2, 5.1, 0.0, 0.1, -0.2, 0.05, 0.0, 0.2]);
        assert_eq!(returns[0].confirmation, Confirmation::Suspected { missing_values: 0 }, "{returns:?}");
    }

    #[test]
    fn confirmation_matches_values_computed_by_hand() {
        let p = |confirmation| match confirmation {
            Confirmation::Confirmed { p } => p,
            Confirmation::Suspected { .. } => f64::NAN,
        };
        // All beyond three: 1 of 20 orders. One pair the wrong way round: 2 of 20.
        assert!((p(confirm(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], true)) - 0.05).abs() < 1e-12);
        assert_eq!(confirm(&[1.0, 2.0, 4.5], &[4.0, 5.0, 6.0], true), Confirmation::Suspected { missing_values: 0 });
        assert!((p(confirm(&[7.0, 8.0, 9.0], &[4.0, 5.0, 6.0], false)) - 0.05).abs() < 1e-12);
        assert_eq!(confirm(&[1.0; 9], &[4.0], true), Confirmation::Suspected { missing_values: 2 });
        // Equal values count against the change.
        assert_eq!(confirm(&[1.0; 3], &[1.0, 2.0, 3.0], true), Confirmation::Suspected { missing_values: 0 });
    }
}
