//! `fsarena ab` through the real binary.

use crate::common::{Place, root};
use serde_json::Value;

#[test]
fn the_report_leads_with_b_against_a() {
    if !root() {
        return;
    }
    let place = Place::new();
    let sides = ["--a", "fs=ext4", "--b", "fs=ext4,mkfs=^has_journal,mount=noatime,nodiratime"];
    let run: Vec<&str> =
        ["ab", "plan.toml"].iter().chain(&sides).chain(&["--rounds", "2", "--on", "ram"]).copied().collect();
    // Two rounds decide nothing, and that is what the exit code says.
    let (text, _) = place.expect(4, &run);
    let title = "B (ext4/^has_journal/noatime,nodiratime) compared with A (ext4)";
    assert!(text.contains(title) && !text.contains("elapsed: time until"), "{text}");
    let (whole, _) = place.expect(4, &["report", "--full"]);
    assert!(whole.find(title).expect(&whole) < whole.find("elapsed: time until").unwrap(), "{whole}");
    let (page, _) = place.expect(4, &["report", "--format", "md"]);
    assert!(page.find("compared with A").expect(&page) < page.find("elapsed: time until").unwrap(), "{page}");
    place.assert_clean();
    let (json, _) = place.expect(4, &["report", "--format", "json", "--margin", "2%"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["pair"]["a"], &report["pair"]["margin"]), (&"ext4".into(), &0.02.into()));
    let rows = report["pair"]["rows"].as_array().unwrap();
    // This little work may take less CPU time than the kernel can show.
    for metric in ["elapsed", "synced"] {
        let of = rows.iter().filter(|row| row["metric"] == metric);
        // Three tasks, and all together.
        assert_eq!(of.clone().count(), 4, "{metric}: {rows:#?}");
        assert!(of.clone().all(|row| row["verdict"] == "provisional"));
    }
    // The sides reached mkfs and mount.
    let log = place.run_text("command.log");
    assert!(log.contains("^has_journal") && log.contains("noatime,nodiratime"), "{log}");
}

#[test]
fn equal_variants_are_allowed_and_named_apart() {
    if !root() {
        return;
    }
    let place = Place::new();
    // A claim about the plan's own variants says nothing of these.
    place.edit_plan("seed = 1", "seed = 1\nclaims = [\"touch.elapsed: ext4 < xfs\"]");
    let (text, _) = place.expect(0, &["ab", "plan.toml", "--a", "fs=ext4", "--b", "fs=ext4", "--dry-run", "-q"]);
    assert!(text.starts_with("# 2 variants: ext4/a, ext4/b\n"), "{text}");
    // Sides that differ in something else take the filesystem of the flag.
    let sides = ["ab", "plan.toml", "--a", "mount=noatime", "--b", "mount=relatime", "--fs", "ext2"];
    let (text, _) = place.expect(0, &[&sides[..], &["--dry-run", "-q"]].concat());
    assert_eq!(text.matches("fs = \"ext2\"").count(), 2, "{text}");
}

#[test]
fn who_claims_nothing_asks_whether_the_sides_are_the_same() {
    if !root() {
        return;
    }
    let place = Place::new();
    let claims = |more: &[&str]| -> Vec<String> {
        let sides = ["ab", "plan.toml", "--a", "fs=ext4", "--b", "fs=ext4,mount=noatime", "--dry-run", "-q"];
        let (text, _) = place.expect(0, &[&sides[..], more].concat());
        text.lines().filter_map(|line| line.strip_prefix("# claim: ").map(String::from)).collect()
    };
    let same = |metric: &str, percent: &str| format!("total.{metric}: ext4/noatime == ext4 within {percent}%");
    assert_eq!(claims(&[]), [same("elapsed", "1"), same("synced", "1")]);
    assert_eq!(claims(&["--margin", "7%"]), [same("elapsed", "7"), same("synced", "7")]);
    let mine = "touch.elapsed: ext4/noatime < ext4";
    assert_eq!(claims(&["--claim", mine]), [mine]);
}

/// Whoever touches a file on a side that is mounted with noatime waits for a fiftieth of a second: planted, and far
/// beyond what a machine does by itself.
fn plant(place: &Place) {
    place.shim(
        "mount",
        "case \"$*\" in *noatime*) : >\"$DIR/slow\";; *) rm -f \"$DIR/slow\";; esac\nexec \"$REAL\" \"$@\"",
    );
    place.shim("touch", "[ -e \"$DIR/slow\" ] && sleep 0.02\nexec \"$REAL\" \"$@\"");
}

#[test]
fn the_question_of_who_claims_nothing_decides_the_exit_code() {
    if !root() {
        return;
    }
    let place = Place::new();
    place.edit_plan("driver = \"native\"\ntasks = [1, 2, 3]", "driver = \"commands\"\ntasks = [1, 2]");
    let ab = |code: i32, b: &str, margin: &str| {
        let args =
            ["ab", "plan.toml", "--a", "fs=ext4", "--b", b, "--margin", margin, "--rounds", "8", "--on", "ram", "-q"];
        place.expect(code, &args).0
    };
    // Equal sides are the same within a factor of ten, whatever the machine does meanwhile.
    let same = ab(0, "fs=ext4", "900%");
    assert!(same.contains("total.elapsed: ext4/b == ext4/a"), "{same}");
    plant(&place);
    let differ = ab(3, "fs=ext4,mount=noatime", "10%");
    assert!(differ.contains("refuted") && differ.contains("ext4/noatime == ext4 within 10%"), "{differ}");
    // A stored run says the same again.
    place.expect(3, &["report", "latest"]);
    place.assert_clean();
}

#[test]
fn faults_of_the_sides_are_usage_errors() {
    let place = Place::new();
    let said = |b: &str, more: &[&str]| {
        let args: Vec<&str> = ["ab", "plan.toml", "--a", "fs=ext4", "--b", b].iter().chain(more).copied().collect();
        place.expect(2, &args).1
    };
    assert!(said("fs=ext5", &[]).contains("--a, --b: Unknown filesystem `ext5`"));
    assert!(said("fss=ext4", &[]).contains("Unknown factor `fss`"));
    assert!(said("fs=ext4", &["--fs", "xfs"]).contains("--a or --b has its own fs"));
    assert!(said("fs=ext4", &["--mount", "noatime", "--mount", "sync"]).contains("A and B have the same mount"));
    assert!(said("fs=ext4,options=nosuch", &[]).contains("Unknown option set `nosuch`"));
    assert!(said("dir=/tmp", &[]).contains("all variants are directories"));
    assert!(said("fs=ext4", &["--on", "dir:/tmp"]).contains("--a dir=PATH --b dir=PATH, without --on"));
}

#[test]
fn help_offers_only_what_is_taken() {
    let place = Place::new();
    let (help, _) = place.expect(0, &["ab", "--help"]);
    assert!(help.contains("--rounds") && help.contains("--margin") && help.contains("--kernel"), "{help}");
    assert!(!help.contains("--resume") && !help.contains("--variant"), "{help}");
}
