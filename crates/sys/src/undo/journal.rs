//! The undo journal of this process, its owner, and directories that fsarena makes and the journal removes.

use super::step::{FileIdentity, UndoStep};
use crate::{Error, cancel, dirs, kernel::SysRoot, process};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, fs::File, io::Write};

/// One line of a journal. The names in the file stay as fsarena 0.1.0 wrote them, because journals outlive versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum JournalLine {
    /// The process that writes the journal. Always the first line.
    Owner(Owner),
    /// The undo step of a setup that fsarena is about to do; a later line with the same id replaces the step.
    #[serde(rename = "arm", alias = "variant")]
    Setup {
        id: u64,
        #[serde(rename = "how")]
        step: UndoStep,
    },
    /// The setup with this id is undone.
    Done { id: u64 },
}

impl JournalLine {
    /// The JSON text of the line, with a newline.
    ///
    /// # Errors
    /// The step has a path that is not UTF-8, which JSON cannot hold.
    pub fn to_bytes(&self) -> std::io::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The directory of the undo journals and of the list of written signatures: `$FSARENA_STATE_DIR`, else
/// `/var/lib/fsarena` for root, else `$XDG_STATE_HOME/fsarena`, else `~/.local/state/fsarena`.
pub fn state_dir() -> PathBuf {
    let below_home = || dirs::home_dir().unwrap_or_else(|| "/".into()).join(".local/state/fsarena");
    dirs::user_dir("FSARENA_STATE_DIR", "/var/lib/fsarena", "XDG_STATE_HOME", below_home)
}

/// Makes the directory of the undo journals if it is missing.
///
/// # Errors
/// [`Error::StateDirUnwritable`] if it cannot be made.
pub fn make_state_dir(state_dir: &Path) -> Result<(), Error> {
    let dir = journals_dir(state_dir);
    make_private_dir(&dir).map_err(|source| Error::StateDirUnwritable { dir, source })
}

/// The file extension of a journal.
pub(super) const JOURNAL_EXTENSION: &str = "jsonl";
/// The file extension of a journal whose owner line is not written yet; `recover` ignores such files.
pub(super) const NEW_EXTENSION: &str = "new";

/// The directory of the journals in a state directory.
pub(super) fn journals_dir(state_dir: &Path) -> PathBuf {
    state_dir.join("undo")
}

/// The undo journal of this process. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Mutex<OpenJournal>>);

#[derive(Debug)]
struct OpenJournal {
    path: PathBuf,
    file: File,
    next_id: u64,
    /// The number of steps left to undo.
    steps_left: usize,
    /// A signal waits until everything is undone.
    _deferred_signals: cancel::DeferredSignals,
}

/// A guard for a setup that is in the journal. Dropping the guard undoes the setup, unless it is
/// [disarmed](UndoGuard::disarm).
#[derive(Debug)]
#[must_use = "dropping it undoes the setup"]
pub struct UndoGuard {
    journal: Journal,
    id: u64,
    step: UndoStep,
    is_armed: bool,
}

impl Journal {
    /// Creates the journal of this process and locks it; `run_dir` is the directory of the run, for messages.
    ///
    /// Commands that fsarena starts later have the name of the journal in their environment, so that [`super::recover`]
    /// can kill the commands that outlive this process.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn create(state_dir: &Path, run_dir: &str) -> Result<Journal, Error> {
        let dir = journals_dir(state_dir);
        make_state_dir(state_dir)?;
        let kernel = SysRoot::host();
        let owner = Owner::this_process(&kernel, run_dir)?;
        let (path, file) = create_journal_file(&kernel, &dir, &owner)?;
        file.lock().map_err(Error::io("locking", &path))?;
        let mut open =
            OpenJournal { path, file, next_id: 0, steps_left: 0, _deferred_signals: cancel::defer_signals() };
        open.append(&JournalLine::Owner(owner))?;
        // The file is locked and names its owner, so `recover` may find it from now on.
        let path = open.path.with_extension(JOURNAL_EXTENSION);
        std::fs::rename(&open.path, &path).map_err(Error::io("renaming to", &path))?;
        open.path = path;
        File::open(&dir).and_then(|dir| dir.sync_all()).map_err(Error::io("syncing", &dir))?;
        crate::argv::set_journal_name(&open.path.file_name().unwrap_or_default().to_string_lossy());
        Ok(Journal(Arc::new(Mutex::new(open))))
    }

