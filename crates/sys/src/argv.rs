//! External commands: argument vectors, never shell strings; every one of them logged.

mod child;
mod confine;
mod error;

pub use confine::available as can_confine;
pub use error::Error;

use crate::limits;
use crate::said::{shown, tail};
use crate::user::User;
pub use child::memory_file;
use child::{kill_when_asked, reap};
use fsarena_core::event::CommandRecord;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The undo journal that commands belong to.
static MARK: RwLock<Option<String>> = RwLock::new(None);

/// The variable and value that mark this process's commands; for a command that is started otherwise.
pub fn mark() -> Option<(&'static str, String)> {
    let journal = MARK.read().unwrap_or_else(PoisonError::into_inner).clone();
    journal.map(|journal| (crate::process::MARK, journal))
}

/// From now on every command carries the name of this journal in its environment, and so does all that
/// it starts: after a SIGKILL of fsarena, `fsarena recover` finds its commands by that name.
pub(crate) fn mark_commands(journal: &str) {
    *MARK.write().unwrap_or_else(PoisonError::into_inner) = Some(journal.to_string());
}

/// A command to run: program, arguments, and where its streams go.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Argv {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    env: Vec<(OsString, OsString)>,
    quiet: bool,
    to_the_end: bool,
    writes_only: Option<Vec<PathBuf>>,
    user: Option<User>,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// The time from before it was started to after it was reaped.
    pub elapsed: Duration,
    /// Its peak memory (`ru_maxrss`) in bytes.
    pub max_rss_bytes: u64,
    /// Its standard output, if that was kept.
    pub stdout: String,
    /// The last 4 KiB of its standard error.
    pub stderr: String,
}

impl Argv {
    /// A command without arguments. Standard input is empty, standard output is kept.
    pub fn new(program: impl AsRef<OsStr>) -> Argv {
        Argv { program: program.as_ref().into(), ..Argv::default() }
    }

    /// With one more argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Argv {
        self.args.push(arg.as_ref().into());
        self
    }

    /// With more arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Argv {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_os_string()));
        self
    }

    /// Run in this directory.
    pub fn cwd(mut self, dir: impl AsRef<Path>) -> Argv {
        self.cwd = Some(dir.as_ref().into());
        self
    }

    /// Throw standard output away.
    pub fn quiet(mut self) -> Argv {
        self.quiet = true;
        self
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Argv {
        self.env.push((name.as_ref().into(), value.as_ref().into()));
        self
    }

    /// Run it to its end even after a signal asked fsarena to stop. For what cleans up.
    pub fn to_the_end(mut self) -> Argv {
        self.to_the_end = true;
        self
    }

    /// Run it as another user; of the groups only the main one.
    pub fn user(mut self, user: Option<User>) -> Argv {
        self.user = user;
        self
    }

    /// Let it write to these files and devices and to nothing else, where the kernel can enforce that
    /// ([`can_confine`]); and give it no environment variable of the user that could name another file.
    pub fn writes_only<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Argv {
        self.writes_only = Some(paths.into_iter().map(|path| path.as_ref().into()).collect());
        self
    }

    /// The vector as text, for logs.
    pub fn words(&self) -> Vec<String> {
        std::iter::once(&self.program)
            .chain(&self.args)
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    /// Runs the command to its end, whatever that is.
    ///
    /// It runs in a separate process group, so that Ctrl-C reaches it only through fsarena, which kills the
    /// whole group.
    ///
    /// # Errors
    /// Where it cannot be started, or a signal asked fsarena to stop.
    pub fn run(&self) -> Result<Finished, Error> {
        let _in_order = crate::cancel::in_order();
        self.go_on()?;
        let start_error = |source: std::io::Error| {
            let program = self.program.to_string_lossy().into_owned();
            match source.kind() {
                std::io::ErrorKind::NotFound => Error::NotFound { program },
                _ => Error::Start { program, source },
            }
        };
        // Files instead of pipes: fsarena need not read while the command is timed.
        let mut out = (!self.quiet).then(|| memory_file("stdout")).transpose().map_err(start_error)?;
        let mut err = memory_file("stderr").map_err(start_error)?;
        let mut command = self.command();
        command.stdout(match &out {
            Some(file) => file.try_clone().map_err(start_error)?.into(),
            None => Stdio::null(),
        });
        command.stderr(err.try_clone().map_err(start_error)?);
        let started = match &self.writes_only {
            Some(paths) => confine::spawn(&mut command, paths),
            None => {
                let begun = Instant::now();
                limits::spawn(&mut command).map(|child| (begun, child))
            }
        };
        let (begun, child) = started.map_err(start_error)?;
        if !self.to_the_end {
            kill_when_asked(&child);
        }
        let (status, max_rss_bytes) = reap(child).map_err(start_error)?;
        let elapsed = begun.elapsed();
        if status.signal() == Some(libc::SIGKILL) {
            self.go_on()?;
        }
        let stdout =
            out.as_mut().map_or(Ok(String::new()), |file| tail(file, u64::MAX)).map_err(start_error)?;
        let stderr = tail(&mut err, 4096).map_err(start_error)?;
        Ok(Finished { status, elapsed, max_rss_bytes, stdout, stderr })
    }

    /// The command with its arguments, environment and directory; its output goes where the caller says.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).process_group(0);
        if self.writes_only.is_some() {
            command.env_clear().envs(std::env::vars_os().filter(|(name, _)| confine::keeps(name)));
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value))).envs(mark());
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Runs the command, logs it, and expects success.
    ///
    /// # Errors
    /// Where it cannot be started or fails; the message has the command's own words.
    pub fn expect(&self, log: &mut dyn FnMut(CommandRecord)) -> Result<Finished, Error> {
        let finished = self.run()?;
        log(self.record(&finished));
        self.check(finished)
    }

    /// An error where a signal asked fsarena to stop and this command may be stopped.
    fn go_on(&self) -> Result<(), Error> {
        match crate::cancel::requested() {
            Some(signal) if !self.to_the_end => {
                Err(Error::Interrupted { program: self.program.to_string_lossy().into_owned(), signal })
            }
            _ => Ok(()),
        }
    }

    /// The log entry of a finished command.
    pub fn record(&self, finished: &Finished) -> CommandRecord {
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

    /// Passes on a success; makes an error of a failure.
    ///
    /// # Errors
    /// Where the command did not exit with 0.
    pub fn check(&self, finished: Finished) -> Result<Finished, Error> {
        if finished.status.success() {
            return Ok(finished);
        }
        let said = match finished.stderr.trim() {
            "" => finished.stdout.trim(),
            said => said,
        };
        Err(Error::Failed {
            command: self.words().join(" "),
            ended: finished.ended(),
            said: shown(said).into(),
        })
    }
}

impl Finished {
    /// `exit 0`, `signal 9`.
    pub fn ended(&self) -> String {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => self.status.to_string(),
        }
    }
}
