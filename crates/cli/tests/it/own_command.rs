//! Commands of the user: their tasks, their settings, and every way in which they can go wrong.

use crate::common::kernel::has;
use crate::common::{Place, root, text};
use std::os::unix::fs::PermissionsExt;

/// A run of one round on ext2, with hardly any idle wait.
const QUICK: &str = "name = \"own\"\nseed = 1\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\ntimeout = \"50ms\"\n\
                     dirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n";

/// A place with this plan; none where the test cannot run.
fn place(workload: &str) -> Option<Place> {
    if !root() || !has(&["mkfs.ext2"]) {
        return None;
    }
    let place = Place::new();
    std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(place.dir.join("own.toml"), format!("{QUICK}{workload}")).unwrap();
    Some(place)
}

fn task(cmd: &str) -> String {
    format!("[[workload.task]]\ncmd = '''{cmd}'''\n")
}

#[test]
fn a_plan_sets_up_prepares_times_and_checks_its_tasks() {
    let tasks = "setup = 'echo setup > log'\nprepare = 'echo prepare >> log'\ncheck = 'test -s log'\n\
                 [[workload.task]]\nrun = [\"cp\", \"log\", \"a b\"]\n\
                 [[workload.task]]\nname = \"all\"\n\
                 cmd = '''test \"$(cat log | tr \"\\n\" .)\" = setup.prepare.prepare. && test \"$PWD\" = \"$FSARENA_DIR\" &&\n\
                 test -d \"$FSARENA_SOURCE\" && test \"$FSARENA_VARIANT$FSARENA_ROUND\" = ext21 && test -s 'a b' && touch \"$TMPDIR/t\"'''\n";
    let Some(place) = place(tasks) else { return };
    place.expect(0, &["run", "own.toml", "--quiet"]);
    let tasks: Vec<String> = place.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    assert!(["cp", "all"].iter().all(|name| tasks.iter().any(|task| task == name)), "{tasks:?}");
    place.assert_clean();
}

#[test]
fn a_command_on_the_command_line_runs_without_a_shell() {
    let Some(place) = place("") else { return };
    let on = ["--fs", "ext2", "--rounds", "1", "--quiet"];
    let run = |more: &[&str]| place.expect(0, &[&["run"][..], &on, more].concat());
    run(&["--", "touch", "a; b", "$HOME"]);
    let assignments = ["--cmd", "n=4; test $n = 4", "--cmd", "CC=gcc true"];
    let named = ["--name", "list", "--cmd", "test -e x"];
    run(&[&["--setup", "touch x"][..], &assignments[..2], &named, &assignments[2..], &["--check", "test -e x"]]
        .concat());
    let tasks: Vec<String> = place.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    let has = |name: &str| tasks.iter().any(|task| task == name);
    assert!(["n4", "list", "CCgcc"].into_iter().all(has), "{tasks:?}");
    run(&["--name", "write", "--", "touch", "x"]);
    assert!(place.rows("latest").iter().any(|(.., task)| task == "write"));
    place.assert_clean();
}

#[test]
fn each_bad_command_fails_its_cell_and_says_why() {
    let cases = [
        ("echo words >&2; exit 3", "exit 3): words"),
        ("sleep 60", "did not end within 1 s"),
        ("yes", "printed more than 64 MiB"),
        ("setsid sleep 61 > /dev/null 2>&1 &", "(sleep)"),
        ("read line", "exit 1"),
        ("rm -rf \"$PWD\"", "removed its working directory"),
        ("cat /dev/zero > big", "allow more room (--size)"),
        ("umount \"$(df --output=target . | tail -1)\"", "failed"),
        ("kill -9 $PPID; sleep 1", "signal: 9"),
        ("cd / && : > /var/fsarena-outside", "can write only to $FSARENA_DIR"),
    ];
    for (script, words) in cases {
        // Only what waits for ever has to wait for the end of its time.
        let timeout = if script.starts_with("sleep") { 1 } else { 60 };
        let Some(place) = place(&format!("timeout = {timeout}\n{}", task(script))) else { return };
        let output = place.output(&["run", "own.toml", "--quiet"]);
        let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{script}: {words}\n{said}");
        assert!(!said.contains("bug in fsarena"), "{script}: {said}");
        place.assert_clean();
    }
}

