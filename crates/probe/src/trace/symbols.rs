//! Names of addresses: the functions of the kernel, from /proc/kallsyms.
//!
//! This file also recognizes the functions of the kernel's locking layer, which are in a call chain between a contended lock
//! and the code that requested it.

use crate::trace::TraceError;
use fsarena_sys::kernel::SysRoot;

/// The kernel's list of symbols.
const KALLSYMS: &str = "proc/kallsyms";

/// Names of the kernel's functions by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// Sorted by address, with one name for each address.
    functions: Vec<(u64, String)>,
}

impl Symbols {
    /// Reads the list of the running kernel, loaded modules included.
    ///
    /// # Errors
    /// The list is missing, or all its addresses are hidden.
    pub fn read(kernel: &SysRoot) -> Result<Symbols, TraceError> {
        let symbols = Symbols::parse(&kernel.read(KALLSYMS).unwrap_or_default());
        if symbols.functions.is_empty() {
            let restrict = kernel.read_trimmed("proc/sys/kernel/kptr_restrict").unwrap_or_else(|| "unknown".into());
            return Err(TraceError::NoSymbols { path: kernel.path(KALLSYMS), restrict });
        }
        Ok(symbols)
    }

    /// Parses lines such as `ffffffff817a81e0 t ext4_file_write_iter`; symbols of modules end with `[xfs]`. Skips symbols that
    /// are not functions, and hidden symbols (an address of zeros).
    pub fn parse(text: &str) -> Symbols {
        let mut functions: Vec<_> = text.lines().filter_map(parse_symbol).collect();
        functions.sort_by_key(|function| (function.0, plainness_key(function)));
        functions.dedup_by_key(|(address, ..)| *address);
        Symbols {
            functions: functions.into_iter().map(|(address, _, name)| (address, without_suffix(name).into())).collect(),
        }
    }

    /// The function that an address is in: the last function that begins at or before it.
    pub fn function_at(&self, address: u64) -> Option<&str> {
        let next = self.functions.partition_point(|(start, _)| *start <= address);
        Some(self.functions[next.checked_sub(1)?].1.as_str())
    }
}

/// Parses the line of a function into address, type and name; None for other symbols.
fn parse_symbol(line: &str) -> Option<(u64, char, &str)> {
    let mut words = line.split_ascii_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?.chars().next()?;
    let name = words.next()?;
    // Text symbols, weak ones included.
    (address != 0 && matches!(kind, 't' | 'T' | 'w' | 'W')).then_some((address, kind, name))
}

/// A sort key that puts the plainest of several names of one address first: not weak, few leading underscores, short.
fn plainness_key(&(_, kind, name): &(u64, char, &str)) -> (bool, usize, usize) {
    let underscores = name.len() - name.trim_start_matches('_').len();
    (matches!(kind, 'w' | 'W'), underscores, name.len())
}

/// The beginnings of names of the locking layer: functions of kernel/locking, and inline wrappers that a compiler may emit as
/// functions. No function of a filesystem begins like this.
const LOCK_PREFIXES: &[&str] = &[
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

/// Names of the locking layer that are too short to be used as prefixes.
const LOCK_NAMES: &[&str] = &["down", "up", "__up"];

/// The beginnings of names of functions that the tracepoint itself adds to a chain.
const TRACEPOINT_PREFIXES: &[&str] = &["__traceiter_contention_", "trace_contention_", "perf_trace_", "__perf_trace_"];

/// Whether a function belongs to the locking layer or to the tracepoint.
fn is_of_locking_layer(function: &str) -> bool {
    LOCK_NAMES.contains(&function) || has_prefix(function, LOCK_PREFIXES) || has_prefix(function, TRACEPOINT_PREFIXES)
}

fn has_prefix(function: &str, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| function.starts_with(prefix))
}

/// The name of a function without a suffix of the compiler: `__mutex_lock` for `__mutex_lock.constprop.0`.
pub fn without_suffix(function: &str) -> &str {
    match function.find('.') {
        Some(dot) if dot > 0 => &function[..dot],
        _ => function,
    }
}

