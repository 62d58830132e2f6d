//! The 21 tasks, in the order in which they run.

use super::layout::{Layout, Sizes};
use crate::program::Op;
use crate::tree::TOP;

/// Something a task needs or makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// Nothing that matters to another task.
    Nothing,
    /// The archive on the other disk; there from the start.
    Input,
    /// The touched files.
    Files,
    /// The empty directories.
    Dirs,
    /// The archive on the filesystem under test.
    Tarball,
    /// The unpacked tree.
    Tree,
    /// The file of 1 GiB.
    Big,
    /// The file that is split; made untimed.
    Small,
}

/// One of the 21 tasks.
pub struct TaskDef {
    /// Its published number.
    pub number: i64,
    /// Its name.
    pub id: &'static str,
    /// The files it requires.
    pub needs: Thing,
    /// Whether the task removes them.
    pub uses_up: bool,
    /// The files it makes.
    pub makes: Thing,
    /// Its title in reports.
    pub title: fn(&Sizes) -> String,
    /// Its operation.
    pub op: fn(&Layout, &Sizes) -> Op,
}

/// The defaults of a task: it requires nothing, and no other task requires its files.
const PLAIN: TaskDef = TaskDef {
    number: 0,
    id: "",
    needs: Thing::Nothing,
    uses_up: false,
    makes: Thing::Nothing,
    title: |_| String::new(),
    op: |at, _| Op::Find { dir: at.root() },
};

/// All tasks in the order in which they run: by number, but that the tree is copied (020) before it is
/// removed (011). The author had to unpack it a second time for that, untimed.
pub const TASKS: &[TaskDef] = &[
    TaskDef {
        number: 1,
        id: "touch",
        makes: Thing::Files,
        title: |sizes| format!("Touch {} files", grouped(sizes.files)),
        op: |at, sizes| Op::Touch { dir: at.named("files"), count: sizes.files },
        ..PLAIN
    },
    TaskDef {
        number: 2,
        id: "find-files",
        needs: Thing::Files,
        title: |sizes| format!("Find {} files", grouped(sizes.files)),
        op: |at, _| Op::Find { dir: at.named("files") },
        ..PLAIN
    },
    TaskDef {
        number: 3,
        id: "rm-files",
        needs: Thing::Files,
        uses_up: true,
        title: |sizes| format!("Remove {} files", grouped(sizes.files)),
        op: |at, _| Op::Remove { dir: at.named("files") },
        ..PLAIN
    },
    TaskDef {
        number: 4,
        id: "mkdir",
        makes: Thing::Dirs,
        title: |sizes| format!("Make {} directories", grouped(sizes.directories)),
        op: |at, sizes| Op::MakeDirs { dir: at.named("dirs"), count: sizes.directories },
        ..PLAIN
    },
    TaskDef {
        number: 5,
        id: "find-dirs",
        needs: Thing::Dirs,
        title: |sizes| format!("Find {} directories", grouped(sizes.directories)),
        op: |at, _| Op::Find { dir: at.named("dirs") },
        ..PLAIN
    },
    TaskDef {
        number: 6,
        id: "rm-dirs",
        needs: Thing::Dirs,
        uses_up: true,
        title: |sizes| format!("Remove {} directories", grouped(sizes.directories)),
        op: |at, _| Op::Remove { dir: at.named("dirs") },
        ..PLAIN
    },
    TaskDef {
        number: 7,
        id: "copy-in",
        needs: Thing::Input,
        makes: Thing::Tarball,
        title: |_| "Copy tarball from other to current disk".into(),
        op: |at, _| Op::Copy { from: at.input(), to: at.tarball() },
        ..PLAIN
    },
    TaskDef {
        number: 8,
        id: "copy-out",
        needs: Thing::Tarball,
        title: |_| "Copy tarball from current to other disk".into(),
        op: |at, _| Op::Copy { from: at.tarball(), to: at.copied_out() },
        ..PLAIN
    },
    TaskDef {
        number: 9,
        id: "untar",
        needs: Thing::Tarball,
        makes: Thing::Tree,
        title: |sizes| format!("Untar the tree{}", of_files(sizes)),
        op: |at, _| Op::Untar { archive: at.tarball(), into: at.root() },
        ..PLAIN
    },
    TaskDef {
        number: 10,
        id: "tar",
        needs: Thing::Tree,
        title: |sizes| format!("Tar the tree{}", of_files(sizes)),
        op: |at, _| Op::Tar { archive: at.named("tree-again.tar"), within: at.root(), name: TOP },
        ..PLAIN
    },
    TaskDef {
        number: 20,
        id: "copy-tree",
        needs: Thing::Tree,
        title: |sizes| format!("Copy the tree{}", of_files(sizes)),
        op: |at, _| Op::CopyTree { from: at.tree(), to: at.named("tree-copy") },
        ..PLAIN
    },
    TaskDef {
        number: 11,
        id: "rm-tree",
        needs: Thing::Tree,
        uses_up: true,
        title: |sizes| format!("Remove the tree{}", of_files(sizes)),
        op: |at, _| Op::Remove { dir: at.tree() },
        ..PLAIN
    },
    TaskDef {
        number: 12,
        id: "copy-10",
        needs: Thing::Tarball,
        title: |sizes| format!("Copy the tarball {} times", sizes.copies),
        op: |at, sizes| Op::CopyInto { from: at.tarball(), into: at.named("copies"), count: sizes.copies },
        ..PLAIN
    },
    TaskDef {
        number: 13,
        id: "create",
        makes: Thing::Big,
        title: |sizes| format!("Create a {} file", of_bytes(sizes.big_mebibytes << 20)),
        op: |at, sizes| Op::Create { file: at.big(), mebibytes: sizes.big_mebibytes },
        ..PLAIN
    },
    TaskDef {
        number: 14,
        id: "copy-file",
        needs: Thing::Big,
        title: |sizes| format!("Copy a {} file", of_bytes(sizes.big_mebibytes << 20)),
        op: |at, _| Op::Copy { from: at.big(), to: at.named("big-copy") },
        ..PLAIN
    },
    split::<1000>(15, "split-1000"),
    split::<1024>(16, "split-1024"),
    split::<2048>(17, "split-2048"),
    split::<4096>(18, "split-4096"),
    split::<8192>(19, "split-8192"),
    TaskDef {
        number: 21,
        id: "cat",
        needs: Thing::Big,
        title: |sizes| format!("Cat a {} file to /dev/null", of_bytes(sizes.big_mebibytes << 20)),
        op: |at, _| Op::Cat { file: at.big() },
        ..PLAIN
    },
];

