//! Starts jobs of a few ranks in a temporary directory, and reads their results.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A temporary directory with a shared directory, a directory of runs and a state directory.
pub struct Workspace {
    pub temp: tempfile::TempDir,
}

impl Workspace {
    /// Creates the directory, in memory if possible; `None` if mpirun is missing.
    pub fn new() -> Option<Workspace> {
        if !fsarena_sys::testkit::has_program(&mpirun_program()) {
            return None;
        }
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
        let temp = tempfile::Builder::new().prefix("fsarena-mpi-").tempdir_in(parent).unwrap();
        std::fs::create_dir(temp.path().join("shared")).unwrap();
        Some(Workspace { temp })
    }

    /// The path of a name in the temporary directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The command that runs `fsarena-mpi` with these arguments on this number of ranks.
    pub fn job_command(&self, ranks: u32, args: &[&str]) -> Command {
        let mut command = Command::new(mpirun_program());
        if is_open_mpi() {
            // Allows more ranks than CPUs, allows root, and stays on this machine.
            command.args(["--oversubscribe", "--allow-run-as-root", "--mca", "btl", "self,vader,tcp"]);
        }
        command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_fsarena-mpi")]).args(args);
        command.current_dir(self.temp.path()).env("FSARENA_STATE_DIR", self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The command that runs a plan with these workloads at the smallest scale.
    pub fn plan_command(&self, ranks: u32, workloads: &str, args: &[&str]) -> Command {
        let idle = "[idle]\ntimeout = '100ms'\n";
        let plan = format!("name = 'p'\n[stop]\nrounds = 1\n{idle}{workloads}");
        std::fs::write(self.path("plan.toml"), plan).unwrap();
        let on = format!("dir:{}", self.path("shared").display());
        let args: Vec<&str> =
            ["run", "plan.toml", "--on", &on, "--scale", "tiny"].iter().chain(args).copied().collect();
        self.job_command(ranks, &args)
    }

    /// Files left in the shared directory.
    pub fn leftover_files(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.path("shared")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// The path of a file of the only run.
    pub fn run_file(&self, name: &str) -> PathBuf {
        std::fs::read_dir(self.path("runs")).unwrap().next().unwrap().unwrap().path().join(name)
    }

    /// Samples of the only run: the values of these columns, row by row.
    pub fn samples(&self, columns: &[&str]) -> Vec<Vec<String>> {
        let mut reader = csv::Reader::from_path(self.run_file("samples.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let indexes: Vec<usize> =
            columns.iter().map(|name| header.iter().position(|column| column == *name).unwrap()).collect();
        let rows = reader.records().map(|row| row.unwrap());
        rows.map(|row| indexes.iter().map(|index| row[*index].to_string()).collect()).collect()
    }
}

/// The mpirun of the MPI library that the binary is linked with; Debian's MPICH has `mpirun.mpich`.
fn mpirun_program() -> String {
    std::env::var("FSARENA_MPIRUN").unwrap_or_else(|_| "mpirun".into())
}

fn is_open_mpi() -> bool {
    let printed = Command::new(mpirun_program()).arg("--version").output().unwrap();
    String::from_utf8_lossy(&printed.stdout).contains("Open MPI")
}

/// Runs a command to its end. Returns the exit code and all output.
pub fn run_to_end(command: &mut Command) -> (i32, String) {
    wait_for_job(command.spawn().unwrap())
}

/// Waits until a job ends. Returns its exit code and all output.
pub fn wait_for_job(child: Child) -> (i32, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let printed = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (status.code().unwrap_or(-1), printed)
}

/// The ids of processes with this word in their command line or environment.
pub fn processes_with(word: &str) -> Vec<u32> {
    let contains_word = |pid: u32, file: &str| {
        let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(word)
    };
    let pids =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id() && (contains_word(*pid, "cmdline") || contains_word(*pid, "environ")))
        .collect()
}

/// Waits until a condition holds. Fails with the message `failure` after a minute.
#[track_caller]
pub fn wait_until(failure: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{failure}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
