//! A generator of a load with the statistics of dbench's standard loadfile, for the workload `dbench-like`.
//!
//! The load consists of the lives of files, not of independent draws. A client looks up a missing name, creates the
//! file, writes one byte at the end of its first piece, writes all pieces, closes, renames, reopens, reads and removes
//! the file. Meanwhile, it looks up, keeps open, reads and updates the lasting files, which the load creates at its
//! start. A cycle has a fixed number of files of each kind, and of opens of the lasting files, so the shares of all
//! operations are fixed too. The seed decides their order, places and sizes.
//!
//! A cycle has about 3,550 operations. Each operation has a time between 0 and 1, and the cycle is sorted by these
//! times. Small variations, such as the size of a read, are drawn from decks: a fixed count of each value, shuffled by
//! the seed. Drawing without replacement keeps all shares exact.

use crate::dbench::program::{ExpectedResult, InstructionAction, LoadProgram, LoadProgramBuilder};
use crate::{dbench::kind::OperationKind, dbench::number::Number};
use fsarena_core::schedule::mix;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, RngExt, SeedableRng, rngs::Xoshiro256PlusPlus};

/// Mixed into the seed of the run, so that the load's random numbers differ from those of other parts of the run.
const SEED_MIX: u64 = 0x11CE;
/// Number of different cycles of a pass.
const CYCLE_COUNT: u32 = 8;
/// Number of times that a pass repeats these cycles: 128 cycles in all. The standard loadfile has 129.
const CYCLE_REPETITIONS: i64 = 16;
/// The lasting files as (number of files, bytes of each): 56 files of 20.9 MB in all.
const LASTING_FILES: [(usize, i64); 2] = [(16, 1 << 20), (40, 102_400)];

/// Generates the load of a seed.
pub fn generate_program(seed: u64) -> LoadProgram {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(mix(seed, SEED_MIX));
    let mut builder = LoadProgramBuilder::default();
    let lasting_files = plan_lasting_files();
    let mut setup = OperationList::default();
    add_setup(&lasting_files, &mut setup);
    add_operations(&mut builder, &setup.operations);
    add_control(&mut builder, InstructionAction::Loop, &[CYCLE_REPETITIONS]);
    for number in 0..CYCLE_COUNT {
        add_operations(&mut builder, &generate_cycle(&lasting_files, number, &mut rng));
    }
    add_control(&mut builder, InstructionAction::EndLoop, &[]);
    builder.finish().expect("a loop of operations that ends is a program")
}

/// The names and sizes of the lasting files.
fn plan_lasting_files() -> Vec<LastingFile> {
    let sizes = LASTING_FILES.into_iter().flat_map(|(count, bytes)| std::iter::repeat_n(bytes, count));
    sizes
        .enumerate()
        .map(|(index, bytes)| LastingFile { name: format!("{}/kept{index:02}.dat", client_directory(index)), bytes })
        .collect()
}

/// Adds operations that remove the files of an earlier pass, and create the directories and the lasting files.
fn add_setup(lasting_files: &[LastingFile], list: &mut OperationList) {
    list.push_success(OperationKind::Deltree, &["/clients/client1"], &[]);
    list.push_success(OperationKind::Mkdir, &["/clients"], &[]);
    for directory in
        std::iter::once("/clients/client1".to_string()).chain((0..DIRECTORY_NAMES.len()).map(client_directory))
    {
        let handle = list.new_handle();
        list.push_success(OperationKind::NtCreateX, &[&directory], &[0x1, 0x2, handle]);
        list.push_success(OperationKind::Close, &[], &[handle]);
    }
    for file in lasting_files {
        let handle = list.add_create(&file.name);
        list.push_success(OperationKind::QueryFs, &[], &[1]);
        let offsets = (0..file.bytes).step_by(LARGE_WRITE_BYTES as usize);
        let pieces: Vec<i64> = offsets.map(|offset| (file.bytes - offset).min(LARGE_WRITE_BYTES)).collect();
        list.add_piece_writes(handle, &pieces);
        list.push_success(OperationKind::Close, &[], &[handle]);
    }
}

