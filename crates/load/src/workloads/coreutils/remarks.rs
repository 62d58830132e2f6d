//! What every report of the workload must say.

use super::settings::Chosen;
use crate::source::Contents;
use fsarena_core::event::{Note, NoteKind};

/// The remarks on the tasks on this machine; their files take at most `bytes` bytes.
pub fn of(chosen: &Chosen, contents: &Contents, bytes: u64) -> Vec<Note> {
    let mut notes = vec![chosen.driver.remark(), chosen.reflink.remark(), chosen.source.remark()];
    if contents.left_out > 0 {
        let text = format!(
            "{} sockets, pipes and devices of the tree were left out of the archive",
            contents.left_out
        );
        notes.push(Note::new(NoteKind::Remark, text));
    }
    if chosen.tasks.iter().any(|task| [13, 14, 21].contains(&task.number)) {
        let text =
            "the large file comes from /dev/zero: a filesystem that compresses stores next to nothing of it";
        notes.push(
            Note::new(NoteKind::Remark, text).fix("compare with compression off, or leave out 13, 14 and 21"),
        );
    }
    notes.extend(memory(chosen.cold, bytes, rustix::system::sysinfo().totalram as u64));
    notes
}

/// Whether reading tasks read from memory, and what that means.
fn memory(cold: bool, working_set: u64, ram: u64) -> Option<Note> {
    if cold || working_set > ram {
        return None;
    }
    let text = format!(
        "all files ({} MiB at most) fit into memory ({} MiB): with cache=warm find, tar, cp and cat read from the page cache, not from the device",
        working_set >> 20,
        ram >> 20
    );
    Some(Note::new(NoteKind::Fairness, text).fix("--set cache=cold, or --scale paper where memory is small"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_set_that_fits_into_memory_is_said_when_the_cache_is_warm() {
        let note = memory(false, 300 << 20, 8 << 30).unwrap();
        assert_eq!(note.kind, NoteKind::Fairness);
        assert!(note.text.starts_with("all files (300 MiB at most) fit into memory (8192 MiB)"));
        assert_eq!(memory(true, 300 << 20, 8 << 30), None);
        assert_eq!(memory(false, 9 << 30, 8 << 30), None);
    }
}
