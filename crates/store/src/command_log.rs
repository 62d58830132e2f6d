//! The command log of a run: one JSON object per line, written as each command ends.

use crate::{Error, Result, insert::to_json};
use fsarena_core::{cell::CellId, event::CommandRecord, record::CommandLogLine};
use fsarena_sys::lock::{LockedFile, describe_lock_holders};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{input, kernel::SysRoot, none_if_missing};
use jiff::Timestamp;
use serde::Serialize;
use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The open command log. Its lock keeps other writers away from the run.
pub struct CommandLog {
    file: LockedFile,
    path: PathBuf,
}

impl CommandLog {
    /// Opens the log to append to it, and locks it until the value is dropped or the process dies.
    ///
    /// # Errors
    /// [`Error::Busy`] if another process has it locked.
    pub fn open(path: &Path) -> Result<CommandLog> {
        let opened = input::open_with(path, File::options().read(true).append(true).create(true));
        let mut file = opened.map_err(Error::io("opening", path))?;
        lock(&file, path)?;
        input::end_torn_line(&mut file).map_err(Error::io("writing", path))?;
        Ok(CommandLog { file: LockedFile::new(file), path: path.into() })
    }

    /// Appends one command with the current time.
    pub fn append(&mut self, cell: Option<&CellId>, command: &CommandRecord) -> Result<()> {
        let ended_at = format!("{:.3}", Timestamp::now());
        let line = CommandLogLine { ended_at, cell: cell.map(CellId::to_string), command: command.clone() };
        self.append_lines(&to_json_line(&line))
    }

    /// Appends complete lines in one write, so that a crash seldom tears a line.
    pub fn append_lines(&mut self, lines: &str) -> Result<()> {
        (&*self.file).write_all(lines.as_bytes()).map_err(Error::io("writing", &self.path))
    }
}

/// Locks the log. Tries for up to [`LOCK_TIMEOUT`], because a process that calls [`is_locked`] also holds the lock for a
/// moment.
fn lock(file: &File, path: &Path) -> Result<()> {
    // Some network filesystems do not support locks: the run then continues without a lock.
    let try_lock = || (!matches!(file.try_lock(), Err(TryLockError::WouldBlock))).then_some(());
    wait_until(Instant::now() + LOCK_TIMEOUT, Cancel::Never, try_lock).map_err(|_| {
        let holder = describe_lock_holders(&SysRoot::host(), file);
        Error::Busy(path.parent().unwrap_or(path).into(), holder)
    })
}

/// How long fsarena tries to lock the log before it reports that another process is writing the run.
const LOCK_TIMEOUT: Duration = Duration::from_millis(25);
/// The longest line of the command log that fsarena reads, in bytes. An argument vector may have two megabytes; a damaged log
/// may consist of one endless line.
const MAX_LINE_BYTES: u64 = 4 << 20;

/// Calls `visit` with every command of a log, and skips damaged lines; see [`crate::for_each_command`].
pub fn read_commands(path: &Path, visit: &mut dyn FnMut(&CommandLogLine)) -> Result<()> {
    let Some(file) = none_if_missing(input::open(path)).map_err(Error::io("opening", path))? else { return Ok(()) };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        if length.map_err(Error::io("reading", path))? == 0 {
            return Ok(());
        }
        if let Ok(command) = serde_json::from_slice(&line) {
            visit(&command);
        }
    }
}

/// Whether a process is writing the run that this command log belongs to.
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = input::open(path) else { return false };
    let is_locked = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    // Releases the shared lock now, because a process that is being started would keep it after the file is closed.
    drop(LockedFile::new(file));
    is_locked
}

/// Serializes a value as one line of JSON. It must be plain data with text keys, which never fails to serialize.
pub fn to_json_line(value: &impl Serialize) -> String {
    to_json(value) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::event::CommandEnd;

    fn touch_command() -> CommandRecord {
        let argv = vec!["touch".into(), "a\nb".into()];
        CommandRecord { argv, times: 2, last: None, cwd: None, ended: CommandEnd::Exit(0), ms: 3, output: None }
    }

    #[test]
    fn each_command_is_one_line_even_after_a_torn_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("command.log");
        std::fs::write(&path, "{\"at\":").unwrap();
        CommandLog::open(&path).unwrap().append(Some(&CellId("c1".into())), &touch_command()).unwrap();
        CommandLog::open(&path).unwrap().append(None, &touch_command()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        let logged: serde_json::Value = serde_json::from_str(lines[1]).unwrap();
        let mut commands = Vec::new();
        read_commands(&path, &mut |line| commands.push(line.clone())).unwrap();
        assert_eq!(commands.len(), 2, "the torn line is skipped");
        assert_eq!((commands[0].cell.as_deref(), &commands[1].command), (Some("c1"), &touch_command()));
        assert_eq!(logged["cell"], "c1");
        assert_eq!(logged["command"]["argv"][1], "a\nb");
        assert!(logged["at"].as_str().unwrap().ends_with('Z'));
        assert_eq!(serde_json::from_str::<serde_json::Value>(lines[2]).unwrap()["cell"], serde_json::Value::Null);
    }

    #[test]
    fn only_one_process_can_open_the_command_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("command.log");
        let first = CommandLog::open(&path).unwrap();
        assert!(is_locked(&path));
        assert!(matches!(CommandLog::open(&path), Err(Error::Busy { .. })));
        drop(first);
        assert!(!is_locked(&path));
        CommandLog::open(&path).unwrap();
    }
}
