//! Waits until the machine is idle, so that earlier work does not disturb the next measurement.

use fsarena_core::plan::IdlePlan;
use fsarena_fs::filesystems::FILESYSTEMS;
use fsarena_sys::kernel::{MountEntry, SysRoot};
use fsarena_sys::{Error, cancel, cpu::ProcessReadings, process};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time between two polls. Even on an idle machine each task waits for [`QUIET_POLLS`] polls. With 10 ms between
/// polls, these waits took a seventh of the time of the default run.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Consecutive polls that must find the machine idle.
const QUIET_POLLS: u32 = 3;
/// Multiplies the timeout while a filesystem has background work left, such as ext4's lazy initialisation. That work
/// begins some seconds after the mount, but it does end.
const BACKGROUND_FACTOR: f64 = 4.0;
/// Most waits end within this time. Only in a longer wait does fsarena read the CPU time and I/O of every process.
const PROCESS_READING_DELAY: Duration = Duration::from_millis(25);
/// After this many consecutive timeouts fsarena no longer expects the machine to become idle, and shortens the timeout.
const MAX_FULL_TIMEOUTS: u32 = 2;
/// The shortened timeout as a share of the full one. Also the time, as a share of the timeout, for which a wait can always continue
/// after the background work of a filesystem has ended.
const SHORT_SHARE: f64 = 0.1;
/// The kernel's file with the amounts of dirty and writeback memory.
const MEMINFO: &str = "proc/meminfo";

/// The machine and the device that must become idle.
#[derive(Debug, Clone, Copy)]
pub struct IdleTarget<'a> {
    /// The root of the kernel's files.
    pub kernel: &'a SysRoot,
    /// Major and minor number of the device under test; None to ignore devices.
    pub device: Option<(u32, u32)>,
    /// How many waits in a row have not found the machine idle up to now.
    pub timeouts_in_a_row: u32,
}

/// How a wait for an idle machine ended.
#[derive(Debug, Clone, PartialEq)]
pub struct IdleWait {
    /// The duration of the wait.
    pub waited: Duration,
    /// Whether the machine was idle by all readings that succeeded; false after a timeout or a signal.
    pub found_idle: bool,
    /// Descriptions of each activity that was still going on at the timeout, and of each reading that failed, even if the
    /// machine was otherwise idle ([`IdleWait::found_idle`]). Empty if the machine was idle and no reading failed.
    pub busy: Vec<String>,
    /// If the machine stayed busy: the processes that used most CPU time or I/O during the wait.
    pub disturbers: Vec<String>,
}

/// The readings of one poll.
#[derive(Debug, Clone, PartialEq)]
struct PollReadings {
    /// The time of the poll.
    taken_at: Instant,
    /// Bytes that are dirty or under writeback.
    unwritten_bytes: u64,
    /// The fields of the device's `stat` file; None without a device.
    device: Option<Vec<u64>>,
    /// The time that tasks were stalled on I/O since boot, in microseconds; None if the kernel does not measure it.
    stalled_us: Option<u64>,
    /// Descriptions of the readings that failed.
    failed_readings: Vec<String>,
}

/// Waits until the machine is idle: few dirty and writeback pages, an idle device, no I/O pressure, and no filesystem
/// with background work. Ignores I/O pressure if the kernel does not measure it. A file of the kernel that cannot be
/// read does not prolong the wait, but [`IdleWait::busy`] then names it. A signal that interrupts fsarena ends the
/// wait.
pub fn wait_until_idle(target: IdleTarget, plan: &IdlePlan) -> IdleWait {
    wait_by_polls(target, plan, || poll(target.kernel, target.device))
}

/// The longest durations of a wait.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Timeouts {
    /// The limit while no filesystem has background work left.
    usual: Duration,
    /// The limit while a filesystem has background work left.
    background: Duration,
    /// How much longer a wait may take after the background work of a filesystem has ended.
    after_background: Duration,
}

impl Timeouts {
    /// The limits of a wait after `timeouts_in_a_row` waits that have timed out.
    fn new(plan: &IdlePlan, timeouts_in_a_row: u32) -> Timeouts {
        let share = if timeouts_in_a_row < MAX_FULL_TIMEOUTS { 1.0 } else { SHORT_SHARE };
        let usual = Duration::from_secs_f64(plan.timeout_s * share);
        Timeouts { usual, background: usual.mul_f64(BACKGROUND_FACTOR), after_background: usual.mul_f64(SHORT_SHARE) }
    }
}

