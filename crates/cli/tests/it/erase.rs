//! How `--erase` treats data without a signature, a device that another program used after fsarena, and storage that is
//! in use through another node.

use crate::common::gate::{Gate, Running, When};
use crate::common::kernel::has;
use crate::common::stand_in::{Disk, InUse, run, text};
use crate::common::{Place, root};
use crate::guard::{erase, refusal, refused, refused_even};
use rustix::process::Signal;
use std::{os::unix::fs::FileExt, path::Path};

const MIB: u64 = 1 << 20;
/// Larger than what the guard reads whole.
const LARGE: u64 = 256;

/// Data as an encrypted volume has it: without any pattern, and not the same twice.
fn noise(bytes: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| next()).collect()
}

fn write(disk: &Disk, bytes: &[u8], at: u64) {
    let file = std::fs::File::options().write(true).open(&disk.path).unwrap();
    file.write_all_at(bytes, at).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn data_without_a_signature_is_refused() {
    if !root() {
        return;
    }
    let place = Place::new();
    for (mib, at, length) in
        [(16, 0, 16 * MIB), (16, 9 * MIB, 8), (LARGE, 0, 4096), (LARGE, LARGE * MIB - 512, 512), (LARGE, 99 * MIB, MIB)]
    {
        let disk = Disk::new(mib);
        write(&disk, &noise(length), at);
        assert_eq!(disk.signatures(), "");
        refused(&place, &disk, disk.id(), &["is not empty", "--erase-signature unknown"]);
        refused_even(&place, &disk, disk.id(), &["--erase-signature", "ext4"], &["--erase-signature unknown"]);
    }
}

#[test]
fn data_without_a_signature_is_given_up_once() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    write(&disk, &noise(LARGE * MIB), 0);
    erase(&place, 0, &disk, &["--erase-signature", "unknown", "--fs", "ext2"]);
    // fsarena now accepts the device as one it wrote, until another program writes to it.
    erase(&place, 0, &disk, &["--fs", "ext4"]);
    std::fs::remove_dir_all(place.runs()).unwrap();
    run("wipefs", &["--all", text(&disk.path)]);
    write(&disk, &noise(32 * MIB), 128 * MIB);
    refused(&place, &disk, disk.id(), &["--erase-signature unknown"]);
    // A signature is given up by its own name only.
    run("mkfs.ext4", &["-q", "-F", text(&disk.path)]);
    refused_even(&place, &disk, disk.id(), &["--erase-signature", "unknown"], &["--erase-signature ext4"]);
}

#[test]
fn erased_flash_is_blank() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    write(&disk, &vec![0xff; (LARGE * MIB) as usize], 0);
    erase(&place, 0, &disk, &["--fs", "ext2"]);
    place.assert_clean();
}

/// The signature is still that which fsarena wrote.
#[test]
fn a_database_beside_the_signature_that_fsarena_left() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    erase(&place, 0, &disk, &["--fs", "ext4"]);
    std::fs::remove_dir_all(place.runs()).unwrap();
    write(&disk, &noise(4 * MIB), 200 * MIB);
    assert_eq!(disk.signatures(), "ext4");
    refused(&place, &disk, disk.id(), &["carries ext4", "changed", "--erase-signature ext4"]);
    erase(&place, 0, &disk, &["--erase-signature", "ext4", "--fs", "ext2"]);
}

/// Somebody mounts the filesystem that a run left, and keeps a small file in it.
#[test]
fn a_file_in_the_filesystem_that_fsarena_left() {
    if !root() || !has(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    for fs in ["ext2", "ext4", "xfs", "btrfs"] {
        let place = Place::new();
        let disk = Disk::new(2048);
        erase(&place, 0, &disk, &["--fs", fs]);
        std::fs::remove_dir_all(place.runs()).unwrap();
        let at = disk.dir("mnt");
        run("mount", &[text(&disk.path), text(&at)]);
        std::fs::write(at.join("thesis"), "precious").unwrap();
        run("umount", &[text(&at)]);
        refusal(&place, &["--erase", disk.id()], &[disk.id(), &format!("carries {fs}"), "changed"]);
        let mounted = InUse::mounted(text(&disk.path), &at);
        assert_eq!(std::fs::read_to_string(at.join("thesis")).unwrap(), "precious");
        drop(mounted);
    }
}

#[test]
fn a_run_that_was_killed_asks_again() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut killed = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut killed);
    killed.signal(Signal::KILL);
    killed.ended_by(Signal::KILL);
    place.expect(0, &["recover"]);
    let (_, said) = place.expect(5, &["run", "--resume", "latest"]);
    assert!(said.contains("was killed") && said.contains("--erase-signature ext2"), "{said}");
    place.expect(0, &["run", "--resume", "latest", "--erase-signature", "ext2"]);
    place.assert_clean();
    assert_eq!(place.rows("latest").len(), 2 * 6);
    // The run ended normally, so the next one needs no signature.
    erase(&place, 0, &disk, &["--fs", "ext2"]);
    let (_, said) = place.expect(2, &["run", "plan.toml", "--erase-signature", "ext2"]);
    assert!(said.contains("--erase"), "{said}");
}

