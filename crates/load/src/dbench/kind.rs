//! The seventeen operations of a loadfile.

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Opens or makes a file, or makes a directory, and gives it a handle.
    NtCreateX,
    /// Closes a handle.
    Close,
    /// Renames.
    Rename,
    /// Removes a file.
    Unlink,
    /// Removes the files below a directory; directories stay.
    Deltree,
    /// Removes a directory.
    Rmdir,
    /// Makes a directory, if it is not there.
    Mkdir,
    /// Looks a name up.
    QueryPath,
    /// fstat.
    QueryFile,
    /// statvfs.
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
    /// fsync.
    Flush,
}

/// What is known of a kind.
#[derive(Debug, Clone, Copy)]
pub struct KindDef {
    /// Which.
    pub kind: Kind,
    /// Its name in loadfiles and in the output of dbench 5.0.
    pub name: &'static str,
    /// Its name in the output of dbench 4.0.
    pub printed: &'static str,
    /// The prefix of its readings.
    pub reading: &'static str,
    /// How many names it takes.
    pub names: usize,
    /// How many numbers it needs behind them. A loadfile may have more.
    pub numbers: usize,
}

/// Numbers of one operation that mean something: handle, offset, size, result.
pub const NUMBERS: usize = 4;

const fn def(
    kind: Kind,
    [name, printed, reading]: [&'static str; 3],
    [names, numbers]: [usize; 2],
) -> KindDef {
    KindDef { kind, name, printed, reading, names, numbers }
}

/// Every kind, in the order of [`Kind`].
pub const KINDS: [KindDef; 17] = [
    def(Kind::NtCreateX, ["NTCreateX", "NTCreateX", "ntcreatex"], [1, 3]),
    def(Kind::Close, ["Close", "Close", "close"], [0, 1]),
    def(Kind::Rename, ["Rename", "Rename", "rename"], [2, 0]),
    def(Kind::Unlink, ["Unlink", "Unlink", "unlink"], [1, 0]),
    def(Kind::Deltree, ["Deltree", "Deltree", "deltree"], [1, 0]),
    def(Kind::Rmdir, ["Rmdir", "Rmdir", "rmdir"], [1, 0]),
    def(Kind::Mkdir, ["Mkdir", "Mkdir", "mkdir"], [1, 0]),
    def(Kind::QueryPath, ["QUERY_PATH_INFORMATION", "Qpathinfo", "qpathinfo"], [1, 0]),
    def(Kind::QueryFile, ["QUERY_FILE_INFORMATION", "Qfileinfo", "qfileinfo"], [0, 1]),
    def(Kind::QueryFs, ["QUERY_FS_INFORMATION", "Qfsinfo", "qfsinfo"], [0, 0]),
    def(Kind::SetFile, ["SET_FILE_INFORMATION", "Sfileinfo", "sfileinfo"], [0, 1]),
    def(Kind::Find, ["FIND_FIRST", "Find", "find"], [1, 2]),
    def(Kind::WriteX, ["WriteX", "WriteX", "write"], [0, 4]),
    def(Kind::ReadX, ["ReadX", "ReadX", "read"], [0, 4]),
    def(Kind::LockX, ["LockX", "LockX", "lockx"], [0, 3]),
    def(Kind::UnlockX, ["UnlockX", "UnlockX", "unlockx"], [0, 3]),
    def(Kind::Flush, ["Flush", "Flush", "flush"], [0, 1]),
];

impl Kind {
    /// What is known of it.
    pub const fn def(self) -> &'static KindDef {
        &KINDS[self as usize]
    }

    /// Finds a kind by its name in a loadfile. dbench 5.0 takes either case.
    pub fn find(name: &[u8]) -> Option<Kind> {
        KINDS.iter().find(|def| def.name.as_bytes().eq_ignore_ascii_case(name)).map(|def| def.kind)
    }

    /// Finds a kind by its name in the output of dbench 4.0 or 5.0.
    pub fn of_printed(name: &str) -> Option<Kind> {
        KINDS.iter().find(|def| def.printed == name || def.name == name).map(|def| def.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (at, def) in KINDS.iter().enumerate() {
            assert_eq!(def.kind as usize, at);
            assert_eq!(Kind::find(def.name.to_lowercase().as_bytes()), Some(def.kind));
            assert_eq!(Kind::of_printed(def.printed), Some(def.kind));
            assert!(def.numbers <= NUMBERS);
        }
    }
}
