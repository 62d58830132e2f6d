//! Control groups, version 1 and 2: finding a controller, and making temporary groups.
//!
//! In version 2 a controller works in a group only if the parent of the group has enabled it for its children
//! (`cgroup.subtree_control`).

use crate::kernel::{SysRoot, sorted_names};
use crate::undo::{self, FileIdentity, Journal, UndoGuard, UndoStep};
use crate::{Error, attribute, none_if_missing, process, wait::retry_while_busy};
use rustix::{fs::Access, io::Errno};
use std::path::{Component, Path, PathBuf};
use std::{fs::File, io::Write};

/// A cgroup controller, and where its hierarchy is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// `memory`, `cpu`, `blkio`, `io`.
    pub name: &'static str,
    /// Whether it is in the unified hierarchy of version 2.
    pub is_v2: bool,
    /// The root of its hierarchy.
    pub root: PathBuf,
    /// The group that this process is in.
    pub own_group: PathBuf,
}

impl Controller {
    /// Finds a controller by its names in version 1 and version 2, which differ for some. Prefers version 1. None if no mounted
    /// hierarchy has it.
    pub fn find(kernel: &SysRoot, v1_name: &'static str, v2_name: &'static str) -> Option<Controller> {
        let mounts = kernel.mounts().ok()?;
        let has_controller = |options: &str| options.split(',').any(|word| word == v1_name);
        let v1_mount = mounts.iter().find(|mount| mount.fs_type == "cgroup" && has_controller(&mount.super_options));
        let mount = v1_mount.or_else(|| mounts.iter().find(|mount| mount.fs_type == "cgroup2"))?;
        let (name, is_v2) = if v1_mount.is_some() { (v1_name, false) } else { (v2_name, true) };
        let root = kernel.path(&mount.target.to_string_lossy());
        if is_v2 {
            let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).ok()?;
            controllers.split_whitespace().find(|word| *word == v2_name)?;
        }
        let own_group = own_group_dir(kernel, &root, (!is_v2).then_some(v1_name));
        Some(Controller { name, is_v2, root, own_group })
    }

    /// Makes a group in which this controller can be configured. In version 2 its parent is the root, because a group
    /// that has processes cannot enable controllers for its children. In version 1 its parent is the group of this
    /// process, whose limits stay in force.
    ///
    /// # Errors
    /// The group cannot be made, or the controller cannot be enabled.
    pub fn make_group(&self, journal: &Journal) -> Result<ControlGroup, Error> {
        let parent = if self.is_v2 { &self.root } else { &self.own_group };
        let path = parent.join(unique_group_name());
        // The first step in the journal is undone last: after the group is removed.
        let controller_guard = if self.is_v2 { self.record_enabling(&path, journal)? } else { None };
        let mut guard = journal.record(UndoStep::RemoveControlGroup { path: path.clone(), identity: None })?;
        match std::fs::create_dir(&path) {
            // This process made it for another controller of the same cell, in the same hierarchy.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => created.map_err(Error::io("making", &path))?,
        }
        let identity = FileIdentity::at_path(&path);
        guard.update(UndoStep::RemoveControlGroup { path: path.clone(), identity })?;
        if self.is_v2 {
            enable_controller(&self.root, self.name)?;
        }
        Ok(ControlGroup { path, removal_guard: guard, controller_guard })
    }

    /// Writes to the journal that this process is about to enable the controller for the children of the root. None if a
    /// program other than fsarena has enabled it. If another fsarena process has enabled it, this one writes the step too,
    /// because the last of them must disable the controller.
    fn record_enabling(&self, group: &Path, journal: &Journal) -> Result<Option<UndoGuard>, Error> {
        let disables_this = |step: &UndoStep| matches!(step, UndoStep::DisableController { root, name, .. } if *root == self.root && name == self.name);
        if is_enabled_for_children(&self.root, self.name)? && !undo::has_pending_step(journal, disables_this)? {
            return Ok(None);
        }
        let (root, name, group) = (self.root.clone(), self.name.into(), group.into());
        journal.record(UndoStep::DisableController { root, name, group }).map(Some)
    }
}

