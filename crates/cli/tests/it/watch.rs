//! `fsarena watch` through the real binary: counters of every kind, and whatever can go wrong with them.

use crate::common::service::{Answer, Service};
use crate::common::{self, Place};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::{cell::Cell, path::Path};

/// Windows of a moment; six of them.
const QUICK: [&str; 8] = ["--window", "200ms", "--every", "50ms", "--windows", "6", "--format", "json"];

fn windows(printed: &str) -> Vec<Value> {
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn watch(place: &Place, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["watch"].iter().chain(&QUICK).chain(args).copied().collect();
    windows(&place.expect(0, &args).0)
}

fn requests(window: &Value) -> Option<f64> {
    window["readings"]["requests_count"].as_f64()
}

fn marks(windows: &[Value]) -> String {
    windows.iter().map(|window| window["marks"].to_string()).collect()
}

/// A watch that is going on, whose windows come as they close.
struct Going {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Going {
    fn start(place: &Place, args: &[&str]) -> Going {
        let args: Vec<&str> =
            ["watch", "--window", "200ms", "--every", "50ms", "--format", "json"].iter().chain(args).copied().collect();
        let mut child = place.fsarena(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Going { child, lines }
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// The first window that is as wanted, of the next few.
    #[track_caller]
    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut seen = vec![];
        for _ in 0..40 {
            let window = self.next();
            if wanted(&window) {
                return window;
            }
            seen.push(window);
        }
        panic!("none of {seen:#?}");
    }

    fn signal(mut self, signal: rustix::process::Signal) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_raw(self.child.id() as i32).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
        self.lines.by_ref().for_each(drop);
        self.child.wait().unwrap()
    }
}

fn marked(window: &Value, words: &str) -> bool {
    window["marks"].to_string().contains(words)
}

/// What disturbed a window, but for a machine that other tests kept busy.
fn disturbances(window: &Value) -> Vec<&Value> {
    let marks = window["marks"].as_array().unwrap().iter();
    marks.filter(|mark| !mark.to_string().contains("the machine was too busy")).collect()
}

/// The undisturbed windows, at least one. While other tests keep the machine busy a counter may answer too late; a
/// window without a count has a mark for that.
#[track_caller]
fn undisturbed(windows: &[Value]) -> Vec<&Value> {
    let silent = windows.iter().find(|window| requests(window).is_none() && !marked(window, "requests unknown"));
    assert_eq!(silent, None, "has no count and does not say why");
    let kept: Vec<&Value> = windows.iter().filter(|window| window["marks"] == serde_json::json!([])).collect();
    assert!(!kept.is_empty(), "{windows:#?}");
    kept
}

#[test]
fn requests_are_counted_and_kept_window_by_window() {
    let place = Place::new();
    let service = Service::start(Answer::Counting);
    let own = std::process::id().to_string();
    let path = place.dir.display().to_string();
    let args = ["--squid", &service.address, "--service", &own, "--path", &path, "--name", "ext4"];
    let windows = watch(&place, &args);
    assert_eq!(windows.len(), 6);
    for window in undisturbed(&windows) {
        // Each asking counts as a request: four within a window at the most, and one at its end.
        let requests = requests(window).unwrap();
        assert!((1.0..=10.0).contains(&requests), "{window}");
    }
    for window in &windows {
        for id in ["machine_cpu_ns", "machine_user_ns", "iowait_ns", "service_cpu_ns", "cached_at_return_bytes"] {
            assert!(window["readings"][id].is_f64(), "{id}: {window}");
        }
    }
    // They are a run like any other.
    let (csv, _) = place.expect(0, &["report", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 6, "{csv}");
    assert!(csv.contains("requests_count") && csv.contains("ext4"), "{csv}");
    let (listed, _) = place.expect(0, &["list", "runs"]);
    assert!(listed.contains("watch-ext4"), "{listed}");
}

#[test]
fn every_counter_counts() {
    let place = Place::new();
    let service = Service::start(Answer::Counting);
    let url = format!("http://{}/metrics", service.address);
    let found = watch(&place, &["--prometheus", &url, "--series", "requests_total{code=\"200\"}"]);
    assert!(undisturbed(&found).into_iter().all(|window| requests(window).unwrap() >= 1.0), "{found:#?}");

    let number = place.dir.join("number");
    std::fs::write(&number, "17\n").unwrap();
    let number = number.display().to_string();
    let found = watch(&place, &["--", "cat", &number]);
    assert!(undisturbed(&found).into_iter().all(|window| requests(window) == Some(0.0)), "{found:#?}");

    let none = watch(&place, &["--path", "home"]);
    assert!(none.iter().all(|window| requests(window).is_none() && disturbances(window).is_empty()), "{none:#?}");
}

#[test]
fn bad_answers_mark_windows_and_watching_goes_on() {
    for (answer, words) in [
        (Answer::Closed, "refused"),
        (Answer::Hangs, "no whole answer"),
        (Answer::Endless, "4 MiB"),
        (Answer::Html, "<html>"),
    ] {
        let place = Place::new();
        let service = Service::start(answer);
        let windows = watch(&place, &["--squid", &service.address]);
        assert_eq!(windows.len(), 6, "{answer:?}");
        assert!(marks(&windows).contains(words), "{answer:?}: {}", marks(&windows));
        assert!(windows.iter().all(|window| requests(window).is_none()));
        assert!(windows.iter().all(|window| window["readings"]["machine_cpu_ns"].is_f64()));
    }
}

#[test]
fn a_service_that_restarts_is_marked_and_counted_on() {
    let place = Place::new();
    let service = Service::start(Answer::Counting);
    service.set(1_000_000);
    let mut going = Going::start(&place, &["--squid", &service.address]);
    going.until(|window| requests(window).is_some());
    service.set(0);
    let back = going.until(|window| marked(window, "went back"));
    assert!(back["marks"].as_array().unwrap().iter().any(|mark| mark["left_out"] == true), "{back}");
    let after = going.until(|window| window["marks"].as_array().unwrap().is_empty());
    assert!(requests(&after).unwrap() >= 1.0);

    service.silence(true);
    going.until(|window| marked(window, "did not answer"));
    service.silence(false);
    going.until(|window| window["marks"].as_array().unwrap().is_empty() && requests(window).is_some());
    assert!(!going.signal(rustix::process::Signal::TERM).success());
}

#[test]
fn a_log_is_followed_over_rotation() {
    let place = Place::new();
    let log = place.dir.join("access.log");
    let append = |path: &Path, lines: u32| {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        (0..lines).for_each(|_| file.write_all(b"GET /\n").unwrap());
    };
    append(&log, 100);
    let mut going = Going::start(&place, &["--log", log.to_str().unwrap()]);
    going.next();
    append(&log, 5);
    std::fs::rename(&log, place.dir.join("access.log.1")).unwrap();
    append(&log, 7);
    // Both halves may fall into one window or into two.
    let sum = Cell::new(0.0);
    going.until(|window| {
        assert_eq!(disturbances(window), Vec::<&Value>::new(), "a rotation disturbs nothing");
        sum.set(sum.get() + requests(window).unwrap());
        sum.get() >= 12.0
    });
    assert_eq!(sum.get(), 12.0);
    going.signal(rustix::process::Signal::INT);
}

#[test]
fn a_watch_goes_on_after_a_kill() {
    let place = Place::new();
    let service = Service::start(Answer::Counting);
    let mut going = Going::start(&place, &["--squid", &service.address, "--name", "here"]);
    let last = (0..3).map(|_| going.next()).last().unwrap()["window"].as_u64().unwrap();
    going.signal(rustix::process::Signal::KILL);

    let (printed, _) = place.expect(0, &["watch", "--resume", "latest", "--windows", "6", "--format", "json"]);
    let windows = windows(&printed);
    assert!(windows[0]["window"].as_u64().unwrap() > last, "{printed}");
    // The counter is known from the run.
    assert!(undisturbed(&windows[1..]).into_iter().all(|window| requests(window).unwrap() >= 1.0), "{printed}");
    let rows = place.rows("latest");
    assert!(
        rows.len() as u64 >= last + 7 && rows.iter().all(|(_, variant, task)| variant == "here" && task == "window")
    );
    assert_eq!(std::fs::read_dir(place.runs()).unwrap().count(), 1);
}

#[test]
fn a_watch_that_cannot_start_reports_the_reason() {
    let place = Place::new();
    let of_prometheus = ["watch", "--prometheus", "https://a/metrics", "--series", "x"];
    for args in [&["watch", "--squid", "https://a/"][..], &of_prometheus] {
        let (_, said) = place.expect(2, args);
        assert!(said.contains("over http only") && said.contains("http://localhost"), "{said}");
    }
    let (_, said) = place.expect(2, &["watch", "--path", "/nowhere"]);
    assert!(said.contains("/nowhere"), "{said}");
    let (_, said) = place.expect(2, &["watch", "--device-operations"]);
    assert!(said.contains("--path DIR"), "{said}");
    place.expect(2, &["watch", "--squid", "a:1", "--log", "b"]);
    let service = Service::start(Answer::Counting);
    let url = format!("http://{}/metrics", service.address);
    let (_, said) = place.expect(2, &["watch", "--prometheus", &url, "--series", "request_total"]);
    assert!(said.contains("Unknown metric `request_total`. Did you mean `requests_total`?"), "{said}");
    let (_, said) = place.expect(6, &["watch", "--", "no-such-program"]);
    assert!(said.contains("no-such-program is not installed"), "{said}");
    let plan = place.dir.join("plan.toml").display().to_string();
    let (_, said) = place.expect(2, &["watch", "--", &plan]);
    assert!(said.contains("plan.toml cannot be executed: user "), "{said}");
    assert!(!place.runs().exists(), "nothing is made for what cannot be watched");
}

#[test]
fn a_source_without_data_is_reported_at_the_start() {
    let place = Place::new();
    let service = Service::start(Answer::Closed);
    let args = ["watch", "--squid", &service.address, "--service", "no-such-name"];
    let (_, said) = place.expect(0, &[&args[..], &QUICK].concat());
    assert!(said.contains("the counter does not answer yet: http://"), "{said}");
    assert!(said.contains("no process of --service no-such-name runs yet"), "{said}");
}

#[test]
fn a_device_that_is_unplugged_marks_its_window() {
    if !common::root() {
        return;
    }
    let place = Place::new();
    let disk = common::disk::Disk::ext4();
    let dir = disk.dir.display().to_string();
    let mut going = Going::start(&place, &["--path", &dir, "--device-operations"]);
    let before = going.until(|window| requests(window).is_some());
    assert!(before["readings"]["device_writes"].is_f64(), "{before}");
    drop(disk);
    let gone = going.until(|window| marked(window, "the device changed"));
    assert!(gone["readings"]["machine_cpu_ns"].is_f64(), "{gone}");
    going.next();
    going.signal(rustix::process::Signal::TERM);
    assert!(place.rows("latest").len() >= 3, "nothing that was recorded is lost");
}

#[test]
fn watches_are_compared_by_the_cost_of_a_request() {
    let place = Place::new();
    for name in ["one", "two"] {
        let service = Service::start(Answer::Counting);
        let lengths = ["--window", "50ms", "--every", "25ms", "--windows", "10", "--format", "json"];
        let args = ["watch", "--squid", &service.address, "--name", name];
        place.expect(0, &args.iter().chain(&lengths).copied().collect::<Vec<_>>());
        // Move each run to a known name, because both may begin in the same second.
        let made = std::fs::read_dir(place.runs()).unwrap().flatten();
        let run = made.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("watch-"));
        std::fs::rename(run.unwrap(), place.dir.join(name)).unwrap();
    }
    let [one, two] = ["one", "two"].map(|name| place.dir.join(name).display().to_string());
    let (json, _) = place.expect(0, &["compare", &one, &two, "--format", "json"]);
    let page: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(page["services"][0]["name"], "one");
    let cpu = &page["services"][1]["costs"][0];
    assert_eq!(cpu["resource"], "machine_cpu_s");
    assert!(cpu["per_request"].as_f64().unwrap() > 0.0 && cpu["effective_windows"].as_f64().unwrap() <= 10.0);
    let pair = &page["pairs"][0];
    let decided = pair["ratio_b_to_a"].is_object() || pair["refused_overlap"].is_f64() || pair["unknown"] == true;
    assert!(decided, "{pair}");
    let (shown, _) = place.expect(0, &["compare", &one, &two]);
    for words in ["Cost of a request", "Fixed overhead", "Compared", "~iowait"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}
