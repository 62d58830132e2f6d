//! Runs a command of the user with a time limit and bounded output, and ends all processes that it leaves.

use crate::error::{Result, TaskError};
use crate::printed::{MetricRule, PrintedMetrics};
use fsarena_core::setting_text::setting;
use fsarena_core::{
    event::{CommandEnd, CommandRecord},
    sample::TaskOutput,
};
use fsarena_sys::{
    CommandError, argv, cancel, dirs::FilesystemSpace, kernel::SysRoot, limits, process,
    process_output::describe_output,
};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions};
use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The largest number of bytes of output. A command that prints more fails.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Bytes of output that an error shows.
const ERROR_OUTPUT_BYTES: usize = 4096;
/// Bytes of output that the log of commands keeps of a failed command.
const FAILED_LOG_BYTES: usize = 1 << 20;
/// Bytes of output that the log of commands keeps of a command that succeeded: few, because each cell runs several
/// commands.
const SUCCESS_LOG_BYTES: usize = 16 << 10;
/// How often fsarena checks for a signal and the time limit.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long processes that outlive their command may take to end by themselves.
const EXIT_TIMEOUT: Duration = Duration::from_millis(200);
/// Time limit for killed processes to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// A command with its directory, environment and time limit.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// Program and arguments; not empty.
    pub argv: Vec<String>,
    /// Its working directory, which is on the filesystem under test.
    pub dir: PathBuf,
    /// Environment variables besides those of fsarena.
    pub env: Vec<(String, OsString)>,
    /// Its time limit.
    pub time_limit: Duration,
    /// Rules that find metrics in its output, in addition to marked lines.
    pub metric_rules: Vec<MetricRule>,
}

/// The output that a running command has printed so far: its size, its last bytes and its metrics.
struct CommandOutput {
    reader: PipeReader,
    bytes: u64,
    tail: Vec<u8>,
    printed: PrintedMetrics,
}

impl Invocation {
    /// Runs and logs the command, and returns the metrics that it printed.
    ///
    /// # Errors
    /// If it cannot start, fails, takes too long, prints too much or an invalid metric, leaves a process, or removes its
    /// working directory.
    pub fn run_and_log(&self, log: &mut dyn FnMut(CommandRecord)) -> Result<TaskOutput> {
        let start = Instant::now();
        let (ended, CommandOutput { tail, printed, .. }) = self.run(start)?;
        let metrics = match &ended {
            CommandEnd::Exit(0) if self.dir.is_dir() => printed.finish().map_err(CommandEnd::Rejected),
            CommandEnd::Exit(0) => {
                Err(CommandEnd::Rejected("it removed its working directory on the filesystem under test".into()))
            }
            failure => Err(failure.clone()),
        };
        let logged_bytes = if metrics.is_ok() { SUCCESS_LOG_BYTES } else { FAILED_LOG_BYTES };
        let (argv, cwd) = (self.argv.clone(), Some(self.dir.display().to_string()));
        let output = Some(last_bytes(&tail, logged_bytes)).filter(|output| !output.is_empty());
        let ms = start.elapsed().as_millis() as u64;
        log(CommandRecord { argv, times: 1, last: None, cwd, ended, ms, output });
        let mut task_output = TaskOutput::default();
        let metrics = metrics.map_err(|ended| {
            let output = last_bytes(&tail, ERROR_OUTPUT_BYTES).trim().to_string();
            let output = format!("{}{}", describe_output(&output), failure_hint(&output, &self.dir));
            CommandError::Failed { command: self.argv.join(" "), ended, output }
        })?;
        for (info, value) in metrics {
            task_output.readings.set(&info.id, value);
            task_output.printed_metrics.push(info);
        }
        Ok(task_output)
    }

    /// Runs the command. Returns how it ended, and its output; see [`Invocation::run_and_log`] for errors.
    fn run(&self, start: Instant) -> Result<(CommandEnd, CommandOutput)> {
        let program = || self.argv[0].clone();
        let to_command_error = |source: io::Error| match (source.kind(), self.dir.is_dir()) {
            (io::ErrorKind::NotFound, true) => CommandError::NotFound { program: program() },
            _ => CommandError::NotStarted { program: program(), source },
        };
        let to_wait_error = |source: io::Error| TaskError::io(format!("wait for {}", self.argv[0]))(source);
        // From now on every process that outlives its parent becomes a child of this process, which can then reap it.
        // The argument is a switch of prctl(2), which rustix types as a pid: any pid turns it on.
        rustix::process::set_child_subreaper(Pid::from_raw(1)).map_err(|error| to_command_error(error.into()))?;
        let earlier_children = list_children(&SysRoot::host());
        let (reader, mut child) = self.spawn().map_err(to_command_error)?;
        let mut output =
            CommandOutput { reader, bytes: 0, tail: vec![], printed: PrintedMetrics::with_rules(&self.metric_rules) };
        let watched = self.watch(&child, &mut output, start);
        if !matches!(watched, Ok(None)) {
            process::kill_group_of(&child);
        }
        let status = child.wait().map_err(to_wait_error)?;
        let killed_survivors = reap_survivors(&earlier_children);
        // An error of `watch` is returned only now, so that the command and its processes have ended before.
        let kill_reason = watched.map_err(to_wait_error)?;
        output.read_rest();
        if let Some(signal) = cancel::received_signal() {
            return Err(CommandError::Interrupted { program: program(), signal }.into());
        }
        let ended = match kill_reason.or_else(|| output.excess_reason()) {
            Some(reason) => CommandEnd::Rejected(reason),
            None if status.success() && !killed_survivors.is_empty() => {
                CommandEnd::Rejected(format!("it left processes running: {}", killed_survivors.join(", ")))
            }
            None => argv::command_end(status),
        };
        Ok((ended, output))
    }

