//! The rights of workloads: their user, their capabilities, and what they can write to.

use crate::common::{Place, root};
use std::os::unix::fs::PermissionsExt;

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
        let able = fsarena_sys::rights::can_confine();
        if !able {
            fsarena_skip::skipped("no mount namespaces");
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
