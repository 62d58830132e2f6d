//! `fsarena load`: the load engine alone, with fio's options.

mod files;
mod flags;
mod job;
mod live;
mod meta;
mod page;
mod reached;

pub use flags::Args;

use crate::{failure::Outcome, output, running::handle_signals};
use files::Place;
use fsarena_engine as engine;
use fsarena_sys::kernel::Kernel;
use live::Live;
use reached::Counters;

/// Makes the files, runs the load on them, and prints what it came to.
pub fn run(args: Args) -> Outcome {
    handle_signals()?;
    if !args.meta.is_empty() {
        return meta::run(&args);
    }
    let job = job::of(&args)?;
    job.check()?;
    let kernel = Kernel::host();
    let place = Place::open(&args, &job)?;
    let live = Live::new(args.quiet);
    let files = live.during("making the files", || place.files(&args, &job))?;
    let counters = Counters::open(&kernel, place.dir());
    let outcome = engine::run(&job, &files, &mut |interval| live.show(interval));
    live.clear();
    let reached = counters.reached();
    let page = page::of_data(&job, &files, &outcome?, reached);
    place.leave()?;
    output::page(&page, &args.format)
}
