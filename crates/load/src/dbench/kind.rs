//! The seventeen kinds of operations in a loadfile, with their names, readings and numbers of arguments.

use fsarena_core::dbench::{OPERATIONS, Operation};
use serde::{Deserialize, Serialize};

/// An operation of a loadfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum OperationKind {
    /// Opens or creates a file, or creates a directory, and assigns a handle.
    NtCreateX,
    /// Closes a handle.
    Close,
    /// Renames a file.
    Rename,
    /// Removes a file.
    Unlink,
    /// Removes the files below a directory, but not the directories.
    Deltree,
    /// Removes a directory.
    Rmdir,
    /// Creates a directory unless it exists.
    Mkdir,
    /// Looks a name up.
    QueryPath,
    /// Reads the status of an open file (fstat).
    QueryFile,
    /// Reads the status of the filesystem (statvfs).
    QueryFs,
    /// Sets the times of a file.
    SetFile,
    /// Looks a pattern up and lists a directory.
    Find,
    /// Writes at an offset.
    WriteX,
    /// Reads at an offset.
    ReadX,
    /// Locks a range, and waits for it.
    LockX,
    /// Unlocks a range.
    UnlockX,
    /// Syncs a file (fsync).
    Flush,
}

/// The properties of a kind.
#[derive(Debug, Clone, Copy)]
pub struct KindDef {
    /// The kind.
    pub kind: OperationKind,
    /// Its name in loadfiles and in the output of dbench 5.0.
    pub name: &'static str,
    /// Its name in the output of dbench 4.0.
    pub name_in_4_0: &'static str,
    /// The prefix of its readings.
    pub reading_prefix: &'static str,
    /// The number of file names in its arguments.
    pub name_count: usize,
    /// The number of numbers that must follow the file names, in this order; the other operations need none. A loadfile
    /// may have more.
    ///
    /// | operation | numbers |
    /// |---|---|
    /// | `NTCreateX` | options, disposition, handle |
    /// | `FIND_FIRST` | level of information (ignored), largest number of entries |
    /// | `WriteX`, `ReadX` | handle, offset, size, result |
    /// | `LockX`, `UnlockX` | handle, offset, size |
    /// | `Close`, `Flush`, `QUERY_FILE_INFORMATION`, `SET_FILE_INFORMATION` | handle |
    pub number_count: usize,
}

/// The largest number of meaningful numbers in the arguments of an operation; see [`KindDef::number_count`].
pub const MAX_NUMBERS: usize = 4;
/// The numbers in the arguments of one operation.
pub type Numbers = [i64; MAX_NUMBERS];

const fn kind_def(kind: OperationKind, name: &'static str, [name_count, number_count]: [usize; 2]) -> KindDef {
    let Operation { printed_name, reading_prefix } = OPERATIONS[kind as usize];
    KindDef { kind, name, name_in_4_0: printed_name, reading_prefix, name_count, number_count }
}

/// The definition of every kind, in the order of [`OperationKind`] and of [`OPERATIONS`].
pub const KIND_DEFS: [KindDef; 17] = [
    kind_def(OperationKind::NtCreateX, "NTCreateX", [1, 3]),
    kind_def(OperationKind::Close, "Close", [0, 1]),
    kind_def(OperationKind::Rename, "Rename", [2, 0]),
    kind_def(OperationKind::Unlink, "Unlink", [1, 0]),
    kind_def(OperationKind::Deltree, "Deltree", [1, 0]),
    kind_def(OperationKind::Rmdir, "Rmdir", [1, 0]),
    kind_def(OperationKind::Mkdir, "Mkdir", [1, 0]),
    kind_def(OperationKind::QueryPath, "QUERY_PATH_INFORMATION", [1, 0]),
    kind_def(OperationKind::QueryFile, "QUERY_FILE_INFORMATION", [0, 1]),
    kind_def(OperationKind::QueryFs, "QUERY_FS_INFORMATION", [0, 0]),
    kind_def(OperationKind::SetFile, "SET_FILE_INFORMATION", [0, 1]),
    kind_def(OperationKind::Find, "FIND_FIRST", [1, 2]),
    kind_def(OperationKind::WriteX, "WriteX", [0, 4]),
    kind_def(OperationKind::ReadX, "ReadX", [0, 4]),
    kind_def(OperationKind::LockX, "LockX", [0, 3]),
    kind_def(OperationKind::UnlockX, "UnlockX", [0, 3]),
    kind_def(OperationKind::Flush, "Flush", [0, 1]),
];

impl OperationKind {
    /// Its properties.
    pub const fn def(self) -> &'static KindDef {
        &KIND_DEFS[self as usize]
    }

    /// Finds a kind by its name in a loadfile, in upper or lower case as in dbench 5.0.
    pub fn from_name(name: &[u8]) -> Option<OperationKind> {
        KIND_DEFS.iter().find(|def| def.name.as_bytes().eq_ignore_ascii_case(name)).map(|def| def.kind)
    }

    /// Finds a kind by its name in the output of dbench 4.0 or 5.0.
    pub fn from_printed_name(name: &str) -> Option<OperationKind> {
        KIND_DEFS.iter().find(|def| def.name_in_4_0 == name || def.name == name).map(|def| def.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds_and_finds_each_by_its_names() {
        for (index, def) in KIND_DEFS.iter().enumerate() {
            assert_eq!(def.kind as usize, index);
            assert_eq!(OperationKind::from_name(def.name.to_lowercase().as_bytes()), Some(def.kind));
            assert_eq!(OperationKind::from_printed_name(def.name_in_4_0), Some(def.kind));
            assert!(def.name_in_4_0 == def.name || def.name.contains('_'), "{} is not {}", def.name_in_4_0, def.name);
            assert!(def.number_count <= MAX_NUMBERS);
        }
    }
}
