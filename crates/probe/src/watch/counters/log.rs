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
    /// The file before the last rotation: its writer uses it until it has opened the new file.
    former_log: Option<OpenLog>,
    /// Whether there was a reading. Lines that the file has before the first reading do not count.
    has_been_read: bool,
    /// The number of lines so far.
    lines: f64,
    buffer: Vec<u8>,
}

/// An open log file.
struct OpenLog {
    file: File,
    /// The device and the inode of the file.
    identity: (u64, u64),
    /// The offset up to which the lines are counted.
    counted_to: u64,
    /// The beginning of a line whose end is not written yet.
    partial_line: Vec<u8>,
}

impl LogCounter {
    /// A counter of all lines of a file, or of those that contain `word`.
    pub fn new(path: &Path, word: Option<String>) -> LogCounter {
        LogCounter {
            path: path.into(),
            word,
            open_log: None,
            former_log: None,
            has_been_read: false,
            lines: 0.0,
            buffer: vec![0; BUFFER_BYTES],
        }
    }

    /// Opens the file at the path if it is another one than the open file, which becomes the former one.
    fn reopen_if_rotated(&mut self) -> std::io::Result<()> {
        let meta = match std::fs::metadata(&self.path) {
            // During a rotation the path may have no file for a moment. Keep the old one.
            Err(error) if error.kind() == ErrorKind::NotFound && self.open_log.is_some() => return Ok(()),
            result => result?,
        };
        if self.open_log.as_ref().is_some_and(|log| log.identity == identity_of(&meta)) {
            return Ok(());
        }
        let file = input::open(&self.path)?;
        // A rotation in between may have put another file there. With the identity of the former file, this file would be opened
        // again at the next reading, and its lines counted twice.
        let meta = file.metadata()?;
        // If there is a former file, it is closed below: count its last lines first.
        self.count_new_lines()?;
        // After a rotation all lines of the new file count.
        let counted_to = if self.has_been_read { 0 } else { meta.len() };
        let opened = OpenLog { file, identity: identity_of(&meta), counted_to, partial_line: vec![] };
        self.former_log = self.open_log.replace(opened);
        Ok(())
    }

    /// Counts the lines up to the end of the open files. Closes the former file once the new one has lines, because its writer
    /// has then opened the new one.
    fn count_new_lines(&mut self) -> std::io::Result<()> {
        let word = self.word.as_deref().map(str::as_bytes);
        for log in [&mut self.former_log, &mut self.open_log].into_iter().flatten() {
            log.count_new_lines(word, &mut self.buffer, &mut self.lines)?;
        }
        if self.open_log.as_ref().is_some_and(|log| log.counted_to > 0) {
            self.former_log = None;
        }
        Ok(())
    }
}

impl OpenLog {
    /// Adds the number of lines up to the end of the file to `lines`; only those that contain `word`, if one is given.
    fn count_new_lines(&mut self, word: Option<&[u8]>, buffer: &mut [u8], lines: &mut f64) -> std::io::Result<()> {
        if self.file.metadata()?.len() < self.counted_to {
            // The file was copied and truncated. Lines that were written between both steps are lost.
            self.counted_to = 0;
            self.partial_line.clear();
        }
        loop {
            let read_bytes = self.file.read_at(buffer, self.counted_to)?;
            if read_bytes == 0 {
                return Ok(());
            }
            self.counted_to += read_bytes as u64;
            let data = &buffer[..read_bytes];
            *lines += match word {
                None => data.iter().filter(|byte| **byte == b'\n').count() as f64,
                Some(word) => count_lines_with(&mut self.partial_line, data, word),
            };
        }
    }
}

/// The device and the inode of a file.
fn identity_of(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Counts the complete lines in `data` that contain the word. Before the call, `partial_line` has the beginning of the first
/// line, from earlier data; afterwards it has the beginning of the last line, if the end of that line is missing.
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
        let counted = self.reopen_if_rotated().and_then(|()| {
            self.has_been_read = true;
            self.count_new_lines()
        });
        match counted {
            Ok(()) => Ok(self.lines),
            Err(error) => Err(CounterError(format!("{}: {error}", self.path.display()))),
        }
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
    fn lines_that_the_former_file_gets_before_its_writer_opens_the_new_one_count() {
        let dir = tempfile::tempdir().unwrap();
        let (path, former) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
        append(&path, "old\n");
        let mut log = LogCounter::new(&path, None);
        assert_eq!(log.read(), Ok(0.0));
        std::fs::rename(&path, &former).unwrap();
        append(&path, "");
        append(&former, "a\n");
        assert_eq!(log.read(), Ok(1.0));
        append(&former, "b\n");
        assert_eq!(log.read(), Ok(2.0));
        append(&former, "c\n");
        append(&path, "d\n");
        assert_eq!(log.read(), Ok(4.0));
        // The former file is closed.
        append(&former, "e\n");
        assert_eq!(log.read(), Ok(4.0));
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
