//! External commands as argument vectors, never as shell strings, and the log of each command.
//!
//! The output of a command goes to files in memory, so that fsarena does not have to read a pipe while a command is timed.
//! [`Argv::confine_writes_to`] confines a command with Landlock.

use crate::error::CommandError;
use crate::process_output::{describe_output, make_memory_file, read_tail};
use crate::{limits, process, program, user::User};
use fsarena_core::event::{CommandEnd, CommandRecord};
use landlock::{ABI, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The name of the undo journal of this process, once it has one.
static JOURNAL_NAME: RwLock<Option<String>> = RwLock::new(None);

/// The environment variable that marks the commands of this process, and its value: the name of the undo journal. None if
/// this process has no journal. [`Argv`] sets the variable; callers that start commands in another way use this function.
pub fn journal_variable() -> Option<(&'static str, String)> {
    let journal = JOURNAL_NAME.read().unwrap_or_else(PoisonError::into_inner).clone();
    journal.map(|journal| (crate::process::JOURNAL_VARIABLE, journal))
}

/// Sets the name of the undo journal that later commands, and their descendants, have in their environment. If fsarena is
/// killed, `fsarena recover` finds the commands by that name.
pub(crate) fn set_journal_name(journal: &str) {
    *JOURNAL_NAME.write().unwrap_or_else(PoisonError::into_inner) = Some(journal.to_string());
}

/// A command to run: program, arguments, and where its streams go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Argv {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    removed_env: Vec<OsString>,
    discards_stdout: bool,
    ignores_cancel: bool,
    writable_paths: Option<Vec<PathBuf>>,
    user: Option<User>,
}

/// The result of a command that ended: status, resource usage and output.
#[derive(Debug, Clone)]
pub struct FinishedCommand {
    /// Its exit status.
    pub status: ExitStatus,
    /// The time from just before its start until fsarena has reaped it (wait4(2)).
    pub elapsed: Duration,
    /// Its peak memory (`ru_maxrss`) in bytes.
    pub max_rss_bytes: u64,
    /// Its standard output; empty after [`Argv::discard_stdout`].
    pub stdout: String,
    /// The last 4 KiB of its standard error.
    pub stderr: String,
}

impl Argv {
    /// A command without arguments. Standard input is empty, standard output is kept.
    pub fn new(program: impl AsRef<OsStr>) -> Argv {
        Argv { program: program.as_ref().into(), ..Argv::default() }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Argv {
        self.args.push(arg.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Argv {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_os_string()));
        self
    }

    /// Sets the working directory.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Argv {
        self.cwd = Some(dir.as_ref().into());
        self
    }

    /// Discards standard output.
    pub fn discard_stdout(mut self) -> Argv {
        self.discards_stdout = true;
        self
    }

    /// Sets a variable in its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Argv {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Removes variables of this process from its environment.
    pub fn remove_env<S: AsRef<OsStr>>(mut self, names: impl IntoIterator<Item = S>) -> Argv {
        self.removed_env.extend(names.into_iter().map(|name| name.as_ref().to_os_string()));
        self
    }

    /// Lets the command run to its end even if a signal interrupts fsarena. For commands that clean up.
    pub fn ignore_cancel(mut self) -> Argv {
        self.ignores_cancel = true;
        self
    }

    /// Runs the command as another user, in the main group of that user only; None keeps the user of this process.
    pub fn user(mut self, user: Option<User>) -> Argv {
        self.user = user;
        self
    }

    /// Lets the command write to these files and devices only, if the kernel can enforce that ([`has_landlock`]). The
    /// command gets only those environment variables of this process that cannot name another file to write.
    pub fn confine_writes_to<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Argv {
        self.writable_paths = Some(paths.into_iter().map(|path| path.as_ref().into()).collect());
        self
    }

