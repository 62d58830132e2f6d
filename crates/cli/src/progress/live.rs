//! Bars that move, and above them lines that stay.

use super::screen::{self, Place};
use super::ticker::Ticker;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::Arc;
use textwrap::{Options, WordSeparator, WordSplitter};

/// The bar of a round, a line for each variant, and the time.
pub struct Live {
    all: MultiProgress,
    round: ProgressBar,
    /// How the variants compare so far, between the round and the total.
    lines: Vec<ProgressBar>,
    total: ProgressBar,
    ticker: Ticker,
    place: Arc<dyn Place>,
}

impl Live {
    /// Bars on standard error, which is a terminal.
    pub fn new() -> Live {
        Live::on(screen::stderr())
    }

    fn on(place: Arc<dyn Place>) -> Live {
        let all = MultiProgress::with_draw_target(screen::target(Arc::clone(&place)));
        let total = all.add(ProgressBar::new_spinner());
        total.set_style(style("{spinner} {elapsed} in all{wide_msg}"));
        let of = Arc::clone(&place);
        let ticker = Ticker::of(total.clone(), move || of.size());
        Live { all, round: ProgressBar::hidden(), lines: vec![], total, ticker, place }
    }

    /// Adds to the lines that stay, broken between words.
    pub fn say(&self, line: &str) {
        drop(self.all.println(wrapped(line, usize::from(self.place.size().1.min(screen::WIDEST)))));
    }

    /// The bar of the round before begins anew.
    pub fn round_started(&mut self, round: u32, of: String, tasks: u64) {
        if self.round.length().is_none() {
            self.round = self.all.insert(0, ProgressBar::new(tasks));
            self.ticker.add(self.round.clone());
            self.round.set_style(style("{prefix} {bar:24} {percent:>3}% {elapsed} {wide_msg}"));
        }
        self.round.reset();
        self.round.set_message("");
        self.round.set_length(tasks);
        self.round.set_prefix(format!("round {}{of}", round + 1));
    }

    /// Says what happens in the round.
    pub fn phase(&self, what: String) {
        self.round.set_message(what);
    }

    /// One task more of the round is done.
    pub fn task_done(&self) {
        self.round.inc(1);
    }

    /// The time left, and the lines of the variants instead of those of the round before.
    pub fn round_finished(&mut self, left: String, lines: Vec<String>) {
        self.round.set_message("done");
        self.total.set_message(left);
        while self.lines.len() < lines.len() {
            let line = self.all.insert_before(&self.total, ProgressBar::new_spinner());
            line.set_style(style("{wide_msg}"));
            self.ticker.add(line.clone());
            self.lines.push(line);
        }
        for (bar, line) in self.lines.iter().zip(lines) {
            bar.set_message(line);
        }
    }

    /// Takes the bars away; what was said stays.
    pub fn finished(&mut self) {
        self.ticker.stop();
        self.round.finish_and_clear();
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
    use std::io::Result;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU16, Ordering};
    use std::time::{Duration, Instant};

    /// A screen that keeps what was drawn last.
    #[derive(Debug)]
    struct Kept {
        columns: AtomicU16,
        drawn: Mutex<String>,
    }

    impl Place for Kept {
        fn size(&self) -> (u16, u16) {
            (24, self.columns.load(Ordering::SeqCst))
        }

        fn put(&self, bytes: &[u8]) -> Result<()> {
            *self.drawn.lock().unwrap() = String::from_utf8_lossy(bytes).into_owned();
            Ok(())
        }
    }

    impl Kept {
        /// The lines of the last draw without what moves the cursor.
        fn lines(&self) -> Vec<String> {
            let drawn = self.drawn.lock().unwrap().replace("\x1b[J", "");
            drawn.lines().filter(|line| !line.starts_with('\x1b')).map(String::from).collect()
        }
    }

    #[test]
    fn a_screen_of_another_size_is_drawn_anew_without_an_event() {
        let place = Arc::new(Kept { columns: AtomicU16::new(80), drawn: Mutex::default() });
        let mut live = Live::on(Arc::clone(&place) as Arc<dyn Place>);
        let long = "words ".repeat(20);
        live.round_started(0, "/3".into(), 4);
        live.round_finished(String::new(), vec![long.clone(), long.clone()]);
        live.phase(long);
        let fits = |columns: usize| {
            let begun = Instant::now();
            let drawn = || {
                let lines = place.lines();
                let widest = lines.iter().map(|line| line.chars().count()).max();
                lines.len() >= 3 && widest.is_some_and(|widest| (columns - 5..=columns).contains(&widest))
            };
            while !drawn() && begun.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(drawn(), "{columns}: {:#?}", place.lines());
        };
        fits(80);
        for columns in [50, 72] {
            place.columns.store(columns, Ordering::SeqCst);
            fits(usize::from(columns));
        }
        live.finished();
    }

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(wrapped("  note: ext2 keeps no journal", 20), "  note: ext2 keeps\n    no journal");
        assert_eq!(wrapped("short", 20), "short");
        // A path that is longer than the screen has to break somewhere.
        assert!(wrapped("  at /a/very/long/path/indeed", 12).lines().all(|line| line.len() <= 12));
    }
}
