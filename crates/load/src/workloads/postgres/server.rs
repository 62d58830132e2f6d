//! A PostgreSQL cluster: its files, its server, and the programs that connect to it.

use crate::service::{Service, ServiceDef};
use crate::task::{Result, TaskError, failed_to};
use crate::workloads::postgres::settings::{self, PgbenchTask, PostgresSettings, database_name};
use crate::{invocation::failure_hint, workload::Place};
use fsarena_sys::argv::{Argv, Finished};
use fsarena_sys::{CommandError, program, user::User};
use rustix::process::Signal;
use std::{io::Write, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

/// The server of PostgreSQL. It refuses to run as root. SIGQUIT ends it at once, with all its processes.
pub const DEF: ServiceDef =
    ServiceDef { name: "postgres", users: &["postgres", "nobody"], end: Signal::QUIT };
/// Time limit for the server to end, with its last checkpoint.
const STOP_TIMEOUT: Duration = Duration::from_secs(3600);
/// The programs of PostgreSQL that the workload runs.
pub const PROGRAMS: [&str; 4] = ["postgres", "initdb", "pgbench", "psql"];

/// The directories and the user of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The directory of the programs.
    bin: PathBuf,
    /// The data directory, on the filesystem under test.
    pub data: PathBuf,
    /// The directory of logs, on the source disk.
    logs: PathBuf,
    /// The user of the server and its programs, if it is not the user of this process.
    user: Option<User>,
}

impl Cluster {
    /// Describes a cluster in this place, and finds the installed programs. Creates no files.
    ///
    /// # Errors
    /// If no directory has all the programs.
    pub fn new(place: &Place) -> Result<Cluster> {
        let bin = program::dir_with_all(&PROGRAMS).ok_or_else(|| CommandError::NotFound {
            program: format!("PostgreSQL ({} in one directory)", PROGRAMS.join(", ")),
        })?;
        let user = place.server_user.clone();
        Ok(Cluster { bin, data: place.root.join("cluster"), logs: place.other.join("postgres"), user })
    }

    /// Creates the files of the cluster with `initdb`, and writes the settings.
    ///
    /// # Errors
    /// If initdb fails.
    pub fn init(&self, settings: &PostgresSettings) -> Result<()> {
        for dir in [&self.data, &self.logs] {
            DEF.make_dir(dir, self.user.as_ref())?;
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(dir, private).map_err(TaskError::io(format!("make {dir:?} private")))?;
        }
        let argv = self.tool("initdb").args(["--no-sync", "--locale=C", "--encoding=UTF8", "-A", "trust"]);
        self.run_checked(&argv.args(["-U", "postgres", "-D"]).arg(&self.data))?;
        let file = self.data.join("postgresql.conf");
        let opened = std::fs::OpenOptions::new().append(true).open(&file);
        let text = settings::render_conf(&settings.conf, settings.clients);
        opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(failed_to("write", &file))
    }

    /// Starts the server and waits until it accepts connections.
    ///
    /// # Errors
    /// If it does not start. The error has the last lines of its log.
    pub fn start(&self) -> Result<Service> {
        let log = self.logs.join("server.log");
        let opened = std::fs::File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = opened.map_err(failed_to("make", &log))?;
        let mut command = DEF.command(&self.bin.join("postgres"), self.user.as_ref());
        command.arg("-D").arg(&self.data).env("LC_ALL", "C").stdout(out).stderr(err);
        let mut service = DEF.start(command, &log)?;
        let up = service.wait_until(|log| log.contains("database system is ready to accept connections"));
        up.map_err(|error| {
            TaskError::Unfit(format!("{error}{}", failure_hint(&error.to_string(), &self.data)))
        })?;
        Ok(service)
    }

    /// Ends the server after a last checkpoint.
    ///
    /// # Errors
    /// If the server does not end within the time limit.
    pub fn stop(&self, service: Service) -> Result<()> {
        service.stop(Signal::INT, STOP_TIMEOUT)
    }