/// The longest time for which [`wait_until_idle`] polls. A wait can take longer, because it first writes the dirty pages of all
/// processes, which has no time limit.
pub fn longest_wait(plan: &IdlePlan) -> Duration {
    let timeouts = Timeouts::new(plan, 0);
    timeouts.background + timeouts.after_background
}

/// Waits until the machine is idle; `poll` takes the readings.
fn wait_by_polls(target: IdleTarget, plan: &IdlePlan, mut poll: impl FnMut() -> PollReadings) -> IdleWait {
    let kernel = target.kernel;
    let timeouts = Timeouts::new(plan, target.timeouts_in_a_row);
    let started = Instant::now();
    let mut before = poll();
    if before.unwritten_bytes > plan.dirty.as_u64() {
        // Write the dirty pages of other processes now, because the kernel could write them during a task.
        rustix::fs::sync();
    }
    // The filesystems that were at work when they were last checked.
    let (mut working, _) = filesystems_at_work(kernel);
    // The deadline while no filesystem has background work.
    let mut deadline = started + timeouts.usual;
    let mut quiet_polls = 0;
    // The failed readings since the machine was last busy.
    let mut failed_readings = BTreeSet::from_iter(before.failed_readings.clone());
    let mut usage_before = None;
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let now = poll();
        if usage_before.is_none() && now.taken_at - started > PROCESS_READING_DELAY {
            usage_before = Some(ProcessReadings::read(kernel));
        }
        let mut busy = describe_activity(&before, &now, plan);
        let cancelled = cancel::received_signal().is_some();
        let mut timed_out = now.taken_at > deadline;
        failed_readings.extend(now.failed_readings.clone());
        // Check the filesystems only when the wait would end now, because the check may read the names of all processes. After
        // the usual timeout that is each poll, until no filesystem is at work.
        if cancelled || timed_out || (busy.is_empty() && quiet_polls + 1 == QUIET_POLLS) {
            let (still_at_work, unreadable) = filesystems_at_work(kernel);
            failed_readings.extend(unreadable);
            if let Some((_, thread)) = still_at_work.first() {
                // The background work itself can keep the device busy, so the longer timeout applies.
                timed_out = now.taken_at > started + timeouts.background;
                busy.push(format!("{thread} is still at work"));
            } else if !working.is_empty() {
                // The background work has ended since the last check: write its changes, and wait for the device again.
                working.iter().for_each(|(mount, _)| sync_filesystem(mount));
                deadline = deadline.max(Instant::now() + timeouts.after_background);
                timed_out = false;
            }
            working = still_at_work;
        }
        quiet_polls = if busy.is_empty() { quiet_polls + 1 } else { 0 };
        if quiet_polls == QUIET_POLLS || cancelled || timed_out {
            let mut disturbers = vec![];
            if let (Some(earlier), false) = (usage_before, busy.is_empty()) {
                disturbers = ProcessReadings::read(kernel).disturbers_since(&earlier);
            }
            busy.extend(failed_readings);
            let found_idle = quiet_polls == QUIET_POLLS;
            return IdleWait { waited: started.elapsed(), found_idle, busy, disturbers };
        }
        if quiet_polls == 0 {
            failed_readings = BTreeSet::from_iter(now.failed_readings.clone());
        }
        before = now;
    }
}

/// Takes the readings of one poll from the kernel's files.
fn poll(kernel: &SysRoot, device: Option<(u32, u32)>) -> PollReadings {
    let mut failed_readings = vec![];
    let unwritten_bytes = unwritten_bytes(kernel).unwrap_or_else(|error| {
        failed_readings.push(format!("unknown how much is dirty ({error})"));
        0
    });
    let mut counts = None;
    if let Some((major, minor)) = device {
        match device_counts(kernel, major, minor) {
            Ok(read) => counts = Some(read),
            Err(error) => failed_readings.push(format!("unknown whether the device is busy ({error})")),
        }
    }
    // Kernels without PSI have no such file, or one that cannot be read (psi=0).
    let stalled_us = kernel.read("proc/pressure/io").ok().and_then(|text| number_after(&text, "total="));
    PollReadings { taken_at: Instant::now(), unwritten_bytes, device: counts, stalled_us, failed_readings }
}

