//! A file tree shaped like that of the Linux kernel, generated from a seed. docs/reference/coreutils.md compares the
//! distributions of the generated tree with those of the kernel's tree.
//!
//! The sizes of files and directories are not drawn but are quantiles of their distributions: the i-th of n is the
//! (i + ½)/n quantile.

use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use statrs::distribution::{ContinuousCDF, Normal};
use std::collections::HashSet;

/// The top directory of every archived tree.
pub const TOP_DIR: &str = "tree";

/// When Linux 2.6.14.4 was released (2005-12-15), in seconds since 1970. No generated file is younger.
const RELEASE_TIME: u64 = 1_134_604_800;

/// Three years in seconds. A generated file is at most this much older than [`RELEASE_TIME`].
const MAX_AGE_S: u64 = 3 * 365 * 86_400;

/// A file or directory of a generated tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry {
    /// Its path, starting with [`TOP_DIR`].
    pub path: String,
    /// The size of a file in bytes, or `None` for a directory.
    pub bytes: Option<u64>,
    /// The time of its last change, in seconds since 1970.
    pub mtime: u64,
}

/// A generated tree. The sizes of files and directories are the same for every seed, and a small tree is a fair
/// miniature of a large one. The seed decides which file gets which size and place, and all names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeneratedTree {
    /// The seed.
    pub seed: u64,
    /// The number of files.
    pub files: u64,
    /// The number of twins for every 10,000 files, evenly spread. A twin follows its original and has the same size, so
    /// twins add a known amount of the same work.
    pub twins_per_10_000: u64,
}

impl GeneratedTree {
    /// Calls `visit` with every entry, each directory before its contents, depth first, as in an archive. Names are
    /// generated one after the other and not kept, so that a tree of a million files takes little memory.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn for_each<E>(&self, mut visit: impl FnMut(TreeEntry) -> Result<(), E>) -> Result<(), E> {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(self.seed, 1));
        let mut sizes = file_sizes(self.files);
        sizes.shuffle(&mut rng);
        let mut directories = plan_directories(self.files);
        place_directories(&mut directories, &mut rng);
        let mut visited_files = 0;
        let mut visit_with_twin = |entry: TreeEntry| {
            let twin = entry.bytes.map(|_| TreeEntry { path: format!("{}.twin", entry.path), ..entry.clone() });
            visit(entry)?;
            let Some(twin) = twin else { return Ok(()) };
            visited_files += 1;
            let has_twin =
                visited_files * self.twins_per_10_000 / 10_000 > (visited_files - 1) * self.twins_per_10_000 / 10_000;
            if has_twin { visit(twin) } else { Ok(()) }
        };
        let mut namer = EntryNamer { directories: &directories, sizes: sizes.into_iter(), visit: &mut visit_with_twin };
        namer.visit_directory(0, TOP_DIR.to_string(), &mut rng)
    }

    /// All entries.
    pub fn entries(&self) -> Vec<TreeEntry> {
        let mut entries = vec![];
        let Ok(()) = self.for_each(|entry| {
            entries.push(entry);
            Ok::<_, std::convert::Infallible>(())
        });
        entries
    }
}

/// The entries of a tree of `files` files without twins.
pub fn generate_entries(seed: u64, files: u64) -> Vec<TreeEntry> {
    GeneratedTree { seed, files, twins_per_10_000: 0 }.entries()
}

/// A directory before it has a name.
#[derive(Debug)]
struct Directory {
    /// Number of files in the directory.
    files: u64,
    /// Planned depth in the tree; 1 is the top.
    depth: usize,
    /// The indices of the directories in it.
    children: Vec<usize>,
}

/// Puts each directory into a random one of the level above it. The first directory is the top.
fn place_directories(directories: &mut [Directory], rng: &mut ChaCha8Rng) {
    let mut levels: Vec<Vec<usize>> = Vec::new();
    for index in 0..directories.len() {
        // A small tree has no directories at some depths. A directory without a parent level moves up.
        let level = (directories[index].depth - 1).min(levels.len());
        if level > 0 {
            let possible_parents = &levels[level - 1];
            let parent = possible_parents[rng.random_range(0..possible_parents.len())];
            directories[parent].children.push(index);
        }
        if level == levels.len() {
            levels.push(Vec::new());
        }
        levels[level].push(index);
    }
}

/// Assigns names and sizes to the entries, depth first, and visits them.
struct EntryNamer<'a, E> {
    directories: &'a [Directory],
    /// The sizes in bytes of the files that have no name yet.
    sizes: std::vec::IntoIter<u32>,
    visit: &'a mut dyn FnMut(TreeEntry) -> Result<(), E>,
}