/// A run that a signal ended gives its device back in order.
#[test]
fn a_run_that_was_interrupted_is_resumed() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&place, When::Before, "umount", "*mnt/test*", 0);
    let mut interrupted = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut interrupted);
    interrupted.signal(Signal::INT);
    gate.open();
    interrupted.ended_by(Signal::INT);
    place.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(place.rows("latest").len(), 2 * 6);
    place.assert_clean();
}

/// Between two rounds the disk is unplugged, and another one gets its node.
#[test]
fn a_disk_that_takes_the_place_of_the_erased_one() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(LARGE);
    let (other, data) = (disk.dir("other").join("disk"), noise(LARGE * MIB));
    std::fs::write(&other, &data).unwrap();
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&place, When::After, "umount", "*mnt/test*", 0);
    let mut running = Running::start(&place, place.fsarena(&args));
    gate.wait(&mut running);
    run("losetup", &["--detach", text(&disk.path)]);
    run("losetup", &[text(&disk.path), text(&other)]);
    gate.open();
    assert_eq!(running.ended().code(), Some(5), "{}", running.said());
    assert!(running.said().contains("another disk or image is there"), "{}", running.said());
    run("losetup", &["--detach", text(&disk.path)]);
    assert!(std::fs::read(&other).unwrap() == data, "the other disk was written to");
    // Nor is it fsarena's own from now on.
    let written = std::fs::read_to_string(place.state().join("written.jsonl")).unwrap();
    assert!(written.contains("ext2") && !written.contains("content"), "{written}");
    place.assert_clean();
}

/// A loop device. Detached when dropped.
struct Loop(String);

impl Loop {
    fn of(file: &Path) -> Loop {
        Loop(run("losetup", &["--find", "--show", text(file)]))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn mounted_through_another_loop_device_of_the_same_file() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = disk_that(true, 96);
    run("mkfs.ext2", &["-q", text(&disk.path)]);
    let even = ["--erase-signature", "ext2"];
    let second = Loop::of(&disk.image);
    let mounted = InUse::mounted(&second.0, &disk.dir("mnt"));
    let words = [&second.0, "has the same backing file and is mounted at"];
    refused_even(&place, &disk, disk.id(), &even, &words);
    // The name of the file is not what counts.
    let renamed = disk.image.with_file_name("renamed");
    std::fs::hard_link(&disk.image, &renamed).unwrap();
    let third = Loop::of(&renamed);
    drop(mounted);
    drop(second);
    let mounted = InUse::mounted(&third.0, &disk.dir("mnt"));
    refused_even(&place, &disk, disk.id(), &even, &[&third.0, "has the same backing file and is mounted at"]);
    drop(mounted);
    // One loop device on another.
    let above = Loop::of(Path::new(&third.0));
    let mounted = InUse::mounted(&above.0, &disk.dir("mnt"));
    refused_even(&place, &disk, disk.id(), &even, &["has the same backing file"]);
    drop(mounted);
}

#[test]
fn swapped_to_through_the_backing_file() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = Disk::new(16);
    run("mkswap", &[text(&disk.path)]);
    let second = Loop::of(&disk.image);
    let used = InUse::swap(Path::new(&second.0));
    // The kernel may write to it at any time, so its bytes tell nothing.
    let args = ["--erase", disk.id(), "--erase-signature", "swap"];
    refusal(&place, &args, &[disk.id(), "has the same backing file and is in use as swap"]);
    drop(used);
}

