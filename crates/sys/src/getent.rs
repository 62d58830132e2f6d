//! Looks up users, groups and hosts with getent(1), which queries every source in nsswitch.conf(5).
//!
//! fsarena ships as a static program. For getpwnam(3) and getaddrinfo(3) a static glibc loads the machine's libnss_*.so,
//! which belong to another glibc and crash the process. getent loads them in a separate process.

use crate::limits;
use crate::process_output::{describe_output, make_memory_file, read_tail};
use crate::wait::{Cancel, WaitError, wait_until};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::names::distinct;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Paths of getent. PATH is not searched, because the caller of sudo may control it.
const GETENT_PATHS: [&str; 2] = ["/usr/bin/getent", "/bin/getent"];
/// Time after which getent is killed: a directory service may hang.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The exit code of getent for a key that the database lacks.
const KEY_NOT_FOUND: i32 = 2;

/// A query that failed: getent crashed, hung, was interrupted, is missing, does not support the database, or found no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {why}")]
pub struct GetentError {
    /// The command, quoted for a shell.
    pub command: String,
    /// How it failed.
    pub why: String,
}

impl HasExitCode for GetentError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Missing
    }
}

/// The program getent.
#[derive(Debug, Clone)]
pub struct Getent {
    program: PathBuf,
    timeout: Duration,
}

impl Getent {
    /// The getent of this machine; None if it is not installed.
    pub fn find() -> Option<Getent> {
        let program = GETENT_PATHS.iter().map(Path::new).find(|program| program.exists())?;
        Some(Getent { program: program.into(), timeout: TIMEOUT })
    }

    /// The lines that getent prints for a key of a database; None if the database lacks the key.
    ///
    /// # Errors
    /// Getent cannot be started, fails, or takes too long.
    pub fn query(&self, database: &str, key: &str) -> Result<Option<String>, GetentError> {
        // getent would parse `-x` as an option. No database has an empty key, or one with NUL or a newline.
        if key.is_empty() || key.starts_with('-') || key.contains(['\0', '\n']) {
            return Ok(None);
        }
        let error = |why: String| {
            let key = quote_for_shell(key);
            GetentError { command: format!("{} {database} {key}", self.program.display()), why }
        };
        let failed = |source: std::io::Error| error(source.to_string());
        let mut out = make_memory_file("getent").map_err(failed)?;
        let mut err = make_memory_file("getent").map_err(failed)?;
        let mut command = Command::new(&self.program);
        command.args([database, key]).env_clear().env("LC_ALL", "C").stdin(Stdio::null());
        command.stdout(out.try_clone().map_err(failed)?).stderr(err.try_clone().map_err(failed)?);
        let mut child = limits::spawn(&mut command).map_err(failed)?;
        let deadline = Instant::now() + self.timeout;
        let waited = wait_until(deadline, Cancel::BySignal, || child.try_wait().transpose());
        let status = waited.map_err(|wait_error| {
            // fsarena does not wait for its end: it may be stuck in a system call.
            let _ = child.kill();
            error(match wait_error {
                WaitError::Cancelled(signal) => format!("interrupted by signal {signal}"),
                WaitError::TimedOut => format!("no answer within {:?}, so fsarena killed it", self.timeout),
            })
        })?;
        let status = status.map_err(failed)?;
        match status.code() {
            Some(0) => Ok(Some(read_tail(&mut out, u64::MAX).map_err(failed)?)),
            Some(KEY_NOT_FOUND) => Ok(None),
            _ => Err(error(format!("{status}: {}", describe_output(&read_tail(&mut err, 4096).map_err(failed)?)))),
        }
    }

    #[cfg(test)]
    pub(crate) fn stand_in(program: &Path, timeout: Duration) -> Getent {
        Getent { program: program.into(), timeout }
    }
}

/// The addresses of a host: of an address itself, of `localhost`, or of a name that getent resolves.
///
/// # Errors
/// The name is unknown, or getent is missing or fails.
pub fn host_addresses(host: &str) -> Result<Vec<IpAddr>, GetentError> {
    resolve_addresses(Getent::find().as_ref(), host)
}

