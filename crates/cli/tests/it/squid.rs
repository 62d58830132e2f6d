//! The web caches: the native model, the workload of filebench, the real squid, and the study.

use crate::common::{self, Sandbox, runs_as_root};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// Makes a sandbox with a plan of this workload. Other users may enter its directory.
pub fn make_sandbox(workload: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::set_permissions(&sandbox.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.edit_plan(
        "[[workload]]\nuse = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]\n",
        &format!("[[workload]]\n{workload}"),
    );
    sandbox
}

/// The median of a metric of the only variant, in a task.
#[track_caller]
pub fn median(sandbox: &Sandbox, metric: &str, task: &str) -> f64 {
    let (json, _) = sandbox.expect(0, &["report", "--format", "json", "--metric", metric]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let tasks = report["analyses"][0]["tasks"].as_array().unwrap();
    let has_name = |entry: &&Value| entry["task"]["id"]["name"] == task || entry["task"]["id"] == task;
    let variant = &tasks.iter().find(has_name).unwrap_or_else(|| panic!("{task}: {report:#}"))["variants"][0];
    let median = variant.as_object().unwrap().iter().find(|(key, _)| key.starts_with("median"));
    median.unwrap().1.as_f64().unwrap()
}

#[test]
fn the_native_model_serves_requests_at_the_rate() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox(
        "use = \"proxy-cache\"\nrates = 200\nthreads = 4\nseconds = 0.5\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n",
    );
    sandbox.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    sandbox.assert_clean();
    // 100 requests are expected. The distribution is Poisson, with a standard deviation of 10.
    let requests = median(&sandbox, "requests_count", "serve");
    assert!((40.0..=160.0).contains(&requests), "{requests}");
    assert!(median(&sandbox, "cpu_per_request", "serve") > 0.0);
    let hits = median(&sandbox, "hit_ratio", "serve");
    assert!(hits > 0.1 && hits < 0.9, "{hits}");
}

#[test]
fn webproxy_reports_that_its_data_set_shrinks() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("use = \"webproxy\"\nfiles = 50\nthreads = 4\nseconds = 0.3\n");
    let (printed, _) = sandbox.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    assert!(printed.contains("data set shrinks"), "{printed}");
    assert!(median(&sandbox, "file_mean_bytes", "webproxy") < 16_384.0);
    assert!(median(&sandbox, "flowops_per_s", "webproxy") > 0.0);
}

#[test]
fn the_real_squid_serves_from_each_store_and_leaves_nothing() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("squid") {
        return;
    }
    for store in ["aufs", "ufs", "rock"] {
        let sandbox = make_sandbox(&format!(
            "use = \"squid\"\nstore = \"{store}\"\nrates = [100, 0]\nseconds = 1\nclients = 4\n\
             cache_bytes = 2097152\nl1 = 2\nl2 = 4\n"
        ));
        sandbox.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
        sandbox.assert_clean();
        for task in ["fill", "cold", "serve"] {
            assert_eq!(median(&sandbox, "failed_count", task), 0.0, "{store} {task}");
            assert!(median(&sandbox, "cpu_per_request", task) > 0.0, "{store} {task}");
        }
        // The ratio depends on the machine: on a busy one, squid fetches again instead of waiting for its disk.
        assert!(median(&sandbox, "hit_ratio", "cold") > 0.0, "{store}: the cache survives a restart");
        assert!(median(&sandbox, "client_cpu_ns", "serve") > 0.0);
    }
}

#[test]
fn a_killed_run_leaves_no_squid() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("squid") {
        return;
    }
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let sandbox =
            make_sandbox("use = \"squid\"\nrates = 50\nseconds = 60\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n");
        let mut run = sandbox.fsarena(&["run", "plan.toml", "--quiet", "--on", "ram"]).spawn().unwrap();
        let squid = loop {
            assert!(run.try_wait().unwrap().is_none(), "the run ended before squid started");
            match sandbox.process_running("-N") {
                Some(pid) => break pid,
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        rustix::process::kill_process(rustix::process::Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        // The kernel ends squid after its parent.
        common::gate::wait_until("squid is gone", || !sandbox.processes().contains(&squid));
        if signal == rustix::process::Signal::KILL {
            sandbox.expect(0, &["recover"]);
        }
        sandbox.assert_clean();
    }
}

#[test]
fn without_squid_the_package_to_install_is_named() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("use = \"squid\"\n");
    let output = sandbox.fsarena_without("squid", &["run", "plan.toml", "--on", "ram"]).output().unwrap();
    let stderr = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{stderr}");
    assert!(stderr.contains("not installed: squid;") && stderr.contains("on Debian: "), "{stderr}");
    assert!(!sandbox.runs_dir().exists());
}

#[test]
fn wilton_uses_the_installed_filesystems() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let (plan, _) = sandbox.expect(0, &["run", "wilton", "--dry-run", "--scale", "tiny"]);
    assert!(plan.contains("ext3") && plan.contains("data=writeback"), "{plan}");
    let (_, stderr) = sandbox.expect(2, &["run", "wilton", "--fs", "vfat", "--dry-run"]);
    assert!(stderr.contains("names its variants"), "{stderr}");
    let args = ["run", "wilton", "--scale", "tiny", "--fs", "ext3,ext4", "--on", "ram", "--quiet"];
    sandbox.expect(0, &args);
    let (csv, _) = sandbox.expect(0, &["report", "--format", "csv"]);
    for variant in ["ext3", "ext4"] {
        let of_variant = |line: &&str| line.contains("serve[rate=") && line.contains(&format!(",{variant},"));
        assert_eq!(csv.lines().filter(of_variant).count(), 3, "{variant}: {csv}");
    }
    sandbox.assert_clean();
}
