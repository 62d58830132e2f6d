//! A parsed load in the compact form in which fsarena stores and plays it, with 32 bytes for each line.

use crate::dbench::kind::{MAX_NUMBERS, OperationKind};
use crate::dbench::name::{NameId, NameTable, NameTableBuilder};
use crate::dbench::number::{Number, Qualifier, RandomString};
use crate::error::{Result, TaskError, failed_to};
use fsarena_core::setting_text::setting;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The largest number of bytes that one operation can read or write. The real dbench 5.0 has a buffer of this size.
pub const MAX_IO_BYTES: i64 = 16 << 20;

/// The expected result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExpectedResult {
    /// It succeeds.
    Success,
    /// It fails.
    Failure,
    /// It may succeed or fail.
    Anything,
}

/// The action of one line. Its numbers are those of the [`Instruction`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstructionAction {
    /// A file operation.
    Operation(OperationKind),
    /// Waits until a time after the start of the pass, in nanoseconds.
    WaitUntil,
    /// Sleeps for a number of microseconds.
    Sleep,
    /// Sets the point that this client has reached, so that other clients can wait for it.
    SetSyncPoint,
    /// Waits until another client, by its number from 0, is at a point.
    WaitForSyncPoint,
    /// Sets the pattern of all later writes, by its index in [`LoadProgram::patterns`].
    SetPattern,
    /// Draws a new random string, by its index in [`LoadProgram::strings`].
    DrawString,
    /// Starts a loop with a number of repetitions.
    Loop,
    /// Ends the loop.
    EndLoop,
    /// Repeats the next operation a number of times.
    Repeat,
}

/// A literal number below 2³¹, or [`TABLE_BIT`] plus the index of another number in the program's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct PackedNumber(u32);

/// The bit that marks a [`PackedNumber`] as an index.
const TABLE_BIT: u32 = 1 << 31;

/// One line.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Instruction {
    /// Its action.
    pub action: InstructionAction,
    /// Its expected result.
    pub expected: ExpectedResult,
    /// The line of the loadfile, from 1.
    pub line: u32,
    /// Its names, or [`NameId::NONE`].
    pub names: [NameId; 2],
    numbers: [PackedNumber; MAX_NUMBERS],
}

impl Instruction {
    fn is_operation(&self) -> bool {
        matches!(self.action, InstructionAction::Operation(_))
    }
}

/// A load, ready to be played.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct LoadProgram {
    /// All lines.
    pub instructions: Vec<Instruction>,
    /// The numbers that are random, relative, negative or large; see [`PackedNumber`].
    number_table: Vec<Number>,
    /// All names.
    pub names: NameTable,
    /// The patterns for `InstructionAction::SetPattern`.
    pub patterns: Vec<Vec<u8>>,
    /// The random strings for `InstructionAction::DrawString`, each with the number by which names refer to it.
    pub strings: Vec<(u8, RandomString)>,
    /// The largest number of bytes that an operation reads or writes.
    pub max_io_bytes: usize,
    /// The highest client, from 0, that another one waits for.
    highest_awaited_client: Option<u32>,
}

impl LoadProgram {
    /// Checks that a run of `clients` clients has every client that the program waits for.
    ///
    /// # Errors
    /// [`TaskError::Plan`] if a client would wait for another one that does not exist.
    pub fn check_clients(&self, clients: u32) -> Result<()> {
        match self.highest_awaited_client {
            Some(client) if client >= clients => Err(TaskError::Plan(format!(
                "the load requires client number {client} (counted from 0), and there are only {clients} clients; take more: {}",
                setting("set", &format!("clients={}", client + 1))
            ))),
            _ => Ok(()),
        }
    }

    /// Number of operations. A repeated operation counts once.
    pub fn operation_count(&self) -> usize {
        self.instructions.iter().filter(|instruction| instruction.is_operation()).count()
    }

