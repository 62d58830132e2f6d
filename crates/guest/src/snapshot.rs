//! Saved states of booted machines, from which guests start.
//!
//! Without KVM, QEMU translates the instructions of the guest. A kernel then boots for seconds before each cell, and always in
//! the same way. So it boots once: its
//! `/init` does everything that does not depend on the cell, closes the disks and reports
//! [`READY_MESSAGE`](crate::config::READY_MESSAGE). QEMU then writes the machine's state to a file, as it does to move a
//! machine to another host. Each guest starts from that file, with its own disks and the config that it finds in QEMU's
//! `fw_cfg`. Decision record 0009 has the reasons.
//!
//! fsarena sends commands to QEMU over QMP, its protocol of JSON lines.

use crate::cache::{self, Digester};
use crate::emulator::{Machine, QEMU};
use crate::initramfs::{RUNNING_PROGRAM, libraries};
use crate::instruction_counter::HELD_EXTENSION;
use crate::launch::GuestCommand;
use fsarena_sys::wait::{Cancel, WaitError, wait_until};
use fsarena_sys::{cancel, program};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Error, ErrorKind, IoSlice, Read, Result, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, mem::MaybeUninit, os::unix::ffi::OsStrExt};
use std::{os::unix::net::UnixStream, process::Stdio};

/// The prefix of the names of saved machines.
const NAME_PREFIX: &str = "booted-";
/// The number of saved machines to keep: each takes some 170 MB.
const MAX_KEPT: usize = 6;
/// Machines that were used within this time are kept, too.
const MIN_IDLE: Duration = Duration::from_secs(600);
const STATE_FILE: &str = "state";
const CONSOLE_FILE: &str = "console.log";
/// The longest that QEMU may take to write or read a state, and a guest to reach its hold.
const SAVE_TIMEOUT: Duration = Duration::from_secs(60);
/// The time between two checks for a signal while QEMU writes.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The capacity of the pipe in bytes. A large one needs fewer switches between writer and reader.
const PIPE_BYTES: usize = 1 << 20;

/// A machine that has booted, as a directory of the cache.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its directory.
    pub dir: PathBuf,
    /// The file with its state.
    state_file: PathBuf,
}

/// The directory of a machine's saved state. Its name depends on everything that the state depends on, including the
/// current boot of the host, because the guest has measured the host's clock. None if one of the files cannot be examined, or
/// if the cache belongs to another user or every user can write to it.
pub fn snapshot_dir(cache: &Path, machine: &Machine, modules: &[String]) -> Option<PathBuf> {
    // The state depends on the number of images under test, and not on their paths.
    let empty_paths: Vec<PathBuf> = machine.test_images.iter().map(|_| PathBuf::new()).collect();
    let template = Machine {
        initramfs: None,
        config: None,
        test_images: &empty_paths,
        write_recording: None,
        journal_image: machine.journal_image.map(|_| Path::new("")),
        source_image: Path::new(""),
        dir: Path::new(""),
        ..machine.clone()
    };
    let fixed = [machine.kernel.image.clone(), program::find(QEMU)?, RUNNING_PROGRAM.into()];
    let files = fixed.into_iter().chain(libraries().into_iter().map(PathBuf::from));
    let states: Vec<String> = files.map(|file| cache::digest_state(&file)).collect::<Option<_>>()?;
    let argv = cache::digest_parts(template.argv().iter().map(|word| word.as_bytes()));
    let (loaded, states) = (cache::digest_parts(modules), cache::digest_parts(states));
    let key = cache::digest_parts([&argv, &loaded, machine.kernel.modules.digest_of_files(), &states]);
    let name = format!("{NAME_PREFIX}{}-{key}", cache::boot_prefix());
    cache::is_private_dir(cache).then(|| cache.join(name))
}

/// Returns the saved machine of this directory, if it is complete, and records that it was used now.
pub fn find_snapshot(dir: &Path) -> Option<Snapshot> {
    let state_file = cache::find_entries(dir, STATE_FILE).pop()?;
    dir.join(CONSOLE_FILE).is_file().then(|| {
        cache::mark_used(dir);
        Snapshot { dir: dir.into(), state_file }
    })
}

/// A machine whose state is to be saved, while it boots.
pub struct SnapshotDraft {
    /// Where its state is written. On success, [`SnapshotDraft::save`] renames it; on failure, the caller must remove it.
    pub dir: PathBuf,
    final_dir: PathBuf,
    monitor: UnixStream,
}

