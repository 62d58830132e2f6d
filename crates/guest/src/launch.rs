//! Starting a guest, listening to it, and ending it whole.

use crate::{Error, Result, console::LastWords, keeper, xstate};
use fsarena_sys::{argv, limits, said::lines};
use rustix::process::{Pid, Signal};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::{
    ffi::OsString, fs::File, io::Read, os::unix::process::CommandExt, path::PathBuf, sync::Arc,
    time::Duration,
};

/// How often a file is looked at for new words.
const LOOK: Duration = Duration::from_millis(10);

/// How a guest is started.
#[derive(Debug)]
pub struct Launch {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// The file for what its console and its emulator say.
    pub console: PathBuf,
    /// The file its words come in; its standard output where there is none.
    pub events: Option<PathBuf>,
    /// Whether it is User Mode Linux. That runs on one CPU of the host, where its system calls are several times
    /// cheaper, and needs help on some CPUs.
    pub user_mode: bool,
    /// Its standard input: what asks its emulator, or the state that it begins with.
    pub stdin: Stdio,
}

/// A guest that was started. Dropping it kills its whole process group.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    lines: Receiver<String>,
    ended: Arc<AtomicBool>,
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
        let copy = || console.try_clone().map_err(Error::io("writing", &self.console));
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).envs(argv::mark()).stdin(self.stdin).stderr(copy()?);
        command.stdout(match &self.events {
            Some(path) => {
                // Made here, so that there is something to listen to before the guest runs.
                File::create(path).map_err(Error::io("writing", path))?;
                copy()?.into()
            }
            None => Stdio::piped(),
        });
        let (user_mode, hide) = (self.user_mode, self.user_mode && xstate::is_too_large());
        let parent = std::process::id();
        // SAFETY: only system calls that are safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                keeper::split(parent)?;
                if user_mode {
                    stay_on_one_cpu()?;
                }
                if hide { xstate::hide() } else { Ok(()) }
            })
        };
        let mut child = limits::spawn(&mut command).map_err(|error| not_started(&self.argv[0], error))?;
        let ended = Arc::new(AtomicBool::new(false));
        let lines = match (&self.events, child.stdout.take()) {
            (Some(path), _) => {
                let file = File::open(path).map_err(Error::io("reading", path))?;
                lines(Growing { file, ended: ended.clone() })
            }
            (None, Some(stdout)) => lines(stdout),
            (None, None) => return Err(Error::Missing("the emulator has no standard output".into())),
        };
        Ok(Guest { child, lines, ended, console: self.console, status: None })
    }
}

fn not_started(program: &OsString, error: std::io::Error) -> Error {
    if error.kind() != std::io::ErrorKind::NotFound {
        return Error::io("starting", program)(error);
    }
    Error::Missing(format!(
        "{} is not installed: apt-get install qemu-system-x86 (for --on qemu, --on exact) or user-mode-linux (for --on \
         uml)",
        program.display()
    ))
}

/// Between fork and exec: the last of the CPUs that fsarena may run on.
fn stay_on_one_cpu() -> std::io::Result<()> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu));
    let mut one = rustix::thread::CpuSet::new();
    one.set(last.unwrap_or(0));
    Ok(rustix::thread::sched_setaffinity(None, &one)?)
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
            // A reader of the guest's file then reads the rest and stops; a pipe ends by itself.
            self.status = Some(status);
            self.ended.store(true, Ordering::SeqCst);
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
        self.ended.store(true, Ordering::SeqCst);
        if let Some(group) = Pid::from_raw(self.pid()) {
            // The group may be empty already.
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A file that grows. It ends where `ended` is set.
struct Growing {
    file: File,
    ended: Arc<AtomicBool>,
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        loop {
            // Asked before reading: what it said last is read after it ended.
            let last = self.ended.load(Ordering::SeqCst);
            let read = self.file.read(into)?;
            if read > 0 || last {
                return Ok(read);
            }
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn launch(dir: &Path, script: &str, events: Option<PathBuf>) -> Guest {
        let argv = ["sh", "-c", script].map(OsString::from).to_vec();
        Launch { argv, console: dir.join("console.log"), events, user_mode: true, stdin: Stdio::null() }
            .start()
            .unwrap()
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
    fn words_come_over_standard_output_or_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = launch(dir.path(), "echo one; echo two; echo why >&2", None);
        assert_eq!(all(&mut guest), ["one", "two"]);
        assert_eq!(guest.last_words().lines, "why");
        let events = dir.path().join("events");
        let script = format!("echo one >> {0}; sleep 0.05; echo two >> {0}", events.display());
        let mut guest = launch(dir.path(), &script, Some(events));
        assert_eq!(all(&mut guest), ["one", "two"]);
        assert!(guest.end(Duration::from_secs(5)).0.unwrap().success());
    }

    #[test]
    fn a_guest_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mut guest = launch(dir.path(), "sleep 30 & echo $!; wait", None);
        let Heard::Line(child) = guest.listen(Duration::from_secs(10)) else { panic!("it said nothing") };
        assert!(guest.end(Duration::ZERO).0.is_none());
        let kernel = fsarena_sys::kernel::Kernel::host();
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
        let launch = Launch {
            argv,
            console: dir.path().join("c"),
            events: None,
            user_mode: false,
            stdin: Stdio::null(),
        };
        let error = launch.start().unwrap_err().to_string();
        assert!(error.contains("no-such-emulator is not installed: apt-get install"), "{error}");
    }
}
