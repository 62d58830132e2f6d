//! What people see of runs, lists and comparisons: names, hints, and what stands in the first lines.

use crate::common::{Place, root, stored, text, web::Web};
use std::os::linux::fs::MetadataExt;

/// The standard output of a command on a screen of so many columns.
#[track_caller]
fn in_columns(place: &Place, columns: usize, args: &[&str]) -> String {
    let output = place.fsarena(args).env("COLUMNS", columns.to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn a_run_is_named_after_the_workload_that_it_ran() {
    let place = Place::new();
    let args = ["run", "--workload", "wal", "--set", "seconds=1", "--on", "dir:home", "--rounds", "1"];
    let (printed, said) = place.expect(0, &[&args[..], &["--scale", "tiny"]].concat());
    assert!(printed.starts_with("wal: ") && !printed.contains("everyday"), "{printed}");
    assert!(said.contains("-wal-") && !said.contains("everyday"), "{said}");
    // The plan's own workload keeps the plan's name.
    let own = ["run", "--workload", "coreutils", "--on", "dir:home", "--dry-run", "--quiet"];
    assert!(place.expect(0, &own).0.contains("name = \"piszcz\""));
    let list = Web::start(&place, &[]).page("/");
    assert!(list.contains("/history?study=wal"), "{list}");
}

#[test]
fn a_run_of_a_command_is_named_after_its_program_and_served_with_its_words() {
    let place = Place::new();
    place.expect(0, &["run", "--on", "dir:home", "--rounds", "1", "--quiet", "--", "touch", "a file", "b"]);
    let list = Web::start(&place, &[]).page("/");
    assert!(list.contains("-touch-") && list.contains("touch a file b"), "{list}");
    assert!(place.expect(0, &["list", "runs"]).0.contains("touch"));
}

#[test]
fn variants_have_options_of_their_own() {
    if !root() {
        return;
    }
    let place = Place::new();
    let variants = ["--variant", "btrfs,options=compress-zstd", "--variant", "ext4", "--variant", "ext4,mount=noatime"];
    let run = [&["run", "plan.toml", "--on", "ram", "--quiet"][..], &variants].concat();
    let (dry, _) = place.expect(0, &[&run[..], &["--dry-run"]].concat());
    let names = "# 3 variants: btrfs/compress-zstd, ext4, ext4/noatime\n";
    assert!(dry.starts_with(names) && dry.contains("options = \"compress-zstd\""), "{dry}");
    // A plan says the same, and what `--dry-run` prints is such a plan.
    std::fs::write(place.dir.join("saved.toml"), &dry).unwrap();
    assert_eq!(place.expect(0, &["run", "saved.toml", "--on", "ram", "--dry-run", "--quiet"]).0, dry);
    place.expect(0, &run);
    let log = place.run_text("command.log");
    assert!(log.contains("compress=zstd") && log.contains("noatime"), "{log}");
    place.assert_clean();
}

#[test]
fn a_factor_has_one_place() {
    let place = Place::new();
    let refused = |more: &[&str]| {
        place.expect(2, &[&["run", "plan.toml", "--variant", "ext4,mount=noatime"][..], more].concat()).1
    };
    assert!(refused(&["--mount", "nodiratime"]).contains("--mount: a --variant has its own mount"));
    assert!(refused(&["--fs", "xfs"]).contains("--fs"));
    assert!(refused(&["--variant", "apfs"]).contains("--variant: Unknown filesystem `apfs`"));
    let stages = ["run", "gus3", "--variant", "ext4", "--variant", "xfs"];
    assert!(place.expect(2, &stages).1.contains("write one stage as a plan"));
    if !root() {
        return;
    }
    let factors = ["run", "plan.toml", "--variant", "ext4", "--variant", "xfs", "--factor", "scheduler=none,bfq"];
    let (dry, _) = place.expect(0, &[&factors[..], &["--on", "ram", "--dry-run", "--quiet"]].concat());
    assert!(dry.starts_with("# 4 variants: ext4/none, ext4/bfq, xfs/none, xfs/bfq\n"), "{dry}");
}

#[test]
fn a_scheduler_of_loop_devices_says_that_the_disk_keeps_its_own() {
    if !root() {
        return;
    }
    let place = Place::new();
    // Images on a disk: those in memory have none below them.
    let images = tempfile::tempdir_in("/var/tmp").unwrap();
    let on = format!("loop:{}", images.path().display());
    let args = ["run", "plan.toml", "--fs", "ext2", "--factor", "scheduler=none", "--on", &on, "--quiet"];
    let (printed, _) = place.expect(0, &args);
    // A filesystem on no device of its own (in memory, or an overlay) has no disk to speak of.
    let device = std::fs::metadata(images.path()).unwrap().st_dev();
    let has_disk = rustix::fs::major(device) != 0;
    assert_eq!(printed.contains("the disk below keeps its own"), has_disk, "{printed}");
    place.assert_clean();
}

#[test]
fn confounding_of_directories_is_in_the_first_lines() {
    let place = Place::new();
    std::fs::create_dir(place.dir.join("other")).unwrap();
    let args = ["run", "plan.toml", "--on", "dir:home", "--on", "dir:other", "--quiet"];
    let (printed, _) = place.expect(0, &args);
    let first: String = printed.lines().take(8).collect::<Vec<_>>().join(" ");
    assert!(first.contains("! These directories lie on one filesystem") && first.contains("% full"), "{printed}");
}

#[test]
fn confounding_of_compared_runs_is_in_the_first_lines() {
    let place = Place::new();
    let ids = [(); 2].map(|()| stored::run(&place.runs()).id());
    let (printed, _) = place.expect(0, &["compare", &ids[0], &ids[1]]);
    let said = printed.find("! Different runs").expect(&printed);
    assert!(said < printed.find("B compared with A").expect(&printed), "{printed}");
    let words: Vec<&str> = printed[said..].split_whitespace().collect();
    assert!(words.join(" ").contains("from the machine, not from a filesystem"), "{printed}");
}

#[test]
fn lists_fit_a_terminal_and_break_no_word() {
    let place = Place::new();
    stored::run(&place.runs());
    for what in ["studies", "apps", "filesystems", "workloads", "metrics", "factors", "exporters", "runs"] {
        let words = |text: &str| text.split_whitespace().map(String::from).collect::<std::collections::BTreeSet<_>>();
        let wide = words(&in_columns(&place, 1000, &["list", what]));
        for columns in [80, 120] {
            let shown = in_columns(&place, columns, &["list", what]);
            let widest = shown.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= columns, "{what}: {widest}");
            assert_eq!(words(&shown).difference(&wide).next(), None, "{what}: {shown}");
        }
    }
}

#[test]
fn a_filesystem_explains_its_option_sets() {
    let place = Place::new();
    let shown = in_columns(&place, 80, &["show", "ext4"]);
    for words in
        ["no-journal", "mkfs -O ^has_journal", "no journal: a crash needs fsck", "--options", "--variant ext4,"]
    {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let (json, _) = place.expect(0, &["show", "ext4", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["option_sets"][5]["mkfs"], serde_json::json!(["-O", "^has_journal"]));
}

#[test]
fn who_forgets_the_dashes_or_the_source_gets_the_way_out() {
    let place = Place::new();
    let says = |line: &str| place.expect(2, &line.split_whitespace().collect::<Vec<_>>()).1;
    assert!(says("run ls").contains("fsarena run -- ls"));
    assert!(says("run ls /tmp x").contains("fsarena run -- ls /tmp x"));
    assert!(says("run --fs ext4 ls -l /tmp").contains("fsarena run -- ls -l /tmp"));
    let unknown = says("run --fs apfs");
    assert!(
        unknown.contains("Available: ext2") && unknown.contains("--on dir:PATH") && unknown.contains("mkfs"),
        "{unknown}"
    );
    let watch = says("watch");
    assert!(watch.contains("needs a source") && watch.contains("--squid HOST:PORT"), "{watch}");
    assert!(!place.runs().exists());
}
