//! Measures the cost of messages, clocks, barriers and merging on these machines. The user guide estimates the cost of a job
//! of 10,000 ranks from these measured costs.

use crate::agent;
use crate::merge::{ClientSample, built_in_specs, merge_samples};
use crate::wire::{self, BarrierWait, ClockOffset, FromRank, Machine, ToRank, Wire};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{latency::LatencyHistogram, series::SeriesPoint};
use fsarena_run::{RunError, registry};
use fsarena_sys::{cpu::CpuTime, kernel::SysRoot};
use std::time::{Duration, Instant};

/// The number of readings in a typical sample of the load engine.
const TYPICAL_READINGS: usize = 60;
/// The number of points of the time series in such a sample.
const TYPICAL_POINTS: u32 = 60;
/// The number of different latencies in such a sample.
const TYPICAL_LATENCIES: u64 = 300;
/// The time that the other ranks wait in the barrier for rank 0.
const BARRIER_WAIT: Duration = Duration::from_secs(3);
/// Time limit for the answers of all ranks.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);
/// The number of samples that [`measure_merge_costs`] merges, as rank 0 does in a job of this many ranks.
const MERGED_CLIENTS: usize = 10_000;

/// The work of a worker for [`ToRank::Barrier`]: waits in the barrier and returns the CPU time of the wait and the
/// memory of this process.
pub fn measure_barrier(wire: &dyn Wire, wait: BarrierWait) -> FromRank {
    let before = own_cpu_s();
    // Rank 0 waits in the same barrier and reports a timeout.
    let _ = wait_in_barrier(wire, wait);
    FromRank::Barrier(own_cpu_s() - before, own_memory_bytes())
}

/// Waits until all ranks are at the barrier. Returns false on timeout.
fn wait_in_barrier(wire: &dyn Wire, wait: BarrierWait) -> bool {
    match wait {
        BarrierWait::Asleep => wire.barrier(WAIT_TIMEOUT),
        BarrierWait::Awake => wire.barrier_awake(WAIT_TIMEOUT),
    }
}

/// Measures everything on rank 0 and returns a line of text for each cost. If a rank does not answer or come to a
/// barrier in time, the result is its error, and the lines after it about messages and barriers are missing.
pub fn measure_all(wire: &dyn Wire) -> (Vec<String>, Result<(), RunError>) {
    let mut lines = vec![format!("ranks: {}", wire.size())];
    let result = measure_communication(wire, &mut lines).map_err(RunError::Missing);
    let sample = typical_sample();
    let bytes = serde_json::to_vec(&FromRank::Sample(Box::new(sample.clone()))).map_or(0, |text| text.len());
    lines.push(format!("sample of one client: {bytes} bytes"));
    lines.push(measure_merge_costs(&sample, bytes));
    (lines, result)
}

/// Measures clocks, messages and barriers, and adds a line for each.
fn measure_communication(wire: &dyn Wire, lines: &mut Vec<String>) -> Result<(), String> {
    // The first message of each rank shows that it is ready.
    receive_answers(wire, WAIT_TIMEOUT, |_| ())?;
    if wire.size() > 1 {
        lines.push(measure_all_clock_offsets(wire)?);
        lines.push(measure_round_trips(wire)?);
        lines.push(measure_barrier_costs(wire, BarrierWait::Asleep)?);
        lines.push(measure_barrier_costs(wire, BarrierWait::Awake)?);
    }
    Ok(())
}

/// Measures the time to find the clock offset of a rank, and the largest offset.
fn measure_all_clock_offsets(wire: &dyn Wire) -> Result<String, String> {
    let begun = Instant::now();
    let offset_of = |rank: u32| {
        let offset = wire::measure_clock_offset(wire, rank, WAIT_TIMEOUT);
        offset.ok_or_else(|| format!("rank {rank} sent no time of its clock within {WAIT_TIMEOUT:?}"))
    };
    let offsets: Vec<ClockOffset> = (1..wire.size()).map(offset_of).collect::<Result<_, _>>()?;
    let ms_per_rank = begun.elapsed().as_secs_f64() * 1e3 / offsets.len() as f64;
    let offset_us = 1e6 * offsets.iter().map(|offset| offset.ahead_s.abs()).fold(0.0, f64::max);
    let error_us = 1e6 * offsets.iter().map(|offset| offset.error_s).fold(0.0, f64::max);
    let beyond_error = offsets.iter().filter(|offset| offset.ahead_s.abs() > offset.error_s + 1e-6).count();
    Ok(format!(
        "clock: {ms_per_rank:.2} ms a rank; largest offset {offset_us:.1} us, largest error {error_us:.1} us, {beyond_error} offsets \
         larger than their error"
    ))
}

