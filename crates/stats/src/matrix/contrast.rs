//! A comparison of cells: a weighted sum of log throughputs, held against a limit round by round.

use super::cells::{At, Matrix};
use crate::{evalue::e_value, ratio::Ratio};

/// Which side of the limit breaks the rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Values below it.
    Below,
    /// Values above it.
    Above,
}

/// Σ weight·ln(operations a second) + offset, and the limit it should not pass.
#[derive(Debug, Clone, PartialEq)]
pub struct Contrast {
    /// The cells with their weights; (b, 1), (a, −1) is ln(b/a).
    pub terms: Vec<(At, f64)>,
    /// The constant to add: ln of the quotient of block sizes turns operations into bytes.
    pub offset: f64,
    /// The limit, a logarithm.
    pub limit: f64,
    /// The side that breaks the rule.
    pub side: Side,
}

/// What the rounds say to a contrast.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// exp of the contrast, with its interval.
    pub ratio: Ratio,
    /// Whether the whole interval breaks the rule. Under eight rounds: whether every round does.
    pub beyond: bool,
    /// The e-value against "the contrast is at its limit", 0 where the estimate keeps the rule: the two-sided
    /// e-value of [`e_value`] would else also count evidence for the rule.
    pub e: f64,
}

impl Contrast {
    /// ln(b/a) in operations a second; `limit` is a ratio.
    pub fn ratio(b: At, a: At, side: Side, limit: f64) -> Contrast {
        Contrast { terms: vec![(b, 1.0), (a, -1.0)], offset: 0.0, limit: limit.ln(), side }
    }

    /// ln(b/a) in bytes a second; `limit` is a ratio.
    pub fn bandwidth(matrix: &Matrix, b: At, a: At, side: Side, limit: f64) -> Contrast {
        let offset = (matrix.sizes[b.size] as f64 / matrix.sizes[a.size] as f64).ln();
        Contrast { offset, ..Contrast::ratio(b, a, side, limit) }
    }

    /// Its value in each round that has all the cells, in the order of the rounds.
    pub fn differences(&self, matrix: &Matrix) -> Vec<f64> {
        let rounds = self.terms.iter().map(|(at, _)| matrix.values(*at).len()).min().unwrap_or(0);
        let term = |round: usize| move |(at, weight): &(At, f64)| weight * matrix.values(*at)[round].ln();
        let value = |round| self.terms.iter().map(term(round)).sum::<f64>() + self.offset;
        (0..rounds).map(value).filter(|value| value.is_finite()).collect()
    }

    /// Whether a cell that might break the rule only because its generator was in the way is on the side that
    /// breaks it. Its figure is a lower bound: too low it may be by the generator, too high never.
    fn by_the_client(&self, matrix: &Matrix) -> bool {
        let blamed = |weight: f64| (weight > 0.0) == (self.side == Side::Below);
        self.terms.iter().any(|(at, weight)| blamed(*weight) && matrix.client_bound(*at))
    }

    /// What the rounds of a matrix say. None where no round has all the cells, or where the generator may be
    /// what breaks the rule.
    pub fn outcome(&self, matrix: &Matrix) -> Option<Outcome> {
        if self.by_the_client(matrix) {
            return None;
        }
        let d = self.differences(matrix);
        let e = e_value(&d, self.limit);
        let ratio = Ratio::of(d)?;
        let past = |ratio: f64| match self.side {
            Side::Below => ratio.ln() < self.limit,
            Side::Above => ratio.ln() > self.limit,
        };
        let beyond = past(ratio.low) && past(ratio.high);
        Some(Outcome { ratio, beyond, e: if past(ratio.value) { e } else { 0.0 } })
    }

