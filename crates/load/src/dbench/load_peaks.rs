//! Simulates one pass of a program, from its first line to its last, without a filesystem. Finds the largest numbers of
//! files, handles and bytes at one time.

use super::cursor::{Cursor, Step};
use super::kind::{Numbers, OperationKind};
use super::name::{NameId, RandomStrings};
use super::program::{ExpectedResult, Instruction, LoadProgram};
use std::collections::{HashMap, hash_map::Entry};

/// Largest number of steps to simulate. A loadfile has fewer lines, but its loops can repeat them without a limit.
const MAX_STEPS: u64 = 20_000_000;
/// The option of NTCreateX that creates a directory.
pub const DIRECTORY_OPTION: i64 = 0x1;

/// The space and the handles that one pass of a program needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadPeaks {
    /// Largest number of files at one time, without directories.
    pub files: u64,
    /// Number of created directories, including those that are removed later.
    pub directories: u64,
    /// Largest number of handles at one time.
    pub open_handles: u64,
    /// Largest number of bytes of all files at one time.
    pub bytes: u64,
}

impl LoadPeaks {
    /// Simulates one pass.
    pub fn of_pass(program: &LoadProgram) -> LoadPeaks {
        let mut pass = SimulatedPass::new(program);
        // The only client; the seed does not matter.
        let mut cursor = Cursor::new(program, 0, 1, 0);
        for _ in 0..MAX_STEPS {
            match cursor.next_step() {
                Step::End => break,
                Step::Operation(kind, instruction, numbers) => pass.apply(kind, instruction, numbers, &cursor.strings),
                _ => {}
            }
        }
        pass.peaks
    }
}

/// The size of a file, or `None` for a directory.
type FileSize = Option<i64>;

/// A simulated pass: its files and handles, and their peaks so far.
struct SimulatedPass<'p> {
    program: &'p LoadProgram,
    peaks: LoadPeaks,
    /// The files and directories by name, with their sizes.
    entries: HashMap<Vec<u8>, FileSize>,
    /// The number of each open handle, and the name of its file or directory.
    open_handles: Vec<(i64, Vec<u8>)>,
    /// The number of files.
    files: u64,
    /// Bytes of all files.
    bytes: i64,
}

