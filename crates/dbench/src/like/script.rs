//! Lines of a load while it is made, and the small habits that they come in.

use crate::kind::Kind;
use crate::number::Number;
use crate::program::Expected;

/// One operation.
#[derive(Debug, Clone)]
pub struct Line {
    pub kind: Kind,
    pub names: Vec<String>,
    pub numbers: Vec<i64>,
    pub expected: Expected,
}

impl Line {
    /// One that succeeds.
    pub fn new(kind: Kind) -> Line {
        Line { kind, names: vec![], numbers: vec![], expected: Expected::Success }
    }

    /// With one more name.
    pub fn name(mut self, name: &str) -> Line {
        self.names.push(name.into());
        self
    }

    /// With these numbers.
    pub fn numbers<const N: usize>(mut self, numbers: [i64; N]) -> Line {
        self.numbers = numbers.into();
        self
    }

    /// An operation that fails because the name does not exist.
    pub fn fails(mut self) -> Line {
        self.expected = Expected::Failure;
        self
    }

    /// Its numbers as a program takes them.
    pub fn literals(&self) -> Vec<Number> {
        self.numbers.iter().copied().map(Number::Literal).collect()
    }
}

/// Lines in the order of their making; handles are never used twice.
#[derive(Debug, Default)]
pub struct Script {
    pub lines: Vec<Line>,
    handles: i64,
}

impl Script {
    /// Adds a line.
    pub fn push(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// All lines since the last time.
    pub fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// A new handle.
    pub fn handle(&mut self) -> i64 {
        self.handles += 1;
        self.handles
    }

    /// Looks a name up that is not there, and tries to open it.
    pub fn miss(&mut self, name: &str) {
        self.push(Line::new(Kind::QueryPath).name(name).numbers([1004]).fails());
        self.push(Line::new(Kind::NtCreateX).name(name).numbers([0x40, 0x1, 0]).fails());
    }

    /// Creates a file; gives its handle.
    pub fn create(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.push(Line::new(Kind::NtCreateX).name(name).numbers([0x40, 0x2, handle]));
        handle
    }

    /// Looks a file up that is there, and opens it; gives its handle.
    pub fn open(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.push(Line::new(Kind::QueryPath).name(name).numbers([1004]));
        self.push(Line::new(Kind::NtCreateX).name(name).numbers([0x40, 0x1, handle]));
        handle
    }

    /// Writes a new file in pieces, as office programs on Windows do: the end of the first piece is set by a
    /// write of one byte, then come the pieces.
    pub fn write_chunks(&mut self, handle: i64, chunks: &[i64]) {
        // Samba's clients set no end beyond 64 KiB less one.
        let end = chunks.first().map_or(0, |first| (*first).min(super::WRITE - 1));
        self.push(Line::new(Kind::WriteX).numbers([handle, end - 1, 1, 1]));
        self.push(Line::new(Kind::QueryFile).numbers([handle, 258]));
        let mut at = 0;
        for chunk in chunks {
            self.push(Line::new(Kind::WriteX).numbers([handle, at, *chunk, *chunk]));
            at += chunk;
        }
    }

    /// Closes a handle.
    pub fn close(&mut self, handle: i64) {
        self.push(Line::new(Kind::Close).numbers([handle]));
    }
}
