//! The display of a run in progress on standard error. It draws the view that the live page shows.

mod bars;
mod lines;
pub mod screen;
mod ticker;

use bars::Bars;
use fsarena_core::event::{CellEvent, Event};
use fsarena_core::matrix;
use fsarena_core::plan::Plan;
use fsarena_core::record::RunRecord;
use fsarena_core::state::RunState;
use fsarena_report::live::{Intervals, View};
use fsarena_report::safe;
use fsarena_run::work;
use lines::Lines;
use std::io::Write;

/// What people see while a run goes on.
pub struct Progress {
    display: Display,
    state: Option<RunState>,
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
    /// Bars where standard error is a terminal, lines where it is not, nothing where that is asked for.
    pub fn new(quiet: bool) -> Progress {
        let display = match (quiet, screen::is_there()) {
            (true, _) => Display::Quiet,
            (false, true) => Display::Bars(Bars::new()),
            (false, false) => Display::Plain,
        };
        Progress { display, state: None, intervals: Intervals::default(), lines: Lines::default() }
    }

    /// The same for a run of this plan.
    pub fn of(mut self, plan: &Plan) -> Progress {
        self.state = Some(RunState::new(RunRecord::new(plan.clone(), matrix::expand(plan))));
        self.intervals = work::metrics(plan).first().map_or(Intervals::default(), |main| Intervals::of(main));
        self
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

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        let Some(state) = &mut self.state else { return };
        let at = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        state.apply(at.map_or(0.0, |at| at.as_secs_f64()), event);
        self.intervals.see(event, state);
        use CellEvent::{Command, Profile, Spent};
        if let Event::Command(_) | Event::Cell { what: Command(_) | Profile { .. } | Spent { .. }, .. } = event {
            return;
        }
        let view = View::of(state, &self.intervals);
        let lines = self.lines.of(event, &view);
        if let Display::Bars(bars) = &mut self.display {
            bars.draw(&view);
        }
        lines.iter().for_each(|line| self.say(line));
    }
}

#[cfg(test)]
mod tests;
