//! Claims through the real binary: what they are worth as exit codes, in reports, and to a run that goes on.

use crate::common::gate::{Gate, Running, When};
use crate::common::{self, Place, root};
use quick_xml::{XmlVersion, events::Event};
use rustix::process::Signal;

/// Ten copies of a tree take longer than looking for a few files, whatever the noise: see [`place`].
const TRUE: &str = "copy-10.elapsed: ext4 > find-files.elapsed";
const FALSE: &str = "copy-10.elapsed: ext4 < find-files.elapsed";
/// The same command is not 30% faster than itself.
const EQUAL: &str = "touch.elapsed: one < two by 30%";

/// A place for the tasks that the claims are about. There each copy sleeps before it begins, so that nothing which the
/// machine does beside makes looking for files take as long.
fn place() -> Place {
    let place = Place::new();
    place.edit_plan("tasks = [1, 2, 3]", "tasks = [1, 2, 9, 12]");
    place.edit_plan("driver = \"native\"", "driver = \"commands\"");
    place.shim("cp", "sleep 0.02; exec \"$REAL\" \"$@\"");
    place
}

fn run(place: &Place, code: i32, claims: &[&str], more: &[&str]) -> (String, String) {
    let mut args = vec!["run", "plan.toml"];
    args.extend_from_slice(more);
    for claim in claims {
        args.extend_from_slice(&["--claim", claim]);
    }
    place.expect(code, &args)
}

#[test]
fn a_true_claim_ends_the_run_at_the_first_look() {
    if !root() {
        return;
    }
    let place = place();
    let (printed, said) = run(&place, 0, &[TRUE], &[]);
    assert!(printed.contains("held") && printed.contains(TRUE), "{printed}");
    assert!(printed.contains("The run stopped because: every claim is decided."), "{printed}");
    assert!(said.contains("smallest detectable difference in"), "{said}");
    let rounds: std::collections::BTreeSet<u32> = place.rows("latest").iter().map(|row| row.0).collect();
    assert_eq!(rounds, (0..8).collect());
    place.assert_clean();

    // Any stored run can be judged again, by any claim.
    place.expect(0, &["report"]);
    let (printed, _) = place.expect(3, &["report", "--claim", FALSE]);
    assert!(printed.contains("refuted"), "{printed}");
    let (_, said) = place.expect(2, &["report", "--claim", "touch.elapsed: ext4 < zfs"]);
    assert!(said.contains("Unknown variant `zfs`"), "{said}");
    let (_, said) = place.expect(2, &["report", "--claim", "touch.elapsed ext4"]);
    assert!(said.contains("column 15"), "{said}");

    let (xml, _) = place.expect(3, &["report", "--claim", FALSE, "--format", "junit"]);
    assert_eq!(elements(&xml, "testcase"), [TRUE, FALSE].map(|claim| format!("test {claim}")));
    assert_eq!(elements(&xml, "failure").len(), 1);
    let (annotations, _) = place.expect(3, &["report", "--claim", FALSE, "--format", "github"]);
    assert!(annotations.starts_with("::notice title=claim held::copy-10"), "{annotations}");
    assert!(annotations.contains("\n::error title=claim refuted::copy-10"), "{annotations}");
}

/// The attributes `classname name` of the elements of this name; the document has to be well-formed.
fn elements(xml: &str, wanted: &str) -> Vec<String> {
    let mut reader = quick_xml::Reader::from_str(xml);
    let mut found = vec![];
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}\n{xml}")) {
            Event::Start(element) | Event::Empty(element) if element.name().as_ref() == wanted.as_bytes() => {
                let value = |name| {
                    let attribute = element.try_get_attribute(name).unwrap();
                    attribute
                        .map_or(String::new(), |a| a.normalized_value(XmlVersion::Explicit1_0).unwrap().into_owned())
                };
                found.push(format!("{} {}", value("classname"), value("name")));
            }
            Event::Eof => return found,
            _ => {}
        }
    }
}

