//! CPU time of the whole machine, including the filesystem's own threads.
//!
//! The sources, best first:
//!
//! 1. `/proc/schedstat`, seventh number of each CPU (`rq_cpu_time`): nanoseconds, added when a task leaves
//!    the CPU.
//! 2. `cpuacct.usage` of the root of cgroup v1: nanoseconds, added at ticks and when a task leaves the CPU,
//!    and exact in sum.
//! 3. `cpu.stat` of the root of cgroup v2: the kernel fills it, for the root alone, from the counters behind
//!    `/proc/stat`, so it is sampled at ticks although it shows microseconds.
//! 4. `/proc/stat`: sampled at ticks, in steps of 1/USER_HZ.
//!
//! Sampling at ticks misses threads that wake after a tick and sleep before the next one, as threads of filesystems do under a
//! paced load. So a note of the run says that sources 3 and 4 are sampled.
//!
//! Sources 1 and 2 lack the time of a running task since its last switch or tick. For this process, a short sleep before
//! reading adds that time. For a thread that is running on another CPU at that moment, its current slice is missing: a few
//! milliseconds at most.

use crate::probe::{Gauge, ParseFn, TextGauge, Unavailable, cpu_times_ns, number_after, parse_counter};
use crate::probe::{OpenedProbe, Probe, ProbeTarget, Sampling};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::metric::reading;
use fsarena_sys::kernel::SysRoot;
use std::time::Duration;

/// A sleep that is long enough for the kernel to switch this process out, and short compared with a task.
const SWITCH_PAUSE: Duration = Duration::from_micros(50);