impl<E> EntryNamer<'_, E> {
    /// Visits a directory and everything below it.
    fn visit_directory(&mut self, index: usize, path: String, rng: &mut ChaCha8Rng) -> Result<(), E> {
        let Directory { files, children, .. } = &self.directories[index];
        let mtime = RELEASE_TIME - rng.random_range(0..MAX_AGE_S);
        (self.visit)(TreeEntry { path: path.clone(), bytes: None, mtime })?;
        let mut taken_names = HashSet::new();
        for _ in 0..*files {
            let Some(bytes) = self.sizes.next().map(u64::from) else { break };
            let name = draw_unused_name(&mut taken_names, || draw_file_name(rng));
            let mtime = RELEASE_TIME - rng.random_range(0..MAX_AGE_S);
            (self.visit)(TreeEntry { path: format!("{path}/{name}"), bytes: Some(bytes), mtime })?;
        }
        for &child in children {
            let name = draw_unused_name(&mut taken_names, || random_letters(rng, 4, 10));
            self.visit_directory(child, format!("{path}/{name}"), rng)?;
        }
        Ok(())
    }
}

/// Draws names until one is new in its directory.
fn draw_unused_name(taken_names: &mut HashSet<String>, mut draw: impl FnMut() -> String) -> String {
    loop {
        let name = draw();
        if taken_names.insert(name.clone()) {
            return name;
        }
    }
}

/// Draws a file name of 8 to 16 characters, 12 on average.
fn draw_file_name(rng: &mut ChaCha8Rng) -> String {
    let extension = ["c", "h", "S"][[0, 0, 0, 0, 1, 1, 1, 1, 2][rng.random_range(0..9)]];
    format!("{}.{extension}", random_letters(rng, 6, 14))
}

fn random_letters(rng: &mut ChaCha8Rng, min_length: usize, max_length: usize) -> String {
    let length = rng.random_range(min_length..=max_length);
    (0..length).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect()
}

/// Mean and standard deviation of ln bytes.
const LN_BYTES_MEAN_AND_SD: (f64, f64) = (8.23, 1.62);

/// Bytes at the 99% quantile: the largest 1% of the files are at least this large.
const LARGE_FILE_BYTES: f64 = 125_000.0;

/// The share of files that are smaller than [`LARGE_FILE_BYTES`].
const SMALL_FILE_SHARE: f64 = 0.99;

/// Bytes of the largest file. It follows from the mean of 16.5 kB: see [`file_size_at_quantile`].
const LARGEST_FILE_BYTES: f64 = 1_950_000.0;

/// The distribution of files per directory, at its 50%, 90% and 99% quantiles: each entry has the standard normal quantile `z`
/// and the number of files.
const FILES_PER_DIRECTORY: [(f64, f64); 3] = [(0.0, 7.0), (1.281_55, 34.0), (2.326_35, 160.0)];

/// Share of all files in directories at depth 2, 3, … 9; the top is at depth 1. A file is one level deeper than its
/// directory, so the depths of files run from 2 to 10 with the mode at 4.
const DEPTH_SHARES: [f64; 8] = [0.07, 0.42, 0.29, 0.13, 0.055, 0.02, 0.01, 0.005];

/// The sizes of `count` files in bytes, smallest first; none is above [`LARGEST_FILE_BYTES`].
fn file_sizes(count: u64) -> Vec<u32> {
    let normal = Normal::standard();
    quantiles(count).map(|quantile| file_size_at_quantile(&normal, quantile).round() as u32).collect()
}

/// The size in bytes of the file at a quantile: lognormal up to [`LARGE_FILE_BYTES`] for 99% of the files, the rest
/// evenly spread over ln bytes up to [`LARGEST_FILE_BYTES`].
///
/// A lognormal of μ 8.23 and σ 1.62 alone has a mean of 13.9 kB, and 1% of the files are above 162 kB. In the kernel's
/// tree the mean is 16.5 kB and 1% are above 125 kB: it has fewer large files, and some far larger ones. With this tail
/// the generated sizes have the kernel's mean and 99% quantile, and mean and deviation of ln bytes stay 8.2 and 1.62.
fn file_size_at_quantile(normal: &Normal, quantile: f64) -> f64 {
    let (mu, sigma) = LN_BYTES_MEAN_AND_SD;
    if quantile < SMALL_FILE_SHARE {
        let share_below_large = normal.cdf((LARGE_FILE_BYTES.ln() - mu) / sigma);
        (mu + sigma * normal.inverse_cdf(quantile / SMALL_FILE_SHARE * share_below_large)).exp()
    } else {
        let tail_quantile = (quantile - SMALL_FILE_SHARE) / (1.0 - SMALL_FILE_SHARE);
        LARGE_FILE_BYTES * (LARGEST_FILE_BYTES / LARGE_FILE_BYTES).powf(tail_quantile)
    }
}

