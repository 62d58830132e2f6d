//! Statistics of one pass of a program, which this module simulates without a filesystem: the largest number of files
//! and bytes at one time, and the figures for comparing the generated load with dbench's standard loadfile.

use super::cursor::{Cursor, Step};
use super::kind::{KIND_DEFS, Numbers, OperationKind};
use super::name::{MAX_RANDOM_STRINGS, NameId};
use super::program::{ExpectedResult, Instruction, LoadProgram};
use std::collections::{BTreeMap, HashMap};

/// Largest number of steps to simulate. A loadfile has fewer lines, but its loops can repeat them without a limit.
const MAX_STEPS: u64 = 20_000_000;
/// The option of NTCreateX that creates a directory.
pub const DIRECTORY_OPTION: i64 = 0x1;

/// Statistics of one pass of a program.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoadStats {
    /// Number of operations, by [`OperationKind`].
    pub operation_counts: [u64; KIND_DEFS.len()],
    /// Number of operations that are expected to fail, by [`OperationKind`].
    pub expected_failures: [u64; KIND_DEFS.len()],
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of reads by size.
    pub read_sizes: BTreeMap<i64, u64>,
    /// Number of writes by size.
    pub write_sizes: BTreeMap<i64, u64>,
    /// Number of reads that begin where the previous read through the same handle ended.
    pub sequential_reads: u64,
    /// Number of writes that do not extend the file.
    pub in_place_writes: u64,
    /// Number of handles without a read or a write.
    pub unused_opens: u64,
    /// Number of handles with reads only.
    pub read_only_opens: u64,
    /// Largest number of files at one time.
    pub peak_files: u64,
    /// Sum of the number of files after each operation. Divided by the number of operations, it is the mean.
    pub file_count_sum: u64,
    /// Largest number of handles at one time.
    pub peak_open_handles: u64,
    /// Number of created directories.
    pub directories: u64,
    /// Largest number of bytes of all files at one time.
    pub peak_bytes: u64,
}

impl LoadStats {
    /// Simulates one pass and collects its statistics.
    pub fn collect(program: &LoadProgram) -> LoadStats {
        let (stats, files) = (LoadStats::default(), HashMap::new());
        let mut pass = SimulatedPass { program, stats, files, open_handles: vec![], bytes: 0 };
        let mut cursor = Cursor::new(program, 0, 1, 0);
        for _ in 0..MAX_STEPS {
            match cursor.next_step() {
                Step::End => break,
                Step::Operation(kind, instruction, numbers) => {
                    pass.stats.operation_counts[kind as usize] += 1;
                    if instruction.expected == ExpectedResult::Failure {
                        pass.stats.expected_failures[kind as usize] += 1;
                    } else {
                        pass.apply(kind, instruction, numbers, &cursor.strings);
                    }
                    pass.update_file_stats();
                }
                _ => {}
            }
        }
        pass.stats
    }

    /// Operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.operation_counts.iter().sum()
    }

    /// Operations of one kind.
    pub fn count(&self, kind: OperationKind) -> u64 {
        self.operation_counts[kind as usize]
    }
}

/// The size of a file, or `None` for a directory.
type FileSize = Option<i64>;

/// An open handle.
struct OpenHandle {
    handle: i64,
    name: Vec<u8>,
    reads: u64,
    writes: u64,
    /// The offset where the last read ended.
    read_end: Option<i64>,
}

/// A simulated pass: its files and handles, and its statistics so far.
struct SimulatedPass<'p> {
    program: &'p LoadProgram,
    stats: LoadStats,
    /// The files and directories by name.
    files: HashMap<Vec<u8>, FileSize>,
    open_handles: Vec<OpenHandle>,
    /// Bytes of all files.
    bytes: i64,
}

