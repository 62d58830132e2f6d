//! Machines as they are: containers, hidden kernel files, resource limits, environments that lack a variable, paths that
//! are no text. fsarena refuses before it makes anything and says what to do, or it works; it never calls that a bug.

use crate::common::gate::{Gate, Running, When};
use crate::common::{Place, root, text};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output};

/// A machine that root cannot do everything on: its name, the command that enters it, and what `doctor` calls what is
/// missing there.
struct Machine {
    name: &'static str,
    starter: &'static [&'static str],
    finding: &'static str,
}

/// A `/dev` as of a container without devices; places of tests lie in `/dev/shm`.
const NO_LOOP_NODES: &str = "exec 9</dev/shm; mount -t tmpfs none /dev && mkdir /dev/shm && \
     mount -c --bind /proc/self/fd/9 /dev/shm && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && \
     mknod -m 666 /dev/random c 1 8 && mknod -m 666 /dev/urandom c 1 9 && exec 9<&- \"$@\"";
/// The same with the control node of loop devices, and none of them.
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

/// Kernel files that are hidden from a run: what hides them, and the remedy that must be named.
const HIDDEN: [(&str, &str); 3] = [
    ("mount -t tmpfs none /sys && exec \"$@\"", "mount -t sysfs sysfs /sys"),
    ("mount -t tmpfs none /proc && exec \"$@\"", "mount -t proc proc /proc"),
    ("mount -t proc -o subset=pid none /proc && exec \"$@\"", "mount -t proc proc /proc"),
];

/// Runs fsarena below a starter and expects this exit code, no bug, and nothing made. What it printed and said.
#[track_caller]
fn refused(place: &Place, code: i32, command: &mut Command) -> String {
    let said = ended(code, command);
    assert!(!place.runs().exists(), "it made {:?}: {said}", place.runs());
    let journals = std::fs::read_dir(place.state().join("undo")).into_iter().flatten().count();
    assert_eq!(journals, 0, "{said}");
    place.assert_clean();
    said
}

/// Runs a command to its end, and expects this exit code and no bug. What it printed and said.
#[track_caller]
fn ended(code: i32, command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = text(&stdout) + &text(&stderr);
    assert_eq!(status.code(), Some(code), "{command:?}\n{said}");
    assert!(!said.contains("bug in fsarena") && !said.contains("panicked"), "{said}");
    said
}

/// A shell with limits, which becomes what is named after it.
fn limited(ulimit: &str) -> [String; 4] {
    ["bash".into(), "-c".into(), format!("ulimit {ulimit} && exec \"$@\""), "bash".into()]
}

fn started(place: &Place, starter: &[String], args: &[&str]) -> Command {
    place.started_by(&starter.iter().map(String::as_str).collect::<Vec<_>>(), args)
}

#[test]
fn a_container_without_the_rights_is_refused_before_anything_is_made() {
    if !root() {
        return;
    }
    for Machine { name, starter, finding } in &CONTAINERS {
        let place = Place::new();
        let said = refused(&place, 6, &mut place.started_by(starter, &["run", "plan.toml"]));
        assert!(said.contains("--on qemu") && said.contains("--on dir:"), "{name}: {said}");
        let output = place.started_by(starter, &["doctor", "--format", "json"]).output().unwrap();
        let findings: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let of = |what: &str| findings.as_array().unwrap().iter().find(|one| one["what"] == what).unwrap();
        assert_ne!(of(finding)["state"], "ok", "{name}: {findings}");
        assert_ne!(of(finding)["fix"], "", "{name}: {findings}");
    }
}

#[test]
fn a_directory_as_it_is_needs_neither_mounts_nor_loop_devices() {
    if !root() {
        return;
    }
    std::thread::scope(|scope| {
        for Machine { name, starter, .. } in &CONTAINERS {
            scope.spawn(move || {
                let place = Place::new();
                std::fs::create_dir(place.dir.join("work")).unwrap();
                println!("{name}");
                ended(0, &mut place.started_by(starter, &["run", "plan.toml", "--on", "dir:work"]));
                place.assert_clean();
            });
        }
    });
}

