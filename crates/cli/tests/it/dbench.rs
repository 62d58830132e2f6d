//! Workloads of dbench through the real binary: numbers of clients, the real program, and loads that are refused before
//! anything is formatted.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

/// A plan with hardly any idle wait.
const PLAN: &str = r#"
name = "clients"
title = "Clients of a file server"
question = "How many?"
scale = "tiny"
seed = 1
[factors]
fs = ["ext4"]
[stop]
rounds = 1
[idle]
timeout = "20ms"
dirty = "1GiB"
io_pressure_percent = 100.0
[[workload]]
use = "dbench-like"
clients = [1, 2]
seconds = 0.1
"#;

/// Makes a sandbox with [`PLAN`], in which `new` replaces `old`.
fn make_sandbox(old: &str, new: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    assert!(PLAN.contains(old));
    std::fs::write(sandbox.dir.join("plan.toml"), PLAN.replace(old, new)).unwrap();
    sandbox
}

/// The tasks of the only analysis, without mkfs, mount and unmount.
fn workload_tasks(sandbox: &Sandbox) -> Vec<Value> {
    let (json, _) = sandbox.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["analyses"][0]["metric"]["id"], "throughput");
    let tasks = report["analyses"][0]["tasks"].as_array().unwrap();
    tasks.iter().filter(|task| task["task"]["in_totals"] == true).cloned().collect()
}

#[test]
fn each_number_of_clients_has_a_throughput_by_processes_and_by_threads() {
    if !runs_as_root() {
        return;
    }
    for by in ["processes", "threads"] {
        let sandbox = make_sandbox("seconds = 0.1", &format!("seconds = 0.1\nby = \"{by}\""));
        sandbox.expect(0, &["run", "plan.toml", "--quiet"]);
        let tasks = workload_tasks(&sandbox);
        assert_eq!(tasks.len(), 2, "{tasks:?}");
        for task in tasks {
            assert!(task["variants"][0]["median_bytes_per_s"].as_f64().unwrap() > 0.0, "{task}");
        }
        let csv = sandbox.run_text("samples.csv");
        for reading in ["ntcreatex_latency_p99_ns", "flush_latency_max_ns", "read_operations_count"] {
            assert!(csv.contains(reading), "{reading}");
        }
        // The time series marks the warm-up, and has no latencies.
        let series = sandbox.run_text("series.csv");
        for warm_up in ["1", "0"] {
            let found = series.lines().any(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                fields[5] == "dbench-like[clients=2]" && fields[8] == warm_up && line.ends_with(",,,")
            });
            assert!(found, "warm_up {warm_up}: {series}");
        }
        sandbox.assert_clean();
    }
}

#[test]
fn the_real_dbench_gives_the_same_task() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("dbench") {
        return;
    }
    let sandbox = make_sandbox("use = \"dbench-like\"\nclients = [1, 2]", "use = \"dbench-tool\"\nclients = [1]");
    sandbox.expect(0, &["run", "plan.toml", "--quiet"]);
    let tasks = workload_tasks(&sandbox);
    assert_eq!(tasks[0]["task"]["id"]["name"], "dbench");
    assert!(tasks[0]["variants"][0]["median_bytes_per_s"].as_f64().unwrap() > 0.0, "{tasks:?}");
    assert!(sandbox.run_text("command.log").contains("\"--skip-cleanup\",\"-t\",\"2\""));
    sandbox.assert_clean();
}

/// Asserts that the run made no filesystem and left nothing behind.
#[track_caller]
fn assert_nothing_done(sandbox: &Sandbox) {
    assert!(!sandbox.run_text("command.log").contains("mkfs"));
    sandbox.assert_clean();
}

#[test]
fn bad_loadfiles_are_refused_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("use = \"dbench-like\"", "use = \"dbench\"\nloadfile = \"load.txt\"");
    let path = sandbox.dir.join("load.txt");
    let whole = "NTCreateX \"\\client1\" 0x40 0x2 7 NT_STATUS_OK\nClose 7 NT_STATUS_OK\n";
    for (content, code, expected) in [
        (whole.as_bytes()[..60].to_vec(), 2, "load.txt\", line 2: the file ends within this line"),
        (whole.lines().next().map(|line| format!("{line}\n")).unwrap().into_bytes(), 2, "never closed"),
        (std::fs::read("/proc/self/exe").unwrap(), 2, "line 1: it has the byte 0x7f"),
        (b"Frobnicate 7 0x0\n".to_vec(), 2, "line 1: unknown operation `Frobnicate`"),
    ] {
        std::fs::write(&path, content).unwrap();
        let (_, stderr) = sandbox.expect(code, &["run", "plan.toml"]);
        assert!(stderr.contains(expected), "{stderr}");
    }
    std::fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml"]);
    assert!(stderr.contains("10.0 GiB are too many"), "{stderr}");
    std::fs::remove_file(&path).unwrap();
    let (_, stderr) = sandbox.expect(6, &["run", "plan.toml"]);
    assert!(stderr.contains("load.txt"), "{stderr}");
    assert_nothing_done(&sandbox);
}

#[test]
fn a_thousand_clients_with_256_files_are_refused_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    for by in ["processes", "threads"] {
        let sandbox = make_sandbox("clients = [1, 2]", &format!("clients = [1000]\nby = \"{by}\""));
        let limited = ["prlimit", "--nofile=256:256", "--"];
        let output = sandbox.fsarena_under(&limited, &["run", "plan.toml"]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{stderr}");
        assert!(stderr.contains("1000 clients") && stderr.contains("256 are allowed"), "{stderr}");
        assert_nothing_done(&sandbox);
    }
}
