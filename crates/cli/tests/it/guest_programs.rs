//! Programs of this machine in guests, as an ordinary user.

use crate::common::kernel::{find_debian_kernel, has_programs};
use crate::common::nobody::Nobody;
use crate::common::{Sandbox, runs_as_root, text};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-x86_64";
/// Arguments that run one round in a guest.
const GUEST_RUN_ARGS: [&str; 9] = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--fs", "ext4", "--rounds", "1"];

/// Whether guests can be booted here.
fn can_boot() -> bool {
    runs_as_root() && has_programs(&[QEMU, "mkfs.ext4"]) && find_debian_kernel("6.1", "-amd64").is_some()
}

/// A script that checks everything that a guest must have, of its own or from the host.
const CHECK_SCRIPT: &str = r#"
fail() { echo "$1" >&2; exit 9; }
[ "$(id -u):$(id -g)" = 65534:65534 ] || fail "user $(id)"
[ "$(cat /proc/1/comm)" != systemd ] && [ "$(ls -d /proc/[0-9]* | wc -l)" -lt 12 ] || fail "processes"
[ "$GREETING" = hello ] && [ -z "${SECRET-}" ] && [ "$LANG" = C.UTF-8 ] || fail "environment: $(env)"
[ "$HOME" != / ] && [ "$FSARENA_ROUND" = 1 ] && [ "$FSARENA_VARIANT" = ext4 ] || fail "environment: $(env)"
[ "$(cat "$FSARENA_INPUT/data")" = input ] || fail "input"
case "$(stat -f -c %T "$FSARENA_INPUT/data")" in ext*) ;; *) fail "the input is not on the source disk" ;; esac
touch "$FSARENA_INPUT/new" 2>/dev/null && fail "the input can be written"
[ "$(stat -f -c %T .)" = ext2/ext3 ] && [ "$PWD" = "$FSARENA_DIR" ] || fail "directory $PWD"
echo x > "$TMPDIR/x" && echo x > /tmp/x && [ "$(stat -f -c %T /tmp)" = tmpfs ] || fail "temporary files"
echo x > /dev/null; [ -c /dev/urandom ] && [ -e /dev/fd/0 ] || fail "devices"
(setsid sleep 100 >/dev/null 2>&1 &)
cp "$FSARENA_INPUT/data" copy
"#;

#[test]
fn programs_run_in_a_guest_as_the_user_who_called() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let input = nobody.dir("input");
    std::fs::write(input.join("data"), "input").unwrap();
    let look = nobody.home.join("look.sh");
    std::fs::write(&look, CHECK_SCRIPT).unwrap();
    let input = input.display().to_string();
    let script = format!(". {}", look.display());
    let own = [
        "--input",
        &input,
        "--env",
        "GREETING=hello",
        "--setup",
        "echo setup > setup",
        "--name",
        "look",
        "--cmd",
        &script,
        "--name",
        "true",
        "--cmd",
        "cat setup",
        "--full",
    ];
    let mut command = nobody.fsarena(&[&GUEST_RUN_ARGS[..], &own].concat());
    let output = command.env("SECRET", "1").output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    // The process that the script leaves fails the task, as on the host.
    assert_eq!(output.status.code(), Some(4), "{printed}\n{stderr}");
    assert!(stderr.contains("it left processes running: ") && stderr.contains("(sleep)"), "{stderr}");
    let look = CHECK_SCRIPT.lines().filter(|line| !line.contains("setsid")).collect::<Vec<_>>().join("\n");
    std::fs::write(nobody.home.join("look.sh"), look).unwrap();
    let (printed, _) = nobody.expect(0, &[&GUEST_RUN_ARGS[..], &own].concat());
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("requests for files of this machine in a cell"), "{printed}");
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn commands_end_in_guests_as_on_this_machine() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    for (command, timeout, expected) in [
        ("exit 7", "1h", "exit 7"),
        ("kill -USR1 $$", "1h", "signal 10"),
        ("sleep 100", "1s", "it did not end within 1 s (--timeout)"),
        (
            "getent hosts example.org || curl -s http://192.0.2.1/",
            "1h",
            "it tried to reach the network, which guests do not have",
        ),
    ] {
        let code = if expected.contains("network") { 6 } else { 4 };
        let (_, stderr) =
            nobody.expect(code, &[&GUEST_RUN_ARGS[..], &["--timeout", timeout, "--cmd", command]].concat());
        assert!(stderr.contains(expected), "{command}: {stderr}");
    }
}

