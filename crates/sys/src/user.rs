//! Users and their groups: looked up through getent, or read from /etc/passwd and /etc/group where getent is missing.

use crate::getent::{Getent, GetentError};
use crate::{dirs, none_if_missing};
use fsarena_core::exit::{ExitCode, HasExitCode};
use fsarena_core::names::distinct;
use fsarena_core::setting_text::setting;
use rustix::fs::{AtFlags, CWD, chownat, fchown};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{Gid, Uid};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{io, os::fd::AsFd, os::fd::BorrowedFd};

/// A user to run workloads as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The login name, or the number of a user without one.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Group id of the main group.
    pub gid: u32,
    /// Group ids of all groups, including the main one.
    pub groups: Vec<u32>,
    /// The home directory; None if fsarena did not look the user up, or no database has an entry.
    #[serde(default)]
    pub home: Option<PathBuf>,
}

/// Why a user could not be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserError {
    /// No database has the name.
    #[error("unknown user `{0}`; list the users: getent passwd")]
    Unknown(String),
    /// The name is a number or an alias: getent found an entry for it, which has another login name.
    #[error("`{key}` is not the name of a user; did you mean `{login_name}`, who has the number {uid}?")]
    NotALoginName {
        /// The number or alias.
        key: String,
        /// The login name of the entry.
        login_name: String,
        /// The user id of the entry.
        uid: u32,
    },
    /// SUDO_UID and SUDO_GID do not name a user.
    #[error(
        "{why}; start fsarena by sudo, name the user of the workload ({user}), or: unset SUDO_UID SUDO_GID",
        why = .0,
        user = setting("user", "NAME")
    )]
    Sudo(String),
    /// getent failed.
    #[error(transparent)]
    Getent(#[from] GetentError),
    /// A database has an entry that cannot be read.
    #[error("{0}")]
    Malformed(String),
}

impl HasExitCode for UserError {
    fn exit_code(&self) -> ExitCode {
        match self {
            UserError::Unknown(_) | UserError::NotALoginName { .. } | UserError::Sudo(_) => ExitCode::Usage,
            UserError::Getent(error) => error.exit_code(),
            UserError::Malformed(_) => ExitCode::Missing,
        }
    }
}

/// The databases in which fsarena looks up users and groups.
#[derive(Debug, Clone)]
pub struct UserDatabase {
    getent: Option<Getent>,
    /// The directory of `passwd` and `group`, which fsarena reads only if getent is missing.
    etc: PathBuf,
}

impl UserDatabase {
    /// The databases of this machine.
    pub fn host() -> UserDatabase {
        UserDatabase { getent: Getent::find(), etc: "/etc".into() }
    }

    /// The user with this login name, with all groups.
    ///
    /// # Errors
    /// The name is unknown, or is a number or an alias of a user, or getent fails.
    pub fn user_by_name(&self, name: &str) -> Result<User, UserError> {
        let entry = self.find_entry(name, |entry| entry.name == name)?;
        let entry = entry.ok_or_else(|| UserError::Unknown(name.into()))?;
        // getent also accepts a user id as a key, and some directory services accept aliases.
        if entry.name != name {
            return Err(UserError::NotALoginName { key: name.into(), login_name: entry.name, uid: entry.uid });
        }
        self.add_groups(entry)
    }

    /// The user with this id, with all groups. A user without an entry in a database is in the group `gid` only.
    ///
    /// # Errors
    /// getent fails.
    pub fn user_by_ids(&self, uid: u32, gid: u32) -> Result<User, UserError> {
        match self.find_entry_by_uid(uid)? {
            Some(entry) => self.add_groups(User { gid, ..entry }),
            None => Ok(User { name: uid.to_string(), uid, gid, groups: vec![gid], home: None }),
        }
    }

    /// The login name of a user id; None if no database has an entry.
    ///
    /// # Errors
    /// getent fails.
    pub fn login_name(&self, uid: u32) -> Result<Option<String>, UserError> {
        Ok(self.find_entry_by_uid(uid)?.map(|entry| entry.name))
    }

    /// The user who started fsarena; with sudo, the user who called sudo.
    ///
    /// # Errors
    /// SUDO_UID and SUDO_GID are not ids, or getent fails.
    pub fn invoking_user(&self) -> Result<User, UserError> {
        if geteuid().is_root() {
            let [uid, gid] = ["SUDO_UID", "SUDO_GID"].map(std::env::var_os);
            match parse_sudo_caller(uid.as_deref(), gid.as_deref())? {
                Some((uid, gid)) if uid != 0 => return self.user_by_ids(uid, gid),
                _ => return Ok(User::of_process()),
            }
        }
        let user = User::of_process();
        Ok(User { name: self.login_name(user.uid)?.unwrap_or(user.name), ..user })
    }

