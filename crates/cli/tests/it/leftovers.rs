//! Commands that leave processes behind which hide from fsarena. Such a process ends with the run or by `recover`; or the error
//! names it if it keeps a mount in use.

use crate::common::gate::{BackgroundRun, Gate, When, wait_until};
use crate::common::nobody::Nobody;
use crate::common::stand_in::text;
use crate::common::{Sandbox, runs_as_root};
use fsarena_sys::{kernel::SysRoot, process};
use rustix::process::{Pid, Signal};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// One command of the user, with hardly any idle wait.
const PLAN: &str = "name = \"own\"\nseed = 1\n[factors]\nfs = [\"ext2\"]\n[stop]\nrounds = 1\n[idle]\ntimeout = \"50ms\"\n\
                    dirty = \"1GiB\"\nio_pressure_percent = 100.0\n[[workload]]\nuse = \"command\"\nroom = \"8MiB\"\n";

/// Whether PID namespaces can be tested here; root may lack the right to make them.
fn has_pid_namespaces() -> bool {
    runs_as_root() && {
        let is_available = fsarena_sys::pid_namespace::is_available();
        if !is_available {
            fsarena_sys::testkit::record_skip("PID namespaces");
        }
        is_available
    }
}

/// Makes a sandbox that every user can enter, with a plan of one command. `settings` are more settings of the command.
fn make_sandbox(settings: &str, cmd: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    std::fs::set_permissions(&sandbox.dir, PermissionsExt::from_mode(0o755)).unwrap();
    let plan = format!("{PLAN}{settings}[[workload.task]]\nname = \"work\"\ncmd = '''{cmd}'''\n");
    std::fs::write(sandbox.dir.join("own.toml"), plan).unwrap();
    sandbox
}

/// Makes a sandbox whose command leaves a process behind, without parent and session, and without environment if `clear` is
/// `env -i`. The process works in the directory under test; the test recognizes it by its arguments only.
fn sandbox_with_escaping_process(clear: &str) -> Sandbox {
    let sandbox = make_sandbox("", "PLACEHOLDER");
    let plan = sandbox.dir.join("own.toml");
    let script =
        format!("cd \"$FSARENA_DIR\"\n(setsid {clear} tail -f {} &) >/dev/null 2>&1\nexec sleep 60", plan.display());
    let plan_text = std::fs::read_to_string(&plan).unwrap().replace("PLACEHOLDER", &script);
    std::fs::write(plan, plan_text).unwrap();
    sandbox
}

/// The processes that have escaped.
fn escaped_processes(sandbox: &Sandbox) -> Vec<i32> {
    let command_line = format!("tail\0-f\0{}\0", sandbox.dir.join("own.toml").display());
    let has_escaped =
        |pid: &i32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|found| found == command_line.as_bytes());
    process::all_pids(&SysRoot::host()).unwrap().into_iter().filter(has_escaped).collect()
}

/// Starts a run, waits until a process has escaped, and kills the run and its agents.
fn kill_when_escaped(sandbox: &Sandbox, command: Command) {
    let mut run = BackgroundRun::start(sandbox, command);
    run.wait_until("a process has escaped", || escaped_processes(sandbox).len() == 1);
    // A run that continues would end the process itself as soon as its agent has ended.
    run.signal(Signal::STOP);
    for agent in sandbox.agents() {
        // An agent can end because another one ended.
        let _ = rustix::process::kill_process(Pid::from_raw(agent).unwrap(), Signal::KILL);
    }
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
}

#[test]
fn nothing_outlives_the_namespace_of_a_cell() {
    if !has_pid_namespaces() {
        return;
    }
    let sandbox = sandbox_with_escaping_process("env -i");
    kill_when_escaped(&sandbox, sandbox.fsarena(&["run", "own.toml"]));
    // The kernel ends the process, without `recover`.
    wait_until("the process has ended", || escaped_processes(&sandbox).is_empty());
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
}

