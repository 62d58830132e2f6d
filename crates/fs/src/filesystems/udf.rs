//! UDF, the filesystem of optical media, in its format for hard disks.

use crate::def::*;

/// UDF.
pub const DEF: FsDef = FsDef {
    id: "udf",
    title: "UDF",
    mkfs: "mkudffs",
    // Not every kernel finds the filesystem if its block size differs from the sector size of the device.
    fixed_arguments: &["--media-type=hd", "--blocksize=512"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("noadinicb", "keeps no small files inside their inodes").mount(&["noadinicb"]),
        OptionSet::new(DURABLE, "changes of directories are synchronous").mount(&["dirsync"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: UDF has no protection that an option could turn off"),
    ],
    mount_names: "adinicb anchor bs dmode gid iocharset lastblock longad mode noadinicb noshortad nostrict novrs \
                  session shortad uid umask undelete unhide utf8",
    allowed_arguments: &[
        (ValueKind::Nothing, "--closed --noefe --vat --u8 --u16 --utf8 --locale"),
        (ValueKind::Plain, "-l --label -u --uuid -b --blocksize -m --media-type -r --udfrev --lvid --vid --vsid"),
        (ValueKind::Plain, "--fsid --fullvsid --owner --organization --contact --uid --gid --mode --bootarea"),
        (ValueKind::Plain, "--strategy --sparspace --packetlen --startblock --minblocks --space --ad"),
        (ValueKind::Path, "--new-file"),
    ],
    packages: &["udftools"],
    min_bytes: 64 * MIB,
    overhead: Overhead { fixed_bytes: 8 * MIB, percent: 2, per_file_bytes: 1536 },
    traits: Traits { crash_safe: false, name_bytes: 254, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand {
        program: "udfinfo",
        args: &[],
        lines: "label=|udfrev=|blocksize=|blocks=|integrity=",
    }),
    ..BASE
};