    /// Creates a database and fills it with the tables of pgbench.
    ///
    /// # Errors
    /// If psql or pgbench fails. The error has the last lines of the server's log.
    pub fn load(&self, service: &Service, scale: i64) -> Result<()> {
        self.sql(service, &format!("CREATE DATABASE {}", database_name(scale)))?;
        let argv = self.tool("pgbench").args(["-i", "-q", "-s"]).arg(scale.to_string());
        self.run_client(service, &argv.arg(database_name(scale))).map(drop)
    }

    /// Runs a statement and returns its result as text.
    ///
    /// # Errors
    /// If the statement fails. The error has the last lines of the server's log.
    pub fn sql(&self, service: &Service, statement: &str) -> Result<String> {
        let argv = self.tool("psql").args(["-X", "-A", "-t", "-q", "-c", statement, "postgres"]);
        Ok(self.run_client(service, &argv)?.stdout.trim().to_string())
    }

    /// Runs pgbench. Returns its output and the log of each of its threads.
    ///
    /// # Errors
    /// If pgbench or the server fails. The error has the last lines of the server's log.
    pub fn bench(
        &self,
        service: &Service,
        settings: &PostgresSettings,
        task: PgbenchTask,
    ) -> Result<(String, Vec<String>)> {
        let logs = self.logs.join("pgbench");
        DEF.make_dir(&logs, self.user.as_ref())?;
        let argv = self.tool("pgbench").args(arguments(settings, task));
        let argv =
            argv.arg(format!("--log-prefix={}", logs.join("log").display())).arg(database_name(task.scale));
        let printed = self.run_client(service, &argv)?.stdout;
        let read = || {
            let texts = std::fs::read_dir(&logs)?.map(|entry| std::fs::read_to_string(entry?.path()));
            let texts = texts.collect::<Result<_, _>>()?;
            std::fs::remove_dir_all(&logs).map(|()| texts)
        };
        Ok((printed, read().map_err(failed_to("read", &logs))?))
    }

    /// Makes the command of a program, which runs as the server's user. It finds the socket in its working directory, because
    /// the path of a socket may have only 107 bytes.
    fn tool(&self, program: &str) -> Argv {
        let argv =
            Argv::new(self.bin.join(program)).user(self.user.clone()).cwd(&self.data).env("LC_ALL", "C");
        argv.env("PGHOST", "/proc/self/cwd").env("PGPORT", "5432").env("PGUSER", "postgres")
    }

    /// Runs a program that connects to the server. Adds the last lines of the server's log to an error.
    fn run_client(&self, service: &Service, argv: &Argv) -> Result<Finished> {
        let log = |_: &str| format!("; the server's log ends: {}", service.last_log_lines());
        self.run_checked(argv).map_err(|error| match error {
            TaskError::Command(error) => append_to_output(error, log).into(),
            other => other,
        })
    }

    fn run_checked(&self, argv: &Argv) -> Result<Finished> {
        let checked = argv.run().and_then(|finished| argv.check(finished));
        Ok(checked.map_err(|error| append_to_output(error, |output| failure_hint(output, &self.data)))?)
    }
}

/// Appends text to the output in the error of a failed command.
fn append_to_output(error: CommandError, more: impl FnOnce(&str) -> String) -> CommandError {
    match error {
        CommandError::Failed { command, ended, output } => {
            CommandError::Failed { command, ended, output: format!("{output}{}", more(&output)) }
        }
        other => other,
    }
}

/// The arguments of pgbench for a timed run.
pub fn arguments(settings: &PostgresSettings, task: PgbenchTask) -> Vec<String> {
    let mut words = vec![
        "--no-vacuum".into(),
        // With `--skip-some-updates` (`-N`, pgbench's simple-update script) transactions still write: they update only the
        // accounts, not the tellers and branches, whose few rows would be contended.
        if task.updates { "--skip-some-updates" } else { "--select-only" }.into(),
        format!("--client={}", settings.clients),
        format!("--jobs={}", settings.jobs),
        format!("--protocol={}", settings.protocol),
        format!("--time={}", settings.seconds(task)),
        // pgbench accepts seeds of 31 bits.
        format!("--random-seed={}", settings.seed % 0x7fff_ffff),
        "--log".into(),
    ];
    words.extend(settings.rate.map(|rate| format!("--rate={rate}")));
    words.extend((settings.sampling < 1.0).then(|| format!("--sampling-rate={}", settings.sampling)));
    words
}
