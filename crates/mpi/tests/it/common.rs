//! Jobs of a few ranks in a directory of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A shared directory, runs and a state directory.
pub struct Place {
    pub temp: tempfile::TempDir,
}

impl Place {
    /// None where mpirun is missing.
    pub fn new() -> Option<Place> {
        if !fsarena_testkit::program(&mpirun()) {
            return None;
        }
        let memory = Path::new("/dev/shm");
        let within = if memory.is_dir() { memory.into() } else { std::env::temp_dir() };
        let temp = tempfile::Builder::new().prefix("fsarena-mpi-").tempdir_in(within).unwrap();
        std::fs::create_dir(temp.path().join("shared")).unwrap();
        Some(Place { temp })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// mpirun of this MPI library with this number of ranks, not started yet.
    pub fn mpirun(&self, ranks: u32, args: &[&str]) -> Command {
        let mut command = Command::new(mpirun());
        if is_open_mpi() {
            // More ranks than CPUs, as root, and only on this machine.
            command.args(["--oversubscribe", "--allow-run-as-root", "--mca", "btl", "self,vader,tcp"]);
        }
        command.args(["-n", &ranks.to_string(), env!("CARGO_BIN_EXE_fsarena-mpi")]).args(args);
        command.current_dir(self.temp.path()).env("FSARENA_STATE_DIR", self.path("state"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `run` of a plan, given its workloads, at the smallest scale.
    pub fn run(&self, ranks: u32, workloads: &str, args: &[&str]) -> Command {
        let idle = "[idle]\ntimeout = '100ms'\n";
        let plan = format!("name = 'p'\n[stop]\nrounds = 1\n{idle}{workloads}");
        std::fs::write(self.path("plan.toml"), plan).unwrap();
        let on = format!("dir:{}", self.path("shared").display());
        let args: Vec<&str> =
            ["run", "plan.toml", "--on", &on, "--scale", "tiny"].iter().chain(args).copied().collect();
        self.mpirun(ranks, &args)
    }

    /// Files left in the shared directory.
    pub fn left(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.path("shared")).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// A file of the only run.
    pub fn run_file(&self, name: &str) -> PathBuf {
        std::fs::read_dir(self.path("runs")).unwrap().next().unwrap().unwrap().path().join(name)
    }

    /// Samples of the only run: the values of these columns, row by row.
    pub fn samples(&self, columns: &[&str]) -> Vec<Vec<String>> {
        let mut reader = csv::Reader::from_path(self.run_file("samples.csv")).unwrap();
        let head = reader.headers().unwrap().clone();
        let at: Vec<usize> =
            columns.iter().map(|name| head.iter().position(|column| column == *name).unwrap()).collect();
        let rows = reader.records().map(|row| row.unwrap());
        rows.map(|row| at.iter().map(|at| row[*at].to_string()).collect()).collect()
    }
}

/// The mpirun of the MPI library that the binary is linked with; Debian's MPICH has `mpirun.mpich`.
fn mpirun() -> String {
    std::env::var("FSARENA_MPIRUN").unwrap_or_else(|_| "mpirun".into())
}

fn is_open_mpi() -> bool {
    let said = Command::new(mpirun()).arg("--version").output().unwrap();
    String::from_utf8_lossy(&said.stdout).contains("Open MPI")
}

/// Runs it to its end.
pub fn output(command: &mut Command) -> (i32, String) {
    end_of(command.spawn().unwrap())
}

/// The exit code of a job and all that it said.
pub fn end_of(child: Child) -> (i32, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let said = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    (status.code().unwrap_or(-1), said)
}

/// Processes that have this word in their command line or environment.
pub fn processes(word: &str) -> Vec<u32> {
    let has = |pid: u32, file: &str| {
        let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(word)
    };
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id() && (has(*pid, "cmdline") || has(*pid, "environ"))).collect()
}

/// Waits until something is so, within a time that only a fault exceeds.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