#[test]
fn the_run_keeps_what_commands_print() {
    let long = "echo first; yes 'line of output' | head -n 6000; echo last";
    let work = format!("setup = 'echo prepared'\n{}", task(&format!("{long} $FSARENA_ROUND")));
    let Some(place) = place(&work) else { return };
    let outputs = |place: &Place| -> Vec<(String, String)> {
        let dir = place.run_file("output").unwrap();
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        let mut all: Vec<_> =
            files.map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap())).collect();
        all.sort();
        all
    };
    place.expect(0, &["run", "own.toml", "--quiet", "--rounds", "2"]);
    let kept = outputs(&place);
    assert_eq!(kept.len(), 2, "a file for each cell");
    let (name, text) = &kept[1];
    assert!(name.contains("/output/002-ext2-"), "{name}");
    assert!(text.starts_with("$ sh -euc echo prepared\nprepared\n[exit 0, "), "{text:.200}");
    assert!(text.contains("\nlast 2\n[exit 0, ") && !text.contains("\nfirst\n") && text.len() < 20_000);
    assert!(!place.run_text("command.log").contains("line of output\\n"));
    // Of a command that fails there is far more, and the message names the file.
    std::fs::write(place.dir.join("own.toml"), format!("{QUICK}{}", task(&format!("{long}; false")))).unwrap();
    let (_, said) = place.expect(4, &["run", "own.toml", "--quiet"]);
    let kept = outputs(&place);
    let (name, text) = &kept[0];
    assert!(said.contains(&format!("its output is in {name}")), "{said}");
    assert!(text.contains("\nfirst\n") && text.contains("\nlast\n[exit 1, "));
    place.assert_clean();
}

#[test]
fn a_failing_setup_or_check_fails_the_cell() {
    for setting in ["setup = 'echo why >&2; exit 7'\n", "check = 'echo why >&2; exit 7'\n"] {
        let Some(place) = place(&format!("{setting}{}", task("true"))) else { return };
        let output = place.output(&["run", "own.toml", "--quiet"]);
        let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
        assert!(!output.status.success() && said.contains("exit 7): why"), "{setting}{said}");
        place.assert_clean();
    }
}

#[test]
fn a_command_that_cannot_run_is_refused_before_the_run() {
    let place = Place::new();
    let said = |code, args: &[&str]| place.expect(code, args).1;
    let missing = said(6, &["run", "--on", "dir:home", "--", "no-such-program"]);
    assert!(missing.contains("no-such-program is not installed"), "{missing}");
    let alone = said(2, &["run", "--setup", "true"]);
    assert!(alone.contains("--setup: add --cmd"), "{alone}");
    let named = ["--name", "a", "--cmd", "true"];
    let both = said(2, &[&["run", "--on", "dir:home"][..], &named, &named].concat());
    assert!(both.contains("two tasks have the name `a`"), "{both}");
    for line in
        [&["--cmd", "true", "--name", "b"][..], &["--name", "b"], &["--name", "b", "--name", "a", "--cmd", "true"]]
    {
        let said = said(2, &[&["run"][..], line].concat());
        assert!(said.contains("--name b: write it directly before the --cmd"), "{said}");
    }
    for line in [&["--", ""][..], &["--", "", "x"], &["--cmd", " "], &["--cmd", ""]] {
        let said = said(2, &[&["run", "--on", "dir:home"][..], line].concat());
        assert!(said.contains("command") && said.contains("task `task`"), "{said}");
    }
    place.assert_clean();
}

#[test]
fn a_program_that_cannot_be_executed_is_refused_before_anything_is_made() {
    let place = Place::new();
    let open = |path: &std::path::Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let make = |name: &str, text: &str, mode| {
        let path = place.dir.join(name);
        std::fs::write(&path, text).unwrap();
        open(&path, mode);
        path.display().to_string()
    };
    let cases = [
        (make("plain", "#!/bin/sh\n", 0o644), "has no permission to (`chmod +x "),
        (make("orphan", "#!/no/python\n", 0o755), "its first line names /no/python: No such file"),
        (place.dir.join("gone").display().to_string(), "No such file or directory"),
        (place.dir.display().to_string(), "it is not a file"),
    ];
    let on: &[&str] = if root() { &["--fs", "ext2"] } else { &["--on", "dir:home"] };
    let refused = |more: &[&str]| place.expect(2, &[&["run"], on, more].concat()).1;
    for (program, why) in &cases {
        let said = refused(&["--", program, "x"]);
        assert!(said.contains(&format!("{program} cannot be executed: ")) && said.contains(why), "{said}");
        assert_eq!(said, refused(&["--dry-run", "--", program, "x"]));
    }
    let mut under_sudo = place.fsarena(&[&["run"], on, &["--", "fsarena-builds"]].concat());
    let done = under_sudo.env("SUDO_UID", "0").env("SUDO_GID", "0").output().unwrap();
    let said = text(&done.stderr);
    assert!(done.status.code() == Some(6) && said.contains("sudo env \"PATH=$PATH\" fsarena"), "{said}");
    let said = refused(&["--", "./build"]);
    assert!(said.contains("./build: the working directory is the filesystem under test, which is empty"), "{said}");
    if root() {
        open(&place.dir, 0o755);
        let mine = make("mine", "#!/bin/sh\n", 0o700);
        let said = refused(&["--user", "nobody", "--", &mine]);
        assert!(said.contains(&format!("{mine} cannot be executed: user nobody has no permission")), "{said}");
    }
    assert!(!place.runs().exists());
    place.assert_clean();
}

