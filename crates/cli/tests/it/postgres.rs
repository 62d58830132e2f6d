//! The real PostgreSQL through the real binary.

use crate::common::{Place, gate::wait_until, root};
use crate::squid::{median, place};
use fsarena_sys::program;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

fn postgres() -> bool {
    let here = program::dir_with_all(&["postgres", "initdb", "pgbench", "psql"]).is_some();
    if !here {
        fsarena_sys::testkit::skipped("program postgres");
    }
    here
}

/// A place with a plan of the smallest database.
fn small(settings: &str) -> Place {
    place(&format!("use = \"postgres\"\nscale_factors = 1\n{settings}\n"))
}

/// The processes of a server whose data is in this place. They overwrite their environment, so they are known by their
/// working directory. The first is the one that started the others.
fn servers(place: &Place) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let works_here = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let dir = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        name == "postgres\n" && dir.starts_with(&place.dir)
    };
    let mut found: Vec<i32> = pids.filter(works_here).collect();
    found.sort_unstable();
    found
}

/// Waits until pgbench asks the server of a run, and returns the server's processes.
fn asked(place: &Place, run: &mut std::process::Child) -> Vec<i32> {
    loop {
        assert!(run.try_wait().unwrap().is_none(), "it ended before pgbench asked");
        let command = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let asks = |pid: &i32| command(pid).windows(8).any(|part| part == b"--log\0--" || part == b"--client");
        if place.processes().iter().any(asks) {
            return servers(place);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn postgres_answers_on_each_filesystem_and_leaves_nothing() {
    if !root() || !postgres() {
        return;
    }
    let place = small("rate = 300\nconf = \"wal_recycle=off\"");
    place.edit_plan("[\"ext4\"]", "[\"ext4\", \"xfs\"]");
    place.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    place.assert_clean();
    assert_eq!(servers(&place), [0; 0]);
    for task in ["read-only", "simple-update"] {
        assert!(median(&place, "tps", task) > 10.0);
        assert!(median(&place, "all_operations_count", task) > 10.0);
        assert_eq!(median(&place, "failed_count", task), 0.0);
        let [due, begun] = ["corrected", "all"].map(|from| median(&place, &format!("{from}_latency_p50_ns"), task));
        assert!(due >= begun && begun > 0.0, "{task}: {due} {begun}");
    }
    assert!(median(&place, "wal_bytes", "simple-update") > 1e3);
}

#[test]
fn vondra_asks_what_he_asked_and_its_figures_are_complete() {
    if !root() || !postgres() {
        return;
    }
    let place = small("");
    let shown = |name: &str| -> serde_json::Value {
        let (text, _) = place.expect(0, &["show", name, "--format", "json"]);
        serde_json::from_str(&text).unwrap()
    };
    let conclusions = shown("published:vondra-xeon")["conclusions"].clone();
    let then = |says: &str| {
        let all = conclusions.as_array().unwrap();
        let one = all.iter().find(|one| one["says"].as_str().unwrap().contains(says));
        one.unwrap_or_else(|| panic!("{conclusions:#}"))["then"]["outcome"].clone()
    };
    assert_eq!((then("equally fast"), then("last in every task")), ("held".into(), "refuted".into()));
    // With less data than his, which this machine may have no room for.
    let paper = ["run", "vondra", "--scale", "paper", "--dry-run", "--on", "dir:home"];
    let small = ["--set", "scale_factors=1", "--set", "update_seconds=1"];
    let (plan, _) = place.expect(0, &[&paper[..], &small].concat());
    assert!(plan.contains("seconds = 900") && plan.contains("max_wal_size=128GB"), "{plan}");
    let run = ["run", "vondra", "--scale", "tiny", "--fs", "ext4", "--on", "ram", "--quiet"];
    place.expect(0, &[&run[..], &["--set", "conf=shared_buffers=16MB"]].concat());
    assert!(median(&place, "tps", "simple-update") > 1.0);
}

#[test]
fn a_server_that_does_not_start_or_dies_fails_its_cell_with_its_log() {
    if !root() || !postgres() {
        return;
    }
    let place = small("conf = \"shared_buffers=lots\"");
    let (_, said) = place.expect(2, &["run", "plan.toml", "--on", "ram"]);
    assert!(said.contains("postgres ended") && said.contains("shared_buffers"), "{said}");
    place.assert_clean();

    let place = small("modes = \"simple-update\"\nseconds = 60");
    let mut command = place.fsarena(&["run", "plan.toml", "--on", "ram"]);
    let mut run = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The second process is the checkpointer, which lives as long as the server; those of clients come and go. A server
    // that loses one of its processes trusts no memory that they shared.
    let checkpointer = asked(&place, &mut run)[1];
    kill_process(Pid::from_raw(checkpointer).unwrap(), Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    let said = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("the server's log ends") && said.contains("was terminated by signal 9"), "{said}");
    place.assert_clean();
    assert_eq!(servers(&place), [0; 0]);
}

#[test]
fn a_killed_run_leaves_no_postgres() {
    if !root() || !postgres() {
        return;
    }
    for signal in [Signal::KILL, Signal::TERM] {
        let place = small("modes = \"simple-update\"\nseconds = 60");
        let mut run = place.fsarena(&["run", "plan.toml", "--quiet", "--on", "ram"]).spawn().unwrap();
        asked(&place, &mut run);
        kill_process(Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        if signal == Signal::KILL {
            place.expect(0, &["recover"]);
        }
        // They notice when the first has gone.
        wait_until("every server is gone", || servers(&place).is_empty());
        place.assert_clean();
    }
}