/// The directories of a tree of `files` files: the top first, then by depth. None has children yet.
fn plan_directories(files: u64) -> Vec<Directory> {
    let mut counts = files_per_directory(files);
    let files_at_top = counts.remove(counts.len() / 2);
    let mut planned = vec![Directory { files: files_at_top, depth: 1, children: vec![] }];
    // Largest first, each to the depth that is furthest behind its share.
    let mut files_by_depth = [0.0; DEPTH_SHARES.len()];
    let mut placed_files = 0.0;
    for files in counts.into_iter().rev() {
        placed_files += files as f64;
        let shortfall = |index: usize| DEPTH_SHARES[index] * placed_files - files_by_depth[index];
        let index = (0..DEPTH_SHARES.len()).max_by(|&a, &b| shortfall(a).total_cmp(&shortfall(b))).unwrap_or(0);
        files_by_depth[index] += files as f64;
        // The first of the shares is that of depth 2.
        planned.push(Directory { files, depth: index + 2, children: vec![] });
    }
    planned.sort_by_key(|directory| directory.depth);
    planned
}

/// The number of files in each directory, smallest first; their sum is `files`.
fn files_per_directory(files: u64) -> Vec<u64> {
    if files == 0 {
        return vec![0];
    }
    // Directories hold 17 files on average, fewer where there are only few directories.
    let mut directory_count = (files / 20).max(1);
    let mut counts = files_at_quantiles(directory_count);
    loop {
        let sum = counts.iter().sum::<u64>();
        if sum >= files {
            break;
        }
        // More directories reach larger quantiles, so the mean grows with their number. Add only a quarter of those that are
        // missing at the present mean, so that no step passes the smallest sufficient number.
        let mean = sum.div_ceil(directory_count);
        directory_count += ((files - sum) / (4 * mean)).max(1);
        counts = files_at_quantiles(directory_count);
    }
    // Remove the files in excess of `files`, one from each directory in turn, the fullest first.
    let mut excess = counts.iter().sum::<u64>() - files;
    while excess > 0 {
        for count in counts.iter_mut().rev().filter(|count| **count > 1) {
            *count -= u64::from(excess > 0);
            excess = excess.saturating_sub(1);
        }
    }
    counts.sort_unstable();
    counts
}

/// Files of each of `directory_count` directories at the quantiles of their distribution, smallest first, at least 1.
fn files_at_quantiles(directory_count: u64) -> Vec<u64> {
    let normal = Normal::standard();
    let count_at = |quantile| (files_at_quantile(normal.inverse_cdf(quantile)).round() as u64).max(1);
    quantiles(directory_count).map(count_at).collect()
}

/// Files in a directory as a function of the standard normal quantile `z`. The logarithm of the number follows straight
/// lines through the three points of [`FILES_PER_DIRECTORY`], extended at both ends.
fn files_at_quantile(z: f64) -> f64 {
    let [low, middle, high] = FILES_PER_DIRECTORY.map(|(z, files)| (z, files.ln()));
    let ((z0, y0), (z1, y1)) = if z < middle.0 { (low, middle) } else { (middle, high) };
    (y0 + (z - z0) * (y1 - y0) / (z1 - z0)).exp()
}

