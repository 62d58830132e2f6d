//! Measures the cost of messages, clocks, barriers and merging on these machines. From these constants, the guide estimates
//! the cost of a job of 10,000 ranks.

use crate::agent;
use crate::merge::{ClientSample, merge, specs};
use crate::wire::{self, ClockOffset, FromRank, Machine, ToRank, Wire};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{latency::Latencies, series::Point};
use fsarena_run::registry;
use fsarena_sys::{cpu::Cpu, kernel::SysRoot};
use std::time::{Duration, Instant};

/// The numbers of readings, points and different latencies in a typical sample of the load engine.
const READINGS: usize = 60;
const POINTS: u32 = 60;
const LATENCIES: u64 = 300;
/// The time that the other ranks wait in the barrier for rank 0.
const BARRIER_WAIT: Duration = Duration::from_secs(3);
/// Time limit for the answers of all ranks.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);
/// The number of samples that [`merge_costs`] merges, as rank 0 does in a job of this many ranks.
const MANY: usize = 10_000;

/// Waits in the barrier, asleep or polling, and returns the CPU time of the wait and the memory of this process.
pub fn barrier(wire: &dyn Wire, asleep: bool) -> FromRank {
    let before = cpu_s();
    if asleep {
        let _ = wire.barrier(WAIT_TIMEOUT);
    } else {
        wire.barrier_awake();
    }
    FromRank::Barrier(cpu_s() - before, memory())
}

/// Measures everything on rank 0 and returns a line of text for each constant.
pub fn report(wire: &dyn Wire) -> Vec<String> {
    let ranks = wire.size();
    let mut lines = vec![format!("ranks: {ranks}")];
    // The first message of each rank shows that it is ready.
    receive_answers(wire, |_| ());
    if ranks > 1 {
        lines.push(clock_offsets(wire));
        lines.push(round_trips(wire));
        lines.extend([true, false].map(|asleep| barrier_costs(wire, asleep)));
    }
    let sample = typical_sample();
    let bytes = serde_json::to_vec(&FromRank::Sample(Box::new(sample.clone()))).map_or(0, |text| text.len());
    lines.push(format!("sample of one client: {bytes} bytes"));
    lines.push(merge_costs(&sample, bytes));
    lines
}

/// Measures the time to find the clock offset of a rank, and the largest offset.
fn clock_offsets(wire: &dyn Wire) -> String {
    let begun = Instant::now();
    let all: Vec<ClockOffset> = (1..wire.size()).map(|rank| wire::measure_clock_offset(wire, rank)).collect();
    let each_ms = begun.elapsed().as_secs_f64() * 1e3 / all.len() as f64;
    let offset_us = 1e6 * all.iter().map(|offset| offset.ahead_s.abs()).fold(0.0, f64::max);
    let error_us = 1e6 * all.iter().map(|offset| offset.error_s).fold(0.0, f64::max);
    let outside = all.iter().filter(|offset| offset.ahead_s.abs() > offset.error_s + 1e-6).count();
    format!(
        "clock: {each_ms:.2} ms a rank; largest offset {offset_us:.1} us, largest error {error_us:.1} us, {outside} offsets \
         beyond their error"
    )
}

/// Measures the time to send a message to all ranks and to receive all answers.
fn round_trips(wire: &dyn Wire) -> String {
    const TIMES: u32 = 20;
    let begun = Instant::now();
    for _ in 0..TIMES {
        for rank in 1..wire.size() {
            wire::send_to_worker(wire, rank, &ToRank::Echo(vec![]));
        }
        receive_answers(wire, |_| ());
    }
    let ms = begun.elapsed().as_secs_f64() * 1e3 / f64::from(TIMES);
    format!("ask and answer of all ranks: {ms:.2} ms, {:.1} us a rank", 1e3 * ms / f64::from(wire.size() - 1))
}

/// Receives one answer of every other rank and passes it to `take`.
fn receive_answers(wire: &dyn Wire, mut take: impl FnMut(FromRank)) {
    let mut missing = wire.size() - 1;
    wire::poll_until(WAIT_TIMEOUT, || {
        while let Some((_, message)) = wire::receive_from_worker(wire) {
            take(message);
            missing -= 1;
        }
        (missing == 0).then_some(())
    });
}

/// Measures the CPU time and memory of a rank that waits in the barrier for rank 0.
fn barrier_costs(wire: &dyn Wire, asleep: bool) -> String {
    for rank in 1..wire.size() {
        wire::send_to_worker(wire, rank, &ToRank::Barrier(asleep));
    }
    std::thread::sleep(BARRIER_WAIT);
    let _ = barrier(wire, asleep);
    let (mut cpu, mut memory) = (0.0, 0);
    receive_answers(wire, |message| {
        if let FromRank::Barrier(s, bytes) = message {
            cpu += s;
            memory += bytes;
        }
    });
    let others = f64::from(wire.size() - 1);
    let how = if asleep { "asleep" } else { "awake" };
    let (cpu, memory) = (cpu / others, memory as f64 / others / f64::from(1 << 20));
    format!("barrier, {how}: {cpu:.3} s of CPU a rank in {BARRIER_WAIT:?}; memory of a rank {memory:.1} MiB")
}

/// Measures the time and memory to parse and merge the samples of [`MANY`] clients.
fn merge_costs(sample: &Sample, bytes: usize) -> String {
    let (machine, specs) = (Machine::here(), specs());
    let text = serde_json::to_vec(sample).unwrap_or_default();
    let begun = Instant::now();
    let samples: Vec<Sample> = (0..MANY).filter_map(|_| serde_json::from_slice(&text).ok()).collect();
    let read = begun.elapsed();
    let clock = ClockOffset::default();
    let parts: Vec<ClientSample> =
        samples.iter().map(|sample| ClientSample { machine: &machine, clock, sample }).collect();
    let merged = merge(&parts, &specs);
    format!(
        "samples of {MANY} clients: {:.1} MB, read in {:.2} s, merged in {:.2} s to {} readings; memory {:.0} MiB",
        (bytes * MANY) as f64 / 1e6,
        read.as_secs_f64(),
        (begun.elapsed() - read).as_secs_f64(),
        merged.readings.0.len(),
        memory() as f64 / f64::from(1 << 20)
    )
}

/// A partial sample of the size of those of the load engine.
fn typical_sample() -> Sample {
    let mut readings = Readings::default();
    let value = |at: usize| 1e9 / (at as f64 + 7.0);
    for (at, def) in registry::readings().take(READINGS).enumerate() {
        readings.set(def.id, value(at));
    }
    let point = |at: u32| Point {
        start_s: f64::from(at) / 10.0,
        length_s: 0.1,
        warm_up: at < 5,
        operations: 12_345,
        bytes: 12_345 << 12,
        latency: None,
    };
    let task =
        TaskInfo { id: TaskId::new("write-own"), title: "Write".into(), number: None, in_totals: true };
    agent::partial_sample(Sample {
        task,
        started_at: wire::wall_clock_s(),
        readings,
        series: (0..POINTS).map(point).collect(),
        latencies: Latencies::new((0..LATENCIES).map(|at| (1000 + at * at * 50, 1 + at))),
    })
}

/// CPU time of this process, in seconds.
fn cpu_s() -> f64 {
    Cpu::of_this_process().total_ns() as f64 / 1e9
}

/// Memory of this process in bytes, with its share of shared pages (PSS).
fn memory() -> u64 {
    SysRoot::host().bytes("proc/self/smaps_rollup", "Pss:").unwrap_or(0)
}
