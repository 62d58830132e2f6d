//! The engine as a whole, on files in a temporary directory. No test asserts a timing.

use super::*;
use std::{os::unix::fs::FileExt, path::Path};

const BLOCK: u32 = 4096;

fn prepare_files(dir: &Path, count: u32, blocks: u64, verify: bool) -> Files {
    let spec = FileSpec {
        count,
        bytes_per_file: blocks * u64::from(BLOCK),
        content: Content::Random,
        seed: 3,
        verified_block_bytes: verify.then_some(BLOCK),
    };
    Files::prepare(dir, &spec).unwrap()
}

fn bounded_job(operations: u64) -> LoadJob {
    LoadJob { bound: Bound::Operations(operations), interval_ms: 1, ..LoadJob::default() }
}

#[track_caller]
fn run_and_check(job: &LoadJob, files: &Files) -> LoadOutcome {
    let mut reported = vec![];
    let outcome = run(job, files, &mut |interval| reported.push(interval.clone())).unwrap();
    // The load reported every interval in order, and no operation is missing.
    assert_eq!(reported, outcome.intervals);
    assert!(reported.iter().enumerate().all(|(at, interval)| interval.index as usize == at));
    let measured = &reported[outcome.warmup_intervals..];
    assert_eq!(measured.iter().map(|interval| interval.operations).sum::<u64>(), outcome.operations());
    assert_eq!(measured.iter().map(|interval| interval.bytes).sum::<u64>(), outcome.bytes());
    assert_eq!(outcome.kinds.iter().map(|kind| kind.count).sum::<u64>(), outcome.operations());
    outcome
}

/// Whether this machine allows io_uring; reports skipped tests if not.
fn has_uring() -> bool {
    let forbidden = io_uring::IoUring::new(2).err();
    if let Some(error) = &forbidden {
        fsarena_sys::testkit::record_skip(&format!("no io_uring: {error}"));
    }
    forbidden.is_none()
}

#[test]
fn every_engine_performs_exactly_the_number_of_operations() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 3, 64, false);
    let mut engines = vec![(Engine::Sync, 1), (Engine::Mmap, 1)];
    if has_uring() {
        engines.extend([(Engine::IoUring, 1), (Engine::IoUring, 7), (Engine::IoUring, 64)]);
    }
    for (engine, depth) in engines {
        for (read_share, threads) in [(1.0, 1), (0.0, 3), (0.5, 4)] {
            let job = LoadJob { engine, depth, read_share, threads, ..bounded_job(5003) };
            let outcome = run_and_check(&job, &files);
            assert_eq!(outcome.operations(), 5003, "{engine:?} {depth} {read_share}");
            assert_eq!(outcome.bytes(), 5003 * u64::from(BLOCK));
            assert_eq!(outcome.kind("read").is_some(), read_share > 0.0);
            assert_eq!(outcome.kind("write").is_some(), read_share < 1.0);
        }
    }
}

#[test]
fn a_load_can_be_bounded_by_bytes_or_time() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let job = LoadJob { bound: Bound::Bytes(10 * 4096 + 1), ..bounded_job(1) };
    assert_eq!(run_and_check(&job, &files).operations(), 11);
    // Long enough that even on a busy machine an interval follows the warm-up; otherwise the whole run would be measured.
    let job = LoadJob { bound: Bound::Seconds(0.5), warmup: Warmup::Seconds(0.02), ..bounded_job(1) };
    let outcome = run_and_check(&job, &files);
    assert!(outcome.operations() > 0);
    assert_eq!(outcome.warmup_intervals, 20);
    assert!(outcome.intervals.len() <= 501, "an operation that ends after the deadline belongs to the last interval");
}

#[test]
fn a_bound_by_steadiness_ends_by_its_time_at_the_latest() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let job = LoadJob { bound: Bound::Steady { at_most_s: 0.3 }, interval_ms: 2, ..LoadJob::default() };
    let outcome = run_and_check(&job, &files);
    assert!(outcome.intervals.len() <= 151);
    assert!(outcome.warmup_intervals * 2 <= outcome.intervals.len() + steady::BATCH_LENGTH);
}

#[test]
fn a_load_runs_with_a_thousand_threads() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let job = LoadJob { threads: 1024, interval_ms: 100, ..bounded_job(20_000) };
    let outcome = run_and_check(&job, &files);
    assert_eq!(outcome.operations(), 20_000);
    // 20,000 operations of 1,024 threads: the mean is 19.5.
    let Fairness { fewest_operations, most_operations, jain_index } = outcome.fairness;
    assert!(fewest_operations <= 19 && most_operations >= 20, "{fewest_operations} {most_operations}");
    assert!((1.0 / 1024.0..=1.0).contains(&jain_index), "{jain_index}");
}

