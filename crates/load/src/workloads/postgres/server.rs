//! A PostgreSQL cluster: its files, its server, and the programs that connect to it.

use crate::service::{Service, ServiceDef, create_in_owned_dir};
use crate::task::{Result, TaskError, failed_to};
use crate::workloads::postgres::settings::{self, PgbenchTask, PostgresSettings, database_name};
use crate::{invocation::failure_hint, workload::Place};
use fsarena_sys::argv::{Argv, FinishedCommand};
use fsarena_sys::{CommandError, program, user::User};
use rustix::process::Signal;
use std::{
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

/// The server of PostgreSQL. It refuses to run as root. SIGQUIT ends it at once, with all its processes.
pub const SERVICE_DEF: ServiceDef =
    ServiceDef { name: "postgres", users: &["postgres", "nobody"], end_signal: Signal::QUIT };
/// Time limit for the server to end, with its last checkpoint.
const STOP_TIMEOUT: Duration = Duration::from_secs(3600);
/// The programs of PostgreSQL that the workload runs.
pub const PROGRAMS: [&str; 4] = ["postgres", "initdb", "pgbench", "psql"];

/// The directories and the user of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The directory of the programs.
    program_dir: PathBuf,
    /// The data directory, on the filesystem under test.
    pub data_dir: PathBuf,
    /// The directory of logs, on the source disk.
    log_dir: PathBuf,
    /// The user of the server and its programs, if it is not the user of this process.
    user: Option<User>,
}

impl Cluster {
    /// Describes a cluster in this place, and finds the installed programs. Creates no files.
    ///
    /// # Errors
    /// If no directory has all the programs.
    pub fn new(place: &Place) -> Result<Cluster> {
        let program_dir = program::find_dir_with_programs(&PROGRAMS).ok_or_else(|| CommandError::NotFound {
            program: format!("PostgreSQL ({} in one directory)", PROGRAMS.join(", ")),
        })?;
        let (data_dir, log_dir) = (place.root.join("cluster"), place.source_dir.join("postgres"));
        Ok(Cluster { program_dir, data_dir, log_dir, user: place.server_user.clone() })
    }

