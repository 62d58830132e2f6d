//! The plans of applications that ship with fsarena: each runs with its real programs.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root, text};

/// Flags of a short run.
const SHORT_RUN_ARGS: [&str; 7] = ["--scale", "tiny", "--fs", "ext2", "--rounds", "1", "--quiet"];

/// Runs an application, and asserts that it has these tasks.
#[track_caller]
fn assert_app_runs(app: &str, programs: &[&str], extra_args: &[&str], tasks: &[&str]) {
    if !runs_as_root() || !has_programs(programs) || !has_programs(&["mkfs.ext2"]) {
        return;
    }
    let sandbox = Sandbox::new();
    write_project(&sandbox);
    sandbox.expect(0, &[&["run", app], &SHORT_RUN_ARGS[..], extra_args].concat());
    let rows: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    let is_of_workload = |task: &&String| !["mkfs", "mount", "unmount"].contains(&task.as_str());
    assert_eq!(rows.iter().filter(is_of_workload).collect::<Vec<_>>(), tasks);
    sandbox.assert_clean();
}

/// Writes a project of one source file, as a directory and as `project.tar`.
fn write_project(sandbox: &Sandbox) {
    let dir = sandbox.dir.join("home/project");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("Makefile"), "main: main.c\n\tgcc -o main main.c\nclean:\n\trm main\n").unwrap();
    std::fs::write(dir.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let mut tar = std::process::Command::new("tar");
    tar.args(["cf", "project.tar", "project"]).current_dir(sandbox.dir.join("home"));
    assert!(tar.status().unwrap().success());
}

#[test]
fn git_plan_runs_with_the_real_program() {
    let tasks = ["clone", "status-cold", "status-warm", "checkout", "gc"];
    assert_app_runs("apps/git", &["git", "perl"], &[], &tasks);
}

#[test]
fn node_modules_plan_runs_with_the_real_programs() {
    assert_app_runs("apps/node_modules", &["tar", "perl"], &[], &["unpack", "walk", "delete"]);
    let own_input = ["--set", "input=home/project"];
    assert_app_runs("apps/node_modules", &["tar", "perl"], &own_input, &["unpack", "walk", "delete"]);
}

#[test]
fn rsync_plan_runs_with_the_real_program() {
    assert_app_runs("apps/rsync", &["rsync", "perl"], &[], &["first", "second"]);
}

#[test]
fn build_plan_builds_a_tarball() {
    let own_input = ["--set", "input=home/project.tar"];
    assert_app_runs("apps/build", &["make", "gcc", "tar"], &own_input, &["unpack", "make", "clean"]);
}

#[test]
fn a_missing_program_of_an_application_is_reported() {
    if !has_programs(&["git"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (_, stderr) = sandbox.expect(2, &["run", "apps/gti"]);
    assert!(stderr.contains("Did you mean `apps/git`?"), "{stderr}");
    let dry_run = |code, extra_args: &[&str]| {
        sandbox.expect(code, &[&["run", "--dry-run", "--on", "dir:home"], extra_args].concat())
    };
    let (_, stderr) = dry_run(2, &["apps/build", "--set", "input=no-such-file"]);
    assert!(stderr.contains("No such file or directory: no-such-file"), "{stderr}");
    let own_plan = sandbox.expect(0, &["show", "apps/git"]).0.replace("\"perl\"", "\"no-such-program\"");
    std::fs::write(sandbox.dir.join("mine.toml"), own_plan).unwrap();
    let (_, stderr) = dry_run(6, &["mine.toml"]);
    assert!(stderr.contains("not installed: no-such-program; on Debian: apt-get install no-such-program"), "{stderr}");
    if !runs_as_root() || !has_programs(&["mkfs.ext2"]) {
        return;
    }
    sandbox.shim("apt-get", "echo 'W: cannot resolve deb.debian.org' >&2; exit 100");
    let output = sandbox.output(&[&["run", "apps/build"], &SHORT_RUN_ARGS[..]].concat());
    let stderr = text(&output.stderr);
    assert!(stderr.contains("; give a tarball: --set input=PROJECT.tar.gz"), "{stderr}");
    sandbox.assert_clean();
}
