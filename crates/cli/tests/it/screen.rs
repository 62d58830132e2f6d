//! The texts of runs, lists and comparisons: names, hints, and warnings in the first lines.

use crate::common::{Sandbox, runs_as_root, stored, text, web::WebServer};
use std::os::linux::fs::MetadataExt;

/// The standard output of a command on a terminal with this number of columns.
#[track_caller]
fn output_in_columns(sandbox: &Sandbox, columns: usize, args: &[&str]) -> String {
    let output = sandbox.fsarena(args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_run_is_named_after_the_workload_that_it_ran() {
    let sandbox = Sandbox::new();
    let args = ["run", "--workload", "wal", "--set", "seconds=1", "--on", "dir:home", "--rounds", "1"];
    let (printed, stderr) = sandbox.expect(0, &[&args[..], &["--scale", "tiny"]].concat());
    assert!(printed.starts_with("wal: ") && !printed.contains("everyday"), "{printed}");
    assert!(stderr.contains("-wal-") && !stderr.contains("everyday"), "{stderr}");
    // A run of the workload that the plan has keeps the name of the plan.
    let plan_workload = ["run", "--workload", "coreutils", "--on", "dir:home", "--dry-run", "--quiet"];
    assert!(sandbox.expect(0, &plan_workload).0.contains("name = \"piszcz\""));
    let list = WebServer::start(&sandbox, &[]).get_page("/");
    assert!(list.contains("/history?study=wal"), "{list}");
}

#[test]
fn a_run_of_a_command_is_named_after_its_program_and_listed_with_its_arguments() {
    let sandbox = Sandbox::new();
    sandbox.expect(0, &["run", "--on", "dir:home", "--rounds", "1", "--quiet", "--", "touch", "a file", "b"]);
    let list = WebServer::start(&sandbox, &[]).get_page("/");
    assert!(list.contains("-touch-") && list.contains("touch a file b"), "{list}");
    assert!(sandbox.expect(0, &["list", "runs"]).0.contains("touch"));
}

#[test]
fn variants_have_options_of_their_own() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let variants = ["--variant", "btrfs,options=compress-zstd", "--variant", "ext4", "--variant", "ext4,mount=noatime"];
    let run = [&["run", "plan.toml", "--on", "ram", "--quiet"][..], &variants].concat();
    let (dry, _) = sandbox.expect(0, &[&run[..], &["--dry-run"]].concat());
    let names = "# 3 variants: btrfs/compress-zstd, ext4, ext4/noatime\n";
    assert!(dry.starts_with(names) && dry.contains("options = \"compress-zstd\""), "{dry}");
    // `--dry-run` prints a plan that can be run.
    std::fs::write(sandbox.dir.join("saved.toml"), &dry).unwrap();
    assert_eq!(sandbox.expect(0, &["run", "saved.toml", "--on", "ram", "--dry-run", "--quiet"]).0, dry);
    sandbox.expect(0, &run);
    let log = sandbox.run_text("command.log");
    assert!(log.contains("compress=zstd") && log.contains("noatime"), "{log}");
    sandbox.assert_clean();
}

#[test]
fn a_factor_is_set_in_one_place_only() {
    let sandbox = Sandbox::new();
    let refusal = |args: &[&str]| {
        sandbox.expect(2, &[&["run", "plan.toml", "--variant", "ext4,mount=noatime"][..], args].concat()).1
    };
    assert!(refusal(&["--mount", "nodiratime"]).contains("--mount: a --variant has its own mount"));
    assert!(refusal(&["--fs", "xfs"]).contains("--fs"));
    assert!(refusal(&["--variant", "apfs"]).contains("--variant: Unknown filesystem `apfs`"));
    let stages = ["run", "gus3", "--variant", "ext4", "--variant", "xfs"];
    assert!(sandbox.expect(2, &stages).1.contains("write one stage as a plan"));
    if !runs_as_root() {
        return;
    }
    let factors = ["run", "plan.toml", "--variant", "ext4", "--variant", "xfs", "--factor", "scheduler=none,bfq"];
    let (dry, _) = sandbox.expect(0, &[&factors[..], &["--on", "ram", "--dry-run", "--quiet"]].concat());
    assert!(dry.starts_with("# 4 variants: ext4/none, ext4/bfq, xfs/none, xfs/bfq\n"), "{dry}");
}

#[test]
fn a_scheduler_of_loop_devices_does_not_change_that_of_the_disk() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // Images in memory would have no disk below them.
    let images = tempfile::tempdir_in("/var/tmp").unwrap();
    let on = format!("loop:{}", images.path().display());
    let args = ["run", "plan.toml", "--fs", "ext2", "--factor", "scheduler=none", "--on", &on, "--quiet"];
    let (printed, _) = sandbox.expect(0, &args);
    // A filesystem in memory and an overlay have no device.
    let device = std::fs::metadata(images.path()).unwrap().st_dev();
    let has_disk = rustix::fs::major(device) != 0;
    assert_eq!(printed.contains("the disk below keeps its own"), has_disk, "{printed}");
    sandbox.assert_clean();
}

