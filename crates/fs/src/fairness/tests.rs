//! Tests of `fairness.rs`.

use super::*;
use crate::{filesystems, lifecycle::VariantOptions};

fn variant(fs: &str, mkfs: &[&str], mount: &str) -> VariantFacts {
    let options = VariantOptions {
        mkfs: mkfs.iter().map(|word| word.to_string()).collect(),
        mount: mount.into(),
        ..VariantOptions::default()
    };
    VariantFacts {
        name: format!("{fs} {mount}"),
        def: filesystems::find(fs).unwrap(),
        options,
        effective_options: String::new(),
        size_bytes: 1 << 30,
        features: String::new(),
        levels: BTreeMap::new(),
    }
}

/// The variant with these levels of its factors.
fn with_levels(variant: VariantFacts, levels: &[(&str, &str)]) -> VariantFacts {
    let levels = levels.iter().map(|(id, level)| (id.to_string(), level.to_string()));
    VariantFacts { levels: levels.collect(), ..variant }
}

#[test]
fn an_axis_that_is_not_crossed_with_the_filesystem_gets_a_note() {
    let with_scheduler =
        |fs: &str, scheduler: &str| with_levels(variant(fs, &[], ""), &[("fs", fs), ("scheduler", scheduler)]);
    let mixed = axis_notes(&[with_scheduler("ext3", "bfq"), with_scheduler("xfs", "none")], &[]);
    assert_eq!(mixed.len(), 1);
    assert!(mixed[0].text.contains("`scheduler` differs") && mixed[0].text.contains("xfs  (none)"), "{mixed:?}");
    let crossed = [
        with_scheduler("ext3", "bfq"),
        with_scheduler("ext3", "none"),
        with_scheduler("xfs", "bfq"),
        with_scheduler("xfs", "none"),
    ];
    assert!(axis_notes(&crossed, &[]).is_empty());
    assert_eq!(axis_notes(&crossed[..3], &[]).len(), 1);
    assert!(axis_notes(&crossed[..2], &[]).is_empty());
    // Each level is compared alone with the plain variant.
    assert!(axis_notes(&crossed[..3], &["scheduler"]).is_empty());
}

#[test]
fn variants_with_more_devices_get_a_note() {
    let mut journal = variant("ext4", &[], "");
    journal.options.journal = fsarena_core::factor::device::parse_journal("external").unwrap();
    let mut striped = variant("btrfs", &[], "");
    striped.options.raid = fsarena_core::factor::device::parse_raid("raid0").unwrap();
    let notes: Vec<String> = lint(&[journal, striped], false, &[]).into_iter().map(|note| note.text).collect();
    assert!(notes.iter().any(|text| text.contains("journal on a separate device")), "{notes:?}");
    assert!(notes.iter().any(|text| text.contains("spread over several devices")), "{notes:?}");
}

#[test]
fn layers_and_stacks_get_a_note_if_some_variants_have_none() {
    let plain = variant("ext4", &[], "");
    let [layer, stack] = [("layer", "overlay"), ("stack", "crypt")].map(|level| with_levels(plain.clone(), &[level]));
    let none = with_levels(plain.clone(), &[("layer", "none")]);
    let count = |variants: &[VariantFacts], words: &str| {
        let notes = lint(variants, false, &["layer", "stack"]);
        notes.iter().filter(|note| note.text.contains(words)).count()
    };
    assert_eq!(count(&[plain.clone(), none, layer.clone()], "works through a layer"), 1);
    assert_eq!(count(&[plain, stack], "transforms or copies"), 1);
    assert_eq!(count(&[layer.clone(), layer], "works through a layer"), 0);
}

/// The notes of the lint, each as `variant: word`, where the word identifies the rule.
fn notes_by_rule(variants: &[VariantFacts]) -> Vec<String> {
    const WORDS: &[&str] = &[
        "cache",
        "inode tables",
        "sharing",
        "compresses",
        "checksums",
        "discards",
        "no journal",
        "writeback",
        "twice",
        "in size",
    ];
    let mut notes = lint(variants, true, &[]);
    notes.retain(|note| note.kind != NoteKind::Weaker);
    assert!(notes.iter().all(|note| note.kind == NoteKind::Fairness && note.fix.is_some()));
    let word = |note: &Note| WORDS.iter().find(|word| note.text.contains(**word)).copied().unwrap_or("?");
    notes.iter().map(|note| format!("{}: {}", note.variant.as_deref().unwrap_or("all").trim(), word(note))).collect()
}

#[test]
fn equal_variants_get_no_notes() {
    for def in filesystems::FILESYSTEMS {
        for set in def.option_sets {
            let of_set = variant(def.id, set.mkfs, &set.mount.join(","));
            assert_eq!(notes_by_rule(&[of_set.clone(), of_set]), [""; 0], "{} {}", def.id, set.id);
        }
    }
    assert_eq!(notes_by_rule(&[]), [""; 0]);
}

