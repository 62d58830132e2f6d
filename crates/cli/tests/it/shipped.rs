//! The program as it is shipped: static, so no name service of the machine may be loaded into it.

use crate::common::{Place, install, root, text};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Members of a static glibc that look up users, groups, hosts or services.
const NAME_SERVICES: [&str; 9] =
    ["getpw", "getgrent", "getgrgid", "getgrnam", "initgroups", "getaddrinfo", "gethst", "getsrv", "nss_"];

/// The static program that `make build` makes, which `make test` names in FSARENA_SHIPPED.
pub fn shipped() -> Option<PathBuf> {
    let program = std::env::var_os("FSARENA_SHIPPED").map(PathBuf::from);
    if program.is_none() {
        fsarena_sys::testkit::skipped("FSARENA_SHIPPED, which names the static program of `make build`");
    }
    program.map(|program| program.canonicalize().expect("FSARENA_SHIPPED names a file"))
}

#[test]
fn no_name_service_is_linked() {
    let Some(program) = shipped() else { return };
    let Ok(map) = std::fs::read_to_string(program.with_extension("map")) else {
        return fsarena_sys::testkit::skipped("the linker map that `make build` writes beside the program");
    };
    // GNU ld lists what it discarded first, and then what is linked; LLD lists only this.
    let linked = map.split_once("Linker script and memory map").map_or(&map[..], |(_, linked)| linked);
    let members: Vec<&str> =
        linked.split("libc.a(").skip(1).filter_map(|rest| rest.split_once(')')).map(|(member, _)| member).collect();
    assert!(members.contains(&"malloc.o"), "the map names no members of libc.a");
    let found: Vec<&&str> =
        members.iter().filter(|member| NAME_SERVICES.iter().any(|name| member.starts_with(name))).collect();
    assert_eq!(found, [&""; 0]);
}

/// A trace of a command and all that it starts.
fn trace(place: &Place, starter: &[&str], program: &Path, args: &[&str], code: i32) -> String {
    let file = place.dir.join("nobody/trace");
    let _ = std::fs::remove_file(&file);
    let calls = "trace=execve,clone,clone3,fork,vfork,open,openat";
    let strace = ["strace", "-f", "-qq", "-e", calls, "-e", "signal=none", "-o", file.to_str().unwrap()];
    let words: Vec<&str> = [starter, &strace].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(program).args(args).current_dir(place.dir.join("nobody"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", place.dir.join("nobody"));
    command.env("FSARENA_STATE_DIR", place.dir.join("nobody/state"));
    if starter.is_empty() {
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534");
    }
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{starter:?} {args:?}\n{}\n{said}", text(&output.stdout));
    std::fs::read_to_string(file).unwrap()
}

/// The shared libraries that processes of a program opened or tried to open. Other programs that they start load theirs.
fn libraries_opened(trace: &str, program: &Path) -> Vec<String> {
    let lines = || trace.lines().filter_map(|line| line.split_once(' ')).map(|(pid, call)| (pid, call.trim_start()));
    let mut parents = BTreeMap::new();
    for (pid, call) in lines() {
        let forks = ["clone", "fork", "vfork"].iter().any(|name| call.trim_start_matches("<... ").starts_with(name));
        if let Some((_, child)) = call.rsplit_once(" = ").filter(|_| forks) {
            parents.insert(child, pid);
        }
    }
    let is_program =
        |call: &str| call.split('"').nth(1).is_some_and(|path| Path::new(path) == program || path == "/proc/self/exe");
    let (mut is_ours, mut pending) = (BTreeMap::new(), BTreeMap::new());
    let mut opened = vec![];
    for (pid, call) in lines() {
        // The first process begins with the program; another one is what its parent is.
        let inherited = parents.get(pid).and_then(|parent| is_ours.get(parent)).copied().unwrap_or(true);
        let ours = is_ours.entry(pid).or_insert(inherited);
        if call.starts_with("execve(") && call.ends_with("<unfinished ...>") {
            pending.insert(pid, is_program(call));
        } else if call.starts_with("execve(") && call.ends_with(" = 0") {
            *ours = is_program(call);
        } else if call.starts_with("<... execve resumed") && call.ends_with(" = 0") {
            *ours = pending.remove(pid).unwrap_or(false);
        } else if call.starts_with("open") && call.contains(".so") && *ours {
            opened.push(call.to_string());
        }
    }
    opened
}

#[test]
fn it_opens_no_library_whoever_starts_it() {
    let Some(program) = shipped() else { return };
    if !root() || !fsarena_sys::testkit::program("strace") || !fsarena_sys::testkit::program("setpriv") {
        return;
    }
    let place = Place::new();
    std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let own = place.dir.join("fsarena");
    install(&program, &own);
    let home = place.dir.join("nobody");
    let ls = Path::new("/bin/ls");
    std::fs::create_dir(&home).unwrap();
    assert!(!libraries_opened(&trace(&place, &[], ls, &["/"], 0), ls).is_empty(), "the trace shows libraries");
    let plain = ["run", "../plan.toml", "--quiet", "--on", "dir:dir"];
    let mistyped = [&plain[..], &["--user", "no-such-user"]].concat();
    let one = |id: &'static str| ["setpriv", "--reuid", id, "--regid", id, "--clear-groups"];
    let as_root: &[&str] = &["env", "-u", "SUDO_UID", "-u", "SUDO_GID"];
    let (nobody, unknown) = (one("65534"), one("54321"));
    let identities: [(&[&str], u32); 4] = [(as_root, 0), (&[], 0), (&nobody, 65534), (&unknown, 54321)];
    for (starter, uid) in identities {
        for dir in [home.clone(), home.join("dir")] {
            let _ = std::fs::create_dir(&dir);
            chown(&dir, Some(uid), Some(uid)).unwrap();
        }
        let mut commands: Vec<(&[&str], i32)> = vec![(&plain, 0)];
        match uid {
            0 => commands.push((&mistyped, 2)),
            _ => commands.push((&["doctor"], 0)),
        }
        for (args, code) in commands {
            let found = libraries_opened(&trace(&place, starter, &own, args, code), &own);
            assert_eq!(found, [""; 0], "{starter:?} {args:?}");
        }
        for dir in ["runs", "state"] {
            std::fs::remove_dir_all(home.join(dir)).unwrap();
        }
    }
    place.assert_clean();
}
