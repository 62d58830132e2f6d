//! The rights of workloads: their user, their capabilities, and the files that they can write to.

use crate::common::{self, Sandbox, runs_as_root, text};
use std::os::unix::fs::PermissionsExt;
use std::{path::Path, process::Command};

/// Makes a sandbox that every user can enter, with a plan of one task. This script replaces its program `touch`.
fn make_sandbox(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
    sandbox.edit_plan("native", "commands");
    sandbox.edit_plan("[1, 2, 3]", "[1]");
    sandbox.shim("touch", &format!("case \"$1\" in --version) exec \"$REAL\" \"$@\";; esac\n{script}"));
    sandbox
}

/// Whether the confinement of workloads can be tested here; root may lack the right to make mount namespaces.
fn can_confine() -> bool {
    if !runs_as_root() {
        return false;
    }
    let can_confine = fsarena_sys::rights::can_restrict_writes();
    if !can_confine {
        fsarena_sys::testkit::record_skip("no mount namespaces");
    }
    can_confine
}

#[test]
fn a_workload_writes_to_nothing_but_its_own_files() {
    if !can_confine() {
        return;
    }
    let script = "for file in \"$DIR/victim\" \"$1/../../../../victim\" /proc/sys/kernel/core_pattern /dev/loop-control; do\n\
                if (: >> \"$file\") 2>/dev/null; then echo \"opened $file\" >&2; exit 9; fi; done\n\
                : > /dev/null || exit 8\nexec \"$REAL\" \"$@\"";
    let sandbox = make_sandbox(script);
    std::fs::write(sandbox.dir.join("victim"), "data").unwrap();
    let (answer, _) = sandbox.expect(0, &["run", "plan.toml", "--quiet"]);
    assert!(!answer.contains("Read-only"), "{answer}");
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    sandbox.expect(0, &["run", "plan.toml", "--quiet", "--on", "dir:dir"]);
    assert_eq!(std::fs::read_to_string(sandbox.dir.join("victim")).unwrap(), "data");
    sandbox.assert_clean();
}

/// A script that prints its user, the owner of the new file and its capabilities, and fails.
const PRINT_IDENTITY: &str = "\"$REAL\" \"$@\"\n\
                   echo \"$(id -u) $(stat -c %u \"$1\") $(grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -s '\\t\\n' '  ')\" >&2\n\
                   exit 9";

