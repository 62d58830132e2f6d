//! The result of a trace: lock sites and CPU sites with the names of functions instead of addresses.

use crate::trace::decode::ChainId;
use crate::trace::lock_kind::LockKind;
use crate::trace::symbols::{self, Symbols};
use crate::trace::tally::{TraceTally, WaitStats};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A place in the kernel where tasks waited for a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockSite {
    /// The kind of lock.
    pub kind: LockKind,
    /// The function of the locking layer that the caller called: `down_read`.
    pub function: String,
    /// The function that took the lock (the first outside the locking layer) and its callers, nearest first, on the path with
    /// the longest total wait.
    pub callers: Vec<String>,
    /// Its share of the waits of all tasks for all locks, by time, 0 to 1.
    pub share: f64,
    /// Number of waits.
    pub waits: u64,
    /// The number of waits that ended without the lock, by a signal or a timeout.
    pub gave_up: u64,
    /// The sum of the waits of all tasks in nanoseconds.
    pub total_ns: u64,
    /// The mean wait in nanoseconds.
    pub mean_ns: u64,
    /// The 99th percentile of the waits in nanoseconds, within 1%.
    pub p99_ns: u64,
    /// The longest wait in nanoseconds.
    pub max_ns: u64,
}

impl LockSite {
    /// The function that took the lock: the first caller outside the locking layer.
    pub fn taker(&self) -> &str {
        self.callers.first().map_or("(unknown)", String::as_str)
    }
}

/// A function of the kernel in which tasks were running when the kernel took CPU samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuSite {
    /// The function, or `(user code)` for all code outside the kernel.
    pub function: String,
    /// Its callers, nearest first, on the path with most samples.
    pub callers: Vec<String>,
    /// Its share of all samples, 0 to 1.
    pub share: f64,
    /// Number of samples.
    pub samples: u64,
}

/// A call chain in which tasks were running when the kernel took CPU samples.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CpuStack {
    /// The functions, outermost first; only `(user code)` for all code outside the kernel.
    pub frames: Vec<String>,
    /// Number of samples.
    pub samples: u64,
}

/// The result of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The length of the trace in nanoseconds.
    pub duration_ns: u64,
    /// The places where tasks waited for locks, those with the longest total wait first.
    #[serde(rename = "locks")]
    pub lock_sites: Vec<LockSite>,
    /// Number of waits.
    pub waits: u64,
    /// The sum of the waits of all tasks in nanoseconds; it can exceed the duration.
    pub total_wait_ns: u64,
    /// The functions with CPU samples, those with most samples first.
    #[serde(rename = "cpu")]
    pub cpu_sites: Vec<CpuSite>,
    /// Every chain of the CPU samples, sorted by name; empty unless the options request it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<CpuStack>,
    /// Number of CPU samples.
    pub cpu_samples: u64,
    /// The event that triggers CPU samples: `cycles`, or `cpu-clock` if the machine has no such counter; None without CPU
    /// samples. `cpu-clock` is a timer interrupt: while the kernel has interrupts disabled, the sample is delayed.
    pub cpu_event: Option<String>,
    /// The number of records that the kernel dropped because a buffer was full. The other figures lack them.
    #[serde(rename = "lost")]
    pub lost_records: u64,
    /// The number of waits that ended without a known beginning: the beginning was before the trace or was lost, or the wait
    /// counts in `waits_without_end` too. They are not in the other figures.
    pub waits_without_begin: u64,
    /// The number of waits that did not end in the trace, or whose end may be lost. They are not in the other figures.
    pub waits_without_end: u64,
}

/// The name of a frame without a symbol.
const UNKNOWN_FUNCTION: &str = "(unknown)";
/// The name of all code outside the kernel.
const USER_CODE: &str = "(user code)";

/// The call paths that lead to one place, each with its weight: the waits or the samples with this path. Chains of different
/// addresses in the same functions are one path.
#[derive(Default)]
struct PathWeights(BTreeMap<Vec<String>, u64>);

impl PathWeights {
    fn add(&mut self, weight: u64, callers: &[&str]) {
        let path = callers.iter().map(|name| name.to_string()).collect();
        *self.0.entry(path).or_default() += weight;
    }

    /// The path with the largest weight; of several, the last in the order of names.
    fn heaviest(self) -> Vec<String> {
        self.0.into_iter().max_by_key(|(_, weight)| *weight).map_or(vec![], |(path, _)| path)
    }
}

