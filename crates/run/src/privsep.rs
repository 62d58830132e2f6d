//! Privilege separation. An agent that runs as root has two processes: the worker has few rights and runs the workload;
//! the supervisor starts the worker, mounts the filesystem, and does for the worker what only root may do.
//!
//! [`AgentConfig`] holds the roles and users of a run. fsarena determines them once, before the first cell, and sends
//! them to each agent with its request.

use crate::error::{CellError, CellResult, Result, RunError, require};
use crate::protocol::{AgentMessage, AgentRequest, Answers, ProcessRole, ProfiledTask, Rights, write_message};
use crate::tasks::{make_root, perform_privileged};
use crate::work::find_workload;
use crate::{bench::Bench, child, work};
use fsarena_core::event::{Note, NoteKind, Outcome};
use fsarena_core::plan::Plan;
use fsarena_core::setting_text::setting;
use fsarena_load::workload::Place;
use fsarena_sys::process_output::{make_memory_file, receive_lines};
use fsarena_sys::user::{User, UserDatabase, UserError};
use fsarena_sys::{Error, kernel::SysRoot, limits, pid_namespace, rights};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{io, process::Child};

/// The fact of a machine that names the user of the workloads.
const USER_FACT: &str = "workload_user";

/// The roles and users of all agents of a run.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// The task to profile, if any.
    pub profiled_task: Option<ProfiledTask>,
    /// The role of the process that fsarena starts for each cell: a supervisor, which starts and confines a worker, or
    /// a single process that does everything.
    pub role: ProcessRole,
    /// The user of the workloads.
    pub user: User,
    /// The users that servers run as, by the name of the workload that starts the server. Empty unless workloads run as
    /// root: only root can become another user.
    server_users: BTreeMap<String, User>,
    /// Notes for the report of the run.
    pub notes: Vec<Note>,
}

impl AgentConfig {
    /// The config of the agents of a run whose workloads run as the user `user_name`; None for the user who started
    /// fsarena.
    ///
    /// # Errors
    /// The user is unknown, only root can become that user, or the user database does not answer.
    pub fn of_run(user_name: Option<&str>, profiled_task: Option<ProfiledTask>, plan: &Plan) -> Result<AgentConfig> {
        let users = UserDatabase::host();
        let process_user = User::of_process();
        let (mut user, notes) = workload_user(user_name)?;
        let role = if process_user.is_root() && profiled_task.is_none() {
            let has_mount_namespace = rights::can_restrict_writes();
            let has_pid_namespace = has_mount_namespace && pid_namespace::is_available();
            ProcessRole::Supervisor(Rights { user: user.clone(), has_mount_namespace, has_pid_namespace })
        } else {
            ProcessRole::Single
        };
        // The tracer of a profile requires root. The run keeps no figures of it, so the workload may run as root too.
        if process_user.is_root() && profiled_task.is_some() {
            user = process_user;
        }
        let mut server_users = BTreeMap::new();
        if user.is_root() {
            for planned in &plan.workloads {
                let candidates = find_workload(plan, planned)?.0.server_users();
                if let Some(user) = first_existing_user(&users, candidates)? {
                    server_users.insert(planned.name.clone(), user);
                }
            }
        }
        Ok(AgentConfig { profiled_task, role, user, server_users, notes })
    }

    /// The config of agents that run as the user of this process, with all its rights.
    pub fn unconfined() -> AgentConfig {
        let (role, user) = (ProcessRole::Single, User::of_process());
        AgentConfig { profiled_task: None, role, user, server_users: BTreeMap::new(), notes: vec![] }
    }

    /// The user that the server of a workload runs as; None if the workload starts no server, or runs it as its own
    /// user.
    pub fn server_user(&self, workload: &str) -> Option<User> {
        self.server_users.get(workload).cloned()
    }

    /// The facts `workload_user` and `workload_confined_by` that a run records: names and values.
    pub fn facts(&self) -> [(String, String); 2] {
        let confinement = match &self.role {
            ProcessRole::Supervisor(rights) if rights.has_pid_namespace => {
                "PID namespace, read-only mounts, dropped capabilities"
            }
            ProcessRole::Supervisor(rights) if rights.has_mount_namespace => "read-only mounts, dropped capabilities",
            ProcessRole::Supervisor(_) => "dropped capabilities",
            _ => "the rights of this user",
        };
        [(USER_FACT.into(), self.user_text()), ("workload_confined_by".into(), confinement.into())]
    }

    /// The name and the number of the user of the workloads: `alice (uid 1000)`.
    fn user_text(&self) -> String {
        format!("{} (uid {})", self.user.name, self.user.uid)
    }