#[test]
fn syncs_between_requests_and_at_the_end_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 4, 64, false);
    for engine in [Engine::Sync, Engine::IoUring] {
        if engine == Engine::IoUring && !has_uring() {
            continue;
        }
        let job = LoadJob {
            engine,
            read_share: 0.0,
            threads: 2,
            sync_every: Some(SyncEvery { requests: 100, over_all_threads: true }),
            sync_end: true,
            // Two whole rounds of 100 writes and 4 syncs, and 10 further writes.
            ..bounded_job(218)
        };
        let outcome = run_and_check(&job, &files);
        assert_eq!(outcome.kind("write").unwrap().count, 210);
        assert_eq!(outcome.kind("sync").unwrap().count, 8);
        assert_eq!(outcome.kind("sync").unwrap().bytes, 0);
        // Each thread syncs each file.
        assert_eq!(outcome.final_syncs, 8);
        assert_eq!(outcome.readings().get("sync_operations_count"), Some(8.0));
    }
}

#[test]
fn a_bound_by_bytes_counts_no_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 64, false);
    let mut engines = vec![(Engine::Sync, 1), (Engine::Mmap, 1)];
    if has_uring() {
        engines.extend([(Engine::IoUring, 1), (Engine::IoUring, 7)]);
    }
    for (engine, depth) in engines {
        for over_all_threads in [true, false] {
            let job = LoadJob {
                engine,
                depth,
                read_share: 0.0,
                threads: 3,
                sync_every: Some(SyncEvery { requests: 1, over_all_threads }),
                bound: Bound::Bytes(100 * u64::from(BLOCK)),
                ..bounded_job(1)
            };
            let outcome = run_and_check(&job, &files);
            assert_eq!(outcome.bytes(), 100 * u64::from(BLOCK), "{engine:?} {depth} {over_all_threads}");
            assert!(outcome.kind("sync").is_some());
        }
    }
}

#[test]
fn recreated_files_grow_with_the_writes() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 64, false);
    let mut job = LoadJob {
        read_share: 0.0,
        pattern: Pattern::Sequential { shared_cursor: true },
        threads: 2,
        ..bounded_job(80)
    };
    job.open.recreate = true;
    assert_eq!(run_and_check(&job, &files).extent_check, None);
    let sizes = files.paths().iter().map(|path| std::fs::metadata(path).unwrap().len());
    assert_eq!(sizes.collect::<Vec<_>>(), [64 * 4096, 16 * 4096]);
}

#[test]
fn verified_blocks_are_written_read_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 100, true);
    for (engine, depth) in [(Engine::Sync, 1), (Engine::Mmap, 1), (Engine::IoUring, 16)] {
        if engine == Engine::IoUring && !has_uring() {
            continue;
        }
        let job =
            LoadJob { engine, depth, verify: true, read_share: 0.5, threads: 3, sync_end: true, ..bounded_job(3000) };
        let outcome = run_and_check(&job, &files);
        // All 200 blocks are verified before and after the load, and each block that it reads.
        assert_eq!(outcome.verified_blocks, 400 + outcome.kind("read").unwrap().count);
        // Reading back the blocks is no part of the final syncs.
        let outcome = run_and_check(&LoadJob { sync_end: false, ..job }, &files);
        assert_eq!((outcome.final_syncs, outcome.final_sync_ns), (0, 0));
    }
}

#[test]
fn a_corrupted_block_ends_the_job_with_its_position() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 50, true);
    let file = std::fs::OpenOptions::new().write(true).open(&files.paths()[1]).unwrap();
    file.write_all_at(b"X", 7 * 4096 + 1234).unwrap();
    let mut engines = vec![(Engine::Sync, 1), (Engine::Mmap, 1)];
    if has_uring() {
        engines.push((Engine::IoUring, 8));
    }
    for (engine, depth) in engines {
        for read_share in [1.0, 0.0] {
            let pattern = Pattern::Sequential { shared_cursor: false };
            let job = LoadJob { engine, depth, verify: true, read_share, pattern, ..bounded_job(100) };
            let error = run(&job, &files, &mut |_| {}).unwrap_err().to_string();
            assert!(error.contains("byte 28672") && error.contains("test_file.1"), "{error}");
            assert!(error.contains("expected") && error.contains("checksum"), "{error}");
        }
    }
}

