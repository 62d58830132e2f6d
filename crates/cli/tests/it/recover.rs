//! `fsarena recover` on journals that are damaged or locked by another user, and on what was moved meanwhile: nothing is
//! called done that is not.

use crate::common::gate::{Gate, Running, When};
use crate::common::stand_in::{run, text};
use crate::common::{Place, root};
use fsarena_sys::kernel::Kernel;
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
fn a_damaged_first_line_is_told_and_every_step_is_done() {
    if !root() {
        return;
    }
    for damage in [|line: &str| line.replacen("boot_id", "b\0ot_id", 1), |line: &str| "#".repeat(line.len())]
    {
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
    let device = &fsarena_sys::loopdev::attached(&Kernel::host(), &renamed).unwrap()[0];
    assert!(said.contains(text(device)) && said.contains("it still carries"), "{said}");
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