#[test]
fn hidden_kernel_files_are_refused_before_anything_is_made() {
    if !root() {
        return;
    }
    let loops = || Command::new("losetup").args(["--list", "--noheadings", "--output", "BACK-FILE"]).output().unwrap();
    for (hide, remedy) in HIDDEN {
        let place = Place::new();
        let starter = ["unshare", "-m", "sh", "-c", hide, "sh"];
        for args in [&["run", "plan.toml"][..], &["run", "plan.toml", "--on", "ram"], &["run", "--on", "dir:home"]] {
            let said = refused(&place, 6, &mut place.started_by(&starter, args));
            assert!(said.contains(remedy), "{said}");
        }
        let said = ended(0, &mut place.started_by(&starter, &["doctor"]));
        assert!(said.contains(remedy), "{said}");
        assert!(!text(&loops().stdout).contains(place.dir.to_str().unwrap()));
    }
}

/// What a killed run left looks gone where `/proc` or `/sys` cannot be read.
#[test]
fn recover_takes_nothing_for_gone_that_it_cannot_see() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::After, "mount", "*mnt/other*", 0);
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.child.wait().unwrap();
    gate.open();
    let left = place.left();
    for (hide, _) in HIDDEN {
        let starter = ["unshare", "-m", "sh", "-c", hide, "sh"];
        ended(6, &mut place.started_by(&starter, &["recover"]));
        let journals = std::fs::read_dir(place.state().join("undo")).unwrap().count();
        assert_eq!(journals, 1, "{hide}: {left:?}");
    }
    ended(0, &mut place.fsarena(&["recover"]));
    place.assert_clean();
}

#[test]
fn a_low_soft_limit_of_open_files_is_raised_and_commands_get_theirs_back() {
    if !root() {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.dir.join("work")).unwrap();
    ended(0, &mut started(&place, &limited("-Sn 8"), &["run", "plan.toml"]));
    place.assert_clean();
    let own = ["run", "--on", "dir:work", "--rounds", "1", "--scale", "tiny", "--", "sh", "-c"];
    let is_theirs = "[ $(ulimit -Sn) = 100 ] && [ $(ulimit -Hn) -gt 100 ]";
    ended(0, &mut started(&place, &limited("-Sn 100"), &[&own[..], &[is_theirs]].concat()));
    place.assert_clean();
}

#[test]
fn a_limit_that_cannot_be_raised_is_named_before_anything_is_made() {
    let place = Place::new();
    std::fs::create_dir(place.dir.join("work")).unwrap();
    let run = ["run", "plan.toml", "--on", "dir:work"];
    for hard in ["-n 8", "-n 20"] {
        let said = refused(&place, 6, &mut started(&place, &limited(hard), &run));
        assert!(said.contains("64") && said.contains("ulimit -Hn"), "{said}");
    }
    for size in ["-f 16", "-f 40"] {
        let said = refused(&place, 6, &mut started(&place, &limited(size), &run));
        assert!(said.contains("ulimit -f"), "{said}");
    }
    if root() {
        let said = refused(&place, 6, &mut started(&place, &limited("-f 10000"), &["run", "plan.toml"]));
        assert!(said.contains("256.0 MiB") && said.contains("ulimit -f"), "{said}");
    }
}

#[test]
fn a_file_beyond_the_limit_of_sizes_fails_and_everything_is_undone() {
    let place = Place::new();
    std::fs::create_dir(place.dir.join("work")).unwrap();
    let starter = limited("-f 2048");
    let work = ["--rounds", "1", "--scale", "tiny", "--on", "dir:work"];
    let native =
        [&["run", "plan.toml", "--workload", "fileio", "--set", "total_bytes=8MiB", "--set", "files=1"], &work[..]];
    let said = ended(6, &mut started(&place, &starter, &native.concat()));
    assert!(said.contains("File too large") && said.contains("ulimit -f"), "{said}");
    place.assert_clean();
    // A command has the default of SIGXFSZ back, which ends it: signal 25.
    let own = [&["run"], &work[..], &["--", "dd", "if=/dev/zero", "of=x", "bs=1M", "count=4"]];
    let said = ended(4, &mut started(&place, &starter, &own.concat()));
    assert!(said.contains("signal 25"), "{said}");
    place.assert_clean();
}

