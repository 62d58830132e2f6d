//! `fsarena ab` through the real binary.

use crate::common::{Sandbox, runs_as_root};
use serde_json::Value;

#[test]
fn the_report_leads_with_b_against_a() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let variants = ["--a", "fs=ext4", "--b", "fs=ext4,mkfs=^has_journal,mount=noatime,nodiratime"];
    let run: Vec<&str> =
        ["ab", "plan.toml"].iter().chain(&variants).chain(&["--rounds", "2", "--on", "ram"]).copied().collect();
    // Two rounds cannot decide the claims, so the exit code is that of an inconclusive claim.
    let (text, _) = sandbox.expect(4, &run);
    let title = "B (ext4/^has_journal/noatime,nodiratime) compared with A (ext4)";
    assert!(text.contains(title) && !text.contains("elapsed: time until"), "{text}");
    let (whole, _) = sandbox.expect(4, &["report", "--full"]);
    assert!(whole.find(title).expect(&whole) < whole.find("elapsed: time until").unwrap(), "{whole}");
    let (page, _) = sandbox.expect(4, &["report", "--format", "md"]);
    assert!(page.find("compared with A").expect(&page) < page.find("elapsed: time until").unwrap(), "{page}");
    sandbox.assert_clean();
    let (json, _) = sandbox.expect(4, &["report", "--format", "json", "--margin", "2%"]);
    let report: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&report["pair"]["a"], &report["pair"]["margin"]), (&"ext4".into(), &0.02.into()));
    let rows = report["pair"]["rows"].as_array().unwrap();
    // This little work may take less CPU time than the kernel can show.
    for metric in ["elapsed", "synced"] {
        let metric_rows = rows.iter().filter(|row| row["metric"] == metric);
        // Three tasks, and their total.
        assert_eq!(metric_rows.clone().count(), 4, "{metric}: {rows:#?}");
        assert!(metric_rows.clone().all(|row| row["verdict"] == "provisional"));
    }
    // The options of B reached mkfs and mount.
    let log = sandbox.run_text("command.log");
    assert!(log.contains("^has_journal") && log.contains("noatime,nodiratime"), "{log}");
}

#[test]
fn equal_variants_are_allowed_and_named_apart() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    // A claim about the plan's own variants does not apply to A and B.
    sandbox.edit_plan("seed = 1", "seed = 1\nclaims = [\"touch.elapsed: ext4 < xfs\"]");
    let (text, _) = sandbox.expect(0, &["ab", "plan.toml", "--a", "fs=ext4", "--b", "fs=ext4", "--dry-run", "-q"]);
    assert!(text.starts_with("# 2 variants: ext4/a, ext4/b\n"), "{text}");
    // Variants without a filesystem take that of the flag.
    let variants = ["ab", "plan.toml", "--a", "mount=noatime", "--b", "mount=relatime", "--fs", "ext2"];
    let (text, _) = sandbox.expect(0, &[&variants[..], &["--dry-run", "-q"]].concat());
    assert_eq!(text.matches("fs = \"ext2\"").count(), 2, "{text}");
}

#[test]
fn without_a_claim_the_claim_is_that_a_and_b_are_equivalent() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let claims = |extra_args: &[&str]| -> Vec<String> {
        let variants = ["ab", "plan.toml", "--a", "fs=ext4", "--b", "fs=ext4,mount=noatime", "--dry-run", "-q"];
        let (text, _) = sandbox.expect(0, &[&variants[..], extra_args].concat());
        text.lines().filter_map(|line| line.strip_prefix("# claim: ").map(String::from)).collect()
    };
    let equivalence = |metric: &str, percent: &str| format!("total.{metric}: ext4/noatime == ext4 within {percent}%");
    assert_eq!(claims(&[]), [equivalence("elapsed", "1"), equivalence("synced", "1")]);
    assert_eq!(claims(&["--margin", "7%"]), [equivalence("elapsed", "7"), equivalence("synced", "7")]);
    let own_claim = "touch.elapsed: ext4/noatime < ext4";
    assert_eq!(claims(&["--claim", own_claim]), [own_claim]);
}

/// Makes `touch` wait for a fiftieth of a second on a variant that is mounted with noatime: far longer than the noise of a
/// machine.
fn slow_down_touch_with_noatime(sandbox: &Sandbox) {
    sandbox.shim(
        "mount",
        "case \"$*\" in *noatime*) : >\"$DIR/slow\";; *) rm -f \"$DIR/slow\";; esac\nexec \"$REAL\" \"$@\"",
    );
    sandbox.shim("touch", "[ -e \"$DIR/slow\" ] && sleep 0.02\nexec \"$REAL\" \"$@\"");
}

#[test]
fn the_default_claim_decides_the_exit_code() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    sandbox.edit_plan("driver = \"native\"\ntasks = [1, 2, 3]", "driver = \"commands\"\ntasks = [1, 2]");
    let ab = |code: i32, b: &str, margin: &str| {
        let args =
            ["ab", "plan.toml", "--a", "fs=ext4", "--b", b, "--margin", margin, "--rounds", "8", "--on", "ram", "-q"];
        sandbox.expect(code, &args).0
    };
    // Equal variants are equivalent within a factor of ten, whatever else the machine does.
    let equal = ab(0, "fs=ext4", "900%");
    assert!(equal.contains("total.elapsed: ext4/b == ext4/a"), "{equal}");
    slow_down_touch_with_noatime(&sandbox);
    let differ = ab(3, "fs=ext4,mount=noatime", "10%");
    assert!(differ.contains("refuted") && differ.contains("ext4/noatime == ext4 within 10%"), "{differ}");
    // The report of the stored run has the same exit code.
    sandbox.expect(3, &["report", "latest"]);
    sandbox.assert_clean();
}

#[test]
fn wrong_variants_are_usage_errors() {
    let sandbox = Sandbox::new();
    let refusal = |b: &str, extra_args: &[&str]| {
        let args: Vec<&str> =
            ["ab", "plan.toml", "--a", "fs=ext4", "--b", b].iter().chain(extra_args).copied().collect();
        sandbox.expect(2, &args).1
    };
    assert!(refusal("fs=ext5", &[]).contains("--a, --b: Unknown filesystem `ext5`"));
    assert!(refusal("fss=ext4", &[]).contains("Unknown factor `fss`"));
    assert!(refusal("fs=ext4", &["--fs", "xfs"]).contains("--a or --b has its own fs"));
    assert!(refusal("fs=ext4", &["--mount", "noatime", "--mount", "sync"]).contains("A and B have the same mount"));
    assert!(refusal("fs=ext4,options=nosuch", &[]).contains("Unknown option set `nosuch`"));
    assert!(refusal("dir=/tmp", &[]).contains("all variants are directories"));
    assert!(refusal("fs=ext4", &["--on", "dir:/tmp"]).contains("--a dir=PATH --b dir=PATH, without --on"));
}

#[test]
fn help_lists_only_accepted_flags() {
    let sandbox = Sandbox::new();
    let (help, _) = sandbox.expect(0, &["ab", "--help"]);
    assert!(help.contains("--rounds") && help.contains("--margin") && help.contains("--kernel"), "{help}");
    assert!(!help.contains("--resume") && !help.contains("--variant"), "{help}");
}
