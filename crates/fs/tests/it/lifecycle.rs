//! mkfs, mount and unmount on real loop devices.

use crate::common::{TestDir, runs_as_root};
use fsarena_core::{cell::Variant, event::CommandRecord};
use fsarena_fs::filesystems::{self, FILESYSTEMS};
use fsarena_fs::lifecycle::{self, Devices, VariantOptions};
use fsarena_fs::{available, def::FsDef, safety::ScratchDevice};
use fsarena_sys::argv::{Argv, has_landlock};
use fsarena_sys::{image, kernel::SysRoot, loopdev, mount::effective_options};
use std::path::Path;

fn variant(def: &FsDef, set: &str) -> Variant {
    let levels = [("fs", def.id), ("options", set)];
    Variant { name: def.id.into(), levels: levels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect() }
}

/// The option set that a kernel may lack: the format before checksums is a build option.
const KERNEL_MAY_LACK: &str = "xfs nocrc";

/// Makes a filesystem, up to five times while its mkfs crashes: that of bcachefs does so now and then, when its threads end.
fn format(
    device: &ScratchDevice,
    def: &FsDef,
    options: &VariantOptions,
    log: &mut dyn FnMut(CommandRecord),
) -> Result<lifecycle::FormatResult, fsarena_fs::Error> {
    let mut result = lifecycle::format(device, def, options, log);
    for _ in 0..4 {
        if !result.as_ref().is_err_and(fsarena_fs::Error::was_ended_by_signal) {
            break;
        }
        result = lifecycle::format(device, def, options, log);
    }
    result
}

/// Makes every option set of every filesystem whose mkfs is installed over the previous one, without confirmation. Mounts,
/// writes and unmounts those that the kernel supports.
#[test]
fn every_option_set_is_made_and_mounted() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let device = test_dir.make_scratch_device("image 1", 2048);
    let target = test_dir.make_dir("mnt");
    let survey = available::survey(&SysRoot::host()).unwrap();
    let mut log = vec![];
    let mut mounted = vec![];
    // Pools are made in guests.
    for found in
        survey.iter().filter(|found| found.mkfs.is_some() && found.def.is_general() && found.def.pool.is_none())
    {
        for set in found.def.option_sets {
            let id = format!("{} {}", found.def.id, set.id);
            let options = lifecycle::variant_options(found.def, &variant(found.def, set.id)).unwrap();
            let mut note = |record| log.push(record);
            let made = format(&device, found.def, &options, &mut note);
            let made = made.unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(made.argv[0], found.def.mkfs);
            if !found.is_mountable {
                continue;
            }
            let described = lifecycle::describe_features(&device, found.def, &mut note);
            assert!(described.is_some_and(|text| text.lines().count() > 3), "{id}");
            let mount = lifecycle::mount(&device, &test_dir.journal, found.def, &options, &target, &mut note);
            if mount.is_err() && id == KERNEL_MAY_LACK {
                fsarena_sys::testkit::record_skip(&format!("this kernel does not mount {id}"));
                continue;
            }
            let mount = mount.unwrap_or_else(|error| panic!("{id}: {error}"));
            std::fs::write(target.join("file"), "text").unwrap_or_else(|error| panic!("{id}: {error}"));
            let effective = effective_options(&SysRoot::host(), &target).unwrap();
            assert!(effective.starts_with("rw,"), "{id}: {effective}");
            mount.unmount(&mut note).unwrap();
            assert!(!target.join("file").exists());
            mounted.push(found.def.id);
        }
    }
    for must in ["ext2", "ext3", "ext4", "xfs", "btrfs"] {
        assert!(mounted.contains(&must), "{must} is not made and mounted here: {mounted:?}");
    }
    // An unmount that meets a busy mount is repeated; that it succeeded in the end is asserted above.
    let may_fail = ["mount", "umount", "mkfs.bcachefs"];
    assert!(
        log.iter().all(|record| record.ended.is_success() || may_fail.contains(&record.argv[0].as_str())),
        "{log:?}"
    );
    let image = test_dir.path.join("image 1");
    device.release(&mut |_| {}).unwrap();
    assert!(!image.exists() && loopdev::devices_of_image(&SysRoot::host(), &image).unwrap().is_empty());
}

