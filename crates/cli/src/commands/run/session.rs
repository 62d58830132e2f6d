//! One run from its first event to its report.

use super::Args;
use crate::commands::report;
use crate::failure::{Failure, Outcome};
use crate::progress::Progress;
use fsarena_core::cell::Arm;
use fsarena_core::event::Event;
use fsarena_core::exit::{ExitCode, Exits};
use fsarena_core::metric::{LIFECYCLE, TIMER};
use fsarena_core::plan::{Backing, Plan};
use fsarena_probe::probes;
use fsarena_run::dir::Directories;
use fsarena_run::executor::{Executor, Fatal};
use fsarena_run::local::Local;
use fsarena_run::preflight::Check;
use fsarena_run::runner::{self, Earlier, End};
use fsarena_store::{RunDir, Writer};
use fsarena_sys::kernel::Kernel;
use fsarena_sys::undo::{self, Journal};
use std::cell::RefCell;

/// Everything a run is made of.
pub struct Session {
    pub kernel: Kernel,
    pub plan: Plan,
    pub arms: Vec<Arm>,
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
        if record.samples.is_empty() {
            return ended.map(|_| ExitCode::Done);
        }
        let options = report::Options { metrics: args.metric.clone(), ..report::Options::for_stdout() };
        let answer = report::write_all(record, &options, &args.export, &self.run)?;
        match ended? {
            End::Done => {}
            End::NothingLeft => {
                return Err(Failure::new(ExitCode::Internal, "every arm has failed; see the report"));
            }
            End::Interrupted => {
                let id = self.run.id();
                self.progress
                    .say(&format!("what was measured is kept; go on with: fsarena run --resume {id}"));
            }
        }
        report::print(&answer)?;
        Ok(ExitCode::Done)
    }

    fn measure(&mut self) -> Result<End, Failure> {
        let readings: Vec<_> =
            TIMER.iter().copied().chain(probes::readings()).chain(LIFECYCLE.iter().copied()).collect();
        let host = host_facts(&self.kernel, &self.check);
        let writer = RefCell::new(Writer::open(&self.run, &host, &readings)?);
        let progress = RefCell::new(&mut self.progress);
        // The store first: what is shown is also kept.
        let consume = |event: &Event| -> Result<(), Box<dyn Exits>> {
            writer.borrow_mut().apply(event).map_err(|error| Box::new(error) as Box<dyn Exits>)?;
            progress.borrow_mut().show(event);
            Ok(())
        };
        let journal = Journal::create(&undo::state_dir(), &self.run.path().to_string_lossy())?;
        let mut tell = |event: Event| consume(&event).map_err(Fatal::Consumer);
        let mut executor: Box<dyn Executor> = match &self.plan.device.backing {
            Backing::Dir => Box::new(Directories::start(
                &self.kernel,
                &self.plan,
                &self.arms,
                &journal,
                self.run.path(),
                &mut tell,
            )?),
            _ => Box::new(Local::start(
                &self.kernel,
                &self.plan,
                &self.check,
                &journal,
                self.run.path(),
                &mut tell,
            )?),
        };
        for note in self.check.remarks.iter().cloned() {
            consume(&Event::Note(note)).map_err(Fatal::Consumer)?;
        }
        let earlier = Earlier {
            finished: fsarena_store::done_cells(&self.run)?,
            failed: fsarena_store::dead_arms(&self.run)?,
        };
        let steps = self.check.steps_per_cell();
        let end =
            runner::run(&self.plan, &self.arms, steps, earlier, &mut *executor, &mut |event| consume(event))?;
        Ok(end)
    }
}

/// The machine, with the versions of all programs that this run uses.
fn host_facts(kernel: &Kernel, check: &Check) -> fsarena_core::host::Host {
    let mut host = fsarena_sys::host::collect(kernel);
    for program in &check.programs {
        if let Some(version) = fsarena_sys::host::tool_version(program) {
            host.facts.insert(format!("version of {program}"), version);
        }
    }
    host
}
