//! Running the journals of dead processes.

use super::journal::{JOURNAL, Line, Owner, journals};
use super::lock::{self, Lock};
use super::step::Undo;
use crate::{Error, found, kernel::Kernel, process};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fs::File, os::unix::fs::MetadataExt};

/// What [`recover`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Things undone, or found undone.
    pub undone: usize,
    /// Things that could not be undone; they stay in their journal.
    pub failed: usize,
    /// Journals whose owner still runs; they are left alone.
    pub still_running: usize,
}

/// Undoes everything that dead processes left set up: first ends the commands that outlived them, then
/// undoes the rest in reverse order, and looks whether each thing is really gone. Says each thing it does, and each that
/// it could not do with the reason.
/// It names a directory that stays because of foreign files, and drops it from the journal.
///
/// # Errors
/// Where the state directory or `/proc` cannot be read. What cannot be undone is counted, not an error.
pub fn recover(kernel: &Kernel, state_dir: &Path, say: &mut dyn FnMut(&str)) -> Result<Recovered, Error> {
    let mut recovery = Recovery { kernel, all: Recovered::default(), say };
    let journals = paths(state_dir)?;
    if !journals.is_empty() {
        // Without it every process looks dead, and every mount looks gone.
        kernel.check_proc()?;
    }
    for path in journals {
        if let Err(error) = recovery.journal(&path) {
            recovery.failed(&error.to_string());
        }
    }
    Ok(recovery.all)
}

/// The images that some fsarena, running or dead, has attached or is about to attach.
///
/// # Errors
/// Where a journal is there and cannot be read.
pub fn images(state_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut images = vec![];
    for path in paths(state_dir)? {
        // Without it its owner finished meanwhile.
        let bytes = found(std::fs::read(&path)).map_err(Error::io("reading", &path))?;
        images.extend(parse(&bytes.unwrap_or_default()).left.into_iter().filter_map(|(_, how)| match how {
            Undo::Detach { image, .. } => Some(image),
            _ => None,
        }));
    }
    Ok(images)
}

/// The journals of a state directory.
fn paths(state_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let dir = journals(state_dir);
    let entries = found(std::fs::read_dir(&dir)).map_err(Error::io("reading", &dir))?;
    let mut paths = vec![];
    for entry in entries.into_iter().flatten() {
        paths.push(entry.map_err(Error::io("reading", &dir))?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == JOURNAL));
    paths.sort();
    Ok(paths)
}

/// A recovery in progress.
struct Recovery<'a> {
    kernel: &'a Kernel,
    all: Recovered,
    say: &'a mut dyn FnMut(&str),
}

