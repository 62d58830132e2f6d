//! Restricted machines: containers, hidden kernel files, resource limits, missing environment variables, paths that are not
//! text. fsarena works, or refuses before it makes anything and names the remedy; it never reports a bug.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::{Sandbox, runs_as_root, stored, text};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

/// A machine on which root lacks a right: its name, the command that enters it, and the check of `doctor` that fails there.
struct Machine {
    name: &'static str,
    starter: &'static [&'static str],
    finding: &'static str,
}

/// A shell command that makes a `/dev` like that of a container without devices. The sandboxes of tests are in `/dev/shm`.
const NO_LOOP_NODES: &str = "exec 9</dev/shm; mount -t tmpfs none /dev && mkdir /dev/shm && \
     mount -c --bind /proc/self/fd/9 /dev/shm && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && \
     mknod -m 666 /dev/random c 1 8 && mknod -m 666 /dev/urandom c 1 9 && exec 9<&- \"$@\"";
/// The same, with the control node of loop devices but without loop devices.
const ONLY_LOOP_CONTROL: &str = "exec 9</dev/shm; mount -t tmpfs none /dev && mkdir /dev/shm && \
     mount -c --bind /proc/self/fd/9 /dev/shm && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && \
     mknod -m 666 /dev/random c 1 8 && mknod -m 666 /dev/urandom c 1 9 && mknod /dev/loop-control c 10 237 && exec 9<&- \"$@\"";

const CONTAINERS: [Machine; 6] = [
    Machine { name: "no-sys-admin", starter: &["setpriv", "--bounding-set", "-sys_admin"], finding: "user" },
    Machine {
        name: "no-capabilities",
        starter: &["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"],
        finding: "user",
    },
    Machine { name: "user-namespace", starter: &["unshare", "-Ur"], finding: "user" },
    Machine { name: "user-and-mount-namespace", starter: &["unshare", "-Urm"], finding: "user" },
    Machine {
        name: "no-loop-nodes",
        starter: &["unshare", "-m", "sh", "-c", NO_LOOP_NODES, "sh"],
        finding: "loop devices",
    },
    Machine {
        name: "only-loop-control",
        starter: &["unshare", "-m", "sh", "-c", ONLY_LOOP_CONTROL, "sh"],
        finding: "loop devices",
    },
];

/// Kernel files to hide from a run: the command that hides them, and the remedy that the error must name.
const HIDING_COMMANDS: [(&str, &str); 3] = [
    ("mount -t tmpfs none /sys && exec \"$@\"", "mount -t sysfs sysfs /sys"),
    ("mount -t tmpfs none /proc && exec \"$@\"", "mount -t proc proc /proc"),
    ("mount -t proc -o subset=pid none /proc && exec \"$@\"", "mount -t proc proc /proc"),
];

/// Runs a command to its end. Asserts its exit code, and that it made nothing and reported no bug. Returns its output.
#[track_caller]
fn expect_refusal(sandbox: &Sandbox, code: i32, command: &mut Command) -> String {
    let output = expect_exit(code, command);
    assert!(!sandbox.runs_dir().exists(), "it made {:?}: {output}", sandbox.runs_dir());
    let journals = std::fs::read_dir(sandbox.state_dir().join("undo")).into_iter().flatten().count();
    assert_eq!(journals, 0, "{output}");
    sandbox.assert_clean();
    output
}

/// Runs a command to its end. Asserts its exit code, and that it reported no bug. Returns its output.
#[track_caller]
fn expect_exit(code: i32, command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let output = text(&stdout) + &text(&stderr);
    assert_eq!(status.code(), Some(code), "{command:?}\n{output}");
    assert!(!output.contains("bug in fsarena") && !output.contains("panicked"), "{output}");
    output
}

/// The words of a shell that sets a limit and then executes the command after it.
fn shell_with_limit(ulimit: &str) -> [String; 4] {
    ["bash".into(), "-c".into(), format!("ulimit {ulimit} && exec \"$@\""), "bash".into()]
}

/// The command that starts fsarena through `starter`.
fn fsarena_under(sandbox: &Sandbox, starter: &[String], args: &[&str]) -> Command {
    sandbox.fsarena_under(&starter.iter().map(String::as_str).collect::<Vec<_>>(), args)
}