/// Splits the small file into pieces of `PIECE` bytes.
const fn split<const PIECE: u64>(number: i64, id: &'static str) -> TaskDef {
    TaskDef {
        number,
        id,
        needs: Thing::Small,
        title: |sizes| format!("Split a {} file into {PIECE}-byte pieces", of_bytes(sizes.small_bytes)),
        op: |at, _| Op::Split { file: at.small(), piece: PIECE, into: at.named(&format!("split-{PIECE}")) },
        ..PLAIN
    }
}

/// The task that makes a thing; none for what is there or made untimed.
pub fn maker_of(thing: Thing) -> Option<&'static TaskDef> {
    TASKS.iter().find(|task| task.makes == thing && thing != Thing::Nothing)
}

/// These tasks and those that make what they need.
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

fn of_files(sizes: &Sizes) -> String {
    sizes.tree_files.map_or(String::new(), |files| format!(" of {} files", grouped(files)))
}

/// `10,000`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 GiB`, `320 KiB`: in the largest unit that needs no fraction.
fn of_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{} B", grouped(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_21_are_there_once_and_in_order_but_for_the_copy_of_the_tree() {
        let mut numbers: Vec<_> = TASKS.iter().map(|task| task.number).collect();
        let copy = numbers.iter().position(|number| *number == 20).unwrap();
        assert_eq!(numbers[copy + 1], 11);
        numbers.remove(copy);
        assert_eq!(numbers, (1..=21).filter(|number| *number != 20).collect::<Vec<_>>());
    }

    #[test]
    fn suppliers_are_found_through_several_hands() {
        let rm_tree = TASKS.iter().find(|task| task.id == "rm-tree").unwrap();
        let ids: Vec<_> = with_suppliers(&[rm_tree]).iter().map(|task| task.id).collect();
        assert_eq!(ids, ["rm-tree", "untar", "copy-in"]);
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        assert_eq!([7, 313, 10_000, 1_000_000].map(grouped), ["7", "313", "10,000", "1,000,000"]);
        assert_eq!(
            [1 << 30, 32 << 20, 327_680, 1000].map(of_bytes),
            ["1 GiB", "32 MiB", "320 KiB", "1,000 B"]
        );
    }
}
