//! Critical values of the group-sequential signed-rank test.
//!
//! The looks up to n rounds together may spend the error α(n) = α·ln(n/3.8)/ln(400/3.8) ([`spent_error`], Lan and
//! DeMets 1983). With α = 0.05, the constant 3.8 makes α(8) just exceed 2/2⁸, the smallest error of a two-sided test of
//! 8 rounds. The intervals of all looks together then cover the truth with probability 1 − α (repeated confidence
//! intervals, Jennison and Turnbull 1989).
//!
//! The values were simulated under the null hypothesis with 2·10⁶ paths. `cargo run --release -p fsarena-stats
//! --example constants` simulates them again and prints them beside the stored ones.

use std::sync::OnceLock;

/// A look: a number of rounds after which the test may stop, and its critical values c of the signed-rank statistic V, the sum
/// of the ranks of the positive values. The two-sided test rejects if V ≤ c or V ≥ n(n+1)/2 − c, where n is the number of
/// rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The number of rounds.
    pub rounds: usize,
    /// The critical value of the test with α = 0.05, which gives the 95% interval.
    pub c05: usize,
    /// The critical value of the test with α = 0.10, which gives the 90% interval.
    pub c10: usize,
}

const fn look(rounds: usize, c05: usize, c10: usize) -> Look {
    Look { rounds, c05, c10 }
}

/// Every look. Each has about a quarter more rounds than the one before.
pub const LOOKS: [Look; 18] = [
    look(8, 0, 1),
    look(10, 1, 3),
    look(12, 5, 7),
    look(15, 12, 16),
    look(19, 28, 33),
    look(24, 55, 64),
    look(30, 99, 112),
    look(38, 182, 199),
    look(48, 321, 346),
    look(60, 542, 578),
    look(76, 934, 986),
    look(96, 1578, 1651),
    look(121, 2628, 2736),
    look(152, 4324, 4471),
    look(192, 7146, 7362),
    look(242, 11709, 12018),
    look(305, 19113, 19545),
    look(400, 33790, 34448),
];

/// The smallest number of rounds with an exact interval. With fewer, every result is provisional.
pub const FIRST_LOOK_ROUNDS: usize = LOOKS[0].rounds;
/// The number of rounds of the last look.
pub const LAST_LOOK_ROUNDS: usize = LOOKS[LOOKS.len() - 1].rounds;

/// The last look with at most this number of rounds, whose critical values apply. None below [`FIRST_LOOK_ROUNDS`].
///
/// Between two looks, and beyond the last, the critical value of the earlier look applies to all rounds so far. The
/// interval is then wider than it could be, because more rounds would allow a larger critical value, and so a narrower
/// interval.
pub fn last_look_by(rounds: usize) -> Option<Look> {
    LOOKS.iter().rev().find(|look| look.rounds <= rounds).copied()
}

/// For each column of [`BOUND_CRITICAL_VALUES`] the number of bounds that share the error. One and two bounds need no column:
/// see [`critical_value`].
const BOUND_COUNTS: [usize; 12] = [3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64];

/// The critical values of one-sided bounds at level 0.05/k: a row for each look, and a column for each k of
/// [`BOUND_COUNTS`]. They were simulated like [`LOOKS`], with 3·10⁶ paths. −1 if even c = 0 would exceed the error that
/// may be spent by that look.
///
/// A value can be larger than that of fewer bounds: a test that cannot spend its error at the first looks spends it
/// later.
#[rustfmt::skip]
const BOUND_CRITICAL_VALUES: [[i32; BOUND_COUNTS.len()]; LOOKS.len()] = [
    [-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1], // 8
    [2, 1, 1, 0, 0, 0, 0, -1, -1, -1, -1, -1], // 10
    [4, 4, 2, 3, 2, 2, 1, 2, 2, 1, 0, -1], // 12
    [12, 10, 9, 9, 9, 7, 6, 7, 5, 4, 4, 4], // 15
    [25, 23, 22, 21, 20, 19, 17, 18, 15, 13, 13, 10], // 19
    [51, 48, 46, 44, 43, 42, 40, 39, 36, 32, 32, 26], // 24
    [93, 90, 87, 83, 81, 81, 77, 75, 71, 67, 64, 58], // 30
    [173, 167, 162, 159, 156, 153, 148, 146, 141, 134, 130, 118], // 38
    [308, 299, 292, 287, 282, 278, 272, 267, 259, 250, 243, 227], // 48
    [524, 511, 501, 493, 487, 482, 472, 465, 455, 441, 431, 407], // 60
    [907, 888, 875, 863, 853, 847, 833, 823, 808, 787, 775, 740], // 76
    [1539, 1511, 1492, 1476, 1463, 1451, 1434, 1420, 1397, 1366, 1347, 1303], // 96
    [2574, 2536, 2507, 2484, 2466, 2450, 2423, 2401, 2367, 2329, 2300, 2234], // 121
    [4242, 4187, 4146, 4113, 4086, 4062, 4022, 3993, 3949, 3887, 3847, 3752], // 152
    [7036, 6959, 6903, 6858, 6816, 6783, 6734, 6693, 6627, 6532, 6473, 6341], // 192
    [11541, 11433, 11351, 11290, 11235, 11190, 11112, 11053, 10956, 10829, 10751, 10549], // 242
    [18878, 18721, 18605, 18512, 18432, 18363, 18255, 18172, 18033, 17857, 17741, 17455], // 305
    [33443, 33205, 33035, 32902, 32791, 32689, 32517, 32385, 32192, 31929, 31752, 31309], // 400
];