#[test]
fn a_container_without_the_rights_is_refused_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    for Machine { name, starter, finding } in &CONTAINERS {
        let sandbox = Sandbox::new();
        let output = expect_refusal(&sandbox, 6, &mut sandbox.fsarena_under(starter, &["run", "plan.toml"]));
        assert!(output.contains("--on qemu") && output.contains("--on dir:"), "{name}: {output}");
        let output = sandbox.fsarena_under(starter, &["doctor", "--format", "json"]).output().unwrap();
        let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let check = |name: &str| findings.as_array().unwrap().iter().find(|row| row["what"] == name).unwrap();
        assert_ne!(check(finding)["state"], "ok", "{name}: {findings}");
        assert_ne!(check(finding)["fix"], "", "{name}: {findings}");
    }
}

#[test]
fn a_run_in_a_directory_needs_neither_mounts_nor_loop_devices() {
    if !runs_as_root() {
        return;
    }
    std::thread::scope(|scope| {
        for Machine { name, starter, .. } in &CONTAINERS {
            scope.spawn(move || {
                let sandbox = Sandbox::new();
                std::fs::create_dir(sandbox.dir.join("work")).unwrap();
                println!("{name}");
                expect_exit(0, &mut sandbox.fsarena_under(starter, &["run", "plan.toml", "--on", "dir:work"]));
                sandbox.assert_clean();
            });
        }
    });
}

#[test]
fn hidden_kernel_files_are_refused_before_anything_is_made() {
    if !runs_as_root() {
        return;
    }
    let list_loop_devices =
        || Command::new("losetup").args(["--list", "--noheadings", "--output", "BACK-FILE"]).output().unwrap();
    for (hide, remedy) in HIDING_COMMANDS {
        let sandbox = Sandbox::new();
        let starter = ["unshare", "-m", "sh", "-c", hide, "sh"];
        for args in [&["run", "plan.toml"][..], &["run", "plan.toml", "--on", "ram"], &["run", "--on", "dir:home"]] {
            let output = expect_refusal(&sandbox, 6, &mut sandbox.fsarena_under(&starter, args));
            assert!(output.contains(remedy), "{output}");
        }
        let output = expect_exit(0, &mut sandbox.fsarena_under(&starter, &["doctor"]));
        assert!(output.contains(remedy), "{output}");
        assert!(!text(&list_loop_devices().stdout).contains(sandbox.dir.to_str().unwrap()));
    }
}

/// Without `/proc` or `/sys`, the leftovers of a killed run cannot be seen.
#[test]
fn recover_keeps_the_journal_if_it_cannot_see_the_leftovers() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::After, "mount", "*mnt/other*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.child.wait().unwrap();
    gate.open();
    let leftovers = sandbox.leftovers();
    for (hide, _) in HIDING_COMMANDS {
        let starter = ["unshare", "-m", "sh", "-c", hide, "sh"];
        expect_exit(6, &mut sandbox.fsarena_under(&starter, &["recover"]));
        let journals = std::fs::read_dir(sandbox.state_dir().join("undo")).unwrap().count();
        assert_eq!(journals, 1, "{hide}: {leftovers:?}");
    }
    expect_exit(0, &mut sandbox.fsarena(&["recover"]));
    sandbox.assert_clean();
}

#[test]
fn a_low_soft_limit_of_open_files_is_raised_and_commands_get_theirs_back() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("work")).unwrap();
    expect_exit(0, &mut fsarena_under(&sandbox, &shell_with_limit("-Sn 8"), &["run", "plan.toml"]));
    sandbox.assert_clean();
    let own = ["run", "--on", "dir:work", "--rounds", "1", "--scale", "tiny", "--", "sh", "-c"];
    let has_own_limits = "[ $(ulimit -Sn) = 100 ] && [ $(ulimit -Hn) -gt 100 ]";
    expect_exit(0, &mut fsarena_under(&sandbox, &shell_with_limit("-Sn 100"), &[&own[..], &[has_own_limits]].concat()));
    sandbox.assert_clean();
}

