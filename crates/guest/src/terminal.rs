//! The terminal of a shell in a guest: the protocol between host and guest over a virtio port, and the guest's end of it.
//!
//! The host sends frames: a byte for the kind, two for the length, and the content. The guest sends the output of the shell as
//! it is.

use crate::{config::TERMINAL_PORT, guest_boot::open_port};
use fsarena_sys::{check_return, user::User};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// The directory in the guest with the pipes of a shell without a terminal.
const PIPE_DIR: &str = "/run/fsarena/shell";
/// The size of the buffer with which [`copy_output`] copies, in bytes.
const COPY_BYTES: usize = 4096;
/// The character that ends the input of a terminal (Ctrl-D).
const END_OF_INPUT: u8 = 4;

/// A frame that the host sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Input, at most 65,535 bytes.
    Bytes(Vec<u8>),
    /// The size of the terminal. A host without a terminal does not send it.
    Size {
        /// Lines.
        rows: u16,
        /// Characters of a line.
        columns: u16,
    },
    /// The input has ended.
    End,
}

impl Frame {
    /// Writes the frame.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, writer: &mut impl Write) -> Result<()> {
        let (kind, content) = match self {
            Frame::Bytes(bytes) => (0, bytes.clone()),
            Frame::Size { rows, columns } => (1, [rows.to_be_bytes(), columns.to_be_bytes()].concat()),
            Frame::End => (2, vec![]),
        };
        let length = u16::try_from(content.len()).map_err(Error::other)?;
        let mut frame = vec![kind];
        frame.extend(length.to_be_bytes());
        frame.extend(content);
        writer.write_all(&frame)
    }

    /// Reads the next frame; None at the end of the stream, also if the stream ends within a header.
    ///
    /// # Errors
    /// Those of the reader, and a frame of an unknown kind or with a wrong length.
    pub fn read(reader: &mut impl Read) -> Result<Option<Frame>> {
        let mut header = [0; 3];
        match reader.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            result => result?,
        }
        let [kind, length @ ..] = header;
        let mut content = vec![0; usize::from(u16::from_be_bytes(length))];
        reader.read_exact(&mut content)?;
        Ok(Some(match (kind, content.as_slice()) {
            (0, _) => Frame::Bytes(content),
            (1, [a, b, c, d]) => {
                let (rows, columns) = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
                Frame::Size { rows, columns }
            }
            (2, []) => Frame::End,
            _ => {
                let length = content.len();
                return Err(Error::other(format!(
                    "a frame of kind {kind} with {length} bytes: kind or length is wrong"
                )));
            }
        }))
    }
}

/// The guest's end of a terminal.
pub struct GuestTerminal {
    /// The path of the standard input of the shell.
    pub input: PathBuf,
    /// The path of the standard output of the shell.
    pub output: PathBuf,
    sender: JoinHandle<()>,
}

impl GuestTerminal {
    /// Connects the port with a new pseudo-terminal that belongs to this user, or with pipes if the host has no terminal.
    ///
    /// # Errors
    /// The port is missing, or the kernel refuses.
    pub fn open(is_terminal: bool, user: &User) -> Result<GuestTerminal> {
        let port = open_port(TERMINAL_PORT)?;
        if is_terminal {
            GuestTerminal::open_pseudo_terminal(port, user)
        } else {
            GuestTerminal::open_pipes(port, user)
        }
    }

    fn open_pseudo_terminal(port: File, user: &User) -> Result<GuestTerminal> {
        let (master, path) = make_pseudo_terminal()?;
        user.chown_to_user(&path)?;
        let (mut frames, mut keys) = (port.try_clone()?, master.try_clone()?);
        std::thread::spawn(move || {
            while let Ok(Some(frame)) = Frame::read(&mut frames) {
                match frame {
                    Frame::Bytes(bytes) => drop(keys.write_all(&bytes)),
                    Frame::Size { rows, columns } => set_terminal_size(&keys, rows, columns),
                    Frame::End => drop(keys.write_all(&[END_OF_INPUT])),
                }
            }
        });
        let sender = std::thread::spawn(move || copy_output(master, port));
        Ok(GuestTerminal { input: path.clone(), output: path, sender })
    }

    fn open_pipes(port: File, user: &User) -> Result<GuestTerminal> {
        std::fs::create_dir_all(PIPE_DIR)?;
        let [input, output] = ["input", "output"].map(|name| Path::new(PIPE_DIR).join(name));
        for pipe in [&input, &output] {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0)?;
            user.chown_to_user(pipe)?;
        }
        let (mut frames, input_path) = (port.try_clone()?, input.clone());
        std::thread::spawn(move || {
            let Ok(mut pipe) = OpenOptions::new().write(true).open(input_path) else { return };
            // `End` closes the pipe. `Size` does not arrive, because the host has no terminal.
            while let Ok(Some(Frame::Bytes(bytes))) = Frame::read(&mut frames) {
                if pipe.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        let output_path = output.clone();
        let sender = std::thread::spawn(move || {
            if let Ok(pipe) = File::open(output_path) {
                copy_output(pipe, port);
            }
        });
        Ok(GuestTerminal { input, output, sender })
    }

    /// Waits until all output of the shell is sent. Call it when the PID namespace of the shell has ended: then no
    /// process has the output open any more.
    pub fn finish(self) {
        // A thread that panicked has printed its message.
        let _ = self.sender.join();
    }
}

/// Copies until the end of input, or until an error: reading a pseudo-terminal fails when no process has it open.
fn copy_output(mut output: File, mut port: File) {
    let mut piece = [0; COPY_BYTES];
    while let Ok(count @ 1..) = output.read(&mut piece) {
        if port.write_all(&piece[..count]).is_err() {
            return;
        }
    }
}

/// Makes a pseudo-terminal. Returns its master, and the path of its slave for the shell.
fn make_pseudo_terminal() -> Result<(File, PathBuf)> {
    let mut name = [0; 64];
    // SAFETY: plain calls; the descriptor is new, and the buffer has the size that is named.
    let master = unsafe {
        let flags = libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC;
        let master = OwnedFd::from_raw_fd(check_return(libc::posix_openpt(flags))?);
        let fd = master.as_raw_fd();
        if libc::unlockpt(fd) != 0 || libc::ptsname_r(fd, name.as_mut_ptr(), name.len()) != 0 {
            return Err(Error::last_os_error());
        }
        master
    };
    let name: Vec<u8> = name.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8).collect();
    Ok((File::from(master), PathBuf::from(String::from_utf8_lossy(&name).into_owned())))
}

fn set_terminal_size(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the size outlives the call. A terminal that refuses it keeps its size.
    unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let frames = [Frame::Bytes(b"ls\r".to_vec()), Frame::Size { rows: 40, columns: 132 }, Frame::End];
        let mut stream = vec![];
        frames.iter().for_each(|frame| frame.write(&mut stream).unwrap());
        let mut reader = stream.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut reader).unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut reader).unwrap(), None);
        assert!(Frame::read(&mut [9, 0, 0].as_slice()).is_err());
    }

    #[test]
    fn a_pseudo_terminal_has_the_size_that_was_set() {
        let (master, path) = make_pseudo_terminal().unwrap();
        set_terminal_size(&master, 40, 132);
        let shell = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = rustix::termios::tcgetwinsize(&shell).unwrap();
        assert_eq!((size.ws_row, size.ws_col), (40, 132));
    }
}