#[test]
fn a_refuted_claim_outweighs_an_open_one() {
    if !root() {
        return;
    }
    let place = place();
    // Three rounds decide nothing; asked for by number they are all there is.
    let (printed, said) = run(&place, 4, &[TRUE], &["--rounds", "3"]);
    assert!(printed.contains("provisional: a verdict requires 8 rounds"), "{printed}");
    assert!(said.contains("so far"), "{said}");
    let (printed, _) = run(&place, 3, &[FALSE, TRUE], &[]);
    assert!(printed.contains("every claim is decided"), "{printed}");
}

#[test]
fn a_variant_is_no_faster_than_itself() {
    if !root() {
        return;
    }
    let place = place();
    place.edit_plan(
        "[factors]\nfs = [\"ext4\"]",
        "[[variant]]\nname = \"one\"\nfs = \"ext4\"\n[[variant]]\nname = \"two\"\nfs = \"ext4\"",
    );
    // "Faster by 30%" is either refuted, or at eight rounds not yet decided; never held.
    let output = place.output(&["run", "plan.toml", "--claim", EQUAL, "--max-rounds", "8"]);
    let printed = common::text(&output.stdout);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{printed}\n{}", common::text(&output.stderr));
    assert!(printed.contains("8 rounds"), "{printed}");
}

#[test]
fn a_resumed_run_goes_on_with_its_claims() {
    if !root() {
        return;
    }
    let place = place();
    let mut gate = Gate::new(&place, When::Before, "mkfs.ext4", "*test.img*|*/dev/loop*", 5);
    let mut running = Running::start(&place, place.fsarena(&["run", "plan.toml", "--claim", TRUE]));
    gate.wait(&mut running);
    running.signal(Signal::TERM);
    gate.open();
    running.ended_by(Signal::TERM);
    std::fs::remove_file(place.dir.join("shims/mkfs.ext4")).unwrap();
    let (_, said) = place.expect(2, &["run", "--resume", "latest", "--claim", FALSE]);
    assert!(said.contains("--claim"), "{said}");
    let (printed, _) = place.expect(0, &["run", "--resume", "latest"]);
    assert!(printed.contains("The run stopped because: every claim is decided."), "{printed}");
    let rounds: std::collections::BTreeSet<u32> = place.rows("latest").iter().map(|row| row.0).collect();
    assert_eq!(rounds, (0..8).collect());
    place.assert_clean();
}

#[test]
fn faults_in_claims_are_found_before_anything_is_made() {
    if !root() {
        return;
    }
    let place = place();
    let (_, said) = run(&place, 2, &["touch.elapsed: ext4 < btrfs by 5"], &[]);
    assert!(said.contains("--claim: column 33: expected `%`"), "{said}");
    let (_, said) = run(&place, 2, &["touch.elapsed: ext4 < etx4"], &[]);
    assert!(said.contains("--claim: column 23: Unknown variant `etx4`. Did you mean `ext4`?"), "{said}");
    place.edit_plan("scale =", "claims = [\n  \"tuoch.elapsed: best is ext4\",\n]\nscale =");
    let (_, said) = place.expect(2, &["run", "plan.toml"]);
    assert!(said.contains("plan.toml, line 6, column 4: claim: Unknown task `tuoch`. Did you mean `touch`?"), "{said}");
    assert!(!place.runs().exists());
}

#[test]
fn a_dry_run_says_how_it_understands_the_claims() {
    if !root() {
        return;
    }
    let place = place();
    let claim = "copy-10.elapsed: ext4 > 2 * find-files.elapsed by 5%";
    let (printed, _) = run(&place, 0, &[claim], &["--dry-run", "--max-rounds", "30", "--margin", "2%"]);
    assert!(printed.contains(&format!("# claim: {claim}\n#   true where copy-10.elapsed of ext4 over ")), "{printed}");
    assert!(printed.contains("find-files.elapsed is over 2.1\n"), "{printed}");
    for line in ["rounds = 30", "when_decided = true", "margin = 0.02"] {
        assert!(printed.lines().any(|printed| printed == line), "{line}\n{printed}");
    }
}
