//! A place for the real binary to run in, and the proof that it leaves the machine clean.

pub mod disk;
pub mod gate;
pub mod kernel;
pub mod nobody;
pub mod service;
pub mod stand_in;
pub mod stored;
pub mod web;

use disk::Disk;
use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{cell::RefCell, os::unix::ffi::OsStrExt};

pub use fsarena_sys::testkit::root;

/// A plan that runs in a moment: three tasks by system calls, and hardly any idle wait.
const PLAN: &str = r#"
name = "test"
title = "A test"
question = "Does it work?"
scale = "tiny"
seed = 1
[factors]
fs = ["ext4"]
[stop]
rounds = 1
[idle]
timeout = "50ms"
dirty = "1GiB"
io_pressure_percent = 100.0
[[workload]]
use = "coreutils"
driver = "native"
tasks = [1, 2, 3]
"#;

/// The program under test: the installed file that `make test` names in FSARENA_SHIPPED, else the one that cargo built
/// for these tests.
pub fn program() -> PathBuf {
    std::env::var_os("FSARENA_SHIPPED").unwrap_or_else(|| env!("CARGO_BIN_EXE_fsarena").into()).into()
}

/// A temporary directory that holds a state directory, runs, a home and shims.
pub struct Place {
    pub dir: PathBuf,
    disks: RefCell<Vec<Disk>>,
    // Removed last.
    _temp: tempfile::TempDir,
}

