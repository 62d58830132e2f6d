//! `fsarena watch`: what a request costs on a live machine, without driving it.

mod flags;

pub use flags::Args;

use crate::failure::{Failure, Outcome};
use crate::terminal::watch;
use crate::{flags::ListFormat, output, running::handle_signals};
use fsarena_core::exit::ExitCode;
use fsarena_store::RunDir;
use fsarena_sys::{cancel, host, kernel::SysRoot};
use fsarena_watch::{Recorder, Watcher, Window};
use std::io::Write;

/// Watches until a signal comes or the windows are done; prints and keeps each window as it closes.
pub fn run(args: Args) -> Outcome {
    handle_signals()?;
    let kernel = SysRoot::host();
    let host = host::collect(&kernel);
    let mut recorder = match &args.resume {
        Some(name) => Recorder::open(RunDir::find(&args.runs.runs, name)?, &host)?,
        None => {
            let watch = args.watch()?;
            // Start the watcher once before making a run, to report an impossible counter at once.
            Watcher::begin(&kernel, &watch, 0)?.check()?;
            Recorder::create(&args.runs.runs, &watch, &host, env!("CARGO_PKG_VERSION"))?
        }
    };
    // From here on a signal ends the watch in order.
    let _deferred = cancel::defer_signals();
    let mut watcher = Watcher::begin(&kernel, recorder.watch(), recorder.next()?)?;
    watcher.notes().iter().try_for_each(|note| recorder.note(note))?;
    begin(args.format, &recorder, &watcher)?;
    let tell = |window: &Window| -> Result<(), Failure> {
        // The store first: what is shown is also kept.
        recorder.keep(window)?;
        recorder.take_notes().iter().for_each(|note| say(&note.text));
        let line = match args.format {
            ListFormat::Json => watch::json(window).to_string(),
            ListFormat::Term => watch::line(window),
        };
        output::text(line + "\n").map(drop)
    };
    watcher.go(args.windows, tell)?;
    let (why, complete) = match cancel::requested() {
        Some(_) => ("ended by a signal", false),
        None => ("the windows are done", true),
    };
    recorder.finish(why, complete)?;
    let id = recorder.run().id();
    say(&format!("kept as {id}; go on with: fsarena watch --resume {id}"));
    Ok(ExitCode::Done)
}

/// Says what is watched, and begins the table.
fn begin(format: ListFormat, recorder: &Recorder, watcher: &Watcher) -> Outcome {
    let watch = recorder.watch();
    let counted = watch.counter.as_ref().map_or("no requests".into(), |counter| counter.to_string());
    say(&format!("watching {}: {counted}; kept in {}", watch.name, recorder.run().path().display()));
    watcher.notes().iter().for_each(|note| say(&note.text));
    watcher.silent().iter().for_each(|text| say(text));
    match format {
        ListFormat::Json => Ok(ExitCode::Done),
        ListFormat::Term => output::text(watch::head() + "\n"),
    }
}

fn say(text: &str) {
    // A closed standard error does not stop the watch.
    let _ = writeln!(std::io::stderr(), "{text}");
}
