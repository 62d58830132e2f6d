//! The workload `command`: tasks, settings, and every kind of failure.

use crate::common::kernel::has_programs;
use crate::common::{Sandbox, runs_as_root, text};
use std::os::unix::fs::PermissionsExt;

/// The beginning of a plan: one round on ext2, with hardly any idle wait.
const PLAN_HEAD: &str = "name = \"own\"\nseed = 1\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\ntimeout = \"50ms\"\n\
                     dirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n";

/// Makes a sandbox with a plan of this workload; None if the test cannot run here.
fn make_sandbox(workload: &str) -> Option<Sandbox> {
    if !runs_as_root() || !has_programs(&["mkfs.ext2"]) {
        return None;
    }
    let sandbox = Sandbox::new();
    std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(sandbox.dir.join("own.toml"), format!("{PLAN_HEAD}{workload}")).unwrap();
    Some(sandbox)
}

fn task_table(cmd: &str) -> String {
    format!("[[workload.task]]\ncmd = '''{cmd}'''\n")
}

#[test]
fn a_plan_sets_up_prepares_times_and_checks_its_tasks() {
    let tasks = "setup = 'echo setup > log'\nprepare = 'echo prepare >> log'\ncheck = 'test -s log'\n\
                 [[workload.task]]\nrun = [\"cp\", \"log\", \"a b\"]\n\
                 [[workload.task]]\nname = \"all\"\n\
                 cmd = '''test \"$(cat log | tr \"\\n\" .)\" = setup.prepare.prepare. && test \"$PWD\" = \"$FSARENA_DIR\" &&\n\
                 test -d \"$FSARENA_SOURCE\" && test \"$FSARENA_VARIANT$FSARENA_ROUND\" = ext21 && test -s 'a b' && touch \"$TMPDIR/t\"'''\n";
    let Some(sandbox) = make_sandbox(tasks) else { return };
    sandbox.expect(0, &["run", "own.toml", "--quiet"]);
    let tasks: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    assert!(["cp", "all"].iter().all(|name| tasks.iter().any(|task| task == name)), "{tasks:?}");
    sandbox.assert_clean();
}

#[test]
fn a_command_on_the_command_line_runs_without_a_shell() {
    let Some(sandbox) = make_sandbox("") else { return };
    let on = ["--fs", "ext2", "--rounds", "1", "--quiet"];
    let run = |args: &[&str]| sandbox.expect(0, &[&["run"][..], &on, args].concat());
    run(&["--", "touch", "a; b", "$HOME"]);
    let assignments = ["--cmd", "n=4; test $n = 4", "--cmd", "CC=gcc true"];
    let named = ["--name", "list", "--cmd", "test -e x"];
    run(&[&["--setup", "touch x"][..], &assignments[..2], &named, &assignments[2..], &["--check", "test -e x"]]
        .concat());
    let tasks: Vec<String> = sandbox.rows("latest").into_iter().map(|(_, _, task)| task).collect();
    let has_task = |name: &str| tasks.iter().any(|task| task == name);
    assert!(["n4", "list", "CCgcc"].into_iter().all(has_task), "{tasks:?}");
    run(&["--name", "write", "--", "touch", "x"]);
    assert!(sandbox.rows("latest").iter().any(|(.., task)| task == "write"));
    sandbox.assert_clean();
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
        // Only the command that would never end reaches its timeout, so that is short.
        let timeout = if script.starts_with("sleep") { 1 } else { 60 };
        let Some(sandbox) = make_sandbox(&format!("timeout = {timeout}\n{}", task_table(script))) else { return };
        let output = sandbox.output(&["run", "own.toml", "--quiet"]);
        let texts = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && texts.contains(words), "{script}: {words}\n{texts}");
        assert!(!texts.contains("bug in fsarena"), "{script}: {texts}");
        sandbox.assert_clean();
    }
}