impl Place {
    /// In memory where there is room for a few images: then no test waits for a disk.
    pub fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let room = fsarena_sys::dirs::free_bytes(memory).unwrap_or(0) > 3 << 30;
        Place::below(&if room { memory.into() } else { std::env::temp_dir() })
    }

    /// In a new directory below this one.
    pub fn below(within: &Path) -> Place {
        let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir_in(within).unwrap();
        let dir = temp.path().canonicalize().unwrap();
        for name in ["home", "shims"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        std::fs::write(dir.join("plan.toml"), PLAN).unwrap();
        Place { dir, disks: RefCell::default(), _temp: temp }
    }

    /// Where its runs are.
    pub fn runs(&self) -> PathBuf {
        self.dir.join("runs")
    }

    /// Its state directory, with the undo journals.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// A file of the only run, where it is there.
    pub fn run_file(&self, name: &str) -> Option<PathBuf> {
        let run = std::fs::read_dir(self.runs()).ok()?.next()?.ok()?.path();
        Some(run.join(name)).filter(|path| path.exists())
    }

    /// The text of a file of the only run; none of it where it is not there.
    pub fn run_text(&self, name: &str) -> String {
        self.run_file(name).and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// Changes something in the plan.
    #[track_caller]
    pub fn edit_plan(&self, from: &str, to: &str) {
        let path = self.dir.join("plan.toml");
        let plan = std::fs::read_to_string(&path).unwrap();
        assert!(plan.contains(from), "{plan}");
        std::fs::write(path, plan.replace(from, to)).unwrap();
    }

    /// Mounts a filesystem of the test's own, which stays as long as this place. Where it is.
    pub fn mount(&self, disk: Disk) -> PathBuf {
        let dir = disk.dir.clone();
        self.disks.borrow_mut().push(disk);
        dir
    }

    /// The real binary, with nothing in its environment but what belongs to this place.
    pub fn fsarena(&self, args: &[&str]) -> Command {
        self.started_as(&program(), args)
    }

    /// Another build of it, in the same environment.
    pub fn started_as(&self, program: &Path, args: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.dir).env_clear();
        command.env("PATH", format!("{}:{path}", self.dir.join("shims").display()));
        command.env("HOME", self.dir.join("home"));
        command.env("FSARENA_STATE_DIR", self.state()).env("FSARENA_RUNS", self.runs());
        command
    }

    /// It, started by another command that takes it as its last words.
    pub fn started_by(&self, starter: &[&str], args: &[&str]) -> Command {
        let fsarena = self.fsarena(args);
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(fsarena.get_program()).args(args).current_dir(&self.dir).env_clear();
        command.envs(fsarena.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Runs it to its end.
    pub fn output(&self, args: &[&str]) -> Output {
        self.fsarena(args).output().unwrap()
    }

    /// Runs it to its end and expects this exit code. What it printed, and what it said.
    #[track_caller]
    pub fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.output(args);
        let (printed, said) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{printed}\n{said}");
        (printed, said)
    }

    /// The real binary where a program is not installed. It looks beyond PATH, so the program is hidden where it is, from
    /// this one process. Needs the rights of root.
    pub fn without(&self, program: &str, args: &[&str]) -> Command {
        let Some(program) = fsarena_sys::program::find(program) else { return self.fsarena(args) };
        let hide = "mount --bind /dev/null \"$0\" && exec \"$@\"";
        self.started_by(&["unshare", "--mount", "sh", "-c", hide, program.to_str().unwrap()], args)
    }

    /// Puts a shell script in the place of a program. In it `$REAL` is the real one, empty where there is none.
    pub fn shim(&self, program: &str, script: &str) {
        let real = fsarena_sys::program::find(program).unwrap_or_default();
        let text = format!("#!/bin/sh\nREAL='{}'\nDIR='{}'\n{script}\n", real.display(), self.dir.display());
        let written = self.dir.join(format!("{program}.sh"));
        std::fs::write(&written, text).unwrap();
        install(&written, &self.dir.join("shims").join(program));
    }

    /// The rows of `fsarena report RUN --format csv`, without the head: (round, variant, task).
    #[track_caller]
    pub fn rows(&self, run: &str) -> Vec<(u32, String, String)> {
        let (csv, _) = self.expect(0, &["report", run, "--format", "csv"]);
        let mut lines = csv.lines();
        let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name| heads.iter().position(|head| *head == name).unwrap();
        let (round, variant, task) = (column("round"), column("variant"), column("task"));
        lines
            .map(|line| line.split(',').collect::<Vec<_>>())
            .map(|row| (row[round].parse().unwrap(), row[variant].to_string(), row[task].to_string()))
            .collect()
    }

    /// No mount, no loop device, no image, no process and no journal of this place is left.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.left(), [""; 0]);
    }

    /// Left-overs of a run (mounts, loop devices, files), as readable lines.
    pub fn left(&self) -> Vec<String> {
        let mut left = left_below(&self.dir);
        for disk in &*self.disks.borrow() {
            let own = format!("mount {:?}", disk.dir);
            left.extend(left_below(&disk.dir).into_iter().filter(|line| *line != own));
        }
        let processes = self.processes();
        left.extend(
            processes
                .into_iter()
                .map(|pid| format!("process {}", fsarena_sys::process::describe(&SysRoot::host(), pid))),
        );
        let journals = std::fs::read_dir(self.state().join("undo")).into_iter().flatten().flatten();
        left.extend(
            journals
                .map(|file| format!("{:?}: {}", file.path(), std::fs::read_to_string(file.path()).unwrap_or_default())),
        );
        left
    }

    /// The processes that measure.
    pub fn agents(&self) -> Vec<i32> {
        self.doing("agent")
    }

    /// The fsarena that does this command.
    pub fn process(&self, command: &str) -> Option<i32> {
        self.doing(command).first().copied()
    }

    fn doing(&self, command: &str) -> Vec<i32> {
        let does = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
        };
        self.processes().into_iter().filter(does).collect()
    }

    /// The processes that run in this place: all have its state directory in their environment.
    pub fn processes(&self) -> Vec<i32> {
        let mark = [b"FSARENA_STATE_DIR=", self.state().as_os_str().as_bytes()].concat();
        let ours = |pid: &i32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == mark)
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(ours).collect()
    }
}

/// The mounts, loop devices and images below a directory, for people.
pub fn left_below(dir: &Path) -> Vec<String> {
    let mut left = vec![];
    for mount in SysRoot::host().mounts().unwrap() {
        if mount.target.starts_with(dir) {
            left.push(format!("mount {:?}", mount.target));
        }
    }
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let file = std::fs::read(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(std::ffi::OsStr::from_bytes(&file)).starts_with(dir) {
            left.push(format!("{:?} of {:?}", entry.file_name(), text(&file)));
        }
    }
    images(dir, &mut left);
    left
}

fn images(dir: &Path, left: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "img") {
            left.push(format!("image {path:?}"));
        } else if path.is_dir() && !path.is_symlink() {
            images(&path, left);
        }
    }
}

/// Bytes as text, for messages.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a program to the place it runs from, in a separate process. If a thread of this process forked while the copy
/// was open for writing, executing the copy would fail with ETXTBSY.
pub fn install(program: &Path, to: &Path) {
    let status = Command::new("install").args(["-m", "0755"]).arg(program).arg(to).status().unwrap();
    assert!(status.success(), "install {} {}", program.display(), to.display());
}