    /// Checks that the workloads of a resumed run run as the same user as in its first part. `facts` are the facts of the
    /// machine when the run began; those of runs in guests name no user.
    ///
    /// # Errors
    /// Another user, with what to do.
    pub fn check_same_user(&self, facts: &BTreeMap<String, String>) -> Result<()> {
        let is_other = |before: &&String| !before.ends_with(&format!(" (uid {})", self.user.uid));
        let Some(before) = facts.get(USER_FACT).filter(is_other) else { return Ok(()) };
        Err(RunError::Plan(format!(
            "the workloads of this run ran as {before} and would now run as {}; name the user: {}",
            self.user_text(),
            setting("user", "NAME")
        )))
    }
}

/// The user that the workloads of a run run as, and notes for the report. `name` is the name of that user; None for the
/// user who started fsarena.
///
/// # Errors
/// Those of [`AgentConfig::of_run`].
pub fn workload_user(name: Option<&str>) -> Result<(User, Vec<Note>)> {
    let users = UserDatabase::host();
    let process_user = User::of_process();
    let mut notes = vec![];
    let mut user = match name {
        Some(name) => users.user_by_name(name)?,
        None => match users.invoking_user() {
            // Without the user database the workloads still run as this user; the report then has its number instead of
            // its name.
            Err(error @ UserError::Getent(_)) if !process_user.is_root() => {
                let text = format!("the name of user {}: {error}", process_user.uid);
                notes.push(Note::new(NoteKind::Unavailable, text));
                process_user.clone()
            }
            found => found?,
        },
    };
    require(process_user.is_root() || user.uid == process_user.uid, || {
        RunError::Plan(format!("user {}: only root can run workloads as another user", user.name))
    })?;
    if (user.uid, user.gid) == (process_user.uid, process_user.gid) {
        user.groups = process_user.groups;
    }
    Ok((user, notes))
}

/// The first of these users that exists; None if none exists.
fn first_existing_user(users: &UserDatabase, names: &[&str]) -> Result<Option<User>> {
    for name in names {
        match users.user_by_name(name) {
            Err(UserError::Unknown(_)) => {}
            found => return Ok(Some(found?)),
        }
    }
    Ok(None)
}

/// Confines this process to the mounts and the rights of its role.
///
/// # Errors
/// The kernel refuses, or the user of a worker cannot reach its files.
pub fn confine_process(kernel: &SysRoot, request: &AgentRequest) -> CellResult {
    let refused = |error: io::Error| CellError::missing(format!("confining the workload: {error}"));
    match &request.role {
        ProcessRole::Supervisor(Rights { has_mount_namespace: true, .. }) => {
            let target = request.mount.as_ref().map_or(&request.root, |mount| &mount.target);
            rights::enter_own_mount_namespace(kernel, &[target, &request.root, &request.source_dir]).map_err(refused)
        }
        ProcessRole::Single | ProcessRole::Supervisor(_) => Ok(()),
        ProcessRole::Worker(Rights { user, has_mount_namespace, has_pid_namespace }) => {
            if *has_mount_namespace {
                restrict_writes(request, *has_pid_namespace).map_err(refused)?;
            } else if *has_pid_namespace {
                rights::enter_mount_namespace_with_proc().map_err(refused)?;
            }
            user.drop_privileges().map_err(refused)?;
            check_access(request, &user.name)
        }
    }
}

/// Makes everything read-only for this process except the filesystem or device under test, the source disk, and the
/// directories that the workload is known to write to.
fn restrict_writes(request: &AgentRequest, has_pid_namespace: bool) -> io::Result<()> {
    let mut writable_dirs = vec![request.source_dir.clone()];
    if let Ok((workload, _)) = work::workload_of_cell(&request.cell) {
        writable_dirs.extend(workload.extra_writable_dir().map(PathBuf::from));
    }
    let mounted = request.mount.as_ref().map(|mount| mount.target.as_path());
    let is_device = Place::for_workload(&request.cell.workload, &request.root, &request.source_dir).is_device();
    if mounted.is_none() && !is_device {
        writable_dirs.push(request.root.clone());
    }
    rights::restrict_writes_to(&writable_dirs, mounted, is_device.then_some(request.root.as_path()), has_pid_namespace)
}

/// Checks that this process, which has become the user of the workload, can pass through every directory above its
/// files.
fn check_access(request: &AgentRequest, user: &str) -> CellResult {
    for path in request.paths_to_sync() {
        let Err(error) = path.metadata() else { continue };
        let refusing_dir = path.ancestors().skip(1).find(|above| above.metadata().is_ok()).unwrap_or(path);
        return Err(CellError::missing(format!(
            "the workload runs as user {user}, who cannot reach {}: {error}; keep the runs elsewhere (`{}`), let everybody \
             pass (`chmod a+x {}`), or run the workload as root (`{}`)",
            path.display(),
            setting("runs", "/var/tmp/runs"),
            refusing_dir.display(),
            setting("user", "root")
        )));
    }
    Ok(())
}

