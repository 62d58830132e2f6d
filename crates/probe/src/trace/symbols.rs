//! The kernel's symbols, from /proc/kallsyms.
//!
//! Also the frames of the kernel's locking layer, which stand between a contended lock and the code that requested it, and
//! the names of addresses in programs: the mapped file and the offset in it.

use crate::trace::Unavailable;
use fsarena_sys::kernel::SysRoot;
use std::{collections::HashMap, path::Path};

/// Where the kernel lists them.
const KALLSYMS: &str = "proc/kallsyms";

/// Names of the kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Ascending, one name an address.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the list of the running kernel, loaded modules included.
    ///
    /// # Errors
    /// Where it is not there, or all its addresses are hidden.
    pub fn read(kernel: &SysRoot) -> Result<Symbols, Unavailable> {
        let symbols = Symbols::parse(&kernel.read(KALLSYMS).unwrap_or_default());
        if symbols.functions.is_empty() {
            let restrict = kernel.fact("proc/sys/kernel/kptr_restrict").unwrap_or_else(|| "unknown".into());
            return Err(Unavailable::NoSymbols { path: kernel.path(KALLSYMS), restrict });
        }
        Ok(symbols)
    }

    /// Reads lines such as `ffffffff817a81e0 t ext4_file_write_iter` or, for a module's, `… [xfs]` at the
    /// end. Skips symbols that are not functions, and hidden ones (an address of zeros).
    pub fn parse(text: &str) -> Symbols {
        let mut functions: Vec<_> = text.lines().filter_map(function).collect();
        functions.sort_by_key(|function| (function.0, rank(function)));
        functions.dedup_by_key(|(address, ..)| *address);
        Symbols {
            functions: functions.into_iter().map(|(address, _, name)| (address, bare(name).into())).collect(),
        }
    }

    /// The function that an address lies in: the last that begins at or before it.
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.functions.partition_point(|(start, _)| *start <= address);
        Some(self.functions[after.checked_sub(1)?].1.as_str())
    }
}

fn function(line: &str) -> Option<(u64, char, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?.chars().next()?;
    let name = words.next()?;
    // Text symbols, weak ones included.
    (address != 0 && matches!(kind, 't' | 'T' | 'w' | 'W')).then_some((address, kind, name))
}

/// The sort key by which the plainest of several names of one address comes first: not weak, few leading underscores.
fn rank(&(_, kind, name): &(u64, char, &str)) -> (bool, usize, usize) {
    let underscores = name.len() - name.trim_start_matches('_').len();
    (matches!(kind, 'w' | 'W'), underscores, name.len())
}

/// How names of the locking layer begin: kernel/locking, and its callers' inline wrappers where these are
/// compiled out of line. No name of any filesystem.
const PREFIXES: &[&str] = &[
    // Spinlocks and spinning reader-writer locks.
    "_raw_spin_",
    "__raw_spin_",
    "_raw_read_",
    "__raw_read_",
    "_raw_write_",
    "__raw_write_",
    "do_raw_spin_",
    "do_raw_read_",
    "do_raw_write_",
    "native_queued_spin_",
    "queued_spin_",
    "__pv_queued_spin_",
    "pv_queued_spin_",
    "kvm_wait",
    "queued_read_lock",
    "queued_write_lock",
    "resilient_",
    "_atomic_dec_and_lock",
    "_atomic_dec_and_raw_lock",
    "atomic_dec_and_mutex_lock",
    "refcount_dec_and_lock",
    "refcount_dec_and_mutex_lock",
    "lockref_",
    // The scheduler's wrappers of its spinlocks.
    "raw_spin_rq_lock",
    "_raw_spin_rq_lock",
    "task_rq_lock",
    "__task_rq_lock",
    // Sleeping locks.
    "mutex_",
    "__mutex_",
    "_mutex_",
    "ww_mutex_",
    "__ww_mutex_",
    "down_",
    "__down",
    "up_read",
    "up_write",
    "__up_",
    "rwsem_",
    "downgrade_write",
    "percpu_down_",
    "__percpu_down_",
    "percpu_up_",
    "percpu_rwsem_",
    // PREEMPT_RT.
    "rt_mutex_",
    "__rt_mutex_",
    "_rt_mutex_",
    "rt_spin_",
    "__rt_spin_",
    "rt_read_",
    "rt_write_",
    "rtlock_",
    "rwbase_",
];

/// Short names that would be too much as prefixes.
const NAMES: &[&str] = &["down", "up", "__up"];

