//! Finds, decompresses and parses the loadfiles of dbench line by line. A file that is not a loadfile is refused
//! because of its first bytes, its size or its first long line, so memory use is bounded for any input.

use crate::dbench::LoadProgram;
use crate::dbench::kind::{MAX_NUMBERS, OperationKind};
use crate::dbench::number::{Number, RandomString, parse_integer};
use crate::dbench::program::{ExpectedResult, InstructionAction, LoadProgramBuilder};
use crate::error::{Result, TaskError};
use flate2::bufread::MultiGzDecoder;
use fsarena_core::setting_text::setting;
use fsarena_sys::input;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Paths of the loadfile that dbench installs: first those of Debian's package, then those of dbench 5.0 from source.
const INSTALLED_LOADFILES: [&str; 4] = [
    "/usr/share/dbench/client.txt",
    "/usr/share/dbench/client.load",
    "/usr/local/share/doc/dbench/loadfiles/client.load",
    "/usr/share/doc/dbench/loadfiles/client.load",
];
/// Largest size of the text in bytes, twenty times the standard loadfile.
const MAX_TEXT_BYTES: u64 = 512 << 20;
/// Largest number of lines of a program. They take 320 MB of memory.
const MAX_LINES: usize = 10_000_000;
/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;
/// The first bytes of a file that gzip compressed.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Returns the loadfile of the user's settings, or the installed one if `path_setting` is empty.
///
/// # Errors
/// If the setting is empty and no loadfile is installed.
pub fn find(path_setting: &str) -> Result<PathBuf> {
    if !path_setting.is_empty() {
        return Ok(path_setting.into());
    }
    let installed = INSTALLED_LOADFILES.iter().map(PathBuf::from).find(|path| path.is_file());
    installed.ok_or_else(|| {
        TaskError::Missing(format!(
            "no loadfile: fsarena does not bring dbench's own, which is under the GPL. On Debian: apt install dbench (looked \
             for {}); or name one with {}, or use the workload dbench-like",
            INSTALLED_LOADFILES.join(", "),
            setting("set", "loadfile=FILE")
        ))
    })
}

/// Reads a loadfile, which may be compressed with gzip.
///
/// # Errors
/// If the file cannot be read, is too large, or is not a loadfile; the last error has the number of the line.
pub fn load(path: &Path) -> Result<LoadProgram> {
    let to_error = |source| read_error(path, source);
    let file = input::open(path).map_err(to_error)?;
    let bytes = file.metadata().map_err(to_error)?.len();
    if bytes > MAX_TEXT_BYTES {
        return Err(file_error(path, describe_excess(bytes)));
    }
    let mut reader = BufReader::with_capacity(CHUNK_BYTES, file);
    if reader.fill_buf().map_err(to_error)?.starts_with(&GZIP_MAGIC) {
        parse_lines(path, BufReader::with_capacity(CHUNK_BYTES, MultiGzDecoder::new(reader)))
    } else {
        parse_lines(path, reader)
    }
}

/// Parses the text of a loadfile. `origin` names it in errors.
///
/// # Errors
/// If the text is not a loadfile, with the number of the line.
pub fn parse(origin: &str, text: &[u8]) -> Result<LoadProgram> {
    parse_lines(Path::new(origin), text)
}

/// The error text for a file or its unpacked text of more than [`MAX_TEXT_BYTES`].
fn describe_excess(bytes: u64) -> String {
    let [bytes, max] = [bytes, MAX_TEXT_BYTES].map(bytesize::ByteSize);
    format!("{bytes} are too many to read (at most {max}): the standard loadfile has 26 MB")
}

