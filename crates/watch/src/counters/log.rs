//! The lines of a log file, over rotation and truncation.

use crate::counters::{Counter, Trouble};
use fsarena_sys::input;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::{fs::File, io::ErrorKind};

/// Bytes to read at once.
const PIECE: usize = 64 << 10;
/// The longest line searched for a word. Of a longer line fsarena searches the end.
const LONGEST: usize = 64 << 10;

/// Counts lines that were added since it was opened.
pub struct Log {
    path: PathBuf,
    word: Option<String>,
    open: Option<OpenLog>,
    /// Whether it was looked at already: what is there before that does not count.
    begun: bool,
    lines: f64,
    piece: Vec<u8>,
    rest: Vec<u8>,
}

/// The file as it was last seen.
struct OpenLog {
    file: File,
    identity: (u64, u64),
    at: u64,
}

impl Log {
    /// The lines of a file, or those of them with a word in them.
    pub fn new(path: &Path, word: Option<String>) -> Log {
        Log {
            path: path.into(),
            word,
            open: None,
            begun: false,
            lines: 0.0,
            piece: vec![0; PIECE],
            rest: vec![],
        }
    }

    fn trouble(&self, error: &std::io::Error) -> Trouble {
        Trouble::new(format!("{}: {error}", self.path.display()))
    }

    /// Opens what lies at the path now, where that is another file than before.
    fn follow(&mut self) -> Result<(), Trouble> {
        let found = match std::fs::metadata(&self.path) {
            // Between two files of a rotation there is none; the lines of the old one are counted.
            Err(error) if error.kind() == ErrorKind::NotFound && self.open.is_some() => return Ok(()),
            found => found.map_err(|error| self.trouble(&error))?,
        };
        let identity = (found.dev(), found.ino());
        if self.open.as_ref().is_some_and(|open| open.identity == identity) {
            return Ok(());
        }
        let file = input::open(&self.path).map_err(|error| self.trouble(&error))?;
        // A file that came by rotation is new from its first line on.
        let at = if self.begun { 0 } else { found.len() };
        self.open = Some(OpenLog { file, identity, at });
        self.rest.clear();
        Ok(())
    }

    /// Counts to the end of what is open.
    fn count(&mut self) -> Result<(), Trouble> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        let counted = self.count_in(&mut open);
        self.open = Some(open);
        counted.map_err(|error| self.trouble(&error))
    }

    fn count_in(&mut self, open: &mut OpenLog) -> std::io::Result<()> {
        if open.file.metadata()?.len() < open.at {
            // Copied and truncated: what was written between the two is lost to any reader.
            open.at = 0;
            self.rest.clear();
        }
        loop {
            let read = open.file.read_at(&mut self.piece, open.at)?;
            if read == 0 {
                return Ok(());
            }
            open.at += read as u64;
            match &self.word {
                None => self.lines += self.piece[..read].iter().filter(|byte| **byte == b'\n').count() as f64,
                Some(word) => self.lines += with_word(&mut self.rest, &self.piece[..read], word.as_bytes()),
            }
        }
    }
}

/// How many whole lines of the piece, the rest of the one before included, have the word.
fn with_word(rest: &mut Vec<u8>, piece: &[u8], word: &[u8]) -> f64 {
    let mut found = 0.0;
    for part in piece.split_inclusive(|byte| *byte == b'\n') {
        rest.extend_from_slice(part);
        if rest.last() == Some(&b'\n') {
            found += f64::from(u8::from(word.is_empty() || rest.windows(word.len()).any(|at| at == word)));
            rest.clear();
        } else if rest.len() > LONGEST {
            rest.drain(..rest.len() - LONGEST);
        }
    }
    found
}

impl Counter for Log {
    fn read(&mut self) -> Result<f64, Trouble> {
        // First what is left of the old file, then the new one.
        self.count()?;
        self.follow()?;
        self.begun = true;
        self.count()?;
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
    fn lines_count_over_rotation_and_truncation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("access.log");
        append(&path, "old\nold\n");
        let mut log = Log::new(&path, None);
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
    fn a_file_that_comes_later_counts_from_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = Log::new(&path, None);
        assert!(log.read().unwrap_err().0.contains("No such file"));
        append(&path, "a\n");
        assert_eq!(log.read(), Ok(0.0));
        append(&path, "b\n");
        assert_eq!(log.read(), Ok(1.0));
    }

    #[test]
    fn only_lines_with_the_word_where_one_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        append(&path, "");
        let mut log = Log::new(&path, Some("GET".into()));
        assert_eq!(log.read(), Ok(0.0));
        append(&path, "GET /a\nPOST /b\nG");
        assert_eq!(log.read(), Ok(1.0));
        append(&path, "ET /c\n");
        assert_eq!(log.read(), Ok(2.0));
    }
}
