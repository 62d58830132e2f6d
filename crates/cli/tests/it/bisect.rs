//! `fsarena bisect` through the real binary, on generated histories with a planted change.

use crate::common::gate::BackgroundRun;
use crate::common::kernel::{
    add_built_in_filesystem, find_debian_kernel, has_programs, kernel_image, write_failing_kernel,
};
use crate::common::{Sandbox, runs_as_root, text};
use fsarena_core::schedule::mix;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

/// A linear history of commits with a planted change.
struct PlantedHistory {
    /// The text that the build of each commit writes into the file `option`, from GOOD to BAD.
    options: Vec<String>,
    /// The indexes of the commits that do not build.
    broken: BTreeSet<usize>,
}

impl PlantedHistory {
    /// Makes the repository with the branch `main`.
    fn make_repository(&self, sandbox: &Sandbox) -> PathBuf {
        let repo = sandbox.dir.join("repo");
        let git = |args: &[&str]| {
            let mut command = sandbox.command("git".as_ref(), args);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            command
        };
        let status = git(&["init", "--quiet", "--bare", repo.to_str().unwrap()]).status().unwrap();
        assert!(status.success());
        let mut stream = String::new();
        for (index, option) in self.options.iter().enumerate() {
            let build = if self.broken.contains(&index) {
                "echo broken >&2\nexit 1\n"
            } else {
                "read first second < source\necho $first > option\necho $second > mount\n"
            };
            let subject = format!("Change number {index}");
            stream += &format!(
                "commit refs/heads/main\ncommitter T <t@example.org> {} +0000\ndata {}\n{subject}\n",
                1_700_000_000 + index,
                subject.len()
            );
            for (name, content) in [("build", build), ("source", option.as_str())] {
                stream += &format!("M 100644 inline {name}\ndata {}\n{content}\n", content.len());
            }
        }
        let mut import = git(&["-C", repo.to_str().unwrap(), "fast-import", "--quiet"]).spawn().unwrap();
        import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
        assert!(import.wait().unwrap().success());
        repo
    }

    /// The arguments that bisect it.
    fn arguments(&self, sandbox: &Sandbox, extra_args: &[&str]) -> Vec<String> {
        let repo = self.make_repository(sandbox).display().to_string();
        let good = format!("main~{}", self.options.len() - 1);
        let args = ["bisect", &good, "main", "--repo", &repo, "--build", "sh build", "--format", "json", "-q"];
        args.iter().chain(extra_args).map(|word| word.to_string()).collect()
    }

