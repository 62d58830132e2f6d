//! Waits until the machine is idle, so that earlier work does not disturb the next measurement.

use fsarena_core::plan::IdlePlan;
use fsarena_fs::def::Initialiser;
use fsarena_fs::filesystems::FILESYSTEMS;
use fsarena_sys::cancel;
use fsarena_sys::kernel::Kernel;
use std::path::Path;
use std::time::{Duration, Instant};

/// The time between two polls.
const POLL: Duration = Duration::from_millis(5);
/// Consecutive polls that must find the machine idle.
const QUIET_POLLS: u32 = 2;
/// Multiplies the timeout while the kernel initialises a filesystem: that work begins some seconds after mounting, but
/// it does end.
const INITIALISATION_TIMES: f64 = 4.0;
/// Consecutive timeouts after which fsarena expects that the machine will not become idle.
const PATIENCE: u32 = 2;
/// The share of the timeout that fsarena then still waits.
const IMPATIENT: f64 = 0.1;

/// The machine and device to wait for.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The kernel to query.
    pub kernel: &'a Kernel,
    /// Major and minor number of the device under test.
    pub device: Option<(u32, u32)>,
    /// How many times in a row the wait has timed out up to now.
    pub timeouts: u32,
}

/// How the wait ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Wait {
    /// The time it took.
    pub waited: Duration,
    /// Activities still busy when time was up; empty where the machine is idle.
    pub busy: Vec<String>,
}

/// The readings of one poll.
#[derive(Debug, Clone, PartialEq)]
struct Look {
    at: Instant,
    unwritten: u64,
    device: Option<Vec<u64>>,
    stalled_us: Option<u64>,
}

/// Waits until the machine is idle: few dirty and writeback pages, an idle device, no I/O pressure, and no filesystem
/// initialisation in the background. Skips each condition that the kernel does not report. A signal that asks fsarena
/// to stop ends the wait.
pub fn wait_until_idle(scene: Scene, plan: &IdlePlan) -> Wait {
    let Scene { kernel, device, .. } = scene;
    let begun = Instant::now();
    let patience = if scene.timeouts < PATIENCE { 1.0 } else { IMPATIENT };
    let timeout = Duration::from_secs_f64(plan.timeout_s * patience);
    let long = Duration::from_secs_f64(plan.timeout_s * INITIALISATION_TIMES);
    let mut before = look(kernel, device);
    if before.unwritten > plan.dirty.as_u64() {
        // What others wrote is written now, rather than during a task.
        rustix::fs::sync();
    }
    let mut quiet = 0;
    loop {
        std::thread::sleep(POLL);
        let now = look(kernel, device);
        let mut busy = busy(&before, &now, plan);
        let cancelled = cancel::requested().is_some();
        let mut over = cancelled || begun.elapsed() > timeout;
        // Looked at last: it means reading the name of every process.
        if busy.is_empty() && (over || quiet + 1 == QUIET_POLLS) {
            busy.extend(initialiser(kernel));
            over = cancelled || begun.elapsed() > if busy.is_empty() { timeout } else { long };
        }
        quiet = if busy.is_empty() { quiet + 1 } else { 0 };
        if quiet == QUIET_POLLS || over {
            return Wait { waited: begun.elapsed(), busy };
        }
        before = now;
    }
}

fn look(kernel: &Kernel, device: Option<(u32, u32)>) -> Look {
    let unwritten = kernel.read("proc/meminfo").map_or(0, |text| {
        let kib = |name: &str| number_after(&text, name).unwrap_or(0);
        1024 * (kib("Dirty:") + kib("Writeback:"))
    });
    let device = device.and_then(|(major, minor)| {
        let text = kernel.read(&format!("sys/dev/block/{major}:{minor}/stat")).ok()?;
        text.split_whitespace().map(|word| word.parse().ok()).collect()
    });
    let stalled_us = kernel.read("proc/pressure/io").ok().and_then(|text| number_after(&text, "total="));
    Look { at: Instant::now(), unwritten, device, stalled_us }
}

/// Describes each activity that was still busy between two polls.
fn busy(before: &Look, now: &Look, plan: &IdlePlan) -> Vec<String> {
    let mut found = Vec::new();
    if now.unwritten > plan.dirty.as_u64() {
        found.push(format!("{} dirty or under writeback", bytesize::ByteSize(now.unwritten)));
    }
    if let (Some(earlier), Some(later)) = (&before.device, &now.device) {
        // The ninth field is the number of requests in flight; the others only grow.
        if earlier != later || later.get(8).is_some_and(|in_flight| *in_flight > 0) {
            found.push("the device is busy".into());
        }
    }
    if let (Some(earlier), Some(later)) = (before.stalled_us, now.stalled_us) {
        let interval = now.at.duration_since(before.at).as_micros().max(1) as f64;
        let share = 100.0 * later.saturating_sub(earlier) as f64 / interval;
        if share > plan.io_pressure_percent {
            found.push(format!("I/O pressure {share:.0}%"));
        }
    }
    found
}

