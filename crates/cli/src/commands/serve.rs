//! `fsarena serve`: serves a directory of runs as a local web page.

use crate::failure::{CommandResult, printing_failure};
use crate::{commands::report, flags::RunsDir};
use fsarena_core::exit::ExitCode;
use fsarena_report::report::ReportOptions;
use fsarena_run::work;
use fsarena_serve::{AnalysisFunctions, Options, Server};
use std::net::{IpAddr, Ipv4Addr};
use std::{io::Write, path::PathBuf};

/// Serve a directory of runs as a web page, with runs in progress
///
/// fsarena prints the address of the page and serves it until Ctrl-C. The page only reads runs. Only this machine can
/// open it, unless --bind names another address; then clients need the token in the printed address.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Runs directory [default: that of --runs]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Port to listen on [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Address to listen on: 0.0.0.0 or :: for all addresses; beyond loopback, clients need a token
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Token that clients need [default: none on loopback, else a new one]
    #[arg(long, value_name = "TOKEN", env = "FSARENA_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Additional host name of this machine; requests for other names are refused (DNS rebinding); repeatable
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    #[command(flatten)]
    runs: RunsDir,
}

const EXAMPLES: &str = "\
Examples:
  fsarena serve                            the runs of this directory, on a free port
  fsarena serve /srv/runs --port 8017
  fsarena serve --bind 0.0.0.0             for other machines: open the address with the token
  ssh -L 8017:localhost:8017 bench         from another machine, through SSH";

/// Serves until a signal arrives.
pub fn run(args: Args) -> CommandResult {
    let mut hosts = args.allow_host;
    hosts.extend(fsarena_sys::kernel::SysRoot::host().read_trimmed("proc/sys/kernel/hostname"));
    let analyse_run =
        |record| report::analyse_run(record, ReportOptions::default()).map_err(|failure| failure.to_string());
    let server = Server::open(Options {
        folder: args.dir.unwrap_or(args.runs.dir),
        bind: args.bind,
        port: args.port,
        token: args.token.filter(|token| !token.is_empty()),
        hosts,
        analysis: AnalysisFunctions { analyse_run, primary_metric: |plan| work::main_metric_of_plan(plan).into() },
    })?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", server.url()).and_then(|()| out.flush()).map_err(printing_failure)?;
    drop(out);
    server.run()?;
    Ok(ExitCode::Done)
}
