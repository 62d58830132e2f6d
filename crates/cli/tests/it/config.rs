//! The config file: what it changes, what wins over it, and mistakes in it.

use crate::common::{Place, root, stored, text};
use serde_json::Value;
use std::{path::PathBuf, process::Command};

/// A place whose user has this config file.
fn place(file: &str) -> (Place, PathBuf) {
    let place = Place::new();
    let path = place.dir.join("home/.config/fsarena/config.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, file).unwrap();
    (place, path)
}

/// What a command prints that succeeds.
#[track_caller]
fn printed(mut command: Command) -> String {
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
fn every_setting_says_where_it_comes_from() {
    let (place, path) =
        place("color = \"never\"\nruns = \"~/bench\"\n\n[run]\nrounds = 5\nmetric = [\"elapsed\", \"cpu\"]\n");
    let ask = || {
        let mut command = place.fsarena(&["config", "--format", "json"]);
        command.env_remove("FSARENA_RUNS");
        command
    };
    let config = printed(ask());
    let pair = |value: &str, from: &str| (value.to_string(), from.to_string());
    assert_eq!(setting(&config, "config file"), pair(path.to_str().unwrap(), "exists"));
    let bench = place.dir.join("home/bench");
    assert_eq!(setting(&config, "runs"), pair(bench.to_str().unwrap(), "config file, line 2"));
    assert_eq!(setting(&config, "color"), pair("never", "config file, line 1"));
    assert_eq!(setting(&config, "run.rounds"), pair("5", "config file, line 5"));
    assert_eq!(setting(&config, "run.metric"), pair("elapsed,cpu", "config file, line 6"));
    assert_eq!(setting(&config, "serve.port"), pair("0", "default"));
    assert_eq!(setting(&config, "state directory"), pair(place.state().to_str().unwrap(), "FSARENA_STATE_DIR"));
    let mut command = ask();
    command.env("FSARENA_RUNS", "/elsewhere").env("NO_COLOR", "1").env("XDG_CONFIG_HOME", "/nowhere");
    let config = printed(command);
    assert_eq!(setting(&config, "config file"), pair("/nowhere/fsarena/config.toml", "does not exist"));
    assert_eq!(setting(&config, "runs"), pair("/elsewhere", "FSARENA_RUNS"));
    assert_eq!(setting(&config, "color"), pair("1", "NO_COLOR"));
    assert_eq!(setting(&config, "run.rounds"), pair("", "default"));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let (place, _) =
        place("runs = \"~/bench\"\ncolor = \"always\"\nrun.rounds = 5\nreport.metric = [\"cpu\", \"elapsed\"]\n");
    let plan =
        |more: &[&str]| place.expect(0, &[&["run", "plan.toml", "--on", "dir:home", "--dry-run"], more].concat()).0;
    assert!(plan(&[]).contains("rounds = 5") && plan(&["--rounds", "3"]).contains("rounds = 3"));
    let id = stored::run(&place.dir.join("home/bench")).id();
    let report = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = place.fsarena(&[&["report"], args].concat());
        command.env_remove("FSARENA_RUNS").envs(variables.iter().copied());
        command
    };
    assert!(printed(report(&[], &[&id])).contains('\x1b'));
    assert!(!printed(report(&[("NO_COLOR", "1")], &[])).contains('\x1b'));
    assert!(!printed(report(&[], &["--color", "never"])).contains('\x1b'));
    let plain = |metric: &[&str]| printed(report(&[], &[&["--color", "never"], metric].concat()));
    assert_eq!(plain(&[]), plain(&["--metric", "cpu,elapsed"]));
    assert_ne!(plain(&[]), plain(&["--metric", "elapsed"]));
    for other in [report(&[("FSARENA_RUNS", "runs")], &[]), report(&[], &["--runs", "runs"])] {
        let mut other = other;
        assert_eq!(other.output().unwrap().status.code(), Some(2));
    }
}

#[test]
fn a_tilde_alone_is_the_home_directory() {
    let (place, path) = place("runs = \"~\"\n");
    let config = || {
        let mut command = place.fsarena(&["config", "--format", "json"]);
        command.env_remove("FSARENA_RUNS");
        command
    };
    assert_eq!(setting(&printed(config()), "runs").0, place.dir.join("home").to_str().unwrap());
    std::fs::write(&path, "runs = \"~root/runs\"\n").unwrap();
    let output = config().output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("line 1, column 8: `~root/runs`: write"), "{said}");
}

#[test]
fn images_lie_where_the_file_says() {
    if !root() {
        return;
    }
    let (place, _) = place("images = \"~/scratch\"\n");
    let scratch = place.dir.join("home/scratch");
    let dry = ["run", "plan.toml", "--dry-run"];
    let (_, said) = place.expect(2, &dry);
    assert!(said.contains("home/scratch"), "{said}");
    std::fs::create_dir(&scratch).unwrap();
    let path = format!("path = \"{}\"", scratch.display());
    assert!(place.expect(0, &dry).0.contains(&path));
    assert!(place.expect(0, &[&dry[..], &["--on", "loop"]].concat()).0.contains(&path));
    assert!(place.expect(0, &[&dry[..], &["--on", "loop:shims"]].concat()).0.contains("/shims\""));
    assert!(!place.expect(0, &[&dry[..], &["--on", "ram"]].concat()).0.contains("scratch"));
}

#[test]
fn a_mistake_is_a_usage_error_that_stops_no_recovery() {
    let (place, path) = place("[run]\nrouds = 5\n");
    let (printed, said) = place.expect(2, &["list", "studies"]);
    let place_of = format!("{}, line 2, column 1: Unknown key `run.rouds`. Did you mean `run.rounds`?", path.display());
    assert!(printed.is_empty() && said.contains(&place_of), "{said}");
    place.expect(2, &["config"]);
    place.expect(0, &["recover"]);
    place.expect(0, &["run", "--help"]);
}
