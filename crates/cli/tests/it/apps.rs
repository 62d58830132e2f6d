//! The applications that ship as plans: each runs with its real programs.

use crate::common::kernel::has;
use crate::common::{Place, root, text};

const QUICK: [&str; 7] = ["--scale", "tiny", "--fs", "ext2", "--rounds", "1", "--quiet"];

/// Runs an application, which has these tasks.
#[track_caller]
fn runs(app: &str, programs: &[&str], more: &[&str], tasks: &[&str]) {
    if !root() || !has(programs) || !has(&["mkfs.ext2"]) {
        return;
    }
    let place = Place::new();
    write_project(&place);
    place.expect(0, &[&["run", app], &QUICK[..], more].concat());
    let rows: Vec<String> = place.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    let around = |task: &&String| !["mkfs", "mount", "unmount"].contains(&task.as_str());
    assert_eq!(rows.iter().filter(around).collect::<Vec<_>>(), tasks);
    place.assert_clean();
}

/// `project.tar`: a program of one file, and a directory beside it.
fn write_project(place: &Place) {
    let dir = place.dir.join("home/project");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("Makefile"), "main: main.c\n\tgcc -o main main.c\nclean:\n\trm main\n").unwrap();
    std::fs::write(dir.join("main.c"), "int main(void) { return 0; }\n").unwrap();
    let mut tar = std::process::Command::new("tar");
    tar.args(["cf", "project.tar", "project"]).current_dir(place.dir.join("home"));
    assert!(tar.status().unwrap().success());
}

#[test]
fn git_plan_runs_with_the_real_program() {
    let tasks = ["clone", "status-cold", "status-warm", "checkout", "gc"];
    runs("apps/git", &["git", "perl"], &[], &tasks);
}

#[test]
fn node_modules_plan_runs_with_the_real_programs() {
    runs("apps/node_modules", &["tar", "perl"], &[], &["unpack", "walk", "delete"]);
    let own = ["--set", "input=home/project"];
    runs("apps/node_modules", &["tar", "perl"], &own, &["unpack", "walk", "delete"]);
}

#[test]
fn rsync_plan_runs_with_the_real_program() {
    runs("apps/rsync", &["rsync", "perl"], &[], &["first", "second"]);
}

#[test]
fn build_plan_builds_a_tarball() {
    let own = ["--set", "input=home/project.tar"];
    runs("apps/build", &["make", "gcc", "tar"], &own, &["unpack", "make", "clean"]);
}

#[test]
fn a_missing_program_of_an_application_is_reported() {
    if !has(&["git"]) {
        return;
    }
    let place = Place::new();
    let (_, said) = place.expect(2, &["run", "apps/gti"]);
    assert!(said.contains("Did you mean `apps/git`?"), "{said}");
    let dry = |code, more: &[&str]| place.expect(code, &[&["run", "--dry-run", "--on", "dir:home"], more].concat());
    let (_, said) = dry(2, &["apps/build", "--set", "input=no-such-file"]);
    assert!(said.contains("No such file or directory: no-such-file"), "{said}");
    let mine = place.expect(0, &["show", "apps/git"]).0.replace("\"perl\"", "\"no-such-program\"");
    std::fs::write(place.dir.join("mine.toml"), mine).unwrap();
    let (_, said) = dry(6, &["mine.toml"]);
    assert!(said.contains("not installed: no-such-program; on Debian: apt-get install no-such-program"), "{said}");
    if !root() || !has(&["mkfs.ext2"]) {
        return;
    }
    place.shim("apt-get", "echo 'W: cannot resolve deb.debian.org' >&2; exit 100");
    let output = place.output(&[&["run", "apps/build"], &QUICK[..]].concat());
    let said = text(&output.stderr);
    assert!(said.contains("; give a tarball: --set input=PROJECT.tar.gz"), "{said}");
    place.assert_clean();
}