/// The critical value of a one-sided bound at level 0.05/`bound_count` after this number of rounds. None if the rounds
/// are too few for that level. With 95% confidence, `bound_count` such bounds are all true at every look (Bonferroni).
///
/// For a count between two columns of the table, this is the value of the next larger count. For counts beyond the
/// table, each look has a separate level: the error that it may spend in addition to the looks before it (Bonferroni
/// over the looks).
pub fn critical_value(rounds: usize, bound_count: usize) -> Option<usize> {
    let index = LOOKS.iter().rposition(|look| look.rounds <= rounds)?;
    match bound_count {
        // A one-sided test at 0.05 is one side of the two-sided test at 0.10, and one at 0.025 of the two-sided test at
        // 0.05.
        0 | 1 => return Some(LOOKS[index].c10),
        2 => return Some(LOOKS[index].c05),
        _ => {}
    }
    if let Some(column) = BOUND_COUNTS.iter().position(|count| *count >= bound_count) {
        return usize::try_from(BOUND_CRITICAL_VALUES[index][column]).ok();
    }
    let spent_by = |index: usize| spent_error(0.05 / bound_count as f64, LOOKS[index].rounds);
    let level = spent_by(index) - index.checked_sub(1).map_or(0.0, spent_by);
    look_cdf(index).partition_point(|p| *p <= level).checked_sub(1)
}

/// The spending function (Lan and DeMets 1983): the part of the error `alpha` that may be spent by the look at this number of
/// rounds. Valid for the rounds of [`LOOKS`]: it is negative below 4 rounds, and above `alpha` beyond the last look.
pub fn spent_error(alpha: f64, rounds: usize) -> f64 {
    alpha * (rounds as f64 / 3.8).ln() / (LAST_LOOK_ROUNDS as f64 / 3.8).ln()
}

/// P(V ≤ c) for c = 0, 1, … of the signed-rank statistic V of n values under the null hypothesis (Wilcoxon 1945). Each of the
/// ranks 1 … n is then in the sum V with probability ½, so the distribution is built rank by rank.
pub fn signed_rank_cdf(n: usize) -> Vec<f64> {
    let mut p = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; p.len() + rank];
        for (sum, p) in p.iter().enumerate() {
            next[sum] += p / 2.0;
            next[sum + rank] += p / 2.0;
        }
        p = next;
    }
    let add = |total: &mut f64, p| {
        *total += p;
        Some(*total)
    };
    p.into_iter().scan(0.0, add).collect()
}

/// The distribution of [`signed_rank_cdf`] at the look with this index in [`LOOKS`]. Each is computed once, because it takes long
/// for many rounds.
fn look_cdf(index: usize) -> &'static [f64] {
    static CDFS: [OnceLock<Vec<f64>>; LOOKS.len()] = [const { OnceLock::new() }; LOOKS.len()];
    CDFS[index].get_or_init(|| signed_rank_cdf(LOOKS[index].rounds))
}

/// The critical value of one-sided bounds that hold together even if the noise of two variants differs in shape. None
/// if [`critical_value`] is None.
///
/// The signed-rank test then errs up to twice as often, so this halves the level: it is the critical value for twice as
/// many bounds. If the rounds are too few for half the level, it is [`critical_value`] itself, and the bounds can err
/// more often ([`crate::simulate::headline`] has the error rates).
pub fn cautious_critical_value(rounds: usize, bound_count: usize) -> Option<usize> {
    let at_full_level = critical_value(rounds, bound_count)?;
    Some(critical_value(rounds, 2 * bound_count.max(1)).unwrap_or(at_full_level))
}

/// The one-sided level of a single look, if the level of all looks together is 0.05/`bound_count`. None if
/// [`critical_value`] is None.
///
/// It is P(V ≤ c) of the signed-rank statistic V, where c is the [`critical_value`]. Tests with another statistic, such
/// as Student's t, spend about the same error if they use this level at the same looks.
pub fn level_at_look(rounds: usize, bound_count: usize) -> Option<f64> {
    let index = LOOKS.iter().rposition(|look| look.rounds <= rounds)?;
    Some(look_cdf(index)[critical_value(rounds, bound_count)?])
}

