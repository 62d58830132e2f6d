//! How `--erase` treats data without a signature, a device that another program used after fsarena, and storage that is
//! in use through another node.

use crate::common::gate::{BackgroundRun, Gate, When};
use crate::common::kernel::has_programs;
use crate::common::stand_in::{InUse, LoopDisk, run, text};
use crate::common::{Sandbox, runs_as_root};
use crate::guard::{assert_disk_refused, assert_disk_refused_with, assert_run_refused, run_with_erase};
use rustix::process::Signal;
use std::{os::unix::fs::FileExt, path::Path};

const MIB: u64 = 1 << 20;
/// The size in MiB of a disk that is too large for the guard to read all of it.
const LARGE_MIB: u64 = 256;

/// Pseudo-random bytes, like the data of an encrypted volume.
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

/// Writes bytes to a disk at an offset, and syncs.
fn write(disk: &LoopDisk, bytes: &[u8], offset: u64) {
    let file = std::fs::File::options().write(true).open(&disk.path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn data_without_a_signature_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    for (mib, offset, length) in [
        (16, 0, 16 * MIB),
        (16, 9 * MIB, 8),
        (LARGE_MIB, 0, 4096),
        (LARGE_MIB, LARGE_MIB * MIB - 512, 512),
        (LARGE_MIB, 99 * MIB, MIB),
    ] {
        let disk = LoopDisk::new(mib);
        write(&disk, &noise(length), offset);
        assert_eq!(disk.signatures(), "");
        assert_disk_refused(&sandbox, &disk, disk.id(), &["is not empty", "--erase-signature unknown"]);
        assert_disk_refused_with(
            &sandbox,
            &disk,
            disk.id(),
            &["--erase-signature", "ext4"],
            &["--erase-signature unknown"],
        );
    }
}

#[test]
fn data_without_a_signature_may_be_erased_once_by_flag() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    write(&disk, &noise(LARGE_MIB * MIB), 0);
    run_with_erase(&sandbox, 0, &disk, &["--erase-signature", "unknown", "--fs", "ext2"]);
    // fsarena now accepts the device as one it wrote, until another program writes to it.
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext4"]);
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    run("wipefs", &["--all", text(&disk.path)]);
    write(&disk, &noise(32 * MIB), 128 * MIB);
    assert_disk_refused(&sandbox, &disk, disk.id(), &["--erase-signature unknown"]);
    // A disk with a signature may only be erased by the name of the signature.
    run("mkfs.ext4", &["-q", "-F", text(&disk.path)]);
    assert_disk_refused_with(
        &sandbox,
        &disk,
        disk.id(),
        &["--erase-signature", "unknown"],
        &["--erase-signature ext4"],
    );
}

#[test]
fn a_disk_full_of_ones_counts_as_blank() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    write(&disk, &vec![0xff; (LARGE_MIB * MIB) as usize], 0);
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext2"]);
    sandbox.assert_clean();
}

/// The data is beside the signature that fsarena wrote, which did not change.
#[test]
fn data_written_beside_the_signature_of_fsarena_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext4"]);
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
    write(&disk, &noise(4 * MIB), 200 * MIB);
    assert_eq!(disk.signatures(), "ext4");
    assert_disk_refused(&sandbox, &disk, disk.id(), &["carries ext4", "changed", "--erase-signature ext4"]);
    run_with_erase(&sandbox, 0, &disk, &["--erase-signature", "ext4", "--fs", "ext2"]);
}

/// Somebody mounts the filesystem that a run left, and writes a small file to it.
#[test]
fn a_file_in_the_filesystem_that_fsarena_left_is_refused() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
    for fs in ["ext2", "ext4", "xfs", "btrfs"] {
        let sandbox = Sandbox::new();
        let disk = LoopDisk::new(2048);
        run_with_erase(&sandbox, 0, &disk, &["--fs", fs]);
        std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();
        let mount_dir = disk.dir("mnt");
        run("mount", &[text(&disk.path), text(&mount_dir)]);
        std::fs::write(mount_dir.join("thesis"), "precious").unwrap();
        run("umount", &[text(&mount_dir)]);
        assert_run_refused(&sandbox, &["--erase", disk.id()], &[disk.id(), &format!("carries {fs}"), "changed"]);
        let mounted = InUse::mount(text(&disk.path), &mount_dir);
        assert_eq!(std::fs::read_to_string(mount_dir.join("thesis")).unwrap(), "precious");
        drop(mounted);
    }
}

