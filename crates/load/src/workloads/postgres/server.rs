//! One cluster of PostgreSQL: its files, its server, and programs that talk to it.

use super::conf;
use super::settings::{Chosen, Load, database};
use crate::error::{Error, Result, at};
use crate::invocation::hint;
use crate::service::{Service, ServiceDef};
use crate::workload::Place;
use fsarena_sys::argv::{self, Argv, Finished};
use fsarena_sys::{program, user::User};
use rustix::process::Signal;
use std::path::PathBuf;
use std::{io::Write, os::unix::fs::PermissionsExt, time::Duration};

/// PostgreSQL refuses root. SIGQUIT has it end at once, with all its processes.
pub const DEF: ServiceDef =
    ServiceDef { name: "postgres", users: &["postgres", "nobody"], end: Signal::QUIT };
/// How long its last checkpoint may take.
const PATIENCE: Duration = Duration::from_secs(3600);
/// The programs of PostgreSQL that run.
pub const PROGRAMS: [&str; 4] = ["postgres", "initdb", "pgbench", "psql"];

/// Where a cluster is.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The directory of the programs.
    bin: PathBuf,
    /// The data directory, on the filesystem under test.
    pub data: PathBuf,
    /// Logs, on the source disk.
    run: PathBuf,
    /// The user of the server and its programs, where that is another than the user of this process.
    user: Option<User>,
}

impl Cluster {
    /// A cluster in this place that is not made yet, of the programs that are installed.
    ///
    /// # Errors
    /// Where they are not, all of one version.
    pub fn new(place: &Place) -> Result<Cluster> {
        let bin = program::dir_with_all(&PROGRAMS).ok_or_else(|| argv::Error::NotFound {
            program: format!("PostgreSQL ({} in one directory)", PROGRAMS.join(", ")),
        })?;
        let user = place.server_user.clone();
        Ok(Cluster { bin, data: place.root.join("cluster"), run: place.other.join("postgres"), user })
    }

    /// Makes it: `initdb`, and the settings.
    ///
    /// # Errors
    /// If initdb fails.
    pub fn init(&self, chosen: &Chosen) -> Result<()> {
        for dir in [&self.data, &self.run] {
            DEF.make_dir(dir, self.user.as_ref())?;
            let private = std::fs::Permissions::from_mode(0o700);
            std::fs::set_permissions(dir, private).map_err(Error::io(format!("make {dir:?} private")))?;
        }
        let argv = self.tool("initdb").args(["--no-sync", "--locale=C", "--encoding=UTF8", "-A", "trust"]);
        self.expect(&argv.args(["-U", "postgres", "-D"]).arg(&self.data))?;
        let file = self.data.join("postgresql.conf");
        let opened = std::fs::OpenOptions::new().append(true).open(&file);
        let text = conf::render(&chosen.conf, chosen.clients);
        opened.and_then(|mut open| open.write_all(text.as_bytes())).map_err(at("write", &file))
    }

    /// Starts the server and waits until it takes connections.
    ///
    /// # Errors
    /// If it does not start; with the last lines of its log.
    pub fn start(&self) -> Result<Service> {
        let log = self.run.join("server.log");
        let opened = std::fs::File::create(&log).and_then(|file| Ok((file.try_clone()?, file)));
        let (out, err) = opened.map_err(at("make", &log))?;
        let mut command = DEF.command(&self.bin.join("postgres"), self.user.as_ref());
        command.arg("-D").arg(&self.data).env("LC_ALL", "C").stdout(out).stderr(err);
        let mut service = DEF.start(command, &log)?;
        let up = service.wait_until(|log| log.contains("database system is ready to accept connections"));
        up.map_err(|error| Error::Unfit(format!("{error}{}", hint(&error.to_string(), &self.data))))?;
        Ok(service)
    }

    /// Ends the server after a last checkpoint.
    ///
    /// # Errors
    /// Where it does not end.
    pub fn stop(&self, service: Service) -> Result<()> {
        service.stop(Signal::INT, PATIENCE)
    }

