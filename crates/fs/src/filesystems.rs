//! The registry of filesystems. A new filesystem needs one file in `filesystems/` and two lines here.

use crate::{Error, def::FsDef};
use fsarena_core::names;

mod bcachefs;
mod btrfs;
mod erofs;
mod ext;
mod f2fs;
mod fat;
mod hfsplus;
mod jfs;
mod minix;
mod nilfs2;
mod ntfs3;
mod reiserfs;
mod squashfs;
mod tmpfs;
mod udf;
mod xfs;
mod zfs;

/// All filesystems that fsarena can make, in the order of reports.
pub const FILESYSTEMS: &[&FsDef] = &[
    &ext::EXT2,
    &ext::EXT3,
    &ext::EXT4,
    &xfs::DEF,
    &btrfs::DEF,
    &bcachefs::DEF,
    &zfs::DEF,
    &jfs::DEF,
    &reiserfs::REISERFS,
    &reiserfs::REISER4,
    &f2fs::DEF,
    &nilfs2::DEF,
    &fat::VFAT,
    &fat::EXFAT,
    &ntfs3::DEF,
    &hfsplus::DEF,
    &udf::DEF,
    &minix::DEF,
    &erofs::DEF,
    &squashfs::DEF,
    &tmpfs::DEF,
];

/// Finds a filesystem by its name.
///
/// # Errors
/// The name is unknown; the message lists all names.
pub fn find(id: &str) -> Result<&'static FsDef, Error> {
    Ok(names::find_by_id("filesystem", id, FILESYSTEMS.iter().copied(), |def| def.id)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::def::{DURABLE, FAST_UNSAFE, TUNED_2011};
    use std::collections::BTreeSet;

    #[test]
    fn every_definition_is_registered() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/filesystems");
        let mut defined = BTreeSet::new();
        for file in std::fs::read_dir(dir).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let definitions = text.split("\npub const ").skip(1);
            let ids = definitions.map(|definition| definition.split('"').nth(1).unwrap().to_string());
            defined.extend(ids);
        }
        let registered: BTreeSet<String> = FILESYSTEMS.iter().map(|def| def.id.to_string()).collect();
        assert_eq!(defined, registered);
    }

    #[test]
    fn every_filesystem_has_the_common_option_sets_once() {
        for def in FILESYSTEMS {
            let ids: Vec<_> = def.option_sets.iter().map(|set| set.id).collect();
            assert_eq!(ids[..2], ["default", "noatime"], "{}", def.id);
            assert!(ids.contains(&DURABLE) && ids.contains(&FAST_UNSAFE), "{}", def.id);
            let tuned = def.option_set(TUNED_2011);
            assert!(tuned.is_none_or(|set| !set.changes.is_empty()), "{}", def.id);
            assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{}", def.id);
            assert_eq!(def.packages.is_empty(), def.mkfs.is_empty(), "{}", def.id);
            assert_eq!(def.mkfs.is_empty(), def.traits.volatile, "{}", def.id);
            assert!(!def.traits.read_only || def.contents_argument.is_some(), "{}", def.id);
            assert!(def.overhead.percent < 100, "{}", def.id);
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_all_names() {
        let error = find("hfs").unwrap_err().to_string();
        assert!(error.contains("`hfs`") && error.contains("ext2, ext3, ext4, xfs, btrfs"), "{error}");
    }
}
