//! Starting a guest, listening to it, and ending it whole.

use crate::{Error, Result, console::LastWords, keeper};
use fsarena_sys::{argv, limits, process_output::lines};
use rustix::process::{Pid, Signal};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::{ffi::OsString, fs::File, os::unix::process::CommandExt, path::PathBuf, time::Duration};

/// How often fsarena checks whether a guest has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How a guest is started.
#[derive(Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The file for what its console and its emulator say.
    pub console: PathBuf,
    /// Its standard input: what asks its emulator, or the state that it begins with.
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
pub enum Heard {
    /// A line.
    Line(String),
    /// No line within the given time.
    Silence,
    /// The guest ended, and the caller has received all its lines.
    End,
}

impl Launch {
    /// Starts the guest in a separate session and process group. The guest ends when this process ends.
    ///
    /// # Errors
    /// Where the emulator is not installed or cannot be started.
    pub fn start(self) -> Result<Guest> {
        let console = File::options().create(true).append(true).open(&self.console);
        let console = console.map_err(Error::io("writing", &self.console))?;
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .envs(argv::mark())
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(console);
        let parent = std::process::id();
        // SAFETY: only system calls that are safe between fork and exec.
        unsafe { command.pre_exec(move || keeper::split(parent)) };
        let mut child = limits::spawn(&mut command).map_err(|error| not_started(&self.argv[0], error))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Error::Missing("the emulator has no standard output".into()));
        };
        Ok(Guest { child, lines: lines(stdout), console: self.console, status: None })
    }
}

fn not_started(program: &OsString, error: std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::io("starting", program)(error);
    }
    Error::Missing(format!("{} is not installed: apt-get install qemu-system-x86", program.display()))
}

impl Guest {
    /// The process that keeps it and leads its group.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it says next, waiting no longer than this.
    pub fn listen(&mut self, patience: Duration) -> Heard {
        match self.lines.recv_timeout(patience) {
            Ok(line) => return Heard::Line(line),
            Err(RecvTimeoutError::Disconnected) => return Heard::End,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            self.status = Some(status);
        }
        Heard::Silence
    }

    /// Waits a moment for it to end by itself, then kills its group. How it ended, where it did so by itself, and what
    /// its console said last.
    pub fn end(mut self, patience: Duration) -> (Option<ExitStatus>, LastWords) {
        let begun = std::time::Instant::now();
        while self.status.is_none() && begun.elapsed() < patience {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(LOOK),
                Ok(status) => self.status = status,
                Err(_) => break,
            }
        }
        (self.status, self.last_words())
    }

    /// The end of its console, for people.
    pub fn last_words(&self) -> LastWords {
        LastWords::of(&self.console)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.pid()) {
            // The group may be empty already.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn launch(dir: &Path, script: &str) -> Guest {
        let argv = ["sh", "-c", script].map(OsString::from).to_vec();
        Launch { argv, console: dir.join("console.log"), stdin: Stdio::null() }.start().unwrap()
    }

    fn all(guest: &mut Guest) -> Vec<String> {
        let mut lines = vec![];
        loop {
            match guest.listen(Duration::from_millis(20)) {
                Heard::Line(line) => lines.push(line),
                Heard::Silence => {}
                Heard::End => return lines,
            }
        }
    }

    #[test]
    fn words_come_over_standard_output() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = launch(dir.path(), "echo one; echo two; echo why >&2");
        assert_eq!(all(&mut guest), ["one", "two"]);
        assert_eq!(guest.last_words().lines, "why");
        assert!(guest.end(Duration::from_secs(5)).0.unwrap().success());
    }

    #[test]
    fn a_guest_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = launch(dir.path(), "sleep 30 & echo $!; wait");
        let Heard::Line(child) = guest.listen(Duration::from_secs(10)) else { panic!("it said nothing") };
        assert!(guest.end(Duration::ZERO).0.is_none());
        let kernel = fsarena_sys::kernel::SysRoot::host();
        let pid = child.parse().unwrap();
        let started = fsarena_sys::process::start_time(&kernel, pid);
        let gone = || started.is_none_or(|time| !fsarena_sys::process::is_alive(&kernel, pid, time));
        let begun = std::time::Instant::now();
        while !gone() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(LOOK);
        }
        assert!(gone());
    }

    #[test]
    fn a_program_that_is_not_there_is_named_with_what_to_install() {
        let dir = tempfile::tempdir().unwrap();
        let argv = vec![OsString::from("no-such-emulator")];
        let launch = Launch { argv, console: dir.path().join("c"), stdin: Stdio::null() };
        let error = launch.start().unwrap_err().to_string();
        assert!(error.contains("no-such-emulator is not installed: apt-get install"), "{error}");
    }
}
