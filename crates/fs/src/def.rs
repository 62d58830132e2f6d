//! The definition of a filesystem.

use fsarena_core::row::Row;
use serde::Serialize;

/// The kind of value that an option of mkfs takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Nothing: a flag.
    Nothing,
    /// A value without a slash: a number, a name, a list of features.
    Plain,
    /// A comma-separated list of these keys, each with or without a value. A key with `!` names a device or file and is
    /// refused.
    Keys(&'static str),
    /// The name of a device or a file, so the option is refused.
    Path,
}

/// The options of a mkfs that plans may set: names such as `-n --nodesize`, and the kind of value that each of them takes.
/// Other options are refused.
pub type Grammar = &'static [(ValueKind, &'static str)];

/// The definition of a filesystem that fsarena can make. It drives the lifecycle, `fsarena list filesystems` and the fairness
/// lint.
#[derive(Debug, Clone, Copy)]
pub struct FsDef {
    /// The work that a kernel thread does after the mount, if any. fsarena waits until it is done.
    pub background_work: Option<BackgroundWork>,
    /// The name in plans and reports.
    pub id: &'static str,
    /// The name in text: `FAT32`.
    pub title: &'static str,
    /// The program that makes it; empty if the mount makes it, in memory.
    pub mkfs: &'static str,
    /// Arguments that fsarena always passes to mkfs: they make it overwrite the device without asking, or change its output
    /// or the time of its checks.
    pub fixed_arguments: &'static [&'static str],
    /// The flag of mkfs that takes the name of the filesystem, if mkfs otherwise takes it from the name of its own file.
    pub type_flag: Option<&'static str>,
    /// The flag of mkfs that takes a comma-separated list of features; None if mkfs has none.
    pub feature_flag: Option<&'static str>,
    /// Names of features, separated by blanks, for suggestions if mkfs refuses a name. Plans may name others too.
    pub features: &'static str,
    /// Names of mount options, separated by blanks, for suggestions too; `NAME=VALUE` if the option has a few named values.
    pub mount_names: &'static str,
    /// The arguments of mkfs that plans may set.
    pub allowed_arguments: Grammar,
    /// Flags that set a fixed value which mkfs would otherwise choose at random, such as the UUID: all names of the flag,
    /// separated by blanks, the short one first. If the flag takes a list, the second text is the key in it (`KEY=`), else it is
    /// empty.
    pub pinned_flags: &'static [(&'static str, &'static str)],
    /// How mkfs copies a directory into the filesystem; None if it cannot.
    pub contents_argument: Option<ContentsArgument>,
    /// The mount options that limit its size, for a filesystem in memory. `{}` stands for the bytes.
    pub size_options: &'static str,
    /// Named sets of options. The first is `default`.
    pub option_sets: &'static [OptionSet],
    /// Debian packages that contain its mkfs.
    pub packages: &'static [&'static str],
    /// The component of Debian that has these packages; empty for `main`.
    pub component: &'static str,
    /// The kernels that have it, if many lack it. None if most kernels have it.
    pub kernel_range: Option<KernelRange>,
    /// Kernel modules that its driver requests at mount without a declared dependency: checksums, character tables. A kernel
    /// may lack them.
    pub modules: &'static [&'static str],
    /// The smallest size on which it works without stalling for lack of space, in bytes.
    pub min_bytes: u64,
    /// The space that it needs in addition to the data.
    pub overhead: Overhead,
    /// Bytes of the device for each inode that mkfs makes, which limit the number of files. 0 if it makes inodes when they are
    /// needed.
    pub bytes_per_inode: u64,
    /// Its features that can make comparisons unfair.
    pub traits: Traits,
    /// The arguments that keep mkfs from discarding blocks, and the mount option that keeps the kernel from it; empty if it
    /// discards nothing by default.
    pub no_discard: (&'static [&'static str], &'static str),
    /// The command that prints the features it was made with, if any.
    pub describe_command: Option<DescribeCommand>,
    /// The check after a power cut that its authors recommend; None if fsarena has no check for it.
    pub check: Option<CheckDef>,
    /// How it keeps its journal on a separate device. None if it cannot.
    pub journal: Option<JournalDef>,
    /// How it spans several devices without a volume manager. None if it cannot.
    pub raid: Option<RaidDef>,
    /// How it lies in a pool that its own program makes and opens. None if mkfs makes it on a device or an image file.
    pub pool: Option<PoolDef>,
    /// The Debian package with the source of its kernel modules, for a filesystem that no kernel of Debian has. fsarena
    /// compiles it for guest kernels. None if kernels have it.
    pub module_source: Option<&'static str>,
}