/// A kernel file with the CPU time of the machine.
struct CpuTimeSource {
    file: &'static str,
    /// A file that distinguishes the root of a hierarchy from a container's part of it, and whether the root has that file.
    root_mark: Option<(&'static str, bool)>,
    parse: ParseFn,
    /// How exact the source is.
    accuracy: &'static str,
}

const EXACT: &str = "exact to the slices that run on other CPUs at the moment of reading";
const SAMPLED: &str = "sampled at clock ticks, so short work of kernel threads may be missed; a kernel with CONFIG_SCHEDSTATS counts it exactly";

/// The source `file` of a cgroup v2 hierarchy; `mark` is a file that its root does not have.
const fn cgroup2_source(file: &'static str, mark: &'static str) -> CpuTimeSource {
    CpuTimeSource { file, root_mark: Some((mark, false)), parse: parse_cpu_stat, accuracy: SAMPLED }
}

const SOURCES: &[CpuTimeSource] = &[
    CpuTimeSource { file: "proc/schedstat", root_mark: None, parse: parse_schedstat, accuracy: EXACT },
    CpuTimeSource {
        file: "sys/fs/cgroup/cpuacct/cpuacct.usage",
        root_mark: Some(("sys/fs/cgroup/cpuacct/release_agent", true)),
        parse: parse_cpuacct,
        accuracy: EXACT,
    },
    cgroup2_source("sys/fs/cgroup/cpu.stat", "sys/fs/cgroup/cgroup.type"),
    cgroup2_source("sys/fs/cgroup/unified/cpu.stat", "sys/fs/cgroup/unified/cgroup.type"),
    CpuTimeSource { file: "proc/stat", root_mark: None, parse: parse_proc_stat, accuracy: SAMPLED },
];

/// CPU time of all tasks on all CPUs.
pub const PROBE: Probe = Probe {
    id: "machine_cpu",
    help: "CPU time of the whole machine, with that of the filesystem's own threads",
    readings: &[Sampling::GrowthUntilSynced.reading(
        reading::machine_time(reading::MACHINE_CPU)
            .help("CPU time of all tasks on the machine until the data was synced; a note of the run names its source, which is exact (schedstat, cgroup v1) or sampled at ticks"),
    )],
    open,
};

fn open(target: &ProbeTarget) -> Result<OpenedProbe, Unavailable> {
    for source in SOURCES {
        let Some(gauge) = source.open(&target.kernel) else { continue };
        let text = format!("machine_cpu_ns comes from /{}: {}", source.file, source.accuracy);
        let notes = vec![Note::new(NoteKind::Remark, text)];
        return Ok(OpenedProbe { gauge: Box::new(SleepBeforeRead(gauge)), notes });
    }
    Err(Unavailable::new("neither /proc/schedstat nor cgroup accounting nor /proc/stat can be read"))
}

impl CpuTimeSource {
    /// The gauge of the source; None if this machine lacks it.
    fn open(&self, kernel: &SysRoot) -> Option<TextGauge> {
        if self.root_mark.is_some_and(|(mark, root_has_it)| kernel.path(mark).exists() != root_has_it) {
            return None;
        }
        let mut gauge = TextGauge::open(kernel, self.file, self.parse).ok()?;
        gauge.read(&mut [0.0]).ok().map(|()| gauge)
    }
}

/// A gauge that sleeps before it reads, so that the kernel adds the time of this process.
struct SleepBeforeRead(TextGauge);

impl Gauge for SleepBeforeRead {
    fn read(&mut self, out: &mut [f64]) -> std::io::Result<()> {
        std::thread::sleep(SWITCH_PAUSE);
        self.0.read(out)
    }
}

fn parse_schedstat(text: &str, out: &mut [f64]) -> Option<()> {
    let cpus = text.lines().filter(|line| line.starts_with("cpu"));
    out[0] = cpus.map(|line| parse_counter(line.split_ascii_whitespace().nth(7)?)).sum::<Option<f64>>()?;
    // Without any CPU the sum is 0, which would look like an idle machine.
    text.lines().any(|line| line.starts_with("cpu")).then_some(())
}

fn parse_cpuacct(text: &str, out: &mut [f64]) -> Option<()> {
    out[0] = parse_counter(text.trim())?;
    Some(())
}

fn parse_cpu_stat(text: &str, out: &mut [f64]) -> Option<()> {
    out[0] = number_after(text, "usage_usec ")? * 1e3;
    Some(())
}

/// user + nice + system + irq + softirq. Guest time is part of user time.
fn parse_proc_stat(text: &str, out: &mut [f64]) -> Option<()> {
    let [user, nice, system, _idle, _iowait, irq, softirq] = cpu_times_ns(text)?;
    out[0] = user + nice + system + irq + softirq;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::testing::{kernel_with, read_once};
    use crate::probe::tick_ns;
    use std::time::Instant;

    const SCHEDSTAT: &str = "version 15\ntimestamp 4295\n\
        cpu0 0 0 0 0 0 0 1000 5 6\ndomain0 3 1 2\ncpu1 0 0 0 0 0 0 2000 5 6\n";

    fn open_and_read(files: &[(&str, &str)]) -> (f64, String) {
        let (_dir, kernel) = kernel_with(files);
        let mut opened = (PROBE.open)(&ProbeTarget { kernel, device: None })
            .unwrap_or_else(|unavailable| panic!("{}", unavailable.why));
        (read_once(opened.gauge.as_mut(), 1)[0], opened.notes.remove(0).text)
    }

    #[test]
    fn the_best_source_is_used_and_named_in_a_note() {
        let stat = ("proc/stat", "cpu  1 2 3 100 50 4 5 6 0 0\ncpu0 1 2 3\n");
        let v2 = ("sys/fs/cgroup/cpu.stat", "usage_usec 77\nuser_usec 1\n");
        let v1 = ("sys/fs/cgroup/cpuacct/cpuacct.usage", "404\n");
        let v1_root = ("sys/fs/cgroup/cpuacct/release_agent", "");
        let (value, note) = open_and_read(&[("proc/schedstat", SCHEDSTAT), v1, v1_root, v2, stat]);
        assert_eq!(value, 3000.0);
        assert!(note.contains("/proc/schedstat: exact"), "{note}");
        assert_eq!(open_and_read(&[v1, v1_root, v2, stat]).0, 404.0);
        let (value, note) = open_and_read(&[v2, stat]);
        assert_eq!(value, 77e3);
        assert!(note.contains("sampled at clock ticks"), "{note}");
        assert_eq!(open_and_read(&[stat]).0, 15.0 * tick_ns());
    }

    #[test]
    fn the_cgroup_of_a_container_is_not_used() {
        let stat = ("proc/stat", "cpu  1 2 3 100 50 4 5\n");
        let v1 = ("sys/fs/cgroup/cpuacct/cpuacct.usage", "404\n");
        let v2 = [("sys/fs/cgroup/cpu.stat", "usage_usec 77\n"), ("sys/fs/cgroup/cgroup.type", "domain\n")];
        assert!(open_and_read(&[v1, v2[0], v2[1], stat]).1.contains("/proc/stat"));
    }

    #[test]
    fn a_source_with_garbage_is_skipped() {
        for garbage in ["", "version 15\n", "cpu0 1 2\n", "cpu0 0 0 0 0 0 0 x 1 1\n"] {
            let (value, _) = open_and_read(&[("proc/schedstat", garbage), ("proc/stat", "cpu  1 0 0 0 0 0 0\n")]);
            assert_eq!(value, tick_ns(), "{garbage:?}");
        }
    }

    /// The machine uses at least the CPU time of this process. That holds only for an exact source, and only approximately
    /// because of the slices on other CPUs.
    #[test]
    fn machine_cpu_includes_the_time_of_this_process() {
        let mut opened = (PROBE.open)(&ProbeTarget { kernel: SysRoot::host(), device: None })
            .unwrap_or_else(|unavailable| panic!("{}", unavailable.why));
        if !opened.notes[0].text.contains(EXACT) {
            fsarena_sys::testkit::record_skip(&opened.notes[0].text);
            return;
        }
        let mut process = (crate::probes::process::PROBE.open)(&ProbeTarget { kernel: SysRoot::host(), device: None })
            .unwrap_or_else(|unavailable| panic!("{}", unavailable.why));
        let (machine, tree) = (read_once(opened.gauge.as_mut(), 1), read_once(process.gauge.as_mut(), 6));
        let start = Instant::now();
        let mut spins = 0u64;
        while read_once(process.gauge.as_mut(), 6)[2] - tree[2] < 50e6 && start.elapsed().as_secs() < 60 {
            spins = std::hint::black_box(spins + 1);
        }
        let spent = read_once(process.gauge.as_mut(), 6)[2] - tree[2];
        let machine_spent = read_once(opened.gauge.as_mut(), 1)[0] - machine[0];
        assert!(machine_spent > 0.5 * spent, "machine {machine_spent} ns, this process alone {spent} ns");
    }
}
