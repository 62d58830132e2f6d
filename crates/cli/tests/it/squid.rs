//! The web caches through the real binary: the native model, filebench's personality, the real squid, and the study.

use crate::common::{self, Place, root};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// A place that other users may pass through, with a plan of this workload.
pub fn place(workload: &str) -> Place {
    let place = Place::new();
    std::fs::set_permissions(&place.dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    place.edit_plan(
        "[[workload]]\nuse = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]\n",
        &format!("[[workload]]\n{workload}"),
    );
    place
}

/// The median of a metric on a task's only variant.
#[track_caller]
pub fn median(place: &Place, metric: &str, task: &str) -> f64 {
    let (json, _) = place.expect(0, &["report", "--format", "json", "--metric", metric]);
    let report: Value = serde_json::from_str(&json).unwrap();
    let tasks = report["analyses"][0]["tasks"].as_array().unwrap();
    let named = |found: &&Value| found["task"]["id"]["name"] == task || found["task"]["id"] == task;
    let variant = &tasks.iter().find(named).unwrap_or_else(|| panic!("{task}: {report:#}"))["variants"][0];
    let median = variant.as_object().unwrap().iter().find(|(key, _)| key.starts_with("median"));
    median.unwrap().1.as_f64().unwrap()
}

#[test]
fn the_native_model_serves_what_is_due() {
    if !root() {
        return;
    }
    let place = place(
        "use = \"proxy-cache\"\nrates = 200\nthreads = 4\nseconds = 0.5\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n",
    );
    place.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    place.assert_clean();
    // 100 are due; Poisson, so a standard deviation of 10.
    let requests = median(&place, "requests_count", "serve");
    assert!((40.0..=160.0).contains(&requests), "{requests}");
    assert!(median(&place, "cpu_per_request", "serve") > 0.0);
    let hits = median(&place, "hit_ratio", "serve");
    assert!(hits > 0.1 && hits < 0.9, "{hits}");
}

#[test]
fn webproxy_says_that_its_data_set_shrinks() {
    if !root() {
        return;
    }
    let place = place("use = \"webproxy\"\nfiles = 50\nthreads = 4\nseconds = 0.3\n");
    let (printed, _) = place.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    assert!(printed.contains("data set shrinks"), "{printed}");
    assert!(median(&place, "file_mean_bytes", "webproxy") < 16_384.0);
    assert!(median(&place, "flowops_per_s", "webproxy") > 0.0);
}

#[test]
fn the_real_squid_serves_from_each_store_and_leaves_nothing() {
    if !root() || !fsarena_sys::testkit::program("squid") {
        return;
    }
    for store in ["aufs", "ufs", "rock"] {
        let place = place(&format!(
            "use = \"squid\"\nstore = \"{store}\"\nrates = [100, 0]\nseconds = 1\nclients = 4\n\
             cache_bytes = 2097152\nl1 = 2\nl2 = 4\n"
        ));
        place.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
        place.assert_clean();
        for task in ["fill", "cold", "serve"] {
            assert_eq!(median(&place, "failed_count", task), 0.0, "{store} {task}");
            assert!(median(&place, "cpu_per_request", task) > 0.0, "{store} {task}");
        }
        // How many depends on the machine: where it is busy, squid fetches again instead of waiting for its disk.
        assert!(median(&place, "hit_ratio", "cold") > 0.0, "{store}: the cache survives a restart");
        assert!(median(&place, "client_cpu_ns", "serve") > 0.0);
    }
}

#[test]
fn a_killed_run_leaves_no_squid() {
    if !root() || !fsarena_sys::testkit::program("squid") {
        return;
    }
    for signal in [rustix::process::Signal::KILL, rustix::process::Signal::TERM] {
        let place = place("use = \"squid\"\nrates = 50\nseconds = 60\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n");
        let mut run = place.fsarena(&["run", "plan.toml", "--quiet", "--on", "ram"]).spawn().unwrap();
        let squid = loop {
            assert!(run.try_wait().unwrap().is_none(), "it ended before squid was there");
            match place.process("-N") {
                Some(pid) => break pid,
                None => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        };
        rustix::process::kill_process(rustix::process::Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        // The kernel ends it when its parent has gone.
        common::gate::wait_until("squid is gone", || !place.processes().contains(&squid));
        if signal == rustix::process::Signal::KILL {
            place.expect(0, &["recover"]);
        }
        place.assert_clean();
    }
}

#[test]
fn without_squid_the_package_to_install_is_named() {
    if !root() {
        return;
    }
    let place = place("use = \"squid\"\n");
    let output = place.without("squid", &["run", "plan.toml", "--on", "ram"]).output().unwrap();
    let said = common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{said}");
    assert!(said.contains("not installed: squid;") && said.contains("on Debian: "), "{said}");
    assert!(!place.runs().exists());
}

#[test]
fn wilton_takes_the_filesystems_that_are_here() {
    if !root() {
        return;
    }
    let place = Place::new();
    let (plan, _) = place.expect(0, &["run", "wilton", "--dry-run", "--scale", "tiny"]);
    assert!(plan.contains("ext3") && plan.contains("data=writeback"), "{plan}");
    let (_, said) = place.expect(2, &["run", "wilton", "--fs", "vfat", "--dry-run"]);
    assert!(said.contains("names its variants"), "{said}");
    let args = ["run", "wilton", "--scale", "tiny", "--fs", "ext3,ext4", "--on", "ram", "--quiet"];
    place.expect(0, &args);
    let (csv, _) = place.expect(0, &["report", "--format", "csv"]);
    for variant in ["ext3", "ext4"] {
        let of_variant = |line: &&str| line.contains("serve[rate=") && line.contains(&format!(",{variant},"));
        assert_eq!(csv.lines().filter(of_variant).count(), 3, "{variant}: {csv}");
    }
    place.assert_clean();
}
