//! The rights of workloads: their user, their capabilities, and what they can write to.

use crate::common::{self, Place, root, text};
use std::os::unix::fs::PermissionsExt;
use std::{path::Path, process::Command};

/// A place where `touch` of the plan's only task is this script, open to every user.
fn place(script: &str) -> Place {
    let place = Place::new();
    std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
    place.edit_plan("native", "commands");
    place.edit_plan("[1, 2, 3]", "[1]");
    place.shim("touch", &format!("case \"$1\" in --version) exec \"$REAL\" \"$@\";; esac\n{script}"));
    place
}

/// Whether this machine can be asked; root may lack the right to make mount namespaces.
fn confined() -> bool {
    root() && {
        let able = fsarena_sys::rights::can_restrict_writes();
        if !able {
            fsarena_sys::testkit::skipped("no mount namespaces");
        }
        able
    }
}

#[test]
fn a_workload_writes_to_nothing_but_its_own_files() {
    if !confined() {
        return;
    }
    let open = "for file in \"$DIR/victim\" \"$1/../../../../victim\" /proc/sys/kernel/core_pattern /dev/loop-control; do\n\
                if (: >> \"$file\") 2>/dev/null; then echo \"opened $file\" >&2; exit 9; fi; done\n\
                : > /dev/null || exit 8\nexec \"$REAL\" \"$@\"";
    let place = place(open);
    std::fs::write(place.dir.join("victim"), "data").unwrap();
    let (answer, _) = place.expect(0, &["run", "plan.toml", "--quiet"]);
    assert!(!answer.contains("Read-only"), "{answer}");
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    place.expect(0, &["run", "plan.toml", "--quiet", "--on", "dir:dir"]);
    assert_eq!(std::fs::read_to_string(place.dir.join("victim")).unwrap(), "data");
    place.assert_clean();
}

/// Says the user, the capabilities and the owner of the new file, and fails.
const SAY: &str = "\"$REAL\" \"$@\"\n\
                   echo \"$(id -u) $(stat -c %u \"$1\") $(grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -s '\\t\\n' '  ')\" >&2\n\
                   exit 9";

#[test]
fn a_workload_of_root_has_hardly_any_capabilities() {
    if !root() {
        return;
    }
    let place = place(SAY);
    let said = String::from_utf8(place.output(&["run", "plan.toml", "--quiet"]).stderr).unwrap();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID and IPC_LOCK.
    assert!(said.contains("0 0 CapEff: 00000000000040fb NoNewPrivs: 1"), "{said}");
    place.assert_clean();
}

#[test]
fn a_workload_under_sudo_runs_as_the_calling_user() {
    if !root() {
        return;
    }
    let place = place(SAY);
    let mut sudo = place.fsarena(&["run", "plan.toml", "--quiet"]);
    let said = sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap().stderr;
    let said = String::from_utf8(said).unwrap();
    assert!(said.contains("65534 65534 CapEff: 0000000000000000 NoNewPrivs: 1"), "{said}");
    place.shim("touch", "exec \"$REAL\" \"$@\"");
    let mut sudo = place.fsarena(&["run", "plan.toml", "--quiet"]);
    let done = sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap();
    assert!(done.status.success() && !crate::common::text(&done.stdout).contains("ermission denied"));
    let (runs, _) = place.expect(0, &["report", "--format", "json"]);
    assert!(runs.contains("nobody (uid 65534)"), "{runs}");
    let (_, said) = place.expect(2, &["run", "plan.toml", "--user", "no-such-user"]);
    assert!(said.contains("unknown user `no-such-user`"), "{said}");
    place.assert_clean();
}

