//! Minimal loops that perform the same operations as the engine, without its clock, histograms and random choices.

use crate::scratch::{Failure, in_memory};
use crate::table::Run;
use io_uring::{IoUring, opcode};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::time::{Duration, Instant};
use std::{fs::File, os::unix::fs::FileExt, path::Path};

/// CPU time of this process or of its ended children so far, in nanoseconds: user time, and user plus system time.
pub fn cpu_ns(whose: libc::c_int) -> (f64, f64) {
    // SAFETY: an all-zero rusage is valid, and getrusage only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    (ns(usage.ru_utime), ns(usage.ru_utime) + ns(usage.ru_stime))
}

/// Measures the time and CPU time of `work` in this process; `work` returns its number of operations.
pub fn measured(work: impl FnOnce() -> Result<u64, Failure>) -> Result<Option<Run>, Failure> {
    let (user, all) = cpu_ns(libc::RUSAGE_SELF);
    let begun = Instant::now();
    let operations = work()? as f64;
    let elapsed = begun.elapsed().as_secs_f64();
    let (user_after, all_after) = cpu_ns(libc::RUSAGE_SELF);
    Ok(Some(Run {
        per_s: operations / elapsed,
        cpu_ns: (all_after - all) / operations,
        user_ns: (user_after - user) / operations,
    }))
}

/// Performs random `pread`s for some seconds; reads the clock after every 1024 calls.
pub fn pread(path: &Path, bytes: u64, seconds: f64) -> Result<Option<Run>, Failure> {
    let file = File::open(path)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut block = vec![0; 4096];
    measured(|| {
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut operations = 0;
        while Instant::now() < until {
            for _ in 0..1024 {
                let at = rng.random_range(0..bytes / 4096) * 4096;
                file.read_exact_at(&mut block, at)?;
            }
            operations += 1024;
        }
        Ok(operations)
    })
}

/// Creates and removes `names` files, at the same depth as the engine.
pub fn create_unlink(names: u32) -> Result<Option<Run>, Failure> {
    let dir = in_memory()?;
    let below = dir.path().join("fsarena-meta/t0");
    std::fs::create_dir_all(&below)?;
    let names: Vec<_> = (0..names).map(|number| below.join(format!("f.0.{number}"))).collect();
    measured(|| {
        for name in &names {
            File::create_new(name)?;
        }
        for name in &names {
            std::fs::remove_file(name)?;
        }
        Ok(2 * names.len() as u64)
    })
}

/// NOPs with distinct user data through a ring of depth `depth`: the best of three rounds, as in the engine's
/// calibration.
pub fn nops(depth: u32) -> Result<Option<Run>, Failure> {
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth)?;
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begun = Instant::now();
        for _ in 0..20_000 / depth {
            for slot in 0..depth {
                let entry = opcode::Nop::new().build().user_data(slot.into());
                // SAFETY: a NOP has no buffers.
                unsafe { ring.submission().push(&entry)? };
            }
            ring.submit_and_wait(depth as usize)?;
            for done in ring.completion() {
                std::hint::black_box((done.user_data(), done.result()));
            }
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(20_000 / depth * depth));
    }
    Ok(Some(Run { per_s: 1e9 / best, cpu_ns: 0.0, user_ns: 0.0 }))
}