    /// Creates the files of the cluster with `initdb`, and writes the settings.
    ///
    /// # Errors
    /// If initdb fails.
    pub fn init(&self, settings: &PostgresSettings) -> Result<()> {
        for dir in [&self.data_dir, &self.log_dir] {
            SERVICE_DEF.make_owned_dir(dir, self.user.as_ref())?;
            let owner_only = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(dir, owner_only).map_err(TaskError::io(format!("make {dir:?} private")))?;
        }
        let argv = self.program_argv("initdb").args(["--no-sync", "--locale=C", "--encoding=UTF8", "-A", "trust"]);
        self.run_checked(&argv.args(["-U", "postgres", "-D"]).arg(&self.data_dir))?;
        let path = self.data_dir.join("postgresql.conf");
        let text = settings::render_conf(&settings.conf, settings.clients);
        // The directory belongs to the server's user, who may have put a link there.
        let opened = std::fs::OpenOptions::new().append(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        let mut file = opened.map_err(failed_to("write", &path))?;
        file.write_all(text.as_bytes()).map_err(failed_to("write", &path))
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// If it does not start. The error has the last lines of its log.
    pub fn start(&self) -> Result<Service> {
        let log_path = self.log_dir.join("server.log");
        let log_files = create_in_owned_dir(&log_path).and_then(|file| Ok((file.try_clone()?, file)));
        let (stdout, stderr) = log_files.map_err(failed_to("make", &log_path))?;
        let mut command = SERVICE_DEF.command(&self.program_dir.join("postgres"), self.user.as_ref());
        command.arg("-D").arg(&self.data_dir).env("LC_ALL", "C").stdout(stdout).stderr(stderr);
        let mut service = SERVICE_DEF.start(command, &log_path)?;
        let started = service.wait_for_log(|log| log.contains("database system is ready to accept connections"));
        started.map_err(|error| {
            TaskError::Unfit(format!("{error}{}", failure_hint(&error.to_string(), &self.data_dir)))
        })?;
        Ok(service)
    }

    /// Ends the server after a last checkpoint, so that its data is on disk.
    ///
    /// # Errors
    /// If the server does not end within the time limit, or fails. The error has the last lines of its log.
    pub fn stop(&self, mut service: Service) -> Result<()> {
        let status = service.stop(Signal::INT, STOP_TIMEOUT)?;
        if status.success() {
            return Ok(());
        }
        let log = service.last_log_lines();
        let reason = format!("postgres failed at its end ({status}): {log}{}", failure_hint(&log, &self.data_dir));
        Err(TaskError::Unfit(reason))
    }

    /// Creates a database and fills it with the tables of pgbench.
    ///
    /// # Errors
    /// If psql or pgbench fails. The error has the last lines of the server's log.
    pub fn create_database(&self, service: &Service, scale: i64) -> Result<()> {
        self.query(service, &format!("CREATE DATABASE {}", database_name(scale)))?;
        let argv = self.program_argv("pgbench").args(["-i", "-q", "-s"]).arg(scale.to_string());
        self.run_client(service, &argv.arg(database_name(scale))).map(drop)
    }

    /// Runs a statement and returns its result as text.
    ///
    /// # Errors
    /// If the statement fails. The error has the last lines of the server's log.
    pub fn query(&self, service: &Service, statement: &str) -> Result<String> {
        let argv = self.program_argv("psql").args(["-X", "-A", "-t", "-q", "-c", statement, "postgres"]);
        Ok(self.run_client(service, &argv)?.stdout.trim().to_string())
    }

    /// Runs pgbench. Returns its output and the log of each of its threads.
    ///
    /// # Errors
    /// If pgbench or the server fails. The error has the last lines of the server's log.
    pub fn run_pgbench(
        &self,
        service: &Service,
        settings: &PostgresSettings,
        task: PgbenchTask,
    ) -> Result<(String, Vec<String>)> {
        let thread_log_dir = self.log_dir.join("pgbench");
        // A pgbench that failed in an earlier cell has left its logs.
        SERVICE_DEF.make_empty_owned_dir(&thread_log_dir, self.user.as_ref())?;
        let argv = self.program_argv("pgbench").args(pgbench_arguments(settings, task));
        let argv =
            argv.arg(format!("--log-prefix={}", thread_log_dir.join("log").display())).arg(database_name(task.scale));
        let printed = self.run_client(service, &argv)?.stdout;
        let thread_logs = read_and_remove_files(&thread_log_dir).map_err(failed_to("read", &thread_log_dir))?;
        Ok((printed, thread_logs))
    }

    /// Makes the command of a program, which runs as the server's user. It finds the socket in its working directory,
    /// because the path of a socket may have only 107 bytes.
    fn program_argv(&self, program: &str) -> Argv {
        let argv =
            Argv::new(self.program_dir.join(program)).user(self.user.clone()).cwd(&self.data_dir).env("LC_ALL", "C");
        argv.env("PGHOST", "/proc/self/cwd").env("PGPORT", "5432").env("PGUSER", "postgres")
    }

    /// Runs a program that connects to the server. Adds the last lines of the server's log to an error.
    fn run_client(&self, service: &Service, argv: &Argv) -> Result<FinishedCommand> {
        let describe_log = |_: &str| format!("; the server's log ends: {}", service.last_log_lines());
        self.run_checked(argv).map_err(|error| match error {
            TaskError::Command(error) => append_to_output(error, describe_log).into(),
            other => other,
        })
    }

    /// Runs a command. Adds advice to an error that a full or read-only filesystem caused.
    fn run_checked(&self, argv: &Argv) -> Result<FinishedCommand> {
        let checked = argv.run().and_then(|finished| argv.check_success(finished));
        Ok(checked.map_err(|error| append_to_output(error, |output| failure_hint(output, &self.data_dir)))?)
    }
}

/// Returns the texts of all files in a directory, and removes the directory.
fn read_and_remove_files(dir: &Path) -> std::io::Result<Vec<String>> {
    let mut texts = vec![];
    for entry in std::fs::read_dir(dir)? {
        texts.push(std::fs::read_to_string(entry?.path())?);
    }
    std::fs::remove_dir_all(dir)?;
    Ok(texts)
}

/// Appends text to the output in the error of a failed command. `suffix_for` returns the text for the output.
fn append_to_output(error: CommandError, suffix_for: impl FnOnce(&str) -> String) -> CommandError {
    match error {
        CommandError::Failed { command, ended, output } => {
            CommandError::Failed { command, ended, output: format!("{output}{}", suffix_for(&output)) }
        }
        other => other,
    }
}

/// The arguments of pgbench for a timed run.
pub fn pgbench_arguments(settings: &PostgresSettings, task: PgbenchTask) -> Vec<String> {
    let mut arguments = vec![
        "--no-vacuum".into(),
        // With `--skip-some-updates` (`-N`, pgbench's simple-update script) transactions still write: they update only
        // the accounts, not the tellers and branches, whose few rows would be contended.
        if task.updates { "--skip-some-updates" } else { "--select-only" }.into(),
        format!("--client={}", settings.clients),
        format!("--jobs={}", settings.threads),
        format!("--protocol={}", settings.protocol),
        format!("--time={}", settings.task_seconds(task)),
        // pgbench accepts seeds of 31 bits.
        format!("--random-seed={}", settings.seed % 0x7fff_ffff),
        "--log".into(),
    ];
    arguments.extend(settings.rate_per_s.map(|rate| format!("--rate={rate}")));
    arguments.extend((settings.sampling_share < 1.0).then(|| format!("--sampling-rate={}", settings.sampling_share)));
    arguments
}