#[test]
fn a_device_with_a_copy_of_a_mounted_filesystem_is_refused() {
    if !root() || !has(&["mkfs.btrfs"]) {
        return;
    }
    let place = Place::new();
    let (first, copy) = (Disk::new(256), Disk::new(256));
    for fs in ["ext4", "btrfs"] {
        run(&format!("mkfs.{fs}"), &[if fs == "btrfs" { "-f" } else { "-F" }, text(&first.path)]);
        std::fs::write(&copy.path, first.bytes()).unwrap();
        let mounted = InUse::mounted(text(&first.path), &first.dir("mnt"));
        let even = ["--erase-signature", fs];
        let words = [text(&first.path), "has the same UUID", "is mounted at", "wipefs --all"];
        refused_even(&place, &copy, copy.id(), &even, &words);
        drop(mounted);
    }
    // The original is free again, and so is the copy.
    erase(&place, 0, &copy, &["--erase-signature", "btrfs", "--fs", "ext2"]);
}

/// Whether a disk takes discards: from the loop devices that it makes, fsarena withholds them for good.
fn discards(disk: &Disk) -> bool {
    let name = disk.path.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/discard_max_bytes")).unwrap() != "0\n"
}

/// A disk that does or does not.
fn disk_that(takes_discards: bool, mib: u64) -> Disk {
    let mut others = vec![];
    loop {
        let disk = Disk::new(mib);
        if discards(&disk) == takes_discards {
            return disk;
        }
        if !takes_discards {
            let name = disk.path.file_name().unwrap().to_str().unwrap();
            std::fs::write(format!("/sys/block/{name}/queue/discard_max_bytes"), "0").unwrap();
            return disk;
        }
        others.push(disk);
    }
}

#[test]
fn every_filesystem_finds_the_device_discarded() {
    if !root() || !has(&["mkfs.xfs"]) {
        return;
    }
    let place = Place::new();
    let disk = disk_that(true, 320);
    place.edit_plan("rounds = 1", "rounds = 2");
    // smartctl tells of more minutes of heat each time.
    place.shim(
        "smartctl",
        "echo x >> $DIR/asked; printf '{\"firmware_version\":\"F7\",\"temperature\":{\"current\":71},\"nvme_smart_health_information_log\":{\"warning_temp_time\":%s,\"critical_comp_time\":0}}' $(wc -l < $DIR/asked)",
    );
    erase(&place, 0, &disk, &["--fs", "ext2,xfs"]);
    let commands = place.run_text("command.log");
    let of_disk = commands.lines().filter(|line| line.contains(&format!("{:?}]", disk.path)));
    let order: Vec<&str> = of_disk
        .filter_map(|line| ["blkdiscard", "mkfs"].into_iter().find(|word| line.contains(&format!("[\"{word}"))))
        .collect();
    // The first finds out whether it can be done.
    assert_eq!(order, [&["blkdiscard"][..], &["blkdiscard", "mkfs"].repeat(4)].concat(), "{commands}");
    let (report, _) = place.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("firmware F7, 71 °C") && report.contains("too hot for its full speed"), "{report}");
    assert!(!report.contains("takes no discard"), "{report}");
    std::fs::remove_dir_all(place.runs()).unwrap();

    let disk = disk_that(false, 96);
    erase(&place, 0, &disk, &["--fs", "ext2"]);
    let (report, _) = place.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("takes no discard") && report.contains("--precondition"), "{report}");
    place.assert_clean();
}

#[test]
fn a_preconditioned_device_is_discarded_once() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = disk_that(true, 96);
    let (_, said) = place.expect(2, &["run", "plan.toml", "--on", "ram", "--precondition"]);
    assert!(said.contains("--erase"), "{said}");
    erase(&place, 0, &disk, &["--fs", "ext2", "--precondition"]);
    let commands = place.run_text("command.log");
    assert_eq!(commands.matches("blkdiscard").count(), 1, "{commands}");
    assert!(commands.contains("[\"mkfs.ext2\",\"-F\",\"-K\""), "{commands}");
    let (report, _) = place.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("preconditioned: ") && report.contains("By SNIA's rule that is"), "{report}");
    place.assert_clean();
}
