//! Finds tracefs, where the kernel describes its tracepoints.

use crate::trace::Unavailable;
use crate::trace::format::{Field, Format};
use fsarena_sys::kernel::SysRoot;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::io::{self, Read};
use std::{fs::File, os::fd::OwnedFd, path::Path};

/// A directory of tracefs.
#[derive(Debug)]
pub struct Tracefs(OwnedFd);

/// A tracepoint as tracefs describes it.
#[derive(Debug, Clone)]
pub struct Tracepoint {
    event: &'static str,
    /// Its number, for perf_event_open(2).
    pub id: u64,
    /// The layout of its record.
    pub format: Format,
}

impl Tracepoint {
    /// A field of its record.
    ///
    /// # Errors
    /// Where the record has no such field.
    pub fn field(&self, name: &str) -> Result<Field, Unavailable> {
        let missing = || unreadable(self.event, "format", format!("it has no field {name}"));
        self.format.field(name).ok_or_else(missing)
    }
}

/// The error of a file that describes a tracepoint.
fn unreadable(event: &str, file: &str, why: String) -> Unavailable {
    Unavailable::Unreadable { what: format!("events/lock/{event}/{file}"), why }
}

impl Tracefs {
    /// The tracefs that is mounted below this root.
    ///
    /// # Errors
    /// Where there is none, or this user may not look into it.
    pub fn mounted(kernel: &SysRoot) -> io::Result<Tracefs> {
        let usual = ["sys/kernel/tracing", "sys/kernel/debug/tracing"].map(|rel| kernel.path(rel));
        let elsewhere = kernel.mounts().unwrap_or_default().into_iter();
        let elsewhere = elsewhere.filter(|mount| mount.fs_type == "tracefs").map(|mount| mount.target);
        let mut refusal = io::ErrorKind::NotFound.into();
        for dir in usual.into_iter().chain(elsewhere) {
            // An empty directory is there whether anything is mounted on it or not.
            match dir.join("events").metadata().and_then(|_| Ok(open(&dir)?)) {
                Ok(dir) => return Ok(Tracefs(dir)),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refusal = error,
                Err(_) => {}
            }
        }
        Err(refusal)
    }

    /// Mounts a private tracefs. It is never attached to a directory, so other processes do not see it, and the
    /// kernel removes it when the file is closed, also after SIGKILL.
    ///
    /// # Errors
    /// Where the kernel has no tracefs, or this user may not mount.
    pub fn detached() -> io::Result<Tracefs> {
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let mount = rustix::mount::fsmount(
            &context,
            FsMountFlags::FSMOUNT_CLOEXEC,
            MountAttrFlags::MOUNT_ATTR_NOSUID
                | MountAttrFlags::MOUNT_ATTR_NODEV
                | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )?;
        Ok(Tracefs(mount))
    }

    /// Opens the mounted tracefs, else mounts a private one.
    ///
    /// # Errors
    /// Where neither is possible; the message says how to enable it.
    pub fn find(kernel: &SysRoot) -> Result<Tracefs, Unavailable> {
        let mounted = match Tracefs::mounted(kernel) {
            Ok(tracefs) => return Ok(tracefs),
            Err(error) => error,
        };
        Tracefs::detached().map_err(|source| match (source.kind(), mounted.kind()) {
            (io::ErrorKind::PermissionDenied, _) | (_, io::ErrorKind::PermissionDenied) => {
                not_permitted(kernel, "looking into tracefs", source)
            }
            _ => Unavailable::NoTracefs { why: format!("none is mounted, and mounting one: {source}") },
        })
    }

    /// A tracepoint of the group `lock`.
    ///
    /// # Errors
    /// Where the kernel has no such tracepoint, or describes it in an unknown way.
    pub fn tracepoint(&self, kernel: &SysRoot, event: &'static str) -> Result<Tracepoint, Unavailable> {
        let read = |file: &str| {
            self.read(&format!("events/lock/{event}/{file}")).map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => {
                    let kernel = kernel.fact("proc/sys/kernel/osrelease").unwrap_or_default();
                    Unavailable::NoTracepoint { kernel, event }
                }
                io::ErrorKind::PermissionDenied => not_permitted(kernel, "reading a tracepoint", source),
                _ => unreadable(event, file, source.to_string()),
            })
        };
        let text = read("id")?;
        let id = text.trim().parse();
        let id = id.map_err(|_| unreadable(event, "id", format!("expected a number, found {text:?}")))?;
        Ok(Tracepoint { event, id, format: Format::parse(&read("format")?) })
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let file = rustix::fs::openat(&self.0, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        File::from(file).read_to_string(&mut text)?;
        Ok(text)
    }
}

fn open(dir: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// This user may not do it: with the sysctl that decides.
pub fn not_permitted(kernel: &SysRoot, doing: &'static str, source: io::Error) -> Unavailable {
    let paranoid =
        kernel.fact("proc/sys/kernel/perf_event_paranoid").unwrap_or_else(|| "unknown".to_string());
    Unavailable::NotPermitted { doing, paranoid, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probes::testing::kernel_with;
    use crate::trace::format::tests::BEGIN;

    #[test]
    fn a_tracepoint_is_read_where_tracefs_is_mounted() {
        for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
            let event = format!("{place}/events/lock/contention_begin");
            let (_dir, kernel) =
                kernel_with(&[(&format!("{event}/id"), "408\n"), (&format!("{event}/format"), BEGIN)]);
            let tracefs = Tracefs::mounted(&kernel).unwrap();
            let tracepoint = tracefs.tracepoint(&kernel, "contention_begin").unwrap();
            assert_eq!((tracepoint.id, tracepoint.format), (408, Format::parse(BEGIN)));
        }
    }

    #[test]
    fn an_empty_directory_is_no_tracefs() {
        let (dir, kernel) = kernel_with(&[]);
        std::fs::create_dir_all(dir.path().join("sys/kernel/tracing")).unwrap();
        assert_eq!(Tracefs::mounted(&kernel).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_kernel_without_the_tracepoint_is_told_what_it_needs() {
        let (_dir, kernel) = kernel_with(&[
            ("sys/kernel/tracing/events/sched/enable", "0\n"),
            ("proc/sys/kernel/osrelease", "5.15.0\n"),
        ]);
        let error = Tracefs::mounted(&kernel).unwrap().tracepoint(&kernel, "contention_begin").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("5.15.0") && text.contains("Linux 5.19 or later"), "{text}");
    }
}
