//! Where the source disk lies: in a directory, on a device that the user named for erasing, and refusals of both.

use crate::common::gate::{Gate, Running, When};
use crate::common::stand_in::{Disk, InUse, run, text};
use crate::common::{Place, disk, root};
use crate::guard::refusal;
use rustix::process::Signal;

/// A place whose plan copies from the source disk and to it.
fn place() -> Place {
    let place = Place::new();
    place.edit_plan("tasks = [1, 2, 3]", "tasks = [7, 8]");
    place
}

#[test]
fn the_report_says_when_one_disk_is_below_both_images() {
    if !root() {
        return;
    }
    let place = place();
    let (tested, apart) = (place.mount(disk::Disk::ext4()), place.mount(disk::Disk::memory(256)));
    let on = format!("loop:{}", tested.display());
    let words = "the source disk lies on the same physical disk as the filesystems under test: ";
    let said = |other: &[&str]| {
        place.expect(0, &[&["run", "plan.toml", "--quiet", "--on", &on], other].concat());
        place.assert_clean();
        place.expect(0, &["report", "--format", "md"]).0
    };
    let report = said(&[]);
    assert!(report.contains(words) && report.contains("--other DIR"), "{report}");
    let report = said(&["--other", text(&apart)]);
    assert!(!report.contains(words), "{report}");
    let (log, _) = place.expect(0, &["show", "latest"]);
    assert!(log.contains(&format!("{}/fsarena-", apart.display())) && log.contains("/other.img"), "{log}");
}

#[test]
fn a_device_becomes_the_source_disk_by_the_rules_of_erase() {
    if !root() {
        return;
    }
    let place = place();
    let other = Disk::new(256);
    let with = |code, more: &[&str]| {
        place.expect(code, &[&["run", "plan.toml", "--quiet", "--other", other.id()], more].concat()).1
    };
    // Blank, then as fsarena left it.
    with(0, &[]);
    with(0, &[]);
    place.assert_clean();
    assert_eq!(other.signatures(), "ext4");
    let (plan, _) = place.expect(0, &["show", "latest"]);
    assert!(plan.contains(&format!("[device.other_device]\npath = \"{}\"", other.id())), "{plan}");
    // A stored plan does not erase a device again: the command line names it each time.
    let saved = place.dir.join("saved.toml");
    std::fs::copy(place.run_file("plan.toml").unwrap(), &saved).unwrap();
    let (_, said) = place.expect(2, &["run", text(&saved), "--quiet"]);
    assert!(said.contains("to erase a device again, name it: --other DEVICE"), "{said}");

    run("mkfs.ext2", &["-q", "-F", text(&other.path)]);
    std::fs::remove_dir_all(place.runs()).unwrap();
    let before = other.bytes();
    let foreign = |args: &[&str], words: &[&str]| {
        refusal(&place, args, words);
        assert!(other.bytes() == before, "{args:?} wrote to it");
    };
    let name = ["--other", other.id()];
    foreign(&name, &[other.id(), "carries ext2", "--other-signature ext2"]);
    foreign(&[&name[..], &["--other-signature", "xfs"]].concat(), &["carries ext2"]);
    foreign(&["--other", text(&other.path)], &["after a reboot", other.id()]);
    let file = other.image.clone();
    foreign(&["--other", text(&file)], &["a regular file", "--other DIR"]);
    let mounted = InUse::mounted(other.id(), &other.dir("mnt"));
    foreign(&[&name[..], &["--other-signature", "ext2"]].concat(), &["is mounted at"]);
    drop(mounted);
    with(0, &["--other-signature", "ext2"]);
}

#[test]
fn both_devices_of_a_run_are_named_and_differ() {
    if !root() {
        return;
    }
    let place = place();
    let (tested, other) = (Disk::new(256), Disk::new(256));
    let erase = ["run", "plan.toml", "--quiet", "--fs", "ext2", "--erase", tested.id(), "--other"];
    let (_, said) = place.expect(2, &[&erase[..], &[tested.id()]].concat());
    assert!(said.contains("is both --erase and --other"), "{said}");
    place.expect(0, &[&erase[..], &[other.id()]].concat());
    place.assert_clean();
    assert_eq!((tested.signatures(), other.signatures()), ("ext2".into(), "ext4".into()));
}

#[test]
fn a_killed_run_gives_its_source_disk_back_and_asks_again() {
    if !root() {
        return;
    }
    let place = place();
    let other = Disk::new(256);
    let args = ["run", "plan.toml", "--fs", "ext2", "--other", other.id()];
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut killed = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut killed);
    killed.signal(Signal::KILL);
    killed.ended_by(Signal::KILL);
    place.expect(0, &["recover"]);
    place.assert_clean();
    let (_, said) = place.expect(2, &["run", "--resume", "latest", "--erase-signature", "ext4"]);
    assert!(said.contains("--erase-signature: this run erases no such device"), "{said}");
    let (_, said) = place.expect(5, &["run", "--resume", "latest"]);
    assert!(said.contains("--other-signature ext4"), "{said}");
    place.expect(0, &["run", "--resume", "latest", "--other-signature", "ext4"]);
    place.assert_clean();
}