#[test]
fn a_workload_of_root_has_hardly_any_capabilities() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox(PRINT_IDENTITY);
    let stderr = String::from_utf8(sandbox.output(&["run", "plan.toml", "--quiet"]).stderr).unwrap();
    // CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID and IPC_LOCK.
    assert!(stderr.contains("0 0 CapEff: 00000000000040fb NoNewPrivs: 1"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_workload_under_sudo_runs_as_the_calling_user() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox(PRINT_IDENTITY);
    let mut sudo = sandbox.fsarena(&["run", "plan.toml", "--quiet"]);
    let stderr = sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap().stderr;
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(stderr.contains("65534 65534 CapEff: 0000000000000000 NoNewPrivs: 1"), "{stderr}");
    sandbox.shim("touch", "exec \"$REAL\" \"$@\"");
    let mut sudo = sandbox.fsarena(&["run", "plan.toml", "--quiet"]);
    let output = sudo.env("SUDO_UID", "65534").env("SUDO_GID", "65534").output().unwrap();
    assert!(output.status.success() && !crate::common::text(&output.stdout).contains("ermission denied"));
    let (report, _) = sandbox.expect(0, &["report", "--format", "json"]);
    assert!(report.contains("nobody (uid 65534)"), "{report}");
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--user", "no-such-user"]);
    assert!(stderr.contains("unknown user `no-such-user`"), "{stderr}");
    sandbox.assert_clean();
}

/// The command that a shell runs with this umask. The program is that of FSARENA_SHIPPED if this is set.
fn command_with_umask(sandbox: &Sandbox, umask: &str, args: &[&str]) -> Command {
    let built = sandbox.fsarena(args);
    let shipped = std::env::var_os("FSARENA_SHIPPED");
    let program = shipped.as_deref().unwrap_or(built.get_program());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"]).arg(program).args(args);
    command.current_dir(&sandbox.dir).env_clear();
    command.envs(built.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// The permissions of a file or directory.
fn mode(path: &Path) -> u32 {
    path.metadata().unwrap_or_else(|error| panic!("{path:?}: {error}")).permissions().mode() & 0o7777
}

/// Runs a command to its end and asserts its exit code. Returns its standard error.
#[track_caller]
fn expect(code: i32, command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{printed}\n{stderr}");
    stderr
}

#[test]
fn with_a_strict_umask_users_reach_the_runs_directory_and_no_private_files() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("exec \"$REAL\" \"$@\"");
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    let sudo_variables: &[(&str, &str)] = &[("SUDO_UID", "65534"), ("SUDO_GID", "65534")];
    for (number, (umask, variables, on, user)) in [
        ("077", sudo_variables, "loop", None),
        ("077", &[], "dir:dir", Some("nobody")),
        ("027", sudo_variables, "dir:dir", None),
        ("027", &[], "dir:dir", Some("nobody")),
    ]
    .into_iter()
    .enumerate()
    {
        let runs_dir = sandbox.dir.join(format!("new-{number}/runs"));
        let mut args = vec!["run", "plan.toml", "--quiet", "--on", on, "--runs", runs_dir.to_str().unwrap()];
        args.extend(user.into_iter().flat_map(|user| ["--user", user]));
        expect(0, command_with_umask(&sandbox, umask, &args).envs(variables.iter().copied()));
        let run = std::fs::read_dir(&runs_dir).unwrap().next().unwrap().unwrap().path();
        let masked_bits = u32::from_str_radix(umask, 8).unwrap();
        for file in ["run.db", "plan.toml", "report.html"] {
            assert_eq!(mode(&run.join(file)) & masked_bits, 0, "{umask} {file}");
        }
        for dir in [runs_dir.parent().unwrap(), &runs_dir, &run] {
            assert_eq!(
                mode(dir) & (masked_bits | 0o111),
                0o111,
                "{umask} {dir:?}: every user can pass through it and not list it"
            );
        }
        assert_eq!(mode(&sandbox.state_dir().join("undo")), 0o700);
        sandbox.assert_clean();
    }
}

#[test]
fn the_remedy_for_runs_that_a_user_cannot_reach_works() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("exec \"$REAL\" \"$@\"");
    let closed = sandbox.dir.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    let run_command = |runs_dir: &str| {
        let args = ["run", "plan.toml", "--quiet", "--on", "dir:dir", "--user", "nobody", "--runs", runs_dir];
        command_with_umask(&sandbox, "077", &args)
    };
    let stderr = expect(6, &mut run_command("closed/runs"));
    let remedy = format!("chmod a+x {}", closed.display());
    assert!(stderr.contains(&remedy) && stderr.contains("--runs /var/tmp/runs"), "{stderr}");
    expect(0, &mut run_command("open/runs"));
    assert!(Command::new("sh").args(["-c", &remedy]).status().unwrap().success());
    expect(0, &mut run_command("closed/runs"));
    sandbox.assert_clean();
}

#[test]
fn with_a_strict_umask_a_server_reaches_its_files() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("squid") {
        return;
    }
    let sandbox = crate::squid::make_sandbox(
        "use = \"squid\"\nrates = 50\nseconds = 0.2\ncache_bytes = 1048576\nl1 = 2\nl2 = 4\n",
    );
    expect(0, &mut command_with_umask(&sandbox, "077", &["run", "plan.toml", "--quiet", "--on", "ram"]));
    sandbox.assert_clean();
}

#[test]
fn invalid_variables_of_sudo_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox(PRINT_IDENTITY);
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    let run = |extra: &[&str], variables: &[(&str, &str)]| {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], extra].concat();
        sandbox.fsarena(&args).envs(variables.iter().copied()).output().unwrap()
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
        assert!(!sandbox.runs_dir().exists() && !sandbox.state_dir().exists(), "{variables:?}");
        // With --user, the variables are not used.
        let output = run(&["--user", "nobody"], variables);
        assert!(text(&output.stderr).contains("65534 65534 CapEff: 0000000000000000"), "{variables:?}");
        std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
        std::fs::remove_dir_all(sandbox.state_dir()).unwrap();
    }
    // A user that is in no database.
    let stderr = text(&run(&[], &[("SUDO_UID", "54321"), ("SUDO_GID", "54322")]).stderr);
    assert!(stderr.contains("54321 54321 CapEff: 0000000000000000 NoNewPrivs: 1"), "{stderr}");
    let (report, _) = sandbox.expect(0, &["report", "--format", "json"]);
    assert!(report.contains("54321 (uid 54321)"), "{report}");
    let output = run(&["--user", "65534"], &[]);
    let stderr = text(&output.stderr);
    assert!(output.status.code() == Some(2) && stderr.contains("`nobody`"), "{stderr}");
}

