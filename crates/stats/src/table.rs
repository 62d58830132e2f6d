//! Critical values of the group-sequential signed-rank test.
//!
//! Looks at n rounds spend the error α(n) = α·ln(n/3.8)/ln(400/3.8), so that the intervals of all looks
//! together cover with probability 1 − α (repeated confidence intervals, Jennison and Turnbull 1989).
//! The values were simulated under the null hypothesis with 2·10⁶ paths. `cargo run --release -p fsarena-stats
//! --example constants` does it again ([`crate::simulate::boundary`]) and prints new beside stored.

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

/// Rounds under which no interval is exact: everything is provisional.
pub const FIRST_LOOK: usize = LOOKS[0].n;

/// The look that holds at `n` rounds: the last one that is not beyond `n`. None under [`FIRST_LOOK`].
///
/// Between two looks, and beyond the last, the critical value of the earlier look is used with all the
/// rounds. That is conservative: the critical value that would spend the same error grows with n, so
/// a smaller one cuts off fewer averages and leaves a wider interval.
pub fn at(n: usize) -> Option<Look> {
    LOOKS.iter().rev().find(|look| look.n <= n).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::boundary::{signed_rank, spent};

    #[test]
    fn each_look_spends_between_its_own_share_and_all_so_far() {
        // The exact two-sided probability to reject at one look alone is at least what that look adds
        // and at most what all looks to there may spend (with 3% for the simulation of the table, and
        // one task of the discrete distribution below).
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
}
