//! Every refusal of `--erase` through the real binary: exit code 5, a message that names the device and the remedy, and no
//! changed byte on the device. The disks are loop devices that the test makes.
//!
//! Holders (LVM, RAID, encryption) need the device mapper, which the kernel of a test machine may lack; the unit tests of
//! the guard fake them. Here the second device of a mounted btrfs is a device with a holder.
//!
//! Arguments of mkfs and mount that name a second device or file are refused too.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::kernel::has_programs;
use crate::common::nobody::Nobody;
use crate::common::stand_in::{ByIdLink, InUse, LoopDisk, run, text};
use crate::common::{Sandbox, runs_as_root};
use std::path::Path;
use std::{process::Command, time::Duration};

/// Asserts that a disk is refused under this name with these texts, and does not change.
#[track_caller]
pub fn assert_disk_refused(sandbox: &Sandbox, disk: &LoopDisk, name: &str, texts: &[&str]) {
    assert_disk_refused_with(sandbox, disk, name, &[], texts);
}

/// As [`assert_disk_refused`], with more arguments.
#[track_caller]
pub fn assert_disk_refused_with(sandbox: &Sandbox, disk: &LoopDisk, name: &str, more_args: &[&str], texts: &[&str]) {
    let before = disk.bytes();
    assert_run_refused(sandbox, &[&["--erase", name][..], more_args].concat(), &[&[name][..], texts].concat());
    assert!(disk.bytes() == before, "{name} was written to");
}

/// Asserts that a run is refused with these texts, and made nothing, not even the runs directory.
#[track_caller]
pub fn assert_run_refused(sandbox: &Sandbox, args: &[&str], texts: &[&str]) {
    let (printed, stderr) = sandbox.expect(5, &[&["run", "plan.toml"][..], args].concat());
    for text in texts {
        assert!(stderr.contains(text), "{stderr:?} lacks {text:?}");
    }
    assert_eq!(printed, "");
    assert!(!sandbox.runs_dir().exists() && sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

/// Runs the plan on a disk, and asserts the exit code. Returns its standard error.
pub fn run_with_erase(sandbox: &Sandbox, code: i32, disk: &LoopDisk, more_args: &[&str]) -> String {
    sandbox.expect(code, &[&["run", "plan.toml", "--erase", disk.id()][..], more_args].concat()).1
}

#[test]
fn a_blank_disk_is_used_and_a_filesystem_of_fsarena_is_overwritten() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(256);
    for fs in ["ext2", "ext4", "ext2"] {
        run_with_erase(&sandbox, 0, &disk, &["--fs", fs]);
        assert_eq!(disk.signatures(), fs);
    }
    sandbox.assert_clean();
    let (report, _) = sandbox.expect(0, &["report", "--format", "md"]);
    assert!(report.contains(disk.id()), "{report}");
}

#[test]
fn a_foreign_signature_is_erased_by_its_own_name_only() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(256);
    run("mkfs.ext4", &["-q", text(&disk.path)]);
    assert_disk_refused(
        &sandbox,
        &disk,
        disk.id(),
        &["carries ext4", "fsarena did not write", "--erase-signature ext4"],
    );
    assert_disk_refused_with(&sandbox, &disk, disk.id(), &["--erase-signature", "xfs"], &["--erase-signature ext4"]);
    run_with_erase(&sandbox, 0, &disk, &["--erase-signature", "ext4", "--fs", "ext2"]);
    // `--erase-signature` for one run does not allow a later run to erase the device again.
    run("mkfs.ext4", &["-q", "-F", text(&disk.path)]);
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    assert_disk_refused(&sandbox, &disk, disk.id(), &["carries ext4"]);
}

#[test]
fn a_mounted_device_is_refused_under_any_link() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(64);
    // The mount is read-only, so that only fsarena could change the disk.
    run("mkfs.ext2", &["-q", text(&disk.path)]);
    let mounted = InUse::mount(disk.id(), &disk.dir("mnt"));
    let signature_flag = ["--erase-signature", "ext2"];
    let words = ["is mounted at", "fsarena-disk-", "Unmount it"];
    assert_disk_refused_with(&sandbox, &disk, disk.id(), &signature_flag, &words);
    let link = disk.dir("links").join("a link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    let by_id_link = ByIdLink::make(&link);
    assert_disk_refused_with(&sandbox, &disk, text(&by_id_link.0), &signature_flag, &words);
    // These names are not stable. They are refused for that reason, and the error lists the stable ones.
    assert_disk_refused_with(
        &sandbox,
        &disk,
        text(&link),
        &signature_flag,
        &["another disk after a reboot", disk.id()],
    );
    assert_disk_refused_with(
        &sandbox,
        &disk,
        text(&disk.path),
        &signature_flag,
        &["another disk after a reboot", disk.id()],
    );
    drop(mounted);
}

