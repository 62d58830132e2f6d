//! The events and their ring buffers, one of each kind a CPU.

use crate::trace::tracefs::{Tracefs, Tracepoint, not_permitted};
use crate::trace::{Unavailable, decode::Decoder, options::Options};
use fsarena_sys::kernel::{SysRoot, cpu_list};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use std::io;

/// Bytes that all buffers together should take, whatever the number of CPUs.
const BUDGET: usize = 64 << 20;
/// Bytes of the largest buffer of a CPU. A beginning with its chain takes about 300.
const LARGEST: usize = 4 << 20;
const SMALLEST: usize = 256 << 10;

/// One event on one CPU, with its buffer.
pub struct Ring {
    /// The CPU.
    pub cpu: u32,
    /// How to read its records.
    pub decoder: Decoder,
    /// The buffer.
    pub sampler: Sampler,
}

/// All events.
pub struct Rings {
    /// In the order in which they are switched on: ends of waits before beginnings, so that no beginning
    /// lacks its end.
    pub rings: Vec<Ring>,
    /// The event that the clock samples count.
    pub cpu_event: Option<&'static str>,
}

/// Opens the events on every CPU, for all processes.
///
/// It does not open them per process: an event that follows new threads (`inherit`) may have a buffer only if it is
/// bound to one CPU. That would take events × threads × CPUs, and would miss threads that start meanwhile. The reader
/// instead selects the processes by the process number in each record.
///
/// # Errors
/// What this kernel or user lacks.
pub fn open(kernel: &SysRoot, options: &Options) -> Result<Rings, Unavailable> {
    let locks = options.locks.then(|| Locks::find(kernel)).transpose()?;
    let cpus = online(kernel)?;
    let largest = ring_bytes(cpus.len());
    let opener = Opener { kernel, cpus: &cpus, largest };

    let mut rings = vec![];
    if let Some(Locks { end: (end, decoder), .. }) = &locks {
        rings.extend(opener.on_every_cpu(&tracepoint(end, options), *decoder, largest / 4)?);
    }
    let mut cpu_event = None;
    if options.cpu_samples_hz > 0 {
        let (clock, name) = clock(kernel, options, cpus[0]);
        let bytes = if options.stacks { largest } else { largest / 4 };
        rings.extend(opener.on_every_cpu(&clock, Decoder::Cpu, bytes)?);
        cpu_event = Some(name);
    }
    if let Some(Locks { begin: (begin, decoder), .. }) = &locks {
        let mut begins = tracepoint(begin, options);
        // One event is enough to report new processes.
        begins.sample(SampleFlag::CALLCHAIN).task(true);
        rings.extend(opener.on_every_cpu(&begins, *decoder, largest)?);
    }
    Ok(Rings { rings, cpu_event })
}

/// The tracepoints around waits for locks, each with the decoder of its records.
struct Locks {
    begin: (Tracepoint, Decoder),
    end: (Tracepoint, Decoder),
}

impl Locks {
    fn find(kernel: &SysRoot) -> Result<Locks, Unavailable> {
        let tracefs = Tracefs::find(kernel)?;
        let begin = tracefs.tracepoint(kernel, "contention_begin")?;
        let end = tracefs.tracepoint(kernel, "contention_end")?;
        let of_begin = Decoder::Begin { lock: begin.field("lock_addr")?, flags: begin.field("flags")? };
        let of_end = Decoder::End { lock: end.field("lock_addr")?, ret: end.field("ret")? };
        Ok(Locks { begin: (begin, of_begin), end: (end, of_end) })
    }
}

/// What every event has in common: records begin, or end, with task and time of a clock that this program
/// reads too.
fn common(builder: &mut Builder<'static>, options: &Options) {
    builder.any_pid().include_kernel().sample(SampleFlag::TID | SampleFlag::TIME).sample_id_all(true);
    builder.clockid(Clock::MONOTONIC).exclude_callchain_user(!options.user_chains);
}

