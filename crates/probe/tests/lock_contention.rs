//! Tests with real contention on this kernel: the first lock of the profile must be the contended one.
//!
//! They require root and the lock tracepoints; elsewhere they are skipped.

use fsarena_probe::trace::{LockKind, Profile, TraceError, TraceOptions, TracedTasks, Tracer};
use fsarena_sys::loopdev::{self, LoopOptions};
use fsarena_sys::{argv::Argv, image, mount, undo::Journal};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs::File, path::Path};

const THREADS: usize = 16;
const BLOCK_BYTES: usize = 512;
const BLOCKS: u64 = 64 << 10;
/// The time for which the threads contend.
const CONTENTION_TIME: Duration = Duration::from_secs(1);

/// Waits until no other test is running, because the tests trace their own process. The test runs while it holds the guard.
fn wait_for_other_tests() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options_for_this_process() -> TraceOptions {
    TraceOptions::locks(TracedTasks::Pids(vec![std::process::id()]), 997)
}

/// Runs `work` under a trace. None, with a message, if this machine cannot trace.
fn trace_work(options: &TraceOptions, work: impl FnOnce()) -> Option<Profile> {
    let tracer = match Tracer::start(options) {
        Ok(tracer) => tracer,
        Err(
            why @ (TraceError::NotPermitted { .. } | TraceError::NoTracefs { .. } | TraceError::NoTracepoint { .. }),
        ) => {
            fsarena_sys::testkit::record_skip(&why.to_string());
            return None;
        }
        Err(why) => panic!("{why}"),
    };
    work();
    Some(tracer.stop())
}

/// A buffer that direct I/O accepts.
#[repr(align(4096))]
struct Aligned([u8; BLOCK_BYTES]);

/// Writes one file from sixteen threads with O_DIRECT, each thread the next block. A write to a new block takes the lock of the
/// inode exclusively; other writes share it.
fn write_one_file(path: &Path) {
    let file = File::options().write(true).create(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
    file.set_len(BLOCKS * BLOCK_BYTES as u64).unwrap();
    let (next_block, start) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let block = Aligned([7; BLOCK_BYTES]);
                while start.elapsed() < CONTENTION_TIME {
                    let number = next_block.fetch_add(1, Ordering::Relaxed) % BLOCKS;
                    file.write_all_at(&block.0, number * BLOCK_BYTES as u64).unwrap();
                }
            });
        }
    });
}

/// Calls `work` with the path of a file on a new ext4 on a loop device, and removes everything afterwards.
fn work_on_ext4(work: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let log = &mut |_| {};
    let journal = Journal::create(&dir.path().join("state"), "a test of lock contention").unwrap();
    let image = image::create(&journal, &dir.path().join("image"), 64 << 20, true).unwrap();
    let options = LoopOptions { direct_io: false, discard: false };
    let device = loopdev::attach(&journal, image.path(), options, log).unwrap();
    Argv::new("mkfs.ext4").args(["-q", "-F"]).arg(device.path()).run_checked(log).unwrap();
    let target = dir.path().join("mnt");
    std::fs::create_dir(&target).unwrap();
    let mounted = mount::mount(&journal, log, device.path(), &target, "ext4", "").unwrap();
    work(&target.join("file"));
    mounted.unmount(log).unwrap();
    device.detach(log).unwrap();
    image.remove().unwrap();
}

#[test]
fn direct_writes_to_one_ext4_file_wait_for_the_inode_lock() {
    let _running = wait_for_other_tests();
    if !rustix::process::geteuid().is_root() {
        fsarena_sys::testkit::record_skip("root");
        return;
    }
    let mut profile = None;
    work_on_ext4(|path| profile = trace_work(&options_for_this_process(), || write_one_file(path)));
    let Some(profile) = profile else { return };
    println!("{}", profile.format_text(10, 4));
    let first = &profile.lock_sites[0];
    assert!(["down_read", "down_write"].contains(&first.function.as_str()), "{first:?}");
    assert!([LockKind::RwsemRead, LockKind::RwsemWrite].contains(&first.kind), "{first:?}");
    assert_eq!(first.taker(), "ext4_file_write_iter", "{first:?}");
    assert!(first.callers.iter().any(|name| name == "vfs_write" || name.contains("pwrite64")), "{first:?}");
    assert_consistent(&profile);
    assert!(profile.cpu_samples > 0, "sixteen busy threads are seen on the CPU");
}

