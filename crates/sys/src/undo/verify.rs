//! Looking whether something is really undone.

use super::act::{absent, is_another};
use super::step::Undo;
use crate::cgroup::passed_on;
use crate::{Error, attribute, found, kernel::SysRoot, loopdev, mount, process, zram};
use std::path::Path;

impl Undo {
    /// Finds what is still there. Where it ended with a boot only that counts which the name alone identifies: numbers of
    /// processes and devices begin anew.
    ///
    /// # Errors
    /// If it is not undone.
    pub(super) fn verify(&self, kernel: &SysRoot, ended: bool) -> Result<(), Error> {
        let still = |what: &Path, why: String| Err(Error::Unfit { what: what.into(), why });
        match self {
            Undo::Unmount { target, dir } if !mount::may_be_on(target, *dir) => Ok(()),
            Undo::Unmount { target, .. } => match mount::is_mounted(kernel, target)? {
                true if ended => still(target, "something was mounted there after the last boot".into()),
                true => still(target, "something is still mounted there".into()),
                false => Ok(()),
            },
            Undo::Detach { image, identity } => {
                let carriers = loopdev::carriers(kernel, image, *identity)?;
                let why = || format!("it still carries {image:?}, or that file under another name");
                carriers.first().map_or(Ok(()), |device| still(device, why()))
            }
            Undo::RemoveFile { path, .. } | Undo::RemoveDir { path, .. } | Undo::RemoveTree { path } => {
                absent(path)
            }
            _ if ended => Ok(()),
            Undo::KillGroup { pgid, start_time } => {
                let living = process::living(kernel, *pgid, *start_time)?;
                let why = |pid: &i32| format!("{} still runs", process::name(kernel, *pid));
                living.first().map_or(Ok(()), |pid| still(Path::new("process"), why(pid)))
            }
            Undo::RemoveGroup { path, identity } => {
                if is_another(path, *identity) {
                    return Ok(());
                }
                absent(path)
            }
            Undo::DisableController { root, name, .. } => {
                if passed_on::has(root, name)? && !passed_on::is_used(root, name)? {
                    return still(root, format!("it still passes the controller {name} on"));
                }
                Ok(())
            }
            Undo::RemoveZram { number: Some(number), size_bytes, disk } => {
                if zram::has(kernel, *number, *size_bytes, *disk)? {
                    return still(Path::new(&format!("/dev/zram{number}")), "it is still there".into());
                }
                Ok(())
            }
            Undo::RemoveZram { number: None, .. } => Ok(()),
            Undo::RestoreAttr { path, disk, .. } if !attribute::may_be_of(path, *disk) => Ok(()),
            Undo::RestoreAttr { path, value, .. } => {
                match found(std::fs::read_to_string(path)).map_err(Error::io("reading", path))? {
                    Some(text) if !holds(&text, value) => {
                        still(path, format!("it has the value {}", text.trim()))
                    }
                    _ => Ok(()),
                }
            }
        }
    }
}

/// Whether an attribute has a value: alone, in brackets among those it may have, or as the line of one device of
/// several. A device has no line where its value is 0.
fn holds(text: &str, value: &str) -> bool {
    let text = text.trim();
    if text == value || text.split_whitespace().any(|word| word == format!("[{value}]")) {
        return true;
    }
    let line = |device: &str| text.lines().find(|line| line.split_whitespace().next() == Some(device));
    match value.split_once(' ') {
        Some((device, "0")) => line(device).is_none_or(|line| line == value),
        Some((device, _)) => line(device) == Some(value),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use std::{os::unix::process::CommandExt, process::Command};

    #[test]
    fn values_of_attributes_are_told_in_each_form() {
        for (text, value) in [
            ("performance\n", "performance"),
            ("none [mq-deadline] bfq\n", "mq-deadline"),
            ("8:0 100\n8:16 7\n", "8:16 7"),
            ("8:0 100\n", "8:16 0"),
            ("", "8:16 0"),
        ] {
            assert!(holds(text, value), "{text:?} {value:?}");
        }
        for (text, value) in [("none [bfq]", "none"), ("8:0 100", "8:0 0"), ("8:0 100", "8:0 10"), ("", "x")]
        {
            assert!(!holds(text, value), "{text:?} {value:?}");
        }
    }

    #[test]
    fn what_is_still_there_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kernel) = (dir.path().join("image"), SysRoot::host());
        let removal = Undo::RemoveFile { path: file.clone(), identity: None };
        removal.verify(&kernel, false).unwrap();
        std::fs::write(&file, "").unwrap();
        assert!(removal.verify(&kernel, true).is_err());
        let group = Undo::RemoveGroup { path: file.clone(), identity: None };
        assert!(group.verify(&kernel, false).is_err());
        group.verify(&kernel, true).unwrap();
        let mount = Undo::Unmount { target: "/proc".into(), dir: None };
        assert!(mount.verify(&kernel, true).is_err() && mount.verify(&kernel, false).is_err());
        // A group of its own: the leader of this process's may be in another PID namespace.
        let mut leader = limits::spawn(Command::new("sleep").arg("600").process_group(0)).unwrap();
        let group = leader.id() as i32;
        let started = process::start_time(&kernel, group).unwrap();
        let living = process::living(&kernel, group, started).unwrap();
        let verified = Undo::KillGroup { pgid: group, start_time: started }.verify(&kernel, false);
        leader.kill().and_then(|()| leader.wait()).unwrap();
        assert_eq!(living, [group]);
        assert!(verified.is_err());
    }

    #[test]
    fn what_cannot_be_read_is_not_undone() {
        let dir = tempfile::tempdir().unwrap();
        // `/proc` and `/sys` of this machine are hidden, and a directory cannot be read as an attribute.
        let hidden = SysRoot::at(dir.path());
        let attribute = dir.path().join("attribute");
        std::fs::create_dir_all(attribute.join("cgroup.subtree_control")).unwrap();
        for step in [
            Undo::Unmount { target: "/nowhere".into(), dir: None },
            Undo::Detach { image: "/nowhere/image".into(), identity: None },
            Undo::KillGroup { pgid: 999_999, start_time: 1 },
            Undo::DisableController { root: attribute.clone(), name: "io".into(), group: "/nowhere".into() },
            Undo::RestoreAttr { path: attribute, value: "5".into(), disk: None },
            Undo::RemoveZram { number: Some(3), size_bytes: 4096, disk: None },
            // Longer than any name may be: it cannot even be looked for.
            Undo::RemoveGroup { path: dir.path().join("x".repeat(300)), identity: None },
            Undo::RemoveFile { path: dir.path().join("x".repeat(300)), identity: None },
        ] {
            assert!(step.verify(&hidden, false).is_err(), "{step}");
            assert!(step.act(&hidden).is_err(), "{step}");
        }
    }
}
