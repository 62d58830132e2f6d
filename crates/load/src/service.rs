//! Servers that a workload starts: their users, directories, logs, start and end.
//!
//! The kernel signals a server when this process ends for any reason. Like every other command, a server has the
//! environment variable by which the undo journal finds the processes of an fsarena that crashed.

use crate::error::{Result, TaskError, failed_to};
use fsarena_core::setting_text::setting;
use fsarena_sys::{argv, cancel, dirs, limits, none_if_missing, process, process_output::describe_output, user::User};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server to start, and to end after [`ServiceDef::end_signal`].
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two checks while fsarena waits for a server.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// How long fsarena waits for the last log lines of a server before it makes an error message.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of last log lines that an error shows. More than one, because the server can log errors of its clients after
/// the line with the cause.
const ERROR_LOG_LINES: usize = 10;

/// Properties of one kind of server.
#[derive(Debug, Clone, Copy)]
pub struct ServiceDef {
    /// Its name in messages.
    pub name: &'static str,
    /// If this process is root, the server runs as the first of these users that exists.
    pub users: &'static [&'static str],
    /// The signal that ends the server and all its processes at once. If the server does not end, SIGKILL follows.
    pub end_signal: Signal,
}

/// A running server. Dropping it ends the server.
pub struct Service {
    def: &'static ServiceDef,
    child: Child,
    log_path: PathBuf,
}

impl ServiceDef {
    /// Creates a directory that the server's user owns and can reach.
    ///
    /// # Errors
    /// If it cannot be created, or the user may not pass through a parent directory.
    pub fn make_owned_dir(&self, dir: &Path, user: Option<&User>) -> Result<()> {
        dirs::make_dirs(dir).map_err(failed_to("make", dir))?;
        let Some(user) = user else { return Ok(()) };
        user.chown_to_user(dir).map_err(TaskError::io(format!("give {} to user {}", dir.display(), user.name)))?;
        self.check_reachable(dir, user)
    }

    /// Creates an empty directory like [`ServiceDef::make_owned_dir`], and removes an existing one with its contents.
    ///
    /// # Errors
    /// If the existing directory cannot be removed, and those of [`ServiceDef::make_owned_dir`].
    pub fn make_empty_owned_dir(&self, dir: &Path, user: Option<&User>) -> Result<()> {
        none_if_missing(std::fs::remove_dir_all(dir)).map_err(failed_to("empty", dir))?;
        self.make_owned_dir(dir, user)
    }

    /// Writes a file that the server's user owns.
    ///
    /// # Errors
    /// If it cannot be written or given to the user.
    pub fn write_owned_file(&self, path: &Path, text: &str, user: Option<&User>) -> Result<()> {
        let written = create_in_owned_dir(path).and_then(|mut file| file.write_all(text.as_bytes()).map(|()| file));
        let file = written.map_err(failed_to("write", path))?;
        let Some(user) = user else { return Ok(()) };
        let given = std::os::unix::fs::fchown(&file, Some(user.uid), Some(user.gid));
        given.map_err(TaskError::io(format!("give {} to user {}", path.display(), user.name)))
    }

    /// Checks that the server's user may pass through the directory and all its parent directories.
    fn check_reachable(&self, dir: &Path, user: &User) -> Result<()> {
        let dir = dir.canonicalize().map_err(failed_to("look for", dir))?;
        for ancestor in dir.ancestors() {
            let meta = ancestor.metadata().map_err(failed_to("look at", ancestor))?;
            let execute_bit = if meta.uid() == user.uid {
                0o100
            } else if meta.gid() == user.gid {
                0o010
            } else {
                0o001
            };
            if meta.permissions().mode() & execute_bit == 0 {
                return Err(TaskError::Unfit(format!(
                    "{} runs as user {}, who may not pass through {ancestor:?}; keep the runs elsewhere (`{}`), or let \
                     everybody pass: chmod a+x {}",
                    self.name,
                    user.name,
                    setting("runs", "/var/tmp/runs"),
                    ancestor.display()
                )));
            }
        }
        Ok(())
    }

    /// Makes the command of a program of the server. It runs as `user` and ends when this process ends.
    pub fn command(&self, program: &Path, user: Option<&User>) -> Command {
        let end_signal = self.end_signal;
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).envs(argv::journal_variable());
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid);
        }
        // SAFETY: the closure makes only a system call. It runs after the change of user, because that change clears
        // the signal.
        unsafe {
            command.pre_exec(move || Ok(rustix::process::set_parent_process_death_signal(Some(end_signal))?));
        }
        command
    }

    /// Starts the server in a separate process group. `log_path` is the file to which it logs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(&'static self, mut command: Command, log_path: &Path) -> Result<Service> {
        let child = limits::spawn(command.process_group(0)).map_err(TaskError::io(format!("start {}", self.name)))?;
        Ok(Service { def: self, child, log_path: log_path.into() })
    }
}

