//! `fsarena load`, also on a filesystem that the test mounts.

use crate::common::{Sandbox, runs_as_root, stand_in};
use crate::{common::disk::MountedDisk, common::gate::BackgroundRun};
use rustix::process::Signal;
use serde_json::Value;
use std::path::Path;

/// Makes a sandbox with a mounted ext4, and returns the directory of the ext4 too.
fn make_sandbox_with_ext4() -> (Sandbox, String) {
    let sandbox = Sandbox::new();
    let dir = sandbox.keep_mounted(MountedDisk::ext4());
    let dir = dir.to_str().unwrap().to_string();
    (sandbox, dir)
}

fn parse_json(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

/// The names in a directory, without that of mkfs.
fn entry_names(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != "lost+found").collect()
}

#[test]
fn a_load_of_both_kinds_adds_up() {
    if !runs_as_root() {
        return;
    }
    let (sandbox, dir) = make_sandbox_with_ext4();
    let (printed, _) = sandbox.expect(
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
    let output = parse_json(&printed);
    let result = &output["result"];
    assert_eq!(output["interrupted"], false);
    assert_eq!(result["operations_count"], 3000);
    assert_eq!(result["bytes"].as_u64().unwrap(), 3000 * 4096);
    let kinds = result["kinds"].as_array().unwrap();
    let sum = |name: &str| kinds.iter().map(|kind| kind[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(kinds.iter().map(|kind| kind["operation"].as_str().unwrap()).collect::<Vec<_>>(), ["read", "write"]);
    assert_eq!((sum("operations_count"), sum("bytes")), (3000, 3000 * 4096));
    let intervals = result["intervals"].as_array().unwrap();
    let interval_operations: u64 = intervals.iter().map(|interval| interval["operations"].as_u64().unwrap()).sum();
    assert_eq!(interval_operations, 3000, "nothing is cut from a load that operations bound");
    let readings = &result["readings"];
    let (iops, bandwidth) =
        (readings["all_iops_per_s"].as_f64().unwrap(), readings["all_bandwidth_bytes_per_s"].as_f64().unwrap());
    assert!((bandwidth / iops - 4096.0).abs() < 1e-6, "{bandwidth} / {iops}");
    assert_eq!(output["job"]["engine"], "io_uring");
    assert_eq!(output["attestation"]["source"], "fiemap");
    assert!(["device", "mixed"].contains(&output["reached"].as_str().unwrap()), "direct I/O bypasses the page cache");
    assert_eq!(entry_names(&dir), [""; 0]);
    sandbox.assert_clean();
}

#[test]
fn a_load_that_the_page_cache_serves_is_labelled() {
    if !runs_as_root() {
        return;
    }
    let (sandbox, dir) = make_sandbox_with_ext4();
    let args = ["load", "--dir", &dir, "--size", "1m", "--number-ios", "50000", "--invalidate=0", "--format", "json"];
    let output = parse_json(&sandbox.expect(0, &args).0);
    assert_eq!(output["reached"], "cache", "{}", output["device_share_ratio"]);
}

#[test]
fn a_named_file_is_made_once_and_kept() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir.join("mine");
    let file = file.to_str().unwrap();
    let args = ["load", "--file", file, "--number-ios", "100", "--verify"];
    let (_, stderr) = sandbox.expect(2, &[&args[..], &["--bs", "4k", "--size", "5k"]].concat());
    assert!(stderr.contains("whole verified blocks"), "{stderr}");
    assert!(!Path::new(file).exists());
    let (printed, _) = sandbox.expect(0, &[&args[..], &["--size", "1m"]].concat());
    assert!(printed.contains("100 blocks verified, all sound"), "{printed}");
    assert_eq!(std::fs::metadata(file).unwrap().len(), 1 << 20);
    sandbox.expect(0, &args);
    let (_, stderr) = sandbox.expect(2, &[&args[..], &["--size", "2m"]].concat());
    assert!(stderr.contains("has its own size"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn a_load_that_ends_within_its_warm_up_says_that_its_figures_include_it() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir.join("mine");
    let args = ["load", "--file", file.to_str().unwrap(), "--size", "1m", "--number-ios", "100"];
    for (ramp_time, is_included) in [(&["--ramp-time", "1h"][..], true), (&["--ramp-time", "0s"], false), (&[], false)]
    {
        let (printed, _) = sandbox.expect(0, &[&args[..], ramp_time].concat());
        assert_eq!(printed.contains("WARM-UP INCLUDED"), is_included, "{printed}");
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_planted_corruption_is_named() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir.join("mine");
    let args = ["load", "--file", file.to_str().unwrap(), "--rw", "read", "--verify", "--bs", "4k", "--io-size", "64k"];
    sandbox.expect(0, &[&args[..], &["--size", "64k"]].concat());
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[5 * 4096 + 1000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (printed, stderr) = sandbox.expect(1, &args);
    assert!(stderr.contains("wrong data at byte 20480 of") && stderr.contains("mine"), "{stderr}");
    assert_eq!(printed, "");
}

#[test]
fn a_sparse_file_is_refused_unless_allowed() {
    let sandbox = Sandbox::new();
    let file = sandbox.dir.join("sparse");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let args = ["load", "--file", file.to_str().unwrap(), "--number-ios", "10"];
    let (_, stderr) = sandbox.expect(2, &args);
    assert!(stderr.contains("is sparse from byte 0"), "{stderr}");
    sandbox.expect(0, &[&args[..], &["--allow", "sparse"]].concat());
}

#[test]
fn load_refuses_block_devices() {
    if !runs_as_root() {
        return;
    }
    let sandbox = Sandbox::new();
    let disk = stand_in::LoopDisk::new(1);
    std::fs::write(&disk.path, vec![7; 1 << 20]).unwrap();
    let link = sandbox.dir.join("link");
    std::os::unix::fs::symlink(&disk.path, &link).unwrap();
    for name in [&disk.path, &link] {
        let (_, stderr) = sandbox.expect(5, &["load", "--file", name.to_str().unwrap(), "--rw", "randwrite"]);
        assert!(stderr.contains("is a block device"), "{stderr}");
    }
    assert!(disk.bytes().iter().all(|byte| *byte == 7), "not a byte was written");
    sandbox.expect(5, &["load", "--file", "/dev/null"]);
    sandbox.expect(5, &["load", "--file", sandbox.dir.to_str().unwrap()]);
}

#[test]
fn impossible_loads_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::new();
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
        let (printed, stderr) = sandbox.expect(2, &[&["load"], args].concat());
        assert!(stderr.contains(word), "{args:?}: {stderr}");
        assert_eq!(printed, "");
    }
    let (_, stderr) = sandbox.expect(6, &["load", "--size", "900t"]);
    assert!(stderr.contains("too little room"), "{stderr}");
    sandbox.assert_clean();
}

#[test]
fn each_metadata_phase_handles_every_file() {
    let sandbox = Sandbox::new();
    let args =
        ["load", "--meta", "create,stat,unlink", "--files", "200", "--threads", "3", "--shared", "--format", "json"];
    let output = parse_json(&sandbox.expect(0, &args).0);
    let phases = output["phases"].as_array().unwrap();
    let operations: Vec<(&str, u64)> = phases
        .iter()
        .map(|phase| (phase["operation"].as_str().unwrap(), phase["result"]["operations_count"].as_u64().unwrap()))
        .collect();
    assert_eq!(operations, [("create", 600), ("stat", 600), ("unlink", 600)]);
    assert_eq!(output["job"]["sharing"], "shared");
    sandbox.assert_clean();
}

#[test]
fn a_signal_ends_a_load_with_the_results_so_far() {
    let sandbox = Sandbox::new();
    let args = ["load", "--size", "4m", "--runtime", "10m", "--format", "json", "--quiet"];
    let mut load = BackgroundRun::start(&sandbox, sandbox.fsarena(&args));
    let is_file_made = || {
        let mut entries = std::fs::read_dir(&sandbox.dir).unwrap().flatten();
        entries.any(|entry| entry.path().join("test_file.0").metadata().is_ok_and(|meta| meta.len() == 4 << 20))
    };
    load.wait_until("its file is made", is_file_made);
    load.wait_until("it has read", || {
        let io = std::fs::read_to_string(format!("/proc/{}/io", load_pid(&sandbox))).unwrap_or_default();
        io.lines().any(|line| line.strip_prefix("rchar: ").is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 1 << 20))
    });
    load.signal(Signal::INT);
    load.assert_ended_by(Signal::INT);
    let output = parse_json(&load.output());
    assert_eq!(output["interrupted"], true);
    let result = &output["result"];
    let operations = result["operations_count"].as_u64().unwrap();
    assert!(operations > 0);
    assert_eq!(result["bytes"].as_u64().unwrap(), operations * 4096);
    sandbox.assert_clean();
}

/// The id of the only process of a sandbox; 0 if there is none.
fn load_pid(sandbox: &Sandbox) -> i32 {
    sandbox.processes().first().copied().unwrap_or_default()
}
