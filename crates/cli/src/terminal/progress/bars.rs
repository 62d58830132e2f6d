//! Progress bars of a run on a terminal, and the permanent lines above them.

use super::lines;
use crate::terminal::screen::{self, Terminal};
use fsarena_report::live::RunView;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{thread::JoinHandle, time::Duration};
use textwrap::{Options, WordSeparator, WordSplitter};

/// The largest number of variants to show, so that the display leaves space for the other rows.
const MAX_VARIANTS: usize = 8;
/// The largest number of open claims to show.
const MAX_CLAIMS: usize = 6;

/// The bar of a round, its current phase, a row for each variant and open claim, and the total time.
pub struct Bars {
    multi: MultiProgress,
    /// The trials of options before a run.
    trial: ProgressBar,
    round: ProgressBar,
    /// The variant and phase that runs now.
    phase: ProgressBar,
    /// The rows between the phase and the total: the variants, the open claims, and the legends of both.
    rows: Vec<ProgressBar>,
    total: ProgressBar,
    ticker: Ticker,
    terminal: Arc<dyn Terminal>,
}

impl Bars {
    /// Bars on standard error, which must be a terminal.
    pub fn new() -> Bars {
        Bars::on_terminal(screen::stderr())
    }

    /// Bars on this terminal.
    fn on_terminal(terminal: Arc<dyn Terminal>) -> Bars {
        let multi = MultiProgress::with_draw_target(screen::draw_target(Arc::clone(&terminal)));
        let total = multi.add(ProgressBar::new_spinner());
        total.set_style(style("{spinner} {elapsed} in all{wide_msg}"));
        let sized_terminal = Arc::clone(&terminal);
        let ticker = Ticker::start(total.clone(), move || sized_terminal.size());
        Bars {
            multi,
            trial: ProgressBar::hidden(),
            round: ProgressBar::hidden(),
            phase: ProgressBar::hidden(),
            rows: vec![],
            total,
            ticker,
            terminal,
        }
    }

    /// Prints a permanent line above the bars, wrapped between words.
    pub fn print_line(&self, line: &str) {
        let width = self.terminal.size().1.min(screen::MAX_WIDTH);
        drop(self.multi.println(wrap_line(line, usize::from(width))));
    }

    /// Shows how many trials of options are done. Removes that bar when all are done.
    pub fn show_trials(&mut self, done: u64, total: u64) {
        if done == 0 {
            self.trial = self.multi.insert(0, ProgressBar::new(total));
            self.trial.set_style(style("trying options of mkfs and mount {bar:24} {pos}/{len}{wide_msg}"));
            self.ticker.add(self.trial.clone());
        }
        self.trial.set_position(done);
        if done == total {
            self.trial.finish_and_clear();
        }
    }

    /// Shows the state of the run; removes the bars when it has ended.
    pub fn draw(&mut self, view: &RunView) {
        if view.ended.is_some() {
            return self.clear();
        }
        let Some(round) = view.round else { return };
        if self.round.length().is_none() {
            self.round = self.multi.insert(0, ProgressBar::new(0));
            self.ticker.add(self.round.clone());
            self.round.set_style(style("{prefix} {bar:24} {pos}/{len} tasks{wide_msg}"));
            self.phase = self.add_row();
        }
        let prefix = lines::round_number(view, round + 1);
        if self.round.prefix() != prefix {
            self.round.reset();
            self.round.set_prefix(prefix);
        }
        self.round.set_length(u64::from(view.tasks_of_round));
        self.round.set_position(u64::from(view.tasks_done));
        self.total.set_message(lines::time_left(view));
        let is_round_done = view.rounds_done > round;
        self.phase.set_message(if is_round_done {
            "  done".into()
        } else {
            format!("  {}: {}", view.variant, view.phase)
        });
        let mut rows: Vec<String> = view.variants.iter().take(MAX_VARIANTS).map(lines::variant_line).collect();
        if !rows.is_empty() {
            rows.push(lines::VARIANT_LEGEND.into());
        }
        let open_claims = view.claims.iter().filter(|claim| claim.status.open).take(MAX_CLAIMS);
        let claim_rows: Vec<String> = open_claims.map(lines::claim_line).collect();
        if !claim_rows.is_empty() {
            rows.push(lines::CLAIM_LEGEND.into());
        }
        rows.extend(claim_rows);
        while self.rows.len() < rows.len() {
            let row = self.add_row();
            self.rows.push(row);
        }
        // Empty the rows of claims that are decided by now.
        rows.resize(self.rows.len(), String::new());
        for (bar, row) in self.rows.iter().zip(rows) {
            bar.set_message(row);
        }
    }

    /// Adds a row of text above the total.
    fn add_row(&self) -> ProgressBar {
        let row = self.multi.insert_before(&self.total, ProgressBar::new_spinner());
        row.set_style(style("{wide_msg}"));
        self.ticker.add(row.clone());
        row
    }

    /// Removes the bars and keeps the lines printed above them.
    fn clear(&mut self) {
        self.ticker.stop();
        self.round.finish_and_clear();
        self.phase.finish_and_clear();
        self.rows.iter().for_each(ProgressBar::finish_and_clear);
        self.total.finish_and_clear();
    }
}

