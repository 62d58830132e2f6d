//! The config file: its effects, what overrides it, and errors in it.

use crate::common::{Sandbox, runs_as_root, stored, text};
use serde_json::Value;
use std::{path::PathBuf, process::Command};

/// Makes a sandbox with this config file in the home of its user. Returns the path of the file too.
fn make_sandbox(file: &str) -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let path = sandbox.dir.join("home/.config/fsarena/config.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, file).unwrap();
    (sandbox, path)
}

/// Runs a command that must succeed. Returns its standard output.
#[track_caller]
fn expect_success(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// `fsarena config`: value and source of a setting.
#[track_caller]
fn setting(config: &str, name: &str) -> (String, String) {
    let rows: Vec<Value> = serde_json::from_str(config).unwrap();
    let row = rows.iter().find(|row| row["setting"] == name).unwrap();
    (row["value"].as_str().unwrap().into(), row["from"].as_str().unwrap().into())
}

#[test]
fn every_setting_has_its_source() {
    let (sandbox, path) =
        make_sandbox("color = \"never\"\nruns = \"~/bench\"\n\n[run]\nrounds = 5\nmetric = [\"elapsed\", \"cpu\"]\n");
    let config_command = || {
        let mut command = sandbox.fsarena(&["config", "--format", "json"]);
        command.env_remove("FSARENA_RUNS");
        command
    };
    let config = expect_success(config_command());
    let pair = |value: &str, source: &str| (value.to_string(), source.to_string());
    assert_eq!(setting(&config, "config file"), pair(path.to_str().unwrap(), "exists"));
    let bench = sandbox.dir.join("home/bench");
    assert_eq!(setting(&config, "runs"), pair(bench.to_str().unwrap(), "config file, line 2"));
    assert_eq!(setting(&config, "color"), pair("never", "config file, line 1"));
    assert_eq!(setting(&config, "run.rounds"), pair("5", "config file, line 5"));
    assert_eq!(setting(&config, "run.metric"), pair("elapsed,cpu", "config file, line 6"));
    assert_eq!(setting(&config, "serve.port"), pair("0", "default"));
    assert_eq!(setting(&config, "state directory"), pair(sandbox.state_dir().to_str().unwrap(), "FSARENA_STATE_DIR"));
    let mut command = config_command();
    command.env("FSARENA_RUNS", "/elsewhere").env("NO_COLOR", "1").env("XDG_CONFIG_HOME", "/nowhere");
    let config = expect_success(command);
    assert_eq!(setting(&config, "config file"), pair("/nowhere/fsarena/config.toml", "does not exist"));
    assert_eq!(setting(&config, "runs"), pair("/elsewhere", "FSARENA_RUNS"));
    assert_eq!(setting(&config, "color"), pair("1", "NO_COLOR"));
    assert_eq!(setting(&config, "run.rounds"), pair("", "default"));
}

#[test]
fn flags_override_the_environment_which_overrides_the_file() {
    let (sandbox, _) = make_sandbox(
        "runs = \"~/bench\"\ncolor = \"always\"\nrun.rounds = 5\nreport.metric = [\"cpu\", \"elapsed\"]\n",
    );
    let plan = |extra_args: &[&str]| {
        sandbox.expect(0, &[&["run", "plan.toml", "--on", "dir:home", "--dry-run"], extra_args].concat()).0
    };
    assert!(plan(&[]).contains("rounds = 5") && plan(&["--rounds", "3"]).contains("rounds = 3"));
    let id = stored::store_run(&sandbox.dir.join("home/bench")).id();
    let report = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = sandbox.fsarena(&[&["report"], args].concat());
        command.env_remove("FSARENA_RUNS").envs(variables.iter().copied());
        command
    };
    assert!(expect_success(report(&[], &[&id])).contains('\x1b'));
    assert!(!expect_success(report(&[("NO_COLOR", "1")], &[])).contains('\x1b'));
    assert!(!expect_success(report(&[], &["--color", "never"])).contains('\x1b'));
    let plain_report = |metric: &[&str]| expect_success(report(&[], &[&["--color", "never"], metric].concat()));
    assert_eq!(plain_report(&[]), plain_report(&["--metric", "cpu,elapsed"]));
    assert_ne!(plain_report(&[]), plain_report(&["--metric", "elapsed"]));
    for other in [report(&[("FSARENA_RUNS", "runs")], &[]), report(&[], &["--runs", "runs"])] {
        let mut other = other;
        assert_eq!(other.output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn a_tilde_alone_is_the_home_directory() {
    let (sandbox, path) = make_sandbox("runs = \"~\"\n");
    let config = || {
        let mut command = sandbox.fsarena(&["config", "--format", "json"]);
        command.env_remove("FSARENA_RUNS");
        command
    };
    assert_eq!(setting(&expect_success(config()), "runs").0, sandbox.dir.join("home").to_str().unwrap());
    std::fs::write(&path, "runs = \"~root/runs\"\n").unwrap();
    let output = config().output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("line 1, column 8: `~root/runs`: write"), "{stderr}");
}

#[test]
fn the_file_sets_the_directory_of_images() {
    if !runs_as_root() {
        return;
    }
    let (sandbox, _) = make_sandbox("images = \"~/scratch\"\n");
    let scratch = sandbox.dir.join("home/scratch");
    let dry_run = ["run", "plan.toml", "--dry-run"];
    let (_, stderr) = sandbox.expect(2, &dry_run);
    assert!(stderr.contains("home/scratch"), "{stderr}");
    std::fs::create_dir(&scratch).unwrap();
    let path = format!("path = \"{}\"", scratch.display());
    assert!(sandbox.expect(0, &dry_run).0.contains(&path));
    assert!(sandbox.expect(0, &[&dry_run[..], &["--on", "loop"]].concat()).0.contains(&path));
    assert!(sandbox.expect(0, &[&dry_run[..], &["--on", "loop:shims"]].concat()).0.contains("/shims\""));
    assert!(!sandbox.expect(0, &[&dry_run[..], &["--on", "ram"]].concat()).0.contains("scratch"));
}

#[test]
fn an_error_in_the_file_is_a_usage_error_and_does_not_prevent_recovery() {
    let (sandbox, path) = make_sandbox("[run]\nrouds = 5\n");
    let (printed, stderr) = sandbox.expect(2, &["list", "studies"]);
    let expected = format!("{}, line 2, column 1: Unknown key `run.rouds`. Did you mean `run.rounds`?", path.display());
    assert!(printed.is_empty() && stderr.contains(&expected), "{stderr}");
    sandbox.expect(2, &["config"]);
    sandbox.expect(0, &["recover"]);
    sandbox.expect(0, &["run", "--help"]);
}
