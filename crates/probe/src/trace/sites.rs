//! From chains of addresses to named places.

use crate::trace::profile::{CpuSite, LockSite, Stack};
use crate::trace::{chains::ChainId, kind::LockKind, layer, symbols::Symbols, tally::Tally, waits::Waits};
use std::collections::BTreeMap;

/// What a frame is called that no symbol covers.
const UNKNOWN: &str = "(unknown)";
/// What all that runs outside the kernel is called.
const USER: &str = "(user code)";

/// The path that weighs most among those that lead to one place.
#[derive(Default)]
struct Heaviest {
    weight: u64,
    callers: Vec<String>,
    program: Vec<String>,
}

impl Heaviest {
    fn offer(&mut self, weight: u64, callers: &[&str], program: Option<&Vec<String>>) {
        if weight >= self.weight {
            let callers = callers.iter().map(|name| name.to_string()).collect();
            *self = Heaviest { weight, callers, program: program.cloned().unwrap_or_default() };
        }
    }
}

/// Every place where tasks waited, the longest waits together first: by kind of lock, function by which
/// it was taken, and function that took it.
pub fn locks(tally: &Tally, symbols: &Symbols) -> Vec<LockSite> {
    let mut places: BTreeMap<(LockKind, String, String), (Waits, Heaviest)> = BTreeMap::new();
    for ((kind, chain), waits) in &tally.locks {
        let names = kernel_names(tally, symbols, *chain);
        let (function, callers) = layer::split(&names);
        let function = function.unwrap_or(UNKNOWN);
        let key = (*kind, function.to_string(), callers.first().unwrap_or(&UNKNOWN).to_string());
        let (sum, path) = places.entry(key).or_insert_with(|| (Waits::new(), Heaviest::default()));
        sum.merge(waits);
        path.offer(waits.total, callers, tally.users.get(chain));
    }
    let total: u64 = places.values().map(|(waits, _)| waits.total).sum();
    let mut sites: Vec<_> = places
        .into_iter()
        .map(|((kind, function, _), (waits, path))| LockSite {
            kind,
            function,
            callers: path.callers,
            program: path.program,
            share: share(waits.total, total),
            waits: waits.count,
            gave_up: waits.gave_up,
            total_ns: waits.total,
            mean_ns: waits.mean(),
            p99_ns: waits.p99(),
            max_ns: waits.max,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.total_ns));
    sites
}

/// Every function that was found running, most samples first.
pub fn cpu(tally: &Tally, symbols: &Symbols) -> Vec<CpuSite> {
    let mut places: BTreeMap<String, (u64, Heaviest)> = BTreeMap::new();
    for (chain, samples) in &tally.cpu {
        let names = kernel_names(tally, symbols, *chain);
        let (function, callers) = names.split_first().unwrap_or((&USER, &[]));
        let (sum, path) = places.entry(function.to_string()).or_default();
        *sum += samples;
        path.offer(*samples, callers, tally.users.get(chain));
    }
    let total: u64 = tally.cpu.values().sum();
    let mut sites: Vec<_> = places
        .into_iter()
        .map(|(function, (samples, path))| CpuSite {
            function,
            callers: path.callers,
            program: path.program,
            share: share(samples, total),
            samples,
        })
        .collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.samples));
    sites
}

/// Every chain that was found running, outermost function first.
pub fn stacks(tally: &Tally, symbols: &Symbols) -> Vec<Stack> {
    let mut chains: BTreeMap<Vec<&str>, u64> = BTreeMap::new();
    for (chain, samples) in &tally.cpu {
        let mut names = kernel_names(tally, symbols, *chain);
        names.reverse();
        *chains.entry(if names.is_empty() { vec![USER] } else { names }).or_default() += samples;
    }
    let own = |names: Vec<&str>| names.into_iter().map(String::from).collect();
    chains.into_iter().map(|(names, samples)| Stack { frames: own(names), samples }).collect()
}

