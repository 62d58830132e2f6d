//! NTFS through the kernel's ntfs3 driver. Without `--quick` mkfs writes zeroes over the whole device.

use crate::def::*;

/// NTFS (ntfs3).
pub const DEF: FsDef = FsDef {
    id: "ntfs3",
    title: "NTFS (ntfs3)",
    mkfs: "mkfs.ntfs",
    fixed_arguments: &["--quick", "--force"],
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("force", "mounts a volume marked dirty").mount(&["force"]),
        OptionSet::new("prealloc", "allocates ahead of growing files").mount(&["prealloc"]),
        OptionSet::new(DURABLE, "changes of directories are synchronous").mount(&["dirsync"]),
        OptionSet::new(FAST_UNSAFE, "the defaults: ntfs3 has no option that is faster and less safe"),
    ],
    kernel_range: Some(KernelRange { text: "Debian has it from 6.12 on", debian: "6.12" }),
    mount_names: "acl discard dmask fmask force gid hide_dot_files hidden iocharset nocase nohidden noacsrules \
                  prealloc showmeta sparse sys_immutable uid umask windows_names",
    allowed_arguments: &[
        (ValueKind::Nothing, "-f --fast -Q --quick -C --enable-compression -I --no-indexing -T --zero-time -U"),
        (ValueKind::Nothing, "--with-uuid -F --force -q --quiet -v --verbose --debug"),
        (ValueKind::Plain, "-L --label -c --cluster-size -s --sector-size -p --partition-start -H --heads -S"),
        (ValueKind::Plain, "--sectors-per-track -z --mft-zone-multiplier"),
    ],
    packages: &["ntfs-3g"],
    min_bytes: 256 * MIB,
    overhead: Overhead { fixed_bytes: 80 * MIB, percent: 4, per_file_bytes: 4608 },
    describe_command: Some(DescribeCommand {
        program: "ntfsinfo",
        args: &["-m"],
        lines: "\tVolume Version|\tCluster Size|\tIndex Block Size|\tVolume Size|\tMFT Record Size",
    }),
    ..BASE
};