fn parse_lines(path: &Path, mut text: impl BufRead) -> Result<LoadProgram> {
    let error_at = |line, reason| line_error(path, line, reason);
    let mut parser = LoadfileParser::default();
    let (mut line, mut number, mut bytes) = (Vec::with_capacity(MAX_LINE_BYTES + 2), 0, 0);
    loop {
        line.clear();
        // One byte more than the longest line and its newline, to detect longer lines.
        let max_read_bytes = MAX_LINE_BYTES as u64 + 2;
        let read_bytes = text.by_ref().take(max_read_bytes).read_until(b'\n', &mut line);
        number += 1;
        bytes += read_bytes.map_err(|source| decompression_error(path, number, source))? as u64;
        let Some(content) = line.strip_suffix(b"\n") else {
            match line.len() {
                0 => break,
                length if length as u64 == max_read_bytes => {
                    let too_long = "it is longer than 1,022 bytes, the limit of a loadfile";
                    return Err(error_at(number, non_text_error(&line).unwrap_or_else(|| too_long.into())));
                }
                _ => return Err(error_at(number, "the file ends within this line: is it cut short?".into())),
            }
        };
        if bytes > MAX_TEXT_BYTES {
            return Err(error_at(number, describe_excess(bytes)));
        }
        parser.parse_line(number, content).map_err(|reason| error_at(number, reason))?;
        if parser.builder.line_count() > MAX_LINES {
            return Err(error_at(number, format!("more than {MAX_LINES} lines are too many to play")));
        }
    }
    parser.finish().map_err(|(line, reason)| error_at(line, reason))
}

fn file_error(path: &Path, reason: impl std::fmt::Display) -> TaskError {
    TaskError::Plan(format!("loadfile {path:?}: {reason}"))
}

fn line_error(path: &Path, line: u32, reason: String) -> TaskError {
    TaskError::Plan(format!("loadfile {path:?}, line {line}: {reason}"))
}

fn read_error(path: &Path, source: std::io::Error) -> TaskError {
    match source.kind() {
        ErrorKind::NotFound => TaskError::Missing(format!("loadfile {path:?}: {source}")),
        _ => file_error(path, source),
    }
}

/// The error of reading a line, which can be an error of the decompression.
fn decompression_error(path: &Path, line: u32, source: std::io::Error) -> TaskError {
    let reason = match source.kind() {
        ErrorKind::UnexpectedEof => "the packed file ends here: it is cut short".into(),
        ErrorKind::InvalidInput | ErrorKind::InvalidData => format!("the packed file is damaged: {source}"),
        _ => return read_error(path, source),
    };
    line_error(path, line, reason)
}

/// The result of parsing a line. The error describes the invalid part of the line.
type ParseResult = Result<(), String>;

/// The longest line, in bytes, as in the real dbench.
const MAX_LINE_BYTES: usize = 1022;
/// The largest number of words of a line after the operation, as in the real dbench.
const MAX_WORDS: usize = 19;

/// Parses the lines of a loadfile, of dbench 4.0 and 5.0: `[time] OPERATION ["name"] ["name"] number… STATUS`.
#[derive(Debug, Default)]
struct LoadfileParser {
    /// The program so far.
    builder: LoadProgramBuilder,
    /// The line and the count of a REPEAT whose operation has not followed yet.
    pending_repeat: Option<(u32, i64)>,
    /// Open handles, and the lines that opened them.
    open_handles: Vec<(i64, u32)>,
    // Buffers that all lines reuse.
    names: [Vec<u8>; 2],
    numbers: Vec<Number>,
}

/// Returns the error for a line that is not text, or `None` for text.
fn non_text_error(line: &[u8]) -> Option<String> {
    let byte = line.iter().find(|byte| (**byte < b' ' && **byte != b'\t') || **byte == 0x7f)?;
    Some(format!("it has the byte {byte:#04x}, and a loadfile is text"))
}

impl LoadfileParser {
    /// Parses one line, without the newline at its end.
    fn parse_line(&mut self, number: u32, line: &[u8]) -> ParseResult {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(reason) = non_text_error(line) {
            return Err(reason);
        }
        let mut words = Words(line);
        let Some(first_word) = words.next().transpose()? else { return Ok(()) };
        if first_word.starts_with(b"#") {
            return Ok(());
        }
        if first_word.first().is_some_and(u8::is_ascii_digit) {
            let start_ns = parse_time(first_word)?;
            let operation = words.next().transpose()?.ok_or("no operation after the time")?;
            return self.parse_operation(number, Some(start_ns), operation, words);
        }
        if self.parse_directive(number, first_word, line)? {
            return Ok(());
        }
        self.parse_operation(number, None, first_word, words)
    }