    /// Bytes that the program takes in memory, without its patterns and random strings, which are few.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(self.instructions.as_slice())
            + size_of_val(self.number_table.as_slice())
            + self.names.memory_bytes()
    }

    /// Returns the value of a number of an instruction.
    ///
    /// # Errors
    /// Returns the number itself, if its value is known only during the run.
    pub fn number(&self, instruction: &Instruction, index: usize) -> Result<i64, &Number> {
        match instruction.numbers[index].0 {
            small if small < TABLE_BIT => Ok(i64::from(small)),
            marked_index => match &self.number_table[(marked_index - TABLE_BIT) as usize] {
                Number::Literal(value) => Ok(*value),
                number => Err(number),
            },
        }
    }

    /// Encodes the program compactly, with a checksum at the end.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = postcard::to_stdvec(self).expect("plain data can be encoded");
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a program that [`LoadProgram::encode`] encoded. The checksum ensures that all indices are in range.
    ///
    /// # Errors
    /// If the bytes are not a program, or are damaged. The text is for the user.
    pub fn decode(bytes: &[u8]) -> Result<LoadProgram, String> {
        let decode_error = |reason: &str| format!("cannot decode this stored load: {reason}");
        let (encoded, checksum) = bytes.split_last_chunk().ok_or_else(|| decode_error("too short"))?;
        if crc32fast::hash(encoded) != u32::from_le_bytes(*checksum) {
            return Err(decode_error("wrong checksum"));
        }
        postcard::from_bytes(encoded).map_err(|error| decode_error(&error.to_string()))
    }

    /// Writes the encoded program to a file, which the cells of a run read. Reading it takes milliseconds, while
    /// parsing a loadfile takes tenths of a second, and guests have no loadfile.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write_to(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.encode()).map_err(failed_to("write the load to", path))
    }

    /// Reads a program that [`LoadProgram::write_to`] wrote.
    ///
    /// # Errors
    /// If the file is missing or damaged.
    pub fn read_from(path: &Path) -> Result<LoadProgram> {
        let bytes = std::fs::read(path).map_err(failed_to("read the load", path))?;
        LoadProgram::decode(&bytes).map_err(|reason| TaskError::Plan(format!("{}: {reason}", path.display())))
    }
}

/// Builds a program line by line.
#[derive(Debug, Default)]
pub struct LoadProgramBuilder {
    /// The program so far, without its names.
    program: LoadProgram,
    names: NameTableBuilder,
    /// The line of a LOOP that has not ended, and the index of its first instruction.
    open_loop: Option<(u32, usize)>,
}

impl LoadProgramBuilder {
    /// Adds an operation. Its names have `/` between their parts.
    ///
    /// # Errors
    /// If the count of names is not that of the operation, there are too few numbers, a size is out of range, or a name leads
    /// out of the directory of the run.
    pub fn add_operation(
        &mut self,
        line: u32,
        kind: OperationKind,
        names: &[&[u8]],
        numbers: &[Number],
        expected: ExpectedResult,
    ) -> Result<(), String> {
        let def = kind.def();
        if names.len() != def.name_count {
            let takes = format_count(def.name_count, "name");
            return Err(format!("{} takes {takes}, and has {}", def.name, names.len()));
        }
        if numbers.len() < def.number_count {
            let needs = format_count(def.number_count, "number");
            return Err(format!("{} needs {needs}, and has {}", def.name, numbers.len()));
        }
        if matches!(kind, OperationKind::ReadX | OperationKind::WriteX) {
            self.update_max_io_bytes(kind, &numbers[2])?;
        }
        let has_strings = !self.program.strings.is_empty();
        let mut ids = [NameId::NONE; 2];
        for (id, name) in ids.iter_mut().zip(names) {
            *id = self.names.intern(name, has_strings)?;
        }
        self.push_instruction(InstructionAction::Operation(kind), line, ids, numbers, expected)
    }

    /// Adds a line that controls playback, such as a loop.
    ///
    /// # Errors
    /// If loops nest, a loop has no operations, or the program has more than 2³¹ numbers that are not small literals.
    pub fn add_control(&mut self, line: u32, action: InstructionAction, numbers: &[i64]) -> Result<(), String> {
        match (action, self.open_loop) {
            (InstructionAction::Loop, Some((outer_line, _))) => {
                return Err(format!("a LOOP within that of line {outer_line}"));
            }
            (InstructionAction::Loop, None) => self.open_loop = Some((line, self.program.instructions.len())),
            (InstructionAction::EndLoop, None) => return Err("ENDLOOP without LOOP".into()),
            (InstructionAction::EndLoop, Some((loop_line, start))) => {
                // A client checks only at operations whether the run is over, so nothing could stop a long loop that
                // has no operations.
                if !self.program.instructions[start..].iter().any(Instruction::is_operation) {
                    return Err(format!("the LOOP of line {loop_line} has no operations"));
                }
                self.open_loop = None;
            }
            _ => {}
        }
        let numbers: Vec<Number> = numbers.iter().copied().map(Number::Literal).collect();
        self.push_instruction(action, line, [NameId::NONE; 2], &numbers, ExpectedResult::Anything)
    }

