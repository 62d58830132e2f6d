use super::*;
use crate::{filesystems, lifecycle::VariantOptions};

fn variant(fs: &str, mkfs: &[&str], mount: &str) -> VariantFacts {
    let options = VariantOptions {
        mkfs: mkfs.iter().map(|word| word.to_string()).collect(),
        mount: mount.into(),
        ..VariantOptions::default()
    };
    VariantFacts {
        variant: format!("{fs} {mount}"),
        def: filesystems::find(fs).unwrap(),
        options,
        effective: String::new(),
        size_bytes: 1 << 30,
        features: String::new(),
        levels: BTreeMap::new(),
    }
}

/// The same variant at these levels.
fn at(variant: VariantFacts, levels: &[(&str, &str)]) -> VariantFacts {
    let levels = levels.iter().map(|(id, level)| (id.to_string(), level.to_string()));
    VariantFacts { levels: levels.collect(), ..variant }
}

#[test]
fn an_axis_that_goes_with_the_filesystem_is_remarked_on_and_one_that_is_crossed_is_not() {
    let of = |fs: &str, scheduler: &str| at(variant(fs, &[], ""), &[("fs", fs), ("scheduler", scheduler)]);
    let mixed = axes(&[of("ext3", "bfq"), of("xfs", "none")], &[]);
    assert_eq!(mixed.len(), 1);
    assert!(
        mixed[0].text.contains("`scheduler` differs") && mixed[0].text.contains("xfs  (none)"),
        "{mixed:?}"
    );
    let crossed = [of("ext3", "bfq"), of("ext3", "none"), of("xfs", "bfq"), of("xfs", "none")];
    assert!(axes(&crossed, &[]).is_empty());
    assert_eq!(axes(&crossed[..3], &[]).len(), 1);
    assert!(axes(&crossed[..2], &[]).is_empty());
    // Each compared with its plain variant alone.
    assert!(axes(&crossed[..3], &["scheduler"]).is_empty());
}

#[test]
fn more_devices_are_remarked_on() {
    let mut journal = variant("ext4", &[], "");
    journal.options.journal = fsarena_core::factor::journal::parse("external").unwrap();
    let mut striped = variant("btrfs", &[], "");
    striped.options.raid = fsarena_core::factor::raid::parse("raid0").unwrap();
    let notes: Vec<String> =
        lint(&[journal, striped], false, &[]).into_iter().map(|note| note.text).collect();
    assert!(notes.iter().any(|text| text.contains("journal on a separate device")), "{notes:?}");
    assert!(notes.iter().any(|text| text.contains("spread over several devices")), "{notes:?}");
}

#[test]
fn layers_and_stacks_are_remarked_on_where_some_variants_have_none() {
    let plain = variant("ext4", &[], "");
    let [layer, stack] = [("layer", "overlay"), ("stack", "crypt")].map(|level| at(plain.clone(), &[level]));
    let none = at(plain.clone(), &[("layer", "none")]);
    let count = |variants: &[VariantFacts], words: &str| {
        let notes = lint(variants, false, &["layer", "stack"]);
        notes.iter().filter(|note| note.text.contains(words)).count()
    };
    assert_eq!(count(&[plain.clone(), none, layer.clone()], "works through a layer"), 1);
    assert_eq!(count(&[plain, stack], "transforms or copies"), 1);
    assert_eq!(count(&[layer.clone(), layer], "works through a layer"), 0);
}

/// Each note as (variant, a word that tells the rule).
fn said(variants: &[VariantFacts]) -> Vec<String> {
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
    notes
        .iter()
        .map(|note| format!("{}: {}", note.variant.as_deref().unwrap_or("all").trim(), word(note)))
        .collect()
}

#[test]
fn equal_variants_are_not_remarked_on() {
    for def in filesystems::FILESYSTEMS {
        for set in def.options {
            let one = variant(def.id, set.mkfs, &set.mount.join(","));
            assert_eq!(said(&[one.clone(), one]), [""; 0], "{} {}", def.id, set.id);
        }
    }
    assert_eq!(said(&[]), [""; 0]);
}

#[test]
fn access_times_alone_are_fair() {
    assert_eq!(said(&[variant("xfs", &[], ""), variant("xfs", &[], "noatime")]), [""; 0]);
}

#[test]
fn barriers() {
    assert_eq!(
        said(&[variant("ext4", &[], ""), variant("ext4", &[], "nobarrier")]),
        ["ext4 nobarrier: cache"]
    );
    assert_eq!(
        said(&[variant("ext4", &[], "barrier=0"), variant("ext3", &[], "barrier=0")])[0],
        "ext4 barrier=0: inode tables"
    );
}

#[test]
fn the_kernels_word_counts_before_the_users() {
    let mut mounted = variant("ext4", &[], "nobarrier");
    mounted.effective = "rw,barrier".into();
    assert_eq!(said(&[mounted, variant("ext4", &[], "")]), [""; 0]);
}

#[test]
fn the_last_option_wins() {
    assert_eq!(said(&[variant("ext4", &[], "nobarrier,barrier=1"), variant("ext4", &[], "")]), [""; 0]);
}

