//! A generator of a load with the statistics of dbench's standard loadfile, for the workload `dbench-like`.
//!
//! The load consists of the lives of files, not of independent draws. A name is looked up in vain, the file is created, its
//! end is set, it is written, closed, renamed, opened again and read, and removed. Meanwhile, files that stay are looked up,
//! held open, read and updated. The number of lives and visits of each kind in a cycle is fixed, and so are the shares of
//! all operations. The seed decides their order, places and sizes.
//!
//! A cycle has about 3,550 operations. Everything in it has a time between 0 and 1, and the cycle is sorted by that. Decks
//! decide on the small variations: a fixed count of each value, shuffled by the seed. Drawing without replacement keeps all
//! shares exact.

#[cfg(test)]
mod tests;

use crate::dbench::program::{Action, Builder, Expected, Program};
use crate::{dbench::kind::OperationKind, dbench::number::Number};
use fsarena_core::schedule::mix;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Number that is mixed into the seed.
const LIKE: u64 = 0x11CE;
/// Number of different cycles of a pass.
const CYCLES: u32 = 8;
/// Number of times that a pass repeats these cycles: 128 cycles in all, where the standard loadfile has 129.
const ROUNDS: i64 = 16;
/// Files that stay, by size in bytes: 56, of 20.9 MB in all.
const STAYING: [(usize, i64); 2] = [(16, 1 << 20), (40, 102_400)];

/// Generates the load of a seed.
pub fn program(seed: u64) -> Program {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, LIKE));
    let mut builder = Builder::default();
    let staying = staying();
    let mut script = Script::default();
    set_up(&staying, &mut script);
    add(&mut builder, &script.lines);
    control(&mut builder, Action::Loop, &[ROUNDS]);
    for number in 0..CYCLES {
        add(&mut builder, &cycle_lines(&staying, number, &mut rng));
    }
    control(&mut builder, Action::EndLoop, &[]);
    builder.finish().expect("a loop of operations that ends is a program")
}

fn staying() -> Vec<Staying> {
    let sizes = STAYING.into_iter().flat_map(|(count, bytes)| std::iter::repeat_n(bytes, count));
    sizes
        .enumerate()
        .map(|(at, bytes)| Staying { name: format!("{}/kept{at:02}.dat", home(at)), bytes })
        .collect()
}

/// Removes the files of an earlier pass, and creates the directories and the files that stay.
fn set_up(staying: &[Staying], script: &mut Script) {
    script.does(OperationKind::Deltree, &["/clients/client1"], &[]);
    script.does(OperationKind::Mkdir, &["/clients"], &[]);
    for directory in std::iter::once("/clients/client1".to_string()).chain((0..DIRECTORIES.len()).map(home)) {
        let handle = script.handle();
        script.does(OperationKind::NtCreateX, &[&directory], &[0x1, 0x2, handle]);
        script.does(OperationKind::Close, &[], &[handle]);
    }
    for file in staying {
        let handle = script.create(&file.name);
        script.does(OperationKind::QueryFs, &[], &[1]);
        let chunks = (0..file.bytes).step_by(WRITE as usize).map(|at| (file.bytes - at).min(WRITE));
        script.write_chunks(handle, &chunks.collect::<Vec<_>>());
        script.does(OperationKind::Close, &[], &[handle]);
    }
}

fn add(builder: &mut Builder, lines: &[Line]) {
    for line in lines {
        let number = builder.len() as u32 + 1;
        let names: Vec<&[u8]> = line.names.iter().map(String::as_bytes).collect();
        builder
            .operation(number, line.kind, &names, &line.numbers, line.expected)
            .expect("scripts make operations that are complete");
    }
}

fn control(builder: &mut Builder, action: Action, numbers: &[i64]) {
    let number = builder.len() as u32 + 1;
    builder.control(number, action, numbers).expect("there is one loop");
}

