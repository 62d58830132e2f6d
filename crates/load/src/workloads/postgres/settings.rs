//! The settings of the workload `postgres`, and the settings of `postgresql.conf` that it contains.

use crate::task::{self, Result, TaskError};
use crate::workload::Job;
use fsarena_core::setting::{SettingDef, parse_size};
use fsarena_core::{cell::TaskInfo, names::distinct};
use std::collections::BTreeMap;

/// The settings.
pub const SETTINGS: &[SettingDef] = &[
    SettingDef::ints("scale_factors", 1..=1_000_000, &[10])
        .help("scale factors of pgbench, a database each: about 15 MB for each unit"),
    SettingDef::modes("modes", &["read-only", "simple-update"], &["read-only", "simple-update"])
        .help("transactions, each a task: pgbench -S, pgbench -N"),
    SettingDef::int("clients", 1..=10_000, 4).help("connections (pgbench -c)"),
    SettingDef::int("jobs", 0..=1024, 0).help("threads of pgbench (-j); 0 for one a CPU, and at most one a client"),
    SettingDef::choice("protocol", &["prepared", "simple", "extended"], "prepared").help("query protocol (pgbench -M)"),
    SettingDef::int("seconds", 0..=604_800, 0)
        .help("length of a task (pgbench -T); 0 for 60 s at scale paper, 5 s at quick, 1 s at tiny"),
    SettingDef::int("update_seconds", 0..=604_800, 0)
        .help("length of a task of simple-update; 0 for that of every task"),
    SettingDef::float("rate", 0.0..=1e7, 0.0)
        .help("transactions a second (pgbench -R), with latencies from when each was due; 0 for as fast as possible"),
    SettingDef::float("sampling", 1e-6..=1.0, 1.0)
        .help("share of transactions whose latency is logged (pgbench --sampling-rate)"),
    SettingDef::texts("conf").help("settings of postgresql.conf, `NAME=VALUE` each"),
];

/// The resolved settings of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct PostgresSettings {
    /// The tasks in their order.
    pub tasks: Vec<PgbenchTask>,
    /// Connections.
    pub clients: u32,
    /// Threads of pgbench.
    pub threads: u32,
    /// How queries are sent: `prepared`, `simple` or `extended`.
    pub protocol: String,
    /// Seconds of a task: of read-only, and of simple-update.
    pub seconds_by_mode: [u64; 2],
    /// Transactions a second, or `None` for as many as possible.
    pub rate_per_s: Option<f64>,
    /// Share of transactions whose latency is logged.
    pub sampling_share: f64,
    /// Settings of postgresql.conf.
    pub conf: Vec<(String, String)>,
    /// The seed of pgbench's choices.
    pub seed: u64,
}

/// One run of pgbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgbenchTask {
    /// The scale factor.
    pub scale: i64,
    /// Whether the transactions write.
    pub updates: bool,
}

impl PostgresSettings {
    /// Reads the settings of a job.
    ///
    /// # Errors
    /// If a setting of postgresql.conf is invalid, or fsarena sets it itself.
    pub fn resolve(job: &Job) -> Result<PostgresSettings> {
        let settings = &job.settings;
        let int_above_0 = |id| Some(settings.int(id) as u64).filter(|number| *number > 0);
        let seconds = job.int_or_by_scale("seconds", [60, 5, 1]);
        let clients = settings.int("clients") as u32;
        let cpu_count = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
        Ok(PostgresSettings {
            tasks: pgbench_tasks(job),
            clients,
            threads: int_above_0("jobs").map_or_else(cpu_count, |jobs| jobs as u32).min(clients),
            protocol: settings.text("protocol").into(),
            seconds_by_mode: [seconds, int_above_0("update_seconds").unwrap_or(seconds)],
            rate_per_s: Some(settings.float("rate")).filter(|rate| *rate > 0.0),
            sampling_share: settings.float("sampling"),
            conf: parse_conf(&settings.words("conf")).map_err(TaskError::Plan)?,
            seed: job.seed,
        })
    }

    /// The scale factors of the databases in the order in which they are filled. The database of the first task is
    /// last, so that the task finds its data in the page cache.
    pub fn database_scales(&self) -> impl Iterator<Item = i64> {
        distinct(self.tasks.iter().map(|task| task.scale)).into_iter().rev()
    }

