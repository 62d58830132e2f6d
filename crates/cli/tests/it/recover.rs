//! `fsarena recover` on journals that are damaged or locked by another user, beside runs in other namespaces, and on moved
//! files: no step is reported as done that is not, and nothing of a running run is undone.

use crate::common::gate::{BackgroundRun, Gate, When, wait_until};
use crate::common::stand_in::{run, text};
use crate::common::{self, Sandbox, runs_as_root};
use fsarena_sys::kernel::SysRoot;
use rustix::process::Signal;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Starts a run, kills it when its loop device is attached, and returns its journal.
fn kill_run(sandbox: &Sandbox) -> PathBuf {
    let mut gate = Gate::new(sandbox, When::After, "losetup", "*test.img*", 0);
    let mut run = BackgroundRun::start(sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    let mut journals = std::fs::read_dir(sandbox.state_dir().join("undo")).unwrap();
    journals.next().unwrap().unwrap().path()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

#[test]
fn a_damaged_first_line_is_reported_and_every_step_is_undone() {
    if !runs_as_root() {
        return;
    }
    for damage in [|line: &str| line.replacen("boot_id", "b\0ot_id", 1), |line: &str| "#".repeat(line.len())] {
        let sandbox = Sandbox::new();
        let journal = kill_run(&sandbox);
        let journal_text = std::fs::read_to_string(&journal).unwrap();
        let first = journal_text.lines().next().unwrap();
        std::fs::write(&journal, journal_text.replacen(first, &damage(first), 1)).unwrap();
        let (_, stderr) = sandbox.expect(6, &["recover"]);
        assert!(stderr.contains("1 lines of") && stderr.contains("are damaged"), "{stderr}");
        // Only the journal is left, with its damaged line.
        let leftovers = sandbox.leftovers();
        assert!(leftovers.len() == 1 && leftovers[0].contains(text(&journal)), "{leftovers:?}");
        std::fs::remove_file(&journal).unwrap();
        sandbox.expect(0, &["recover"]);
        sandbox.assert_clean();
    }
}

#[test]
fn a_loop_device_whose_image_was_renamed_is_not_called_detached() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    kill_run(&sandbox);
    let image = sandbox.run_file("images").unwrap().join("test.img");
    let renamed = sandbox.dir.join("renamed");
    std::fs::rename(&image, &renamed).unwrap();
    let (_, stderr) = sandbox.expect(6, &["recover"]);
    let device = &fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &renamed).unwrap()[0];
    assert!(stderr.contains(text(device)) && stderr.contains("is still attached to it"), "{stderr}");
    assert!(!stderr.contains(&format!("done: detach the loop device of {image:?}")), "{stderr}");
    run("losetup", &["--detach", text(device)]);
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
}

/// A process that holds the lock of a file. Ended when dropped.
struct LockHolder(Child);

impl LockHolder {
    /// Starts the process as the user nobody, and waits until it has the lock.
    fn start_as_nobody(file: &Path) -> LockHolder {
        let mut command = Command::new("flock");
        command.arg(file).args(["sh", "-c", "echo locked; exec sleep 60"]).uid(65534).gid(65534);
        let mut child = command.current_dir("/").stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        LockHolder(child)
    }
}

impl Drop for LockHolder {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn journals_are_private_and_a_lock_of_another_user_on_an_older_one_is_overridden() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let journal = kill_run(&sandbox);
    assert_eq!((mode(&journal), mode(journal.parent().unwrap())), (0o600, 0o700));
    // Versions up to 0.1.0 made journals with this mode.
    std::fs::set_permissions(&journal, PermissionsExt::from_mode(0o644)).unwrap();
    run("chmod", &["755", text(&sandbox.dir), text(&sandbox.state_dir()), text(journal.parent().unwrap())]);
    let holder = LockHolder::start_as_nobody(&journal);
    let (_, stderr) = sandbox.expect(0, &["recover"]);
    let process = format!("{} (flock) of user 65534", holder.0.id());
    assert!(stderr.contains("is locked by") && stderr.contains(&process), "{stderr}");
    sandbox.assert_clean();
}

/// A script that unmounts, in a new mount namespace, the copies of mounts of other tests, which would keep their devices in
/// use. `$0` is the directory of this test.
const UNMOUNT_OTHER_TESTS: &str =
    "grep ^/dev/loop /proc/self/mounts | cut -d ' ' -f 2 | grep -v \"^$0\" | xargs -r umount -l";

/// The command that runs fsarena in a new PID namespace with its own /proc.
fn container_command(sandbox: &Sandbox, args: &[&str]) -> Command {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"];
    let script = format!("{UNMOUNT_OTHER_TESTS}; exec \"$@\"");
    sandbox.fsarena_under(&[&unshare[..], &[&script, text(&sandbox.dir)]].concat(), args)
}

/// Runs fsarena in a new PID namespace. Returns its exit code, standard output and standard error.
fn run_in_container(sandbox: &Sandbox, args: &[&str]) -> (Option<i32>, String, String) {
    let output = container_command(sandbox, args).output().unwrap();
    (output.status.code(), common::text(&output.stdout), common::text(&output.stderr))
}

