//! Stopping a run at one moment: a program on `PATH` that waits until the test lets it go on.

use super::Place;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs::File, io::Write, os::unix::process::ExitStatusExt};

/// Longer than anything here takes: a test that hangs fails.
const HANGING: Duration = Duration::from_secs(60);

/// Whether a program waits before it does its work or after it.
#[derive(Clone, Copy)]
pub enum When {
    Before,
    After,
}

/// How long a run may take to clean up after a test that failed.
const CLEANING: Duration = Duration::from_secs(10);

/// How often a program may come to its gate: as many turns as a pipe holds.
const TURNS: usize = 60_000;

/// A program that stops once, or every time. It only ever reads from the gate: mkfs may write to nothing but its device.
pub struct Gate {
    dir: PathBuf,
    go: File,
    /// Kept open, so that reading from it never waits for a writer.
    _turns: File,
    /// The process that stood still last.
    pub standing: i32,
}

impl Gate {
    /// Stops the program when its arguments match a shell pattern, after `skip` earlier matches.
    pub fn new(place: &Place, when: When, program: &str, pattern: &str, skip: usize) -> Gate {
        let turns = [vec![b'p'; skip], vec![b's'], vec![b'p'; TURNS]].concat();
        Gate::of_turns(place, when, program, pattern, &turns)
    }

    /// The program stops whenever its arguments fit a shell pattern.
    pub fn every_time(place: &Place, when: When, program: &str, pattern: &str) -> Gate {
        Gate::of_turns(place, when, program, pattern, &[b's'; TURNS])
    }

    /// Each time takes one byte: `s` to stop, `p` to pass.
    fn of_turns(place: &Place, when: When, program: &str, pattern: &str, bytes: &[u8]) -> Gate {
        let dir = place.dir.join(format!("gate-{program}"));
        std::fs::create_dir(&dir).unwrap();
        let (turns, go) = (fifo(&dir.join("turns")), fifo(&dir.join("go")));
        (&turns).write_all(bytes).unwrap();
        let stop = "read -r _ < \"$GATE/go\"";
        let act = match when {
            When::Before => format!("{stop}; exec \"$REAL\" \"$@\""),
            When::After => format!("\"$REAL\" \"$@\"; code=$?; {stop}; exit $code"),
        };
        let script = format!(
            "GATE=\"$DIR/gate-{program}\"\ncase \"$*\" in {pattern})\n  \
             if [ \"$(head -c 1 \"$GATE/turns\" 2>/dev/null)\" = s ]; then {act}; fi;;\nesac\nexec \"$REAL\" \"$@\""
        );
        place.shim(program, &script);
        Gate { dir, go, _turns: turns, standing: 0 }
    }

    /// Waits until the program stands still. The process that started it.
    pub fn wait(&mut self, run: &mut Running) -> i32 {
        let go = self.dir.join("go");
        let reads = |pid: &i32| std::fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|file| file == go);
        let last = self.standing;
        let mut found = None;
        run.until("a command comes to the gate", || {
            let entries = std::fs::read_dir("/proc").unwrap().flatten();
            let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            found = pids.filter(|pid| *pid != last).find(reads);
            found.is_some()
        });
        self.standing = found.unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.standing)).unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Lets it go on, if it is still there.
    pub fn open(&mut self) {
        self.go.write_all(b"\n").unwrap();
    }
}

impl Drop for Gate {
    /// Whoever comes later passes.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.dir.join("turns"));
    }
}

/// A named pipe that is never closed, so that opening it never waits.
pub fn fifo(path: &Path) -> File {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    rustix::io::ioctl_fionbio(&file, true).unwrap();
    file
}

/// A run that goes on beside the test.
pub struct Running {
    pub child: Child,
    said: PathBuf,
}

impl Running {
    /// Starts it. What it prints and says goes into a file.
    pub fn start(place: &Place, mut command: Command) -> Running {
        let said = place.dir.join("said");
        let file = File::options().append(true).create(true).open(&said).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Running { child: command.spawn().unwrap(), said }
    }

    /// Starts fsarena in a shell at a separate terminal. Text written to its standard input is typed there.
    pub fn at_terminal(place: &Place, fsarena: &Command) -> Running {
        let said = place.dir.join("said");
        let words = std::iter::once(fsarena.get_program()).chain(fsarena.get_args());
        // More than one command, so that the shell stays and the terminal has a group of two.
        let line: Vec<_> = words.map(|word| word.to_str().unwrap()).chain(["; exit $?"]).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line.join(" "), "/dev/null"]);
        command.env_clear().envs(fsarena.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("TERM", "xterm").current_dir(&place.dir);
        command.stdin(Stdio::piped()).stdout(File::create(&said).unwrap()).stderr(Stdio::null());
        Running { child: command.spawn().unwrap(), said }
    }

    /// What it has printed and said.
    pub fn said(&self) -> String {
        super::text(&std::fs::read(&self.said).unwrap_or_default())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until something is so, while the run goes on.
    #[track_caller]
    pub fn until(&mut self, what: &str, mut so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !so() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended ({ended:?}) before {what}:\n{}", self.said());
            assert!(begun.elapsed() < HANGING, "waited in vain until {what}:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until it has said something.
    #[track_caller]
    pub fn until_said(&mut self, words: &str) {
        let said = self.said.clone();
        self.until(words, || super::text(&std::fs::read(&said).unwrap_or_default()).contains(words));
    }

    /// Waits until it ends.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return status,
                None if begun.elapsed() > HANGING => {
                    self.signal(Signal::KILL);
                    panic!("does not end:\n{}", self.said());
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits until it ends, which has to be by this signal.
    #[track_caller]
    pub fn ended_by(&mut self, signal: Signal) {
        let status = self.ended();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}\n{}", self.said());
    }
}

impl Drop for Running {
    /// A test that failed leaves nothing behind either.
    fn drop(&mut self) {
        for signal in [Signal::TERM, Signal::KILL] {
            let begun = Instant::now();
            if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                self.signal(signal);
            }
            while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && begun.elapsed() < CLEANING {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < HANGING, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
