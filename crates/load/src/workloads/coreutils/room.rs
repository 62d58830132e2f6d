//! The room that the tasks need, at their fullest moment.

use super::tasks::{Sizes, TaskDef, Thing, maker_of};
use crate::workload::{Place, Room};
use crate::{program::Op, source::Contents};
use std::{collections::BTreeSet, ops::Add};

/// Bytes of blocks and number of inodes.
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

/// Goes through the tasks and keeps the fullest moment.
pub fn needed(tasks: &[&'static TaskDef], sizes: &Sizes, contents: &Contents) -> Room {
    let of = |task: &TaskDef| left(task, sizes, contents);
    let mut there = BTreeSet::from([Thing::Nothing, Thing::Input]);
    // The root directory.
    let mut now = directory(30);
    let mut peak = now;
    for task in tasks {
        let mut wanted = task.needs;
        while there.insert(wanted) {
            let maker = maker_of(wanted);
            // No task makes the file that is split.
            now = now + maker.map_or(file(sizes.small_bytes), of);
            wanted = maker.map_or(Thing::Nothing, |maker| maker.needs);
        }
        there.insert(task.makes);
        now = now + of(task);
        peak = Usage { bytes: peak.bytes.max(now.bytes), inodes: peak.inodes.max(now.inodes) };
        if task.uses_up {
            there.remove(&task.needs);
            let gone = maker_of(task.needs).map_or(Usage::default(), of);
            now = Usage { bytes: now.bytes - gone.bytes, inodes: now.inodes - gone.inodes };
        }
    }
    // The archive, what it was made of, and the copy of it that copy-out makes.
    Room { bytes: peak.bytes, inodes: peak.inodes, other_bytes: 2 * blocks(contents.archive_bytes) + 4096 }
}

/// What a task leaves on the filesystem under test.
fn left(task: &TaskDef, sizes: &Sizes, contents: &Contents) -> Usage {
    let archive = file(contents.archive_bytes);
    let inodes = contents.files + contents.directories + contents.links;
    // Only the names matter here.
    let at = Place { root: "/root".into(), other: "/other".into(), server_user: None };
    match (task.op)(&at, sizes) {
        Op::Touch(_, count) => directory(count) + times(file(0), count),
        Op::MakeDirs(_, count) => directory(count) + times(file(4096), count),
        Op::Copy(_, to) if to.starts_with(&at.other) => Usage::default(),
        Op::Copy(..) if task.needs == Thing::Big => file(sizes.big_mebibytes << 20),
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

fn blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(4096)
}

fn file(bytes: u64) -> Usage {
    Usage { bytes: blocks(bytes), inodes: 1 }
}

/// The room of a directory with `entries` entries of at most 64 bytes each.
fn directory(entries: u64) -> Usage {
    Usage { bytes: blocks(64 * entries.max(1)), inodes: 1 }
}

fn times(usage: Usage, count: u64) -> Usage {
    Usage { bytes: usage.bytes * count, inodes: usage.inodes * count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workloads::coreutils::tasks::TASKS;

    const SIZES: Sizes = Sizes {
        files: 100,
        directories: 50,
        tree_files: Some(10),
        copies: 10,
        big_mebibytes: 1,
        small_bytes: 10_000,
    };

    const CONTENTS: Contents = Contents {
        files: 10,
        directories: 2,
        links: 0,
        left_out: 0,
        block_bytes: 100 << 10,
        archive_bytes: 102_400,
    };

    fn of(numbers: &[i64]) -> Room {
        let tasks: Vec<_> = TASKS.iter().filter(|task| numbers.contains(&task.number)).collect();
        needed(&tasks, &SIZES, &CONTENTS)
    }

    #[test]
    fn what_is_removed_makes_room() {
        // Root, directory, 100 files: then root, directory, 50 directories.
        assert_eq!(of(&[1, 2, 3, 4, 5, 6]).inodes, 1 + 1 + 100);
        assert_eq!(of(&[1, 2, 3, 4, 5, 6]).bytes, 4096 + 4096 + 50 * 4096);
        assert_eq!(of(&[1, 4]).inodes, 1 + 101 + 51);
    }

    #[test]
    fn what_a_task_needs_from_one_that_was_not_chosen_is_counted() {
        // Root, archive, tree (100 KiB in blocks, two directories, 12 entries of 64 bytes).
        let tree = (100 << 10) + 2 * 4096 + 12 * 64;
        assert_eq!(of(&[11]).bytes, 4096 + 102_400 + tree);
        assert_eq!(of(&[11]).inodes, 1 + 1 + 12);
        assert_eq!(of(&[9, 11]), of(&[11]));
    }

    #[test]
    fn pieces_take_whole_blocks() {
        // 10 pieces of 1000 bytes: 10 blocks, their directory, the file of three blocks, the root.
        assert_eq!(of(&[15]).bytes, 4096 * (10 + 1 + 3 + 1));
        assert_eq!(of(&[15]).inodes, 10 + 1 + 1 + 1);
    }
}
