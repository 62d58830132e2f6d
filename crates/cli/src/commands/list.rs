//! `fsarena list`: the names that other commands accept.

use crate::failure::{Failure, Outcome};
use crate::flags::{ListFormat, Runs};
use crate::given::Given;
use crate::output;
use clap::ValueEnum;
use fsarena_report::exporters;
use fsarena_run::{axes, listing};

/// List studies, applications, filesystems, workloads, metrics, factors, exporters or runs
#[derive(Debug, clap::Args)]
pub struct Args {
    // First: reading a flag takes it away.
    #[command(flatten)]
    given: Given,
    /// What to list
    #[arg(value_enum)]
    what: What,
    /// Format on standard output
    #[arg(long, value_enum, default_value = "term")]
    format: ListFormat,
    #[command(flatten)]
    runs: Runs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum What {
    /// Studies, with their published figures
    Studies,
    /// Plans of applications, to run or to start your own from
    Apps,
    /// Filesystems, their option sets, and their support on this machine
    Filesystems,
    /// Workloads and their settings
    Workloads,
    /// Metrics, and the raw readings that they come from
    Metrics,
    /// Factors: what a plan can vary
    Factors,
    /// Report formats
    Exporters,
    /// Stored runs, newest first
    Runs,
}

/// Lists.
pub fn run(args: Args) -> Outcome {
    match args.what {
        What::Studies => output::rows(&listing::studies()?, args.format),
        What::Apps => output::rows(&listing::apps()?, args.format),
        What::Filesystems => output::rows(&listing::filesystems()?, args.format),
        What::Workloads => output::rows(&listing::workloads(), args.format),
        What::Metrics => output::rows(&listing::metrics(), args.format),
        What::Factors => output::rows(&axes::factors(), args.format),
        What::Exporters => output::rows(&exporters::rows(), args.format),
        What::Runs => {
            let root = &args.runs.runs;
            if args.given.first_of(&["runs"]).is_some() {
                root.metadata().map_err(Failure::file(root))?;
            }
            output::rows(&listing::runs(root)?, args.format)
        }
    }
}