/// The name of the group that this process makes for controllers: `fsarena-PID-STARTTIME`. It is unique until the next boot, so
/// `recover` never kills processes in a group of another fsarena.
fn unique_group_name() -> String {
    let pid = std::process::id();
    let start_time = process::start_time(&SysRoot::host(), pid as i32).unwrap_or_default();
    format!("fsarena-{pid}-{start_time}")
}

/// Makes a group that only records which processes are in it, without limits or accounting. None if this user may not make
/// a group, or if every hierarchy has controllers: in a group with the memory or I/O controller the kernel writes data back
/// at other times.
///
/// # Errors
/// The journal cannot be written.
pub fn make_tracking_group(kernel: &SysRoot, journal: &Journal) -> Result<Option<ControlGroup>, Error> {
    let Some(parent) = own_group_without_controllers(kernel) else { return Ok(None) };
    if rustix::fs::access(&parent, Access::WRITE_OK).is_err() {
        return Ok(None);
    }
    // Never the group that `make_group` shares among controllers: each of the two may be removed while the other is in use.
    let path = parent.join(format!("{}-tracking", unique_group_name()));
    let mut guard = journal.record(UndoStep::RemoveControlGroup { path: path.clone(), identity: None })?;
    if std::fs::create_dir(&path).is_err() {
        guard.disarm()?;
        return Ok(None);
    }
    let identity = FileIdentity::at_path(&path);
    guard.update(UndoStep::RemoveControlGroup { path: path.clone(), identity })?;
    Ok(Some(ControlGroup { path, removal_guard: guard, controller_guard: None }))
}

/// The group of this process in a hierarchy where its children have no controllers: version 2, or a named hierarchy
/// of version 1 (`name=systemd`).
fn own_group_without_controllers(kernel: &SysRoot) -> Option<PathBuf> {
    let mounts = kernel.mounts().ok()?;
    let mut group_in_named_hierarchy = None;
    for mount in mounts {
        let root = kernel.path(&mount.target.to_string_lossy());
        if mount.fs_type == "cgroup2" {
            let own_group = own_group_dir(kernel, &root, None);
            let enabled = std::fs::read_to_string(subtree_control_path(&own_group));
            if enabled.is_ok_and(|controllers| controllers.trim().is_empty()) {
                return Some(own_group);
            }
        } else if mount.fs_type == "cgroup" {
            let name = mount.super_options.split(',').find(|option| option.starts_with("name="));
            // A hierarchy that has a name and a controller is listed as `memory,name=x`, so `own_path_in_hierarchy` returns
            // None.
            if let Some(name) = name.filter(|name| own_path_in_hierarchy(kernel, Some(name)).is_some()) {
                group_in_named_hierarchy = Some(own_group_dir(kernel, &root, Some(name)));
            }
        }
    }
    group_in_named_hierarchy
}

/// The directory of the group that this process is in. In a container `/proc/self/cgroup` can name a path that is
/// outside the mount (`/..` or `/../x` in a cgroup namespace); the result is then the root of the mount.
fn own_group_dir(kernel: &SysRoot, root: &Path, controller: Option<&str>) -> PathBuf {
    let path = own_path_in_hierarchy(kernel, controller).unwrap_or_default();
    let dir = root.join(path.trim_start_matches('/'));
    let is_outside = dir.components().any(|part| part == Component::ParentDir);
    if !is_outside && dir.is_dir() { dir } else { root.to_path_buf() }
}

/// The path of this process's group in `/proc/self/cgroup`: `/x` of `9:memory:/x` for a controller of version 1, and of
/// `0::/x` for version 2, where `controller` is None.
fn own_path_in_hierarchy(kernel: &SysRoot, controller: Option<&str>) -> Option<String> {
    let groups = kernel.read("proc/self/cgroup").ok()?;
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, names, path) = (fields.next()?, fields.next()?, fields.next()?);
        let matches = match controller {
            Some(controller) if controller.starts_with("name=") => names == controller,
            Some(controller) => names.split(',').any(|name| name == controller),
            None => number == "0" && names.is_empty(),
        };
        matches.then(|| path.to_string())
    })
}

/// A control group that fsarena made. Dropping this value kills its processes and removes it.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    // Fields are dropped in this order: the group is removed before its controller is disabled.
    removal_guard: UndoGuard,
    controller_guard: Option<UndoGuard>,
}

