//! A shell in a guest: how the guest runs it, and the terminal of this process for it.

use crate::bench::Bench;
use crate::error::{CellError, CellResult};
use fsarena_core::event::{CellEvent, Phase};
use fsarena_guest::terminal::Frame;
use fsarena_sys::{Error, limits};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// The largest number of bytes that are read and sent at once.
const BUFFER_BYTES: usize = 4096;
/// The interval at which the size of the terminal is checked.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// The exit code of a shell that a signal ended is this number plus the number of the signal, as in shells.
const SIGNAL_EXIT_BASE: i32 = 128;

/// A shell, or another program that the user runs in a guest instead of tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Shell {
    /// Program and arguments.
    #[serde(rename = "words")]
    pub argv: Vec<String>,
    /// Whether it has a terminal as its standard input and output.
    #[serde(rename = "is_terminal")]
    pub has_terminal: bool,
    /// The path of its standard input in the guest; the guest sets it when it boots.
    #[serde(rename = "input")]
    pub input_path: PathBuf,
    /// The path of its standard output and standard error in the guest; the guest sets it when it boots.
    #[serde(rename = "output")]
    pub output_path: PathBuf,
    /// The file in the guest for its exit code.
    #[serde(rename = "status")]
    pub status_file: PathBuf,
}

impl Shell {
    /// Runs the shell in a directory, and writes its exit code to [`Shell::status_file`].
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn run(&self, dir: &Path, bench: &mut Bench) -> CellResult {
        bench.emit(CellEvent::Phase { name: Phase::Shell });
        let failed = |error: io::Error| CellError::missing(format!("{} could not be started: {error}", self.argv[0]));
        let mut command = self.command(dir).map_err(failed)?;
        let mut child = limits::spawn(&mut command).map_err(failed)?;
        // `command` holds the terminal open. The terminal must close when the shell ends, so only the shell may keep it open.
        drop(command);
        let status = child.wait().map_err(Error::io("waiting for", &self.argv[0]))?;
        let code = status.code().unwrap_or_else(|| SIGNAL_EXIT_BASE + status.signal().unwrap_or_default());
        Ok(std::fs::write(&self.status_file, code.to_string()).map_err(Error::io("writing", &self.status_file))?)
    }

    fn command(&self, dir: &Path) -> io::Result<Command> {
        let (input, output) = if self.has_terminal {
            // Without NOCTTY, the terminal could become that of this process's session. Only the session of the shell may take it.
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let terminal = File::from(rustix::fs::open(&self.input_path, flags, Mode::empty())?);
            (terminal.try_clone()?, terminal)
        } else {
            (File::open(&self.input_path)?, OpenOptions::new().write(true).open(&self.output_path)?)
        };
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).current_dir(dir);
        command.stdin(input).stdout(output.try_clone()?).stderr(output);
        let has_terminal = self.has_terminal;
        // SAFETY: only system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                rustix::process::setsid()?;
                if has_terminal {
                    rustix::process::ioctl_tiocsctty(BorrowedFd::borrow_raw(0))?;
                }
                Ok(())
            });
        }
        Ok(command)
    }
}

/// A shell in a guest that the user of this process uses, and its exit code once it has ended.
#[derive(Debug, Clone)]
pub struct ShellSession {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The value of the environment variable `TERM`.
    pub term: String,
    /// Whether standard input and output are a terminal.
    pub is_terminal: bool,
    exit_code: Arc<OnceLock<i32>>,
}

impl ShellSession {
    /// A session that has not begun, of a program with these arguments.
    pub fn new(argv: Vec<String>) -> ShellSession {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let term = std::env::var("TERM").unwrap_or_else(|_| "dumb".into());
        ShellSession { argv, term, is_terminal, exit_code: Arc::default() }
    }

