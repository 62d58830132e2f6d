//! Machines that have booted, kept for guests to begin with.
//!
//! Under translation a kernel boots for seconds, before each cell, and always in the same way. So it boots once: its
//! `/init` gets as far as it comes without knowing the cell, lets go of the disks and says [`READY`](crate::config::READY); QEMU writes the
//! machine's state to a file, as it does to move a machine to another host; and each guest begins with that file, its
//! own disks, and the config that it finds in QEMU's `fw_cfg`. Decision record 0009 has the reasons.

use crate::digest::{self, Digester};
use crate::emulator::{Machine, QEMU};
use crate::packing::{SELF, libraries};
use crate::{cache, launch::Launch, qmp::Monitor};
use fsarena_sys::{cancel, program};
use serde_json::json;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, os::unix::net::UnixStream, process::Stdio};

/// The prefix of the names of saved machines, and how many to keep: each takes some 170 MB.
const NAME: &str = "booted-";
const KEPT: usize = 6;
/// Machines that were used within this time are kept, too.
const IDLE: Duration = Duration::from_secs(600);
const STATE: &str = "state";
const CONSOLE: &str = "console.log";
/// The longest that QEMU may take to write a state.
const SAVING: Duration = Duration::from_secs(60);
/// The time between two checks for a signal while QEMU writes.
const LOOK: Duration = Duration::from_millis(200);
/// What a pipe holds at once, in bytes: with more, writer and reader change places less often.
const PIPE: usize = 1 << 20;

/// A machine that has booted, as a directory of the cache.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Its directory.
    pub dir: PathBuf,
    /// Its file with the state.
    state: PathBuf,
}

/// Where a machine is, or will be, kept: by all that its state depends on. That is this boot of this host, too: the
/// guest has measured its clock. None where something of it cannot be looked at, or others can write to the cache.
pub fn place(cache: &Path, machine: &Machine, modules: &[String]) -> Option<PathBuf> {
    let nowhere: Vec<PathBuf> = machine.test.iter().map(|_| PathBuf::new()).collect();
    let shape = Machine {
        initramfs: None,
        config: None,
        test: &nowhere,
        record: None,
        journal: machine.journal.map(|_| Path::new("")),
        other: Path::new(""),
        dir: Path::new(""),
        ..machine.clone()
    };
    let fixed = [machine.kernel.image.clone(), program::find(QEMU)?, SELF.into()];
    let files = fixed.into_iter().chain(libraries().into_iter().map(PathBuf::from));
    let states: Vec<String> = files.map(|file| cache::state_of(&file)).collect::<Option<_>>()?;
    let argv = digest::of_parts(shape.argv().iter().map(|word| word.as_bytes()));
    let (loaded, states) = (digest::of_parts(modules), digest::of_parts(states));
    let key = digest::of_parts([&argv, &loaded, machine.kernel.modules.state(), &states]);
    let name = format!("{NAME}{}-{key}", cache::this_boot());
    cache::is_ours(cache).then(|| cache.join(name))
}

/// The machine that is kept there.
pub fn find(place: &Path) -> Option<Snapshot> {
    let state = digest::named(place, STATE).pop()?;
    place.join(CONSOLE).is_file().then(|| {
        cache::used(place);
        Snapshot { dir: place.into(), state }
    })
}

/// A machine that is to be kept, while it boots.
pub struct Draft {
    /// Where its state is written: removed on failure and renamed on success.
    pub dir: PathBuf,
    place: PathBuf,
    monitor: UnixStream,
}

impl Draft {
    /// Makes an empty directory beside the place, and a socket for QMP, which becomes QEMU's standard input.
    ///
    /// # Errors
    /// Where the cache cannot be written.
    pub fn begin(cache: &Path, place: PathBuf) -> Result<(Draft, Stdio)> {
        let dir = tempfile::Builder::new().prefix("saving-").tempdir_in(cache)?.keep();
        let (monitor, theirs) = UnixStream::pair()?;
        Ok((Draft { dir, place, monitor }, Stdio::from(OwnedFd::from(theirs))))
    }

    /// Further QEMU arguments that open a QMP monitor on standard input.
    pub fn words() -> [OsString; 4] {
        ["-chardev", "socket,id=qmp,fd=0", "-mon", "chardev=qmp,mode=control"].map(OsString::from)
    }

