//! A counter of the lines of a log file, which follows rotation and truncation of the file.

use crate::watch::counter::{Counter, CounterError};
use fsarena_sys::input;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The number of bytes per read.
const BUFFER_BYTES: usize = 64 << 10;
/// The largest part of a line that fsarena searches for a word, in bytes: the end of the line.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A counter of the lines that were added to a file since the first reading.
pub struct LogCounter {
    path: PathBuf,
    word: Option<String>,
    open_log: Option<OpenLog>,
    /// Whether there was a reading. Lines that the file has before the first reading do not count.
    has_been_read: bool,
    /// The number of lines so far.
    lines: f64,
    buffer: Vec<u8>,
    /// The beginning of a line whose end is not written yet.
    partial_line: Vec<u8>,
}

/// The open log file.
struct OpenLog {
    file: File,
    /// The device and the inode of the file.
    identity: (u64, u64),
    /// The offset up to which the lines are counted.
    counted_to: u64,
}

impl LogCounter {
    /// A counter of all lines of a file, or of those that contain `word`.
    pub fn new(path: &Path, word: Option<String>) -> LogCounter {
        LogCounter {
            path: path.into(),
            word,
            open_log: None,
            has_been_read: false,
            lines: 0.0,
            buffer: vec![0; BUFFER_BYTES],
            partial_line: vec![],
        }
    }

    fn error(&self, error: &std::io::Error) -> CounterError {
        CounterError::new(format!("{}: {error}", self.path.display()))
    }

    /// Opens the file at the path if it is another one than the open file, after the last lines of the open file are counted.
    fn reopen_if_rotated(&mut self) -> Result<(), CounterError> {
        let meta = match std::fs::metadata(&self.path) {
            // During a rotation the path may have no file for a moment. Keep the old one.
            Err(error) if error.kind() == ErrorKind::NotFound && self.open_log.is_some() => return Ok(()),
            result => result.map_err(|error| self.error(&error))?,
        };
        if self.open_log.as_ref().is_some_and(|log| log.identity == identity_of(&meta)) {
            return Ok(());
        }
        let file = input::open(&self.path).map_err(|error| self.error(&error))?;
        // A rotation in between may have put another file there. With the identity of the former file, this file would be opened
        // again at the next reading, and its lines counted twice.
        let meta = file.metadata().map_err(|error| self.error(&error))?;
        let identity = identity_of(&meta);
        // The last lines of the former file.
        self.count_to_end()?;
        // After a rotation all lines of the new file count.
        let counted_to = if self.has_been_read { 0 } else { meta.len() };
        self.open_log = Some(OpenLog { file, identity, counted_to });
        self.partial_line.clear();
        Ok(())
    }

    /// Counts the lines up to the end of the open file.
    fn count_to_end(&mut self) -> Result<(), CounterError> {
        let Some(mut open_log) = self.open_log.take() else { return Ok(()) };
        let counted = self.count_new_lines(&mut open_log);
        self.open_log = Some(open_log);
        counted.map_err(|error| self.error(&error))
    }

    fn count_new_lines(&mut self, log: &mut OpenLog) -> std::io::Result<()> {
        if log.file.metadata()?.len() < log.counted_to {
            // The file was copied and truncated. Lines that were written between both steps are lost.
            log.counted_to = 0;
            self.partial_line.clear();
        }
        loop {
            let read_bytes = log.file.read_at(&mut self.buffer, log.counted_to)?;
            if read_bytes == 0 {
                return Ok(());
            }
            log.counted_to += read_bytes as u64;
            let data = &self.buffer[..read_bytes];
            self.lines += match &self.word {
                None => data.iter().filter(|byte| **byte == b'\n').count() as f64,
                Some(word) => count_lines_with(&mut self.partial_line, data, word.as_bytes()),
            };
        }
    }
}

/// The device and the inode of a file.
fn identity_of(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Counts the complete lines in `data` that contain the word. `partial_line` is the beginning of the first line, from earlier
/// data; afterwards it is that of the last line, if that is incomplete.
fn count_lines_with(partial_line: &mut Vec<u8>, data: &[u8], word: &[u8]) -> f64 {
    let mut count = 0.0;
    for part in data.split_inclusive(|byte| *byte == b'\n') {
        partial_line.extend_from_slice(part);
        if partial_line.last() == Some(&b'\n') {
            if word.is_empty() || partial_line.windows(word.len()).any(|bytes| bytes == word) {
                count += 1.0;
            }
            partial_line.clear();
        } else if partial_line.len() > MAX_LINE_BYTES {
            partial_line.drain(..partial_line.len() - MAX_LINE_BYTES);
        }
    }
    count
}

impl Counter for LogCounter {
    fn read(&mut self) -> Result<f64, CounterError> {
        self.reopen_if_rotated()?;
        self.has_been_read = true;
        self.count_to_end()?;
        Ok(self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn append(path: &Path, text: &str) {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn lines_are_counted_across_rotation_and_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        append(&path, "old\nold\n");
        let mut log = LogCounter::new(&path, None);
        assert_eq!(log.read(), Ok(0.0));
        append(&path, "a\nb\nhalf");
        assert_eq!(log.read(), Ok(2.0));
        append(&path, " of it\nlast\n");
        std::fs::rename(&path, dir.path().join("access.log.1")).unwrap();
        append(&dir.path().join("access.log.1"), "late\n");
        assert_eq!(log.read(), Ok(5.0), "the new file does not exist yet");
        append(&path, "new\nnew\n");
        assert_eq!(log.read(), Ok(7.0));
        std::fs::write(&path, "x\n").unwrap();
        assert_eq!(log.read(), Ok(8.0));
    }

    #[test]
    fn a_file_created_later_counts_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogCounter::new(&path, None);
        assert!(log.read().unwrap_err().0.contains("No such file"));
        append(&path, "a\n");
        assert_eq!(log.read(), Ok(0.0));
        append(&path, "b\n");
        assert_eq!(log.read(), Ok(1.0));
    }

    #[test]
    fn with_a_word_only_lines_that_contain_it_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "");
        let mut log = LogCounter::new(&path, Some("GET".into()));
        assert_eq!(log.read(), Ok(0.0));
        append(&path, "GET /a\nPOST /b\nG");
        assert_eq!(log.read(), Ok(1.0));
        append(&path, "ET /c\n");
        assert_eq!(log.read(), Ok(2.0));
    }
}