    /// The entry of a user id, as [`UserDatabase::find_entry`] returns it; None if no database has one.
    fn find_entry_by_uid(&self, uid: u32) -> Result<Option<User>, UserError> {
        let entry = self.find_entry(&uid.to_string(), |entry| entry.uid == uid)?;
        // getent looks for a login name first, and a login name can consist of digits.
        Ok(entry.filter(|entry| entry.uid == uid))
    }

    /// The entry that getent prints for a key: a user in the main group only. Without getent, the first entry of /etc/passwd for
    /// which `matches` returns true.
    fn find_entry(&self, key: &str, matches: impl Fn(&User) -> bool) -> Result<Option<User>, UserError> {
        let Some(getent) = &self.getent else {
            let text = self.read_etc_file("passwd")?;
            return Ok(text.lines().filter_map(parse_passwd_line).find(matches));
        };
        let text = getent.query("passwd", key)?.unwrap_or_default();
        let Some(line) = text.lines().find(|line| !line.is_empty()) else { return Ok(None) };
        let malformed = || UserError::Malformed(format!("getent passwd {key} printed {line:?}, which is not a user"));
        parse_passwd_line(line).map(Some).ok_or_else(malformed)
    }

    /// Adds the supplementary groups to a user, of whom the main group is known.
    fn add_groups(&self, user: User) -> Result<User, UserError> {
        let name = &user.name;
        let supplementary = match &self.getent {
            Some(getent) => {
                let text = getent.query("initgroups", name)?.unwrap_or_default();
                parse_initgroups(name, &text).ok_or_else(|| {
                    UserError::Malformed(format!("getent initgroups {name} printed {text:?}, which are not groups"))
                })?
            }
            None => groups_of_member(&self.read_etc_file("group")?, name),
        };
        let groups = distinct(std::iter::once(user.gid).chain(supplementary));
        Ok(User { groups, ..user })
    }

    /// The text of a file in /etc; empty if the file is missing.
    fn read_etc_file(&self, name: &str) -> Result<String, UserError> {
        let path = self.etc.join(name);
        let bytes = none_if_missing(std::fs::read(&path))
            .map_err(|error| UserError::Malformed(format!("reading {path:?}: {error}")))?;
        Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    }
}

/// Parses `name:password:uid:gid:comment:home:shell` into a user in the main group only.
fn parse_passwd_line(line: &str) -> Option<User> {
    let fields: Vec<&str> = line.split(':').collect();
    let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
    let home = Some(PathBuf::from(home)).filter(|home| home.is_absolute());
    if name.is_empty() {
        return None;
    }
    let gid = parse_id(gid)?;
    Some(User { name: name.into(), uid: parse_id(uid)?, gid, groups: vec![gid], home })
}

/// Parses the id of a user or group. The largest number (-1) is rejected, because setresuid(2) leaves the id unchanged
/// for it.
fn parse_id(text: &str) -> Option<u32> {
    let is_digits_only = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| is_digits_only && *id != u32::MAX)
}

/// Parses the line of `getent initgroups`: the user name, which may contain spaces, and the group ids.
fn parse_initgroups(name: &str, text: &str) -> Option<Vec<u32>> {
    let Some(line) = text.lines().next() else { return Some(vec![]) };
    line.strip_prefix(name)?.split_whitespace().map(parse_id).collect()
}

/// The groups that have a user as a member, from the text of /etc/group: lines `name:password:gid:member,member`.
fn groups_of_member(text: &str, name: &str) -> Vec<u32> {
    let mut groups = vec![];
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        if let [_, _, gid, members] = fields[..]
            && let Some(gid) = parse_id(gid)
            && members.split(',').any(|member| member == name)
        {
            groups.push(gid);
        }
    }
    groups
}

/// The user and group ids in SUDO_UID and SUDO_GID; None if neither is set.
fn parse_sudo_caller(uid: Option<&OsStr>, gid: Option<&OsStr>) -> Result<Option<(u32, u32)>, UserError> {
    let id = |name: &str, value: Option<&OsStr>| match value {
        None => Err(UserError::Sudo(format!("{name} is missing, and the other variable of sudo is set"))),
        Some(value) => value
            .to_str()
            .and_then(parse_id)
            .ok_or_else(|| UserError::Sudo(format!("{name} is {value:?}, which is not an id"))),
    };
    if uid.is_none() && gid.is_none() {
        return Ok(None);
    }
    Ok(Some((id("SUDO_UID", uid)?, id("SUDO_GID", gid)?)))
}