    /// Returns the program after the last line.
    ///
    /// # Errors
    /// If the end of a REPEAT, of an open file or of a LOOP is missing, with the number of its line; or if the program has
    /// no operations.
    fn finish(self) -> Result<LoadProgram, (u32, String)> {
        if let Some((line, _)) = self.pending_repeat {
            return Err((line, "nothing follows this REPEAT".into()));
        }
        // The file may be cut short between two lines. Every pass would leave the file open.
        if let Some((handle, line)) = self.open_handles.first() {
            let reason = format!("handle {handle} is opened here and never closed: is the file cut short?");
            return Err((*line, reason));
        }
        self.builder.finish()
    }

    /// Parses a control line such as LOOP or SLEEP. Returns false for any other line.
    fn parse_directive(&mut self, number: u32, first_word: &[u8], line: &[u8]) -> Result<bool, String> {
        const DIRECTIVES: [&[u8]; 8] =
            [b"LOOP", b"ENDLOOP", b"REPEAT", b"SLEEP", b"SETSP", b"WAITSP", b"WRITEPATTERN", b"RANDOMSTRING"];
        if !DIRECTIVES.contains(&first_word) {
            return Ok(false);
        }
        self.check_no_pending_repeat()?;
        let start = line.windows(first_word.len()).position(|window| window == first_word).unwrap_or(0);
        let rest = &line[start + first_word.len()..];
        let (action, numbers) = match first_word {
            b"LOOP" => (InstructionAction::Loop, vec![parse_single_integer(rest, "LOOP", 1)?]),
            b"ENDLOOP" => (InstructionAction::EndLoop, vec![]),
            b"SLEEP" => (InstructionAction::Sleep, vec![parse_single_integer(rest, "SLEEP", 0)?]),
            b"SETSP" => (InstructionAction::SetSyncPoint, vec![parse_single_integer(rest, "SETSP", i64::MIN)?]),
            b"WAITSP" => {
                let numbers = parse_integers(rest)?;
                let [client, _] = numbers[..] else { return Err("WAITSP takes a client and a point".into()) };
                let client =
                    u32::try_from(client).map_err(|_| format!("client {client}: clients are numbered from 0"))?;
                self.builder.record_awaited_client(client);
                (InstructionAction::WaitForSyncPoint, numbers)
            }
            b"REPEAT" => {
                self.pending_repeat = Some((number, parse_single_integer(rest, "REPEAT", 1)?));
                return Ok(true);
            }
            b"WRITEPATTERN" => return self.parse_pattern(number, rest).map(|()| true),
            _ => return self.parse_random_string(number, rest).map(|()| true),
        };
        self.builder.add_control(number, action, &numbers)?;
        Ok(true)
    }

    /// Adds the pattern of a WRITEPATTERN line: the rest of the line and a newline, as in the real dbench.
    fn parse_pattern(&mut self, number: u32, rest: &[u8]) -> ParseResult {
        let text = rest.get(1..).filter(|text| !text.is_empty()).ok_or("WRITEPATTERN takes a text")?;
        self.builder.add_pattern(number, &[text, b"\n"].concat())
    }

