//! The contenders besides the engine: minimal loops that perform the same operations without its clock, histograms and random
//! choices, and other load generators, unmodified.

use crate::scratch::{Failure, LOOP_BYTES, dir_in_memory};
use crate::table::Figures;
use io_uring::{IoUring, opcode};
use rand::{RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};
use std::time::{Duration, Instant};
use std::{fs::File, os::unix::fs::FileExt, path::Path, process::Command};

/// CPU time of this process or of its ended children so far, in nanoseconds: user time, and user plus system time.
fn cpu_ns(whose: libc::c_int) -> (f64, f64) {
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
fn measure(work: impl FnOnce() -> Result<u64, Failure>) -> Result<Option<Figures>, Failure> {
    let (user_before, total_before) = cpu_ns(libc::RUSAGE_SELF);
    let start = Instant::now();
    let operations = work()? as f64;
    let elapsed_s = start.elapsed().as_secs_f64();
    let (user_after, total_after) = cpu_ns(libc::RUSAGE_SELF);
    Ok(Some(Figures {
        operations_per_s: operations / elapsed_s,
        cpu_ns: (total_after - total_before) / operations,
        user_ns: (user_after - user_before) / operations,
    }))
}

/// A loop of random `pread`s of 4 KiB for some seconds, which reads the clock after every 1024 calls.
pub fn bare_pread_loop(path: &Path, bytes: u64, seconds: f64) -> Result<Option<Figures>, Failure> {
    let file = File::open(path)?;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut block = vec![0; 4096];
    measure(|| {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut operations = 0;
        while Instant::now() < end {
            for _ in 0..1024 {
                let offset = rng.random_range(0..bytes / 4096) * 4096;
                file.read_exact_at(&mut block, offset)?;
            }
            operations += 1024;
        }
        Ok(operations)
    })
}

/// A loop that creates and removes `file_count` files, in a directory at the same depth as the engine's.
pub fn bare_create_unlink_loop(file_count: u32) -> Result<Option<Figures>, Failure> {
    let dir = dir_in_memory()?;
    let leaf = dir.path().join("fsarena-meta/t0");
    std::fs::create_dir_all(&leaf)?;
    let names: Vec<_> = (0..file_count).map(|number| leaf.join(format!("f.0.{number}"))).collect();
    measure(|| {
        for name in &names {
            File::create_new(name)?;
        }
        for name in &names {
            std::fs::remove_file(name)?;
        }
        Ok(2 * names.len() as u64)
    })
}

/// A loop of NOPs with distinct user data through a ring of depth `depth`: the best of three rounds, as in the engine's
/// calibration.
pub fn bare_nop_loop(depth: u32) -> Result<Option<Figures>, Failure> {
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(depth)?;
    let mut best_ns = f64::INFINITY;
    for _ in 0..3 {
        let start = Instant::now();
        for _ in 0..20_000 / depth {
            for slot in 0..depth {
                let entry = opcode::Nop::new().build().user_data(slot.into());
                // SAFETY: a NOP has no buffers.
                unsafe { ring.submission().push(&entry)? };
            }
            ring.submit_and_wait(depth as usize)?;
            for completion in ring.completion() {
                std::hint::black_box((completion.user_data(), completion.result()));
            }
        }
        best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(20_000 / depth * depth));
    }
    Ok(Some(Figures { operations_per_s: 1e9 / best_ns, cpu_ns: 0.0, user_ns: 0.0 }))
}

/// Runs a program. Returns its output, and its CPU time in nanoseconds: user time, and user plus system time. None if it is not
/// installed.
fn run_program(command: &mut Command) -> Result<Option<(String, f64, f64)>, Failure> {
    let (user_before, total_before) = cpu_ns(libc::RUSAGE_CHILDREN);
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let (user_after, total_after) = cpu_ns(libc::RUSAGE_CHILDREN);
    Ok(Some((String::from_utf8(output.stdout)?, user_after - user_before, total_after - total_before)))
}

/// Random 4 KiB reads of a file by fio with further options.
pub fn fio(path: &Path, seconds: f64, options: &[&str]) -> Result<Option<Figures>, Failure> {
    let mut fio = Command::new("fio");
    // Without `--invalidate=0`, fio drops the file from the page cache first, where all contenders must find it.
    fio.args(["--name=peer", "--rw=randread", "--bs=4k", "--time_based", "--output-format=json"])
        .arg("--invalidate=0")
        .arg(format!("--filename={}", path.display()))
        .arg(format!("--runtime={}ms", (seconds * 1e3) as u64))
        .args(options);
    let Some((output, user_ns, total_ns)) = run_program(&mut fio)? else { return Ok(None) };
    // fio may print a line before its JSON.
    let json = output.find('{').map_or("", |start| &output[start..]);
    let read = &serde_json::from_str::<serde_json::Value>(json)?["jobs"][0]["read"];
    let number = |name: &str| read[name].as_f64().ok_or_else(|| format!("the output of fio has no {name}"));
    let operations = number("total_ios")?;
    Ok(Some(Figures {
        operations_per_s: number("iops")?,
        cpu_ns: total_ns / operations,
        user_ns: user_ns / operations,
    }))
}

/// Random direct 4 KiB reads of `test_file.0` by sysbench.
pub fn sysbench(dir: &Path, seconds: f64, threads: u32) -> Result<Option<Figures>, Failure> {
    let mut sysbench = Command::new("sysbench");
    sysbench
        .current_dir(dir)
        .args(["fileio", "--file-num=1", "--file-block-size=4096", "--file-test-mode=rndrd"])
        .args(["--file-extra-flags=direct", "--events=0"])
        .arg(format!("--file-total-size={LOOP_BYTES}"))
        .arg(format!("--time={}", seconds.ceil()))
        .arg(format!("--threads={threads}"))
        .arg("run");
    let Some((output, user_ns, total_ns)) = run_program(&mut sysbench)? else { return Ok(None) };
    let number_after = |label: &str| -> Result<f64, Failure> {
        let rest = output.split(label).nth(1).ok_or_else(|| format!("the output of sysbench has no {label}"))?;
        Ok(rest.split_whitespace().next().unwrap_or("").parse()?)
    };
    let operations = number_after("total number of events:")?;
    Ok(Some(Figures {
        operations_per_s: number_after("reads/s:")?,
        cpu_ns: total_ns / operations,
        user_ns: user_ns / operations,
    }))
}