/// The quantiles (i + ½)/n for i from 0 to n − 1, where n is `count`.
fn quantiles(count: u64) -> impl Iterator<Item = f64> {
    (0..count).map(move |i| (i as f64 + 0.5) / count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn files(entries: &[TreeEntry]) -> impl Iterator<Item = &TreeEntry> {
        entries.iter().filter(|entry| entry.bytes.is_some())
    }

    #[test]
    fn the_same_seed_gives_the_same_tree_and_another_seed_another() {
        assert_eq!(generate_entries(7, 300), generate_entries(7, 300));
        assert_ne!(generate_entries(7, 300), generate_entries(8, 300));
    }

    #[test]
    fn twins_have_their_share_and_are_spread_evenly() {
        let with_twins = |twins_per_10_000| GeneratedTree { seed: 7, files: 2143, twins_per_10_000 }.entries();
        let twin_count = |twins_per_10_000| files(&with_twins(twins_per_10_000)).count() - 2143;
        assert_eq!(
            [twin_count(0), twin_count(14), twin_count(50), twin_count(100), twin_count(10_000)],
            [0, 3, 10, 21, 2143]
        );
        let entries = with_twins(14);
        let first_twin = entries.iter().position(|entry| entry.path.ends_with(".twin")).unwrap();
        assert_eq!(entries[first_twin].bytes, entries[first_twin - 1].bytes);
        let files_before = files(&entries[..first_twin]).count();
        assert!((700..730).contains(&files_before), "{files_before}");
    }

    #[test]
    fn depth_runs_from_2_to_10_with_the_mode_at_4() {
        for seed in 0..5 {
            let mut by_depth = BTreeMap::new();
            let entries = generate_entries(seed, 20_000);
            for file in files(&entries) {
                *by_depth.entry(file.path.split('/').count()).or_insert(0) += 1;
            }
            let mode = by_depth.iter().max_by_key(|(_, count)| **count).map(|(depth, _)| *depth);
            assert_eq!(mode, Some(4), "{by_depth:?}");
            assert_eq!(by_depth.keys().copied().collect::<Vec<_>>(), (2..=10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn files_have_names_of_about_12_characters() {
        let entries = generate_entries(1, 20_000);
        let lengths: Vec<_> = files(&entries).map(|file| file.path.rsplit('/').next().unwrap().len()).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| (8..=16).contains(length)));
    }

    proptest::proptest! {
        #[test]
        fn paths_are_unique_and_follow_their_directory(seed: u64, count in 0u64..400) {
            let entries = generate_entries(seed, count);
            let mut directories = HashSet::new();
            let mut paths = HashSet::new();
            for entry in &entries {
                assert!(paths.insert(&entry.path), "{} occurs twice", entry.path);
                if let Some((parent, _)) = entry.path.rsplit_once('/') {
                    assert!(directories.contains(parent), "{} comes before its directory", entry.path);
                }
                if entry.bytes.is_none() {
                    directories.insert(entry.path.as_str());
                }
            }
            assert_eq!(files(&entries).count() as u64, count);
        }
    }

    fn quantile(sorted: &[u64], share: f64) -> u64 {
        sorted[(sorted.len() as f64 * share) as usize]
    }

    #[test]
    fn file_sizes_have_the_distribution_of_the_kernels_tree() {
        let sizes: Vec<u64> = file_sizes(20_000).into_iter().map(u64::from).collect();
        let mean = sizes.iter().sum::<u64>() as f64 / 20_000.0;
        assert!((16_300.0..16_700.0).contains(&mean), "mean {mean}");
        assert!((3_600..3_950).contains(&quantile(&sizes, 0.5)), "median {}", quantile(&sizes, 0.5));
        assert!((124_000..126_000).contains(&quantile(&sizes, 0.99)), "99% {}", quantile(&sizes, 0.99));
        assert!(sizes[19_999] <= LARGEST_FILE_BYTES as u64);
        let logs: Vec<f64> = sizes.iter().map(|&bytes| (bytes as f64).ln()).collect();
        let mu = logs.iter().sum::<f64>() / 20_000.0;
        let sigma = (logs.iter().map(|y| (y - mu).powi(2)).sum::<f64>() / 20_000.0).sqrt();
        assert!((mu - 8.23).abs() < 0.03 && (sigma - 1.62).abs() < 0.02, "{mu} {sigma}");
    }

    #[test]
    fn no_file_dominates_a_small_tree() {
        for count in [40, 100, 200, 625] {
            let sizes: Vec<f64> = file_sizes(count).into_iter().map(f64::from).collect();
            let share = sizes.last().unwrap() / sizes.iter().sum::<f64>();
            assert!(share < 0.4, "{share} of the bytes of {count} files are in one");
        }
    }

    #[test]
    fn files_per_directory_have_the_distribution_of_the_kernels_tree() {
        let counts = files_per_directory(20_000);
        assert_eq!(counts.iter().sum::<u64>(), 20_000);
        assert_eq!(quantile(&counts, 0.5), 7);
        let share_of = |is_counted: fn(u64) -> bool| {
            counts.iter().filter(|files| is_counted(**files)).count() as f64 / counts.len() as f64
        };
        let (small_share, large_share) = (share_of(|files| files <= 34), share_of(|files| files >= 160));
        assert!((0.895..0.91).contains(&small_share), "{small_share} hold 34 or fewer");
        assert!((0.008..0.012).contains(&large_share), "{large_share} hold 160 or more");
    }

    #[test]
    fn directories_hold_all_files_of_a_tree_of_any_size() {
        for files in (0..60).chain([625, 20_000]) {
            assert_eq!(plan_directories(files).iter().map(|directory| directory.files).sum::<u64>(), files);
        }
    }
}