#[test]
fn a_difference_in_access_times_gets_no_note() {
    assert_eq!(notes_by_rule(&[variant("xfs", &[], ""), variant("xfs", &[], "noatime")]), [""; 0]);
}

#[test]
fn missing_barriers_get_a_note() {
    assert_eq!(
        notes_by_rule(&[variant("ext4", &[], ""), variant("ext4", &[], "nobarrier")]),
        ["ext4 nobarrier: cache"]
    );
    assert_eq!(
        notes_by_rule(&[variant("ext4", &[], "barrier=0"), variant("ext3", &[], "barrier=0")])[0],
        "ext4 barrier=0: inode tables"
    );
}

#[test]
fn mount_options_that_the_kernel_reports_override_those_of_the_user() {
    let mut mounted = variant("ext4", &[], "nobarrier");
    mounted.effective_options = "rw,barrier".into();
    assert_eq!(notes_by_rule(&[mounted, variant("ext4", &[], "")]), [""; 0]);
}

#[test]
fn the_last_of_two_contradicting_options_counts() {
    assert_eq!(notes_by_rule(&[variant("ext4", &[], "nobarrier,barrier=1"), variant("ext4", &[], "")]), [""; 0]);
    assert!(variant("f2fs", &[], "fsync_mode=nobarrier,fsync_mode=strict").uses_barriers());
    assert!(!variant("f2fs", &[], "fsync_mode=strict,fsync_mode=nobarrier").uses_barriers());
}

#[test]
fn different_durability_gets_a_note() {
    assert_eq!(notes_by_rule(&[variant("ext2", &[], ""), variant("ext3", &[], "")]), ["ext2: no journal"]);
    assert_eq!(
        notes_by_rule(&[variant("ext3", &[], "data=writeback"), variant("ext3", &[], "")]),
        ["ext3 data=writeback: writeback"]
    );
    assert_eq!(
        notes_by_rule(&[variant("ext3", &[], "data=journal"), variant("ext3", &[], "")]),
        ["ext3 data=journal: twice"]
    );
    let without = variant("ext3", &["-O", "^has_journal"], "");
    assert_eq!(notes_by_rule(&[variant("ext2", &[], ""), without.clone()]), [""; 0]);
    assert_eq!(notes_by_rule(&[without, variant("ext3", &[], "")]), ["ext3: no journal"]);
}

#[test]
fn options_that_give_up_safety_are_known_for_every_filesystem() {
    assert_eq!(
        notes_by_rule(&[variant("jfs", &[], "nointegrity"), variant("jfs", &[], "")]),
        ["jfs nointegrity: no journal"]
    );
    assert_eq!(
        notes_by_rule(&[variant("reiserfs", &[], "nolog"), variant("ext3", &[], "")]),
        ["reiserfs nolog: no journal"]
    );
    assert_eq!(
        notes_by_rule(&[variant("reiser4", &[], "no_write_barrier"), variant("ext3", &[], "")]),
        ["reiser4 no_write_barrier: cache"]
    );
    // Every option set `fast-unsafe` gives up a guarantee, unless the filesystem has none to give up.
    for def in filesystems::FILESYSTEMS {
        let unsafe_set = def.option_set("fast-unsafe").unwrap();
        let of_set = variant(def.id, unsafe_set.mkfs, &unsafe_set.mount.join(","));
        let gives_up = LOST_GUARANTEES.iter().any(|(_, gives_up)| gives_up(&of_set));
        let has_nothing_to_give_up = unsafe_set.help.starts_with("the defaults") || ["xfs"].contains(&def.id);
        assert!(gives_up || has_nothing_to_give_up, "{}", def.id);
    }
}

#[test]
fn a_feature_list_without_a_journal_means_no_journal() {
    let mut ext3 = variant("ext3", &[], "");
    ext3.features = "Filesystem features:      ext_attr dir_index\nInode count: 1".into();
    assert_eq!(notes_by_rule(&[ext3.clone(), variant("ext3", &[], "")]), ["ext3: no journal"]);
    ext3.features = "Filesystem features:      has_journal ext_attr".into();
    assert_eq!(notes_by_rule(&[ext3, variant("ext3", &[], "")]), [""; 0]);
}

#[test]
fn lazy_initialisation_gets_a_note() {
    let eager = variant("ext4", &["-E", "lazy_itable_init=0,lazy_journal_init=0"], "");
    assert_eq!(notes_by_rule(&[variant("ext4", &[], ""), eager.clone()]), ["ext4: inode tables"]);
    let mut without_checksums = variant("ext4", &["-O", "^metadata_csum,^uninit_bg"], "");
    without_checksums.features = "Filesystem features:      has_journal extent flex_bg".into();
    assert_eq!(notes_by_rule(&[without_checksums, eager]), [""; 0]);
}

