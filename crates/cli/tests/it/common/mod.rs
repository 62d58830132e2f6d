//! A sandbox for the real binary to run in, and checks that it leaves the machine clean.

pub mod disk;
pub mod gate;
pub mod kernel;
pub mod nobody;
pub mod service;
pub mod stand_in;
pub mod stored;
pub mod web;

use disk::MountedDisk;
use fsarena_sys::kernel::SysRoot;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{cell::RefCell, os::unix::ffi::OsStrExt};

pub use fsarena_sys::testkit::runs_as_root;

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

/// A temporary directory for runs of fsarena: with a state directory, a runs directory, a home and shims.
pub struct Sandbox {
    pub dir: PathBuf,
    disks: RefCell<Vec<MountedDisk>>,
    // The last field, so that the directory is removed last.
    _temp: tempfile::TempDir,
}

impl Sandbox {
    /// Makes a sandbox, in memory if there is room for a few images: then no test waits for a disk.
    pub fn new() -> Sandbox {
        let memory = Path::new("/dev/shm");
        let has_room = fsarena_sys::dirs::free_bytes(memory).unwrap_or(0) > 3 << 30;
        Sandbox::below(&if has_room { memory.into() } else { std::env::temp_dir() })
    }

    /// Makes a sandbox in a new directory below `parent`.
    pub fn below(parent: &Path) -> Sandbox {
        let temp = tempfile::Builder::new().prefix("fsarena-test-").tempdir_in(parent).unwrap();
        let dir = temp.path().canonicalize().unwrap();
        for name in ["home", "shims"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        std::fs::write(dir.join("plan.toml"), PLAN).unwrap();
        Sandbox { dir, disks: RefCell::default(), _temp: temp }
    }

    /// The runs directory.
    pub fn runs_dir(&self) -> PathBuf {
        self.dir.join("runs")
    }

    /// The state directory, with the undo journals.
    pub fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// The path of a file of the only run; None if it does not exist.
    pub fn run_file(&self, name: &str) -> Option<PathBuf> {
        let run = std::fs::read_dir(self.runs_dir()).ok()?.next()?.ok()?.path();
        Some(run.join(name)).filter(|path| path.exists())
    }

    /// The text of a file of the only run; empty if it does not exist.
    pub fn run_text(&self, name: &str) -> String {
        self.run_file(name).and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
    }

    /// Replaces a text in the plan, which must have it.
    #[track_caller]
    pub fn edit_plan(&self, old: &str, new: &str) {
        let path = self.dir.join("plan.toml");
        let plan = std::fs::read_to_string(&path).unwrap();
        assert!(plan.contains(old), "{plan}");
        std::fs::write(path, plan.replace(old, new)).unwrap();
    }

    /// Keeps a filesystem mounted as long as this sandbox exists. Returns its directory.
    pub fn keep_mounted(&self, disk: MountedDisk) -> PathBuf {
        let dir = disk.dir.clone();
        self.disks.borrow_mut().push(disk);
        dir
    }

    /// The command that runs the real binary with these arguments, and with the environment of this sandbox only.
    pub fn fsarena(&self, args: &[&str]) -> Command {
        self.command(&program(), args)
    }

    /// The command that runs another program in the same environment.
    pub fn command(&self, program: &Path, args: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.dir).env_clear();
        command.env("PATH", format!("{}:{path}", self.dir.join("shims").display()));
        command.env("HOME", self.dir.join("home"));
        command.env("FSARENA_STATE_DIR", self.state_dir()).env("FSARENA_RUNS", self.runs_dir());
        command
    }

