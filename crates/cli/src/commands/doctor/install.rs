//! Installs missing packages with apt-get, and fetches or compiles what guests need.

use crate::failure::print_message;
use crate::failure::{CommandResult, Failure};
use crate::{commands, output};
use fsarena_core::exit::ExitCode;
use fsarena_fs::{def::FsDef, filesystems};
use fsarena_guest::module_build::BuildStep;
use fsarena_run::preflight::guests;
use fsarena_sys::CommandError;
use fsarena_sys::argv::Argv;
use fsarena_sys::{cancel, program};
use std::io::{IsTerminal, Write, stderr};
use std::{os::unix::fs::OpenOptionsExt, path::Path};

/// Fetches or compiles what guests need to have the filesystems `names` in the guest kernel `kernel`, and prints a line for
/// each. `kernel` is written as in plans, such as `debian:6.12`; if it is empty, it is the newest kernel at hand that has the
/// filesystems.
///
/// # Errors
/// A name that is no filesystem, or something that cannot be fetched or compiled.
pub fn fetch_for_guests(names: &[String], kernel: &str) -> CommandResult {
    let defs: Vec<&FsDef> = names.iter().map(|name| filesystems::find(name)).collect::<Result<_, _>>()?;
    // Without handlers a signal would leave a compiler behind.
    commands::handle_signals()?;
    let mut progress = BuildProgress::new(&names.join(" "));
    let fetched = guests::fetch_kernel_and_mkfs(&defs, kernel, &mut |step| progress.show(step));
    drop(progress);
    if fetched.is_err() && cancel::received_signal().is_some() {
        print_message("interrupted; the same command continues what it began");
    }
    let kernel = fetched?;
    for def in defs {
        // This also finds programs in the packages that fsarena fetched into its cache.
        let mkfs = program::find(def.mkfs).map(|path| path.display().to_string()).unwrap_or_default();
        output::print_text(format!("{}: guests have it with kernel {kernel} and {mkfs}\n", def.id))?;
    }
    Ok(ExitCode::Done)
}

/// Installs these packages, as root, and starts no services. Prints which packages it installs, and which apt does not find.
///
/// # Errors
/// Without root, if apt-get fails, or after a signal.
pub fn install(packages: &[String]) -> Result<(), Failure> {
    if packages.is_empty() {
        return Ok(());
    }
    let command = format!("apt-get install -y --no-install-recommends {}", packages.join(" "));
    if !commands::is_root() {
        let message = format!("these programs are missing; install them as root: {command}");
        return Err(Failure::new(ExitCode::Missing, message));
    }
    print_message(&format!("installing: {}", packages.join(" ")));
    let apt = |args: &[&str]| Argv::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(args);
    let apt_failure =
        |error: CommandError| Failure::new(ExitCode::Missing, format!("{error}\nInstall these packages: {command}"));
    let mut log = |_| {};
    apt(&["update", "-q"]).run_checked(&mut log).map_err(apt_failure)?;
    // apt-get installs nothing if it does not find one of the packages, so unknown packages are left out.
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        packages.iter().map(String::as_str).partition(|name| apt_can_install(name));
    if !unknown.is_empty() {
        print_message(&format!(
            "apt does not find these packages: {}. `fsarena doctor` shows what they are for",
            unknown.join(" ")
        ));
    }
    if known.is_empty() {
        return Ok(());
    }
    // With handlers, a signal does not end fsarena before the service block is removed.
    commands::handle_signals()?;
    let _service_block = ServiceBlock::begin();
    let mut args = vec!["install", "-y", "-q", "--no-install-recommends"];
    args.extend(known);
    // To kill apt-get would leave packages half installed, so a signal waits until it has ended.
    apt(&args).ignore_cancel().run_checked(&mut log).map_err(apt_failure)?;
    Ok(cancel::check()?)
}