    /// The program and its arguments, each as text, for logs.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program).chain(&self.args).map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Runs the command and waits for its end, whatever its exit status.
    ///
    /// It runs in a separate process group, so that Ctrl-C reaches it only through fsarena, which kills the
    /// whole group.
    ///
    /// # Errors
    /// The command cannot be started, or a signal interrupted fsarena.
    pub fn run(&self) -> Result<FinishedCommand, CommandError> {
        let _deferred_signals = crate::cancel::defer_signals();
        self.check_cancelled()?;
        let start_error = |source: io::Error| {
            let program = self.program.to_string_lossy().into_owned();
            match source.kind() {
                io::ErrorKind::NotFound => CommandError::NotFound { program },
                _ => CommandError::NotStarted { program, source },
            }
        };
        // Files instead of pipes: fsarena does not have to read while the command is timed.
        let mut out = (!self.discards_stdout).then(|| make_memory_file("stdout")).transpose().map_err(start_error)?;
        let mut err = make_memory_file("stderr").map_err(start_error)?;
        let mut command = self.build_command();
        command.stdout(match &out {
            Some(file) => file.try_clone().map_err(start_error)?.into(),
            None => Stdio::null(),
        });
        command.stderr(err.try_clone().map_err(start_error)?);
        let spawned = match &self.writable_paths {
            Some(paths) => spawn_confined(&mut command, paths),
            None => {
                let start = Instant::now();
                limits::spawn(&mut command).map(|child| (start, child))
            }
        };
        let (start, child) = spawned.map_err(|error| start_error(self.name_missing_cwd(error)))?;
        if !self.ignores_cancel {
            wait_or_kill_group(&child);
        }
        let (status, max_rss_bytes) = reap(child).map_err(start_error)?;
        let elapsed = start.elapsed();
        if status.signal() == Some(libc::SIGKILL) {
            self.check_cancelled()?;
        }
        let stdout = match &mut out {
            Some(file) => read_tail(file, u64::MAX).map_err(start_error)?,
            None => String::new(),
        };
        let stderr = read_tail(&mut err, 4096).map_err(start_error)?;
        Ok(FinishedCommand { status, elapsed, max_rss_bytes, stdout, stderr })
    }

    /// The error of starting the command. The system reports a missing working directory like a missing program; the result
    /// names the directory instead.
    fn name_missing_cwd(&self, error: io::Error) -> io::Error {
        match self.cwd.as_ref().filter(|dir| error.kind() == io::ErrorKind::NotFound && !dir.is_dir()) {
            Some(dir) => io::Error::other(format!("its working directory {dir:?} does not exist")),
            None => error,
        }
    }

    /// The command with its arguments, environment and directory; the caller sets its output.
    fn build_command(&self) -> Command {
        let fetched_command = program::fetched_command(&self.program);
        let program_words = fetched_command.unwrap_or_else(|| vec![self.program.clone()]);
        let mut command = Command::new(&program_words[0]);
        command.args(&program_words[1..]).args(&self.args).stdin(Stdio::null()).process_group(0);
        if self.writable_paths.is_some() {
            command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_safe_variable(name)));
        }
        for name in &self.removed_env {
            command.env_remove(name);
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value))).envs(journal_variable());
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Runs the command, logs it, and returns an error if its exit code is not 0.
    ///
    /// # Errors
    /// The command cannot be started or fails; the message contains its output.
    pub fn run_checked(&self, log: &mut dyn FnMut(CommandRecord)) -> Result<FinishedCommand, CommandError> {
        let finished = self.run()?;
        log(self.log_record(&finished));
        self.check_success(finished)
    }

    /// Returns an error if a signal interrupted fsarena, unless this command ignores that.
    fn check_cancelled(&self) -> Result<(), CommandError> {
        match crate::cancel::received_signal() {
            Some(signal) if !self.ignores_cancel => {
                Err(CommandError::Interrupted { program: self.program.to_string_lossy().into_owned(), signal })
            }
            _ => Ok(()),
        }
    }

    /// The log entry of a finished command.
    pub fn log_record(&self, finished: &FinishedCommand) -> CommandRecord {
        CommandRecord {
            argv: self.words(),
            times: 1,
            last: None,
            cwd: self.cwd.as_ref().map(|dir| dir.to_string_lossy().into_owned()),
            ended: finished.ended(),
            ms: finished.elapsed.as_millis() as u64,
            output: None,
        }
    }

    /// Returns the finished command, or an error with its output if it failed.
    ///
    /// # Errors
    /// The command did not exit with 0.
    pub fn check_success(&self, finished: FinishedCommand) -> Result<FinishedCommand, CommandError> {
        if finished.status.success() {
            return Ok(finished);
        }
        let output = match finished.stderr.trim() {
            "" => finished.stdout.trim(),
            stderr => stderr,
        };
        Err(CommandError::Failed {
            command: self.words().join(" "),
            ended: finished.ended(),
            output: describe_output(output).into(),
        })
    }
}

