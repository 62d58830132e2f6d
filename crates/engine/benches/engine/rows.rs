//! The rows of the comparison and their contenders.

use crate::scratch::{Cached, Failure, LARGE_BYTES, OnLoop, SMALL_BYTES, in_memory};
use crate::table::{Row, Run};
use crate::{bare, peer};
use fsarena_engine::meta::{self, Operation};
use fsarena_engine::{self as engine, Bound, Engine, Files, LoadJob, Warmup};
use std::rc::Rc;

/// The length of one run in seconds.
const SECONDS: f64 = 2.0;

/// Makes the contenders of a row.
type Make = fn(&'static str) -> Result<Row<'static>, Failure>;

/// Every row.
pub const ROWS: &[(&str, Make)] = &[
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

fn timed(job: LoadJob) -> LoadJob {
    LoadJob { bound: Bound::Seconds(SECONDS), warmup: Warmup::None, ..job }
}

fn ours(job: &LoadJob, files: &Files) -> Result<Option<Run>, Failure> {
    let outcome = engine::run(job, files, &mut |_| {})?;
    let operations = outcome.operations() as f64;
    let (user, system) = (outcome.cpu.user_ns as f64, outcome.cpu.system_ns as f64);
    Ok(Some(Run {
        per_s: operations / (outcome.elapsed_ns as f64 / 1e9),
        cpu_ns: (user + system) / operations,
        user_ns: user / operations,
    }))
}

fn cached_pread(title: &'static str, bytes: u64, goals: [f64; 2]) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(Cached::new(bytes)?);
    let [us, bare, psync] = std::array::from_fn(|_| Rc::clone(&cached));
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena sync, every latency", Box::new(move || ours(&timed(LoadJob::default()), &us.files))),
            ("bare pread loop", Box::new(move || bare::pread(&bare.files.paths()[0], bytes, SECONDS))),
            (
                "fio psync, default statistics",
                Box::new(move || peer::fio(&psync.files.paths()[0], SECONDS, &["--ioengine=psync"])),
            ),
        ],
        goals: goals.into(),
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

fn uring() -> LoadJob {
    timed(LoadJob { engine: Engine::IoUring, depth: 32, ..LoadJob::default() })
}

fn cached_uring(title: &'static str, bytes: u64, goals: [f64; 2]) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(Cached::new(bytes)?);
    let [us, default, tuned] = std::array::from_fn(|_| Rc::clone(&cached));
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena io_uring, every latency", Box::new(move || ours(&uring(), &us.files))),
            (
                "fio io_uring, default",
                Box::new(move || {
                    let options = ["--ioengine=io_uring", "--iodepth=32"];
                    peer::fio(&default.files.paths()[0], SECONDS, &options)
                }),
            ),
            (
                "fio io_uring, tuned, no latencies",
                Box::new(move || peer::fio(&tuned.files.paths()[0], SECONDS, FIO_TUNED)),
            ),
        ],
        goals: goals.into(),
    })
}

fn direct(mut job: LoadJob) -> LoadJob {
    job.open.direct = true;
    job
}

/// Both wait for `batch` completions in one system call. The engine then submits as many operations at once.
fn direct_uring(title: &'static str, batch: u32) -> Result<Row<'static>, Failure> {
    let on_loop = Rc::new(OnLoop::new()?);
    let [us, fio] = std::array::from_fn(|_| Rc::clone(&on_loop));
    let job = direct(LoadJob { batch, ..uring() });
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena io_uring", Box::new(move || ours(&job, &us.files))),
            (
                "fio io_uring",
                Box::new(move || {
                    let least = format!("--iodepth_batch_complete_min={batch}");
                    let options = ["--ioengine=io_uring", "--iodepth=32", "--direct=1", &least];
                    peer::fio(&fio.files.paths()[0], SECONDS, &options)
                }),
            ),
        ],
        goals: vec![1.0],
    })
}

fn direct_threads(title: &'static str) -> Result<Row<'static>, Failure> {
    let on_loop = Rc::new(OnLoop::new()?);
    let [us, other] = std::array::from_fn(|_| Rc::clone(&on_loop));
    Ok(Row {
        title,
        contenders: vec![
            (
                "fsarena sync",
                Box::new(move || ours(&direct(timed(LoadJob { threads: 128, ..LoadJob::default() })), &us.files)),
            ),
            (
                "sysbench fileio (user: goal ≤ 0.7)",
                Box::new(move || {
                    let dir = other.files.paths()[0].parent().ok_or("a file lies in a directory")?;
                    peer::sysbench(dir, SECONDS, 128)
                }),
            ),
        ],
        goals: vec![1.0],
    })
}

fn nop_ring(title: &'static str) -> Result<Row<'static>, Failure> {
    let cached = Rc::new(Cached::new(SMALL_BYTES)?);
    let job = LoadJob { bound: Bound::Operations(1), ..uring() };
    Ok(Row {
        title,
        contenders: vec![
            (
                "fsarena's calibration",
                Box::new(move || {
                    let outcome = engine::run(&job, &cached.files, &mut |_| {})?;
                    let nop = outcome.calibration.ring_nop_ns.ok_or("io_uring has a NOP calibration")?;
                    Ok(Some(Run { per_s: 1e9 / nop, cpu_ns: 0.0, user_ns: 0.0 }))
                }),
            ),
            ("bare NOP loop", Box::new(|| bare::nops(32))),
        ],
        goals: vec![1.0 / 1.1],
    })
}

/// Files that are made and removed.
const NAMES: u32 = 100_000;

fn create_unlink(title: &'static str) -> Result<Row<'static>, Failure> {
    let ours = || {
        let dir = in_memory()?;
        let job =
            meta::MetaJob { phases: vec![Operation::Create, Operation::Unlink], names: NAMES, ..Default::default() };
        let outcomes = meta::run(&job, dir.path(), &mut |_, _| {})?;
        let outcomes = outcomes.iter().map(|(_, outcome)| outcome);
        let (mut elapsed, mut user, mut system, mut operations) = (0.0, 0.0, 0.0, 0.0);
        for outcome in outcomes {
            elapsed += outcome.elapsed_ns as f64 / 1e9;
            user += outcome.cpu.user_ns as f64;
            system += outcome.cpu.system_ns as f64;
            operations += outcome.operations() as f64;
        }
        let per = |ns: f64| ns / operations;
        Ok(Some(Run { per_s: operations / elapsed, cpu_ns: per(user + system), user_ns: per(user) }))
    };
    Ok(Row {
        title,
        contenders: vec![
            ("fsarena, every latency", Box::new(ours)),
            ("bare loop", Box::new(|| bare::create_unlink(NAMES))),
        ],
        goals: vec![0.95],
    })
}