/// Wraps a line between words. The lines after the first are indented further.
fn wrap_line(line: &str, width: usize) -> String {
    let words = line.trim_start();
    let indent = &line[..line.len() - words.len()];
    let hanging_indent = format!("{indent}  ");
    let options = Options::new(width)
        .initial_indent(indent)
        .subsequent_indent(&hanging_indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(words, options)
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a fixed template")
}

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(250);

/// A thread that redraws bars until it is stopped or dropped: the bar with the time at each tick, the others when the size
/// of the screen changes.
///
/// indicatif keeps the last line of each bar. When one bar ticks, it draws the kept lines of the others, which would break
/// anywhere on a narrower screen. So all bars must tick then.
struct Ticker {
    /// The bars that are redrawn when the size of the screen changes.
    resized_bars: Arc<Mutex<Vec<ProgressBar>>>,
    /// The thread, and the sender that stops it when it is dropped.
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Ticker {
    /// Starts to redraw `clock_bar`, a bar that shows the time. `size` returns the size of the screen.
    fn start(clock_bar: ProgressBar, size: impl Fn() -> (u16, u16) + Send + 'static) -> Ticker {
        let resized_bars: Arc<Mutex<Vec<ProgressBar>>> = Arc::default();
        let (stop, stopped) = channel();
        let mut last_size = size();
        let bars = Arc::clone(&resized_bars);
        let thread = std::thread::spawn(move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                let new_size = size();
                if new_size != last_size {
                    last_size = new_size;
                    let bars = bars.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    bars.iter().for_each(ProgressBar::tick);
                }
                clock_bar.tick();
            }
        });
        Ticker { resized_bars, thread: Some((stop, thread)) }
    }

    /// Adds a bar that ticks when the size of the screen changes.
    fn add(&self, bar: ProgressBar) {
        self.resized_bars.lock().unwrap_or_else(PoisonError::into_inner).push(bar);
    }

    /// Stops the thread and waits for its end.
    fn stop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // The thread has no result.
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_report::live::{LiveComparison, VariantRow};
    use std::sync::atomic::{AtomicU16, Ordering};
    use std::time::{Duration, Instant};
    use std::{io::Result, sync::Mutex};

    /// A terminal that records the last draw.
    #[derive(Debug)]
    struct FakeTerminal {
        columns: AtomicU16,
        drawn: Mutex<String>,
    }

    impl Terminal for FakeTerminal {
        fn size(&self) -> (u16, u16) {
            (24, self.columns.load(Ordering::SeqCst))
        }

        fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
            *self.drawn.lock().unwrap() = String::from_utf8_lossy(bytes).into_owned();
            Ok(())
        }
    }

    impl FakeTerminal {
        /// The lines of the last draw without control sequences.
        fn lines(&self) -> Vec<String> {
            let drawn = self.drawn.lock().unwrap().replace("\x1b[J", "");
            drawn.lines().filter(|line| !line.starts_with('\x1b')).map(String::from).collect()
        }
    }

    #[test]
    fn a_change_of_the_screen_size_redraws_all_bars_without_an_event() {
        let terminal = Arc::new(FakeTerminal { columns: AtomicU16::new(80), drawn: Mutex::default() });
        let mut bars = Bars::on_terminal(Arc::clone(&terminal) as Arc<dyn Terminal>);
        let long = "words ".repeat(20);
        let mut state = super::super::tests::initial_state();
        state.round = Some(0);
        let comparison = LiveComparison::default();
        let mut view = RunView::new(&state, &comparison);
        let row = VariantRow {
            variant: long.clone(),
            ratio: None,
            ratio_in_words: long.clone(),
            width_sparkline: "█".repeat(20),
        };
        let rows = [row.clone(), row];
        (view.variants, view.phase) = (&rows, &long);
        bars.draw(&view);
        let assert_fits = |columns: usize| {
            let begun = Instant::now();
            let fills_width = || {
                let lines = terminal.lines();
                let widest = lines.iter().map(|line| line.chars().count()).max();
                lines.len() >= 3 && widest.is_some_and(|widest| (columns - 5..=columns).contains(&widest))
            };
            while !fills_width() && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(10));
            }
            assert!(fills_width(), "{columns}: {:#?}", terminal.lines());
        };
        assert_fits(80);
        assert!(terminal.lines().contains(&lines::VARIANT_LEGEND.into()), "{:#?}", terminal.lines());
        for columns in [50, 72] {
            terminal.columns.store(columns, Ordering::SeqCst);
            assert_fits(usize::from(columns));
        }
        bars.clear();
    }

    #[test]
    fn trials_of_options_are_counted_and_their_bar_is_removed_at_the_end() {
        let terminal = Arc::new(FakeTerminal { columns: AtomicU16::new(80), drawn: Mutex::default() });
        let mut bars = Bars::on_terminal(Arc::clone(&terminal) as Arc<dyn Terminal>);
        let shown = |text: &str| terminal.drawn.lock().unwrap().contains(text);
        let wait_until = |state: &str, is_reached: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !is_reached() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{state}: {:#?}", terminal.lines());
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        bars.show_trials(0, 3);
        wait_until("the first", &|| shown("trying options of mkfs and mount") && shown("0/3"));
        bars.show_trials(2, 3);
        wait_until("a later one", &|| {
            bars.trial.tick();
            shown("2/3")
        });
        bars.show_trials(3, 3);
        wait_until("the end", &|| {
            bars.total.tick();
            !shown("trying")
        });
        bars.clear();
    }

    #[test]
    fn lines_wrap_between_words_with_a_hanging_indent() {
        assert_eq!(wrap_line("  note: ext2 keeps no journal", 20), "  note: ext2 keeps\n    no journal");
        assert_eq!(wrap_line("short", 20), "short");
        // A path that is longer than the screen has to break somewhere.
        assert!(wrap_line("  at /a/very/long/path/indeed", 12).lines().all(|line| line.len() <= 12));
    }
}
