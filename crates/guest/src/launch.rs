//! Starts a guest, reads its messages, and kills it with all of its processes.
//!
//! No guest may outlive fsarena, however that ends. The kernel kills one process when its parent dies, but the children of
//! that process run on and keep the image in use. So a supervisor process stands between fsarena and the guest: it leads the
//! process group, gets a signal when its parent dies, and kills the group.

use crate::{Error, Result};
use fsarena_core::setting_text::setting;
use fsarena_sys::process_output::{read_tail, receive_lines};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{argv, limits, pid_namespace, process};
use libc::c_int;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, os::unix::process::CommandExt};

/// The command that starts a guest.
#[derive(Debug)]
pub struct GuestCommand {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The file for the output of its console and its emulator.
    pub console: PathBuf,
    /// Its standard input, such as a QMP connection or the saved state that it resumes from.
    pub stdin: Stdio,
}

/// A guest that was started. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    console: PathBuf,
    status: Option<ExitStatus>,
}

/// A message from a guest, or the absence of one.
#[derive(Debug)]
pub enum GuestMessage {
    /// A line.
    Line(String),
    /// No line until the timeout.
    Silence,
    /// The guest ended, and the caller has received all its lines.
    End,
}

impl GuestCommand {
    /// Starts the guest in a separate session and process group. The guest ends when this process ends.
    ///
    /// # Errors
    /// The emulator is not installed or cannot be started.
    pub fn start(self) -> Result<Guest> {
        let console = File::options().create(true).append(true).open(&self.console);
        let console = console.map_err(Error::io("writing", &self.console))?;
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .envs(argv::journal_variable())
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(console);
        let parent = std::process::id();
        // SAFETY: only system calls that are safe between fork and exec.
        unsafe { command.pre_exec(move || split_off_guest(parent)) };
        let mut child = limits::spawn(&mut command).map_err(|error| start_error(&self.argv[0], error))?;
        let stdout = child.stdout.take().expect("its standard output is a pipe");
        Ok(Guest { child, lines: receive_lines(stdout), console: self.console, status: None })
    }
}

/// The error if the emulator cannot be started; it names the package of a missing one.
fn start_error(program: &OsString, error: std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::io("starting", program)(error);
    }
    Error::Missing(format!("{} is not installed: apt-get install qemu-system-x86", program.display()))
}

impl Guest {
    /// The supervisor process, which leads the process group of the guest.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Waits for the next message of the guest.
    pub fn next_message(&mut self, timeout: Duration) -> GuestMessage {
        match self.lines.recv_timeout(timeout) {
            Ok(line) => return GuestMessage::Line(line),
            Err(RecvTimeoutError::Disconnected) => return GuestMessage::End,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            self.status = Some(status);
        }
        GuestMessage::Silence
    }

    /// Waits until the guest ends by itself or the timeout, then kills its process group. Returns its exit status if it
    /// ended by itself, and the end of its console.
    pub fn wait_and_kill(mut self, timeout: Duration) -> (Option<ExitStatus>, ConsoleEnd) {
        if self.status.is_none() {
            let exit = wait_until(Instant::now() + timeout, Cancel::Never, || self.child.try_wait().transpose());
            self.status = exit.ok().and_then(|status| status.ok());
        }
        (self.status, ConsoleEnd::read(&self.console))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        process::kill_group_of(&self.child);
        let _ = self.child.wait();
    }
}

/// The largest number of lines of a console in a message.
const MAX_LINES: usize = 12;
/// The number of bytes at the end of a console that are searched for the reason.
const SEARCHED_BYTES: u64 = 16 << 10;
/// The text that a kernel prints when it panics.
const PANIC_MESSAGE: &str = "Kernel panic";
/// Texts on consoles, the reasons for the end of a guest that they indicate, and the setting that helps, if there is one.
const REASONS: [(&str, &str, &str); 9] = [
    ("initrd is too large", "it has too little memory to begin with", MEMORY_SETTING),
    ("Initramfs unpacking failed: write error", "it has too little memory to begin with", MEMORY_SETTING),
    ("Out of memory and no killable processes", "its memory ran out", MEMORY_SETTING),
    ("System is deadlocked on memory", "its memory ran out", MEMORY_SETTING),
    ("Out of memory: Killed process", "its memory ran out", MEMORY_SETTING),
    (
        "Unable to mount root fs",
        "its kernel cannot read an initramfs, or has found none because it has too little memory",
        MEMORY_SETTING,
    ),
    ("No working init found", "its kernel could not start fsarena", ""),
    (PANIC_MESSAGE, "its kernel panicked", ""),
    ("Error loading uncompressed kernel", "QEMU cannot load that kernel", ""),
];
const MEMORY_SETTING: &str = "guest_memory";

/// The end of a console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsoleEnd {
    /// Its last lines, without control characters.
    pub lines: String,
    /// The reason for the end of the guest that these lines indicate, if any.
    pub reason: Option<String>,
}

