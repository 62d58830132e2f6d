//! Critical values of the group-sequential signed-rank test.
//!
//! By the look at n rounds the test has spent the error α(n) = α·ln(n/3.8)/ln(400/3.8) (Lan and DeMets 1983), so that the intervals
//! of all looks together cover the truth with probability 1 − α (repeated confidence intervals, Jennison and Turnbull 1989).
//! The values were simulated under the null hypothesis with 2·10⁶ paths. `cargo run --release -p fsarena-stats --example constants`
//! simulates them again and prints them beside the stored ones.

use statrs::distribution::{Continuous, ContinuousCDF, Normal};

/// One look: at `n` rounds, the critical values for 95% and 90% intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Rounds seen.
    pub n: usize,
    /// c for the two-sided 95% interval.
    pub c05: usize,
    /// c for the two-sided 90% interval.
    pub c10: usize,
}

const fn look(n: usize, c05: usize, c10: usize) -> Look {
    Look { n, c05, c10 }
}

/// Every look.
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
pub const FIRST_LOOK: usize = LOOKS[0].n;

/// The look that holds at `n` rounds: the last one that is not beyond `n`. None under [`FIRST_LOOK`].
///
/// Between two looks, and beyond the last, the critical value of the earlier look is used with all the
/// rounds. That is conservative: the critical value that would spend the same error grows with n, so
/// a smaller one cuts off fewer averages and leaves a wider interval.
pub fn at(n: usize) -> Option<Look> {
    LOOKS.iter().rev().find(|look| look.n <= n).copied()
}

/// The numbers of rivals of the columns of [`BOUNDS`], in addition to 1 and 2.
const RIVALS: [usize; 12] = [3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 64];

