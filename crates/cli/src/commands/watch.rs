//! `fsarena watch`: what a request costs on a live machine, without driving it.

mod flags;
mod show;

pub use flags::Args;

use crate::failure::{Failure, Outcome};
use crate::running::handle_signals;
use fsarena_core::exit::ExitCode;
use fsarena_store::RunDir;
use fsarena_sys::{cancel, host, kernel::Kernel};
use fsarena_watch::{Recorder, Watcher, Window};

/// Watches until a signal comes or the windows are done; prints and keeps each window as it closes.
pub fn run(args: Args) -> Outcome {
    handle_signals()?;
    let kernel = Kernel::host();
    let host = host::collect(&kernel);
    let mut recorder = match &args.resume {
        Some(name) => Recorder::open(RunDir::find(&args.runs.runs, name)?, &host)?,
        None => {
            let watch = args.watch()?;
            // Start the watcher once before making a run, to report an impossible counter at once.
            Watcher::begin(&kernel, &watch, 0)?;
            Recorder::create(&args.runs.runs, &watch, &host, env!("CARGO_PKG_VERSION"))?
        }
    };
    // From here on a signal ends the watch in order.
    let _in_order = cancel::in_order();
    let mut watcher = Watcher::begin(&kernel, recorder.watch(), recorder.next()?)?;
    watcher.notes().iter().try_for_each(|note| recorder.note(note))?;
    show::begin(args.format, &recorder, watcher.notes())?;
    let tell = |window: &Window| -> Result<(), Failure> {
        // The store first: what is shown is also kept.
        recorder.keep(window)?;
        show::window(args.format, window)
    };
    watcher.go(args.windows, tell)?;
    let (why, complete) = match cancel::requested() {
        Some(_) => ("ended by a signal", false),
        None => ("the windows are done", true),
    };
    recorder.finish(why, complete)?;
    show::end(&recorder);
    Ok(ExitCode::Done)
}
