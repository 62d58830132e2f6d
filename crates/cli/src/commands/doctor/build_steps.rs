//! Shows the steps of a build of kernel modules on standard error.

use fsarena_guest::built::BuildStep;
use std::io::{IsTerminal, Write, stderr};

/// Shows each step: on a terminal in a line that changes, else a line for each step and each tenth of the files.
#[derive(Debug)]
pub struct BuildSteps {
    /// The names of the filesystems whose modules are compiled.
    names: String,
    on_terminal: bool,
    last: String,
}

impl BuildSteps {
    /// Shows the steps for these filesystems.
    pub fn new(names: &str) -> BuildSteps {
        BuildSteps { names: names.into(), on_terminal: stderr().is_terminal(), last: String::new() }
    }

    /// Shows a step.
    pub fn show(&mut self, step: BuildStep) {
        let line = format!("{}: {}", self.names, describe(step, self.on_terminal));
        if line == self.last {
            return;
        }
        // A reader of standard error that has gone does not end the build.
        let _ =
            if self.on_terminal { write!(stderr(), "\r\x1b[K{line}") } else { writeln!(stderr(), "{line}") };
        self.last = line;
    }
}

impl Drop for BuildSteps {
    fn drop(&mut self) {
        if self.on_terminal && !self.last.is_empty() {
            let _ = writeln!(stderr());
        }
    }
}

/// A step in words; with `exactly` the number of each compiled file, else tenths of them.
fn describe(step: BuildStep, exactly: bool) -> String {
    match step {
        BuildStep::Waiting => "waiting for another fsarena that compiles it".into(),
        BuildStep::Fetching => "fetching the source and the kernel's headers".into(),
        BuildStep::Continuing => "continuing the build that was interrupted".into(),
        BuildStep::Configuring => "configuring the source for the kernel, some 2 minutes".into(),
        BuildStep::Compiling(done, of) if exactly => {
            format!("compiling, {done} of {of} files; it can be interrupted and continued")
        }
        BuildStep::Compiling(done, of) => {
            format!("compiling, {}% of {of} files", 10 * (10 * done / of.max(1)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_one_by_one_on_terminals_only() {
        let step = BuildStep::Compiling(187, 305);
        assert!(describe(step, true).starts_with("compiling, 187 of 305 files"));
        assert_eq!(describe(step, false), "compiling, 60% of 305 files");
        assert_eq!(describe(BuildStep::Compiling(0, 0), false), "compiling, 0% of 0 files");
    }
}