    fn parse_random_string(&mut self, number: u32, rest: &[u8]) -> ParseResult {
        let rest = rest.trim_ascii();
        let (slot, text) = rest.split_at(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()));
        let [slot @ b'0'..=b'9'] = slot else {
            return Err("RANDOMSTRING takes a place, 0 to 9, and a string".into());
        };
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"\"").unwrap_or(text);
        let text = text.strip_suffix(b"\"").unwrap_or(text);
        self.builder.add_string_draw(number, slot - b'0', RandomString::parse(text)?)
    }

    /// Checks that the line before is not a REPEAT, which an operation must follow.
    fn check_no_pending_repeat(&self) -> ParseResult {
        match self.pending_repeat {
            Some((line, _)) => Err(format!("no operation, and the REPEAT of line {line} needs one")),
            None => Ok(()),
        }
    }

    /// Parses an operation with the words after its name. `start_ns` is the time at the start of its line, if there is
    /// one.
    fn parse_operation(&mut self, line: u32, start_ns: Option<i64>, operation: &[u8], words: Words) -> ParseResult {
        let (mut word_buffer, mut word_count) = ([&b""[..]; MAX_WORDS], 0);
        for (slot, word) in word_buffer.iter_mut().zip(words) {
            (*slot, word_count) = (word?, word_count + 1);
        }
        let Some((status, words)) = word_buffer[..word_count].split_last() else {
            return Err(format!("`{}` stands alone: an operation ends with a status", abbreviate(operation)));
        };
        // In dbench 4.0, Sleep is an operation that is not counted.
        if operation.eq_ignore_ascii_case(b"Sleep") {
            self.check_no_pending_repeat()?;
            let microseconds = words.first().and_then(|word| parse_integer(word)).filter(|number| *number >= 0);
            let microseconds = microseconds.ok_or("Sleep takes microseconds")?;
            return self.builder.add_control(line, InstructionAction::Sleep, &[microseconds]);
        }
        let Some(kind) = OperationKind::from_name(operation) else {
            return Err(unknown_operation_error(operation));
        };
        let expected = parse_status(status)?;
        let (names, numbers) = words.split_at(kind.def().name_count.min(words.len()));
        self.numbers.clear();
        for word in numbers {
            self.numbers.push(Number::parse(word)?);
        }
        self.numbers.truncate(MAX_NUMBERS);
        if let Some(ns) = start_ns {
            self.builder.add_control(line, InstructionAction::WaitUntil, &[ns])?;
        }
        if let Some((repeat_line, count)) = self.pending_repeat.take() {
            self.builder.add_control(repeat_line, InstructionAction::Repeat, &[count])?;
        }
        let mut slash_names = [&b""[..]; 2];
        for ((slash_name, name), buffer) in slash_names.iter_mut().zip(names).zip(&mut self.names) {
            *slash_name = replace_backslashes(name, buffer);
        }
        self.builder.add_operation(line, kind, &slash_names[..names.len()], &self.numbers, expected)?;
        self.track_handles(line, kind, expected);
        Ok(())
    }

    /// Tracks which handles are open, if their numbers are literal.
    fn track_handles(&mut self, line: u32, kind: OperationKind, expected: ExpectedResult) {
        match (kind, self.numbers.as_slice()) {
            (OperationKind::NtCreateX, [_, _, Number::Literal(handle), ..]) if expected == ExpectedResult::Success => {
                self.open_handles.push((*handle, line));
            }
            (OperationKind::Close, [Number::Literal(handle), ..]) => {
                if let Some(index) = self.open_handles.iter().rposition(|(open, _)| open == handle) {
                    self.open_handles.swap_remove(index);
                }
            }
            _ => {}
        }
    }
}

/// The first 40 characters of a word, for an error message.
fn abbreviate(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(40).collect()
}

fn unknown_operation_error(operation: &[u8]) -> String {
    if operation.starts_with(b"SMB") {
        return "this is a loadfile of dbench 1; fsarena plays those of 4.0 and 5.0".into();
    }
    let shown = abbreviate(operation);
    format!("unknown operation `{shown}`: fsarena plays the file operations of 4.0 and 5.0")
}

/// Parses seconds such as `12.5` to nanoseconds.
fn parse_time(word: &[u8]) -> Result<i64, String> {
    let seconds: Option<f64> = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    match seconds.filter(|seconds| (0.0..1e9).contains(seconds)) {
        Some(seconds) => Ok((seconds * 1e9).round() as i64),
        None => Err(format!("`{}`: expected seconds, such as 12.5", abbreviate(word))),
    }
}