fn add_operations(builder: &mut LoadProgramBuilder, operations: &[LoadOperation]) {
    for operation in operations {
        let line = builder.line_count() as u32 + 1;
        let names: Vec<&[u8]> = operation.names.iter().map(String::as_bytes).collect();
        builder
            .add_operation(line, operation.kind, &names, &operation.numbers, operation.expected)
            .expect("operation lists have complete operations");
    }
}

fn add_control(builder: &mut LoadProgramBuilder, action: InstructionAction, numbers: &[i64]) {
    let line = builder.line_count() as u32 + 1;
    builder.add_control(line, action, numbers).expect("there is one loop");
}

// The files of a cycle, and its opens of the lasting files. The shares of all operations follow from these.
/// Files without data that are removed right after their creation.
const EMPTY_FILES: usize = 67;
/// Files with data as (number of files, size), from large to small.
const FILE_LIVES: [(usize, FileSizeClass); 4] = [
    (4, FileSizeClass::Large),
    (8, FileSizeClass::Medium),
    (36, FileSizeClass::TwoPieces),
    (9, FileSizeClass::OnePiece),
];
/// Number of files with data that are renamed.
const RENAMED_FILES: usize = 26;
/// Number of files with data that are opened again and read.
const REREAD_FILES: usize = 40;
/// Number of files with data whose times are set.
const TIME_SET_FILES: usize = 50;
/// Number of files with data that are synced.
const SYNCED_FILES: usize = 15;
/// Opens of lasting files that neither read nor write.
const IDLE_OPENS: usize = 103;
/// Opens of lasting files that read, as (number of opens, reads of each).
const READING_OPENS: [(usize, usize); 8] = [(59, 1), (25, 2), (8, 3), (8, 4), (12, 9), (9, 19), (5, 70), (1, 73)];
/// Opens of lasting files that read once and then update the file in place.
const UPDATING_OPENS: usize = 57;
/// Syncs after updates, as (number of opens, syncs of each).
const UPDATE_SYNCS: [(usize, u32); 4] = [(50, 0), (3, 2), (1, 4), (3, 6)];
/// Lookups of missing names, in addition to those in the lives of files.
const MISSING_LOOKUPS: usize = 39;
/// Searches for patterns without a match, in addition to those in the lives of files.
const EMPTY_SEARCHES: usize = 54;
/// Listings of directories.
const LISTINGS: usize = 104;
/// Lookups of existing names, in addition to those before an open.
const LOOKUPS: usize = 40;
/// Queries of file attributes by handle, in addition to the one after the first byte of each new file.
const HANDLE_QUERIES: usize = 41;
/// Queries of free space, in addition to those in the lives of files.
const SPACE_QUERIES: usize = 45;
/// Ranges that are locked and unlocked.
const LOCKED_RANGES: usize = 2;
/// Mean of the exponential distribution of the lives of files with data, as a share of the cycle. Lives are limited to
/// 0.01 to 0.5 of a cycle, and so their mean is 0.204: of the 57 files of a cycle, 12 exist at any time.
const MEAN_LIFE: f64 = 0.23;
/// Mean time between an idle open and its close, as a share of the cycle: of the 103 idle opens of a cycle
/// ([`IDLE_OPENS`]), 4 are open at any time.
const MEAN_HOLD: f64 = 0.04;

/// The size of a file with data; see [`Cycle::draw_pieces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileSizeClass {
    /// Ten pieces.
    Large,
    /// Two pieces, the first of 64 KiB.
    Medium,
    /// Two smaller pieces.
    TwoPieces,
    /// One smaller piece.
    OnePiece,
}

/// The decks that a cycle draws from.
struct Decks {
    /// Bytes of each read of a lasting file; 0 for a random size.
    read_sizes: Deck<i64>,
    /// Bytes of the first piece of a small file, or `None` for a random size.
    first_pieces: Deck<Option<i64>>,
    /// Bytes of the second piece of a small file, or `None` for a random size.
    second_pieces: Deck<Option<i64>>,
    /// Bytes of each write to a lasting file.
    update_sizes: Deck<i64>,
    /// Number of syncs of each updating open.
    sync_counts: Deck<u32>,
    /// Whether each file with data is renamed.
    renames: Deck<bool>,
    /// Whether each file with data is opened again and read.
    rereads: Deck<bool>,
    /// Whether the times of each file with data are set.
    sets_times: Deck<bool>,
    /// Whether each file with data is synced.
    syncs: Deck<bool>,
    /// Whether each reading open queries the attributes of its file.
    queries: Deck<bool>,
    /// Whether each updating open locks a range.
    locks: Deck<bool>,
}