/// How mkfs copies a directory into the filesystem: the place of the directory in its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentsArgument {
    /// It follows this flag.
    Flag(&'static str),
    /// It comes before the device, and the options come last: `mksquashfs DIRECTORY DEVICE OPTIONS`.
    First,
    /// It follows the device: `mkfs.erofs OPTIONS DEVICE DIRECTORY`.
    Last,
}

/// The kernels that have a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelRange {
    /// Which kernels have it, for people: `Linux has it from 6.7 to 6.17`.
    pub text: &'static str,
    /// The version of a Debian kernel that has it: `6.12`; empty if Debian has none.
    pub debian: &'static str,
}

/// Defaults for definitions: mkfs takes no list of features, and the filesystem is on one device.
pub const BASE: FsDef = FsDef {
    background_work: None,
    id: "",
    title: "",
    mkfs: "",
    fixed_arguments: &[],
    type_flag: None,
    feature_flag: None,
    features: "",
    mount_names: "",
    allowed_arguments: &[],
    pinned_flags: &[],
    contents_argument: None,
    size_options: "",
    option_sets: &[],
    packages: &[],
    component: "",
    kernel_range: None,
    modules: &[],
    min_bytes: 0,
    overhead: Overhead { fixed_bytes: 0, percent: 0, per_file_bytes: 0 },
    bytes_per_inode: 0,
    traits: UNIX_TRAITS,
    no_discard: (&[], ""),
    describe_command: None,
    check: None,
    journal: None,
    raid: None,
    pool: None,
    module_source: None,
};

/// Options of mkfs and mount that belong together. In JSON it has the fields in this order.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OptionSet {
    /// The level of the factor `options`.
    pub id: &'static str,
    /// A description of one line.
    pub help: &'static str,
    /// Arguments for mkfs.
    pub mkfs: &'static [&'static str],
    /// Mount options.
    pub mount: &'static [&'static str],
    /// The level of the factor `journal`, unless the variant sets one; empty for none.
    pub journal: &'static str,
    /// The level of the factor `raid`, unless the variant sets one; empty for none.
    pub raid: &'static str,
    /// How the set differs from the published recipe that it is named after; empty for other sets.
    pub changes: &'static str,
    /// How fsarena checks that mkfs did what the set requires. None if mkfs refuses what it cannot do.
    #[serde(skip)]
    pub mkfs_check: Option<MkfsCheck>,
}

/// A check of a filesystem that mkfs has made, for a mkfs that ignores options of later versions.
#[derive(Debug, Clone, Copy)]
pub struct MkfsCheck {
    /// Whether the filesystem on this device or file has what the options ask for.
    pub holds: fn(&std::path::Path) -> std::io::Result<bool>,
    /// What mkfs ignored if the check fails, and what to install.
    pub fix: &'static str,
}

impl OptionSet {
    /// An option set with this name and description: one device, an internal journal, no options.
    pub const fn new(id: &'static str, help: &'static str) -> OptionSet {
        OptionSet { id, help, mkfs: &[], mount: &[], journal: "", raid: "", changes: "", mkfs_check: None }
    }

    /// Sets the arguments for mkfs.
    pub const fn mkfs(self, mkfs: &'static [&'static str]) -> OptionSet {
        OptionSet { mkfs, ..self }
    }

    /// Sets the mount options.
    pub const fn mount(self, mount: &'static [&'static str]) -> OptionSet {
        OptionSet { mount, ..self }
    }

    /// Sets the level of the factor `journal`.
    pub const fn journal(self, journal: &'static str) -> OptionSet {
        OptionSet { journal, ..self }
    }

    /// Sets the level of the factor `raid`.
    pub const fn raid(self, raid: &'static str) -> OptionSet {
        OptionSet { raid, ..self }
    }

    /// Sets the description of how it differs from the published recipe.
    pub const fn changes(self, changes: &'static str) -> OptionSet {
        OptionSet { changes, ..self }
    }

    /// Sets the check that mkfs did what the set requires.
    pub const fn mkfs_check(self, mkfs_check: MkfsCheck) -> OptionSet {
        OptionSet { mkfs_check: Some(mkfs_check), ..self }
    }

    /// Its options in a line: `mkfs -O ^has_journal, mount -o nobarrier`; empty for a set without options.
    fn describe_options(&self) -> String {
        let mut parts = vec![];
        if !self.mkfs.is_empty() {
            parts.push(format!("mkfs {}", self.mkfs.join(" ")));
        }
        if !self.mount.is_empty() {
            parts.push(format!("mount -o {}", self.mount.join(",")));
        }
        for (factor, level) in [("journal", self.journal), ("raid", self.raid)] {
            if !level.is_empty() {
                parts.push(format!("{factor}={level}"));
            }
        }
        parts.join(", ")
    }
}