fn kernel_names<'a>(tally: &Tally, symbols: &'a Symbols, chain: ChainId) -> Vec<&'a str> {
    let addresses = &tally.chains.get(chain).kernel;
    let frames = addresses.iter().enumerate().map(|(depth, address)| {
        // All but the innermost are return addresses: after a call that does not return, that is the next
        // function already.
        let inside = if depth == 0 { *address } else { address.saturating_sub(1) };
        symbols.name(inside).unwrap_or(UNKNOWN)
    });
    frames.collect()
}

/// A part of a whole; 0 of nothing.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::tally::tests::{event, tally, wait};
    use crate::trace::{decode::What, decode::tests::addresses, options::Target};

    const SYMBOLS: &str = "1000 t rwsem_down_read_slowpath\n2000 T down_read\n3000 t some_fs_write_iter\n\
        4000 T vfs_write\n5000 t ksys_pwrite64\n6000 t other_fs_read_iter\n7000 T down_write\n";
    const READ: u32 = 2;
    const WRITE: u32 = 4;
    const TASK: (u32, u32) = (1, 1);

    #[test]
    fn waits_are_grouped_by_kind_and_taker_whatever_the_way_there() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = tally(Target::WholeMachine);
        // 100 + 300 ns by two ways through one function, 500 by another, 100 to write.
        wait(&mut tally, TASK, READ, 100, &[0x1010, 0x2010, 0x3010, 0x4010]);
        wait(&mut tally, TASK, READ, 300, &[0x1010, 0x2010, 0x3090, 0x4010, 0x5010]);
        wait(&mut tally, TASK, READ, 500, &[0x1010, 0x2010, 0x6010]);
        wait(&mut tally, TASK, WRITE, 100, &[0x7010, 0x3010]);
        let sites = locks(&tally, &symbols);
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
        assert_eq!(sites[1].callers, ["some_fs_write_iter", "vfs_write", "ksys_pwrite64"], "the heavier way");
        assert_eq!((sites[1].mean_ns, sites[1].max_ns), (200, 300));
    }

    #[test]
    fn a_return_address_behind_a_function_belongs_to_it() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = tally(Target::WholeMachine);
        wait(&mut tally, TASK, READ, 100, &[0x1000, 0x3000, 0x4000]);
        let site = &locks(&tally, &symbols)[0];
        assert_eq!((site.function.as_str(), site.taker()), ("down_read", "some_fs_write_iter"));
    }

    #[test]
    fn samples_are_grouped_by_function_and_user_code_is_one() {
        let symbols = Symbols::parse(SYMBOLS);
        let mut tally = tally(Target::WholeMachine);
        let user = -512_i64 as u64;
        for (chain, times) in
            [(&[0x4010, 0x5010][..], 2), (&[0x4020], 1), (&[user, 0x99], 3), (&[user, 0x77], 2)]
        {
            let chain = tally.chains.intern(&addresses(chain));
            for _ in 0..times {
                tally.add(&event(1, 5, 6, What::Cpu { chain }));
            }
        }
        let sites = cpu(&tally, &symbols);
        let found: Vec<_> = sites.iter().map(|site| (site.function.as_str(), site.samples)).collect();
        assert_eq!(found, [("(user code)", 5), ("vfs_write", 3)]);
        assert_eq!(sites[0].share, 0.625);
        assert_eq!(sites[0].program, ["0x99"], "nothing is known to be mapped there");
        assert_eq!(sites[1].callers, ["ksys_pwrite64"]);
        let all = stacks(&tally, &symbols);
        let found: Vec<_> = all.iter().map(|stack| (stack.frames.join(";"), stack.samples)).collect();
        let expected = [("(user code)", 5), ("ksys_pwrite64;vfs_write", 2), ("vfs_write", 1)];
        assert_eq!(found, expected.map(|(frames, samples)| (frames.to_string(), samples)));
    }

    #[test]
    fn nothing_seen_is_no_site() {
        let tally = tally(Target::WholeMachine);
        assert!(locks(&tally, &Symbols::default()).is_empty() && cpu(&tally, &Symbols::default()).is_empty());
        assert_eq!(share(0, 0), 0.0);
    }
}
