//! Recovery (`fsarena recover`): undoes the setup that dead fsarena processes have left, as their journals describe it.

use super::journal::{JOURNAL_EXTENSION, Journal, JournalLine, NEW_EXTENSION, Owner, OwnerPlace, journals_dir};
use super::step::UndoStep;
use crate::lock::{self, is_still_at_path};
use crate::{Error, kernel::SysRoot, none_if_missing, process};
use fsarena_core::setting_text::setting;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time between two attempts to lock a journal.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
/// How long this recovery waits for another recovery of the same journal before it skips the journal.
const RECOVERY_WAIT: Duration = Duration::from_secs(60);
/// How long fsarena waits for the lock if the owner is dead and `/proc` does not show the process that holds it. That process
/// is most likely the last one that the owner forked: it keeps the lock until its exec.
const HIDDEN_HOLDER_WAIT: Duration = Duration::from_secs(5);
/// The wait for an owner in another PID namespace, which this `/proc` cannot show. It is short, because that owner is most
/// likely alive.
const HIDDEN_HOLDER_WAIT_ELSEWHERE: Duration = Duration::from_millis(200);

/// The counts of steps and journals that [`recover`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecoveryCounts {
    /// Steps that are undone: by this recovery or before it.
    pub undone: usize,
    /// Steps that this recovery failed to undo; they stay in their journal.
    pub failed: usize,
    /// Journals whose owner still runs; they are left alone.
    pub still_running: usize,
    /// Journals of other hosts, whose owners may run there; they are left alone.
    pub of_other_hosts: usize,
}

/// Undoes the setup that dead fsarena processes have left: kills the commands that outlived them, then undoes the other steps
/// in reverse order, and verifies each. Passes a message to `log` for each step that it undid, and for each step that failed,
/// with the reason. If a directory stays because of foreign files, it logs that and drops the step from the journal.
///
/// The owner of a journal holds the lock of the file until it dies. `recover` leaves a journal alone while its owner has it
/// locked, even if `/proc` does not show the owner. If another recovery has locked it, this one waits. A journal of another
/// host is left alone, because not every network filesystem propagates locks. The exception is the host `gone_host`: the user
/// confirms that this machine once had that name, or that the host is gone for good.
///
/// # Errors
/// The state directory or `/proc` cannot be read. A step that fails is counted in [`RecoveryCounts::failed`] instead.
pub fn recover(
    kernel: &SysRoot,
    state_dir: &Path,
    gone_host: Option<&str>,
    log: &mut dyn FnMut(&str),
) -> Result<RecoveryCounts, Error> {
    let journals = journal_paths(state_dir)?;
    if !journals.is_empty() {
        // Without /proc every process looks dead, and every mount looks gone.
        kernel.check_proc()?;
    }
    let this_process = Owner::this_process(kernel, "")?;
    let mut recovery = Recovery {
        kernel,
        state_dir,
        this_process,
        gone_host,
        counts: RecoveryCounts::default(),
        has_announced_wait: false,
        log,
    };
    for path in journals {
        if let Err(error) = recovery.recover_journal(&path) {
            recovery.report_failure(&error.to_string());
        }
    }
    Ok(recovery.counts)
}

/// The paths of the images that any fsarena with this state directory, running or dead, has attached or is about to attach,
/// from the journals.
///
/// # Errors
/// A journal cannot be read.
pub fn journaled_images(state_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut images = vec![];
    for step in pending_steps(state_dir)? {
        if let UndoStep::DetachImage { image, .. } = step {
            images.push(image);
        }
    }
    Ok(images)
}

/// Whether any fsarena process, running or dead, with the same state directory as `journal` still has a step to undo for
/// which `matches` returns true.
///
/// # Errors
/// A journal cannot be read.
pub(crate) fn has_pending_step(journal: &Journal, matches: impl Fn(&UndoStep) -> bool) -> Result<bool, Error> {
    Ok(pending_steps(&journal.state_dir())?.iter().any(matches))
}

/// The steps that are left to undo in all journals of a state directory.
fn pending_steps(state_dir: &Path) -> Result<Vec<UndoStep>, Error> {
    let mut steps = vec![];
    for path in journal_paths(state_dir)? {
        // A missing journal means that its owner has finished meanwhile.
        let bytes = none_if_missing(std::fs::read(&path)).map_err(Error::io("reading", &path))?;
        steps.extend(parse_journal(&bytes.unwrap_or_default()).steps_left.into_iter().map(|(_, step)| step));
    }
    Ok(steps)
}