/// Bytes that are dirty or under writeback.
fn unwritten_bytes(kernel: &SysRoot) -> Result<u64, Error> {
    let text = kernel.read_required(MEMINFO)?;
    let kib = |name: &str| {
        let why = || format!("it has no line `{name}`");
        number_after(&text, name).ok_or_else(|| Error::BadFormat { path: kernel.path(MEMINFO), why: why() })
    };
    Ok((kib("Dirty:")? + kib("Writeback:")?) * 1024)
}

/// The fields of a block device's `stat` file, which count its requests.
fn device_counts(kernel: &SysRoot, major: u32, minor: u32) -> Result<Vec<u64>, Error> {
    let rel = format!("sys/dev/block/{major}:{minor}/stat");
    let text = kernel.read_required(&rel)?;
    let counts: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    counts.map_err(|error| Error::BadFormat { path: kernel.path(&rel), why: error.to_string() })
}

/// Describes each activity that was above its limit between two polls; none if the machine was idle.
fn describe_activity(before: &PollReadings, now: &PollReadings, plan: &IdlePlan) -> Vec<String> {
    let mut activities = Vec::new();
    if now.unwritten_bytes > plan.dirty.as_u64() {
        activities.push(format!("{} dirty or under writeback", bytesize::ByteSize(now.unwritten_bytes)));
    }
    if let (Some(earlier), Some(later)) = (&before.device, &now.device) {
        // The ninth field is the number of requests in flight; the others only grow.
        if earlier != later || later.get(8).is_some_and(|in_flight| *in_flight > 0) {
            activities.push("the device is busy".into());
        }
    }
    if let (Some(earlier), Some(later)) = (before.stalled_us, now.stalled_us) {
        let interval = now.taken_at.duration_since(before.taken_at).as_micros().max(1) as f64;
        let share = 100.0 * later.saturating_sub(earlier) as f64 / interval;
        if share > plan.io_pressure_percent {
            activities.push(format!("I/O pressure {share:.0}%"));
        }
    }
    activities
}

/// The mounted filesystems whose background work is going on, each with the end of the name of the thread that does the
/// work. The second value describes a file of the kernel that could not be read; None if all could.
///
/// A filesystem counts only if it has work left and the thread exists. The thread alone can exist before and long after
/// the work, even after the unmount. Work alone can be left without a thread that does it. Filesystems whose state
/// cannot be read are skipped.
fn filesystems_at_work(kernel: &SysRoot) -> (Vec<(MountEntry, String)>, Option<String>) {
    let unknown = |error: &dyn Display| Some(format!("unknown which filesystems are at work ({error})"));
    let mounts = match kernel.mounts() {
        Ok(mounts) => mounts,
        Err(error) => return (vec![], unknown(&error)),
    };
    let mut working = vec![];
    for mount in mounts {
        let is_read_only = mount.super_options.split(',').any(|option| option == "ro");
        if !is_read_only && let Some(thread) = background_thread(kernel, &mount) {
            working.push((mount, thread));
        }
    }
    if !working.is_empty() {
        match thread_names(kernel) {
            Ok(names) => {
                working.retain(|(_, thread)| names.iter().any(|name| name.trim_end().ends_with(thread.as_str())))
            }
            Err(error) => return (vec![], unknown(&error)),
        }
    }
    (working, None)
}

/// The end of the name of the thread that does the background work of a filesystem; None if the filesystem has no such
/// work left.
fn background_thread(kernel: &SysRoot, mount: &MountEntry) -> Option<String> {
    let def = FILESYSTEMS.iter().find(|def| def.id == mount.fs_type)?;
    let background = def.background_work?;
    let device = Path::new(&mount.source);
    if !(background.has_work)(device).unwrap_or(false) {
        return None;
    }
    // The names of threads contain the kernel's name of the device. The mount may have another name: /dev/mapper/x for
    // dm-0.
    let link = std::fs::read_link(kernel.path(&format!("sys/dev/block/{}", mount.major_minor)));
    let device_name = link.as_deref().unwrap_or(device).file_name().unwrap_or_default();
    Some(background.thread.replace("{}", &device_name.to_string_lossy()))
}