/// How names begin that the tracing of contention itself adds to a chain.
const MACHINERY: &[&str] = &["__traceiter_contention_", "trace_contention_", "perf_trace_", "__perf_trace_"];

fn in_layer(function: &str) -> bool {
    NAMES.contains(&function) || begins(function, PREFIXES) || begins(function, MACHINERY)
}

fn begins(function: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| function.starts_with(prefix))
}

/// The name without what the compiler appends to a copy of a function: `__mutex_lock.constprop.0`.
pub fn bare(function: &str) -> &str {
    match function.find('.') {
        Some(at) if at > 0 => &function[..at],
        _ => function,
    }
}

/// Splits a chain, innermost frame first, into the function by which the lock was taken and its callers,
/// nearest first.
///
/// The innermost frame holds the tracepoint, so it belongs to the locking layer whatever its name is; the
/// lock function is the outermost of the frames that do.
pub fn split<'a>(chain: &'a [&'a str]) -> (Option<&'a str>, &'a [&'a str]) {
    let chain = &chain[chain.iter().take_while(|name| begins(name, MACHINERY)).count()..];
    let Some((first, rest)) = chain.split_first() else { return (None, &[]) };
    let deep = rest.iter().take_while(|name| in_layer(name)).count();
    let function = if deep == 0 { first } else { &rest[deep - 1] };
    (Some(function), &rest[deep..])
}

/// A mapped piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: String,
}

/// What the processes have mapped, read when it is first asked for: while they live.
#[derive(Debug)]
pub struct UserMaps {
    kernel: SysRoot,
    processes: HashMap<u32, Vec<Mapping>>,
}

impl UserMaps {
    /// Nothing read yet.
    pub fn new(kernel: &SysRoot) -> UserMaps {
        UserMaps { kernel: kernel.clone(), processes: HashMap::new() }
    }

    /// `libc.so.6+0x11ba41`: an offset in the file; where nothing is known to be mapped, the address.
    pub fn name(&mut self, pid: u32, address: u64) -> String {
        let known = self.processes.get(&pid).and_then(|maps| find(maps, address));
        // It may have been mapped since.
        known.or_else(|| find(self.read(pid), address)).unwrap_or_else(|| format!("{address:#x}"))
    }

    fn read(&mut self, pid: u32) -> &[Mapping] {
        let text = self.kernel.read(&format!("proc/{pid}/maps")).unwrap_or_default();
        let now: Vec<_> = text.lines().filter_map(mapping).collect();
        let known = self.processes.entry(pid).or_default();
        // A process that is gone has an empty list: what was known of it still holds.
        if !now.is_empty() {
            *known = now;
        }
        known
    }
}

fn find(maps: &[Mapping], address: u64) -> Option<String> {
    let map = maps.iter().find(|map| (map.start..map.end).contains(&address))?;
    Some(format!("{}+{:#x}", map.file, address - map.start + map.offset))
}