    /// Writes an undo step to the journal. Call it before the setup that the step undoes.
    ///
    /// # Errors
    /// The journal cannot be written, or a path in the step is not valid UTF-8. The caller must then not do the setup.
    pub fn record(&self, step: UndoStep) -> Result<UndoGuard, Error> {
        if let Some(path) = step.path().filter(|path| path.to_str().is_none()) {
            return Err(Error::NotUtf8(path.into()));
        }
        let mut open = self.lock_open();
        let id = open.next_id;
        open.append(&JournalLine::Setup { id, step: step.clone() })?;
        open.next_id += 1;
        open.steps_left += 1;
        Ok(UndoGuard { journal: self.clone(), id, step, is_armed: true })
    }

    /// Writes an undo step to the journal, then calls `set_up`, which does what the step undoes. If `set_up` fails, the guard
    /// is disarmed, so that an object at the same path that fsarena did not make stays.
    ///
    /// # Errors
    /// `set_up` fails, or the journal cannot be written.
    pub fn record_and_do<T>(
        &self,
        step: UndoStep,
        set_up: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(UndoGuard, T), Error> {
        let guard = self.record(step)?;
        match set_up() {
            Ok(result) => Ok((guard, result)),
            Err(error) => {
                guard.disarm()?;
                Err(error)
            }
        }
    }

    /// The state directory that the journal is in.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.lock_open().path.ancestors().nth(2).unwrap_or(Path::new("")).into()
    }

    fn lock_open(&self) -> MutexGuard<'_, OpenJournal> {
        // A panic cannot leave half a line: every line is appended by one write.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the directory of the journals with mode 0700, or sets that mode if it exists: a user who may read a journal can
/// lock it, and a user who may write it decides which files root removes.
fn make_private_dir(dir: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match dir.metadata()?.mode() & 0o777 {
        0o700 => Ok(()),
        _ => std::fs::set_permissions(dir, PermissionsExt::from_mode(0o700)),
    }
}

/// Creates the file of a journal with mode 0600. `recover` finds the commands of a process by the name of its journal, so the
/// name ends with a random part: two containers may each have a process with the same pid and start time.
fn create_journal_file(kernel: &SysRoot, dir: &Path, owner: &Owner) -> Result<(PathBuf, File), Error> {
    let uuid_file = kernel.path("proc/sys/kernel/random/uuid");
    let uuid = std::fs::read_to_string(&uuid_file).map_err(Error::io("reading", &uuid_file))?;
    let path = dir.join(format!("{}-{}-{}.{NEW_EXTENSION}", owner.pid, owner.start_time, uuid.trim()));
    let created = File::options().read(true).append(true).create_new(true).mode(0o600).open(&path);
    let file = created.map_err(Error::io("making", &path))?;
    // The umask of this process may have removed permissions of the owner.
    file.set_permissions(PermissionsExt::from_mode(0o600)).map_err(Error::io("making", &path))?;
    Ok((path, file))
}

impl OpenJournal {
    fn append(&mut self, line: &JournalLine) -> Result<(), Error> {
        let bytes = line.to_bytes().map_err(Error::io("encoding a line of", &self.path))?;
        let length = self.file.metadata().map_err(Error::io("looking at", &self.path))?.len();
        let written = self.file.write_all(&bytes).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // On a full disk a part of the line may be written, and the next line would be appended to it.
            let _ = self.file.set_len(length);
        }
        written.map_err(Error::io("writing", &self.path))
    }
}

