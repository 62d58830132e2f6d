//! Metadata operations from the command line.

use super::{files::Place, flags::Args, live::Live, page};
use crate::{failure::Outcome, output};
use fsarena_engine::{meta, meta::Job, meta::Sharing};

/// Runs the phases in a directory of our own, and prints what each came to.
pub fn run(args: &Args) -> Outcome {
    let job = Job {
        phases: args.meta.clone(),
        threads: args.numjobs,
        names: args.files,
        sharing: if args.shared { Sharing::Shared } else { Sharing::Private },
        depth: args.depth,
        fan_out: args.fan_out,
        ..Job::default()
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