#[test]
fn programs_that_guests_cannot_start_are_refused_before_the_run() {
    if !can_boot() || find_debian_kernel("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let run = |code, kernel: &str, program: &str| {
        nobody.expect(code, &["run", "--on", "qemu", "--fs", "ext4", "--kernel", kernel, "--", program]).1
    };
    let cloud = run(6, "debian:6.1-cloud", "true");
    assert!(cloud.contains("has no module 9p") && cloud.contains("--kernel debian:6.12"), "{cloud}");
    let secret = nobody.home.join("secret");
    std::fs::copy("/bin/true", &secret).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(&secret, mode).unwrap();
    let stderr = run(2, "debian:6.1", &secret.display().to_string());
    assert!(stderr.contains("secret: Permission denied") && stderr.contains("QEMU reads programs"), "{stderr}");
}

#[test]
fn a_shell_runs_on_a_fresh_filesystem() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let mut shell = nobody.fsarena(&["shell", "--on", "qemu", "--kernel", "debian:6.1", "--", "sh"]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let commands = b"stat -f -c %T .; echo x > file && cat file; id -u; echo to stderr >&2; exit 41\n";
    shell.stdin.take().unwrap().write_all(commands).unwrap();
    let output = shell.wait_with_output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(41), "{printed}\n{stderr}");
    assert_eq!(printed, "ext2/ext3\nx\n65534\nto stderr\n", "{stderr}");
}

#[test]
fn a_shell_whose_guest_dies_is_not_started_again() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let panic = "echo begun; sleep 1; echo c > /proc/sysrq-trigger";
    let args = ["shell", "--on", "qemu", "--kernel", "debian:6.1", "--", "sh", "-c", panic];
    let (printed, stderr) = sandbox.expect(4, &args);
    assert_eq!(printed, "begun\n", "{stderr}");
}

