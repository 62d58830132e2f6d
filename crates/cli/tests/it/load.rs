//! `fsarena load` through the real binary, on filesystems of the test's own.

use crate::common::{Place, root, stand_in};
use crate::{common::disk::Disk, common::gate::Running};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// A place in which nothing but the load's own directory may appear.
fn with_ext4() -> (Place, String) {
    let place = Place::new();
    let dir = place.mount(Disk::ext4());
    let dir = dir.to_str().unwrap().to_string();
    (place, dir)
}

fn json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// What lies in a directory, but for what mkfs makes.
fn names(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lost+found").collect()
}

#[test]
fn a_load_of_both_kinds_adds_up() {
    if !root() {
        return;
    }
    let (place, dir) = with_ext4();
    let (printed, _) = place.expect(
        0,
        &[
            "load",
            "--dir",
            &dir,
            "--rw",
            "randrw",
            "--bs",
            "4k",
            "--size",
            "8m",
            "--nrfiles",
            "2",
            "--direct",
            "--iodepth",
            "4",
            "--numjobs",
            "2",
            "--number-ios",
            "3000",
            "--format",
            "json",
        ],
    );
    let found = json(&printed);
    let result = &found["result"];
    assert_eq!(found["interrupted"], false);
    assert_eq!(result["operations_count"], 3000);
    assert_eq!(result["bytes"].as_u64().unwrap(), 3000 * 4096);
    let kinds = result["kinds"].as_array().unwrap();
    let sum = |name: &str| kinds.iter().map(|kind| kind[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(kinds.iter().map(|kind| kind["operation"].as_str().unwrap()).collect::<Vec<_>>(), ["read", "write"]);
    assert_eq!((sum("operations_count"), sum("bytes")), (3000, 3000 * 4096));
    let intervals = result["intervals"].as_array().unwrap();
    let of_intervals: u64 = intervals.iter().map(|one| one["operations"].as_u64().unwrap()).sum();
    assert_eq!(of_intervals, 3000, "nothing is cut from a load that operations bound");
    let readings = &result["readings"];
    let (rate, moved) =
        (readings["all_iops_per_s"].as_f64().unwrap(), readings["all_bandwidth_bytes_per_s"].as_f64().unwrap());
    assert!((moved / rate - 4096.0).abs() < 1e-6, "{moved} / {rate}");
    assert_eq!(found["job"]["engine"], "io_uring");
    assert_eq!(found["attestation"]["source"], "fiemap");
    assert!(["device", "mixed"].contains(&found["reached"].as_str().unwrap()), "direct I/O bypasses the page cache");
    assert_eq!(names(&dir), [""; 0]);
    place.assert_clean();
}

#[test]
fn a_load_that_the_page_cache_serves_is_labelled() {
    if !root() {
        return;
    }
    let (place, dir) = with_ext4();
    let args = ["load", "--dir", &dir, "--size", "1m", "--number-ios", "50000", "--invalidate=0", "--format", "json"];
    let found = json(&place.expect(0, &args).0);
    assert_eq!(found["reached"], "cache", "{}", found["device_share_ratio"]);
}

#[test]
fn a_named_file_is_made_once_and_kept() {
    let place = Place::new();
    let file = place.dir.join("mine");
    let file = file.to_str().unwrap();
    let args = ["load", "--file", file, "--number-ios", "100", "--verify"];
    let (_, said) = place.expect(2, &[&args[..], &["--bs", "4k", "--size", "5k"]].concat());
    assert!(said.contains("whole verified blocks"), "{said}");
    assert!(!Path::new(file).exists());
    let (printed, _) = place.expect(0, &[&args[..], &["--size", "1m"]].concat());
    assert!(printed.contains("100 blocks verified, all sound"), "{printed}");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 1 << 20);
    place.expect(0, &args);
    let (_, said) = place.expect(2, &[&args[..], &["--size", "2m"]].concat());
    assert!(said.contains("has its own size"), "{said}");
    place.assert_clean();
}

#[test]
fn a_planted_corruption_is_named() {
    let place = Place::new();
    let file = place.dir.join("mine");
    let args = ["load", "--file", file.to_str().unwrap(), "--rw", "read", "--verify", "--bs", "4k", "--io-size", "64k"];
    place.expect(0, &[&args[..], &["--size", "64k"]].concat());
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[5 * 4096 + 1000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (printed, said) = place.expect(1, &args);
    assert!(said.contains("wrong data at byte 20480 of") && said.contains("mine"), "{said}");
    assert_eq!(printed, "");
}

#[test]
fn a_sparse_file_is_refused_unless_allowed() {
    let place = Place::new();
    let file = place.dir.join("sparse");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let args = ["load", "--file", file.to_str().unwrap(), "--number-ios", "10"];
    let (_, said) = place.expect(2, &args);
    assert!(said.contains("is sparse from byte 0"), "{said}");
    place.expect(0, &[&args[..], &["--allow", "sparse"]].concat());
}

#[test]
fn load_refuses_block_devices() {
    if !root() {
        return;
    }
    let place = Place::new();
    let disk = stand_in::Disk::new(1);
    std::fs::write(&disk.path, vec![7; 1 << 20]).unwrap();
    let link = place.dir.join("link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    for name in [&disk.path, &link] {
        let (_, said) = place.expect(5, &["load", "--file", name.to_str().unwrap(), "--rw", "randwrite"]);
        assert!(said.contains("is a block device"), "{said}");
    }
    assert!(disk.bytes().iter().all(|byte| *byte == 7), "not a byte was written");
    place.expect(5, &["load", "--file", "/dev/null"]);
    place.expect(5, &["load", "--file", place.dir.to_str().unwrap()]);
}

#[test]
fn impossible_loads_are_refused_before_anything_is_made() {
    let place = Place::new();
    for (args, word) in [
        (&["--bs", "much"][..], "cannot read the size"),
        (&["--iodepth", "8", "--ioengine", "sync"], "io_uring"),
        (&["--numjobs", "0"], "threads is 0"),
        (&["--ioengine", "mmap", "--direct"], "mmap"),
        (&["--create-on-open"], "made anew"),
        (&["--rate", "0"], "must be above 0"),
        (&["--runtime", "1", "--number-ios", "5"], "cannot be used with"),
        (&["--dir", "nowhere"], "nowhere"),
        (&["--dir", "plan.toml"], "not a directory"),
        (&["--meta", "stat"], "needs a `create`"),
        (&["--meta", "defragment"], "Unknown operation `defragment`. Available: create"),
        (&["--meta", "create", "--bs", "4k"], "cannot be used with"),
        (&["--random-distribution", "zipf"], "zipf:THETA"),
    ] {
        let (printed, said) = place.expect(2, &[&["load"], args].concat());
        assert!(said.contains(word), "{args:?}: {said}");
        assert_eq!(printed, "");
    }
    let (_, said) = place.expect(6, &["load", "--size", "900t"]);
    assert!(said.contains("too little room"), "{said}");
    place.assert_clean();
}

#[test]
fn metadata_phases_do_every_name() {
    let place = Place::new();
    let args =
        ["load", "--meta", "create,stat,unlink", "--files", "200", "--threads", "3", "--shared", "--format", "json"];
    let found = json(&place.expect(0, &args).0);
    let phases = found["phases"].as_array().unwrap();
    let done: Vec<(&str, u64)> = phases
        .iter()
        .map(|phase| (phase["operation"].as_str().unwrap(), phase["result"]["operations_count"].as_u64().unwrap()))
        .collect();
    assert_eq!(done, [("create", 600), ("stat", 600), ("unlink", 600)]);
    assert_eq!(found["job"]["sharing"], "shared");
    place.assert_clean();
}

#[test]
fn a_signal_ends_it_with_the_results_so_far() {
    let place = Place::new();
    let args = ["load", "--size", "4m", "--runtime", "10m", "--format", "json", "--quiet"];
    let mut load = Running::start(&place, place.fsarena(&args));
    let made = || {
        let mut entries = std::fs::read_dir(&place.dir).unwrap().flatten();
        entries.any(|entry| entry.path().join("test_file.0").metadata().is_ok_and(|meta| meta.len() == 4 << 20))
    };
    load.until("its file is made", made);
    load.until("it has read", || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", load_id(&place))).unwrap_or_default();
        io.lines().any(|line| line.strip_prefix("rchar: ").is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 1 << 20))
    });
    load.signal(Signal::INT);
    load.ended_by(Signal::INT);
    let found = json(&load.said());
    assert_eq!(found["interrupted"], true);
    let result = &found["result"];
    let operations = result["operations_count"].as_u64().unwrap();
    assert!(operations > 0);
    assert_eq!(result["bytes"].as_u64().unwrap(), operations * 4096);
    place.assert_clean();
}

/// The only process of a place.
fn load_id(place: &Place) -> i32 {
    place.processes().first().copied().unwrap_or_default()
}
