//! Bars that move, and above them lines that stay.

use super::screen;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::time::Duration;
use textwrap::{Options, WordSeparator, WordSplitter};

/// The bar of a block, a line for each arm, and the time.
pub struct Live {
    all: MultiProgress,
    block: ProgressBar,
    /// How the arms compare so far, between the block and the total.
    lines: Vec<ProgressBar>,
    total: ProgressBar,
}

impl Live {
    /// Bars on standard error, which is a terminal.
    pub fn new() -> Live {
        let all = MultiProgress::with_draw_target(screen::target());
        let total = all.add(ProgressBar::new_spinner());
        total.set_style(style("{spinner} {elapsed} in all{wide_msg}"));
        total.enable_steady_tick(Duration::from_millis(250));
        Live { all, block: ProgressBar::hidden(), lines: vec![], total }
    }

    /// Adds to the lines that stay, broken between words.
    pub fn say(&self, line: &str) {
        drop(self.all.println(wrapped(line, usize::from(screen::size().1.min(screen::WIDEST)))));
    }

    /// The bar of the block before begins anew.
    pub fn block_started(&mut self, block: u32, of: String, steps: u64) {
        if self.block.length().is_none() {
            self.block = self.all.insert(0, ProgressBar::new(steps));
            self.block.set_style(style("{prefix} {bar:24} {percent:>3}% {elapsed} {wide_msg}"));
        }
        self.block.reset();
        self.block.set_message("");
        self.block.set_length(steps);
        self.block.set_prefix(format!("block {}{of}", block + 1));
    }

    /// Says what happens in the block.
    pub fn phase(&self, what: String) {
        self.block.set_message(what);
    }

    /// One step more of the block is done.
    pub fn step_done(&self) {
        self.block.inc(1);
    }

    /// The time left, and the lines of the arms in place of those of the block before.
    pub fn block_finished(&mut self, left: String, lines: Vec<String>) {
        self.block.set_message("done");
        self.total.set_message(left);
        while self.lines.len() < lines.len() {
            let line = self.all.insert_before(&self.total, ProgressBar::new_spinner());
            line.set_style(style("{wide_msg}"));
            self.lines.push(line);
        }
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line);
        }
    }

    /// Takes the bars away; what was said stays.
    pub fn finished(&self) {
        self.block.finish_and_clear();
        self.lines.iter().for_each(ProgressBar::finish_and_clear);
        self.total.finish_and_clear();
    }
}

/// Broken between words; the lines after the first stand further in.
fn wrapped(line: &str, width: usize) -> String {
    let words = line.trim_start();
    let indent = &line[..line.len() - words.len()];
    let further = format!("{indent}  ");
    let options = Options::new(width)
        .initial_indent(indent)
        .subsequent_indent(&further)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(words, options)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(wrapped("  note: ext2 keeps no journal", 20), "  note: ext2 keeps\n    no journal");
        assert_eq!(wrapped("short", 20), "short");
        // A path that is longer than the screen has to break somewhere.
        assert!(wrapped("  at /a/very/long/path/indeed", 12).lines().all(|line| line.len() <= 12));
    }
}