impl Decks {
    fn new(rng: &mut Xoshiro256PlusPlus) -> Decks {
        let file_count: usize = FILE_LIVES.iter().map(|(count, _)| count).sum();
        let reading_open_count: usize = READING_OPENS.iter().map(|(count, _)| count).sum();
        let flag_counts = |count: usize, total: usize| [(count, true), (total - count, false)];
        Decks {
            read_sizes: Deck::new(&[(606, 4096), (129, 61_440), (36, 2048), (36, 8192), (15, 16_384), (102, 0)], rng),
            first_pieces: Deck::new(&[(20, Some(4096)), (13, Some(2048)), (2, Some(8192)), (10, None)], rng),
            second_pieces: Deck::new(&[(10, Some(4096)), (26, None)], rng),
            update_sizes: Deck::new(&[(54, LARGE_WRITE_BYTES), (48, 4096), (7, 8192), (3, 510)], rng),
            sync_counts: Deck::new(&UPDATE_SYNCS, rng),
            renames: Deck::new(&flag_counts(RENAMED_FILES, file_count), rng),
            rereads: Deck::new(&flag_counts(REREAD_FILES, file_count), rng),
            sets_times: Deck::new(&flag_counts(TIME_SET_FILES, file_count), rng),
            syncs: Deck::new(&flag_counts(SYNCED_FILES, file_count), rng),
            queries: Deck::new(&flag_counts(HANDLE_QUERIES, reading_open_count), rng),
            locks: Deck::new(&flag_counts(LOCKED_RANGES, UPDATING_OPENS), rng),
        }
    }
}

/// A cycle under construction.
struct Cycle<'a> {
    lasting_files: &'a [LastingFile],
    /// The number of the cycle, from 0.
    number: u32,
    rng: &'a mut Xoshiro256PlusPlus,
    decks: Decks,
    /// Operations that are not scheduled yet.
    list: OperationList,
    /// Operations with the time at which they run, from 0 to 1.
    events: Vec<(f64, Vec<LoadOperation>)>,
    /// Number of new names so far.
    name_count: u32,
}

/// Generates the operations of a cycle. At its end the same files exist as at its start.
fn generate_cycle(lasting_files: &[LastingFile], number: u32, rng: &mut Xoshiro256PlusPlus) -> Vec<LoadOperation> {
    let decks = Decks::new(rng);
    let mut cycle =
        Cycle { lasting_files, number, rng, decks, list: OperationList::default(), events: vec![], name_count: 0 };
    cycle.add_file_lives();
    for _ in 0..EMPTY_FILES {
        cycle.add_empty_file();
    }
    for _ in 0..IDLE_OPENS {
        cycle.add_idle_open();
    }
    cycle.add_reading_opens();
    cycle.add_updates();
    cycle.add_other_operations();
    debug_assert!(cycle.decks.read_sizes.is_empty() && cycle.decks.update_sizes.is_empty());
    cycle.events.sort_by(|a, b| a.0.total_cmp(&b.0));
    cycle.events.into_iter().flat_map(|(_, operations)| operations).collect()
}