    /// Records that a line waits for this client, from 0.
    pub fn record_awaited_client(&mut self, client: u32) {
        self.program.highest_awaited_client = self.program.highest_awaited_client.max(Some(client));
    }

    /// Adds a pattern for all later writes.
    ///
    /// # Errors
    /// As for [`LoadProgramBuilder::add_control`].
    pub fn add_pattern(&mut self, line: u32, pattern: &[u8]) -> Result<(), String> {
        self.program.patterns.push(pattern.to_vec());
        self.add_control(line, InstructionAction::SetPattern, &[self.program.patterns.len() as i64 - 1])
    }

    /// Adds a line that draws a random string. Names refer to the string by `number`.
    ///
    /// # Errors
    /// As for [`LoadProgramBuilder::add_control`].
    pub fn add_string_draw(&mut self, line: u32, number: u8, string: RandomString) -> Result<(), String> {
        self.program.strings.push((number, string));
        self.add_control(line, InstructionAction::DrawString, &[self.program.strings.len() as i64 - 1])
    }

    /// Number of lines so far.
    pub fn line_count(&self) -> usize {
        self.program.instructions.len()
    }

    /// Returns the finished program.
    ///
    /// # Errors
    /// The line and the reason, if a LOOP has no end or the program has no operation.
    pub fn finish(self) -> Result<LoadProgram, (u32, String)> {
        let last_line = self.program.instructions.last().map_or(0, |last| last.line);
        if let Some((line, _)) = self.open_loop {
            return Err((line, "LOOP without ENDLOOP".into()));
        }
        let program = LoadProgram { names: self.names.finish(), ..self.program };
        match program.operation_count() {
            0 => Err((last_line, "it has no operations".into())),
            _ => Ok(program),
        }
    }

    fn push_instruction(
        &mut self,
        action: InstructionAction,
        line: u32,
        names: [NameId; 2],
        numbers: &[Number],
        expected: ExpectedResult,
    ) -> Result<(), String> {
        let mut packed = [PackedNumber(0); MAX_NUMBERS];
        for (packed, number) in packed.iter_mut().zip(numbers) {
            *packed = self.pack_number(number)?;
        }
        self.program.instructions.push(Instruction { action, expected, line, names, numbers: packed });
        Ok(())
    }

    fn pack_number(&mut self, number: &Number) -> Result<PackedNumber, String> {
        if let Number::Literal(value @ 0..0x8000_0000) = number {
            return Ok(PackedNumber(*value as u32));
        }
        let index = u32::try_from(self.program.number_table.len()).ok().filter(|index| *index < TABLE_BIT);
        let index = index.ok_or("there are too many large numbers in it")?;
        self.program.number_table.push(number.clone());
        Ok(PackedNumber(TABLE_BIT + index))
    }

    /// Updates the largest size of a read or write. Returns an error if the size is out of range. If a random size is
    /// out of range during the run, the client fails.
    fn update_max_io_bytes(&mut self, kind: OperationKind, number: &Number) -> Result<(), String> {
        let size = match number {
            Number::Literal(value) => *value,
            Number::Random(qualifiers) => match qualifiers.as_slice() {
                [.., Qualifier::Modulo(divisor)] => divisor - 1,
                _ => MAX_IO_BYTES,
            },
            _ => MAX_IO_BYTES,
        };
        if !(0..=MAX_IO_BYTES).contains(&size) {
            return Err(format!("{} of {size} bytes: a size must be from 0 to {MAX_IO_BYTES}", kind.def().name));
        }
        self.program.max_io_bytes = self.program.max_io_bytes.max(size as usize);
        Ok(())
    }
}