    /// The same contrast in another matrix with the same names. None where it lacks a cell.
    pub fn moved(&self, from: &Matrix, to: &Matrix) -> Option<Contrast> {
        let there = |(at, weight): &(At, f64)| {
            let (variant, mode) = (&from.variants[at.variant].name, &from.modes[at.mode].name);
            Some((to.find(variant, mode, from.sizes[at.size], from.threads[at.threads])?, *weight))
        };
        Some(Contrast { terms: self.terms.iter().map(there).collect::<Option<_>>()?, ..self.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::cells::Row;

    fn two(a: &[Option<f64>], b: &[Option<f64>]) -> (Matrix, At, At) {
        let row = |threads, iops: &[Option<f64>]| Row {
            variant: "x".into(),
            raw: false,
            mode: "seqrd".into(),
            block_size: 512,
            threads,
            iops: iops.to_vec(),
            client_bound: false,
        };
        let matrix = Matrix::new(&[row(1, a), row(2, b)]).unwrap();
        let at = |threads| matrix.find("x", "seqrd", 512, threads).unwrap();
        let (a, b) = (at(1), at(2));
        (matrix, a, b)
    }

    #[test]
    fn one_value_is_held_against_the_limit_itself() {
        let (matrix, a, b) = two(&[Some(100.0)], &[Some(90.0)]);
        let outcome = Contrast::ratio(b, a, Side::Below, 0.95).outcome(&matrix).unwrap();
        assert!(outcome.beyond && outcome.ratio.provisional);
        assert!((outcome.ratio.value - 0.9).abs() < 1e-12);
        assert!(!Contrast::ratio(b, a, Side::Below, 0.89).outcome(&matrix).unwrap().beyond);
    }

    #[test]
    fn eight_rounds_must_all_be_beyond_and_pair_within_rounds() {
        let a: Vec<Option<f64>> = (1..=8).map(|i| Some(100.0 * f64::from(i))).collect();
        let share = |share: f64| a.iter().map(|v| v.map(|v| v * share)).collect::<Vec<_>>();
        let (matrix, a0, b0) = two(&a, &share(0.9));
        let outcome = Contrast::ratio(b0, a0, Side::Below, 0.95).outcome(&matrix).unwrap();
        assert!(outcome.beyond && outcome.e > 20.0, "{outcome:?}");
        let mut worse = share(0.9);
        worse[3] = Some(399.0);
        let (matrix, a0, b0) = two(&a, &worse);
        assert!(!Contrast::ratio(b0, a0, Side::Below, 0.95).outcome(&matrix).unwrap().beyond);
        let (matrix, a0, b0) = two(&a, &share(1.2));
        assert_eq!(Contrast::ratio(b0, a0, Side::Below, 0.95).outcome(&matrix).unwrap().e, 0.0);
    }

    #[test]
    fn the_generator_is_not_blamed_on_the_cell() {
        let row = |threads, iops: f64, client_bound| Row {
            variant: "x".into(),
            raw: false,
            mode: "seqrd".into(),
            block_size: 512,
            threads,
            iops: vec![Some(iops)],
            client_bound,
        };
        let beyond = |slow_by_client, fast_by_client, side| {
            let matrix = Matrix::new(&[row(1, 100.0, fast_by_client), row(2, 50.0, slow_by_client)]).unwrap();
            let at = |threads| matrix.find("x", "seqrd", 512, threads).unwrap();
            let contrast = match side {
                Side::Below => Contrast::ratio(at(2), at(1), side, 0.95),
                Side::Above => Contrast::ratio(at(1), at(2), side, 1.05),
            };
            contrast.outcome(&matrix).map(|outcome| outcome.beyond)
        };
        for side in [Side::Below, Side::Above] {
            assert_eq!(beyond(false, false, side), Some(true));
            assert_eq!(beyond(true, false, side), None, "the slow one may be faster");
            assert_eq!(beyond(false, true, side), Some(true), "the fast one is faster still");
        }
    }

    #[test]
    fn a_round_without_one_of_the_cells_does_not_count() {
        let (matrix, a, b) = two(&[Some(100.0), None, Some(1.0)], &[Some(50.0), Some(7.0), Some(1.0)]);
        let d = Contrast::ratio(b, a, Side::Below, 0.95).differences(&matrix);
        assert_eq!(d.len(), 2);
        assert!((d[0] - 0.5f64.ln()).abs() < 1e-12 && d[1] == 0.0);
    }
}
