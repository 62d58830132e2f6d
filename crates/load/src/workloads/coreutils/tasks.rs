//! The 21 tasks of the workload `coreutils` in the order in which they run: where their files are, how many and how large
//! they are, and the largest space that they take at one time.

use crate::source::{TreeSize, generated_files};
use crate::workload::{Job, Place, Room};
use crate::{program::Op, tree::TOP};
use FileGroup::{Big, Dirs, Files, Input, Nothing, Tarball, Tree};
use std::{collections::BTreeSet, ops::Add};

/// Name of the archive that all cells share on the source disk, and of its copy on the filesystem under test.
pub const TARBALL: &str = "tree.tar";
/// Name of the large file, which has 1 GiB at scale paper.
const BIG_FILE: &str = "big";
/// Name of the file that is split.
pub const SMALL_FILE: &str = "small";

/// The counts and sizes at the scale of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Files that are touched.
    pub files: u64,
    /// Directories that are made.
    pub directories: u64,
    /// Files of the generated tree, or `None` for a real tree.
    pub tree_files: Option<u64>,
    /// Copies of the archive.
    pub copies: u64,
    /// Mebibytes of the large file.
    pub big_mebibytes: u64,
    /// Bytes of the file that is split.
    pub small_bytes: u64,
}

impl Sizes {
    /// The sizes at the scale of a job.
    pub fn from_job(job: &Job) -> Sizes {
        let scale = job.scale;
        Sizes {
            files: scale.count(10_000, 20),
            directories: scale.count(10_000, 20),
            tree_files: job.settings.text("tree").is_empty().then(|| generated_files(job)),
            copies: 10,
            big_mebibytes: scale.count(1024, 1),
            small_bytes: scale.count(10 << 20, 32 << 10),
        }
    }
}

/// Files that a task needs or makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileGroup {
    /// No files that another task needs.
    Nothing,
    /// The archive on the source disk, which exists from the start.
    Input,
    /// The touched files.
    Files,
    /// The empty directories.
    Dirs,
    /// The archive on the filesystem under test.
    Tarball,
    /// The unpacked tree.
    Tree,
    /// The large file.
    Big,
    /// The file that is split. No task makes it; fsarena writes it untimed.
    Small,
}

/// One of the 21 tasks.
pub struct TaskDef {
    /// Its published number.
    pub number: i64,
    /// Its name.
    pub id: &'static str,
    /// The files it requires.
    pub needs: FileGroup,
    /// Whether the task removes the files that it requires.
    pub uses_up: bool,
    /// The files it makes.
    pub makes: FileGroup,
    /// Its title in reports; a word in braces stands for one of the [`Sizes`].
    title: &'static str,
    /// Its operation.
    pub op: fn(&Place, &Sizes) -> Op,
}

const fn task(
    number: i64,
    id: &'static str,
    needs: FileGroup,
    makes: FileGroup,
    title: &'static str,
    op: fn(&Place, &Sizes) -> Op,
) -> TaskDef {
    TaskDef { number, id, needs, uses_up: false, makes, title, op }
}

/// Marks a task that removes the files that it requires.
const fn using_up(task: TaskDef) -> TaskDef {
    TaskDef { uses_up: true, ..task }
}