#[test]
fn a_killed_run_is_resumed_only_with_its_signature() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut killed = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut killed);
    killed.kill_and_recover(&sandbox);
    let (_, stderr) = sandbox.expect(5, &["run", "--resume", "latest"]);
    assert!(stderr.contains("was killed") && stderr.contains("--erase-signature ext2"), "{stderr}");
    sandbox.expect(0, &["run", "--resume", "latest", "--erase-signature", "ext2"]);
    sandbox.assert_clean();
    assert_eq!(sandbox.rows("latest").len(), 2 * 6);
    // The run ended normally, so the next one needs no signature.
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext2"]);
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--erase-signature", "ext2"]);
    assert!(stderr.contains("--erase"), "{stderr}");
}

/// A signal ends a run with a clean-up, so the resumed run needs no signature.
#[test]
fn an_interrupted_run_is_resumed_without_a_signature() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&sandbox, When::Before, "umount", "*mnt/test*", 0);
    let mut interrupted = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut interrupted);
    interrupted.signal(Signal::INT);
    gate.open();
    interrupted.assert_ended_by(Signal::INT);
    sandbox.expect(0, &["run", "--resume", "latest"]);
    assert_eq!(sandbox.rows("latest").len(), 2 * 6);
    sandbox.assert_clean();
}

/// Between two rounds the disk is unplugged, and another one gets its device node.
#[test]
fn a_disk_that_replaces_the_erased_one_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(LARGE_MIB);
    let (other, data) = (disk.dir("other").join("disk"), noise(LARGE_MIB * MIB));
    std::fs::write(&other, &data).unwrap();
    let args = ["run", "plan.toml", "--fs", "ext2", "--erase", disk.id(), "--rounds", "2"];
    let mut gate = Gate::new(&sandbox, When::After, "umount", "*mnt/test*", 0);
    let mut running = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    gate.wait_until_stopped(&mut running);
    run("losetup", &["--detach", text(&disk.path)]);
    run("losetup", &[text(&disk.path), text(&other)]);
    gate.open();
    assert_eq!(running.wait_for_exit().code(), Some(5), "{}", running.output());
    assert!(running.output().contains("another disk or image has replaced"), "{}", running.output());
    run("losetup", &["--detach", text(&disk.path)]);
    assert!(std::fs::read(&other).unwrap() == data, "the other disk was written to");
    // From now on the disk does not count as written by fsarena.
    let written_log = std::fs::read_to_string(sandbox.state_dir().join("written.jsonl")).unwrap();
    assert!(written_log.contains("ext2") && !written_log.contains("content"), "{written_log}");
    sandbox.assert_clean();
}

/// A loop device. Detached when dropped.
struct LoopDevice(String);

impl LoopDevice {
    fn attach(file: &Path) -> LoopDevice {
        LoopDevice(run("losetup", &["--find", "--show", text(file)]))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_disk_mounted_through_another_loop_device_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = disk_with_discards(true, 96);
    run("mkfs.ext2", &["-q", text(&disk.path)]);
    let signature_flag = ["--erase-signature", "ext2"];
    let second = LoopDevice::attach(&disk.image);
    let mounted = InUse::mount(&second.0, &disk.dir("mnt"));
    let words = [&second.0, "has the same backing file and is mounted at"];
    assert_disk_refused_with(&sandbox, &disk, disk.id(), &signature_flag, &words);
    // The files are compared by their identity, not by their names.
    let renamed = disk.image.with_file_name("renamed");
    std::fs::hard_link(&disk.image, &renamed).unwrap();
    let third = LoopDevice::attach(&renamed);
    drop(mounted);
    drop(second);
    let mounted = InUse::mount(&third.0, &disk.dir("mnt"));
    assert_disk_refused_with(
        &sandbox,
        &disk,
        disk.id(),
        &signature_flag,
        &[&third.0, "has the same backing file and is mounted at"],
    );
    drop(mounted);
    // A loop device on a loop device.
    let above = LoopDevice::attach(Path::new(&third.0));
    let mounted = InUse::mount(&above.0, &disk.dir("mnt"));
    assert_disk_refused_with(&sandbox, &disk, disk.id(), &signature_flag, &["has the same backing file"]);
    drop(mounted);
}

#[test]
fn a_disk_used_as_swap_through_another_loop_device_is_refused() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = LoopDisk::new(16);
    run("mkswap", &[text(&disk.path)]);
    let second = LoopDevice::attach(&disk.image);
    let used = InUse::swap(Path::new(&second.0));
    // The kernel may write to swap at any time, so the bytes of the disk cannot be compared.
    let args = ["--erase", disk.id(), "--erase-signature", "swap"];
    assert_run_refused(&sandbox, &args, &[disk.id(), "has the same backing file and is in use as swap"]);
    drop(used);
}

