//! The names of readings that several modules use, and the definitions of readings that neither a probe nor a load takes.
//! The readings of a probe or a load are defined beside it.
//!
//! Readings with `machine()` are amounts of the whole machine: they count once for each machine, not for each client.

use crate::sample::{Fold, ReadingDef, Unit};

/// Time until the command returned.
pub const ELAPSED: &str = "elapsed_ns";
/// Time until the `syncfs` that follows the command has returned.
pub const SYNCED: &str = "synced_ns";
/// Time to start a command that does nothing.
pub const PROCESS_START: &str = "process_start_ns";
/// Growth of the used space of the filesystem during the task.
pub const SPACE_GROWTH: &str = "stored_bytes";
/// Bytes written to the source disk during the task.
pub const SOURCE_WRITTEN_BYTES: &str = "source_write_bytes";
/// Bytes written to the disk of the root directory during the task.
pub const ROOT_WRITTEN_BYTES: &str = "root_write_bytes";
/// User time of the process tree.
pub const USER_CPU: &str = "user_ns";
/// System time of the process tree.
pub const SYSTEM_CPU: &str = "system_ns";
/// CPU time of the whole machine.
pub const MACHINE_CPU: &str = "machine_cpu_ns";
/// User and system time of the process tree until its data was synced.
pub const TREE_CPU_SYNCED: &str = "tree_cpu_synced_ns";
/// Bytes that the process tree passed to write calls.
pub const WRITTEN_BYTES: &str = "written_bytes";
/// Bytes that read calls returned to the process tree.
pub const READ_BYTES: &str = "read_bytes";
/// Bytes that the process tree fetched from storage, because no cache had them.
pub const FETCHED_BYTES: &str = "fetched_bytes";
/// Bytes that reached the device under test.
pub const DEVICE_WRITTEN_BYTES: &str = "device_write_bytes";
/// Bytes read from the device under test.
pub const DEVICE_READ_BYTES: &str = "device_read_bytes";
/// Write requests that the device under test completed.
pub const DEVICE_WRITES: &str = "device_writes";
/// Cache flushes that the device under test completed.
pub const DEVICE_FLUSHES: &str = "device_flushes";
/// Peak memory of the largest process.
pub const PEAK_MEMORY: &str = "peak_memory_bytes";
/// Growth of the kernel's slab caches during the task.
pub const SLAB_GROWTH: &str = "slab_growth_bytes";
/// Reads per second, counted by the load.
pub const READ_RATE: &str = "read_iops_per_s";
/// Writes per second, counted by the load.
pub const WRITE_RATE: &str = "write_iops_per_s";
/// Bytes read per second, counted by the load.
pub const READ_BANDWIDTH: &str = "read_bandwidth_bytes_per_s";
/// Bytes written per second, counted by the load.
pub const WRITE_BANDWIDTH: &str = "write_bandwidth_bytes_per_s";
/// Bytes per second that the clients of a file server read and wrote.
pub const SERVED_BANDWIDTH: &str = "served_bytes_per_s";
/// Durable commits per second.
pub const COMMIT_RATE: &str = "commit_iops_per_s";
/// The load generator's share of the processor time.
pub const GENERATOR_SHARE: &str = "client_ratio";
/// Requests that were answered.
pub const REQUESTS: &str = "requests_count";
/// The number of calls of a task that repeats one call, such as creating a file.
pub const CALLS: &str = "calls_count";
/// Transactions per second of a database.
pub const TRANSACTION_RATE: &str = "transactions_per_s";
/// User time of the service that answers requests.
pub const SERVICE_USER_CPU: &str = "service_user_ns";
/// System time of the service.
pub const SERVICE_SYSTEM_CPU: &str = "service_system_ns";
/// CPU time of the kernel's own threads.
pub const KERNEL_THREADS_CPU: &str = "kernel_threads_ns";
/// Time that CPUs were idle while processes waited for I/O.
pub const IOWAIT: &str = "iowait_ns";
/// Clients that did a task together.
pub const CLIENTS: &str = "clients_count";
/// Operations per second of all clients while all of them worked.
pub const COMMON_RATE: &str = "common_iops_per_s";
/// Bytes per second of all clients while all of them worked.
pub const COMMON_BANDWIDTH: &str = "common_bandwidth_bytes_per_s";
/// Time in which all clients worked.
pub const COMMON_TIME: &str = "common_ns";
/// Time from the first client's start to the last one's.
pub const START_SPREAD: &str = "start_spread_ns";
/// The largest error of the clients' clocks.
pub const CLOCK_ERROR: &str = "clock_error_ns";
/// Jain's fairness index over the rates of the clients.
pub const CLIENT_FAIRNESS: &str = "client_fairness_ratio";
/// The slowest client's rate over the fastest one's.
pub const SLOWEST_CLIENT: &str = "slowest_client_ratio";
/// Clients whose reads a cache answered: their data path is [`Cache`](super::DataPath::Cache).
pub const CACHED_CLIENTS: &str = "cached_clients_count";
/// Length of the measured part of a load.
pub const LOAD_ELAPSED: &str = "load_elapsed_ns";
/// Blocks whose contents were verified.
pub const VERIFIED_BLOCKS: &str = "verified_count";
/// Whether the load was steady: 1 or 0. Absent if the load is paced or too short for a decision.
pub const STEADY: &str = "steady_ratio";
/// Instructions in user space, in a guest that counts instructions.
pub const USER_INSTRUCTIONS: &str = "user_instructions";
/// Instructions of the kernel.
pub const KERNEL_INSTRUCTIONS: &str = "kernel_instructions";
/// Instructions of the whole guest.
pub const GUEST_INSTRUCTIONS: &str = "guest_instructions";
/// Instructions of the whole guest until the command returned.
pub const INSTRUCTIONS_AT_RETURN: &str = "returned_instructions";
/// System calls, in a guest that counts instructions.
pub const SYSTEM_CALLS: &str = "system_calls_count";
/// Instructions of the process tree until its command returned.
pub const TREE_INSTRUCTIONS: &str = "tree_instructions";
/// Instructions of the process tree until its data was synced.
pub const TREE_INSTRUCTIONS_SYNCED: &str = "tree_instructions_synced";
/// Bytes that a user without privileges can still write.
pub const USABLE_BYTES: &str = "usable_bytes";
/// Bytes that the files of a workload take on the filesystem, with their metadata.
pub const FILES_SPACE: &str = "held_bytes";
/// Size of the device.
pub const DEVICE_SIZE: &str = "device_bytes";
/// The seed of the aged image that the cell began with. Absent for a filesystem that is not aged.
pub const IMAGE_SEED: &str = "image_seed";
/// Files that were synced before a power cut and are intact after it. If one is not intact, the task fails with a violation.
pub const FILES_SYNCED: &str = "files_synced_count";
/// Files that were not synced before a power cut and are missing or incomplete after it. Only files that were written before the
/// last synced file count.
pub const FILES_LOST: &str = "files_lost_count";
/// Bytes of QEMU's recording of the writes to the disk that were replayed up to a power cut.
pub const REPLAYED_BYTES: &str = "replayed_bytes";
/// Requests of a guest for files of the host.
pub const HOST_ROUND_TRIPS: &str = "host_round_trips";
/// The estimated time of these requests.
pub const HOST_WAIT: &str = "host_wait_ns";

