//! Programs of this machine in guests, as an ordinary user.

use crate::common::kernel::{debian, has};
use crate::common::nobody::Nobody;
use crate::common::{Place, root, text};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const QEMU: &str = "qemu-system-x86_64";
const QUICK: [&str; 9] = ["run", "--on", "qemu", "--kernel", "debian:6.1", "--fs", "ext4", "--rounds", "1"];

/// Whether guests can be booted here.
fn can_boot() -> bool {
    root() && has(&[QEMU, "mkfs.ext4"]) && debian("6.1", "-amd64").is_some()
}

/// Looks at everything that a guest should have for itself, or have from the host.
const LOOK: &str = r#"
fail() { echo "$1" >&2; exit 9; }
[ "$(id -u):$(id -g)" = 65534:65534 ] || fail "user $(id)"
[ "$(cat /proc/1/comm)" != systemd ] && [ "$(ls -d /proc/[0-9]* | wc -l)" -lt 12 ] || fail "processes"
[ "$GREETING" = hello ] && [ -z "${SECRET-}" ] && [ "$LANG" = C.UTF-8 ] || fail "environment: $(env)"
[ "$HOME" != / ] && [ "$FSARENA_ROUND" = 1 ] && [ "$FSARENA_VARIANT" = ext4 ] || fail "environment: $(env)"
[ "$(cat "$FSARENA_INPUT/data")" = input ] || fail "input"
case "$(stat -f -c %T "$FSARENA_INPUT/data")" in ext*) ;; *) fail "the input is not on the source disk" ;; esac
touch "$FSARENA_INPUT/new" 2>/dev/null && fail "the input can be written"
[ "$(stat -f -c %T .)" = ext2/ext3 ] && [ "$PWD" = "$FSARENA_DIR" ] || fail "directory $PWD"
echo x > "$TMPDIR/x" && echo x > /tmp/x && [ "$(ls /tmp)" = x ] || [ -d /tmp ] || fail "temporary files"
echo x > /dev/null; [ -c /dev/urandom ] && [ -e /dev/fd/0 ] || fail "devices"
(setsid sleep 100 >/dev/null 2>&1 &)
cp "$FSARENA_INPUT/data" copy
"#;

#[test]
fn programs_run_in_a_guest_as_the_user_who_called() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let input = nobody.dir("input");
    std::fs::write(input.join("data"), "input").unwrap();
    let look = nobody.home.join("look.sh");
    std::fs::write(&look, LOOK).unwrap();
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
    let mut command = nobody.command(&[&QUICK[..], &own].concat());
    let output = command.env("SECRET", "1").output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    // The process that it left is a failure of the task, as on the host, and nothing of it is left.
    assert_eq!(output.status.code(), Some(4), "{printed}\n{said}");
    assert!(said.contains("it left processes running: ") && said.contains("(sleep)"), "{said}");
    let look = LOOK.lines().filter(|line| !line.contains("setsid")).collect::<Vec<_>>().join("\n");
    std::fs::write(nobody.home.join("look.sh"), look).unwrap();
    let (printed, _) = nobody.expect(0, &[&QUICK[..], &own].concat());
    let printed = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(printed.contains("requests for files of this machine in a cell"), "{printed}");
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn commands_end_in_guests_as_on_this_machine() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
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
        let (_, said) = nobody.expect(code, &[&QUICK[..], &["--timeout", timeout, "--cmd", command]].concat());
        assert!(said.contains(expected), "{command}: {said}");
    }
}

#[test]
fn what_guests_cannot_start_is_refused_before_the_run() {
    if !can_boot() || debian("6.1", "-cloud-amd64").is_none() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let run = |code, kernel: &str, program: &str| {
        nobody.expect(code, &["run", "--on", "qemu", "--fs", "ext4", "--kernel", kernel, "--", program]).1
    };
    let cloud = run(6, "debian:6.1-cloud", "true");
    assert!(cloud.contains("has no module 9p") && cloud.contains("--kernel debian:6.12"), "{cloud}");
    let secret = nobody.home.join("secret");
    std::fs::copy("/bin/true", &secret).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(&secret, mode).unwrap();
    let said = run(2, "debian:6.1", &secret.display().to_string());
    assert!(said.contains("secret: Permission denied") && said.contains("QEMU reads programs"), "{said}");
}