/// Whether mkfs or this kernel may lack an option set of EROFS: it depends on their versions and how they were built.
fn version_may_lack(def: &FsDef, set: &str) -> bool {
    def.id == "erofs" && ["lz4hc-dedupe", "lzma", "deflate", "zstd"].contains(&set)
}

/// Packs files by every option set of the read-only filesystems whose mkfs is installed, and reads them from a device.
#[test]
fn every_read_only_option_set_holds_the_files_that_mkfs_packed() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let device = test_dir.make_scratch_device("image", 64);
    let target = test_dir.make_dir("mnt");
    let files = test_dir.make_dir("files");
    let text = "text that can be compressed\n".repeat(9000);
    std::fs::create_dir(files.join("work")).unwrap();
    std::fs::write(files.join("work/file"), &text).unwrap();
    let survey = available::survey(&SysRoot::host()).unwrap();
    for found in survey.iter().filter(|found| found.def.traits.read_only) {
        let def = found.def;
        if !found.is_mountable || !fsarena_sys::testkit::has_program(def.mkfs) {
            continue;
        }
        for (number, set) in def.option_sets.iter().enumerate() {
            let id = format!("{} {}", def.id, set.id);
            let image =
                image::create_sparse(&test_dir.journal, &test_dir.path.join(format!("{}-{number}", def.id)), 64 << 20)
                    .unwrap();
            let image = ScratchDevice::from_image(image);
            let mut options = lifecycle::variant_options(def, &variant(def, set.id)).unwrap();
            options.contents = Some(files.clone());
            let made = format(&image, def, &options, &mut |_| {}).map_err(|error| error.to_string());
            let check_made = || lifecycle::check_option_set(def, &variant(def, set.id), image.path());
            let made = made.and_then(|made| check_made().map(|()| made).map_err(|error| error.to_string()));
            let made = match made {
                Err(_) if version_may_lack(def, set.id) => {
                    fsarena_sys::testkit::record_skip(&format!("mkfs.erofs of this machine cannot make {id}"));
                    continue;
                }
                made => made.unwrap_or_else(|error| panic!("{id}: {error}")),
            };
            let bytes = made.packed_bytes.unwrap();
            assert!(bytes % 4096 == 0 && bytes < 1 << 20, "{id}: {bytes}");
            lifecycle::write_image(image.path(), bytes, &device).unwrap();
            let mounted = lifecycle::mount(&device, &test_dir.journal, def, &options, &target, &mut |_| {});
            let mounted = mounted.unwrap_or_else(|error| panic!("{id}: {error}"));
            assert_eq!(std::fs::read_to_string(target.join("work/file")).unwrap(), text, "{id}");
            assert!(std::fs::write(target.join("work/new"), "").is_err(), "{id}");
            mounted.unmount(&mut |_| {}).unwrap();
            image.release(&mut |_| {}).unwrap();
        }
    }
    device.release(&mut |_| {}).unwrap();
}

/// tmpfs has no device and no mkfs: its mount makes it, with the size that it is given.
#[test]
fn tmpfs_is_mounted_without_a_device_at_a_given_size() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let target = test_dir.make_dir("mnt");
    let def = filesystems::find("tmpfs").unwrap();
    for set in def.option_sets {
        let mut options = lifecycle::variant_options(def, &variant(def, set.id)).unwrap();
        options.limit_size(def, 8 << 20);
        let devices = Devices { members: vec![], journal: None };
        let mounted = lifecycle::mount(devices, &test_dir.journal, def, &options, &target, &mut |_| {});
        if mounted.is_err() && (set.id.starts_with("huge") || set.id == "noswap") {
            fsarena_sys::testkit::record_skip(&format!("this kernel mounts no tmpfs with {}", set.id));
            continue;
        }
        let mounted = mounted.unwrap_or_else(|error| panic!("{}: {error}", set.id));
        let effective = effective_options(&SysRoot::host(), &target).unwrap();
        assert!(effective.contains("size=8192k"), "{effective}");
        mounted.unmount(&mut |_| {}).unwrap();
    }
}

