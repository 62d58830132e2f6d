//! The display of a run in progress on standard error. It draws the view that the live page shows.

mod bars;
pub mod lines;
pub mod screen;
mod ticker;

use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::state::RunState;
use fsarena_report::live::{Intervals, View};
use fsarena_report::safe;
use fsarena_run::{Beginning, Consumer, executor::Fatal, work};
use lines::Lines;
use std::io::Write;

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
        Progress { display, intervals: Intervals::default(), lines: Lines::default() }
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
}

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        Progress::say(self, line);
    }

    fn begin(&mut self, Beginning { plan, check, run, .. }: &Beginning) {
        self.intervals = work::metrics(plan).first().map_or(Intervals::default(), |main| Intervals::of(main));
        let colon = if plan.question.is_empty() { "" } else { ": " };
        Progress::say(self, &format!("{}{colon}{}", plan.title, plan.question));
        let place = run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        Progress::say(self, &format!("{place}{}; {}", lines::expected(&plan.stop), check.describe()));
    }

    fn take(&mut self, event: &Event, state: &RunState) -> Result<(), Fatal> {
        self.intervals.see(event, state);
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { what: Command(_) | Profile { .. } | Spent { .. }, .. } =
            event
        {
            return Ok(());
        }
        let view = View::of(state, &self.intervals);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        self.lines.of(event, &view).iter().for_each(|line| self.say(line));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