#[test]
fn durability_modes() {
    assert_eq!(said(&[variant("ext2", &[], ""), variant("ext3", &[], "")]), ["ext2: no journal"]);
    assert_eq!(
        said(&[variant("ext3", &[], "data=writeback"), variant("ext3", &[], "")]),
        ["ext3 data=writeback: writeback"]
    );
    assert_eq!(
        said(&[variant("ext3", &[], "data=journal"), variant("ext3", &[], "")]),
        ["ext3 data=journal: twice"]
    );
    let without = variant("ext3", &["-O", "^has_journal"], "");
    assert_eq!(said(&[variant("ext2", &[], ""), without.clone()]), [""; 0]);
    assert_eq!(said(&[without, variant("ext3", &[], "")]), ["ext3: no journal"]);
}

#[test]
fn what_gives_up_safety_is_known_in_the_words_of_every_filesystem() {
    assert_eq!(
        said(&[variant("jfs", &[], "nointegrity"), variant("jfs", &[], "")]),
        ["jfs nointegrity: no journal"]
    );
    assert_eq!(
        said(&[variant("reiserfs", &[], "nolog"), variant("ext3", &[], "")]),
        ["reiserfs nolog: no journal"]
    );
    assert_eq!(
        said(&[variant("reiser4", &[], "no_write_barrier"), variant("ext3", &[], "")]),
        ["reiser4 no_write_barrier: cache"]
    );
    // Whatever the names: what gives up safety is known by what it does.
    for def in filesystems::FILESYSTEMS {
        let unsafe_set = def.option_set("fast-unsafe").unwrap();
        let one = variant(def.id, unsafe_set.mkfs, &unsafe_set.mount.join(","));
        let gives_up = SAFETY.iter().any(|(_, gives_up)| gives_up(&one));
        let helps = unsafe_set.help.starts_with("as it is") || ["xfs"].contains(&def.id);
        assert!(gives_up || helps, "{}", def.id);
    }
}

#[test]
fn a_journal_that_the_features_lack_is_missing() {
    let mut one = variant("ext3", &[], "");
    one.features = "Filesystem features:      ext_attr dir_index\nInode count: 1".into();
    assert_eq!(said(&[one.clone(), variant("ext3", &[], "")]), ["ext3: no journal"]);
    one.features = "Filesystem features:      has_journal ext_attr".into();
    assert_eq!(said(&[one, variant("ext3", &[], "")]), [""; 0]);
}

#[test]
fn lazy_initialisation() {
    let eager = variant("ext4", &["-E", "lazy_itable_init=0,lazy_journal_init=0"], "");
    assert_eq!(said(&[variant("ext4", &[], ""), eager]), ["ext4: inode tables"]);
}

#[test]
fn reflink_checksums_and_compression() {
    let plain = variant("xfs", &["-m", "reflink=0"], "");
    assert_eq!(said(&[variant("xfs", &[], ""), plain.clone()]), ["xfs: sharing"]);
    assert_eq!(said(&[variant("btrfs", &[], ""), plain]), ["btrfs: sharing", "btrfs: checksums"]);
    let nodatacow = variant("btrfs", &[], "nodatacow");
    assert_eq!(said(&[variant("btrfs", &[], ""), nodatacow]), ["btrfs: checksums"]);
    assert_eq!(
        said(&[variant("btrfs", &[], "compress=zstd"), variant("btrfs", &[], "")]),
        ["btrfs compress=zstd: compresses"]
    );
    assert_eq!(said(&[variant("btrfs", &[], "compress=no"), variant("btrfs", &[], "")]), [""; 0]);
}

#[test]
fn discard() {
    assert_eq!(
        said(&[variant("xfs", &[], "discard"), variant("xfs", &[], "nodiscard")]),
        ["xfs discard: discards"]
    );
}

#[test]
fn sizes_differ() {
    let mut large = variant("xfs", &[], "");
    large.size_bytes += 1 << 20;
    assert_eq!(said(&[variant("xfs", &[], ""), large]), ["all: in size"]);
}

#[test]
fn what_a_variant_gives_up_of_safety_is_told() {
    let weaker = |variants: &[VariantFacts]| -> Vec<String> {
        let notes =
            super::lint(variants, false, &[]).into_iter().filter(|note| note.kind == NoteKind::Weaker);
        notes.map(|note| format!("{}: {}", note.variant.unwrap().trim(), &note.text[..10])).collect()
    };
    assert_eq!(weaker(&[variant("ext2", &[], ""), variant("ext4", &[], "")]), ["ext2: no journal"]);
    // Where all are alike, and where one keeps more than its rival by default, nothing is given up.
    assert!(weaker(&[variant("xfs", &[], ""), variant("btrfs", &[], "")]).is_empty());
    assert!(weaker(&[variant("ext4", &[], "nobarrier"), variant("ext3", &[], "nobarrier")]).is_empty());
    assert_eq!(
        weaker(&[
            variant("btrfs", &[], "nodatasum"),
            variant("ext4", &[], "barrier=0"),
            variant("xfs", &[], "")
        ]),
        ["ext4 barrier=0: no flush o", "btrfs nodatasum: no checksu"]
    );
}