#[test]
fn a_live_run_is_left_alone_by_processes_that_cannot_see_it() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    let before = sandbox.leftovers();
    let (code, printed, stderr) = run_in_container(&sandbox, &["recover"]);
    assert_eq!((code, printed.as_str()), (Some(0), "0 undone, 0 failed, 1 still running\n"), "{stderr}");
    let host = SysRoot::host().read_trimmed("proc/sys/kernel/hostname").unwrap();
    let pid = format!("process {} in PID namespace", run.child.id());
    assert!(stderr.contains(&pid) && stderr.contains(&host), "{stderr}");
    // A resumption first recovers dead runs, and then finds this one running.
    let (code, _, stderr) = run_in_container(&sandbox, &["run", "--resume", "latest"]);
    assert!(code == Some(2) && stderr.contains("is not visible from here"), "{code:?} {stderr}");
    let (_, printed, stderr) = run_in_container(&sandbox, &["report", "latest", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&printed).expect(&stderr);
    assert_eq!(report["run"]["why"], "running", "{printed}");
    assert_eq!(sandbox.leftovers(), before);
    gate.open();
    assert_eq!(run.wait_for_exit().code(), Some(0), "{}", run.output());
    sandbox.assert_clean();
}

#[test]
fn a_run_in_a_container_is_left_alone_until_it_is_dead() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, container_command(&sandbox, &["run", "plan.toml"]));
    gate.wait_until_stopped(&mut run);
    let before = sandbox.leftovers();
    let (printed, stderr) = sandbox.expect(0, &["recover"]);
    assert_eq!(printed, "0 undone, 0 failed, 1 still running\n", "{stderr}");
    assert!(stderr.contains("(fsarena) holds the lock"), "{stderr}");
    assert_eq!(sandbox.leftovers(), before);
    run.signal(Signal::KILL);
    run.assert_ended_by(Signal::KILL);
    wait_until("its processes are gone", || sandbox.processes().is_empty());
    let (printed, stderr) = sandbox.expect(0, &["recover"]);
    assert!(printed.ends_with(" undone, 0 failed, 0 still running\n"), "{printed} {stderr}");
    sandbox.assert_clean();
}

#[test]
fn six_recoveries_at_once_all_succeed() {
    if !runs_as_root() {
        return;
    }
    for _ in 0..2 {
        let sandbox = Sandbox::new();
        kill_run(&sandbox);
        let start = || sandbox.fsarena(&["recover"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let children: Vec<Child> = (0..6).map(|_| start()).collect();
        let outputs: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        assert!(outputs.iter().all(|output| output.status.success()), "{outputs:#?}");
        let stderr = outputs.iter().map(|output| common::text(&output.stderr)).collect::<String>();
        let steps: Vec<&str> = stderr.lines().filter(|line| line.starts_with("done: ")).collect();
        let distinct: std::collections::BTreeSet<_> = steps.iter().collect();
        assert!(steps.len() > 5 && steps.len() == distinct.len(), "{stderr}");
        sandbox.assert_clean();
    }
}

#[test]
fn recovering_a_dead_run_leaves_the_living_run_with_its_paths_alone() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    kill_run(&sandbox);
    // The user clears up by hand, and resumes the run with another state directory.
    let (images, mounts) = (sandbox.run_file("images").unwrap(), sandbox.run_file("mnt").unwrap());
    run("umount", &[text(&mounts.join("other"))]);
    for name in ["test.img", "other.img"] {
        for device in fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &images.join(name)).unwrap() {
            run("losetup", &["--detach", text(&device)]);
        }
    }
    run("rm", &["-r", text(&images), text(&mounts)]);
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut resumed = sandbox.fsarena(&["run", "--resume", "latest"]);
    resumed.env("FSARENA_STATE_DIR", sandbox.dir.join("another"));
    let mut living = BackgroundRun::start(&sandbox, resumed);
    gate.wait_until_stopped(&mut living);
    let leftovers = || -> Vec<String> {
        sandbox.leftovers().into_iter().filter(|line| !line.contains("jsonl") && !line.starts_with("process")).collect()
    };
    let before = leftovers();
    sandbox.expect(6, &["recover"]);
    assert_eq!(leftovers(), before);
    gate.open();
    assert_eq!(living.wait_for_exit().code(), Some(0), "{}", living.output());
    sandbox.expect(0, &["recover"]);
    sandbox.assert_clean();
}

#[test]
fn a_run_ends_well_though_another_namespace_has_a_copy_of_its_mounts() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut run = BackgroundRun::start(&sandbox, sandbox.fsarena(&["run", "plan.toml", "--rounds", "2"]));
    gate.wait_until_stopped(&mut run);
    // The copy is made in the mount namespace of the measuring process, where the filesystem under test is mounted.
    let script = format!("{UNMOUNT_OTHER_TESTS}; echo ready; exec sleep 60");
    let mut copying = Command::new("nsenter");
    copying.args(["--target", &gate.stopped_pid.to_string(), "--mount", "unshare", "--mount"]);
    copying.args(["sh", "-c", &script, text(&sandbox.dir)]).stdout(Stdio::piped());
    let mut other_namespace = copying.spawn().unwrap();
    std::io::Read::read_exact(other_namespace.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", other_namespace.id())).unwrap();
    for name in ["mnt/test", "mnt/other"] {
        assert!(mounts.contains(text(&sandbox.run_file(name).unwrap())), "{mounts}");
    }
    gate.open();
    let code = run.wait_for_exit().code();
    let leftovers = sandbox.leftovers();
    other_namespace.kill().unwrap();
    other_namespace.wait().unwrap();
    assert_eq!((code, leftovers), (Some(0), vec![]), "{}", run.output());
    let unmounts = sandbox.rows("latest").iter().filter(|row| row.2 == "unmount").count();
    assert_eq!(unmounts, 2, "{}", run.output());
}
