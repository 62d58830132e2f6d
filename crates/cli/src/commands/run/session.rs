//! One run from its first event to its report.

use super::Args;
use crate::commands::report;
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use crate::vocabulary;
use fsarena_core::cell::Variant;
use fsarena_core::event::{CommandRecord, Event, NoteKind};
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::host::Host;
use fsarena_core::plan::{Backing, Plan};
use fsarena_core::record::RunRecord;
use fsarena_run::dir::Directories;
use fsarena_run::executor::{Executor, Fatal};
use fsarena_run::guest::Guests;
use fsarena_run::local::Local;
use fsarena_run::preflight::Check;
use fsarena_run::runner::{self, Earlier, End};
use fsarena_store::{RunDir, Writer};
use fsarena_sys::host;
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::{self, Journal};
use std::cell::RefCell;

/// Everything a run is made of.
pub struct Session {
    pub kernel: Kernel,
    pub plan: Plan,
    pub variants: Vec<Variant>,
    pub check: Check,
    pub run: RunDir,
    pub progress: Progress,
}

impl Session {
    /// Runs it, and prints the answer whatever ended it: nothing measured is lost.
    pub fn go(mut self, args: &Args) -> Outcome {
        self.progress.say(&format!("{}: {}", self.plan.title, self.plan.question));
        self.progress.say(&format!("run {}; {}", self.run.path().display(), self.check.describe()));
        let ended = self.measure();
        let record = fsarena_store::read(&self.run)?;
        let failed = failures(&record);
        let measured = !record.samples.is_empty();
        let answered = self.answer(record, args);
        if matches!(ended, Ok(End::Interrupted)) || ended.is_err() && measured {
            let id = self.run.id();
            self.progress.say(&format!("what was measured is kept; go on with: fsarena run --resume {id}"));
        }
        // What ended the run matters more than a report that could not be written.
        match ended? {
            End::Done | End::Interrupted => answered,
            End::NothingLeft => Err(every_variant_failed(&failed)),
        }
    }

    /// Runs it, and leaves the answer to whoever asked for it.
    pub fn keep(mut self) -> Result<RunDir, Failure> {
        self.progress.say(&format!("{}; {}", self.plan.title, self.check.describe()));
        match self.measure()? {
            End::Done | End::Interrupted => Ok(self.run),
            End::NothingLeft => {
                let failed = failures(&fsarena_store::read(&self.run)?);
                Err(every_variant_failed(&failed))
            }
        }
    }

    /// Writes the reports and prints the answer, where anything was measured.
    fn answer(&self, record: RunRecord, args: &Args) -> Outcome {
        if record.samples.is_empty() {
            return Ok(ExitCode::Done);
        }
        let options = report::Options::for_stdout(args.metric.clone(), args.view.clone());
        report::answer(record, &options, &args.export, &self.run)
    }

    fn measure(&mut self) -> Result<End, Failure> {
        let readings: Vec<_> = vocabulary::readings().collect();
        let (host, asked) = host_facts(&self.kernel, &self.check);
        let writer = RefCell::new(Writer::open(&self.run, &host, &readings)?);
        let progress = RefCell::new(&mut self.progress);
        // The store first: what is shown is also kept.
        let consume = |event: &Event| -> Result<(), Box<dyn Exits>> {
            writer.borrow_mut().apply(event).map_err(|error| Box::new(error) as Box<dyn Exits>)?;
            progress.borrow_mut().show(event);
            Ok(())
        };
        let mut tell = |event: Event| consume(&event).map_err(Fatal::Consumer);
        asked.into_iter().try_for_each(|command| tell(Event::Command(command)))?;
        // `fsarena recover` undoes what the journal names, from whatever directory it is started in.
        let dir = self.run.path().canonicalize().map_err(Failure::file(self.run.path()))?;
        let journal = Journal::create(&undo::state_dir(), &dir.to_string_lossy())?;
        let (kernel, plan) = (&self.kernel, &self.plan);
        let mut executor: Box<dyn Executor> = match &plan.device.backing {
            Backing::Dir => {
                Box::new(Directories::start(kernel, plan, &self.variants, &journal, &dir, &mut tell)?)
            }
            Backing::Guest(guest) => {
                Box::new(Guests::start(plan, guest, &self.check, &journal, &dir, &mut tell)?)
            }
            _ => Box::new(Local::start(kernel, plan, &self.check, &journal, &dir, &mut tell)?),
        };
        for note in self.check.remarks.iter().cloned() {
            consume(&Event::Note(note)).map_err(Fatal::Consumer)?;
        }
        let earlier = Earlier {
            record: Some(fsarena_store::read(&self.run)?),
            finished: fsarena_store::done_cells(&self.run)?,
            failed: fsarena_store::dead_variants(&self.run)?,
        };
        let tasks = self.check.tasks_per_cell();
        let end =
            runner::run(plan, &self.variants, tasks, earlier, &mut *executor, &mut |event| consume(event))?;
        executor.finish(&mut tell)?;
        Ok(end)
    }
}

fn every_variant_failed(why: &[String]) -> Failure {
    Failure::new(ExitCode::Internal, format!("every variant has failed:\n  {}", why.join("\n  ")))
}

/// Why variants left the run.
fn failures(record: &RunRecord) -> Vec<String> {
    let left = record.notes.iter().filter(|(_, note)| note.kind == NoteKind::VariantFailed);
    left.map(|(_, note)| format!("{} {}", note.variant.as_deref().unwrap_or_default(), note.text)).collect()
}

/// The machine, with the versions of all programs that this run uses, and the commands that told them.
fn host_facts(kernel: &Kernel, check: &Check) -> (Host, Vec<CommandRecord>) {
    let mut host = host::collect(kernel);
    let mut asked = Vec::new();
    for program in &check.programs {
        if let Some(version) = host::tool_version(program, &mut |record| asked.push(record)) {
            host.facts.insert(format!("version of {program}"), version);
        }
    }
    (host, asked)
}
