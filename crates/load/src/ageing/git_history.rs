//! A history of commits with the statistics of git's own repository, as a stream for git-fast-import(1).
//!
//! Measured on the last 10,000 commits without merges of <https://github.com/git/git> up to 2026-08-20: files per
//! commit, whether a file is changed, added or removed, and the lines added to a file and removed from it; and on the
//! 4,847 files of its tree: their sizes and depths.

use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng};
use std::io::{self, Write};

/// Quantiles of a distribution, in ascending order.
struct Quantiles {
    shares: [f64; 9],
    /// The value at each share: that share of all values is at most as large.
    values: [f64; 9],
}

/// Files per commit; 3.2 on average.
const FILES_PER_COMMIT: Quantiles = Quantiles {
    shares: [0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0],
    values: [1.0, 1.0, 3.0, 5.0, 8.0, 24.0, 158.0, 500.0, 1825.0],
};
/// Lines added to a file by a commit; 20.5 on average.
const LINES_ADDED: Quantiles = Quantiles {
    shares: [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0],
    values: [0.0, 1.0, 2.0, 9.0, 30.0, 61.0, 331.0, 1374.0, 29_758.0],
};
/// Lines removed from a file by a commit; 12.9 on average.
const LINES_REMOVED: Quantiles = Quantiles {
    shares: [0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0],
    values: [0.0, 0.0, 1.0, 4.0, 14.0, 34.0, 268.0, 1113.0, 6734.0],
};
/// Bytes of a file; 9,949 on average.
const FILE_SIZES: Quantiles = Quantiles {
    shares: [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0],
    values: [10.0, 131.0, 452.0, 1752.0, 5989.0, 18_078.0, 86_878.0, 400_000.0, 1_088_754.0],
};
/// The shares of the 32,234 files in commits that were added and that were removed.
const ADDED_FILE_SHARE: f64 = 1864.0 / 32_234.0;
const REMOVED_FILE_SHARE: f64 = 1279.0 / 32_234.0;
/// Files in the first commit, and their directories.
const FIRST_COMMIT_FILES: usize = 4847;
const DIRECTORY_COUNT: usize = 225;
/// Bytes of a line of generated text.
const LINE_BYTES: usize = 36;
/// Number of words from which lines are made.
const WORD_COUNT: usize = 4000;
/// The time of the first commit in seconds since 1970, and the seconds between two commits.
const FIRST_COMMIT_TIME: u64 = 1_500_000_000;
const COMMIT_INTERVAL_S: u64 = 3600;

/// Draws a value from a distribution. Between two quantiles, values are spread evenly.
fn draw_value(rng: &mut ChaCha8Rng, quantiles: &Quantiles) -> usize {
    let share = rng.random::<f64>();
    let (mut low_share, mut low) = (0.0, 0.0);
    for (high_share, high) in quantiles.shares.into_iter().zip(quantiles.values) {
        if share < high_share {
            return (low + (high - low) * (share - low_share) / (high_share - low_share)).round() as usize;
        }
        (low_share, low) = (high_share, high);
    }
    low as usize
}

/// A file of the tree.
struct TextFile {
    path: String,
    /// The number of each line for [`GitHistory::push_line`]. A file without lines has been removed.
    line_numbers: Vec<u32>,
}

/// Writes a history of `commits` commits after the first one, as a stream for `git fast-import`. The commits have the
/// marks `:1` to `:commits + 1`; equal seeds give equal bytes.
///
/// # Errors
/// If the stream cannot be written.
pub fn write_fast_import_stream(seed: u64, commits: u32, out: &mut dyn Write) -> io::Result<()> {
    let mut rng = ChaCha8Rng::seed_from_u64(mix(seed, 0x617));
    let mut word = || (0..rng.random_range(2..=9)).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect();
    let words: Vec<String> = (0..WORD_COUNT).map(|_| word()).collect();
    let mut history = GitHistory { words, rng, files: vec![] };
    let first_files: Vec<usize> = (0..FIRST_COMMIT_FILES).map(|_| history.add_file()).collect();
    history.write_commit(1, &first_files, &[], out)?;
    for commit in 1..=u64::from(commits) {
        let mut changed = vec![];
        let mut removed = vec![];
        for _ in 0..draw_value(&mut history.rng, &FILES_PER_COMMIT).max(1) {
            let kind_draw = history.rng.random::<f64>();
            if kind_draw < ADDED_FILE_SHARE {
                changed.push(history.add_file());
            } else {
                let file = history.rng.random_range(0..history.files.len());
                if history.files[file].line_numbers.is_empty() || changed.contains(&file) {
                    continue;
                }
                if kind_draw < ADDED_FILE_SHARE + REMOVED_FILE_SHARE {
                    history.files[file].line_numbers.clear();
                    removed.push(file);
                } else {
                    history.change_lines(file);
                    changed.push(file);
                }
            }
        }
        history.write_commit(commit + 1, &changed, &removed, out)?;
    }
    writeln!(out, "done")
}

