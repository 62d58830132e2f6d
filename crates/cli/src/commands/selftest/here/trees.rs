//! The trees that the arms copy: one, and the same with more files.

use super::MORE;
use crate::failure::Failure;
use fsarena_load::payload::Payload;
use fsarena_load::tree::{self, Entry};
use std::path::{Path, PathBuf};

/// The trees, below one directory.
pub struct Trees {
    dir: PathBuf,
}

impl Trees {
    /// Makes a tree for each arm of [`MORE`].
    pub fn make(dir: &Path, files: u64, seed: u64) -> Result<Trees, Failure> {
        let entries = tree::generate(seed, files);
        for (_, percent) in MORE {
            let top = dir.join(format!("more-{percent}"));
            if !top.exists() {
                write(&top, &entries, percent, seed).map_err(Failure::file(&top))?;
            }
        }
        Ok(Trees { dir: dir.into() })
    }

    /// The tree of an arm.
    pub fn of(&self, arm: &str) -> Option<String> {
        let (_, percent) = MORE.iter().find(|(name, _)| *name == arm)?;
        Some(self.dir.join(format!("more-{percent}")).to_string_lossy().into_owned())
    }

    /// The tree with the most files.
    pub fn largest(&self) -> String {
        let most = MORE.iter().map(|(_, percent)| percent).max().expect("there are arms");
        self.dir.join(format!("more-{most}")).to_string_lossy().into_owned()
    }
}

/// Writes a tree with `percent` more files, and as many more bytes as those files have in the mean.
fn write(top: &Path, entries: &[Entry], percent: u64, seed: u64) -> std::io::Result<()> {
    let mut payload = Payload::new(seed, 50);
    let mut contents = Vec::new();
    for entry in tree::with_twins(entries.to_vec(), 100 * percent) {
        let path = top.join(&entry.path);
        let Some(bytes) = entry.bytes else {
            std::fs::create_dir_all(&path)?;
            continue;
        };
        contents.resize(bytes as usize, 0);
        payload.fill(&mut contents);
        std::fs::write(&path, &contents)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(dir: &Path) -> u64 {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }

    #[test]
    fn the_twins_are_as_many_as_the_per_cent_say() {
        let dir = tempfile::tempdir().unwrap();
        let entries = tree::generate(1, 200);
        for (percent, expected) in [(0, 200), (1, 202), (5, 210)] {
            let top = dir.path().join(percent.to_string());
            write(&top, &entries, percent, 1).unwrap();
            assert_eq!(files(&top), expected, "{percent}");
        }
    }
}
