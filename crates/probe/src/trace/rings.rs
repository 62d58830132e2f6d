//! Opens the perf events of a trace with a ring buffer for each event on each CPU.
//!
//! The tracepoints are described in tracefs: fsarena uses a mounted one, or mounts a private one.

use crate::trace::decode::{Decoder, RecordField};
use crate::trace::{TraceError, options::TraceOptions};
use fsarena_sys::kernel::{SysRoot, parse_cpu_list};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, SampleFlag, Sampler};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::io::{self, Read};
use std::{fs::File, os::fd::OwnedFd, path::Path};

/// The intended size of all buffers for the beginnings of waits for locks (`contention_begin`) together, in bytes.
const ALL_RINGS_BYTES: usize = 64 << 20;
/// The largest buffer for one event on one CPU, in bytes. A record of `contention_begin` with its call chain takes about 300
/// bytes.
const LARGEST_RING_BYTES: usize = 4 << 20;
/// The smallest buffer for `contention_begin` on one CPU, in bytes.
const SMALLEST_RING_BYTES: usize = 256 << 10;

/// The ring buffer of one event on one CPU.
pub struct Ring {
    /// The CPU.
    pub cpu: u32,
    /// The decoder of its records.
    pub decoder: Decoder,
    /// The buffer.
    pub sampler: Sampler,
}

/// The ring buffers of all events.
pub struct Rings {
    /// The buffers in the order in which the events are switched on: ends of waits before beginnings, so that no beginning
    /// lacks its end.
    pub rings: Vec<Ring>,
    /// The event whose counter triggers CPU samples; None without them.
    pub cpu_event: Option<&'static str>,
}

/// Opens the events of a trace on every CPU, for all processes.
///
/// The events are not opened per process: an event that follows new threads (`inherit`) may have a buffer only if it is
/// bound to one CPU. That would require events × threads × CPUs buffers, and would miss threads that start meanwhile. Instead
/// the reader selects the processes by the pid in each record.
///
/// # Errors
/// This kernel lacks a feature, or this user a permission.
pub fn open_rings(kernel: &SysRoot, options: &TraceOptions) -> Result<Rings, TraceError> {
    let locks = options.traces_locks.then(|| find_lock_tracepoints(kernel)).transpose()?;
    let cpus = online_cpus(kernel)?;
    let largest_bytes = ring_bytes(cpus.len());
    // A record of `contention_end` has no call chain, so it is smaller.
    let wait_end_bytes = largest_bytes / 4;
    let cpu_sample_bytes = if options.keeps_stacks { largest_bytes } else { largest_bytes / 4 };
    let lock_bytes = if locks.is_some() { largest_bytes + wait_end_bytes } else { 0 };
    let bytes_per_cpu = lock_bytes + if options.cpu_samples_hz > 0 { cpu_sample_bytes } else { 0 };
    let opener = RingOpener { kernel, cpus: &cpus, bytes_per_cpu };

    let mut rings = vec![];
    if let Some([_, (end, decoder)]) = &locks {
        rings.extend(opener.open_on_every_cpu(&tracepoint_event(end), *decoder, wait_end_bytes)?);
    }
    let mut cpu_event = None;
    if options.cpu_samples_hz > 0 {
        let (event, name) = cpu_sample_event(kernel, options, cpus[0]);
        rings.extend(opener.open_on_every_cpu(&event, Decoder::Cpu, cpu_sample_bytes)?);
        cpu_event = Some(name);
    }
    if let Some([(begin, decoder), _]) = &locks {
        let mut begins = tracepoint_event(begin);
        // One event is enough to report new processes.
        begins.sample(SampleFlag::CALLCHAIN).task(true);
        rings.extend(opener.open_on_every_cpu(&begins, *decoder, largest_bytes)?);
    }
    Ok(Rings { rings, cpu_event })
}

/// The tracepoints at the beginning and at the end of a wait for a lock, each with the decoder of its records.
fn find_lock_tracepoints(kernel: &SysRoot) -> Result<[(Tracepoint, Decoder); 2], TraceError> {
    let tracefs = Tracefs::find_or_mount(kernel)?;
    let begin = tracefs.read_tracepoint(kernel, "contention_begin")?;
    let end = tracefs.read_tracepoint(kernel, "contention_end")?;
    let begin_decoder = Decoder::Begin { lock: begin.field("lock_addr")?, flags: begin.field("flags")? };
    let end_decoder = Decoder::End { lock: end.field("lock_addr")?, ret: end.field("ret")? };
    Ok([(begin, begin_decoder), (end, end_decoder)])
}

/// Sets the options of every event. Each record has the ids of its process and thread and the time by CLOCK_MONOTONIC:
/// samples as their first fields, other records as their last ones (`sample_id_all`).
fn set_common_options(builder: &mut Builder<'static>) {
    builder.any_pid().include_kernel().sample(SampleFlag::TID | SampleFlag::TIME).sample_id_all(true);
    builder.clockid(Clock::MONOTONIC).exclude_callchain_user(true);
}

