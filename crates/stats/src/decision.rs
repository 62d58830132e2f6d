//! The answer to "which variant should I use?", from the regrets of all variants.

use crate::regret::{Regrets, RelativeCost};

/// The largest regret of a recommended variant, as a fraction: it costs at most this much more than the best. Only the
/// [`Recommendation`], which is the headline of a report, depends on it.
pub const MAX_REGRET: f64 = 0.05;

/// The answer to "which variant should I use?" after some rounds.
///
/// S is the set of variants that can still be the best, because no other variant is significantly better.
#[derive(Debug, Clone, PartialEq)]
pub enum Recommendation {
    /// No bound exists yet.
    TooFewRounds {
        /// The smallest number of rounds that a pair shares.
        rounds: usize,
        /// The number of rounds from which bounds exist.
        needed_rounds: usize,
    },
    /// One variant is left in S.
    Use {
        /// That variant.
        choice: usize,
        /// The best of the others, with its cost relative to the choice; None if there is no other to compare.
        next: Option<RelativeCost>,
    },
    /// S has several variants, and the current variant is in S, or costs less than the margin above the best.
    Keep {
        /// The current variant.
        current: usize,
        /// The others of S, best first, with their costs relative to the current variant.
        rivals: Vec<RelativeCost>,
    },
    /// The current variant is not in S, and some variants of S have a small regret.
    Move {
        /// The current variant.
        current: usize,
        /// The variants of S that are significantly better than the current one and whose regret is at most [`MAX_REGRET`],
        /// best first, with their costs relative to the current variant.
        targets: Vec<RelativeCost>,
    },
    /// The current variant is not in S, but no variant of S has a small enough regret to recommend it.
    Better {
        /// The current variant.
        current: usize,
        /// The variants that are significantly better, best first, with their costs relative to the current variant.
        better: Vec<RelativeCost>,
    },
    /// There is no current variant, and some variants of S have a small regret.
    Choose {
        /// The variants of S whose regret is at most [`MAX_REGRET`], best first.
        choices: Vec<usize>,
        /// The largest regret of a choice, as a logarithm.
        regret: f64,
    },
    /// Every variant of S may cost much more than the best. Or the current variant is not in S, but no variant of S is
    /// significantly better than it.
    TooNoisy {
        /// The first of the two variants of S that may differ most.
        first: usize,
        /// The second, with its cost relative to the first.
        second: RelativeCost,
    },
}

impl Recommendation {
    /// The answer about `candidates`, which are sorted best first. `current` is the variant in use today; it is ignored unless
    /// it is a candidate. If S has several variants, the current variant is kept if it costs less than `margin`, a logarithm,
    /// above the best. None if no two candidates can be compared, or if each costs significantly more than another one.
    pub fn from_regrets(
        regrets: &Regrets,
        candidates: &[usize],
        current: Option<usize>,
        margin: f64,
    ) -> Option<Recommendation> {
        let mut compared = candidates.to_vec();
        compared.retain(|variant| regrets.is_compared(*variant));
        if compared.is_empty() {
            return None;
        }
        if regrets.provisional {
            return Some(Recommendation::TooFewRounds { rounds: regrets.rounds, needed_rounds: regrets.needed_rounds });
        }
        let mut possible = compared.clone();
        possible.retain(|variant| !regrets.is_dominated(*variant));
        if let [choice] = possible[..] {
            let next = compared.iter().find(|variant| **variant != choice);
            return Some(Recommendation::Use {
                choice,
                next: next.map(|next| regrets.cost_relative_to(*next, choice)),
            });
        }
        match current.filter(|current| compared.contains(current)) {
            Some(current) => Recommendation::with_current(regrets, &possible, current, margin),
            None => Recommendation::without_current(regrets, &possible),
        }
    }

