//! Tests whether KVM runs a kernel on this machine. `/dev/kvm` is not enough: in a virtual machine it may exist and
//! still fail to boot a kernel. The trial boots one, for a bounded time. The result is cached until the next boot of
//! the machine or a change of the kernel image or QEMU; a failure only for an hour, because its cause, such as a lack
//! of memory, may be gone by then.

use crate::config::{GuestConfig, WORKS_MESSAGE};
use crate::emulator::{QEMU, split_words};
use crate::kernel::GuestKernel;
use crate::launch::{GuestCommand, GuestMessage};
use crate::{Error, Result, cache, initramfs::Initramfs, launch::ConsoleEnd};
use fsarena_sys::program;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use std::{ffi::OsString, fs::File, process::Stdio};

/// The time within which a trial boot must succeed. With a working KVM a kernel boots in one second.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the cached result of a failed trial is valid. A busy machine or a lack of memory also makes a trial fail.
const FAILURE_LIFETIME: Duration = Duration::from_secs(3600);
/// The device of KVM.
pub const KVM_DEVICE: &str = "/dev/kvm";

/// The result of a trial, as the cache stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrialResult {
    /// Why KVM does not work; None if it works.
    #[serde(rename = "failed")]
    failure: Option<String>,
}

/// Checks whether KVM runs this kernel, by the cached result or a trial boot.
///
/// # Errors
/// The reason why it does not.
pub fn check_kvm(kernel: &GuestKernel, dir: &Path) -> Result<(), String> {
    check_device()?;
    let file = result_file(kernel, dir);
    let result = match read_result(&file) {
        Some(result) => result,
        None => {
            // An error, such as a full disk, is not a result of KVM, so it is not cached.
            let failure = try_boot(kernel, dir).map_err(|error| error.to_string())?;
            let result = TrialResult { failure };
            // If it cannot be written, the next run tries again.
            let _ = serde_json::to_vec(&result).map(|bytes| std::fs::write(&file, bytes));
            result
        }
    };
    result.failure.map_or(Ok(()), Err)
}

/// Checks whether this user may open the device of KVM.
///
/// # Errors
/// The reason why not.
pub fn check_device() -> Result<(), String> {
    let device = File::options().read(true).write(true).open(KVM_DEVICE);
    device.map(drop).map_err(|error| format!("{KVM_DEVICE}: {error}"))
}

/// The valid cached trials of this boot of the machine: the reason why each failed, None for one that succeeded.
pub fn cached_trials(dir: &Path) -> Vec<Option<String>> {
    let prefix = format!("kvm-{}-", cache::boot_prefix());
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of_this_boot = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    of_this_boot.filter_map(|entry| read_result(&entry.path())).map(|result| result.failure).collect()
}

/// Reads a cached result. None if the file is missing or damaged, or the result is a failure that is no longer valid.
fn read_result(file: &Path) -> Option<TrialResult> {
    let result: TrialResult = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
    if result.failure.is_some() {
        let written_at = file.metadata().and_then(|meta| meta.modified()).ok()?;
        let age = SystemTime::now().duration_since(written_at).ok()?;
        if age > FAILURE_LIFETIME {
            return None;
        }
    }
    Some(result)
}

/// The file with the result of a trial; its name depends on the boot of the machine, the kernel and the emulator.
fn result_file(kernel: &GuestKernel, dir: &Path) -> PathBuf {
    let files = [Some(kernel.image.clone()), program::find(QEMU)];
    let states = files.map(|file| file.as_deref().and_then(cache::digest_state).unwrap_or_default());
    dir.join(format!("kvm-{}-{}.json", cache::boot_prefix(), cache::digest_parts(states)))
}

/// Boots a kernel under KVM. Returns the reason why that does not work; None if it works.
///
/// # Errors
/// The trial could not be made: its files could not be written, or QEMU could not be started.
fn try_boot(kernel: &GuestKernel, dir: &Path) -> Result<Option<String>> {
    std::fs::create_dir_all(dir).map_err(Error::io("making", dir))?;
    let work_dir = tempfile::tempdir_in(dir).map_err(Error::io("making a directory in", dir))?;
    let mut initramfs = Initramfs::pack(&work_dir.path().join("initramfs"), &[])?;
    initramfs.set_config(&GuestConfig { is_trial: true, ..GuestConfig::default() })?;
    let console = work_dir.path().join("console.log");
    let command =
        GuestCommand { argv: trial_command(kernel, &initramfs.path), console: console.clone(), stdin: Stdio::null() };
    let mut guest = command.start()?;
    let start = Instant::now();
    let (mut works, mut has_ended) = (false, false);
    while !works && !has_ended && start.elapsed() < TRIAL_TIMEOUT {
        match guest.next_message(Duration::from_millis(20)) {
            GuestMessage::Line(line) => works = line.contains(WORKS_MESSAGE),
            GuestMessage::Silence => {}
            GuestMessage::End => has_ended = true,
        }
    }
    drop(guest);
    let output = ConsoleEnd::read(&console).lines;
    Ok(match (works, has_ended) {
        (true, _) => None,
        (_, true) => Some(format!("a trial boot under KVM ended before fsarena began: {}", output.replace('\n', "; "))),
        _ => Some(format!("a trial boot under KVM did not come up in {} s", TRIAL_TIMEOUT.as_secs())),
    })
}

/// The command line of a minimal machine with its console on standard output.
fn trial_command(kernel: &GuestKernel, initramfs: &Path) -> Vec<OsString> {
    let fixed = "-M q35 -accel kvm -cpu host -smp 1 -m 512 -nodefaults -no-user-config -display none -no-reboot \
                 -chardev file,id=c,path=/dev/stdout -serial chardev:c -append";
    let words = [OsString::from(QEMU)].into_iter().chain(split_words(fixed));
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
        assert_eq!(cached_trials(dir.path()), [Some("it hung".to_string())]);
        std::fs::write(&image, "another").unwrap();
        assert_ne!(before, result_file(&kernel, dir.path()));
    }

    #[test]
    fn only_a_failed_trial_expires() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("result.json");
        let old = SystemTime::now() - FAILURE_LIFETIME - Duration::from_secs(1);
        for (failure, is_valid) in [(Some("it hung"), false), (None, true)] {
            let result = TrialResult { failure: failure.map(String::from) };
            std::fs::write(&file, serde_json::to_vec(&result).unwrap()).unwrap();
            assert_eq!(read_result(&file), Some(result));
            File::options().write(true).open(&file).unwrap().set_modified(old).unwrap();
            assert_eq!(read_result(&file).is_some(), is_valid, "{failure:?}");
        }
    }

    #[test]
    fn an_error_of_the_host_is_not_cached_as_a_result() {
        if let Err(why) = check_device() {
            return fsarena_sys::testkit::record_skip(&why);
        }
        // No file can be made below a file.
        let dir = tempfile::NamedTempFile::new().unwrap();
        assert!(check_kvm(&GuestKernel::default(), dir.path()).is_err());
        assert!(cached_trials(dir.path()).is_empty());
    }
}