impl ControlGroup {
    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes one of its attributes. Removing the group removes the setting, so it is not in the journal.
    ///
    /// # Errors
    /// The kernel rejects the value.
    pub fn set(&self, attribute: &str, value: &str) -> Result<(), Error> {
        attribute::write(&self.path.join(attribute), value)
    }

    /// The undo steps of the group, in the order in which they were written to the journal.
    pub fn into_guards(self) -> impl Iterator<Item = UndoGuard> {
        self.controller_guard.into_iter().chain([self.removal_guard])
    }

    /// Kills all processes in the group and removes it.
    ///
    /// # Errors
    /// A step fails; it stays in the journal.
    pub fn remove(self) -> Result<(), Error> {
        self.removal_guard.undo()?;
        if let Some(guard) = self.controller_guard {
            guard.undo()?;
        }
        Ok(())
    }
}

/// Moves a process into a group; its later children start there.
///
/// # Errors
/// The kernel refuses.
pub fn add_process(group: &Path, pid: i32) -> Result<(), Error> {
    let path = group.join("cgroup.procs");
    std::fs::write(&path, pid.to_string()).map_err(Error::io("adding a process to", path))
}

/// The number of processes that the OOM killer has killed in a group; 0 if the kernel has no counter.
pub fn oom_kills(group: &Path) -> u64 {
    // The file of version 2, then that of version 1.
    for file in ["memory.events", "memory.oom_control"] {
        let text = std::fs::read_to_string(group.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        if let Some(count) = count.and_then(|count| count.trim().parse().ok()) {
            return count;
        }
    }
    0
}

/// Kills every process of a group and of the groups below it, and waits until they are gone.
///
/// # Errors
/// A process has not ended after 30 s, or fsarena may not kill it.
pub fn kill_processes(kernel: &SysRoot, group: &Path) -> Result<(), Error> {
    // `cgroup.kill` (version 2, from Linux 5.14) also kills processes that are being forked.
    if let Ok(mut kill) = File::options().write(true).open(group.join("cgroup.kill")) {
        let _ = kill.write_all(b"1");
    }
    for child in child_groups(group)? {
        kill_processes(kernel, &child)?;
    }
    process::kill_and_wait(kernel, &|| process::cgroup_members(kernel, group))
}

/// Kills the processes of a group that fsarena made, and removes the group and its descendants. Succeeds if the group is
/// gone already.
///
/// # Errors
/// The errors of [`kill_processes`]; or the group cannot be removed.
pub(crate) fn remove_group(kernel: &SysRoot, group: &Path) -> Result<(), Error> {
    kill_processes(kernel, group)?;
    for child in child_groups(group)? {
        remove_group(kernel, &child)?;
    }
    let removed = retry_while_busy(|| std::fs::remove_dir(group));
    none_if_missing(removed).map(drop).map_err(Error::io("removing", group))
}

/// The path of the list of controllers that a group enables for its children.
fn subtree_control_path(group: &Path) -> PathBuf {
    group.join("cgroup.subtree_control")
}

/// Whether a group enables a controller for its children; false if the group is gone.
///
/// # Errors
/// The list of controllers cannot be read.
pub(crate) fn is_enabled_for_children(group: &Path, controller: &str) -> Result<bool, Error> {
    let path = subtree_control_path(group);
    let names = none_if_missing(std::fs::read_to_string(&path)).map_err(Error::io("reading", &path))?;
    Ok(names.unwrap_or_default().split_whitespace().any(|name| name == controller))
}

/// The groups right below a group. A group that is gone has none.
///
/// # Errors
/// The directory cannot be read.
fn child_groups(group: &Path) -> Result<Vec<PathBuf>, Error> {
    let names = none_if_missing(sorted_names(group)).map_err(Error::io("reading", group))?.unwrap_or_default();
    Ok(names.into_iter().map(|name| group.join(name)).filter(|path| path.is_dir()).collect())
}

/// Enables a controller for the children of a group.
///
/// # Errors
/// The kernel refuses.
fn enable_controller(group: &Path, controller: &str) -> Result<(), Error> {
    let path = subtree_control_path(group);
    std::fs::write(&path, format!("+{controller}")).map_err(Error::io("writing", path))
}

/// Disables a controller for the children of a group, unless a child uses it: that child would lose its limits.
///
/// # Errors
/// The kernel refuses for another reason.
pub(crate) fn disable_controller(group: &Path, controller: &str) -> Result<(), Error> {
    if !is_enabled_for_children(group, controller)? || is_controller_used(group, controller)? {
        return Ok(());
    }
    let path = subtree_control_path(group);
    match none_if_missing(std::fs::write(&path, format!("-{controller}"))) {
        // A child enabled the controller for its own children after the check.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Ok(()),
        written => written.map(drop).map_err(Error::io("writing", path)),
    }
}

/// Whether a child of a group enables a controller for its own children, or has a setting of it other than the default.
///
/// # Errors
/// The groups cannot be read.
pub(crate) fn is_controller_used(group: &Path, controller: &str) -> Result<bool, Error> {
    for child in child_groups(group)? {
        let files = none_if_missing(sorted_names(&child)).map_err(Error::io("reading", &child))?.unwrap_or_default();
        if is_enabled_for_children(&child, controller)? {
            return Ok(true);
        }
        for file in &files {
            let belongs_to_controller = file.strip_prefix(controller).is_some_and(|rest| rest.starts_with('.'));
            if belongs_to_controller && differs_from_default(&child, file) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a file of a group has a value other than the default of a new group. A setting that cannot be read counts as
/// different, unless its group is gone.
fn differs_from_default(group: &Path, file: &str) -> bool {
    match std::fs::read_to_string(group.join(file)) {
        Ok(value) => !is_default(file, value.trim()),
        Err(error) => {
            let is_gone = matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV));
            // No setting has the default `?`, so `is_default` returns false for every setting and true for every counter.
            !is_gone && !is_default(file, "?")
        }
    }
}

/// Whether a value is the default of a file in a new group. Files other than `max`, `high`, `low`, `min`, `weight` and
/// `latency` are counters, not settings; for these it returns true.
fn is_default(file: &str, value: &str) -> bool {
    match file.rsplit('.').next() {
        Some("max" | "high") => value.split_whitespace().next().is_none_or(|first| first == "max"),
        Some("low" | "min") => value == "0",
        Some("weight") => ["100", "default 100"].contains(&value),
        Some("latency") => value.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::FakeRoot;

    fn fake_machine(mounts: &str, own_groups: &str, dirs: &[&str], files: &[(&str, &str)]) -> (FakeRoot, SysRoot) {
        let root = FakeRoot::with(&[("proc/self/mountinfo", mounts), ("proc/self/cgroup", own_groups)]);
        for dir in dirs {
            root.make_dir(dir);
        }
        for (path, text) in files {
            root.write_file(path, text);
        }
        let kernel = SysRoot::at(root.path());
        (root, kernel)
    }

    #[test]
    fn a_group_of_version_1_is_made_below_the_group_of_this_process() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "9:name=systemd:/\n4:memory:/box/7\n0::/\n";
        let (dir, kernel) = fake_machine(mounts, own, &["sys/fs/cgroup/memory/box/7"], &[]);
        let controller = Controller::find(&kernel, "memory", "memory").unwrap();
        assert!(!controller.is_v2);
        assert_eq!(controller.own_group, dir.path().join("sys/fs/cgroup/memory/box/7"));
        assert!(Controller::find(&kernel, "blkio", "io").is_none());
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let group = controller.make_group(&journal).unwrap();
        let path = group.path().to_path_buf();
        assert!(path.starts_with(&controller.own_group) && path.is_dir());
        group.remove().unwrap();
        assert!(!path.exists(), "{}: {:?}", path.display(), std::fs::read_to_string(path.join("cgroup.procs")));
    }

    #[test]
    fn controllers_of_version_1_in_one_hierarchy_share_a_group() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup/both rw - cgroup cgroup rw,memory,blkio\n";
        let (dir, kernel) = fake_machine(mounts, "4:memory,blkio:/\n", &["sys/fs/cgroup/both"], &[]);
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let make_group = |name| Controller::find(&kernel, name, name).unwrap().make_group(&journal).unwrap();
        let (first, second) = (make_group("memory"), make_group("blkio"));
        assert_eq!(first.path(), second.path());
        first.remove().unwrap();
        second.remove().unwrap();
    }

    #[test]
    fn a_group_outside_the_mount_is_replaced_by_the_root_of_the_mount() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        for own in ["4:memory:/..\n", "4:memory:/../unified\n"] {
            let (dir, kernel) = fake_machine(mounts, own, &["sys/fs/cgroup/memory", "sys/fs/cgroup/unified"], &[]);
            let controller = Controller::find(&kernel, "memory", "memory").unwrap();
            assert_eq!(controller.own_group, dir.path().join("sys/fs/cgroup/memory"), "{own}");
        }
    }

    #[test]
    fn tracking_uses_only_a_hierarchy_without_controllers() {
        const V1: &str = "31 20 0:31 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
        const V2: &str = "30 20 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        const MIXED: &str = "32 20 0:32 / /sys/fs/cgroup/mixed rw - cgroup cgroup rw,memory,name=mixed\n";
        let own = "9:name=systemd:/a\n4:memory,name=mixed:/\n0::/b\n";
        let dirs = ["sys/fs/cgroup/systemd/a", "sys/fs/cgroup/mixed", "sys/fs/cgroup/unified/b"];
        let control = "sys/fs/cgroup/unified/b/cgroup.subtree_control";
        for (mounts, controllers, expected) in [
            ([V1, V2].concat(), "", Some("sys/fs/cgroup/unified/b")),
            ([V1, V2].concat(), "memory pids\n", Some("sys/fs/cgroup/systemd/a")),
            ([MIXED, V2].concat(), "cpu\n", None),
            (String::new(), "", None),
        ] {
            let (dir, kernel) = fake_machine(&mounts, own, &dirs, &[(control, controllers)]);
            assert_eq!(own_group_without_controllers(&kernel), expected.map(|path| dir.path().join(path)), "{mounts}");
        }
    }

    #[test]
    fn removing_a_tracking_group_kills_its_processes() {
        let kernel = SysRoot::host();
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path(), "").unwrap();
        let Some(group) = make_tracking_group(&kernel, &journal).unwrap() else {
            crate::testkit::record_skip("this user can make no control group without controllers");
            return;
        };
        let path = group.path().to_path_buf();
        // The process has no environment variable that marks it, and is in a subgroup that it could have made itself.
        let subgroup = path.join("below");
        std::fs::create_dir(&subgroup).unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").env_clear().spawn().unwrap();
        add_process(&subgroup, child.id() as i32).unwrap();
        group.remove().unwrap();
        assert!(!path.exists(), "{}: {:?}", path.display(), std::fs::read_to_string(path.join("cgroup.procs")));
        child.wait().unwrap();
    }

    #[test]
    fn a_group_of_version_2_is_made_below_the_root_and_shared_by_controllers() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let files = [("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n")];
        let (dir, kernel) = fake_machine(mounts, "0::/user.slice\n", &["sys/fs/cgroup/user.slice"], &files);
        let controller = Controller::find(&kernel, "blkio", "io").unwrap();
        assert!(controller.is_v2 && controller.name == "io");
        assert!(Controller::find(&kernel, "rdma", "rdma").is_none());
        let journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let (first, second) = (controller.make_group(&journal).unwrap(), controller.make_group(&journal).unwrap());
        assert_eq!(first.path(), second.path());
        assert_eq!(first.path().parent().unwrap(), dir.path().join("sys/fs/cgroup"));
        let control = controller.root.join("cgroup.subtree_control");
        assert_eq!(std::fs::read_to_string(&control).unwrap(), "+io");
        // The kernel would show the enabled controllers like this.
        std::fs::write(&control, "cpu io\n").unwrap();
        first.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&control).unwrap(), "-io");
        // Another program has enabled the controller, so it stays enabled.
        drop(second);
        std::fs::write(&control, "io\n").unwrap();
        controller.make_group(&journal).unwrap().remove().unwrap();
        assert_eq!(std::fs::read_to_string(&control).unwrap(), "+io");
    }

    #[test]
    fn the_last_of_several_runs_disables_a_controller() {
        let mounts = "30 20 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let files = [("sys/fs/cgroup/cgroup.controllers", "io\n"), ("sys/fs/cgroup/cgroup.subtree_control", "")];
        let (dir, kernel) = fake_machine(mounts, "0::/\n", &["sys/fs/cgroup/of-another"], &files);
        let (controller, state) = (Controller::find(&kernel, "blkio", "io").unwrap(), dir.path().join("state"));
        let control = controller.root.join("cgroup.subtree_control");
        let (first_journal, second_journal) =
            (Journal::create(&state, "").unwrap(), Journal::create(&state, "").unwrap());
        let first = controller.make_group(&first_journal).unwrap();
        std::fs::write(&control, "io\n").unwrap();
        let second = controller.make_group(&second_journal).unwrap();
        std::fs::write(&control, "io\n").unwrap();
        // A group with a limit uses it.
        let limit = controller.root.join("of-another/io.max");
        std::fs::write(&limit, "8:0 rbps=1\n").unwrap();
        first.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&control).unwrap(), "io\n");
        std::fs::remove_file(&limit).unwrap();
        second.remove().unwrap();
        assert_eq!(std::fs::read_to_string(&control).unwrap(), "-io");
    }

    #[test]
    fn removing_a_group_disables_its_controller_unless_another_group_uses_it() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let controller = ["hugetlb", "misc", "rdma", "io"].into_iter().find_map(|name| {
            let controller = Controller::find(&SysRoot::host(), name, name)?;
            let is_unused = controller.is_v2 && !is_enabled_for_children(&controller.root, name).ok()?;
            is_unused.then_some(controller)
        });
        let Some(controller) = controller else {
            crate::testkit::record_skip("no controller of version 2 that is not in use");
            return;
        };
        let is_enabled = || is_enabled_for_children(&controller.root, controller.name).unwrap();
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let group = controller.make_group(&journal).unwrap();
        assert!(is_enabled());
        group.remove().unwrap();
        assert!(!is_enabled());
        // Another program enables it for the children of its group meanwhile.
        let group = controller.make_group(&journal).unwrap();
        let other_group = controller.root.join(format!("other-{}", std::process::id()));
        std::fs::create_dir(&other_group).unwrap();
        enable_controller(&other_group, controller.name).unwrap();
        group.remove().unwrap();
        let stays_enabled = is_enabled();
        std::fs::remove_dir(&other_group).unwrap();
        disable_controller(&controller.root, controller.name).unwrap();
        assert!(stays_enabled && !is_enabled());
    }

    #[test]
    fn a_child_that_enables_or_sets_a_controller_uses_it() {
        for (file, value, expected) in [
            ("cgroup.subtree_control", "cpu io\n", true),
            ("cgroup.subtree_control", "cpu\n", false),
            ("io.max", "8:0 rbps=1 wbps=max riops=max wiops=max\n", true),
            ("io.max", "", false),
            ("io.weight", "default 100\n", false),
            ("io.weight", "default 100\n8:0 50\n", true),
            ("io.stat", "8:0 rbytes=1\n", false),
            ("iocost.max", "1\n", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let child = dir.path().join("a.service");
            std::fs::create_dir(&child).unwrap();
            std::fs::write(child.join(file), value).unwrap();
            assert_eq!(is_controller_used(dir.path(), "io").unwrap(), expected, "{file}: {value}");
            std::fs::write(subtree_control_path(dir.path()), "io memory\n").unwrap();
            disable_controller(dir.path(), "io").unwrap();
            let controllers_left = std::fs::read_to_string(subtree_control_path(dir.path())).unwrap();
            assert_eq!(controllers_left, if expected { "io memory\n" } else { "-io" }, "{file}: {value}");
        }
        for (file, value) in [("memory.max", "max\n"), ("cpu.max", "max 100000\n"), ("memory.low", "0\n")] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(file), value).unwrap();
            assert!(!differs_from_default(dir.path(), file));
            std::fs::write(dir.path().join(file), "50000 100000\n").unwrap();
            assert!(differs_from_default(dir.path(), file) && !differs_from_default(dir.path(), "gone.max"));
        }
    }

    #[test]
    fn disabling_a_controller_that_is_not_enabled_writes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        disable_controller(&dir.path().join("gone"), "io").unwrap();
        std::fs::write(subtree_control_path(dir.path()), "cpu\n").unwrap();
        disable_controller(dir.path(), "io").unwrap();
        assert_eq!(std::fs::read_to_string(subtree_control_path(dir.path())).unwrap(), "cpu\n");
    }
}