    fn spawn(&self) -> io::Result<(PipeReader, Child)> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).current_dir(&self.dir).process_group(0).stdin(Stdio::null());
        command.envs(self.env.iter().map(|(name, value)| (name, value))).envs(argv::journal_variable());
        command.stdout(writer.try_clone()?).stderr(writer);
        Ok((reader, limits::spawn(&mut command)?))
    }

    /// Reads the output until the command ends. Returns a reason if the caller must kill the command.
    fn watch(&self, child: &Child, output: &mut CommandOutput, start: Instant) -> io::Result<Option<String>> {
        let pidfd = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        let mut is_open = true;
        loop {
            // After its end the output is always readable and would keep this loop busy, so poll the pidfd instead.
            let output_or_end = if is_open { output.reader.as_fd() } else { pidfd.as_fd() };
            let [has_ended, is_readable] = poll_readable([pidfd.as_fd(), output_or_end], POLL_INTERVAL)?;
            if is_open && is_readable {
                is_open = output.read_piece()?;
            }
            if let Some(reason) = output.excess_reason() {
                return Ok(Some(reason));
            }
            if has_ended {
                return Ok(None);
            }
            // After a signal the caller returns `CommandError::Interrupted` instead of this reason.
            if start.elapsed() > self.time_limit || cancel::received_signal().is_some() {
                return Ok(Some(format!(
                    "it did not end within {} s ({})",
                    self.time_limit.as_secs_f64(),
                    setting("timeout", "")
                )));
            }
        }
    }
}

impl CommandOutput {
    /// Reads one piece of the output. Returns false at its end.
    fn read_piece(&mut self) -> io::Result<bool> {
        let mut piece = [0; 1 << 16];
        let piece_bytes = self.reader.read(&mut piece)?;
        self.bytes += piece_bytes as u64;
        self.tail.extend_from_slice(&piece[..piece_bytes]);
        self.printed.read_piece(&piece[..piece_bytes]);
        // Drain only at twice the size of the log, because draining moves all bytes that it keeps. Keep one byte more
        // than the log shows, so that the text of `last_bytes` begins with an ellipsis.
        if self.tail.len() > 2 * FAILED_LOG_BYTES {
            self.tail.drain(..self.tail.len() - FAILED_LOG_BYTES - 1);
        }
        Ok(piece_bytes > 0)
    }

    /// Why fsarena rejects a command with this output; `None` if it has printed at most [`MAX_OUTPUT_BYTES`].
    fn excess_reason(&self) -> Option<String> {
        (self.bytes > MAX_OUTPUT_BYTES).then(|| format!("it printed more than {} MiB", MAX_OUTPUT_BYTES >> 20))
    }

    fn is_readable(&self) -> bool {
        poll_readable([self.reader.as_fd()], Duration::ZERO).is_ok_and(|[is_readable]| is_readable)
    }

    /// Reads the rest of the pipe without waiting for a process that holds it open.
    fn read_rest(&mut self) {
        while self.bytes <= MAX_OUTPUT_BYTES && self.is_readable() && self.read_piece().unwrap_or(false) {}
    }
}