impl Row for OptionSet {
    const COLUMNS: &'static [&'static str] = &["id: OPTION SET", "gives", "help: MEANING"];

    fn table_text(&self, field: &str) -> Option<String> {
        match field {
            "gives" => Some(self.describe_options()),
            "help" if self.changes.is_empty() => Some(self.help.into()),
            "help" => Some(format!("{}; today {}", self.help, self.changes)),
            _ => None,
        }
    }
}

/// The option set with the defaults of mkfs and the kernel.
pub const DEFAULT: OptionSet = OptionSet::new("default", "the defaults of mkfs and the kernel");

/// The option set without updates of access times.
pub const NOATIME: OptionSet =
    OptionSet::new("noatime", "reading a file never writes its access time").mount(&["noatime"]);

/// The name of the option sets with the strongest protection of stored data that the filesystem offers.
pub const DURABLE: &str = "durable";
/// The name of the option sets that give up safety for speed.
pub const FAST_UNSAFE: &str = "fast-unsafe";
/// The name of the option sets of the 2011 dbench study, as far as current kernels and mkfs accept them.
pub const TUNED_2011: &str = "tuned-2011";

/// The command that checks a filesystem. The device follows the arguments, except for a pool, which the arguments name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckDef {
    /// The program.
    pub program: &'static str,
    /// The arguments of the repairs that the filesystem needs before it can be mounted again; empty if the mount recovers it.
    /// Each repair is run only if the previous one leaves errors.
    pub repairs: &'static [&'static [&'static str]],
    /// The arguments of a full check that changes nothing and exits with 0 if the filesystem has no errors. For a pool it exits
    /// with 0 once it is done, and [`PoolDef::health`] has the result.
    pub full_check: &'static [&'static str],
}

/// How a filesystem keeps its journal or log on a separate device. In arguments `{}` stands for that device.
#[derive(Debug, Clone, Copy)]
pub struct JournalDef {
    /// The smallest journal device that mkfs accepts, in bytes.
    pub min_bytes: u64,
    /// The default size of the journal device in bytes.
    pub default_bytes: u64,
    /// The command that makes the journal device before mkfs runs; None if mkfs makes it.
    pub make_command: Option<&'static [&'static str]>,
    /// The arguments of mkfs that name the journal device.
    pub mkfs: &'static [&'static str],
    /// Whether mkfs accepts a file as the journal. If it accepts only block devices, fsarena joins a file after mkfs
    /// (`external_journal::join_journal`).
    pub accepts_files: bool,
    /// The mount option that names the journal device; empty if the filesystem has no such option.
    pub mount: &'static str,
    /// The offsets in the superblocks, in bytes from the beginning of the device, of the device number of the journal; empty
    /// if the filesystem finds its journal by the mount option.
    pub device_number_offsets: &'static [u64],
}

/// The program that attaches a journal to an ext filesystem where mke2fs cannot.
pub const DEBUGFS: &str = "debugfs";
/// The program that removes the internal journal: mkfs.ext3 always makes one.
pub const TUNE2FS: &str = "tune2fs";

impl JournalDef {
    /// Programs that it requires in addition to mkfs; `on_files` is whether the devices are files.
    pub fn programs(&self, on_files: bool) -> impl Iterator<Item = &'static str> {
        let make = self.make_command.and_then(|words| words.first().copied());
        let join: &[&str] = if on_files && !self.accepts_files { &[TUNE2FS, DEBUGFS] } else { &[] };
        make.into_iter().chain(join.iter().copied())
    }
}

