//! The kernel's locking layer: the frames between a contended lock and the code that requested it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
