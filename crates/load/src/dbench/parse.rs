//! The grammar of a loadfile, of dbench 4.0 and 5.0: `[time] OPERATION ["name"] ["name"] number… STATUS`.

use super::kind::{Kind, NUMBERS};
use super::number::{Number, integer};
use super::program::{Action, Builder, Expected};
use super::random_string::RandomString;

/// Whether a line was understood, or why not.
type Parsed = Result<(), String>;

/// The longest line, in bytes, as in the real dbench.
pub const LONGEST_LINE: usize = 1022;
/// Words of a line that the real dbench looks at.
const MOST_WORDS: usize = 19;

/// Reads line after line into a program.
#[derive(Debug, Default)]
pub struct Parser {
    /// The parsed line.
    pub builder: Builder,
    /// A REPEAT whose operation comes next: its line and its count.
    repeat: Option<(u32, i64)>,
    /// Handles that are open, and the lines that opened them.
    open: Vec<(i64, u32)>,
    // Memory that is used again for every line.
    names: [Vec<u8>; 2],
    numbers: Vec<Number>,
}

/// The error for a line that is not text.
pub fn not_text(line: &[u8]) -> Option<String> {
    let byte = line.iter().find(|byte| (**byte < b' ' && **byte != b'\t') || **byte == 0x7f)?;
    Some(format!("it has the byte {byte:#04x}, and a loadfile is text"))
}

impl Parser {
    /// Reads a line without its end.
    ///
    /// # Errors
    /// Describes the error for the user.
    pub fn line(&mut self, number: u32, line: &[u8]) -> Parsed {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        not_text(line).map_or(Ok(()), Err)?;
        let mut words = Words(line);
        let Some(first) = words.next().transpose()? else { return Ok(()) };
        if first.starts_with(b"#") {
            return Ok(());
        }
        let from_time = first.first().is_some_and(u8::is_ascii_digit);
        if !from_time && self.directive(number, first, line)? {
            return Ok(());
        }
        let (time, operation) = match from_time {
            false => (None, first),
            true => (Some(time(first)?), words.next().transpose()?.ok_or("nothing behind the time")?),
        };
        self.operation(number, time, operation, words)
    }

    /// Ends the program.
    ///
    /// # Errors
    /// The missing part, with its line.
    pub fn finish(self) -> Result<super::Program, (u32, String)> {
        if let Some((line, _)) = self.repeat {
            return Err((line, "nothing follows this REPEAT".into()));
        }
        // A file that was cut short between two lines: every pass would leave them open.
        if let Some((handle, line)) = self.open.first() {
            let why = format!("handle {handle} is opened here and never closed: is the file cut short?");
            return Err((*line, why));
        }
        self.builder.finish()
    }

    /// Parses a control line such as LOOP or SLEEP. Returns false for any other line.
    fn directive(&mut self, number: u32, first: &[u8], line: &[u8]) -> Result<bool, String> {
        const DIRECTIVES: [&[u8]; 8] =
            [b"LOOP", b"ENDLOOP", b"REPEAT", b"SLEEP", b"SETSP", b"WAITSP", b"WRITEPATTERN", b"RANDOMSTRING"];
        if !DIRECTIVES.contains(&first) {
            return Ok(false);
        }
        self.no_repeat()?;
        let rest =
            line[line.windows(first.len()).position(|at| at == first).unwrap_or(0)..].split_at(first.len()).1;
        match first {
            b"LOOP" => self.builder.control(number, Action::Loop, &[one(rest, "LOOP", 1)?])?,
            b"ENDLOOP" => self.builder.control(number, Action::EndLoop, &[])?,
            b"REPEAT" => self.repeat = Some((number, one(rest, "REPEAT", 1)?)),
            b"SLEEP" => self.builder.control(number, Action::Sleep, &[one(rest, "SLEEP", 0)?])?,
            b"SETSP" => self.builder.control(number, Action::SetPoint, &[one(rest, "SETSP", i64::MIN)?])?,
            b"WAITSP" => {
                let numbers = integers(rest)?;
                let [client, _] = numbers[..] else { return Err("WAITSP takes a client and a point".into()) };
                let client = u32::try_from(client)
                    .map_err(|_| format!("client {client}: clients are numbered from 0"))?;
                self.builder.wait_for(client);
                self.builder.control(number, Action::WaitPoint, &numbers)?;
            }
            b"WRITEPATTERN" => self.pattern(number, rest)?,
            _ => self.random_string(number, rest)?,
        }
        Ok(true)
    }

    /// The pattern is the rest of the line with its end, as in the real dbench.
    fn pattern(&mut self, number: u32, rest: &[u8]) -> Parsed {
        let text = rest.get(1..).filter(|text| !text.is_empty()).ok_or("WRITEPATTERN takes a text")?;
        self.builder.pattern(number, &[text, b"\n"].concat())
    }

