//! Plans of users through the real binary: fsarena reports an error once, with its place, and exits with 2.

use crate::common::kernel::has;
use crate::common::nobody::Nobody;
use crate::common::{Place, root, text};
use std::{os::unix::fs::PermissionsExt, process::Command};

/// The first three lines of the plans below; additions begin at line 4.
const GOOD: &str = "name = \"mine\"\n[[workload]]\nuse = \"coreutils\"\n";

/// Asserts one line on standard error, nothing on standard output and exit code 2. Returns the line.
#[track_caller]
fn rejected(place: &Place, plan: &str) -> String {
    // No program writes into a pipe, so opening one would wait for ever.
    let output = place.started_by(&["timeout", "60"], &["run", plan]).output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), printed.as_str()), (Some(2), ""), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.len() < 400 && !said.contains("panicked"), "{said}");
    assert!(!place.runs().exists(), "a run was begun");
    said.trim_end().to_string()
}

#[track_caller]
fn says(place: &Place, plan: impl AsRef<[u8]>, expected: &str) {
    std::fs::write(place.dir.join("bad.toml"), &plan).unwrap();
    let said = rejected(place, "bad.toml");
    assert!(said.starts_with(&format!("fsarena: bad.toml, {expected}")), "{said:?} instead of {expected:?}");
}

#[test]
fn the_place_of_a_mistake_is_named_and_what_would_be_right() {
    let place = Place::new();
    let after = |more: &str| format!("{GOOD}{more}");
    for (plan, expected) in [
        ("nme = \"x\"".to_string(), "line 1, column 1: Unknown key `nme`. Did you mean `name`?"),
        (format!("colour = 1\n{GOOD}"), "line 1, column 1: Unknown key `colour`. Available: name"),
        ("name = 3".into(), "line 1, column 8: wrong type: integer `3`, expected a string"),
        ("name = \"x".into(), "line 1, column 10: invalid basic string"),
        (format!("scale = \"huge\"\n{GOOD}"), "line 1, column 9: Unknown value `huge`. Available: paper, quick, tiny"),
        (after("[stop]\nrounds = 0"), "line 5, column 10: a run has at least one round"),
        (after("[stop]\nrounds = \"many\""), "line 5, column 10: wrong type: string \"many\", expected a whole"),
        (after("[stop]\nbudget = \"soon\""), "line 5, column 10: cannot read the time `soon`; write it like \"150s\""),
        (after("[factors]\nfs = [\"ext5\"]"), "line 5, column 6: Unknown filesystem `ext5`. Did you mean `ext"),
        (after("[factors]\nfs = [\"xfs\", \"xfs\"]"), "line 5, column 6: level `xfs` is given twice"),
        (
            after("[factors]\noptions = \"noatme\""),
            "line 5, column 11: Unknown option set `noatme`. Did you mean `noatime`",
        ),
        (after("[factors]\nspeed = 1"), "line 5, column 1: Unknown factor `speed`. Did"),
        (
            after("[device]\nsize = \"2 parsec\""),
            "line 5, column 8: cannot read the size `2 parsec`; write it like \"2GiB\"",
        ),
        (after("[idle]\nio_pressure_percent = 101.0"), "line 5, column 23: a percentage of time lies between"),
        (after("driver = \"magic\""), "line 4, column 10: `driver` accepts one of commands, native"),
        (
            after("drivr = \"native\""),
            "line 4, column 1: Unknown setting `drivr` of workload coreutils. Did you mean `driver`",
        ),
        (after("tasks = [22]"), "line 4, column 9: `tasks` accepts whole numbers from 1 to 21"),
        (
            "name = \"x\"\n[[workload]]\nuse = \"coreutls\"".into(),
            "line 3, column 7: Unknown workload `coreutls`. Did you mean `coreutils`",
        ),
    ] {
        says(&place, plan, expected);
    }
}