/// All tasks in the order in which they run. The order is by number, except that the tree is copied (020) before it is
/// removed (011). The author ran 020 later and unpacked the tree a second time for it, untimed.
pub const TASKS: &[TaskDef] = &[
    task(1, "touch", Nothing, Files, "Touch {files} files", |at, sizes| {
        Op::Touch(at.root.join("files"), sizes.files)
    }),
    task(2, "find-files", Files, Nothing, "Find {files} files", |at, _| Op::Find(at.root.join("files"))),
    using_up(task(3, "rm-files", Files, Nothing, "Remove {files} files", |at, _| {
        Op::Remove(at.root.join("files"))
    })),
    task(4, "mkdir", Nothing, Dirs, "Make {directories} directories", |at, sizes| {
        Op::MakeDirs(at.root.join("dirs"), sizes.directories)
    }),
    task(5, "find-dirs", Dirs, Nothing, "Find {directories} directories", |at, _| {
        Op::Find(at.root.join("dirs"))
    }),
    using_up(task(6, "rm-dirs", Dirs, Nothing, "Remove {directories} directories", |at, _| {
        Op::Remove(at.root.join("dirs"))
    })),
    task(7, "copy-in", Input, Tarball, "Copy tarball from other to current disk", |at, _| {
        Op::Copy(at.other.join(TARBALL), at.root.join(TARBALL))
    }),
    task(8, "copy-out", Tarball, Nothing, "Copy tarball from current to other disk", |at, _| {
        Op::Copy(at.root.join(TARBALL), at.other.join("tree-copied-out.tar"))
    }),
    task(9, "untar", Tarball, Tree, "Untar the tree{tree}", |at, _| {
        Op::Untar(at.root.join(TARBALL), at.root.clone())
    }),
    task(10, "tar", Tree, Nothing, "Tar the tree{tree}", |at, _| {
        Op::Tar(at.root.join("tree-again.tar"), at.root.clone(), TOP)
    }),
    task(20, "copy-tree", Tree, Nothing, "Copy the tree{tree}", |at, _| {
        Op::CopyTree(at.root.join(TOP), at.root.join("tree-copy"))
    }),
    using_up(task(11, "rm-tree", Tree, Nothing, "Remove the tree{tree}", |at, _| {
        Op::Remove(at.root.join(TOP))
    })),
    task(12, "copy-10", Tarball, Nothing, "Copy the tarball {copies} times", |at, sizes| {
        Op::CopyInto(at.root.join(TARBALL), at.root.join("copies"), sizes.copies)
    }),
    task(13, "create", Nothing, Big, "Create a {big} file", |at, sizes| {
        Op::Create(at.root.join(BIG_FILE), sizes.big_mebibytes)
    }),
    task(14, "copy-file", Big, Nothing, "Copy a {big} file", |at, _| {
        Op::Copy(at.root.join(BIG_FILE), at.root.join("big-copy"))
    }),
    split::<1000>(15, "split-1000", "Split a {small} file into 1000-byte pieces"),
    split::<1024>(16, "split-1024", "Split a {small} file into 1024-byte pieces"),
    split::<2048>(17, "split-2048", "Split a {small} file into 2048-byte pieces"),
    split::<4096>(18, "split-4096", "Split a {small} file into 4096-byte pieces"),
    split::<8192>(19, "split-8192", "Split a {small} file into 8192-byte pieces"),
    task(21, "cat", Big, Nothing, "Cat a {big} file to /dev/null", |at, _| Op::Cat(at.root.join(BIG_FILE))),
];

/// Splits the small file into pieces of `PIECE` bytes.
const fn split<const PIECE: u64>(number: i64, id: &'static str, title: &'static str) -> TaskDef {
    task(number, id, FileGroup::Small, Nothing, title, |at, _| {
        Op::Split(at.root.join(SMALL_FILE), PIECE, at.root.join(format!("split-{PIECE}")))
    })
}

impl TaskDef {
    /// Its title in reports.
    pub fn title(&self, sizes: &Sizes) -> String {
        let tree =
            sizes.tree_files.map_or(String::new(), |files| format!(" of {} files", format_count(files)));
        let words = [
            ("{files}", format_count(sizes.files)),
            ("{directories}", format_count(sizes.directories)),
            ("{tree}", tree),
            ("{copies}", sizes.copies.to_string()),
            ("{big}", format_bytes(sizes.big_mebibytes << 20)),
            ("{small}", format_bytes(sizes.small_bytes)),
        ];
        words.iter().fold(self.title.into(), |title, (word, size)| title.replace(word, size))
    }
}

/// The task that makes these files, or `None` if they exist from the start or no task makes them.
pub fn maker_of(thing: FileGroup) -> Option<&'static TaskDef> {
    TASKS.iter().find(|task| task.makes == thing && thing != FileGroup::Nothing)
}