/// The number of rounds of the first look at which bounds at level 0.05/`bound_count` exist, so that an exact answer is
/// possible: 8 for one or two bounds, 10 for three.
pub fn rounds_for_first_bound(bound_count: usize) -> usize {
    let has_bounds = |rounds: &usize| critical_value(*rounds, bound_count).is_some();
    LOOKS.iter().map(|look| look.rounds).find(has_bounds).unwrap_or(LAST_LOOK_ROUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_bounds_has_a_critical_value() {
        // P(V = 0) at 12 rounds is 2⁻¹² = 1/4096, which is above the error that 0.05/72 spends at the third look.
        assert_eq!(critical_value(12, 72), None);
        let (beyond_table, last_in_table) = (critical_value(60, 72).unwrap(), critical_value(60, 64).unwrap());
        assert!(beyond_table < last_in_table && beyond_table > last_in_table / 2, "{beyond_table} {last_in_table}");
        let level = level_at_look(60, 72).unwrap();
        assert!(level <= spent_error(0.05 / 72.0, 60) - spent_error(0.05 / 72.0, 48));
        assert!(critical_value(400, 9900) > critical_value(305, 9900));
    }

    #[test]
    fn cautious_bounds_are_at_half_the_level_if_the_rounds_suffice() {
        for bound_count in [1, 2, 16, 33, 64, 65] {
            let [cautious, full] =
                [cautious_critical_value, critical_value].map(|value| value(60, bound_count).unwrap());
            assert!(cautious < full, "{bound_count}: {cautious} {full}");
        }
        assert_eq!((cautious_critical_value(8, 2), critical_value(8, 2)), (Some(0), Some(0)));
    }

    #[test]
    fn each_critical_value_is_the_largest_that_the_spending_function_allows() {
        // The exact two-sided probability to reject at one look alone is at most the error that may be spent by this
        // look (plus 3% for the simulation of the table). With the next larger critical value, the probability is at
        // least the error that this look may spend in addition to the looks before it.
        for alpha in [0.05, 0.10] {
            let mut spent_before = 0.0;
            for look in LOOKS {
                let c = if alpha == 0.05 { look.c05 } else { look.c10 };
                let p = signed_rank_cdf(look.rounds);
                assert!(2.0 * p[c] <= spent_error(alpha, look.rounds) * 1.03, "{look:?} rejects too often");
                assert!(
                    2.0 * p[c + 1] >= spent_error(alpha, look.rounds) - spent_before,
                    "{look:?} rejects too rarely"
                );
                spent_before = spent_error(alpha, look.rounds);
            }
        }
    }

    #[test]
    fn the_first_look_spends_nearly_all_of_its_error() {
        // n = 8: P(V = 0) = 2⁻⁸, two-sided 0.0078 ≤ α(8) = 0.00799 < P at c = 1.
        assert!(2.0 / 256.0 <= spent_error(0.05, 8) && 4.0 / 256.0 > spent_error(0.05, 8));
    }

    #[test]
    fn between_looks_the_earlier_one_holds() {
        assert_eq!(last_look_by(7), None);
        assert_eq!(last_look_by(8).unwrap().c05, 0);
        assert_eq!(last_look_by(11).unwrap().rounds, 10);
        assert_eq!(last_look_by(399).unwrap().rounds, 305);
        assert_eq!(last_look_by(4_000).unwrap().rounds, 400);
    }

    #[test]
    fn more_bounds_require_more_rounds() {
        assert_eq!([1, 2, 3, 4, 7, 9, 64, 100].map(rounds_for_first_bound), [8, 8, 10, 10, 10, 10, 15, 19]);
        assert_eq!(critical_value(30, 9), critical_value(30, 10));
    }

    #[test]
    fn bounds_spend_at_most_the_error_of_their_level() {
        for (column, bound_count) in BOUND_COUNTS.into_iter().enumerate() {
            let alpha = 0.1 / bound_count as f64;
            for (look, bounds) in LOOKS.iter().zip(BOUND_CRITICAL_VALUES) {
                let p = signed_rank_cdf(look.rounds);
                let Ok(c) = usize::try_from(bounds[column]) else {
                    assert!(2.0 * p[0] > spent_error(alpha, look.rounds), "{bound_count} at {look:?}");
                    continue;
                };
                assert!(2.0 * p[c] <= spent_error(alpha, look.rounds) * 1.03, "{bound_count} at {look:?}");
                if look.rounds >= 48 {
                    break; // The exact distribution takes long; the simulation has the rest.
                }
            }
        }
    }
}
