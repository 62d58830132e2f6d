//! Tests of `nodes.rs` with a fake `/sys`. Tests with real devices are in `tests/it/guard.rs`.

use super::*;
use fsarena_sys::testkit::FakeRoot;

/// A fake machine, which has no devices at first.
struct Machine {
    root: FakeRoot,
}

impl Machine {
    fn new(mountinfo: &str) -> Machine {
        let swaps = ("proc/swaps", "Filename Type Size Used Priority\n");
        Machine { root: FakeRoot::with(&[("proc/self/mountinfo", mountinfo), swaps]) }
    }

    /// Adds a disk of 2048 sectors, or a partition (`sdz/sdz1`), with these attributes.
    fn device(self, path: &str, numbers: &str, attributes: &[(&str, &str)]) -> Machine {
        let at = format!("sys/devices/{path}");
        self.root.file(&format!("{at}/dev"), numbers);
        self.root.file(&format!("{at}/size"), "2048\n");
        for (name, text) in attributes {
            self.root.file(&format!("{at}/{name}"), text);
        }
        self.root.dir("sys/block");
        self.root.link(&format!("sys/dev/block/{numbers}"), format!("../../devices/{path}"));
        self
    }

    /// Builds the device `upper` on the device `lower`.
    fn built_on(self, upper: &str, lower: &str) -> Machine {
        for (from, which, to) in [(upper, "slaves", lower), (lower, "holders", upper)] {
            let target = self.root.path().join("sys/devices").join(to);
            self.root.link(&format!("sys/devices/{from}/{which}/{to}"), target);
        }
        self
    }

    /// The error of the guard for the device with these numbers; `free` without an error.
    fn check(&self, numbers: (u32, u32), loops: &[(&str, u64)]) -> String {
        let kernel = SysRoot::at(self.root.path());
        let device = BlockDevice::numbered(&kernel, numbers.0, numbers.1, "/dev/null".into()).unwrap();
        let file = |(name, inode): &(&str, u64)| BackingFile {
            device: name.to_string(),
            identity: ("254:0".into(), *inode),
        };
        let loops: Vec<_> = loops.iter().map(file).collect();
        match check_other_nodes(&kernel, &device, Path::new("/dev/disk/by-id/z"), &loops, &[]) {
            Ok(()) => "free".into(),
            Err(error) => error.to_string(),
        }
    }
}

fn mounted(numbers: &str) -> String {
    format!("36 35 {numbers} / /home rw - ext4 /dev/root rw\n")
}

const BACKING: (&str, &str) = ("loop/backing_file", "/no/such/disk.img\n");

#[test]
fn a_second_loop_device_of_the_same_file_is_found() {
    let machine = Machine::new(&mounted("70:1")).device("loop70", "70:0", &[BACKING]).device(
        "loop71",
        "70:1",
        &[BACKING],
    );
    let error = machine.check((70, 0), &[("loop70", 5), ("loop71", 5)]);
    assert!(error.contains("/dev/loop71 has the same backing file and is mounted at \"/home\""), "{error}");
    // Another file with the same path.
    assert_eq!(machine.check((70, 0), &[("loop70", 5), ("loop71", 6)]), "free");
    // The file of the device itself must be known; the file of another loop device need not be.
    let error = machine.check((70, 0), &[("loop71", 5)]);
    assert!(error.contains("losetup does not say which file loop70 is"), "{error}");
    assert_eq!(machine.check((70, 0), &[("loop70", 5)]), "free");
}

#[test]
fn a_second_path_to_the_same_disk_is_found() {
    let wwid = ("device/wwid", "naa.5000c500a1b2c3d4\n");
    let two = |mounts: &str, second: (&str, &str)| {
        Machine::new(mounts).device("sdy", "65:0", &[wwid]).device("sdz", "65:16", &[second])
    };
    let error = two(&mounted("65:16"), wwid).check((65, 0), &[]);
    assert!(error.contains("/dev/sdz has the same hardware identity and is mounted"), "{error}");
    let other = ("device/wwid", "naa.5000c500ffffffff\n");
    assert_eq!(two(&mounted("65:16"), other).check((65, 0), &[]), "free");
    // Held by a multipath device that does not include this path.
    let held = two("", wwid).device("dm-9", "253:9", &[("dm/uuid", "mpath-1\n")]).built_on("dm-9", "sdz");
    assert!(held.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is part of dm-9"));
    // The multipath device itself is free: its paths are used only by it.
    assert!(!held.check((253, 9), &[]).contains("is part of"));
    assert!(!held.check((253, 9), &[]).contains("sdz"));
}

#[test]
fn a_serial_number_identifies_a_disk_with_a_void_wwid() {
    let same = [("wwid", "0000000000000000\n"), ("serial", "S3Z9NB0K\n")];
    let machine = Machine::new(&mounted("65:16")).device("sdy", "65:0", &same).device("sdz", "65:16", &same);
    assert!(machine.check((65, 0), &[]).contains("/dev/sdz has the same hardware identity and is mounted"));
}

#[test]
fn a_path_of_another_size_is_another_disk() {
    let wwid = ("wwid", "t10.Bridge DISK00\n");
    let machine = Machine::new(&mounted("65:16")).device("sdy", "65:0", &[wwid]).device(
        "sdz",
        "65:16",
        &[wwid, ("size", "4096\n")],
    );
    assert_eq!(machine.check((65, 0), &[]), "free");
}

#[test]
fn partitions_conflict_where_they_overlap() {
    let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
    let part = |start| [("partition", "1\n"), ("start", start)];
    let machine = Machine::new(&mounted("65:17"))
        .device("sdy", "65:0", &[wwid, ("size", "99999\n")])
        .device("sdy/sdy1", "65:1", &part("2048\n"))
        .device("sdy/sdy2", "65:2", &part("4096\n"))
        .device("sdz", "65:16", &[wwid, ("size", "99999\n")])
        .device("sdz/sdz1", "65:17", &part("2048\n"));
    assert!(machine.check((65, 1), &[]).contains("/dev/sdz1 has the same hardware identity and is mounted"));
    assert_eq!(machine.check((65, 2), &[]), "free");
}

#[test]
fn lvm_volumes_of_a_group_are_independent() {
    let volume = |name| [("dm/uuid", name)];
    let machine = Machine::new(&mounted("253:8"))
        .device("sdz", "65:16", &[])
        .device("dm-8", "253:8", &volume("LVM-a\n"))
        .device("dm-9", "253:9", &volume("LVM-b\n"))
        .built_on("dm-8", "sdz")
        .built_on("dm-9", "sdz");
    assert_eq!(machine.check((253, 9), &[]), "free");
}

#[test]
fn a_hidden_device_is_ignored() {
    let wwid = ("wwid", "eui.0025385b71b0c8f5\n");
    let machine = Machine::new(&mounted("259:1")).device("nvme0n1", "259:0", &[wwid]).device(
        "nvme0c0n1",
        "259:1",
        &[wwid, ("hidden", "1\n")],
    );
    assert_eq!(machine.check((259, 0), &[]), "free");
}

#[test]
fn the_uuids_of_blkid_are_parsed() {
    let text =
        "DEVNAME=/dev/sda1\nUUID=6bc0\nTYPE=btrfs\nUUID_SUB=11\nPART_ENTRY_UUID=22-01\nPART_ENTRY_NAME=a=b\n";
    assert_eq!(parse_blkid(text), ["6bc0", "11", "22-01"]);
    assert!(is_void("00000000-0000") && is_void("") && !is_void("00000000-01"));
}