    /// The exit code of the shell; None if it has not ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        self.exit_code.get().copied()
    }

    /// Records the exit code.
    pub fn set_exit_code(&self, code: i32) {
        // A shell ends only once, so this cannot fail.
        let _ = self.exit_code.set(code);
    }

    /// Describes the shell for the request to the agent in the guest.
    pub fn to_request(&self) -> Shell {
        Shell { argv: self.argv.clone(), has_terminal: self.is_terminal, ..Shell::default() }
    }
}

/// The terminal of this process, connected with the terminal of a guest. Dropping it restores the mode of the terminal. Drop it
/// only after QEMU has ended; otherwise the drop waits until then.
pub struct HostTerminal {
    socket: UnixStream,
    /// The mode of the terminal before the shell began; None if standard input is not a terminal.
    saved_mode: Option<Termios>,
    /// Becomes true when the threads must end.
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl HostTerminal {
    /// Makes the terminal and its connection to a guest. Returns the end of the connection that becomes the standard
    /// input of QEMU.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn connect() -> io::Result<(HostTerminal, OwnedFd)> {
        let (socket, qemu_end) = UnixStream::pair()?;
        let (saved_mode, stop, threads) = (None, Arc::default(), vec![]);
        Ok((HostTerminal { socket, saved_mode, stop, threads }, qemu_end.into()))
    }

    /// Connects standard input and output with the shell. Call it when the shell has begun: before this call Ctrl-C
    /// ends fsarena, after it Ctrl-C goes to the shell.
    ///
    /// # Errors
    /// The terminal refuses.
    pub fn begin(&mut self, is_terminal: bool) -> io::Result<()> {
        if is_terminal {
            let mode = tcgetattr(io::stdin())?;
            let mut raw_mode = mode.clone();
            raw_mode.make_raw();
            tcsetattr(io::stdin(), OptionalActions::Now, &raw_mode)?;
            self.saved_mode = Some(mode);
        }
        let (mut input, stop) = (self.socket.try_clone()?, self.stop.clone());
        self.threads.push(std::thread::spawn(move || drop(send_input(&mut input, is_terminal, &stop))));
        let mut output = self.socket.try_clone()?;
        self.threads.push(std::thread::spawn(move || show_output(&mut output)));
        Ok(())
    }
}

impl Drop for HostTerminal {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // QEMU must have ended: then the output ends as well, and so does the thread that reads it.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
        if let Some(mode) = &self.saved_mode {
            let _ = tcsetattr(io::stdin(), OptionalActions::Drain, mode);
        }
    }
}

/// Sends standard input, and each new size of the terminal, until the input ends or `stop` is set.
fn send_input(socket: &mut UnixStream, is_terminal: bool, stop: &AtomicBool) -> io::Result<()> {
    let (stdin, mut size, mut buffer) = (io::stdin(), None, [0; BUFFER_BYTES]);
    while !stop.load(Ordering::Acquire) {
        let new_size = if is_terminal { tcgetwinsize(&stdin).ok() } else { None };
        let new_size = new_size.map(|size| (size.ws_row, size.ws_col));
        if let Some((rows, columns)) = new_size.filter(|_| new_size != size) {
            Frame::Size { rows, columns }.write(socket)?;
            size = new_size;
        }
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        match rustix::event::poll(&mut ready, Some(&POLL_INTERVAL)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        match rustix::io::read(&stdin, &mut buffer)? {
            0 => return Frame::End.write(socket),
            count => Frame::Bytes(buffer[..count].to_vec()).write(socket)?,
        }
    }
    Ok(())
}

/// Copies the output of the shell to standard output until it ends. If standard output is closed, discards the rest, because a
/// guest whose output nobody reads would block for ever.
fn show_output(socket: &mut UnixStream) {
    let (mut stdout, mut is_open, mut buffer) = (io::stdout(), true, [0; BUFFER_BYTES]);
    while let Ok(count @ 1..) = socket.read(&mut buffer) {
        is_open = is_open && stdout.write_all(&buffer[..count]).and_then(|()| stdout.flush()).is_ok();
    }
}
