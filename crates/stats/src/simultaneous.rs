//! All pairs of arms at once: intervals that all hold together with 95%.

use crate::simulate::{MANY, stream};
use rand::seq::SliceRandom;

/// Permutations: the 95% quantile then has 100 of them beyond it, or 50 where there are so many blocks that each takes
/// long. With either number it is exact.
fn permutations(blocks: usize) -> usize {
    if blocks <= MANY { 1_999 } else { 999 }
}

/// Simultaneous intervals of every pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Simultaneous {
    /// The 95% quantile of max |T|.
    pub critical: f64,
    /// Blocks that have every arm; only these count.
    pub blocks: usize,
    /// `intervals[i][j]`: the interval of ln(arm j/arm i), infinite where it is unknown.
    pub intervals: Vec<Vec<(f64, f64)>>,
}

/// Intervals of all pairs of arms from `values[arm][block]`, NaN where the block lacks the arm. The same
/// values and seed give the same intervals.
///
/// For each pair T = mean(d)/se(d). Its interval is mean(d) ± q·se(d), q the 95% quantile of the largest |T|
/// over all pairs when the labels are permuted within every block, after each arm's own mean log has been
/// taken from it (Westfall and Young 1993, "Resampling-based multiple testing", max T). A fixed-sample
/// interval: not for deciding when to stop. None under two complete blocks or two arms.
pub fn simultaneous(values: &[Vec<f64>], seed: u64) -> Option<Simultaneous> {
    let logs = complete_logs(values);
    let (blocks, arms) = (logs.len(), values.len());
    if blocks < 2 || arms < 2 {
        return None;
    }
    let mean = |arm: usize| logs.iter().map(|block| block[arm]).sum::<f64>() / blocks as f64;
    let means: Vec<f64> = (0..arms).map(mean).collect();
    // Block after block without a gap: nearly all the time goes into walking over them.
    let mut residuals: Vec<f64> =
        logs.iter().flat_map(|block| block.iter().zip(&means).map(|(log, mean)| log - mean)).collect();
    let mut rng = stream(seed, 0);
    let permutations = permutations(blocks);
    let mut largest: Vec<f64> = (0..permutations)
        .map(|_| {
            residuals.chunks_exact_mut(arms).for_each(|block| block.shuffle(&mut rng));
            largest_t(&residuals, arms)
        })
        .collect();
    largest.sort_unstable_by(f64::total_cmp);
    // With B permutations the ⌈0.95·(B + 1)⌉-th smallest is exact.
    let critical = largest[(0.95 * (permutations + 1) as f64).ceil() as usize - 1];
    let interval = |i: usize, j: usize| {
        let (mean, error) = difference(&logs, i, j);
        (mean - critical * error, mean + critical * error)
    };
    let intervals = (0..arms).map(|i| (0..arms).map(|j| interval(i, j)).collect()).collect();
    Some(Simultaneous { critical, blocks, intervals })
}

/// `logs[block][arm]` of the blocks in which every arm has a positive value.
fn complete_logs(values: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let blocks = values.iter().map(Vec::len).min().unwrap_or(0);
    (0..blocks)
        .map(|block| values.iter().map(|arm| arm[block].ln()).collect::<Vec<f64>>())
        .filter(|logs| logs.iter().all(|log| log.is_finite()))
        .collect()
}

/// The mean of log j − log i over blocks, and its standard error.
fn difference(logs: &[Vec<f64>], i: usize, j: usize) -> (f64, f64) {
    let n = logs.len() as f64;
    let mean = logs.iter().map(|block| block[j] - block[i]).sum::<f64>() / n;
    let squares = logs.iter().map(|block| (block[j] - block[i] - mean).powi(2)).sum::<f64>();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// The largest |T| of all pairs of arms, of residuals block after block. Their means are near 0, so that sums of squares
/// lose nothing.
fn largest_t(residuals: &[f64], arms: usize) -> f64 {
    let n = (residuals.len() / arms) as f64;
    let pairs: Vec<(usize, usize)> = (0..arms).flat_map(|i| (i + 1..arms).map(move |j| (i, j))).collect();
    let mut sums = vec![(0.0, 0.0); pairs.len()];
    for block in residuals.chunks_exact(arms) {
        for ((i, j), sum) in pairs.iter().zip(&mut sums) {
            let d = block[*j] - block[*i];
            *sum = (sum.0 + d, sum.1 + d * d);
        }
    }
    let t = |(sum, squares): &(f64, f64)| {
        let error = ((squares - sum * sum / n).max(0.0) / (n - 1.0) / n).sqrt();
        if *sum == 0.0 { 0.0 } else { (sum / n / error).abs() }
    };
    sums.iter().map(t).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate::noise::{Noise, Order, differences};

    fn arms(count: u64, blocks: usize, factor: impl Fn(u64) -> f64) -> Vec<Vec<f64>> {
        (0..count)
            .map(|arm| {
                let noise = differences(Noise::Normal, Order::Random, blocks, &mut stream(5, arm));
                noise.into_iter().map(|d| factor(arm) * d.exp()).collect()
            })
            .collect()
    }

    #[test]
    fn the_critical_value_is_that_of_the_studentised_range() {
        // scipy.stats.studentized_range.ppf(0.95, k, (k − 1)·59)/√2, which holds for normal noise of equal
        // size; T here takes each pair's own error, which adds a little.
        for (k, expected) in [(2, 2.0010), (4, 2.5936), (6, 2.8686)] {
            let q = simultaneous(&arms(k, 60, |_| 1.0), 1).unwrap().critical;
            assert!((q / expected - 1.0).abs() < 0.06, "{k} arms: {q} for {expected}");
        }
    }

    #[test]
    fn effects_do_not_widen_the_intervals() {
        let level = simultaneous(&arms(3, 30, |_| 1.0), 1).unwrap();
        let apart = simultaneous(&arms(3, 30, |arm| 1.0 + arm as f64), 1).unwrap();
        assert!((level.critical - apart.critical).abs() < 1e-9);
        let (low, high) = apart.intervals[0][1];
        assert!(low < 2f64.ln() && 2f64.ln() < high && low > 0.6);
        assert!((apart.intervals[1][0].0 + high).abs() < 1e-12, "the other way round");
    }

    #[test]
    fn only_complete_blocks_count() {
        let mut values = arms(3, 12, |_| 1.0);
        values[1][3] = f64::NAN;
        values[2][5] = 0.0;
        assert_eq!(simultaneous(&values, 1).unwrap().blocks, 10);
        assert_eq!(simultaneous(&values[..1], 1), None);
        assert_eq!(simultaneous(&[vec![1.0], vec![2.0]], 1), None);
    }
}
