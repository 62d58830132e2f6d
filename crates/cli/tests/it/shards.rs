//! Rounds of one plan on several machines, and their merge.

use crate::common::{Place, root, text};
use std::{path::PathBuf, process::Command};

const RUN: [&str; 8] = ["run", "plan.toml", "--on", "dir:a", "--on", "dir:b", "--rounds", "4"];

fn place() -> Place {
    let place = Place::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(place.dir.join(dir)).unwrap());
    place
}

/// Runs a shard of four rounds in two directories.
#[track_caller]
fn shard(place: &Place, shard: &str) -> String {
    place.expect(0, &[&RUN[..], &["--shard", shard]].concat()).0
}

/// The rounds of a run, each once, counted from 0.
fn rounds(place: &Place, run: &str) -> Vec<u32> {
    let mut rounds: Vec<u32> = place.rows(run).into_iter().map(|(round, ..)| round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

#[test]
fn a_shard_runs_its_rounds_and_answers_nothing() {
    let place = place();
    let printed = shard(&place, "2/2");
    assert!(printed.starts_with("shard 2/2: all rounds of shard 2/2 are done in "), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_eq!(rounds(&place, "latest"), [1, 3]);
    let (report, _) = place.expect(0, &["report", "latest"]);
    assert!(report.contains("SHARD 2/2: a part of 4 rounds") && report.contains("2 rounds of 2 planned"), "{report}");
    place.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(rounds(&place, "latest"), [1, 3]);
}

#[test]
fn a_shard_needs_a_seed_and_a_fixed_number_of_rounds() {
    let place = place();
    let refused = |args: &[&str], words: &str| {
        let (_, said) = place.expect(2, &[&["run", "plan.toml", "--on", "dir:a", "--on", "dir:b"], args].concat());
        assert!(said.contains(words), "{said}");
    };
    refused(&["--shard", "3/2"], "write it I/N");
    refused(&["--shard", "2/2"], "shard 2/2 has no round, because the plan has 1; use fewer shards");
    refused(&["--shard", "1/2", "--claim", "geomean: a < b"], "set it: --rounds N");
    refused(&["--shard", "1/2", "--budget", "10s"], "--budget");
    place.edit_plan("seed = 1\n", "");
    refused(&["--shard", "1/2", "--rounds", "4"], "choose one: --seed N");
    place.edit_plan("rounds = 1", "max_rounds = 9");
    refused(&["--shard", "1/2", "--seed", "4"], "set it: --rounds N");
    let (_, said) = place.expect(2, &["run", "gus3", "--shard", "1/2"]);
    assert!(said.contains("stages cannot be spread"), "{said}");
    assert!(!place.runs().exists(), "nothing was begun");
}

#[test]
fn merged_shards_are_the_run_that_one_machine_would_have_made() {
    let place = place();
    place.expect(0, &[&RUN[..], &["--runs", "whole"]].concat());
    let mut expected = place.rows(&only_run(&place, "whole"));
    shard(&place, "0/2");
    let (printed, _) = place.expect(0, &["merge", "runs", "--runs", "merged"]);
    assert!(printed.contains("2 of 4 rounds are merged; shards 1/2 lack rounds"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "no answer yet: {printed}");
    shard(&place, "1/2");
    let (printed, _) = place.expect(0, &["merge", "runs", "--runs", "merged"]);
    assert!(printed.contains("merged: all 4 rounds, of 1 host,") && printed.contains("Report: "), "{printed}");
    let mut rows = place.rows(&only_run(&place, "merged"));
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);
    place.expect(0, &["compare", &only_run(&place, "merged"), &only_run(&place, "merged")]);
    let (_, said) = place.expect(2, &["merge", "a"]);
    assert!(said.contains("a: contains no shards"), "{said}");
}

/// The only run in a directory of runs.
fn only_run(place: &Place, runs: &str) -> String {
    let run = std::fs::read_dir(place.dir.join(runs)).unwrap().next().unwrap().unwrap().path();
    run.to_str().unwrap().into()
}

/// A recipe of `contrib/`.
fn recipe(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// Runs a program in a place as fsarena is run there, and merges what it made.
#[track_caller]
fn recipe_makes_a_run(place: &Place, program: &str, args: &[&str], variables: &[(&str, &str)]) {
    let ours = place.fsarena(&[]);
    let mut command = Command::new(program);
    let environment = ours.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(args).args(&RUN[1..]).current_dir(&place.dir).env_clear().envs(environment);
    command.env("FSARENA", ours.get_program()).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let (printed, _) = place.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
}

#[test]
fn gnu_parallel_runs_shards() {
    let place = place();
    if fsarena_sys::testkit::program("parallel") {
        recipe_makes_a_run(&place, recipe("parallel.sh").to_str().unwrap(), &[], &[("HOSTS", ":")]);
    }
}

#[test]
fn mpirun_runs_shards() {
    let place = place();
    if !fsarena_sys::testkit::program("mpirun") {
        return;
    }
    let script = recipe("mpirun.sh");
    let args = ["--allow-run-as-root", "--oversubscribe", "-n", "2", script.to_str().unwrap()];
    recipe_makes_a_run(&place, "mpirun", &args, &[("TMPDIR", "/tmp")]);
}

#[test]
fn a_slurm_array_runs_shards() {
    let place = place();
    let script = recipe("slurm-array.sh");
    for task in ["0", "1"] {
        let variables = [("SLURM_ARRAY_TASK_ID", task), ("SLURM_ARRAY_TASK_COUNT", "2")];
        let mut command = place.fsarena(&[]);
        let environment: Vec<_> =
            command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        let program = command.get_program().to_owned();
        command = Command::new(&script);
        command.args(&RUN[1..]).current_dir(&place.dir).env_clear().envs(environment);
        let output = command.env("FSARENA", program).envs(variables).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let (printed, _) = place.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
}

#[test]
fn a_kubernetes_job_runs_shards() {
    let place = place();
    let yaml = std::fs::read_to_string(recipe("kubernetes.yaml")).unwrap();
    let line = yaml.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    let args: Vec<String> = serde_json::from_str(line).unwrap();
    let completions = yaml.lines().find_map(|line| line.trim().strip_prefix("completions: ")).unwrap();
    assert!(args.last().unwrap().ends_with(&format!("/{completions}")), "{args:?}");
    for index in 0..completions.parse().unwrap() {
        let index: u32 = index;
        let here = |arg: &String| match arg.as_str() {
            "/plan/plan.toml" => "plan.toml".into(),
            "/runs" => "runs".into(),
            // As many rounds as shards.
            "24" => completions.to_string(),
            arg => arg
                .replace("$(JOB_COMPLETION_INDEX)", &index.to_string())
                .replace("dir:/disk", "dir:a")
                .replace("dir:/memory", "dir:b"),
        };
        let args: Vec<String> = args.iter().map(here).collect();
        place.expect(0, &args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (printed, _) = place.expect(0, &["merge", "runs"]);
    assert!(printed.contains(&format!("merged: all {completions} rounds")), "{printed}");
}

#[test]
fn hosts_are_compared_and_the_one_that_differs_is_named() {
    let place = place();
    if !root() {
        return;
    }
    for (host, shard) in [("h1", "1/2"), ("h2", "2/2")] {
        let script = format!("hostname {host} && exec \"$0\" \"$@\"");
        let starter = ["unshare", "--uts", "sh", "-c", &script];
        let args = [&RUN[..], &["--shard", shard]].concat();
        let output = place.started_by(&starter, &args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let (printed, _) = place.expect(0, &["merge", "runs"]);
    assert!(printed.contains("all 4 rounds, of 2 hosts"), "{printed}");
    assert!(printed.contains("Does the answer differ by host?"), "{printed}");
    assert!(printed.contains("Inconclusive: 2 hosts have too few rounds"), "{printed}");
}