/// The command under this umask, as the last words of a shell; of the program that ships, where FSARENA_SHIPPED names it.
fn under_umask(place: &Place, umask: &str, args: &[&str]) -> Command {
    let built = place.fsarena(args);
    let shipped = std::env::var_os("FSARENA_SHIPPED");
    let program = shipped.as_deref().unwrap_or(built.get_program());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(program).args(args);
    command.current_dir(&place.dir).env_clear();
    command.envs(built.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// The permissions of a file or directory.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{path:?}: {error}")).permissions().mode() & 0o7777
}

/// Runs a command to its end and expects this exit code. Its standard error.
#[track_caller]
fn expect(code: i32, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (printed, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}\n{said}");
    said
}

#[test]
fn a_strict_umask_keeps_no_user_out_and_keeps_private_files_private() {
    if !root() {
        return;
    }
    let place = place("exec \"$REAL\" \"$@\"");
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    let named: &[(&str, &str)] = &[("SUDO_UID", "65534"), ("SUDO_GID", "65534")];
    for (number, (umask, sudo, on, user)) in [
        ("077", named, "loop", None),
        ("077", &[], "dir:dir", Some("nobody")),
        ("027", named, "dir:dir", None),
        ("027", &[], "dir:dir", Some("nobody")),
    ]
    .into_iter()
    .enumerate()
    {
        let runs = place.dir.join(format!("new-{number}/runs"));
        let mut args = vec!["run", "plan.toml", "--quiet", "--on", on, "--runs", runs.to_str().unwrap()];
        args.extend(user.into_iter().flat_map(|user| ["--user", user]));
        expect(0, under_umask(&place, umask, &args).envs(sudo.iter().copied()));
        let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
        let asked = u32::from_str_radix(umask, 8).unwrap();
        for file in ["run.db", "plan.toml", "report.html"] {
            assert_eq!(mode(&run.join(file)) & asked, 0, "{umask} {file}");
        }
        for dir in [runs.parent().unwrap(), &runs, &run] {
            assert_eq!(mode(dir) & (asked | 0o111), 0o111, "{umask} {dir:?}: passed, not listed");
        }
        assert_eq!(mode(&place.state().join("undo")), 0o700);
        place.assert_clean();
    }
}

#[test]
fn the_remedy_for_runs_that_a_user_cannot_reach_works() {
    if !root() {
        return;
    }
    let place = place("exec \"$REAL\" \"$@\"");
    let closed = place.dir.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    let run = |runs: &str| {
        let args = ["run", "plan.toml", "--quiet", "--on", "dir:dir", "--user", "nobody", "--runs", runs];
        under_umask(&place, "077", &args)
    };
    let said = expect(6, &mut run("closed/runs"));
    let remedy = format!("chmod a+x {}", closed.display());
    assert!(said.contains(&remedy) && said.contains("--runs /var/tmp/runs"), "{said}");
    expect(0, &mut run("open/runs"));
    assert!(Command::new("sh").args(["-c", &remedy]).status().unwrap().success());
    expect(0, &mut run("closed/runs"));
    place.assert_clean();
}

#[test]
fn a_strict_umask_keeps_no_server_out() {
    if !root() || !fsarena_sys::testkit::program("squid") {
        return;
    }
    let place =
        crate::squid::place("use = \"squid\"\nrates = 50\nseconds = 0.2\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n");
    expect(0, &mut under_umask(&place, "077", &["run", "plan.toml", "--quiet", "--on", "ram"]));
    place.assert_clean();
}

#[test]
fn the_variables_of_sudo_name_a_user_or_nothing_runs() {
    if !root() {
        return;
    }
    let place = place(SAY);
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    let run = |extra: &[&str], variables: &[(&str, &str)]| {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], extra].concat();
        place.fsarena(&args).envs(variables.iter().copied()).output().unwrap()
    };
    for variables in [
        &[("SUDO_UID", "nonsense"), ("SUDO_GID", "0")][..],
        &[("SUDO_UID", "4294967295"), ("SUDO_GID", "65534")],
        &[("SUDO_UID", "65534"), ("SUDO_GID", "")],
        &[("SUDO_UID", "65534")],
        &[("SUDO_GID", "65534")],
    ] {
        let output = run(&[], variables);
        assert_eq!(output.status.code(), Some(2), "{variables:?}: {}", text(&output.stderr));
        assert!(!place.runs().exists() && !place.state().exists(), "{variables:?}");
        // Whoever names the user needs no variable.
        let output = run(&["--user", "nobody"], variables);
        assert!(text(&output.stderr).contains("65534 65534 CapEff: 0000000000000000"), "{variables:?}");
        std::fs::remove_dir_all(place.runs()).unwrap();
        std::fs::remove_dir_all(place.state()).unwrap();
    }
    // A user whom no database has.
    let said = text(&run(&[], &[("SUDO_UID", "54321"), ("SUDO_GID", "54322")]).stderr);
    assert!(said.contains("54321 54321 CapEff: 0000000000000000 NoNewPrivs: 1"), "{said}");
    let (report, _) = place.expect(0, &["report", "--format", "json"]);
    assert!(report.contains("54321 (uid 54321)"), "{report}");
    let output = run(&["--user", "65534"], &[]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("`nobody`"), "{said}");
}