impl SnapshotDraft {
    /// Makes an empty directory next to the final one, and a socket for QMP, which becomes QEMU's standard input.
    ///
    /// # Errors
    /// The cache cannot be written.
    pub fn begin(cache: &Path, final_dir: PathBuf) -> Result<(SnapshotDraft, Stdio)> {
        let (monitor, theirs) = UnixStream::pair()?;
        let dir = tempfile::Builder::new().prefix("saving-").tempdir_in(cache)?.keep();
        Ok((SnapshotDraft { dir, final_dir, monitor }, Stdio::from(OwnedFd::from(theirs))))
    }

    /// Further QEMU arguments that open a QMP monitor on standard input.
    pub fn monitor_arguments() -> [OsString; 4] {
        ["-chardev", "socket,id=qmp,fd=0", "-mon", "chardev=qmp,mode=control"].map(OsString::from)
    }

    /// Makes QEMU write the state of its machine, whose guest has reported that it is ready, and saves the state together
    /// with the console log.
    ///
    /// # Errors
    /// QEMU refuses or fails, the disk is full, or a signal interrupts fsarena.
    pub fn save(self, console: &Path) -> Result<Snapshot> {
        let mut monitor = QmpMonitor::connect(self.monitor)?;
        let temporary = self.dir.join(STATE_FILE);
        let name = cache::name_with_digest(STATE_FILE, &save_state(&mut monitor, &temporary)?);
        std::fs::rename(&temporary, self.dir.join(&name))?;
        // If QEMU ignores this, the caller kills it.
        let _ = monitor.execute("quit", json!({}));
        std::fs::copy(console, self.dir.join(CONSOLE_FILE))?;
        move_into_place(&self.dir, &self.final_dir)?;
        if let Some(cache) = self.final_dir.parent() {
            cache::remove_oldest(cache, NAME_PREFIX, MAX_KEPT, MIN_IDLE);
        }
        find_snapshot(&self.final_dir).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// Moves a saved machine to its final directory, and replaces an incomplete one there. If another process has saved the machine
/// meanwhile, removes this one instead.
fn move_into_place(dir: &Path, final_dir: &Path) -> Result<()> {
    if std::fs::rename(dir, final_dir).is_ok() {
        return Ok(());
    }
    if find_snapshot(final_dir).is_some() {
        return std::fs::remove_dir_all(dir);
    }
    cache::remove_entry(final_dir);
    std::fs::rename(dir, final_dir)
}

/// Makes QEMU write its machine's state to a file. Returns its digest.
fn save_state(monitor: &mut QmpMonitor, state_file: &Path) -> Result<String> {
    let file = File::create(state_file)?;
    let (ours, theirs) = UnixStream::pair()?;
    monitor.pass_file("state", theirs.as_fd())?;
    drop(theirs);
    // QEMU's default limit suits a network. A running machine is not stopped for this: a machine saved while it is stopped
    // would also be stopped when a guest starts from it.
    monitor.execute("migrate-set-parameters", json!({ "max-bandwidth": 1u64 << 40 }))?;
    monitor.execute("migrate", json!({ "uri": "fd:state" }))?;
    let deadline = Instant::now() + SAVE_TIMEOUT;
    let digest = copy_state(ours, &file, deadline)?;
    let mut query = || -> Result<Option<()>> {
        let state = monitor.execute("query-migrate", json!({}))?;
        match state["status"].as_str() {
            Some("completed") => Ok(Some(())),
            Some("failed" | "cancelled") | None => {
                let why = state["error-desc"].as_str().unwrap_or("no reason is given");
                Err(Error::other(format!("QEMU did not write the machine's state: {why}")))
            }
            _ => Ok(None),
        }
    };
    wait_until(deadline, Cancel::BySignal, || query().transpose()).map_err(save_error)??;
    // Sync now, so that writeback does not disturb the first cell.
    file.sync_data()?;
    Ok(digest)
}

/// The error for a wait of [`SAVE_TIMEOUT`] that failed; `missed` is the message if it timed out.
fn wait_error(error: WaitError, missed: &str) -> Error {
    match error {
        WaitError::Cancelled(_) => ErrorKind::Interrupted.into(),
        WaitError::TimedOut => Error::other(missed),
    }
}

fn save_error(error: WaitError) -> Error {
    wait_error(error, "QEMU did not write the machine's state in time")
}

/// Copies QEMU's output to the file until end of file. Returns its digest.
fn copy_state(mut state: UnixStream, mut file: &File, deadline: Instant) -> Result<String> {
    state.set_read_timeout(Some(POLL_INTERVAL))?;
    let (mut part, mut digester) = (vec![0; PIPE_BYTES], Digester::default());
    loop {
        match state.read(&mut part) {
            Ok(0) => return Ok(digester.finish()),
            Ok(count) => {
                digester.add(&part[..count]);
                file.write_all(&part[..count])?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        if let Some(signal) = cancel::received_signal() {
            return Err(save_error(WaitError::Cancelled(signal)));
        }
        if Instant::now() > deadline {
            return Err(save_error(WaitError::TimedOut));
        }
    }
}

impl Snapshot {
    /// Whether the state file still has the digest in its name. This reads the whole file.
    pub fn is_intact(&self) -> bool {
        File::open(&self.state_file).is_ok_and(|file| cache::matches_digest(&self.state_file, file))
    }

    /// Returns the command that starts a guest from this state. The guest's console log continues the saved one.
    ///
    /// # Errors
    /// The state file is missing, or the guest's directory cannot be written.
    pub fn guest_command(&self, machine: &Machine) -> Result<GuestCommand> {
        let mut state = File::open(&self.state_file)?;
        std::fs::copy(self.dir.join(CONSOLE_FILE), machine.console())?;
        let (reader, mut writer) = std::io::pipe()?;
        // This only saves time, so a failure does not matter.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE_BYTES);
        // If QEMU ends before it has read everything, the guest's event channel reports that.
        std::thread::spawn(move || drop(std::io::copy(&mut state, &mut writer)));
        let arguments = ["-incoming", "fd:0"].map(OsString::from);
        Ok(machine.guest_command(arguments, Stdio::from(OwnedFd::from(reader))))
    }

    /// Removes the saved machine, because its state file is damaged.
    pub fn discard(self) {
        cache::remove_entry(&self.dir);
    }
}

/// Saves the state of a machine, which QEMU's monitor controls: the processors and the devices, and not the contents of the
/// files that are its memory and its disks. With `hold_file`, the instruction counter holds the guest until this file exists;
/// the machine is then saved at the instruction that holds it.
///
/// # Errors
/// QEMU refuses or fails, the disk is full, or a signal interrupts fsarena.
pub fn save_machine(monitor: UnixStream, state_file: &Path, hold_file: Option<&Path>) -> Result<()> {
    let mut monitor = QmpMonitor::connect(monitor)?;
    monitor.exclude_shared_memory()?;
    if let Some(hold_file) = hold_file {
        stop_at_hold(&mut monitor, hold_file)?;
    }
    save_state(&mut monitor, state_file)?;
    // If QEMU ignores this, the caller kills it.
    let _ = monitor.execute("quit", json!({}));
    Ok(())
}

/// Stops a guest at the instruction that holds it until `hold_file` exists.
fn stop_at_hold(monitor: &mut QmpMonitor, hold_file: &Path) -> Result<()> {
    // The instruction counter, a plugin of QEMU, makes this file once it holds the guest.
    let report_file = hold_file.with_extension(HELD_EXTENSION);
    let is_held = || report_file.exists().then_some(());
    wait_until(Instant::now() + SAVE_TIMEOUT, Cancel::BySignal, is_held)
        .map_err(|error| wait_error(error, "the guest did not reach the instruction that holds it in time"))?;
    // QEMU stops the guest, and answers, only when the guest leaves the hold. So the command comes first, then the file that
    // ends the hold, and then the answer.
    monitor.send_command("stop", json!({}))?;
    File::create(hold_file)?;
    monitor.read_return().map(drop)
}

/// Makes a machine continue from the state that [`save_machine`] saved; QEMU was started with [`RESTORE_ARGUMENTS`].
///
/// # Errors
/// QEMU refuses or fails.
pub fn restore_machine(monitor: UnixStream, state_file: &Path) -> Result<()> {
    let mut monitor = QmpMonitor::connect(monitor)?;
    monitor.exclude_shared_memory()?;
    monitor.pass_file("state", File::open(state_file)?.as_fd())?;
    monitor.execute("migrate-incoming", json!({ "uri": "fd:state" }))?;
    // Wait until QEMU has read the state. Before that, the command `cont` has no effect on a machine that was saved while it
    // was stopped.
    let mut is_read = || -> Result<Option<()>> {
        let status = monitor.execute("query-status", json!({}))?;
        Ok((status["status"] != "inmigrate").then_some(()))
    };
    wait_until(Instant::now() + SAVE_TIMEOUT, Cancel::BySignal, || is_read().transpose())
        .map_err(|error| wait_error(error, "QEMU did not read the machine's state in time"))??;
    monitor.execute("cont", json!({})).map(drop)
}

/// Further arguments of a QEMU whose machine [`restore_machine`] continues.
pub const RESTORE_ARGUMENTS: [&str; 2] = ["-incoming", "defer"];

/// The time within which QEMU must answer a command.
const QMP_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to the QMP monitor of a QEMU.
struct QmpMonitor(BufReader<UnixStream>);

impl QmpMonitor {
    /// Reads the greeting of the QEMU at the other end, and enables commands.
    ///
    /// # Errors
    /// The other end sends no QMP greeting.
    fn connect(stream: UnixStream) -> Result<QmpMonitor> {
        stream.set_read_timeout(Some(QMP_TIMEOUT))?;
        stream.set_write_timeout(Some(QMP_TIMEOUT))?;
        let mut monitor = QmpMonitor(BufReader::new(stream));
        if monitor.read_message()?.get("QMP").is_none() {
            return Err(Error::other("No QMP greeting from QEMU"));
        }
        monitor.execute("qmp_capabilities", json!({}))?;
        Ok(monitor)
    }

    /// Makes QEMU leave memory that lies in shared files out of saved states.
    fn exclude_shared_memory(&mut self) -> Result<()> {
        let capability = json!({ "capability": "x-ignore-shared", "state": true });
        self.execute("migrate-set-capabilities", json!({ "capabilities": [capability] })).map(drop)
    }

    /// Executes a command and returns its result.
    ///
    /// # Errors
    /// QEMU refuses the command.
    fn execute(&mut self, command: &str, arguments: Value) -> Result<Value> {
        self.send_command(command, arguments)?;
        self.read_return()
    }

    /// Sends a command, whose result is not read yet.
    fn send_command(&mut self, name: &str, arguments: Value) -> Result<()> {
        let command = json!({ "execute": name, "arguments": arguments });
        self.0.get_mut().write_all(format!("{command}\n").as_bytes())
    }

    /// Passes a file descriptor to QEMU under a name that later commands use.
    ///
    /// # Errors
    /// QEMU refuses it.
    fn pass_file(&mut self, name: &str, file: BorrowedFd) -> Result<()> {
        let command = format!("{}\n", json!({ "execute": "getfd", "arguments": { "fdname": name } }));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(Error::other("no room for a file descriptor"));
        }
        let stream = self.0.get_ref().as_fd();
        let sent = sendmsg(stream, &[IoSlice::new(command.as_bytes())], &mut control, SendFlags::empty())?;
        if sent < command.len() {
            return Err(Error::other("QEMU took only a part of a QMP command"));
        }
        self.read_return().map(drop)
    }

    /// Reads QEMU's next return value. Skips events.
    fn read_return(&mut self) -> Result<Value> {
        loop {
            let mut line = self.read_message()?;
            if let Some(error) = line.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("no reason");
                return Err(Error::other(format!("QEMU: {why}")));
            }
            if let Some(returned) = line.get_mut("return") {
                return Ok(returned.take());
            }
        }
    }

    fn read_message(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(Error::other("QEMU closed its QMP connection"));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::GuestKernel;
    use fsarena_core::plan::{Accelerator, Emulator};

    #[test]
    fn the_directory_of_a_machine_depends_on_its_devices_but_not_on_its_images() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("kernel");
        std::fs::write(&image, "one").unwrap();
        let kernel = GuestKernel { image: image.clone(), release: "6.1".into(), ..GuestKernel::default() };
        let snapshot_dir_of = |test_images: &[&str], config: &str, memory_mib| {
            let test_images: Vec<PathBuf> = test_images.iter().map(PathBuf::from).collect();
            let machine = Machine {
                emulator: Emulator::Qemu,
                accelerator: Accelerator::Tcg,
                kernel: &kernel,
                initramfs: None,
                config: Some(Path::new(config)),
                test_images: &test_images,
                write_recording: None,
                journal_image: None,
                source_image: Path::new("/other"),
                has_host_files: false,
                has_terminal: false,
                memory: None,
                keeps_disks: false,
                clock_start: "",
                memory_mib,
                dir: Path::new("/run"),
            };
            snapshot_dir(dir.path(), &machine, &["ext4".into()])
        };
        if snapshot_dir_of(&["/a"], "", 512).is_none() {
            fsarena_sys::testkit::record_skip("program qemu-system-x86_64");
            return;
        }
        let base = snapshot_dir_of(&["/a"], "/config", 512);
        assert_eq!(base, snapshot_dir_of(&["/b"], "/others", 512));
        assert_ne!(base, snapshot_dir_of(&["/a", "/b"], "/config", 512));
        assert_ne!(base, snapshot_dir_of(&["/a"], "/config", 1024));
        std::fs::write(&image, "another").unwrap();
        assert_ne!(base, snapshot_dir_of(&["/a"], "/config", 512));
        std::fs::remove_file(&image).unwrap();
        assert_eq!(snapshot_dir_of(&["/a"], "/config", 512), None);
    }

    #[test]
    fn an_incomplete_machine_is_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let final_dir = dir.path().join("booted-x");
        std::fs::create_dir(&final_dir).unwrap();
        std::fs::write(final_dir.join(CONSOLE_FILE), "").unwrap();
        std::fs::write(final_dir.join(STATE_FILE), "abc").unwrap();
        assert!(find_snapshot(&final_dir).is_none());
        let state = final_dir.join(cache::name_with_digest(STATE_FILE, &cache::digest(&b"abc"[..]).unwrap()));
        std::fs::rename(final_dir.join(STATE_FILE), &state).unwrap();
        let snapshot = find_snapshot(&final_dir).unwrap();
        assert!(snapshot.is_intact());
        std::fs::write(state, "abd").unwrap();
        assert!(!snapshot.is_intact());
        snapshot.discard();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_saved_machine_replaces_an_incomplete_one() {
        let dir = tempfile::tempdir().unwrap();
        let final_dir = dir.path().join("booted-x");
        let make_draft = |contents: &[u8]| {
            let draft = dir.path().join("saving-x");
            std::fs::create_dir(&draft).unwrap();
            std::fs::write(draft.join(CONSOLE_FILE), "").unwrap();
            let state = cache::name_with_digest(STATE_FILE, &cache::digest(contents).unwrap());
            std::fs::write(draft.join(state), contents).unwrap();
            draft
        };
        // The final directory is incomplete: it lacks the state file, which a user may have deleted to free space.
        std::fs::create_dir(&final_dir).unwrap();
        std::fs::write(final_dir.join(CONSOLE_FILE), "").unwrap();
        move_into_place(&make_draft(b"abc"), &final_dir).unwrap();
        let saved = find_snapshot(&final_dir).unwrap().state_file;
        move_into_place(&make_draft(b"abd"), &final_dir).unwrap();
        assert_eq!(find_snapshot(&final_dir).unwrap().state_file, saved);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A fake QEMU that sends the first answer at once, and one more for each line that it receives.
    fn fake_qemu(answers: &'static [&'static str]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut commands = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (number, answer) in answers.iter().enumerate() {
                if number > 0 && commands.next().is_none() {
                    return;
                }
                (&theirs).write_all(answer.as_bytes()).unwrap();
            }
        });
        ours
    }

    const GREETING: &str = "{\"QMP\":{}}\n";

    #[test]
    fn events_are_skipped_and_errors_are_returned() {
        let mut monitor = QmpMonitor::connect(fake_qemu(&[
            GREETING,
            "{\"return\":{}}\n",
            "{\"event\":\"STOP\"}\n{\"return\":{\"status\":\"active\"}}\n",
            "{\"error\":{\"desc\":\"no\"}}\n",
        ]))
        .unwrap();
        assert_eq!(monitor.execute("query-migrate", json!({})).unwrap()["status"], "active");
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(monitor.pass_file("state", file.as_fd()).unwrap_err().to_string(), "QEMU: no");
        assert!(monitor.execute("quit", json!({})).is_err());
    }

    #[test]
    fn a_connection_without_a_greeting_is_refused() {
        assert!(QmpMonitor::connect(fake_qemu(&["{}\n"])).is_err());
        assert!(QmpMonitor::connect(fake_qemu(&["hello\n"])).is_err());
    }
}
