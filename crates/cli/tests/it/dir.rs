//! Directories as they are, benchmarked by a user without privileges.

use crate::common::{Place, root};
use crate::{common::disk::Disk, common::nobody::Nobody};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// All tasks at their smallest, in the same order every time.
const TINY: [&str; 5] = ["run", "--scale", "tiny", "--seed", "1"];

#[test]
fn a_directory_is_benchmarked_and_left_as_it_was() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let dir = nobody.dir("a dir");
    std::fs::write(dir.join("precious"), "data").unwrap();
    let before = everything(&dir);
    let (answer, said) = nobody.expect(0, &[&TINY[..], &["--rounds", "1", "--on", "dir:a dir"]].concat());
    assert_eq!(everything(&dir), before);
    place.assert_clean();
    assert!(answer.contains("021 Cat a 3 MiB file") && answer.contains("Only one variant has data"), "{answer}");
    assert!(said.contains("nothing was formatted"), "{said}");
    let (json, _) = nobody.expect(0, &["report", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["plan"]["device"]["backing"]["kind"], "dir");
    assert_eq!(report["plan"]["factors"]["dir"][0], dir.to_str().unwrap());
    // The answer is for the storage below the directory.
    let facts = &report["hosts"][0]["facts"];
    let fact = |name: &str| facts[format!("directory {}: {name}", dir.display())].as_str();
    assert_eq!(fact("directory"), dir.to_str());
    assert!(fact("filesystem").is_some() && fact("device").is_some(), "{facts}");
    let flowed = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains(&format!("existing directories: {} on ", dir.display())), "{answer}");
    let (csv, _) = nobody.expect(0, &["report", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + 21, "{csv}");
    // Nothing is left of the source disk either.
    let run = std::fs::read_dir(nobody.home.join("runs")).unwrap().next().unwrap().unwrap().path();
    let all = everything(&run).into_keys();
    let names = all.map(|path| path.strip_prefix(&run).unwrap().display().to_string());
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
fn without_root_caches_that_a_new_mount_would_empty_stay_warm_and_are_told() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    nobody.dir("here");
    let args = ["--workload", "tree", "--rounds", "1", "--on", "dir:here"];
    nobody.expect(0, &[&TINY[..], &args].concat());
    let (answer, _) = nobody.expect(0, &["report", "--full"]);
    let flowed = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flowed.contains("only root can drop the caches of a directory"), "{answer}");
    place.assert_clean();
}

#[test]
fn a_directory_without_direct_io_is_refused_before_anything_is_measured() {
    if !root() {
        return;
    }
    let place = Place::new();
    let memory = place.mount(Disk::without_direct_io());
    let (_, said) = place.expect(2, &["run", "engel", "--on", &format!("dir:{}", memory.display())]);
    assert!(said.contains("its filesystem has no direct I/O") && said.contains("direct=false"), "{said}");
    assert!(!place.runs().exists(), "nothing was measured");
}

/// Each of these workloads has a separate tree among its inputs.
#[test]
fn workloads_of_one_plan_do_not_meet_on_the_other_disk() {
    // Dropping the caches takes root.
    if !root() {
        return;
    }
    let place = Place::new();
    let native = |name: &str, more: &str| format!("[[workload]]\nuse = \"{name}\"\ndriver = \"native\"\n{more}");
    let plan = native("coreutils", "tasks = [7, 8]\n") + &native("tree", "");
    std::fs::write(place.dir.join("two.toml"), format!("name = \"two\"\nscale = \"tiny\"\n{plan}")).unwrap();
    std::fs::create_dir(place.dir.join("one")).unwrap();
    place.expect(0, &["run", "two.toml", "--on", "dir:one", "--rounds", "1", "--quiet"]);
    let csv = place.run_text("samples.csv");
    assert_eq!(csv.lines().count(), 1 + 4, "{csv}");
}

/// Every path below a directory, with the contents of files.
fn everything(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(everything(&path));
        }
        all.insert(path.clone(), std::fs::read(&path).unwrap_or_default());
    }
    all
}

#[test]
fn two_directories_are_compared() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let dirs = ["one", "two"].map(|name| nobody.dir(name).to_str().unwrap().to_string());
    let on = ["--rounds", "8", "--on", "dir:one", "--on", &format!("dir:{}", dirs[1]), "--set", "tasks=1,2,3"];
    let (answer, _) = nobody.expect(0, &[&TINY[..], &on].concat());
    // Paths are absolute, however they were given.
    assert!(dirs.iter().all(|dir| answer.contains(dir)), "{answer}");
    assert!(!answer.contains("PROVISIONAL"), "{answer}");
    let (report, _) = nobody.expect(0, &["report", "--format", "md"]);
    assert_eq!(report.lines().filter(|line| line.starts_with("- round ")).count(), 8, "{report}");
    place.assert_clean();
}

#[test]
fn a_directory_that_cannot_be_used_is_named_before_anything_is_made() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    for (on, words) in [
        ("dir:/etc", ["\"/etc\": Permission denied", "that you can write to"]),
        ("dir:/no/such", ["\"/no/such\" is not a directory", "one that exists"]),
        ("dir:/dev/null", ["\"/dev/null\" is not a directory", "one that exists"]),
    ] {
        let (_, said) = nobody.expect(2, &[&TINY[..], &["--on", on]].concat());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    let (_, said) = nobody.expect(2, &[&TINY[..], &["--on", "dir:.", "--on", "dir:."]].concat());
    assert!(said.contains("is given twice"), "{said}");
    assert!(!nobody.home.join("runs").exists());
}

#[test]
fn without_root_a_place_that_needs_it_is_refused_with_advice() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    for args in [&["run", "--on", "loop"][..], &["run", "--on", "ram"], &["run", "--on", "ram", "--fs", "ext4"]] {
        let (printed, said) = nobody.expect(6, args);
        assert_eq!(printed, "");
        assert!(["needs root", "--on dir:PATH", "fsarena doctor"].iter().all(|word| said.contains(word)));
    }
    assert!(!nobody.home.join("runs").exists());
    let (printed, _) = nobody.expect(0, &["doctor"]);
    assert!(printed.contains("not root"), "{printed}");
    let (json, _) = nobody.expect(0, &["doctor", "--format", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&json).unwrap();
    let of = |what: &str| findings.as_array().unwrap().iter().find(|finding| finding["what"] == what).unwrap();
    assert_eq!(of("user")["state"], "limited");
    // With an emulator an ordinary user has every filesystem of a guest's kernel, else directories.
    let [user, guests] = [of("user"), of("guests")].map(|finding| finding["found"].as_str().unwrap().to_string());
    let expected = if guests == "no emulator" { "--on dir:PATH" } else { "guest kernels" };
    assert!(user.contains(expected), "{json}");
    // fsarena finds commands in sbin even if PATH lacks it.
    assert_eq!(of("commands")["state"], "ok", "{json}");
    assert!(of("filesystems")["found"].as_str().unwrap().contains("ext4"), "{json}");
    nobody.expect(0, &["recover"]);
}