#[test]
fn a_limit_that_cannot_be_raised_is_named_before_anything_is_made() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("work")).unwrap();
    let run = ["run", "plan.toml", "--on", "dir:work"];
    for hard in ["-n 8", "-n 20"] {
        let output = expect_refusal(&sandbox, 6, &mut fsarena_under(&sandbox, &shell_with_limit(hard), &run));
        assert!(output.contains("64") && output.contains("ulimit -Hn"), "{output}");
    }
    for size in ["-f 16", "-f 40"] {
        let output = expect_refusal(&sandbox, 6, &mut fsarena_under(&sandbox, &shell_with_limit(size), &run));
        assert!(output.contains("ulimit -f"), "{output}");
    }
    if runs_as_root() {
        let output = expect_refusal(
            &sandbox,
            6,
            &mut fsarena_under(&sandbox, &shell_with_limit("-f 10000"), &["run", "plan.toml"]),
        );
        assert!(output.contains("256.0 MiB") && output.contains("ulimit -f"), "{output}");
    }
}

#[test]
fn a_file_beyond_the_limit_of_sizes_fails_and_everything_is_undone() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("work")).unwrap();
    let starter = shell_with_limit("-f 2048");
    let work = ["--rounds", "1", "--scale", "tiny", "--on", "dir:work"];
    let native =
        [&["run", "plan.toml", "--workload", "fileio", "--set", "total_bytes=8MiB", "--set", "files=1"], &work[..]];
    let output = expect_exit(6, &mut fsarena_under(&sandbox, &starter, &native.concat()));
    assert!(output.contains("File too large") && output.contains("ulimit -f"), "{output}");
    sandbox.assert_clean();
    // In the command SIGXFSZ (signal 25) has its default again, and ends it.
    let own = [&["run"], &work[..], &["--", "dd", "if=/dev/zero", "of=x", "bs=1M", "count=4"]];
    let output = expect_exit(4, &mut fsarena_under(&sandbox, &starter, &own.concat()));
    assert!(output.contains("signal 25"), "{output}");
    sandbox.assert_clean();
}

#[test]
fn a_load_of_more_files_than_the_limit_names_the_number() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("work")).unwrap();
    let args = ["run", "plan.toml", "--workload", "fileio", "--set", "files=128", "--on", "dir:work"];
    let output = expect_exit(6, &mut fsarena_under(&sandbox, &shell_with_limit("-n 100"), &args));
    assert!(output.contains("160 open files") && output.contains("ulimit -Hn"), "{output}");
    sandbox.assert_clean();
}

#[test]
fn every_signal_that_ends_a_program_ends_a_run_with_a_clean_up() {
    if !runs_as_root() {
        return;
    }
    std::thread::scope(|scope| {
        for signal in [Signal::QUIT, Signal::USR1, Signal::ALARM, Signal::XCPU] {
            scope.spawn(move || {
                let sandbox = Sandbox::new();
                let mut gate = Gate::new(&sandbox, When::After, "mount", "*mnt/other*", 0);
                let starter = ["prlimit", "--core=0"];
                let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena_under(&starter, &["run", "plan.toml"]));
                gate.wait_until_stopped(&mut run);
                let mask = caught_signals(run.child.id());
                for number in fsarena_sys::cancel::terminating_signals() {
                    assert!(mask >> (number - 1) & 1 == 1, "signal {number} is not handled");
                }
                run.signal(signal);
                gate.open();
                run.assert_ended_by(signal);
                sandbox.assert_clean();
            });
        }
    });
}

/// The mask of the signals that a process handles.
fn caught_signals(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let digits = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(digits.trim(), 16).unwrap()
}

#[test]
fn a_nul_in_a_file_is_refused_with_its_position() {
    let sandbox = Sandbox::new();
    let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
    for (name, old, new) in [
        ("title", "A test", r"A\u0000test"),
        ("workload", "driver = \"native\"", "driver = \"nat\\u0000ive\""),
        ("level", "[\"ext4\"]", "[\"ext4\", \"a\\u0000b\"]"),
        ("key", "seed = 1", "\"se\\u0000ed\" = 1"),
    ] {
        assert!(plan.contains(old));
        std::fs::write(sandbox.dir.join("nul.toml"), plan.replacen(old, new, 1)).unwrap();
        let output = expect_refusal(&sandbox, 2, &mut sandbox.fsarena(&["run", "nul.toml", "--on", "dir:home"]));
        assert!(output.contains("nul.toml, line ") && output.contains("NUL"), "{name}: {output}");
    }
    let config = sandbox.dir.join("home/.config/fsarena");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "runs = \"a\\u0000b\"\n").unwrap();
    let output = expect_exit(2, sandbox.fsarena(&["list", "runs"]).env_remove("FSARENA_RUNS"));
    assert!(output.contains("config.toml, line 1") && output.contains("NUL"), "{output}");
}