#[test]
fn a_shell_runs_on_a_fresh_filesystem() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let mut shell = nobody.command(&["shell", "--on", "qemu", "--kernel", "debian:6.1", "--", "sh"]);
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let commands = b"stat -f -c %T .; echo x > file && cat file; id -u; echo to stderr >&2; exit 41\n";
    shell.stdin.take().unwrap().write_all(commands).unwrap();
    let output = shell.wait_with_output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(41), "{printed}\n{said}");
    assert_eq!(printed, "ext2/ext3\nx\n65534\nto stderr\n", "{said}");
}

#[test]
fn the_terminal_of_a_shell_has_a_size_and_takes_interrupts() {
    if !can_boot() || !has(&["script", "stty"]) {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let shell = nobody.command(&["shell", "--kernel", "debian:6.1", "--fs", "ext2", "--", "sh"]);
    let words = std::iter::once(shell.get_program()).chain(shell.get_args()).map(|word| word.to_str().unwrap());
    let line = format!("stty rows 33 cols 111; exec {}", shlex::try_join(words).unwrap());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(&nobody.home).uid(65534).gid(65534).env_clear();
    script.envs(shell.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut shown = String::new();
    let mut expect = |text: &str| {
        let mut piece = [0; 4096];
        while !shown.contains(text) {
            let count = screen.read(&mut piece).unwrap();
            assert!(count > 0, "no {text:?} in {shown}");
            shown += &String::from_utf8_lossy(&piece[..count]);
        }
    };
    expect("$ ");
    keys.write_all(b"stty size\r").unwrap();
    expect("33 111");
    // The interrupt is that of the terminal in the guest: it ends the program there, and not fsarena.
    keys.write_all(b"echo begun; cat\r").unwrap();
    expect("begun\r\n");
    keys.write_all(b"\x03").unwrap();
    keys.write_all(b"echo interrupted $?\r").unwrap();
    expect("interrupted 130");
    keys.write_all(b"exit 41\r").unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(41));
}

/// The counts of instructions in the kernel and in programs of each variant and task, over the rounds of the last run.
fn counts_of_rounds(nobody: &Nobody) -> BTreeMap<(String, String), BTreeSet<(String, String)>> {
    let (csv, _) = nobody.expect(0, &["report", "latest", "--format", "csv"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let [variant, task] = ["variant", "task"].map(column);
    let [kernel, user] = ["kernel_instructions_count", "user_instructions_count"].map(column);
    let mut counts: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for row in &rows[1..] {
        assert!(row[kernel].parse::<f64>().unwrap() > 0.0, "{csv}");
        let of_task = counts.entry((row[variant].to_string(), row[task].to_string())).or_default();
        of_task.insert((row[kernel].to_string(), row[user].to_string()));
    }
    counts
}

/// Runs commands in guests that count instructions, as a user who has this input, and expects equal counts in all rounds.
fn expect_equal_counts(filesystems: &str, rounds: &str, commands: &[(&str, &str)], input: &[(&str, &str)]) {
    let place = Place::new();
    let nobody = Nobody::within(&place);
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
    let counts = counts_of_rounds(&nobody);
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
        expect_equal_counts("ext4", "2", &[("cp", "cp -r $FSARENA_INPUT copy")], &input);
    }
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn programs_take_the_same_instructions_in_each_round() {
    if !can_boot() || !has(&["git", "cc", "python3", "tar"]) {
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
    expect_equal_counts("ext4,xfs,btrfs", "3", &commands, &input);
}

#[test]
#[ignore = "slow: `make test-long` runs it"]
fn a_program_that_looks_for_other_files_than_in_its_rehearsal_is_refused() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let run = |command: &str| {
        let args = ["run", "--on", "exact", "--kernel", "debian:6.1", "--fs", "ext4", "--rounds", "1"];
        nobody.expect(6, &[&args[..], &["--cmd", command]].concat()).1
    };
    // The root is an overlay in the rehearsal only.
    let is_rehearsal = "[ \"$(stat -f -c %T /usr)\" = overlayfs ]";
    let said = run(&format!("name=passwd; {is_rehearsal} || read x < /etc/$name"));
    assert!(said.contains("looked for /etc/passwd, which it had not looked for in its rehearsal"), "{said}");
    let said = run(&format!("{is_rehearsal} || exit 7"));
    assert!(said.contains("succeeded in its rehearsal") && said.contains("exit 7"), "{said}");
}