/// How a command ended, by its exit status.
pub fn command_end(status: ExitStatus) -> CommandEnd {
    match status.signal() {
        Some(signal) => CommandEnd::Signal(signal),
        None => CommandEnd::Exit(status.code().unwrap_or(-1)),
    }
}

impl FinishedCommand {
    /// How it ended.
    pub fn ended(&self) -> CommandEnd {
        command_end(self.status)
    }
}

/// Waits until a child ends; kills its process group if a signal interrupts fsarena.
fn wait_or_kill_group(child: &Child) {
    // Without pidfds (Linux before 5.3) fsarena lets the command run to its end.
    let Ok(pidfd) = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return };
    // A signal ends the poll, but it may arrive just before the poll, or in another thread.
    let poll_interval = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&poll_interval)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
        if crate::cancel::received_signal().is_some() {
            process::kill_group_of(child);
        }
    }
}

/// Waits for a child and returns its status and its peak memory in bytes. It calls wait4(2), the only system call that
/// reports the peak memory of a single child; neither rustix nor nix offers it.
fn reap(child: Child) -> io::Result<(ExitStatus, u64)> {
    let mut status = 0;
    loop {
        // SAFETY: rusage is plain data for which all-zero is valid, and both pointers are to live locals; the pid is that
        // of our own unreaped child.
        let (result, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage), usage)
        };
        match result {
            -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            -1 => return Err(io::Error::last_os_error()),
            _ => return Ok((ExitStatus::from_raw(status), usage.ru_maxrss as u64 * 1024)),
        }
    }
}

/// The Landlock rights that fsarena requests. An older kernel enforces those that it has.
const LANDLOCK_ABI: ABI = ABI::V5;
/// Devices that store no data, which every confined command may write to. mkfs.btrfs registers the members of an array with
/// `/dev/btrfs-control`.
const DATALESS_DEVICES: [&str; 2] = ["/dev/null", "/dev/btrfs-control"];
/// The environment variables of this process that a confined command gets. Others could name a file that the command then
/// writes.
const SAFE_VARIABLES: [&str; 7] = ["PATH", "HOME", "LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "SOURCE_DATE_EPOCH"];
/// The beginnings of further environment variables that a confined command gets.
const SAFE_VARIABLE_PREFIXES: [&str; 2] = ["LC_", "FSARENA_"];

/// Whether this kernel has Landlock, which confines commands.
pub fn has_landlock() -> bool {
    let required = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    required.handle_access(AccessFs::WriteFile).and_then(Ruleset::create).is_ok()
}

/// Whether a confined command gets this environment variable.
fn is_safe_variable(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    SAFE_VARIABLES.contains(&name.as_ref()) || SAFE_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Starts a command that can write only to these paths. Returns the start time and the child.
///
/// Landlock restricts the calling thread and its children, so a separate thread starts the command.
fn spawn_confined(command: &mut Command, writable_paths: &[PathBuf]) -> io::Result<(Instant, Child)> {
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            restrict_writes_of_this_thread(writable_paths)?;
            let start = Instant::now();
            Ok((start, limits::spawn(command)?))
        });
        starter.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    })
}

