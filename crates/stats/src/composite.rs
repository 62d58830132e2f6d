//! Many steps as one number a block.

use crate::comparison::{Comparison, compare};
use fsarena_core::sample::Direction;

/// A composite of all its steps, compared like a single one.
#[derive(Debug, Clone, PartialEq)]
pub struct Composite {
    /// How the arms compare on it.
    pub comparison: Comparison,
    /// For each arm, the blocks left out because they have some of its steps but not every one.
    pub left_out: Vec<usize>,
}

/// The sum over steps, for each arm and block: `steps[step][arm][block]`. The author's composite.
pub fn total(steps: &[&Vec<Vec<f64>>], direction: Direction) -> Composite {
    composite(steps, direction, sums(steps))
}

/// The geometric mean over steps: exp(G_b), G_b = Σ w_t·ln x_t with w_t = 1/T. Every step counts the
/// same, however long it takes. A step of zero or less has no logarithm, so its block is left out.
pub fn geometric(steps: &[&Vec<Vec<f64>>], direction: Direction) -> Composite {
    composite(steps, direction, means(steps))
}

/// The geometric mean over steps, `means[arm][block]`; NaN where the block lacks a step or has one of zero or less.
pub fn means(steps: &[&Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
    let weight = 1.0 / steps.len() as f64;
    let log = |value: f64| if value > 0.0 { value.ln() } else { f64::NAN };
    fold(steps, |values| (values.map(log).sum::<f64>() * weight).exp())
}

/// The sum over steps, `sums[arm][block]`; NaN where the block lacks a step.
pub fn sums(steps: &[&Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
    fold(steps, |values| values.sum())
}

/// One number for each arm and block. NaN spreads through sums, so a block that lacks a step has none.
fn fold(steps: &[&Vec<Vec<f64>>], of: impl Fn(&mut dyn Iterator<Item = f64>) -> f64) -> Vec<Vec<f64>> {
    let Some(first) = steps.first() else {
        return vec![];
    };
    let value = |arm: usize, block: usize| of(&mut steps.iter().map(|step| step[arm][block]));
    first
        .iter()
        .enumerate()
        .map(|(arm, blocks)| (0..blocks.len()).map(|block| value(arm, block)).collect())
        .collect()
}

fn composite(steps: &[&Vec<Vec<f64>>], direction: Direction, values: Vec<Vec<f64>>) -> Composite {
    let began = |arm: usize, block: usize| steps.iter().any(|step| !step[arm][block].is_nan());
    let left_out = |(arm, blocks): (usize, &Vec<f64>)| {
        blocks.iter().enumerate().filter(|(block, value)| value.is_nan() && began(arm, *block)).count()
    };
    Composite {
        left_out: values.iter().enumerate().map(left_out).collect(),
        comparison: compare(&values, direction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: f64 = f64::NAN;

    #[test]
    fn sums_and_means_only_of_complete_blocks() {
        // Two steps, two arms, three blocks; arm 1 lacks a step in block 1 and everything in block 2.
        let first = vec![vec![1.0, 1.0, 1.0], vec![2.0, 2.0, GONE]];
        let second = vec![vec![4.0, 9.0, 16.0], vec![8.0, GONE, GONE]];
        let steps = [&first, &second];
        let total = total(&steps, Direction::Lower);
        assert_eq!(total.left_out, [0, 1]);
        assert_eq!(total.comparison.arms[0].median, Some(10.0)); // of 5, 10, 17
        assert_eq!(total.comparison.arms[1].median, Some(10.0));
        assert_eq!(total.comparison.arms[1].ratio.unwrap().blocks, 1);
        assert!((total.comparison.arms[1].ratio.unwrap().value - 2.0).abs() < 1e-12);
        let geometric = geometric(&steps, Direction::Lower);
        assert!((geometric.comparison.arms[0].median.unwrap() - 3.0).abs() < 1e-12); // of 2, 3, 4
        assert!((geometric.comparison.arms[1].median.unwrap() - 4.0).abs() < 1e-12);
    }

    #[test]
    fn a_step_of_zero_has_no_geometric_mean() {
        let step = vec![vec![0.0, 1.0]];
        assert_eq!(geometric(&[&step], Direction::Lower).left_out, [1]);
        assert_eq!(total(&[&step], Direction::Lower).left_out, [0]);
    }

    #[test]
    fn no_steps_make_no_composite() {
        assert!(total(&[], Direction::Lower).comparison.arms.is_empty());
    }
}
