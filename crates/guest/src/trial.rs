//! Tests whether KVM runs a kernel on this machine. `/dev/kvm` is not enough: in a virtual machine it may exist and
//! still fail to boot a kernel. The trial boots one, for a bounded time, and caches the result until something changes.

use crate::config::{GuestConfig, WORKS};
use crate::console::LastWords;
use crate::emulator::QEMU;
use crate::kernel::GuestKernel;
use crate::launch::{Heard, Launch};
use crate::packing::Initramfs;
use crate::{Error, cache};
use fsarena_sys::program;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The longest that a trial boot may take. Where KVM works, a kernel is up in one second.
const BOUND: Duration = Duration::from_secs(10);
/// Where KVM is.
pub const DEVICE: &str = "/dev/kvm";
/// Memory of the trial's guest, in mebibytes.
const MEMORY_MIB: u32 = 512;

/// How a trial ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    /// Why KVM is not taken; none where it works.
    failed: Option<String>,
}

/// Says whether KVM runs this kernel: as it is remembered, or by a trial boot.
///
/// # Errors
/// Why it does not, in words.
pub fn kvm(kernel: &GuestKernel, dir: &Path) -> Result<(), String> {
    open()?;
    let file = remembered(kernel, dir);
    let known = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<Remembered>(&bytes).ok());
    let known = known.unwrap_or_else(|| {
        let tried = Remembered { failed: boot(kernel, dir).err() };
        // Where it cannot be kept, the next run tries again.
        let _ = serde_json::to_vec(&tried).map(|bytes| std::fs::write(&file, bytes));
        tried
    });
    known.failed.map_or(Ok(()), Err)
}

/// Whether this user may open the device of KVM.
///
/// # Errors
/// Why not, in words.
pub fn open() -> Result<(), String> {
    let device = File::options().read(true).write(true).open(DEVICE);
    device.map(drop).map_err(|error| format!("{DEVICE}: {error}"))
}

/// The recorded trials of this boot: why each failed; none for one that succeeded.
pub fn known(dir: &Path) -> Vec<Option<String>> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let boot = cache::this_boot();
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("kvm-{boot}-")))
    };
    let read = |path: PathBuf| serde_json::from_slice::<Remembered>(&std::fs::read(path).ok()?).ok();
    entries.filter(ours).filter_map(read).map(|known| known.failed).collect()
}

/// The file that remembers a trial: by boot, kernel and emulator.
fn remembered(kernel: &GuestKernel, dir: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    for file in [Some(kernel.image.clone()), program::find(&path, QEMU)] {
        file.as_deref().and_then(cache::state_of).hash(&mut hasher);
    }
    dir.join(format!("kvm-{}-{:016x}.json", cache::this_boot(), hasher.finish()))
}

/// Boots it.
fn boot(kernel: &GuestKernel, dir: &Path) -> Result<(), String> {
    let words = |error: Error| error.to_string();
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir)).map_err(words)?;
    let room = tempfile::tempdir_in(dir).map_err(Error::io("making a directory in", dir)).map_err(words)?;
    let mut initramfs = Initramfs::pack(&room.path().join("initramfs"), &[]).map_err(words)?;
    initramfs.hand_over(&GuestConfig { trial: true, ..GuestConfig::default() }).map_err(words)?;
    let console = room.path().join("console.log");
    let launch = Launch {
        argv: argv(kernel, &initramfs.path),
        console: console.clone(),
        events: None,
        user_mode: false,
        stdin: Stdio::null(),
    };
    let mut guest = launch.start().map_err(words)?;
    let begun = Instant::now();
    let (mut works, mut ended) = (false, false);
    while !works && !ended && begun.elapsed() < BOUND {
        match guest.listen(Duration::from_millis(20)) {
            Heard::Line(line) => works = line.contains(WORKS),
            Heard::Silence => {}
            Heard::End => ended = true,
        }
    }
    drop(guest);
    let said = LastWords::of(&console).lines;
    match (works, ended) {
        (true, _) => Ok(()),
        (_, true) => {
            Err(format!("a trial boot under KVM ended before fsarena began: {}", said.replace('\n', "; ")))
        }
        _ => Err(format!("a trial boot under KVM did not come up in {} s", BOUND.as_secs())),
    }
}

/// The least of machines, with its console on standard output.
fn argv(kernel: &GuestKernel, initramfs: &Path) -> Vec<OsString> {
    let memory = MEMORY_MIB.to_string();
    let words =
        [QEMU, "-M", "q35", "-accel", "kvm", "-cpu", "host", "-smp", "1", "-m", &memory, "-nodefaults"];
    let more =
        ["-no-user-config", "-display", "none", "-no-reboot", "-chardev", "file,id=c,path=/dev/stdout"];
    let mut argv: Vec<OsString> = words.into_iter().chain(more).map(OsString::from).collect();
    argv.extend(
        ["-serial", "chardev:c", "-append", "console=ttyS0 quiet panic=-1 rdinit=/init"].map(OsString::from),
    );
    argv.extend([OsString::from("-kernel"), kernel.image.clone().into()]);
    argv.extend([OsString::from("-initrd"), initramfs.into()]);
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_remembered_for_this_kernel_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("kernel");
        std::fs::write(&image, "one").unwrap();
        let kernel = GuestKernel { image: image.clone(), release: "6.1".into(), ..GuestKernel::default() };
        let before = remembered(&kernel, dir.path());
        assert_eq!(before, remembered(&kernel, dir.path()));
        std::fs::write(&before, r#"{"failed":"it hung"}"#).unwrap();
        assert_eq!(known(dir.path()), [Some("it hung".to_string())]);
        std::fs::write(&image, "another").unwrap();
        assert_ne!(before, remembered(&kernel, dir.path()));
    }
}
