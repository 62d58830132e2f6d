//! The agents of a run: the part that they play, and the users of what they start. All users are looked up once, before
//! the first cell; an agent is told what was found.

use crate::executor::{Fatal, Result, require};
use crate::protocol::{Profiling, Rights, Role};
use crate::work::workload;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::plan::{Backing, Plan};
use fsarena_sys::user::{User, UserDatabase, UserError};
use fsarena_sys::{pid_namespace, rights};
use std::collections::BTreeMap;

/// What all agents of a run have in common.
#[derive(Debug, Clone)]
pub struct Agents {
    /// Further profiling of each task.
    pub profiling: Option<Profiling>,
    /// The part.
    pub role: Role,
    /// The user of the workloads.
    pub user: User,
    /// The users of servers that workloads start, by the name of the workload. Only root can become another user.
    server_users: BTreeMap<String, User>,
    /// Notes for the report of the run.
    pub notes: Vec<Note>,
}

impl Agents {
    /// The agents of a run: its workloads run as this user, or as the one who started fsarena.
    ///
    /// # Errors
    /// A user that is unknown, or one that only root can become; a database of users that does not answer.
    pub fn of_run(name: Option<&str>, profiling: Option<Profiling>, plan: &Plan) -> Result<Agents> {
        let users = UserDatabase::host();
        let own = User::of_process();
        let (mut user, notes) = user(name)?;
        let role = if own.is_root() && profiling.is_none() {
            let namespace = rights::can_confine();
            let pid_namespace = namespace && pid_namespace::is_available();
            Role::Keeper(Rights { user: user.clone(), namespace, pid_namespace })
        } else {
            Role::Alone
        };
        // The tracer of a profile needs the rights of root, and its figures are not kept.
        if own.is_root() && profiling.is_some() {
            user = own;
        }
        let mut server_users = BTreeMap::new();
        let in_guests = matches!(plan.device.backing, Backing::Guest(_));
        if user.is_root() && !in_guests {
            for asked in &plan.workloads {
                let candidates = workload(plan, asked)?.0.server_users();
                if let Some(user) = find_first(&users, candidates)? {
                    server_users.insert(asked.name.clone(), user);
                }
            }
        }
        Ok(Agents { profiling, role, user, server_users, notes })
    }

    /// Agents that do everything with the rights and as the user of this process.
    pub fn alone() -> Agents {
        let (role, user) = (Role::Alone, User::of_process());
        Agents { profiling: None, role, user, server_users: BTreeMap::new(), notes: vec![] }
    }

    /// The user of the server that a workload starts; none where it starts none, or not as another user.
    pub fn server_user(&self, workload: &str) -> Option<User> {
        self.server_users.get(workload).cloned()
    }

    /// The facts that a run records: the user of its workloads, and the means that confine them.
    pub fn facts(&self) -> [(String, String); 2] {
        let means = match &self.role {
            Role::Keeper(rights) if rights.pid_namespace => {
                "PID namespace, read-only mounts, dropped capabilities"
            }
            Role::Keeper(rights) if rights.namespace => "read-only mounts, dropped capabilities",
            Role::Keeper(_) => "dropped capabilities",
            _ => "the rights of this user",
        };
        let user = format!("{} (uid {})", self.user.name, self.user.uid);
        [("workload_user".into(), user), ("workload_confined_by".into(), means.into())]
    }
}

/// The user of the workloads of a run: the one of this name, or the one who started fsarena. With notes for the report.
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
            // The user of this process stays who it is; only the name is missing in the report.
            Err(error @ UserError::Getent(_)) if !own.is_root() => {
                let text = format!("the name of user {}: {error}", own.uid);
                notes.push(Note::new(NoteKind::Unavailable, text));
                own.clone()
            }
            found => found?,
        },
    };
    require(own.is_root() || user.uid == own.uid, || {
        Fatal::Plan(format!("user {}: only root can run workloads as another user", user.name))
    })?;
    if (user.uid, user.gid) == (own.uid, own.gid) {
        user.groups = own.groups;
    }
    Ok((user, notes))
}

/// The first of these users that exists.
fn find_first(users: &UserDatabase, names: &[&str]) -> Result<Option<User>> {
    for name in names {
        match users.user_by_name(name) {
            Err(UserError::Unknown(_)) => {}
            found => return Ok(Some(found?)),
        }
    }
    Ok(None)
}