impl Recovery<'_> {
    fn failed(&mut self, why: &str) {
        self.all.failed += 1;
        (self.say)(why);
    }

    fn journal(&mut self, path: &Path) -> Result<(), Error> {
        let opened = found(File::options().read(true).append(true).open(path));
        // Without it its owner finished meanwhile.
        let Some(mut file) = opened.map_err(Error::io("opening", path))? else { return Ok(()) };
        let user = file.metadata().map_err(Error::io("looking at", path))?.uid();
        if user != rustix::process::geteuid().as_raw() {
            let why = format!("it belongs to user {user}, who can run `fsarena recover`");
            return Err(Error::NotOurs { path: path.into(), why });
        }
        let lock = lock::take(self.kernel, &file, path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(Error::io("reading", path))?;
        let Parsed { owner, left, unknown } = parse(&bytes);
        // What an unreadable first line leaves open is taken for this boot: then each step is done, and not assumed.
        let boot = process::boot_id(self.kernel)?;
        let rebooted = owner.as_ref().is_some_and(|owner| owner.boot_id != boot);
        let process = owner.as_ref().map(|owner| (owner.pid, owner.start_time)).or_else(|| named(path));
        if process.is_some_and(|(pid, started)| !rebooted && process::is_alive(self.kernel, pid, started)) {
            self.all.still_running += 1;
            return Ok(());
        }
        match lock {
            Lock::Ours => {}
            Lock::Recovering(by) => {
                self.all.still_running += 1;
                (self.say)(&format!("process {by} is recovering {path:?}"));
                return Ok(());
            }
            Lock::Foreign(by) => {
                (self.say)(&format!(
                    "{path:?} is locked by {by}, though its own process is gone; recovering it all the same"
                ));
                file = lock::replace(path, &bytes)?;
            }
        }
        if let Some(owner) = &owner {
            (self.say)(&format!("{}: its process {} is gone", owner.about, owner.pid));
        }
        if !rebooted {
            self.end_commands(path);
        }
        // A last line cut short would spoil the one that is appended next.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        if whole < bytes.len() {
            file.set_len(whole as u64).map_err(Error::io("writing", path))?;
        }
        let failed_before = self.all.failed;
        if unknown > 0 {
            self.all.failed += unknown;
            let version = env!("CARGO_PKG_VERSION");
            (self.say)(&format!(
                "{unknown} lines of {path:?} are damaged, or of another version of fsarena than {version}"
            ));
        }
        for (id, how) in left {
            let all_before = self.all.failed == failed_before;
            if self.undo(rebooted, all_before, &how) {
                let line = Line::Done { id }.bytes();
                line.and_then(|line| file.write_all(&line)).map_err(Error::io("writing", path))?;
            }
        }
        if self.all.failed == failed_before {
            std::fs::remove_file(path).map_err(Error::io("removing", path))?;
        } else {
            (self.say)(&format!("what is left is noted in {path:?}; delete that file to have it forgotten"));
        }
        Ok(())
    }

    fn end_commands(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match process::kill_marked(self.kernel, &name) {
            Ok(0) => {}
            Ok(ended) => {
                self.all.undone += ended;
                (self.say)(&format!("ended {ended} commands that outlived it"));
            }
            Err(error) => self.failed(&error.to_string()),
        }
    }

    /// Undoes one thing; whether nothing is left to do about it.
    fn undo(&mut self, rebooted: bool, all_before: bool, how: &Undo) -> bool {
        let ended = rebooted && how.ends_with_boot();
        let done = if ended { Ok(()) } else { how.act(self.kernel) };
        match done.and_then(|()| how.verify(self.kernel, ended)) {
            Ok(()) => {
                self.all.undone += 1;
                (self.say)(&format!("done: {how}"));
                true
            }
            // Where something before it failed, that may be what the directory still holds.
            Err(error @ Error::Foreign { .. }) if all_before => {
                (self.say)(&error.to_string());
                true
            }
            Err(error) => {
                self.failed(&format!("failed: {how}: {error}"));
                false
            }
        }
    }
}