    /// Makes a database and fills it with the tables of pgbench.
    ///
    /// # Errors
    /// Where it cannot; with the last lines of the server's log.
    pub fn load(&self, service: &Service, scale: i64) -> Result<()> {
        self.sql(service, &format!("CREATE DATABASE {}", database(scale)))?;
        let argv = self.tool("pgbench").args(["-i", "-q", "-s"]).arg(scale.to_string());
        self.ask(service, &argv.arg(database(scale))).map(drop)
    }

    /// The answer to a statement, as text.
    ///
    /// # Errors
    /// Where the server refuses; with the last lines of its log.
    pub fn sql(&self, service: &Service, statement: &str) -> Result<String> {
        let argv = self.tool("psql").args(["-X", "-A", "-t", "-q", "-c", statement, "postgres"]);
        Ok(self.ask(service, &argv)?.stdout.trim().to_string())
    }

    /// What pgbench prints of one run, and its log: a text for each of its threads.
    ///
    /// # Errors
    /// If it fails, or the server does; with the last lines of the server's log.
    pub fn bench(&self, service: &Service, chosen: &Chosen, load: Load) -> Result<(String, Vec<String>)> {
        let logs = self.run.join("pgbench");
        DEF.make_dir(&logs, self.user.as_ref())?;
        let argv = self.tool("pgbench").args(arguments(chosen, load));
        let argv = argv.arg(format!("--log-prefix={}", logs.join("log").display())).arg(database(load.scale));
        let printed = self.ask(service, &argv)?.stdout;
        let read = || {
            let texts = std::fs::read_dir(&logs)?.map(|entry| std::fs::read_to_string(entry?.path()));
            let texts = texts.collect::<Result<_, _>>()?;
            std::fs::remove_dir_all(&logs).map(|()| texts)
        };
        Ok((printed, read().map_err(at("read", &logs))?))
    }

    /// A program as the server's user. Its socket is in the working directory, so that a long path does no harm.
    fn tool(&self, program: &str) -> Argv {
        let argv =
            Argv::new(self.bin.join(program)).user(self.user.clone()).cwd(&self.data).env("LC_ALL", "C");
        argv.env("PGHOST", "/proc/self/cwd").env("PGPORT", "5432").env("PGUSER", "postgres")
    }

    /// Runs a program that talks to the server.
    fn ask(&self, service: &Service, argv: &Argv) -> Result<Finished> {
        let log = |_: &str| format!("; the server's log ends: {}", service.last_words());
        self.expect(argv).map_err(|error| match error {
            Error::Command(error) => saying_more(error, log).into(),
            other => other,
        })
    }

    fn expect(&self, argv: &Argv) -> Result<Finished> {
        let checked = argv.run().and_then(|finished| argv.check(finished));
        Ok(checked.map_err(|error| saying_more(error, |said| hint(said, &self.data)))?)
    }
}

/// The error of a command that failed, with more to what the command said.
fn saying_more(error: argv::Error, more: impl FnOnce(&str) -> String) -> argv::Error {
    match error {
        argv::Error::Failed { command, ended, said } => {
            argv::Error::Failed { command, ended, said: format!("{said}{}", more(&said)) }
        }
        other => other,
    }
}

/// The arguments of pgbench for a timed run.
pub fn arguments(chosen: &Chosen, load: Load) -> Vec<String> {
    let mut words = vec![
        "--no-vacuum".into(),
        if load.updates { "--skip-some-updates" } else { "--select-only" }.into(),
        format!("--client={}", chosen.clients),
        format!("--jobs={}", chosen.jobs),
        format!("--protocol={}", chosen.protocol),
        format!("--time={}", chosen.seconds(load)),
        // pgbench takes 31 bits.
        format!("--random-seed={}", chosen.seed % 0x7fff_ffff),
        "--log".into(),
    ];
    words.extend(chosen.rate.map(|rate| format!("--rate={rate}")));
    words.extend((chosen.sampling < 1.0).then(|| format!("--sampling-rate={}", chosen.sampling)));
    words
}
