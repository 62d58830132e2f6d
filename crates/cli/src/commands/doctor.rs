//! `fsarena doctor`: what this machine supports, and how to enable the rest.

use crate::flags::{ListFormat, Runs};
use crate::{failure::Outcome, output};
use fsarena_core::exit::ExitCode;
use fsarena_run::doctor::{findings, install, missing_packages};
use fsarena_sys::kernel::SysRoot;
use std::io::Write;

/// Check what this machine supports and how to enable the rest
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Install missing mkfs programs, squid and PostgreSQL with apt-get, as root; services are not started
    #[arg(long, conflicts_with = "format")]
    install: bool,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: Runs,
}

/// Checks, or with `--install` installs what is missing.
pub fn run(args: Args) -> Outcome {
    let kernel = SysRoot::host();
    if args.install {
        install(&missing_packages(&kernel)?, &mut |line| drop(writeln!(std::io::stderr(), "{line}")))?;
        return Ok(ExitCode::Done);
    }
    output::rows(&findings(&kernel, &args.runs.runs), args.format)
}
