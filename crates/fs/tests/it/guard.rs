//! Tests of every refusal of the guard, on real devices. Loop devices stand in for disks; a temporary link in
//! `/dev/disk/by-id` gives each a stable name.

use crate::common::{TestDir, run, runs_as_root};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_fs::filesystems;
use fsarena_fs::lifecycle::{self, VariantOptions};
use fsarena_fs::safety::{ScratchDevice, WrittenLog, check_image_path};
use fsarena_sys::{kernel::SysRoot, mount};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A stable name of a device, like those of udev. Dropping it removes the name.
struct StableName(PathBuf);

impl StableName {
    fn make(device: &Path) -> StableName {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/disk/by-id/fsarena-test-{}-{number}", std::process::id()));
        // If the directory does not exist, the tests create it and remove it with the last name.
        for _ in 0..1000 {
            let _ = std::fs::create_dir_all("/dev/disk/by-id");
            match std::os::unix::fs::symlink(device, &path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                made => {
                    made.unwrap();
                    return StableName(path);
                }
            }
        }
        panic!("{path:?} cannot be made");
    }
}

impl Drop for StableName {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
        // Fails while the directory has other names.
        let _ = std::fs::remove_dir("/dev/disk/by-id").and_then(|()| std::fs::remove_dir("/dev/disk"));
    }
}

/// Has the guard check a disk that the user names for erasing. A refusal is returned as its message.
fn accept_for_erasing(
    test_dir: &TestDir,
    name: &Path,
    erasable_signature: Option<&str>,
) -> Result<ScratchDevice, String> {
    let log = WrittenLog::open(&test_dir.path.join("state"));
    ScratchDevice::from_user_named(&SysRoot::host(), name, erasable_signature, &log).map_err(|error| {
        assert_eq!(error.exit_code(), ExitCode::Refused, "{error}");
        error.to_string()
    })
}

/// Asserts that the guard refuses a disk with a message that contains `why`, even if its signature ext4 may be erased.
fn assert_refused(test_dir: &TestDir, name: &Path, why: &str) {
    let error = accept_for_erasing(test_dir, name, Some("ext4")).map(|device| device.path().to_path_buf()).unwrap_err();
    assert!(error.contains(why), "{error:?} does not say {why:?}");
}

fn path_text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn an_empty_disk_and_one_with_fsarenas_own_signature_are_accepted() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 64);
    let name = StableName::make(disk.path());
    let ext4 = filesystems::find("ext4").unwrap();
    for _ in 0..2 {
        let scratch = accept_for_erasing(&test_dir, &name.0, None).unwrap();
        assert_eq!(scratch.size_bytes(), 64 << 20);
        lifecycle::format(&scratch, ext4, &VariantOptions::default(), &mut |_| {}).unwrap();
    }
    // The same type, but not created by fsarena.
    run("mkfs.ext4", &["-q", "-F", path_text(disk.path())]);
    let error = accept_for_erasing(&test_dir, &name.0, None).map(|_| ()).unwrap_err();
    assert!(error.contains("ext4") && error.contains("erase_signature=ext4"), "{error}");
    // Allowing one type does not allow others.
    assert!(accept_for_erasing(&test_dir, &name.0, Some("xfs")).is_err());
    assert!(accept_for_erasing(&test_dir, &name.0, Some("ext4")).is_ok());
}

#[test]
fn a_device_of_another_run_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    let device_of_first_run = accept_for_erasing(&test_dir, &name.0, None).unwrap();
    assert_refused(&test_dir, &name.0, "in another run");
    drop(device_of_first_run);
    assert!(accept_for_erasing(&test_dir, &name.0, None).is_ok());
}

#[test]
fn an_unstable_name_is_refused_and_the_stable_one_suggested() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    assert_refused(&test_dir, disk.path(), "another disk after a reboot");
    let name = StableName::make(disk.path());
    assert_refused(&test_dir, disk.path(), path_text(&name.0));
    let link = test_dir.path.join("link to it");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    assert_refused(&test_dir, &link, path_text(&name.0));
}

#[test]
fn a_device_mounted_by_another_name_is_refused() {
    if !runs_as_root() {
        return;
    }
    for (fs, mib) in [("ext4", 64), ("btrfs", 256)] {
        let test_dir = TestDir::new();
        let disk = test_dir.make_user_disk("disk", mib);
        let (name, second_name) = (StableName::make(disk.path()), StableName::make(disk.path()));
        run(&format!("mkfs.{fs}"), &[path_text(disk.path())]);
        let target = test_dir.make_dir("mnt");
        let mounted = mount::mount(&test_dir.journal, &mut |_| {}, &second_name.0, &target, fs, "").unwrap();
        assert_refused(&test_dir, &name.0, "is mounted at");
        mounted.unmount(&mut |_| {}).unwrap();
    }
}