impl Drop for OpenJournal {
    fn drop(&mut self) {
        if self.steps_left == 0 {
            // If that fails, the file does no harm: `recover` finds nothing to do in it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl UndoGuard {
    /// Undoes the setup now.
    ///
    /// # Errors
    /// The step fails; it stays in the journal for `fsarena recover`.
    pub fn undo(mut self) -> Result<(), Error> {
        self.is_armed = false;
        self.step.perform(&SysRoot::host())?;
        self.mark_done()
    }

    /// Undoes the setup now. A directory that holds foreign files stays; the returned text names them.
    pub(super) fn undo_unless_foreign(mut self) -> Result<Option<String>, Error> {
        self.is_armed = false;
        let foreign_files = match self.step.perform(&SysRoot::host()) {
            Err(error @ Error::ForeignFiles { .. }) => Some(error.to_string()),
            performed => performed.map(|()| None)?,
        };
        self.mark_done().map(|()| foreign_files)
    }

    /// Marks the step as done in the journal without performing it: the setup was undone in another way, or never happened.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn disarm(mut self) -> Result<(), Error> {
        self.is_armed = false;
        self.mark_done()
    }

    /// Replaces the undo step by a more exact one, which has, for instance, the identity of the file that was just made.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn update(&mut self, step: UndoStep) -> Result<(), Error> {
        self.journal.lock_open().append(&JournalLine::Setup { id: self.id, step: step.clone() })?;
        self.step = step;
        Ok(())
    }

    fn mark_done(&self) -> Result<(), Error> {
        let mut open = self.journal.lock_open();
        open.append(&JournalLine::Done { id: self.id })?;
        open.steps_left -= 1;
        Ok(())
    }
}

impl Drop for UndoGuard {
    fn drop(&mut self) {
        // `drop` cannot return an error. A step that failed stays in the journal.
        if self.is_armed && self.step.perform(&SysRoot::host()).is_ok() {
            let _ = self.mark_done();
        }
    }
}

/// The process that writes a journal. Journals of fsarena up to 0.1.0 lack the host, the machine id and the PID namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Owner {
    pub pid: i32,
    /// When the process started, in clock ticks since boot.
    pub start_time: u64,
    pub boot_id: String,
    /// The directory of the run, for messages.
    #[serde(rename = "about")]
    pub run_dir: String,
    /// The host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The id of the installed system (machine-id(5)): hosts may share a name.
    #[serde(rename = "machine", default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The inode number of the PID namespace that `pid` belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<u64>,
}

/// Where the owner of a journal runs or ran, as seen from this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnerPlace {
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
    /// `/proc/self` or the boot id cannot be read.
    pub fn this_process(kernel: &SysRoot, run_dir: &str) -> Result<Owner, Error> {
        let path = kernel.path("proc/self");
        let target = path.read_link().map_err(Error::io("reading", &path))?;
        let unreadable = |why: &str| Error::BadFormat { path: path.join("stat"), why: why.into() };
        // The pid in the PID namespace of this /proc mount, which may differ from that of this process.
        let pid = target.to_str().and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| unreadable("it has no process id"))?;
        let start_time =
            process::start_time(kernel, pid).ok_or_else(|| unreadable("it has no start time of this process"))?;
        let namespace = kernel.path("proc/self/ns/pid").metadata().ok().map(|meta| meta.ino());
        Ok(Owner {
            pid,
            start_time,
            boot_id: process::boot_id(kernel)?,
            run_dir: run_dir.into(),
            host: kernel.read_trimmed("proc/sys/kernel/hostname"),
            machine_id: kernel.read_trimmed("etc/machine-id"),
            pid_namespace: namespace.filter(|_| pid == std::process::id() as i32),
        })
    }

    /// Where the owner runs or ran, as seen from `this_process`.
    pub fn place_seen_from(&self, this_process: &Owner) -> OwnerPlace {
        // An unknown boot id counts as this boot.
        let is_same_boot =
            self.boot_id == this_process.boot_id || self.boot_id.is_empty() || this_process.boot_id.is_empty();
        if is_same_boot {
            let namespaces_differ = are_known_to_differ(&self.pid_namespace, &this_process.pid_namespace);
            return if namespaces_differ { OwnerPlace::OtherNamespace } else { OwnerPlace::Here };
        }
        let hosts_differ = are_known_to_differ(&self.host, &this_process.host)
            || are_known_to_differ(&self.machine_id, &this_process.machine_id);
        if hosts_differ { OwnerPlace::OtherHost } else { OwnerPlace::EarlierBoot }
    }

    /// Whether the owner may be in the PID namespace of the process `pid`; true if either namespace is unknown.
    pub fn may_be_in_namespace_of(&self, kernel: &SysRoot, pid: i32) -> bool {
        let namespace = kernel.path(&format!("proc/{pid}/ns/pid")).metadata().ok().map(|meta| meta.ino());
        !are_known_to_differ(&self.pid_namespace, &namespace)
    }
}