fn tracepoint(tracepoint: &Tracepoint, options: &Options) -> Builder<'static> {
    let mut builder = Builder::new(perf_event::events::Tracepoint::with_id(tracepoint.id));
    common(&mut builder, options);
    builder.sample(SampleFlag::RAW).sample_period(1);
    builder
}

/// CPU cycles, or a timer where the machine does not count them, as most virtual ones do not.
fn clock(kernel: &SysRoot, options: &Options, cpu: usize) -> (Builder<'static>, &'static str) {
    let limit = kernel.fact("proc/sys/kernel/perf_event_max_sample_rate").and_then(|text| text.parse().ok());
    let hz = options.cpu_samples_hz.min(limit.unwrap_or(u32::MAX));
    let sampled = |mut builder: Builder<'static>| {
        common(&mut builder, options);
        builder.exclude_idle(true).sample(SampleFlag::CALLCHAIN).sample_frequency(hz.into());
        builder
    };
    let mut cycles = sampled(Builder::new(Hardware::CPU_CYCLES));
    match cycles.one_cpu(cpu).build() {
        Ok(_) => (cycles, "cycles"),
        Err(_) => (sampled(Builder::new(Software::CPU_CLOCK)), "cpu-clock"),
    }
}

struct Opener<'a> {
    kernel: &'a SysRoot,
    cpus: &'a [usize],
    largest: usize,
}

impl Opener<'_> {
    fn on_every_cpu(
        &self,
        event: &Builder<'static>,
        decoder: Decoder,
        bytes: usize,
    ) -> Result<Vec<Ring>, Unavailable> {
        let mut rings = vec![];
        for &cpu in self.cpus {
            let mut event = event.clone();
            let counter = match event.one_cpu(cpu).wakeup_watermark(bytes / 4).build() {
                Ok(counter) => counter,
                // It went offline just now.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(self.refused("opening a perf event", cpu, error)),
            };
            let sampler =
                counter.sampled(bytes).map_err(|error| self.refused("mapping a ring buffer", cpu, error))?;
            rings.push(Ring { cpu: cpu as u32, decoder, sampler });
        }
        Ok(rings)
    }

    fn refused(&self, doing: &'static str, cpu: usize, source: io::Error) -> Unavailable {
        match source.raw_os_error() {
            // Seccomp filters of containers answer like a kernel without perf events, or with EPERM.
            Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => not_permitted(self.kernel, doing, source),
            _ => Unavailable::Refused { doing, cpu, mib: (self.largest * 3 / 2) >> 20, source },
        }
    }
}

/// Bytes of the buffer for beginnings; the others have a quarter of it.
fn ring_bytes(cpus: usize) -> usize {
    let fair = BUDGET / cpus.max(1);
    let power_of_two = (fair + 1).next_power_of_two() / 2;
    power_of_two.clamp(SMALLEST, LARGEST)
}

/// The CPUs that are online: `0-3,8`.
fn online(kernel: &SysRoot) -> Result<Vec<usize>, Unavailable> {
    let rel = "sys/devices/system/cpu/online";
    let unreadable =
        |why: String| Unavailable::Unreadable { what: kernel.path(rel).display().to_string(), why };
    let text = kernel.read(rel).map_err(|error| unreadable(error.to_string()))?;
    cpu_list(text.trim()).ok_or_else(|| unreadable(format!("expected a list of CPUs, found {text:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges_and_gaps() {
        assert_eq!(cpu_list("0"), Some(vec![0]));
        assert_eq!(cpu_list("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for bad in ["", "a", "0-", "3-1"] {
            assert_eq!(cpu_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn buffers_are_powers_of_two_that_many_cpus_share() {
        assert_eq!(ring_bytes(2), 4 << 20);
        assert_eq!(ring_bytes(16), 4 << 20);
        assert_eq!(ring_bytes(17), 2 << 20);
        assert_eq!(ring_bytes(64), 1 << 20);
        assert_eq!(ring_bytes(4096), 256 << 10);
    }
}
