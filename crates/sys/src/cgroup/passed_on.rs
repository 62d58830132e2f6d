//! The controllers that a group of version 2 enables for its children ("passes on"): `cgroup.subtree_control`.

use crate::kernel::names;
use crate::{Error, found};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The file that lists the controllers that a group passes on.
fn control(group: &Path) -> PathBuf {
    group.join("cgroup.subtree_control")
}

/// Whether a group passes a controller on. A group that is gone passes none on.
///
/// # Errors
/// Where that cannot be read.
pub(crate) fn has(group: &Path, controller: &str) -> Result<bool, Error> {
    let path = control(group);
    let names = found(std::fs::read_to_string(&path)).map_err(Error::io("reading", &path))?;
    Ok(names.unwrap_or_default().split_whitespace().any(|name| name == controller))
}

/// The groups right below a group. A group that is gone has none.
///
/// # Errors
/// Where they cannot be read.
pub(super) fn groups_below(group: &Path) -> Result<Vec<PathBuf>, Error> {
    let found = found(names(group)).map_err(Error::io("reading", group))?.unwrap_or_default();
    Ok(found.into_iter().map(|name| group.join(name)).filter(|path| path.is_dir()).collect())
}

/// Enables a controller for the children of a group.
///
/// # Errors
/// Where the kernel refuses.
pub(super) fn enable(group: &Path, controller: &str) -> Result<(), Error> {
    let path = control(group);
    std::fs::write(&path, format!("+{controller}")).map_err(Error::io("writing", path))
}

/// Disables a controller for the children of a group, unless a child uses it: the limits of that child would be lost.
///
/// # Errors
/// Where the kernel refuses for another reason.
pub(crate) fn disable(group: &Path, controller: &str) -> Result<(), Error> {
    if !has(group, controller)? || is_used(group, controller)? {
        return Ok(());
    }
    let path = control(group);
    match found(std::fs::write(&path, format!("-{controller}"))) {
        // A child has begun to pass it on after the check.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => Ok(()),
        written => written.map(drop).map_err(Error::io("writing", path)),
    }
}

/// Whether a child of a group passes a controller on, or has changed a setting of it from the default.
///
/// # Errors
/// Where the groups cannot be read.
pub(crate) fn is_used(group: &Path, controller: &str) -> Result<bool, Error> {
    for child in groups_below(group)? {
        let files = found(names(&child)).map_err(Error::io("reading", &child))?.unwrap_or_default();
        if has(&child, controller)? {
            return Ok(true);
        }
        for file in &files {
            let of_controller = file.strip_prefix(controller).is_some_and(|rest| rest.starts_with('.'));
            if of_controller && is_set(&child, file) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether a file of a group has a value that a new group does not have. An unreadable setting counts as set, unless its
/// group is gone.
fn is_set(group: &Path, file: &str) -> bool {
    match std::fs::read_to_string(group.join(file)) {
        Ok(value) => !is_default(file, value.trim()),
        Err(error) => {
            let gone = matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV));
            // No setting has the default `?`.
            !gone && !is_default(file, "?")
        }
    }
}

/// Whether a new group has this value in a file. Counters always do: only `max`, `high`, `low`, `min`, `weight` and
/// `latency` are settings.
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

    #[test]
    fn a_controller_is_used_by_those_that_pass_it_on_or_set_it() {
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
            let below = dir.path().join("a.service");
            std::fs::create_dir(&below).unwrap();
            std::fs::write(below.join(file), value).unwrap();
            assert_eq!(is_used(dir.path(), "io").unwrap(), expected, "{file}: {value}");
            std::fs::write(control(dir.path()), "io memory\n").unwrap();
            disable(dir.path(), "io").unwrap();
            let left = std::fs::read_to_string(control(dir.path())).unwrap();
            assert_eq!(left, if expected { "io memory\n" } else { "-io" }, "{file}: {value}");
        }
        for (file, value) in [("memory.max", "max\n"), ("cpu.max", "max 100000\n"), ("memory.low", "0\n")] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join(file), value).unwrap();
            assert!(!is_set(dir.path(), file));
            std::fs::write(dir.path().join(file), "50000 100000\n").unwrap();
            assert!(is_set(dir.path(), file) && !is_set(dir.path(), "gone.max"));
        }
    }

    #[test]
    fn what_passes_nothing_on_needs_no_disabling() {
        let dir = tempfile::tempdir().unwrap();
        disable(&dir.path().join("gone"), "io").unwrap();
        std::fs::write(control(dir.path()), "cpu\n").unwrap();
        disable(dir.path(), "io").unwrap();
        assert_eq!(std::fs::read_to_string(control(dir.path())).unwrap(), "cpu\n");
    }
}
