//! A counter that runs a command for each reading, and reads the number that it prints.

use crate::watch::counter::{Counter, CounterError, WatchError};
use fsarena_sys::wait::{Cancel, wait_until};
use fsarena_sys::{CommandError, argv, limits, process, program, user::User};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io::Read, os::unix::process::CommandExt};

/// The number of bytes of a command's output that fsarena keeps.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// A counter that runs a command without a shell.
pub struct CommandCounter {
    argv: Vec<String>,
    timeout: Duration,
}

impl CommandCounter {
    /// The counter of a program with its arguments.
    ///
    /// # Errors
    /// `argv` has no program.
    pub fn new(argv: &[String], timeout: Duration) -> Result<CommandCounter, WatchError> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(WatchError::Usage("a command counter needs a command: `-- PROGRAM ARGUMENT …`".into()));
        }
        Ok(CommandCounter { argv: argv.to_vec(), timeout })
    }

    /// An error with the command before it.
    fn error(&self, why: impl std::fmt::Display) -> CounterError {
        CounterError(format!("{}: {why}", self.argv.join(" ")))
    }

    /// Runs the command. Returns its exit status and its output; `None` if it exceeded the timeout.
    fn run_command(&self) -> std::io::Result<Option<(ExitStatus, String)>> {
        let mut command = std::process::Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = limits::spawn(command.process_group(0))?;
        let output = read_output(&mut child, Instant::now() + self.timeout);
        // Kill the whole process group, because the command may have started further processes. Some can be left after
        // a success too, if they have closed the output.
        process::kill_group_of(&child);
        let status = child.wait()?;
        Ok(output?.map(|text| (status, text)))
    }
}

/// The output of a process until it ends; `None` if it has not ended at the deadline.
fn read_output(child: &mut Child, deadline: Instant) -> std::io::Result<Option<String>> {
    let mut text = Vec::new();
    let Some(mut stdout) = child.stdout.take() else { return Ok(None) };
    loop {
        if !wait_readable(&stdout, deadline)? {
            return Ok(None);
        }
        let mut chunk = [0; 4096];
        match stdout.read(&mut chunk)? {
            0 => break,
            // Read the rest and discard it, so that the command does not block on a full pipe.
            read if (text.len() as u64) < MAX_OUTPUT_BYTES => text.extend_from_slice(&chunk[..read]),
            _ => {}
        }
    }
    drop(stdout);
    let has_ended = match rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        Ok(pidfd) => wait_readable(&pidfd, deadline)?,
        // Without a pidfd (Linux before 5.3, or no descriptor is left) ask again and again.
        Err(_) => wait_until(deadline, Cancel::BySignal, || child.try_wait().ok().flatten()).is_ok(),
    };
    Ok(has_ended.then(|| String::from_utf8_lossy(&text).into_owned()))
}

/// Waits until a file is readable. Returns false at the deadline.
///
/// # Errors
/// The poll failed, or a signal requests the end.
fn wait_readable(file: &impl std::os::fd::AsFd, deadline: Instant) -> std::io::Result<bool> {
    loop {
        let time_left = deadline.saturating_duration_since(Instant::now());
        if time_left.is_zero() {
            return Ok(false);
        }
        let timeout = Timespec { tv_sec: time_left.as_secs() as i64, tv_nsec: i64::from(time_left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            // Not a timeout: the watch is about to end.
            Err(error @ rustix::io::Errno::INTR) if fsarena_sys::cancel::received_signal().is_some() => {
                return Err(error.into());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Counter for CommandCounter {
    fn check_before_watch(&self) -> Result<(), WatchError> {
        program::check_executable(&self.argv[0], &User::of_process()).map_err(|error| match error {
            CommandError::NotFound { .. } => WatchError::Unavailable(error.to_string()),
            error => WatchError::Usage(error.to_string()),
        })
    }

    fn read(&mut self) -> Result<f64, CounterError> {
        let timed_out = || self.error(format!("no end within {} ms", self.timeout.as_millis()));
        let (status, text) = self.run_command().map_err(|error| self.error(error))?.ok_or_else(timed_out)?;
        if !status.success() {
            return Err(self.error(format!("it failed ({})", argv::command_end(status))));
        }
        let number = text.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            self.error(format!("it printed {start:?}, not a number"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(argv: &[&str]) -> Result<f64, CounterError> {
        let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
        CommandCounter::new(&argv, Duration::from_millis(500)).unwrap().read()
    }

    #[test]
    fn the_first_number_of_the_output_counts() {
        assert_eq!(read(&["printf", "17\n"]), Ok(17.0));
        assert_eq!(read(&["echo", "1.5e3 requests"]), Ok(1500.0));
        // No shell expands an argument.
        assert!(read(&["echo", "$(echo 3)"]).unwrap_err().0.contains("not a number"));
    }

    #[test]
    fn a_process_that_a_command_leaves_behind_is_killed() {
        let pid = read(&["sh", "-c", "sleep 60 > /dev/null & echo $!"]).unwrap() as i32;
        let stat = || process::stat(&fsarena_sys::kernel::SysRoot::host(), pid).unwrap();
        let has_ended = || stat().is_none_or(|stat| stat.state == 'Z').then_some(());
        assert!(wait_until(Instant::now() + Duration::from_secs(10), Cancel::Never, has_ended).is_ok());
    }

    #[test]
    fn commands_that_hang_fail_or_are_missing_are_errors() {
        let error_of = |argv: &[&str]| read(argv).unwrap_err().0;
        assert!(error_of(&["sleep", "20"]).contains("within 500 ms"));
        assert!(error_of(&["yes", "x"]).contains("within 500 ms"));
        assert!(error_of(&["false"]).contains("it failed (exit 1)"));
        assert!(error_of(&["no-such-program-anywhere"]).contains("No such file"));
        assert!(CommandCounter::new(&[], Duration::ZERO).is_err());
    }
}
