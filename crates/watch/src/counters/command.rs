//! A number that a command prints.

use crate::Error;
use crate::counters::{Counter, Trouble};
use fsarena_sys::{argv, limits, process, program, user::User};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{io::Read, os::unix::process::CommandExt};

/// The maximum number of bytes to read of a command's output.
const MOST: u64 = 64 << 10;

/// A command, run for each reading by its argument vector, without a shell.
pub struct Command {
    argv: Vec<String>,
    timeout: Duration,
}

impl Command {
    /// The command of an argument vector.
    ///
    /// # Errors
    /// Where there is none.
    pub fn new(argv: &[String], timeout: Duration) -> Result<Command, Error> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(Error::Usage("a command counter needs a command: `-- PROGRAM ARGUMENT …`".into()));
        }
        Ok(Command { argv: argv.to_vec(), timeout })
    }

    fn say(&self, what: impl std::fmt::Display) -> Trouble {
        Trouble::new(format!("{}: {what}", self.argv.join(" ")))
    }

    fn run(&self) -> std::io::Result<Option<(bool, String)>> {
        let mut command = std::process::Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = limits::spawn(command.process_group(0))?;
        let output = read_to_the_end(&mut child, Instant::now() + self.timeout);
        // Its children belong to its process group; the watch does not wait for them.
        if !matches!(output, Ok(Some(_))) {
            process::kill_group_of(&child);
        }
        let status = child.wait()?;
        Ok(output?.map(|text| (status.success(), text)))
    }
}

/// What it prints until it ends; None where it takes too long.
fn read_to_the_end(child: &mut Child, until: Instant) -> std::io::Result<Option<String>> {
    let mut text = Vec::new();
    let Some(mut stdout) = child.stdout.take() else { return Ok(None) };
    loop {
        if !ready(&stdout, until)? {
            return Ok(None);
        }
        let mut piece = [0; 4096];
        match stdout.read(&mut piece)? {
            0 => break,
            // What floods is read on and forgotten, so that it can end.
            read if (text.len() as u64) < MOST => text.extend_from_slice(&piece[..read]),
            _ => {}
        }
    }
    drop(stdout);
    let gone = match rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty()) {
        Ok(pidfd) => ready(&pidfd, until)?,
        // Without pidfds (Linux before 5.3): it has closed its output, so it is about to end.
        Err(_) => true,
    };
    Ok(gone.then(|| String::from_utf8_lossy(&text).into_owned()))
}

fn ready(file: &impl std::os::fd::AsFd, until: Instant) -> std::io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) if fsarena_sys::cancel::requested().is_some() => return Ok(false),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Counter for Command {
    fn check(&self) -> Result<(), Error> {
        program::check(&self.argv[0], &User::of_process()).map_err(|error| match error {
            argv::Error::NotFound { .. } => Error::Missing(error.to_string()),
            error => Error::Usage(error.to_string()),
        })
    }

    fn read(&mut self) -> Result<f64, Trouble> {
        let late = || self.say(format!("no end within {} ms", self.timeout.as_millis()));
        let (success, text) = self.run().map_err(|error| self.say(error))?.ok_or_else(late)?;
        if !success {
            return Err(self.say("it failed"));
        }
        let number = text.split_ascii_whitespace().next().and_then(|word| word.parse::<f64>().ok());
        number.filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            self.say(format!("it printed {start:?}, not a number"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(argv: &[&str]) -> Result<f64, Trouble> {
        let argv: Vec<String> = argv.iter().map(|word| word.to_string()).collect();
        Command::new(&argv, Duration::from_millis(500)).unwrap().read()
    }

    #[test]
    fn the_first_number_counts() {
        assert_eq!(read(&["printf", "17\n"]), Ok(17.0));
        assert_eq!(read(&["echo", "1.5e3 requests"]), Ok(1500.0));
        // No shell expands an argument.
        assert!(read(&["echo", "$(echo 3)"]).unwrap_err().0.contains("not a number"));
    }

    #[test]
    fn a_command_that_hangs_floods_fails_or_is_not_there_is_told() {
        let said = |argv: &[&str]| read(argv).unwrap_err().0;
        assert!(said(&["sleep", "20"]).contains("within 500 ms"));
        assert!(said(&["yes", "x"]).contains("within 500 ms"));
        assert!(said(&["false"]).contains("failed"));
        assert!(said(&["no-such-program-anywhere"]).contains("No such file"));
        assert!(Command::new(&[], Duration::ZERO).is_err());
    }
}