#[test]
fn a_plan_file_of_random_bytes_is_refused() {
    let place = Place::new();
    // Deterministic, and no text: every byte once, over and over.
    let garbage: Vec<u8> = (0..10 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(place.dir.join("large.toml"), &garbage).unwrap();
    assert!(rejected(&place, "large.toml").ends_with("large.toml: it has 10.0 MiB, and the limit is 1.0 MiB"));
    says(&place, &garbage[..1 << 20], "line ");
    says(&place, b"name = \"a\"\n# \xff\n", "line 2, column 3: a plan is UTF-8 text, and this byte is not");
    says(&place, format!("name = \"x\"\nx = {}", "[".repeat(1 << 19)), "line 2, column 85: nested too deeply");
    says(&place, format!("name = \"x\"\n{}a = 1", "a.".repeat(1 << 18)), "line 1, column 1: nested too deeply");
    says(&place, "\0", "line 1, column 2: key with no value");
    says(&place, "", "line 1, column 1: missing key `name`");
}

#[test]
fn only_a_file_that_can_be_read_is_a_plan() {
    let place = Place::new();
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    assert!(Command::new("mkfifo").arg(place.dir.join("pipe")).status().unwrap().success());
    for (name, what) in [("/dev/zero", "a character device"), ("dir", "a directory"), ("pipe", "a named pipe (FIFO)")] {
        let said = rejected(&place, name);
        assert!(said.contains(&format!("{name}: this is {what}, and fsarena requires")), "{said}");
    }
    for name in ["missing.toml", "no\nsuch", ""] {
        let said = rejected(&place, name);
        assert!(said.contains("Unknown study, application or plan file") && said.contains("piszcz"), "{said}");
    }
}

#[test]
fn a_file_without_permission_is_named() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    std::fs::set_permissions(place.dir.join("plan.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    let (_, said) = nobody.expect(2, &["run", "../plan.toml"]);
    assert_eq!(said, "fsarena: ../plan.toml: Permission denied (os error 13)\n");
}

#[test]
fn a_plan_with_factors_runs_every_combination() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("fs = [\"ext4\"]", "fs = [\"ext2\", \"ext4\"]\noptions = [\"default\", \"noatime\"]");
    place.expect(0, &["run", "plan.toml"]);
    let variants = variants(&place);
    assert_eq!(variants, ["ext2/default", "ext2/noatime", "ext4/default", "ext4/noatime"].map(String::from));
    let report = place.run_text("report.md");
    for (variant, option) in [("ext2/default", "relatime"), ("ext2/noatime", "noatime"), ("ext4/noatime", "noatime")] {
        let line = report.lines().find(|line| line.starts_with(&format!("| {variant} | mount | "))).unwrap();
        assert!(line.contains(option), "{line}");
    }
}

#[test]
fn a_plan_with_variants_runs_those() {
    if !root() {
        return;
    }
    let place = Place::new();
    let variants_of_it = "[[variant]]\nname = \"small blocks\"\nfs = \"ext4\"\nmkfs = \"-b 1024\"\n\
                      [[variant]]\nfs = \"ext2\"\nmount = \"noatime\"\n[stop]";
    place.edit_plan("[factors]\nfs = [\"ext4\"]\n[stop]", variants_of_it);
    let (answer, _) = place.expect(0, &["run", "plan.toml"]);
    assert_eq!(variants(&place), ["ext2/noatime", "small blocks"].map(String::from));
    assert!(answer.contains("small blocks"), "{answer}");
    let (log, _) = place.expect(0, &["show", "latest"]);
    assert!(log.contains("mkfs.ext4 -F -b 1024 /dev/loop"), "{log}");
}

/// The variants that have samples, sorted.
fn variants(place: &Place) -> Vec<String> {
    let mut variants: Vec<String> = place.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.sort();
    variants.dedup();
    variants
}

#[test]
fn the_plan_of_a_run_is_a_plan() {
    if !root() || !has(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let place = Place::new();
    let sides = ["ab", "peiffer", "--a", "fs=ext4", "--b", "fs=ext4,mkfs=^has_journal"];
    let studies: [&[&str]; 7] = [
        &["run", "piszcz", "--on", "ram", "--budget", "90s"],
        &["run", "engel", "--size", "3000MB", "--margin", "7%"],
        &["run", "wilton", "--claim", "geomean.elapsed: ext4 == xfs within 5%", "--rounds", "9"],
        &["run", "wilton", "--claim", "geomean.elapsed: ext4 == xfs within 5%", "--max-rounds", "30"],
        &sides,
        &["run", "peiffer", "--on", "dir:.", "--on", "dir:home"],
        &["run", "plan.toml", "--fs", "ext4,xfs", "--factor", "scheduler=none,bfq"],
    ];
    let dry = |args: &[&str]| place.expect(0, &[args, &["--dry-run"]].concat()).0;
    for study in studies {
        let first = dry(&[study, &["--scale", "tiny", "--seed", "7"]].concat());
        std::fs::write(place.dir.join("saved.toml"), &first).unwrap();
        assert_eq!(dry(&["run", "saved.toml"]), first, "{study:?}");
        // The command line has the last word, as with every plan.
        assert!(dry(&["run", "saved.toml", "--rounds", "3"]).contains("\nrounds = 3\n"), "{study:?}");
    }
    place.expect(0, &["run", "plan.toml"]);
    let saved = place.run_file("plan.toml").unwrap();
    place.expect(0, &["run", saved.to_str().unwrap(), "--quiet"]);
    let runs = std::fs::read_dir(place.runs()).unwrap().map(|run| run.unwrap().path().join("plan.toml"));
    let plans: Vec<String> = runs.map(|plan| std::fs::read_to_string(plan).unwrap()).collect();
    assert!(plans.len() == 2 && plans[0] == plans[1], "{plans:?}");
    place.assert_clean();
}

#[test]
fn an_unknown_current_variant_is_refused_before_the_run() {
    let place = Place::new();
    let (_, error) = place.expect(2, &["run", "piszcz", "--dry-run", "--on", "ram", "--current", "xsf"]);
    assert!(error.contains("Unknown variant `xsf`"), "{error}");
}
