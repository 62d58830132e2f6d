//! The rows of the comparison and their contenders.

use crate::contenders;
use crate::scratch::{CachedFile, Failure, FileOnLoop, LARGE_BYTES, SMALL_BYTES, dir_in_memory};
use crate::table::{Figures, Row};
use fsarena_engine::meta::{self, Operation};
use fsarena_engine::{self as engine, Bound, Engine, Files, LoadJob, Warmup};
use std::rc::Rc;

/// The length of one run in seconds.
const SECONDS: f64 = 2.0;

/// Makes a row with its contenders from its title.
type MakeRow = fn(&'static str) -> Result<Row<'static>, Failure>;

/// The title of every row, and the function that makes it.
pub const ROWS: &[(&str, MakeRow)] = &[
    ("cached 4 KiB random pread, 1 thread", |title| cached_pread(title, SMALL_BYTES, [0.9, 1.5])),
    ("cached 4 KiB random pread of 256 MiB, 1 thread", |title| cached_pread(title, LARGE_BYTES, [0.95, 1.0])),
    ("cached 4 KiB random reads, io_uring, depth 32", |title| cached_uring(title, SMALL_BYTES, [1.5, 1.0])),
    ("cached 4 KiB random reads of 256 MiB, io_uring, depth 32", |title| cached_uring(title, LARGE_BYTES, [1.0, 1.0])),
    ("4 KiB direct random reads on a loop image, io_uring, depth 32", |title| direct_uring(title, 1)),
    ("4 KiB direct random reads on a loop image, io_uring, depth 32, 16 completions a wait", |title| {
        direct_uring(title, 16)
    }),
    ("4 KiB direct random reads on a loop image, 128 threads", direct_threads),
    ("NOP ring, batch 32", nop_ring),
    ("create and unlink 100,000 files in memory, 1 thread", create_unlink),
];

/// The job with a length of [`SECONDS`] and without a warm-up.
fn timed(job: LoadJob) -> LoadJob {
    LoadJob { bound: Bound::Seconds(SECONDS), warmup: Warmup::None, ..job }
}

/// Runs a job of the engine.
fn run_engine(job: &LoadJob, files: &Files) -> Result<Option<Figures>, Failure> {
    let outcome = engine::run(job, files, &mut |_| {})?;
    let operations = outcome.operations() as f64;
    let (user, system) = (outcome.cpu.user_ns as f64, outcome.cpu.system_ns as f64);
    Ok(Some(Figures {
        operations_per_s: operations / (outcome.elapsed_ns as f64 / 1e9),
        cpu_ns: (user + system) / operations,
        user_ns: user / operations,
    }))
}

fn cached_pread(title: &'static str, bytes: u64, min_ratios: [f64; 2]) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(CachedFile::new(bytes)?);
    let [of_engine, of_bare_loop, of_fio] = std::array::from_fn(|_| Rc::clone(&cached));
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena sync, every latency", Box::new(move || run_engine(&timed(LoadJob::default()), &of_engine.files))),
            (
                "bare pread loop",
                Box::new(move || contenders::bare_pread_loop(&of_bare_loop.files.paths()[0], bytes, SECONDS)),
            ),
            (
                "fio psync, default statistics",
                Box::new(move || contenders::fio(&of_fio.files.paths()[0], SECONDS, &["--ioengine=psync"])),
            ),
        ],
        min_ratios: min_ratios.into(),
    })
}

/// The fio options for its highest throughput.
const FIO_TUNED: &[&str] = &[
    "--ioengine=io_uring",
    "--iodepth=32",
    "--gtod_reduce=1",
    "--norandommap",
    "--iodepth_batch_submit=32",
    "--iodepth_batch_complete_min=32",
];

/// A timed job of random reads by io_uring with depth 32.
fn uring_job() -> LoadJob {
    timed(LoadJob { engine: Engine::IoUring, depth: 32, ..LoadJob::default() })
}

fn cached_uring(title: &'static str, bytes: u64, min_ratios: [f64; 2]) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(CachedFile::new(bytes)?);
    let [of_engine, of_default_fio, of_tuned_fio] = std::array::from_fn(|_| Rc::clone(&cached));
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena io_uring, every latency", Box::new(move || run_engine(&uring_job(), &of_engine.files))),
            (
                "fio io_uring, default",
                Box::new(move || {
                    let options = ["--ioengine=io_uring", "--iodepth=32"];
                    contenders::fio(&of_default_fio.files.paths()[0], SECONDS, &options)
                }),
            ),
            (
                "fio io_uring, tuned, no latencies",
                Box::new(move || contenders::fio(&of_tuned_fio.files.paths()[0], SECONDS, FIO_TUNED)),
            ),
        ],
        min_ratios: min_ratios.into(),
    })
}

