//! Existing directories, benchmarked by a user without privileges.

use crate::common::{Sandbox, runs_as_root};
use crate::{common::disk::MountedDisk, common::nobody::Nobody};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Flags that run all tasks at their smallest, with a fixed seed.
const TINY_RUN_ARGS: [&str; 5] = ["run", "--scale", "tiny", "--seed", "1"];

#[test]
fn a_directory_is_benchmarked_and_left_as_it_was() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let dir = nobody.dir("a dir");
    std::fs::write(dir.join("precious"), "data").unwrap();
    let before = read_tree(&dir);
    let (answer, stderr) = nobody.expect(0, &[&TINY_RUN_ARGS[..], &["--rounds", "1", "--on", "dir:a dir"]].concat());
    assert_eq!(read_tree(&dir), before);
    sandbox.assert_clean();
    assert!(answer.contains("021 Cat a 3 MiB file") && answer.contains("Only one variant has data"), "{answer}");
    assert!(stderr.contains("nothing was formatted"), "{stderr}");
    let (json, _) = nobody.expect(0, &["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["plan"]["device"]["backing"]["kind"], "dir");
    assert_eq!(report["plan"]["factors"]["dir"][0], dir.to_str().unwrap());
    // The report names the storage below the directory.
    let facts = &report["hosts"][0]["facts"];
    let fact = |name: &str| facts[format!("directory {}: {name}", dir.display())].as_str();
    assert_eq!(fact("directory"), dir.to_str());
    assert!(fact("filesystem").is_some() && fact("device").is_some(), "{facts}");
    let flowed = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains(&format!("existing directories: {} on ", dir.display())), "{answer}");
    let (csv, _) = nobody.expect(0, &["report", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 21, "{csv}");
    // Nothing of the source disk is left either.
    let run = std::fs::read_dir(nobody.home.join("runs")).unwrap().next().unwrap().unwrap().path();
    let paths = read_tree(&run).into_keys();
    let names = paths.map(|path| path.strip_prefix(&run).unwrap().display().to_string());
    let (charts, names): (Vec<String>, Vec<String>) =
        names.filter(|name| name != "report-charts").partition(|name| name.starts_with("report-charts/"));
    assert!(charts.contains(&"report-charts/spent.svg".to_string()), "{charts:?}");
    let reports = ["report.html", "report.json", "report.md"];
    assert_eq!(
        names,
        [&["command.log", "events.jsonl", "plan.toml"], &reports[..], &["run.db", "samples.csv"]].concat()
    );
}

#[test]
fn without_root_the_report_says_that_caches_stay_warm() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    nobody.dir("here");
    let args = ["--workload", "tree", "--rounds", "1", "--on", "dir:here"];
    nobody.expect(0, &[&TINY_RUN_ARGS[..], &args].concat());
    let (answer, _) = nobody.expect(0, &["report", "--full"]);
    let flowed = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains("only root can drop the caches of a directory"), "{answer}");
    sandbox.assert_clean();
}

#[test]
fn a_directory_without_direct_io_is_refused_before_anything_is_measured() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let memory = sandbox.keep_mounted(MountedDisk::ramfs());
    let (_, stderr) = sandbox.expect(2, &["run", "engel", "--on", &format!("dir:{}", memory.display())]);
    assert!(stderr.contains("its filesystem has no direct I/O") && stderr.contains("direct=false"), "{stderr}");
    assert!(!sandbox.runs_dir().exists(), "nothing was measured");
}

/// Each of the two workloads has its own tree among its inputs.
#[test]
fn workloads_of_one_plan_have_separate_inputs_on_the_source_disk() {
    // Only root can drop the caches.
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let native =
        |name: &str, settings: &str| format!("[[workload]]\nuse = \"{name}\"\ndriver = \"native\"\n{settings}");
    let plan = native("coreutils", "tasks = [7, 8]\n") + &native("tree", "");
    std::fs::write(sandbox.dir.join("two.toml"), format!("name = \"two\"\nscale = \"tiny\"\n{plan}")).unwrap();
    std::fs::create_dir(sandbox.dir.join("one")).unwrap();
    sandbox.expect(0, &["run", "two.toml", "--on", "dir:one", "--rounds", "1", "--quiet"]);
    let csv = sandbox.run_text("samples.csv");
    assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
}

/// Every path below a directory, with the contents of files.
fn read_tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut tree = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            tree.extend(read_tree(&path));
        }
        tree.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
    }
    tree
}

#[test]
fn two_directories_are_compared() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let dirs = ["one", "two"].map(|name| nobody.dir(name).to_str().unwrap().to_string());
    let on = ["--rounds", "8", "--on", "dir:one", "--on", &format!("dir:{}", dirs[1]), "--set", "tasks=1,2,3"];
    let (answer, _) = nobody.expect(0, &[&TINY_RUN_ARGS[..], &on].concat());
    // The report has absolute paths, even if the flag has a relative one.
    assert!(dirs.iter().all(|dir| answer.contains(dir)), "{answer}");
    assert!(!answer.contains("PROVISIONAL"), "{answer}");
    let (report, _) = nobody.expect(0, &["report", "--format", "md"]);
    assert_eq!(report.lines().filter(|line| line.starts_with("- round ")).count(), 8, "{report}");
    sandbox.assert_clean();
}

#[test]
fn a_directory_that_cannot_be_used_is_named_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    for (on, words) in [
        ("dir:/etc", ["\"/etc\": Permission denied", "that you can write to"]),
        ("dir:/no/such", ["\"/no/such\" is not a directory", "one that exists"]),
        ("dir:/dev/null", ["\"/dev/null\" is not a directory", "one that exists"]),
    ] {
        let (_, stderr) = nobody.expect(2, &[&TINY_RUN_ARGS[..], &["--on", on]].concat());
        assert!(words.iter().all(|word| stderr.contains(word)), "{stderr}");
    }
    let (_, stderr) = nobody.expect(2, &[&TINY_RUN_ARGS[..], &["--on", "dir:.", "--on", "dir:."]].concat());
    assert!(stderr.contains("is given twice"), "{stderr}");
    assert!(!nobody.home.join("runs").exists());
}

#[test]
fn without_root_runs_that_need_it_are_refused_with_advice() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    for args in [&["run", "--on", "loop"][..], &["run", "--on", "ram"], &["run", "--on", "ram", "--fs", "ext4"]] {
        let (printed, stderr) = nobody.expect(6, args);
        assert_eq!(printed, "");
        assert!(["needs root", "--on dir:PATH", "fsarena doctor"].iter().all(|word| stderr.contains(word)));
    }
    assert!(!nobody.home.join("runs").exists());
    let (printed, _) = nobody.expect(0, &["doctor"]);
    assert!(printed.contains("not root"), "{printed}");
    let (json, _) = nobody.expect(0, &["doctor", "--format", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
    let finding = |name: &str| findings.as_array().unwrap().iter().find(|finding| finding["what"] == name).unwrap();
    assert_eq!(finding("user")["state"], "limited");
    // With an emulator an ordinary user can use the filesystems of guest kernels; without one, only directories.
    let [user, guests] =
        [finding("user"), finding("guests")].map(|finding| finding["found"].as_str().unwrap().to_string());
    let expected = if guests == "no emulator" { "--on dir:PATH" } else { "guest kernels" };
    assert!(user.contains(expected), "{json}");
    // fsarena finds commands in sbin even if PATH lacks it.
    assert_eq!(finding("commands")["state"], "ok", "{json}");
    assert!(finding("filesystems")["found"].as_str().unwrap().contains("ext4"), "{json}");
    nobody.expect(0, &["recover"]);
}