#[test]
fn confounding_of_directories_is_in_the_first_lines() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("other")).unwrap();
    let args = ["run", "plan.toml", "--on", "dir:home", "--on", "dir:other", "--quiet"];
    let (printed, _) = sandbox.expect(0, &args);
    let first_lines: String = printed.lines().take(8).collect::<Vec<_>>().join(" ");
    assert!(
        first_lines.contains("! These directories lie on one filesystem") && first_lines.contains("% full"),
        "{printed}"
    );
}

#[test]
fn confounding_of_compared_runs_is_in_the_first_lines() {
    let sandbox = Sandbox::new();
    let ids = [(); 2].map(|()| stored::store_run(&sandbox.runs_dir()).id());
    let (printed, _) = sandbox.expect(0, &["compare", &ids[0], &ids[1]]);
    let warning_start = printed.find("! Different runs").expect(&printed);
    assert!(warning_start < printed.find("B compared with A").expect(&printed), "{printed}");
    let words: Vec<&str> = printed[warning_start..].split_whitespace().collect();
    assert!(words.join(" ").contains("from the machine, not from a filesystem"), "{printed}");
}

#[test]
fn lists_fit_a_terminal_and_break_no_word() {
    let sandbox = Sandbox::new();
    stored::store_run(&sandbox.runs_dir());
    for list in ["studies", "apps", "filesystems", "workloads", "metrics", "factors", "exporters", "runs"] {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<std::collections::BTreeSet<_>>();
        let all_words = words(&output_in_columns(&sandbox, 1000, &["list", list]));
        for columns in [80, 120] {
            let shown = output_in_columns(&sandbox, columns, &["list", list]);
            let widest = shown.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= columns, "{list}: {widest}");
            assert_eq!(words(&shown).difference(&all_words).next(), None, "{list}: {shown}");
        }
    }
}

#[test]
fn a_filesystem_explains_its_option_sets() {
    let sandbox = Sandbox::new();
    let shown = output_in_columns(&sandbox, 80, &["show", "ext4"]);
    for words in
        ["no-journal", "mkfs -O ^has_journal", "no journal: a crash needs fsck", "--options", "--variant ext4,"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let (json, _) = sandbox.expect(0, &["show", "ext4", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["option_sets"][5]["mkfs"], serde_json::json!(["-O", "^has_journal"]));
}

#[test]
fn refusals_of_common_mistakes_name_the_right_command() {
    let sandbox = Sandbox::new();
    let refusal = |line: &str| sandbox.expect(2, &line.split_whitespace().collect::<Vec<_>>()).1;
    assert!(refusal("run ls").contains("fsarena run -- ls"));
    assert!(refusal("run ls /tmp x").contains("fsarena run -- ls /tmp x"));
    assert!(refusal("run --fs ext4 ls -l /tmp").contains("fsarena run -- ls -l /tmp"));
    let unknown = refusal("run --fs apfs");
    assert!(
        unknown.contains("Available: ext2") && unknown.contains("--on dir:PATH") && unknown.contains("mkfs"),
        "{unknown}"
    );
    let watch = refusal("watch");
    assert!(watch.contains("needs a source") && watch.contains("--squid HOST:PORT"), "{watch}");
    assert!(!sandbox.runs_dir().exists());
}