impl Cycle<'_> {
    /// Schedules the operations that were added to the list since the last call, at a time from 0 to 1.
    fn schedule(&mut self, time: f64) {
        self.events.push((time, std::mem::take(&mut self.list.operations)));
    }

    fn random_time(&mut self) -> f64 {
        self.rng.random()
    }

    /// Makes a new name in a random directory.
    fn new_name(&mut self, ending: &str) -> String {
        self.name_count += 1;
        let directory = client_directory(self.rng.random_range(0..DIRECTORY_NAMES.len()));
        format!("{directory}/new{}{:03}.{ending}", self.number, self.name_count)
    }

    fn pick_lasting_file(&mut self) -> LastingFile {
        self.lasting_files.choose(self.rng).expect("a load has lasting files").clone()
    }

    /// Adds the lives of all files with data. Their starts are spread evenly, so that the number of existing files
    /// varies little.
    fn add_file_lives(&mut self) {
        let mut sizes = Deck::new(&FILE_LIVES, self.rng);
        let life_count: usize = FILE_LIVES.iter().map(|(count, _)| count).sum();
        for index in 0..life_count {
            let exponential = -self.rng.random::<f64>().max(1e-9).ln();
            let length = (MEAN_LIFE * exponential).clamp(0.01, 0.5);
            let start = (index as f64 + self.random_time()) / life_count as f64;
            self.add_file_life(sizes.draw(), start.min(0.999 - length), length);
        }
    }

    /// Adds one file with data: created and written at `start`, then perhaps renamed and read, removed after `length`.
    /// Both times are shares of the cycle.
    fn add_file_life(&mut self, size: FileSizeClass, start: f64, length: f64) {
        let mut name = self.new_name("tmp");
        let pieces = self.draw_pieces(size);
        self.list.push_failure(OperationKind::Find, &format!("{name}*"), &[260, 1366, 0]);
        self.list.push_success(OperationKind::QueryFs, &[], &[1]);
        self.list.add_missing_lookup(&name);
        let handle = self.list.add_create(&name);
        self.list.add_piece_writes(handle, &pieces);
        if self.decks.syncs.draw() {
            self.list.push_success(OperationKind::Flush, &[], &[handle]);
        }
        if self.decks.sets_times.draw() {
            self.list.push_success(OperationKind::SetFile, &[], &[handle, 1004]);
        }
        self.list.add_close(handle);
        self.schedule(start);
        if self.decks.renames.draw() {
            let new_name = self.new_name("doc");
            self.list.push_failure(OperationKind::QueryPath, &new_name, &[1004]);
            self.list.push_success(OperationKind::Rename, &[&name, &new_name], &[]);
            name = new_name;
            self.schedule(start + 0.2 * length);
        }
        if self.decks.rereads.draw() {
            let handle = self.list.add_open(&name);
            let read_bytes = pieces.iter().sum::<i64>().min(4096);
            self.list.push_success(OperationKind::ReadX, &[], &[handle, 0, 4096, read_bytes]);
            self.list.add_close(handle);
            self.schedule(start + 0.6 * length);
        }
        self.list.push_success(OperationKind::Unlink, &[&name], &[0x6]);
        self.schedule(start + length);
    }

    /// Draws the sizes in bytes of the pieces in which a file is written.
    fn draw_pieces(&mut self, size: FileSizeClass) -> Vec<i64> {
        match size {
            FileSizeClass::Large => {
                [vec![LARGE_WRITE_BYTES; 9], vec![log_uniform(12_000.0, 60_000.0, self.rng)]].concat()
            }
            FileSizeClass::Medium => vec![LARGE_WRITE_BYTES, log_uniform(8_000.0, 32_000.0, self.rng)],
            FileSizeClass::TwoPieces | FileSizeClass::OnePiece => {
                let first = self.decks.first_pieces.draw().unwrap_or_else(|| log_uniform(60.0, 16_000.0, self.rng));
                if size == FileSizeClass::OnePiece {
                    return vec![first];
                }
                let second = self.decks.second_pieces.draw();
                vec![first, second.unwrap_or_else(|| log_uniform(8_000.0, 36_000.0, self.rng))]
            }
        }
    }

    /// Adds a file without data: looked up, created and removed at once.
    fn add_empty_file(&mut self) {
        let (name, time) = (self.new_name("lck"), self.random_time());
        self.list.add_missing_lookup(&name);
        let handle = self.list.add_create(&name);
        self.list.add_close(handle);
        self.list.push_success(OperationKind::Unlink, &[&name], &[0x6]);
        self.schedule(time);
    }

    /// Adds an open of a lasting file, and a close later.
    fn add_idle_open(&mut self) {
        let file = self.pick_lasting_file();
        let length = MEAN_HOLD * (0.25 + 1.5 * self.random_time());
        let start = self.random_time() * (0.999 - length);
        let handle = self.list.add_open(&file.name);
        self.schedule(start);
        self.list.add_close(handle);
        self.schedule(start + length);
    }

    /// Adds the opens of lasting files that read.
    fn add_reading_opens(&mut self) {
        let mut read_counts = Deck::new(&READING_OPENS, self.rng);
        while !read_counts.is_empty() {
            let (file, time) = (self.pick_lasting_file(), self.random_time());
            let handle = self.list.add_open(&file.name);
            if self.decks.queries.draw() {
                self.list.push_success(OperationKind::QueryFile, &[], &[handle, 258]);
            }
            let mut next_offset = None;
            for _ in 0..read_counts.draw() {
                next_offset = Some(self.add_read(&file, handle, next_offset));
            }
            self.list.add_close(handle);
            self.schedule(time);
        }
    }

    /// Adds one read and returns the offset of its end. `next_offset` is the end of the previous read of this open. The
    /// read begins there with a probability of ¾ if it fits, else at a random place.
    fn add_read(&mut self, file: &LastingFile, handle: i64, next_offset: Option<i64>) -> i64 {
        let size = match self.decks.read_sizes.draw() {
            0 => log_uniform(20.0, 16_000.0, self.rng),
            size => size,
        };
        let next_offset =
            next_offset.filter(|next_offset| next_offset + size <= file.bytes && self.rng.random_bool(0.75));
        let offset = next_offset.unwrap_or_else(|| self.rng.random_range(0..=(file.bytes - size) / 512) * 512);
        self.list.push_success(OperationKind::ReadX, &[], &[handle, offset, size, size]);
        offset + size
    }

    /// Adds the opens of lasting files that read once and then write in place.
    fn add_updates(&mut self) {
        let mut write_counts: Deck<usize> = Deck::new(&[(UPDATING_OPENS - 2, 2), (2, 1)], self.rng);
        while !write_counts.is_empty() {
            let (file, time) = (self.pick_lasting_file(), self.random_time());
            let handle = self.list.add_open(&file.name);
            self.add_read(&file, handle, None);
            let locks_range = self.decks.locks.draw();
            // Handle, offset and size.
            let range = [handle, 2_147_483_000, 1];
            if locks_range {
                self.list.push_success(OperationKind::LockX, &[], &range);
            }
            for _ in 0..write_counts.draw() {
                let size = self.decks.update_sizes.draw();
                let offset = self.rng.random_range(0..=(file.bytes - size) / 512) * 512;
                self.list.push_success(OperationKind::WriteX, &[], &[handle, offset, size, size]);
            }
            for _ in 0..self.decks.sync_counts.draw() {
                self.list.push_success(OperationKind::Flush, &[], &[handle]);
            }
            if locks_range {
                self.list.push_success(OperationKind::UnlockX, &[], &range);
            }
            self.list.add_close(handle);
            self.schedule(time);
        }
    }

    /// Adds the lookups, searches, listings and queries that do not belong to the life or an open of a file.
    fn add_other_operations(&mut self) {
        for _ in 0..MISSING_LOOKUPS {
            let (name, time) = (self.new_name("ini"), self.random_time());
            self.list.add_missing_lookup(&name);
            self.schedule(time);
        }
        for _ in 0..EMPTY_SEARCHES {
            let (name, time) = (self.new_name("*"), self.random_time());
            self.list.push_failure(OperationKind::Find, &name, &[260, 1366, 0]);
            self.schedule(time);
        }
        for _ in 0..LISTINGS {
            let (directory, time) = (self.rng.random_range(0..DIRECTORY_NAMES.len()), self.random_time());
            let pattern = format!("{}/*", client_directory(directory));
            self.list.push_success(OperationKind::Find, &[&pattern], &[260, 1366, 5]);
            self.schedule(time);
        }
        for _ in 0..LOOKUPS {
            let (file, time) = (self.pick_lasting_file(), self.random_time());
            self.list.push_success(OperationKind::QueryPath, &[&file.name], &[1004]);
            self.schedule(time);
        }
        for _ in 0..SPACE_QUERIES {
            let time = self.random_time();
            self.list.push_success(OperationKind::QueryFs, &[], &[1]);
            self.schedule(time);
        }
    }
}