    fn random_string(&mut self, number: u32, rest: &[u8]) -> Parsed {
        let rest = rest.trim_ascii();
        let (place, text) = rest.split_at(rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len()));
        let [place @ b'0'..=b'9'] = place else {
            return Err("RANDOMSTRING takes a place, 0 to 9, and a string".into());
        };
        let text = text.trim_ascii();
        let text = text.strip_prefix(b"\"").unwrap_or(text);
        let text = text.strip_suffix(b"\"").unwrap_or(text);
        self.builder.draw(number, place - b'0', RandomString::parse(text)?)
    }

    fn no_repeat(&self) -> Parsed {
        match self.repeat {
            Some((line, _)) => Err(format!("no operation, and the REPEAT of line {line} needs one")),
            None => Ok(()),
        }
    }

    fn operation(&mut self, line: u32, time: Option<i64>, operation: &[u8], words: Words) -> Parsed {
        let (mut all, mut count) = ([&b""[..]; MOST_WORDS], 0);
        for (place, word) in all.iter_mut().zip(words) {
            (*place, count) = (word?, count + 1);
        }
        let Some((status, words)) = all[..count].split_last() else {
            return Err(format!("`{}` stands alone: an operation ends with a status", shown(operation)));
        };
        // dbench 4.0 has this among its operations, and does not count it.
        if operation.eq_ignore_ascii_case(b"Sleep") {
            self.no_repeat()?;
            let microseconds = words.first().and_then(|word| integer(word)).filter(|one| *one >= 0);
            let microseconds = microseconds.ok_or("Sleep takes microseconds")?;
            return self.builder.control(line, Action::Sleep, &[microseconds]);
        }
        let Some(kind) = Kind::find(operation) else { return Err(unknown(operation)) };
        let expected = expected(status)?;
        let (names, numbers) = words.split_at(kind.def().names.min(words.len()));
        self.numbers.clear();
        for word in numbers {
            self.numbers.push(Number::parse(word)?);
        }
        self.numbers.truncate(NUMBERS);
        if let Some(ns) = time {
            self.builder.control(line, Action::At, &[ns])?;
        }
        if let Some((at, count)) = self.repeat.take() {
            self.builder.control(at, Action::Repeat, &[count])?;
        }
        let mut slashed = [&b""[..]; 2];
        for ((slashed, name), room) in slashed.iter_mut().zip(names).zip(&mut self.names) {
            *slashed = slashes(name, room);
        }
        self.builder.operation(line, kind, &slashed[..names.len()], &self.numbers, expected)?;
        self.follow(line, kind, expected);
        Ok(())
    }

    /// Notes which handles are open, where they are literal.
    fn follow(&mut self, line: u32, kind: Kind, expected: Expected) {
        match (kind, self.numbers.as_slice()) {
            (Kind::NtCreateX, [_, _, Number::Literal(handle), ..]) if expected == Expected::Success => {
                self.open.push((*handle, line));
            }
            (Kind::Close, [Number::Literal(handle), ..]) => {
                if let Some(at) = self.open.iter().rposition(|(open, _)| open == handle) {
                    self.open.swap_remove(at);
                }
            }
            _ => {}
        }
    }
}

fn shown(word: &[u8]) -> String {
    String::from_utf8_lossy(word).chars().take(40).collect()
}

fn unknown(operation: &[u8]) -> String {
    if operation.starts_with(b"SMB") {
        return "this is a loadfile of dbench 1; fsarena plays those of 4.0 and 5.0".into();
    }
    let shown = shown(operation);
    format!("unknown operation `{shown}`: fsarena plays the file operations of 4.0 and 5.0")
}

/// Nanoseconds of `12.5`.
fn time(word: &[u8]) -> Result<i64, String> {
    let seconds: Option<f64> = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    match seconds.filter(|seconds| (0.0..1e9).contains(seconds)) {
        Some(seconds) => Ok((seconds * 1e9).round() as i64),
        None => Err(format!("`{}`: expected seconds, such as 12.5", shown(word))),
    }
}

/// SUCCESS, ERROR and `*` are of dbench 5.0; there other backends than that of files heed them.
fn expected(status: &[u8]) -> Result<Expected, String> {
    match status {
        b"NT_STATUS_OK" | b"SUCCESS" => Ok(Expected::Success),
        b"*" => Ok(Expected::Anything),
        [b'0', b'x', zeros @ ..] if zeros.iter().all(|byte| *byte == b'0') => Ok(Expected::Success),
        [b'0', b'x', ..] => Ok(Expected::Failure),
        _ if status.starts_with(b"NT_STATUS_") || status.starts_with(b"ERROR") => Ok(Expected::Failure),
        _ => {
            Err(format!("unknown status `{}`: expected NT_STATUS_…, 0x…, SUCCESS, ERROR or *", shown(status)))
        }
    }
}

fn slashes<'b>(name: &[u8], into: &'b mut Vec<u8>) -> &'b [u8] {
    into.clear();
    into.extend(name.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }));
    into
}

fn integers(rest: &[u8]) -> Result<Vec<i64>, String> {
    let words = rest.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    words.map(|word| integer(word).ok_or_else(|| format!("`{}`: expected an integer", shown(word)))).collect()
}

fn one(rest: &[u8], what: &str, least: i64) -> Result<i64, String> {
    match integers(rest)?[..] {
        [value] if value >= least => Ok(value),
        _ if least > i64::MIN => Err(format!("{what} takes a number from {least}")),
        _ => Err(format!("{what} takes a number")),
    }
}

/// Words between blanks; a quoted one may have blanks in it.
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
            _ => {
                rest.split_at(rest.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(rest.len()))
            }
        };
        if !after.first().is_none_or(|byte| matches!(byte, b' ' | b'\t')) || (word.contains(&b'"')) {
            return self.fail("a quote in the middle of a word");
        }
        self.0 = after;
        Some(Ok(word))
    }
}

impl Words<'_> {
    fn fail<T>(&mut self, why: &str) -> Option<Result<T, String>> {
        self.0 = &[];
        Some(Err(why.into()))
    }
}
