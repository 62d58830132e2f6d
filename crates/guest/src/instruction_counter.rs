//! Counts instructions: marks in the guest, a QEMU plugin that counts between marks, and the file with its counts.

use crate::{Error, Result, emulator::path_option};
use rustix::thread::ClockId;
use rustix::time::Timespec;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bytes of the plugin; empty if fsarena was built for another kind of machine than it was built on.
const PLUGIN: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/counter.so"));
/// The major versions of QEMU that have this plugin interface.
const SUPPORTED_VERSIONS: std::ops::RangeInclusive<u32> = 6..=8;

/// The extension of the file by which the plugin reports that it holds the guest. The file lies beside the one that ends
/// the hold.
pub const HELD_EXTENSION: &str = "held";

/// The file of a guest with the counts of its tasks, a line for each.
pub const COUNTS_FILE: &str = "counts";

/// A moment of a task that the plugin counts up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The readings before the work are about to begin.
    BeforeReadings,
    /// The work begins.
    Begin,
    /// The work has returned.
    Return,
    /// The data of the work is on the device. Failed work has no such mark.
    Synced,
    /// The machine is ready to be saved.
    Hold,
}

/// Marks a moment for the plugin, by an instruction that has no effect.
pub fn mark(mark: Mark) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: no-operations.
    unsafe {
        match mark {
            Mark::BeforeReadings => {}
            Mark::Begin => std::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x5a, 0xa5, 0xfa, 1"),
            Mark::Return => std::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x5a, 0xa5, 0xfa, 2"),
            Mark::Synced => std::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x5a, 0xa5, 0xfa, 3"),
            Mark::Hold => std::arch::asm!(".byte 0x0f, 0x1f, 0x84, 0x00, 0x5a, 0xa5, 0xfa, 4"),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = mark;
}

/// Tasks begin at multiples of this number of seconds: the longest of the usual periods of a kernel's timers (1 s for
/// statistics, 5 s for journals and writeback, 10 s for huge pages), so that the timers finish the work of one task
/// before the next.
const PERIOD_S: i64 = 10;
/// The delay of a task after a multiple of [`PERIOD_S`], in which the kernel does its periodic work.
const DELAY: Duration = Duration::from_millis(50);

/// Marks a moment as [`mark`] does. At [`Mark::BeforeReadings`] it first waits for the same moment of a period, so that clock
/// ticks and timers interrupt the same work at the same places. Waiting takes a guest that counts instructions no time.
pub fn wait_and_mark(moment: Mark) {
    if moment == Mark::BeforeReadings {
        let now = rustix::time::clock_gettime(ClockId::Monotonic);
        let tv_sec = (now.tv_sec / PERIOD_S + 1) * PERIOD_S;
        let begin = Timespec { tv_sec, tv_nsec: DELAY.as_nanos() as i64 };
        // If this fails, interrupts only come at other places.
        let _ = rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &begin);
    }
    mark(moment);
}

/// The instructions of one task, of programs and of the kernel. The kernel's are all of its work: system calls, interrupts
/// and its own threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InstructionCounts {
    /// Instructions of programs until the work returned.
    pub user: u64,
    /// Instructions of the kernel until the work returned.
    pub kernel: u64,
    /// Instructions of programs until the data was synced.
    pub user_synced: u64,
    /// Instructions of the kernel until the data was synced.
    pub kernel_synced: u64,
    /// System calls until the data was synced.
    pub system_calls: u64,
}

/// The plugin as a file that QEMU can load.
#[derive(Debug, Clone)]
pub struct CounterPlugin(PathBuf);

impl CounterPlugin {
    /// Writes the plugin into a directory. Returns None if this QEMU cannot load it; `version` is what `--version` prints.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn install(dir: &Path, version: &str) -> Result<Option<CounterPlugin>> {
        if !CounterPlugin::supports(version) {
            return Ok(None);
        }
        let path = dir.join("counter.so");
        std::fs::write(&path, PLUGIN).map_err(Error::io("writing the counter", &path))?;
        Ok(Some(CounterPlugin(path)))
    }

    /// Whether a QEMU can load the plugin; `version` is what `--version` prints.
    pub fn supports(version: &str) -> bool {
        !PLUGIN.is_empty() && major_version(version).is_some_and(|major| SUPPORTED_VERSIONS.contains(&major))
    }

    /// The arguments of QEMU that make it count into a file.
    pub fn count_arguments(&self, counts_file: &Path) -> [OsString; 2] {
        let mut plugin = path_option("file=", &self.0);
        plugin.push(path_option(",out=", counts_file));
        ["-plugin".into(), plugin]
    }

    /// The arguments of QEMU that hold a guest at [`Mark::Hold`] until the file `end_file` exists.
    pub fn hold_arguments(&self, end_file: &Path) -> [OsString; 2] {
        let mut plugin = path_option("file=", &self.0);
        plugin.push(path_option(",hold=", end_file));
        ["-plugin".into(), plugin]
    }
}

/// The major version of QEMU: 7 for `QEMU emulator version 7.2.22 (Debian …)`.
fn major_version(version: &str) -> Option<u32> {
    version.split("version ").nth(1)?.split('.').next()?.parse().ok()
}

/// Reads the counts of a task, numbered from 0, from the file of a guest. None if the file does not contain them.
pub fn read_counts(counts_file: &Path, task: usize) -> Option<InstructionCounts> {
    let text = std::fs::read_to_string(counts_file).ok()?;
    let mut numbers = text.lines().nth(task)?.split(' ').map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten();
    let (user, kernel) = (next()?, next()?);
    Some(InstructionCounts { user, kernel, user_synced: next()?, kernel_synced: next()?, system_calls: next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_used_only_with_supported_versions() {
        let dir = tempfile::tempdir().unwrap();
        let is_supported = |version: &str| CounterPlugin::install(dir.path(), version).unwrap().is_some();
        assert!(is_supported("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\nCopyright"));
        assert!(!is_supported("QEMU emulator version 10.0.2") && !is_supported("") && !is_supported("version x"));
        assert!(std::fs::read(dir.path().join("counter.so")).unwrap().starts_with(b"\x7fELF"));
    }

    #[test]
    fn each_line_has_the_counts_of_a_task() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("counts");
        std::fs::write(&out, "1 2 3 4 5\n5 6 7 8 9\n9 1").unwrap();
        let second = InstructionCounts { user: 5, kernel: 6, user_synced: 7, kernel_synced: 8, system_calls: 9 };
        assert_eq!(read_counts(&out, 1), Some(second));
        assert_eq!((read_counts(&out, 2), read_counts(&out, 3)), (None, None));
    }

    /// The plugin finds the instructions in the program that marks, where they run without any effect.
    #[test]
    fn marks_have_no_effect_on_the_program() {
        [Mark::Begin, Mark::Return, Mark::Synced, Mark::Hold].into_iter().for_each(mark);
        if cfg!(not(target_arch = "x86_64")) {
            return fsarena_sys::testkit::record_skip("marks are instructions of x86-64");
        }
        let program = std::fs::read("/proc/self/exe").unwrap();
        for number in 1..=4 {
            // Inverted, so that this program has the bytes as an instruction only.
            let inverted = std::hint::black_box([0xf0, 0xe0, 0x7b, 0xff, 0xa5, 0x5a, 0x05, !number]);
            let instruction = inverted.map(|byte: u8| !byte);
            assert!(program.windows(8).any(|bytes| bytes == instruction), "no mark {number} in the program");
        }
    }
}