#[test]
fn different_reflink_checksums_and_compression_get_a_note() {
    let plain = variant("xfs", &["-m", "reflink=0"], "");
    assert_eq!(notes_by_rule(&[variant("xfs", &[], ""), plain.clone()]), ["xfs: sharing"]);
    assert_eq!(notes_by_rule(&[variant("btrfs", &[], ""), plain]), ["btrfs: sharing", "btrfs: checksums"]);
    let nodatacow = variant("btrfs", &[], "nodatacow");
    assert_eq!(notes_by_rule(&[variant("btrfs", &[], ""), nodatacow]), ["btrfs: checksums"]);
    assert_eq!(
        notes_by_rule(&[variant("btrfs", &[], "compress=zstd"), variant("btrfs", &[], "")]),
        ["btrfs compress=zstd: compresses"]
    );
    assert_eq!(notes_by_rule(&[variant("btrfs", &[], "compress=no"), variant("btrfs", &[], "")]), [""; 0]);
}

#[test]
fn the_properties_of_a_pool_count_like_mount_options() {
    let zfs = |words: &[&str]| variant("zfs", words, "");
    let default = zfs(&[]);
    assert!(default.compresses() && default.uses_barriers() && default.has_data_checksums());
    let off = zfs(&["-O", "compression=off", "-O", "sync=disabled,checksum=off"]);
    assert!(!off.compresses() && !off.uses_barriers() && !off.has_data_checksums());
    assert!(zfs(&["-O", "compression=off", "-O", "compression=zstd"]).compresses());
    let default_again = zfs(&["-O", "sync=disabled,checksum=off", "-O", "sync=standard", "-O", "checksum=sha256"]);
    assert!(default_again.uses_barriers() && default_again.has_data_checksums());
    // An argument of mkfs does not mean the same elsewhere.
    assert!(variant("ext4", &["-O", "sync=disabled"], "").uses_barriers());
}

#[test]
fn different_discard_gets_a_note() {
    assert_eq!(
        notes_by_rule(&[variant("xfs", &[], "discard"), variant("xfs", &[], "nodiscard")]),
        ["xfs discard: discards"]
    );
}

#[test]
fn different_device_sizes_get_a_note() {
    let mut large = variant("xfs", &[], "");
    large.size_bytes += 1 << 20;
    assert_eq!(notes_by_rule(&[variant("xfs", &[], ""), large]), ["all: in size"]);
}

#[test]
fn given_up_guarantees_get_a_weaker_note() {
    let weaker = |variants: &[VariantFacts]| -> Vec<String> {
        let notes = super::lint(variants, false, &[]).into_iter().filter(|note| note.kind == NoteKind::Weaker);
        notes.map(|note| format!("{}: {}", note.variant.unwrap().trim(), &note.text[..10])).collect()
    };
    assert_eq!(weaker(&[variant("ext2", &[], ""), variant("ext4", &[], "")]), ["ext2: no journal"]);
    // Equal variants, and a filesystem that guarantees more than its rival by default, give up nothing.
    assert!(weaker(&[variant("xfs", &[], ""), variant("btrfs", &[], "")]).is_empty());
    assert!(weaker(&[variant("ext4", &[], "nobarrier"), variant("ext3", &[], "nobarrier")]).is_empty());
    assert_eq!(
        weaker(&[variant("btrfs", &[], "nodatasum"), variant("ext4", &[], "barrier=0"), variant("xfs", &[], "")]),
        ["ext4 barrier=0: no flush o", "btrfs nodatasum: no checksu"]
    );
}

#[test]
fn memory_and_read_only_filesystems_get_their_own_notes_and_no_others() {
    let tmpfs = lint(&[variant("tmpfs", &[], ""), variant("ext4", &[], "")], false, &[]);
    let of_tmpfs: Vec<&str> =
        tmpfs.iter().filter(|note| note.kind == NoteKind::Weaker).map(|note| note.text.as_str()).collect();
    assert_eq!(of_tmpfs, ["no storage: an unmount, a crash or a power cut loses every file"]);
    assert!(tmpfs.iter().any(|note| note.text.contains("a sync does nothing")), "{tmpfs:?}");
    assert!(!tmpfs.iter().any(|note| note.text.contains("journal")), "{tmpfs:?}");

    let mut erofs = variant("erofs", &[], "");
    erofs.features = "Filesystem features:    sb_csum mtime".into();
    let notes = lint(&[erofs, variant("ext4", &[], "")], false, &[]);
    let texts: Vec<&str> =
        notes.iter().map(|note| note.text.as_str()).filter(|text| !text.contains("inode tables")).collect();
    assert!(texts.len() == 1 && texts[0].contains("packed by its mkfs"), "{texts:?}");

    let compresses = |fs: &str, mkfs: &[&str]| variant(fs, mkfs, "").compresses();
    assert!(compresses("squashfs", &[]) && !compresses("squashfs", &["-noI", "-noD"]));
    assert!(compresses("erofs", &["-z", "lz4"]) && !compresses("erofs", &["-T", "0"]));
}