/// Measures the time to send a message to all ranks and to receive all answers.
fn measure_round_trips(wire: &dyn Wire) -> Result<String, String> {
    const ROUND_TRIPS: u32 = 20;
    let begun = Instant::now();
    for _ in 0..ROUND_TRIPS {
        send_to_each_worker(wire, &ToRank::Echo(vec![]))?;
        receive_answers(wire, WAIT_TIMEOUT, |_| ())?;
    }
    let ms = begun.elapsed().as_secs_f64() * 1e3 / f64::from(ROUND_TRIPS);
    let us_per_rank = 1e3 * ms / f64::from(wire.size() - 1);
    Ok(format!("request and answer of all ranks: {ms:.2} ms, {us_per_rank:.1} us a rank"))
}

/// Sends a message to every other rank.
///
/// # Errors
/// If a rank does not receive it in time.
fn send_to_each_worker(wire: &dyn Wire, message: &ToRank) -> Result<(), String> {
    for rank in 1..wire.size() {
        if !wire::send_to_worker(wire, rank, message, WAIT_TIMEOUT) {
            return Err(format!("rank {rank} received no message within {WAIT_TIMEOUT:?}"));
        }
    }
    Ok(())
}

/// Receives one answer of every other rank and passes it to `handle`.
///
/// # Errors
/// If a rank does not answer in time.
fn receive_answers(wire: &dyn Wire, timeout: Duration, mut handle: impl FnMut(FromRank)) -> Result<(), String> {
    let silent = wire::receive_from_each(wire, timeout, |_, message| handle(message));
    let Some(first) = silent.first() else { return Ok(()) };
    let (count, others) = (silent.len(), wire.size() - 1);
    Err(format!("{count} of {others} ranks sent no answer within {timeout:?}, such as rank {first}"))
}

/// Measures the CPU time and memory of a rank that waits in the barrier for rank 0.
fn measure_barrier_costs(wire: &dyn Wire, wait: BarrierWait) -> Result<String, String> {
    send_to_each_worker(wire, &ToRank::Barrier(wait))?;
    std::thread::sleep(BARRIER_WAIT);
    let all_came = wait_in_barrier(wire, wait);
    let (mut cpu_s, mut memory_bytes) = (0.0, 0);
    receive_answers(wire, WAIT_TIMEOUT, |message| {
        if let FromRank::Barrier(seconds, bytes) = message {
            cpu_s += seconds;
            memory_bytes += bytes;
        }
    })?;
    if !all_came {
        return Err(format!("not all ranks came to the barrier within {WAIT_TIMEOUT:?}"));
    }
    let others = f64::from(wire.size() - 1);
    let how = match wait {
        BarrierWait::Asleep => "asleep",
        BarrierWait::Awake => "awake",
    };
    let (cpu_s, memory_mib) = (cpu_s / others, memory_bytes as f64 / others / f64::from(1 << 20));
    Ok(format!("barrier, {how}: {cpu_s:.3} s of CPU a rank in {BARRIER_WAIT:?}; memory of a rank {memory_mib:.1} MiB"))
}

/// Measures the time and memory to parse and merge the samples of [`MERGED_CLIENTS`] clients.
fn measure_merge_costs(sample: &Sample, message_bytes: usize) -> String {
    let (machine, specs) = (Machine::here(), built_in_specs());
    let text = serde_json::to_vec(sample).unwrap_or_default();
    let begun = Instant::now();
    let samples: Vec<Sample> = (0..MERGED_CLIENTS).filter_map(|_| serde_json::from_slice(&text).ok()).collect();
    let parse_time = begun.elapsed();
    let clock = ClockOffset::default();
    let client_samples: Vec<ClientSample> =
        samples.iter().map(|sample| ClientSample { machine: &machine, clock, sample }).collect();
    let merged = merge_samples(&client_samples, &specs);
    format!(
        "samples of {MERGED_CLIENTS} clients: {:.1} MB, read in {:.2} s, merged in {:.2} s to {} readings; memory {:.0} MiB",
        (message_bytes * MERGED_CLIENTS) as f64 / 1e6,
        parse_time.as_secs_f64(),
        (begun.elapsed() - parse_time).as_secs_f64(),
        merged.readings.0.len(),
        own_memory_bytes() as f64 / f64::from(1 << 20)
    )
}

