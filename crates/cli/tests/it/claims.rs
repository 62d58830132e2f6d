//! Claims through the real binary: their exit codes, their place in reports, and how they end a run.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{self, Sandbox, runs_as_root};
use quick_xml::{XmlVersion, events::Event};
use rustix::process::Signal;

/// Ten copies of a tree take longer than looking for a few files, whatever the noise: see [`make_sandbox`].
const TRUE_CLAIM: &str = "copy-10.elapsed: ext4 > find-files.elapsed";
const FALSE_CLAIM: &str = "copy-10.elapsed: ext4 < find-files.elapsed";
/// A false claim about two equal variants: that one is 30% faster.
const CLAIM_ABOUT_EQUAL_VARIANTS: &str = "touch.elapsed: one < two by 30%";

/// Makes a sandbox with a plan of the tasks that the claims are about. Each copy sleeps before it begins, so that looking for
/// files never takes as long, whatever else the machine does.
fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.edit_plan("tasks = [1, 2, 3]", "tasks = [1, 2, 9, 12]");
    sandbox.edit_plan("driver = \"native\"", "driver = \"commands\"");
    sandbox.shim("cp", "sleep 0.02; exec \"$REAL\" \"$@\"");
    sandbox
}

/// Runs the plan with these claims, and asserts the exit code. Returns its standard output and standard error.
fn run_with_claims(sandbox: &Sandbox, code: i32, claims: &[&str], extra_args: &[&str]) -> (String, String) {
    let mut args = vec!["run", "plan.toml"];
    args.extend_from_slice(extra_args);
    for claim in claims {
        args.extend_from_slice(&["--claim", claim]);
    }
    sandbox.expect(code, &args)
}

#[test]
fn a_true_claim_ends_the_run_at_the_first_look() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let (printed, stderr) = run_with_claims(&sandbox, 0, &[TRUE_CLAIM], &[]);
    assert!(printed.contains("held") && printed.contains(TRUE_CLAIM), "{printed}");
    assert!(printed.contains("The run stopped because: every claim is decided."), "{printed}");
    assert!(stderr.contains("smallest detectable difference in"), "{stderr}");
    let rounds: std::collections::BTreeSet<u32> = sandbox.rows("latest").iter().map(|row| row.0).collect();
    assert_eq!(rounds, (0..8).collect());
    sandbox.assert_clean();

    // A stored run can be judged again, by other claims.
    sandbox.expect(0, &["report"]);
    let (printed, _) = sandbox.expect(3, &["report", "--claim", FALSE_CLAIM]);
    assert!(printed.contains("refuted"), "{printed}");
    let (_, stderr) = sandbox.expect(2, &["report", "--claim", "touch.elapsed: ext4 < zfs"]);
    assert!(stderr.contains("Unknown variant `zfs`"), "{stderr}");
    let (_, stderr) = sandbox.expect(2, &["report", "--claim", "touch.elapsed ext4"]);
    assert!(stderr.contains("column 15"), "{stderr}");

    let (xml, _) = sandbox.expect(3, &["report", "--claim", FALSE_CLAIM, "--format", "junit"]);
    assert_eq!(element_names(&xml, "testcase"), [TRUE_CLAIM, FALSE_CLAIM].map(|claim| format!("test {claim}")));
    assert_eq!(element_names(&xml, "failure").len(), 1);
    let (annotations, _) = sandbox.expect(3, &["report", "--claim", FALSE_CLAIM, "--format", "github"]);
    assert!(annotations.starts_with("::notice title=claim held::copy-10"), "{annotations}");
    assert!(annotations.contains("\n::error title=claim refuted::copy-10"), "{annotations}");
}

/// The attributes `classname name` of the elements with the name `element_name`. The document must be well-formed.
fn element_names(xml: &str, element_name: &str) -> Vec<String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut names = vec![];
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}\n{xml}")) {
            Event::Start(element) | Event::Empty(element) if element.name().as_ref() == element_name.as_bytes() => {
                let value = |name| {
                    let attribute = element.try_get_attribute(name).unwrap();
                    attribute.map_or(String::new(), |attribute| {
                        attribute.normalized_value(XmlVersion::Explicit1_0).unwrap().into_owned()
                    })
                };
                names.push(format!("{} {}", value("classname"), value("name")));
            }
            Event::Eof => return names,
            _ => {}
        }
    }
}