/// Parses a status to the expected result. dbench 5.0 has SUCCESS, ERROR and `*` for backends other than files.
fn parse_status(status: &[u8]) -> Result<ExpectedResult, String> {
    match status {
        b"NT_STATUS_OK" | b"SUCCESS" => Ok(ExpectedResult::Success),
        b"*" => Ok(ExpectedResult::Anything),
        [b'0', b'x', zeros @ ..] if zeros.iter().all(|byte| *byte == b'0') => Ok(ExpectedResult::Success),
        [b'0', b'x', ..] => Ok(ExpectedResult::Failure),
        _ if status.starts_with(b"NT_STATUS_") || status.starts_with(b"ERROR") => Ok(ExpectedResult::Failure),
        _ => Err(format!("unknown status `{}`: expected NT_STATUS_…, 0x…, SUCCESS, ERROR or *", abbreviate(status))),
    }
}

/// Writes a name with `/` instead of `\` into a buffer.
fn replace_backslashes<'b>(name: &[u8], buffer: &'b mut Vec<u8>) -> &'b [u8] {
    buffer.clear();
    buffer.extend(name.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }));
    buffer
}

/// Parses integers between blanks.
fn parse_integers(rest: &[u8]) -> Result<Vec<i64>, String> {
    let words = rest.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    words
        .map(|word| parse_integer(word).ok_or_else(|| format!("`{}`: expected an integer", abbreviate(word))))
        .collect()
}

/// Parses the only number of a directive, which must be at least `min`.
fn parse_single_integer(rest: &[u8], directive: &str, min: i64) -> Result<i64, String> {
    match parse_integers(rest)?[..] {
        [value] if value >= min => Ok(value),
        _ if min > i64::MIN => Err(format!("{directive} takes a number from {min}")),
        _ => Err(format!("{directive} takes a number")),
    }
}

/// Iterates over the words between blanks. A quoted word may contain blanks.
struct Words<'l>(&'l [u8]);

impl<'l> Iterator for Words<'l> {
    type Item = Result<&'l [u8], String>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.trim_ascii_start();
        let (word, after) = match rest {
            [] => return None,
            [b'"', quoted @ ..] => match quoted.iter().position(|byte| *byte == b'"') {
                Some(end) => (&quoted[..end], &quoted[end + 1..]),
                None => return self.fail("a name without its closing quote"),
            },
            _ => rest.split_at(rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len())),
        };
        if !after.first().is_none_or(|byte| matches!(byte, b' ' | b'\t')) || word.contains(&b'"') {
            return self.fail("a quote in the middle of a word");
        }
        self.0 = after;
        Some(Ok(word))
    }
}