// Lives and visits of a cycle. The shares of all operations follow from these.
/// Files that are made and removed at once, without data.
const BRIEF: usize = 67;
/// Files with data, by the number of their pieces: large, middling, small.
const LIVES: [(usize, Size); 4] = [(4, Size::Large), (8, Size::Middle), (36, Size::Two), (9, Size::One)];
/// Number of files with data that are renamed.
const RENAMED: usize = 26;
/// Number of files with data that are opened again and read.
const REREAD: usize = 40;
/// Number of files with data whose times are set.
const TIMED: usize = 50;
/// Number of files with data that are synced.
const SYNCED: usize = 15;
/// Files that stay: held open without being read or written.
const HELD: usize = 103;
/// Reads through one handle, for files that stay.
const READS: [(usize, usize); 8] = [(59, 1), (25, 2), (8, 3), (8, 4), (12, 9), (9, 19), (5, 70), (1, 73)];
/// Files that stay: read once and updated.
const UPDATED: usize = 57;
/// Syncs of those, one after every N updates.
const UPDATE_SYNCS: [(usize, u32); 4] = [(50, 0), (3, 2), (1, 4), (3, 6)];
/// Additional lookups of missing names.
const MISSED: usize = 39;
/// Additional searches for patterns without a match.
const NOT_FOUND: usize = 54;
/// Directories that are listed.
const LISTED: usize = 104;
/// Additional lookups of existing names.
const LOOKED_UP: usize = 40;
/// Additional queries of file attributes by handle.
const ASKED: usize = 41;
/// Additional queries of free space.
const SPACE: usize = 45;
/// Ranges that are locked and unlocked.
const LOCKED: usize = 2;
/// Mean share of a cycle that a file with data lives: 57 of them make 13 at any time.
const LIFE: f64 = 0.23;
/// Mean share of a cycle that a file is held open: 103 of them make 4 at any time.
const HOLD: f64 = 0.04;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Large,
    Middle,
    Two,
    One,
}

/// The decks that a cycle draws from.
struct Decks {
    reads: Deck<i64>,
    firsts: Deck<Option<i64>>,
    seconds: Deck<Option<i64>>,
    updates: Deck<i64>,
    syncs: Deck<u32>,
    renamed: Deck<bool>,
    reread: Deck<bool>,
    timed: Deck<bool>,
    synced: Deck<bool>,
    asked: Deck<bool>,
    locked: Deck<bool>,
}

impl Decks {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Decks {
        let data = LIVES.iter().map(|(count, _)| count).sum::<usize>();
        let some = |count: usize, of: usize| [(count, true), (of - count, false)];
        let reading: usize = READS.iter().map(|(count, _)| count).sum();
        Decks {
            reads: Deck::new(
                &[(606, 4096), (129, 61_440), (36, 2048), (36, 8192), (15, 16_384), (102, 0)],
                rng,
            ),
            // Where it says None, a size of no fixed habit.
            firsts: Deck::new(&[(20, Some(4096)), (13, Some(2048)), (2, Some(8192)), (10, None)], rng),
            seconds: Deck::new(&[(10, Some(4096)), (26, None)], rng),
            updates: Deck::new(&[(54, WRITE), (48, 4096), (7, 8192), (3, 510)], rng),
            syncs: Deck::new(&UPDATE_SYNCS, rng),
            renamed: Deck::new(&some(RENAMED, data), rng),
            reread: Deck::new(&some(REREAD, data), rng),
            timed: Deck::new(&some(TIMED, data), rng),
            synced: Deck::new(&some(SYNCED, data), rng),
            asked: Deck::new(&some(ASKED, reading), rng),
            locked: Deck::new(&some(LOCKED, UPDATED), rng),
        }
    }
}

/// Builds a cycle.
struct Cycle<'a> {
    staying: &'a [Staying],
    number: u32,
    rng: &'a mut Xoshiro256PlusPlus,
    decks: Decks,
    script: Script,
    events: Vec<(f64, Vec<Line>)>,
    names: u32,
}

/// Generates the lines of a cycle, which leaves all files as it found them.
fn cycle_lines(staying: &[Staying], number: u32, rng: &mut Xoshiro256PlusPlus) -> Vec<Line> {
    let decks = Decks::new(rng);
    let mut cycle =
        Cycle { staying, number, rng, decks, script: Script::default(), events: vec![], names: 0 };
    cycle.lives();
    (0..BRIEF).for_each(|_| cycle.brief());
    (0..HELD).for_each(|_| cycle.held());
    let reads = Deck::new(&READS, cycle.rng);
    cycle.visits(reads);
    cycle.updates();
    cycle.besides();
    debug_assert!(cycle.decks.reads.is_empty() && cycle.decks.updates.is_empty());
    cycle.events.sort_by(|a, b| a.0.total_cmp(&b.0));
    cycle.events.into_iter().flat_map(|(_, lines)| lines).collect()
}

