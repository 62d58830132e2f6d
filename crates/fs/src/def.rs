//! The definition of a filesystem.

/// What an option of mkfs takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing: a flag.
    Nothing,
    /// A value without a slash: a number, a name, a list of features.
    Value,
    /// A comma-separated list of these keys, each with a value or without. Those after `!` name devices or files.
    Keys(&'static str),
    /// The name of a device or a file, so it is refused.
    Path,
}

/// The options of a mkfs: names such as `-n --nodesize`, and what each of them takes. What is not listed is refused.
pub type Grammar = &'static [(Takes, &'static str)];

/// A filesystem that fsarena can make: the definition drives the lifecycle, `list filesystems` and the
/// fairness lint.
#[derive(Debug, Clone, Copy)]
pub struct FsDef {
    /// The work that its kernel thread does after mount, if any. The idle wait lasts until it is done.
    pub background: Option<Background>,
    /// The name in plans and reports.
    pub id: &'static str,
    /// Its name in text for people.
    pub title: &'static str,
    /// The program that makes it.
    pub mkfs: &'static str,
    /// Arguments for every mkfs: they make it overwrite the device without asking, and change only its output or the
    /// time of its checks.
    pub always: &'static [&'static str],
    /// The flag that takes a comma-separated list of features, where mkfs has one.
    pub feature_flag: Option<&'static str>,
    /// Names of features that its mkfs may know, separated by blanks. Others are allowed too: these are proposed where
    /// mkfs refuses a name.
    pub features: &'static str,
    /// Names of its mount options, for the same purpose; `NAME=VALUE` if the value is one of a few names.
    pub mount_names: &'static str,
    /// The arguments of mkfs that plans may set.
    pub arguments: Grammar,
    /// Flags by which mkfs takes fixed values instead of those that it draws at random, each with the key in its list,
    /// `KEY=`, where it takes a list.
    pub pins: &'static [(&'static str, &'static str)],
    /// The flag by which mkfs copies a directory into the filesystem, where it has one.
    pub contents: Option<&'static str>,
    /// Named sets of options. The first is `default`.
    pub options: &'static [OptionSet],
    /// Debian packages that contain its mkfs.
    pub packages: &'static [&'static str],
    /// The component of Debian that has them, where that is not `main`.
    pub component: &'static str,
    /// For a filesystem that many kernels lack: which kernels have it. None if most kernels have it.
    pub kernels: Option<KernelRange>,
    /// Modules that its driver requests by name at mount and that are not in its dependencies: checksums, character
    /// tables. A kernel may lack them.
    pub modules: &'static [&'static str],
    /// The smallest size on which it works without stalling for lack of space, in bytes.
    pub min_bytes: u64,
    /// The space that it needs beside the data.
    pub overhead: Overhead,
    /// Its features that can make comparisons unfair.
    pub traits: Traits,
    /// The argument by which mkfs discards nothing, where it would, and the mount option for the kernel.
    pub no_discard: (&'static [&'static str], &'static str),
    /// How to print the features it was made with.
    pub describe: Option<Describe>,
    /// How it is checked after a power cut, as its authors recommend. None if fsarena knows no check of it.
    pub check: Option<CheckDef>,
    /// How it keeps its journal on a separate device. None if it cannot.
    pub journal: Option<JournalDef>,
    /// How it spans several devices by itself. None if it cannot.
    pub raid: Option<RaidDef>,
}

/// The kernels that have a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRange {
    /// Which kernels have it, for people: `Linux has it from 6.7 to 6.17`.
    pub text: &'static str,
    /// The version of a Debian kernel that has it: `6.12`; empty if Debian has none.
    pub debian: &'static str,
}

/// Defaults for definitions: mkfs takes no list of features, everything lies on one device.
pub const BASE: FsDef = FsDef {
    background: None,
    id: "",
    title: "",
    mkfs: "",
    always: &[],
    feature_flag: None,
    features: "",
    mount_names: "",
    arguments: &[],
    pins: &[],
    contents: None,
    options: &[],
    packages: &[],
    component: "",
    kernels: None,
    modules: &[],
    min_bytes: 0,
    overhead: Overhead { fixed_bytes: 0, percent: 0, per_file_bytes: 0 },
    traits: UNIX,
    no_discard: (&[], ""),
    describe: None,
    check: None,
    journal: None,
    raid: None,
};