/// The places where tasks waited, those with the longest total wait first. A place is a kind of lock, a function of the locking
/// layer, and the function that called it.
pub fn lock_sites(tally: &TraceTally, symbols: &Symbols) -> Vec<LockSite> {
    let mut places: BTreeMap<(LockKind, String, String), (WaitStats, PathWeights)> = BTreeMap::new();
    for ((kind, chain), waits) in &tally.waits_by_lock {
        let names = kernel_names(tally, symbols, *chain);
        let (function, callers) = symbols::split_lock_chain(&names);
        let function = function.unwrap_or(UNKNOWN_FUNCTION);
        let key = (*kind, function.to_string(), callers.first().unwrap_or(&UNKNOWN_FUNCTION).to_string());
        let (sum, paths) = places.entry(key).or_insert_with(|| (WaitStats::new(), PathWeights::default()));
        sum.merge(waits);
        paths.add(waits.total_ns, callers);
    }
    let total_ns: u64 = places.values().map(|(waits, _)| waits.total_ns).sum();
    let mut sites: Vec<_> = places
        .into_iter()
        .map(|((kind, function, _), (waits, paths))| LockSite {
            kind,
            function,
            callers: paths.heaviest(),
            share: fraction(waits.total_ns, total_ns),
            waits: waits.count,
            gave_up: waits.gave_up,
            total_ns: waits.total_ns,
            mean_ns: waits.mean_ns(),
            p99_ns: waits.p99_ns(),
            max_ns: waits.max_ns,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.total_ns));
    sites
}

/// The functions with CPU samples, those with most samples first.
pub fn cpu_sites(tally: &TraceTally, symbols: &Symbols) -> Vec<CpuSite> {
    let mut places: BTreeMap<String, (u64, PathWeights)> = BTreeMap::new();
    for (chain, samples) in &tally.cpu_samples {
        let names = kernel_names(tally, symbols, *chain);
        let (function, callers) = names.split_first().unwrap_or((&USER_CODE, &[]));
        let (sum, paths) = places.entry(function.to_string()).or_default();
        *sum += samples;
        paths.add(*samples, callers);
    }
    let all_samples: u64 = tally.cpu_samples.values().sum();
    let mut sites: Vec<_> = places
        .into_iter()
        .map(|(function, (samples, paths))| CpuSite {
            function,
            callers: paths.heaviest(),
            share: fraction(samples, all_samples),
            samples,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.samples));
    sites
}

/// The chains with CPU samples, each with the outermost function first.
pub fn cpu_stacks(tally: &TraceTally, symbols: &Symbols) -> Vec<CpuStack> {
    let mut samples_by_stack: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for (chain, samples) in &tally.cpu_samples {
        let mut names = kernel_names(tally, symbols, *chain);
        names.reverse();
        *samples_by_stack.entry(if names.is_empty() { vec![USER_CODE] } else { names }).or_default() += samples;
    }
    let to_strings = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    samples_by_stack.into_iter().map(|(names, samples)| CpuStack { frames: to_strings(names), samples }).collect()
}

/// The names of the functions of a chain, innermost first. [`TraceTally::chains`] has only addresses in the kernel, so
/// the list is empty for user code.
fn kernel_names<'a>(tally: &TraceTally, symbols: &'a Symbols, chain: ChainId) -> Vec<&'a str> {
    let addresses = tally.chains.get(chain);
    let frames = addresses.iter().enumerate().map(|(depth, address)| {
        // All frames but the innermost are return addresses. After a call that does not return, the return address belongs to
        // the next function, so the address before it counts.
        let address = if depth == 0 { *address } else { address.saturating_sub(1) };
        symbols.function_at(address).unwrap_or(UNKNOWN_FUNCTION)
    });
    frames.collect()
}

