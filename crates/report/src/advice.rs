//! The texts of the commands that reports advise, some of them in backquotes. No other file of this crate writes a command or
//! a flag.

/// The command that prints a report; its help lists the options.
pub const REPORT_COMMAND: &str = "`fsarena report`";
/// The command that exports the samples of a run.
pub const EXPORT_COMMAND: &str = "`fsarena report RUN --export csv=FILE`";
/// The command that runs PostgreSQL's benchmark.
pub const POSTGRES_COMMAND: &str = "`fsarena run postgres`";
/// The command that merges the shards of a run.
pub const MERGE_COMMAND: &str = "fsarena merge RUN…";
/// The command that measures which differences this machine can detect.
pub const SELFTEST_COMMAND: &str = "fsarena selftest --here";
/// The command that checks a bundle of runs.
pub const VERIFY_COMMAND: &str = "fsarena verify FILE.tar.zst";

/// The command that prints the report of a run.
pub fn report_command(run: &str) -> String {
    format!("`fsarena report {run}`")
}

/// The command that prints the full report of a run.
pub fn full_report_command(run: &str) -> String {
    format!("fsarena report {run} --full")
}

/// The command that prints all samples of a run.
pub fn samples_command(run: &str) -> String {
    format!("`fsarena report {run} --format csv`")
}

/// The command that writes a Markdown report of a run, and its charts to a folder.
pub fn charts_command(run: &str) -> String {
    format!("`fsarena report {run} --format md --export svg=charts`")
}

/// The command that lists all anomalies of a run.
pub fn anomalies_command(run: &str) -> String {
    format!("`fsarena analyse {run}`")
}

/// The command that repeats runs from the plans in these directories.
pub fn repeat_command(directories: &[&str]) -> String {
    match directories {
        [directory] => format!("fsarena run {directory}/plan.toml"),
        _ => r#"for plan in runs/*/plan.toml; do fsarena run "$plan"; done"#.into(),
    }
}
