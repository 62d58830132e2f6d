//! Output of programs: receiving it line by line, and its text in messages.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, sync_channel};

/// The longest line that is received whole, in bytes. The longest lines are the profiles of tasks, which are shorter.
const MAX_LINE_BYTES: u64 = 64 << 20;
/// The number of lines that the channel can hold. If the caller receives no more, a process that writes more lines blocks.
const CHANNEL_CAPACITY: usize = 4;

/// Receives the complete lines of a stream until it ends. A thread reads the stream, because the caller can stop waiting for
/// a channel but not for a blocking read. A line that is too long arrives in pieces, so that a program cannot fill the memory
/// of this process.
pub fn receive_lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = sync_channel(CHANNEL_CAPACITY);
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        while let Ok(Some(line)) = read_line(&mut stream, MAX_LINE_BYTES) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Reads the next line, or `max_bytes` bytes of a longer line. None at the end of the stream; a last line without a newline is
/// dropped.
fn read_line(stream: &mut impl BufRead, max_bytes: u64) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    let length = stream.take(max_bytes).read_until(b'\n', &mut line)? as u64;
    if line.pop_if(|last| *last == b'\n').is_none() && length < max_bytes {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Makes an unnamed file in memory. The kernel shows `name` in `/proc/PID/fd`.
///
/// # Errors
/// The error of memfd_create(2).
pub fn make_memory_file(name: &str) -> std::io::Result<File> {
    Ok(rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// The last `max_bytes` bytes of a file, as text.
///
/// # Errors
/// The file cannot be read.
pub fn read_tail(file: &mut File, max_bytes: u64) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(max_bytes)))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The output of a program for messages: trimmed, or `it printed nothing` if it is empty.
pub fn describe_output(output: &str) -> &str {
    match output.trim() {
        "" => "it printed nothing",
        output => output,
    }
}

/// The text of a system error without its number: `Operation not permitted`.
pub fn text_without_errno(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lines_are_complete_and_an_endless_line_arrives_in_pieces() {
        let received: Vec<String> = receive_lines(&b"one\n\n\xff\ntorn"[..]).iter().collect();
        assert_eq!(received, ["one", "", "\u{fffd}"]);
        let mut endless = BufReader::new(std::io::repeat(b'x'));
        assert_eq!(read_line(&mut endless, 5).unwrap().as_deref(), Some("xxxxx"));
        let mut exact = BufReader::new(&b"abcd\nef"[..]);
        assert_eq!([(); 2].map(|()| read_line(&mut exact, 5).unwrap()), [Some("abcd".into()), None]);
    }

    #[test]
    fn read_tail_returns_the_end_and_empty_output_is_described() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        assert_eq!(read_tail(&mut file, 4).unwrap(), "two\n");
        assert_eq!(read_tail(&mut file, 100).unwrap(), "one\ntwo\n");
        assert_eq!((describe_output(" two\n"), describe_output(" \n")), ("two", "it printed nothing"));
    }
}