    /// The answer if several variants can still be the best and there is a current variant.
    fn with_current(regrets: &Regrets, possible: &[usize], current: usize, margin: f64) -> Option<Recommendation> {
        let is_within_margin = regrets.regret_of(current).is_some_and(|regret| regret < margin);
        let costs = possible.iter().filter(|variant| **variant != current);
        let costs: Vec<RelativeCost> = costs.map(|variant| regrets.cost_relative_to(*variant, current)).collect();
        if possible.contains(&current) || is_within_margin {
            return Some(Recommendation::Keep { current, rivals: costs });
        }
        let mut better = costs;
        better.retain(|cost| cost.high < 0.0);
        if better.is_empty() {
            return Recommendation::too_noisy(regrets, possible);
        }
        let mut targets = better.clone();
        targets.retain(|cost| has_small_regret(regrets, cost.variant));
        if targets.is_empty() {
            Some(Recommendation::Better { current, better })
        } else {
            Some(Recommendation::Move { current, targets })
        }
    }

    /// The answer if several variants can still be the best and there is no current variant.
    fn without_current(regrets: &Regrets, possible: &[usize]) -> Option<Recommendation> {
        let mut choices = possible.to_vec();
        choices.retain(|variant| has_small_regret(regrets, *variant));
        if choices.is_empty() {
            return Recommendation::too_noisy(regrets, possible);
        }
        let regret = choices.iter().filter_map(|variant| regrets.regret_of(*variant)).fold(0.0, f64::max);
        Some(Recommendation::Choose { choices, regret })
    }

    /// The answer with the two variants that may differ most. None for fewer than two variants.
    fn too_noisy(regrets: &Regrets, possible: &[usize]) -> Option<Recommendation> {
        let largest_difference = |cost: &RelativeCost| cost.high.max(-cost.low);
        let pairs = crate::ranks::pairs(possible.len()).map(|(i, j)| (possible[i], possible[j]));
        let costs = pairs.map(|(first, second)| (first, regrets.cost_relative_to(second, first)));
        let (first, second) = costs.max_by(|(_, a), (_, b)| largest_difference(a).total_cmp(&largest_difference(b)))?;
        Some(Recommendation::TooNoisy { first, second })
    }

    /// The variants that the answer recommends, best first; empty if it recommends none.
    pub fn recommended(&self) -> Vec<usize> {
        match self {
            Recommendation::Use { choice, .. } => vec![*choice],
            Recommendation::Keep { current, .. } => vec![*current],
            Recommendation::Move { targets, .. } => targets.iter().map(|cost| cost.variant).collect(),
            Recommendation::Choose { choices, .. } => choices.clone(),
            Recommendation::TooFewRounds { .. } | Recommendation::Better { .. } | Recommendation::TooNoisy { .. } => {
                vec![]
            }
        }
    }

    /// Its name in JSON.
    pub fn id(&self) -> &'static str {
        match self {
            Recommendation::TooFewRounds { .. } => "too_few_rounds",
            Recommendation::Use { .. } | Recommendation::Choose { .. } => "use",
            Recommendation::Keep { .. } => "keep",
            Recommendation::Move { .. } => "move",
            Recommendation::Better { .. } => "better_than_current",
            Recommendation::TooNoisy { .. } => "too_noisy",
        }
    }
}

