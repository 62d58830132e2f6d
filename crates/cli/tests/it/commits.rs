//! The workloads that count durable commits, through the real binary: a log, a database and mail.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

/// All three workloads at their smallest.
const COMMITTING_WORKLOADS: &str = r#"
[[workload]]
use = "wal"
clients = [4]
rates = [0, 400]
operations = 40
[[workload]]
use = "sqlite"
journal = ["wal"]
operations = 10
rows = 100
[[workload]]
use = "maildir"
messages = 40
"#;
/// The workload of the plan of a sandbox.
const PLAN_WORKLOAD: &str = "\n[[workload]]\nuse = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]\n";
/// The tasks that commit, by name and parameters.
const COMMIT_TASKS: [&str; 5] = [
    "deliver clients=4 rate=max",
    "insert journal=wal rate=max synchronous=full",
    "update journal=wal rate=max synchronous=full",
    "wal clients=4 rate=400",
    "wal clients=4 rate=max",
];

/// The name and the parameters of a task.
fn task_name(task: &Value) -> String {
    let id = &task["task"]["id"];
    let params = id["params"].as_object().unwrap().iter();
    let params: String = params.map(|(name, value)| format!(" {name}={}", value.as_str().unwrap())).collect();
    format!("{}{params}", id["name"].as_str().unwrap())
}

#[test]
fn commits_have_a_rate_and_quantiles_that_claims_can_name() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan(PLAN_WORKLOAD, COMMITTING_WORKLOADS);
    // One round cannot decide the claim.
    let claim = "wal.latency_p999[rate=400]: xfs < ext4 by 10%";
    let (_, stderr) =
        sandbox.expect(4, &["run", "plan.toml", "--fs", "ext4,xfs", "--claim", claim, "--rounds", "1", "--quiet"]);
    assert!(!stderr.contains("failed"), "{stderr}");
    sandbox.assert_clean();
    let report: Value = serde_json::from_str(&sandbox.run_text("report.json")).unwrap();
    let analyses = report["analyses"].as_array().unwrap();
    let commits = analyses.iter().find(|analysis| analysis["metric"]["id"] == "commits_per_s").unwrap();
    let mut tasks: Vec<String> = commits["tasks"].as_array().unwrap().iter().map(task_name).collect();
    tasks.sort();
    assert_eq!(tasks, COMMIT_TASKS);
    for chart in ["latency-commit", "latency-corrected", "latency-read"] {
        assert!(sandbox.run_file(&format!("report-charts/{chart}.svg")).is_some(), "{chart}");
    }
    let samples = sandbox.run_text("samples.csv");
    let heads: Vec<&str> = samples.lines().next().unwrap().split(',').collect();
    for column in ["all_operations_count", "commit_latency_p999_ns", "latency_p99_s", "commits_per_s"] {
        assert!(heads.contains(&column), "{heads:?}");
    }
    let (_, stderr) =
        sandbox.expect(2, &["run", "plan.toml", "--fs", "ext4", "--claim", "wal.latency_p999: best is ext4"]);
    assert!(stderr.contains("several tasks have this name"), "{stderr}");
}

#[test]
fn commits_are_counted_in_a_guest_and_in_a_directory() {
    if !runs_as_root() || !has_programs(&["qemu-system-x86_64"]) || find_debian_kernel("6.1", "-cloud-amd64").is_none()
    {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan(PLAN_WORKLOAD, COMMITTING_WORKLOADS);
    let nobody = Nobody::within(&sandbox);
    std::fs::copy(sandbox.dir.join("plan.toml"), nobody.home.join("plan.toml")).unwrap();
    let dir = nobody.dir("work");
    let on_qemu = ["run", "plan.toml", "--on", "qemu", "--kernel", "debian:6.1-cloud", "--full", "--runs", "guest"];
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| nobody.expect(0, &on_qemu));
        let on = format!("dir:{}", dir.display());
        let (shown, _) = nobody.expect(0, &["run", "plan.toml", "--on", &on, "--runs", "dir", "--full"]);
        assert!(shown.contains("Deliver messages") && shown.contains("Checkpoint"), "{shown}");
        let (shown, _) = guest.join().unwrap();
        assert!(shown.contains("Deliver messages") && shown.contains("Checkpoint"), "{shown}");
    });
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}