/// The event of a tracepoint, of which every occurrence is recorded.
fn tracepoint_event(tracepoint: &Tracepoint) -> Builder<'static> {
    let mut builder = Builder::new(perf_event::events::Tracepoint::with_id(tracepoint.id));
    set_common_options(&mut builder);
    builder.sample(SampleFlag::RAW).sample_period(1);
    builder
}

/// The event for CPU samples and its name: CPU cycles, or a timer if the machine does not count them, like most virtual ones.
fn cpu_sample_event(kernel: &SysRoot, options: &TraceOptions, cpu: usize) -> (Builder<'static>, &'static str) {
    let limit = kernel.read_trimmed("proc/sys/kernel/perf_event_max_sample_rate").and_then(|text| text.parse().ok());
    let hz = options.cpu_samples_hz.min(limit.unwrap_or(u32::MAX));
    let with_sampling = |mut builder: Builder<'static>| {
        set_common_options(&mut builder);
        builder.exclude_idle(true).sample(SampleFlag::CALLCHAIN).sample_frequency(hz.into());
        builder
    };
    let mut cycles = with_sampling(Builder::new(Hardware::CPU_CYCLES));
    match cycles.one_cpu(cpu).build() {
        Ok(_) => (cycles, "cycles"),
        Err(_) => (with_sampling(Builder::new(Software::CPU_CLOCK)), "cpu-clock"),
    }
}

/// Opens events on every CPU.
struct RingOpener<'a> {
    kernel: &'a SysRoot,
    cpus: &'a [usize],
    /// The size of all buffers of one CPU together, in bytes.
    bytes_per_cpu: usize,
}

impl RingOpener<'_> {
    fn open_on_every_cpu(
        &self,
        event: &Builder<'static>,
        decoder: Decoder,
        bytes: usize,
    ) -> Result<Vec<Ring>, TraceError> {
        let mut rings = vec![];
        for &cpu in self.cpus {
            let mut event = event.clone();
            let counter = match event.one_cpu(cpu).wakeup_watermark(bytes / 4).build() {
                Ok(counter) => counter,
                // The CPU went offline just now.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                Err(error) => return Err(self.refused_error("opening a perf event", cpu, error)),
            };
            let sampler =
                counter.sampled(bytes).map_err(|error| self.refused_error("mapping a ring buffer", cpu, error))?;
            rings.push(Ring { cpu: cpu as u32, decoder, sampler });
        }
        Ok(rings)
    }

    fn refused_error(&self, doing: &'static str, cpu: usize, source: io::Error) -> TraceError {
        match source.raw_os_error() {
            // Seccomp filters of containers return ENOSYS, like a kernel without perf events, or EPERM.
            Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => not_permitted_error(self.kernel, doing, source),
            _ => TraceError::Refused { doing, cpu, mib: self.bytes_per_cpu.div_ceil(1 << 20), source },
        }
    }
}

/// The size of the buffer for `contention_begin` on one CPU, in bytes: a power of two.
fn ring_bytes(cpu_count: usize) -> usize {
    let equal_part = ALL_RINGS_BYTES / cpu_count.max(1);
    let power_of_two = (equal_part + 1).next_power_of_two() / 2;
    power_of_two.clamp(SMALLEST_RING_BYTES, LARGEST_RING_BYTES)
}

/// The CPUs that are online: `0-3,8`.
fn online_cpus(kernel: &SysRoot) -> Result<Vec<usize>, TraceError> {
    let path = "sys/devices/system/cpu/online";
    let unreadable = |why: String| TraceError::Unreadable { file: kernel.path(path).display().to_string(), why };
    let text = kernel.read(path).map_err(|error| unreadable(error.to_string()))?;
    parse_cpu_list(text.trim()).ok_or_else(|| unreadable(format!("expected a list of CPUs, found {text:?}")))
}

/// A directory of tracefs.
#[derive(Debug)]
struct Tracefs(OwnedFd);

/// A tracepoint as tracefs describes it.
#[derive(Debug, Clone)]
struct Tracepoint {
    event: &'static str,
    /// Its number, for perf_event_open(2).
    id: u64,
    /// The text of its file `format`, which has the layout of its record.
    format: String,
}

impl Tracepoint {
    /// A field of its record.
    ///
    /// # Errors
    /// The record has no such field.
    fn field(&self, name: &str) -> Result<RecordField, TraceError> {
        let missing = || unreadable_error(self.event, "format", format!("it has no field {name}"));
        RecordField::find(&self.format, name).ok_or_else(missing)
    }
}

/// The error of a file that describes a tracepoint.
fn unreadable_error(event: &str, file: &str, why: String) -> TraceError {
    TraceError::Unreadable { file: format!("events/lock/{event}/{file}"), why }
}