/// The names of all processes and kernel threads. Skips a process that ends meanwhile.
fn thread_names(kernel: &SysRoot) -> Result<Vec<String>, Error> {
    let pids = process::all_pids(kernel)?;
    Ok(pids.into_iter().filter_map(|pid| kernel.read(&format!("proc/{pid}/comm")).ok()).collect())
}

/// Writes the changes that the background work of a filesystem has made. No count of dirty pages includes them: ext4
/// keeps them in a transaction that it would write within 5 s, in the middle of a task.
fn sync_filesystem(mount: &MountEntry) {
    if let Ok(root) = std::fs::File::open(&mount.target) {
        // An error is ignored: a task reports its own failure to sync.
        let _ = rustix::fs::syncfs(root);
    }
}

/// The number that follows the first occurrence of `label`.
fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.split_once(label)?.1.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytesize::ByteSize;
    use fsarena_sys::argv::Argv;

    fn fake_machine(dirty_kib: u64, stat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", &format!("MemTotal: 1 kB\nDirty:   {dirty_kib} kB\nWriteback:  0 kB\n"));
        write("proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 total=5\n");
        write("sys/dev/block/7:0/stat", stat);
        write("proc/12/comm", "bash\n");
        write("proc/self/mountinfo", "");
        root
    }

    fn plan() -> IdlePlan {
        IdlePlan { timeout_s: 0.05, dirty: ByteSize::kib(64), io_pressure_percent: 10.0 }
    }

    fn busy_of(root: &Path) -> Vec<String> {
        let kernel = SysRoot::at(root);
        let target = IdleTarget { kernel: &kernel, device: Some((7, 0)), timeouts_in_a_row: 0 };
        wait_until_idle(target, &plan()).busy
    }

    #[test]
    fn an_idle_machine_has_no_busy_activities() {
        let root = fake_machine(10, "1 2 3 4 5 6 7 8 0 10 11");
        assert_eq!(busy_of(root.path()), Vec::<String>::new());
    }

    #[test]
    fn a_timeout_names_each_busy_activity() {
        let root = fake_machine(100, "1 2 3 4 5 6 7 8 1 10 11");
        let busy = busy_of(root.path());
        assert_eq!(busy, ["100.0 KiB dirty or under writeback", "the device is busy"]);
    }

    /// The busy activities while the thread of ext4's initialisation exists, and `mount` is the line of mountinfo for an ext4 image
    /// that was made with these extended options.
    fn busy_with(extended: &str, mount: &str) -> Vec<String> {
        let root = fake_machine(0, "0 0 0 0 0 0 0 0 0 0 0");
        std::fs::create_dir_all(root.path().join("proc/99")).unwrap();
        std::fs::write(root.path().join("proc/99/comm"), "ext4lazyinit\n").unwrap();
        let image = root.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let argv = Argv::new("mkfs.ext4").args(["-q", "-F", "-b", "1024", "-E", extended]);
        argv.arg(&image).run_checked(&mut |_| {}).unwrap();
        let line = mount.replace("IMAGE", image.to_str().unwrap());
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        busy_of(root.path())
    }

    const MOUNTED: &str = "36 35 7:0 / /mnt rw,noatime - ext4 IMAGE rw\n";

    #[test]
    fn the_wait_includes_background_initialisation() {
        let lazy = "lazy_itable_init=1,nodiscard";
        assert_eq!(busy_with(lazy, MOUNTED), ["ext4lazyinit is still at work"]);
    }

    /// The busy activities and the milliseconds of the wait while an xfs on a device is mounted and workers of two
    /// devices have these names.
    fn wait_for_worker(device: &str, thread: &str, dirty_kib: u64) -> (Vec<String>, u128) {
        let root = fake_machine(dirty_kib, "0 0 0 0 0 0 0 0 0 0 0");
        for (process, name) in [("98", "kworker/0:1+xfs-inodegc/loop1\n"), ("99", thread)] {
            std::fs::create_dir_all(root.path().join("proc").join(process)).unwrap();
            std::fs::write(root.path().join("proc").join(process).join("comm"), name).unwrap();
        }
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let line = format!("36 35 7:0 / /mnt rw,noatime - xfs {device} rw\n");
        std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        let kernel = SysRoot::at(root.path());
        let wait = wait_until_idle(IdleTarget { kernel: &kernel, device: Some((7, 0)), timeouts_in_a_row: 0 }, &plan());
        (wait.busy, wait.waited.as_millis())
    }

    #[test]
    fn the_wait_includes_workers_of_a_mounted_filesystem_while_they_work() {
        let (busy, waited) = wait_for_worker("/dev/loop0", "kworker/0:2+xfs-inodegc/loop0\n", 0);
        assert_eq!(busy, ["+xfs-inodegc/loop0 is still at work"]);
        assert!(waited >= 200, "four times the timeout of 50 ms, and not {waited} ms");
        // A `-` in its name means that the worker has become idle.
        assert!(wait_for_worker("/dev/loop0", "kworker/0:2-xfs-inodegc/loop0\n", 0).0.is_empty());
    }

    #[test]
    fn workers_of_a_device_whose_name_is_longer_do_not_prolong_the_wait() {
        assert!(wait_for_worker("/dev/loop0", "kworker/0:2+xfs-inodegc/loop01\n", 0).0.is_empty());
    }

    #[test]
    fn workers_have_the_name_that_the_kernel_gives_the_device() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("sys/dev/block")).unwrap();
        let link = root.path().join("sys/dev/block/253:0");
        std::os::unix::fs::symlink("../../devices/virtual/block/dm-0", link).unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let line = "36 35 253:0 / /mnt rw,noatime - xfs /dev/mapper/fsarena-1 rw\n";
        std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        let kernel = SysRoot::at(root.path());
        let mount = kernel.mounts().unwrap().remove(0);
        assert_eq!(background_thread(&kernel, &mount).as_deref(), Some("+xfs-inodegc/dm-0"));
    }

    #[test]
    fn timeouts_in_a_row_shorten_every_limit_of_a_wait() {
        let limits = |timeouts_in_a_row| {
            let Timeouts { usual, background, after_background } =
                Timeouts::new(&IdlePlan { timeout_s: 5.0, ..plan() }, timeouts_in_a_row);
            [usual, background, after_background].map(|limit| limit.as_millis())
        };
        assert_eq!(limits(0), [5000, 20_000, 500]);
        assert_eq!(limits(1), limits(0));
        assert_eq!(limits(2), [500, 2000, 50]);
    }

    #[test]
    fn other_activity_does_not_shorten_the_wait_for_a_filesystem_at_work() {
        let (busy, waited) = wait_for_worker("/dev/loop0", "kworker/0:2+xfs-inodegc/loop0\n", 100);
        assert_eq!(busy, ["100.0 KiB dirty or under writeback", "+xfs-inodegc/loop0 is still at work"]);
        assert!(waited >= 200, "four times the timeout of 50 ms, and not {waited} ms");
    }

    #[test]
    fn a_thread_without_background_work_does_not_prolong_the_wait() {
        let lazy = "lazy_itable_init=1,nodiscard";
        assert!(busy_with("lazy_itable_init=0", MOUNTED).is_empty());
        assert!(busy_with(lazy, "").is_empty(), "it was unmounted");
        assert!(busy_with(lazy, &MOUNTED.replace("IMAGE", "/no/such")).is_empty(), "its device cannot be read");
        assert!(busy_with(lazy, "36 35 7:0 / /mnt ro - ext4 IMAGE ro\n").is_empty());
        assert!(busy_with(lazy, "36 35 7:0 / /mnt rw - xfs IMAGE rw\n").is_empty());
    }

    #[test]
    fn changes_of_a_filesystem_at_work_reach_the_device_before_the_wait_ends() {
        if !fsarena_sys::testkit::runs_as_root() {
            return;
        }
        let root = fake_machine(0, "0 0 0 0 0 0 0 0 0 0 0");
        let [image, mount] = ["image", "mount"].map(|name| root.path().join(name));
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        std::fs::create_dir(&mount).unwrap();
        let run_command = |argv: Argv| argv.run_checked(&mut |_| {}).unwrap();
        run_command(Argv::new("mkfs.ext4").args(["-q", "-F"]).arg(&image));
        run_command(Argv::new("mount").args(["-o", "loop,noinit_itable,commit=3600"]).arg(&image).arg(&mount));
        let on_device = |name: &str| {
            let bytes = std::fs::read(&image).unwrap();
            bytes.windows(name.len()).any(|window| window == name.as_bytes())
        };
        // The kernel writes a new directory only after an hour, unless some process calls sync. Then try again with another name.
        let in_transaction = (0..50).map(|number| format!("in-a-transaction-{number:02}")).find(|name| {
            std::fs::create_dir(mount.join(name)).unwrap();
            !on_device(name)
        });
        let name = in_transaction.expect("a directory that only the journal of the mounted filesystem has");
        std::fs::create_dir_all(root.path().join("proc/99")).unwrap();
        std::fs::write(root.path().join("proc/99/comm"), "kworker/0:1+xfs-inodegc/loop0\n").unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        // The fake mountinfo names xfs, whose worker counts as at work as long as it exists; ext4 is what is mounted, because it
        // keeps changes in a transaction.
        let line = format!("36 35 7:0 / {} rw - xfs /dev/loop0 rw\n", mount.display());
        std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        let waiting = std::thread::spawn({
            let kernel = SysRoot::at(root.path());
            let plan = IdlePlan { timeout_s: 20.0, ..plan() };
            move || {
                wait_until_idle(IdleTarget { kernel: &kernel, device: Some((7, 0)), timeouts_in_a_row: 0 }, &plan).busy
            }
        });
        // Long enough for the first poll of the thread, even on a busy machine.
        std::thread::sleep(Duration::from_secs(1));
        std::fs::remove_dir_all(root.path().join("proc/99")).unwrap();
        let busy = waiting.join().unwrap();
        let is_on_device = on_device(&name);
        run_command(Argv::new("umount").arg(&mount));
        assert!(is_on_device, "{name}");
        assert_eq!(busy, Vec::<String>::new(), "the wait goes on until the device is idle again");
    }

    #[test]
    fn an_unreadable_kernel_file_does_not_prolong_the_wait_and_is_reported() {
        let root = tempfile::tempdir().unwrap();
        let kernel = SysRoot::at(root.path());
        let plan = IdlePlan { timeout_s: 60.0, ..plan() };
        let wait = wait_until_idle(IdleTarget { kernel: &kernel, device: Some((7, 0)), timeouts_in_a_row: 0 }, &plan);
        let files = ["proc/meminfo", "sys/dev/block/7:0/stat", "proc/self/mountinfo"];
        assert_eq!(wait.busy.len(), files.len(), "{:?}", wait.busy);
        for (busy, file) in wait.busy.iter().zip(files) {
            assert!(busy.starts_with("unknown") && busy.contains(file), "{busy}");
        }
        assert!(wait.waited < Duration::from_secs(60) && wait.found_idle);
        // A wait ends after three idle polls. It reports a reading that failed in any of them, or in the poll before them.
        // The last case fails only in polls after the end.
        let root = fake_machine(0, "0 0 0 0 0 0 0 0 0 0 0");
        let kernel = SysRoot::at(root.path());
        let target = IdleTarget { kernel: &kernel, device: Some((7, 0)), timeouts_in_a_row: 0 };
        for (unread, expected) in [(0..1, 1), (2..3, 1), (4..9, 0)] {
            let mut number = 0..;
            let wait = wait_by_polls(target, &plan, || {
                let failed = unread.contains(&number.next().unwrap()).then(|| "unknown".to_string());
                PollReadings { failed_readings: failed.into_iter().collect(), ..poll(&kernel, target.device) }
            });
            assert_eq!(wait.busy.len(), expected, "{unread:?}");
        }
        // A file without the line does not count as 0 dirty bytes.
        let root = fake_machine(0, "0 0 0 0 0 0 0 0 0 0 0");
        std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 1 kB\n").unwrap();
        assert!(busy_of(root.path())[0].contains("Dirty:"));
    }
}