/// Waits until one of the descriptors is readable, at most `timeout`, which is below a second. Returns which are
/// readable.
fn poll_readable<const N: usize>(fds: [BorrowedFd; N], timeout: Duration) -> io::Result<[bool; N]> {
    let mut fds = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    let timeout = Timespec { tv_sec: 0, tv_nsec: timeout.subsec_nanos().into() };
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(fds.map(|fd| !fd.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

/// The last `max_bytes` bytes of an output as text. It begins with `…` if bytes are left out.
fn last_bytes(output: &[u8], max_bytes: usize) -> String {
    let start = output.len().saturating_sub(max_bytes);
    let ellipsis = if start > 0 { "…" } else { "" };
    format!("{ellipsis}{}", String::from_utf8_lossy(&output[start..]))
}

/// Waits for processes that outlived their command, kills those that do not end in time, and returns the names of the
/// killed ones. `earlier_children` are the children that this process had before the command, such as the program of a
/// layer: they stay, and those that end can still be waited for.
///
/// A process that `/proc` does not show cannot be killed. If only such processes are left, the list has one entry for
/// all of them. It has no entry if there are earlier children: wait(2) does not show whether other children are left.
fn reap_survivors(earlier_children: &[Pid]) -> Vec<String> {
    let sys_root = SysRoot::host();
    let start = Instant::now();
    let mut names = Vec::new();
    loop {
        let must_end = start.elapsed() > EXIT_TIMEOUT;
        let is_last_attempt = start.elapsed() > KILL_TIMEOUT;
        let mut survivors = vec![];
        if earlier_children.is_empty() {
            match rustix::process::wait(WaitOptions::NOHANG) {
                // One process is reaped; others may have ended too.
                Ok(Some(_)) => continue,
                Ok(None) if is_last_attempt && names.is_empty() => {
                    return vec!["a process that /proc does not show".into()];
                }
                Ok(None) if !is_last_attempt => {}
                // No child is left, or the killed processes do not end.
                _ => return names,
            }
            if must_end {
                survivors = list_children(&sys_root);
            }
        } else {
            survivors = list_children(&sys_root);
            // Waiting for any child could reap an earlier one, whose exit status belongs to the code that started it.
            survivors.retain(|pid| !earlier_children.contains(pid) && is_running(*pid));
            if survivors.is_empty() || is_last_attempt {
                return names;
            }
        }
        for pid in survivors.into_iter().filter(|_| must_end) {
            let name = process::describe(&sys_root, pid.as_raw_nonzero().get());
            // A killed process that has not ended yet is here again in the next iteration; name it once.
            if !names.contains(&name) {
                names.push(name);
            }
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a child still runs. Reaps one that has ended.
fn is_running(child: Pid) -> bool {
    matches!(rustix::process::waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// The children of this process that `/proc` shows, also those that have ended and are not reaped yet. Searches `/proc`
/// only if this process has children, because the search would count in the time of the task.
fn list_children(sys_root: &SysRoot) -> Vec<Pid> {
    let mut children = vec![];
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    if rustix::process::waitid(WaitId::All, options).is_err() {
        return children;
    }
    let own_pid = std::process::id() as i32;
    for pid in process::all_pids(sys_root).unwrap_or_default() {
        if process::stat(sys_root, pid).is_ok_and(|stat| stat.is_some_and(|stat| stat.ppid == own_pid)) {
            children.extend(Pid::from_raw(pid));
        }
    }
    children
}

/// Whether the filesystem of a path is mounted read-only; false if that is unknown.
pub fn is_mounted_read_only(path: &Path) -> bool {
    let stat = rustix::fs::statvfs(path);
    stat.is_ok_and(|stat| stat.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Advice for a failure that a full or read-only filesystem caused; empty for other failures.
pub fn failure_hint(output: &str, dir: &Path) -> String {
    let is_read_only = is_mounted_read_only(dir);
    let is_full = !is_read_only && FilesystemSpace::at_path(dir).is_ok_and(|space| space.is_full());
    if is_read_only && output.contains("Read-only file system") {
        "; the filesystem under test cannot be written to".into()
    } else if is_full || output.contains("No space left on device") {
        format!("; the filesystem is full: allow more room ({})", setting("size", ""))
    } else if output.contains("Read-only file system") {
        "; a task can write only to $FSARENA_DIR, $FSARENA_SOURCE and $TMPDIR".into()
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// The output of a command that has printed this number of bytes and ended.
    fn output_of(bytes: usize) -> CommandOutput {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut output = CommandOutput { reader, bytes: 0, tail: vec![], printed: PrintedMetrics::default() };
        let writing = std::thread::spawn(move || writer.write_all(&vec![b'x'; bytes]));
        while output.read_piece().unwrap() {}
        writing.join().unwrap().unwrap();
        output
    }

    #[test]
    fn a_shortened_output_begins_with_an_ellipsis() {
        // The last byte makes `read_piece` drain the tail.
        let output = output_of(2 * FAILED_LOG_BYTES + 1);
        assert!(last_bytes(&output.tail, FAILED_LOG_BYTES).starts_with('…'));
        assert!(!last_bytes(&output_of(FAILED_LOG_BYTES).tail, FAILED_LOG_BYTES).starts_with('…'));
    }

    #[test]
    fn too_much_output_is_rejected_even_if_the_last_bytes_arrive_after_the_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let printed = PrintedMetrics::default();
        let mut output = CommandOutput { reader, bytes: MAX_OUTPUT_BYTES, tail: vec![], printed };
        assert_eq!(output.excess_reason(), None);
        writer.write_all(b"x").unwrap();
        drop(writer);
        output.read_rest();
        assert!(output.excess_reason().unwrap().contains("more than 64 MiB"));
    }
}
