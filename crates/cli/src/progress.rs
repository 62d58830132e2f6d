//! The live display: a consumer of events, like the store.

mod claims;
mod live;
pub mod screen;
mod ticker;

use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome, Standing};
use fsarena_core::plan::Plan;
use fsarena_report::live::{Intervals, left, sparkline};
use fsarena_report::safe;
use fsarena_run::work;
use live::Live;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// What people see while a run goes on, on standard error.
pub struct Progress {
    view: View,
    blocks: u32,
    steps_per_cell: u64,
    budget: Option<Duration>,
    begun: Instant,
    /// The arm of each cell.
    arms: HashMap<String, String>,
    arm: String,
    timeouts: u32,
    /// What is unfair, and the arms that it was said of since the last line.
    unfair: Vec<(String, Vec<String>)>,
    /// Claims or the clock end the run: how many blocks that takes nobody knows.
    open_ended: bool,
    /// Whether each claim was decided when it was last told of.
    decided: HashMap<String, bool>,
    /// How wide the interval of each claim was after each block.
    widths: HashMap<String, Vec<f64>>,
    intervals: Intervals,
    block: u32,
}

enum View {
    /// Bars that move.
    Live(Live),
    /// A line a block, for logs.
    Plain,
    /// Nothing.
    Quiet,
}

impl Progress {
    /// Bars where standard error is a terminal, lines where it is not, nothing where that is asked for.
    pub fn new(quiet: bool) -> Progress {
        let view = match (quiet, screen::is_there()) {
            (true, _) => View::Quiet,
            (false, true) => View::Live(Live::new()),
            (false, false) => View::Plain,
        };
        Progress {
            view,
            blocks: 0,
            steps_per_cell: 1,
            budget: None,
            begun: Instant::now(),
            arms: HashMap::new(),
            arm: String::new(),
            timeouts: 0,
            unfair: vec![],
            open_ended: false,
            decided: HashMap::new(),
            widths: HashMap::new(),
            intervals: Intervals::default(),
            block: 0,
        }
    }

    /// The same for a run of this plan: by what its arms compare, and whether anybody knows how many blocks it will take.
    pub fn of(self, plan: &Plan) -> Progress {
        let intervals = work::metrics(plan).first().map_or(Intervals::default(), |main| Intervals::of(main));
        Progress { open_ended: plan.stop.open_ended(), intervals, ..self }
    }

    /// Says something that stays on the screen.
    pub fn say(&self, line: &str) {
        let line = safe::line(line);
        match &self.view {
            View::Live(live) => live.say(&line),
            View::Plain => drop(writeln!(std::io::stderr(), "{line}")),
            View::Quiet => {}
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        match event {
            Event::RunStarted { blocks, steps_per_cell, budget_s, arms, .. } => {
                self.intervals.start(arms);
                self.blocks = *blocks;
                self.steps_per_cell = u64::from(*steps_per_cell).max(1);
                self.budget = budget_s.map(Duration::from_secs_f64);
                self.begun = Instant::now();
            }
            Event::BlockStarted { block, order } => self.block_started(*block, order),
            Event::CellStarted { cell } => {
                self.arms.insert(cell.id().0, cell.arm.name.clone());
                self.arm = cell.arm.name.clone();
                self.intervals.cell(&cell.arm.name);
            }
            Event::Cell { what: CellEvent::Phase { name }, .. } => self.phase(name),
            Event::Cell { what: CellEvent::Sample(sample), .. } => {
                self.intervals.sample(sample);
                self.step_done();
            }
            Event::Cell { what: CellEvent::Note(note), .. } => self.note(note),
            Event::Note(note) => self.note(note),
            Event::CellFinished { outcome: Outcome::Done, .. } => self.intervals.cell_done(self.block, true),
            Event::CellFinished { cell, outcome: Outcome::Failed { why } } => {
                self.intervals.cell_done(self.block, false);
                let arm = self.arms.get(&cell.0).cloned().unwrap_or_default();
                self.say(&format!("  {arm} FAILED: {why}"));
            }
            Event::BlockFinished { block } => self.block_finished(*block),
            Event::Claims { standing } => self.claims(standing),
            Event::Forecast { text } => self.say(&format!("  {text}")),
            Event::RunFinished { why, .. } => self.finished(why),
            _ => {}
        }
    }

    fn block_started(&mut self, block: u32, order: &[String]) {
        let steps = order.len() as u64 * self.steps_per_cell;
        let of = self.of_blocks();
        self.block = block;
        if let View::Live(live) = &mut self.view {
            live.block_started(block, of, steps);
        }
    }

    fn phase(&self, name: &str) {
        if let View::Live(live) = &self.view {
            live.phase(format!("{}: {name}", self.arm));
        }
    }

    fn step_done(&self) {
        if let View::Live(live) = &self.view {
            live.step_done();
        }
    }

    fn block_finished(&mut self, block: u32) {
        self.say_unfair();
        let done = block + 1;
        let elapsed = self.begun.elapsed();
        let left = match left(done, elapsed, self.blocks.saturating_sub(done), self.budget) {
            Duration::ZERO => String::new(),
            left => format!(", {} {} left", if self.open_ended { "at most" } else { "about" }, seconds(left)),
        };
        self.say(&format!("block {done}{} done after {}{left}", self.of_blocks(), seconds(elapsed)));
        let lines = self.intervals.lines();
        if let View::Live(live) = &mut self.view {
            live.block_finished(left, lines);
        }
    }

    /// How many blocks there will be, where that is known.
    fn of_blocks(&self) -> String {
        if self.open_ended { String::new() } else { format!("/{}", self.blocks) }
    }

    /// A line for each open claim, and one for each that was decided just now.
    fn claims(&mut self, standing: &[Standing]) {
        for claim in standing {
            let news = self.decided.insert(claim.claim.clone(), !claim.open) != Some(!claim.open);
            if claim.open || news {
                let widths = self.widths.entry(claim.claim.clone()).or_default();
                widths.extend(claim.effect.map(|(_, low, high)| ((1.0 + high) / (1.0 + low)).ln()));
                let line = claims::line(claim, &sparkline(widths));
                self.say(&line);
            }
        }
    }

    fn note(&mut self, note: &Note) {
        match note.kind {
            // One line for each would drown the display; the report counts them.
            NoteKind::SettleTimeout => self.timeouts += 1,
            NoteKind::Fairness => {
                let known = self.unfair.iter_mut().find(|(text, _)| *text == note.text);
                match (known, &note.arm) {
                    (Some((_, arms)), arm) => arms.extend(arm.clone()),
                    (None, arm) => self.unfair.push((note.text.clone(), arm.clone().into_iter().collect())),
                }
            }
            _ => {}
        }
    }

    /// A line for each thing that is unfair, however many arms it is said of.
    fn say_unfair(&mut self) {
        for (text, arms) in std::mem::take(&mut self.unfair) {
            let of = match arms.as_slice() {
                [] => String::new(),
                [arm] => format!("{arm}: "),
                [arm, others @ ..] => format!("{arm} and {} more: ", others.len()),
            };
            self.say(&format!("  note: {of}{text}"));
        }
    }

    fn finished(&mut self, why: &str) {
        self.say_unfair();
        if let View::Live(live) = &mut self.view {
            live.finished();
        }
        if self.timeouts > 0 {
            self.say(&format!(
                "  the machine did not settle in time {} times; the report names them",
                self.timeouts
            ));
        }
        self.say(&format!("stopped after {}: {why}", seconds(self.begun.elapsed())));
    }
}

fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    if whole < 60 { format!("{whole} s") } else { format!("{} min {:02} s", whole / 60, whole % 60) }
}
