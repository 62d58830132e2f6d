//! Measures the layout of a mounted filesystem: how the files lie on the device, and how the free space is divided into
//! extents.
//!
//! Cells of plans that name the age or the fullness of filesystems measure it before and after their tasks.

use crate::axes::fill::FILL_DIR;
use crate::bench::{Bench, lifecycle_task};
use crate::error::CellResult;
use crate::protocol::MountRequest;
use crate::target::{mount, sync_all, unmount};
use fsarena_core::cell::{Cell, TaskInfo, Variant};
use fsarena_core::event::{Activity, CellEvent, Note, NoteKind, Phase};
use fsarena_core::metric::reading::{
    DYNAMIC_LAYOUT_SCORE, EXTENTS_PER_FILE, FILES_WITH_EXTENTS, FREE_EXTENT_CLASSES, FREE_EXTENTS, LARGEST_FREE_EXTENT,
    LAYOUT_AFTER, LAYOUT_BEFORE, LAYOUT_SCORE,
};
use fsarena_core::plan::Plan;
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{factor, matrix, schedule};
use fsarena_sys::extents::{EXTENT_ENCODED, EXTENT_INLINE, EXTENT_TAIL, EXTENT_UNPLACED, Extent, extents_of};
use fsarena_sys::free_space::free_extents;
use rustix::io::Errno;
use std::fs::{DirEntry, File, read_dir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// With more files than this, only directories with about this many files are read.
const MAX_FILES: u64 = 20_000;
/// The search for files ends after this many names.
const MAX_NAMES: u64 = 1_000_000;

/// Directories whose files are left out of the layout. The files of [`FILL_DIR`] only fill the filesystem: fsarena
/// writes them in one go before the work.
const IGNORED_DIRS: [&str; 2] = [FILL_DIR, "lost+found"];

/// Whether the cells of a plan measure the layout: only if the plan names the factor `age` or `fill`.
pub fn is_measured(plan: &Plan) -> bool {
    let has_age_or_fill =
        |variant: &Variant| [factor::AGE, factor::FILL].iter().any(|id| variant.levels.contains_key(*id));
    matrix::expand(plan).iter().any(has_age_or_fill)
}

/// The tasks that measure the layout before and after the work of a cell.
pub fn layout_tasks() -> [TaskInfo; 2] {
    [lifecycle_task(LAYOUT_BEFORE, "Layout before the work"), lifecycle_task(LAYOUT_AFTER, "Layout after the work")]
}

/// Measures the layout before the tasks of a cell, and mounts the filesystem again, so that its caches are cold.
///
/// # Errors
/// If the filesystem cannot be synced, unmounted or mounted.
pub fn measure_before(cell: &Cell, request: &MountRequest, bench: &mut Bench) -> CellResult {
    measure_layout(cell, request, &layout_tasks()[0], bench)?;
    if !request.is_volatile() {
        unmount(request, &mut bench.log())?;
        mount(request, &mut bench.log())?;
    }
    Ok(())
}

/// Measures the layout after the tasks of a cell.
///
/// # Errors
/// If the filesystem cannot be synced.
pub fn measure_after(cell: &Cell, request: &MountRequest, bench: &mut Bench) -> CellResult {
    measure_layout(cell, request, &layout_tasks()[1], bench)
}

/// Measures the layout of a mounted filesystem, and emits the sample of the task `info`.
fn measure_layout(cell: &Cell, request: &MountRequest, info: &TaskInfo, bench: &mut Bench) -> CellResult {
    let MountRequest { target, fs_type, .. } = request;
    bench.emit(CellEvent::Phase { name: Phase::Task(info.id.to_string()) });
    let started = Instant::now();
    let started_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    sync_all(&[target.as_path()]).map_err(fsarena_sys::Error::io("syncing", target))?;
    let mut readings = Readings::default();
    let unavailable =
        |text: String| Note::new(NoteKind::Unavailable, text).variant(&cell.variant.name).task(&info.title);
    let tree = FileTree::list(target);
    let sampled = tree.sample(cell.seed);
    let mut tally = LayoutTally::new(block_bytes(target));
    match tally.add_directories(&sampled) {
        Ok(()) => tally.set_readings(&mut readings),
        Err(_) => bench.note(unavailable(format!("the kernel has no FIEMAP for {fs_type}"))),
    }
    if tree.files > MAX_FILES {
        let qualifier = if tree.is_incomplete { "more than " } else { "" };
        let text = format!(
            "the layout is that of whole directories at random with about {MAX_FILES} files, of {qualifier}{} files",
            tree.files
        );
        bench.note(unavailable(text));
    }
    if tally.encoded_files > 0 {
        let text = "the scores leave out files with compressed data: their extents do not show how long they are on the device";
        bench.note(unavailable(text.into()));
    }
    match File::open(target).and_then(|dir| Ok(free_extents(&dir)?)) {
        Ok(free) => set_free_space(&free, &mut readings),
        Err(_) => bench
            .note(unavailable(format!("the pieces of free space are not offered by {fs_type} in this arrangement"))),
    }
    bench.emit(CellEvent::Sample(Sample {
        task: info.clone(),
        started_at,
        readings,
        series: vec![],
        latencies: Default::default(),
    }));
    bench.record_time(Activity::Lifecycle, started.elapsed());
    Ok(())
}

/// The size of a block of a filesystem; 4096 bytes if the kernel does not report one.
fn block_bytes(target: &Path) -> u64 {
    rustix::fs::statvfs(target).map_or(4096, |space| space.f_frsize.max(1))
}

/// The directories of a filesystem, in the order of a recursive search.
struct FileTree {
    /// Each directory, with the number of files directly in it.
    directories: Vec<(PathBuf, u64)>,
    /// The number of files in all directories.
    files: u64,
    /// Whether the search ended after [`MAX_NAMES`] names.
    is_incomplete: bool,
}

impl FileTree {
    /// Lists the directories of the filesystem that is mounted at `root`. Leaves out what it cannot read.
    fn list(root: &Path) -> FileTree {
        let mut tree = FileTree { directories: vec![], files: 0, is_incomplete: false };
        let device = |path: &Path| path.symlink_metadata().map_or(0, |meta| meta.dev());
        let (own_device, mut name_count, mut unlisted) = (device(root), 0, vec![root.to_path_buf()]);
        while let Some(directory) = unlisted.pop() {
            let (mut files, mut subdirectories) = (0, vec![]);
            for entry in entries(&directory) {
                name_count += 1;
                let is_ignored = directory == root && IGNORED_DIRS.iter().any(|name| entry.file_name() == *name);
                match entry.file_type() {
                    Ok(kind) if kind.is_file() => files += 1,
                    Ok(kind) if kind.is_dir() && !is_ignored && device(&entry.path()) == own_device => {
                        subdirectories.push(entry.path());
                    }
                    _ => {}
                }
            }
            tree.files += files;
            tree.directories.push((directory, files));
            unlisted.extend(subdirectories.into_iter().rev());
            if name_count > MAX_NAMES {
                tree.is_incomplete = true;
                break;
            }
        }
        tree
    }

    /// All directories, or if they have more than [`MAX_FILES`] files, random ones with about that many files, in their
    /// order.
    fn sample(&self, seed: u64) -> Vec<&Path> {
        let mut indices: Vec<usize> = (0..self.directories.len()).collect();
        if self.files > MAX_FILES {
            indices.sort_by_key(|index| schedule::mix(seed, *index as u64));
            let mut files = 0;
            indices.retain(|index| {
                let is_chosen = files < MAX_FILES;
                files += if is_chosen { self.directories[*index].1 } else { 0 };
                is_chosen
            });
            indices.sort_unstable();
        }
        indices.into_iter().map(|index| self.directories[index].0.as_path()).collect()
    }
}

/// The entries of a directory; none if it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    read_dir(directory).into_iter().flatten().flatten()
}

