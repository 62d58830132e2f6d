//! The answer to "which variant should I use?", from the regrets of all variants.

use crate::regret::{Cost, Regrets};

/// The largest regret of a recommended variant, as a fraction: it costs at most this much more than the best. Only the
/// headline of a report uses it.
pub const MOST_REGRET: f64 = 0.05;

/// The answer after some rounds.
///
/// S is the set of variants that can still be the best, because no other variant is significantly better.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// No bound exists yet.
    TooFewRounds {
        /// The smallest number of rounds that a pair shares.
        rounds: usize,
        /// The number of rounds from which bounds exist; None if there are too many variants for any number.
        needed: Option<usize>,
    },
    /// One variant is left in S.
    Use {
        /// That variant.
        choice: usize,
        /// The best of the others, with its cost relative to the choice; None if there is no other to compare.
        next: Option<Cost>,
    },
    /// The current variant is in S, or costs less than the margin above the best.
    Keep {
        /// The current variant.
        current: usize,
        /// The others of S, best first, with their costs relative to the current variant.
        rivals: Vec<Cost>,
    },
    /// The current variant is not in S, and some variants of S have a small regret.
    Move {
        /// The current variant.
        from: usize,
        /// The variants of S that are significantly better than the current one and whose regret is at most [`MOST_REGRET`], best
        /// first, with their costs relative to the current variant.
        to: Vec<Cost>,
    },
    /// The current variant is not in S, but no variant of S has a small enough regret to recommend it.
    Better {
        /// The current variant.
        current: usize,
        /// The variants that are significantly better, best first, with their costs relative to the current variant.
        better: Vec<Cost>,
    },
    /// There is no current variant, and some variants of S have a small regret.
    Choose {
        /// The variants of S whose regret is at most [`MOST_REGRET`], best first.
        choices: Vec<usize>,
        /// The largest regret of a choice, as a logarithm.
        regret: f64,
    },
    /// Every variant of S may cost much more than the best.
    TooNoisy {
        /// One of the two variants of S that may differ most.
        one: usize,
        /// The other one, with its cost relative to the first.
        other: Cost,
    },
}

impl Answer {
    /// The answer about `candidates`, best first. `current` is the variant in use today, if it is a candidate; it is kept if it
    /// costs less than `margin`, a logarithm, above the best. None if no two candidates can be compared.
    pub fn of(
        regrets: &Regrets,
        candidates: &[usize],
        current: Option<usize>,
        margin: f64,
    ) -> Option<Answer> {
        let mut known = candidates.to_vec();
        known.retain(|variant| regrets.compares(*variant));
        if known.is_empty() {
            return None;
        }
        if regrets.provisional {
            return Some(Answer::TooFewRounds { rounds: regrets.rounds, needed: regrets.needed });
        }
        let mut possible = known.clone();
        possible.retain(|variant| !regrets.is_dominated(*variant));
        if let [choice] = possible[..] {
            let next = known.iter().find(|variant| **variant != choice);
            return Some(Answer::Use { choice, next: next.map(|next| regrets.cost(*next, choice)) });
        }
        match current.filter(|current| known.contains(current)) {
            Some(current) => Answer::beside_current(regrets, &possible, current, margin),
            None => Answer::without_current(regrets, &possible),
        }
    }

    /// The answer if several variants can still be the best and there is a current variant.
    fn beside_current(regrets: &Regrets, possible: &[usize], current: usize, margin: f64) -> Option<Answer> {
        let costs_little = regrets.of(current).is_some_and(|regret| regret < margin);
        let costs = possible.iter().filter(|variant| **variant != current);
        let costs: Vec<Cost> = costs.map(|variant| regrets.cost(*variant, current)).collect();
        if possible.contains(&current) || costs_little {
            return Some(Answer::Keep { current, rivals: costs });
        }
        let mut better = costs;
        better.retain(|cost| cost.high < 0.0);
        if better.is_empty() {
            return Answer::too_noisy(regrets, possible);
        }
        let mut to = better.clone();
        to.retain(|cost| is_cheap(regrets, cost.variant));
        if to.is_empty() {
            Some(Answer::Better { current, better })
        } else {
            Some(Answer::Move { from: current, to })
        }
    }

    /// The answer if several variants can still be the best and there is no current variant.
    fn without_current(regrets: &Regrets, possible: &[usize]) -> Option<Answer> {
        let mut choices = possible.to_vec();
        choices.retain(|variant| is_cheap(regrets, *variant));
        if choices.is_empty() {
            return Answer::too_noisy(regrets, possible);
        }
        let regret = choices.iter().filter_map(|variant| regrets.of(*variant)).fold(0.0, f64::max);
        Some(Answer::Choose { choices, regret })
    }

    /// The answer with the two variants that may differ most. None for fewer than two variants.
    fn too_noisy(regrets: &Regrets, possible: &[usize]) -> Option<Answer> {
        let largest = |cost: &Cost| cost.high.max(-cost.low);
        let pairs = crate::ranks::pairs(possible.len()).map(|(i, j)| (possible[i], possible[j]));
        let costs = pairs.map(|(one, other)| (one, regrets.cost(other, one)));
        let (one, other) = costs.max_by(|(_, a), (_, b)| largest(a).total_cmp(&largest(b)))?;
        Some(Answer::TooNoisy { one, other })
    }