#[test]
fn a_refuted_claim_outweighs_an_inconclusive_one() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    // Three rounds cannot decide the claim, and --rounds allows no more.
    let (printed, stderr) = run_with_claims(&sandbox, 4, &[TRUE_CLAIM], &["--rounds", "3"]);
    assert!(printed.contains("provisional: a verdict requires 8 rounds"), "{printed}");
    assert!(stderr.contains("so far"), "{stderr}");
    let (printed, _) = run_with_claims(&sandbox, 3, &[FALSE_CLAIM, TRUE_CLAIM], &[]);
    assert!(printed.contains("every claim is decided"), "{printed}");
}

#[test]
fn a_variant_is_never_faster_than_an_equal_one() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    sandbox.edit_plan(
        "[factors]\nfs = [\"ext4\"]",
        "[[variant]]\nname = \"one\"\nfs = \"ext4\"\n[[variant]]\nname = \"two\"\nfs = \"ext4\"",
    );
    // After eight rounds "faster by 30%" is refuted or inconclusive, and never held.
    let output = sandbox.output(&["run", "plan.toml", "--claim", CLAIM_ABOUT_EQUAL_VARIANTS, "--max-rounds", "8"]);
    let printed = common::text(&output.stdout);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{printed}\n{}", common::text(&output.stderr));
    assert!(printed.contains("8 rounds"), "{printed}");
}

#[test]
fn a_resumed_run_keeps_its_claims() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let mut gate = Gate::new(&sandbox, When::Before, "mkfs.ext4", "*test.img*|*/dev/loop*", 5);
    let mut running = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml", "--claim", TRUE_CLAIM]));
    gate.wait_until_stopped(&mut running);
    running.signal(Signal::TERM);
    gate.open();
    running.assert_ended_by(Signal::TERM);
    std::fs::remove_file(sandbox.dir.join("shims/mkfs.ext4")).unwrap();
    let (_, stderr) = sandbox.expect(2, &["run", "--resume", "latest", "--claim", FALSE_CLAIM]);
    assert!(stderr.contains("--claim"), "{stderr}");
    let (printed, _) = sandbox.expect(0, &["run", "--resume", "latest"]);
    assert!(printed.contains("The run stopped because: every claim is decided."), "{printed}");
    let rounds: std::collections::BTreeSet<u32> = sandbox.rows("latest").iter().map(|row| row.0).collect();
    assert_eq!(rounds, (0..8).collect());
    sandbox.assert_clean();
}

#[test]
fn errors_in_claims_are_found_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let (_, stderr) = run_with_claims(&sandbox, 2, &["touch.elapsed: ext4 < btrfs by 5"], &[]);
    assert!(stderr.contains("--claim: column 33: expected `%`"), "{stderr}");
    let (_, stderr) = run_with_claims(&sandbox, 2, &["touch.elapsed: ext4 < etx4"], &[]);
    assert!(stderr.contains("--claim: column 23: Unknown variant `etx4`. Did you mean `ext4`?"), "{stderr}");
    sandbox.edit_plan("scale =", "claims = [\n  \"tuoch.elapsed: best is ext4\",\n]\nscale =");
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml"]);
    assert!(
        stderr.contains("plan.toml, line 6, column 4: claim: Unknown task `tuoch`. Did you mean `touch`?"),
        "{stderr}"
    );
    assert!(!sandbox.runs_dir().exists());
}

#[test]
fn a_dry_run_explains_the_claims() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox();
    let claim = "copy-10.elapsed: ext4 > 2 * find-files.elapsed by 5%";
    let (printed, _) = run_with_claims(&sandbox, 0, &[claim], &["--dry-run", "--max-rounds", "30", "--margin", "2%"]);
    assert!(printed.contains(&format!("# claim: {claim}\n#   true where copy-10.elapsed of ext4 over ")), "{printed}");
    assert!(printed.contains("find-files.elapsed is over 2.1\n"), "{printed}");
    for line in ["rounds = 30", "when_decided = true", "margin = 0.02"] {
        assert!(printed.lines().any(|printed_line| printed_line == line), "{line}\n{printed}");
    }
}
