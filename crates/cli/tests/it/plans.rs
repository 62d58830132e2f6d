//! Plans of users: fsarena reports an error once, with its line and column, and exits with 2.

use crate::common::kernel::has_programs;
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root, text};
use std::{os::unix::fs::PermissionsExt, process::Command};

/// A valid plan of three lines. Additions begin at line 4.
const VALID_PLAN: &str = "name = \"mine\"\n[[workload]]\nuse = \"coreutils\"\n";

/// Runs a plan. Asserts one line on standard error, nothing on standard output and exit code 2. Returns the line.
#[track_caller]
fn expect_refusal(sandbox: &Sandbox, plan: &str) -> String {
    // No program writes into a pipe, so opening one would wait for ever.
    let output = sandbox.fsarena_under(&["timeout", "60"], &["run", plan]).output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), printed.as_str()), (Some(2), ""), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.len() < 400 && !stderr.contains("panicked"), "{stderr}");
    assert!(!sandbox.runs_dir().exists(), "a run was begun");
    stderr.trim_end().to_string()
}

/// Asserts that a plan of this text is refused with a message that begins with `expected` after the name of the file.
#[track_caller]
fn assert_refusal(sandbox: &Sandbox, plan: impl AsRef<[u8]>, expected: &str) {
    std::fs::write(sandbox.dir.join("bad.toml"), &plan).unwrap();
    let stderr = expect_refusal(sandbox, "bad.toml");
    assert!(stderr.starts_with(&format!("fsarena: bad.toml, {expected}")), "{stderr:?} instead of {expected:?}");
}

#[test]
fn a_refusal_names_the_line_the_column_and_valid_values() {
    let sandbox = Sandbox::new();
    let with_addition = |addition: &str| format!("{VALID_PLAN}{addition}");
    for (plan, expected) in [
        ("nme = \"x\"".to_string(), "line 1, column 1: Unknown key `nme`. Did you mean `name`?"),
        (format!("colour = 1\n{VALID_PLAN}"), "line 1, column 1: Unknown key `colour`. Available: name"),
        ("name = 3".into(), "line 1, column 8: wrong type: integer `3`, expected a string"),
        ("name = \"x".into(), "line 1, column 10: invalid basic string"),
        (
            format!("scale = \"huge\"\n{VALID_PLAN}"),
            "line 1, column 9: Unknown value `huge`. Available: paper, quick, tiny",
        ),
        (with_addition("[stop]\nrounds = 0"), "line 5, column 10: a run has at least one round"),
        (
            with_addition("[stop]\nrounds = \"many\""),
            "line 5, column 10: wrong type: string \"many\", expected a whole",
        ),
        (
            with_addition("[stop]\nbudget = \"soon\""),
            "line 5, column 10: cannot read the time `soon`; write it like \"150s\"",
        ),
        (with_addition("[factors]\nfs = [\"ext5\"]"), "line 5, column 6: Unknown filesystem `ext5`. Did you mean `ext"),
        (with_addition("[factors]\nfs = [\"xfs\", \"xfs\"]"), "line 5, column 6: level `xfs` is given twice"),
        (
            with_addition("[factors]\noptions = \"noatme\""),
            "line 5, column 11: Unknown option set `noatme`. Did you mean `noatime`",
        ),
        (with_addition("[factors]\nspeed = 1"), "line 5, column 1: Unknown factor `speed`. Did"),
        (
            with_addition("[device]\nsize = \"2 parsec\""),
            "line 5, column 8: cannot read the size `2 parsec`; write it like \"2GiB\"",
        ),
        (with_addition("[idle]\nio_pressure_percent = 101.0"), "line 5, column 23: a percentage of time lies between"),
        (with_addition("driver = \"magic\""), "line 4, column 10: `driver` accepts one of commands, native"),
        (
            with_addition("drivr = \"native\""),
            "line 4, column 1: Unknown setting `drivr` of workload coreutils. Did you mean `driver`",
        ),
        (with_addition("tasks = [22]"), "line 4, column 9: `tasks` accepts whole numbers from 1 to 21"),
        (
            "name = \"x\"\n[[workload]]\nuse = \"coreutls\"".into(),
            "line 3, column 7: Unknown workload `coreutls`. Did you mean `coreutils`",
        ),
    ] {
        assert_refusal(&sandbox, plan, expected);
    }
}

#[test]
fn a_workload_twice_in_a_plan_is_refused_because_its_tasks_have_the_same_names() {
    let sandbox = Sandbox::new();
    let workload = |files: u32| format!("[[workload]]\nuse = \"tree\"\ntree_files = {files}\n");
    std::fs::write(sandbox.dir.join("bad.toml"), format!("name = \"x\"\n{}{}", workload(200), workload(400))).unwrap();
    let stderr = expect_refusal(&sandbox, "bad.toml");
    assert!(stderr.contains("two tasks have the name `") && stderr.contains("`[grid]`"), "{stderr}");
}

