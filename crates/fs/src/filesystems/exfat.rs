//! exFAT. mkfs never asks.

use crate::def::*;

/// exFAT.
pub const DEF: FsDef = FsDef {
    id: "exfat",
    title: "exFAT",
    mkfs: "mkfs.exfat",
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet::named(DURABLE).mount(&["dirsync"]).help("changes of directories are synchronous"),
        OptionSet::named(FAST_UNSAFE).help("as it is: exFAT keeps nothing that could be given up"),
    ],
    mount_names: "allow_utime discard dmask errors errors=continue errors=panic errors=remount-ro fmask gid iocharset \
                  keep_last_dots sys_tz time_offset uid umask zero_size_dir",
    arguments: &[
        (Takes::Nothing, "-f --full-format --pack-bitmap -q --quiet -v --verbose"),
        (Takes::Value, "-b --boundary-align -c --cluster-size -s --sector-size -L --volume-label -n -U"),
        (Takes::Value, "--volume-guid"),
    ],
    packages: &["exfatprogs"],
    min_bytes: 256 * MIB,
    overhead: Overhead { fixed_bytes: 16 * MIB, percent: 2, per_file_bytes: 32768 },
    traits: Traits { crash_safe: false, unix: false, case_sensitive: false, any_name: false, ..UNIX },
    describe: Some(Describe { program: "dump.exfat", args: &[], lines: "" }),
    ..BASE
};