#[test]
fn the_run_keeps_what_commands_print() {
    let long = "echo first; yes 'line of output' | head -n 6000; echo last";
    let workload = format!("setup = 'echo prepared'\n{}", task_table(&format!("{long} $FSARENA_ROUND")));
    let Some(sandbox) = make_sandbox(&workload) else { return };
    let output_files = |sandbox: &Sandbox| -> Vec<(String, String)> {
        let dir = sandbox.run_file("output").unwrap();
        let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
        let mut names_and_texts: Vec<_> =
            files.map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap())).collect();
        names_and_texts.sort();
        names_and_texts
    };
    sandbox.expect(0, &["run", "own.toml", "--quiet", "--rounds", "2"]);
    let files = output_files(&sandbox);
    assert_eq!(files.len(), 2, "a file for each cell");
    let (name, text) = &files[1];
    assert!(name.contains("/output/002-ext2-"), "{name}");
    assert!(text.starts_with("$ sh -euc echo prepared\nprepared\n[exit 0, "), "{text:.200}");
    assert!(text.contains("\nlast 2\n[exit 0, ") && !text.contains("\nfirst\n") && text.len() < 20_000);
    assert!(!sandbox.run_text("command.log").contains("line of output\\n"));
    // Of a command that fails, far more of the output is kept, and the message names the file.
    std::fs::write(sandbox.dir.join("own.toml"), format!("{PLAN_HEAD}{}", task_table(&format!("{long}; false"))))
        .unwrap();
    let (_, stderr) = sandbox.expect(4, &["run", "own.toml", "--quiet"]);
    let files = output_files(&sandbox);
    let (name, text) = &files[0];
    assert!(stderr.contains(&format!("its output is in {name}")), "{stderr}");
    assert!(text.contains("\nfirst\n") && text.contains("\nlast\n[exit 1, "));
    sandbox.assert_clean();
}

#[test]
fn a_failing_setup_or_check_fails_the_cell() {
    for setting in ["setup = 'echo why >&2; exit 7'\n", "check = 'echo why >&2; exit 7'\n"] {
        let Some(sandbox) = make_sandbox(&format!("{setting}{}", task_table("true"))) else { return };
        let output = sandbox.output(&["run", "own.toml", "--quiet"]);
        let texts = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.status.success() && texts.contains("exit 7): why"), "{setting}{texts}");
        sandbox.assert_clean();
    }
}

#[test]
fn a_command_that_cannot_run_is_refused_before_the_run() {
    let sandbox = Sandbox::new();
    let refusal = |code, args: &[&str]| sandbox.expect(code, args).1;
    let missing = refusal(6, &["run", "--on", "dir:home", "--", "no-such-program"]);
    assert!(missing.contains("no-such-program is not installed"), "{missing}");
    let alone = refusal(2, &["run", "--setup", "true"]);
    assert!(alone.contains("--setup: add --cmd"), "{alone}");
    let named = ["--name", "a", "--cmd", "true"];
    let both = refusal(2, &[&["run", "--on", "dir:home"][..], &named, &named].concat());
    assert!(both.contains("two tasks have the name `a`"), "{both}");
    for line in
        [&["--cmd", "true", "--name", "b"][..], &["--name", "b"], &["--name", "b", "--name", "a", "--cmd", "true"]]
    {
        let stderr = refusal(2, &[&["run"][..], line].concat());
        assert!(stderr.contains("--name b: write it directly before the --cmd"), "{stderr}");
    }
    for line in [&["--", ""][..], &["--", "", "x"], &["--cmd", " "], &["--cmd", ""]] {
        let stderr = refusal(2, &[&["run", "--on", "dir:home"][..], line].concat());
        assert!(stderr.contains("command") && stderr.contains("task `task`"), "{stderr}");
    }
    sandbox.assert_clean();
}

#[test]
fn a_program_that_cannot_be_executed_is_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
    let set_mode =
        |path: &std::path::Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    let make_file = |name: &str, text: &str, mode| {
        let path = sandbox.dir.join(name);
        std::fs::write(&path, text).unwrap();
        set_mode(&path, mode);
        path.display().to_string()
    };
    let cases = [
        (make_file("plain", "#!/bin/sh\n", 0o644), "has no permission to (`chmod +x "),
        (make_file("orphan", "#!/no/python\n", 0o755), "its first line names /no/python: No such file"),
        (sandbox.dir.join("gone").display().to_string(), "No such file or directory"),
        (sandbox.dir.display().to_string(), "it is not a file"),
    ];
    let on: &[&str] = if runs_as_root() { &["--fs", "ext2"] } else { &["--on", "dir:home"] };
    let refusal = |args: &[&str]| sandbox.expect(2, &[&["run"], on, args].concat()).1;
    for (program, why) in &cases {
        let stderr = refusal(&["--", program, "x"]);
        assert!(stderr.contains(&format!("{program} cannot be executed: ")) && stderr.contains(why), "{stderr}");
        assert_eq!(stderr, refusal(&["--dry-run", "--", program, "x"]));
    }
    let mut under_sudo = sandbox.fsarena(&[&["run"], on, &["--", "fsarena-builds"]].concat());
    let output = under_sudo.env("SUDO_UID", "0").env("SUDO_GID", "0").output().unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(6) && stderr.contains("sudo env \"PATH=$PATH\" fsarena"), "{stderr}");
    let stderr = refusal(&["--", "./build"]);
    assert!(stderr.contains("./build: the working directory is the filesystem under test, which is empty"), "{stderr}");
    if runs_as_root() {
        set_mode(&sandbox.dir, 0o755);
        let mine = make_file("mine", "#!/bin/sh\n", 0o700);
        let stderr = refusal(&["--user", "nobody", "--", &mine]);
        assert!(stderr.contains(&format!("{mine} cannot be executed: user nobody has no permission")), "{stderr}");
    }
    assert!(!sandbox.runs_dir().exists());
    sandbox.assert_clean();
}