#[test]
fn a_plan_file_of_random_bytes_is_refused() {
    let sandbox = Sandbox::new();
    // Deterministic bytes that are no text.
    let garbage: Vec<u8> = (0..10 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(sandbox.dir.join("large.toml"), &garbage).unwrap();
    assert!(expect_refusal(&sandbox, "large.toml").ends_with("large.toml: it has 10.0 MiB, and the limit is 1.0 MiB"));
    assert_refusal(&sandbox, &garbage[..1 << 20], "line ");
    assert_refusal(&sandbox, b"name = \"a\"\n# \xff\n", "line 2, column 3: a plan is UTF-8 text, and this byte is not");
    assert_refusal(
        &sandbox,
        format!("name = \"x\"\nx = {}", "[".repeat(1 << 19)),
        "line 2, column 85: nested too deeply",
    );
    assert_refusal(
        &sandbox,
        format!("name = \"x\"\n{}a = 1", "a.".repeat(1 << 18)),
        "line 1, column 1: nested too deeply",
    );
    assert_refusal(&sandbox, "\0", "line 1, column 2: key with no value");
    assert_refusal(&sandbox, "", "line 1, column 1: missing key `name`");
}

#[test]
fn devices_directories_pipes_and_missing_files_are_refused_as_plans() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.dir.join("pipe")).status().unwrap().success());
    for (name, kind) in [("/dev/zero", "a character device"), ("dir", "a directory"), ("pipe", "a named pipe (FIFO)")] {
        let stderr = expect_refusal(&sandbox, name);
        assert!(stderr.contains(&format!("{name}: this is {kind}, and fsarena requires")), "{stderr}");
    }
    for name in ["missing.toml", "no\nsuch", ""] {
        let stderr = expect_refusal(&sandbox, name);
        assert!(stderr.contains("Unknown study, application or plan file") && stderr.contains("piszcz"), "{stderr}");
    }
}

#[test]
fn a_file_without_permission_is_named() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    std::fs::set_permissions(sandbox.dir.join("plan.toml"), PermissionsExt::from_mode(0o600)).unwrap();
    let (_, stderr) = nobody.expect(2, &["run", "../plan.toml"]);
    assert_eq!(stderr, "fsarena: ../plan.toml: Permission denied (os error 13)\n");
}

#[test]
fn a_plan_with_factors_runs_every_combination() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("fs = [\"ext4\"]", "fs = [\"ext2\", \"ext4\"]\noptions = [\"default\", \"noatime\"]");
    sandbox.expect(0, &["run", "plan.toml"]);
    let variants = variants(&sandbox);
    assert_eq!(variants, ["ext2/default", "ext2/noatime", "ext4/default", "ext4/noatime"].map(String::from));
    let report = sandbox.run_text("report.md");
    for (variant, option) in [("ext2/default", "relatime"), ("ext2/noatime", "noatime"), ("ext4/noatime", "noatime")] {
        let line = report.lines().find(|line| line.starts_with(&format!("| {variant} | mount | "))).unwrap();
        assert!(line.contains(option), "{line}");
    }
}

#[test]
fn a_plan_with_variants_runs_those() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let variant_tables = "[[variant]]\nname = \"small blocks\"\nfs = \"ext4\"\nmkfs = \"-b 1024\"\n\
                      [[variant]]\nfs = \"ext2\"\nmount = \"noatime\"\n[stop]";
    sandbox.edit_plan("[factors]\nfs = [\"ext4\"]\n[stop]", variant_tables);
    let (answer, _) = sandbox.expect(0, &["run", "plan.toml"]);
    assert_eq!(variants(&sandbox), ["ext2/noatime", "small blocks"].map(String::from));
    assert!(answer.contains("small blocks"), "{answer}");
    let (log, _) = sandbox.expect(0, &["show", "latest"]);
    assert!(log.contains("mkfs.ext4 -F -b 1024 /dev/loop"), "{log}");
}

/// The variants that have samples, sorted.
fn variants(sandbox: &Sandbox) -> Vec<String> {
    let mut variants: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, variant, _)| variant).collect();
    variants.sort();
    variants.dedup();
    variants
}

#[test]
fn a_printed_or_stored_plan_can_be_run_again() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let ab_args = ["ab", "peiffer", "--a", "fs=ext4", "--b", "fs=ext4,mkfs=^has_journal"];
    let commands: [&[&str]; 7] = [
        &["run", "piszcz", "--on", "ram", "--budget", "90s"],
        &["run", "engel", "--size", "3000MB", "--margin", "7%"],
        &["run", "wilton", "--claim", "geomean.elapsed: ext4 == xfs within 5%", "--rounds", "9"],
        &["run", "wilton", "--claim", "geomean.elapsed: ext4 == xfs within 5%", "--max-rounds", "30"],
        &ab_args,
        &["run", "peiffer", "--on", "dir:.", "--on", "dir:home"],
        &["run", "plan.toml", "--fs", "ext4,xfs", "--factor", "scheduler=none,bfq"],
    ];
    let dry_run = |args: &[&str]| sandbox.expect(0, &[args, &["--dry-run"]].concat()).0;
    for command in commands {
        let plan = dry_run(&[command, &["--scale", "tiny", "--seed", "7"]].concat());
        std::fs::write(sandbox.dir.join("saved.toml"), &plan).unwrap();
        assert_eq!(dry_run(&["run", "saved.toml"]), plan, "{command:?}");
        // The command line overrides the plan, as usual.
        assert!(dry_run(&["run", "saved.toml", "--rounds", "3"]).contains("\nrounds = 3\n"), "{command:?}");
    }
    sandbox.expect(0, &["run", "plan.toml"]);
    let saved = sandbox.run_file("plan.toml").unwrap();
    sandbox.expect(0, &["run", saved.to_str().unwrap(), "--quiet"]);
    let runs = std::fs::read_dir(sandbox.runs_dir()).unwrap().map(|run| run.unwrap().path().join("plan.toml"));
    let plans: Vec<String> = runs.map(|plan| std::fs::read_to_string(plan).unwrap()).collect();
    assert!(plans.len() == 2 && plans[0] == plans[1], "{plans:?}");
    sandbox.assert_clean();
}

#[test]
fn an_unknown_current_variant_is_refused_before_the_run() {
    let sandbox = Sandbox::new();
    let (_, error) = sandbox.expect(2, &["run", "piszcz", "--dry-run", "--on", "ram", "--current", "xsf"]);
    assert!(error.contains("Unknown variant `xsf`"), "{error}");
}
