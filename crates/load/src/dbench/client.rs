//! A client of dbench, which performs the operations of the loadfile repeatedly until the run is over: its options, its
//! table of open files, and the data that it writes.

use crate::dbench::calls::{self, EntryBuffer, PathBuffer, as_path};
use crate::dbench::cursor::{Cursor, Step};
use crate::dbench::kind::{Numbers, OperationKind};
use crate::dbench::program::{ExpectedResult, Instruction, InstructionAction, LoadProgram};
use crate::dbench::shared_counters::{ClientCounters, Phase, SharedCounters, add_unshared};
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use fsarena_engine::Content;
use fsarena_engine::clock::Clock;
use nix::sys::stat::{Mode, fstat};
use rand::{Rng, SeedableRng};
use rustix::fd::OwnedFd;
use std::{ffi::CString, io, sync::atomic::Ordering::Relaxed, time::Duration};

/// How clients run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientMode {
    /// Processes, as in the real dbench.
    Processes,
    /// Threads of one process: they share its table of open files.
    Threads,
}

/// The options of the player.
#[derive(Debug, Clone, PartialEq)]
pub struct PlayerOptions {
    /// Number of clients.
    pub clients: u32,
    /// How clients run.
    pub mode: ClientMode,
    /// Length of the warm-up, in which nothing counts; zero for none.
    pub warm_up: Duration,
    /// Length of the measured phase.
    pub measured: Duration,
    /// Limit for each client in megabytes (10⁶) a second, or `None` without a limit.
    pub rate_mb_s: Option<f64>,
    /// The content of writes for which the loadfile gives no pattern.
    pub content: Content,
    /// The seed of everything random.
    pub seed: u64,
}

/// The state that all clients of a run share.
pub struct SharedState<'r> {
    /// The program that all clients play.
    pub program: &'r LoadProgram,
    /// The counters and error messages of all clients.
    pub counters: &'r SharedCounters,
    /// The data of writes.
    pub payloads: &'r WritePayloads,
    /// The directory in which the clients work.
    pub root: CString,
    /// The options of the player.
    pub options: &'r PlayerOptions,
    /// The clock.
    pub clock: Clock,
}

/// The client cannot continue. The reason is in [`ClientCounters::failure`].
struct ClientFailed;
/// The result of an operation, or the failure of the client.
type ClientResult<T = ()> = Result<T, ClientFailed>;

/// One client.
pub struct DbenchClient<'r> {
    shared: &'r SharedState<'r>,
    cursor: Cursor<'r>,
    counters: &'r ClientCounters,
    /// The name that replaces `client1` in file names.
    own_name: Vec<u8>,
    handles: HandleTable,
    /// The names of the current operation as paths: its file and, for a rename, the new name.
    paths: [PathBuffer; 2],
    entry_buffer: EntryBuffer,
    /// The buffer of reads.
    read_buffer: Vec<u8>,
    /// The index of the pattern to write; `None` writes the default data.
    pattern: Option<usize>,
    /// Lines of the loadfile may state when they are due. This is the time, in ticks, that these times are relative to.
    time_base: u64,
    /// The start of the last operation under a rate, in ticks, and the value of `moved_bytes` at that time.
    last_paced: Option<(u64, u64)>,
    /// Bytes read and written so far.
    moved_bytes: u64,
    /// Number of writes so far.
    write_count: usize,
}