/// Splits a chain, innermost frame first, into the lock function and its callers, nearest first. The lock function is the
/// outermost frame of the locking layer.
///
/// The innermost frame contains the tracepoint, so it belongs to the locking layer whatever its name is.
pub fn split_lock_chain<'a>(chain: &'a [&'a str]) -> (Option<&'a str>, &'a [&'a str]) {
    let chain = &chain[chain.iter().take_while(|name| has_prefix(name, TRACEPOINT_PREFIXES)).count()..];
    let Some((first, rest)) = chain.split_first() else { return (None, &[]) };
    let depth = rest.iter().take_while(|name| is_of_locking_layer(name)).count();
    let function = if depth == 0 { first } else { &rest[depth - 1] };
    (Some(function), &rest[depth..])
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
        assert_eq!(symbols.function_at(0xffff_ffff_817a_81e0), Some("ext4_file_write_iter"));
        assert_eq!(symbols.function_at(0xffff_ffff_817a_82ff), Some("ext4_file_write_iter"));
        assert_eq!(symbols.function_at(0xffff_ffff_821f_bb44), Some("__mutex_lock"));
        assert_eq!(symbols.function_at(0xffff_ffff_c020_0010), Some("helper"));
        assert_eq!(symbols.function_at(0xffff_ffff_8100_0180), Some("startup"), "data symbols are skipped");
        assert_eq!(symbols.function_at(0x1000), None);
    }

    #[test]
    fn the_plainest_of_several_names_is_used() {
        let symbols = Symbols::parse(LIST);
        assert_eq!(symbols.function_at(0xffff_ffff_8100_0000), Some("startup"));
        assert_eq!(symbols.function_at(0xffff_ffff_817a_9000), Some("the_real_one"));
    }

    #[test]
    fn the_error_for_hidden_addresses_names_the_sysctl() {
        let (_root, kernel) = crate::probe::testing::kernel_with(&[
            (KALLSYMS, "0000000000000000 T _stext\n0000000000000000 T vfs_read\n"),
            ("proc/sys/kernel/kptr_restrict", "2\n"),
        ]);
        let error = Symbols::read(&kernel).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("kptr_restrict is 2") && text.contains("sysctl kernel.kptr_restrict=1"), "{text}");
    }

    #[test]
    fn the_caller_is_the_first_frame_outside_the_locking_layer() {
        let chain = ["rwsem_down_read_slowpath", "down_read", "ext4_file_write_iter", "vfs_write"];
        assert_eq!(split_lock_chain(&chain), (Some("down_read"), &["ext4_file_write_iter", "vfs_write"][..]));
        let chain = ["__mutex_lock", "mutex_lock_nested", "some_fs_create", "path_openat"];
        assert_eq!(split_lock_chain(&chain), (Some("mutex_lock_nested"), &["some_fs_create", "path_openat"][..]));
        let chain = ["native_queued_spin_lock_slowpath", "_raw_spin_lock", "futex_wake"];
        assert_eq!(split_lock_chain(&chain), (Some("_raw_spin_lock"), &["futex_wake"][..]));
    }

    #[test]
    fn the_innermost_frame_is_the_lock_function_whatever_its_name() {
        assert_eq!(split_lock_chain(&["novel_lock_slow", "vfs_read"]), (Some("novel_lock_slow"), &["vfs_read"][..]));
    }

    #[test]
    fn functions_of_the_tracepoint_are_skipped() {
        let chain = ["__traceiter_contention_begin", "__down_common", "down", "driver_wait"];
        assert_eq!(split_lock_chain(&chain), (Some("down"), &["driver_wait"][..]));
    }

    #[test]
    fn functions_that_wake_waiters_belong_to_the_lock() {
        let chain = ["native_queued_spin_lock_slowpath", "_raw_spin_lock_irqsave", "rwsem_wake", "up_write"];
        assert_eq!(split_lock_chain(&chain), (Some("up_write"), &[][..]));
    }

    #[test]
    fn chains_without_callers_are_split() {
        assert_eq!(split_lock_chain(&[]), (None, &[][..]));
        assert_eq!(split_lock_chain(&["perf_trace_contention_begin"]), (None, &[][..]));
        assert_eq!(split_lock_chain(&["mutex_lock"]), (Some("mutex_lock"), &[][..]));
    }

    #[test]
    fn functions_that_only_look_like_locks_are_callers() {
        for name in ["lock_page", "downstream", "update_time", "lock_rename", "uprobe_mmap", "inode_lock"] {
            assert!(!is_of_locking_layer(name), "{name}");
        }
    }

    #[test]
    fn compiler_suffixes_are_removed() {
        assert_eq!(without_suffix("__mutex_lock.constprop.0"), "__mutex_lock");
        assert_eq!(without_suffix("ext4_da_write.isra.0.cold"), "ext4_da_write");
        assert_eq!(without_suffix(".Lfoo"), ".Lfoo");
        assert_eq!(without_suffix("vfs_write"), "vfs_write");
    }
}
