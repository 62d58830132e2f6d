//! `fsarena watch`: counters of every kind, and their failures.

use crate::common::service::{AnswerKind, Service};
use crate::common::{self, Sandbox};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::{cell::Cell, path::Path};

/// Arguments of a watch of six short windows.
const SHORT_ARGS: [&str; 8] = ["--window", "200ms", "--every", "50ms", "--windows", "6", "--format", "json"];

fn parse_windows(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a watch of six short windows, and returns them.
fn watch(sandbox: &Sandbox, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["watch"].iter().chain(&SHORT_ARGS).chain(args).copied().collect();
    parse_windows(&sandbox.expect(0, &args).0)
}

fn requests(window: &Value) -> Option<f64> {
    window["readings"]["requests_count"].as_f64()
}

fn marks(windows: &[Value]) -> String {
    windows.iter().map(|window| window["marks"].to_string()).collect()
}

/// A running watch. It prints each window at its end.
struct RunningWatch {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl RunningWatch {
    fn start(sandbox: &Sandbox, args: &[&str]) -> RunningWatch {
        let args: Vec<&str> =
            ["watch", "--window", "200ms", "--every", "50ms", "--format", "json"].iter().chain(args).copied().collect();
        let mut child = sandbox.fsarena(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        RunningWatch { child, lines }
    }

    fn next_window(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// Waits for a window that has a property. Panics if none of the next 40 has it.
    #[track_caller]
    fn wait_for_window(&mut self, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let mut others = vec![];
        for _ in 0..40 {
            let window = self.next_window();
            if is_wanted(&window) {
                return window;
            }
            others.push(window);
        }
        panic!("none of {others:#?}");
    }

    /// Sends a signal, and waits for the end.
    fn end_by(mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        self.lines.by_ref().for_each(drop);
        self.child.wait().unwrap()
    }
}

impl Drop for RunningWatch {
    /// Ends the watch, so that a failed test leaves nothing behind either.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn has_mark(window: &Value, words: &str) -> bool {
    window["marks"].to_string().contains(words)
}

/// The marks of a window, without those for a machine that other tests kept busy.
fn disturbances(window: &Value) -> Vec<&Value> {
    let marks = window["marks"].as_array().unwrap().iter();
    marks.filter(|mark| !mark.to_string().contains("the machine was too busy")).collect()
}

/// The windows without marks, at least one. While other tests keep the machine busy, a counter may answer too late; then
/// the window has no count and a mark.
#[track_caller]
fn unmarked(windows: &[Value]) -> Vec<&Value> {
    let unexplained = windows.iter().find(|window| requests(window).is_none() && !has_mark(window, "requests unknown"));
    assert_eq!(unexplained, None, "it has no count and no mark for that");
    let unmarked: Vec<&Value> = windows.iter().filter(|window| window["marks"] == serde_json::json!([])).collect();
    assert!(!unmarked.is_empty(), "{windows:#?}");
    unmarked
}

#[test]
fn requests_are_counted_and_stored_in_each_window() {
    let sandbox = Sandbox::new();
    let service = Service::start(AnswerKind::Counting);
    let own_pid = std::process::id().to_string();
    let path = sandbox.dir.display().to_string();
    let args = ["--squid", &service.address, "--service", &own_pid, "--path", &path, "--name", "ext4"];
    let windows = watch(&sandbox, &args);
    assert_eq!(windows.len(), 6);
    for window in unmarked(&windows) {
        // Reading the counter is a request too: at most four times within a window, and once at its end.
        let requests = requests(window).unwrap();
        assert!((1.0..=10.0).contains(&requests), "{window}");
    }
    for window in &windows {
        for id in ["machine_cpu_ns", "machine_user_ns", "iowait_ns", "service_cpu_ns", "cached_at_return_bytes"] {
            assert!(window["readings"][id].is_f64(), "{id}: {window}");
        }
    }
    // The windows are stored as a run.
    let (csv, _) = sandbox.expect(0, &["report", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 6, "{csv}");
    assert!(csv.contains("requests_count") && csv.contains("ext4"), "{csv}");
    let (listed, _) = sandbox.expect(0, &["list", "runs"]);
    assert!(listed.contains("watch-ext4"), "{listed}");
}

#[test]
fn every_kind_of_counter_is_read() {
    let sandbox = Sandbox::new();
    let service = Service::start(AnswerKind::Counting);
    let url = format!("http://{}/metrics", service.address);
    let windows = watch(&sandbox, &["--prometheus", &url, "--series", "requests_total{code=\"200\"}"]);
    assert!(unmarked(&windows).into_iter().all(|window| requests(window).unwrap() >= 1.0), "{windows:#?}");

    let number = sandbox.dir.join("number");
    std::fs::write(&number, "17\n").unwrap();
    let number = number.display().to_string();
    let windows = watch(&sandbox, &["--", "cat", &number]);
    assert!(unmarked(&windows).into_iter().all(|window| requests(window) == Some(0.0)), "{windows:#?}");

    let without_counter = watch(&sandbox, &["--path", "home"]);
    assert!(
        without_counter.iter().all(|window| requests(window).is_none() && disturbances(window).is_empty()),
        "{without_counter:#?}"
    );
}

#[test]
fn failures_of_a_counter_mark_windows_and_do_not_end_the_watch() {
    for (answer, words) in [
        (AnswerKind::Closed, "refused"),
        (AnswerKind::Hangs, "no whole answer"),
        (AnswerKind::Endless, "4 MiB"),
        (AnswerKind::Html, "<html>"),
    ] {
        let sandbox = Sandbox::new();
        let service = Service::start(answer);
        let windows = watch(&sandbox, &["--squid", &service.address]);
        assert_eq!(windows.len(), 6, "{answer:?}");
        assert!(marks(&windows).contains(words), "{answer:?}: {}", marks(&windows));
        assert!(windows.iter().all(|window| requests(window).is_none()));
        assert!(windows.iter().all(|window| window["readings"]["machine_cpu_ns"].is_f64()));
    }
}

#[test]
fn a_restarted_service_is_marked_and_counted_again() {
    let sandbox = Sandbox::new();
    let service = Service::start(AnswerKind::Counting);
    service.set_count(1_000_000);
    let mut running = RunningWatch::start(&sandbox, &["--squid", &service.address]);
    running.wait_for_window(|window| requests(window).is_some());
    service.set_count(0);
    let marked = running.wait_for_window(|window| has_mark(window, "went back"));
    assert!(marked["marks"].as_array().unwrap().iter().any(|mark| mark["left_out"] == true), "{marked}");
    let after = running.wait_for_window(|window| window["marks"].as_array().unwrap().is_empty());
    assert!(requests(&after).unwrap() >= 1.0);

    service.set_silent(true);
    running.wait_for_window(|window| has_mark(window, "did not answer"));
    service.set_silent(false);
    running.wait_for_window(|window| window["marks"].as_array().unwrap().is_empty() && requests(window).is_some());
    assert!(!running.end_by(rustix::process::Signal::TERM).success());
}

#[test]
fn a_log_is_followed_over_rotation() {
    let sandbox = Sandbox::new();
    let log = sandbox.dir.join("access.log");
    let append = |path: &Path, line_count: u32| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        (0..line_count).for_each(|_| file.write_all(b"GET /\n").unwrap());
    };
    append(&log, 100);
    let mut running = RunningWatch::start(&sandbox, &["--log", log.to_str().unwrap()]);
    running.next_window();
    append(&log, 5);
    std::fs::rename(&log, sandbox.dir.join("access.log.1")).unwrap();
    append(&log, 7);
    // The lines before and after the rotation may be in one window or in two.
    let sum = Cell::new(0.0);
    running.wait_for_window(|window| {
        assert_eq!(disturbances(window), Vec::<&Value>::new(), "a rotation marks no window");
        sum.set(sum.get() + requests(window).unwrap());
        sum.get() >= 12.0
    });
    assert_eq!(sum.get(), 12.0);
    running.end_by(rustix::process::Signal::INT);
}

#[test]
fn a_killed_watch_is_resumed() {
    let sandbox = Sandbox::new();
    let service = Service::start(AnswerKind::Counting);
    let mut running = RunningWatch::start(&sandbox, &["--squid", &service.address, "--name", "here"]);
    let last = (0..3).map(|_| running.next_window()).last().unwrap()["window"].as_u64().unwrap();
    running.end_by(rustix::process::Signal::KILL);

    let (printed, _) = sandbox.expect(0, &["watch", "--resume", "latest", "--windows", "6", "--format", "json"]);
    let windows = parse_windows(&printed);
    assert!(windows[0]["window"].as_u64().unwrap() > last, "{printed}");
    // The counter is that of the stored plan.
    assert!(unmarked(&windows[1..]).into_iter().all(|window| requests(window).unwrap() >= 1.0), "{printed}");
    let rows = sandbox.rows("latest");
    assert!(
        rows.len() as u64 >= last + 7 && rows.iter().all(|(_, variant, task)| variant == "here" && task == "window")
    );
    assert_eq!(std::fs::read_dir(sandbox.runs_dir()).unwrap().count(), 1);
}

#[test]
fn a_watch_that_cannot_start_reports_the_reason() {
    let sandbox = Sandbox::new();
    let prometheus_args = ["watch", "--prometheus", "https://a/metrics", "--series", "x"];
    for args in [&["watch", "--squid", "https://a/"][..], &prometheus_args] {
        let (_, stderr) = sandbox.expect(2, args);
        assert!(stderr.contains("over http only") && stderr.contains("http://localhost"), "{stderr}");
    }
    let (_, stderr) = sandbox.expect(2, &["watch", "--path", "/nowhere"]);
    assert!(stderr.contains("/nowhere"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["watch", "--device-operations"]);
    assert!(stderr.contains("--path DIR"), "{stderr}");
    sandbox.expect(2, &["watch", "--squid", "a:1", "--log", "b"]);
    let service = Service::start(AnswerKind::Counting);
    let url = format!("http://{}/metrics", service.address);
    let (_, stderr) = sandbox.expect(2, &["watch", "--prometheus", &url, "--series", "request_total"]);
    assert!(stderr.contains("Unknown metric `request_total`. Did you mean `requests_total`?"), "{stderr}");
    let (_, stderr) = sandbox.expect(6, &["watch", "--", "no-such-program"]);
    assert!(stderr.contains("no-such-program is not installed"), "{stderr}");
    let plan = sandbox.dir.join("plan.toml").display().to_string();
    let (_, stderr) = sandbox.expect(2, &["watch", "--", &plan]);
    assert!(stderr.contains("plan.toml cannot be executed: user "), "{stderr}");
    assert!(!sandbox.runs_dir().exists(), "nothing is made for a refused watch");
}

#[test]
fn a_source_without_data_is_reported_at_the_start() {
    let sandbox = Sandbox::new();
    let service = Service::start(AnswerKind::Closed);
    let args = ["watch", "--squid", &service.address, "--service", "no-such-name"];
    let (_, stderr) = sandbox.expect(0, &[&args[..], &SHORT_ARGS].concat());
    assert!(stderr.contains("the counter does not answer yet: http://"), "{stderr}");
    assert!(stderr.contains("no process of --service no-such-name runs yet"), "{stderr}");
}

#[test]
fn a_device_that_is_unplugged_marks_its_window() {
    if !common::runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = common::disk::MountedDisk::ext4();
    let dir = disk.dir.display().to_string();
    let mut running = RunningWatch::start(&sandbox, &["--path", &dir, "--device-operations"]);
    let before = running.wait_for_window(|window| requests(window).is_some());
    assert!(before["readings"]["device_writes"].is_f64(), "{before}");
    drop(disk);
    let marked = running.wait_for_window(|window| has_mark(window, "the device changed"));
    assert!(marked["readings"]["machine_cpu_ns"].is_f64(), "{marked}");
    running.next_window();
    running.end_by(rustix::process::Signal::TERM);
    assert!(sandbox.rows("latest").len() >= 3, "nothing that was recorded is lost");
}

#[test]
fn watches_are_compared_by_the_cost_of_a_request() {
    let sandbox = Sandbox::new();
    for name in ["one", "two"] {
        let service = Service::start(AnswerKind::Counting);
        let window_args = ["--window", "50ms", "--every", "25ms", "--windows", "10", "--format", "json"];
        let args = ["watch", "--squid", &service.address, "--name", name];
        sandbox.expect(0, &args.iter().chain(&window_args).copied().collect::<Vec<_>>());
        // Move each run to a known name, because both may begin in the same second.
        let entries = std::fs::read_dir(sandbox.runs_dir()).unwrap().flatten();
        let run = entries.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("watch-"));
        std::fs::rename(run.unwrap(), sandbox.dir.join(name)).unwrap();
    }
    let [first_run, second_run] = ["one", "two"].map(|name| sandbox.dir.join(name).display().to_string());
    let (json, _) = sandbox.expect(0, &["compare", &first_run, &second_run, "--format", "json"]);
    let comparison: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(comparison["services"][0]["name"], "one");
    let cpu = &comparison["services"][1]["costs"][0];
    assert_eq!(cpu["resource"], "machine_cpu_s");
    assert!(cpu["per_request"].as_f64().unwrap() > 0.0 && cpu["effective_windows"].as_f64().unwrap() <= 10.0);
    let pair = &comparison["pairs"][0];
    let has_outcome = pair["ratio_b_to_a"].is_object() || pair["refused_overlap"].is_f64() || pair["unknown"] == true;
    assert!(has_outcome, "{pair}");
    let (shown, _) = sandbox.expect(0, &["compare", &first_run, &second_run]);
    for words in ["Cost of a request", "Fixed overhead", "Compared", "~iowait"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
