//! XFS. Its mkfs makes nothing under 300 MB.

use crate::def::{DEFAULT, Describe, FsDef, MIB, NOATIME, OptionSet, Overhead, Traits, UNIX};

/// XFS.
pub const DEF: FsDef = FsDef {
    id: "xfs",
    title: "XFS",
    kernel_type: "xfs",
    mkfs: "mkfs.xfs",
    force: &["-f"],
    quiet: &[],
    feature_flag: None,
    options: &[
        DEFAULT,
        NOATIME,
        OptionSet {
            id: "nocrc",
            mkfs: &["-m", "crc=0,finobt=0,rmapbt=0,reflink=0,bigtime=0,inobtcount=0"],
            mount: &[],
            help: "the format before metadata checksums (V4), as XFS was until 2015; kernels built without it cannot mount it",
        },
        OptionSet {
            id: "noreflink",
            mkfs: &["-m", "reflink=0"],
            mount: &[],
            help: "cannot share blocks between files",
        },
        OptionSet {
            id: "logbufs",
            mkfs: &[],
            mount: &["logbufs=8", "logbsize=256k"],
            help: "more and larger log buffers in memory",
        },
    ],
    packages: &["xfsprogs"],
    min_bytes: 300 * MIB,
    overhead: Overhead { fixed_bytes: 80 * MIB, percent: 4, per_file_bytes: 2560 },
    traits: Traits { reflink: true, ..UNIX },
    describe: Some(Describe { program: "xfs_info", args: &[], lines: &[] }),
};