/// Names of the ten directories in the directory of each client.
const DIRECTORY_NAMES: [&str; 10] =
    ["mail", "letters", "sheets", "slides", "drawings", "layouts", "accounts", "stock", "scans", "notes"];
/// Bytes of a large write.
const LARGE_WRITE_BYTES: i64 = 65_536;

/// A file that the load creates at its start and never removes.
#[derive(Debug, Clone)]
struct LastingFile {
    name: String,
    bytes: i64,
}

/// Path of the directory with this index; larger indices start again at the first directory.
fn client_directory(index: usize) -> String {
    format!("/clients/client1/{}", DIRECTORY_NAMES[index % DIRECTORY_NAMES.len()])
}

/// One operation of the load.
#[derive(Debug, Clone)]
struct LoadOperation {
    kind: OperationKind,
    names: Vec<String>,
    numbers: Vec<Number>,
    expected: ExpectedResult,
}

/// Collects operations in the order in which they are added. Each handle is new.
///
/// The numbers after the names are those of SMB requests, as a loadfile has them: of a creation the options (0x1 a
/// directory, 0x40 a file), what to do (0x1 open, 0x2 create) and the handle; of a query the information level (1004
/// basic, 258 standard); of a search the level (260), the largest number of names in an answer (1366) and the number of
/// names found; of a removal the attributes 0x6, which match hidden and system files too.
#[derive(Debug, Default)]
struct OperationList {
    operations: Vec<LoadOperation>,
    last_handle: i64,
}