/// The paths of the journals in a state directory, sorted.
fn journal_paths(state_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let dir = journals_dir(state_dir);
    let entries = none_if_missing(std::fs::read_dir(&dir)).map_err(Error::io("reading", &dir))?;
    let mut paths = vec![];
    for entry in entries.into_iter().flatten() {
        paths.push(entry.map_err(Error::io("reading", &dir))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == JOURNAL_EXTENSION));
    paths.sort();
    Ok(paths)
}

/// A recovery in progress.
struct Recovery<'a> {
    kernel: &'a SysRoot,
    state_dir: &'a Path,
    this_process: Owner,
    /// The host whose owners count as dead, because the user named it.
    gone_host: Option<&'a str>,
    counts: RecoveryCounts,
    /// Whether fsarena has logged that it waits for another recovery of the current journal.
    has_announced_wait: bool,
    log: &'a mut dyn FnMut(&str),
}

impl Recovery<'_> {
    /// Counts and reports a step that could not be undone.
    fn report_failure(&mut self, why: &str) {
        self.counts.failed += 1;
        (self.log)(why);
    }

    /// Recovers one journal as soon as its owner is known to be dead and no other recovery has it locked. Leaves it alone
    /// if the owner is or may be alive.
    fn recover_journal(&mut self, path: &Path) -> Result<(), Error> {
        let start = Instant::now();
        self.has_announced_wait = false;
        loop {
            // A missing journal means that its owner or another recovery has finished meanwhile.
            let Some(mut file) = open_own_journal(path)? else { return Ok(()) };
            let parsed = parse_journal(&read_whole(&mut file, path)?);
            let place = self.owner_place(&parsed);
            if place == OwnerPlace::Here && self.is_owner_alive(path, &parsed) {
                self.counts.still_running += 1;
                return Ok(());
            }
            match file.try_lock() {
                Ok(()) if place == OwnerPlace::OtherHost => return self.leave_to_its_host(path, &parsed),
                Ok(()) if is_still_at_path(&file, path).map_err(Error::io("looking at", path))? => {
                    return self.undo_all(file, path, place);
                }
                // Another recovery removed or replaced the file before this one locked it: open the path again.
                Ok(()) => continue,
                Err(TryLockError::Error(error)) => return Err(Error::io("locking", path)(error)),
                Err(TryLockError::WouldBlock) if place == OwnerPlace::OtherHost => {
                    return self.leave_alone(path, &parsed, "a process");
                }
                Err(TryLockError::WouldBlock) => {}
            }
            let holders = lock::find_lock_holders(self.kernel, &file).map_err(Error::io("looking at", path))?;
            let trusted_uids = [0, rustix::process::geteuid().as_raw()];
            if let Some(holder) = holders.iter().find(|holder| trusted_uids.contains(&holder.uid)) {
                if self.skip_if_held(holder, path, &parsed, place, start.elapsed())? {
                    return Ok(());
                }
            } else if let Some(holder) = holders.first() {
                // The holder is not the owner: fsarena up to 0.1.0 left journals readable, and every user who can read a file
                // can lock it.
                if let Some(copy) = replace_with_locked_copy(path, &file)? {
                    let (name, uid) = (process::describe(self.kernel, holder.pid), holder.uid);
                    (self.log)(&format!(
                        "{path:?} is locked by process {name} of user {uid}, but the process that wrote it is gone; \
                         recovering it anyway"
                    ));
                    return self.undo_all(copy, path, place);
                }
            } else if start.elapsed() > hidden_holder_wait(place) {
                return self.leave_alone(path, &parsed, "a process that is not visible from here");
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    /// Whether the owner of a journal runs in this PID namespace. If the first line is unreadable, the name of the file
    /// identifies the owner.
    fn is_owner_alive(&self, path: &Path, parsed: &ParsedJournal) -> bool {
        let owner = match &parsed.owner {
            Some(owner) => Some((owner.pid, owner.start_time)),
            None => owner_from_file_name(path),
        };
        owner.is_some_and(|(pid, start_time)| process::is_alive(self.kernel, pid, start_time))
    }

    /// Skips a journal if the process that has it locked, which runs as root or as this user, may be the owner, or is another
    /// recovery that takes too long. Returns whether it skipped the journal; if not, the caller waits and tries again.
    fn skip_if_held(
        &mut self,
        holder: &lock::LockHolder,
        path: &Path,
        parsed: &ParsedJournal,
        place: OwnerPlace,
        waited: Duration,
    ) -> Result<bool, Error> {
        let name = process::describe(self.kernel, holder.pid);
        let owner = parsed.owner.as_ref().filter(|_| place == OwnerPlace::OtherNamespace);
        if owner.is_some_and(|owner| owner.may_be_in_namespace_of(self.kernel, holder.pid)) {
            self.leave_alone(path, parsed, &format!("process {name}"))?;
            return Ok(true);
        }
        if waited > RECOVERY_WAIT {
            self.counts.still_running += 1;
            (self.log)(&format!("process {name} is recovering {path:?}"));
            return Ok(true);
        }
        if !self.has_announced_wait {
            (self.log)(&format!("waiting for process {name}, which is recovering {path:?}"));
            self.has_announced_wait = true;
        }
        Ok(false)
    }

    /// Where the owner of a journal runs or ran. The host that the user named as gone counts as an earlier boot of this
    /// machine. An owner whose line is unreadable counts as a process of this boot, so that fsarena performs each step and
    /// does not assume that a reboot did.
    fn owner_place(&self, parsed: &ParsedJournal) -> OwnerPlace {
        let Some(owner) = &parsed.owner else { return OwnerPlace::Here };
        let is_of_gone_host = self.gone_host.is_some() && owner.host.as_deref() == self.gone_host;
        match owner.place_seen_from(&self.this_process) {
            OwnerPlace::OtherHost if is_of_gone_host => OwnerPlace::EarlierBoot,
            place => place,
        }
    }

    /// Reports that fsarena leaves a journal alone because its owner is or may be alive; `holder` is the process that has
    /// it locked.
    fn leave_alone(&mut self, path: &Path, parsed: &ParsedJournal, holder: &str) -> Result<(), Error> {
        self.counts.still_running += 1;
        let (run_dir, owner) = match &parsed.owner {
            Some(owner) => (owner.run_dir.clone(), owner.to_string()),
            None => (path.display().to_string(), "a process that its journal does not name".into()),
        };
        (self.log)(&format!(
            "{run_dir}: still runs, so fsarena leaves it alone: {holder} holds the lock of {path:?}, which {owner} wrote. To \
             undo it, end that process there, then run `fsarena recover`"
        ));
        Ok(())
    }

    /// Reports that fsarena leaves the journal of another host alone. Its lock is free on this host, which does not mean
    /// that its owner is dead.
    fn leave_to_its_host(&mut self, path: &Path, parsed: &ParsedJournal) -> Result<(), Error> {
        self.counts.of_other_hosts += 1;
        let Some(owner) = &parsed.owner else { return Ok(()) };
        let advice = match &owner.host {
            Some(host) => format!(
                "Run `fsarena recover` on {host}. If this machine had that name, or {host} is gone for good: fsarena recover {}",
                setting("host", host)
            ),
            None => "Run `fsarena recover` on that host".into(),
        };
        (self.log)(&format!(
            "{}: left alone: {owner} wrote {path:?}, and may still run there. {advice}",
            owner.run_dir
        ));
        Ok(())
    }

    /// Undoes all steps of a journal that this process has locked.
    fn undo_all(&mut self, mut file: File, path: &Path, place: OwnerPlace) -> Result<(), Error> {
        // Read again: the owner or another recovery may have written more before it released the lock.
        let bytes = read_whole(&mut file, path)?;
        let ParsedJournal { owner, steps_left, unknown_lines } = parse_journal(&bytes);
        let has_rebooted = place == OwnerPlace::EarlierBoot;
        if let Some(owner) = &owner {
            (self.log)(&format!("{}: its process {} is gone", owner.run_dir, owner.pid));
        }
        if !has_rebooted {
            self.kill_commands(path);
        }
        // Removes a last line that is cut short: the next line would be appended to it.
        let complete_bytes = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if complete_bytes < bytes.len() {
            file.set_len(complete_bytes as u64).map_err(Error::io("writing", path))?;
        }
        let failed_before = self.counts.failed;
        if unknown_lines > 0 {
            self.counts.failed += unknown_lines;
            let version = env!("CARGO_PKG_VERSION");
            (self.log)(&format!(
                "{unknown_lines} lines of {path:?} are damaged, or of another version of fsarena than {version}"
            ));
        }
        for (id, step) in steps_left {
            let none_failed = self.counts.failed == failed_before;
            if self.undo_step(place, none_failed, &step) {
                let line = JournalLine::Done { id }.to_bytes();
                line.and_then(|line| file.write_all(&line)).map_err(Error::io("writing", path))?;
            }
        }
        if self.counts.failed == failed_before {
            none_if_missing(std::fs::remove_file(path)).map_err(Error::io("removing", path))?;
        } else {
            (self.log)(&format!("the remaining steps stay in {path:?}; to give them up, delete that file"));
        }
        Ok(())
    }

    /// Kills the processes that have the file name of a journal in their environment.
    fn kill_commands(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match process::kill_processes_of_journal(self.kernel, &name) {
            Ok(0) => {}
            Ok(killed) => {
                self.counts.undone += killed;
                (self.log)(&format!("ended {killed} commands that outlived it"));
            }
            Err(error) => self.report_failure(&error.to_string()),
        }
    }

    /// Undoes one step and verifies it. Returns whether the journal can drop the step. `none_failed` is whether all earlier
    /// steps of the journal succeeded.
    fn undo_step(&mut self, place: OwnerPlace, none_failed: bool, step: &UndoStep) -> bool {
        let needs_no_action = match step {
            // In this namespace the number belongs to another group. `kill_commands` has killed the commands.
            UndoStep::KillProcessGroup { .. } if place == OwnerPlace::OtherNamespace => true,
            step => place == OwnerPlace::EarlierBoot && step.is_undone_by_reboot(),
        };
        let performed = if needs_no_action { Ok(()) } else { step.perform(self.kernel) };
        match performed.and_then(|()| step.verify(self.kernel, needs_no_action)) {
            Ok(()) => {
                self.counts.undone += 1;
                (self.log)(&format!("done: {step}"));
                true
            }
            Err(Error::ForeignFiles { dir, names }) => {
                let unremoved = self.unremoved_paths();
                let (own_names, foreign): (Vec<_>, Vec<_>) =
                    names.into_iter().partition(|name| unremoved.contains(&dir.join(name)));
                if !own_names.is_empty() {
                    let own_names = own_names.join(", ");
                    self.report_failure(&format!(
                        "failed: {step}: it still holds {own_names}, which fsarena made and still has to remove"
                    ));
                    return false;
                }
                let error = Error::ForeignFiles { dir, names: foreign };
                // After a failure the files may be fsarena's own, because a damaged line may have named them.
                if none_failed {
                    (self.log)(&error.to_string());
                } else {
                    self.report_failure(&format!("failed: {step}: {error}"));
                }
                none_failed
            }
            Err(error) => {
                self.report_failure(&format!("failed: {step}: {error}"));
                false
            }
        }
    }

    /// The files and directories that any fsarena has made and not removed yet, from the journals.
    fn unremoved_paths(&self) -> BTreeSet<PathBuf> {
        let mut paths = BTreeSet::new();
        for journal in journal_paths(self.state_dir).unwrap_or_default() {
            let Ok(bytes) = std::fs::read(journal) else { continue };
            for (_, step) in parse_journal(&bytes).steps_left {
                paths.extend(step.removed_path().map(Path::to_path_buf));
            }
        }
        paths
    }
}

/// How long a recovery waits for the lock of a journal if `/proc` does not show its holder.
fn hidden_holder_wait(place: OwnerPlace) -> Duration {
    match place {
        OwnerPlace::OtherNamespace => HIDDEN_HOLDER_WAIT_ELSEWHERE,
        _ => HIDDEN_HOLDER_WAIT,
    }
}

/// Opens a journal of this user; None if it is missing.
///
/// # Errors
/// [`Error::NotOurs`] if it belongs to another user.
fn open_own_journal(path: &Path) -> Result<Option<File>, Error> {
    let opened = none_if_missing(File::options().read(true).append(true).open(path));
    let Some(file) = opened.map_err(Error::io("opening", path))? else { return Ok(None) };
    let user = file.metadata().map_err(Error::io("looking at", path))?.uid();
    if user != rustix::process::geteuid().as_raw() {
        let why = format!("it belongs to user {user}, who can run `fsarena recover`");
        return Err(Error::NotOurs { path: path.into(), why });
    }
    Ok(Some(file))
}

/// Reads a whole journal from its beginning.
fn read_whole(file: &mut File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(Error::io("reading", path))?;
    Ok(bytes)
}

/// Replaces a journal that another user has locked with a copy that this process has locked, and returns the copy. None if
/// another recovery is replacing or has replaced the journal.
///
/// # Errors
/// The directory cannot be written.
fn replace_with_locked_copy(path: &Path, journal: &File) -> Result<Option<File>, Error> {
    let copy_path = path.with_extension(NEW_EXTENSION);
    // A killed recovery may have left this file; its mode 0600 keeps other users from locking it.
    let mut options = File::options();
    let opened = options.read(true).append(true).create(true).mode(0o600).open(&copy_path);
    let mut copy = opened.map_err(Error::io("making", &copy_path))?;
    if copy.try_lock().is_err() {
        return Ok(None);
    }
    let mut copy_and_rename = || {
        if !is_still_at_path(&copy, &copy_path)? || !is_still_at_path(journal, path)? {
            return Ok(false);
        }
        let bytes = std::fs::read(path)?;
        copy.set_len(0)?;
        copy.write_all(&bytes)?;
        copy.sync_all()?;
        std::fs::rename(&copy_path, path)?;
        Ok(true)
    };
    let replaced = copy_and_rename().map_err(Error::io("replacing", path))?;
    Ok(replaced.then_some(copy))
}

/// The pid and start time of the owner, from the name of a journal: `PID-STARTTIME-….jsonl`.
fn owner_from_file_name(path: &Path) -> Option<(i32, u64)> {
    let mut parts = path.file_stem()?.to_str()?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The content of a journal.
struct ParsedJournal {
    owner: Option<Owner>,
    /// The steps left to undo with their ids, in the order of execution: first the steps that kill processes, then the
    /// others in reverse.
    steps_left: Vec<(u64, UndoStep)>,
    /// The number of lines that are damaged, or that only another version of fsarena understands.
    unknown_lines: usize,
}

/// Parses a journal. A last line without a newline is ignored: the owner died before it synced that line, so it never began
/// the setup that the line announces.
fn parse_journal(bytes: &[u8]) -> ParsedJournal {
    let mut parsed = ParsedJournal { owner: None, steps_left: vec![], unknown_lines: 0 };
    let steps_left = &mut parsed.steps_left;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { continue };
        match serde_json::from_slice(line) {
            Ok(JournalLine::Owner(owner)) => parsed.owner = Some(owner),
            Ok(JournalLine::Done { id }) => steps_left.retain(|(other, _)| *other != id),
            Ok(JournalLine::Setup { id, step }) => match steps_left.iter_mut().find(|(other, _)| *other == id) {
                Some(entry) => entry.1 = step,
                None => steps_left.push((id, step)),
            },
            Err(_) => parsed.unknown_lines += 1,
        }
    }
    steps_left.reverse();
    steps_left.sort_by_key(|(_, step)| !step.kills_processes());
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::FileIdentity;

    /// An owner that is gone: a pid with another start time.
    fn dead_owner(boot_id: &str) -> Owner {
        let this_process = Owner::this_process(&SysRoot::host(), "runs/1").unwrap();
        Owner { pid: 1, start_time: u64::MAX, boot_id: boot_id.into(), ..this_process }
    }

    /// Writes the journal of a process that is gone, with these lines and an unfinished last line.
    fn write_dead_journal(
        state: &Path,
        boot_id: &str,
        lines: &[JournalLine],
        unfinished_line: &str,
    ) -> std::path::PathBuf {
        let dir = journals_dir(state);
        std::fs::create_dir_all(&dir).unwrap();
        let owner = dead_owner(boot_id);
        let lines = std::iter::once(&JournalLine::Owner(owner))
            .chain(lines)
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect::<String>();
        let path = dir.join("1-0.jsonl");
        std::fs::write(&path, lines + unfinished_line).unwrap();
        path
    }

    /// Makes an image, and returns its path and the journal line that removes it.
    fn make_image(dir: &Path) -> (std::path::PathBuf, JournalLine) {
        let path = dir.join("image \n 1");
        std::fs::write(&path, "data").unwrap();
        let step = UndoStep::RemoveFile { path: path.clone(), identity: FileIdentity::at_path(&path) };
        (path, JournalLine::Setup { id: 0, step })
    }

    fn this_boot() -> String {
        process::boot_id(&SysRoot::host()).unwrap()
    }

    #[test]
    fn an_image_of_a_dead_process_is_removed_even_if_the_last_line_is_cut() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = make_image(state.path());
        let journal = write_dead_journal(state.path(), &this_boot(), &[line], "{\"variant\":{\"id\":1,\"ho");
        let mut messages = vec![];
        let counts =
            recover(&SysRoot::host(), state.path(), None, &mut |text| messages.push(text.to_string())).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 1, ..RecoveryCounts::default() });
        assert!(!image.exists() && !journal.exists(), "{messages:?}");
    }

    #[test]
    fn a_controller_is_disabled_once_its_group_is_gone() {
        let state = tempfile::tempdir().unwrap();
        let (root, group) = (state.path().join("cgroup"), state.path().join("cgroup/fsarena-1-2"));
        let control = root.join("cgroup.subtree_control");
        for (group_is_left, expected) in [(true, (0, 1, "cpu io\n")), (false, (1, 0, "-io"))] {
            let _ = std::fs::remove_dir_all(&root);
            std::fs::create_dir(&root).unwrap();
            std::fs::write(&control, "cpu io\n").unwrap();
            if group_is_left {
                std::fs::create_dir(&group).unwrap();
            }
            let (root, group) = (root.display(), group.display());
            let how = format!(r#"{{"undo":"disable_controller","root":"{root}","name":"io","group":"{group}"}}"#);
            let line = format!("{{\"arm\":{{\"id\":0,\"how\":{how}}}}}\n");
            let journal = write_dead_journal(state.path(), &this_boot(), &[], &line);
            let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
            let controllers_left = std::fs::read_to_string(&control).unwrap();
            assert_eq!((counts.undone, counts.failed, controllers_left.as_str()), expected);
            assert_eq!(journal.exists(), group_is_left);
        }
    }

    #[test]
    fn a_replaced_file_stays_and_keeps_its_journal() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = make_image(state.path());
        std::fs::rename(&image, state.path().join("moved")).unwrap();
        std::fs::write(&image, "another file").unwrap();
        let journal = write_dead_journal(state.path(), "another boot", &[line], "");
        let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 0, failed: 1, still_running: 0, ..RecoveryCounts::default() });
        assert!(image.exists() && journal.exists());
    }

    #[test]
    fn after_a_reboot_a_missing_mount_counts_as_undone_and_a_new_one_is_left_alone() {
        for (target, expected) in [("/gone", (1, 0)), ("/proc", (0, 1))] {
            let state = tempfile::tempdir().unwrap();
            let step = UndoStep::Unmount { target: target.into(), dir: None };
            let journal = write_dead_journal(state.path(), "another boot", &[JournalLine::Setup { id: 0, step }], "");
            let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
            assert_eq!((counts.undone, counts.failed), expected);
            assert_eq!(journal.exists(), counts.failed > 0);
            assert!(Path::new("/proc/self").exists());
        }
    }

    #[test]
    fn a_journal_of_another_host_is_left_alone_until_the_user_names_that_host() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = make_image(state.path());
        let journal = write_dead_journal(state.path(), "another boot", &[line], "");
        let text = std::fs::read_to_string(&journal).unwrap();
        let host = dead_owner("").host.unwrap();
        let text = text.replacen(&format!("\"host\":\"{host}\""), "\"host\":\"far away\"", 1);
        std::fs::write(&journal, text).unwrap();
        let mut messages = vec![];
        let counts =
            recover(&SysRoot::host(), state.path(), None, &mut |text| messages.push(text.to_string())).unwrap();
        assert_eq!(counts, RecoveryCounts { of_other_hosts: 1, ..RecoveryCounts::default() });
        assert!(image.exists() && journal.exists() && messages[0].contains("on far away"), "{messages:?}");
        // A held lock proves that the owner is alive.
        let lock = File::open(&journal).unwrap();
        lock.lock().unwrap();
        let gone_host = Some("nowhere");
        let counts = recover(&SysRoot::host(), state.path(), gone_host, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { still_running: 1, ..RecoveryCounts::default() });
        lock.unlock().unwrap();
        let counts = recover(&SysRoot::host(), state.path(), Some("far away"), &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 1, ..RecoveryCounts::default() });
        assert!(!image.exists() && !journal.exists());
    }

    #[test]
    fn a_host_without_a_name_is_not_taken_for_the_gone_host_if_the_user_named_none() {
        let (kernel, state) = (SysRoot::host(), tempfile::tempdir().unwrap());
        let this_process = Owner { machine_id: Some("1".into()), ..dead_owner("this boot") };
        let far_owner = Owner { machine_id: Some("2".into()), host: None, ..dead_owner("another boot") };
        let parsed = ParsedJournal { owner: Some(far_owner), steps_left: vec![], unknown_lines: 0 };
        let recovery = Recovery {
            kernel: &kernel,
            state_dir: state.path(),
            this_process,
            gone_host: None,
            counts: RecoveryCounts::default(),
            has_announced_wait: false,
            log: &mut |_| {},
        };
        assert_eq!(recovery.owner_place(&parsed), OwnerPlace::OtherHost);
    }

    #[test]
    fn a_process_group_of_another_namespace_is_never_ended_by_its_number() {
        use std::os::unix::process::CommandExt;
        let state = tempfile::tempdir().unwrap();
        let mut innocent = std::process::Command::new("sleep").arg("20").process_group(0).spawn().unwrap();
        let pgid = innocent.id() as i32;
        let start_time = process::start_time(&SysRoot::host(), pgid).unwrap();
        let journal = write_dead_journal(
            state.path(),
            &this_boot(),
            &[JournalLine::Setup { id: 0, step: UndoStep::KillProcessGroup { pgid, start_time } }],
            "",
        );
        let own_namespace = dead_owner("").pid_namespace.unwrap();
        let text = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, text.replacen(&own_namespace.to_string(), "1", 1)).unwrap();
        let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!((counts.undone, counts.failed, journal.exists()), (1, 0, false));
        assert!(innocent.try_wait().unwrap().is_none());
        innocent.kill().unwrap();
        innocent.wait().unwrap();
    }

    /// Each thread opens the journal itself, as six processes would.
    #[test]
    fn six_concurrent_recoveries_undo_each_step_once() {
        for _ in 0..20 {
            let state = tempfile::tempdir().unwrap();
            let lines: Vec<JournalLine> = (0..8)
                .map(|id| {
                    let path = state.path().join(format!("{id}.img"));
                    std::fs::write(&path, "data").unwrap();
                    JournalLine::Setup {
                        id,
                        step: UndoStep::RemoveFile { identity: FileIdentity::at_path(&path), path },
                    }
                })
                .collect();
            let journal = write_dead_journal(state.path(), &this_boot(), &lines, "");
            let all_counts: Vec<RecoveryCounts> = std::thread::scope(|scope| {
                let recover_once = || recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
                let threads: Vec<_> = (0..6).map(|_| scope.spawn(recover_once)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(
                all_counts.iter().map(|counts| (counts.undone, counts.failed, counts.still_running)).max(),
                Some((8, 0, 0))
            );
            assert_eq!(all_counts.iter().map(|counts| counts.undone).sum::<usize>(), 8, "{all_counts:?}");
            assert!(!journal.exists());
        }
    }

    #[test]
    fn a_file_whose_step_failed_is_not_called_foreign_to_its_directory() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("images");
        std::fs::create_dir(&path).unwrap();
        let image = path.join("test.img");
        std::fs::write(&image, "data").unwrap();
        let identity = Some(FileIdentity { dev: 0, ino: 0, created_at_ns: None });
        let lines = [
            UndoStep::RemoveDir { identity: FileIdentity::at_path(&path), path, with_contents: false },
            UndoStep::RemoveFile { path: image, identity },
        ];
        let lines: Vec<JournalLine> = (0..).zip(lines).map(|(id, step)| JournalLine::Setup { id, step }).collect();
        let journal = write_dead_journal(state.path(), &this_boot(), &lines, "");
        let mut messages = vec![];
        let counts =
            recover(&SysRoot::host(), state.path(), None, &mut |text| messages.push(text.to_string())).unwrap();
        assert_eq!((counts.failed, journal.exists()), (2, true));
        assert!(messages.iter().any(|line| line.contains("test.img, which fsarena made")), "{messages:?}");
        assert!(!messages.iter().any(|line| line.contains("did not make")), "{messages:?}");
    }

    #[test]
    fn without_an_owner_line_every_step_is_performed_and_the_damage_is_reported() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("attribute");
        std::fs::write(&path, "changed").unwrap();
        let step = UndoStep::RestoreAttribute { path: path.clone(), value: "former".into(), diskseq: None };
        let journal = write_dead_journal(state.path(), &this_boot(), &[JournalLine::Setup { id: 0, step }], "");
        let text = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, text.replacen("owner", "own\0r", 1)).unwrap();
        let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 1, failed: 1, still_running: 0, ..RecoveryCounts::default() });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "former");
        assert!(journal.exists());
    }

    #[test]
    fn a_running_owner_is_recognized_by_the_file_name_of_its_journal() {
        let state = tempfile::tempdir().unwrap();
        let (pid, kernel) = (std::process::id() as i32, SysRoot::host());
        let start_time = process::start_time(&kernel, pid).unwrap();
        let journal = write_dead_journal(state.path(), &this_boot(), &[], "");
        let name = journal.with_file_name(format!("{pid}-{start_time}-0.jsonl"));
        std::fs::rename(journal, &name).unwrap();
        std::fs::write(&name, "damaged\n").unwrap();
        let counts = recover(&kernel, state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 0, failed: 0, still_running: 1, ..RecoveryCounts::default() });
    }

    #[test]
    fn the_journal_of_a_running_owner_is_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("dir");
        let journal = Journal::create(state.path(), "").unwrap();
        let step = UndoStep::RemoveDir { path: path.clone(), identity: None, with_contents: true };
        let guard = journal.record(step).unwrap();
        std::fs::create_dir(&path).unwrap();
        let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 0, failed: 0, still_running: 1, ..RecoveryCounts::default() });
        assert!(path.exists());
        guard.undo().unwrap();
    }

    /// The lines that fsarena 0.1.0 wrote are in a separate file, so that no renaming in the code changes them.
    #[test]
    fn a_journal_of_the_first_version_is_recovered() {
        let state = tempfile::tempdir().unwrap();
        let (tree, target) = (state.path().join("images"), state.path().join("images/mnt"));
        std::fs::create_dir_all(&target).unwrap();
        std::fs::write(tree.join("orders"), "x").unwrap();
        let text = include_str!("../../tests/journal-0.1.0.jsonl").replace("BOOT", &this_boot());
        let text = text.replace("TREE", tree.to_str().unwrap());
        std::fs::create_dir_all(journals_dir(state.path())).unwrap();
        std::fs::write(journals_dir(state.path()).join("1-0.jsonl"), text).unwrap();
        let counts = recover(&SysRoot::host(), state.path(), None, &mut |_| {}).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 4, failed: 0, still_running: 0, ..RecoveryCounts::default() });
        assert!(!tree.exists());
    }

    #[test]
    fn unknown_lines_count_as_failed() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = make_image(state.path());
        let later = "{\"setup\":{\"id\":7,\"how\":{\"undo\":\"remove_moon\"}}}\n";
        let journal = write_dead_journal(state.path(), &this_boot(), &[line], later);
        let mut messages = vec![];
        let counts =
            recover(&SysRoot::host(), state.path(), None, &mut |text| messages.push(text.to_string())).unwrap();
        assert_eq!(counts, RecoveryCounts { undone: 1, failed: 1, still_running: 0, ..RecoveryCounts::default() });
        assert!(!image.exists() && journal.exists(), "{messages:?}");
    }

    #[test]
    fn a_directory_with_a_foreign_file_stays_and_its_step_is_dropped() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("images");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis"), "x").unwrap();
        let identity = FileIdentity::at_path(&path);
        let step = UndoStep::RemoveDir { path: path.clone(), identity, with_contents: false };
        let journal = write_dead_journal(state.path(), &this_boot(), &[JournalLine::Setup { id: 0, step }], "");
        let mut messages = vec![];
        let counts =
            recover(&SysRoot::host(), state.path(), None, &mut |text| messages.push(text.to_string())).unwrap();
        assert_eq!(counts, RecoveryCounts::default());
        assert!(path.join("thesis").exists() && !journal.exists());
        assert!(messages.iter().any(|line| line.contains("thesis")), "{messages:?}");
    }

    #[test]
    fn steps_that_kill_processes_come_first_and_the_rest_in_reverse() {
        let setup_line = |id, step| serde_json::to_string(&JournalLine::Setup { id, step }).unwrap();
        let kill = UndoStep::KillProcessGroup { pgid: 9, start_time: 1 };
        let (detach, unmount) = (
            UndoStep::DetachImage { image: "/i".into(), identity: None },
            UndoStep::Unmount { target: "/m".into(), dir: None },
        );
        let lines = [
            setup_line(0, UndoStep::RemoveFile { path: "/i".into(), identity: None }),
            setup_line(
                0,
                UndoStep::RemoveFile {
                    path: "/i".into(),
                    identity: Some(FileIdentity { dev: 1, ino: 2, created_at_ns: None }),
                },
            ),
            setup_line(1, kill.clone()),
            setup_line(2, detach.clone()),
            setup_line(3, unmount.clone()),
            setup_line(4, UndoStep::RemoveTree { path: "/t".into() }),
            setup_line(5, UndoStep::RemoveControlGroup { path: "/g".into(), identity: None }),
            serde_json::to_string(&JournalLine::Done { id: 4 }).unwrap() + "\n",
        ];
        let steps_left = parse_journal(lines.join("\n").as_bytes()).steps_left;
        let file = UndoStep::RemoveFile {
            path: "/i".into(),
            identity: Some(FileIdentity { dev: 1, ino: 2, created_at_ns: None }),
        };
        let remove = UndoStep::RemoveControlGroup { path: "/g".into(), identity: None };
        assert_eq!(steps_left, [(5, remove), (1, kill), (3, unmount), (2, detach), (0, file)]);
    }
}