/// Formats a count of things, such as `no name`, `a name` and `2 names`.
fn format_count(count: usize, noun: &str) -> String {
    match count {
        0 => format!("no {noun}"),
        1 => format!("a {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::{loadfile, synthetic};

    fn close(builder: &mut LoadProgramBuilder, handle: i64) -> Result<(), String> {
        builder.add_operation(1, OperationKind::Close, &[], &[Number::Literal(handle)], ExpectedResult::Success)
    }

    #[test]
    fn a_line_takes_32_bytes() {
        assert_eq!(size_of::<Instruction>(), 32);
    }

    #[test]
    fn a_program_keeps_numbers_of_any_size() {
        let mut builder = LoadProgramBuilder::default();
        for handle in [0, 1, i64::from(u32::MAX), 0x7fff_ffff, 0x8000_0000, -5, i64::MIN] {
            close(&mut builder, handle).unwrap();
        }
        let program = builder.finish().unwrap();
        let numbers: Vec<i64> =
            program.instructions.iter().map(|instruction| program.number(instruction, 0).unwrap()).collect();
        assert_eq!(numbers, [0, 1, i64::from(u32::MAX), 0x7fff_ffff, 0x8000_0000, -5, i64::MIN]);
    }

    #[test]
    fn invalid_operations_and_loops_are_refused() {
        let mut builder = LoadProgramBuilder::default();
        let literal = |value| Number::Literal(value);
        let too_large_write = [literal(1), literal(0), literal(MAX_IO_BYTES + 1), literal(0)];
        assert!(
            builder.add_operation(1, OperationKind::WriteX, &[], &too_large_write, ExpectedResult::Success).is_err()
        );
        let too_few_numbers =
            builder.add_operation(1, OperationKind::WriteX, &[], &too_large_write[..3], ExpectedResult::Success);
        assert_eq!(too_few_numbers.unwrap_err(), "WriteX needs 4 numbers, and has 3");
        let too_few_names = builder.add_operation(1, OperationKind::Rename, &[b"/a"], &[], ExpectedResult::Success);
        assert_eq!(too_few_names.unwrap_err(), "Rename takes 2 names, and has 1");
        assert!(builder.add_control(1, InstructionAction::EndLoop, &[]).is_err());
        builder.add_control(7, InstructionAction::Loop, &[2]).unwrap();
        assert!(builder.add_control(8, InstructionAction::Loop, &[2]).unwrap_err().contains("line 7"));
        close(&mut builder, 1).unwrap();
        assert_eq!(builder.finish().unwrap_err(), (7, "LOOP without ENDLOOP".into()));
        assert!(LoadProgramBuilder::default().finish().unwrap_err().1.contains("no operation"));
        let mut builder = LoadProgramBuilder::default();
        builder.add_control(3, InstructionAction::Loop, &[2]).unwrap();
        assert!(builder.add_control(4, InstructionAction::EndLoop, &[]).unwrap_err().contains("no operation"));
    }

    #[test]
    fn a_program_is_the_same_after_writing_and_reading_it() {
        let text = "RANDOMSTRING 1 \"f[abc]\"\nWRITEPATTERN abc\nLOOP 2\n\
                    NTCreateX \"\\client1\\$1\" 0x40 0x2 -7 NT_STATUS_OK\n\
                    REPEAT 3\nWriteX -7 *%4096/512+1 +child 5000000000 *\n\
                    Close -7 NT_STATUS_OK\nENDLOOP\nWAITSP 3 1\n";
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load");
        for program in [loadfile::parse("test", text.as_bytes()).unwrap(), synthetic::generate_program(1)] {
            program.write_to(&path).unwrap();
            assert_eq!(format!("{:?}", LoadProgram::read_from(&path).unwrap()), format!("{program:?}"));
            assert!(program.encode().len() < program.memory_bytes() + 200);
        }
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let bytes = synthetic::generate_program(1).encode();
        for offset in [0, bytes.len() / 2, bytes.len() - 1] {
            let mut damaged = bytes.clone();
            damaged[offset] ^= 0x40;
            assert!(LoadProgram::decode(&damaged).unwrap_err().contains("checksum"));
        }
        assert!(LoadProgram::decode(&[1, 2, 3]).unwrap_err().contains("too short"));
    }

    #[test]
    fn a_truncated_or_missing_file_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load");
        let bytes = synthetic::generate_program(1).encode();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(LoadProgram::read_from(&path).unwrap_err().to_string().contains("cannot decode this stored load"));
        assert!(LoadProgram::read_from(&dir.path().join("none")).unwrap_err().to_string().contains("No such file"));
    }
}
