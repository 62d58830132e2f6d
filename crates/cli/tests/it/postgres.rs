//! Runs with the real PostgreSQL.

use crate::common::{Sandbox, gate::wait_until, runs_as_root};
use crate::squid::{make_sandbox, median};
use fsarena_sys::program;
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;

/// Whether PostgreSQL is installed. Reports the skipped test if not.
fn has_postgres() -> bool {
    let installed = program::find_dir_with_programs(&["postgres", "initdb", "pgbench", "psql"]).is_some();
    if !installed {
        fsarena_sys::testkit::record_skip("program postgres");
    }
    installed
}

/// Makes a sandbox with a plan of the smallest database.
fn make_sandbox_with_settings(settings: &str) -> Sandbox {
    make_sandbox(&format!("use = \"postgres\"\nscale_factors = 1\n{settings}\n"))
}

/// The processes of a server whose data is in this sandbox, the main process first. They overwrite their
/// environment, so they are recognized by their working directory.
fn servers(sandbox: &Sandbox) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let works_here = |pid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let dir = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        name == "postgres\n" && dir.starts_with(&sandbox.dir)
    };
    let mut servers: Vec<i32> = pids.filter(works_here).collect();
    servers.sort_unstable();
    servers
}

/// Waits until pgbench runs, and returns the processes of the server.
fn wait_for_pgbench(sandbox: &Sandbox, run: &mut std::process::Child) -> Vec<i32> {
    loop {
        assert!(run.try_wait().unwrap().is_none(), "the run ended before pgbench began");
        let command = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_pgbench = |pid: &i32| command(pid).windows(8).any(|part| part == b"--log\0--" || part == b"--client");
        if sandbox.processes().iter().any(is_pgbench) {
            return servers(sandbox);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn postgres_answers_on_each_filesystem_and_leaves_nothing() {
    if !runs_as_root() || !has_postgres() {
        return;
    }
    let sandbox = make_sandbox_with_settings("rate = 300\nconf = \"wal_recycle=off\"");
    sandbox.edit_plan("[\"ext4\"]", "[\"ext4\", \"xfs\"]");
    sandbox.expect(0, &["run", "plan.toml", "--quiet", "--on", "ram"]);
    sandbox.assert_clean();
    assert_eq!(servers(&sandbox), [0; 0]);
    for task in ["read-only", "simple-update"] {
        assert!(median(&sandbox, "tps", task) > 10.0);
        assert!(median(&sandbox, "all_operations_count", task) > 10.0);
        assert_eq!(median(&sandbox, "failed_count", task), 0.0);
        let [due, begun] =
            ["corrected", "all"].map(|prefix| median(&sandbox, &format!("{prefix}_latency_p50_ns"), task));
        assert!(due >= begun && begun > 0.0, "{task}: {due} {begun}");
    }
    assert!(median(&sandbox, "wal_bytes", "simple-update") > 1e3);
}

#[test]
fn vondra_has_the_published_conclusions_and_settings_and_runs() {
    if !runs_as_root() || !has_postgres() {
        return;
    }
    let sandbox = make_sandbox_with_settings("");
    let (json, _) = sandbox.expect(0, &["show", "published:vondra-xeon", "--format", "json"]);
    let published: serde_json::Value = serde_json::from_str(&json).unwrap();
    let conclusions = published["conclusions"].as_array().unwrap();
    let published_outcome = |words: &str| {
        let conclusion = conclusions.iter().find(|conclusion| conclusion["says"].as_str().unwrap().contains(words));
        conclusion.unwrap_or_else(|| panic!("{conclusions:#?}"))["then"]["outcome"].clone()
    };
    assert_eq!(
        (published_outcome("equally fast"), published_outcome("last in every task")),
        ("held".into(), "refuted".into())
    );
    // With less data than published, for which this machine may lack room.
    let paper = ["run", "vondra", "--scale", "paper", "--dry-run", "--on", "dir:home"];
    let small = ["--set", "scale_factors=1", "--set", "update_seconds=1"];
    let (plan, _) = sandbox.expect(0, &[&paper[..], &small].concat());
    assert!(plan.contains("seconds = 900") && plan.contains("max_wal_size=128GB"), "{plan}");
    let run = ["run", "vondra", "--scale", "tiny", "--fs", "ext4", "--on", "ram", "--quiet"];
    sandbox.expect(0, &[&run[..], &["--set", "conf=shared_buffers=16MB"]].concat());
    assert!(median(&sandbox, "tps", "simple-update") > 1.0);
}

#[test]
fn a_server_that_does_not_start_or_dies_fails_its_cell_with_its_log() {
    if !runs_as_root() || !has_postgres() {
        return;
    }
    let sandbox = make_sandbox_with_settings("conf = \"shared_buffers=lots\"");
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--on", "ram"]);
    assert!(stderr.contains("postgres ended") && stderr.contains("shared_buffers"), "{stderr}");
    sandbox.assert_clean();

    let sandbox = make_sandbox_with_settings("modes = \"simple-update\"\nseconds = 60");
    let mut command = sandbox.fsarena(&["run", "plan.toml", "--on", "ram"]);
    let mut run = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The second process is the checkpointer, which lives as long as the server; those of clients come and go. A server
    // that loses one of its processes ends, because the shared memory may be damaged.
    let checkpointer = wait_for_pgbench(&sandbox, &mut run)[1];
    kill_process(Pid::from_raw(checkpointer).unwrap(), Signal::KILL).unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = crate::common::text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains("the server's log ends") && stderr.contains("was terminated by signal 9"), "{stderr}");
    sandbox.assert_clean();
    assert_eq!(servers(&sandbox), [0; 0]);
}

#[test]
fn a_killed_run_leaves_no_postgres() {
    if !runs_as_root() || !has_postgres() {
        return;
    }
    for signal in [Signal::KILL, Signal::TERM] {
        let sandbox = make_sandbox_with_settings("modes = \"simple-update\"\nseconds = 60");
        let mut run = sandbox.fsarena(&["run", "plan.toml", "--quiet", "--on", "ram"]).spawn().unwrap();
        wait_for_pgbench(&sandbox, &mut run);
        kill_process(Pid::from_child(&run), signal).unwrap();
        run.wait().unwrap();
        if signal == Signal::KILL {
            sandbox.expect(0, &["recover"]);
        }
        // The other processes end a moment after the main process.
        wait_until("every server is gone", || servers(&sandbox).is_empty());
        sandbox.assert_clean();
    }
}