/// A sample as large as one of the load engine, reduced as a client does before it sends the sample to rank 0.
fn typical_sample() -> Sample {
    let mut readings = Readings::default();
    let value = |index: usize| 1e9 / (index as f64 + 7.0);
    for (index, def) in registry::reading_defs().take(TYPICAL_READINGS).enumerate() {
        readings.set(def.id, value(index));
    }
    let point = |index: u32| SeriesPoint {
        start_s: f64::from(index) / 10.0,
        length_s: 0.1,
        warm_up: index < 5,
        operations: 12_345,
        bytes: 12_345 << 12,
        latency: None,
    };
    let task = TaskInfo { id: TaskId::new("write-own"), title: "Write".into(), number: None, in_totals: true };
    agent::reduce_sample(Sample {
        task,
        started_at: wire::wall_clock_s(),
        readings,
        series: (0..TYPICAL_POINTS).map(point).collect(),
        latencies: LatencyHistogram::new((0..TYPICAL_LATENCIES).map(|index| (1000 + index * index * 50, 1 + index))),
    })
}

/// CPU time of this process, in seconds.
fn own_cpu_s() -> f64 {
    CpuTime::of_this_process().total_ns() as f64 / 1e9
}

/// Memory of this process in bytes, with its share of shared pages (PSS).
fn own_memory_bytes() -> u64 {
    SysRoot::host().bytes_of_line("proc/self/smaps_rollup", "Pss:").unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A job of three ranks with these messages in the queue of rank 0. Rank 2 hangs: every message to it times out.
    struct FakeWire(RefCell<Vec<(u32, FromRank)>>);

    impl Wire for FakeWire {
        fn rank(&self) -> u32 {
            0
        }
        fn size(&self) -> u32 {
            3
        }
        fn send(&self, rank: u32, _: &[u8], _: Duration) -> bool {
            rank != 2
        }
        fn receive(&self) -> Option<(u32, Vec<u8>)> {
            let (rank, message) = self.0.borrow_mut().pop()?;
            Some((rank, serde_json::to_vec(&message).unwrap()))
        }
        fn barrier(&self, _: Duration) -> bool {
            true
        }
        fn barrier_awake(&self, _: Duration) -> bool {
            true
        }
        fn send_time(&self, _: u32, _: f64) {}
        fn receive_time(&self, _: u32, _: Duration) -> Option<f64> {
            None
        }
    }

    /// Receives answers that these ranks have sent. Returns how many were handled, and the result.
    fn receive_answers_of(ranks: &[u32]) -> (usize, Result<(), String>) {
        let answer = |rank: &u32| (*rank, FromRank::Barrier(0.0, 0));
        let wire = FakeWire(RefCell::new(ranks.iter().map(answer).collect()));
        let mut handled = 0;
        let result = receive_answers(&wire, Duration::ZERO, |_| handled += 1);
        (handled, result)
    }

    #[test]
    fn a_rank_that_sends_no_answer_is_an_error_and_further_messages_are_ignored() {
        assert_eq!(receive_answers_of(&[1, 2]), (2, Ok(())));
        assert_eq!(receive_answers_of(&[1, 1, 2, 2]), (2, Ok(())));
        let (handled, result) = receive_answers_of(&[1, 1]);
        assert_eq!(handled, 1);
        assert!(result.unwrap_err().contains("1 of 2 ranks sent no answer within 0ns, such as rank 2"));
    }

    #[test]
    fn a_rank_that_receives_no_message_is_named() {
        let failure = measure_round_trips(&FakeWire(RefCell::default())).unwrap_err();
        assert!(failure.starts_with("rank 2 "), "{failure}");
    }

    #[test]
    fn a_rank_that_sends_no_time_is_named() {
        let failure = measure_all_clock_offsets(&FakeWire(RefCell::default())).unwrap_err();
        assert_eq!(failure, "rank 1 sent no time of its clock within 120s");
    }
}