#[test]
fn a_directory_whose_name_is_not_utf8_is_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    let non_utf8_dir = sandbox.dir.join(OsStr::from_bytes(b"o\xffd"));
    std::fs::create_dir(&non_utf8_dir).unwrap();
    std::fs::copy(sandbox.dir.join("plan.toml"), non_utf8_dir.join("plan.toml")).unwrap();
    let run = ["run", "plan.toml", "--on", "dir:."];
    let output = expect_refusal(&sandbox, 2, sandbox.fsarena(&run).env("FSARENA_RUNS", non_utf8_dir.join("runs")));
    assert!(output.contains("UTF-8") && output.contains("--runs"), "{output}");
    // In such a directory the absolute path of `runs` is not UTF-8 either.
    let output =
        expect_refusal(&sandbox, 2, sandbox.fsarena(&run).env("FSARENA_RUNS", "runs").current_dir(&non_utf8_dir));
    assert!(output.contains("UTF-8"), "{output}");
    assert!(!non_utf8_dir.join("runs").exists());
}

#[test]
fn an_argument_that_is_not_utf8_is_a_usage_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.fsarena(&["run", "--no-such-flag"]);
    let output = expect_refusal(&sandbox, 2, command.arg(OsStr::from_bytes(b"o\xffd")));
    assert!(output.contains("'--no-such-flag'"), "{output}");
}

#[test]
fn results_name_files_and_runs_whose_paths_are_not_utf8() {
    let sandbox = Sandbox::new();
    let odd_path = sandbox.dir.join(OsStr::from_bytes(b"o\xffd"));
    let load = ["load", "--size", "64k", "--number-ios", "4", "-q", "--format", "json", "--file"];
    let output = expect_exit(0, sandbox.fsarena(&load).arg(&odd_path));
    assert!(output.contains("o\u{fffd}d\""), "{output}");
    std::fs::remove_file(&odd_path).unwrap();
    stored::store_run(&sandbox.runs_dir());
    std::fs::rename(sandbox.runs_dir(), &odd_path).unwrap();
    let show = ["show", "latest", "--format", "json"];
    let output = expect_exit(0, sandbox.fsarena(&show).env("FSARENA_RUNS", &odd_path));
    assert!(output.contains("o\u{fffd}d/"), "{output}");
}

#[test]
fn an_input_or_a_variable_that_is_not_utf8_is_refused() {
    let sandbox = Sandbox::new();
    let odd_text = OsStr::from_bytes(b"o\xffd");
    let run = ["run", "--on", "dir:home", "--cmd", "true"];
    let mut command = sandbox.fsarena(&[&run[..], &["--input"]].concat());
    let output = expect_refusal(&sandbox, 2, command.arg(odd_text));
    assert!(output.contains("this one is not UTF-8"), "{output}");
    let mut command = sandbox.fsarena(&[&run[..], &["--env", "ODD"]].concat());
    let output = expect_refusal(&sandbox, 2, command.env("ODD", odd_text));
    assert!(output.contains("--env ODD: its value here is not UTF-8 text"), "{output}");
}

#[test]
fn without_path_and_home_a_run_finds_its_programs() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for path in [None, Some("")] {
        let mut command = sandbox.fsarena(&["run", "plan.toml", "--dry-run"]);
        command.env_remove("HOME").env_remove("PATH");
        command.envs(path.map(|path| ("PATH", path)));
        expect_exit(0, &mut command);
    }
    sandbox.assert_clean();
}

#[test]
fn a_state_directory_that_cannot_be_written_is_refused_with_a_remedy() {
    let sandbox = Sandbox::new();
    // Even root cannot make a directory there.
    let run = ["run", "plan.toml", "--on", "dir:home"];
    let output = expect_refusal(&sandbox, 2, sandbox.fsarena(&run).env("FSARENA_STATE_DIR", "/proc/fsarena"));
    assert!(output.contains("FSARENA_STATE_DIR"), "{output}");
}