/// A kernel thread that is still initialising a filesystem. The thread exists before and long after this work, even
/// after the unmount, so it counts only while a mounted filesystem has uninitialised tables.
fn initialiser(kernel: &Kernel) -> Option<String> {
    let processes = std::fs::read_dir(kernel.path("proc")).ok()?;
    let name = processes
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok())
        .find(|name| initialisers().any(|(_, initialiser)| initialiser.thread == name.trim_end()))?;
    has_work(kernel, name.trim_end()).then(|| format!("{} is still at work", name.trim_end()))
}

/// Whether the thread of this name has work left on a mounted filesystem. Skips filesystems that cannot be read.
fn has_work(kernel: &Kernel, thread: &str) -> bool {
    let mounts = kernel.mounts().unwrap_or_default();
    let writable = mounts.iter().filter(|mount| !mount.super_options.split(',').any(|option| option == "ro"));
    let of = |fs_type: &str| {
        initialisers()
            .find(|(kernel_type, initialiser)| *kernel_type == fs_type && initialiser.thread == thread)
    };
    writable
        .filter_map(|mount| Some((of(&mount.fs_type)?.1.has_work)(Path::new(&mount.source))))
        .any(|work| work.unwrap_or(false))
}

/// The threads that initialise filesystems after mount, each with the kernel's name of the filesystem.
fn initialisers() -> impl Iterator<Item = (&'static str, Initialiser)> {
    FILESYSTEMS.iter().filter_map(|def| Some((def.kernel_type, def.initialiser?)))
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = text.split_once(label)?.1.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytesize::ByteSize;

    fn machine(dirty_kib: u64, stat: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/meminfo", &format!("MemTotal: 1 kB\nDirty:   {dirty_kib} kB\nWriteback:  0 kB\n"));
        write(
            "proc/pressure/io",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 total=5\n",
        );
        write("sys/dev/block/7:0/stat", stat);
        write("proc/12/comm", "bash\n");
        root
    }

    fn plan() -> IdlePlan {
        IdlePlan { timeout_s: 0.05, dirty: ByteSize::kib(64), io_pressure_percent: 10.0 }
    }

    fn busy_of(root: &Path) -> Vec<String> {
        let kernel = Kernel::at(root);
        let scene = Scene { kernel: &kernel, device: Some((7, 0)), timeouts: 0 };
        wait_until_idle(scene, &plan()).busy
    }

    #[test]
    fn an_idle_machine_is_not_waited_for() {
        let root = machine(10, "1 2 3 4 5 6 7 8 0 10 11");
        assert_eq!(busy_of(root.path()), Vec::<String>::new());
    }

    #[test]
    fn what_stays_busy_is_named() {
        let root = machine(100, "1 2 3 4 5 6 7 8 1 10 11");
        let busy = busy_of(root.path());
        assert_eq!(busy, ["100.0 KiB dirty or under writeback", "the device is busy"]);
    }

    /// The busy activities while the thread exists and an ext4 with these extended options is mounted.
    fn busy_with(extended: &str, mount: &str) -> Vec<String> {
        let root = machine(0, "0 0 0 0 0 0 0 0 0 0 0");
        std::fs::create_dir_all(root.path().join("proc/99")).unwrap();
        std::fs::write(root.path().join("proc/99/comm"), "ext4lazyinit\n").unwrap();
        let image = root.path().join("image");
        std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
        let argv = fsarena_sys::argv::Argv::new("mkfs.ext4").args(["-q", "-F", "-b", "1024", "-E", extended]);
        argv.arg(&image).expect(&mut |_| {}).unwrap();
        let line = mount.replace("IMAGE", image.to_str().unwrap());
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), line).unwrap();
        busy_of(root.path())
    }

    const MOUNTED: &str = "36 35 7:0 / /mnt rw,noatime - ext4 IMAGE rw\n";

    #[test]
    fn background_initialisation_is_waited_for() {
        let lazy = "lazy_itable_init=1,nodiscard";
        assert_eq!(busy_with(lazy, MOUNTED), ["ext4lazyinit is still at work"]);
    }

    #[test]
    fn a_thread_with_nothing_to_initialise_is_not_waited_for() {
        let lazy = "lazy_itable_init=1,nodiscard";
        assert!(busy_with("lazy_itable_init=0", MOUNTED).is_empty());
        assert!(busy_with(lazy, "").is_empty(), "unmounted since");
        assert!(busy_with(lazy, &MOUNTED.replace("IMAGE", "/no/such")).is_empty(), "cannot be asked");
        assert!(busy_with(lazy, "36 35 7:0 / /mnt ro - ext4 IMAGE ro\n").is_empty());
        assert!(busy_with(lazy, "36 35 7:0 / /mnt rw - xfs IMAGE rw\n").is_empty());
    }

    #[test]
    fn a_kernel_that_tells_nothing_is_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        assert!(busy_of(root.path()).is_empty());
    }
}