impl Words<'_> {
    /// Ends the words with an error.
    fn fail<T>(&mut self, reason: &str) -> Option<Result<T, String>> {
        self.0 = &[];
        Some(Err(reason.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::{fs::File, io::Write};

    const VALID_LOADFILE: &str = "\
# a comment, and an empty line

Mkdir \"\\clients\" NT_STATUS_OK
NTCreateX \"\\clients\\client1\\a b\" 0x40 0x2 7 NT_STATUS_OK\r
0.25 WriteX 7 0 4096 4096 NT_STATUS_OK
ReadX 7 *%4096 16 16 *
close 7 0x00000000
NTCreateX \"\\clients\\client1\\none\" 0x40 0x1 8 NT_STATUS_OBJECT_NAME_NOT_FOUND
Rename \"\\clients\\client1\\a b\" \"\\clients\\client1\\c\" SUCCESS
Unlink \"\\clients\\client1\\c\" 0x6 NT_STATUS_OK
";

    fn parse_error(text: &str) -> String {
        parse("f", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn lines_of_dbench_4_and_5_are_parsed() {
        let program = parse("f", VALID_LOADFILE.as_bytes()).unwrap();
        assert_eq!((program.operation_count(), program.instructions.len()), (8, 9));
        assert_eq!((program.names.piece_ends.len(), program.max_io_bytes), (4, 4096));
    }

    #[test]
    fn gzip_files_are_read_and_truncated_or_damaged_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("load.gz");
        let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
        packer.write_all(VALID_LOADFILE.as_bytes()).unwrap();
        let packed = packer.finish().unwrap();
        std::fs::write(&path, &packed).unwrap();
        assert_eq!(load(&path).unwrap().operation_count(), 8);
        std::fs::write(&path, &packed[..packed.len() - 20]).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("cut short") && error.contains("line "), "{error}");
        std::fs::write(&path, [&packed[..60], b"garbage garbage"].concat()).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("line "));
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        for (text, expected) in [
            ("Flush 1 0x0\nFrobnicate 1 0x0\n", "line 2: unknown operation `Frobnicate`"),
            ("Flush 1\n", "line 1: unknown status `1`"),
            ("Flush\n", "line 1: `Flush` stands alone"),
            ("Flush x 0x0\n", "line 1: `x`: expected an integer"),
            ("Unlink \"\\a 0x6 NT_STATUS_OK\n", "line 1: a name without its closing quote"),
            ("Unlink \"\\..\\a\" 0x6 NT_STATUS_OK\n", "leads out of the directory"),
            ("Unlink a 0x6 NT_STATUS_OK\n", "does not begin with"),
            ("LOOP x\n", "`x`: expected an integer"),
            ("LOOP 2\nFlush 1 0x0\n", "line 1: LOOP without ENDLOOP"),
            ("REPEAT 2\nSLEEP 1\n", "line 2: no operation, and the REPEAT of line 1"),
            ("WAITSP 1\n", "WAITSP takes"),
            ("RANDOMSTRING 11 \"a\"\n", "a place, 0 to 9"),
            ("SMBwrite 1 0x0\n", "dbench 1"),
            ("1.5x Flush 1 0x0\n", "`1.5x`: expected seconds"),
            ("", "it has no operations"),
            ("Flush 1 0x0\nFlush 1 0", "line 2: the file ends within this line"),
            ("\u{7f}ELF\u{1}\n", "line 1: it has the byte 0x7f"),
            (
                "NTCreateX \"\\a\" 0x40 0x2 7 NT_STATUS_OK\nFlush 7 0x0\n",
                "line 1: handle 7 is opened here and never closed",
            ),
        ] {
            let message = parse_error(text);
            assert!(message.contains(expected), "{text:?}: {message}");
        }
        assert!(parse_error(&"x".repeat(5000)).contains("line 1: it is longer than 1,022 bytes"));
        assert!(parse_error(&format!("\u{1}{}", "x".repeat(5000))).contains("0x01"));
    }

    #[test]
    fn directories_devices_and_huge_or_sparse_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).unwrap_err().to_string().contains("this is a directory"));
        assert!(load(Path::new("/dev/zero")).unwrap_err().to_string().contains("this is a character device"));
        let path = dir.path().join("huge");
        File::create(&path).unwrap().set_len(10 << 30).unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("10.0 GiB are too many"), "{error}");
        let path = dir.path().join("holes");
        File::create(&path).unwrap().set_len(1 << 20).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("line 1: it has the byte 0x00"));
    }

    proptest! {
        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = parse("f", &bytes);
        }

        #[test]
        fn words_in_any_order_never_panic(
            words in proptest::collection::vec("LOOP|ENDLOOP|REPEAT|SLEEP|WAITSP|RANDOMSTRING|NTCreateX|ReadX|Close|\"\\\\a\\$1\"|\\*%4|\\+child|7|-1|0x2|NT_STATUS_OK|\n", 0..60)
        ) {
            if let Ok(program) = parse("f", words.join(" ").as_bytes()) {
                let mut cursor = super::super::cursor::Cursor::new(&program, 0, 1, 1);
                (0..1000).for_each(|_| { let _ = cursor.next_step(); });
            }
        }

        #[test]
        fn a_damaged_file_never_panics(offset in 0usize..400, inserted in "[ -~\\n\"]{0,4}") {
            let mut text = VALID_LOADFILE.to_string();
            text.insert_str(offset.min(text.len()), &inserted);
            if let Err(error) = parse("f", text.as_bytes()) {
                prop_assert!(error.to_string().contains("line "), "{}", error);
            }
        }
    }
}
