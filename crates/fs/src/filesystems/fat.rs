//! FAT32 and exFAT. Neither has owners or links.

use crate::def::*;

/// FAT32. Files are smaller than 4 GiB.
pub const VFAT: FsDef = FsDef {
    id: "vfat",
    title: "FAT32",
    mkfs: "mkfs.vfat",
    fixed_arguments: &["-F", "32", "-I"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("flush", "writes back soon after a file is closed").mount(&["flush"]),
        OptionSet::new(DURABLE, "writes back soon after a file is closed").mount(&["flush"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: FAT has no protection that an option could turn off"),
    ],
    mount_names: "allow_utime check check=normal check=relaxed check=strict codepage debug discard dmask errors \
                  errors=continue errors=panic errors=remount-ro fat flush fmask gid iocharset nfs nfs=nostale_ro \
                  nfs=stale_rw nonumtail quiet rodir shortname shortname=lower shortname=mixed shortname=win95 \
                  shortname=winnt showexec sys_immutable time_offset tz tz=UTC uid umask uni_xlate usefree utf8",
    allowed_arguments: &[
        (ValueKind::Nothing, "-a -A -c -I -v --invariant"),
        (ValueKind::Plain, "-b -D -f -F -h -i -M -n -r -R -s -S --codepage --offset --variant"),
        (ValueKind::Path, "-C -l -m"),
    ],
    packages: &["dosfstools"],
    // The default code page is 437. The default character set is iso8859-1, or ascii in the kernels of some distributions.
    modules: &["nls_cp437", "nls_ascii", "nls_iso8859_1"],
    min_bytes: 512 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 2, per_file_bytes: 8192 },
    traits: Traits { crash_safe: false, unix: false, case_sensitive: false, any_name: false, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand { program: "fsck.vfat", args: &["-n", "-v"], lines: "" }),
    ..BASE
};

/// exFAT. Its mkfs never asks for confirmation.
pub const EXFAT: FsDef = FsDef {
    id: "exfat",
    title: "exFAT",
    mkfs: "mkfs.exfat",
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new(DURABLE, "changes of directories are synchronous").mount(&["dirsync"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: exFAT has no protection that an option could turn off"),
    ],
    mount_names: "allow_utime discard dmask errors errors=continue errors=panic errors=remount-ro fmask gid iocharset \
                  keep_last_dots sys_tz time_offset uid umask zero_size_dir",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f --full-format --pack-bitmap -q --quiet -v --verbose"),
        (ValueKind::Plain, "-b --boundary-align -c --cluster-size -s --sector-size -L --volume-label -n -U"),
        (ValueKind::Plain, "--volume-guid"),
    ],
    packages: &["exfatprogs"],
    min_bytes: 256 * MIB,
    overhead: Overhead { fixed_bytes: 16 * MIB, percent: 2, per_file_bytes: 32768 },
    traits: Traits { crash_safe: false, unix: false, case_sensitive: false, any_name: false, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand { program: "dump.exfat", args: &[], lines: "" }),
    ..BASE
};
