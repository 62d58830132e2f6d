//! Random memory layouts of guests. A guest takes some memory before its work and keeps it, so that the same work gets
//! other pages and other places in slabs, and clock ticks interrupt it at other places.

use fsarena_core::schedule::mix;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Result, Write};
use std::path::Path;

/// The directory in a guest for the files that occupy memory. It is in memory itself.
pub const LAYOUT_DIR: &str = "/fsarena-layout";

/// The memory that a guest occupies until it ends. Each number has three digits, so that every guest reads the same
/// number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLayout {
    /// The number of pages of memory.
    #[serde(rename = "pages")]
    pub page_count: u64,
    /// The number of empty files. Each takes an inode and a directory entry, in slabs of the kernel.
    #[serde(rename = "files")]
    pub file_count: u64,
}

impl MemoryLayout {
    /// The layout of every guest in a run with a fixed layout.
    pub const FIXED: MemoryLayout = MemoryLayout { page_count: 100, file_count: 100 };

    /// Draws a layout. Equal keys draw equal layouts: a key has the seed of the round and the workload, so that all variants of
    /// a round have the same layout.
    pub fn draw(key: &str) -> MemoryLayout {
        let seed = key.bytes().fold(0, |seed, byte| mix(seed, byte.into()));
        let draw = |number| 100 + mix(seed, number) % 900;
        MemoryLayout { page_count: draw(0), file_count: draw(1) }
    }

    /// Occupies the memory, for as long as the guest runs.
    ///
    /// # Errors
    /// A file cannot be made below `dir`.
    pub fn occupy(self, dir: &Path) -> Result<()> {
        std::fs::create_dir(dir)?;
        let mut pages = File::create(dir.join("pages"))?;
        (0..self.page_count).try_for_each(|_| pages.write_all(&[0; 4096]))?;
        (0..self.file_count).try_for_each(|number| File::create(dir.join(format!("{number:03}"))).map(drop))
    }
}

/// The size of the part of the heap that [`keep_heap_resident`] makes resident, in bytes. A task of the load engine takes some
/// 400 KB from the heap.
const RESIDENT_HEAP_BYTES: usize = 8 << 20;

/// Makes a part of the heap of this process resident for as long as it runs, so that fsarena's own memory costs a task no page
/// faults. They would be counted as instructions of the kernel, and whether they occur would depend on the state of the heap
/// when the task begins: glibc returns memory to the kernel only if nothing else lies above it.
pub fn keep_heap_resident() {
    #[cfg(target_env = "gnu")]
    // SAFETY: these calls only set limits of the allocator.
    unsafe {
        // One heap for all threads, which has room for large blocks too and never shrinks.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 32 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
    std::hint::black_box(vec![1_u8; RESIDENT_HEAP_BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_keys_draw_equal_layouts() {
        let layout = MemoryLayout::draw("0123456789abcdef");
        assert_eq!(layout, MemoryLayout::draw("0123456789abcdef"));
        assert_ne!(layout, MemoryLayout::draw("0123456789abcdee"));
        let layouts: Vec<MemoryLayout> = (0..1000).map(|key| MemoryLayout::draw(&key.to_string())).collect();
        let pages: Vec<u64> = layouts.iter().map(|layout| layout.page_count).collect();
        let files: Vec<u64> = layouts.iter().map(|layout| layout.file_count).collect();
        for counts in [pages, files] {
            assert!(counts.iter().all(|count| (100..1000).contains(count)));
            let mean = counts.iter().sum::<u64>() / 1000;
            assert!((510..590).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn memory_is_occupied_by_files() {
        let dir = tempfile::tempdir().unwrap();
        let layout_dir = dir.path().join("layout_dir");
        MemoryLayout { page_count: 3, file_count: 2 }.occupy(&layout_dir).unwrap();
        assert_eq!(layout_dir.join("pages").metadata().unwrap().len(), 3 * 4096);
        assert_eq!(std::fs::read_dir(layout_dir).unwrap().count(), 3);
    }
}