/// The process that a journal's name names, and when it started.
fn named(path: &Path) -> Option<(i32, u64)> {
    let mut parts = path.file_stem()?.to_str()?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The content of a journal.
struct Parsed {
    owner: Option<Owner>,
    /// The steps left to undo, in the order of execution: processes first, then the setup in reverse.
    left: Vec<(u64, Undo)>,
    /// Lines that are damaged, or that only another version of fsarena understands.
    unknown: usize,
}

/// Reads a journal. A last line without its end was cut short by the owner's death before it was synced, so the owner
/// never did what it announces.
fn parse(bytes: &[u8]) -> Parsed {
    let mut parsed = Parsed { owner: None, left: vec![], unknown: 0 };
    let left = &mut parsed.left;
    let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    for line in whole {
        match serde_json::from_slice(line) {
            Ok(Line::Owner(found)) => parsed.owner = Some(found),
            Ok(Line::Done { id }) => left.retain(|(known, _)| *known != id),
            Ok(Line::Setup { id, how }) => match left.iter_mut().find(|(known, _)| *known == id) {
                Some(known) => known.1 = how,
                None => left.push((id, how)),
            },
            Err(_) => parsed.unknown += 1,
        }
    }
    left.reverse();
    left.sort_by_key(|(_, how)| !matches!(how, Undo::KillGroup { .. }));
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::undo::Journal;

    /// A journal as a process that is gone left it: this boot, a pid with another start time.
    fn dead(state: &Path, boot_id: &str, lines: &[Line], cut: &str) -> std::path::PathBuf {
        let dir = journals(state);
        std::fs::create_dir_all(&dir).unwrap();
        let owner = Owner { pid: 1, start_time: u64::MAX, boot_id: boot_id.into(), about: "runs/1".into() };
        let lines = std::iter::once(&Line::Owner(owner))
            .chain(lines)
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect::<String>();
        let path = dir.join("1-0.jsonl");
        std::fs::write(&path, lines + cut).unwrap();
        path
    }

    fn image(dir: &Path) -> (std::path::PathBuf, Line) {
        let path = dir.join("image \n 1");
        std::fs::write(&path, "data").unwrap();
        let meta = path.metadata().unwrap();
        let how = Undo::RemoveFile { path: path.clone(), identity: Some((meta.dev(), meta.ino())) };
        (path, Line::Setup { id: 0, how })
    }

    fn here() -> String {
        process::boot_id(&Kernel::host()).unwrap()
    }

    #[test]
    fn what_a_dead_process_left_is_removed_even_after_a_cut_line() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = image(state.path());
        let journal = dead(state.path(), &here(), &[line], "{\"variant\":{\"id\":1,\"ho");
        let mut said = vec![];
        let done = recover(&Kernel::host(), state.path(), &mut |text| said.push(text.to_string())).unwrap();
        assert_eq!(done, Recovered { undone: 1, failed: 0, still_running: 0 });
        assert!(!image.exists() && !journal.exists(), "{said:?}");
    }

    #[test]
    fn another_file_of_that_name_stays_and_so_does_the_journal() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = image(state.path());
        std::fs::rename(&image, state.path().join("moved")).unwrap();
        std::fs::write(&image, "another file").unwrap();
        let journal = dead(state.path(), "another boot", &[line], "");
        let done = recover(&Kernel::host(), state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Recovered { undone: 0, failed: 1, still_running: 0 });
        assert!(image.exists() && journal.exists());
    }

    #[test]
    fn after_a_reboot_mounts_are_gone_by_themselves_and_others_are_left_alone() {
        for (target, expected) in [("/gone", (1, 0)), ("/proc", (0, 1))] {
            let state = tempfile::tempdir().unwrap();
            let how = Undo::Unmount { target: target.into() };
            let journal = dead(state.path(), "another boot", &[Line::Setup { id: 0, how }], "");
            let done = recover(&Kernel::host(), state.path(), &mut |_| {}).unwrap();
            assert_eq!((done.undone, done.failed), expected);
            assert_eq!(journal.exists(), done.failed > 0);
            assert!(Path::new("/proc/self").exists());
        }
    }

    #[test]
    fn without_its_first_line_every_step_is_done_and_the_damage_is_told() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("attribute");
        std::fs::write(&path, "changed").unwrap();
        let how = Undo::RestoreAttr { path: path.clone(), value: "former".into() };
        let journal = dead(state.path(), &here(), &[Line::Setup { id: 0, how }], "");
        let text = std::fs::read_to_string(&journal).unwrap();
        std::fs::write(&journal, text.replacen("owner", "own\0r", 1)).unwrap();
        let done = recover(&Kernel::host(), state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Recovered { undone: 1, failed: 1, still_running: 0 });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "former");
        assert!(journal.exists());
    }

    #[test]
    fn a_living_owner_is_known_by_the_name_of_its_journal() {
        let state = tempfile::tempdir().unwrap();
        let (pid, kernel) = (std::process::id() as i32, Kernel::host());
        let started = process::start_time(&kernel, pid).unwrap();
        let journal = dead(state.path(), &here(), &[], "");
        let name = journal.with_file_name(format!("{pid}-{started}-0.jsonl"));
        std::fs::rename(journal, &name).unwrap();
        std::fs::write(&name, "damaged\n").unwrap();
        let done = recover(&kernel, state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Recovered { undone: 0, failed: 0, still_running: 1 });
    }

    #[test]
    fn a_living_owner_is_left_alone() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("dir");
        let journal = Journal::create(state.path(), "").unwrap();
        let how = Undo::RemoveDir { path: path.clone(), identity: None, whole: true };
        let armed = journal.note(how).unwrap();
        std::fs::create_dir(&path).unwrap();
        let done = recover(&Kernel::host(), state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Recovered { undone: 0, failed: 0, still_running: 1 });
        assert!(path.exists());
        armed.undo().unwrap();
    }

    /// Lines as fsarena 0.1.0 wrote them. They are in a file of their own, so that no renaming changes them.
    #[test]
    fn a_journal_of_the_first_version_is_recovered() {
        let state = tempfile::tempdir().unwrap();
        let (tree, target) = (state.path().join("images"), state.path().join("images/mnt"));
        std::fs::create_dir_all(&target).unwrap();
        std::fs::write(tree.join("orders"), "x").unwrap();
        let text = include_str!("../../tests/journal-0.1.0.jsonl").replace("BOOT", &here());
        let text = text.replace("TREE", tree.to_str().unwrap());
        std::fs::create_dir_all(journals(state.path())).unwrap();
        std::fs::write(journals(state.path()).join("1-0.jsonl"), text).unwrap();
        let done = recover(&Kernel::host(), state.path(), &mut |_| {}).unwrap();
        assert_eq!(done, Recovered { undone: 4, failed: 0, still_running: 0 });
        assert!(!tree.exists());
    }

    #[test]
    fn lines_of_another_version_are_never_taken_for_done() {
        let state = tempfile::tempdir().unwrap();
        let (image, line) = image(state.path());
        let later = "{\"setup\":{\"id\":7,\"how\":{\"undo\":\"remove_moon\"}}}\n";
        let journal = dead(state.path(), &here(), &[line], later);
        let mut said = vec![];
        let done = recover(&Kernel::host(), state.path(), &mut |text| said.push(text.to_string())).unwrap();
        assert_eq!(done, Recovered { undone: 1, failed: 1, still_running: 0 });
        assert!(!image.exists() && journal.exists(), "{said:?}");
    }

    #[test]
    fn a_directory_with_a_foreign_file_stays_and_is_forgotten() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("images");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("thesis"), "x").unwrap();
        let meta = path.metadata().unwrap();
        let identity = Some((meta.dev(), meta.ino()));
        let how = Undo::RemoveDir { path: path.clone(), identity, whole: false };
        let journal = dead(state.path(), &here(), &[Line::Setup { id: 0, how }], "");
        let mut said = vec![];
        let done = recover(&Kernel::host(), state.path(), &mut |text| said.push(text.to_string())).unwrap();
        assert_eq!(done, Recovered::default());
        assert!(path.join("thesis").exists() && !journal.exists());
        assert!(said.iter().any(|line| line.contains("thesis")), "{said:?}");
    }

    #[test]
    fn the_order_is_processes_first_then_backwards() {
        let variant = |id, how| serde_json::to_string(&Line::Setup { id, how }).unwrap();
        let kill = Undo::KillGroup { pgid: 9, start_time: 1 };
        let (detach, unmount) =
            (Undo::Detach { image: "/i".into(), identity: None }, Undo::Unmount { target: "/m".into() });
        let text = [
            variant(0, Undo::RemoveFile { path: "/i".into(), identity: None }),
            variant(0, Undo::RemoveFile { path: "/i".into(), identity: Some((1, 2)) }),
            variant(1, kill.clone()),
            variant(2, detach.clone()),
            variant(3, unmount.clone()),
            variant(4, Undo::RemoveTree { path: "/t".into() }),
            serde_json::to_string(&Line::Done { id: 4 }).unwrap() + "\n",
        ];
        let left = parse(text.join("\n").as_bytes()).left;
        let file = Undo::RemoveFile { path: "/i".into(), identity: Some((1, 2)) };
        assert_eq!(left, [(1, kill), (3, unmount), (2, detach), (0, file)]);
    }
}