#[test]
fn a_load_of_more_files_than_the_limit_names_the_number() {
    let place = Place::new();
    std::fs::create_dir(place.dir.join("work")).unwrap();
    let args = ["run", "plan.toml", "--workload", "fileio", "--set", "files=128", "--on", "dir:work"];
    let said = ended(6, &mut started(&place, &limited("-n 100"), &args));
    assert!(said.contains("160 open files") && said.contains("ulimit -Hn"), "{said}");
    place.assert_clean();
}

#[test]
fn every_signal_that_ends_a_program_ends_a_run_in_order() {
    if !root() {
        return;
    }
    std::thread::scope(|scope| {
        for signal in [Signal::QUIT, Signal::USR1, Signal::ALARM, Signal::XCPU] {
            scope.spawn(move || {
                let place = Place::new();
                let mut gate = Gate::new(&place, When::After, "mount", "*mnt/other*", 0);
                let starter = ["prlimit", "--core=0"];
                let mut run = Running::start(&place, place.started_by(&starter, &["run", "plan.toml"]));
                gate.wait(&mut run);
                let caught = caught(run.child.id());
                for number in fsarena_sys::cancel::ending_signals() {
                    assert!(caught >> (number - 1) & 1 == 1, "signal {number} ends it at once");
                }
                run.signal(signal);
                gate.open();
                run.ended_by(signal);
                place.assert_clean();
            });
        }
    });
}

/// The mask of the signals that a process handles.
fn caught(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let digits = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(digits.trim(), 16).unwrap()
}

#[test]
fn a_nul_in_a_file_is_refused_at_its_place() {
    let place = Place::new();
    let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
    for (name, from, to) in [
        ("title", "A test", r"A\u0000test"),
        ("workload", "driver = \"native\"", "driver = \"nat\\u0000ive\""),
        ("level", "[\"ext4\"]", "[\"ext4\", \"a\\u0000b\"]"),
        ("key", "seed = 1", "\"se\\u0000ed\" = 1"),
    ] {
        assert!(plan.contains(from));
        std::fs::write(place.dir.join("nul.toml"), plan.replacen(from, to, 1)).unwrap();
        let said = refused(&place, 2, &mut place.fsarena(&["run", "nul.toml", "--on", "dir:home"]));
        assert!(said.contains("nul.toml, line ") && said.contains("NUL"), "{name}: {said}");
    }
    let config = place.dir.join("home/.config/fsarena");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "runs = \"a\\u0000b\"\n").unwrap();
    let said = ended(2, place.fsarena(&["list", "runs"]).env_remove("FSARENA_RUNS"));
    assert!(said.contains("config.toml, line 1") && said.contains("NUL"), "{said}");
}

#[test]
fn a_directory_whose_name_is_no_text_is_refused_with_a_remedy() {
    let place = Place::new();
    let odd = place.dir.join(OsStr::from_bytes(b"o\xffd"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::copy(place.dir.join("plan.toml"), odd.join("plan.toml")).unwrap();
    let run = ["run", "plan.toml", "--on", "dir:."];
    let said = refused(&place, 2, place.fsarena(&run).env("FSARENA_RUNS", odd.join("runs")));
    assert!(said.contains("UTF-8") && said.contains("--runs"), "{said}");
    // Below a directory of that name even `runs` is none.
    let said = refused(&place, 2, place.fsarena(&run).env("FSARENA_RUNS", "runs").current_dir(&odd));
    assert!(said.contains("UTF-8"), "{said}");
    assert!(!odd.join("runs").exists());
}

#[test]
fn without_path_and_home_a_run_finds_its_programs() {
    if !root() {
        return;
    }
    let place = Place::new();
    for path in [None, Some("")] {
        let mut command = place.fsarena(&["run", "plan.toml", "--dry-run"]);
        command.env_remove("HOME").env_remove("PATH");
        command.envs(path.map(|path| ("PATH", path)));
        ended(0, &mut command);
    }
    place.assert_clean();
}

#[test]
fn a_state_directory_that_cannot_be_written_is_refused_with_a_remedy() {
    let place = Place::new();
    // Nobody can make a directory there, not even root.
    let run = ["run", "plan.toml", "--on", "dir:home"];
    let said = refused(&place, 2, place.fsarena(&run).env("FSARENA_STATE_DIR", "/proc/fsarena"));
    assert!(said.contains("FSARENA_STATE_DIR"), "{said}");
}
