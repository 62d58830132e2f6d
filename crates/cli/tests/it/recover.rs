//! `fsarena recover` on journals that are damaged or locked by another user, beside runs that live in other namespaces, and
//! on what was moved meanwhile: nothing is called done that is not, and nothing alive is undone.

use crate::common::gate::{Gate, Running, When, wait_until};
use crate::common::stand_in::{run, text};
use crate::common::{self, Place, root};
use fsarena_sys::kernel::SysRoot;
use rustix::process::Signal;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A run that is killed when its loop device is attached; and its journal.
fn killed(place: &Place) -> PathBuf {
    let mut gate = Gate::new(place, When::After, "losetup", "*test.img*", 0);
    let mut run = Running::start(place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    let mut journals = std::fs::read_dir(place.state().join("undo")).unwrap();
    journals.next().unwrap().unwrap().path()
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().mode() & 0o777
}

#[test]
fn a_damaged_first_line_is_reported_and_every_step_is_undone() {
    if !root() {
        return;
    }
    for damage in [|line: &str| line.replacen("boot_id", "b\0ot_id", 1), |line: &str| "#".repeat(line.len())] {
        let place = Place::new();
        let journal = killed(&place);
        let written = std::fs::read_to_string(&journal).unwrap();
        let first = written.lines().next().unwrap();
        std::fs::write(&journal, written.replacen(first, &damage(first), 1)).unwrap();
        let (_, said) = place.expect(6, &["recover"]);
        assert!(said.contains("1 lines of") && said.contains("are damaged"), "{said}");
        // Only the journal is left, with what could not be read of it.
        let left = place.left();
        assert!(left.len() == 1 && left[0].contains(text(&journal)), "{left:?}");
        std::fs::remove_file(&journal).unwrap();
        place.expect(0, &["recover"]);
        place.assert_clean();
    }
}

#[test]
fn a_loop_device_whose_image_was_renamed_is_not_called_detached() {
    if !root() {
        return;
    }
    let place = Place::new();
    killed(&place);
    let image = place.run_file("images").unwrap().join("test.img");
    let renamed = place.dir.join("renamed");
    std::fs::rename(&image, &renamed).unwrap();
    let (_, said) = place.expect(6, &["recover"]);
    let device = &fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &renamed).unwrap()[0];
    assert!(said.contains(text(device)) && said.contains("is still attached to it"), "{said}");
    assert!(!said.contains(&format!("done: detach the loop device of {image:?}")), "{said}");
    run("losetup", &["--detach", text(device)]);
    place.expect(0, &["recover"]);
    place.assert_clean();
}

/// A process that holds the lock of a file. Ended when dropped.
struct Locking(Child);

impl Locking {
    /// One of the user that owns nothing.
    fn by_another_user(file: &Path) -> Locking {
        let mut command = Command::new("flock");
        command.arg(file).args(["sh", "-c", "echo locked; exec sleep 60"]).uid(65534).gid(65534);
        let mut child = command.current_dir("/").stdout(Stdio::piped()).process_group(0).spawn().unwrap();
        let mut said = [0; 6];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        Locking(child)
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
        let _ = self.0.wait();
    }
}

#[test]
fn journals_are_private_and_a_lock_of_another_user_on_an_older_one_is_overridden() {
    if !root() {
        return;
    }
    let place = Place::new();
    let journal = killed(&place);
    assert_eq!((mode(&journal), mode(journal.parent().unwrap())), (0o600, 0o700));
    // As versions up to 0.1.0 left them.
    std::fs::set_permissions(&journal, PermissionsExt::from_mode(0o644)).unwrap();
    run("chmod", &["755", text(&place.dir), text(&place.state()), text(journal.parent().unwrap())]);
    let locking = Locking::by_another_user(&journal);
    let (_, said) = place.expect(0, &["recover"]);
    let process = format!("{} (flock) of user 65534", locking.0.id());
    assert!(said.contains("is locked by") && said.contains(&process), "{said}");
    place.assert_clean();
}

/// Gives up, in a new mount namespace, the copies of other tests' mounts: they would keep their devices in use. `$0` is the
/// directory of this test.
const ONLY_OWN_MOUNTS: &str =
    "grep ^/dev/loop /proc/self/mounts | cut -d ' ' -f 2 | grep -v \"^$0\" | xargs -r umount -l";

/// fsarena in a new PID namespace with its own /proc.
fn in_container(place: &Place, args: &[&str]) -> Command {
    let unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"];
    let script = format!("{ONLY_OWN_MOUNTS}; exec \"$@\"");
    place.started_by(&[&unshare[..], &[&script, text(&place.dir)]].concat(), args)
}

fn contained(place: &Place, args: &[&str]) -> (Option<i32>, String, String) {
    let output = in_container(place, args).output().unwrap();
    (output.status.code(), common::text(&output.stdout), common::text(&output.stderr))
}