#[test]
fn without_namespaces_recover_finds_processes_by_their_control_group() {
    if !runs_as_root() || !fsarena_sys::testkit::has_program("setpriv") {
        return;
    }
    let sandbox = sandbox_with_escaping_process("env -i");
    std::fs::create_dir(sandbox.dir.join("dir")).unwrap();
    let args = ["run", "own.toml", "--on", "dir:dir"];
    kill_when_escaped(&sandbox, sandbox.fsarena_under(&["setpriv", "--bounding-set", "-sys_admin"], &args));
    assert_eq!(escaped_processes(&sandbox).len(), 1, "nothing is left to end");
    let (printed, stderr) = sandbox.expect(0, &["recover"]);
    assert_eq!(escaped_processes(&sandbox), [0; 0], "{printed}{stderr}");
    sandbox.assert_clean();
    assert_eq!(std::fs::read_dir(sandbox.dir.join("dir")).unwrap().count(), 0);
}

#[test]
fn without_control_groups_recover_finds_processes_by_their_environment() {
    if !runs_as_root() {
        return;
    }
    let sandbox = sandbox_with_escaping_process("");
    let nobody = Nobody::within(&sandbox);
    nobody.dir("dir");
    let plan = sandbox.dir.join("own.toml");
    let mut command = nobody.fsarena(&["run", text(&plan), "--on", "dir:dir"]);
    let state_dir = nobody.home.join("state");
    command.env("FSARENA_STATE_DIR", &state_dir).env("FSARENA_RUNS", nobody.home.join("runs"));
    let mut run = BackgroundRun::start(&sandbox, command);
    run.wait_until("a process has escaped", || escaped_processes(&sandbox).len() == 1);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    let recovery = nobody.fsarena(&["recover"]).env("FSARENA_STATE_DIR", &state_dir).output().unwrap();
    assert!(recovery.status.success(), "{}", crate::common::text(&recovery.stderr));
    assert_eq!(escaped_processes(&sandbox), [0; 0]);
    assert_eq!(std::fs::read_dir(nobody.home.join("dir")).unwrap().count(), 0);
}

#[test]
fn a_process_that_uses_a_mount_is_named_with_the_command_that_ends_it() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "mount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    let source_mount = sandbox.run_file("mnt/other").unwrap();
    std::fs::write(source_mount.join("file"), "x").unwrap();
    // fsarena must not end this process, because fsarena did not start it.
    let open_file = std::fs::File::open(source_mount.join("file")).unwrap();
    let mut holder = Command::new("sleep").arg("60").current_dir(&source_mount).stdin(open_file).spawn().unwrap();
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    let (_, stderr) = sandbox.expect(6, &["recover"]);
    let pid = holder.id();
    assert!(stderr.contains(&format!("{pid} (sleep: working directory, open file)")), "{stderr}");
    assert!(stderr.contains(&format!("kill {pid} && fsarena recover")), "{stderr}");
    holder.kill().unwrap();
    holder.wait().unwrap();
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
}

#[test]
fn a_stopped_agent_ends_at_the_time_limit_of_its_command() {
    if !runs_as_root() {
        return;
    }
    let sandbox = make_sandbox("timeout = 0.5\n", "kill -STOP $PPID; exec sleep 60");
    let output = sandbox.output(&["run", "own.toml", "--quiet"]);
    assert_eq!(output.status.code(), Some(4));
    let stderr = crate::common::text(&output.stderr);
    assert!(stderr.contains("--timeout") && !stderr.contains("bug in fsarena"), "{stderr}");
    sandbox.assert_clean();
    // Without root the agent is a child of the run itself.
    let nobody = Nobody::within(&sandbox);
    let dir = nobody.dir("dir");
    let on = format!("dir:{}", dir.display());
    let plan = sandbox.dir.join("own.toml");
    let (_, stderr) = nobody.expect(4, &["run", text(&plan), "--quiet", "--on", &on]);
    assert!(stderr.contains("--timeout"), "{stderr}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn a_workload_sees_its_own_processes_and_no_other() {
    if !has_pid_namespaces() {
        return;
    }
    let own = std::process::id();
    let script = format!(
        "read pid rest < /proc/$$/stat; test $pid = $$\n! kill -0 {own}\ntest ! -e /proc/{own}\ntest $(echo /proc/[0-9]* | wc -w) -lt 10"
    );
    let sandbox = make_sandbox("", &script);
    sandbox.expect(0, &["run", "own.toml", "--quiet"]);
    let (facts, _) = sandbox.expect(0, &["report", "--format", "json"]);
    assert!(facts.contains("PID namespace, read-only mounts, dropped capabilities"), "{facts}");
    sandbox.assert_clean();
}
