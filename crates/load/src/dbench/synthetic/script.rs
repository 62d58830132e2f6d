//! Lines of a load while it is made, the small habits that they come in, and the decks that decide on them: a fixed
//! count of each value, shuffled by the seed. Drawing without replacement keeps shares exact.

use crate::dbench::{kind::Kind, number::Number, program::Expected};
use rand::{Rng, RngExt, seq::SliceRandom};

/// Directories of each client below its own: with that one eleven.
pub const DIRECTORIES: [&str; 10] =
    ["mail", "letters", "sheets", "slides", "drawings", "layouts", "accounts", "stock", "scans", "notes"];
/// Bytes of a large write.
pub const WRITE: i64 = 65_536;

/// A file that stays.
#[derive(Debug, Clone)]
pub struct Staying {
    pub name: String,
    pub bytes: i64,
}

/// A directory of a client; each in turn.
pub fn home(at: usize) -> String {
    format!("/clients/client1/{}", DIRECTORIES[at % DIRECTORIES.len()])
}

/// One operation.
#[derive(Debug, Clone)]
pub struct Line {
    pub kind: Kind,
    pub names: Vec<String>,
    pub numbers: Vec<Number>,
    pub expected: Expected,
}

/// Lines in the order of their making; handles are never used twice.
#[derive(Debug, Default)]
pub struct Script {
    pub lines: Vec<Line>,
    handles: i64,
}

impl Script {
    /// Adds an operation that succeeds.
    pub fn does(&mut self, kind: Kind, names: &[&str], numbers: &[i64]) {
        self.push(kind, names, numbers, Expected::Success);
    }

    /// Adds an operation that fails because the name does not exist.
    pub fn fails(&mut self, kind: Kind, name: &str, numbers: &[i64]) {
        self.push(kind, &[name], numbers, Expected::Failure);
    }

    fn push(&mut self, kind: Kind, names: &[&str], numbers: &[i64], expected: Expected) {
        let names = names.iter().map(|name| name.to_string()).collect();
        let numbers = numbers.iter().copied().map(Number::Literal).collect();
        self.lines.push(Line { kind, names, numbers, expected });
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
        self.fails(Kind::QueryPath, name, &[1004]);
        self.fails(Kind::NtCreateX, name, &[0x40, 0x1, 0]);
    }

    /// Creates a file; gives its handle.
    pub fn create(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.does(Kind::NtCreateX, &[name], &[0x40, 0x2, handle]);
        handle
    }

    /// Looks a file up that is there, and opens it; gives its handle.
    pub fn open(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.does(Kind::QueryPath, &[name], &[1004]);
        self.does(Kind::NtCreateX, &[name], &[0x40, 0x1, handle]);
        handle
    }

    /// Writes a new file in pieces, as office programs on Windows do: the end of the first piece is set by a
    /// write of one byte, then come the pieces.
    pub fn write_chunks(&mut self, handle: i64, chunks: &[i64]) {
        // Samba's clients set no end beyond 64 KiB less one.
        let end = chunks.first().map_or(0, |first| (*first).min(WRITE - 1));
        self.does(Kind::WriteX, &[], &[handle, end - 1, 1, 1]);
        self.does(Kind::QueryFile, &[], &[handle, 258]);
        let mut at = 0;
        for chunk in chunks {
            self.does(Kind::WriteX, &[], &[handle, at, *chunk, *chunk]);
            at += chunk;
        }
    }

    /// Closes a handle.
    pub fn close(&mut self, handle: i64) {
        self.does(Kind::Close, &[], &[handle]);
    }
}

/// Things to be drawn once each.
#[derive(Debug, Clone)]
pub struct Deck<T>(Vec<T>);

impl<T: Clone> Deck<T> {
    /// A shuffled deck with the given count of each value.
    pub fn new(counts: &[(usize, T)], rng: &mut impl Rng) -> Deck<T> {
        let each = |(count, what): &(usize, T)| std::iter::repeat_n(what.clone(), *count);
        let mut all: Vec<T> = counts.iter().flat_map(each).collect();
        all.shuffle(rng);
        Deck(all)
    }

    /// The next one.
    ///
    /// # Panics
    /// If the deck is empty. The fixed counts of a cycle match, so this is a bug.
    pub fn draw(&mut self) -> T {
        self.0.pop().expect("a deck has as many as are drawn")
    }

    /// Whether all are drawn.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Something between two numbers, evenly over its logarithm.
pub fn between(low: f64, high: f64, rng: &mut impl Rng) -> i64 {
    (low.ln() + rng.random::<f64>() * (high / low).ln()).exp().round() as i64
}
