//! Bars that move, and above them lines that stay.

use super::{lines, ticker::Ticker};
use crate::terminal::screen::{self, Place};
use fsarena_report::live::RunView;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::Arc;
use textwrap::{Options, WordSeparator, WordSplitter};

/// The most variants that are shown: the display must leave room for the rest.
const VARIANTS: usize = 8;
/// The most open claims that are shown.
const CLAIMS: usize = 6;

/// The bar of a round, what happens in it, a line for each variant and open claim, and the time.
pub struct Bars {
    all: MultiProgress,
    /// The trials before a run.
    trial: ProgressBar,
    round: ProgressBar,
    /// What happens now.
    doing: ProgressBar,
    /// How the variants compare so far, what the signs mean, and the open claims, between the round and the total.
    rows: Vec<ProgressBar>,
    total: ProgressBar,
    ticker: Ticker,
    place: Arc<dyn Place>,
}

impl Bars {
    /// Bars on standard error, which is a terminal.
    pub fn new() -> Bars {
        Bars::on(screen::stderr())
    }

    fn on(place: Arc<dyn Place>) -> Bars {
        let all = MultiProgress::with_draw_target(screen::target(Arc::clone(&place)));
        let total = all.add(ProgressBar::new_spinner());
        total.set_style(style("{spinner} {elapsed} in all{wide_msg}"));
        let of = Arc::clone(&place);
        let ticker = Ticker::of(total.clone(), move || of.size());
        Bars {
            all,
            trial: ProgressBar::hidden(),
            round: ProgressBar::hidden(),
            doing: ProgressBar::hidden(),
            rows: vec![],
            total,
            ticker,
            place,
        }
    }

    /// Adds to the lines that stay, broken between words.
    pub fn say(&self, line: &str) {
        drop(self.all.println(wrapped(line, usize::from(self.place.size().1.min(screen::WIDEST)))));
    }

    /// Shows how many trials of options are done, and removes that once all are.
    pub fn trying(&mut self, done: u64, of: u64) {
        if done == 0 {
            self.trial = self.all.insert(0, ProgressBar::new(of));
            self.trial.set_style(style("trying options of mkfs and mount {bar:24} {pos}/{len}{wide_msg}"));
            self.ticker.add(self.trial.clone());
        }
        self.trial.set_position(done);
        if done == of {
            self.trial.finish_and_clear();
        }
    }

    /// Shows how the run stands.
    pub fn draw(&mut self, view: &RunView) {
        if view.ended.is_some() {
            return self.clear();
        }
        let Some(round) = view.round else { return };
        if self.round.length().is_none() {
            self.round = self.all.insert(0, ProgressBar::new(0));
            self.ticker.add(self.round.clone());
            self.round.set_style(style("{prefix} {bar:24} {pos}/{len} tasks{wide_msg}"));
            self.doing = self.row();
        }
        let prefix = lines::round(view, round + 1);
        if self.round.prefix() != prefix {
            self.round.reset();
            self.round.set_prefix(prefix);
        }
        self.round.set_length(u64::from(view.tasks_of_round));
        self.round.set_position(u64::from(view.tasks));
        self.total.set_message(lines::left(view));
        self.doing.set_message(match view.done > round {
            true => "  done".into(),
            false => format!("  {}: {}", view.variant, view.phase),
        });
        let mut rows: Vec<String> = view.variants.iter().take(VARIANTS).map(lines::variant).collect();
        rows.extend((!rows.is_empty()).then(|| lines::SIGNS.into()));
        let open = view.claims.iter().filter(|claim| claim.standing.open);
        let open: Vec<String> = open.take(CLAIMS).map(lines::claim).collect();
        rows.extend((!open.is_empty()).then(|| lines::SIGNS_OF_CLAIMS.into()));
        rows.extend(open);
        while self.rows.len() < rows.len() {
            let row = self.row();
            self.rows.push(row);
        }
        // A claim that is decided leaves its row.
        rows.resize(self.rows.len(), String::new());
        self.rows.iter().zip(rows).for_each(|(bar, row)| bar.set_message(row));
    }

    /// A row of text above the total.
    fn row(&self) -> ProgressBar {
        let row = self.all.insert_before(&self.total, ProgressBar::new_spinner());
        row.set_style(style("{wide_msg}"));
        self.ticker.add(row.clone());
        row
    }

    /// Removes the bars and keeps the lines printed above them.
    fn clear(&mut self) {
        self.ticker.stop();
        self.round.finish_and_clear();
        self.doing.finish_and_clear();
        self.rows.iter().for_each(ProgressBar::finish_and_clear);
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
    use fsarena_report::live::{Intervals, VariantRow};
    use std::sync::atomic::{AtomicU16, Ordering};
    use std::time::{Duration, Instant};
    use std::{io::Result, sync::Mutex};

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
        let mut bars = Bars::on(Arc::clone(&place) as Arc<dyn Place>);
        let long = "words ".repeat(20);
        let mut state = super::super::tests::state();
        state.round = Some(0);
        let intervals = Intervals::default();
        let mut view = RunView::of(&state, &intervals);
        let row =
            VariantRow {
                variant: long.clone(), ratio: None, known: long.clone(), narrowing: "█".repeat(20)
            };
        let rows = [row.clone(), row];
        (view.variants, view.phase) = (&rows, &long);
        bars.draw(&view);
        let fits = |columns: usize| {
            let begun = Instant::now();
            let drawn = || {
                let lines = place.lines();
                let widest = lines.iter().map(|line| line.chars().count()).max();
                lines.len() >= 3 && widest.is_some_and(|widest| (columns - 5..=columns).contains(&widest))
            };
            while !drawn() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(drawn(), "{columns}: {:#?}", place.lines());
        };
        fits(80);
        assert!(place.lines().contains(&lines::SIGNS.into()), "{:#?}", place.lines());
        for columns in [50, 72] {
            place.columns.store(columns, Ordering::SeqCst);
            fits(usize::from(columns));
        }
        bars.clear();
    }

    #[test]
    fn trials_of_options_are_counted_and_then_leave_the_screen() {
        let place = Arc::new(Kept { columns: AtomicU16::new(80), drawn: Mutex::default() });
        let mut bars = Bars::on(Arc::clone(&place) as Arc<dyn Place>);
        let shown = |words: &str| place.drawn.lock().unwrap().contains(words);
        let until = |what: &str, is_so: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_so() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {:#?}", place.lines());
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        bars.trying(0, 3);
        until("the first", &|| shown("trying options of mkfs and mount") && shown("0/3"));
        bars.trying(2, 3);
        until("a later one", &|| {
            bars.trial.tick();
            shown("2/3")
        });
        bars.trying(3, 3);
        until("the end", &|| {
            bars.total.tick();
            !shown("trying")
        });
        bars.clear();
    }

    #[test]
    fn lines_break_between_words_and_hang() {
        assert_eq!(wrapped("  note: ext2 keeps no journal", 20), "  note: ext2 keeps\n    no journal");
        assert_eq!(wrapped("short", 20), "short");
        // A path that is longer than the screen has to break somewhere.
        assert!(wrapped("  at /a/very/long/path/indeed", 12).lines().all(|line| line.len() <= 12));
    }
}