#[test]
fn printed_metrics_are_claimed_and_reported_like_others() {
    let workload = |tps: &str, extra: &str| {
        format!(
            "metric_regex = ['tps per_s higher: tps = ([0-9]+)']\n[[workload.task]]\nname = \"work\"\n\
             cmd = '''echo {tps}; echo fsarena-metric: commit_latency 5e6 ns lower; {extra} touch x'''\n"
        )
    };
    let Some(sandbox) = make_sandbox(&workload("tps = 1$FSARENA_ROUND", "")) else { return };
    let claim = ["--claim", "work.tps_per_s: ext2 > ext3"];
    let run = ["run", "own.toml", "--fs", "ext2,ext3", "--rounds", "2", "--quiet"];
    let (printed, _) = sandbox.expect(4, &[&run[..], &claim].concat());
    assert!(printed.contains("tps_per_s") && printed.contains("geomean commit_latency"), "{printed}");
    let (csv, _) = sandbox.expect(4, &["report", "--format", "csv"]);
    assert!(csv.lines().next().unwrap().contains("tps_per_s"));
    let (only, _) = sandbox.expect(4, &["report", "--metric", "tps_per_s", "--full"]);
    assert!(only.contains("printed by the command") && !only.contains("geomean commit_latency"), "{only}");
    sandbox.expect(2, &["report", "--metric", "tpz_per_s"]);
    // A task that does not print the metric fails, and so does one that prints a metric of fsarena.
    for (failing_workload, code, words) in [
        (workload("nothing", ""), 4, "no line of its output matches"),
        (workload("tps = 1", "echo fsarena-metric: elapsed 1 ns lower;"), 2, "fsarena measures itself"),
        (workload("tps = 1", "echo fsarena-metric: elapsed;"), 4, "write a name, a value, a unit"),
    ] {
        std::fs::write(sandbox.dir.join("own.toml"), format!("{PLAN_HEAD}{failing_workload}")).unwrap();
        let (_, stderr) = sandbox.expect(code, &["run", "own.toml", "--quiet"]);
        assert!(stderr.contains(words), "{stderr}");
    }
    let (_, stderr) = sandbox.expect(2, &["run", "--metric-regex", "tps", "--cmd", "true"]);
    assert!(stderr.contains("metric_regex of task `true`") && stderr.contains("NAME UNIT DIRECTION"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_failed_variant_does_not_end_the_others() {
    // The first two workloads fail in every variant, the third only in one.
    for (workload, words) in [
        ("setup = 'cat /dev/zero > big'\n".to_string() + &task_table("true"), "allow more room (--size)"),
        ("prepare = 'no-such-program'\n".to_string() + &task_table("true"), "not found"),
        (
            task_table("test $FSARENA_VARIANT = ext2 || { cd /; setsid sleep 61 >/dev/null 2>&1 & }"),
            "left processes running",
        ),
    ] {
        let all_fail = !workload.contains("FSARENA_VARIANT");
        let Some(sandbox) = make_sandbox(&workload) else { return };
        let output = sandbox.output(&["run", "own.toml", "--fs", "ext2,ext3", "--quiet"]);
        let texts = text(&output.stdout) + &text(&output.stderr);
        assert!(texts.contains(words), "{words}: {texts}");
        assert_eq!(texts.contains("every variant has failed"), all_fail, "{texts}");
        let tasks = sandbox.rows("latest").into_iter().filter(|(.., task)| task == "true" || task == "test");
        let variants: Vec<String> = tasks.map(|(_, variant, _)| variant).collect();
        assert_eq!(variants, if all_fail { vec![] } else { vec!["ext2"] });
        sandbox.assert_clean();
    }
}

#[test]
fn bytes_written_to_other_devices_are_reported() {
    let workload = task_table("cd \"$FSARENA_SOURCE\" && head -c 5000000 /dev/urandom > astray");
    let Some(sandbox) = make_sandbox(&workload) else { return };
    let (printed, _) = sandbox.expect(0, &["run", "own.toml", "--quiet"]);
    assert!(printed.contains("were written to the source disk, outside the"), "{printed}");
    sandbox.assert_clean();
}
