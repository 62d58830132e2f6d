//! The display of a run in progress on standard error. It draws the view that the live page shows.

mod bars;
mod lines;
mod ticker;

pub use lines::expected;

use crate::terminal::screen;
use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::{plan::Plan, safe, state::RunState};
use fsarena_report::live::{Intervals, RunView};
use lines::Lines;
use std::{io::Write, path::Path};

/// What people see while a run goes on.
pub struct Progress {
    display: Display,
    intervals: Intervals,
    lines: Lines,
}

enum Display {
    /// Bars that move.
    Bars(Bars),
    /// A line a round, for logs.
    Plain,
    /// Nothing.
    Quiet,
}

impl Progress {
    /// Shows bars on a terminal, lines elsewhere, and nothing if `quiet`.
    pub fn new(quiet: bool) -> Progress {
        let display = match (quiet, screen::is_there()) {
            (true, _) => Display::Quiet,
            (false, true) => Display::Bars(Bars::new()),
            (false, false) => Display::Plain,
        };
        let lines = match display {
            Display::Bars(_) => Lines::besides_bars(),
            Display::Plain | Display::Quiet => Lines::of_log(lines::PAUSE_S),
        };
        Progress { display, intervals: Intervals::default(), lines }
    }

    /// Says something that stays on the screen.
    pub fn say(&self, line: &str) {
        let line = safe::line(line);
        match &self.display {
            Display::Bars(bars) => bars.say(&line),
            Display::Plain => drop(writeln!(std::io::stderr(), "{line}")),
            Display::Quiet => {}
        }
    }

    /// Shows on a terminal how many trials of the options of mkfs and mount are done, and how many there are.
    pub fn trying(&mut self, done: usize, of: usize) {
        if let Display::Bars(bars) = &mut self.display {
            bars.trying(done as u64, of as u64);
        }
    }

    /// Shows the run that begins: what it asks, by which metric its variants are compared, where it is stored, and what
    /// it needs.
    pub fn begin(&mut self, plan: &Plan, metric: Option<&str>, place: Option<&Path>, needs: &str) {
        self.intervals = metric.map_or(Intervals::default(), Intervals::of);
        let colon = if plan.question.is_empty() { "" } else { ": " };
        self.say(&format!("{}{colon}{}", plan.title, plan.question));
        let place = place.map_or(String::new(), |place| format!("run {}; ", place.display()));
        self.say(&format!("{place}{}; {needs}", expected(&plan.stop)));
    }

    /// Shows an event, and the state of the run after it.
    pub fn take(&mut self, event: &Event, state: &RunState) {
        self.intervals.see(event, state);
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { what: Command(_) | Profile { .. } | Spent { .. }, .. } =
            event
        {
            return;
        }
        let view = RunView::of(state, &self.intervals);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        self.lines.of(event, &view).iter().for_each(|line| self.say(line));
    }
}

#[cfg(test)]
mod tests;