/// Does the work of [`host_addresses`] with this getent; None if getent is not installed.
fn resolve_addresses(getent: Option<&Getent>, host: &str) -> Result<Vec<IpAddr>, GetentError> {
    let without_brackets = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = without_brackets.parse() {
        return Ok(vec![address]);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(vec![[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()]);
    }
    let error =
        |why: &str| GetentError { command: format!("getent ahosts {}", quote_for_shell(host)), why: why.into() };
    let Some(getent) = getent else {
        return Err(error("getent is not installed, and host names need it; write an address"));
    };
    let text = getent.query("ahosts", host)?.unwrap_or_default();
    // The first word is the address. An address with a zone (`fe80::1%eth0`) does not parse, and is left out.
    let parse_address = |line: &str| line.split_whitespace().next()?.parse::<IpAddr>().ok();
    let addresses = distinct(text.lines().filter_map(parse_address));
    if addresses.is_empty() { Err(error("unknown host")) } else { Ok(addresses) }
}

/// Quotes a word for a shell, if it has characters other than letters, digits and `@%+=:,./_-`.
fn quote_for_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if word.chars().all(is_plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes a script that stands in for getent. A child process writes it: if a thread of this process forked while the
    /// file was open for writing, executing it would fail with ETXTBSY.
    pub(crate) fn write_script(dir: &Path, text: &str) -> PathBuf {
        let path = dir.join("getent");
        let write = "printf '%s\\n' '#!/bin/sh' \"$1\" > \"$0\" && chmod 755 \"$0\"";
        assert!(Command::new("sh").args(["-c", write]).arg(&path).arg(text).status().unwrap().success());
        path
    }

    fn stand_in(dir: &Path, text: &str) -> Getent {
        Getent::stand_in(&write_script(dir, text), Duration::from_secs(60))
    }

    #[test]
    fn only_the_exit_code_for_a_missing_key_is_not_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let getent =
            stand_in(dir.path(), "case $2 in\nok) echo \"$1 $#\";;\nlost) exit 2;;\n*) echo bad >&2; exit 3;; esac");
        assert_eq!(getent.query("passwd", "ok").unwrap().as_deref(), Some("passwd 2\n"));
        assert_eq!(getent.query("passwd", "lost"), Ok(None));
        let error = getent.query("passwd", "o'x").unwrap_err();
        assert!(error.why.contains("bad") && error.command.ends_with(r"passwd 'o'\''x'"), "{error}");
        assert_eq!(error.exit_code(), ExitCode::Missing);
        for key in ["", "-s", "a\nb", "a\0b"] {
            assert_eq!(getent.query("passwd", key), Ok(None), "{key:?}");
        }
        assert!(Getent::stand_in(dir.path(), TIMEOUT).query("passwd", "ok").is_err(), "a directory");
    }

    #[test]
    fn a_getent_that_hangs_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let program = write_script(dir.path(), "echo $$ > \"${0%/*}/pid\"; exec sleep 600");
        let error = Getent::stand_in(&program, Duration::from_millis(300)).query("passwd", "x").unwrap_err();
        assert!(error.why.contains("killed"), "{error}");
        let pid = std::fs::read_to_string(dir.path().join("pid")).unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        while !state().is_empty() && !state().contains(") Z ") {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn getent_runs_with_an_empty_environment() {
        let dir = tempfile::tempdir().unwrap();
        let getent = stand_in(dir.path(), "tr '\\0' '\\n' < /proc/$$/environ");
        assert_eq!(getent.query("passwd", "x").unwrap().as_deref(), Some("LC_ALL=C\n"));
    }

    #[test]
    fn only_host_names_need_getent() {
        let local = vec![IpAddr::from([127, 0, 0, 1]), "::1".parse().unwrap()];
        assert_eq!(resolve_addresses(None, "localhost"), Ok(local));
        assert_eq!(resolve_addresses(None, "10.0.0.1"), Ok(vec![IpAddr::from([10, 0, 0, 1])]));
        assert_eq!(resolve_addresses(None, "[fe80::1]"), Ok(vec!["fe80::1".parse().unwrap()]));
        let missing = "getent ahosts db: getent is not installed, and host names need it; write an address";
        assert_eq!(resolve_addresses(None, "db").unwrap_err().to_string(), missing);
        let dir = tempfile::tempdir().unwrap();
        let answer = "[ \"$1 $2\" = 'ahosts db' ] || exit 2\nprintf '%s\\n' '10.0.0.7 STREAM db' '10.0.0.7 DGRAM' \
                      'fe80::1%eth0 STREAM' 'fd00::7 STREAM'";
        let getent = stand_in(dir.path(), answer);
        let addresses = resolve_addresses(Some(&getent), "db").unwrap();
        assert_eq!(addresses, ["10.0.0.7".parse::<IpAddr>().unwrap(), "fd00::7".parse().unwrap()]);
        assert_eq!(resolve_addresses(Some(&getent), "no.such").unwrap_err().why, "unknown host");
    }
}