/// Options of mkfs and mount that belong together.
#[derive(Debug, Clone, Copy)]
pub struct OptionSet {
    /// The level of the factor `options`.
    pub id: &'static str,
    /// Arguments for mkfs.
    pub mkfs: &'static [&'static str],
    /// Mount options.
    pub mount: &'static [&'static str],
    /// One line for people.
    pub help: &'static str,
    /// The level of the factor `journal` that belongs to it, where the variant says none.
    pub journal: &'static str,
    /// The level of the factor `raid` that belongs to it, where the variant says none.
    pub raid: &'static str,
    /// How it differs from what it is named for, where that is an old recipe; empty where it does not.
    pub changes: &'static str,
}

impl OptionSet {
    /// An option set with this name: one device, an internal journal, no further options.
    pub const fn named(id: &'static str) -> OptionSet {
        OptionSet { id, mkfs: &[], mount: &[], help: "", journal: "", raid: "", changes: "" }
    }

    /// Sets the arguments for mkfs.
    pub const fn mkfs(self, mkfs: &'static [&'static str]) -> OptionSet {
        OptionSet { mkfs, ..self }
    }

    /// Sets the mount options.
    pub const fn mount(self, mount: &'static [&'static str]) -> OptionSet {
        OptionSet { mount, ..self }
    }

    /// Sets the description.
    pub const fn help(self, help: &'static str) -> OptionSet {
        OptionSet { help, ..self }
    }

    /// Sets the level of the factor `journal`.
    pub const fn journal(self, journal: &'static str) -> OptionSet {
        OptionSet { journal, ..self }
    }

    /// Sets the level of the factor `raid`.
    pub const fn raid(self, raid: &'static str) -> OptionSet {
        OptionSet { raid, ..self }
    }

    /// Sets the description of how it differs from the old recipe.
    pub const fn changes(self, changes: &'static str) -> OptionSet {
        OptionSet { changes, ..self }
    }
}

/// The option set with the defaults of mkfs and the kernel.
pub const DEFAULT: OptionSet = OptionSet::named("default").help("as mkfs and the kernel have it");

/// The option set without updates of access times.
pub const NOATIME: OptionSet =
    OptionSet::named("noatime").mount(&["noatime"]).help("reading a file never writes its access time");

/// The name of the option sets with the strongest protection of stored data that the filesystem offers.
pub const DURABLE: &str = "durable";
/// The name of the option sets that give up safety for speed.
pub const FAST_UNSAFE: &str = "fast-unsafe";
/// The name of the option sets of the 2011 dbench study, as far as current kernels and mkfs accept them.
pub const TUNED_2011: &str = "tuned-2011";

/// How a filesystem is checked. The device follows the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckDef {
    /// The program.
    pub program: &'static str,
    /// The checks that it needs before it is mounted again, which repair it; empty if mounting it recovers it. Each is
    /// run if the one before it leaves errors.
    pub before: &'static [&'static [&'static str]],
    /// The arguments of a full check that changes nothing. It exits with 0 if all is well.
    pub full: &'static [&'static str],
}

/// How a filesystem keeps its journal or log on a separate device. In arguments `{}` stands for that device.
#[derive(Debug, Clone, Copy)]
pub struct JournalDef {
    /// The smallest device that its mkfs takes, in bytes.
    pub min_bytes: u64,
    /// The default size in bytes.
    pub default_bytes: u64,
    /// The command that makes the journal device before the filesystem, where mkfs does not do it on its way.
    pub make: Option<&'static [&'static str]>,
    /// Arguments that name it to mkfs.
    pub mkfs: &'static [&'static str],
    /// Whether mkfs takes files for it. Where it takes block devices alone, files are joined
    /// (`external::join_journal`).
    pub files: bool,
    /// The mount option that names it; empty where there is none.
    pub mount: &'static str,
    /// Where the superblocks keep the number of its device, in bytes from the beginning; nothing where the mount
    /// option is what counts.
    pub numbers: &'static [u64],
}

/// The program that attaches a journal to an ext filesystem where mke2fs cannot.
pub const DEBUGFS: &str = "debugfs";
/// The program that removes the internal journal: mkfs.ext3 always makes one.
pub const TUNE2FS: &str = "tune2fs";

impl JournalDef {
    /// Programs that it takes besides mkfs, where the devices are files or are not.
    pub fn programs(&self, files: bool) -> impl Iterator<Item = &'static str> {
        let make = self.make.and_then(|words| words.first().copied());
        let joins = [TUNE2FS, DEBUGFS];
        make.into_iter().chain(joins.into_iter().filter(move |_| files && !self.files))
    }
}

/// How a filesystem spreads itself over several devices. In arguments `{}` stands for the profile (`raid0`), in
/// the mount option for each device.
#[derive(Debug, Clone, Copy)]
pub struct RaidDef {
    /// Arguments of mkfs, which takes all devices behind them.
    pub mkfs: &'static [&'static str],
    /// The mount option that names a further device.
    pub mount: &'static str,
}

