//! Every refusal through the real binary: exit 5, words that name the device and what to do, and not one
//! byte of the device changed. Loop devices that the test makes stand in for disks.
//!
//! Holders (LVM, RAID, encryption) need the device mapper, which a kernel for tests need not have: the
//! guard's unit tests fake them. Here the second device of a mounted btrfs stands for a device with a holder.
//!
//! Arguments of mkfs and mount that name a second device or file are refused alike.

use crate::common::gate::{Gate, Running, When};
use crate::common::kernel::has;
use crate::common::nobody::Nobody;
use crate::common::stand_in::{Disk, InUse, Name, run, text};
use crate::common::{Place, root};
use std::path::Path;
use std::{process::Command, time::Duration};

/// The device is refused under this name with these words, and stays as it is.
#[track_caller]
pub fn refused(place: &Place, disk: &Disk, name: &str, words: &[&str]) {
    refused_even(place, disk, name, &[], words);
}

#[track_caller]
pub fn refused_even(place: &Place, disk: &Disk, name: &str, more: &[&str], words: &[&str]) {
    let before = disk.bytes();
    refusal(place, &[&["--erase", name][..], more].concat(), &[&[name][..], words].concat());
    assert!(disk.bytes() == before, "{name} was written to");
}

/// A run that is refused with these words, and has not even made its directory.
#[track_caller]
pub fn refusal(place: &Place, args: &[&str], words: &[&str]) {
    let (printed, said) = place.expect(5, &[&["run", "plan.toml"][..], args].concat());
    for word in words {
        assert!(said.contains(word), "{said:?} does not say {word:?}");
    }
    assert_eq!(printed, "");
    assert!(!place.runs().exists() && place.left().is_empty(), "{:?}", place.left());
}

pub fn erase(place: &Place, code: i32, disk: &Disk, more: &[&str]) -> String {
    place.expect(code, &[&["run", "plan.toml", "--erase", disk.id()][..], more].concat()).1
}

#[test]
fn a_blank_disk_is_used_and_fsarenas_own_filesystem_overwritten() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(256);
    for fs in ["ext2", "ext4", "ext2"] {
        erase(&place, 0, &disk, &["--fs", fs]);
        assert_eq!(disk.signatures(), fs);
    }
    place.assert_clean();
    let (report, _) = place.expect(0, &["report", "--format", "md"]);
    assert!(report.contains(disk.id()), "{report}");
}

#[test]
fn a_foreign_signature_is_given_up_by_its_own_name_only() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(256);
    run("mkfs.ext4", &["-q", text(&disk.path)]);
    refused(&place, &disk, disk.id(), &["carries ext4", "fsarena did not write", "--erase-signature ext4"]);
    refused_even(&place, &disk, disk.id(), &["--erase-signature", "xfs"], &["--erase-signature ext4"]);
    erase(&place, 0, &disk, &["--erase-signature", "ext4", "--fs", "ext2"]);
    // `--erase-signature` for one run does not allow a later run to erase the device again.
    run("mkfs.ext4", &["-q", "-F", text(&disk.path)]);
    std::fs::remove_dir_all(place.runs()).unwrap();
    refused(&place, &disk, disk.id(), &["carries ext4"]);
}

#[test]
fn a_mounted_device_is_refused_under_any_link() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(64);
    // Read-only, so that whatever changes is fsarena's doing.
    run("mkfs.ext2", &["-q", text(&disk.path)]);
    let mounted = InUse::mounted(disk.id(), &disk.dir("mnt"));
    let even = ["--erase-signature", "ext2"];
    let words = ["is mounted at", "fsarena-disk-", "Unmount it"];
    refused_even(&place, &disk, disk.id(), &even, &words);
    let link = disk.dir("links").join("a link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    let through = Name::of(&link);
    refused_even(&place, &disk, text(&through.0), &even, &words);
    // No stable name: refused for that alone, and the stable ones are told.
    refused_even(&place, &disk, text(&link), &even, &["another disk after a reboot", disk.id()]);
    refused_even(&place, &disk, text(&disk.path), &even, &["another disk after a reboot", disk.id()]);
    drop(mounted);
}

