//! Measures how the files of a mounted filesystem lie on its device, and in which pieces its free space is.
//!
//! Cells of runs that vary the age or the fullness have these figures before and after their tasks.

use crate::bench::{Bench, lifecycle_task};
use crate::error::CellResult;
use crate::protocol::MountRequest;
use crate::target::{mount, sync_all, unmount};
use fsarena_core::cell::{Cell, TaskInfo, Variant};
use fsarena_core::event::{CellEvent, Note, NoteKind, Phase, SpentOn};
use fsarena_core::metric::layout::{
    AFTER, BEFORE, DYNAMIC_SCORE, EXTENTS_PER_FILE, FILES, FREE_CLASSES, FREE_EXTENTS, LARGEST_FREE, LAYOUT_SCORE,
};
use fsarena_core::plan::Plan;
use fsarena_core::sample::{Readings, Sample};
use fsarena_core::{factor, matrix, schedule};
use fsarena_sys::extents::{ENCODED, Extent, INLINE, TAIL, UNPLACED, extents_of};
use fsarena_sys::free_space::free_extents;
use rustix::io::Errno;
use std::fs::{DirEntry, File, read_dir};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

/// The most files whose extents are read, and the most names that are listed to find them.
const MAX_FILES: u64 = 20_000;
const MAX_NAMES: u64 = 1_000_000;

/// The files that fill a filesystem are no part of its layout: fsarena writes them at once before the work.
const IGNORED_DIRS: [&str; 2] = ["fill", "lost+found"];

/// Whether the cells of a plan have the layout: those of a plan that names the age or the fullness.
pub fn is_measured(plan: &Plan) -> bool {
    let varies_layout =
        |variant: &Variant| [factor::AGE, factor::FILL].iter().any(|id| variant.levels.contains_key(*id));
    matrix::expand(plan).iter().any(varies_layout)
}

/// The tasks whose samples have the layout before and after the work of a cell.
pub fn layout_tasks() -> [TaskInfo; 2] {
    [lifecycle_task(BEFORE, "Layout before the work"), lifecycle_task(AFTER, "Layout after the work")]
}