/// How a filesystem spans several devices.
#[derive(Debug, Clone, Copy)]
pub struct RaidDef {
    /// The arguments of mkfs for a profile, in which `{}` stands for the profile (`raid0`). All devices follow them.
    pub mkfs: &'static [&'static str],
    /// The mount option that names a further device, in which `{}` stands for the device.
    pub mount: &'static str,
}

/// How a filesystem lies in a pool. The program [`FsDef::mkfs`] makes the pool on a device of the running kernel, opens it
/// before each mount, and closes it after each unmount; the source of the mount is the name of the pool. fsarena makes pools
/// in guests only, because the whole kernel uses a pool and an undo step could not remove it safely.
#[derive(Debug, Clone, Copy)]
pub struct PoolDef {
    /// The name of the pool.
    pub name: &'static str,
    /// The node of the device. fsarena makes it, because the program would partition a device with a usual name.
    pub node: &'static str,
    /// Properties that the pool gets unless the options set them: the flag of the program, and `NAME=VALUE`.
    pub properties: &'static [(&'static str, &'static str)],
    /// The arguments that open the pool.
    pub open: &'static [&'static str],
    /// The arguments that close the pool. The kernel then drops its cache of the pool.
    pub close: &'static [&'static str],
    /// The arguments that write everything in memory to the devices, including what background threads would write later.
    pub sync: &'static [&'static str],
    /// The arguments that print the state of the pool, and the words in that output if the pool is undamaged.
    pub health: (&'static [&'static str], &'static str),
    /// The file of the kernel that limits the filesystem's own cache, in bytes, and the smallest limit that it accepts.
    pub cache_limit: (&'static str, u64),
}

/// The space that a filesystem needs in addition to the data; it determines the size of an image.
#[derive(Debug, Clone, Copy)]
pub struct Overhead {
    /// Bytes that do not depend on the data: journal, superblocks, reserves.
    pub fixed_bytes: u64,
    /// The share of the device without data, in per cent: inode tables, reserved blocks, free-space reserves.
    pub percent: u64,
    /// Bytes for each file or directory in addition to its data: inode, directory entry, rounding to whole blocks.
    pub per_file_bytes: u64,
}

/// Work that a kernel thread of the filesystem does after mount.
#[derive(Debug, Clone, Copy)]
pub struct BackgroundWork {
    /// The end of the name of the thread while it works; `{}` stands for the name of the device.
    pub thread: &'static str,
    /// Whether the filesystem on a device has work left. A thread may live on long after its work.
    pub has_work: fn(&std::path::Path) -> std::io::Result<bool>,
    /// The flag of mkfs, and its value, with which mkfs does the work itself; None if mkfs has no such flag.
    pub by_mkfs: Option<(&'static str, &'static str)>,
}

/// The default behaviour of a filesystem that can make comparisons unfair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traits {
    /// Whether metadata survives a crash: by a journal, a log or copy on write.
    pub crash_safe: bool,
    /// Whether it stores checksums of file data.
    pub data_checksums: bool,
    /// Whether it never overwrites file data in place.
    pub copy_on_write: bool,
    /// Whether files can share blocks, so that `cp` may copy nothing.
    pub reflink: bool,
    /// Whether it flushes the device's cache on a sync, so that synced data survives a power cut.
    pub barriers: bool,
    /// Whether it continues to initialise itself after mkfs and mount have returned.
    pub lazy_init: bool,
    /// Whether it compresses file data.
    pub compression: bool,
    /// Whether it has owners, modes, hard links and symbolic links.
    pub unix: bool,
    /// Whether names that differ only in their case are different names.
    pub case_sensitive: bool,
    /// Whether a name may contain every byte except `/` and NUL. Otherwise it may not contain `"*:<>?\\|` or control
    /// characters, or end with a dot or a blank.
    pub any_name: bool,
    /// The length of the longest file name, in bytes.
    pub name_bytes: u64,
    /// Whether files can be opened with `O_DIRECT`.
    pub direct_io: bool,
    /// Whether nothing can be written to it: mkfs packs a directory with all its files.
    pub read_only: bool,
    /// Whether it keeps its files in memory, on no device: an unmount or a power cut loses all of them.
    pub volatile: bool,
}