impl<'r> DbenchClient<'r> {
    /// Makes the client with this number, from 0.
    pub fn new(shared: &'r SharedState<'r>, number: u32) -> DbenchClient<'r> {
        DbenchClient {
            shared,
            cursor: Cursor::new(shared.program, number, shared.options.clients, shared.options.seed),
            counters: shared.counters.client(number),
            own_name: format!("client{number}").into_bytes(),
            handles: HandleTable::default(),
            paths: Default::default(),
            entry_buffer: EntryBuffer::new(),
            read_buffer: vec![0; shared.program.max_io_bytes],
            pattern: None,
            time_base: 0,
            last_paced: None,
            moved_bytes: 0,
            write_count: 0,
        }
    }

    /// Waits for the start and plays until the run is over. If the client fails earlier, the reason is in
    /// [`ClientCounters::failure`].
    pub fn run(mut self) {
        self.shared.counters.wait_for_start();
        self.restart_time_base();
        // `fail` has recorded the reason of a failure.
        let _ = self.play();
    }

    fn play(&mut self) -> ClientResult {
        let clock = self.shared.clock;
        while self.shared.counters.phase() != Phase::Over {
            match self.cursor.next_step() {
                Step::Operation(kind, instruction, numbers) => {
                    if let Some(rate_mb_s) = self.shared.options.rate_mb_s {
                        self.wait_for_rate(rate_mb_s);
                    }
                    let start = clock.now();
                    self.perform_operation(kind, instruction, numbers)?;
                    self.count_operation(kind, numbers, clock.now().saturating_sub(start));
                }
                // With a limited rate, the times that lines state are ignored.
                Step::Control(InstructionAction::WaitUntil, [ns, ..]) => {
                    if self.shared.options.rate_mb_s.is_none() {
                        self.wait_until(self.time_base + self.shared.clock.scale.ticks(ns as u64));
                    }
                }
                Step::Control(action, numbers) => {
                    self.perform_control(action, numbers);
                    self.restart_time_base();
                }
                Step::End => self.restart_time_base(),
            }
        }
        Ok(())
    }

    /// Restarts the time base of timed lines and of the rate. As in the real dbench, this also happens after every line
    /// that is not a file operation.
    fn restart_time_base(&mut self) {
        self.time_base = self.shared.clock.now();
        self.last_paced = None;
    }

    /// Performs an action that is not a file operation.
    fn perform_control(&mut self, action: InstructionAction, numbers: Numbers) {
        match action {
            InstructionAction::Sleep => {
                let ns = (numbers[0] as u64).saturating_mul(1000);
                self.sleep_until(self.shared.clock.now().saturating_add(self.shared.clock.scale.ticks(ns)));
            }
            InstructionAction::SetSyncPoint => self.counters.sync_point.store(numbers[0], Relaxed),
            InstructionAction::WaitForSyncPoint => {
                // The program was checked: it awaits only clients that exist.
                let [client, point, ..] = numbers;
                let other_client = self.shared.counters.client(client as u32);
                while other_client.sync_point.load(Relaxed) != point && self.shared.counters.phase() != Phase::Over {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            InstructionAction::SetPattern => self.pattern = Some(numbers[0] as usize),
            _ => {}
        }
    }

    /// Counts a finished operation.
    #[inline]
    fn count_operation(&mut self, kind: OperationKind, numbers: Numbers, ticks: u64) {
        // As in the real dbench, a short read counts with the requested bytes. `numbers[2]` is the size.
        let moved_bytes =
            if matches!(kind, OperationKind::ReadX | OperationKind::WriteX) { numbers[2] as u64 } else { 0 };
        self.moved_bytes += moved_bytes;
        add_unshared(&self.counters.operations, 1);
        add_unshared(&self.counters.bytes, moved_bytes);
        if self.shared.counters.phase() == Phase::Measured {
            self.counters.count_operation(kind, self.shared.clock.scale.ns(ticks));
            add_unshared(&self.counters.measured_bytes[usize::from(kind == OperationKind::WriteX)], moved_bytes);
        }
    }

    /// Delays an operation until the bytes since the last one fit the rate. A client that falls behind never catches
    /// up.
    fn wait_for_rate(&mut self, rate_mb_s: f64) {
        let now = self.shared.clock.now();
        let Some((last_start, bytes_then)) = self.last_paced else {
            self.last_paced = (self.moved_bytes > 0).then_some((now, self.moved_bytes));
            return;
        };
        let bytes_per_ns = rate_mb_s * 1e6 / 1e9;
        let ns = ((self.moved_bytes - bytes_then) as f64 / bytes_per_ns) as u64;
        self.wait_until(last_start + self.shared.clock.scale.ticks(ns));
        self.last_paced = Some((self.shared.clock.now(), self.moved_bytes));
    }

    /// Waits for a time, in ticks. If it has passed, records how late the client is.
    fn wait_until(&mut self, due: u64) {
        let now = self.shared.clock.now();
        if now <= due {
            return self.sleep_until(due);
        }
        let lateness_ns = self.shared.clock.scale.ns(now - due);
        if self.shared.counters.phase() == Phase::Measured && lateness_ns > self.counters.lateness_ns.load(Relaxed) {
            self.counters.lateness_ns.store(lateness_ns, Relaxed);
        }
    }

    /// Sleeps until a time, in ticks, or until the run is over.
    fn sleep_until(&self, due: u64) {
        loop {
            let (now, phase) = (self.shared.clock.now(), self.shared.counters.phase());
            if now >= due || phase == Phase::Over {
                return;
            }
            self.shared
                .counters
                .wait_for_phase_change(phase, Duration::from_nanos(self.shared.clock.scale.ns(due - now)));
        }
    }

    /// Performs an operation with these numbers: `KindDef::number_count` lists their meaning for each kind.
    fn perform_operation(&mut self, kind: OperationKind, instruction: &Instruction, numbers: Numbers) -> ClientResult {
        for index in 0..kind.def().name_count {
            self.compose_name(index, instruction)?;
            // As in the real dbench, the name of a tree to delete is not looked up.
            if kind != OperationKind::Deltree {
                calls::look_up_name(&mut self.paths[index], &mut self.entry_buffer);
            }
        }
        let [path, new_path] = &self.paths;
        match kind {
            OperationKind::NtCreateX => return self.create_file(instruction, numbers),
            OperationKind::Close => match self.handles.remove(numbers[0]) {
                Some(closed) => drop(closed),
                None => return self.fail_for_closed_handle(instruction, numbers[0]),
            },
            OperationKind::Rename => {
                let renamed = std::fs::rename(as_path(path.as_c_str()), as_path(new_path.as_c_str()));
                return self.check_result(instruction, "rename", renamed);
            }
            OperationKind::Unlink => {
                let unlinked = nix::unistd::unlink(path.as_c_str()).map_err(io::Error::from);
                return self.check_result(instruction, "unlink", unlinked);
            }
            OperationKind::Rmdir => {
                return self.check_result(instruction, "rmdir", std::fs::remove_dir(as_path(path.as_c_str())));
            }
            OperationKind::Mkdir => {
                // The directory may exist already, because other clients create it, too. The real dbench ignores all errors.
                let _ = nix::unistd::mkdir(path.as_c_str(), Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO);
            }
            OperationKind::Deltree => calls::delete_tree(&mut self.paths[0]),
            OperationKind::QueryPath => {}
            OperationKind::Find => calls::list_pattern(&mut self.paths[0], &mut self.entry_buffer, numbers[1]),
            OperationKind::QueryFs => drop(rustix::fs::statvfs(self.shared.root.as_c_str())),
            _ => return self.perform_on_open_file(kind, instruction, numbers),
        }
        Ok(())
    }

    /// Performs an operation on an open file. As in the real dbench, the results of syncs, locks and reads of a status are
    /// ignored.
    fn perform_on_open_file(
        &mut self,
        kind: OperationKind,
        instruction: &Instruction,
        numbers: Numbers,
    ) -> ClientResult {
        let [handle, offset, size, expected_bytes] = numbers;
        let Some(open) = self.handles.get(handle) else {
            return self.fail_for_closed_handle(instruction, handle);
        };
        match kind {
            OperationKind::Flush => drop(rustix::fs::fsync(&open.file)),
            OperationKind::QueryFile => drop(fstat(&open.file)),
            OperationKind::SetFile => {
                let path = std::ffi::CStr::from_bytes_until_nul(&open.name).unwrap_or_default();
                calls::set_times_back(&open.file, path);
            }
            OperationKind::LockX => calls::set_lock(&open.file, libc::F_WRLCK, offset, size),
            OperationKind::UnlockX => calls::set_lock(&open.file, libc::F_UNLCK, offset, size),
            OperationKind::ReadX => {
                let size = self.check_size(instruction, size)?;
                let result = rustix::io::pread(&open.file, &mut self.read_buffer[..size], offset as u64);
                let is_expected = result.map_or(-1, |read| read as i64) == expected_bytes;
                if !is_expected && instruction.expected == ExpectedResult::Success {
                    let error = result.err().map(io::Error::from);
                    let message: [&[u8]; 2] = [b"read another number of bytes of ", &open.name];
                    self.counters.unexpected_result.record(instruction.line, error, &message);
                }
            }
            _ => {
                let size = self.check_size(instruction, size)?;
                self.write_count = self.write_count.wrapping_add(1);
                let payload = self.shared.payloads.data_for_write(self.pattern, self.write_count, size);
                return match rustix::io::pwrite(&open.file, payload, offset as u64) {
                    Ok(written) if written as i64 == expected_bytes => Ok(()),
                    Ok(_) => self.fail(instruction, None, &[b"wrote another number of bytes to ", &open.name]),
                    Err(errno) => self.fail(instruction, Some(errno.into()), &[b"write ", &open.name]),
                };
            }
        }
        Ok(())
    }

    fn create_file(&mut self, instruction: &Instruction, [options, disposition, handle, _]: Numbers) -> ClientResult {
        let name = &self.paths[0];
        let unexpected_result = &self.counters.unexpected_result;
        let file = match (calls::create_or_open(name.as_c_str(), options, disposition), instruction.expected) {
            (Ok(_), ExpectedResult::Failure) => {
                unexpected_result.record(instruction.line, None, &[b"open succeeded: ", name.bytes()]);
                return Ok(());
            }
            (Ok(file), _) => file,
            (Err(error), ExpectedResult::Success) if is_caused_by_machine(&error) => {
                return self.fail(instruction, Some(error), &[b"open ", name.bytes()]);
            }
            (Err(error), ExpectedResult::Success) => {
                unexpected_result.record(instruction.line, Some(error), &[b"open ", name.bytes()]);
                return Ok(());
            }
            (Err(_), _) => return Ok(()),
        };
        let _ = fstat(&file);
        let name = name.as_c_str().to_bytes_with_nul().to_vec();
        if self.handles.insert(handle, OpenFile { file, name }).is_err() {
            let problem = format!("{MAX_HANDLES} files are open, the most that a client can have");
            return self.fail(instruction, None, &[problem.as_bytes()]);
        }
        Ok(())
    }

    /// Checks a size that may depend on random numbers.
    fn check_size(&self, instruction: &Instruction, size: i64) -> ClientResult<usize> {
        match usize::try_from(size) {
            Ok(size) if size <= self.read_buffer.len() => Ok(size),
            _ => {
                let problem = format!("{size} bytes to read or write");
                self.fail(instruction, None, &[problem.as_bytes()])
            }
        }
    }

    /// Composes a name of the operation in `paths[index]`.
    fn compose_name(&mut self, index: usize, instruction: &Instruction) -> ClientResult {
        let (names, id) = (&self.shared.program.names, instruction.names[index]);
        let root = self.shared.root.as_bytes();
        let (own_name, strings) = (&self.own_name, &self.cursor.strings);
        self.paths[index].set(root, |bytes| names.append_name(id, own_name, strings, bytes));
        if names.is_random(id) && super::name::check_name(&self.paths[index].bytes()[root.len()..]).is_err() {
            let name = self.paths[index].bytes();
            return self.fail(instruction, None, &[b"a name that leads out of the directory: ", name]);
        }
        Ok(())
    }

    /// Fails the client if an operation has another result than the loadfile states, as in the real dbench.
    fn check_result(&self, instruction: &Instruction, operation: &str, result: io::Result<()>) -> ClientResult {
        let name = self.paths[0].bytes();
        match (result, instruction.expected) {
            (Ok(()), ExpectedResult::Failure) => {
                self.fail(instruction, None, &[operation.as_bytes(), b" succeeded: ", name])
            }
            (Err(error), ExpectedResult::Success) => {
                self.fail(instruction, Some(error), &[operation.as_bytes(), b" ", name])
            }
            _ => Ok(()),
        }
    }

    fn fail_for_closed_handle(&self, instruction: &Instruction, handle: i64) -> ClientResult {
        let problem = format!("handle {handle} is not open");
        // An earlier unexpected result is the cause.
        let cause = match self.counters.unexpected_result.message() {
            Some(earlier) => format!("; before, at line {}: {}", earlier.line, earlier.text),
            None => String::new(),
        };
        self.fail(instruction, None, &[problem.as_bytes(), cause.as_bytes()])
    }

    /// Fails the client. `parts` together are the message.
    fn fail<T>(&self, instruction: &Instruction, error: Option<io::Error>, parts: &[&[u8]]) -> ClientResult<T> {
        self.counters.failure.record(instruction.line, error, parts);
        Err(ClientFailed)
    }
}

/// Whether the machine or the filesystem caused the error rather than the load.
fn is_caused_by_machine(error: &io::Error) -> bool {
    use libc::{EACCES, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, EROFS};
    let machine_errors = [ENOSPC, EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, EROFS, EACCES];
    error.raw_os_error().is_some_and(|code| machine_errors.contains(&code))
}

/// Largest number of open files of one client, as in the real dbench.
pub const MAX_HANDLES: usize = 200;

/// An open file, and the name it was opened by.
#[derive(Debug)]
struct OpenFile {
    file: OwnedFd,
    /// The path, with a zero byte at the end.
    name: Vec<u8>,
}

/// The open files of a client by their handle numbers in the loadfile. As in the real dbench, a file goes into the
/// first free slot; of two files with the same number, the one in the lower slot is used.
#[derive(Debug, Default)]
struct HandleTable {
    /// The handle number of each slot.
    numbers: Vec<Option<i64>>,
    files: Vec<Option<OpenFile>>,
}

impl HandleTable {
    /// Stores a file under a number.
    ///
    /// # Errors
    /// Returns the file if the table is full.
    fn insert(&mut self, number: i64, file: OpenFile) -> Result<(), OpenFile> {
        let slot = self.numbers.iter().position(Option::is_none).unwrap_or(self.numbers.len());
        if slot == MAX_HANDLES {
            return Err(file);
        }
        if slot == self.numbers.len() {
            self.numbers.push(None);
            self.files.push(None);
        }
        self.numbers[slot] = Some(number);
        self.files[slot] = Some(file);
        Ok(())
    }

    /// The open file with this number.
    #[inline]
    fn get(&self, number: i64) -> Option<&OpenFile> {
        let slot = self.numbers.iter().position(|slot_number| *slot_number == Some(number))?;
        self.files[slot].as_ref()
    }

    /// Removes the open file with this number.
    fn remove(&mut self, number: i64) -> Option<OpenFile> {
        let slot = self.numbers.iter().position(|slot_number| *slot_number == Some(number))?;
        self.numbers[slot] = None;
        self.files[slot].take()
    }
}

/// The default data of writes is noise, unless the content is zeros. The data of a write can begin at this number of
/// offsets in the noise, so that successive writes differ.
const OFFSET_COUNT: usize = 256;
/// Bytes between two such offsets.
const OFFSET_STEP_BYTES: usize = 509;

/// The data that clients write. It is made before the run starts, and all clients share it.
#[derive(Debug)]
pub struct WritePayloads {
    /// Data for writes without a pattern.
    default_data: Vec<u8>,
    /// Whether successive writes take different parts of `default_data`.
    varies: bool,
    /// Each pattern of the program, repeated up to the largest write.
    patterns: Vec<Vec<u8>>,
}

impl WritePayloads {
    /// Makes the data for a program.
    pub fn new(program: &LoadProgram, content: Content, seed: u64) -> WritePayloads {
        let varies = content != Content::Zeros;
        let mut default_data =
            vec![0; program.max_io_bytes + if varies { OFFSET_COUNT * OFFSET_STEP_BYTES } else { 0 }];
        if varies {
            ChaCha8Rng::seed_from_u64(mix(seed, 3)).fill_bytes(&mut default_data);
        }
        let repeat_pattern = |pattern: &Vec<u8>| pattern.iter().copied().cycle().take(program.max_io_bytes).collect();
        WritePayloads { default_data, varies, patterns: program.patterns.iter().map(repeat_pattern).collect() }
    }

    /// Returns `bytes` bytes of data for the write with this number: of the pattern with this index, or of the default
    /// data.
    #[inline]
    pub fn data_for_write(&self, pattern: Option<usize>, write_number: usize, bytes: usize) -> &[u8] {
        match pattern {
            Some(index) => &self.patterns[index][..bytes],
            None => {
                let start = if self.varies { write_number % OFFSET_COUNT * OFFSET_STEP_BYTES } else { 0 };
                &self.default_data[start..start + bytes]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::loadfile;

    fn open(name: &str) -> OpenFile {
        OpenFile { file: tempfile::tempfile().unwrap().into(), name: name.into() }
    }

    #[test]
    fn handle_slots_are_reused_and_limited() {
        let mut handles = HandleTable::default();
        for number in 0..MAX_HANDLES as i64 {
            handles.insert(number, open("a")).unwrap();
        }
        assert!(handles.insert(999, open("b")).is_err());
        assert!(handles.remove(7).is_some() && handles.remove(7).is_none() && handles.get(7).is_none());
        // Two files have the same number: the one in the lower slot is used.
        handles.insert(100, open("c")).unwrap();
        assert_eq!(handles.get(100).unwrap().name, b"c");
        handles.remove(100).unwrap();
        assert_eq!(handles.get(100).unwrap().name, b"a");
    }

    #[test]
    fn writes_get_the_pattern_or_zeros_or_changing_noise() {
        let text = "WRITEPATTERN ab\nWriteX 1 0 7 7 *\n";
        let program = loadfile::parse("f", text.as_bytes()).unwrap();
        let zeros = WritePayloads::new(&program, Content::Zeros, 1);
        assert_eq!(zeros.data_for_write(None, 5, 7), [0; 7]);
        assert_eq!(zeros.data_for_write(Some(0), 5, 7), b"ab\nab\na");
        let noise = WritePayloads::new(&program, Content::Random, 1);
        assert_ne!(noise.data_for_write(None, 1, 7), noise.data_for_write(None, 2, 7));
        assert_eq!(
            noise.data_for_write(None, 1, 7),
            WritePayloads::new(&program, Content::Random, 1).data_for_write(None, 1, 7)
        );
    }
}
