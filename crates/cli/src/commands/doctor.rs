//! `fsarena doctor`: what this machine supports, and how to enable the rest.

use crate::failure::{Failure, Outcome};
use crate::flags::{ListFormat, Runs};
use crate::output;
use fsarena_core::exit::ExitCode;
use fsarena_run::doctor::{findings, missing_packages};
use fsarena_sys::{argv::Argv, kernel::Kernel};
use std::{io::Write, os::unix::fs::OpenOptionsExt, path::Path};

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
    let kernel = Kernel::host();
    if args.install {
        return install(&kernel);
    }
    output::rows(&findings(&kernel, &args.runs.runs)?, args.format)
}

fn install(kernel: &Kernel) -> Outcome {
    let packages = missing_packages(kernel)?;
    if packages.is_empty() {
        return Ok(ExitCode::Done);
    }
    let line = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !rustix::process::geteuid().is_root() {
        let message = format!("these programs are missing; install them as root: {line}");
        return Err(Failure::new(ExitCode::Missing, message));
    }
    let _ = writeln!(std::io::stderr(), "installing: {}", packages.join(" "));
    let apt = |args: &[&str]| Argv::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(args);
    let failed = |error: fsarena_sys::argv::Error| {
        Failure::new(ExitCode::Missing, format!("{error}\nInstall these packages: {line}"))
    };
    let mut log = |_| {};
    apt(&["update", "-q"]).expect(&mut log).map_err(failed)?;
    // apt-get installs nothing where it does not find all, and not every archive has all.
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        packages.iter().map(String::as_str).partition(|name| apt_has(name));
    if !unknown.is_empty() {
        let names = unknown.join(" ");
        let _ = writeln!(std::io::stderr(), "not in the archives that apt knows here: {names} (see doctor)");
    }
    if known.is_empty() {
        return Ok(ExitCode::Done);
    }
    let _quiet = NoServices::begin();
    let mut args = vec!["install", "-y", "-q", "--no-install-recommends"];
    args.extend(known);
    apt(&args).expect(&mut log).map_err(failed)?;
    Ok(ExitCode::Done)
}

/// Whether apt can install a package. Of one that is only spoken of by others apt-cache shows nothing.
fn apt_has(package: &str) -> bool {
    let shown = Argv::new("apt-cache").args(["show", package]).run();
    shown.is_ok_and(|finished| finished.stdout.contains("Package: "))
}

/// Keeps apt-get from starting what it installs, until it is dropped: policy-rc.d, as Debian Policy 9.3.3 has it, and a
/// setting with which PostgreSQL's package makes no database. Where there is such a file already, that one holds.
struct NoServices(Vec<&'static Path>);

/// The files, their modes, and what they say.
const QUIET: [(&str, u32, &str); 2] = [
    ("/usr/sbin/policy-rc.d", 0o755, "#!/bin/sh\nexit 101\n"),
    ("/etc/postgresql-common/createcluster.d/fsarena.conf", 0o644, "create_main_cluster = false\n"),
];

impl NoServices {
    fn begin() -> NoServices {
        let written = |(path, mode, text): &(&'static str, u32, &str)| {
            let path = Path::new(*path);
            std::fs::create_dir_all(path.parent()?).ok()?;
            let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(*mode).open(path);
            made.and_then(|mut file| file.write_all(text.as_bytes())).ok().map(|()| path)
        };
        NoServices(QUIET.iter().filter_map(written).collect())
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        for path in &self.0 {
            // If the file stayed, packages installed later could not start their services.
            let _ = std::fs::remove_file(path);
        }
    }
}