impl Cycle<'_> {
    /// Schedules the scripted lines at a time.
    fn at(&mut self, time: f64) {
        let lines = self.script.take();
        self.events.push((time, lines));
    }

    fn any_time(&mut self) -> f64 {
        self.rng.random()
    }

    /// A new name in any directory.
    fn name(&mut self, ending: &str) -> String {
        self.names += 1;
        let home = home(self.rng.random_range(0..DIRECTORIES.len()));
        format!("{home}/new{}{:03}.{ending}", self.number, self.names)
    }

    fn staying(&mut self) -> Staying {
        self.staying.choose(self.rng).expect("there are files that stay").clone()
    }

    /// Files with data; their beginnings are spread evenly, so that there are never many more at once.
    fn lives(&mut self) {
        let mut sizes = Deck::new(&LIVES, self.rng);
        let lives: usize = LIVES.iter().map(|(count, _)| count).sum();
        for which in 0..lives {
            let stretch = -self.rng.random::<f64>().max(1e-9).ln();
            let length = (LIFE * stretch).clamp(0.01, 0.5);
            let begin = (which as f64 + self.any_time()) / lives as f64;
            self.life(sizes.draw(), begin.min(0.999 - length), length);
        }
    }

    fn life(&mut self, size: Size, begin: f64, length: f64) {
        let mut name = self.name("tmp");
        let chunks = self.chunks(size);
        self.script.fails(OperationKind::Find, &format!("{name}*"), &[260, 1366, 0]);
        self.script.does(OperationKind::QueryFs, &[], &[1]);
        self.script.miss(&name);
        let handle = self.script.create(&name);
        self.script.write_chunks(handle, &chunks);
        if self.decks.synced.draw() {
            self.script.does(OperationKind::Flush, &[], &[handle]);
        }
        if self.decks.timed.draw() {
            self.script.does(OperationKind::SetFile, &[], &[handle, 1004]);
        }
        self.script.close(handle);
        self.at(begin);
        if self.decks.renamed.draw() {
            let better = self.name("doc");
            self.script.fails(OperationKind::QueryPath, &better, &[1004]);
            self.script.does(OperationKind::Rename, &[&name, &better], &[]);
            name = better;
            self.at(begin + 0.2 * length);
        }
        if self.decks.reread.draw() {
            let handle = self.script.open(&name);
            let there = chunks.iter().sum::<i64>().min(4096);
            self.script.does(OperationKind::ReadX, &[], &[handle, 0, 4096, there]);
            self.script.close(handle);
            self.at(begin + 0.6 * length);
        }
        self.script.does(OperationKind::Unlink, &[&name], &[0x6]);
        self.at(begin + length);
    }

    /// The pieces that a file is written in.
    fn chunks(&mut self, size: Size) -> Vec<i64> {
        match size {
            Size::Large => [vec![WRITE; 9], vec![between(12_000.0, 60_000.0, self.rng)]].concat(),
            Size::Middle => vec![WRITE, between(8_000.0, 32_000.0, self.rng)],
            Size::Two | Size::One => {
                let first = self.decks.firsts.draw().unwrap_or_else(|| between(60.0, 16_000.0, self.rng));
                if size == Size::One {
                    return vec![first];
                }
                let second = self.decks.seconds.draw();
                vec![first, second.unwrap_or_else(|| between(8_000.0, 36_000.0, self.rng))]
            }
        }
    }

    /// A file without data: probed for, made, and removed.
    fn brief(&mut self) {
        let (name, time) = (self.name("lck"), self.any_time());
        self.script.miss(&name);
        let handle = self.script.create(&name);
        self.script.close(handle);
        self.script.does(OperationKind::Unlink, &[&name], &[0x6]);
        self.at(time);
    }

    /// A file that stays is held open for a while.
    fn held(&mut self) {
        let file = self.staying();
        let length = HOLD * (0.25 + 1.5 * self.any_time());
        let begin = self.any_time() * (0.999 - length);
        let handle = self.script.open(&file.name);
        self.at(begin);
        self.script.close(handle);
        self.at(begin + length);
    }

    /// Files that stay are read.
    fn visits(&mut self, mut reads: Deck<usize>) {
        while !reads.is_empty() {
            let (file, time) = (self.staying(), self.any_time());
            let handle = self.script.open(&file.name);
            if self.decks.asked.draw() {
                self.script.does(OperationKind::QueryFile, &[], &[handle, 258]);
            }
            let mut next = None;
            for _ in 0..reads.draw() {
                next = Some(self.read(&file, handle, next));
            }
            self.script.close(handle);
            self.at(time);
        }
    }

    /// Adds one read and returns its end. Three quarters of all reads continue where the previous one ended.
    fn read(&mut self, file: &Staying, handle: i64, next: Option<i64>) -> i64 {
        let size = match self.decks.reads.draw() {
            0 => between(20.0, 16_000.0, self.rng),
            size => size,
        };
        let next = next.filter(|next| next + size <= file.bytes && self.rng.random_bool(0.75));
        let at = next.unwrap_or_else(|| self.rng.random_range(0..=(file.bytes - size) / 512) * 512);
        self.script.does(OperationKind::ReadX, &[], &[handle, at, size, size]);
        at + size
    }

    /// Files that stay are read once, then written in place.
    fn updates(&mut self) {
        let mut writes: Deck<usize> = Deck::new(&[(UPDATED - 2, 2), (2, 1)], self.rng);
        while !writes.is_empty() {
            let (file, time) = (self.staying(), self.any_time());
            let handle = self.script.open(&file.name);
            self.read(&file, handle, None);
            let locked = self.decks.locked.draw();
            let range = [handle, 2_147_483_000, 1];
            if locked {
                self.script.does(OperationKind::LockX, &[], &range);
            }
            for _ in 0..writes.draw() {
                let size = self.decks.updates.draw();
                let at = self.rng.random_range(0..=(file.bytes - size) / 512) * 512;
                self.script.does(OperationKind::WriteX, &[], &[handle, at, size, size]);
            }
            for _ in 0..self.decks.syncs.draw() {
                self.script.does(OperationKind::Flush, &[], &[handle]);
            }
            if locked {
                self.script.does(OperationKind::UnlockX, &[], &range);
            }
            self.script.close(handle);
            self.at(time);
        }
    }

    /// Adds the operations that belong to no file's life.
    fn besides(&mut self) {
        for _ in 0..MISSED {
            let (name, time) = (self.name("ini"), self.any_time());
            self.script.miss(&name);
            self.at(time);
        }
        for _ in 0..NOT_FOUND {
            let (name, time) = (self.name("*"), self.any_time());
            self.script.fails(OperationKind::Find, &name, &[260, 1366, 0]);
            self.at(time);
        }
        for _ in 0..LISTED {
            let (directory, time) = (self.rng.random_range(0..DIRECTORIES.len()), self.any_time());
            let pattern = format!("{}/*", home(directory));
            self.script.does(OperationKind::Find, &[&pattern], &[260, 1366, 5]);
            self.at(time);
        }
        for _ in 0..LOOKED_UP {
            let (file, time) = (self.staying(), self.any_time());
            self.script.does(OperationKind::QueryPath, &[&file.name], &[1004]);
            self.at(time);
        }
        for _ in 0..SPACE {
            let time = self.any_time();
            self.script.does(OperationKind::QueryFs, &[], &[1]);
            self.at(time);
        }
    }
}

