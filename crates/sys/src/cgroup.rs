//! Control groups, version 1 and 2: finding a controller, and making temporary groups.

use crate::undo::{Armed, Identity, Journal, Undo};
use crate::{Error, attribute, kernel::Kernel, process, retry::retry};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// How often fsarena tries to remove an emptied group: its last process may still be ending.
const TRIES: u32 = 100;

/// Where a controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// `memory`, `cpu`, `blkio`, `io`.
    pub name: &'static str,
    /// Whether it is in the one hierarchy of version 2.
    pub unified: bool,
    /// The root of its hierarchy.
    pub root: PathBuf,
    /// The group that this process is in.
    pub own: PathBuf,
}

impl Controller {
    /// Finds a controller by its name in version 1 and in version 2, where these differ. None where the kernel
    /// offers neither.
    pub fn find(kernel: &Kernel, v1: &'static str, v2: &'static str) -> Option<Controller> {
        let mounts = kernel.mounts().ok()?;
        let has = |options: &str| options.split(',').any(|word| word == v1);
        let first = mounts.iter().find(|m| m.fs_type == "cgroup" && has(&m.super_options));
        let mount = first.or_else(|| mounts.iter().find(|m| m.fs_type == "cgroup2"))?;
        let (name, unified) = if first.is_some() { (v1, false) } else { (v2, true) };
        let root = kernel.path(&mount.target.to_string_lossy());
        if unified {
            let offered = std::fs::read_to_string(root.join("cgroup.controllers")).ok()?;
            offered.split_whitespace().find(|word| *word == v2)?;
        }
        // In a container the list names a path that its mount does not show.
        let path = own_path(kernel, (!unified).then_some(v1)).unwrap_or_default();
        let own = Some(root.join(path.trim_start_matches('/'))).filter(|path| path.is_dir());
        let own = own.unwrap_or_else(|| root.clone());
        Some(Controller { name, unified, root, own })
    }

    /// Makes a group for this process and this controller. In version 2 it is right below the root, since
    /// there a group with processes cannot have groups with controllers below it; in version 1 below the group
    /// that this process is in, whose limits stay in force.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn group(&self, journal: &Journal) -> Result<Group, Error> {
        if self.unified {
            let control = self.root.join("cgroup.subtree_control");
            // fsarena leaves an enabled controller enabled: others may rely on it by then.
            std::fs::write(&control, format!("+{}", self.name)).map_err(Error::io("writing", &control))?;
        }
        let above = if self.unified { &self.root } else { &self.own };
        let path = above.join(format!("fsarena-{}", std::process::id()));
        let mut armed = journal.note(Undo::RemoveGroup { path: path.clone(), identity: None })?;
        match std::fs::create_dir(&path) {
            // One that holds another controller of the same cell.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && self.unified => {}
            made => made.map_err(Error::io("making", &path))?,
        }
        let identity = Identity::at(&path);
        armed.refine(Undo::RemoveGroup { path: path.clone(), identity })?;
        Ok(Group { path, armed })
    }
}

/// The group of this process: `9:memory:/x` in version 1, `0::/x` in version 2.
fn own_path(kernel: &Kernel, controller: Option<&str>) -> Option<String> {
    let list = kernel.read("proc/self/cgroup").ok()?;
    list.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is = match controller {
            Some(controller) => names.split(',').any(|name| name == controller),
            None => number == "0" && names.is_empty(),
        };
        is.then(|| path.to_string())
    })
}

/// A group that fsarena made. Dropping it removes it.
#[derive(Debug)]
pub struct Group {
    path: PathBuf,
    armed: Armed,
}

impl Group {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one of its attributes. They go with the group.
    ///
    /// # Errors
    /// If the kernel rejects the value.
    pub fn set(&self, attribute: &str, value: &str) -> Result<(), Error> {
        attribute::write(&self.path.join(attribute), value)
    }

    /// The entry in the undo journal that removes it.
    pub fn into_armed(self) -> Armed {
        self.armed
    }
}

/// Puts a process into a group, and all that it will start.
///
/// # Errors
/// Where the kernel refuses.
pub fn enter(group: &Path, pid: i32) -> Result<(), Error> {
    let path = group.join("cgroup.procs");
    std::fs::write(&path, pid.to_string()).map_err(Error::io("putting the measuring process into", path))
}

/// How many processes of a group the kernel has killed because its memory was used up; 0 where it does not count.
pub fn kills(group: &Path) -> u64 {
    // Version 2 and version 1.
    let texts = ["memory.events", "memory.oom_control"].map(|file| std::fs::read_to_string(group.join(file)));
    let count = |text: &String| {
        text.lines()
            .find_map(|line| line.strip_prefix("oom_kill "))
            .and_then(|count| count.trim().parse().ok())
    };
    texts.iter().flatten().find_map(count).unwrap_or(0)
}

/// Removes an empty group; success where it is gone.
pub(crate) fn remove(kernel: &Kernel, path: &Path) -> Result<(), Error> {
    match retry(TRIES, |error| *error == Errno::BUSY, || rustix::fs::rmdir(path)) {
        Err(Errno::BUSY) => {}
        Err(Errno::NOENT) | Ok(()) => return Ok(()),
        Err(error) => return Err(Error::io("removing", path)(error.into())),
    }
    let list = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let pids = list.lines().filter_map(|pid| pid.parse().ok());
    let holders = pids.map(|pid| process::name(kernel, pid)).collect();
    Err(Error::Busy { target: path.into(), holders })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(
        mounts: &str,
        own: &str,
        dirs: &[&str],
        files: &[(&str, &str)],
    ) -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().unwrap();
        for rel in dirs.iter().chain(&["proc/self"]) {
            std::fs::create_dir_all(dir.path().join(rel)).unwrap();
        }
        for (rel, text) in files.iter().chain(&[("proc/self/mountinfo", mounts), ("proc/self/cgroup", own)]) {
            std::fs::write(dir.path().join(rel), text).unwrap();
        }
        let kernel = Kernel::at(dir.path());
        (dir, kernel)
    }

    #[test]
    fn a_controller_of_version_1_is_in_a_hierarchy_of_its_own() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "9:name=systemd:/\n4:memory:/box/7\n0::/\n";
        let (dir, kernel) = machine(mounts, own, &["sys/fs/cgroup/memory/box/7"], &[]);
        let found = Controller::find(&kernel, "memory", "memory").unwrap();
        assert!(!found.unified);
        assert_eq!(found.own, dir.path().join("sys/fs/cgroup/memory/box/7"));
        assert!(Controller::find(&kernel, "blkio", "io").is_none());
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let group = found.group(&journal).unwrap();
        let path = group.path().to_path_buf();
        assert!(path.starts_with(&found.own) && path.is_dir());
        group.into_armed().undo().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn version_2_is_one_hierarchy_and_groups_are_below_its_root() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let files = [("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")];
        let (dir, kernel) = machine(mounts, "0::/user.slice\n", &["sys/fs/cgroup/user.slice"], &files);
        let found = Controller::find(&kernel, "blkio", "io").unwrap();
        assert!(found.unified && found.name == "io");
        assert!(Controller::find(&kernel, "rdma", "rdma").is_none());
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let (first, second) = (found.group(&journal).unwrap(), found.group(&journal).unwrap());
        assert_eq!(first.path(), second.path());
        assert_eq!(first.path().parent().unwrap(), dir.path().join("sys/fs/cgroup"));
        let control = std::fs::read_to_string(found.root.join("cgroup.subtree_control")).unwrap();
        assert_eq!(control, "+io");
    }
}