/// CPU time, which is summed over tasks and over clients.
pub const fn cpu_time(id: &'static str) -> ReadingDef {
    ReadingDef::lower(id, Unit::Nanoseconds).tasks(Fold::Sum).clients(Fold::Sum)
}

/// Elapsed time, which is summed over tasks but not over clients: they run at the same time.
pub const fn time(id: &'static str) -> ReadingDef {
    ReadingDef::lower(id, Unit::Nanoseconds).tasks(Fold::Sum)
}

/// Time of the whole machine: of a device, of CPUs, of waiting.
pub const fn machine_time(id: &'static str) -> ReadingDef {
    time(id).machine()
}

/// The readings that the task timer itself takes.
pub const TIMER_READINGS: &[ReadingDef] = &[
    time(ELAPSED).help("CLOCK_MONOTONIC from before the task to after it"),
    time(SYNCED)
        .help("CLOCK_MONOTONIC from before the task to after the syncfs that follows it"),
    ReadingDef::neutral(PROCESS_START, Unit::Nanoseconds)
        .help("median time of five runs of `true` before the first task of a cell, started in the same way as the commands of its tasks"),
    ReadingDef::lower(SPACE_GROWTH, Unit::Bytes)
        .machine()
        .help("growth of the used space of the filesystem (statvfs) from before the task until its data was synced: data and \
               metadata, after compression and sharing; absent where the used space did not grow"),
    ReadingDef::lower(SOURCE_WRITTEN_BYTES, Unit::Bytes)
        .machine()
        .help("bytes written to the device of the source disk until the data was synced; only in runs of your own commands"),
    ReadingDef::lower(ROOT_WRITTEN_BYTES, Unit::Bytes)
        .machine()
        .help("bytes written to the device of / until the data was synced, by any process; only in runs of your own \
               commands in an existing directory"),
];