/// For every look the critical values of one-sided bounds at level 0.05/rivals, simulated likewise with 3·10⁶ paths; −1
/// where even c = 0 would spend more than the look may.
#[rustfmt::skip]
const BOUNDS: [[i32; RIVALS.len()]; LOOKS.len()] = [
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

/// The critical value at `n` rounds of a bound on one side, at level 0.05/`rivals`: as many such bounds hold together, at
/// every look, with 95%. None where `n` rounds do not reach that level, or no column does.
pub fn bound(n: usize, rivals: usize) -> Option<usize> {
    let look = LOOKS.iter().rposition(|look| look.n <= n)?;
    match rivals {
        // Two sides at twice the level.
        0 | 1 => Some(LOOKS[look].c10),
        2 => Some(LOOKS[look].c05),
        _ => usize::try_from(BOUNDS[look][RIVALS.iter().position(|column| *column >= rivals)?]).ok(),
    }
}

/// The share of the error α that may be spent by the look at `n` rounds.
pub fn spent(alpha: f64, n: usize) -> f64 {
    alpha * (n as f64 / 3.8).ln() / (LOOKS[LOOKS.len() - 1].n as f64 / 3.8).ln()
}

/// P(V ≤ c) for c = 0, 1, … of the signed-rank statistic of n values: the sum over ranks of independent
/// coins, built rank by rank.
pub fn signed_rank(n: usize) -> Vec<f64> {
    let mut p = vec![1.0];
    for rank in 1..=n {
        let mut next = vec![0.0; p.len() + rank];
        for (sum, p) in p.iter().enumerate() {
            next[sum] += p / 2.0;
            next[sum + rank] += p / 2.0;
        }
        p = next;
    }
    let sum = |total: &mut f64, p| {
        *total += p;
        Some(*total)
    };
    p.into_iter().scan(0.0, sum).collect()
}

/// The critical value of [`bound`] for any number of bounds. Beyond the columns of the table each look gets what it may spend at
/// 0.05/`rivals`, whatever the looks before it found (Bonferroni over the looks). None where `n` rounds do not reach that level.
pub fn bound_of_many(n: usize, rivals: usize) -> Option<usize> {
    if rivals <= RIVALS[RIVALS.len() - 1] {
        return bound(n, rivals);
    }
    let look = LOOKS.iter().rposition(|look| look.n <= n)?;
    let until = |look: usize| spent(0.05 / rivals as f64, LOOKS[look].n);
    let level = until(look) - look.checked_sub(1).map_or(0.0, until);
    signed_rank(LOOKS[look].n).iter().rposition(|p| *p <= level)
}

/// The critical value of bounds that hold together where the noise of two variants has other shapes too. There the
/// signed-rank test errs up to twice as often, so this is the value at half the level, or at the whole level in the few rounds
/// that do not reach half of it ([`crate::simulate::headline`] has the error rates). None where [`bound`] has none.
pub fn cautious_bound(n: usize, rivals: usize) -> Option<usize> {
    bound(n, 2 * rivals.max(1)).or_else(|| bound(n, rivals))
}

/// The level of one test on one side at `n` rounds, where 0.05/`rivals` is the level over all looks: P(V ≤ c) of the
/// signed-rank statistic V at the critical value c of [`bound`]. Other statistics that grow round by round, such as Student's
/// t, spend the same error at the same looks. None as in [`bound`].
///
/// V is the sum of i = 1 … n, each with probability ½. The Edgeworth expansion to its fourth cumulant is within 5% of the
/// exact probability from 19 rounds on.
pub fn level(n: usize, rivals: usize) -> Option<f64> {
    let rounds = at(n)?.n as f64;
    let squares = rounds * (rounds + 1.0) * (2.0 * rounds + 1.0) / 6.0;
    let fourth_powers = squares * (3.0 * rounds * rounds + 3.0 * rounds - 1.0) / 5.0;
    let kurtosis = -2.0 * fourth_powers / (squares * squares);
    let z = (bound(n, rivals)? as f64 + 0.5 - rounds * (rounds + 1.0) / 4.0) / (squares / 4.0).sqrt();
    let normal = Normal::standard();
    Some(normal.cdf(z) - normal.pdf(z) * kurtosis / 24.0 * (z.powi(3) - 3.0 * z))
}

/// The rounds that a first exact answer requires: the first look at which bounds at 0.05/`rivals` exist. 8 for one or two
/// rivals, 10 for three; None where there are too many rivals for any.
pub fn rounds_for_an_answer(rivals: usize) -> Option<usize> {
    LOOKS.iter().map(|look| look.n).find(|n| bound(*n, rivals).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_bounds_has_a_critical_value() {
        // Of the 2¹² sums of signs, c = 0 is one: 1/4096 is above what 0.05/72 spends at the third look, and 15 rounds reach it.
        assert_eq!((bound_of_many(12, 64), bound_of_many(12, 72)), (bound(12, 64), None));
        let (many, table) = (bound_of_many(60, 72).unwrap(), bound(60, 64).unwrap());
        assert!(many < table && many > table / 2, "{many} {table}");
        assert!(signed_rank(60)[many] <= spent(0.05 / 72.0, 60) - spent(0.05 / 72.0, 48));
        assert!(bound_of_many(400, 9900) > bound_of_many(305, 9900));
    }

    #[test]
    fn each_look_spends_between_its_own_share_and_all_so_far() {
        // The exact two-sided probability to reject at one look alone is at least what that look adds
        // and at most what all looks to there may spend (with 3% for the simulation of the table, and
        // one step of the discrete distribution below).
        for alpha in [0.05, 0.10] {
            let mut before = 0.0;
            for look in LOOKS {
                let c = if alpha == 0.05 { look.c05 } else { look.c10 };
                let p = signed_rank(look.n);
                assert!(2.0 * p[c] <= spent(alpha, look.n) * 1.03, "{look:?} rejects too often");
                assert!(2.0 * p[c + 1] >= spent(alpha, look.n) - before, "{look:?} rejects too rarely");
                before = spent(alpha, look.n);
            }
        }
    }

    #[test]
    fn levels_are_those_of_the_signed_rank_test() {
        for look in LOOKS.iter().filter(|look| (19..=60).contains(&look.n)) {
            let exact = signed_rank(look.n);
            for (rivals, c) in [(1, look.c10), (2, look.c05)] {
                let level = level(look.n, rivals).unwrap();
                assert!((level / exact[c] - 1.0).abs() < 0.05, "{look:?}: {level}, exactly {}", exact[c]);
            }
        }
        assert_eq!((level(7, 2), level(23, 2)), (None, level(19, 2)));
    }

    #[test]
    fn the_first_look_is_exact() {
        // n = 8: P(V = 0) = 2⁻⁸, two-sided 0.0078 ≤ α(8) = 0.00799 < P at c = 1.
        assert!(2.0 / 256.0 <= spent(0.05, 8) && 4.0 / 256.0 > spent(0.05, 8));
    }

    #[test]
    fn between_looks_the_earlier_one_holds() {
        assert_eq!(at(7), None);
        assert_eq!(at(8).unwrap().c05, 0);
        assert_eq!(at(11).unwrap().n, 10);
        assert_eq!(at(399).unwrap().n, 305);
        assert_eq!(at(4_000).unwrap().n, 400);
    }

    #[test]
    fn more_rivals_require_more_rounds() {
        assert_eq!([1, 2, 3, 4, 7, 9, 64].map(rounds_for_an_answer), [8, 8, 10, 10, 10, 10, 15].map(Some));
        assert_eq!((bound(400, 65), bound(30, 9)), (None, bound(30, 10)));
    }

    #[test]
    fn bounds_spend_what_their_level_may() {
        for (column, rivals) in RIVALS.into_iter().enumerate() {
            let alpha = 0.1 / rivals as f64;
            for (look, bounds) in LOOKS.iter().zip(BOUNDS) {
                let p = signed_rank(look.n);
                let Ok(c) = usize::try_from(bounds[column]) else {
                    assert!(2.0 * p[0] > spent(alpha, look.n), "{rivals} at {look:?}");
                    continue;
                };
                assert!(2.0 * p[c] <= spent(alpha, look.n) * 1.03, "{rivals} at {look:?}");
                if look.n >= 48 {
                    break; // The exact distribution takes long; the simulation has the rest.
                }
            }
        }
    }
}