/// The quotient of part and whole; 0 if the whole is 0.
fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tally::tests::{add_wait, event, new_tally};
    use crate::{trace::decode::EventKind, trace::decode::tests::addresses, trace::options::TracedTasks};

    const SYMBOLS: &str = "1000 t rwsem_down_read_slowpath\n2000 T down_read\n3000 t some_fs_write_iter\n\
        4000 T vfs_write\n5000 t ksys_pwrite64\n6000 t other_fs_read_iter\n7000 T down_write\n";
    const READ: u32 = 2;
    const WRITE: u32 = 4;
    const TASK: (u32, u32) = (1, 1);

    #[test]
    fn waits_are_grouped_by_kind_and_taker_over_all_paths() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = new_tally(TracedTasks::WholeMachine);
        // 100 + 300 ns by two paths through one function, 500 by another, 100 to write.
        add_wait(&mut tally, TASK, READ, 100, &[0x1010, 0x2010, 0x3010, 0x4010]);
        add_wait(&mut tally, TASK, READ, 300, &[0x1010, 0x2010, 0x3090, 0x4010, 0x5010]);
        add_wait(&mut tally, TASK, READ, 500, &[0x1010, 0x2010, 0x6010]);
        add_wait(&mut tally, TASK, WRITE, 100, &[0x7010, 0x3010]);
        let sites = lock_sites(&tally, &symbols);
        let found: Vec<_> = sites
            .iter()
            .map(|site| (site.kind.name(), site.function.as_str(), site.taker(), site.waits, site.total_ns))
            .collect();
        assert_eq!(
            found,
            [
                ("rwsem read", "down_read", "other_fs_read_iter", 1, 500),
                ("rwsem read", "down_read", "some_fs_write_iter", 2, 400),
                ("rwsem write", "down_write", "some_fs_write_iter", 1, 100),
            ]
        );
        let shares: Vec<_> = sites.iter().map(|site| site.share).collect();
        assert_eq!(shares, [0.5, 0.4, 0.1]);
        assert_eq!(sites[1].callers, ["some_fs_write_iter", "vfs_write", "ksys_pwrite64"], "the heavier path");
        assert_eq!((sites[1].mean_ns, sites[1].max_ns), (200, 300));
    }

    #[test]
    fn chains_through_the_same_functions_are_one_path() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = new_tally(TracedTasks::WholeMachine);
        add_wait(&mut tally, TASK, READ, 300, &[0x1010, 0x2010, 0x3010, 0x5010]);
        add_wait(&mut tally, TASK, READ, 200, &[0x1010, 0x2010, 0x3010, 0x4010]);
        add_wait(&mut tally, TASK, READ, 200, &[0x1010, 0x2010, 0x3010, 0x4020]);
        let sites = lock_sites(&tally, &symbols);
        assert_eq!((sites.len(), sites[0].total_ns), (1, 700));
        assert_eq!(sites[0].callers, ["some_fs_write_iter", "vfs_write"], "400 of 700 ns");
    }

    #[test]
    fn a_return_address_at_the_end_of_a_function_belongs_to_it() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = new_tally(TracedTasks::WholeMachine);
        add_wait(&mut tally, TASK, READ, 100, &[0x1000, 0x3000, 0x4000]);
        let site = &lock_sites(&tally, &symbols)[0];
        assert_eq!((site.function.as_str(), site.taker()), ("down_read", "some_fs_write_iter"));
    }

    #[test]
    fn samples_are_grouped_by_function_with_user_code_as_one() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = new_tally(TracedTasks::WholeMachine);
        let user = -512_i64 as u64;
        for (chain, samples) in [(&[0x4010, 0x5010][..], 2), (&[0x4020], 1), (&[user, 0x99], 3), (&[user, 0x77], 2)] {
            let chain = tally.chains.intern(&addresses(chain));
            for _ in 0..samples {
                tally.add(&event(1, 5, 6, EventKind::Cpu { chain }));
            }
        }
        let sites = cpu_sites(&tally, &symbols);
        let found: Vec<_> = sites.iter().map(|site| (site.function.as_str(), site.samples)).collect();
        assert_eq!(found, [("(user code)", 5), ("vfs_write", 3)]);
        assert_eq!(sites[0].share, 0.625);
        assert_eq!(sites[1].callers, ["ksys_pwrite64"]);
        let stacks = cpu_stacks(&tally, &symbols);
        let found: Vec<_> = stacks.iter().map(|stack| (stack.frames.join(";"), stack.samples)).collect();
        let expected = [("(user code)", 5), ("ksys_pwrite64;vfs_write", 2), ("vfs_write", 1)];
        assert_eq!(found, expected.map(|(frames, samples)| (frames.to_string(), samples)));
    }

    #[test]
    fn an_empty_trace_has_no_sites() {
        let tally = new_tally(TracedTasks::WholeMachine);
        assert!(
            lock_sites(&tally, &Symbols::default()).is_empty() && cpu_sites(&tally, &Symbols::default()).is_empty()
        );
        assert_eq!(fraction(0, 0), 0.0);
    }
}