#[test]
fn a_live_run_is_left_alone_by_processes_that_cannot_see_it() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml"]));
    gate.wait(&mut run);
    let before = place.left();
    let (code, printed, said) = contained(&place, &["recover"]);
    assert_eq!((code, printed.as_str()), (Some(0), "0 undone, 0 failed, 1 still running\n"), "{said}");
    let host = SysRoot::host().fact("proc/sys/kernel/hostname").unwrap();
    let pid = format!("process {} in PID namespace", run.child.id());
    assert!(said.contains(&pid) && said.contains(&host), "{said}");
    // It recovers what dead runs left, and then finds this one alive.
    let (code, _, said) = contained(&place, &["run", "--resume", "latest"]);
    assert!(code == Some(2) && said.contains("is not visible from here"), "{code:?} {said}");
    let (_, printed, said) = contained(&place, &["report", "latest", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&printed).expect(&said);
    assert_eq!(report["run"]["why"], "running", "{printed}");
    assert_eq!(place.left(), before);
    gate.open();
    assert_eq!(run.ended().code(), Some(0), "{}", run.said());
    place.assert_clean();
}

#[test]
fn a_run_in_a_container_is_left_alone_until_it_is_dead() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut run = Running::start(&place, in_container(&place, &["run", "plan.toml"]));
    gate.wait(&mut run);
    let before = place.left();
    let (printed, said) = place.expect(0, &["recover"]);
    assert_eq!(printed, "0 undone, 0 failed, 1 still running\n", "{said}");
    assert!(said.contains("(fsarena) holds the lock"), "{said}");
    assert_eq!(place.left(), before);
    run.signal(Signal::KILL);
    run.ended_by(Signal::KILL);
    wait_until("its processes are gone", || place.processes().is_empty());
    let (printed, said) = place.expect(0, &["recover"]);
    assert!(printed.ends_with(" undone, 0 failed, 0 still running\n"), "{printed} {said}");
    place.assert_clean();
}

#[test]
fn six_recoveries_at_once_all_succeed() {
    if !root() {
        return;
    }
    for _ in 0..2 {
        let place = Place::new();
        killed(&place);
        let start = || place.fsarena(&["recover"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let all: Vec<Child> = (0..6).map(|_| start()).collect();
        let outputs: Vec<_> = all.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        assert!(outputs.iter().all(|output| output.status.success()), "{outputs:#?}");
        let said = outputs.iter().map(|output| common::text(&output.stderr)).collect::<String>();
        let steps: Vec<&str> = said.lines().filter(|line| line.starts_with("done: ")).collect();
        let distinct: std::collections::BTreeSet<_> = steps.iter().collect();
        assert!(steps.len() > 5 && steps.len() == distinct.len(), "{said}");
        place.assert_clean();
    }
}

#[test]
fn recovering_a_dead_run_leaves_the_living_run_with_its_paths_alone() {
    if !root() {
        return;
    }
    let place = Place::new();
    killed(&place);
    // The user clears up by hand, and resumes the run with another state directory.
    let (images, mounts) = (place.run_file("images").unwrap(), place.run_file("mnt").unwrap());
    run("umount", &[text(&mounts.join("other"))]);
    for name in ["test.img", "other.img"] {
        for device in fsarena_sys::loopdev::devices_of_image(&SysRoot::host(), &images.join(name)).unwrap() {
            run("losetup", &["--detach", text(&device)]);
        }
    }
    run("rm", &["-r", text(&images), text(&mounts)]);
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut resumed = place.fsarena(&["run", "--resume", "latest"]);
    let mut living = Running::start(&place, {
        resumed.env("FSARENA_STATE_DIR", place.dir.join("another"));
        resumed
    });
    gate.wait(&mut living);
    let left = || -> Vec<String> {
        place.left().into_iter().filter(|line| !line.contains("jsonl") && !line.starts_with("process")).collect()
    };
    let before = left();
    place.expect(6, &["recover"]);
    assert_eq!(left(), before);
    gate.open();
    assert_eq!(living.ended().code(), Some(0), "{}", living.said());
    place.expect(0, &["recover"]);
    place.assert_clean();
}

#[test]
fn a_run_ends_well_though_a_sandbox_has_a_copy_of_its_mounts() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut run = Running::start(&place, place.fsarena(&["run", "plan.toml", "--rounds", "2"]));
    gate.wait(&mut run);
    // It begins where the filesystem under test is mounted: in the mount namespace of the measuring process.
    let script = format!("{ONLY_OWN_MOUNTS}; echo ready; exec sleep 60");
    let mut sandbox = Command::new("nsenter");
    sandbox.args(["--target", &gate.standing.to_string(), "--mount", "unshare", "--mount"]);
    sandbox.args(["sh", "-c", &script, text(&place.dir)]).stdout(Stdio::piped());
    let mut sandbox = sandbox.spawn().unwrap();
    std::io::Read::read_exact(sandbox.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", sandbox.id())).unwrap();
    for name in ["mnt/test", "mnt/other"] {
        assert!(mounts.contains(text(&place.run_file(name).unwrap())), "{mounts}");
    }
    gate.open();
    let code = run.ended().code();
    let left = place.left();
    sandbox.kill().unwrap();
    sandbox.wait().unwrap();
    assert_eq!((code, left), (Some(0), vec![]), "{}", run.said());
    let unmounts = place.rows("latest").iter().filter(|row| row.2 == "unmount").count();
    assert_eq!(unmounts, 2, "{}", run.said());
}
