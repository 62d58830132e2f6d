//! The live display: a consumer of events, like the store.

mod claims;
mod live;
pub mod screen;
mod ticker;

use fsarena_core::event::{CellEvent, Event, Note, NoteKind, Outcome, Standing};
use fsarena_report::live::{Intervals, left, sparkline};
use fsarena_report::safe;
use fsarena_run::executor::Fatal;
use fsarena_run::{Beginning, Consumer, work};
use live::Live;
use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

/// What people see while a run goes on, on standard error.
pub struct Progress {
    view: View,
    rounds: u32,
    tasks_per_cell: u64,
    budget: Option<Duration>,
    begun: Instant,
    /// The variant of each cell.
    variants: HashMap<String, String>,
    variant: String,
    timeouts: u32,
    /// What is unfair, and the variants that it was said of since the last line.
    unfair: Vec<(String, Vec<String>)>,
    /// Claims or the clock end the run: how many rounds that takes nobody knows.
    open_ended: bool,
    /// Whether each claim was decided when it was last told of.
    decided: HashMap<String, bool>,
    /// How wide the interval of each claim was after each round.
    widths: HashMap<String, Vec<f64>>,
    intervals: Intervals,
    round: u32,
}

enum View {
    /// Bars that move.
    Live(Live),
    /// A line a round, for logs.
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
            rounds: 0,
            tasks_per_cell: 1,
            budget: None,
            begun: Instant::now(),
            variants: HashMap::new(),
            variant: String::new(),
            timeouts: 0,
            unfair: vec![],
            open_ended: false,
            decided: HashMap::new(),
            widths: HashMap::new(),
            intervals: Intervals::default(),
            round: 0,
        }
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
            Event::RunStarted { rounds, tasks_per_cell, budget_s, variants, .. } => {
                self.intervals.start(variants);
                self.rounds = *rounds;
                self.tasks_per_cell = u64::from(*tasks_per_cell).max(1);
                self.budget = budget_s.map(Duration::from_secs_f64);
                self.begun = Instant::now();
            }
            Event::RoundStarted { round, order } => self.round_started(*round, order),
            Event::CellStarted { cell } => {
                self.variants.insert(cell.id().0, cell.variant.name.clone());
                self.variant = cell.variant.name.clone();
                self.intervals.cell(&cell.variant.name);
            }
            Event::Cell { what: CellEvent::Phase { name }, .. } => self.phase(name),
            Event::Cell { what: CellEvent::Sample(sample), .. } => {
                self.intervals.sample(sample);
                self.task_done();
            }
            Event::Cell { what: CellEvent::Note(note), .. } => self.note(note),
            Event::Note(note) => self.note(note),
            Event::CellFinished { outcome: Outcome::Done, .. } => self.intervals.cell_done(self.round, true),
            Event::CellFinished { cell, outcome: Outcome::Failed { why, .. } } => {
                self.intervals.cell_done(self.round, false);
                let variant = self.variants.get(&cell.0).cloned().unwrap_or_default();
                self.say(&format!("  {variant} FAILED: {why}"));
            }
            Event::RoundFinished { round } => self.round_finished(*round),
            Event::Claims { standing } => self.claims(standing),
            Event::Forecast { text } => self.say(&format!("  {text}")),
            Event::RunFinished { why, .. } => self.finished(why),
            _ => {}
        }
    }

    fn round_started(&mut self, round: u32, order: &[String]) {
        let tasks = order.len() as u64 * self.tasks_per_cell;
        let of = self.of_rounds();
        self.round = round;
        if let View::Live(live) = &mut self.view {
            live.round_started(round, of, tasks);
        }
    }

    fn phase(&self, name: &str) {
        if let View::Live(live) = &self.view {
            live.phase(format!("{}: {name}", self.variant));
        }
    }

    fn task_done(&self) {
        if let View::Live(live) = &self.view {
            live.task_done();
        }
    }

    fn round_finished(&mut self, round: u32) {
        self.say_unfair();
        let done = round + 1;
        let elapsed = self.begun.elapsed();
        let left = match left(done, elapsed, self.rounds.saturating_sub(done), self.budget) {
            Duration::ZERO => String::new(),
            left => format!(", {} {} left", if self.open_ended { "at most" } else { "about" }, seconds(left)),
        };
        self.say(&format!("round {done}{} done after {}{left}", self.of_rounds(), seconds(elapsed)));
        let lines = self.intervals.lines();
        if let View::Live(live) = &mut self.view {
            live.round_finished(left, lines);
        }
    }

    /// How many rounds there will be, where that is known.
    fn of_rounds(&self) -> String {
        if self.open_ended { String::new() } else { format!("/{}", self.rounds) }
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
            NoteKind::IdleTimeout => self.timeouts += 1,
            NoteKind::Fairness => {
                let known = self.unfair.iter_mut().find(|(text, _)| *text == note.text);
                match (known, &note.variant) {
                    (Some((_, variants)), variant) => variants.extend(variant.clone()),
                    (None, variant) => {
                        self.unfair.push((note.text.clone(), variant.clone().into_iter().collect()))
                    }
                }
            }
            _ => {}
        }
    }

    /// A line for each thing that is unfair, however many variants it is said of.
    fn say_unfair(&mut self) {
        for (text, variants) in std::mem::take(&mut self.unfair) {
            let of = match variants.as_slice() {
                [] => String::new(),
                [variant] => format!("{variant}: "),
                [variant, others @ ..] => format!("{variant} and {} more: ", others.len()),
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
                "  {} tasks began while the machine was still busy; the report names them",
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

impl Consumer for Progress {
    fn say(&mut self, line: &str) {
        Progress::say(self, line);
    }

    fn begin(&mut self, Beginning { plan, check, run, .. }: &Beginning) {
        self.open_ended = plan.stop.open_ended();
        self.intervals = work::metrics(plan).first().map_or(Intervals::default(), |main| Intervals::of(main));
        let question = Some(&plan.question).filter(|question| !question.is_empty());
        let question = question.map_or(String::new(), |question| format!(": {question}"));
        Progress::say(self, &format!("{}{question}", plan.title));
        let place = run.map_or(String::new(), |run| format!("run {}; ", run.path().display()));
        Progress::say(self, &format!("{place}{}", check.describe()));
    }

    fn take(&mut self, event: &Event) -> Result<(), Fatal> {
        self.show(event);
        Ok(())
    }
}