impl OperationList {
    /// Adds an operation that succeeds.
    fn push_success(&mut self, kind: OperationKind, names: &[&str], numbers: &[i64]) {
        self.push(kind, names, numbers, ExpectedResult::Success);
    }

    /// Adds an operation that fails because the name does not exist.
    fn push_failure(&mut self, kind: OperationKind, name: &str, numbers: &[i64]) {
        self.push(kind, &[name], numbers, ExpectedResult::Failure);
    }

    fn push(&mut self, kind: OperationKind, names: &[&str], numbers: &[i64], expected: ExpectedResult) {
        let names = names.iter().map(|name| name.to_string()).collect();
        let numbers = numbers.iter().copied().map(Number::Literal).collect();
        self.operations.push(LoadOperation { kind, names, numbers, expected });
    }

    /// Returns a new handle.
    fn new_handle(&mut self) -> i64 {
        self.last_handle += 1;
        self.last_handle
    }

    /// Adds the lookup of a missing name, and the attempt to open it.
    fn add_missing_lookup(&mut self, name: &str) {
        self.push_failure(OperationKind::QueryPath, name, &[1004]);
        self.push_failure(OperationKind::NtCreateX, name, &[0x40, 0x1, 0]);
    }

    /// Adds the creation of a file and returns its handle.
    fn add_create(&mut self, name: &str) -> i64 {
        let handle = self.new_handle();
        self.push_success(OperationKind::NtCreateX, &[name], &[0x40, 0x2, handle]);
        handle
    }

    /// Adds the lookup and the opening of an existing file, and returns its handle.
    fn add_open(&mut self, name: &str) -> i64 {
        let handle = self.new_handle();
        self.push_success(OperationKind::QueryPath, &[name], &[1004]);
        self.push_success(OperationKind::NtCreateX, &[name], &[0x40, 0x1, handle]);
        handle
    }

    /// Adds the writes of a new file in pieces, as office programs on Windows make them: first one byte at the end of
    /// the first piece, then all pieces.
    fn add_piece_writes(&mut self, handle: i64, pieces: &[i64]) {
        // Samba's clients write that byte at offset 65,534 at most.
        let end = pieces.first().map_or(0, |first| (*first).min(LARGE_WRITE_BYTES - 1));
        self.push_success(OperationKind::WriteX, &[], &[handle, end - 1, 1, 1]);
        self.push_success(OperationKind::QueryFile, &[], &[handle, 258]);
        let mut offset = 0;
        for piece in pieces {
            self.push_success(OperationKind::WriteX, &[], &[handle, offset, *piece, *piece]);
            offset += piece;
        }
    }

