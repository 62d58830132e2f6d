//! Names the locks that a running process waits for: `hotlock PID [SECONDS]`, or `hotlock all [SECONDS]`.

use fsarena_probe::trace::{TraceOptions, TracedTasks, Tracer};
use std::{error::Error, process::ExitCode, time::Duration};

fn main() -> ExitCode {
    match trace() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotlock: {error}");
            ExitCode::FAILURE
        }
    }
}

fn trace() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let target = match args.next().ok_or("usage: hotlock PID|all [SECONDS]")?.as_str() {
        "all" => TracedTasks::WholeMachine,
        pid => TracedTasks::Pids(vec![pid.parse()?]),
    };
    let seconds: f64 = args.next().map_or(Ok(5.0), |text| text.parse())?;
    let tracer = Tracer::start(&TraceOptions::locks(target, 997))?;
    std::thread::sleep(Duration::try_from_secs_f64(seconds)?);
    print!("{}", tracer.stop().format_text(10, 4));
    Ok(())
}
