//! Finds the reason for a guest's end in its console log.

use fsarena_sys::process_output::tail;
use std::{fs::File, path::Path};

/// How much of a console is shown where a guest failed.
const LAST_LINES: usize = 12;
/// How much of a console is read for that.
const LAST_BYTES: u64 = 16 << 10;
/// What kernels say at their end.
const PANIC: &str = "Kernel panic";
/// What kernels say, and what it means.
const SIGNS: [(&str, &str); 9] = [
    ("initrd is too large", "it has too little memory to begin with: --guest-memory"),
    ("Initramfs unpacking failed: write error", "it has too little memory to begin with: --guest-memory"),
    ("Out of memory and no killable processes", "its memory ran out: --guest-memory"),
    ("System is deadlocked on memory", "its memory ran out: --guest-memory"),
    ("Out of memory: Killed process", "its memory ran out: --guest-memory"),
    (
        "Unable to mount root fs",
        "its kernel has found no initramfs: it has too little memory (--guest-memory), or cannot read one",
    ),
    ("No working init found", "its kernel could not start fsarena"),
    (PANIC, "its kernel panicked"),
    ("Error loading uncompressed kernel", "QEMU cannot load that kernel"),
];

/// The end of a console.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastWords {
    /// Its last lines, without what a terminal would not show.
    pub lines: String,
    /// What they mean, where that is known.
    pub meaning: Option<&'static str>,
}

impl LastWords {
    /// Reads the end of a console; nothing where there is none.
    pub fn of(console: &Path) -> LastWords {
        let text = File::open(console).and_then(|mut file| tail(&mut file, LAST_BYTES)).unwrap_or_default();
        let meaning = SIGNS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, meaning)| *meaning);
        let shown: String = text.chars().filter(|letter| *letter == '\n' || !letter.is_control()).collect();
        let lines: Vec<&str> = shown.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
        let (before, last) = lines.split_at(lines.len().saturating_sub(LAST_LINES));
        // Behind a panic there is a trace longer than what is shown.
        let panic = before.iter().rev().find(|line| line.contains(PANIC));
        let kept: Vec<&str> = panic.into_iter().chain(last).copied().collect();
        LastWords { lines: kept.join("\n"), meaning }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_last_lines() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        let mut text: String = (0..40).map(|line| format!("line {line}\r\n")).collect();
        text += "\u{1b}[0m[ 1.0] Kernel panic - not syncing: VFS\r\n\r\n";
        std::fs::write(&console, &text).unwrap();
        let words = LastWords::of(&console);
        assert_eq!(words.lines.lines().count(), LAST_LINES);
        assert!(words.lines.ends_with("Kernel panic - not syncing: VFS"));
        assert_eq!(words.meaning, Some("its kernel panicked"));
        text += &"  trace\r\n".repeat(LAST_LINES);
        std::fs::write(&console, text).unwrap();
        assert!(LastWords::of(&console).lines.contains("Kernel panic"));
        assert_eq!(
            LastWords::of(&dir.path().join("none")),
            LastWords { lines: String::new(), meaning: None }
        );
    }
}