/// Lets this thread and the processes that it starts write only to these paths and to [`DATALESS_DEVICES`].
fn restrict_writes_of_this_thread(writable_paths: &[PathBuf]) -> io::Result<()> {
    let dataless = DATALESS_DEVICES.iter().map(Path::new).filter(|path| path.exists());
    let paths = writable_paths.iter().map(PathBuf::as_path).chain(dataless);
    let path_fds = paths.map(PathFd::new).collect::<Result<Vec<_>, _>>().map_err(io::Error::other)?;
    let write_access = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let rules = path_fds.into_iter().map(|fd| Ok::<_, landlock::RulesetError>(PathBeneath::new(fd, write_access)));
    let ruleset = Ruleset::default().handle_access(AccessFs::from_write(LANDLOCK_ABI)).and_then(Ruleset::create);
    let restricted = ruleset.and_then(|ruleset| ruleset.add_rules(rules)?.restrict_self());
    restricted.map(drop).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script that may write to one file only; returns whether it succeeded.
    fn run_confined(target: &Path, script: &str) -> bool {
        let shell = Argv::new("sh").args(["-c", script, "sh"]).arg(target);
        shell.confine_writes_to([target]).run().unwrap().status.success()
    }

    #[test]
    fn a_removed_variable_is_not_in_the_environment() {
        let has_path = |argv: Argv| argv.run().unwrap().stdout.lines().any(|line| line.starts_with("PATH="));
        assert!(has_path(Argv::new("/usr/bin/env")));
        assert!(!has_path(Argv::new("/usr/bin/env").remove_env(["PATH"])));
    }

    #[test]
    fn a_confined_command_can_write_only_to_its_target() {
        if !has_landlock() {
            crate::testkit::record_skip("this kernel has no Landlock");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let [target, victim] = ["target", "victim"].map(|name| dir.path().join(name));
        std::fs::write(&target, "old").unwrap();
        std::fs::write(&victim, "data").unwrap();
        let victim_path = victim.display();
        assert!(run_confined(&target, "echo new > \"$1\" && cat \"$1\" > /dev/null"));
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "new\n");
        for script in [
            format!("echo new > {victim_path}"),
            format!("echo new >> {victim_path}"),
            format!("truncate -s 0 {victim_path}"),
            format!("rm -f {victim_path}"),
            format!("mv \"$1\" {victim_path}"),
            format!("ln -sf \"$1\" {victim_path}"),
            format!("touch {victim_path}.new"),
            format!("mkdir {victim_path}.dir"),
            // A node of the same device elsewhere would be a second way to it.
            format!("mknod {victim_path}.node b 7 0"),
        ] {
            assert!(!run_confined(&target, &script), "{script}");
            assert_eq!(std::fs::read_to_string(&victim).unwrap(), "data", "{script}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        // Reading is allowed, and this process is not confined.
        assert!(run_confined(&target, &format!("cat {victim_path}")));
        std::fs::write(&victim, "more").unwrap();
    }

    #[test]
    fn a_missing_working_directory_is_not_reported_as_a_missing_program() {
        let error = Argv::new("true").cwd("/no/such/dir").run().unwrap_err().to_string();
        assert_eq!(error, "true could not be started: its working directory \"/no/such/dir\" does not exist");
        let error = Argv::new("no-such-program-anywhere").cwd("/").run().unwrap_err();
        assert!(matches!(error, CommandError::NotFound { .. }), "{error}");
    }

    #[test]
    fn a_confined_command_gets_no_variable_that_names_a_file() {
        let stdout_of = |argv: Argv| argv.env("E2FSPROGS_UNDO_DIR", "here").run().unwrap().stdout;
        assert!(stdout_of(Argv::new("env")).contains("CARGO_MANIFEST_DIR="));
        let target = Path::new("/dev/null");
        let environment = stdout_of(Argv::new("env").confine_writes_to([target]));
        assert!(environment.contains("PATH=") && !environment.contains("CARGO_MANIFEST_DIR="), "{environment}");
        // A variable that fsarena itself sets stays.
        assert!(environment.contains("E2FSPROGS_UNDO_DIR=here"), "{environment}");
    }
}