#[test]
fn a_device_with_a_copy_of_a_mounted_filesystem_is_refused() {
    if !runs_as_root() || !has_programs(&["mkfs.btrfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let (first, copy) = (LoopDisk::new(256), LoopDisk::new(256));
    for fs in ["ext4", "btrfs"] {
        run(&format!("mkfs.{fs}"), &[if fs == "btrfs" { "-f" } else { "-F" }, text(&first.path)]);
        std::fs::write(&copy.path, first.bytes()).unwrap();
        let mounted = InUse::mount(text(&first.path), &first.dir("mnt"));
        let signature_flag = ["--erase-signature", fs];
        let words = [text(&first.path), "has the same UUID", "is mounted at", "wipefs --all"];
        assert_disk_refused_with(&sandbox, &copy, copy.id(), &signature_flag, &words);
        drop(mounted);
    }
    // The original is not mounted any more, so the copy may be erased.
    run_with_erase(&sandbox, 0, &copy, &["--erase-signature", "btrfs", "--fs", "ext2"]);
}

/// Whether a disk supports discards. Loop devices that fsarena made do not support them any more.
fn supports_discards(disk: &LoopDisk) -> bool {
    let name = disk.path.file_name().unwrap().to_str().unwrap();
    std::fs::read_to_string(format!("/sys/block/{name}/queue/discard_max_bytes")).unwrap() != "0\n"
}

/// Makes a disk that supports discards, or one that does not.
fn disk_with_discards(has_discards: bool, mib: u64) -> LoopDisk {
    let mut others = vec![];
    loop {
        let disk = LoopDisk::new(mib);
        if supports_discards(&disk) == has_discards {
            return disk;
        }
        if !has_discards {
            let name = disk.path.file_name().unwrap().to_str().unwrap();
            std::fs::write(format!("/sys/block/{name}/queue/discard_max_bytes"), "0").unwrap();
            return disk;
        }
        others.push(disk);
    }
}

#[test]
fn every_filesystem_finds_the_device_discarded() {
    if !runs_as_root() || !has_programs(&["mkfs.xfs"]) {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = disk_with_discards(true, 320);
    sandbox.edit_plan("rounds = 1", "rounds = 2");
    // The fake smartctl reports one more minute of high temperature each time.
    sandbox.shim(
        "smartctl",
        "echo x >> $DIR/asked; printf '{\"firmware_version\":\"F7\",\"temperature\":{\"current\":71},\"nvme_smart_health_information_log\":{\"warning_temp_time\":%s,\"critical_comp_time\":0}}' $(wc -l < $DIR/asked)",
    );
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext2,xfs"]);
    let commands = sandbox.run_text("command.log");
    let disk_commands = commands.lines().filter(|line| line.contains(&format!("{:?}]", disk.path)));
    let order: Vec<&str> = disk_commands
        .filter_map(|line| ["blkdiscard", "mkfs"].into_iter().find(|word| line.contains(&format!("[\"{word}"))))
        .collect();
    // The first discard tests whether the disk supports it.
    assert_eq!(order, [&["blkdiscard"][..], &["blkdiscard", "mkfs"].repeat(4)].concat(), "{commands}");
    let (report, _) = sandbox.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("firmware F7, 71 °C") && report.contains("too hot for its full speed"), "{report}");
    assert!(!report.contains("takes no discard"), "{report}");
    std::fs::remove_dir_all(sandbox.runs_dir()).unwrap();

    let disk = disk_with_discards(false, 96);
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext2"]);
    let (report, _) = sandbox.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("takes no discard") && report.contains("--precondition"), "{report}");
    sandbox.assert_clean();
}

#[test]
fn a_preconditioned_device_is_discarded_once() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = disk_with_discards(true, 96);
    let (_, stderr) = sandbox.expect(2, &["run", "plan.toml", "--on", "ram", "--precondition"]);
    assert!(stderr.contains("--erase"), "{stderr}");
    run_with_erase(&sandbox, 0, &disk, &["--fs", "ext2", "--precondition"]);
    let commands = sandbox.run_text("command.log");
    assert_eq!(commands.matches("blkdiscard").count(), 1, "{commands}");
    assert!(commands.contains("[\"mkfs.ext2\",\"-F\",\"-K\""), "{commands}");
    let (report, _) = sandbox.expect(0, &["report", "--format", "md"]);
    assert!(report.contains("preconditioned: ") && report.contains("By SNIA's rule that is"), "{report}");
    sandbox.assert_clean();
}
