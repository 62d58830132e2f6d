//! Rounds of one plan on several machines, and their merge.

use crate::common::{Sandbox, runs_as_root, text};
use std::{path::PathBuf, process::Command};

const RUN_ARGS: [&str; 8] = ["run", "plan.toml", "--on", "dir:a", "--on", "dir:b", "--rounds", "4"];

fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    sandbox
}

/// Runs a shard of four rounds in two directories. Returns its standard output.
#[track_caller]
fn run_shard(sandbox: &Sandbox, shard: &str) -> String {
    sandbox.expect(0, &[&RUN_ARGS[..], &["--shard", shard]].concat()).0
}

/// The rounds of a run, each once, counted from 0.
fn rounds(sandbox: &Sandbox, run: &str) -> Vec<u32> {
    let mut rounds: Vec<u32> = sandbox.rows(run).into_iter().map(|(round, ..)| round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

#[test]
fn a_shard_runs_its_rounds_and_gives_no_answer() {
    let sandbox = make_sandbox();
    let printed = run_shard(&sandbox, "2/2");
    assert!(printed.starts_with("shard 2/2: all rounds of shard 2/2 are done in "), "{printed}");
    assert_eq!(printed.lines().count(), 1, "{printed}");
    assert_eq!(rounds(&sandbox, "latest"), [1, 3]);
    let (report, _) = sandbox.expect(0, &["report", "latest"]);
    assert!(report.contains("SHARD 2/2: a part of 4 rounds") && report.contains("2 rounds of 2 planned"), "{report}");
    sandbox.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(rounds(&sandbox, "latest"), [1, 3]);
}

#[test]
fn a_shard_needs_a_seed_and_a_fixed_number_of_rounds() {
    let sandbox = make_sandbox();
    let assert_refused = |args: &[&str], words: &str| {
        let (_, stderr) = sandbox.expect(2, &[&["run", "plan.toml", "--on", "dir:a", "--on", "dir:b"], args].concat());
        assert!(stderr.contains(words), "{stderr}");
    };
    assert_refused(&["--shard", "3/2"], "write it I/N");
    assert_refused(&["--shard", "2/2"], "shard 2/2 has no round, because the plan has 1; use fewer shards");
    assert_refused(&["--shard", "1/2", "--claim", "geomean: a < b"], "set it: --rounds N");
    assert_refused(&["--shard", "1/2", "--budget", "10s"], "--budget");
    sandbox.edit_plan("seed = 1\n", "");
    assert_refused(&["--shard", "1/2", "--rounds", "4"], "choose one: --seed N");
    sandbox.edit_plan("rounds = 1", "max_rounds = 9");
    assert_refused(&["--shard", "1/2", "--seed", "4"], "set it: --rounds N");
    let (_, stderr) = sandbox.expect(2, &["run", "gus3", "--shard", "1/2"]);
    assert!(stderr.contains("stages cannot be spread"), "{stderr}");
    assert!(!sandbox.runs_dir().exists(), "nothing was begun");
}

#[test]
fn merged_shards_have_the_same_rows_as_a_run_on_one_machine() {
    let sandbox = make_sandbox();
    sandbox.expect(0, &[&RUN_ARGS[..], &["--runs", "whole"]].concat());
    let mut expected = sandbox.rows(&only_run(&sandbox, "whole"));
    run_shard(&sandbox, "0/2");
    let (printed, _) = sandbox.expect(0, &["merge", "runs", "--runs", "merged"]);
    assert!(printed.contains("2 of 4 rounds are merged; shards 1/2 lack rounds"), "{printed}");
    assert_eq!(printed.lines().count(), 1, "no answer yet: {printed}");
    run_shard(&sandbox, "1/2");
    let (printed, _) = sandbox.expect(0, &["merge", "runs", "--runs", "merged"]);
    assert!(printed.contains("merged: all 4 rounds, of 1 host,") && printed.contains("Report: "), "{printed}");
    let mut rows = sandbox.rows(&only_run(&sandbox, "merged"));
    rows.sort();
    expected.sort();
    assert_eq!(rows, expected);
    sandbox.expect(0, &["compare", &only_run(&sandbox, "merged"), &only_run(&sandbox, "merged")]);
    let (_, stderr) = sandbox.expect(2, &["merge", "a"]);
    assert!(stderr.contains("a: contains no shards"), "{stderr}");
}

/// The only run in a directory of runs.
fn only_run(sandbox: &Sandbox, runs_dir: &str) -> String {
    let run = std::fs::read_dir(sandbox.dir.join(runs_dir)).unwrap().next().unwrap().unwrap().path();
    run.to_str().unwrap().into()
}

/// The path of a file in `contrib/`.
fn contrib_file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../contrib").join(name)
}

/// Runs a program in the environment of a sandbox. Asserts that the shards that it made can be merged.
#[track_caller]
fn run_and_merge(sandbox: &Sandbox, program: &str, args: &[&str], variables: &[(&str, &str)]) {
    let fsarena = sandbox.fsarena(&[]);
    let mut command = Command::new(program);
    let environment = fsarena.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(args).args(&RUN_ARGS[1..]).current_dir(&sandbox.dir).env_clear().envs(environment);
    command.env("FSARENA", fsarena.get_program()).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let (printed, _) = sandbox.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
}

#[test]
fn gnu_parallel_runs_shards() {
    let sandbox = make_sandbox();
    if fsarena_sys::testkit::has_program("parallel") {
        run_and_merge(&sandbox, contrib_file("parallel.sh").to_str().unwrap(), &[], &[("HOSTS", ":")]);
    }
}

#[test]
fn mpirun_runs_shards() {
    let sandbox = make_sandbox();
    if !fsarena_sys::testkit::has_program("mpirun") {
        return;
    }
    let script = contrib_file("mpirun.sh");
    let args = ["--allow-run-as-root", "--oversubscribe", "-n", "2", script.to_str().unwrap()];
    run_and_merge(&sandbox, "mpirun", &args, &[("TMPDIR", "/tmp")]);
}

#[test]
fn a_slurm_array_runs_shards() {
    let sandbox = make_sandbox();
    let script = contrib_file("slurm-array.sh");
    for task in ["0", "1"] {
        let variables = [("SLURM_ARRAY_TASK_ID", task), ("SLURM_ARRAY_TASK_COUNT", "2")];
        let fsarena = sandbox.fsarena(&[]);
        let environment: Vec<_> =
            fsarena.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect();
        let mut command = Command::new(&script);
        command.args(&RUN_ARGS[1..]).current_dir(&sandbox.dir).env_clear().envs(environment);
        let output = command.env("FSARENA", fsarena.get_program()).envs(variables).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let (printed, _) = sandbox.expect(0, &["merge", "runs"]);
    assert!(printed.contains("merged: all 4 rounds"), "{printed}");
}

#[test]
fn a_kubernetes_job_runs_shards() {
    let sandbox = make_sandbox();
    let yaml = std::fs::read_to_string(contrib_file("kubernetes.yaml")).unwrap();
    let line = yaml.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    let args: Vec<String> = serde_json::from_str(line).unwrap();
    let completions = yaml.lines().find_map(|line| line.trim().strip_prefix("completions: ")).unwrap();
    assert!(args.last().unwrap().ends_with(&format!("/{completions}")), "{args:?}");
    for index in 0..completions.parse().unwrap() {
        let index: u32 = index;
        let to_sandbox = |arg: &String| match arg.as_str() {
            "/plan/plan.toml" => "plan.toml".into(),
            "/runs" => "runs".into(),
            // The number of rounds becomes that of the shards.
            "24" => completions.to_string(),
            arg => arg
                .replace("$(JOB_COMPLETION_INDEX)", &index.to_string())
                .replace("dir:/disk", "dir:a")
                .replace("dir:/memory", "dir:b"),
        };
        let args: Vec<String> = args.iter().map(to_sandbox).collect();
        sandbox.expect(0, &args.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let (printed, _) = sandbox.expect(0, &["merge", "runs"]);
    assert!(printed.contains(&format!("merged: all {completions} rounds")), "{printed}");
}

#[test]
fn a_merge_of_two_hosts_compares_them() {
    let sandbox = make_sandbox();
    if !runs_as_root() {
        return;
    }
    for (host, shard) in [("h1", "1/2"), ("h2", "2/2")] {
        let script = format!("hostname {host} && exec \"$0\" \"$@\"");
        let starter = ["unshare", "--uts", "sh", "-c", &script];
        let args = [&RUN_ARGS[..], &["--shard", shard]].concat();
        let output = sandbox.fsarena_under(&starter, &args).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let (printed, _) = sandbox.expect(0, &["merge", "runs"]);
    assert!(printed.contains("all 4 rounds, of 2 hosts"), "{printed}");
    assert!(printed.contains("Does the answer differ by host?"), "{printed}");
    assert!(printed.contains("Inconclusive: 2 hosts have too few rounds"), "{printed}");
}
