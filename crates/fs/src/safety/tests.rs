//! Tests of the guard with a fake `/proc` and `/sys`. Tests with real devices are in `tests/it/guard.rs`.

use super::*;
use fsarena_sys::testkit::FakeRoot;

/// A fake machine with a disk `sdz` (8:400), a mount list and a list of swap areas.
struct FakeMachine {
    root: FakeRoot,
}

impl FakeMachine {
    fn new(mountinfo: &str, swaps: &str) -> FakeMachine {
        let root = FakeRoot::with(&[
            ("proc/self/mountinfo", mountinfo),
            ("proc/swaps", &format!("Filename Type Size Used Priority\n{swaps}")),
            ("sys/block/sdz/dev", "8:400\n"),
            ("sys/devices/sdz/dev", "8:400\n"),
            ("sys/devices/sdz/ro", "0\n"),
        ]);
        let machine = FakeMachine { root };
        machine.link("8:400", "sdz");
        machine
    }

    fn with_partition(self) -> FakeMachine {
        self.root.write_file("sys/devices/sdz/sdz1/partition", "1\n");
        self.root.write_file("sys/devices/sdz/sdz1/dev", "8:401\n");
        self.link("8:401", "sdz/sdz1");
        self
    }

    fn link(&self, numbers: &str, device: &str) {
        self.root.make_link(&format!("sys/dev/block/{numbers}"), format!("../../devices/{device}"));
    }

    fn check(&self, minor: u32) -> String {
        let kernel = SysRoot::at(self.root.path());
        let device = BlockDevice::from_numbers(&kernel, 8, minor, "/dev/sdz".into()).unwrap();
        match check_unused(&kernel, &device, Path::new("/dev/disk/by-id/z")) {
            Ok(()) => "unused".into(),
            Err(error) => error.to_string(),
        }
    }
}

#[test]
fn an_unused_disk_passes() {
    let other_mount = "36 35 8:1 / / rw - ext4 /dev/sda1 rw\n";
    assert_eq!(FakeMachine::new(other_mount, "/dev/sda2 partition 1 0 -2\n").check(400), "unused");
}

#[test]
fn a_disk_mounted_by_number_or_by_name_is_refused() {
    for line in ["36 35 8:400 / /mnt rw - ext4 /dev/root rw\n", "36 35 0:50 / /mnt rw - btrfs /dev/sdz rw\n"] {
        assert!(FakeMachine::new(line, "").check(400).contains("it is mounted at \"/mnt\""), "{line}");
    }
}

#[test]
fn a_disk_in_use_as_swap_is_refused() {
    assert!(FakeMachine::new("", "/dev/sdz partition 1 0 -2\n").check(400).contains("in use as swap"));
}

#[test]
fn a_mounted_partition_is_named_before_the_table() {
    let mounted = "36 35 8:401 / /mnt rw - ext4 /dev/sdz1 rw\n";
    assert!(FakeMachine::new(mounted, "").with_partition().check(400).contains("its partition sdz1 is mounted"));
    assert!(FakeMachine::new("", "").with_partition().check(400).contains("has a partition table"));
}

#[test]
fn a_partition_is_unused_only_if_its_disk_is() {
    let machine = FakeMachine::new("", "").with_partition();
    assert_eq!(machine.check(401), "unused");
    machine.root.write_file("sys/devices/sdz/holders/md0", "");
    assert!(machine.check(401).contains("the disk sdz that it is a partition of is part of md0"));
}

#[test]
fn a_disk_with_holders_or_loop_devices_is_refused() {
    let machine = FakeMachine::new("", "");
    machine.root.write_file("sys/devices/sdz/holders/dm-3", "");
    assert!(machine.check(400).contains("it is part of dm-3"));
    let machine = FakeMachine::new("", "");
    machine.root.write_file("sys/block/loop9/loop/backing_file", "/dev/sdz\n");
    assert!(machine.check(400).contains("attached to /dev/loop9"));
}

#[test]
fn a_read_only_disk_is_refused() {
    let machine = FakeMachine::new("", "");
    machine.root.write_file("sys/devices/sdz/ro", "1\n");
    assert!(machine.check(400).contains("read-only"));
}

#[test]
fn unreadable_mounts_or_swaps_refuse_the_disk() {
    let machine = FakeMachine::new("nonsense\n", "");
    assert!(machine.check(400).contains("has a format that fsarena does not understand"));
    let machine = FakeMachine::new("", "");
    std::fs::remove_file(machine.root.path().join("proc/swaps")).unwrap();
    assert!(machine.check(400).contains("proc/swaps"));
}

#[test]
fn files_directories_and_character_devices_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (file, link) = (dir.path().join("disk.img"), dir.path().join("link"));
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for (path, why) in [
        (file.as_path(), "a regular file"),
        (&link, "a regular file"),
        (Path::new("/dev/null"), "a character device"),
        (dir.path(), "no block device"),
    ] {
        let error = check_name(path).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn an_image_path_must_be_free_and_not_under_test() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.img");
    std::fs::write(&file, "precious").unwrap();
    let kernel = SysRoot::host();
    let check = |path: &Path, under_test: &[PathBuf]| check_image_path(&kernel, dir.path(), path, under_test);
    assert!(check(&file, &[]).unwrap_err().to_string().contains("did not make"));
    let new = dir.path().join("new.img");
    check(&new, &[]).unwrap();
    let error = check(&new, &[dir.path().to_path_buf()]).unwrap_err();
    assert!(error.to_string().contains("itself under test"), "{error}");
}