/// Blocks that have a predecessor: the block before them in their file, or the last block of the file before.
#[derive(Default, Clone, Copy)]
struct BlockCount {
    blocks: u64,
    /// Those of the blocks that lie directly behind their predecessor on the device.
    contiguous: u64,
}

impl BlockCount {
    /// Sets a reading to the share of contiguous blocks. Does nothing without blocks.
    fn set_share(self, id: &str, readings: &mut Readings) {
        if self.blocks > 0 {
            readings.set(id, self.contiguous as f64 / self.blocks as f64);
        }
    }
}

/// Counts how the blocks of files, read one file after another, follow each other on the device.
#[derive(Default)]
struct LayoutTally {
    block_bytes: u64,
    /// The number of files that count.
    files: u64,
    /// The number of files with compressed data. They do not count.
    encoded_files: u64,
    /// The number of contiguous pieces of all files.
    pieces: u64,
    /// The blocks of files except the first block of each.
    inner_blocks: BlockCount,
    /// The first blocks of the files except the first file.
    first_blocks: BlockCount,
    /// The end of the last block of the file before, in bytes on the device.
    previous_end: Option<u64>,
}

impl LayoutTally {
    fn new(block_bytes: u64) -> LayoutTally {
        LayoutTally { block_bytes, ..LayoutTally::default() }
    }