/// A getent that knows a user as a domain controller has them, and no other.
const DOMAIN: &str = r"case $1/$2 in
'passwd/CORP\jo do'|passwd/1881600001) echo 'CORP\jo do:*:1881600001:1881600513:Jo:/home/CORP/jo:';;
'initgroups/CORP\jo do') echo 'CORP\jo do            1881600513 1881600600 24';;
passwd/broken) echo 'no answer from the domain' >&2; exit 9;;
*) exit 2;;
esac";

#[test]
fn a_user_of_a_domain_has_their_groups_and_home() {
    if !root() {
        return;
    }
    let place =
        place("echo \"$(id -u) $(id -g) $(id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' ')$HOME $USER\" >&2; exit 9");
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    place.shim("getent", DOMAIN);
    let getent = place.dir.join("shims/getent");
    let instead = "mount --bind \"$0\" /usr/bin/getent && exec \"$@\"";
    let starter = ["unshare", "--mount", "sh", "-c", instead, getent.to_str().unwrap()];
    let run = |more: &[&str]| {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], more].concat();
        place.started_by(&starter, &args)
    };
    let is_jo = r"1881600001 1881600513 24 1881600513 1881600600 /home/CORP/jo CORP\jo do";
    let said = text(&run(&["--user", r"CORP\jo do"]).output().unwrap().stderr);
    assert!(said.contains(is_jo), "{said}");
    let mut sudo = run(&[]);
    let said = text(&sudo.env("SUDO_UID", "1881600001").env("SUDO_GID", "1881600513").output().unwrap().stderr);
    assert!(said.contains(is_jo), "{said}");
    std::fs::remove_dir_all(place.runs()).unwrap();
    let said = expect(6, &mut run(&["--user", "broken"]));
    assert!(said.contains("no answer from the domain") && said.contains("getent passwd broken"), "{said}");
    // /etc/passwd has this one, and getent is the authority.
    expect(2, &mut run(&["--user", "nobody"]));
    assert!(!place.runs().exists());
}

/// The identity of this process is kept by doing nothing: without capabilities even root may not set it.
#[test]
fn root_without_capabilities_runs_in_a_directory_as_itself() {
    if !root() || !fsarena_sys::testkit::program("setpriv") {
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    let starter = ["setpriv", "--groups", "0,4", "--bounding-set=-all", "--inh-caps=-all"];
    for user in [&[][..], &["--user", "root"]] {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], user].concat();
        expect(0, &mut place.started_by(&starter, &args));
    }
    let args = ["run", "plan.toml", "--quiet", "--on", "dir:dir"];
    expect(0, &mut place.started_by(&["unshare", "--user", "--map-root-user"], &args));
    place.assert_clean();
}

#[test]
fn without_getent_users_are_those_of_etc() {
    if !confined() {
        return;
    }
    let place = Place::new();
    let at = place.dir.join("root");
    for dir in ["etc", "work", "proc", "sys", "lib", "lib64", "tmp", "dev"] {
        std::fs::create_dir_all(at.join(dir)).unwrap();
    }
    std::fs::copy(place.dir.join("plan.toml"), at.join("plan.toml")).unwrap();
    std::fs::write(at.join("etc/passwd"), "bob:x:4321:4322::/home/bob:\n").unwrap();
    std::fs::write(at.join("etc/group"), "team:x:4400:alice,bob\n").unwrap();
    common::install(Path::new(place.fsarena(&[]).get_program()), &at.join("fsarena"));
    std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
    // The libraries of a dynamic build, and what every program finds.
    let enter = "for dir in lib lib64 proc sys dev; do [ ! -e /$dir ] || mount --rbind /$dir \"$0/$dir\" || exit 99; done\n\
                 exec chroot \"$0\" /fsarena \"$@\"";
    let run = |user: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", enter]).arg(&at).args(["run", "/plan.toml", "--user", user]);
        command.args(["--on", "dir:/work", "--runs", "/tmp/runs", "--quiet"]);
        command.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("FSARENA_STATE_DIR", "/tmp/state");
        command
    };
    expect(2, &mut run("alice"));
    expect(0, &mut run("bob"));
    let database = std::fs::read_dir(at.join("tmp/runs")).unwrap().next().unwrap().unwrap().path();
    let (report, _) = place.expect(0, &["report", database.to_str().unwrap(), "--format", "json"]);
    assert!(report.contains("bob (uid 4321)"), "{report}");
}