impl ConsoleEnd {
    /// Reads the end of a console; empty if the file is missing.
    pub fn read(console: &Path) -> ConsoleEnd {
        let text = File::open(console).and_then(|mut file| read_tail(&mut file, SEARCHED_BYTES)).unwrap_or_default();
        let known_end = REASONS.iter().find(|(sign, _, _)| text.contains(sign));
        let reason = known_end.map(|(_, why, helpful_setting)| match *helpful_setting {
            "" => why.to_string(),
            name => format!("{why}: {}", setting(name, "")),
        });
        let printable: String = text.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
        let lines: Vec<&str> = printable.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let (earlier_lines, last_lines) = lines.split_at(lines.len().saturating_sub(MAX_LINES));
        // A panic message can be followed by a trace with more lines than fsarena prints.
        let panic = earlier_lines.iter().rev().find(|line| line.contains(PANIC_MESSAGE));
        let message_lines: Vec<&str> = panic.into_iter().chain(last_lines).copied().collect();
        ConsoleEnd { lines: message_lines.join("\n"), reason }
    }
}

/// Kills the whole process group of a guest, including this process.
extern "C" fn kill_own_group(_: c_int) {
    // If this fails, nothing else can be tried.
    let _ = rustix::process::kill_current_process_group(rustix::process::Signal::KILL);
}

/// Begins a session and forks. The child returns and becomes the guest; this process supervises it and exits with its status.
/// `parent` is the process that the guest must not outlive. Runs between fork and exec, so it allocates nothing.
///
/// # Errors
/// Those of the system calls.
fn split_off_guest(parent: u32) -> std::io::Result<()> {
    // SAFETY: plain system calls, and a handler that makes one.
    unsafe {
        let handler: extern "C" fn(c_int) = kill_own_group;
        let is_prepared = libc::setsid() >= 0
            && libc::signal(libc::SIGTERM, handler as libc::sighandler_t) != libc::SIG_ERR
            && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) == 0;
        if !is_prepared {
            return Err(std::io::Error::last_os_error());
        }
        if libc::getppid() != parent as libc::pid_t {
            // The parent died before the kernel could report that.
            libc::_exit(1);
        }
        match libc::fork() {
            -1 => Err(std::io::Error::last_os_error()),
            0 => {
                libc::signal(libc::SIGTERM, libc::SIG_DFL);
                Ok(())
            }
            guest => pid_namespace::exit_with_child(guest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn start_script(dir: &Path, script: &str) -> Guest {
        let argv = ["sh", "-c", script].map(OsString::from).to_vec();
        GuestCommand { argv, console: dir.join("console.log"), stdin: Stdio::null() }.start().unwrap()
    }

    fn all_messages(guest: &mut Guest) -> Vec<String> {
        let mut lines = vec![];
        loop {
            match guest.next_message(Duration::from_millis(20)) {
                GuestMessage::Line(line) => lines.push(line),
                GuestMessage::Silence => {}
                GuestMessage::End => return lines,
            }
        }
    }

    #[test]
    fn messages_are_the_lines_on_standard_output() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = start_script(dir.path(), "echo one; echo two; echo why >&2");
        assert_eq!(all_messages(&mut guest), ["one", "two"]);
        assert_eq!(ConsoleEnd::read(&guest.console).lines, "why");
        assert!(guest.wait_and_kill(Duration::from_secs(5)).0.unwrap().success());
    }

    #[test]
    fn a_guest_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = start_script(dir.path(), "sleep 30 & echo $!; wait");
        let GuestMessage::Line(child) = guest.next_message(Duration::from_secs(10)) else { panic!("no message") };
        assert!(guest.wait_and_kill(Duration::ZERO).0.is_none());
        let kernel = fsarena_sys::kernel::SysRoot::host();
        let pid = child.parse().unwrap();
        let started = fsarena_sys::process::start_time(&kernel, pid);
        let has_ended = || started.is_none_or(|time| !fsarena_sys::process::is_alive(&kernel, pid, time));
        let deadline = Instant::now() + Duration::from_secs(10);
        assert_eq!(wait_until(deadline, Cancel::Never, || has_ended().then_some(())), Ok(()));
    }

    #[test]
    fn an_error_for_a_missing_program_names_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let argv = vec![OsString::from("no-such-emulator")];
        let command = GuestCommand { argv, console: dir.path().join("c"), stdin: Stdio::null() };
        let error = command.start().unwrap_err().to_string();
        assert!(error.contains("no-such-emulator is not installed: apt-get install"), "{error}");
    }

    #[test]
    fn a_panic_is_recognised_in_the_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        let mut text: String = (0..40).map(|line| format!("line {line}\r\n")).collect();
        text += "\u{1b}[0m[ 1.0] Kernel panic - not syncing: VFS\r\n\r\n";
        std::fs::write(&console, &text).unwrap();
        let console_end = ConsoleEnd::read(&console);
        assert_eq!(console_end.lines.lines().count(), MAX_LINES);
        assert!(console_end.lines.ends_with("Kernel panic - not syncing: VFS"));
        assert_eq!(console_end.reason.as_deref(), Some("its kernel panicked"));
        text += &"  trace\r\n".repeat(MAX_LINES);
        std::fs::write(&console, text).unwrap();
        assert!(ConsoleEnd::read(&console).lines.contains("Kernel panic"));
        assert_eq!(ConsoleEnd::read(&dir.path().join("none")), ConsoleEnd { lines: String::new(), reason: None });
    }
}
