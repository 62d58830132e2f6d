//! The definition of a probe, and of the gauge with its values: usually a kernel file that stays open.

use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::ReadingDef;
use fsarena_sys::kernel::SysRoot;
use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

/// A source of readings around a task.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Its name, which is also the name of its source file.
    pub id: &'static str,
    /// A description of one line.
    pub help: &'static str,
    /// Its readings, in the order of the values of its gauge.
    pub readings: &'static [ProbeReading],
    /// Opens the gauge, once for all tasks of a cell. The error is the reason why it is unavailable on this machine.
    pub open: fn(&ProbeTarget) -> Result<OpenedProbe, Unavailable>,
}

/// A reading, and how to compute it from the gauge's values before and after the task.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReading {
    /// Its definition.
    pub def: ReadingDef,
    /// How to compute it from the values of the gauge.
    pub sampling: Sampling,
}

/// When a gauge is read for a reading, and how the reading is computed from the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// The growth from before the task until its work had returned.
    GrowthUntilReturn,
    /// The growth from before the task until its data was on the device.
    GrowthUntilSynced,
    /// The value when the work had returned.
    AtReturn,
}

impl Sampling {
    /// A reading with this definition that is sampled in this way.
    pub const fn reading(self, def: ReadingDef) -> ProbeReading {
        ProbeReading { def, sampling: self }
    }
}

/// The machine and the device that the probes read.
#[derive(Debug, Clone)]
pub struct ProbeTarget {
    /// The root of `/proc` and `/sys`.
    pub kernel: SysRoot,
    /// Major and minor number of the device under test; None if it is unknown.
    pub device: Option<(u32, u32)>,
}

/// A probe that is ready to be read.
pub struct OpenedProbe {
    /// The source of its values.
    pub gauge: Box<dyn Gauge>,
    /// Notes on the source of its readings, for reports.
    pub notes: Vec<Note>,
}

impl OpenedProbe {
    /// A probe with this gauge, without notes.
    pub fn new(gauge: impl Gauge + 'static) -> OpenedProbe {
        OpenedProbe { gauge: Box::new(gauge), notes: vec![] }
    }
}

/// A source of numbers.
pub trait Gauge: Send {
    /// Writes the present values to `out`, one for each reading of the probe; NaN marks an unavailable value.
    ///
    /// # Errors
    /// The kernel file cannot be read, or has an unknown format.
    fn read(&mut self, out: &mut [f64]) -> io::Result<()>;

    /// Resets peaks. Called before each task.
    fn reset_peaks(&mut self) {}
}

/// A kernel file that stays open, so that reading it costs one system call.
pub struct KernelFile {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl KernelFile {
    /// Opens `proc/…` or `sys/…`.
    ///
    /// # Errors
    /// The file is missing or cannot be read.
    pub fn open(kernel: &SysRoot, relative_path: &str) -> Result<KernelFile, Unavailable> {
        let path = kernel.path(relative_path);
        match File::open(&path) {
            Ok(file) => Ok(KernelFile { file, path, buffer: vec![0; 4096] }),
            Err(error) => Err(Unavailable::new(format!("{}: {error}", path.display()))),
        }
    }

    /// Reads the present content of the file.
    ///
    /// # Errors
    /// The file cannot be read or is not text.
    pub fn read_text(&mut self) -> io::Result<&str> {
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(2 * length, 0);
            }
            match self.file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        std::str::from_utf8(&self.buffer[..length]).map_err(|_| self.unknown_format_error())
    }

