//! Output of programs: line by line, or its end for people.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, sync_channel};

/// The longest line that is received whole, in bytes. No profile of a task is longer.
const LONGEST_LINE: u64 = 64 << 20;
/// Lines in the channel. A process that writes more of them waits.
const WAITING: usize = 4;

/// The whole lines of a stream, until it ends. A thread reads it: a blocking read cannot be interrupted, and a channel
/// can be left. A line that is too long comes in pieces, so that no process fills the memory of this one.
pub fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = sync_channel(WAITING);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(line)) = line(&mut stream, LONGEST_LINE) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

/// Reads the next line; None at the end, also if the last line has no newline.
fn line(stream: &mut impl BufRead, longest: u64) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let read = stream.take(longest).read_until(b'\n', &mut line)? as u64;
    if line.pop_if(|last| *last == b'\n').is_none() && read < longest {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// The last bytes of a file, as text.
///
/// # Errors
/// Where it cannot be read.
pub fn tail(file: &mut File, most_bytes: u64) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most_bytes)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of an output for messages; a sentence that says so if it is empty.
pub fn shown(text: &str) -> &str {
    match text.trim() {
        "" => "it said nothing",
        said => said,
    }
}

/// The text of a system error without its number: `Operation not permitted`.
pub fn in_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_whole_and_an_endless_one_comes_in_pieces() {
        let received: Vec<String> = lines(&b"one\n\n\xff\ntorn"[..]).iter().collect();
        assert_eq!(received, ["one", "", "\u{fffd}"]);
        let mut endless = BufReader::new(std::io::repeat(b'x'));
        assert_eq!(line(&mut endless, 5).unwrap().as_deref(), Some("xxxxx"));
        let mut exact = BufReader::new(&b"abcd\nef"[..]);
        assert_eq!([(); 2].map(|()| line(&mut exact, 5).unwrap()), [Some("abcd".into()), None]);
    }

    #[test]
    fn the_end_is_read_and_nothing_is_named() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(tail(&mut file, 4).unwrap(), "two\n");
        assert_eq!(tail(&mut file, 100).unwrap(), "one\ntwo\n");
        assert_eq!((shown(" two\n"), shown(" \n")), ("two", "it said nothing"));
    }
}