/// Whether apt can install a package. `apt-cache show` prints nothing for a package that others only mention.
fn apt_can_install(package: &str) -> bool {
    let output = Argv::new("apt-cache").args(["show", package]).run();
    output.is_ok_and(|finished| finished.stdout.contains("Package: "))
}

/// Prevents apt-get from starting the services that it installs, until it is dropped. It writes policy-rc.d (Debian Policy
/// 9.3.3), and a setting that prevents PostgreSQL's package from making a database. Files that exist already do not change.
/// The field has the files that it wrote, to remove them.
struct ServiceBlock(Vec<&'static Path>);

/// The files to write: path, mode and contents.
const SERVICE_BLOCKERS: [(&str, u32, &str); 2] = [
    ("/usr/sbin/policy-rc.d", 0o755, "#!/bin/sh\nexit 101\n"),
    ("/etc/postgresql-common/createcluster.d/fsarena.conf", 0o644, "create_main_cluster = false\n"),
];

impl ServiceBlock {
    /// Writes the files that do not exist yet. If one cannot be written, the services it blocks may start; that is no reason to
    /// install nothing.
    fn begin() -> ServiceBlock {
        let write_new = |(path, mode, text): &(&'static str, u32, &str)| {
            let path = Path::new(*path);
            std::fs::create_dir_all(path.parent()?).ok()?;
            let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(*mode).open(path);
            let mut file = created.ok()?;
            // A file without its whole text does not block services, but must be removed too.
            let _ = file.write_all(text.as_bytes());
            Some(path)
        };
        ServiceBlock(SERVICE_BLOCKERS.iter().filter_map(write_new).collect())
    }
}

impl Drop for ServiceBlock {
    fn drop(&mut self) {
        for path in &self.0 {
            // Remove the file, because with it packages installed later could not start their services. An error is ignored,
            // because the packages are installed.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Shows the steps of the compilation of modules: on a terminal in one line that changes, otherwise in a line for each step and
/// each tenth of the files.
#[derive(Debug)]
struct BuildProgress {
    /// The names of the filesystems whose modules are compiled.
    names: String,
    on_terminal: bool,
    last_line: String,
}

impl BuildProgress {
    /// Shows the steps for these filesystems.
    fn new(names: &str) -> BuildProgress {
        BuildProgress { names: names.into(), on_terminal: stderr().is_terminal(), last_line: String::new() }
    }

    /// Shows a step.
    fn show(&mut self, step: BuildStep) {
        let line = format!("{}: {}", self.names, describe_step(step, self.on_terminal));
        if line == self.last_line {
            return;
        }
        // A closed standard error must not end the build.
        let _ = if self.on_terminal { write!(stderr(), "\r\x1b[K{line}") } else { writeln!(stderr(), "{line}") };
        self.last_line = line;
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        if self.on_terminal && !self.last_line.is_empty() {
            let _ = writeln!(stderr());
        }
    }
}

/// A step in words. The compiled files are counted one by one if `is_exact`, otherwise in tenths.
fn describe_step(step: BuildStep, is_exact: bool) -> String {
    match step {
        BuildStep::Waiting => "waiting for another fsarena that compiles it".into(),
        BuildStep::Fetching => "fetching the source and the kernel's headers".into(),
        BuildStep::Continuing => "continuing the build that was interrupted".into(),
        BuildStep::Configuring => "configuring the source for the kernel, some 2 minutes".into(),
        BuildStep::Compiling(done, total) if is_exact => {
            format!("compiling, {done} of {total} files; it can be interrupted and continued")
        }
        BuildStep::Compiling(done, total) => {
            format!("compiling, {}% of {total} files", 10 * (10 * done / total.max(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_one_by_one_on_terminals_only() {
        let step = BuildStep::Compiling(187, 305);
        assert!(describe_step(step, true).starts_with("compiling, 187 of 305 files"));
        assert_eq!(describe_step(step, false), "compiling, 60% of 305 files");
        assert_eq!(describe_step(BuildStep::Compiling(0, 0), false), "compiling, 0% of 0 files");
    }
}