impl User {
    /// The user of this process, without a look-up: the name is `root`, or the number of any other user.
    pub fn of_process() -> User {
        let (uid, gid) = (geteuid(), getegid().as_raw());
        let name = if uid.is_root() { "root".into() } else { uid.as_raw().to_string() };
        let mut groups: Vec<u32> = getgroups().unwrap_or_default().into_iter().map(Gid::as_raw).collect();
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        User { name, uid: uid.as_raw(), gid, groups, home: None }
    }

    /// Whether the user is root.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether this process already runs as this user, in the same groups. Callers then change nothing, because a user
    /// namespace or a container may forbid even a change to the same ids.
    pub fn runs_this_process(&self) -> bool {
        let process_user = User::of_process();
        let real_ids = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        let group_set = |groups: &[u32]| groups.iter().copied().collect::<BTreeSet<u32>>();
        (self.uid, self.gid) == real_ids
            && (self.uid, self.gid) == (process_user.uid, process_user.gid)
            && group_set(&self.groups) == group_set(&process_user.groups)
    }

    /// Makes this user the owner of a file.
    ///
    /// # Errors
    /// The error of lchown(2).
    pub fn chown_to_user(&self, path: &Path) -> io::Result<()> {
        std::os::unix::fs::lchown(path, Some(self.uid), Some(self.gid))
    }

    /// Makes this user the owner of a directory and of everything below it. Follows no symbolic link.
    ///
    /// # Errors
    /// The error of the system call that failed.
    pub fn chown_tree_to_user(&self, path: &Path) -> io::Result<()> {
        self.chown_tree_at(CWD, path)
    }