    /// The command that starts fsarena through another command, which takes it as its last arguments.
    pub fn fsarena_under(&self, starter: &[&str], args: &[&str]) -> Command {
        let fsarena = self.fsarena(args);
        let mut command = Command::new(starter[0]);
        command.args(&starter[1..]).arg(fsarena.get_program()).args(args).current_dir(&self.dir).env_clear();
        command.envs(fsarena.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    /// Runs fsarena to its end.
    pub fn output(&self, args: &[&str]) -> Output {
        self.fsarena(args).output().unwrap()
    }

    /// Runs fsarena to its end and asserts its exit code. Returns its standard output and standard error.
    #[track_caller]
    pub fn expect(&self, code: i32, args: &[&str]) -> (String, String) {
        let output = self.output(args);
        let (printed, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "{args:?}\n{printed}\n{stderr}");
        (printed, stderr)
    }

    /// The command that runs fsarena as if a program was not installed. fsarena looks beyond PATH, so the program is hidden
    /// from this one process by a mount. Needs root.
    pub fn fsarena_without(&self, program: &str, args: &[&str]) -> Command {
        let Some(program) = fsarena_sys::program::find(program) else { return self.fsarena(args) };
        let hide = "mount --bind /dev/null \"$0\" && exec \"$@\"";
        self.fsarena_under(&["unshare", "--mount", "sh", "-c", hide, program.to_str().unwrap()], args)
    }

    /// Puts a shell script in front of a program. In the script, `$REAL` is the real program (empty if it is not
    /// installed), and
    /// `$DIR` the directory of the sandbox.
    pub fn shim(&self, program: &str, script: &str) {
        let real = fsarena_sys::program::find(program).unwrap_or_default();
        let text = format!("#!/bin/sh\nREAL='{}'\nDIR='{}'\n{script}\n", real.display(), self.dir.display());
        let script_file = self.dir.join(format!("{program}.sh"));
        std::fs::write(&script_file, text).unwrap();
        install(&script_file, &self.dir.join("shims").join(program));
    }

    /// The rows of `fsarena report RUN --format csv`, without the header: (round, variant, task).
    #[track_caller]
    pub fn rows(&self, run: &str) -> Vec<(u32, String, String)> {
        let (csv, _) = self.expect(0, &["report", run, "--format", "csv"]);
        let mut lines = csv.lines();
        let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        let column = |name| header.iter().position(|title| *title == name).unwrap();
        let (round, variant, task) = (column("round"), column("variant"), column("task"));
        lines
            .map(|line| line.split(',').collect::<Vec<_>>())
            .map(|row| (row[round].parse().unwrap(), row[variant].to_string(), row[task].to_string()))
            .collect()
    }

    /// Asserts that no mount, loop device, image, process or journal of this sandbox is left.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert_eq!(self.leftovers(), [""; 0]);
    }

    /// What runs have left (mounts, loop devices, images, processes, journals), a line for each.
    pub fn leftovers(&self) -> Vec<String> {
        let mut left = leftovers_below(&self.dir);
        for disk in &*self.disks.borrow() {
            let own_mount = format!("mount {:?}", disk.dir);
            left.extend(leftovers_below(&disk.dir).into_iter().filter(|line| *line != own_mount));
        }
        let processes = self.processes();
        left.extend(
            processes
                .into_iter()
                .map(|pid| format!("process {}", fsarena_sys::process::describe(&SysRoot::host(), pid))),
        );
        let journals = std::fs::read_dir(self.state_dir().join("undo")).into_iter().flatten().flatten();
        left.extend(
            journals
                .map(|file| format!("{:?}: {}", file.path(), std::fs::read_to_string(file.path()).unwrap_or_default())),
        );
        left
    }

    /// The agents: the processes that do the work.
    pub fn agents(&self) -> Vec<i32> {
        self.processes_running("agent")
    }

    /// The process of fsarena that runs this command, such as `run`.
    pub fn process_running(&self, command: &str) -> Option<i32> {
        self.processes_running(command).first().copied()
    }

    fn processes_running(&self, command: &str) -> Vec<i32> {
        let runs_command = |pid: &i32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
        };
        self.processes().into_iter().filter(runs_command).collect()
    }

    /// The processes that run in this sandbox: all have its state directory in their environment.
    pub fn processes(&self) -> Vec<i32> {
        let own_variable = [b"FSARENA_STATE_DIR=", self.state_dir().as_os_str().as_bytes()].concat();
        let is_ours = |pid: &i32| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|byte| *byte == 0).any(|variable| variable == own_variable)
        };
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_ours).collect()
    }
}

/// The mounts, loop devices and images below a directory, a line for each.
pub fn leftovers_below(dir: &Path) -> Vec<String> {
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
    add_images(dir, &mut left);
    left
}

/// Adds a line for each image below a directory.
fn add_images(dir: &Path, left: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "img") {
            left.push(format!("image {path:?}"));
        } else if path.is_dir() && !path.is_symlink() {
            add_images(&path, left);
        }
    }
}

/// Bytes as text, for messages.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Copies a program to the path from which it runs, in a separate process. If a thread of this process forked while the copy
/// was open for writing, executing the copy would fail with ETXTBSY.
pub fn install(program: &Path, target: &Path) {
    let status = Command::new("install").args(["-m", "0755"]).arg(program).arg(target).status().unwrap();
    assert!(status.success(), "install {} {}", program.display(), target.display());
}