/// What a filesystem needs beside the data, to size an image by.
#[derive(Debug, Clone, Copy)]
pub struct Overhead {
    /// Bytes whatever is stored: journal, superblocks, reserves.
    pub fixed_bytes: u64,
    /// Share of the device that holds no data: inode tables, reserved blocks, free-space reserves.
    pub percent: u64,
    /// Bytes a file or directory takes beside its data: inode, directory entry, rounding to whole blocks.
    pub per_file_bytes: u64,
}

/// Work that a kernel thread of the filesystem does after mount.
#[derive(Debug, Clone, Copy)]
pub struct Background {
    /// Part of the thread's name while the work is left; `{}` stands for the name of the device.
    pub thread: &'static str,
    /// Whether the filesystem on a device has any of the work left, where the thread lives on for long after it.
    pub has_work: fn(&std::path::Path) -> std::io::Result<bool>,
    /// The flag of mkfs and the value with which mkfs does the work itself, where there are such.
    pub by_mkfs: Option<(&'static str, &'static str)>,
}

/// What a filesystem does by default, where that makes comparisons unequal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Whether metadata survives a crash: by a journal, a log or copy on write.
    pub crash_safe: bool,
    /// Keeps checksums of file data.
    pub data_checksums: bool,
    /// Never overwrites file data in place.
    pub copy_on_write: bool,
    /// Can share blocks between files, so that `cp` may copy nothing.
    pub reflink: bool,
    /// Whether it flushes the device's cache, so that data said to be stored is.
    pub barriers: bool,
    /// Goes on initialising after mkfs and mount have returned.
    pub lazy_init: bool,
    /// Compresses file data.
    pub compression: bool,
    /// Has owners, modes, hard and symbolic links.
    pub unix: bool,
    /// Whether names that differ only in their case are two names.
    pub case_sensitive: bool,
    /// Whether a name may have every byte but `/`; where not, none of `"*:<>?\\|`, no control character, and neither a
    /// dot nor a blank at its end.
    pub any_name: bool,
    /// The longest name, in bytes.
    pub name_bytes: u64,
    /// Whether files can be opened with `O_DIRECT`.
    pub direct_io: bool,
}

/// What most journaling filesystems of Unix have in common.
pub const UNIX: Traits = Traits {
    crash_safe: true,
    data_checksums: false,
    copy_on_write: false,
    reflink: false,
    barriers: true,
    lazy_init: false,
    compression: false,
    unix: true,
    case_sensitive: true,
    any_name: true,
    name_bytes: 255,
    direct_io: true,
};

/// A command that prints the features of a made filesystem.
#[derive(Debug, Clone, Copy)]
pub struct Describe {
    /// The program.
    pub program: &'static str,
    /// Its arguments; the device comes last.
    pub args: &'static [&'static str],
    /// Beginnings of the lines that matter, separated by `|`; all where there are none.
    pub lines: &'static str,
}

/// A mebibyte.
pub const MIB: u64 = 1 << 20;

impl FsDef {
    /// Finds an option set by its name.
    pub fn option_set(&self, id: &str) -> Option<&'static OptionSet> {
        self.options.iter().find(|set| set.id == id)
    }

    /// The size of a device for `data_bytes` of data in `files` files: includes the overhead and a reserve of 10%, and is
    /// at least [`FsDef::min_bytes`]. Bytes, a whole number of mebibytes.
    pub fn size_for(&self, data_bytes: u64, files: u64) -> u64 {
        let Overhead { fixed_bytes, percent, per_file_bytes } = self.overhead;
        let content = (u128::from(data_bytes) + u128::from(files) * u128::from(per_file_bytes)) * 11 / 10;
        let whole = (content + u128::from(fixed_bytes)) * 100 / u128::from(100 - percent);
        let whole = u64::try_from(whole).unwrap_or(u64::MAX).max(self.min_bytes);
        whole.checked_next_multiple_of(MIB).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use crate::filesystems;

    #[test]
    fn an_image_has_room_for_data_files_and_overhead() {
        let ext4 = filesystems::find("ext4").unwrap();
        let (data, files) = (1 << 30, 100_000);
        let size = ext4.size_for(data, files);
        let usable = size * (100 - ext4.overhead.percent) / 100 - ext4.overhead.fixed_bytes;
        assert!(usable >= data + files * ext4.overhead.per_file_bytes);
        assert_eq!(size % super::MIB, 0);
        let btrfs = filesystems::find("btrfs").unwrap();
        assert_eq!(btrfs.size_for(0, 0), btrfs.min_bytes);
    }
}