/// The traits that most journaling filesystems of Unix have.
pub const UNIX_TRAITS: Traits = Traits {
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
    read_only: false,
    volatile: false,
};

/// A command that prints the features of a made filesystem.
#[derive(Debug, Clone, Copy)]
pub struct DescribeCommand {
    /// The program.
    pub program: &'static str,
    /// Its arguments; the device comes last.
    pub args: &'static [&'static str],
    /// The beginnings of the lines to keep, separated by `|`; empty to keep all lines.
    pub lines: &'static str,
}

/// The bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;

impl FsDef {
    /// Whether it keeps whatever a workload writes on a device. Plans that take every available filesystem take only these.
    pub fn is_general(&self) -> bool {
        !self.traits.read_only && !self.traits.volatile
    }

    /// Finds an option set by its name.
    pub fn option_set(&self, id: &str) -> Option<&'static OptionSet> {
        self.option_sets.iter().find(|set| set.id == id)
    }

    /// The size of a device for `data_bytes` of data in `files` files, in bytes: with the overhead and a reserve of 10%, at
    /// least [`FsDef::min_bytes`], rounded up to whole mebibytes.
    pub fn size_for(&self, data_bytes: u64, files: u64) -> u64 {
        // mke2fs makes four times as many inodes on a device below 512 MiB (mke2fs.conf). That helps only if it makes enough on
        // larger devices too, because sizes are rounded up and users name devices that are larger than needed.
        let is_enough_on_any_size = files.saturating_mul(self.bytes_per_inode) <= 512 * MIB;
        let divisor = if is_enough_on_any_size { 4 } else { 1 };
        self.size_with_inodes(data_bytes, files, self.bytes_per_inode / divisor)
    }

    /// The size like [`FsDef::size_for`], for options that make mkfs make one inode for each `bytes_per_inode` bytes of the
    /// device, whatever the size of the device. With 0, mkfs makes enough inodes.
    pub fn size_with_inodes(&self, data_bytes: u64, files: u64, bytes_per_inode: u64) -> u64 {
        let bytes = self.size_for_content(data_bytes, files).max(files.saturating_mul(bytes_per_inode));
        bytes.checked_next_multiple_of(MIB).unwrap_or(u64::MAX)
    }

    /// The size in bytes that the data, the overhead and the reserve take, whatever the number of inodes is.
    fn size_for_content(&self, data_bytes: u64, files: u64) -> u64 {
        let Overhead { fixed_bytes, percent, per_file_bytes } = self.overhead;
        let content_bytes = (u128::from(data_bytes) + u128::from(files) * u128::from(per_file_bytes)) * 11 / 10;
        let with_overhead = (content_bytes + u128::from(fixed_bytes)) * 100 / u128::from(100 - percent);
        u64::try_from(with_overhead).unwrap_or(u64::MAX).max(self.min_bytes)
    }
}

#[cfg(test)]
mod tests {
    use crate::filesystems;

    #[test]
    fn a_device_has_room_for_data_files_and_overhead() {
        let ext4 = filesystems::find("ext4").unwrap();
        let (data, files) = (1 << 30, 100_000);
        let size = ext4.size_for(data, files);
        let usable = size * (100 - ext4.overhead.percent) / 100 - ext4.overhead.fixed_bytes;
        assert!(usable >= data + files * ext4.overhead.per_file_bytes);
        assert_eq!(size % super::MIB, 0);
        // Small files take less space than mke2fs gives to each inode.
        assert_eq!(ext4.size_for(5500 * 1_000_000, 1_000_000), (16_384 * 1_000_000u64).next_multiple_of(super::MIB));
        let btrfs = filesystems::find("btrfs").unwrap();
        assert_eq!(btrfs.size_for(0, 0), btrfs.min_bytes);
        // 20,000 inodes: mke2fs makes one for each 4 KiB of a small device, but with `-i 65536` one for each 64 KiB.
        let small = ext4.size_for(1 << 20, 20_000);
        assert!((20_000 * 4096..512 * super::MIB).contains(&small));
        assert_eq!(ext4.size_with_inodes(1 << 20, 20_000, 65_536), 1250 * super::MIB);
        // With 512 MiB it makes only 32,768 inodes: 40,000 files take 40,000 × 16 KiB = 625 MiB.
        assert_eq!(ext4.size_for(40_000 * 4096, 40_000), 625 * super::MIB);
    }
}
