//! A server that a workload starts: its user, its log, its end.
//!
//! It dies with this process whatever ends that, because the kernel signals it then; and it carries the mark of the
//! undo journal like every other command.

use crate::error::{Error, Result, at};
use fsarena_sys::{argv, cancel, dirs, limits, process, process_output::shown, user::User};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long it may take to come up, and to end once it was killed.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a failure waits for a server that is ending to say why.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Lines of its log that a failure shows: what clients were refused follows the cause.
const TAIL_LINES: usize = 10;

/// What every process of one kind of server has in common.
#[derive(Debug, Clone, Copy)]
pub struct ServiceDef {
    /// Its name in messages.
    pub name: &'static str,
    /// The users to run it as where this process is root: the first that exists.
    pub users: &'static [&'static str],
    /// The signal that ends it and all its processes at once. Where that does not work, SIGKILL does.
    pub end: Signal,
}

/// A server that is running. Dropping it ends it.
pub struct Service {
    def: &'static ServiceDef,
    child: Child,
    log: PathBuf,
}

impl ServiceDef {
    /// Makes a directory for it, which its user owns and can reach.
    ///
    /// # Errors
    /// Where it cannot be made, or the user may not pass through a directory above.
    pub fn make_dir(&self, dir: &Path, user: Option<&User>) -> Result<()> {
        dirs::make_dirs(dir).map_err(at("make", dir))?;
        let Some(user) = user else { return Ok(()) };
        user.chown_to_user(dir).map_err(Error::io(format!(
            "give {} to user {}",
            dir.display(),
            user.name
        )))?;
        self.reachable(dir, user)
    }

    /// Writes a file that its user owns.
    ///
    /// # Errors
    /// Where it cannot be written or given away.
    pub fn write_file(&self, file: &Path, text: &str, user: Option<&User>) -> Result<()> {
        std::fs::write(file, text).map_err(at("write", file))?;
        let Some(user) = user else { return Ok(()) };
        user.chown_to_user(file).map_err(Error::io(format!("give {} to user {}", file.display(), user.name)))
    }

    /// Every directory above has to let the user through.
    fn reachable(&self, dir: &Path, user: &User) -> Result<()> {
        let dir = dir.canonicalize().map_err(at("look for", dir))?;
        for above in dir.ancestors() {
            let meta = above.metadata().map_err(at("look at", above))?;
            let needed = match () {
                () if meta.uid() == user.uid => 0o100,
                () if meta.gid() == user.gid => 0o010,
                () => 0o001,
            };
            if meta.permissions().mode() & needed == 0 {
                return Err(Error::Unfit(format!(
                    "{} runs as user {}, who may not pass through {above:?}; keep the runs elsewhere (`--runs \
                     /var/tmp/runs`), or let everybody pass: chmod a+x {}",
                    self.name,
                    user.name,
                    above.display()
                )));
            }
        }
        Ok(())
    }

    /// A program of the server, as this user, and ended when this process ends.
    pub fn command(&self, program: &Path, user: Option<&User>) -> Command {
        let end = self.end;
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).envs(argv::mark());
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        // SAFETY: prctl is a bare system call. It follows the change of user, which would undo it.
        unsafe {
            command.pre_exec(move || Ok(rustix::process::set_parent_process_death_signal(Some(end))?));
        }
        command
    }

    /// Starts the server in a separate process group; `log` is where it writes what it has to say.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(&'static self, mut command: Command, log: &Path) -> Result<Service> {
        let child =
            limits::spawn(command.process_group(0)).map_err(Error::io(format!("start {}", self.name)))?;
        Ok(Service { def: self, child, log: log.into() })
    }
}

impl Service {
    /// Its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// What it has written to its log.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of its log. If it is about to end, fsarena waits a moment for them.
    pub fn last_words(&self) -> String {
        wait(LAST_WORDS, || self.is_over());
        last_lines(&self.log())
    }

    fn is_over(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), look), Ok(None))
    }

    /// Waits until its log says that it is up.
    ///
    /// # Errors
    /// If it ends before, or takes too long; with the last lines of its log.
    pub fn wait_until(&mut self, up: impl Fn(&str) -> bool) -> Result<()> {
        let (mut is_up, mut log, mut ended) = (false, String::new(), Ok(None));
        wait(PATIENCE, || {
            log = self.log();
            is_up = up(&log);
            ended = if is_up { Ok(None) } else { self.ended() };
            is_up || !matches!(ended, Ok(None)) || cancel::requested().is_some()
        });
        let fault = match ended? {
            _ if is_up => return Ok(()),
            Some(status) => format!("ended ({status})"),
            None => format!("was not up after {} s", PATIENCE.as_secs()),
        };
        cancel::check().map_err(|error| Error::Unfit(error.to_string()))?;
        Err(Error::Unfit(format!("{} {fault}: {}", self.def.name, last_lines(&log))))
    }

    /// Ends it in its own way, so that its data is on disk, within this time.
    ///
    /// # Errors
    /// Where it does not go.
    pub fn stop(mut self, signal: Signal, within: Duration) -> Result<()> {
        self.send(signal);
        wait(within, || !matches!(self.ended(), Ok(None)) || cancel::requested().is_some());
        if self.ended()?.is_some() {
            return Ok(());
        }
        cancel::check().map_err(|error| Error::Unfit(error.to_string()))?;
        let (name, seconds) = (self.def.name, within.as_secs());
        Err(Error::Unfit(format!("{name} did not end within {seconds} s: {}", last_lines(&self.log()))))
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::io(format!("wait for {}", self.def.name)))
    }

    /// Signals the process itself, which tells its helpers. It may have ended; then there is nothing to end.
    fn send(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.def.end != Signal::KILL && matches!(self.ended(), Ok(None)) {
            self.send(self.def.end);
            wait(PATIENCE, || !matches!(self.ended(), Ok(None)));
        }
        // Its helpers are in its group.
        process::kill_group_of(&self.child);
        let _ = self.child.wait();
    }
}

/// Waits until something is so, or for as long as it may take.
fn wait(within: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() && begun.elapsed() <= within {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The last lines of what a program has said.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(TAIL_LINES).collect();
    shown(&lines.into_iter().rev().collect::<Vec<_>>().join("; ")).into()
}
