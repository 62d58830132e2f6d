//! Tests whether KVM runs a kernel on this machine. `/dev/kvm` is not enough: in a virtual machine it may exist and
//! still fail to boot a kernel. The trial boots one, for a bounded time, and caches the result until something changes.

use crate::config::{GuestConfig, WORKS};
use crate::kernel::GuestKernel;
use crate::launch::{Heard, Launch};
use crate::{
    Error, Result, cache, console::LastWords, digest, emulator::QEMU, exact::words, packing::Initramfs,
};
use fsarena_sys::program;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, process::Stdio};

/// The longest that a trial boot may take. Where KVM works, a kernel is up in one second.
const BOUND: Duration = Duration::from_secs(10);
/// Where KVM is.
pub const DEVICE: &str = "/dev/kvm";

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
    let known = recall(&file).unwrap_or_else(|| {
        let tried = Remembered { failed: boot(kernel, dir).unwrap_or_else(|error| Some(error.to_string())) };
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
    let ours = format!("kvm-{}-", cache::this_boot());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours));
    ours.filter_map(|entry| recall(&entry.path())).map(|known| known.failed).collect()
}

fn recall(file: &Path) -> Option<Remembered> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// The file that remembers a trial: by boot, kernel and emulator.
fn remembered(kernel: &GuestKernel, dir: &Path) -> PathBuf {
    let files = [Some(kernel.image.clone()), program::find(QEMU)];
    let states = files.map(|file| file.as_deref().and_then(cache::state_of).unwrap_or_default());
    dir.join(format!("kvm-{}-{}.json", cache::this_boot(), digest::of_parts(states)))
}

/// Boots it. Why it does not work, where it does not.
fn boot(kernel: &GuestKernel, dir: &Path) -> Result<Option<String>> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
    let room = tempfile::tempdir_in(dir).map_err(Error::io("making a directory in", dir))?;
    let mut initramfs = Initramfs::pack(&room.path().join("initramfs"), &[])?;
    initramfs.hand_over(&GuestConfig { trial: true, ..GuestConfig::default() })?;
    let console = room.path().join("console.log");
    let launch =
        Launch { argv: argv(kernel, &initramfs.path), console: console.clone(), stdin: Stdio::null() };
    let mut guest = launch.start()?;
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
    Ok(match (works, ended) {
        (true, _) => None,
        (_, true) => {
            Some(format!("a trial boot under KVM ended before fsarena began: {}", said.replace('\n', "; ")))
        }
        _ => Some(format!("a trial boot under KVM did not come up in {} s", BOUND.as_secs())),
    })
}

/// The least of machines, with its console on standard output.
fn argv(kernel: &GuestKernel, initramfs: &Path) -> Vec<OsString> {
    let fixed = "-M q35 -accel kvm -cpu host -smp 1 -m 512 -nodefaults -no-user-config -display none -no-reboot \
                 -chardev file,id=c,path=/dev/stdout -serial chardev:c -append";
    let words = [OsString::from(QEMU)].into_iter().chain(words(fixed));
    let files = ["-kernel".into(), kernel.image.clone().into(), "-initrd".into(), initramfs.into()];
    words.chain(["console=ttyS0 quiet panic=-1 rdinit=/init".into()]).chain(files).collect()
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