    /// Bisects it. Returns the exit code and the JSON.
    fn bisect(&self, sandbox: &Sandbox, extra_args: &[&str]) -> (i32, Value) {
        let args = self.arguments(sandbox, extra_args);
        run_for_json(sandbox, &args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Runs a command. Returns its exit code and its JSON.
fn run_for_json(sandbox: &Sandbox, args: &[&str]) -> (i32, Value) {
    let output = sandbox.output(args);
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    let json = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}\n{stderr}"));
    (output.status.code().unwrap(), json)
}

/// The index of a commit, from its subject.
fn commit_index(json: &Value, id: &Value) -> usize {
    let subject = json["tried"][id.as_str().unwrap()]["subject"].as_str().unwrap();
    subject.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Asserts that a bisection found this commit; or the first commit after it that builds, with this commit among the possible
/// ones.
fn assert_found(json: &Value, first_bad: usize, planted: &PlantedHistory) {
    let ending = &json["ending"];
    assert_eq!(ending["outcome"], "found", "{json:#}");
    let found_commit = commit_index(json, &ending["child"]);
    let are_broken = (first_bad..found_commit).all(|index| planted.broken.contains(&index));
    assert!(
        found_commit == first_bad || found_commit > first_bad && are_broken,
        "found {found_commit}, planted {first_bad}: {json:#}"
    );
    let parent = commit_index(json, &ending["parent"]);
    assert!(parent < first_bad, "{json:#}");
    assert_eq!(ending["possible"].as_array().unwrap().len(), found_commit - parent - 1, "{json:#}");
}

/// Writes a plan whose command prints the cost that the build of its commit wrote.
fn write_printing_plan(sandbox: &Sandbox) {
    sandbox.edit_plan("fs = [\"ext4\"]", "fs = [\"tmpfs\"]");
    // Printed figures do not depend on what else the machine does.
    sandbox.edit_plan("timeout = \"50ms\"", "timeout = \"1ms\"");
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    let (head, _) = plan.split_once("[[workload]]").unwrap();
    let workload = "[[workload]]\nuse = 'command'\nroom = '4MiB'\nmetric_regex = ['cost bytes lower: cost = ([0-9.]+)']\n\
                    [[workload.task]]\nname = 'work'\ncmd = 'echo cost = $(cat $FSARENA_INPUT)'\n";
    std::fs::write(sandbox.dir.join("plan.toml"), format!("{head}{workload}")).unwrap();
}

/// The flags that bisect the printed cost.
const PRINTED_COST_FLAGS: [&str; 5] = [
    "plan.toml",
    "--variant",
    "tmpfs,set.input={tree}/option",
    "--claim",
    "work.cost_bytes: candidate <= baseline within 1%",
];

#[test]
fn a_planted_change_is_found_past_a_commit_that_does_not_build() {
    if !runs_as_root() || !has_programs(&["git"]) {
        return;
    }
    let sandbox = Sandbox::new();
    write_printing_plan(&sandbox);
    // The first bad commit does not build, so the one after it is found, and the first is named beside it.
    let options = ["100", "103", "103", "103"].map(String::from).to_vec();
    let planted = PlantedHistory { options, broken: [1].into() };
    let args = planted.arguments(&sandbox, &PRINTED_COST_FLAGS);
    let mut begun =
        BackgroundRun::start(&sandbox, sandbox.fsarena(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    begun.wait_until("a cell runs", || !sandbox.agents().is_empty());
    begun.signal(Signal::INT);
    begun.assert_ended_by(Signal::INT);
    let (code, json) = run_for_json(&sandbox, &["bisect", "--resume", "latest", "--format", "json", "-q"]);
    assert_eq!(code, 0);
    assert_found(&json, 1, &planted);
    // The interrupted run was resumed.
    assert!(
        json["comparisons"]
            .as_array()
            .unwrap()
            .iter()
            .all(|comparison| comparison["runs"].as_array().unwrap().len() == 1)
    );
    let possible = json["ending"]["possible"][0].as_str().unwrap();
    assert!(json["tried"][possible]["skipped"].as_str().unwrap().contains("broken"), "{json:#}");
    let confirmation = json["comparisons"].as_array().unwrap().last().unwrap();
    assert_eq!(confirmation["result"], "confirmed");
    assert!((confirmation["effect"]["estimate"].as_f64().unwrap() - 0.03).abs() < 1e-9);
    sandbox.assert_clean();

    // The bisection has ended, so to continue it prints the result again.
    let runs = std::fs::read_dir(sandbox.runs_dir()).unwrap().count();
    let (printed, _) = sandbox.expect(0, &["bisect", "--resume", "latest"]);
    assert!(printed.contains("Change number 2) is the first bad commit"), "{printed}");
    assert_eq!(std::fs::read_dir(sandbox.runs_dir()).unwrap().count(), runs);
}

#[test]
fn a_history_without_a_change_needs_one_comparison_of_its_ends() {
    if !runs_as_root() || !has_programs(&["git"]) {
        return;
    }
    let sandbox = Sandbox::new();
    write_printing_plan(&sandbox);
    let planted = PlantedHistory { options: vec!["100".into(), "90".into(), "100.5".into()], broken: BTreeSet::new() };
    let (code, json) = planted.bisect(&sandbox, &PRINTED_COST_FLAGS);
    assert_eq!((code, &json["ending"]["outcome"]), (3, &"no_change".into()), "{json:#}");
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 1);
    // Ends that are in the wrong order, or not in the list.
    let reversed = ["bisect", "main", "main~1", "--repo", "repo"];
    let (_, stderr) = sandbox.expect(2, &[&reversed[..], &PRINTED_COST_FLAGS].concat());
    assert!(stderr.contains("is not an ancestor of BAD"), "{stderr}");
    let levels = ["bisect", "a", "c", "--levels", "mount=a,b", "--fs", "ext4", "plan.toml"];
    let (_, stderr) = sandbox.expect(2, &levels);
    assert!(stderr.contains("`c` is not in the list; it has a, b"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn an_inconclusive_bisection_continues_with_a_larger_budget() {
    if !runs_as_root() || !has_programs(&["git"]) {
        return;
    }
    let sandbox = Sandbox::new();
    write_printing_plan(&sandbox);
    let planted = PlantedHistory { options: ["100", "103", "103"].map(String::from).to_vec(), broken: BTreeSet::new() };
    let args = planted.arguments(&sandbox, &PRINTED_COST_FLAGS);
    let bisect_with = |extra_args: &[&str]| {
        let words: Vec<&str> = args.iter().map(String::as_str).chain(extra_args.iter().copied()).collect();
        run_for_json(&sandbox, &words)
    };
    // The time suffices for a part of the bisection.
    let (code, first) = bisect_with(&["--budget", "1s"]);
    assert_eq!((code, &first["ending"]["outcome"]), (4, &"inconclusive".into()), "{first:#}");
    let (code, json) = bisect_with(&["--budget", "10m"]);
    assert_eq!(code, 0);
    assert_found(&json, 1, &planted);
    assert_eq!(json["id"], first["id"]);
    for (before, after) in first["comparisons"].as_array().unwrap().iter().zip(json["comparisons"].as_array().unwrap())
    {
        let (before, after) = (before["runs"].as_array().unwrap(), after["runs"].as_array().unwrap());
        assert!(after.starts_with(before), "measured again: {json:#}");
    }
    sandbox.assert_clean();
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn kernels_that_do_not_boot_are_skipped() {
    let Some(kernel) =
        find_debian_kernel("6.1.", "-amd64").filter(|_| has_programs(&["git", "qemu-system-x86_64", "mkfs.ext4"]))
    else {
        return;
    };
    let sandbox = Sandbox::new();
    sandbox.edit_plan("use = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]", "use = \"meta\"");
    let kernel_file = |name: &str| sandbox.dir.join(name);
    write_failing_kernel(&kernel_file("dies"), Some("Kernel panic - not syncing: planted"));
    write_failing_kernel(&kernel_file("hangs"), None);
    let image = std::fs::read(kernel_image(&kernel)).unwrap();
    std::fs::write(kernel_file("cut"), &image[..image.len() / 3]).unwrap();
    std::fs::write(kernel_file("text"), "not a kernel").unwrap();
    for name in ["dies", "hangs"] {
        add_built_in_filesystem(&kernel_file(name), "ext4");
    }
    let good = kernel.display().to_string();
    let broken = ["dies", "hangs", "cut", "text"].map(|name| format!("103 {}", kernel_file(name).display()));
    let options = [vec![format!("100 {good}")], broken.to_vec(), vec![format!("103 {good}")]].concat();
    let planted = PlantedHistory { options, broken: BTreeSet::new() };
    let begun = Instant::now();
    let (code, json) = planted.bisect(
        &sandbox,
        &[
            "plan.toml",
            "--on",
            "exact",
            "--guest-timeout",
            "60s",
            "--variant",
            "ext4,set.names={file:option},kernel={file:mount}",
            "--claim",
            "total.kernel_instructions: candidate == baseline within 0.3%",
        ],
    );
    assert_eq!(code, 0, "{json:#}");
    assert_eq!((commit_index(&json, &json["ending"]["parent"]), commit_index(&json, &json["ending"]["child"])), (0, 5));
    let possible = json["ending"]["possible"].as_array().unwrap();
    assert_eq!(possible.len(), 4);
    for id in possible {
        let why = &json["tried"][id.as_str().unwrap()]["skipped"];
        eprintln!("{}: {why}", json["tried"][id.as_str().unwrap()]["subject"]);
        assert!(why.as_str().is_some_and(|why| !why.is_empty()), "{json:#}");
    }
    eprintln!("{:.0} s", begun.elapsed().as_secs_f64());
    sandbox.assert_clean();
}

/// Commits after GOOD in the histories that are bisected by counts.
const COMMIT_COUNT: usize = 64;
/// The names that the work creates, reads and removes in GOOD.
const NAME_COUNT: usize = 100;

/// A history of [`COMMIT_COUNT`] commits. If `has_change`, one of them changes the number of names by 1 to 4, up or down; it is at a
/// random position, which can be either end. Every commit changes a mount option that costs nothing (the longest time
/// between two commits of the journal, which is longer than a cell), and some commits do not build. Returns the index of
/// the change too.
fn generate_history(seed: u64, has_change: bool) -> (PlantedHistory, Option<usize>) {
    let draw = |stream: u64, end: usize| (mix(seed, stream) % end as u64) as usize;
    let first_bad = match seed % 5 {
        0 => 1,
        1 => COMMIT_COUNT,
        _ => 1 + draw(1, COMMIT_COUNT),
    };
    let names = if draw(2, 2) == 0 { NAME_COUNT + 1 + draw(3, 4) } else { NAME_COUNT - 1 - draw(3, 4) };
    let option = |index: usize| {
        let name_count = if has_change && index >= first_bad { names } else { NAME_COUNT };
        format!("{name_count} commit={}", 200 + draw(100 + index as u64, 800))
    };
    let broken = (1..COMMIT_COUNT).filter(|index| draw(200 + *index as u64, 8) == 0).collect();
    (PlantedHistory { options: (0..=COMMIT_COUNT).map(option).collect(), broken }, has_change.then_some(first_bad))
}

/// The variable `FSARENA_HISTORIES` is the number of histories of each kind, `FSARENA_SEED` the first seed.
#[test]
#[ignore = "slow: `make test-long` runs it"]
fn forty_histories_are_bisected_by_counts_without_an_error() {
    if !has_programs(&["git", "qemu-system-x86_64", "mkfs.ext4"]) || find_debian_kernel("6.1.", "-amd64").is_none() {
        return;
    }
    let number_variable = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (histories, first) = (number_variable("FSARENA_HISTORIES", 20), number_variable("FSARENA_SEED", 1));
    for seed in first..first + histories {
        for has_change in [true, false] {
            let begun = Instant::now();
            let (planted, first_bad) = generate_history(seed, has_change);
            let sandbox = Sandbox::new();
            sandbox.edit_plan("use = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]", "use = \"meta\"");
            let work = ["plan.toml", "--on", "exact", "--variant", "ext4,set.names={file:option},mount={file:mount}"];
            let claim = ["--claim", "total.kernel_instructions: candidate == baseline within 0.3%"];
            let (code, json) = planted.bisect(&sandbox, &[&work[..], &claim].concat());
            match first_bad {
                Some(first_bad) => {
                    assert_eq!(code, 0, "seed {seed}: {json:#}");
                    assert_found(&json, first_bad, &planted);
                }
                None => {
                    assert_eq!((code, &json["ending"]["outcome"]), (3, &"no_change".into()), "seed {seed}: {json:#}")
                }
            }
            let comparisons = json["comparisons"].as_array().unwrap().len();
            eprintln!(
                "seed {seed}, first bad {first_bad:?}: right, {comparisons} comparisons, {:.0} s",
                begun.elapsed().as_secs_f64()
            );
        }
    }
}
