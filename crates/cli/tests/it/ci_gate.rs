//! The GitHub action in `contrib/github-action`: its script, run as the action runs it.

use crate::common::{Sandbox, program, text};
use regex::Regex;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

/// The path of a file of the action.
fn action_file(file: &str) -> PathBuf {
    let path = format!("{}/../../contrib/github-action/{file}", env!("CARGO_MANIFEST_DIR"));
    PathBuf::from(path).canonicalize().unwrap()
}

/// Makes a sandbox with two directories, and with the program under test as `fsarena`.
fn make_sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    ["a", "b"].iter().for_each(|dir| std::fs::create_dir(sandbox.dir.join(dir)).unwrap());
    std::os::unix::fs::symlink(program(), sandbox.dir.join("shims/fsarena")).unwrap();
    sandbox
}

/// Runs the gate with these inputs, in the environment of a step of GitHub Actions.
fn run_gate(sandbox: &Sandbox, inputs: &[(&str, &str)]) -> Output {
    let mut command = sandbox.command(&action_file("gate"), &[]);
    command.env("GITHUB_STEP_SUMMARY", sandbox.dir.join("summary.md"));
    command.env("GITHUB_OUTPUT", sandbox.dir.join("outputs")).env("RUNNER_TEMP", &sandbox.dir);
    command.env("FSARENA_GATE_ON", "");
    for (name, value) in inputs {
        command.env(format!("FSARENA_GATE_{name}"), value);
    }
    command.output().unwrap()
}

/// The arguments that compare two directories.
const TWO_DIRECTORIES: &str = "run plan.toml --on dir:a --on dir:b --rounds 8";

/// The text of a file in the sandbox; empty if it does not exist.
fn read_file(sandbox: &Sandbox, name: &str) -> String {
    std::fs::read_to_string(sandbox.dir.join(name)).unwrap_or_default()
}

/// The attribute of the first element of this name of an XML file.
fn attribute(xml: &str, element: &str, name: &str) -> String {
    let mut reader = quick_xml::Reader::from_str(xml);
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Start(start) if start.name().as_ref() == element.as_bytes() => {
                let value = start.try_get_attribute(name).unwrap().unwrap().value;
                return String::from_utf8(value.into_owned()).unwrap();
            }
            quick_xml::events::Event::Eof => panic!("no {element} in {xml}"),
            _ => {}
        }
    }
}

#[test]
fn a_refuted_claim_fails_the_job_with_junit_summary_and_bundle() {
    let sandbox = make_sandbox();
    let arguments =
        format!("{TWO_DIRECTORIES} --claim 'touch.elapsed: \"{0}/a\" > 1000 * \"{0}/b\"'", sandbox.dir.display());
    let output = run_gate(&sandbox, &[("ARGUMENTS", &arguments)]);
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(3), "{printed}\n{stderr}");
    assert!(printed.contains("::error title=claim refuted::"), "{printed}");
    let junit = read_file(&sandbox, "fsarena-report/junit.xml");
    assert_eq!(attribute(&junit, "testsuites", "failures"), "1");
    let summary = read_file(&sandbox, "summary.md");
    assert!(summary.starts_with("### fsarena: failed: a claim is refuted\n"), "{summary}");
    assert!(summary.contains("touch.elapsed"), "{summary}");
    let outputs = read_file(&sandbox, "outputs");
    assert!(outputs.contains("exit-code=3\n") && outputs.contains("/fsarena-report\n"), "{outputs}");
    let runs = std::fs::read_dir(sandbox.dir.join("fsarena-report/runs")).unwrap();
    let reports: Vec<PathBuf> = runs.map(|run| run.unwrap().path().join("report.html")).collect();
    assert!(reports.len() == 1 && reports[0].is_file(), "{reports:?}");
    // The printed report names the page in the directory that stays.
    assert!(printed.contains(&format!("Report: {}", reports[0].display())), "{printed}");
    sandbox.expect(0, &["verify", "fsarena-report/run.tar.zst"]);
    // The gate leaves no other files.
    let temporary = std::fs::read_dir(&sandbox.dir).unwrap().flatten();
    assert!(!temporary.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with("fsarena-gate")));
}

#[test]
fn an_inconclusive_claim_fails_or_warns() {
    let sandbox = make_sandbox();
    // Fewer rounds than a verdict requires.
    let arguments = format!(
        "run plan.toml --on dir:a --on dir:b --rounds 2 --claim 'touch.elapsed: \"{0}/a\" < \"{0}/b\"'",
        sandbox.dir.display()
    );
    let gate_with = |how: &str| run_gate(&sandbox, &[("ARGUMENTS", &arguments), ("INCONCLUSIVE", how)]);
    assert_eq!(gate_with("fail").status.code(), Some(4));
    assert_eq!(gate_with("warn").status.code(), Some(0));
    assert!(read_file(&sandbox, "summary.md").contains("### fsarena: inconclusive\n"));
    assert!(read_file(&sandbox, "outputs").contains("exit-code=4\n"));
    assert_eq!(gate_with("maybe").status.code(), Some(2));
}

