//! The owner of a journal: the process that writes it, and whether it runs in this PID namespace, container, boot or host.

use crate::{Error, kernel::SysRoot, process};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::unix::fs::MetadataExt;

/// The process that writes a journal. Journals of fsarena up to 0.1.0 lack `host`, `machine` and `pid_namespace`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub pid: i32,
    pub start_time: u64,
    pub boot_id: String,
    /// What the journal is for: the directory of the run.
    pub about: String,
    /// The host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of the installed system (machine-id(5)): hosts may share a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The inode number of the PID namespace that `pid` belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// Where the owner of a journal runs or ran, as seen from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In this PID namespace, so that `/proc` shows it while it is alive. Also assumed if the journal does not record one.
    Here,
    /// In another PID namespace of this kernel, such as a container: its pids belong to other processes here.
    OtherNamespace,
    /// On this machine, in an earlier boot.
    EarlierBoot,
    /// On another host that shares the directory of the journals.
    OtherHost,
}

impl Owner {
    /// This process.
    ///
    /// # Errors
    /// Where `/proc/self` or the boot id cannot be read.
    pub fn this_process(kernel: &SysRoot, about: &str) -> Result<Owner, Error> {
        let path = kernel.path("proc/self");
        let target = path.read_link().map_err(Error::io("reading", &path))?;
        let unreadable = |why: &str| Error::Unreadable { path: path.join("stat"), why: why.into() };
        // The pid in the PID namespace of this /proc mount, which may differ from that of this process.
        let pid = target.to_str().and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| unreadable("it does not say which process this is"))?;
        let start_time = process::start_time(kernel, pid)
            .ok_or_else(|| unreadable("it does not say when this process started"))?;
        let namespace = kernel.path("proc/self/ns/pid").metadata().ok().map(|meta| meta.ino());
        Ok(Owner {
            pid,
            start_time,
            boot_id: process::boot_id(kernel)?,
            about: about.into(),
            host: kernel.fact("proc/sys/kernel/hostname"),
            machine: kernel.fact("etc/machine-id"),
            pid_namespace: namespace.filter(|_| pid == std::process::id() as i32),
        })
    }

    /// Where the owner runs or ran, as seen from the process `here`.
    pub fn place(&self, here: &Owner) -> Place {
        // An unknown boot id counts as this boot.
        let same_boot = self.boot_id == here.boot_id || self.boot_id.is_empty() || here.boot_id.is_empty();
        if same_boot {
            let namespaces_differ = differ(&self.pid_namespace, &here.pid_namespace);
            return if namespaces_differ { Place::OtherNamespace } else { Place::Here };
        }
        let hosts_differ = differ(&self.host, &here.host) || differ(&self.machine, &here.machine);
        if hosts_differ { Place::OtherHost } else { Place::EarlierBoot }
    }

    /// Whether the owner may be in the PID namespace of the process `pid`; true where either namespace is unknown.
    pub fn may_be_in_namespace_of(&self, kernel: &SysRoot, pid: i32) -> bool {
        let namespace = kernel.path(&format!("proc/{pid}/ns/pid")).metadata().ok().map(|meta| meta.ino());
        !differ(&self.pid_namespace, &namespace)
    }
}

/// Whether both values are known and differ.
fn differ<T: PartialEq>(one: &Option<T>, other: &Option<T>) -> bool {
    one.is_some() && other.is_some() && one != other
}

/// `process 12 in PID namespace 4026532301 on host box`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(namespace) = self.pid_namespace {
            write!(f, " in PID namespace {namespace}")?;
        }
        self.host.as_ref().map_or(Ok(()), |host| write!(f, " on host {host}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_placed_by_boot_host_and_namespace() {
        let here = Owner::this_process(&SysRoot::host(), "").unwrap();
        assert_eq!(here.place(&here), Place::Here);
        let renamed = Owner { host: Some("renamed".into()), ..here.clone() };
        assert_eq!(
            renamed.place(&here),
            Place::Here,
            "one kernel is one host, whatever its containers are called"
        );
        let contained = Owner { pid_namespace: Some(1), ..renamed.clone() };
        assert_eq!(contained.place(&here), Place::OtherNamespace);
        let booted = Owner { boot_id: "earlier".into(), pid_namespace: Some(1), ..here.clone() };
        assert_eq!(booted.place(&here), Place::EarlierBoot);
        let other = Owner { host: Some("another".into()), ..booted.clone() };
        assert_eq!(other.place(&here), Place::OtherHost);
        let with_machine = Owner { machine: Some("1".into()), ..here.clone() };
        let twin = Owner { machine: Some("2".into()), boot_id: "of the twin".into(), ..here.clone() };
        assert_eq!(twin.place(&with_machine), Place::OtherHost);
        // As versions up to 0.1.0 wrote it.
        let older = Owner { host: None, machine: None, pid_namespace: None, ..booted };
        assert_eq!(older.place(&here), Place::EarlierBoot);
        assert_eq!(Owner { boot_id: String::new(), ..older }.place(&here), Place::Here);
    }
}