impl Tracefs {
    /// The tracefs that is mounted below this root.
    ///
    /// # Errors
    /// No tracefs is mounted, or this user may not read it.
    fn find_mounted(kernel: &SysRoot) -> io::Result<Tracefs> {
        let usual_dirs = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].map(|path| kernel.path(path));
        let mounts = kernel.mounts().unwrap_or_default().into_iter();
        let other_dirs = mounts.filter(|mount| mount.fs_type == "tracefs").map(|mount| mount.target);
        let mut refusal = io::ErrorKind::NotFound.into();
        for dir in usual_dirs.into_iter().chain(other_dirs) {
            // Looks for `events`, because the mount point exists even if nothing is mounted on it.
            match dir.join("events").metadata().and_then(|_| Ok(open_dir(&dir)?)) {
                Ok(dir) => return Ok(Tracefs(dir)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refusal = error,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// Mounts a private tracefs. It is never attached to a directory, so other processes do not see it, and the
    /// kernel removes it when the file is closed, also after SIGKILL.
    ///
    /// # Errors
    /// The kernel has no tracefs, or this user may not mount.
    fn mount_detached() -> io::Result<Tracefs> {
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let mount = rustix::mount::fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?;
        Ok(Tracefs(mount))
    }

    /// Opens the mounted tracefs, else mounts a private one.
    ///
    /// # Errors
    /// Neither is possible; the message has the remedy.
    fn find_or_mount(kernel: &SysRoot) -> Result<Tracefs, TraceError> {
        let mounted = match Tracefs::find_mounted(kernel) {
            Ok(tracefs) => return Ok(tracefs),
            Err(error) => error,
        };
        Tracefs::mount_detached().map_err(|source| match (source.kind(), mounted.kind()) {
            (io::ErrorKind::PermissionDenied, _) | (_, io::ErrorKind::PermissionDenied) => {
                not_permitted_error(kernel, "reading tracefs", source)
            }
            _ => TraceError::NoTracefs { why: format!("none is mounted, and mounting one: {source}") },
        })
    }

    /// A tracepoint of the group `lock`.
    ///
    /// # Errors
    /// The kernel has no such tracepoint, or describes it in an unknown format.
    fn read_tracepoint(&self, kernel: &SysRoot, event: &'static str) -> Result<Tracepoint, TraceError> {
        let read_file = |file: &str| {
            self.read(&format!("events/lock/{event}/{file}")).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    let release = kernel.read_trimmed("proc/sys/kernel/osrelease").unwrap_or_default();
                    TraceError::NoTracepoint { release, event }
                }
                io::ErrorKind::PermissionDenied => not_permitted_error(kernel, "reading a tracepoint", source),
                _ => unreadable_error(event, file, source.to_string()),
            })
        };
        let text = read_file("id")?;
        let id = text.trim().parse();
        let id = id.map_err(|_| unreadable_error(event, "id", format!("expected a number, found {text:?}")))?;
        Ok(Tracepoint { event, id, format: read_file("format")? })
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let file = rustix::fs::openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }
}

fn open_dir(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The error of an operation that this user may not do, with the value of the sysctl `kernel.perf_event_paranoid`.
pub fn not_permitted_error(kernel: &SysRoot, doing: &'static str, source: io::Error) -> TraceError {
    let paranoid = kernel.read_trimmed("proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".to_string());
    TraceError::NotPermitted { doing, paranoid, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::kernel_with;
    use crate::trace::decode::tests::BEGIN;

    #[test]
    fn cpu_lists_with_ranges_and_gaps_are_parsed() {
        assert_eq!(parse_cpu_list("0"), Some(vec![0]));
        assert_eq!(parse_cpu_list("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for bad in ["", "a", "0-", "3-1"] {
            assert_eq!(parse_cpu_list(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn buffers_are_powers_of_two_and_shrink_with_more_cpus() {
        assert_eq!(ring_bytes(2), 4 << 20);
        assert_eq!(ring_bytes(16), 4 << 20);
        assert_eq!(ring_bytes(17), 2 << 20);
        assert_eq!(ring_bytes(64), 1 << 20);
        assert_eq!(ring_bytes(4096), 256 << 10);
    }

    #[test]
    fn a_tracepoint_is_read_at_each_usual_mount_point() {
        for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
            let event = format!("{place}/events/lock/contention_begin");
            let (_dir, kernel) = kernel_with(&[(&format!("{event}/id"), "408\n"), (&format!("{event}/format"), BEGIN)]);
            let tracefs = Tracefs::find_mounted(&kernel).unwrap();
            let tracepoint = tracefs.read_tracepoint(&kernel, "contention_begin").unwrap();
            assert_eq!((tracepoint.id, tracepoint.format.as_str()), (408, BEGIN));
        }
    }

    #[test]
    fn an_empty_directory_is_not_taken_for_tracefs() {
        let (dir, kernel) = kernel_with(&[]);
        std::fs::create_dir_all(dir.path().join("sys/kernel/tracing")).unwrap();
        assert_eq!(Tracefs::find_mounted(&kernel).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_error_for_a_missing_tracepoint_names_the_required_kernel() {
        let (_dir, kernel) = kernel_with(&[
            ("sys/kernel/tracing/events/sched/enable", "0\n"),
            ("proc/sys/kernel/osrelease", "5.15.0\n"),
        ]);
        let error = Tracefs::find_mounted(&kernel).unwrap().read_tracepoint(&kernel, "contention_begin").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("5.15.0") && text.contains("Linux 5.19 or later"), "{text}");
    }
}
