//! `fsarena load`: the load engine alone, with fio's options.

mod files;
mod flags;
mod job;

pub use flags::Args;

use crate::terminal::load::{Line, of_data, of_metadata};
use crate::{failure::Outcome, output, running::handle_signals};
use files::Place;
use fsarena_engine as engine;
use fsarena_engine::{Interval, meta};
use fsarena_sys::{cancel, kernel::SysRoot};

/// Makes the files, runs the load on them, and prints what it came to.
pub fn run(args: Args) -> Outcome {
    handle_signals()?;
    if !args.meta.is_empty() {
        return metadata(&args);
    }
    let job = job::of(&args)?;
    job.check()?;
    let place = Place::open(&args, &job)?;
    let line = Line::new(args.quiet);
    let files = line.during("making the files", || place.files(&args, &job))?;
    let work = || engine::run(&job, &files, &mut |interval| line.show(None, interval));
    let (outcome, readings, notes) = fsarena_probe::around(&SysRoot::host(), place.dir(), work);
    line.clear();
    let page = of_data(&job, &files, &outcome?, (&readings, &notes), interrupted());
    place.leave()?;
    output::page(&page, &args.format)
}

/// Runs the phases in a directory of our own, and prints what each came to.
fn metadata(args: &Args) -> Outcome {
    let job = meta::MetaJob {
        phases: args.meta.clone(),
        threads: args.numjobs,
        names: args.files,
        sharing: if args.shared { meta::Sharing::Shared } else { meta::Sharing::Private },
        depth: args.depth,
        fan_out: args.fan_out,
        ..meta::MetaJob::default()
    };
    job.check()?;
    let place = Place::below(&args.dir)?;
    let line = Line::new(args.quiet);
    let show = &mut |operation, interval: &Interval| line.show(Some(operation), interval);
    let outcomes = meta::run(&job, place.dir(), show);
    line.clear();
    let page = of_metadata(&job, place.dir(), &outcomes?, interrupted());
    place.leave()?;
    output::page(&page, &args.format)
}

/// Whether a signal has cut the load short.
fn interrupted() -> bool {
    cancel::requested().is_some()
}