    /// Makes QEMU write the state of its machine, whose guest has reported that it is ready, and keeps the state with
    /// the console log.
    ///
    /// # Errors
    /// QEMU refuses or fails, the disk is full, or a signal asks fsarena to stop.
    pub fn keep(self, console: &Path) -> Result<Snapshot> {
        let mut monitor = Monitor::greet(self.monitor)?;
        let unnamed = self.dir.join(STATE);
        let name = digest::name(STATE, &save(&mut monitor, &unnamed)?);
        std::fs::rename(&unnamed, self.dir.join(&name))?;
        // If QEMU ignores this, the caller kills it.
        let _ = monitor.ask("quit", json!({}));
        std::fs::copy(console, self.dir.join(CONSOLE))?;
        match std::fs::rename(&self.dir, &self.place) {
            // Another process has saved this machine meanwhile.
            Err(_) if find(&self.place).is_some() => std::fs::remove_dir_all(&self.dir)?,
            renamed => renamed?,
        }
        if let Some(cache) = self.place.parent() {
            cache::keep_newest(cache, NAME, KEPT, IDLE);
        }
        find(&self.place).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

/// Makes QEMU write its machine's state to a file. Returns its digest.
fn save(monitor: &mut Monitor, to: &Path) -> Result<String> {
    let file = File::create(to)?;
    let (ours, theirs) = UnixStream::pair()?;
    monitor.hand_over("state", theirs.as_fd())?;
    drop(theirs);
    // QEMU's default limit suits a network. The machine keeps running: a stopped one would also start stopped.
    monitor.ask("migrate-set-parameters", json!({ "max-bandwidth": 1u64 << 40 }))?;
    monitor.ask("migrate", json!({ "uri": "fd:state" }))?;
    let begun = Instant::now();
    let digest = take_down(ours, &file, begun)?;
    loop {
        let now = monitor.ask("query-migrate", json!({}))?;
        match now["status"].as_str() {
            // Sync now, so that writeback does not disturb the first cell.
            Some("completed") => return file.sync_data().map(|()| digest),
            Some("failed" | "cancelled") | None => {
                let why = now["error-desc"].as_str().unwrap_or("no reason is given");
                return Err(Error::other(format!("QEMU did not write the machine's state: {why}")));
            }
            _ => go_on(begun).map(|()| std::thread::sleep(Duration::from_millis(2)))?,
        }
    }
}

/// Copies QEMU's output to the file until end of file. Returns its digest.
fn take_down(mut from: UnixStream, mut to: &File, begun: Instant) -> Result<String> {
    from.set_read_timeout(Some(LOOK))?;
    let (mut part, mut digester) = (vec![0; PIPE], Digester::default());
    loop {
        match from.read(&mut part) {
            Ok(0) => return Ok(digester.end()),
            Ok(count) => {
                digester.add(&part[..count]);
                to.write_all(&part[..count])?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        go_on(begun)?;
    }
}

/// Fails when the time is up or a signal asks fsarena to stop.
fn go_on(begun: Instant) -> Result<()> {
    if cancel::requested().is_some() {
        return Err(ErrorKind::Interrupted.into());
    }
    if begun.elapsed() > SAVING {
        return Err(Error::other("QEMU did not write the machine's state in time"));
    }
    Ok(())
}

impl Snapshot {
    /// Whether its state is as it was written. That takes a moment.
    pub fn is_whole(&self) -> bool {
        File::open(&self.state).is_ok_and(|file| digest::fits(&self.state, file))
    }

    /// What starts a guest with it: the machine's own command line and where the state comes from. The console goes on
    /// where the kept one's ended.
    ///
    /// # Errors
    /// Where it is gone, or the guest's directory cannot be written.
    pub fn launch(&self, machine: &Machine) -> Result<Launch> {
        let mut state = File::open(&self.state)?;
        std::fs::copy(self.dir.join(CONSOLE), machine.console())?;
        let (reader, mut writer) = std::io::pipe()?;
        // A smaller pipe does as well.
        let _ = rustix::pipe::fcntl_setpipe_size(&writer, PIPE);
        // A QEMU that ends before it has read everything is heard of in another way.
        std::thread::spawn(move || drop(std::io::copy(&mut state, &mut writer)));
        let words = ["-incoming", "fd:0"].map(OsString::from);
        Ok(machine.launch(words, Stdio::from(OwnedFd::from(reader))))
    }

    /// Removes it: it was not what it seemed.
    pub fn discard(self) {
        cache::remove(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::GuestKernel;
    use fsarena_core::plan::{Accelerator, Emulator};

    #[test]
    fn a_machine_is_known_by_its_shape_and_not_by_its_disks() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("kernel");
        std::fs::write(&image, "one").unwrap();
        let kernel = GuestKernel { image: image.clone(), release: "6.1".into(), ..GuestKernel::default() };
        let at = |test: &[&str], config: &str, memory_mib| {
            let test: Vec<PathBuf> = test.iter().map(PathBuf::from).collect();
            let machine = Machine {
                emulator: Emulator::Qemu,
                accelerator: Accelerator::Tcg,
                kernel: &kernel,
                initramfs: None,
                config: Some(Path::new(config)),
                test: &test,
                record: None,
                journal: None,
                other: Path::new("/other"),
                memory_mib,
                dir: Path::new("/run"),
            };
            place(dir.path(), &machine, &["ext4".into()])
        };
        if at(&["/a"], "", 512).is_none() {
            fsarena_testkit::skipped("program qemu-system-x86_64");
            return;
        }
        let one = at(&["/a"], "/config", 512);
        assert_eq!(one, at(&["/b"], "/others", 512));
        assert_ne!(one, at(&["/a", "/b"], "/config", 512));
        assert_ne!(one, at(&["/a"], "/config", 1024));
        std::fs::write(&image, "another").unwrap();
        assert_ne!(one, at(&["/a"], "/config", 512));
        std::fs::remove_file(&image).unwrap();
        assert_eq!(at(&["/a"], "/config", 512), None);
    }

    #[test]
    fn half_a_machine_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("booted-x");
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join(CONSOLE), "").unwrap();
        std::fs::write(place.join(STATE), "abc").unwrap();
        assert!(find(&place).is_none());
        let state = place.join(digest::name(STATE, &digest::of(&b"abc"[..]).unwrap()));
        std::fs::rename(place.join(STATE), &state).unwrap();
        let found = find(&place).unwrap();
        assert!(found.is_whole());
        std::fs::write(state, "abd").unwrap();
        assert!(!found.is_whole());
        found.discard();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