    /// Makes this user the owner of an entry of a directory, and of everything below it.
    fn chown_tree_at(&self, parent: BorrowedFd, name: &Path) -> io::Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
        let Some(dir) = dirs::open_dir(parent, name)? else {
            return Ok(chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?);
        };
        fchown(&dir, uid, gid)?;
        for child in dirs::names_in(&dir)? {
            self.chown_tree_at(dir.as_fd(), &child)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::getent::tests::write_script;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::time::Duration;

    /// A script that stands in for getent and prints users of directory services.
    const DIRECTORY_SERVICE_SCRIPT: &str = r#"
case "$1 $2" in
'passwd alice'|'passwd 1000'|'passwd ALICE') echo 'alice:x:1000:100:Alice:/home/alice:/bin/sh';;
'passwd CORP\jo do'|'passwd 1881600001') echo 'CORP\jo do:*:1881600001:1881600513::/home/CORP/jo:';;
'passwd jo@corp.example') echo 'jo@corp.example:*:4294967294:1881600513:Jo, Ltd.::';;
'passwd 77') echo '77:x:5:5::/:';;
'passwd torn') echo 'torn:x:nonsense';;
'passwd broken') exit 1;;
'initgroups alice') echo 'alice                 100 4 24 100';;
'initgroups CORP\jo do') printf 'CORP\\jo do           '; i=0; while [ $i -lt 3000 ]; do printf ' %d' $((1881600513 + i)); i=$((i + 1)); done; echo;;
'initgroups jo@corp.example') echo 'jo@corp.example';;
*) exit 2;;
esac"#;

    fn directory_service(dir: &Path) -> UserDatabase {
        let getent = Getent::stand_in(&write_script(dir, DIRECTORY_SERVICE_SCRIPT), Duration::from_secs(60));
        UserDatabase { getent: Some(getent), etc: dir.into() }
    }

    #[test]
    fn users_of_a_directory_service_have_long_names_large_ids_and_many_groups() {
        let dir = tempfile::tempdir().unwrap();
        // With getent installed fsarena does not read /etc/passwd.
        std::fs::write(dir.path().join("passwd"), "bob:x:1:1::/:\n").unwrap();
        let users = directory_service(dir.path());
        let alice = users.user_by_name("alice").unwrap();
        let expected = User {
            name: "alice".into(),
            uid: 1000,
            gid: 100,
            groups: vec![100, 4, 24],
            home: Some("/home/alice".into()),
        };
        assert_eq!(alice, expected);
        let jo = users.user_by_name(r"CORP\jo do").unwrap();
        assert_eq!((jo.uid, jo.gid, jo.groups.len()), (1881600001, 1881600513, 3000));
        assert_eq!(users.user_by_ids(1881600001, 7).unwrap().groups.len(), 3001);
        let jo = users.user_by_name("jo@corp.example").unwrap();
        assert_eq!((jo.uid, &jo.groups[..], jo.home), (4294967294, &[1881600513][..], None));
        assert_eq!(users.user_by_name("bob"), Err(UserError::Unknown("bob".into())));
        assert_eq!(users.user_by_name("-s"), Err(UserError::Unknown("-s".into())));
    }

    #[test]
    fn a_user_id_or_an_alias_is_not_accepted_as_a_login_name() {
        let dir = tempfile::tempdir().unwrap();
        let users = directory_service(dir.path());
        for key in ["1000", "ALICE"] {
            let error = users.user_by_name(key).unwrap_err();
            let expected = UserError::NotALoginName { key: key.into(), login_name: "alice".into(), uid: 1000 };
            assert_eq!((error.exit_code(), error), (ExitCode::Usage, expected));
        }
        // `77` is the login name of user 5; user 77 has no name.
        assert_eq!(users.user_by_name("77").unwrap().uid, 5);
        assert_eq!(users.login_name(77), Ok(None));
    }

    #[test]
    fn an_id_without_an_entry_is_a_user_and_a_failing_getent_is_not_an_unknown_user() {
        let dir = tempfile::tempdir().unwrap();
        let users = directory_service(dir.path());
        let user = users.user_by_ids(54321, 7).unwrap();
        assert_eq!((&user.name[..], user.uid, user.gid, &user.groups[..]), ("54321", 54321, 7, &[7][..]));
        for (name, code) in
            [("nobody here", ExitCode::Usage), ("broken", ExitCode::Missing), ("torn", ExitCode::Missing)]
        {
            assert_eq!(users.user_by_name(name).unwrap_err().exit_code(), code, "{name}");
        }
    }

    #[test]
    fn without_getent_passwd_and_group_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let users = UserDatabase { getent: None, etc: dir.path().into() };
        assert_eq!(users.user_by_name("bob"), Err(UserError::Unknown("bob".into())));
        let passwd =
            "# comment\n+::::::\nbob:x:4294967295:1::/:\nroot:x:0:0:root:/root:/bin/sh\nbob:x:1001:50::/home/bob:\n";
        std::fs::write(dir.path().join("passwd"), passwd).unwrap();
        let group = "a:x:1:alice\nb:x:2:alice,bob\nc:x:no:bob\nd:x:3:bob,\ne:x:4:bobby\n";
        std::fs::write(dir.path().join("group"), group).unwrap();
        let bob = users.user_by_name("bob").unwrap();
        assert_eq!((bob.uid, bob.gid, &bob.groups[..]), (1001, 50, &[50, 2, 3][..]));
        assert_eq!(users.user_by_ids(1001, 60).unwrap().groups, [60, 2, 3]);
        assert_eq!(users.user_by_name("1001"), Err(UserError::Unknown("1001".into())));
        assert_eq!(users.login_name(0), Ok(Some("root".into())));
    }

    #[test]
    fn invalid_sudo_variables_are_refused() {
        let caller = |uid: Option<&str>, gid: Option<&str>| parse_sudo_caller(uid.map(OsStr::new), gid.map(OsStr::new));
        assert_eq!(caller(None, None), Ok(None));
        assert_eq!(caller(Some("1000"), Some("100")), Ok(Some((1000, 100))));
        for (uid, gid) in [
            ("", "1"),
            ("-1", "1"),
            ("+1", "1"),
            ("1 ", "1"),
            ("alice", "1"),
            ("1", "4294967295"),
            ("1", "99999999999"),
        ] {
            let error = caller(Some(uid), Some(gid)).unwrap_err();
            assert_eq!(error.exit_code(), ExitCode::Usage, "{uid} {gid}");
        }
        assert!(caller(Some("1000"), None).is_err() && caller(None, Some("1000")).is_err());
    }

    #[test]
    fn chown_of_a_tree_does_not_follow_its_links() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (tree, outside) = (dir.path().join("tree"), dir.path().join("outside"));
        for dir in [tree.join("a/b"), outside.clone()] {
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("file"), "").unwrap();
        }
        symlink(&outside, tree.join("link")).unwrap();
        let user = User { name: "u".into(), uid: 12345, gid: 12345, groups: vec![], home: None };
        user.chown_tree_to_user(&tree).unwrap();
        user.chown_tree_to_user(&tree.join("link")).unwrap();
        let owner = |path: &Path| path.symlink_metadata().unwrap().uid();
        for name in ["", "a", "a/b", "a/b/file", "link"] {
            assert_eq!(owner(&tree.join(name)), 12345, "{name}");
        }
        assert_eq!((owner(&outside), owner(&outside.join("file"))), (0, 0));
    }
}