#[test]
fn wrong_arguments_are_reported_and_run_nothing() {
    let sandbox = make_sandbox();
    let output = run_gate(&sandbox, &[("ARGUMENTS", "ab plan.toml --a 'fs=ext4; touch owned $(touch owned)'")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!sandbox.dir.join("owned").exists());
    assert!(read_file(&sandbox, "summary.md").starts_with("### fsarena: wrong usage\n"));
    // Without its last words this command would run.
    let output = run_gate(&sandbox, &[("ARGUMENTS", "run plan.toml --on dir:a --on dir:b '--rounds 8")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("check their quotation marks"), "{}", text(&output.stderr));
    assert!(!sandbox.dir.join("fsarena-report/runs").exists());
}

#[test]
fn packages_are_checked_and_installed() {
    if !fsarena_sys::testkit::has_program("curl") {
        return;
    }
    let sandbox = make_sandbox();
    // A tarball as `make tarball` makes it.
    let bin = sandbox.dir.join("fsarena-0.1.0/bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(program(), bin.join("fsarena")).unwrap();
    let tar = "tar -czf fsarena-0.1.0.tar.gz fsarena-0.1.0 && sha256sum fsarena-0.1.0.tar.gz > sum";
    assert!(sandbox.command("/bin/sh".as_ref(), &["-c", tar]).status().unwrap().success());
    std::fs::remove_file(sandbox.dir.join("shims/fsarena")).unwrap();
    let sum = read_file(&sandbox, "sum")[..64].to_string();
    let tarball = ("PACKAGE", "fsarena-0.1.0.tar.gz");
    let arguments = ("ARGUMENTS", "run plan.toml --on dir:a --rounds 1");
    let output = run_gate(&sandbox, &[arguments, tarball, ("SHA256", &sum)]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let output = run_gate(&sandbox, &[arguments, tarball, ("SHA256", &sum.replace(['0', '1', '2'], "3"))]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("its checksum is not"), "{}", text(&output.stderr));
    // A package from a URL is installed only with its checksum.
    let output = run_gate(&sandbox, &[arguments, ("PACKAGE", "https://localhost:1/fsarena.deb")]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("give its checksum"), "{}", text(&output.stderr));
    // A .deb is installed by apt, together with QEMU if that is missing.
    std::fs::write(sandbox.dir.join("fsarena.deb"), "").unwrap();
    std::os::unix::fs::symlink(program(), sandbox.dir.join("shims/fsarena")).unwrap();
    for name in ["sudo", "apt-get"] {
        sandbox.shim(name, "case $0 in *sudo) exec \"$@\";; esac; echo \"$@\" >> \"$DIR/apt\"");
    }
    let output = run_gate(&sandbox, &[arguments, ("PACKAGE", "fsarena.deb")]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let apt = read_file(&sandbox, "apt");
    assert!(apt.starts_with("update -q\ninstall ") && apt.trim_end().ends_with("/fsarena.deb"), "{apt}");
}

/// The inputs that the action declares, those that it passes, and those that the script reads.
#[test]
fn the_action_passes_every_input_to_the_script() {
    let action = std::fs::read_to_string(action_file("action.yml")).unwrap();
    let script = std::fs::read_to_string(action_file("gate")).unwrap();
    let captures = |pattern: &str, text: &str| -> BTreeSet<String> {
        let pattern = Regex::new(pattern).unwrap();
        pattern.captures_iter(text).map(|found| found[1].to_lowercase()).collect()
    };
    let (inputs, _) = action.split_once("\noutputs:").unwrap();
    let declared = captures(r"(?m)^  ([a-z0-9-]+):$", inputs);
    assert!(declared.len() >= 6);
    assert_eq!(captures(r"inputs\.([a-z0-9-]+)", &action), declared);
    assert_eq!(captures(r"FSARENA_GATE_([A-Z0-9_]+):", &action), declared);
    assert_eq!(captures(r"FSARENA_GATE_([A-Z0-9_]+)", &script), declared);
    let outputs = captures(r"steps\.gate\.outputs\.([a-z-]+)", &action);
    assert_eq!(captures(r#"echo "([a-z-]+)=\$"#, &script), outputs);
}
