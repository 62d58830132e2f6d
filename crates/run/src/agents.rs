//! The agents of a run: their role, and the users that workloads and servers run as. The users are looked up once, before
//! the first cell, and are part of the request to each agent.

use crate::error::{Result, RunError, require};
use crate::protocol::{ProcessRole, Profiling, Rights};
use crate::work::workload;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Backing, Plan};
use fsarena_sys::user::{User, UserDatabase, UserError};
use fsarena_sys::{pid_namespace, rights};
use std::collections::BTreeMap;

/// What all agents of a run have in common.
#[derive(Debug, Clone)]
pub struct Agents {
    /// How to profile each task, if at all.
    pub profiling: Option<Profiling>,
    /// Whether agents set up and confine a worker, or do everything themselves.
    pub role: ProcessRole,
    /// The user of the workloads.
    pub user: User,
    /// The users that servers run as, by the name of the workload that starts the server. Empty unless workloads run as
    /// root: only root can become another user.
    server_users: BTreeMap<String, User>,
    /// Notes for the report of the run.
    pub notes: Vec<Note>,
}

impl Agents {
    /// The agents of a run whose workloads run as the user `name`, or by default as the user who started fsarena.
    ///
    /// # Errors
    /// If the user is unknown, if only root can become that user, or if the user database does not answer.
    pub fn of_run(name: Option<&str>, profiling: Option<Profiling>, plan: &Plan) -> Result<Agents> {
        let users = UserDatabase::host();
        let own = User::of_process();
        let (mut user, notes) = user(name)?;
        let role = if own.is_root() && profiling.is_none() {
            let namespace = rights::can_confine();
            let pid_namespace = namespace && pid_namespace::is_available();
            ProcessRole::Supervisor(Rights { user: user.clone(), namespace, pid_namespace })
        } else {
            ProcessRole::Single
        };
        // The tracer of a profile requires root. The run keeps no figures of it, so the workload may run as root too.
        if own.is_root() && profiling.is_some() {
            user = own;
        }
        let mut server_users = BTreeMap::new();
        let in_guests = matches!(plan.device.backing, Backing::Guest(_));
        if user.is_root() && !in_guests {
            for planned in &plan.workloads {
                let candidates = workload(plan, planned)?.0.server_users();
                if let Some(user) = find_first(&users, candidates)? {
                    server_users.insert(planned.name.clone(), user);
                }
            }
        }
        Ok(Agents { profiling, role, user, server_users, notes })
    }

    /// Agents that do everything with the rights and as the user of this process.
    pub fn alone() -> Agents {
        let (role, user) = (ProcessRole::Single, User::of_process());
        Agents { profiling: None, role, user, server_users: BTreeMap::new(), notes: vec![] }
    }

    /// The user that the server of a workload runs as; None where the workload starts no server, or runs it as its own
    /// user.
    pub fn server_user(&self, workload: &str) -> Option<User> {
        self.server_users.get(workload).cloned()
    }

    /// The facts that a run records: `workload_user` and `workload_confined_by`.
    pub fn facts(&self) -> [(String, String); 2] {
        let means = match &self.role {
            ProcessRole::Supervisor(rights) if rights.pid_namespace => {
                "PID namespace, read-only mounts, dropped capabilities"
            }
            ProcessRole::Supervisor(rights) if rights.namespace => "read-only mounts, dropped capabilities",
            ProcessRole::Supervisor(_) => "dropped capabilities",
            _ => "the rights of this user",
        };
        let user = format!("{} (uid {})", self.user.name, self.user.uid);
        [("workload_user".into(), user), ("workload_confined_by".into(), means.into())]
    }
}

/// The user that the workloads of a run run as, and notes for the report. By default it is the user who started fsarena.
///
/// # Errors
/// Those of [`Agents::of_run`].
pub fn user(name: Option<&str>) -> Result<(User, Vec<Note>)> {
    let users = UserDatabase::host();
    let own = User::of_process();
    let mut notes = vec![];
    let mut user = match name {
        Some(name) => users.user_by_name(name)?,
        None => match users.invoking_user() {
            // Without the user database the workloads still run as this user; the report has the number for the name.
            Err(error @ UserError::Getent(_)) if !own.is_root() => {
                let text = format!("the name of user {}: {error}", own.uid);
                notes.push(Note::new(NoteKind::Unavailable, text));
                own.clone()
            }
            found => found?,
        },
    };
    require(own.is_root() || user.uid == own.uid, || {
        RunError::Plan(format!("user {}: only root can run workloads as another user", user.name))
    })?;
    if (user.uid, user.gid) == (own.uid, own.gid) {
        user.groups = own.groups;
    }
    Ok((user, notes))
}

/// The first of these users that exists; None if there is none.
fn find_first(users: &UserDatabase, names: &[&str]) -> Result<Option<User>> {
    for name in names {
        match users.user_by_name(name) {
            Err(UserError::Unknown(_)) => {}
            found => return Ok(Some(found?)),
        }
    }
    Ok(None)
}
