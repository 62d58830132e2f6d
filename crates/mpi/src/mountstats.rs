//! Bytes between an NFS client and its server, as `/proc/self/mountstats` counts them.

use std::path::Path;

/// Bytes read from the server and written to it, since the mount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bytes {
    /// Read.
    pub read: f64,
    /// Written.
    pub written: f64,
}

/// The counters of the mount that a directory is on; none where that is not NFS.
pub fn of(text: &str, dir: &Path) -> Option<Bytes> {
    let mounts = text.split("device ").filter_map(|mount| {
        // server:/export mounted on /mnt with fstype nfs4 statvers=1.1
        let target = mount.split_once(" mounted on ")?.1.split_once(" with fstype ")?.0;
        dir.starts_with(target).then_some((target, mount))
    });
    let (_, mount) = mounts.max_by_key(|(target, _)| target.len())?;
    // Normal, direct and server's bytes, read before written.
    let counters = mount.lines().find_map(|line| line.trim_start().strip_prefix("bytes:"))?;
    let counters: Vec<f64> =
        counters.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    Some(Bytes { read: *counters.get(4)?, written: *counters.get(5)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "device rootfs mounted on / with fstype ext4\n\
        device server:/home mounted on /home with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2\n\tage:\t12\n\tbytes:\t1 2 3 4 500 600 7 8\n\n\
        device server:/home/x mounted on /home/x with fstype nfs4 statvers=1.1\n\tbytes:\t1 2 3 4 50 60 7 8\n";

    #[test]
    fn hand_checked() {
        assert_eq!(of(TEXT, Path::new("/home/me")), Some(Bytes { read: 500.0, written: 600.0 }));
        assert_eq!(of(TEXT, Path::new("/home/x/y")), Some(Bytes { read: 50.0, written: 60.0 }));
        assert_eq!(of(TEXT, Path::new("/srv")), None);
    }
}