    /// Seconds of a task.
    pub fn task_seconds(&self, task: PgbenchTask) -> u64 {
        self.seconds_by_mode[usize::from(task.updates)]
    }
}

/// The tasks: every mode for every scale factor, without repetitions.
pub fn pgbench_tasks(job: &Job) -> Vec<PgbenchTask> {
    let mut tasks = vec![];
    for scale in job.settings.ints("scale_factors") {
        for mode in job.settings.words("modes") {
            tasks.push(PgbenchTask { scale, updates: mode == "simple-update" });
        }
    }
    distinct(tasks)
}

impl PgbenchTask {
    /// The description of the task for reports.
    pub fn task_info(self) -> TaskInfo {
        let (name, title) = if self.updates {
            ("simple-update", "Update, select, insert and commit (pgbench -N)")
        } else {
            ("read-only", "Select by key (pgbench -S)")
        };
        task::info(name, title, [("scale", self.scale.to_string())])
    }
}

/// The name of the database with this scale factor.
pub fn database_name(scale: i64) -> String {
    format!("scale_{scale}")
}

/// Settings that fsarena requires: a socket in the data directory, which only the server's user can reach, and a log
/// with checkpoints. A server that lost a process ends, so that a recovery never falsifies a figure.
const FIXED_SETTINGS: [(&str, &str); 8] = [
    ("listen_addresses", ""),
    ("port", "5432"),
    ("unix_socket_directories", "."),
    ("log_destination", "stderr"),
    ("logging_collector", "off"),
    ("log_checkpoints", "on"),
    ("restart_after_crash", "off"),
    // Shared memory in /dev/shm would outlive a killed server.
    ("dynamic_shared_memory_type", "mmap"),
];
/// Settings that would move data away from the filesystem under test.
const PATH_SETTINGS: [&str; 4] = ["data_directory", "config_file", "hba_file", "ident_file"];
/// Settings that must be on, or else a power cut can undo commits or tear pages.
const SAFETY_SETTINGS: [&str; 3] = ["fsync", "synchronous_commit", "full_page_writes"];

/// Parses settings `NAME=VALUE`, with semicolons between several in one text.
///
/// # Errors
/// If a setting is invalid, or fsarena sets it itself.
fn parse_conf(texts: &[&str]) -> Result<Vec<(String, String)>, String> {
    let pairs = texts.iter().flat_map(|text| text.split(';')).map(str::trim).filter(|text| !text.is_empty());
    pairs.map(parse_pair).collect()
}

/// Parses and checks one setting `NAME=VALUE`.
fn parse_pair(text: &str) -> Result<(String, String), String> {
    let invalid = || format!("conf: `{text}`: write NAME=VALUE, such as shared_buffers=1GB");
    let (name, value) = text.split_once('=').ok_or_else(invalid)?;
    let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().trim_matches('\''));
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c))
        && !name.starts_with("include");
    if !is_name || value.contains(char::is_control) {
        return Err(invalid());
    }
    if PATH_SETTINGS.contains(&name.as_str()) || FIXED_SETTINGS.iter().any(|(fixed, _)| *fixed == name) {
        return Err(format!("conf: fsarena sets {name} itself; leave it out"));
    }
    Ok((name, value.into()))
}

/// Renders the lines that fsarena appends to the file that initdb wrote. If a name occurs several times, PostgreSQL
/// uses the last line.
pub fn render_conf(user_settings: &[(String, String)], clients: u32) -> String {
    let connections = ("max_connections".to_string(), (clients + 10).to_string());
    let fixed = FIXED_SETTINGS.map(|(name, value)| (name.to_string(), value.to_string()));
    let mut text = String::new();
    for (name, value) in std::iter::once(&connections).chain(user_settings).chain(&fixed) {
        // Quotes and backslashes are doubled within quotes.
        let escaped = value.replace('\\', r"\\").replace('\'', "''");
        text.push_str(&format!("{name} = '{escaped}'\n"));
    }
    text
}