impl SimulatedPass<'_> {
    /// A pass before its first operation.
    fn new(program: &LoadProgram) -> SimulatedPass<'_> {
        let (peaks, entries) = (LoadPeaks::default(), HashMap::new());
        SimulatedPass { program, peaks, entries, open_handles: vec![], files: 0, bytes: 0 }
    }

    /// The name of a file or directory as the first client uses it.
    fn compose_name(&self, id: NameId, strings: &RandomStrings) -> Vec<u8> {
        let mut name = vec![];
        self.program.names.append_name(id, b"client1", strings, &mut name);
        name
    }

    /// Applies an operation to the files and handles unless it is expected to fail, and updates the peaks.
    fn apply(&mut self, kind: OperationKind, instruction: &Instruction, numbers: Numbers, strings: &RandomStrings) {
        if instruction.expected == ExpectedResult::Failure {
            return;
        }
        match kind {
            OperationKind::NtCreateX => self.create(self.compose_name(instruction.names[0], strings), numbers),
            OperationKind::Mkdir => self.make_directory(self.compose_name(instruction.names[0], strings)),
            OperationKind::Close => {
                if let Some(index) = self.open_handles.iter().position(|(handle, _)| *handle == numbers[0]) {
                    self.open_handles.remove(index);
                }
            }
            OperationKind::Rename => {
                let [old_name, new_name] = instruction.names.map(|name| self.compose_name(name, strings));
                if let Some(size) = self.entries.remove(&old_name) {
                    self.remove(&new_name);
                    for (_, name) in self.open_handles.iter_mut().filter(|(_, name)| *name == old_name) {
                        name.clone_from(&new_name);
                    }
                    self.entries.insert(new_name, size);
                }
            }
            OperationKind::Unlink => self.remove(&self.compose_name(instruction.names[0], strings)),
            OperationKind::Deltree => {
                let prefix = [self.compose_name(instruction.names[0], strings), b"/".to_vec()].concat();
                let removed = self.entries.keys().filter(|name| name.starts_with(&prefix));
                removed.cloned().collect::<Vec<_>>().iter().for_each(|name| self.remove(name));
            }
            OperationKind::WriteX => self.write(numbers),
            _ => {}
        }
        self.peaks.files = self.peaks.files.max(self.files);
        self.peaks.open_handles = self.peaks.open_handles.max(self.open_handles.len() as u64);
        self.peaks.bytes = self.peaks.bytes.max(self.bytes.max(0) as u64);
    }

    fn create(&mut self, name: Vec<u8>, [options, disposition, handle, _]: Numbers) {
        if options & DIRECTORY_OPTION != 0 {
            self.make_directory(name.clone());
        } else {
            let size = self.entries.entry(name.clone()).or_insert_with(|| {
                self.files += 1;
                Some(0)
            });
            // The dispositions OVERWRITE and OVERWRITE_IF truncate the file.
            if let (4 | 5, Some(size)) = (disposition, size) {
                self.bytes -= std::mem::take(size);
            }
        }
        self.open_handles.push((handle, name));
    }

    fn make_directory(&mut self, name: Vec<u8>) {
        if let Entry::Vacant(entry) = self.entries.entry(name) {
            entry.insert(None);
            self.peaks.directories += 1;
        }
    }

    /// Removes a file; ignores a directory.
    fn remove(&mut self, name: &[u8]) {
        // Directories stay, because the real dbench does not remove them when it deletes a tree.
        if let Some(Some(size)) = self.entries.get(name).copied() {
            self.entries.remove(name);
            self.files -= 1;
            self.bytes -= size;
        }
    }

    fn write(&mut self, [handle, offset, size, _]: Numbers) {
        let Some((_, name)) = self.open_handles.iter().find(|(open, _)| *open == handle) else { return };
        let Some(Some(length)) = self.entries.get_mut(name) else { return };
        let end = offset.saturating_add(size);
        if end > *length {
            self.bytes += end - *length;
            *length = end;
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{kind::KIND_DEFS, loadfile};
    use super::*;
    use std::collections::BTreeMap;

    /// Statistics of one pass of a program, to compare the generated load with dbench's standard loadfile.
    #[derive(Debug, Default)]
    pub struct LoadStats {
        pub peaks: LoadPeaks,
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
        /// Sum of the number of files before each operation. Divided by the number of operations, it is the mean.
        pub file_count_sum: u64,
    }

    /// The reads and writes through an open handle.
    #[derive(Default)]
    struct HandleUse {
        reads: u64,
        writes: u64,
        /// The offset where the last read ended.
        read_end: Option<i64>,
    }

    impl LoadStats {
        /// Simulates one pass and collects its statistics.
        pub fn collect(program: &LoadProgram) -> LoadStats {
            let (mut stats, mut handles) = (LoadStats::default(), HashMap::new());
            let mut pass = SimulatedPass::new(program);
            let mut cursor = Cursor::new(program, 0, 1, 0);
            loop {
                match cursor.next_step() {
                    Step::End => break,
                    Step::Operation(kind, instruction, numbers) => {
                        stats.count_operation(kind, instruction, numbers, &pass, &mut handles);
                        pass.apply(kind, instruction, numbers, &cursor.strings);
                    }
                    _ => {}
                }
            }
            LoadStats { peaks: pass.peaks, ..stats }
        }

        /// Counts an operation. `pass` is the pass before it.
        fn count_operation(
            &mut self,
            kind: OperationKind,
            instruction: &Instruction,
            numbers: Numbers,
            pass: &SimulatedPass,
            handles: &mut HashMap<i64, HandleUse>,
        ) {
            self.file_count_sum += pass.files;
            self.operation_counts[kind as usize] += 1;
            if instruction.expected == ExpectedResult::Failure {
                self.expected_failures[kind as usize] += 1;
                return;
            }
            let [handle, offset, size, _] = numbers;
            match kind {
                OperationKind::NtCreateX => {
                    handles.insert(numbers[2], HandleUse::default());
                }
                OperationKind::Close => match handles.remove(&handle) {
                    Some(HandleUse { reads: 0, writes: 0, .. }) => self.unused_opens += 1,
                    Some(HandleUse { writes: 0, .. }) => self.read_only_opens += 1,
                    _ => {}
                },
                OperationKind::ReadX => {
                    self.read_bytes += size as u64;
                    *self.read_sizes.entry(size).or_default() += 1;
                    let handle_use = handles.entry(handle).or_default();
                    handle_use.reads += 1;
                    if handle_use.read_end.replace(offset + size) == Some(offset) {
                        self.sequential_reads += 1;
                    }
                }
                OperationKind::WriteX => {
                    self.written_bytes += size as u64;
                    *self.write_sizes.entry(size).or_default() += 1;
                    handles.entry(handle).or_default().writes += 1;
                    let (_, name) = pass.open_handles.iter().find(|(open, _)| *open == handle).unwrap();
                    if pass.entries[name].is_some_and(|length| offset + size <= length) {
                        self.in_place_writes += 1;
                    }
                }
                _ => {}
            }
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

    const TEXT: &str = "\
Mkdir \"\\clients\" NT_STATUS_OK
Mkdir \"\\client1\" NT_STATUS_OK
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
    fn renamed_files_and_directories_are_counted_once() {
        let text = "\
Mkdir \"\\client1\" NT_STATUS_OK
Mkdir \"\\client2\" NT_STATUS_OK
Rename \"\\client1\" \"\\client2\" NT_STATUS_OK
NTCreateX \"\\client2\\a\" 0x40 0x2 1 NT_STATUS_OK
Rename \"\\client2\\a\" \"\\client2\\b\" NT_STATUS_OK
WriteX 1 0 4096 4096 NT_STATUS_OK
Close 1 NT_STATUS_OK
";
        let program = loadfile::parse("f", text.as_bytes()).unwrap();
        let peaks = LoadPeaks { files: 1, directories: 2, open_handles: 1, bytes: 4096 };
        assert_eq!(LoadPeaks::of_pass(&program), peaks);
    }

    #[test]
    fn operations_peaks_bytes_and_kinds_of_opens_are_counted() {
        let program = loadfile::parse("f", TEXT.as_bytes()).unwrap();
        let peaks = LoadPeaks { files: 2, directories: 2, open_handles: 2, bytes: 10_100 };
        assert_eq!(LoadPeaks::of_pass(&program), peaks);
        let stats = LoadStats::collect(&program);
        assert_eq!(stats.peaks, peaks);
        assert_eq!((stats.operations(), stats.count(OperationKind::NtCreateX)), (20, 5));
        assert_eq!(stats.expected_failures[OperationKind::NtCreateX as usize], 1);
        assert_eq!((stats.read_bytes, stats.written_bytes), (8292, 4197));
        assert_eq!((stats.sequential_reads, stats.in_place_writes), (1, 1));
        assert_eq!((stats.unused_opens, stats.read_only_opens), (1, 1));
    }
}