/// A script in place of getent that knows one user, of a domain.
const GETENT_OF_DOMAIN: &str = r"case $1/$2 in
'passwd/CORP\jo do'|passwd/1881600001) echo 'CORP\jo do:*:1881600001:1881600513:Jo:/home/CORP/jo:';;
'initgroups/CORP\jo do') echo 'CORP\jo do            1881600513 1881600600 24';;
passwd/broken) echo 'no answer from the domain' >&2; exit 9;;
*) exit 2;;
esac";

#[test]
fn a_user_of_a_domain_has_their_groups_and_home() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox(
        "echo \"$(id -u) $(id -g) $(id -G | tr ' ' '\\n' | sort -n | tr '\\n' ' ')$HOME $USER\" >&2; exit 9",
    );
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    sandbox.shim("getent", GETENT_OF_DOMAIN);
    let getent = sandbox.dir.join("shims/getent");
    let bind_getent = "mount --bind \"$0\" /usr/bin/getent && exec \"$@\"";
    let starter = ["unshare", "--mount", "sh", "-c", bind_getent, getent.to_str().unwrap()];
    let run_command = |extra_args: &[&str]| {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], extra_args].concat();
        sandbox.fsarena_under(&starter, &args)
    };
    let identity = r"1881600001 1881600513 24 1881600513 1881600600 /home/CORP/jo CORP\jo do";
    let stderr = text(&run_command(&["--user", r"CORP\jo do"]).output().unwrap().stderr);
    assert!(stderr.contains(identity), "{stderr}");
    let mut sudo = run_command(&[]);
    let stderr = text(&sudo.env("SUDO_UID", "1881600001").env("SUDO_GID", "1881600513").output().unwrap().stderr);
    assert!(stderr.contains(identity), "{stderr}");
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    let stderr = expect(6, &mut run_command(&["--user", "broken"]));
    assert!(stderr.contains("no answer from the domain") && stderr.contains("getent passwd broken"), "{stderr}");
    // This user is in /etc/passwd, but getent does not know it.
    expect(2, &mut run_command(&["--user", "nobody"]));
    assert!(!sandbox.runs_dir().exists());
}

/// Without capabilities even root may not set its identity, so fsarena must leave it unchanged.
#[test]
fn root_without_capabilities_runs_in_a_directory_as_itself() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("setpriv") {
        return;
    }
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    let starter = ["setpriv", "--groups", "0,4", "--bounding-set=-all", "--inh-caps=-all"];
    for user in [&[][..], &["--user", "root"]] {
        let args = [&["run", "plan.toml", "--quiet", "--on", "dir:dir"], user].concat();
        expect(0, &mut sandbox.fsarena_under(&starter, &args));
    }
    let args = ["run", "plan.toml", "--quiet", "--on", "dir:dir"];
    expect(0, &mut sandbox.fsarena_under(&["unshare", "--user", "--map-root-user"], &args));
    sandbox.assert_clean();
}

#[test]
fn without_getent_users_are_looked_up_in_etc() {
    if !can_confine() {
        return;
    }
    let sandbox = Sandbox::new();
    let new_root = sandbox.dir.join("root");
    for dir in ["etc", "work", "proc", "sys", "lib", "lib64", "tmp", "dev"] {
        std::fs::create_dir_all(new_root.join(dir)).unwrap();
    }
    std::fs::copy(sandbox.dir.join("plan.toml"), new_root.join("plan.toml")).unwrap();
    std::fs::write(new_root.join("etc/passwd"), "bob:x:4321:4322::/home/bob:\n").unwrap();
    std::fs::write(new_root.join("etc/group"), "team:x:4400:alice,bob\n").unwrap();
    common::install(Path::new(sandbox.fsarena(&[]).get_program()), &new_root.join("fsarena"));
    std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
    // Mounts the libraries that a dynamic build needs, and the kernel filesystems.
    let enter = "for dir in lib lib64 proc sys dev; do [ ! -e /$dir ] || mount --rbind /$dir \"$0/$dir\" || exit 99; done\n\
                 exec chroot \"$0\" /fsarena \"$@\"";
    let run_command = |user: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", enter]).arg(&new_root).args(["run", "/plan.toml", "--user", user]);
        command.args(["--on", "dir:/work", "--runs", "/tmp/runs", "--quiet"]);
        command.env_clear().env("PATH", std::env::var("PATH").unwrap()).env("FSARENA_STATE_DIR", "/tmp/state");
        command
    };
    expect(2, &mut run_command("alice"));
    expect(0, &mut run_command("bob"));
    let run_dir = std::fs::read_dir(new_root.join("tmp/runs")).unwrap().next().unwrap().unwrap().path();
    let (report, _) = sandbox.expect(0, &["report", run_dir.to_str().unwrap(), "--format", "json"]);
    assert!(report.contains("bob (uid 4321)"), "{report}");
}