/// Directories in the directory of each client; with that one there are eleven.
const DIRECTORIES: [&str; 10] =
    ["mail", "letters", "sheets", "slides", "drawings", "layouts", "accounts", "stock", "scans", "notes"];
/// Bytes of a large write.
const WRITE: i64 = 65_536;

/// A file that stays.
#[derive(Debug, Clone)]
struct Staying {
    name: String,
    bytes: i64,
}

/// A directory of a client, chosen in turn by `at`.
fn home(at: usize) -> String {
    format!("/clients/client1/{}", DIRECTORIES[at % DIRECTORIES.len()])
}

/// One operation.
#[derive(Debug, Clone)]
struct Line {
    kind: OperationKind,
    names: Vec<String>,
    numbers: Vec<Number>,
    expected: Expected,
}

/// Lines in the order in which they are added. No handle is used twice.
#[derive(Debug, Default)]
struct Script {
    lines: Vec<Line>,
    handles: i64,
}

impl Script {
    /// Adds an operation that succeeds.
    fn does(&mut self, kind: OperationKind, names: &[&str], numbers: &[i64]) {
        self.push(kind, names, numbers, Expected::Success);
    }

    /// Adds an operation that fails because the name does not exist.
    fn fails(&mut self, kind: OperationKind, name: &str, numbers: &[i64]) {
        self.push(kind, &[name], numbers, Expected::Failure);
    }