/// Whether both values are known and differ.
fn are_known_to_differ<T: PartialEq>(first: &Option<T>, second: &Option<T>) -> bool {
    first.is_some() && second.is_some() && first != second
}

/// `process 12 in PID namespace 4026532301 on host box`.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.pid)?;
        if let Some(namespace) = self.pid_namespace {
            write!(f, " in PID namespace {namespace}")?;
        }
        if let Some(host) = &self.host {
            write!(f, " on host {host}")?;
        }
        Ok(())
    }
}

/// A directory that fsarena made and that every user can pass through. Dropping this value removes the directory.
#[derive(Debug)]
pub struct MadeDir {
    path: PathBuf,
    /// None if the directory existed before; it then stays.
    guard: Option<UndoGuard>,
}

impl MadeDir {
    /// Makes a directory for files that the journal names one by one. Dropping the result removes the directory only if fsarena
    /// made it and it is empty.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn make(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        if path.is_dir() {
            return Ok(MadeDir { path: path.into(), guard: None });
        }
        MadeDir::make_recorded(journal, path, false)
    }

    /// Makes a directory for files of commands and workloads, whose names are unknown to fsarena. Dropping the result removes
    /// the directory with everything in it.
    ///
    /// # Errors
    /// The path exists already, or the directory cannot be made.
    pub fn make_tree(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        MadeDir::make_recorded(journal, path, true)
    }

    /// Takes over a directory that this process has just made. Dropping the result removes the directory with everything in it.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn adopt_tree(journal: &Journal, path: &Path) -> Result<MadeDir, Error> {
        let guard = journal.record(removal_step(path, Some(identity_of(path)?), true))?;
        Ok(MadeDir { path: path.into(), guard: Some(guard) })
    }

    fn make_recorded(journal: &Journal, path: &Path, with_contents: bool) -> Result<MadeDir, Error> {
        let make = || dirs::make_dir(path).map_err(Error::io("making", path));
        let (mut guard, ()) = journal.record_and_do(removal_step(path, None, with_contents), make)?;
        guard.update(removal_step(path, Some(identity_of(path)?), with_contents))?;
        Ok(MadeDir { path: path.into(), guard: Some(guard) })
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes a directory of [`MadeDir::make`] and makes it again, if it is empty. If the directory is a mount point, removing
    /// it unmounts the copies of its mount in other mount namespaces.
    ///
    /// # Errors
    /// The directory cannot be made again, or the journal cannot be written.
    pub fn renew(&mut self) -> Result<(), Error> {
        let Some(guard) = &mut self.guard else { return Ok(()) };
        guard.update(removal_step(&self.path, None, false))?;
        if std::fs::remove_dir(&self.path).is_ok() {
            dirs::make_dir(&self.path).map_err(Error::io("making", &self.path))?;
        }
        guard.update(removal_step(&self.path, Some(identity_of(&self.path)?), false))
    }

    /// Removes the directory. If it holds files that fsarena did not make, it stays, and the returned text names them.
    ///
    /// # Errors
    /// The directory cannot be removed for another reason; the step then stays in the journal.
    pub fn remove(self) -> Result<Option<String>, Error> {
        match self.guard {
            Some(guard) => guard.undo_unless_foreign(),
            None => Ok(None),
        }
    }
}

/// The undo step that removes a directory; see [`UndoStep::RemoveDir`].
fn removal_step(path: &Path, identity: Option<FileIdentity>, with_contents: bool) -> UndoStep {
    UndoStep::RemoveDir { path: path.into(), identity, with_contents }
}