#[test]
fn swap_devices_are_refused_in_use_or_not() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(16);
    run("mkswap", &[text(&disk.path)]);
    refused(&place, &disk, disk.id(), &["carries swap", "--erase-signature swap"]);
    let used = InUse::swap(&disk.path);
    let words = ["in use as swap", "swapoff"];
    refused_even(&place, &disk, disk.id(), &["--erase-signature", "swap"], &words);
    drop(used);
}

#[test]
fn devices_with_partition_tables_are_refused() {
    if !root() {
        return;
    }
    let place = Place::new();
    for (signature, table) in [("dos", dos_table()), ("gpt", gpt_table())] {
        let disk = Disk::new(16);
        std::fs::write(&disk.path, table).unwrap();
        assert!(disk.signatures().contains(signature), "{}", disk.signatures());
        let even = ["--erase-signature", signature];
        refused_even(&place, &disk, disk.id(), &even, &["partition table", "wipefs --all"]);
    }
}

/// One entry: type 0x83, sectors 2048 to 4095; and the mark at the end of the sector.
pub fn dos_table() -> Vec<u8> {
    let mut sector = vec![0; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    sector
}

/// A protective MBR, an empty GPT header (UEFI 2.10, 5.3.2) with right checksums, and its 128 entries.
pub fn gpt_table() -> Vec<u8> {
    let sectors: u64 = (16 << 20) / 512;
    let entries = [0; 128 * 128];
    let mut header = [0; 92];
    header[..16].copy_from_slice(b"EFI PART\0\0\x01\0\x5c\0\0\0");
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
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
    if !root() || !has(&["mkfs.btrfs"]) {
        return;
    }
    let place = Place::new();
    let (first, second) = (Disk::new(128), Disk::new(128));
    run("mkfs.btrfs", &["-q", "-d", "raid0", "-m", "raid0", text(&first.path), text(&second.path)]);
    run("btrfs", &["device", "scan", text(&first.path), text(&second.path)]);
    let mounted = InUse::mounted(text(&first.path), &first.dir("mnt"));
    // mount(8) names the first device only.
    let even = ["--erase-signature", "btrfs"];
    refused_even(&place, &second, second.id(), &even, &["the kernel says that it is in use", "lsblk"]);
    refused_even(&place, &first, first.id(), &even, &["is mounted at"]);
    drop(mounted);
    forget_btrfs(&[text(&first.path), text(&second.path)]);
    // A loop device that carries another is held as well.
    let below = Disk::new(16);
    let above = run("losetup", &["--find", "--show", text(&below.path)]);
    refused(&place, &below, below.id(), &[&format!("is attached to {above}"), "losetup --detach"]);
    run("losetup", &["--detach", &above]);
}

/// Has the kernel forget the devices of an unmounted btrfs. A mount namespace of another test may hold a copy of the mount
/// for some time.
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
    if !root() {
        return;
    }
    let place = Place::new();
    let file = place.dir.join("precious");
    std::fs::write(&file, "data").unwrap();
    let (file_name, null) = (Name::of(&file), Name::of(Path::new("/dev/null")));
    for (path, why) in [
        (&file, "a regular file that fsarena did not make"),
        (&file_name.0, "a regular file that fsarena did not make"),
        (&null.0, "a character device"),
        (&place.dir, "no block device"),
    ] {
        refusal(&place, &["--erase", text(path)], &[text(path), why, "--on loop:DIR"]);
    }
    refusal(&place, &["--on", &format!("loop:{}", text(&file))], &[text(&file), "fsarena did not make"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data");
}

/// Arguments of mkfs and mount that name `{}`, a device with foreign data, and the filesystem that takes them.
const REACHING: [(&str, &str, &str); 11] = [
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
fn options_that_reach_another_device() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(128);
    run("mkfs.ext4", &["-q", text(&disk.path)]);
    let before = disk.bytes();
    for (fs, factor, level) in REACHING {
        let level = level.replace("{}", text(&disk.path));
        let words = ["refused to use"];
        refusal(&place, &["--fs", fs, &format!("--{factor}"), &level], &words);
        // In the factors of a plan, and in one of its variants.
        let plan = std::fs::read_to_string(place.dir.join("plan.toml")).unwrap();
        let factors = format!("fs = [\"{fs}\"]\n{factor} = [\"\", \"{level}\"]");
        place.edit_plan("fs = [\"ext4\"]", &factors);
        refusal(&place, &[], &words);
        let variant = format!("[[variant]]\nname = \"a\"\nfs = \"{fs}\"\n{factor} = \"{level}\"\n[stop]");
        std::fs::write(place.dir.join("plan.toml"), plan.replace("[stop]", &variant)).unwrap();
        refusal(&place, &[], &words);
        std::fs::write(place.dir.join("plan.toml"), plan).unwrap();
        let (a, b) = (format!("fs={fs}"), format!("fs={fs},{factor}={level}"));
        let (_, said) = place.expect(5, &["ab", "plan.toml", "--a", &a, "--b", &b]);
        assert!(said.contains("refused to use") && !place.runs().exists(), "{said}");
        assert!(disk.bytes() == before, "--{factor} {level:?} wrote to the disk");
    }
}

/// An ordinary user's own files, where the filesystems are those of guests.
#[test]
fn options_that_reach_a_users_file() {
    if !root() {
        return;
    }
    let place = Place::new();
    let nobody = Nobody::within(&place);
    let photos = nobody.home.join("photos.tar");
    run("install", &["-m", "0666", "/dev/null", text(&photos)]);
    std::fs::write(&photos, vec![7; 1 << 20]).unwrap();
    let plan = nobody.home.join("plan.toml");
    std::fs::copy(place.dir.join("plan.toml"), &plan).unwrap();
    for victim in [text(&photos), "photos.tar", "./photos.tar", "~/photos.tar"] {
        for (fs, factor, level) in REACHING {
            let level = level.replace("{}", victim);
            for on in if fs == "btrfs" { &["qemu", "exact"][..] } else { &["qemu"] } {
                let args = ["run", "plan.toml", "--on", on, "--fs", fs, &format!("--{factor}"), &level];
                let (_, said) = nobody.expect(5, &args);
                assert!(said.contains("refused to use"), "{said}");
                assert!(std::fs::read(&photos).unwrap() == [7; 1 << 20], "{on} {level:?} wrote to the file");
            }
        }
    }
    assert!(!nobody.home.join("runs").exists());
}

/// While one run has its filesystems mounted, another puts no image onto the one that it sees.
#[test]
fn images_on_a_filesystem_under_test() {
    if !root() {
        return;
    }
    let place = Place::new();
    let mut gate = Gate::new(&place, When::Before, "umount", "*/mnt/test*", 0);
    let args = ["run", "plan.toml", "--quiet", "--set", "driver=commands"];
    let mut first = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut first);
    // Only the agents see the filesystem under test.
    assert!(
        !crate::common::left_below(&place.dir).iter().any(|left| left.contains("mount") && left.contains("mnt/test"))
    );
    let dir = place.run_file("mnt/other").unwrap();
    let in_it = format!("loop:{}", text(&dir));
    let below = text(&dir).to_string() + "/runs";
    for args in [["--on", &in_it], ["--runs", &below]] {
        let (_, said) = place.expect(5, &[&["run", "plan.toml"][..], &args].concat());
        assert!(said.contains("itself under test") && said.contains("--on loop:DIR"), "{said}");
        assert!(!dir.join("runs").exists());
    }
    gate.open();
    assert!(first.ended().success(), "{}", first.said());
    place.assert_clean();
}