/// Writes one file from sixteen dd processes.
fn write_one_file_by_dd(path: &Path) {
    let mut children: Vec<_> = (0..THREADS)
        .map(|_| {
            let mut dd = Command::new("dd");
            dd.args(["if=/dev/zero", "bs=512", "count=65536", "oflag=direct", "conv=notrunc"]);
            let mut output_argument = std::ffi::OsString::from("of=");
            output_argument.push(path);
            dd.arg(output_argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(CONTENTION_TIME);
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn processes_started_during_the_trace_are_traced() {
    let _running = wait_for_other_tests();
    if !rustix::process::geteuid().is_root() {
        fsarena_sys::testkit::record_skip("root");
        return;
    }
    let mut profile = None;
    work_on_ext4(|path| profile = trace_work(&options_for_this_process(), || write_one_file_by_dd(path)));
    let Some(profile) = profile else { return };
    println!("{}", profile.format_text(10, 4));
    assert_consistent(&profile);
    assert_eq!(profile.lock_sites[0].taker(), "ext4_file_write_iter", "{:?}", profile.lock_sites[0]);
}

/// Contends for a mutex of the program (futex(2) for the kernel) and for the kernel's lock of the memory mappings.
fn contend_for_mappings() {
    let (lock, start) = (Mutex::new(0_u64), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while start.elapsed() < CONTENTION_TIME {
                    *lock.lock().unwrap() += 1;
                    map_and_unmap();
                }
            });
        }
    });
}

fn map_and_unmap() {
    let (access, kind) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel picks a free address, and nothing accesses the mapping before munmap.
    unsafe {
        let address = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        assert_ne!(address, libc::MAP_FAILED);
        assert_eq!(libc::munmap(address, 4096), 0);
    }
}

#[test]
fn contention_for_mappings_is_not_attributed_to_a_filesystem() {
    let _running = wait_for_other_tests();
    let Some(profile) = trace_work(&options_for_this_process(), contend_for_mappings) else { return };
    println!("{}", profile.format_text(10, 4));
    assert_consistent(&profile);
    let first = &profile.lock_sites[0];
    assert_eq!(first.kind, LockKind::RwsemWrite, "{first:?}");
    assert!(first.function.starts_with("down_write") && first.taker().contains("map"), "{first:?}");
    assert_no_filesystem(&profile);
}

/// Asserts that no lock is attributed to a filesystem.
fn assert_no_filesystem(profile: &Profile) {
    for site in &profile.lock_sites {
        let is_of_filesystem = ["ext4_", "xfs_", "btrfs_", "jbd2_"].iter().any(|fs| site.taker().starts_with(fs));
        assert!(!is_of_filesystem, "{site:?}");
    }
}

/// Asserts what must hold for every profile.
fn assert_consistent(profile: &Profile) {
    let sum: u64 = profile.lock_sites.iter().map(|site| site.total_ns).sum();
    assert_eq!(sum, profile.total_wait_ns);
    if sum > 0 {
        let shares: f64 = profile.lock_sites.iter().map(|site| site.share).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }
    for site in &profile.lock_sites {
        assert!(site.mean_ns <= site.max_ns && site.p99_ns <= site.max_ns, "{site:?}");
        assert!(site.max_ns <= profile.duration_ns, "no wait is longer than the trace: {site:?}");
    }
    for line in profile.format_text(50, 4).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