    fn push(&mut self, kind: OperationKind, names: &[&str], numbers: &[i64], expected: Expected) {
        let names = names.iter().map(|name| name.to_string()).collect();
        let numbers = numbers.iter().copied().map(Number::Literal).collect();
        self.lines.push(Line { kind, names, numbers, expected });
    }

    /// Takes all lines since the last call.
    fn take(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.lines)
    }

    /// A new handle.
    fn handle(&mut self) -> i64 {
        self.handles += 1;
        self.handles
    }

    /// Looks up a missing name and tries to open it.
    fn miss(&mut self, name: &str) {
        self.fails(OperationKind::QueryPath, name, &[1004]);
        self.fails(OperationKind::NtCreateX, name, &[0x40, 0x1, 0]);
    }

    /// Creates a file and returns its handle.
    fn create(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.does(OperationKind::NtCreateX, &[name], &[0x40, 0x2, handle]);
        handle
    }

    /// Looks up an existing file, opens it and returns its handle.
    fn open(&mut self, name: &str) -> i64 {
        let handle = self.handle();
        self.does(OperationKind::QueryPath, &[name], &[1004]);
        self.does(OperationKind::NtCreateX, &[name], &[0x40, 0x1, handle]);
        handle
    }

    /// Writes a new file in pieces, as office programs on Windows do. A write of one byte sets the end of the first piece,
    /// then the pieces follow.
    fn write_chunks(&mut self, handle: i64, chunks: &[i64]) {
        // Samba's clients set no end beyond 64 KiB less one.
        let end = chunks.first().map_or(0, |first| (*first).min(WRITE - 1));
        self.does(OperationKind::WriteX, &[], &[handle, end - 1, 1, 1]);
        self.does(OperationKind::QueryFile, &[], &[handle, 258]);
        let mut at = 0;
        for chunk in chunks {
            self.does(OperationKind::WriteX, &[], &[handle, at, *chunk, *chunk]);
            at += chunk;
        }
    }

    /// Closes a handle.
    fn close(&mut self, handle: i64) {
        self.does(OperationKind::Close, &[], &[handle]);
    }
}

/// Values to draw, each once.
#[derive(Debug, Clone)]
struct Deck<T>(Vec<T>);

impl<T: Clone> Deck<T> {
    /// A shuffled deck with the given count of each value.
    fn new(counts: &[(usize, T)], rng: &mut impl Rng) -> Deck<T> {
        let each = |(count, what): &(usize, T)| std::iter::repeat_n(what.clone(), *count);
        let mut all: Vec<T> = counts.iter().flat_map(each).collect();
        all.shuffle(rng);
        Deck(all)
    }

    /// Draws the next value.
    ///
    /// # Panics
    /// If the deck is empty, which would be a bug, because the fixed counts of a cycle match.
    fn draw(&mut self) -> T {
        self.0.pop().expect("a deck has as many as are drawn")
    }

    /// Whether all are drawn.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Draws a number between two others, uniformly over its logarithm.
fn between(low: f64, high: f64, rng: &mut impl Rng) -> i64 {
    (low.ln() + rng.random::<f64>() * (high / low).ln()).exp().round() as i64
}