impl SimulatedPass<'_> {
    /// Updates the peaks and the sum of the number of files, after an operation.
    fn update_file_stats(&mut self) {
        let files = self.files.len() as u64 - self.stats.directories;
        self.stats.file_count_sum += files;
        self.stats.peak_files = self.stats.peak_files.max(files);
        self.stats.peak_open_handles = self.stats.peak_open_handles.max(self.open_handles.len() as u64);
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.bytes.max(0) as u64);
    }

    fn compose_name(&self, id: NameId, strings: &[Vec<u8>; MAX_RANDOM_STRINGS]) -> Vec<u8> {
        let mut name = vec![];
        self.program.names.append_name(id, b"client1", strings, &mut name);
        name
    }

    /// Applies a successful operation to the files and handles.
    fn apply(
        &mut self,
        kind: OperationKind,
        instruction: &Instruction,
        numbers: Numbers,
        strings: &[Vec<u8>; MAX_RANDOM_STRINGS],
    ) {
        match kind {
            OperationKind::NtCreateX => self.create(self.compose_name(instruction.names[0], strings), numbers),
            OperationKind::Close => self.close(numbers[0]),
            OperationKind::Rename => {
                let [old_name, new_name] = instruction.names.map(|name| self.compose_name(name, strings));
                if let Some(size) = self.files.remove(&old_name) {
                    self.remove(&new_name);
                    self.files.insert(new_name, size);
                }
            }
            OperationKind::Unlink => self.remove(&self.compose_name(instruction.names[0], strings)),
            OperationKind::Deltree => {
                let prefix = [self.compose_name(instruction.names[0], strings), b"/".to_vec()].concat();
                let removed = self.files.keys().filter(|name| name.starts_with(&prefix));
                removed.cloned().collect::<Vec<_>>().iter().for_each(|name| self.remove(name));
            }
            OperationKind::ReadX => self.read(numbers),
            OperationKind::WriteX => self.write(numbers),
            _ => {}
        }
    }

    fn create(&mut self, name: Vec<u8>, [options, disposition, handle, _]: Numbers) {
        if options & DIRECTORY_OPTION != 0 {
            if self.files.insert(name.clone(), None).is_none() {
                self.stats.directories += 1;
            }
        } else {
            let size = self.files.entry(name.clone()).or_insert(Some(0));
            if let (4 | 5, Some(size)) = (disposition, size) {
                self.bytes -= std::mem::take(size);
            }
        }
        self.open_handles.push(OpenHandle { handle, name, reads: 0, writes: 0, read_end: None });
    }

    fn remove(&mut self, name: &[u8]) {
        // Directories stay, because the real dbench does not remove them when it deletes a tree.
        if let Some(Some(size)) = self.files.get(name).copied() {
            self.files.remove(name);
            self.bytes -= size;
        }
    }

    fn find_handle(&mut self, handle: i64) -> Option<&mut OpenHandle> {
        self.open_handles.iter_mut().find(|open| open.handle == handle)
    }

    fn close(&mut self, handle: i64) {
        let Some(index) = self.open_handles.iter().position(|open| open.handle == handle) else { return };
        match self.open_handles.remove(index) {
            OpenHandle { writes: 0, reads: 0, .. } => self.stats.unused_opens += 1,
            OpenHandle { writes: 0, .. } => self.stats.read_only_opens += 1,
            _ => {}
        }
    }

    fn read(&mut self, [handle, offset, size, _]: Numbers) {
        self.stats.read_bytes += size.max(0) as u64;
        *self.stats.read_sizes.entry(size).or_default() += 1;
        let Some(open) = self.find_handle(handle) else { return };
        open.reads += 1;
        if open.read_end.replace(offset.saturating_add(size)) == Some(offset) {
            self.stats.sequential_reads += 1;
        }
    }

    fn write(&mut self, [handle, offset, size, _]: Numbers) {
        self.stats.written_bytes += size.max(0) as u64;
        *self.stats.write_sizes.entry(size).or_default() += 1;
        let Some(open) = self.find_handle(handle) else { return };
        open.writes += 1;
        let end = offset.saturating_add(size);
        let name = open.name.clone();
        let Some(Some(length)) = self.files.get_mut(&name) else { return };
        if end <= *length {
            self.stats.in_place_writes += 1;
        } else {
            self.bytes += end - *length;
            *length = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loadfile;
    use super::*;

    const TEXT: &str = "\
NTCreateX \"\\client1\" 0x1 0x2 1 NT_STATUS_OK
Close 1 NT_STATUS_OK
NTCreateX \"\\client1\\none\" 0x40 0x1 2 NT_STATUS_OBJECT_NAME_NOT_FOUND
NTCreateX \"\\client1\\a\" 0x40 0x2 2 NT_STATUS_OK
WriteX 2 9999 1 1 NT_STATUS_OK
WriteX 2 0 4096 4096 NT_STATUS_OK
NTCreateX \"\\client1\\a\" 0x40 0x1 3 NT_STATUS_OK
ReadX 3 0 4096 4096 NT_STATUS_OK
ReadX 3 4096 4096 4096 NT_STATUS_OK
ReadX 3 0 100 100 NT_STATUS_OK
Close 3 NT_STATUS_OK
Close 2 NT_STATUS_OK
Rename \"\\client1\\a\" \"\\client1\\b\" NT_STATUS_OK
NTCreateX \"\\client1\\c\" 0x40 0x2 4 NT_STATUS_OK
WriteX 4 0 100 100 NT_STATUS_OK
Close 4 NT_STATUS_OK
Unlink \"\\client1\\b\" 0x6 NT_STATUS_OK
Deltree \"\\client1\" NT_STATUS_OK
";

    #[test]
    fn operations_peaks_bytes_and_kinds_of_opens_are_counted() {
        let stats = LoadStats::collect(&loadfile::parse("f", TEXT.as_bytes()).unwrap());
        assert_eq!((stats.operations(), stats.count(OperationKind::NtCreateX)), (18, 5));
        assert_eq!(stats.expected_failures[OperationKind::NtCreateX as usize], 1);
        assert_eq!((stats.peak_files, stats.directories, stats.peak_open_handles), (2, 1, 2));
        assert_eq!(stats.peak_bytes, 10_100);
        assert_eq!((stats.read_bytes, stats.written_bytes), (8292, 4197));
        assert_eq!((stats.sequential_reads, stats.in_place_writes), (1, 1));
        assert_eq!((stats.unused_opens, stats.read_only_opens), (1, 1));
    }
}