/// The readings of the device and the filesystem before the tasks of a cell and after them, and the readings after a power cut.
pub const LIFECYCLE_READINGS: &[ReadingDef] = &[
    ReadingDef::higher(USABLE_BYTES, Unit::Bytes)
        .tasks(Fold::Max)
        .machine()
        .help("statvfs f_bavail after mkfs and mount: what a user without privileges can write"),
    ReadingDef::neutral(DEVICE_SIZE, Unit::Bytes)
        .tasks(Fold::Max)
        .machine()
        .help("size of the device under test"),
    ReadingDef::lower(FILES_SPACE, Unit::Bytes)
        .tasks(Fold::Max)
        .machine()
        .help("bytes in use after a workload that only reads: the size of the image of a read-only filesystem, or statvfs f_blocks - f_bfree of another filesystem"),
    ReadingDef::neutral(IMAGE_SEED, Unit::Count)
        .tasks(Fold::Max)
        .machine()
        .help("seed of the aged image that the cell began with; rounds with the same seed began with the same image"),
    ReadingDef::neutral(FILES_SYNCED, Unit::Count)
        .help("files that were synced before the power cut; all of them are intact after it, otherwise the task fails"),
    ReadingDef::lower(FILES_LOST, Unit::Count)
        .help("unsynced files that are missing or incomplete after the power cut; only those written before the last synced file count"),
    ReadingDef::neutral(REPLAYED_BYTES, Unit::Bytes)
        .help("bytes of recorded writes that the disk kept at the power cut"),
];

/// The readings of a guest that counts instructions. Such a guest has no useful times, because its clock advances by one
/// nanosecond per instruction; these readings replace them.
pub const INSTRUCTION_READINGS: &[ReadingDef] = &[
    ReadingDef::lower(USER_INSTRUCTIONS, Unit::Count)
        .help("instructions of programs until the data was synced: counted exactly by a plugin of QEMU; if QEMU cannot load it, sampled at clock ticks, and only for the process tree (a note of the run says so)"),
    ReadingDef::lower(KERNEL_INSTRUCTIONS, Unit::Count)
        .help("instructions of the kernel until the data was synced, including its threads and interrupts: counted exactly by a plugin of QEMU; if QEMU cannot load it, sampled at clock ticks, and only for the process tree (a note of the run says so)"),
    ReadingDef::lower(GUEST_INSTRUCTIONS, Unit::Count)
        .help("instructions of the guest until the data was synced: counted exactly by a plugin of QEMU; if QEMU cannot load it, computed from the CPU clocks of all processes and kernel threads of the guest"),
    ReadingDef::lower(INSTRUCTIONS_AT_RETURN, Unit::Count)
        .help("instructions of the guest until the command returned, counted exactly"),
    ReadingDef::lower(SYSTEM_CALLS, Unit::Count)
        .help("system calls until the data was synced, counted exactly"),
    ReadingDef::lower(TREE_INSTRUCTIONS, Unit::Count)
        .help("instructions of the process tree until its command returned, computed from its CPU clock, to the nearest 1000 (a microsecond)"),
    ReadingDef::lower(TREE_INSTRUCTIONS_SYNCED, Unit::Count)
        .help("instructions of the process tree until the data was synced"),
];

/// The readings of clients that did a task together. The ordinary times and rates of such a task go from the first start to
/// the last end, as IOR defines them; the `COMMON_` ones cover only the time in which all clients worked.
pub const MULTI_CLIENT_READINGS: &[ReadingDef] = &[
    ReadingDef::neutral(CLIENTS, Unit::Count).tasks(Fold::Max).help("clients that did the task together"),
    ReadingDef::higher(COMMON_RATE, Unit::PerSecond)
        .help("operations a second of all clients from the last start to the first end, when all of them worked"),
    ReadingDef::higher(COMMON_BANDWIDTH, Unit::BytesPerSecond)
        .help("bytes a second of all clients from the last start to the first end, when all of them worked"),
    ReadingDef::neutral(COMMON_TIME, Unit::Nanoseconds)
        .tasks(Fold::Sum)
        .help("time from the last start to the first end"),
    ReadingDef::lower(START_SPREAD, Unit::Nanoseconds)
        .tasks(Fold::Max)
        .help("time from the first start to the last one"),
    ReadingDef::lower(CLOCK_ERROR, Unit::Nanoseconds)
        .tasks(Fold::Max)
        .help("largest error of the offsets between the clients' clocks: half the shortest round trip"),
    ReadingDef::higher(CLIENT_FAIRNESS, Unit::Ratio)
        .help("Jain's index over the rates of the clients: 1 where all are alike, 1/n where one did everything"),
    ReadingDef::higher(SLOWEST_CLIENT, Unit::Ratio).help("rate of the slowest client / that of the fastest"),
    ReadingDef::lower(CACHED_CLIENTS, Unit::Count)
        .tasks(Fold::Max)
        .help("clients that fetched under a tenth of what they read: a cache answered"),
];