/// Starts a worker for the tasks of a request and serves it until it ends.
///
/// # Errors
/// A task fails, or the worker cannot be started or breaks the protocol.
pub fn supervise_worker(request: &AgentRequest, rights: &Rights, bench: &mut Bench, answers: Answers) -> CellResult {
    let place = Place::for_workload(&request.cell.workload, &request.root, &request.source_dir);
    make_root(&place)?;
    // The files of a read-only filesystem have their owners already.
    if !rights.user.is_root() && !place.is_read_only() {
        let mut roots = request.mount.iter().map(|mount| &mount.target).chain([&place.root]);
        roots.try_for_each(|dir| rights.user.chown_to_user(dir).map_err(Error::io("giving away", dir)))?;
    }
    run_worker(request, rights, bench, answers)
}

/// The failure to start a worker or to talk to it.
fn worker_error(error: io::Error) -> CellError {
    let why = format!("the process that runs the workload: {error}");
    match limits::limit_remedy(&error) {
        Some(remedy) => CellError::missing(format!("{why}; {remedy}")),
        None => CellError::internal(why),
    }
}

/// Starts a worker, serves it, and waits for its end.
fn run_worker(request: &AgentRequest, rights: &Rights, bench: &mut Bench, answers: Answers) -> CellResult {
    let mut stderr_file = make_memory_file("stderr").map_err(worker_error)?;
    let mut command = child::agent_command(stderr_file.try_clone().map_err(worker_error)?);
    if !rights.user.runs_this_process() {
        // Commands of the workload get the home directory of their user instead of the home directory of root.
        let home = rights.user.home.as_deref().unwrap_or(Path::new("/"));
        command.env("HOME", home).env("USER", &rights.user.name).env("LOGNAME", &rights.user.name);
    }
    // The worker waits for its request, so it has started nothing yet if this process dies now.
    let spawn = if rights.has_pid_namespace { pid_namespace::spawn } else { limits::spawn };
    let mut worker = spawn(&mut command).map_err(worker_error)?;
    let served = serve_worker(&mut worker, request, rights, bench, answers);
    if served.is_err() {
        // The supervisor unmounts the filesystem next, so the worker must not use it any more.
        worker.kill().map_err(worker_error)?;
    }
    let ended = if rights.has_pid_namespace { pid_namespace::wait(&mut worker) } else { worker.wait() };
    let status = ended.map_err(worker_error)?;
    match served.map_err(worker_error)? {
        Some(outcome) => CellError::check_outcome(outcome),
        None => {
            Err(child::exit_error("the process that runs the workload", status, &mut stderr_file)
                .map_err(worker_error)?)
        }
    }
}

/// Sends the request to a worker, passes its events on, and does what it requests, until it sends its outcome; None if
/// it ends without one.
fn serve_worker(
    worker: &mut Child,
    request: &AgentRequest,
    rights: &Rights,
    bench: &mut Bench,
    answers: Answers,
) -> io::Result<Option<Outcome>> {
    let worker_request = AgentRequest { role: ProcessRole::Worker(rights.clone()), ..request.clone() };
    let (mut stdin, stdout) = child::send_request(worker, &worker_request)?;
    for line in receive_lines(stdout) {
        match AgentMessage::parse(&line).map_err(io::Error::other)? {
            AgentMessage::Event(event) => bench.emit(event),
            AgentMessage::Request(privileged) => {
                let result = perform_privileged(request, privileged, bench, answers);
                write_message(&mut stdin, &result.map_or_else(Outcome::from, |()| Outcome::Done))?;
            }
            AgentMessage::OpenedFiles(_) | AgentMessage::ShellExited(_) => {
                return Err(io::Error::other(child::UNEXPECTED_GUEST_MESSAGE));
            }
            AgentMessage::End(outcome) => return Ok(Some(outcome)),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_resumed_only_with_its_user() {
        let config = AgentConfig::unconfined();
        let uid = config.user.uid;
        let check = |text: String| config.check_same_user(&[(USER_FACT.to_string(), text)].into());
        assert!(check(format!("by another name (uid {uid})")).is_ok());
        assert!(config.check_same_user(&BTreeMap::new()).is_ok(), "a run in guests");
        let error = check(format!("alice (uid 1{uid})")).unwrap_err().to_string();
        assert!(error.contains("ran as alice (uid 1") && error.contains("user="), "{error}");
    }
}
