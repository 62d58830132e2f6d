//! Random memory layouts of guests. A guest takes some memory before its work and keeps it, so that the same work gets other pages
//! and other places in slabs, and clock ticks interrupt it at other places.

use fsarena_core::schedule::mix;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// The directory of a guest for the files that it keeps. It lies in memory.
pub const LAYOUT_DIR: &str = "/fsarena-layout";

/// The memory that a guest keeps. Each number has three digits, so that every guest reads the same number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLayout {
    /// Pages of memory.
    pub pages: u64,
    /// Empty files: an inode and a directory entry each, in slabs of the kernel.
    pub files: u64,
}

impl MemoryLayout {
    /// The layout of every guest in a run with a fixed layout.
    pub const FIXED: MemoryLayout = MemoryLayout { pages: 100, files: 100 };

    /// Draws the layout of a cell from its id.
    pub fn draw(cell: &str) -> MemoryLayout {
        let id = cell.bytes().fold(0, |seed, byte| mix(seed, byte.into()));
        let draw = |number| 100 + mix(id, number) % 900;
        MemoryLayout { pages: draw(0), files: draw(1) }
    }

    /// Occupies the memory, for as long as the guest runs.
    ///
    /// # Errors
    /// A file cannot be made below `dir`.
    pub fn occupy(self, dir: &Path) -> Result<()> {
        std::fs::create_dir(dir)?;
        let mut pages = File::create(dir.join("pages"))?;
        (0..self.pages).try_for_each(|_| pages.write_all(&[0; 4096]))?;
        (0..self.files).try_for_each(|number| File::create(dir.join(format!("{number:03}"))).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_cell_draws_its_layout() {
        let drawn = MemoryLayout::draw("0123456789abcdef");
        assert_eq!(drawn, MemoryLayout::draw("0123456789abcdef"));
        assert_ne!(drawn, MemoryLayout::draw("0123456789abcdee"));
        let all: Vec<MemoryLayout> = (0..1000).map(|cell| MemoryLayout::draw(&cell.to_string())).collect();
        let pages: Vec<u64> = all.iter().map(|layout| layout.pages).collect();
        let files: Vec<u64> = all.iter().map(|layout| layout.files).collect();
        for drawn in [pages, files] {
            assert!(drawn.iter().all(|drawn| (100..1000).contains(drawn)));
            let mean = drawn.iter().sum::<u64>() / 1000;
            assert!((510..590).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn memory_is_occupied_by_files() {
        let dir = tempfile::tempdir().unwrap();
        let layout_dir = dir.path().join("layout_dir");
        MemoryLayout { pages: 3, files: 2 }.occupy(&layout_dir).unwrap();
        assert_eq!(layout_dir.join("pages").metadata().unwrap().len(), 3 * 4096);
        assert_eq!(std::fs::read_dir(layout_dir).unwrap().count(), 3);
    }
}
