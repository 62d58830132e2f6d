//! Commands that leave everything by which they could be found: no process of a run outlives it, or `recover` ends it, or
//! its use of a mount is told.

use crate::common::gate::{Gate, Running, When, wait_until};
use crate::common::nobody::Nobody;
use crate::common::stand_in::text;
use crate::common::{Place, root};
use fsarena_sys::{kernel::SysRoot, process};
use rustix::process::{Pid, Signal};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// One command of the user, with hardly any idle wait.
const PLAN: &str = "name = \"own\"\nseed = 1\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\ntimeout = \"50ms\"\n\
                    dirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n";

/// Whether this machine can be asked; root may lack the right to make PID namespaces.
fn namespaces() -> bool {
    root() && {
        let able = fsarena_sys::pid_namespace::is_available();
        if !able {
            fsarena_sys::testkit::skipped("PID namespaces");
        }
        able
    }
}

/// A place with one command, open to every user.
fn place(more: &str, cmd: &str) -> Place {
    let place = Place::new();
    std::fs::set_permissions(&place.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let plan = format!("{PLAN}{more}[[workload.task]]\nname = \"work\"\ncmd = '''{cmd}'''\n");
    std::fs::write(place.dir.join("own.toml"), plan).unwrap();
    place
}

/// A place whose command is left by a process without parent, session and, where `clear` is `env -i`, environment. It works
/// in the directory under test; only its arguments tell the test which it is.
fn escaping(clear: &str) -> Place {
    let place = place("", "PLACEHOLDER");
    let plan = place.dir.join("own.toml");
    let script =
        format!("cd \"$FSARENA_DIR\"\n(setsid {clear} tail -f {} &) >/dev/null 2>&1\nexec sleep 60", plan.display());
    let written = std::fs::read_to_string(&plan).unwrap().replace("PLACEHOLDER", &script);
    std::fs::write(plan, written).unwrap();
    place
}

/// The processes that have escaped.
fn escaped(place: &Place) -> Vec<i32> {
    let words = format!("tail\0-f\0{}\0", place.dir.join("own.toml").display());
    let is_it = |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == words.as_bytes());
    process::all_pids(&SysRoot::host()).unwrap().into_iter().filter(is_it).collect()
}

/// Starts a run, waits until a process has escaped, and kills the run and its agents.
fn kill_when_escaped(place: &Place, command: Command) {
    let mut run = Running::start(place, command);
    run.until("a process has escaped", || escaped(place).len() == 1);
    for agent in place.agents() {
        // One may have ended with another.
        let _ = rustix::process::kill_process(Pid::from_raw(agent).unwrap(), Signal::KILL);
    }
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
}

#[test]
fn nothing_outlives_the_namespace_of_a_cell() {
    if !namespaces() {
        return;
    }
    let place = escaping("env -i");
    kill_when_escaped(&place, place.fsarena(&["run", "own.toml"]));
    // The kernel ends it before anybody recovers.
    wait_until("it is gone", || escaped(&place).is_empty());
    place.expect(0, &["recover"]);
    place.assert_clean();
}

#[test]
fn a_control_group_tells_what_to_end_where_there_are_no_namespaces() {
    if !root() || !fsarena_sys::testkit::program("setpriv") {
        return;
    }
    let place = escaping("env -i");
    std::fs::create_dir(place.dir.join("dir")).unwrap();
    let args = ["run", "own.toml", "--on", "dir:dir"];
    kill_when_escaped(&place, place.started_by(&["setpriv", "--bounding-set", "-sys_admin"], &args));
    assert_eq!(escaped(&place).len(), 1, "nothing is left to end");
    let (said, more) = place.expect(0, &["recover"]);
    assert_eq!(escaped(&place), [0; 0], "{said}{more}");
    place.assert_clean();
    assert_eq!(std::fs::read_dir(place.dir.join("dir")).unwrap().count(), 0);
}

#[test]
fn their_mark_tells_which_processes_to_end_where_there_are_no_control_groups_either() {
    if !root() {
        return;
    }
    let place = escaping("");
    let nobody = Nobody::within(&place);
    nobody.dir("dir");
    let plan = place.dir.join("own.toml");
    let mut command = nobody.command(&["run", text(&plan), "--on", "dir:dir"]);
    let state = nobody.home.join("state");
    command.env("FSARENA_STATE_DIR", &state).env("FSARENA_RUNS", nobody.home.join("runs"));
    let mut run = Running::start(&place, command);
    run.until("a process has escaped", || escaped(&place).len() == 1);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    let done = nobody.command(&["recover"]).env("FSARENA_STATE_DIR", &state).output().unwrap();
    assert!(done.status.success(), "{}", crate::common::text(&done.stderr));
    assert_eq!(escaped(&place), [0; 0]);
    assert_eq!(std::fs::read_dir(nobody.home.join("dir")).unwrap().count(), 0);
}

#[test]
fn who_holds_a_mount_is_named_with_what_lets_it_go() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "mount", "*mnt/test*", 0);
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    let other = place.run_file("mnt/other").unwrap();
    std::fs::write(other.join("file"), "x").unwrap();
    // Not a process of fsarena, so it is not fsarena's to end.
    let open = std::fs::File::open(other.join("file")).unwrap();
    let mut holder = Command::new("sleep").arg("60").current_dir(&other).stdin(open).spawn().unwrap();
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    let (_, said) = place.expect(6, &["recover"]);
    let pid = holder.id();
    assert!(said.contains(&format!("{pid} (sleep: working directory, open file)")), "{said}");
    assert!(said.contains(&format!("kill {pid} && fsarena recover")), "{said}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    place.expect(0, &["recover"]);
    place.assert_clean();
}

#[test]
fn a_stopped_agent_ends_at_the_time_limit_of_its_command() {
    if !root() {
        return;
    }
    let stop = place("timeout = 0.5\n", "kill -STOP $PPID; exec sleep 60");
    let said = stop.output(&["run", "own.toml", "--quiet"]);
    assert_eq!(said.status.code(), Some(4));
    let said = crate::common::text(&said.stderr);
    assert!(said.contains("--timeout") && !said.contains("bug in fsarena"), "{said}");
    stop.assert_clean();
    // Here no process stands between the agent and the run.
    let nobody = Nobody::within(&stop);
    let dir = nobody.dir("dir");
    let on = format!("dir:{}", dir.display());
    let plan = stop.dir.join("own.toml");
    let (_, said) = nobody.expect(4, &["run", text(&plan), "--quiet", "--on", &on]);
    assert!(said.contains("--timeout"), "{said}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_workload_sees_its_own_processes_and_no_other() {
    if !namespaces() {
        return;
    }
    let own = std::process::id();
    let sees = format!(
        "read pid rest < /proc/$$/stat; test $pid = $$\n! kill -0 {own}\ntest ! -e /proc/{own}\ntest $(echo /proc/[0-9]* | wc -w) -lt 10"
    );
    let place = place("", &sees);
    place.expect(0, &["run", "own.toml", "--quiet"]);
    let (facts, _) = place.expect(0, &["report", "--format", "json"]);
    assert!(facts.contains("PID namespace, read-only mounts, dropped capabilities"), "{facts}");
    place.assert_clean();
}