/// Measures the layout before the tasks of a cell, and mounts the filesystem again, so that its caches are cold.
///
/// # Errors
/// If the filesystem cannot be synced, unmounted or mounted.
pub fn measure_before(cell: &Cell, request: &MountRequest, bench: &mut Bench) -> CellResult {
    measure(cell, &request.target, &layout_tasks()[0], bench)?;
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
pub fn measure_after(cell: &Cell, target: &Path, bench: &mut Bench) -> CellResult {
    measure(cell, target, &layout_tasks()[1], bench)
}

fn measure(cell: &Cell, target: &Path, info: &TaskInfo, bench: &mut Bench) -> CellResult {
    bench.emit(CellEvent::Phase { name: Phase::Task(info.id.to_string()) });
    let begun = Instant::now();
    let started_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    sync_all(&[target]).map_err(fsarena_sys::Error::io("syncing", target))?;
    let mut readings = Readings::default();
    let note = |text: String| Note::new(NoteKind::Unavailable, text).variant(&cell.variant.name).task(&info.title);
    let tree = FileTree::list(target);
    let sampled = tree.sample(cell.seed);
    let mut tally = LayoutTally::new(block_bytes(target));
    match tally.read(&sampled) {
        Ok(()) => tally.set(&mut readings),
        Err(_) => bench.note(note(format!("the kernel has no FIEMAP for {}", cell.variant.level(factor::FS)))),
    }
    if tree.files > MAX_FILES {
        let more = if tree.is_incomplete { "more than " } else { "" };
        let text = format!(
            "the layout is that of whole directories at random with about {MAX_FILES} files, of {more}{} files",
            tree.files
        );
        bench.note(note(text));
    }
    if tally.encoded > 0 {
        let text = "the scores leave out files with compressed data: their extents do not show how long they are on the device";
        bench.note(note(text.into()));
    }
    match File::open(target).and_then(|dir| Ok(free_extents(&dir)?)) {
        Ok(free) => set_free_space(&free, &mut readings),
        Err(_) => bench.note(note(format!(
            "the pieces of free space are not offered by {} in this arrangement",
            cell.variant.level(factor::FS)
        ))),
    }
    bench.emit(CellEvent::Sample(Sample {
        task: info.clone(),
        started_at,
        readings,
        series: vec![],
        latencies: Default::default(),
    }));
    bench.record_time(SpentOn::Lifecycle, begun.elapsed());
    Ok(())
}

/// The size of a block of a filesystem; 4096 bytes if the kernel does not report one.
fn block_bytes(target: &Path) -> u64 {
    rustix::fs::statvfs(target).map_or(4096, |space| space.f_frsize.max(1))
}

/// The directories of a filesystem in the order of a recursive search.
struct FileTree {
    /// Each directory, with its number of files.
    directories: Vec<(PathBuf, u64)>,
    files: u64,
    /// Whether the list ends early, because there are too many names.
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
                let left_out = directory == root && IGNORED_DIRS.iter().any(|name| entry.file_name() == *name);
                match entry.file_type() {
                    Ok(kind) if kind.is_file() => files += 1,
                    Ok(kind) if kind.is_dir() && !left_out && device(&entry.path()) == own_device => {
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

    /// All directories, or some of them at random with about [`MAX_FILES`] files, in their order.
    fn sample(&self, seed: u64) -> Vec<&Path> {
        let mut numbers: Vec<usize> = (0..self.directories.len()).collect();
        if self.files > MAX_FILES {
            numbers.sort_by_key(|number| schedule::mix(seed, *number as u64));
            let mut files = 0;
            numbers.retain(|number| {
                let wanted = files < MAX_FILES;
                files += if wanted { self.directories[*number].1 } else { 0 };
                wanted
            });
            numbers.sort_unstable();
        }
        numbers.into_iter().map(|number| self.directories[number].0.as_path()).collect()
    }
}

fn entries(directory: &Path) -> impl Iterator<Item = DirEntry> {
    read_dir(directory).into_iter().flatten().flatten()
}

/// The extents of files, read one after the other.
#[derive(Default)]
struct LayoutTally {
    block_bytes: u64,
    files: u64,
    /// Files that do not count, because some of their data is compressed.
    encoded: u64,
    pieces: u64,
    /// Blocks that follow another one of the same file, and those of them that follow it on the device too.
    inner_blocks: (u64, u64),
    /// The first blocks of all files but the first one, and those of them that follow the last block of the file before.
    first_blocks: (u64, u64),
    /// Where the last block of the file before ends.
    previous_end: Option<u64>,
}

impl LayoutTally {
    fn new(block_bytes: u64) -> LayoutTally {
        LayoutTally { block_bytes, ..LayoutTally::default() }
    }

    /// Adds the files of these directories, at most twice [`MAX_FILES`].
    ///
    /// # Errors
    /// The filesystem has no FIEMAP.
    fn read(&mut self, directories: &[&Path]) -> Result<(), Errno> {
        for directory in directories {
            for entry in entries(directory).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file())) {
                let Ok(file) = File::open(entry.path()) else { continue };
                match extents_of(&file) {
                    Ok(extents) => self.add(&extents),
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

    /// Adds a file. Files whose data has no place of its own, or whose place does not show the length, do not count.
    fn add(&mut self, extents: &[Extent]) {
        self.encoded += u64::from(extents.iter().any(|extent| extent.flags & ENCODED != 0));
        let without_place = |extent: &Extent| extent.flags & (INLINE | TAIL | UNPLACED | ENCODED) != 0;
        if extents.is_empty() || extents.iter().any(without_place) {
            return;
        }
        let breaks = extents.windows(2).filter(|two| two[0].physical + two[0].length != two[1].physical).count();
        let blocks: u64 = extents.iter().map(|extent| extent.length.div_ceil(self.block_bytes)).sum();
        self.files += 1;
        self.pieces += breaks as u64 + 1;
        self.inner_blocks.0 += blocks - 1;
        self.inner_blocks.1 += blocks - 1 - breaks as u64;
        let last = extents[extents.len() - 1];
        if let Some(end) = self.previous_end.replace(last.physical + last.length) {
            self.first_blocks.0 += 1;
            self.first_blocks.1 += u64::from(end == extents[0].physical);
        }
    }

    fn set(&self, readings: &mut Readings) {
        let mut set_share = |id: &str, (all, following): (u64, u64)| {
            if all > 0 {
                readings.set(id, following as f64 / all as f64);
            }
        };
        set_share(LAYOUT_SCORE, self.inner_blocks);
        set_share(
            DYNAMIC_SCORE,
            (self.inner_blocks.0 + self.first_blocks.0, self.inner_blocks.1 + self.first_blocks.1),
        );
        readings.set(FILES, self.files as f64);
        if self.files > 0 {
            readings.set(EXTENTS_PER_FILE, self.pieces as f64 / self.files as f64);
        }
    }
}

/// Sets the readings of free space from the sizes of all free extents.
fn set_free_space(free: &[u64], readings: &mut Readings) {
    readings.set(FREE_EXTENTS, free.len() as f64);
    readings.set(LARGEST_FREE, free.iter().copied().max().unwrap_or(0) as f64);
    let mut min_bytes = 0;
    for (id, end, _) in FREE_CLASSES {
        let of_class = free.iter().filter(|bytes| (min_bytes..end).contains(*bytes));
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
        tally.add(&[extent(10, 2, 0), extent(12, 2, 0), extent(20, 1, 0)]);
        // Begins where the file before ended.
        tally.add(&[extent(21, 3, 0)]);
        tally.add(&[extent(50, 1, 0)]);
        tally.add(&[extent(60, 1, INLINE)]);
        tally.add(&[extent(51, 9, ENCODED)]);
        tally.add(&[]);
        let mut readings = Readings::default();
        tally.set(&mut readings);
        let of = |id: &str| readings.get(id).unwrap();
        assert_eq!((of(FILES), of(EXTENTS_PER_FILE), tally.encoded), (3.0, 4.0 / 3.0, 1));
        assert_eq!((of(LAYOUT_SCORE), of(DYNAMIC_SCORE)), (5.0 / 6.0, 6.0 / 8.0));
    }

    #[test]
    fn free_space_is_counted_by_the_size_of_its_pieces() {
        let mut readings = Readings::default();
        set_free_space(&[4096, 65535, 65536, 1 << 20, 300 << 20], &mut readings);
        let classes = FREE_CLASSES.map(|(id, ..)| readings.get(id).unwrap());
        assert_eq!(classes, [69631.0, 65536.0, 1048576.0, 0.0, 314572800.0]);
        assert_eq!((readings.get(FREE_EXTENTS), readings.get(LARGEST_FREE)), (Some(5.0), Some(314572800.0)));
        set_free_space(&[], &mut readings);
        assert_eq!(readings.get(LARGEST_FREE), Some(0.0));
    }

    #[test]
    fn a_tree_is_listed_without_the_files_that_fill_it() {
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
