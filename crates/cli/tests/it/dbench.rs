//! dbench's loads through the real binary: sweeps of clients, the real tool, and what is refused before anything is
//! formatted.

use crate::common::{Place, root};
use serde_json::Value;

/// Nothing waits for quiet.
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

fn place(from: &str, to: &str) -> Place {
    let place = Place::new();
    assert!(PLAN.contains(from));
    std::fs::write(place.dir.join("plan.toml"), PLAN.replace(from, to)).unwrap();
    place
}

/// The only analysis, without what every filesystem goes through.
fn steps(place: &Place) -> Vec<Value> {
    let (json, _) = place.expect(0, &["report", "--format", "json"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["analyses"][0]["metric"]["id"], "throughput");
    let tasks = report["analyses"][0]["tasks"].as_array().unwrap();
    tasks.iter().filter(|task| task["task"]["in_totals"] == true).cloned().collect()
}

#[test]
fn each_number_of_clients_has_a_throughput_by_processes_and_by_threads() {
    if !root() {
        return;
    }
    for by in ["processes", "threads"] {
        let place = place("seconds = 0.1", &format!("seconds = 0.1\nby = \"{by}\""));
        place.expect(0, &["run", "plan.toml", "--quiet"]);
        let tasks = steps(&place);
        assert_eq!(tasks.len(), 2, "{tasks:?}");
        for task in tasks {
            assert!(task["variants"][0]["median_bytes_per_s"].as_f64().unwrap() > 0.0, "{task}");
        }
        let csv = place.run_text("samples.csv");
        for reading in ["ntcreatex_latency_p99_ns", "flush_latency_max_ns", "read_operations_count"] {
            assert!(csv.contains(reading), "{reading}");
        }
        // What clients did over time is told, the warm-up apart, and without latencies.
        let series = place.run_text("series.csv");
        for warm_up in ["1", "0"] {
            let found = series.lines().any(|line| {
                let fields: Vec<&str> = line.split(',').collect();
                fields[5] == "dbench-like[clients=2]" && fields[8] == warm_up && line.ends_with(",,,")
            });
            assert!(found, "warm_up {warm_up}: {series}");
        }
        place.assert_clean();
    }
}

#[test]
fn the_real_dbench_gives_the_same_task() {
    if !root() || !fsarena_sys::testkit::program("dbench") {
        return;
    }
    let place = place("use = \"dbench-like\"\nclients = [1, 2]", "use = \"dbench-tool\"\nclients = [1]");
    place.expect(0, &["run", "plan.toml", "--quiet"]);
    let tasks = steps(&place);
    assert_eq!(tasks[0]["task"]["id"]["name"], "dbench");
    assert!(tasks[0]["variants"][0]["median_bytes_per_s"].as_f64().unwrap() > 0.0, "{tasks:?}");
    assert!(place.run_text("command.log").contains("\"--skip-cleanup\",\"-t\",\"2\""));
    place.assert_clean();
}

/// Asserts that the run made no filesystem and left nothing behind.
#[track_caller]
fn assert_nothing_done(place: &Place) {
    assert!(!place.run_text("command.log").contains("mkfs"));
    place.assert_clean();
}

#[test]
fn bad_loadfiles_are_refused_before_anything_is_made() {
    if !root() {
        return;
    }
    let place = place("use = \"dbench-like\"", "use = \"dbench\"\nloadfile = \"load.txt\"");
    let path = place.dir.join("load.txt");
    let whole = "NTCreateX \"\\client1\" 0x40 0x2 7 NT_STATUS_OK\nClose 7 NT_STATUS_OK\n";
    for (content, code, expected) in [
        (whole.as_bytes()[..60].to_vec(), 2, "load.txt\", line 2: the file ends within this line"),
        (whole.lines().next().map(|line| format!("{line}\n")).unwrap().into_bytes(), 2, "never closed"),
        (std::fs::read("/proc/self/exe").unwrap(), 2, "line 1: it has the byte 0x7f"),
        (b"Frobnicate 7 0x0\n".to_vec(), 2, "line 1: unknown operation `Frobnicate`"),
    ] {
        std::fs::write(&path, content).unwrap();
        let (_, said) = place.expect(code, &["run", "plan.toml"]);
        assert!(said.contains(expected), "{said}");
    }
    std::fs::File::create(&path).unwrap().set_len(10 << 30).unwrap();
    let (_, said) = place.expect(2, &["run", "plan.toml"]);
    assert!(said.contains("10.0 GiB are too many"), "{said}");
    std::fs::remove_file(&path).unwrap();
    let (_, said) = place.expect(6, &["run", "plan.toml"]);
    assert!(said.contains("load.txt"), "{said}");
    assert_nothing_done(&place);
}

#[test]
fn a_thousand_clients_with_256_files_are_refused_before_anything_is_made() {
    if !root() {
        return;
    }
    for by in ["processes", "threads"] {
        let place = place("clients = [1, 2]", &format!("clients = [1000]\nby = \"{by}\""));
        let limited = ["prlimit", "--nofile=256:256", "--"];
        let output = place.started_by(&limited, &["run", "plan.toml"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("1000 clients") && said.contains("256 are allowed"), "{said}");
        assert_nothing_done(&place);
    }
}