/// The state of the generated history after the last written commit.
struct GitHistory {
    /// The words from which lines are made.
    words: Vec<String>,
    rng: ChaCha8Rng,
    /// All files that any commit added, including the removed ones.
    files: Vec<TextFile>,
}

impl GitHistory {
    /// Adds a file; returns its index.
    fn add_file(&mut self) -> usize {
        let line_count = (draw_value(&mut self.rng, &FILE_SIZES) / LINE_BYTES).max(1);
        let line_numbers = (0..line_count).map(|_| self.rng.random::<u32>()).collect();
        // A directory lies at the top or in one of the directories at the top.
        let dir = self.rng.random_range(0..DIRECTORY_COUNT);
        let parent = if dir < 15 { String::new() } else { format!("d{}/", dir % 15) };
        let path = format!("{parent}d{dir}/file{}.c", self.files.len());
        self.files.push(TextFile { path, line_numbers });
        self.files.len() - 1
    }

    /// Removes lines from a file at one place, and adds lines there.
    fn change_lines(&mut self, file: usize) {
        let added_count = draw_value(&mut self.rng, &LINES_ADDED);
        let removed_count = draw_value(&mut self.rng, &LINES_REMOVED);
        // A change that removes no line adds at least one.
        let added_count = added_count.max(usize::from(removed_count == 0));
        let added: Vec<u32> = (0..added_count).map(|_| self.rng.random()).collect();
        let lines = &mut self.files[file].line_numbers;
        let start = self.rng.random_range(0..=lines.len());
        let end = (start + removed_count).min(lines.len());
        lines.splice(start..end, added);
        // One line always stays: a file without lines counts as removed.
        if lines.is_empty() {
            lines.push(0);
        }
    }

    /// Appends the text of the line with a number. Equal numbers give equal lines.
    fn push_line(&self, number: u32, text: &mut Vec<u8>) {
        let start = text.len();
        let mut word = u64::from(number);
        while text.len() - start < LINE_BYTES - 8 {
            word = mix(word, 1);
            // The square makes some words frequent.
            let rank = (word % 10_000) as f64 / 10_000.0;
            text.extend_from_slice(self.words[(rank * rank * WORD_COUNT as f64) as usize].as_bytes());
            text.push(b' ');
        }
        text.push(b'\n');
    }

    /// Writes a commit with the new contents of the changed files, and without the removed ones.
    fn write_commit(&self, mark: u64, changed: &[usize], removed: &[usize], out: &mut dyn Write) -> io::Result<()> {
        let time = FIRST_COMMIT_TIME + mark * COMMIT_INTERVAL_S;
        writeln!(out, "commit refs/heads/main\nmark :{mark}\nauthor F <f@example.org> {time} +0000")?;
        writeln!(out, "committer F <f@example.org> {time} +0000\ndata <<END\nCommit {mark}\nEND")?;
        if mark > 1 {
            writeln!(out, "from :{}", mark - 1)?;
        }
        let mut contents = vec![];
        for file in changed.iter().map(|file| &self.files[*file]) {
            contents.clear();
            file.line_numbers.iter().for_each(|number| self.push_line(*number, &mut contents));
            writeln!(out, "M 100644 inline {}\ndata {}", file.path, contents.len())?;
            out.write_all(&contents)?;
            writeln!(out)?;
        }
        for file in removed {
            writeln!(out, "D {}", self.files[*file].path)?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_histories_with_the_statistics_of_git() {
        let stream = |seed| {
            let mut bytes = vec![];
            write_fast_import_stream(seed, 300, &mut bytes).unwrap();
            bytes
        };
        let bytes = stream(1);
        assert!(bytes == stream(1) && bytes != stream(2));
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut mean_ratio = |quantiles, measured: f64| {
            (0..200_000).map(|_| draw_value(&mut rng, quantiles)).sum::<usize>() as f64 / 200_000.0 / measured
        };
        // Between the few quantiles of the tail the values are spread evenly, so the means are larger.
        let ratios = [
            mean_ratio(&FILES_PER_COMMIT, 3.22),
            mean_ratio(&LINES_ADDED, 20.5),
            mean_ratio(&LINES_REMOVED, 12.9),
            mean_ratio(&FILE_SIZES, 9949.0),
        ];
        assert!(ratios.iter().all(|ratio| (0.8..2.0).contains(ratio)), "{ratios:?}");
    }
}