#[test]
fn metrics_that_commands_print_are_judged_like_any_other() {
    let work = |tps: &str, more: &str| {
        format!(
            "metric_regex = ['tps per_s higher: tps = ([0-9]+)']\n[[workload.task]]\nname = \"work\"\n\
             cmd = '''echo {tps}; echo fsarena-metric: commit_latency 5e6 ns lower; {more} touch x'''\n"
        )
    };
    let Some(place) = place(&work("tps = 1$FSARENA_ROUND", "")) else { return };
    let claim = ["--claim", "work.tps_per_s: ext2 > ext3"];
    let run = ["run", "own.toml", "--fs", "ext2,ext3", "--rounds", "2", "--quiet"];
    let (printed, _) = place.expect(4, &[&run[..], &claim].concat());
    assert!(printed.contains("tps_per_s") && printed.contains("geomean commit_latency"), "{printed}");
    let (csv, _) = place.expect(4, &["report", "--format", "csv"]);
    assert!(csv.lines().next().unwrap().contains("tps_per_s"));
    let (only, _) = place.expect(4, &["report", "--metric", "tps_per_s", "--full"]);
    assert!(only.contains("printed by the command") && !only.contains("geomean commit_latency"), "{only}");
    place.expect(2, &["report", "--metric", "tpz_per_s"]);
    // A task without the figure fails, and so does one that claims to measure what fsarena measures.
    for (workload, code, words) in [
        (work("nothing", ""), 4, "no line of its output matches"),
        (work("tps = 1", "echo fsarena-metric: elapsed 1 ns lower;"), 2, "fsarena measures itself"),
        (work("tps = 1", "echo fsarena-metric: elapsed;"), 4, "write a name, a value, a unit"),
    ] {
        std::fs::write(place.dir.join("own.toml"), format!("{QUICK}{workload}")).unwrap();
        let (_, said) = place.expect(code, &["run", "own.toml", "--quiet"]);
        assert!(said.contains(words), "{said}");
    }
    let (_, said) = place.expect(2, &["run", "--metric-regex", "tps", "--cmd", "true"]);
    assert!(said.contains("metric_regex of task `true`") && said.contains("NAME UNIT DIRECTION"), "{said}");
    place.assert_clean();
}

#[test]
fn one_variant_fails_and_the_others_go_on() {
    // The first two leave nothing to do for a task; the third works for one variant only.
    for (work, words) in [
        ("setup = 'cat /dev/zero > big'\n".to_string() + &task("true"), "allow more room (--size)"),
        ("prepare = 'no-such-program'\n".to_string() + &task("true"), "not found"),
        (task("test $FSARENA_VARIANT = ext2 || { cd /; setsid sleep 61 >/dev/null 2>&1 & }"), "left processes running"),
    ] {
        let all_fail = !work.contains("FSARENA_VARIANT");
        let Some(place) = place(&work) else { return };
        let output = place.output(&["run", "own.toml", "--fs", "ext2,ext3", "--quiet"]);
        let said = crate::common::text(&output.stdout) + &crate::common::text(&output.stderr);
        assert!(said.contains(words), "{words}: {said}");
        assert_eq!(said.contains("every variant has failed"), all_fail, "{said}");
        let tasks = place.rows("latest").into_iter().filter(|(.., task)| task == "true" || task == "test");
        let variants: Vec<String> = tasks.map(|(_, variant, _)| variant).collect();
        assert_eq!(variants, if all_fail { vec![] } else { vec!["ext2"] });
        place.assert_clean();
    }
}

#[test]
fn bytes_written_to_other_devices_are_reported() {
    let work = task("cd \"$FSARENA_SOURCE\" && head -c 5000000 /dev/urandom > astray");
    let Some(place) = place(&work) else { return };
    let (printed, _) = place.expect(0, &["run", "own.toml", "--quiet"]);
    assert!(printed.contains("were written to the source disk, outside the"), "{printed}");
    place.assert_clean();
}