#[test]
fn a_device_with_swap_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    run("mkswap", &[path_text(disk.path())]);
    assert_refused(&test_dir, &name.0, "carries swap");
    run("swapon", &[path_text(disk.path())]);
    assert_refused(&test_dir, &name.0, "in use as swap");
    run("swapoff", &[path_text(disk.path())]);
}

#[test]
fn a_device_with_a_partition_table_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    // A DOS table is its mark at the end of the first sector; one entry: type 0x83, sectors 2048 to 4095.
    let mut sector = [0u8; 512];
    sector[446..462].copy_from_slice(&[0, 0, 2, 0, 0x83, 0, 2, 0, 0, 8, 0, 0, 0, 8, 0, 0]);
    sector[510..].copy_from_slice(&[0x55, 0xaa]);
    std::fs::write(disk.image(), sector).unwrap();
    std::fs::File::options().write(true).open(disk.image()).unwrap().set_len(16 << 20).unwrap();
    let error = accept_for_erasing(&test_dir, &name.0, Some("dos")).map(|_| ()).unwrap_err();
    assert!(error.contains("partition table"), "{error}");
}

#[test]
fn a_device_attached_to_a_loop_device_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    let upper_loop = test_dir.attach(disk.path(), true);
    assert_refused(&test_dir, &name.0, path_text(upper_loop.path()));
    upper_loop.detach(&mut |_| {}).unwrap();
    assert!(accept_for_erasing(&test_dir, &name.0, None).is_ok());
}

#[test]
fn a_device_that_another_process_has_claimed_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    let claimed = rustix::fs::open(disk.path(), flags, Mode::empty()).unwrap();
    assert_refused(&test_dir, &name.0, "the kernel says that it is in use");
    drop(claimed);
    // A child that another test forked meanwhile has the descriptor too, until it executes its program.
    let pause = std::time::Duration::from_millis(20);
    let mut attempts = (0..250).inspect(|_| std::thread::sleep(pause));
    assert!(attempts.any(|_| accept_for_erasing(&test_dir, &name.0, None).is_ok()));
}

#[test]
fn a_read_only_device_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let disk = test_dir.make_user_disk("disk", 16);
    let name = StableName::make(disk.path());
    run("blockdev", &["--setro", path_text(disk.path())]);
    assert_refused(&test_dir, &name.0, "read-only");
    run("blockdev", &["--setrw", path_text(disk.path())]);
    assert!(accept_for_erasing(&test_dir, &name.0, None).is_ok());
}

#[test]
fn files_and_character_devices_with_names_of_disks_are_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let file = test_dir.path.join("precious");
    std::fs::write(&file, "data").unwrap();
    assert_refused(&test_dir, &file, "a regular file");
    assert_refused(&test_dir, &StableName::make(&file).0, "a regular file");
    assert_refused(&test_dir, &StableName::make(Path::new("/dev/null")).0, "a character device");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "data");
}

#[test]
fn an_image_on_the_filesystem_under_test_is_refused() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let scratch = test_dir.make_scratch_device("image", 64);
    let target = test_dir.make_dir("mnt");
    let (ext4, options) = (filesystems::find("ext4").unwrap(), VariantOptions::default());
    lifecycle::format(&scratch, ext4, &options, &mut |_| {}).unwrap();
    let mounted = lifecycle::mount(&scratch, &test_dir.journal, ext4, &options, &target, &mut |_| {}).unwrap();
    let state = test_dir.path.join("state");
    let check = |state: &Path, under_test: &[PathBuf]| {
        let path = target.join("new image");
        check_image_path(&SysRoot::host(), state, &path, under_test).map_err(|error| error.to_string())
    };
    assert!(check(&state, &[]).unwrap_err().contains("itself under test"));
    let other_state = test_dir.path.join("no state");
    assert_eq!(check(&other_state, &[]), Ok(()));
    assert!(check(&other_state, &[scratch.path().to_path_buf()]).unwrap_err().contains("itself under test"));
    assert!(check(&other_state, std::slice::from_ref(&target)).unwrap_err().contains("itself under test"));
    mounted.unmount(&mut |_| {}).unwrap();
}
