//! Reads files that a user names. Only regular files are accepted, opening them never blocks, and their size is limited.
//! Commands that read a file only once also accept standard input and the pipe of a shell's `<(command)`.
//!
//! [`end_torn_line`] continues a log that a crash cut short.

use bytesize::ByteSize;
use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, IsTerminal, Read, Result, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Why fsarena refuses a file before it reads it.
#[derive(Debug, thiserror::Error)]
enum InputRefusal {
    #[error("this is {0}, and fsarena requires a regular file here")]
    NotRegular(&'static str),
    #[error("it has {}, and the limit is {}", ByteSize(*.bytes), ByteSize(*.max_bytes))]
    TooLarge { bytes: u64, max_bytes: u64 },
    #[error("it has more than {}, which is the limit", ByteSize(*.max_bytes))]
    StreamTooLarge { max_bytes: u64 },
    #[error("standard input is a terminal: pass a file with `<`, or the output of a command with `|`")]
    Terminal,
}

/// The beginnings of paths of files that this process has open, such as the pipe of `<(command)`.
const OPEN_FILE_PREFIXES: [&str; 3] = ["/dev/fd/", "/proc/self/fd/", "/dev/stdin"];

/// Whether a name means standard input (`-`) or a file that this process has open. fsarena can read such a file only once.
pub fn is_stream(name: &str) -> bool {
    name == "-" || OPEN_FILE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Reads a regular file, standard input (`-`), or the pipe of a shell's `<(command)`, of at most `max_bytes` bytes.
///
/// # Errors
/// The errors of [`read`]; or standard input is a terminal.
pub fn read_once(name: &str, max_bytes: u64) -> Result<Vec<u8>> {
    let path = Path::new(name);
    let is_pipe = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
    let stream: Box<dyn Read> = match name {
        "-" if std::io::stdin().is_terminal() => {
            return Err(Error::new(ErrorKind::InvalidInput, InputRefusal::Terminal));
        }
        "-" => Box::new(std::io::stdin()),
        name if is_stream(name) && is_pipe() => {
            // The command may have ended already: a blocking open would then wait for another writer.
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
            let flags = rustix::fs::fcntl_getfl(&file)?;
            rustix::fs::fcntl_setfl(&file, flags.difference(rustix::fs::OFlags::NONBLOCK))?;
            Box::new(file)
        }
        _ => return read(path, max_bytes),
    };
    let mut bytes = Vec::new();
    stream.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes {
        return Err(Error::new(ErrorKind::FileTooLarge, InputRefusal::StreamTooLarge { max_bytes }));
    }
    Ok(bytes)
}

/// Opens a regular file for reading.
///
/// # Errors
/// The file is missing or is not a regular file; the message names the type of the file.
pub fn open(path: &Path) -> Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file with these options. Other files are refused before they are opened: opening some devices has an effect,
/// and opening a pipe could block for ever.
///
/// # Errors
/// The errors of [`open`].
pub fn open_with(path: &Path, options: &mut OpenOptions) -> Result<File> {
    if let Some(meta) = crate::none_if_missing(std::fs::metadata(path))? {
        check_regular(&meta)?;
    }
    // Another process may have replaced the file since, so this open must not block either.
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    check_regular(&file.metadata()?)?;
    Ok(file)
}

/// Appends a newline to a log if it ends within a line (after a full disk or a crash), so that the next line is separate. The
/// file must be open to read and append.
pub fn end_torn_line(file: &mut File) -> Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    let mut last_byte = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last_byte)?;
    if last_byte == *b"\n" { Ok(()) } else { file.write_all(b"\n") }
}

/// Reads a regular file of at most `max_bytes` bytes.
///
/// # Errors
/// The errors of [`open`]; or the file is larger.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    let too_large = |bytes| Err(Error::new(ErrorKind::InvalidInput, InputRefusal::TooLarge { bytes, max_bytes }));
    let length = file.metadata()?.len();
    if length > max_bytes {
        return too_large(length);
    }
    let mut bytes = Vec::new();
    // The file may grow while fsarena reads it.
    file.take(max_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max_bytes { too_large(bytes.len() as u64) } else { Ok(bytes) }
}

/// Whether an error of this module means that fsarena refused the file, not that reading it failed.
pub fn is_refusal(error: &Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<InputRefusal>())
}

fn check_regular(meta: &Metadata) -> Result<()> {
    if meta.is_file() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, InputRefusal::NotRegular(describe_type(meta.file_type()))))
}

fn describe_type(file_type: FileType) -> &'static str {
    if file_type.is_fifo() {
        "a named pipe (FIFO)"
    } else if file_type.is_dir() {
        "a directory"
    } else if file_type.is_char_device() {
        "a character device"
    } else if file_type.is_block_device() {
        "a block device"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a special file"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode};
    use std::os::fd::AsRawFd;

    #[test]
    fn other_than_regular_files_are_refused_with_their_type() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        for (path, file_type) in [
            (pipe.as_path(), "a named pipe (FIFO)"),
            (dir.path(), "a directory"),
            (Path::new("/dev/zero"), "a character device"),
        ] {
            let error = read(path, 10).unwrap_err();
            assert!(error.to_string().contains(file_type) && is_refusal(&error), "{error}");
        }
        let missing = open(&dir.path().join("none")).unwrap_err();
        assert!(missing.kind() == ErrorKind::NotFound && !is_refusal(&missing));
    }

    #[test]
    fn a_pipe_of_the_shell_is_read_before_and_after_its_command_ends() {
        let (read_end, mut write_end) = std::io::pipe().unwrap();
        let name = format!("/dev/fd/{}", read_end.as_raw_fd());
        assert!(is_stream(&name) && is_stream("-") && !is_stream("a.csv"));
        write_end.write_all(b"0123").unwrap();
        drop(write_end);
        assert_eq!(read_once(&name, 10).unwrap(), b"0123");
        let (read_end, mut write_end) = std::io::pipe().unwrap();
        let name = format!("/dev/fd/{}", read_end.as_raw_fd());
        let writer = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            write_end.write_all(b"0123456789").unwrap();
        });
        let error = read_once(&name, 9).unwrap_err();
        assert!(error.to_string().contains("more than 9 B") && is_refusal(&error), "{error}");
        writer.join().unwrap();
    }

    #[test]
    fn a_file_above_the_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "0123456789").unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"0123456789");
        let error = read(&path, 9).unwrap_err();
        assert!(error.to_string().contains("10 B, and the limit is 9 B") && is_refusal(&error), "{error}");
    }
}