/// Whether the regret of a variant is at most [`MAX_REGRET`].
fn has_small_regret(regrets: &Regrets, variant: usize) -> bool {
    regrets.regret_of(variant).is_some_and(|regret| regret <= MAX_REGRET.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;

    /// The recommendation for simulated variants. In a round, variant k costs `factors[k]` if the number of the round plus k is
    /// even, and (1 + `noise`) times as much otherwise.
    fn recommendation(factors: &[f64], noise: f64, rounds: usize, current: Option<usize>) -> Recommendation {
        let value = |variant: usize, round: usize| {
            factors[variant] * if (round + variant).is_multiple_of(2) { 1.0 } else { 1.0 + noise }
        };
        let values: Vec<Vec<f64>> =
            (0..factors.len()).map(|variant| (0..rounds).map(|round| value(variant, round)).collect()).collect();
        let mut order: Vec<usize> = (0..factors.len()).collect();
        order.sort_by(|a, b| factors[*a].total_cmp(&factors[*b]));
        Recommendation::from_regrets(
            &Regrets::compute(&values, &[], Direction::Lower, 1),
            &order,
            current,
            0.01f64.ln_1p(),
        )
        .unwrap()
    }

    #[test]
    fn few_rounds_give_no_recommendation() {
        let rounds_and_need =
            |variants: usize, rounds: usize| match recommendation(&vec![1.0; variants], 0.0, rounds, Some(0)) {
                Recommendation::TooFewRounds { rounds, needed_rounds } => Some((rounds, needed_rounds)),
                _ => None,
            };
        let too_few = [rounds_and_need(2, 7), rounds_and_need(3, 5), rounds_and_need(5, 9)];
        assert_eq!(too_few, [(7, 8), (5, 8), (9, 10)].map(Some));
        assert_eq!([rounds_and_need(2, 8), rounds_and_need(3, 8), rounds_and_need(5, 10)], [None; 3]);
    }

    #[test]
    fn the_only_possible_best_is_recommended_whatever_the_current_variant() {
        for current in [None, Some(0), Some(2)] {
            let Recommendation::Use { choice: 0, next: Some(next) } =
                recommendation(&[1.0, 1.1, 1.3], 0.01, 12, current)
            else {
                panic!()
            };
            assert!(next.variant == 1 && next.low > 0.07 && next.high < 0.12, "{next:?}");
        }
    }

    #[test]
    fn a_current_variant_that_can_be_the_best_is_kept() {
        let Recommendation::Keep { current: 1, rivals } = recommendation(&[1.0, 1.0, 1.5], 0.1, 12, Some(1)) else {
            panic!()
        };
        assert!(
            matches!(rivals[..], [RelativeCost { variant: 0, low, high }] if low < 0.0 && high > 0.0),
            "{rivals:?}"
        );
        // Significantly slower, but by less than the margin.
        assert_eq!(recommendation(&[1.0, 1.0, 1.002], 0.0, 12, Some(2)).recommended(), [2]);
    }

    #[test]
    fn move_recommends_only_variants_with_a_small_regret() {
        let Recommendation::Move { current: 2, targets } = recommendation(&[1.0, 1.001, 1.5], 0.01, 12, Some(2)) else {
            panic!()
        };
        assert_eq!(targets.iter().map(|cost| cost.variant).collect::<Vec<_>>(), [0, 1]);
        assert!(targets.iter().all(|cost| cost.high < 0.0));
        let Recommendation::Better { current: 2, better } = recommendation(&[1.0, 1.001, 1.9], 0.3, 12, Some(2)) else {
            panic!()
        };
        assert_eq!(better.iter().map(|cost| cost.variant).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn without_a_small_regret_the_answer_is_too_noisy() {
        let Recommendation::Choose { choices, regret } = recommendation(&[1.0, 1.001, 1.5], 0.01, 12, None) else {
            panic!()
        };
        assert!(choices == [0, 1] && regret > 0.0 && regret < 0.05, "{regret}");
        let Recommendation::TooNoisy { first: 0, second } = recommendation(&[1.0, 1.0, 2.0], 0.3, 12, None) else {
            panic!()
        };
        assert!(second.variant == 1 && second.low < -0.05 && second.high > 0.05, "{second:?}");
    }

    #[test]
    fn variants_with_equal_values_are_both_recommended() {
        assert_eq!(
            recommendation(&[1.0, 1.0], 0.0, 12, None),
            Recommendation::Choose { choices: vec![0, 1], regret: 0.0 }
        );
        let Recommendation::Keep { current: 1, rivals } = recommendation(&[1.0, 1.0], 0.0, 12, Some(1)) else {
            panic!()
        };
        assert_eq!(rivals, [RelativeCost { variant: 0, low: 0.0, high: 0.0 }]);
    }

    #[test]
    fn variants_without_shared_rounds_have_no_answer() {
        let without_shared_round = [vec![1.0; 9], vec![f64::NAN; 9]];
        assert_eq!(
            Recommendation::from_regrets(
                &Regrets::compute(&without_shared_round, &[], Direction::Lower, 1),
                &[0, 1],
                None,
                0.01
            ),
            None
        );
    }
}