    /// Adds the files of these directories, at most about twice [`MAX_FILES`].
    ///
    /// # Errors
    /// The filesystem has no FIEMAP.
    fn add_directories(&mut self, directories: &[&Path]) -> Result<(), Errno> {
        for directory in directories {
            for entry in entries(directory).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
                let Ok(file) = File::open(entry.path()) else { continue };
                match extents_of(&file) {
                    Ok(extents) => self.add_file(&extents),
                    Err(error @ (Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL)) => return Err(error),
                    Err(_) => {}
                }
                if self.files > 2 * MAX_FILES {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds a file with these extents. A file does not count if some of its data has no blocks of its own, or is
    /// compressed, so that its extents do not show how long the data is on the device.
    fn add_file(&mut self, extents: &[Extent]) {
        self.encoded_files += u64::from(extents.iter().any(|extent| extent.flags & EXTENT_ENCODED != 0));
        let is_not_countable =
            |extent: &Extent| extent.flags & (EXTENT_INLINE | EXTENT_TAIL | EXTENT_UNPLACED | EXTENT_ENCODED) != 0;
        if extents.is_empty() || extents.iter().any(is_not_countable) {
            return;
        }
        let breaks = extents.windows(2).filter(|two| two[0].physical + two[0].length != two[1].physical).count();
        let blocks: u64 = extents.iter().map(|extent| extent.length.div_ceil(self.block_bytes)).sum();
        self.files += 1;
        self.pieces += breaks as u64 + 1;
        self.inner_blocks.blocks += blocks - 1;
        self.inner_blocks.contiguous += blocks - 1 - breaks as u64;
        let last = extents[extents.len() - 1];
        if let Some(end) = self.previous_end.replace(last.physical + last.length) {
            self.first_blocks.blocks += 1;
            self.first_blocks.contiguous += u64::from(end == extents[0].physical);
        }
    }

    /// Sets the readings of the files.
    fn set_readings(&self, readings: &mut Readings) {
        let all_blocks = BlockCount {
            blocks: self.inner_blocks.blocks + self.first_blocks.blocks,
            contiguous: self.inner_blocks.contiguous + self.first_blocks.contiguous,
        };
        self.inner_blocks.set_share(LAYOUT_SCORE, readings);
        all_blocks.set_share(DYNAMIC_LAYOUT_SCORE, readings);
        readings.set(FILES_WITH_EXTENTS, self.files as f64);
        if self.files > 0 {
            readings.set(EXTENTS_PER_FILE, self.pieces as f64 / self.files as f64);
        }
    }
}

/// Sets the readings of free space from the sizes of all free extents, in bytes.
fn set_free_space(extent_bytes: &[u64], readings: &mut Readings) {
    readings.set(FREE_EXTENTS, extent_bytes.len() as f64);
    readings.set(LARGEST_FREE_EXTENT, extent_bytes.iter().copied().max().unwrap_or(0) as f64);
    let mut min_bytes = 0;
    for (id, end, _) in FREE_EXTENT_CLASSES {
        let of_class = extent_bytes.iter().filter(|bytes| (min_bytes..end).contains(*bytes));
        readings.set(id, of_class.sum::<u64>() as f64);
        min_bytes = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(physical: u64, blocks: u64, flags: u32) -> Extent {
        Extent::new(0, 4096 * physical, 4096 * blocks, flags)
    }

    #[test]
    fn layout_scores_match_values_computed_by_hand() {
        let mut tally = LayoutTally::new(4096);
        // Blocks 10 to 13 in two extents that touch, then 20: one break among 4 followers.
        tally.add_file(&[extent(10, 2, 0), extent(12, 2, 0), extent(20, 1, 0)]);
        // This file begins where the file before ended.
        tally.add_file(&[extent(21, 3, 0)]);
        tally.add_file(&[extent(50, 1, 0)]);
        tally.add_file(&[extent(60, 1, EXTENT_INLINE)]);
        tally.add_file(&[extent(51, 9, EXTENT_ENCODED)]);
        tally.add_file(&[]);
        let mut readings = Readings::default();
        tally.set_readings(&mut readings);
        let value = |id: &str| readings.get(id).unwrap();
        assert_eq!((value(FILES_WITH_EXTENTS), value(EXTENTS_PER_FILE), tally.encoded_files), (3.0, 4.0 / 3.0, 1));
        assert_eq!((value(LAYOUT_SCORE), value(DYNAMIC_LAYOUT_SCORE)), (5.0 / 6.0, 6.0 / 8.0));
    }

    #[test]
    fn free_space_is_counted_by_the_size_of_its_pieces() {
        let mut readings = Readings::default();
        set_free_space(&[4096, 65535, 65536, 1 << 20, 300 << 20], &mut readings);
        let classes = FREE_EXTENT_CLASSES.map(|(id, ..)| readings.get(id).unwrap());
        assert_eq!(classes, [69631.0, 65536.0, 1048576.0, 0.0, 314572800.0]);
        assert_eq!((readings.get(FREE_EXTENTS), readings.get(LARGEST_FREE_EXTENT)), (Some(5.0), Some(314572800.0)));
        set_free_space(&[], &mut readings);
        assert_eq!(readings.get(LARGEST_FREE_EXTENT), Some(0.0));
    }

    #[test]
    fn a_tree_is_listed_without_the_directory_fill() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["aged/a", "aged/b", "fill/0"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
            std::fs::write(dir.path().join(path).join("file"), "x").unwrap();
        }
        let tree = FileTree::list(dir.path());
        assert_eq!((tree.files, tree.directories.len(), tree.is_incomplete), (2, 4, false));
        assert_eq!(tree.sample(1).len(), 4);
        let large = FileTree { files: 3 * MAX_FILES, ..tree };
        let directories = ["a", "b", "c"].map(|name| (PathBuf::from(name), MAX_FILES)).to_vec();
        assert_eq!(FileTree { directories, ..large }.sample(1).len(), 1);
    }
}