/// `7f00a000-7f00b000 r-xp 00001000 08:01 131 /usr/lib/libc.so.6`, where it has a name.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let _access = words.next()?;
    let offset = words.next()?;
    let file = words.nth(2)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let name = Path::new(file).file_name().map_or(file.into(), |name| name.to_string_lossy().into_owned());
    Some(Mapping { start: number(start)?, end: number(end)?, offset: number(offset)?, file: name })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "ffffffff81000000 T _stext\n\
        ffffffff81000000 T startup\n\
        ffffffff81000100 D some_data\n\
        ffffffff821fd330 T down_read\n\
        ffffffff817a81e0 t ext4_file_write_iter\n\
        ffffffff821fbb40 t __mutex_lock.constprop.0\n\
        ffffffffc0200000 t helper\t[some_fs]\n\
        ffffffff817a9000 W weak_one\n\
        ffffffff817a9000 t the_real_one\n\
        this line is not one of them\n\
        ffff\n";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = Symbols::parse(LIST);
        assert_eq!(symbols.name(0xffff_ffff_817a_81e0), Some("ext4_file_write_iter"));
        assert_eq!(symbols.name(0xffff_ffff_817a_82ff), Some("ext4_file_write_iter"));
        assert_eq!(symbols.name(0xffff_ffff_821f_bb44), Some("__mutex_lock"));
        assert_eq!(symbols.name(0xffff_ffff_c020_0010), Some("helper"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0180), Some("startup"), "data symbols are skipped");
        assert_eq!(symbols.name(0x1000), None);
    }

    #[test]
    fn of_several_names_the_plain_one_is_taken() {
        let symbols = Symbols::parse(LIST);
        assert_eq!(symbols.name(0xffff_ffff_8100_0000), Some("startup"));
        assert_eq!(symbols.name(0xffff_ffff_817a_9000), Some("the_real_one"));
    }

    #[test]
    fn hidden_addresses_are_an_error_that_says_what_to_do() {
        let (_root, kernel) = crate::probes::testing::kernel_with(&[
            (KALLSYMS, "0000000000000000 T _stext\n0000000000000000 T vfs_read\n"),
            ("proc/sys/kernel/kptr_restrict", "2\n"),
        ]);
        let error = Symbols::read(&kernel).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("kptr_restrict is 2") && text.contains("sysctl kernel.kptr_restrict=1"),
            "{text}"
        );
    }

    #[test]
    fn the_caller_is_the_first_frame_outside_the_locking_layer() {
        let chain = ["rwsem_down_read_slowpath", "down_read", "ext4_file_write_iter", "vfs_write"];
        assert_eq!(split(&chain), (Some("down_read"), &["ext4_file_write_iter", "vfs_write"][..]));
        let chain = ["__mutex_lock", "mutex_lock_nested", "some_fs_create", "path_openat"];
        assert_eq!(split(&chain), (Some("mutex_lock_nested"), &["some_fs_create", "path_openat"][..]));
        let chain = ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_wake"];
        assert_eq!(split(&chain), (Some("_raw_spin_lock"), &["futex_wake"][..]));
    }

    #[test]
    fn a_lock_function_of_unknown_name_is_still_the_lock_function() {
        assert_eq!(split(&["novel_lock_slow", "vfs_read"]), (Some("novel_lock_slow"), &["vfs_read"][..]));
    }

    #[test]
    fn the_machinery_of_the_tracepoint_is_no_lock() {
        let chain = ["__traceiter_contention_begin", "__down_common", "down", "driver_wait"];
        assert_eq!(split(&chain), (Some("down"), &["driver_wait"][..]));
    }

    #[test]
    fn waking_up_others_belongs_to_the_lock() {
        let chain = ["native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "rwsem_wake", "up_write"];
        assert_eq!(split(&chain), (Some("up_write"), &[][..]));
    }

    #[test]
    fn a_chain_may_be_empty_or_all_lock() {
        assert_eq!(split(&[]), (None, &[][..]));
        assert_eq!(split(&["perf_trace_contention_begin"]), (None, &[][..]));
        assert_eq!(split(&["mutex_lock"]), (Some("mutex_lock"), &[][..]));
    }

    #[test]
    fn functions_that_only_look_like_locks_are_callers() {
        for name in ["lock_page", "downstream", "update_time", "lock_rename", "uprobe_mmap", "inode_lock"] {
            assert!(!in_layer(name), "{name}");
        }
    }

    #[test]
    fn what_compilers_append_is_dropped() {
        assert_eq!(bare("__mutex_lock.constprop.0"), "__mutex_lock");
        assert_eq!(bare("ext4_da_write.isra.0.cold"), "ext4_da_write");
        assert_eq!(bare(".Lfoo"), ".Lfoo");
        assert_eq!(bare("vfs_write"), "vfs_write");
    }

    #[test]
    fn an_address_is_a_place_in_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("proc/7")).unwrap();
        let maps = "55550000-55560000 rw-p 00000000 00:00 0\n\
                    7f000000-7f010000 r-xp 00002000 08:01 131 /usr/lib/libc.so.6\n\
                    7fff0000-7fff1000 r-xp 00000000 00:00 0 [vdso]\nnonsense\n";
        std::fs::write(dir.path().join("proc/7/maps"), maps).unwrap();
        let mut users = UserMaps::new(&SysRoot::at(dir.path()));
        assert_eq!(users.name(7, 0x7f00_0010), "libc.so.6+0x2010");
        assert_eq!(users.name(7, 0x7fff_0004), "[vdso]+0x4");
        assert_eq!(users.name(7, 0x5555_0000), "0x55550000");
        std::fs::remove_dir_all(dir.path().join("proc/7")).unwrap();
        assert_eq!(users.name(7, 0x7f00_0011), "libc.so.6+0x2011", "known of a process that is gone");
        assert_eq!(users.name(8, 0x10), "0x10");
    }
}
