//! The shipped program. It is static, so it must not load a name service of the machine.

use crate::common::{Sandbox, install, runs_as_root, text};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Members of a static glibc that look up users, groups, hosts or services.
const NAME_SERVICES: [&str; 9] =
    ["getpw", "getgrent", "getgrgid", "getgrnam", "initgroups", "getaddrinfo", "gethst", "getsrv", "nss_"];

/// The static program that `make build` makes. `make test` sets its path in FSARENA_SHIPPED. None, with a message, if it is not
/// set.
pub fn shipped_program() -> Option<PathBuf> {
    let program = std::env::var_os("FSARENA_SHIPPED").map(PathBuf::from);
    if program.is_none() {
        fsarena_sys::testkit::record_skip("FSARENA_SHIPPED, which names the static program of `make build`");
    }
    program.map(|program| program.canonicalize().expect("FSARENA_SHIPPED names a file"))
}

#[test]
fn no_name_service_is_linked() {
    let Some(program) = shipped_program() else { return };
    let Ok(map) = std::fs::read_to_string(program.with_extension("map")) else {
        return fsarena_sys::testkit::record_skip("the linker map that `make build` writes beside the program");
    };
    // GNU ld lists what it discarded first, and then what is linked; LLD lists only this.
    let linked = map.split_once("Linker script and memory map").map_or(&map[..], |(_, linked)| linked);
    let members: Vec<&str> =
        linked.split("libc.a(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(member, _)| member).collect();
    assert!(members.contains(&"malloc.o"), "the map names no members of libc.a");
    let linked_services: Vec<&&str> =
        members.iter().filter(|member| NAME_SERVICES.iter().any(|name| member.starts_with(name))).collect();
    assert_eq!(linked_services, [&""; 0]);
}

/// Runs a command under strace, and asserts its exit code. Returns the trace of the command and its children.
fn trace_command(sandbox: &Sandbox, starter: &[&str], program: &Path, args: &[&str], code: i32) -> String {
    let file = sandbox.dir.join("nobody/trace");
    let _ = std::fs::remove_file(&file);
    let calls = "trace=execve,clone,clone3,fork,vfork,open,openat";
    let strace = ["strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o", file.to_str().unwrap()];
    let words: Vec<&str> = [starter, &strace].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program).args(args).current_dir(sandbox.dir.join("nobody"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", sandbox.dir.join("nobody"));
    command.env("FSARENA_STATE_DIR", sandbox.dir.join("nobody/state"));
    if starter.is_empty() {
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    }
    let output = command.output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{starter:?} {args:?}\n{}\n{stderr}", text(&output.stdout));
    std::fs::read_to_string(file).unwrap()
}

/// The shared libraries that processes of a program opened or tried to open. Other programs that they start load theirs.
fn libraries_opened(trace: &str, program: &Path) -> Vec<String> {
    let lines = || trace.lines().filter_map(|line| line.split_once(' ')).map(|(pid, call)| (pid, call.trim_start()));
    let mut parents = BTreeMap::new();
    for (pid, call) in lines() {
        let is_fork = ["clone", "fork", "vfork"].iter().any(|name| call.trim_start_matches("<... ").starts_with(name));
        if let Some((_, child)) = call.rsplit_once(" = ").filter(|_| is_fork) {
            parents.insert(child, pid);
        }
    }
    let is_program =
        |call: &str| call.split('"').nth(1).is_some_and(|path| Path::new(path) == program || path == "/proc/self/exe");
    let (mut runs_program_by_pid, mut pending) = (BTreeMap::new(), BTreeMap::new());
    let mut opened = vec![];
    for (pid, call) in lines() {
        // The first process runs the program; another begins as a copy of its parent.
        let inherited = parents.get(pid).and_then(|parent| runs_program_by_pid.get(parent)).copied().unwrap_or(true);
        let runs_program = runs_program_by_pid.entry(pid).or_insert(inherited);
        if call.starts_with("execve(") && call.ends_with("<unfinished ...>") {
            pending.insert(pid, is_program(call));
        } else if call.starts_with("execve(") && call.ends_with(" = 0") {
            *runs_program = is_program(call);
        } else if call.starts_with("<... execve resumed") && call.ends_with(" = 0") {
            *runs_program = pending.remove(pid).unwrap_or(false);
        } else if call.starts_with("open") && call.contains(".so") && *runs_program {
            opened.push(call.to_string());
        }
    }
    opened
}

#[test]
fn the_program_opens_no_library_under_any_user() {
    let Some(program) = shipped_program() else { return };
    if !runs_as_root() || !fsarena_sys::testkit::has_program("strace") || !fsarena_sys::testkit::has_program("setpriv")
    {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let installed = sandbox.dir.join("fsarena");
    install(&program, &installed);
    let home = sandbox.dir.join("nobody");
    let ls = Path::new("/bin/ls");
    std::fs::create_dir(&home).unwrap();
    assert!(
        !libraries_opened(&trace_command(&sandbox, &[], ls, &["/"], 0), ls).is_empty(),
        "the trace shows libraries"
    );
    let valid_args = ["run", "../plan.toml", "--quiet", "--on", "dir:dir"];
    let invalid_args = [&valid_args[..], &["--user", "no-such-user"]].concat();
    let setpriv_to = |id: &'static str| ["setpriv", "--reuid", id, "--regid", id, "--clear-groups"];
    let as_root: &[&str] = &["env", "-u", "SUDO_UID", "-u", "SUDO_GID"];
    let (nobody, unknown) = (setpriv_to("65534"), setpriv_to("54321"));
    let identities: [(&[&str], u32); 4] = [(as_root, 0), (&[], 0), (&nobody, 65534), (&unknown, 54321)];
    for (starter, uid) in identities {
        for dir in [home.clone(), home.join("dir")] {
            let _ = std::fs::create_dir(&dir);
            chown(&dir, Some(uid), Some(uid)).unwrap();
        }
        let mut commands: Vec<(&[&str], i32)> = vec![(&valid_args, 0)];
        match uid {
            0 => commands.push((&invalid_args, 2)),
            _ => commands.push((&["doctor"], 0)),
        }
        for (args, code) in commands {
            let libraries = libraries_opened(&trace_command(&sandbox, starter, &installed, args, code), &installed);
            assert_eq!(libraries, [""; 0], "{starter:?} {args:?}");
        }
        for dir in ["runs", "state"] {
            std::fs::remove_dir_all(home.join(dir)).unwrap();
        }
    }
    sandbox.assert_clean();
}
