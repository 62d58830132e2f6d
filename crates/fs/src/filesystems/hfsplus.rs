//! HFS+, the filesystem of macOS until 2017. Linux does not write its journal, so fsarena makes it without one.

use crate::def::*;

/// HFS+.
pub const DEF: FsDef = FsDef {
    id: "hfsplus",
    title: "HFS+",
    mkfs: "mkfs.hfsplus",
    option_sets: &[
        DEFAULT,
        NOATIME,
        OptionSet::new("nodecompose", "stores file names as they are given, not decomposed").mount(&["nodecompose"]),
        OptionSet::new(DURABLE, "flushes the device's cache; without a journal a crash needs fsck all the same")
            .mount(&["barrier"]),
        OptionSet::new(FAST_UNSAFE, "does not flush the device's cache").mount(&["nobarrier"]),
    ],
    mount_names: "barrier creator decompose force gid nls nobarrier nodecompose part session type uid umask",
    allowed_arguments: &[
        (ValueKind::Nothing, "-s -P -w"),
        (ValueKind::Plain, "-b -c -i -n -v -G -M -U"),
        (ValueKind::Path, "-D -J"),
    ],
    packages: &["hfsprogs"],
    component: "non-free",
    modules: &["nls_utf8"],
    min_bytes: 128 * MIB,
    overhead: Overhead { fixed_bytes: 32 * MIB, percent: 4, per_file_bytes: 4608 },
    traits: Traits { crash_safe: false, case_sensitive: false, ..UNIX_TRAITS },
    describe_command: Some(DescribeCommand { program: "fsck.hfsplus", args: &["-n", "-f"], lines: "" }),
    ..BASE
};