    /// The variants that the answer recommends, best first; empty if it recommends none.
    pub fn recommended(&self) -> Vec<usize> {
        match self {
            Answer::Use { choice, .. } => vec![*choice],
            Answer::Keep { current, .. } => vec![*current],
            Answer::Move { to, .. } => to.iter().map(|cost| cost.variant).collect(),
            Answer::Choose { choices, .. } => choices.clone(),
            Answer::TooFewRounds { .. } | Answer::Better { .. } | Answer::TooNoisy { .. } => vec![],
        }
    }

    /// Its name in JSON.
    pub fn id(&self) -> &'static str {
        match self {
            Answer::TooFewRounds { .. } => "too_few_rounds",
            Answer::Use { .. } | Answer::Choose { .. } => "use",
            Answer::Keep { .. } => "keep",
            Answer::Move { .. } => "move",
            Answer::Better { .. } => "better_than_current",
            Answer::TooNoisy { .. } => "too_noisy",
        }
    }
}

/// Whether the regret of a variant is at most [`MOST_REGRET`].
fn is_cheap(regrets: &Regrets, variant: usize) -> bool {
    regrets.of(variant).is_some_and(|regret| regret <= MOST_REGRET.ln_1p())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::sample::Direction;

    /// The answer where variant k costs `factors[k]` in even rounds and `factors[k]` times 1 + `noise` in odd ones, shifted by k.
    fn answer(factors: &[f64], noise: f64, rounds: usize, current: Option<usize>) -> Answer {
        let value = |variant: usize, round: usize| {
            factors[variant] * if (round + variant).is_multiple_of(2) { 1.0 } else { 1.0 + noise }
        };
        let values: Vec<Vec<f64>> = (0..factors.len())
            .map(|variant| (0..rounds).map(|round| value(variant, round)).collect())
            .collect();
        let mut order: Vec<usize> = (0..factors.len()).collect();
        order.sort_by(|a, b| factors[*a].total_cmp(&factors[*b]));
        Answer::of(&Regrets::compute(&values, &[], Direction::Lower, 1), &order, current, 0.01f64.ln_1p())
            .unwrap()
    }

    #[test]
    fn few_rounds_give_no_recommendation() {
        let few = |variants: usize, rounds: usize| match answer(&vec![1.0; variants], 0.0, rounds, Some(0)) {
            Answer::TooFewRounds { rounds, needed } => Some((rounds, needed)),
            _ => None,
        };
        assert_eq!(
            [few(2, 7), few(3, 5), few(5, 9)],
            [(7, 8), (5, 8), (9, 10)].map(|(n, m)| Some((n, Some(m))))
        );
        assert_eq!([few(2, 8), few(3, 8), few(5, 10)], [None; 3]);
    }

    #[test]
    fn the_only_possible_best_is_recommended_whatever_the_current_variant() {
        for current in [None, Some(0), Some(2)] {
            let Answer::Use { choice: 0, next: Some(next) } = answer(&[1.0, 1.1, 1.3], 0.01, 12, current)
            else {
                panic!()
            };
            assert!(next.variant == 1 && next.low > 0.07 && next.high < 0.12, "{next:?}");
        }
    }

    #[test]
    fn a_current_variant_that_can_be_the_best_is_kept() {
        let Answer::Keep { current: 1, rivals } = answer(&[1.0, 1.0, 1.5], 0.1, 12, Some(1)) else {
            panic!()
        };
        assert!(
            matches!(rivals[..], [Cost { variant: 0, low, high }] if low < 0.0 && high > 0.0),
            "{rivals:?}"
        );
        // Significantly slower, but by less than the margin.
        assert_eq!(answer(&[1.0, 1.0, 1.002], 0.0, 12, Some(2)).recommended(), [2]);
    }

    #[test]
    fn move_recommends_only_variants_with_a_small_regret() {
        let Answer::Move { from: 2, to } = answer(&[1.0, 1.001, 1.5], 0.01, 12, Some(2)) else { panic!() };
        assert_eq!(to.iter().map(|cost| cost.variant).collect::<Vec<_>>(), [0, 1]);
        assert!(to.iter().all(|cost| cost.high < 0.0));
        let Answer::Better { current: 2, better } = answer(&[1.0, 1.001, 1.9], 0.3, 12, Some(2)) else {
            panic!()
        };
        assert_eq!(better.iter().map(|cost| cost.variant).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn without_a_small_regret_the_answer_is_too_noisy() {
        let Answer::Choose { choices, regret } = answer(&[1.0, 1.001, 1.5], 0.01, 12, None) else { panic!() };
        assert!(choices == [0, 1] && regret > 0.0 && regret < 0.05, "{regret}");
        let Answer::TooNoisy { one: 0, other } = answer(&[1.0, 1.0, 2.0], 0.3, 12, None) else { panic!() };
        assert!(other.variant == 1 && other.low < -0.05 && other.high > 0.05, "{other:?}");
    }

    #[test]
    fn variants_with_equal_values_are_both_recommended() {
        assert_eq!(answer(&[1.0, 1.0], 0.0, 12, None), Answer::Choose { choices: vec![0, 1], regret: 0.0 });
        let Answer::Keep { current: 1, rivals } = answer(&[1.0, 1.0], 0.0, 12, Some(1)) else { panic!() };
        assert_eq!(rivals, [Cost { variant: 0, low: 0.0, high: 0.0 }]);
    }

    #[test]
    fn variants_without_shared_rounds_have_no_answer() {
        let apart = [vec![1.0; 9], vec![f64::NAN; 9]];
        assert_eq!(
            Answer::of(&Regrets::compute(&apart, &[], Direction::Lower, 1), &[0, 1], None, 0.01),
            None
        );
    }
}
