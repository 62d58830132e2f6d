//! `fsarena load`: the load engine alone, with fio's options.

mod files;
mod flags;
mod job;
mod live;
mod page;
mod reached;

pub use flags::Args;

use crate::{failure::Outcome, output, running::handle_signals};
use files::Place;
use fsarena_engine as engine;
use fsarena_engine::meta;
use fsarena_sys::kernel::Kernel;
use live::Live;

/// Makes the files, runs the load on them, and prints what it came to.
pub fn run(args: Args) -> Outcome {
    handle_signals()?;
    if !args.meta.is_empty() {
        return metadata(&args);
    }
    let job = job::of(&args)?;
    job.check()?;
    let place = Place::open(&args, &job)?;
    let live = Live::new(args.quiet);
    let files = live.during("making the files", || place.files(&args, &job))?;
    let work = || engine::run(&job, &files, &mut |interval| live.show(interval));
    let (outcome, reached) = reached::around(&Kernel::host(), place.dir(), work);
    live.clear();
    let page = page::of_data(&job, &files, &outcome?, reached);
    place.leave()?;
    output::page(&page, &args.format)
}

/// Runs the phases in a directory of our own, and prints what each came to.
fn metadata(args: &Args) -> Outcome {
    let job = meta::Job {
        phases: args.meta.clone(),
        threads: args.numjobs,
        names: args.files,
        sharing: if args.shared { meta::Sharing::Shared } else { meta::Sharing::Private },
        depth: args.depth,
        fan_out: args.fan_out,
        ..meta::Job::default()
    };
    job.check()?;
    let place = Place::below(&args.dir)?;
    let live = Live::new(args.quiet);
    let mut phase = None;
    let outcomes = meta::run(&job, place.dir(), &mut |operation, interval| {
        if phase.replace(operation) != Some(operation) {
            live.phase();
        }
        live.show(interval);
    });
    live.clear();
    let page = page::of_metadata(&job, place.dir(), &outcomes?);
    place.leave()?;
    output::page(&page, &args.format)
}
