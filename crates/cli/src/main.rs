//! `fsarena`: arguments and wiring, nothing else.

mod args;
mod commands;
mod failure;
mod listing;
mod progress;
mod terminal;
mod vocabulary;

use clap::Parser;
use fsarena_core::exit::ExitCode;
use std::io::Write;

fn main() -> std::process::ExitCode {
    let args = args::Cli::parse();
    let result = commands::dispatch(args);
    let signal = fsarena_sys::cancel::requested();
    let code = match result {
        Ok(code) => code,
        // Whoever closed our output has seen enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::Done,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "fsarena: {failure}");
            failure.exit_code()
        }
    };
    if let Some(signal) = signal {
        // Everything is cleaned up: now end as whoever sent the signal expects.
        fsarena_sys::cancel::die_by(signal);
    }
    std::process::ExitCode::from(code.code())
}
