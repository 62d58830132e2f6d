//! The commands that reports advise. No other file of this crate writes a command or a flag.

/// Shows every option of a report that a message names.
pub const REPORT: &str = "`fsarena report`";
/// Exports the samples of a run.
pub const EXPORT_SAMPLES: &str = "`fsarena report RUN --export csv=FILE`";
/// Runs PostgreSQL's benchmark.
pub const RUN_POSTGRES: &str = "`fsarena run postgres`";
/// Merges the shards of a run.
pub const MERGE: &str = "fsarena merge RUN…";
/// Measures which differences this machine can detect.
pub const MEASURE_RESOLUTION: &str = "fsarena selftest --here";
/// Checks a bundle of runs.
pub const VERIFY_BUNDLE: &str = "fsarena verify FILE.tar.zst";

/// The command that prints the report of a run.
pub fn print_report(run: &str) -> String {
    format!("`fsarena report {run}`")
}

/// The command that prints the full report of a run.
pub fn print_full_report(run: &str) -> String {
    format!("fsarena report {run} --full")
}

/// The command that prints all samples of a run.
pub fn print_samples(run: &str) -> String {
    format!("`fsarena report {run} --format csv`")
}

/// The command that writes a Markdown report of a run, and its charts to a folder.
pub fn draw_charts(run: &str) -> String {
    format!("`fsarena report {run} --format md --export svg=charts`")
}

/// The command that lists all anomalies of a run.
pub fn list_anomalies(run: &str) -> String {
    format!("`fsarena analyse {run}`")
}

/// The command that repeats runs from the plans in these directories.
pub fn repeat_runs(directories: &[&str]) -> String {
    match directories {
        [directory] => format!("fsarena run {directory}/plan.toml"),
        _ => r#"for plan in runs/*/plan.toml; do fsarena run "$plan"; done"#.into(),
    }
}