#[test]
fn sparse_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::planned(dir.path(), 1, 1 << 20);
    std::fs::File::create(&files.paths()[0]).unwrap().set_len(1 << 20).unwrap();
    let error = run(&bounded_job(10), &files, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("sparse from byte 0") && error.contains("test_file.0"), "{error}");
    let allowed = LoadJob { allow: AllowedExtents { sparse: true, ..AllowedExtents::default() }, ..bounded_job(10) };
    assert_eq!(run_and_check(&allowed, &files).operations(), 10);
}

#[test]
fn an_error_ends_the_job_with_file_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 8, false);
    // These files have 8 blocks each, and the job assumes 16.
    let longer = Files { bytes_per_file: 16 * 4096, ..files.clone() };
    let engines = if has_uring() { vec![Engine::Sync, Engine::IoUring] } else { vec![Engine::Sync] };
    for engine in engines {
        let job = LoadJob {
            engine,
            pattern: Pattern::Sequential { shared_cursor: true },
            allow: AllowedExtents { sparse: true, ..AllowedExtents::default() },
            ..bounded_job(100)
        };
        let error = run(&job, &longer, &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("read of 4096 bytes at byte 32768") && error.contains("test_file.0"), "{error}");
    }
    // Access to a mapping beyond the end of a file raises SIGBUS, which also ends the job with an error.
    for (read_share, operation) in [(1.0, "read"), (0.0, "write")] {
        let job = LoadJob {
            engine: Engine::Mmap,
            read_share,
            allow: AllowedExtents { sparse: true, ..AllowedExtents::default() },
            ..bounded_job(100)
        };
        let error = run(&job, &longer, &mut |_| {}).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{operation} of 4096 bytes")) && error.contains("test_file"), "{error}");
    }
}

#[test]
fn a_ring_works_without_the_features_of_newer_kernels() {
    if !has_uring() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 2, 64, false);
    for bits in 0..32u8 {
        let bit = |number: u8| bits >> number & 1 == 1;
        let uring = UringFeatures {
            defer_taskrun: bit(0),
            single_issuer: bit(1),
            coop_taskrun: bit(2),
            fixed_files: bit(3),
            fixed_buffers: bit(4),
        };
        let job = LoadJob { engine: Engine::IoUring, depth: 8, read_share: 0.5, uring, ..bounded_job(200) };
        assert_eq!(run_and_check(&job, &files).operations(), 200, "{uring:?}");
    }
}

#[test]
fn open_loops_record_latencies_from_start_and_intended_start() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let mut engines = vec![(Engine::Sync, 1)];
    if has_uring() {
        engines.push((Engine::IoUring, 4));
    }
    for (engine, depth) in engines {
        for arrivals in [Arrivals::Poisson, Arrivals::Fixed] {
            let rate = Some(Rate { per_s: 20_000.0, arrivals });
            let job = LoadJob { engine, depth, rate, threads: 2, ..bounded_job(1000) };
            let outcome = run_and_check(&job, &files);
            let corrected = outcome.corrected_latency.as_ref().unwrap();
            assert_eq!((outcome.latency.len(), corrected.len()), (1000, 1000));
            // An operation cannot start before it is meant to.
            assert!(corrected.mean() >= outcome.latency.mean() * 0.999);
            assert_eq!(outcome.readings().get("asked_iops_per_s"), Some(20_000.0));
        }
    }
}

#[test]
fn a_stall_shows_in_the_corrected_latency() {
    // The rate is far above that of any machine: all operations are due within about 20 µs, and each waits for the earlier
    // ones.
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let rate = Some(Rate { per_s: 1e9, arrivals: Arrivals::Fixed });
    let outcome = run_and_check(&LoadJob { rate, ..bounded_job(20_000) }, &files);
    let corrected = outcome.corrected_latency.as_ref().unwrap();
    assert!(corrected.value_at_quantile(0.5) > 10 * outcome.latency.value_at_quantile(0.5));
}

#[test]
fn every_reading_of_an_outcome_is_defined() {
    let dir = tempfile::tempdir().unwrap();
    let files = prepare_files(dir.path(), 1, 64, false);
    let job = LoadJob { read_share: 0.5, ..bounded_job(1000) };
    let readings = run_and_check(&job, &files).readings();
    for id in readings.0.keys() {
        assert!(readings::reading_defs().any(|def| def.id == id), "{id}");
    }
    assert_eq!(readings.get("all_operations_count"), Some(1000.0));
    let total = readings.get("read_operations_count").unwrap() + readings.get("write_operations_count").unwrap();
    assert_eq!(total, 1000.0);
    assert!(readings.get("all_latency_p50_ns").unwrap() <= readings.get("all_latency_max_ns").unwrap());
}