#[test]
fn the_terminal_of_a_shell_has_a_size_and_takes_interrupts() {
    if !can_boot() || !has_programs(&["script", "stty"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let shell = nobody.fsarena(&["shell", "--kernel", "debian:6.1", "--fs", "ext2", "--", "sh"]);
    let words = std::iter::once(shell.get_program()).chain(shell.get_args()).map(|word| word.to_str().unwrap());
    let line = format!("stty rows 33 cols 111; exec {}", shlex::try_join(words).unwrap());
    // If the screen never shows what the test waits for, it fails after this time.
    let mut script = Command::new("timeout");
    script
        .args(["240", "script", "-qec", &line, "/dev/null"])
        .current_dir(&nobody.home)
        .uid(65534)
        .gid(65534)
        .env_clear();
    script.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut shown = String::new();
    let mut wait_for = |text: &str| {
        let mut piece = [0; 4096];
        while !shown.contains(text) {
            let count = screen.read(&mut piece).unwrap();
            assert!(count > 0, "no {text:?} in {shown}");
            shown += &String::from_utf8_lossy(&piece[..count]);
        }
    };
    wait_for("$ ");
    keys.write_all(b"stty size\r").unwrap();
    wait_for("33 111\r\n$ ");
    // The terminal of the guest handles the interrupt: it ends the program there, not fsarena.
    keys.write_all(b"cat\r").unwrap();
    wait_for("cat\r\n");
    keys.write_all(b"typed\r").unwrap();
    // The second line is the output of `cat`, which runs now.
    wait_for("typed\r\ntyped\r\n");
    keys.write_all(b"\x03").unwrap();
    // Before the prompt, `cat` could read the next line while it dies of the signal.
    wait_for("^C\r\n$ ");
    keys.write_all(b"echo interrupted $?\r").unwrap();
    wait_for("interrupted 130");
    keys.write_all(b"exit 41\r").unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(41));
}

/// For each variant and task of the last run, the different counts of instructions (kernel, programs) over its rounds.
fn distinct_counts(nobody: &Nobody) -> BTreeMap<(String, String), BTreeSet<(String, String)>> {
    let (csv, _) = nobody.expect(0, &["report", "latest", "--format", "csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let [variant, task] = ["variant", "task"].map(column);
    let [kernel, user] = ["kernel_instructions_count", "user_instructions_count"].map(column);
    let mut counts: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &rows[1..] {
        assert!(row[kernel].parse::<f64>().unwrap() > 0.0, "{csv}");
        let task_counts = counts.entry((row[variant].to_string(), row[task].to_string())).or_default();
        task_counts.insert((row[kernel].to_string(), row[user].to_string()));
    }
    counts
}

/// Runs commands with these input files in guests that count instructions, and asserts that the counts of all rounds are equal.
fn assert_equal_counts(filesystems: &str, rounds: &str, commands: &[(&str, &str)], input: &[(&str, &str)]) {
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let dir = nobody.dir("input");
    for (name, text) in input {
        std::fs::write(dir.join(name), text).unwrap();
    }
    let dir = dir.display().to_string();
    let mut args = vec!["run", "--on", "exact", "--kernel", "debian:6.1", "--fs", filesystems];
    args.extend(["--rounds", rounds, "--input", &dir, "--fixed-layout", "--quiet"]);
    for (name, command) in commands {
        args.extend(["--name", name, "--cmd", command]);
    }
    nobody.expect(0, &args);
    let counts = distinct_counts(&nobody);
    let variants = filesystems.split(',').count();
    assert!(counts.len() >= variants * commands.len(), "{counts:?}");
    for (key, counts) in counts {
        assert_eq!(counts.len(), 1, "{key:?}: {counts:?}");
    }
}

#[test]
fn a_program_takes_the_same_instructions_in_each_round() {
    if can_boot() {
        let input = [("a", "first\n"), ("b", "second\n")];
        assert_equal_counts("ext4", "2", &[("cp", "cp -r $FSARENA_INPUT copy")], &input);
    }
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn programs_take_the_same_instructions_in_each_round() {
    if !can_boot() || !has_programs(&["git", "cc", "python3", "tar"]) {
        return;
    }
    let commands = [
        ("cp", "cp -r /usr/include/linux linux"),
        ("tar", "tar cf linux.tar linux"),
        (
            "init",
            "git init -q a; cp -r linux a; git -C a add .; git -C a -c user.name=a -c user.email=a@b commit -qm a",
        ),
        ("clone", "git clone -q a b"),
        ("status", "git -C b status"),
        ("cc", "cc -o program $FSARENA_INPUT/program.c"),
        ("python3", "python3 $FSARENA_INPUT/program.py"),
        ("rm", "rm -r linux b"),
    ];
    let python = "for i in range(100):\n    open(f'file{i}', 'w').write('x' * i)\n";
    let input = [("program.c", "int main(void) { return 0; }\n"), ("program.py", python)];
    assert_equal_counts("ext4,xfs,btrfs", "3", &commands, &input);
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn a_program_that_looks_for_other_files_than_in_its_rehearsal_is_refused() {
    if !can_boot() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let run = |command: &str| {
        let args = ["run", "--on", "exact", "--kernel", "debian:6.1", "--fs", "ext4", "--rounds", "1"];
        nobody.expect(6, &[&args[..], &["--cmd", command]].concat()).1
    };
    // Only in the rehearsal is the root an overlay.
    let is_rehearsal = "[ \"$(stat -f -c %T /usr)\" = overlayfs ]";
    let stderr = run(&format!("name=passwd; {is_rehearsal} || read x < /etc/$name"));
    assert!(stderr.contains("looked for /etc/passwd, which it had not looked for in its rehearsal"), "{stderr}");
    let stderr = run(&format!("{is_rehearsal} || exit 7"));
    assert!(stderr.contains("succeeded in its rehearsal") && stderr.contains("exit 7"), "{stderr}");
}