    /// The error for a file with an unknown format.
    pub fn unknown_format_error(&self) -> io::Error {
        let text = format!("{} has a format that fsarena does not understand", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

/// A gauge that reads one kernel file and parses it with a function.
pub struct TextGauge {
    file: KernelFile,
    parse: ParseFn,
}

/// Writes the values of a probe from the text of a file to a slice; None if the text has another format.
pub type ParseFn = fn(&str, &mut [f64]) -> Option<()>;

impl TextGauge {
    /// Opens the file.
    ///
    /// # Errors
    /// The file is missing or cannot be read.
    pub fn open(kernel: &SysRoot, relative_path: &str, parse: ParseFn) -> Result<TextGauge, Unavailable> {
        Ok(TextGauge { file: KernelFile::open(kernel, relative_path)?, parse })
    }
}

impl Gauge for TextGauge {
    fn read(&mut self, out: &mut [f64]) -> io::Result<()> {
        let parsed = (self.parse)(self.file.read_text()?, out);
        parsed.ok_or_else(|| self.file.unknown_format_error())
    }
}

/// Why a probe is unavailable on this machine, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The missing feature.
    pub why: String,
    /// The remedy, if any.
    pub fix: Option<String>,
}

impl Unavailable {
    /// A missing feature.
    pub fn new(why: impl Into<String>) -> Unavailable {
        Unavailable { why: why.into(), fix: None }
    }

    /// Adds a remedy.
    pub fn with_fix(mut self, fix: impl Into<String>) -> Unavailable {
        self.fix = Some(fix.into());
        self
    }

    /// The note that the probe with this id has no readings, and why.
    pub fn into_note(self, probe_id: &str) -> Note {
        let text = format!("no readings of probe {probe_id}: {}", self.why);
        Note { fix: self.fix, ..Note::new(NoteKind::Unavailable, text) }
    }
}

/// The first number after a name at the beginning of a line: `Dirty:  12 kB` → 12.
pub(crate) fn number_after(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    parse_counter(line.split_ascii_whitespace().next()?)
}

/// Parses a counter of the kernel. Above 2^53 the last digits are rounded, which does not matter for differences.
pub(crate) fn parse_counter(word: &str) -> Option<f64> {
    word.parse::<u64>().ok().map(|value| value as f64)
}

/// The first `N` times in the first line of `/proc/stat` (the sum of all CPUs), in nanoseconds.
pub(crate) fn cpu_times_ns<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut words = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut times = [0.0; N];
    for time in &mut times {
        *time = parse_counter(words.next()?)? * tick_ns();
    }
    Some(times)
}

/// The unit of `/proc/stat` in nanoseconds: 1/USER_HZ, which does not depend on the kernel's own tick.
pub(crate) fn tick_ns() -> f64 {
    1e9 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
pub(crate) mod testing {
    //! Shared code for the tests of probes.

    use super::Gauge;
    use fsarena_sys::kernel::SysRoot;
    use fsarena_sys::testkit::FakeRoot;

    /// A fake `/proc` and `/sys` with these files.
    pub(crate) fn kernel_with(files: &[(&str, &str)]) -> (FakeRoot, SysRoot) {
        let root = FakeRoot::with(files);
        let kernel = SysRoot::at(root.path());
        (root, kernel)
    }

    /// The present values of a gauge, one for each of `readings` readings.
    pub(crate) fn read_once(gauge: &mut dyn Gauge, readings: usize) -> Vec<f64> {
        let mut out = vec![f64::NAN; readings];
        gauge.read(&mut out).unwrap();
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_file_is_reread_completely_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        let mut file = KernelFile::open(&SysRoot::at(dir.path()), "long").unwrap();
        assert_eq!(file.read_text().unwrap().len(), 10_000);
        std::fs::write(&path, "short").unwrap();
        assert_eq!(file.read_text().unwrap(), "short");
        std::fs::write(&path, b"\xff").unwrap();
        assert!(file.read_text().unwrap_err().to_string().contains("long has a form"));
    }

    #[test]
    fn a_number_is_found_by_the_whole_name_before_it() {
        let text = "Dirty:   12 kB\nWritebackTmp:  7 kB\nWriteback:   3 kB\n";
        assert_eq!(number_after(text, "Writeback:"), Some(3.0));
        assert_eq!(number_after(text, "Cached:"), None);
        assert_eq!(number_after("a: -1", "a:"), None);
    }
}