/// The settings that switch off [`SAFETY_SETTINGS`], as `NAME=VALUE`. If a name occurs several times, its last value
/// counts.
pub fn weakened_settings(user_settings: &[(String, String)]) -> Vec<String> {
    let last_values: BTreeMap<&str, &str> =
        user_settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let weakened =
        last_values.into_iter().filter(|(name, value)| SAFETY_SETTINGS.contains(name) && switches_off(value));
    weakened.map(|(name, value)| format!("{name}={value}")).collect()
}

/// Whether PostgreSQL takes a value for off: `0`, or the beginning of another word for off, such as `f`.
fn switches_off(value: &str) -> bool {
    match value.to_ascii_lowercase().as_str() {
        "0" | "local" => true,
        // `o` can also be the beginning of `on`.
        "" | "o" => false,
        beginning => ["off", "false", "no"].iter().any(|word| word.starts_with(beginning)),
    }
}

/// The setting `max_wal_size` in bytes, the soft limit of the write-ahead log: 1 GiB by default. A number without a
/// unit is in MiB.
pub fn max_wal_bytes(user_settings: &[(String, String)]) -> u64 {
    let max_wal_size =
        user_settings.iter().rev().find(|(name, _)| name == "max_wal_size").map(|(_, value)| value.as_str());
    let parse_bytes = |text: &str| match text.parse::<u64>() {
        Ok(megabytes) => Some(megabytes << 20),
        // PostgreSQL's units are powers of 1024: its `1GB` is 1 GiB.
        Err(_) => parse_size(text.strip_suffix('B').unwrap_or(text)).ok(),
    };
    max_wal_size.and_then(parse_bytes).unwrap_or(1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_required_settings_come_last_and_cannot_be_set() {
        let user_settings =
            parse_conf(&["shared_buffers = '1GB'", "wal_recycle=off; archive_command=cp 'a' \\b"]).unwrap();
        let text = render_conf(&user_settings, 16);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "max_connections = '26'",
                "shared_buffers = '1GB'",
                "wal_recycle = 'off'",
                r"archive_command = 'cp ''a'' \\b'"
            ]
        );
        assert_eq!(lines.last(), Some(&"dynamic_shared_memory_type = 'mmap'"));
        assert!(parse_conf(&["port=1"]).unwrap_err().contains("fsarena sets port itself"));
        assert!(parse_conf(&["Data_Directory=/"]).is_err());
        for invalid in ["fsync", "=on", "a b=1", "include=/etc/x", "work_mem=1\nport=2"] {
            assert!(parse_conf(&[invalid]).unwrap_err().contains("write NAME=VALUE"), "{invalid}");
        }
    }

    #[test]
    fn the_size_of_the_write_ahead_log_and_weakened_settings_are_found() {
        let user_settings = |text: &str| parse_conf(&[text]).unwrap();
        assert_eq!(max_wal_bytes(&user_settings("max_wal_size=64GB")), 64 << 30);
        assert_eq!(max_wal_bytes(&user_settings("max_wal_size=80")), 80 << 20);
        assert_eq!(max_wal_bytes(&[]), 1 << 30);
        assert_eq!(weakened_settings(&user_settings("fsync=off;full_page_writes=on")), ["fsync=off"]);
        assert_eq!(weakened_settings(&user_settings("fsync=off;fsync=on")), [""; 0]);
        for off in ["off", "OF", "f", "False", "no", "n", "0"] {
            assert_eq!(weakened_settings(&user_settings(&format!("fsync={off}"))), [format!("fsync={off}")]);
        }
        for on in ["on", "true", "t", "yes", "1"] {
            assert_eq!(weakened_settings(&user_settings(&format!("fsync={on}"))), [""; 0], "{on}");
        }
    }

    proptest! {
        #[test]
        fn a_value_stays_within_its_line_and_quotes(value in "[^;=\\pC]{0,20}") {
            let user_settings = parse_conf(&[&format!("work_mem={value}")]).unwrap();
            let text = render_conf(&user_settings, 1);
            let line = text.lines().nth(1).unwrap();
            let inside = line.strip_prefix("work_mem = '").unwrap().strip_suffix('\'').unwrap();
            prop_assert!(!inside.replace("''", "").contains('\''), "{}", line);
        }
    }
}