/// The job with direct I/O.
fn direct(mut job: LoadJob) -> LoadJob {
    job.open.direct = true;
    job
}

/// Both contenders wait for `batch` completions in one system call, after which they submit the same number of operations.
fn direct_uring(title: &'static str, batch: u32) -> Result<Row<'static>, Failure> {
    let on_loop = Rc::new(FileOnLoop::new()?);
    let [of_engine, of_fio] = std::array::from_fn(|_| Rc::clone(&on_loop));
    let job = direct(LoadJob { batch, ..uring_job() });
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena io_uring", Box::new(move || run_engine(&job, &of_engine.files))),
            (
                "fio io_uring",
                Box::new(move || {
                    let min_batch = format!("--iodepth_batch_complete_min={batch}");
                    let options = ["--ioengine=io_uring", "--iodepth=32", "--direct=1", &min_batch];
                    contenders::fio(&of_fio.files.paths()[0], SECONDS, &options)
                }),
            ),
        ],
        min_ratios: vec![1.0],
    })
}

fn direct_threads(title: &'static str) -> Result<Row<'static>, Failure> {
    let on_loop = Rc::new(FileOnLoop::new()?);
    let [of_engine, of_sysbench] = std::array::from_fn(|_| Rc::clone(&on_loop));
    Ok(Row {
        title,
        contenders: vec![
            (
                "fsarena sync",
                Box::new(move || {
                    run_engine(&direct(timed(LoadJob { threads: 128, ..LoadJob::default() })), &of_engine.files)
                }),
            ),
            (
                "sysbench fileio (user: goal ≤ 0.7)",
                Box::new(move || {
                    let dir = of_sysbench.files.paths()[0].parent().ok_or("a file lies in a directory")?;
                    contenders::sysbench(dir, SECONDS, 128)
                }),
            ),
        ],
        min_ratios: vec![1.0],
    })
}

fn nop_ring(title: &'static str) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(CachedFile::new(SMALL_BYTES)?);
    let job = LoadJob { bound: Bound::Operations(1), ..uring_job() };
    Ok(Row {
        title,
        contenders: vec![
            (
                "fsarena's calibration",
                Box::new(move || {
                    let outcome = engine::run(&job, &cached.files, &mut |_| {})?;
                    let nop_ns = outcome.calibration.ring_nop_ns.ok_or("io_uring has a NOP calibration")?;
                    Ok(Some(Figures { operations_per_s: 1e9 / nop_ns, cpu_ns: 0.0, user_ns: 0.0 }))
                }),
            ),
            ("bare NOP loop", Box::new(|| contenders::bare_nop_loop(32))),
        ],
        min_ratios: vec![1.0 / 1.1],
    })
}

/// The number of files that are created and removed.
const FILE_COUNT: u32 = 100_000;

fn create_unlink(title: &'static str) -> Result<Row<'static>, Failure> {
    let run_engine = || {
        let dir = dir_in_memory()?;
        let phases = vec![Operation::Create, Operation::Unlink];
        let job = meta::MetaJob { phases, names: FILE_COUNT, ..Default::default() };
        let (mut elapsed_s, mut user_ns, mut system_ns, mut operations) = (0.0, 0.0, 0.0, 0.0);
        for (_, outcome) in meta::run(&job, dir.path(), &mut |_, _| {})? {
            elapsed_s += outcome.elapsed_ns as f64 / 1e9;
            user_ns += outcome.cpu.user_ns as f64;
            system_ns += outcome.cpu.system_ns as f64;
            operations += outcome.operations() as f64;
        }
        Ok(Some(Figures {
            operations_per_s: operations / elapsed_s,
            cpu_ns: (user_ns + system_ns) / operations,
            user_ns: user_ns / operations,
        }))
    };
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena, every latency", Box::new(run_engine)),
            ("bare loop", Box::new(|| contenders::bare_create_unlink_loop(FILE_COUNT))),
        ],
        min_ratios: vec![0.95],
    })
}