fn identity_of(path: &Path) -> Result<FileIdentity, Error> {
    let meta = path.symlink_metadata().map_err(Error::io("looking at", path))?;
    Ok(FileIdentity::from_metadata(&meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::Mode;

    fn lines(state: &Path) -> Vec<String> {
        let mut files = std::fs::read_dir(journals_dir(state)).unwrap();
        let text = files.next().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
        text.unwrap_or_default().lines().map(str::to_string).collect()
    }

    #[test]
    fn a_step_is_written_before_the_setup_and_marked_done_after_the_undo() {
        let state = tempfile::tempdir().unwrap();
        let tree = state.path().join("tree");
        let journal = Journal::create(state.path(), "runs/1").unwrap();
        let step = UndoStep::RemoveDir { path: tree.clone(), identity: None, with_contents: true };
        let guard = journal.record(step).unwrap();
        assert_eq!(lines(state.path()).len(), 2);
        std::fs::create_dir(&tree).unwrap();
        guard.undo().unwrap();
        assert!(!tree.exists());
        assert_eq!(lines(state.path())[2], r#"{"done":{"id":0}}"#);
        drop(journal);
        assert_eq!(lines(state.path()), [""; 0]);
    }

    #[test]
    fn journals_are_private_to_their_owner() {
        let state = tempfile::tempdir().unwrap();
        let dir = journals_dir(state.path());
        std::fs::create_dir(&dir).unwrap();
        std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o755)).unwrap();
        let _journal = Journal::create(state.path(), "").unwrap();
        let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
        let file = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
    }

    #[test]
    fn dropping_a_guard_undoes_and_disarming_does_not() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        for is_disarmed in [false, true] {
            let path = state.path().join("dir");
            let step = UndoStep::RemoveDir { path: path.clone(), identity: None, with_contents: true };
            let guard = journal.record(step).unwrap();
            std::fs::create_dir(&path).unwrap();
            if is_disarmed {
                guard.disarm().unwrap();
            } else {
                drop(guard);
            }
            assert_eq!(path.exists(), is_disarmed);
        }
        drop(journal);
        assert_eq!(lines(state.path()), [""; 0]);
    }

    #[test]
    fn a_journal_with_a_failed_step_stays() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("image");
        std::fs::write(&path, "not ours").unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        drop(journal.record(UndoStep::RemoveFile { path: path.clone(), identity: None }).unwrap());
        drop(journal);
        assert_eq!(lines(state.path()).len(), 2);
        assert!(path.exists());
    }

    #[test]
    fn a_line_that_does_not_fit_on_the_disk_is_not_written_in_part() {
        if !crate::testkit::runs_as_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().canonicalize().unwrap().join("mnt");
        std::fs::create_dir(&target).unwrap();
        let other_journal = Journal::create(&dir.path().join("state"), "").unwrap();
        let page_bytes = rustix::param::page_size();
        let size_option = format!("size={}", 2 * page_bytes);
        let source = Path::new("none");
        let mounted = crate::mount::mount(&other_journal, &mut |_| {}, source, &target, "tmpfs", &size_option).unwrap();
        let journal = Journal::create(&target, "").unwrap();
        let filler = target.join("filler");
        std::fs::write(&filler, vec![0; page_bytes]).unwrap();
        let step = UndoStep::RemoveFile { path: format!("/{}", "x".repeat(900)).into(), identity: None };
        let mut guards = vec![];
        while let Ok(guard) = journal.record(step.clone()) {
            guards.push(guard);
        }
        std::fs::remove_file(&filler).unwrap();
        let step_count = guards.len();
        guards.into_iter().for_each(|guard| guard.disarm().unwrap());
        let lines = lines(&target);
        assert_eq!(lines.len(), 1 + 2 * step_count);
        assert!(lines.iter().all(|line| serde_json::from_str::<JournalLine>(line).is_ok()), "{lines:?}");
        drop(journal);
        mounted.unmount(&mut |_| {}).unwrap();
    }

    #[test]
    fn a_path_that_the_journal_cannot_hold_is_refused() {
        use std::os::unix::ffi::OsStrExt;
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/\xff")).to_path_buf();
        assert!(journal.record(UndoStep::unmount(&path)).is_err());
    }

    #[test]
    fn an_owner_is_placed_by_boot_host_and_namespace() {
        let this_process = Owner::this_process(&SysRoot::host(), "").unwrap();
        assert_eq!(this_process.place_seen_from(&this_process), OwnerPlace::Here);
        let renamed = Owner { host: Some("renamed".into()), ..this_process.clone() };
        assert_eq!(
            renamed.place_seen_from(&this_process),
            OwnerPlace::Here,
            "one kernel is one host, whatever its containers are called"
        );
        let contained = Owner { pid_namespace: Some(1), ..renamed.clone() };
        assert_eq!(contained.place_seen_from(&this_process), OwnerPlace::OtherNamespace);
        let before_reboot = Owner { boot_id: "earlier".into(), pid_namespace: Some(1), ..this_process.clone() };
        assert_eq!(before_reboot.place_seen_from(&this_process), OwnerPlace::EarlierBoot);
        let on_other_host = Owner { host: Some("another".into()), ..before_reboot.clone() };
        assert_eq!(on_other_host.place_seen_from(&this_process), OwnerPlace::OtherHost);
        let with_machine_id = Owner { machine_id: Some("1".into()), ..this_process.clone() };
        let twin = Owner { machine_id: Some("2".into()), boot_id: "of the twin".into(), ..this_process.clone() };
        assert_eq!(twin.place_seen_from(&with_machine_id), OwnerPlace::OtherHost);
        // As versions up to 0.1.0 wrote it.
        let owner_of_older_version = Owner { host: None, machine_id: None, pid_namespace: None, ..before_reboot };
        assert_eq!(owner_of_older_version.place_seen_from(&this_process), OwnerPlace::EarlierBoot);
        assert_eq!(
            Owner { boot_id: String::new(), ..owner_of_older_version }.place_seen_from(&this_process),
            OwnerPlace::Here
        );
    }

    #[test]
    fn a_renewed_directory_is_passable_whatever_the_umask() {
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let path = state.path().join("mnt");
        let renew_with_strict_umask = || {
            // Gives this thread a separate umask.
            // SAFETY: no file descriptor table is unshared.
            unsafe { unshare_unsafe(UnshareFlags::FS).ok()? };
            rustix::process::umask(Mode::RWXG | Mode::RWXO);
            let mut dir = MadeDir::make(&journal, &path).unwrap();
            dir.renew().unwrap();
            Some(path.metadata().unwrap().mode() & 0o777)
        };
        match std::thread::scope(|scope| scope.spawn(renew_with_strict_umask).join().unwrap()) {
            Some(mode) => assert_eq!(mode, 0o711),
            None => crate::testkit::record_skip("this process may not call unshare(2)"),
        }
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_with_a_foreign_file_stays_and_leaves_nothing_to_recover() {
        let state = tempfile::tempdir().unwrap();
        let journal = Journal::create(state.path(), "").unwrap();
        let (images_dir, work_dir) = (state.path().join("images"), state.path().join("work"));
        let images = MadeDir::make(&journal, &images_dir).unwrap();
        std::fs::write(images_dir.join("thesis"), "x").unwrap();
        let text = images.remove().unwrap().unwrap();
        assert!(text.contains("thesis") && images_dir.join("thesis").exists(), "{text}");
        assert!(MadeDir::make_tree(&journal, &images_dir).is_err());
        assert_eq!(MadeDir::make(&journal, &images_dir).unwrap().remove().unwrap(), None);
        let work = MadeDir::make_tree(&journal, &work_dir).unwrap();
        std::fs::write(work_dir.join("f0001"), "x").unwrap();
        assert_eq!(work.remove().unwrap(), None);
        assert!(!work_dir.exists() && images_dir.exists());
        drop(journal);
        let counts = crate::undo::recover(&crate::kernel::SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, Default::default());
    }
}