#[test]
fn each_mkfs_overwrites_every_other_filesystem() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let device = test_dir.make_scratch_device("image", 512);
    let installed: Vec<_> = available::survey(&SysRoot::host())
        .unwrap()
        .into_iter()
        .filter(|found| found.mkfs.is_some() && found.def.is_general() && found.def.pool.is_none())
        .collect();
    let make = |def: &FsDef| {
        let made = format(&device, def, &VariantOptions::default(), &mut |_| {});
        made.unwrap_or_else(|error| panic!("{}: {error}", def.id));
    };
    // Alternating between two filesystems covers both directions.
    for (i, first) in installed.iter().enumerate() {
        for second in &installed[i + 1..] {
            make(first.def);
            make(second.def);
        }
        make(first.def);
    }
}

/// A confined mkfs can write only to its own device, whatever the name of another device is.
#[test]
fn a_confined_program_cannot_write_to_another_device() {
    if !runs_as_root() {
        return;
    }
    if !has_landlock() {
        fsarena_sys::testkit::record_skip("this kernel has no Landlock");
        return;
    }
    let test_dir = TestDir::new();
    let (target, victim) = (test_dir.make_scratch_device("target", 32), test_dir.make_user_disk("victim", 32));
    let link = test_dir.path.join("link");
    std::os::unix::fs::symlink(victim.path(), &link).unwrap();
    let make = |program: &str, args: &[&str], on: &[&Path]| {
        let argv = Argv::new(program).args(args).args(on).confine_writes_to([target.path()]);
        argv.run().unwrap().status.success()
    };
    assert!(make("mke2fs", &["-q", "-F"], &[target.path()]));
    let before = std::fs::read(victim.path()).unwrap();
    for other in [victim.path(), &link, &test_dir.path.join("victim")] {
        assert!(!make("mke2fs", &["-q", "-F"], &[other]), "{other:?}");
        assert!(!make("blkdiscard", &["-f"], &[other]), "{other:?}");
    }
    assert!(std::fs::read(victim.path()).unwrap() == before);
    victim.detach(&mut |_| {}).unwrap();
}

#[test]
fn the_error_of_a_failing_mkfs_has_its_output() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let device = test_dir.make_scratch_device("small", 16);
    let options = VariantOptions { mkfs: vec!["-b".into(), "12".into()], ..VariantOptions::default() };
    let error = lifecycle::format(&device, filesystems::find("ext4").unwrap(), &options, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("invalid block size"), "{error}");
}

#[test]
fn a_busy_mount_point_names_its_user() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let device = test_dir.make_scratch_device("image", 64);
    let target = test_dir.make_dir("mnt");
    let ext2 = filesystems::find("ext2").unwrap();
    lifecycle::format(&device, ext2, &VariantOptions::default(), &mut |_| {}).unwrap();
    let options = VariantOptions::default();
    let mount = || lifecycle::mount(&device, &test_dir.journal, ext2, &options, &target, &mut |_| {});
    let mounted = mount().unwrap();
    assert!(mount().unwrap_err().to_string().contains("mounted there already"));
    let file = std::fs::File::create(target.join("open")).unwrap();
    let error = mounted.unmount(&mut |_| {}).unwrap_err().to_string();
    assert!(error.contains(&std::process::id().to_string()), "{error}");
    drop(file);
    fsarena_sys::mount::unmount(&target, &mut |_| {}).unwrap();
}

#[test]
fn a_loop_device_offers_discard_only_on_request() {
    if !runs_as_root() {
        return;
    }
    let test_dir = TestDir::new();
    let image = test_dir.path.join("image");
    std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
    for offered in [false, true, false] {
        let device = test_dir.attach(&image, offered);
        let name = device.path().file_name().unwrap().to_str().unwrap().to_string();
        let limit = SysRoot::host().read_trimmed(&format!("sys/class/block/{name}/queue/discard_max_bytes")).unwrap();
        assert_eq!(limit != "0", offered, "{limit}");
        device.detach(&mut |_| {}).unwrap();
        assert!(loopdev::devices_of_image(&SysRoot::host(), &image).unwrap().is_empty());
    }
}

#[test]
fn every_known_filesystem_is_surveyed() {
    assert_eq!(available::survey(&SysRoot::host()).unwrap().len(), FILESYSTEMS.len());
}
