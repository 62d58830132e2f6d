//! XFS. Its mkfs refuses devices under 300 MB.

use crate::def::*;

/// XFS.
pub const DEF: FsDef = FsDef {
    id: "xfs",
    // Kernel workers free the inodes of removed files. The name of a busy worker has a plus sign and the name of its queue.
    background_work: Some(BackgroundWork { thread: "+xfs-inodegc/{}", has_work: |_| Ok(true), by_mkfs: None }),
    title: "XFS",
    mkfs: "mkfs.xfs",
    fixed_arguments: &["-f"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new(
            "nocrc",
            "the format before metadata checksums (V4), as XFS was until 2015; kernels built without it cannot mount it",
        )
        .mkfs(&["-m", "crc=0,finobt=0,rmapbt=0,reflink=0,bigtime=0,inobtcount=0"]),
        OptionSet::new("noreflink", "cannot share blocks between files").mkfs(&["-m", "reflink=0"]),
        OptionSet::new("logbufs", "more and larger log buffers in memory").mount(&["logbufs=8", "logbsize=256k"]),
        OptionSet::new(DURABLE, "changes of directories are synchronous").mount(&["wsync"]),
        OptionSet::new(
            FAST_UNSAFE,
            "larger log buffers: a crash loses more data. XFS always flushes caches (Linux 4.19 removed nobarrier)",
        )
        .mount(&["logbufs=8", "logbsize=256k"]),
        OptionSet::new(
            TUNED_2011,
            "the dbench study of 2011: external log of 256 MiB, lazy-count, 16 allocation groups, large log buffers",
        )
        .mkfs(&["-l", "lazy-count=1", "-d", "agcount=16"])
        .mount(&["noatime", "nodiratime", "logbufs=8", "logbsize=262144"])
        .journal("external:256MiB")
        .changes("metadata checksums (V5) are on, which came in 2013; lazy-count=1 can no longer be off; the log lies on a device of 256 MiB, which mkfs takes whole"),
    ],
    mount_names: "allocsize attr2 dax dax=always dax=inode dax=never discard filestreams gqnoenforce gquota grpid \
                  grpquota ikeep inode32 inode64 largeio logbsize logbufs max_atomic_write max_open_zones noalign \
                  noattr2 nodiscard nogrpid noikeep nolargeio nolifetime norecovery noquota nouuid pqnoenforce pquota \
                  prjquota qnoenforce quota sunit swalloc swidth sysvgroups uqnoenforce uquota usrquota wsync",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f -K -q"),
        (ValueKind::Plain, "-L"),
        (ValueKind::Keys("size log"), "-b"),
        (ValueKind::Keys("size log sectsize sectlog"), "-s"),
        (ValueKind::Keys("!options"), "-c"),
        (ValueKind::Keys("bigtime crc finobt inobtcount metadir reflink rmapbt uuid autofsck"), "-m"),
        (
            ValueKind::Keys(
                "agcount agsize concurrency cowextsize daxinherit extszinherit noalign projinherit rtinherit sectlog \
                 sectsize size su sunit sw swidth !name !file",
            ),
            "-d",
        ),
        (ValueKind::Keys("align attr exchange log maxpct nrext64 perblock projid32bit size sparse"), "-i"),
        (
            ValueKind::Keys(
                "agnum concurrency internal lazy-count sectlog sectsize size su sunit version !name !file !logdev",
            ),
            "-l",
        ),
        (ValueKind::Keys("ftype log parent size version"), "-n"),
        (ValueKind::Keys("concurrency extsize noalign rgcount rgsize size zoned !name !file !rtdev"), "-r"),
        (ValueKind::Path, "-p -P"),
    ],
    pinned_flags: &[("-m", "uuid=")],
    packages: &["xfsprogs"],
    min_bytes: 300 * MIB,
    overhead: Overhead { fixed_bytes: 80 * MIB, percent: 4, per_file_bytes: 2560 },
    traits: Traits { reflink: true, ..UNIX_TRAITS },
    no_discard: (&["-K"], ""),
    check: Some(CheckDef { program: "xfs_repair", repairs: &[], full_check: &["-n"] }),
    describe_command: Some(DescribeCommand { program: "xfs_info", args: &[], lines: "" }),
    journal: Some(JournalDef {
        min_bytes: 64 * MIB,
        default_bytes: 256 * MIB,
        make_command: None,
        mkfs: &["-l", "logdev={}"],
        accepts_files: true,
        mount: "logdev={}",
        device_number_offsets: &[],
    }),
    ..BASE
};
