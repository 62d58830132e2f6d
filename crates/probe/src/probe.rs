//! What every probe defines.
//!
//! A probe reads a [`Gauge`]: usually a kernel file that stays open.

use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::ReadingDef;
use fsarena_sys::kernel::SysRoot;
use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

/// Something that can be read around a task.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// Its name, which is that of its file.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// The readings of its gauge, in that order.
    pub readings: &'static [ProbeReading],
    /// Opens the gauge, once for all tasks of a cell. An error says why this machine cannot tell.
    pub open: fn(&Scene) -> Result<Opened, Unavailable>,
}

/// A reading, and how to compute it from the gauge's values before and after the task.
#[derive(Debug, Clone, Copy)]
pub struct ProbeReading {
    /// Its definition.
    pub def: ReadingDef,
    /// Which values of the gauge it uses.
    pub takes: Takes,
}

/// Which of the gauge's values make a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// The growth from before the task until its work had returned.
    DeltaToReturn,
    /// The growth from before the task until its data was on the device.
    DeltaToSynced,
    /// The value when the work had returned.
    AtReturn,
}

impl Takes {
    /// A reading that is computed so.
    pub const fn of(self, def: ReadingDef) -> ProbeReading {
        ProbeReading { def, takes: self }
    }
}

/// The kernel and device that the probes read.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The kernel's files.
    pub kernel: SysRoot,
    /// Major and minor number of the device under test, where there is one.
    pub device: Option<(u32, u32)>,
}

/// A probe that is ready to be read.
pub struct Opened {
    /// The source of its values.
    pub gauge: Box<dyn Gauge>,
    /// What a reader of the readings should know.
    pub notes: Vec<Note>,
}

impl Opened {
    /// A gauge that needs no explanation.
    pub fn new(gauge: impl Gauge + 'static) -> Opened {
        Opened { gauge: Box::new(gauge), notes: vec![] }
    }
}

/// A source of numbers.
pub trait Gauge: Send {
    /// Writes the present values to `out`, one for each reading of the probe; NaN marks an unavailable value.
    ///
    /// # Errors
    /// Where the kernel does not answer, or not in a form that is known.
    fn read(&mut self, out: &mut [f64]) -> io::Result<()>;

    /// Resets peaks. Called before each task.
    fn reset(&mut self) {}
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
    /// Where it is not there or may not be read.
    pub fn open(kernel: &SysRoot, rel: &str) -> Result<KernelFile, Unavailable> {
        let path = kernel.path(rel);
        match File::open(&path) {
            Ok(file) => Ok(KernelFile { file, path, buffer: vec![0; 4096] }),
            Err(error) => Err(Unavailable::new(format!("{}: {error}", path.display()))),
        }
    }

    /// The present content of the file.
    ///
    /// # Errors
    /// Where it cannot be read or is not text.
    pub fn text(&mut self) -> io::Result<&str> {
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
        std::str::from_utf8(&self.buffer[..length]).map_err(|_| self.unknown_form())
    }

    /// The error of a file that says something unknown.
    pub fn unknown_form(&self) -> io::Error {
        let what = format!("{} has a form that is not known", self.path.display());
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

/// One kernel file and the function that understands it.
pub struct TextGauge {
    file: KernelFile,
    parse: Parse,
}

/// Finds the numbers of a probe in a text; None where it is not of the form expected.
pub type Parse = fn(&str, &mut [f64]) -> Option<()>;

impl TextGauge {
    /// Opens the file.
    ///
    /// # Errors
    /// Where it is not there or may not be read.
    pub fn open(kernel: &SysRoot, rel: &str, parse: Parse) -> Result<TextGauge, Unavailable> {
        Ok(TextGauge { file: KernelFile::open(kernel, rel)?, parse })
    }
}

impl Gauge for TextGauge {
    fn read(&mut self, out: &mut [f64]) -> io::Result<()> {
        let parsed = (self.parse)(self.file.text()?, out);
        parsed.ok_or_else(|| self.file.unknown_form())
    }
}

/// Why a probe is unavailable on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The missing feature.
    pub why: String,
    /// What to do about it.
    pub fix: Option<String>,
}

impl Unavailable {
    /// A missing feature.
    pub fn new(why: impl Into<String>) -> Unavailable {
        Unavailable { why: why.into(), fix: None }
    }

    /// Adds a remedy.
    pub fn fix(mut self, fix: impl Into<String>) -> Unavailable {
        self.fix = Some(fix.into());
        self
    }

    /// A note that this probe has no readings, and why.
    pub fn note(self, probe: &str) -> Note {
        let text = format!("no readings of probe {probe}: {}", self.why);
        Note { fix: self.fix, ..Note::new(NoteKind::Unavailable, text) }
    }
}

/// The number after a name at the beginning of a line: `Dirty:  12 kB` → 12.
pub(crate) fn field(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    number(line.split_ascii_whitespace().next()?)
}

/// A counter of the kernel. Above 2^53 the last digits are rounded, which no difference of them notices.
pub(crate) fn number(word: &str) -> Option<f64> {
    word.parse::<u64>().ok().map(|value| value as f64)
}

/// The first times in the first line of `/proc/stat`, that of all CPUs, in nanoseconds.
pub(crate) fn stat<const N: usize>(text: &str) -> Option<[f64; N]> {
    let mut words = text.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let mut times = [0.0; N];
    for time in &mut times {
        *time = number(words.next()?)? * tick_ns();
    }
    Some(times)
}

/// Nanoseconds of one unit of `/proc/stat`: 1/USER_HZ, whatever the kernel's own tick is.
pub(crate) fn tick_ns() -> f64 {
    1e9 / rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_anew_and_whole_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("long");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        let mut file = KernelFile::open(&SysRoot::at(dir.path()), "long").unwrap();
        assert_eq!(file.text().unwrap().len(), 10_000);
        std::fs::write(&path, "short").unwrap();
        assert_eq!(file.text().unwrap(), "short");
        std::fs::write(&path, b"\xff").unwrap();
        assert!(file.text().unwrap_err().to_string().contains("long has a form"));
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "Dirty:   12 kB\nWritebackTmp:  7 kB\nWriteback:   3 kB\n";
        assert_eq!(field(text, "Writeback:"), Some(3.0));
        assert_eq!(field(text, "Cached:"), None);
        assert_eq!(field("a: -1", "a:"), None);
    }
}
