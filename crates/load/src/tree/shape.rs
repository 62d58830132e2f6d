//! The shape of a kernel tree: how large its files, how full and how deep its directories are.
//!
//! Sizes are not drawn but taken as quantiles: the i-th of n is the (i + ½)/n quantile.

use statrs::distribution::{ContinuousCDF, Normal};

/// Mean and standard deviation of ln bytes.
const LN_BYTES: (f64, f64) = (8.23, 1.62);

/// All files but one in a hundred are smaller.
const LARGE: f64 = 125_000.0;

/// The share of files that are smaller than [`LARGE`].
const BODY: f64 = 0.99;

/// No file is larger. It follows from the mean of 16.5 kB: see [`file_quantile`].
const LARGEST: f64 = 1_950_000.0;

/// Files per directory at the standard normal quantiles of 50%, 90% and 99%.
const FULLNESS: [(f64, f64); 3] = [(0.0, 7.0), (1.281_55, 34.0), (2.326_35, 160.0)];

/// The share of all files that is in directories at depth 2, 3, … 9, so that the depths of files run to
/// 10 with the mode at 4. The top is at depth 1.
const DEPTHS: [f64; 8] = [0.07, 0.42, 0.29, 0.13, 0.055, 0.02, 0.01, 0.005];

/// A directory before it has a place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// The number of files in it.
    pub files: u64,
    /// Its depth; 1 is the top.
    pub depth: usize,
}

/// The sizes of `count` files, smallest first.
pub fn file_bytes(count: u64) -> Vec<u64> {
    let normal = Normal::standard();
    quantiles(count).map(|u| file_quantile(&normal, u).round() as u64).collect()
}

/// Lognormal up to [`LARGE`] for 99% of the files; the rest is spread evenly over ln bytes up to
/// [`LARGEST`].
///
/// A lognormal of μ 8.23 and σ 1.62 alone has a mean of 13.9 kB and 1% above 162 kB. The kernel's tree
/// has a mean of 16.5 kB and 1% above 125 kB: fewer large files, and some far larger ones. With this tail
/// both are met, and mean and deviation of ln bytes stay 8.2 and 1.62.
fn file_quantile(normal: &Normal, u: f64) -> f64 {
    let (mu, sigma) = LN_BYTES;
    if u < BODY {
        let below_large = normal.cdf((LARGE.ln() - mu) / sigma);
        (mu + sigma * normal.inverse_cdf(u / BODY * below_large)).exp()
    } else {
        LARGE * (LARGEST / LARGE).powf((u - BODY) / (1.0 - BODY))
    }
}

/// The directories of a tree of `files` files: the top first, then by depth.
pub fn directories(files: u64) -> Vec<Planned> {
    let mut fullness = fullness(files);
    let top = fullness.remove(fullness.len() / 2);
    let mut planned = vec![Planned { files: top, depth: 1 }];
    // Largest first, each to the depth that is furthest behind its share.
    let mut placed = [0.0; DEPTHS.len()];
    let mut total = 0.0;
    for files in fullness.into_iter().rev() {
        total += files as f64;
        let behind = |depth: usize| DEPTHS[depth] * total - placed[depth];
        let depth = (0..DEPTHS.len()).max_by(|&a, &b| behind(a).total_cmp(&behind(b))).unwrap_or(0);
        placed[depth] += files as f64;
        planned.push(Planned { files, depth: depth + 2 });
    }
    planned.sort_by_key(|directory| directory.depth);
    planned
}

/// The number of files in each directory, smallest first, `files` in all.
fn fullness(files: u64) -> Vec<u64> {
    let normal = Normal::standard();
    let of = |count: u64| -> Vec<u64> {
        quantiles(count).map(|u| (fullness_quantile(normal.inverse_cdf(u)).round() as u64).max(1)).collect()
    };
    // Directories hold 17 files on average, fewer where there are only few directories.
    let mut count = (files / 20).max(1);
    while of(count).iter().sum::<u64>() < files {
        count += 1;
    }
    let mut fullness = of(count);
    let mut excess = fullness.iter().sum::<u64>() - files;
    while excess > 0 {
        for directory in fullness.iter_mut().rev().filter(|files| **files > 1) {
            *directory -= u64::from(excess > 0);
            excess = excess.saturating_sub(1);
        }
    }
    fullness.sort_unstable();
    fullness
}

/// ln of the files in a directory as a function of the standard normal quantile: straight lines through
/// the three measured points, carried on at both ends.
fn fullness_quantile(z: f64) -> f64 {
    let [low, middle, high] = FULLNESS.map(|(z, files)| (z, files.ln()));
    let ((z0, y0), (z1, y1)) = if z < middle.0 { (low, middle) } else { (middle, high) };
    (y0 + (z - z0) * (y1 - y0) / (z1 - z0)).exp()
}

fn quantiles(count: u64) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| (i as f64 + 0.5) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sorted: &[u64], share: f64) -> u64 {
        sorted[(sorted.len() as f64 * share) as usize]
    }

    #[test]
    fn file_sizes_are_the_kernels() {
        let sizes = file_bytes(20_000);
        let mean = sizes.iter().sum::<u64>() as f64 / 20_000.0;
        assert!((16_300.0..16_700.0).contains(&mean), "mean {mean}");
        assert!((3_600..3_950).contains(&at(&sizes, 0.5)), "median {}", at(&sizes, 0.5));
        assert!((124_000..126_000).contains(&at(&sizes, 0.99)), "99% {}", at(&sizes, 0.99));
        assert!(sizes[19_999] <= LARGEST as u64);
        let logs: Vec<f64> = sizes.iter().map(|&bytes| (bytes as f64).ln()).collect();
        let mu = logs.iter().sum::<f64>() / 20_000.0;
        let sigma = (logs.iter().map(|y| (y - mu).powi(2)).sum::<f64>() / 20_000.0).sqrt();
        assert!((mu - 8.23).abs() < 0.03 && (sigma - 1.62).abs() < 0.02, "{mu} {sigma}");
    }

    #[test]
    fn no_file_dominates_a_small_tree() {
        for count in [40, 100, 200, 625] {
            let sizes = file_bytes(count);
            let share = *sizes.last().unwrap() as f64 / sizes.iter().sum::<u64>() as f64;
            assert!(share < 0.4, "{share} of the bytes of {count} files are in one");
        }
    }

    #[test]
    fn directories_are_as_full_as_the_kernels() {
        let fullness = fullness(20_000);
        assert_eq!(fullness.iter().sum::<u64>(), 20_000);
        assert_eq!(at(&fullness, 0.5), 7);
        let share = |holds: &dyn Fn(u64) -> bool| {
            fullness.iter().filter(|files| holds(**files)).count() as f64 / fullness.len() as f64
        };
        let (small, large) = (share(&|files| files <= 34), share(&|files| files >= 160));
        assert!((0.895..0.91).contains(&small), "{small} hold 34 or fewer");
        assert!((0.008..0.012).contains(&large), "{large} hold 160 or more");
    }

    #[test]
    fn directories_hold_all_files_whatever_their_number() {
        for files in (1..60).chain([625, 20_000]) {
            assert_eq!(directories(files).iter().map(|directory| directory.files).sum::<u64>(), files);
        }
    }
}