/// The readings of a service that answers requests: a server under a load, or a running service that fsarena observes.
pub const SERVICE_READINGS: &[ReadingDef] = &[
    ReadingDef::neutral(REQUESTS, Unit::Count).help("requests that were answered"),
    cpu_time(SERVICE_USER_CPU)
        .help("user CPU time of the service; user plus system time is exact, and the kernel samples at clock ticks how it splits into the two"),
    cpu_time(SERVICE_SYSTEM_CPU)
        .help("system CPU time of the service; user plus system time is exact, and the kernel samples at clock ticks how it splits into the two"),
    machine_time(KERNEL_THREADS_CPU)
        .help("CPU time of the kernel's own threads, from their CPU clocks, exact: journal, writeback, checksums, and whatever else they did meanwhile"),
];

/// The id of the sample with the [`LAYOUT_READINGS`] before the first task of a cell. They are stored like the sample of a task.
pub const LAYOUT_BEFORE: &str = "layout_before";
/// The id of the sample with the [`LAYOUT_READINGS`] after the last task of a cell.
pub const LAYOUT_AFTER: &str = "layout_after";

/// The number of files whose extents were read.
pub const FILES_WITH_EXTENTS: &str = "layout_files_count";
/// Contiguous pieces for each file.
pub const EXTENTS_PER_FILE: &str = "extents_per_file_ratio";
/// The share of file blocks that directly follow, on the device, the previous block of their file. The first block of each file
/// does not count.
pub const LAYOUT_SCORE: &str = "layout_score_ratio";
/// The layout score of one read of all files, one after another in the order of their directories.
pub const DYNAMIC_LAYOUT_SCORE: &str = "dynamic_layout_score_ratio";
/// The number of pieces of free space.
pub const FREE_EXTENTS: &str = "free_extents_count";
/// The largest piece of free space.
pub const LARGEST_FREE_EXTENT: &str = "largest_free_extent_bytes";

/// The classes of free extents by size, ascending: the name of the reading that sums the bytes of a class, the exclusive upper
/// limit of an extent's size in bytes, and a label.
pub const FREE_EXTENT_CLASSES: [(&str, u64, &str); 5] = [
    ("free_under_64_kib_bytes", 64 << 10, "under 64 KiB"),
    ("free_64_kib_to_1_mib_bytes", 1 << 20, "64 KiB to 1 MiB"),
    ("free_1_mib_to_16_mib_bytes", 16 << 20, "1 to 16 MiB"),
    ("free_16_mib_to_256_mib_bytes", 256 << 20, "16 to 256 MiB"),
    ("free_from_256_mib_bytes", u64::MAX, "256 MiB and more"),
];

/// A reading of the state of the whole filesystem, which has no total over tasks.
const fn filesystem_state(reading: ReadingDef, help: &'static str) -> ReadingDef {
    reading.tasks(Fold::None).machine().help(help)
}

/// The reading of the free bytes in extents of one class.
const fn free_bytes(class: usize) -> ReadingDef {
    const HELP: &str =
        "bytes of the free extents of one size class, which the name of the reading states (ext4, xfs, btrfs, f2fs)";
    filesystem_state(ReadingDef::neutral(FREE_EXTENT_CLASSES[class].0, Unit::Bytes), HELP)
}

/// The readings of the layout of a filesystem: how its files lie on the device, and in which pieces its free space is.
pub const LAYOUT_READINGS: &[ReadingDef] = &[
    filesystem_state(
        ReadingDef::neutral(FILES_WITH_EXTENTS, Unit::Count),
        "files with data whose extents FIEMAP reported: all of them, or whole directories at random if there are very many",
    ),
    filesystem_state(
        ReadingDef::lower(EXTENTS_PER_FILE, Unit::Ratio),
        "contiguous pieces of a file on the device, the mean of files with data; extents that touch are one piece",
    ),
    filesystem_state(
        ReadingDef::higher(LAYOUT_SCORE, Unit::Ratio),
        "layout score (Smith and Seltzer 1997): the share of file blocks that directly follow, on the device, the previous \
         block of their file; the first block of a file does not count; 1 if no file is fragmented",
    ),
    filesystem_state(
        ReadingDef::higher(DYNAMIC_LAYOUT_SCORE, Unit::Ratio),
        "layout score of reading all files one after another in the order of their directories: the first block of a file \
         counts too, and its previous block is the last one of the previous file. Conway et al. (2017) take this from requests to the device, which include metadata; \
         this is from FIEMAP",
    ),
    filesystem_state(ReadingDef::lower(FREE_EXTENTS, Unit::Count), "pieces of free space (ext4, xfs, btrfs, f2fs)"),
    filesystem_state(
        ReadingDef::higher(LARGEST_FREE_EXTENT, Unit::Bytes),
        "the largest piece of free space (ext4, xfs, btrfs, f2fs)",
    ),
    free_bytes(0),
    free_bytes(1),
    free_bytes(2),
    free_bytes(3),
    free_bytes(4),
];