/// Creates a file in a directory of the server's user, and replaces an existing one. Follows no symbolic link, because
/// that user may have put one there.
///
/// # Errors
/// If the existing file cannot be removed or the new one cannot be created.
pub fn create_in_owned_dir(path: &Path) -> io::Result<File> {
    none_if_missing(std::fs::remove_file(path))?;
    File::create_new(path)
}

impl Service {
    /// The id of its process.
    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The text of its log.
    pub fn read_log(&self) -> String {
        let bytes = std::fs::read(&self.log_path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of its log. Waits up to a second for the server to end first: a server that crashes loses its
    /// clients before it logs the reason. Call this only to explain an error.
    pub fn last_log_lines(&self) -> String {
        poll_until(LAST_LINES_TIMEOUT, || self.has_ended());
        last_lines(&self.read_log())
    }

    /// Whether its main process has ended. Leaves the exit status for [`Service::stop`].
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    /// Waits until `log_shows_up` returns true for the text of its log.
    ///
    /// # Errors
    /// If the server ends earlier or takes too long. The error has the last lines of its log.
    pub fn wait_for_log(&mut self, log_shows_up: impl Fn(&str) -> bool) -> Result<()> {
        let (mut is_up, mut log, mut status) = (false, String::new(), Ok(None));
        poll_until(WAIT_TIMEOUT, || {
            log = self.read_log();
            is_up = log_shows_up(&log);
            status = if is_up { Ok(None) } else { self.exit_status() };
            is_up || !matches!(status, Ok(None)) || cancel::received_signal().is_some()
        });
        let status = status?;
        if is_up {
            return Ok(());
        }
        let reason = match status {
            Some(status) => format!("ended ({status})"),
            None => format!("was not up after {} s", WAIT_TIMEOUT.as_secs()),
        };
        cancel::check().map_err(|error| TaskError::Unfit(error.to_string()))?;
        Err(TaskError::Unfit(format!("{} {reason}: {}", self.def.name, last_lines(&log))))
    }

    /// Shuts the server down cleanly with a signal, and returns its exit status once it has ended.
    ///
    /// # Errors
    /// If the server does not end within the time limit.
    pub fn stop(&mut self, signal: Signal, timeout: Duration) -> Result<ExitStatus> {
        self.send_signal(signal);
        poll_until(timeout, || !matches!(self.exit_status(), Ok(None)) || cancel::received_signal().is_some());
        if let Some(status) = self.exit_status()? {
            return Ok(status);
        }
        cancel::check().map_err(|error| TaskError::Unfit(error.to_string()))?;
        let (name, seconds) = (self.def.name, timeout.as_secs());
        Err(TaskError::Unfit(format!("{name} did not end within {seconds} s: {}", last_lines(&self.read_log()))))
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(TaskError::io(format!("wait for {}", self.def.name)))
    }

    /// Sends a signal to the main process, which ends its helpers. Does nothing if the process has ended.
    fn send_signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.def.end_signal != Signal::KILL && matches!(self.exit_status(), Ok(None)) {
            self.send_signal(self.def.end_signal);
            poll_until(WAIT_TIMEOUT, || !matches!(self.exit_status(), Ok(None)));
        }
        // Its helpers are in its process group.
        process::kill_group_of(&self.child);
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds, or until the timeout.
fn poll_until(timeout: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() && start.elapsed() <= timeout {
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The last lines of a program's output, shortened for a message.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(ERROR_LOG_LINES).collect();
    describe_output(&lines.into_iter().rev().collect::<Vec<_>>().join("; ")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    static SHELL_DEF: ServiceDef = ServiceDef { name: "sh", users: &[], end_signal: Signal::KILL };

    #[test]
    fn a_link_in_a_directory_of_the_server_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, target) = (dir.path().join("conf"), dir.path().join("target"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &conf).unwrap();
        for text in ["first", "second"] {
            SHELL_DEF.write_owned_file(&conf, text, None).unwrap();
            assert_eq!(std::fs::read_to_string(&conf).unwrap(), text);
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    }

    #[test]
    fn an_owned_directory_is_emptied() {
        let dir = tempfile::tempdir().unwrap();
        let logs = dir.path().join("logs");
        for _ in 0..2 {
            SHELL_DEF.make_empty_owned_dir(&logs, None).unwrap();
            assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
            std::fs::write(logs.join("log.1"), "").unwrap();
        }
    }

    #[test]
    fn a_stopped_server_has_its_exit_status() {
        let dir = tempfile::tempdir().unwrap();
        let log_path = dir.path().join("log");
        let mut command = SHELL_DEF.command(Path::new("sh"), None);
        command.args(["-c", "trap 'exit 3' TERM; echo up > \"$0\"; while :; do sleep 0.01; done"]).arg(&log_path);
        let mut service = SHELL_DEF.start(command, &log_path).unwrap();
        service.wait_for_log(|log| log.contains("up")).unwrap();
        assert!(!service.has_ended());
        assert_eq!(service.stop(Signal::TERM, WAIT_TIMEOUT).unwrap().code(), Some(3));
        assert!(service.has_ended());
    }
}
