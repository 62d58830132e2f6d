//! Stops a run at one moment, by a program on `PATH` that waits until the test lets it continue; and runs in the background.

use super::Sandbox;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs::File, io::Write, os::unix::process::ExitStatusExt};

/// The time after which a test that waits fails. Nothing here takes as long.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Whether a program waits before it does its work or after it.
#[derive(Clone, Copy)]
pub enum When {
    Before,
    After,
}

/// How long a run may take to clean up after a test that failed.
const CLEAN_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a program may come to its gate: the turns, of one byte each, fit into a pipe.
const MAX_TURNS: usize = 60_000;

/// A gate in front of a program: the program stops there once, or every time. It only reads from the gate, because mkfs may
/// write to nothing but its device.
pub struct Gate {
    dir: PathBuf,
    /// The pipe from which a stopped program reads until the gate is opened.
    go: File,
    /// The pipe with the turns. Kept open, so that reading from it never waits for a writer.
    _turns: File,
    /// The process that stopped last.
    pub stopped_pid: i32,
}

impl Gate {
    /// Stops the program when its arguments match a shell pattern, after `skip` earlier matches.
    pub fn new(sandbox: &Sandbox, when: When, program: &str, pattern: &str, skip: usize) -> Gate {
        let turns = [vec![b'p'; skip], vec![b's'], vec![b'p'; MAX_TURNS]].concat();
        Gate::with_turns(sandbox, when, program, pattern, &turns)
    }

    /// Stops the program whenever its arguments match a shell pattern.
    pub fn every_time(sandbox: &Sandbox, when: When, program: &str, pattern: &str) -> Gate {
        Gate::with_turns(sandbox, when, program, pattern, &[b's'; MAX_TURNS])
    }

    /// Makes the gate. Each call of the program that matches takes one byte of `turns`: `s` to stop, `p` to pass.
    fn with_turns(sandbox: &Sandbox, when: When, program: &str, pattern: &str, turns: &[u8]) -> Gate {
        let dir = sandbox.dir.join(format!("gate-{program}"));
        std::fs::create_dir(&dir).unwrap();
        let (turns_pipe, go) = (fifo(&dir.join("turns")), fifo(&dir.join("go")));
        (&turns_pipe).write_all(turns).unwrap();
        let stop = "read -r _ < \"$GATE/go\"";
        let body = match when {
            When::Before => format!("{stop}; exec \"$REAL\" \"$@\""),
            When::After => format!("\"$REAL\" \"$@\"; code=$?; {stop}; exit $code"),
        };
        let script = format!(
            "GATE=\"$DIR/gate-{program}\"\ncase \"$*\" in {pattern})\n  \
             if [ \"$(head -c 1 \"$GATE/turns\" 2>/dev/null)\" = s ]; then {body}; fi;;\nesac\nexec \"$REAL\" \"$@\""
        );
        sandbox.shim(program, &script);
        Gate { dir, go, _turns: turns_pipe, stopped_pid: 0 }
    }

    /// Waits until the program has stopped. Returns the process that started it.
    pub fn wait_until_stopped(&mut self, run: &mut BackgroundRun) -> i32 {
        let go = self.dir.join("go");
        let reads_gate = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|file| file == go);
        let last_pid = self.stopped_pid;
        let mut stopped_pid = None;
        run.wait_until("a command comes to the gate", || {
            let entries = std::fs::read_dir("/proc").unwrap().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            stopped_pid = pids.filter(|pid| *pid != last_pid).find(reads_gate);
            stopped_pid.is_some()
        });
        self.stopped_pid = stopped_pid.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.stopped_pid)).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Lets the stopped program continue, if it still exists.
    pub fn open(&mut self) {
        self.go.write_all(b"\n").unwrap();
    }
}

impl Drop for Gate {
    /// From now on every call of the program passes.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.dir.join("turns"));
    }
}

/// Makes a named pipe and opens it for reading and writing. While the returned file is open, opening the pipe never waits.
pub fn fifo(path: &Path) -> File {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    file
}

/// A command that runs in the background of the test. It is ended when dropped.
pub struct BackgroundRun {
    pub child: Child,
    /// The file with its standard output and standard error.
    output_file: PathBuf,
}

impl BackgroundRun {
    /// Starts a command, with its standard output and standard error in a file.
    pub fn start(sandbox: &Sandbox, mut command: Command) -> BackgroundRun {
        let output_file = sandbox.dir.join("output");
        let file = File::options().append(true).create(true).open(&output_file).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        BackgroundRun { child: command.spawn().unwrap(), output_file }
    }

    /// Starts fsarena in a shell at a terminal of its own. Text written to the standard input of the child is typed there.
    pub fn at_terminal(sandbox: &Sandbox, fsarena: &Command) -> BackgroundRun {
        let output_file = sandbox.dir.join("output");
        let words = std::iter::once(fsarena.get_program()).chain(fsarena.get_args());
        // With a second command the shell does not replace itself, so the foreground group has two processes.
        let line: Vec<_> = words.map(|word| word.to_str().unwrap()).chain(["; exit $?"]).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line.join(" "), "/dev/null"]);
        command.env_clear().envs(fsarena.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TERM", "xterm").current_dir(&sandbox.dir);
        command.stdin(Stdio::piped()).stdout(File::create(&output_file).unwrap()).stderr(Stdio::null());
        BackgroundRun { child: command.spawn().unwrap(), output_file }
    }

    /// Its standard output and standard error so far.
    pub fn output(&self) -> String {
        super::text(&std::fs::read(&self.output_file).unwrap_or_default())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until a condition holds, while the command runs. `event` names the condition in the failure.
    #[track_caller]
    pub fn wait_until(&mut self, event: &str, mut condition: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !condition() {
            let status = self.child.try_wait().unwrap();
            assert!(status.is_none(), "ended ({status:?}) before {event}:\n{}", self.output());
            assert!(begun.elapsed() < TIMEOUT, "waited in vain until {event}:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until its output contains a text.
    #[track_caller]
    pub fn wait_for_output(&mut self, expected: &str) {
        let file = self.output_file.clone();
        self.wait_until(expected, || super::text(&std::fs::read(&file).unwrap_or_default()).contains(expected));
    }

    /// Waits until it ends. Kills it and fails if that takes too long.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status,
                None if begun.elapsed() > TIMEOUT => {
                    self.signal(Signal::KILL);
                    panic!("does not end:\n{}", self.output());
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits until it ends, and asserts that this signal ended it.
    #[track_caller]
    pub fn assert_ended_by(&mut self, signal: Signal) {
        let status = self.wait_for_exit();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}\n{}", self.output());
    }

    /// Kills it, and recovers what it left in its sandbox. Asserts that nothing is left then.
    #[track_caller]
    pub fn kill_and_recover(&mut self, sandbox: &Sandbox) {
        self.signal(Signal::KILL);
        self.assert_ended_by(Signal::KILL);
        sandbox.expect(0, &["recover"]);
        sandbox.assert_clean();
    }
}

impl Drop for BackgroundRun {
    /// Ends the command, so that a failed test leaves nothing behind either.
    fn drop(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            let begun = Instant::now();
            if self.child.try_wait().is_ok_and(|status| status.is_none()) {
                self.signal(signal);
            }
            while self.child.try_wait().is_ok_and(|status| status.is_none()) && begun.elapsed() < CLEAN_UP_TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Waits until a condition holds. `event` names it in the failure.
#[track_caller]
pub fn wait_until(event: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < TIMEOUT, "waited in vain until {event}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