/// The given tasks, followed by the tasks that make the files that they need.
pub fn with_suppliers(tasks: &[&'static TaskDef]) -> Vec<&'static TaskDef> {
    let mut all = tasks.to_vec();
    let mut next = 0;
    while let Some(task) = all.get(next) {
        if let Some(maker) = maker_of(task.needs)
            && all.iter().all(|task| task.number != maker.number)
        {
            all.push(maker);
        }
        next += 1;
    }
    all
}

/// Formats a number with thousands separators, such as `10,000`.
fn format_count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        _ => format!("{},{:03}", format_count(number / 1000), number % 1000),
    }
}

/// Formats a size in the largest unit without a fraction, such as `1 GiB` or `320 KiB`.
fn format_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{} B", format_count(bytes)),
    }
}

/// The space of files on a filesystem: bytes of whole blocks, and number of inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Usage {
    bytes: u64,
    inodes: u64,
}

impl Add for Usage {
    type Output = Usage;
    fn add(self, other: Usage) -> Usage {
        Usage { bytes: self.bytes + other.bytes, inodes: self.inodes + other.inodes }
    }
}

/// The largest space that the tasks take at one time, with the files that untimed work makes for them.
pub fn room_needed(tasks: &[&'static TaskDef], sizes: &Sizes, contents: &TreeSize) -> Room {
    let space = |task: &TaskDef| space_left_by(task, sizes, contents);
    let mut present = BTreeSet::from([FileGroup::Nothing, FileGroup::Input]);
    // At first only the root directory exists.
    let mut now = directory(30);
    let mut peak = now;
    for task in tasks {
        let mut missing = task.needs;
        while present.insert(missing) {
            let maker = maker_of(missing);
            // No task makes the file that is split.
            now = now + maker.map_or(file(sizes.small_bytes), space);
            missing = maker.map_or(FileGroup::Nothing, |maker| maker.needs);
        }
        present.insert(task.makes);
        now = now + space(task);
        peak = Usage { bytes: peak.bytes.max(now.bytes), inodes: peak.inodes.max(now.inodes) };
        if task.uses_up {
            present.remove(&task.needs);
            let freed = maker_of(task.needs).map_or(Usage::default(), space);
            now = Usage { bytes: now.bytes - freed.bytes, inodes: now.inodes - freed.inodes };
        }
    }
    // On the source disk are the archive, the copy of it that copy-out makes, and the note of the archive's source.
    Room { bytes: peak.bytes, inodes: peak.inodes, other_bytes: 2 * blocks(contents.archive_bytes) + 4096 }
}

/// The space of the files that a task leaves on the filesystem under test.
fn space_left_by(task: &TaskDef, sizes: &Sizes, contents: &TreeSize) -> Usage {
    let archive = file(contents.archive_bytes);
    let inodes = contents.files + contents.directories + contents.links;
    // The paths are placeholders; the space depends only on the kind of operation.
    let at = Place { root: "/root".into(), other: "/other".into(), server_user: None };
    match (task.op)(&at, sizes) {
        Op::Touch(_, count) => directory(count) + times(file(0), count),
        Op::MakeDirs(_, count) => directory(count) + times(file(4096), count),
        Op::Copy(_, to) if to.starts_with(&at.other) => Usage::default(),
        Op::Copy(..) if task.needs == FileGroup::Big => file(sizes.big_mebibytes << 20),
        Op::Copy(..) | Op::Tar(..) => archive,
        Op::CopyInto(_, _, count) => directory(count) + times(archive, count),
        Op::Untar(..) | Op::CopyTree(..) => Usage { bytes: contents.unpacked_bytes() + 64 * inodes, inodes },
        Op::Create(_, mebibytes) => file(mebibytes << 20),
        Op::Split(_, piece, _) => {
            let count = sizes.small_bytes.div_ceil(piece);
            directory(count) + times(file(piece), count)
        }
        Op::Find(_) | Op::Remove(_) | Op::Cat(_) => Usage::default(),
    }
}

/// Rounds a size up to blocks of 4 KiB.
fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

/// The space of a file.
fn file(bytes: u64) -> Usage {
    Usage { bytes: blocks(bytes), inodes: 1 }
}

/// The space of a directory with `entries` entries of at most 64 bytes each.
fn directory(entries: u64) -> Usage {
    Usage { bytes: blocks(64 * entries.max(1)), inodes: 1 }
}

fn times(usage: Usage, count: u64) -> Usage {
    Usage { bytes: usage.bytes * count, inodes: usage.inodes * count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_21_tasks_are_in_order_except_that_the_tree_is_copied_before_its_removal() {
        let mut numbers: Vec<_> = TASKS.iter().map(|task| task.number).collect();
        let copy = numbers.iter().position(|number| *number == 20).unwrap();
        assert_eq!(numbers[copy + 1], 11);
        numbers.remove(copy);
        assert_eq!(numbers, (1..=21).filter(|number| *number != 20).collect::<Vec<_>>());
    }

    #[test]
    fn the_suppliers_of_suppliers_are_included() {
        let rm_tree = TASKS.iter().find(|task| task.id == "rm-tree").unwrap();
        let ids: Vec<_> = with_suppliers(&[rm_tree]).iter().map(|task| task.id).collect();
        assert_eq!(ids, ["rm-tree", "untar", "copy-in"]);
    }

    #[test]
    fn counts_have_separators_and_sizes_the_largest_exact_unit() {
        assert_eq!([7, 313, 10_000, 1_000_000].map(format_count), ["7", "313", "10,000", "1,000,000"]);
        assert_eq!(
            [1 << 30, 32 << 20, 327_680, 1000].map(format_bytes),
            ["1 GiB", "32 MiB", "320 KiB", "1,000 B"]
        );
    }

    const SIZES: Sizes = Sizes {
        files: 100,
        directories: 50,
        tree_files: Some(10),
        copies: 10,
        big_mebibytes: 1,
        small_bytes: 10_000,
    };

    const CONTENTS: TreeSize = TreeSize {
        files: 10,
        directories: 2,
        links: 0,
        left_out: 0,
        block_bytes: 100 << 10,
        archive_bytes: 102_400,
    };

    fn room_of(numbers: &[i64]) -> Room {
        let tasks: Vec<_> = TASKS.iter().filter(|task| numbers.contains(&task.number)).collect();
        room_needed(&tasks, &SIZES, &CONTENTS)
    }

    #[test]
    fn removed_files_free_their_space() {
        // Root, directory, 100 files: then root, directory, 50 directories.
        assert_eq!(room_of(&[1, 2, 3, 4, 5, 6]).inodes, 1 + 1 + 100);
        assert_eq!(room_of(&[1, 2, 3, 4, 5, 6]).bytes, 4096 + 4096 + 50 * 4096);
        assert_eq!(room_of(&[1, 4]).inodes, 1 + 101 + 51);
    }

    #[test]
    fn files_from_tasks_that_were_not_chosen_count() {
        // Root, archive, tree (100 KiB in blocks, two directories, 12 entries of 64 bytes).
        let tree = (100 << 10) + 2 * 4096 + 12 * 64;
        assert_eq!(room_of(&[11]).bytes, 4096 + 102_400 + tree);
        assert_eq!(room_of(&[11]).inodes, 1 + 1 + 12);
        assert_eq!(room_of(&[9, 11]), room_of(&[11]));
    }

    #[test]
    fn the_pieces_of_a_split_file_take_whole_blocks() {
        // 10 pieces of 1000 bytes: 10 blocks, their directory, the file of three blocks, the root.
        assert_eq!(room_of(&[15]).bytes, 4096 * (10 + 1 + 3 + 1));
        assert_eq!(room_of(&[15]).inodes, 10 + 1 + 1 + 1);
    }
}
