//! Tests whether KVM runs a kernel on this machine. `/dev/kvm` is not enough: in a virtual machine it may exist and
//! still fail to boot a kernel. The trial boots one, for a bounded time, and caches the result until something changes.

use crate::config::{GuestConfig, WORKS};
use crate::emulator::{QEMU, words};
use crate::kernel::GuestKernel;
use crate::launch::{GuestMessage, Launch};
use crate::{Error, Result, cache, launch::LastWords, packing::Initramfs};
use fsarena_sys::program;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, process::Stdio};

/// The time within which a trial boot must succeed. With a working KVM a kernel boots in one second.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The device of KVM.
pub const DEVICE: &str = "/dev/kvm";

/// The result of a trial, as the cache stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrialResult {
    /// Why KVM does not work; None if it works.
    failed: Option<String>,
}

/// Checks whether KVM runs this kernel, by the cached result or a trial boot.
///
/// # Errors
/// The reason why it does not.
pub fn kvm(kernel: &GuestKernel, dir: &Path) -> Result<(), String> {
    open()?;
    let file = result_file(kernel, dir);
    let known = read_result(&file).unwrap_or_else(|| {
        let tried = TrialResult { failed: boot(kernel, dir).unwrap_or_else(|error| Some(error.to_string())) };
        // If it cannot be written, the next run tries again.
        let _ = serde_json::to_vec(&tried).map(|bytes| std::fs::write(&file, bytes));
        tried
    });
    known.failed.map_or(Ok(()), Err)
}

/// Checks whether this user may open the device of KVM.
///
/// # Errors
/// The reason why not.
pub fn open() -> Result<(), String> {
    let device = File::options().read(true).write(true).open(DEVICE);
    device.map(drop).map_err(|error| format!("{DEVICE}: {error}"))
}

/// The cached trials of this boot: the reason why each failed, None for one that succeeded.
pub fn known(dir: &Path) -> Vec<Option<String>> {
    let ours = format!("kvm-{}-", cache::this_boot());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&ours));
    ours.filter_map(|entry| read_result(&entry.path())).map(|known| known.failed).collect()
}

fn read_result(file: &Path) -> Option<TrialResult> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// The file with the result of a trial; its name depends on boot, kernel and emulator.
fn result_file(kernel: &GuestKernel, dir: &Path) -> PathBuf {
    let files = [Some(kernel.image.clone()), program::find(QEMU)];
    let states = files.map(|file| file.as_deref().and_then(cache::state_of).unwrap_or_default());
    dir.join(format!("kvm-{}-{}.json", cache::this_boot(), cache::digest_parts(states)))
}

/// Boots a kernel under KVM. Returns the reason why that does not work; None if it works.
fn boot(kernel: &GuestKernel, dir: &Path) -> Result<Option<String>> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
    let room = tempfile::tempdir_in(dir).map_err(Error::io("making a directory in", dir))?;
    let mut initramfs = Initramfs::pack(&room.path().join("initramfs"), &[])?;
    initramfs.hand_over(&GuestConfig { trial: true, ..GuestConfig::default() })?;
    let console = room.path().join("console.log");
    let launch =
        Launch { argv: argv(kernel, &initramfs.path), console: console.clone(), stdin: Stdio::null() };
    let mut guest = launch.start()?;
    let started = Instant::now();
    let (mut works, mut ended) = (false, false);
    while !works && !ended && started.elapsed() < TRIAL_TIMEOUT {
        match guest.next_message(Duration::from_millis(20)) {
            GuestMessage::Line(line) => works = line.contains(WORKS),
            GuestMessage::Silence => {}
            GuestMessage::End => ended = true,
        }
    }
    drop(guest);
    let output = LastWords::read(&console).lines;
    Ok(match (works, ended) {
        (true, _) => None,
        (_, true) => {
            Some(format!("a trial boot under KVM ended before fsarena began: {}", output.replace('\n', "; ")))
        }
        _ => Some(format!("a trial boot under KVM did not come up in {} s", TRIAL_TIMEOUT.as_secs())),
    })
}

/// The command line of a minimal machine with its console on standard output.
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
    fn a_cached_trial_is_valid_until_the_kernel_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("kernel");
        std::fs::write(&image, "one").unwrap();
        let kernel = GuestKernel { image: image.clone(), release: "6.1".into(), ..GuestKernel::default() };
        let before = result_file(&kernel, dir.path());
        assert_eq!(before, result_file(&kernel, dir.path()));
        std::fs::write(&before, r#"{"failed":"it hung"}"#).unwrap();
        assert_eq!(known(dir.path()), [Some("it hung".to_string())]);
        std::fs::write(&image, "another").unwrap();
        assert_ne!(before, result_file(&kernel, dir.path()));
    }
}