#[test]
fn swap_devices_are_refused_in_use_or_not() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(16);
    run("mkswap", &[text(&disk.path)]);
    assert_disk_refused(&sandbox, &disk, disk.id(), &["carries swap", "--erase-signature swap"]);
    let used = InUse::swap(&disk.path);
    let words = ["in use as swap", "swapoff"];
    assert_disk_refused_with(&sandbox, &disk, disk.id(), &["--erase-signature", "swap"], &words);
    drop(used);
}

#[test]
fn devices_with_partition_tables_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for (signature, table) in [("dos", dos_table()), ("gpt", gpt_table())] {
        let disk = LoopDisk::new(16);
        std::fs::write(&disk.path, table).unwrap();
        assert!(disk.signatures().contains(signature), "{}", disk.signatures());
        let signature_flag = ["--erase-signature", signature];
        assert_disk_refused_with(&sandbox, &disk, disk.id(), &signature_flag, &["partition table", "wipefs --all"]);
    }
}

/// A DOS partition table with one entry: type 0x83, sectors 2048 to 4095.
pub fn dos_table() -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// A protective MBR, an empty GPT header (UEFI 2.10, 5.3.2) with correct checksums, and its 128 entries.
pub fn gpt_table() -> Vec<u8> {
    let sectors: u64 = (16 << 20) / 512;
    let entries = [0; 128 * 128];
    let mut header = [0; 92];
    header[..16].copy_from_slice(b"EFI PART\0\0\x01\0\x5c\0\0\0");
    let mut put = |offset: usize, bytes: &[u8]| header[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(24, &1u64.to_le_bytes());
    put(32, &(sectors - 1).to_le_bytes());
    put(40, &34u64.to_le_bytes());
    put(48, &(sectors - 34).to_le_bytes());
    put(56, b"0123456789abcdef");
    put(72, &2u64.to_le_bytes());
    put(80, &128u32.to_le_bytes());
    put(84, &128u32.to_le_bytes());
    put(88, &crc32(&entries).to_le_bytes());
    let sum = crc32(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    let mut table = vec![0; 512];
    table[446..462].copy_from_slice(&[0, 0, 2, 0, 0xee, 255, 255, 255, 1, 0, 0, 0, 255, 127, 0, 0]);
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table.extend(header);
    table.resize(1024, 0);
    table.extend(entries);
    table
}

/// CRC-32 as in IEEE 802.3, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1))))
}

#[test]
fn a_device_with_a_holder_is_refused() {
    if !runs_as_root() || !has_programs(&["mkfs.btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (first, second) = (LoopDisk::new(128), LoopDisk::new(128));
    run("mkfs.btrfs", &["-q", "-d", "raid0", "-m", "raid0", text(&first.path), text(&second.path)]);
    run("btrfs", &["device", "scan", text(&first.path), text(&second.path)]);
    let mounted = InUse::mount(text(&first.path), &first.dir("mnt"));
    // mount(8) names the first device only.
    let signature_flag = ["--erase-signature", "btrfs"];
    assert_disk_refused_with(
        &sandbox,
        &second,
        second.id(),
        &signature_flag,
        &["the kernel says that it is in use", "lsblk"],
    );
    assert_disk_refused_with(&sandbox, &first, first.id(), &signature_flag, &["is mounted at"]);
    drop(mounted);
    forget_btrfs(&[text(&first.path), text(&second.path)]);
    // A loop device under another loop device has a holder too.
    let below = LoopDisk::new(16);
    let above = run("losetup", &["--find", "--show", text(&below.path)]);
    assert_disk_refused(&sandbox, &below, below.id(), &[&format!("is attached to {above}"), "losetup --detach"]);
    run("losetup", &["--detach", &above]);
}

/// Makes the kernel forget the devices of an unmounted btrfs. Tries for 10 s, because the mount namespace of another test
/// may still have a copy of the mount.
fn forget_btrfs(devices: &[&str]) {
    for attempt in 1..=100 {
        let arguments = ["device", "scan", "--forget"].iter().chain(devices);
        let output = Command::new("btrfs").args(arguments).output().unwrap();
        if output.status.success() {
            return;
        }
        assert!(attempt < 100, "{output:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn anything_but_a_block_device_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.dir.join("precious");
    std::fs::write(&file, "data").unwrap();
    let (file_name, null) = (ByIdLink::make(&file), ByIdLink::make(Path::new("/dev/null")));
    for (path, why) in [
        (&file, "a regular file that fsarena did not make"),
        (&file_name.0, "a regular file that fsarena did not make"),
        (&null.0, "a character device"),
        (&sandbox.dir, "no block device"),
    ] {
        assert_run_refused(&sandbox, &["--erase", text(path)], &[text(path), why, "--on loop:DIR"]);
    }
    assert_run_refused(&sandbox, &["--on", &format!("loop:{}", text(&file))], &[text(&file), "fsarena did not make"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data");
}

/// Options of mkfs and mount that name another device or file, `{}`: the filesystem, the program and the option.
const OPTIONS_WITH_DEVICE: [(&str, &str, &str); 11] = [
    ("btrfs", "mkfs", "-n 16384 {}"),
    ("btrfs", "mkfs", "-K -- {}"),
    ("btrfs", "mkfs", "--rootdir={}"),
    ("xfs", "mkfs", "-l logdev={},size=64m"),
    ("xfs", "mkfs", "-d agcount=4,name={}"),
    ("ext4", "mkfs", "-J device={}"),
    ("ext4", "mkfs", "-qz{}"),
    ("xfs", "mount", "noatime,logdev={}"),
    ("btrfs", "mount", "device={}"),
    ("ext4", "mount", "journal_path={}"),
    ("ext4", "mount", "loop={}"),
];

#[test]
fn options_that_name_another_device_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(128);
    run("mkfs.ext4", &["-q", text(&disk.path)]);
    let before = disk.bytes();
    for (fs, factor, level) in OPTIONS_WITH_DEVICE {
        let level = level.replace("{}", text(&disk.path));
        let words = ["refused to use"];
        assert_run_refused(&sandbox, &["--fs", fs, &format!("--{factor}"), &level], &words);
        // In the factors of a plan, and in one of its variants.
        let plan = std::fs::read_to_string(sandbox.dir.join("plan.toml")).unwrap();
        let factors = format!("fs = [\"{fs}\"]\n{factor} = [\"\", \"{level}\"]");
        sandbox.edit_plan("fs = [\"ext4\"]", &factors);
        assert_run_refused(&sandbox, &[], &words);
        let variant = format!("[[variant]]\nname = \"a\"\nfs = \"{fs}\"\n{factor} = \"{level}\"\n[stop]");
        std::fs::write(sandbox.dir.join("plan.toml"), plan.replace("[stop]", &variant)).unwrap();
        assert_run_refused(&sandbox, &[], &words);
        std::fs::write(sandbox.dir.join("plan.toml"), plan).unwrap();
        let (a, b) = (format!("fs={fs}"), format!("fs={fs},{factor}={level}"));
        let (_, stderr) = sandbox.expect(5, &["ab", "plan.toml", "--a", &a, "--b", &b]);
        assert!(stderr.contains("refused to use") && !sandbox.runs_dir().exists(), "{stderr}");
        assert!(disk.bytes() == before, "--{factor} {level:?} wrote to the disk");
    }
}

/// An ordinary user's own files. The filesystems are in guests.
#[test]
fn options_that_name_a_file_of_the_user_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let nobody = Nobody::within(&sandbox);
    let photos = nobody.home.join("photos.tar");
    run("install", &["-m", "0666", "/dev/null", text(&photos)]);
    std::fs::write(&photos, vec![7; 1 << 20]).unwrap();
    let plan = nobody.home.join("plan.toml");
    std::fs::copy(sandbox.dir.join("plan.toml"), &plan).unwrap();
    for file_name in [text(&photos), "photos.tar", "./photos.tar", "~/photos.tar"] {
        for (fs, factor, level) in OPTIONS_WITH_DEVICE {
            let level = level.replace("{}", file_name);
            for on in if fs == "btrfs" { &["qemu", "exact"][..] } else { &["qemu"] } {
                let args = ["run", "plan.toml", "--on", on, "--fs", fs, &format!("--{factor}"), &level];
                let (_, stderr) = nobody.expect(5, &args);
                assert!(stderr.contains("refused to use"), "{stderr}");
                assert!(std::fs::read(&photos).unwrap() == [7; 1 << 20], "{on} {level:?} wrote to the file");
            }
        }
    }
    assert!(!nobody.home.join("runs").exists());
}

/// While a run has its filesystems mounted, another run must not put images on one of them.
#[test]
fn images_on_a_filesystem_under_test_are_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*/mnt/test*", 0);
    let args = ["run", "plan.toml", "--quiet", "--set", "driver=commands"];
    let mut first = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut first);
    // Only the agents see the filesystem under test.
    assert!(
        !crate::common::leftovers_below(&sandbox.dir)
            .iter()
            .any(|line| line.contains("mount") && line.contains("mnt/test"))
    );
    let dir = sandbox.run_file("mnt/other").unwrap();
    let images_dir = format!("loop:{}", text(&dir));
    let runs_dir = text(&dir).to_string() + "/runs";
    for args in [["--on", &images_dir], ["--runs", &runs_dir]] {
        let (_, stderr) = sandbox.expect(5, &[&["run", "plan.toml"][..], &args].concat());
        assert!(stderr.contains("itself under test") && stderr.contains("--on loop:DIR"), "{stderr}");
        assert!(!dir.join("runs").exists());
    }
    gate.open();
    assert!(first.wait_for_exit().success(), "{}", first.output());
    sandbox.assert_clean();
}
