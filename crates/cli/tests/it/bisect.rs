//! `fsarena bisect` through the real binary, on generated histories with a planted change.

use crate::common::gate::Running;
use crate::common::kernel::{debian, for_x86, has, image, with_built_in};
use crate::common::{Place, root, text};
use fsarena_core::schedule::mix;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

/// A linear history: what the build of each commit writes into `option`, from GOOD to BAD, and the commits that do not build.
struct Planted {
    options: Vec<String>,
    broken: BTreeSet<usize>,
}

impl Planted {
    /// Makes the repository with the branch `main`.
    fn make(&self, place: &Place) -> PathBuf {
        let repo = place.dir.join("repo");
        let git = |args: &[&str]| {
            let mut command = place.started_as("git".as_ref(), args);
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            command
        };
        let status = git(&["init", "--quiet", "--bare", repo.to_str().unwrap()]).status().unwrap();
        assert!(status.success());
        let mut stream = String::new();
        for (at, option) in self.options.iter().enumerate() {
            let build = if self.broken.contains(&at) {
                "echo broken >&2\nexit 1\n"
            } else {
                "read first second < source\necho $first > option\necho $second > mount\n"
            };
            let subject = format!("Change number {at}");
            stream += &format!(
                "commit refs/heads/main\ncommitter T <t@example.org> {} +0000\ndata {}\n{subject}\n",
                1_700_000_000 + at,
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
    fn arguments(&self, place: &Place, more: &[&str]) -> Vec<String> {
        let repo = self.make(place).display().to_string();
        let good = format!("main~{}", self.options.len() - 1);
        let args = ["bisect", &good, "main", "--repo", &repo, "--build", "sh build", "--format", "json", "-q"];
        args.iter().chain(more).map(|word| word.to_string()).collect()
    }

    /// Bisects it. Returns the exit code and the JSON.
    fn bisect(&self, place: &Place, more: &[&str]) -> (i32, Value) {
        let args = self.arguments(place, more);
        json_of(place, &args.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// The exit code and the JSON of a command.
fn json_of(place: &Place, args: &[&str]) -> (i32, Value) {
    let output = place.output(args);
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    let json = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}\n{said}"));
    (output.status.code().unwrap(), json)
}

/// The number of a commit by its subject.
fn number(json: &Value, id: &Value) -> usize {
    let subject = json["tried"][id.as_str().unwrap()]["subject"].as_str().unwrap();
    subject.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Asserts that a bisection ended at this commit, or named it among those that could not be tested beside it.
fn assert_found(json: &Value, first_bad: usize, planted: &Planted) {
    let ending = &json["ending"];
    assert_eq!(ending["outcome"], "found", "{json:#}");
    let found = number(json, &ending["child"]);
    let near = (first_bad..found).all(|at| planted.broken.contains(&at));
    assert!(found == first_bad || found > first_bad && near, "found {found}, planted {first_bad}: {json:#}");
    let parent = number(json, &ending["parent"]);
    assert!(parent < first_bad, "{json:#}");
    assert_eq!(ending["possible"].as_array().unwrap().len(), found - parent - 1, "{json:#}");
}

/// A plan whose command prints the cost that the build of its commit wrote.
fn printing_plan(place: &Place) {
    place.edit_plan("fs = [\"ext4\"]", "fs = [\"tmpfs\"]");
    // Printed figures do not depend on what else the machine does.
    place.edit_plan("timeout = \"50ms\"", "timeout = \"1ms\"");
    let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
    let (head, _) = plan.split_once("[[workload]]").unwrap();
    let workload = "[[workload]]\nuse = 'command'\nroom = '4MiB'\nmetric_regex = ['cost bytes lower: cost = ([0-9.]+)']\n\
                    [[workload.task]]\nname = 'work'\ncmd = 'echo cost = $(cat $FSARENA_INPUT)'\n";
    std::fs::write(place.dir.join("plan.toml"), format!("{head}{workload}")).unwrap();
}

const PRINTED: [&str; 5] = [
    "plan.toml",
    "--variant",
    "tmpfs,set.input={tree}/option",
    "--claim",
    "work.cost_bytes: candidate <= baseline within 1%",
];

#[test]
fn a_planted_change_is_found_past_a_commit_that_does_not_build() {
    if !root() || !has(&["git"]) {
        return;
    }
    let place = Place::new();
    printing_plan(&place);
    // The first bad commit does not build, so the one after it is found, and the first is named beside it.
    let options = ["100", "103", "103", "103"].map(String::from).to_vec();
    let planted = Planted { options, broken: [1].into() };
    let args = planted.arguments(&place, &PRINTED);
    let mut begun = Running::start(&place, place.fsarena(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    begun.until("a cell runs", || !place.agents().is_empty());
    begun.signal(Signal::INT);
    begun.ended_by(Signal::INT);
    let (code, json) = json_of(&place, &["bisect", "--resume", "latest", "--format", "json", "-q"]);
    assert_eq!(code, 0);
    assert_found(&json, 1, &planted);
    // The interrupted run was resumed.
    assert!(json["comparisons"].as_array().unwrap().iter().all(|one| one["runs"].as_array().unwrap().len() == 1));
    let possible = json["ending"]["possible"][0].as_str().unwrap();
    assert!(json["tried"][possible]["skipped"].as_str().unwrap().contains("broken"), "{json:#}");
    let confirmation = json["comparisons"].as_array().unwrap().last().unwrap();
    assert_eq!(confirmation["result"], "confirmed");
    assert!((confirmation["effect"]["estimate"].as_f64().unwrap() - 0.03).abs() < 1e-9);
    place.assert_clean();

    // It ended, so continuing it prints it again.
    let runs = std::fs::read_dir(place.runs()).unwrap().count();
    let (printed, _) = place.expect(0, &["bisect", "--resume", "latest"]);
    assert!(printed.contains("Change number 2) is the first bad commit"), "{printed}");
    assert_eq!(std::fs::read_dir(place.runs()).unwrap().count(), runs);
}

#[test]
fn a_history_without_a_change_ends_at_its_ends() {
    if !root() || !has(&["git"]) {
        return;
    }
    let place = Place::new();
    printing_plan(&place);
    let planted = Planted { options: vec!["100".into(), "90".into(), "100.5".into()], broken: BTreeSet::new() };
    let (code, json) = planted.bisect(&place, &PRINTED);
    assert_eq!((code, &json["ending"]["outcome"]), (3, &"no_change".into()), "{json:#}");
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 1);
    // A claim, ends or a list that cannot be bisected.
    let turned = ["bisect", "main", "main~1", "--repo", "repo"];
    let (_, said) = place.expect(2, &[&turned[..], &PRINTED].concat());
    assert!(said.contains("is not an ancestor of BAD"), "{said}");
    let over = ["bisect", "a", "c", "--levels", "mount=a,b", "--fs", "ext4", "plan.toml"];
    let (_, said) = place.expect(2, &over);
    assert!(said.contains("`c` is not in the list; it has a, b"), "{said}");
    place.assert_clean();
}

#[test]
fn an_inconclusive_bisection_continues_with_a_larger_budget() {
    if !root() || !has(&["git"]) {
        return;
    }
    let place = Place::new();
    printing_plan(&place);
    let planted = Planted { options: ["100", "103", "103"].map(String::from).to_vec(), broken: BTreeSet::new() };
    let args = planted.arguments(&place, &PRINTED);
    let within = |more: &[&str]| {
        let words: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        json_of(&place, &words)
    };
    // The time suffices for a part.
    let (code, first) = within(&["--budget", "1s"]);
    assert_eq!((code, &first["ending"]["outcome"]), (4, &"inconclusive".into()), "{first:#}");
    let (code, json) = within(&["--budget", "10m"]);
    assert_eq!(code, 0);
    assert_found(&json, 1, &planted);
    assert_eq!(json["id"], first["id"]);
    for (before, after) in first["comparisons"].as_array().unwrap().iter().zip(json["comparisons"].as_array().unwrap())
    {
        let (before, after) = (before["runs"].as_array().unwrap(), after["runs"].as_array().unwrap());
        assert!(after.starts_with(before), "measured again: {json:#}");
    }
    place.assert_clean();
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn kernels_that_do_not_boot_are_skipped() {
    let Some(kernel) = debian("6.1.", "-amd64").filter(|_| has(&["git", "qemu-system-x86_64", "mkfs.ext4"])) else {
        return;
    };
    let place = Place::new();
    place.edit_plan("use = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]", "use = \"meta\"");
    let stand_in = |name: &str| place.dir.join(name);
    for_x86(&stand_in("dies"), Some("Kernel panic - not syncing: planted"));
    for_x86(&stand_in("hangs"), None);
    let whole = std::fs::read(image(&kernel)).unwrap();
    std::fs::write(stand_in("cut"), &whole[..whole.len() / 3]).unwrap();
    std::fs::write(stand_in("text"), "not a kernel").unwrap();
    for name in ["dies", "hangs"] {
        with_built_in(&stand_in(name), "ext4");
    }
    let good = kernel.display().to_string();
    let broken = ["dies", "hangs", "cut", "text"].map(|name| format!("103 {}", stand_in(name).display()));
    let options = [vec![format!("100 {good}")], broken.to_vec(), vec![format!("103 {good}")]].concat();
    let planted = Planted { options, broken: BTreeSet::new() };
    let begun = Instant::now();
    let (code, json) = planted.bisect(
        &place,
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
    assert_eq!((number(&json, &json["ending"]["parent"]), number(&json, &json["ending"]["child"])), (0, 5));
    let possible = json["ending"]["possible"].as_array().unwrap();
    assert_eq!(possible.len(), 4);
    for id in possible {
        let why = &json["tried"][id.as_str().unwrap()]["skipped"];
        eprintln!("{}: {why}", json["tried"][id.as_str().unwrap()]["subject"]);
        assert!(why.as_str().is_some_and(|why| !why.is_empty()), "{json:#}");
    }
    eprintln!("{:.0} s", begun.elapsed().as_secs_f64());
    place.assert_clean();
}

/// Commits after GOOD in the histories that are bisected by counts.
const COMMITS: usize = 64;
/// The names that the work creates, reads and removes in GOOD.
const NAMES: usize = 100;

/// A history of [`COMMITS`] in which, with `changed`, one of them changes the number of names by 1 to 4, at a random place (both
/// ends included) and in either direction. Every commit changes a mount option that costs nothing (the longest time between two
/// commits of the journal, which is beyond that of a cell), and some do not build.
fn counted_history(seed: u64, changed: bool) -> (Planted, Option<usize>) {
    let draw = |what: u64, below: usize| (mix(seed, what) % below as u64) as usize;
    let first_bad = match seed % 5 {
        0 => 1,
        1 => COMMITS,
        _ => 1 + draw(1, COMMITS),
    };
    let names = if draw(2, 2) == 0 { NAMES + 1 + draw(3, 4) } else { NAMES - 1 - draw(3, 4) };
    let option = |at: usize| {
        let now = if changed && at >= first_bad { names } else { NAMES };
        format!("{now} commit={}", 200 + draw(100 + at as u64, 800))
    };
    let broken = (1..COMMITS).filter(|at| draw(200 + *at as u64, 8) == 0).collect();
    (Planted { options: (0..=COMMITS).map(option).collect(), broken }, changed.then_some(first_bad))
}

/// `FSARENA_HISTORIES` is the number of histories of each kind, `FSARENA_SEED` the first seed.
#[test]
#[ignore = "slow: `make test-long` runs it"]
fn forty_histories_are_bisected_by_counts_without_an_error() {
    if !has(&["git", "qemu-system-x86_64", "mkfs.ext4"]) || debian("6.1.", "-amd64").is_none() {
        return;
    }
    let number = |name: &str, otherwise: u64| std::env::var(name).map_or(otherwise, |text| text.parse().unwrap());
    let (histories, first) = (number("FSARENA_HISTORIES", 20), number("FSARENA_SEED", 1));
    for seed in first..first + histories {
        for changed in [true, false] {
            let begun = Instant::now();
            let (planted, first_bad) = counted_history(seed, changed);
            let place = Place::new();
            place.edit_plan("use = \"coreutils\"\ndriver = \"native\"\ntasks = [1, 2, 3]", "use = \"meta\"");
            let work = ["plan.toml", "--on", "exact", "--variant", "ext4,set.names={file:option},mount={file:mount}"];
            let claim = ["--claim", "total.kernel_instructions: candidate == baseline within 0.3%"];
            let (code, json) = planted.bisect(&place, &[&work[..], &claim].concat());
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