    fn add_close(&mut self, handle: i64) {
        self.push_success(OperationKind::Close, &[], &[handle]);
    }
}

/// Values to draw without replacement.
#[derive(Debug, Clone)]
struct Deck<T>(Vec<T>);

impl<T: Clone> Deck<T> {
    /// Makes a shuffled deck with a count of each value.
    fn new(counts: &[(usize, T)], rng: &mut impl Rng) -> Deck<T> {
        let mut values = vec![];
        for (count, value) in counts {
            values.extend(std::iter::repeat_n(value.clone(), *count));
        }
        values.shuffle(rng);
        Deck(values)
    }

    /// Draws the next value.
    ///
    /// # Panics
    /// If the deck is empty, which is a bug: the fixed counts of a cycle match.
    fn draw(&mut self) -> T {
        self.0.pop().expect("the deck of a cycle is empty too early")
    }

    /// Whether all values are drawn.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Draws a number between `low` and `high` from a uniform distribution of its logarithm.
fn log_uniform(low: f64, high: f64, rng: &mut impl Rng) -> i64 {
    (low.ln() + rng.random::<f64>() * (high / low).ln()).exp().round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::cursor::{Cursor, Step};
    use crate::dbench::{kind::KIND_DEFS, load_peaks::tests::LoadStats};
    use std::sync::LazyLock;

    const SEEDS: [u64; 3] = [1, 2, 3];

    #[track_caller]
    fn assert_near(quantity: &str, measured: f64, published: f64, tolerance: f64) {
        let is_near = (measured - published).abs() <= tolerance;
        assert!(is_near, "{quantity}: {measured:.2}, published {published} ± {tolerance}");
    }

    fn for_each_seed(check: impl Fn(&LoadStats)) {
        static STATS: LazyLock<Vec<LoadStats>> =
            LazyLock::new(|| SEEDS.into_iter().map(|seed| LoadStats::collect(&generate_program(seed))).collect());
        STATS.iter().for_each(check);
    }

    #[test]
    fn the_shares_of_operations_match_the_standard_loadfile_within_a_fifth_of_a_point() {
        let published = [
            (OperationKind::ReadX, 27.1),
            (OperationKind::NtCreateX, 17.3),
            (OperationKind::QueryPath, 15.7),
            (OperationKind::Close, 12.7),
            (OperationKind::WriteX, 8.6),
            (OperationKind::Find, 6.1),
            (OperationKind::Unlink, 3.5),
            (OperationKind::QueryFs, 2.9),
            (OperationKind::QueryFile, 2.7),
            (OperationKind::SetFile, 1.4),
            (OperationKind::Flush, 1.2),
            (OperationKind::Rename, 0.7),
            (OperationKind::LockX, 0.06),
            (OperationKind::UnlockX, 0.06),
        ];
        for_each_seed(|stats| {
            for (kind, percent) in published {
                let measured = 100.0 * stats.count(kind) as f64 / stats.operations() as f64;
                assert_near(kind.def().name, measured, percent, 0.2);
            }
            assert_near("operations", stats.operations() as f64, 458_344.0, 0.02 * 458_344.0);
        });
    }

    #[test]
    fn the_shares_of_failures_match_the_standard_loadfile_within_a_point() {
        for_each_seed(|stats| {
            let failure_percent =
                |kind: OperationKind| 100.0 * stats.expected_failures[kind as usize] as f64 / stats.count(kind) as f64;
            assert_near("creates", failure_percent(OperationKind::NtCreateX), 26.5, 1.0);
            assert_near("lookups", failure_percent(OperationKind::QueryPath), 34.0, 1.0);
            assert_near("patterns", failure_percent(OperationKind::Find), 52.0, 1.0);
            let failures: u64 = stats.expected_failures.iter().sum();
            assert_near("all", 100.0 * failures as f64 / stats.operations() as f64, 13.0, 1.0);
            let others = KIND_DEFS.iter().filter(|def| {
                ![OperationKind::NtCreateX, OperationKind::QueryPath, OperationKind::Find].contains(&def.kind)
            });
            assert!(others.into_iter().all(|def| stats.expected_failures[def.kind as usize] == 0));
        });
    }

    #[test]
    fn the_shares_of_sizes_match_the_standard_loadfile_within_two_points() {
        for_each_seed(|stats| {
            let percent_of = |sizes: &std::collections::BTreeMap<i64, u64>, size| {
                100.0 * sizes.get(&size).copied().unwrap_or(0) as f64 / sizes.values().sum::<u64>() as f64
            };
            for (size, percent) in [(65_536, 32.0), (4096, 25.0), (1, 19.0)] {
                assert_near(&format!("writes of {size}"), percent_of(&stats.write_sizes, size), percent, 2.0);
            }
            for (size, percent) in [(4096, 67.0), (61_440, 13.0)] {
                assert_near(&format!("reads of {size}"), percent_of(&stats.read_sizes, size), percent, 2.0);
            }
            let writes = stats.count(OperationKind::WriteX) as f64;
            assert_near("writes in place", 100.0 * stats.in_place_writes as f64 / writes, 52.0, 2.0);
            let reads = stats.count(OperationKind::ReadX) as f64;
            assert_near("sequential reads", 100.0 * stats.sequential_reads as f64 / reads, 50.0, 4.0);
            assert_near("bytes read", stats.read_bytes as f64 / 1e9, 1.472, 0.05 * 1.472);
            assert_near("bytes written", stats.written_bytes as f64 / 1e9, 1.016, 0.05 * 1.016);
        });
    }

    #[test]
    fn the_shares_of_opens_match_the_standard_loadfile_within_a_point() {
        for_each_seed(|stats| {
            let closes = stats.count(OperationKind::Close) as f64;
            assert_near("opens without data", 100.0 * stats.unused_opens as f64 / closes, 37.5, 1.0);
            assert_near("opens that read", 100.0 * stats.read_only_opens as f64 / closes, 36.9, 1.0);
        });
    }

    #[test]
    fn the_numbers_of_existing_and_open_files_match_the_standard_loadfile() {
        for_each_seed(|stats| {
            let peaks = stats.peaks;
            assert!((72..=85).contains(&peaks.files), "{} files at most", peaks.files);
            let mean = stats.file_count_sum as f64 / stats.operations() as f64;
            assert_near("files on average", mean, 69.0, 3.0);
            assert_eq!(peaks.directories, 12);
            assert!((8..=23).contains(&peaks.open_handles), "{} open at most", peaks.open_handles);
            assert_near("megabytes at most", peaks.bytes as f64 / 1e6, 24.0, 1.5);
        });
    }

    /// A checksum of all operations of a load.
    fn fingerprint(seed: u64) -> u32 {
        let program = generate_program(seed);
        let mut cursor = Cursor::new(&program, 0, 1, 0);
        let mut hasher = crc32fast::Hasher::new();
        for _ in 0..program.operation_count() {
            let Step::Operation(kind, instruction, numbers) = cursor.next_step() else { break };
            let mut name = vec![kind as u8];
            for id in instruction.names.iter().take(kind.def().name_count) {
                program.names.append_name(*id, b"c", &Default::default(), &mut name);
            }
            hasher.update(&name);
            numbers.iter().for_each(|number| hasher.update(&number.to_le_bytes()));
        }
        hasher.finalize()
    }

    #[test]
    fn a_seed_always_makes_the_same_load() {
        assert_eq!(fingerprint(1), fingerprint(1));
        assert_ne!(fingerprint(1), fingerprint(2));
        // A change of this number is a change of the workload: figures from before cannot be compared any more.
        assert_eq!(fingerprint(1), 330_326_464);
    }

    #[test]
    fn every_cycle_closes_and_removes_what_it_creates() {
        let program = generate_program(5);
        let stats = LoadStats::collect(&program);
        assert!(program.memory_bytes() < 2 << 20, "{} bytes", program.memory_bytes());
        assert_eq!(stats.count(OperationKind::Unlink), 124 * 128);
        assert_eq!(
            stats.count(OperationKind::NtCreateX) - stats.expected_failures[0],
            stats.count(OperationKind::Close)
        );
    }
}
