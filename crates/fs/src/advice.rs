//! The option sets to try with a filesystem (`fsarena advise`), and the command line that makes and mounts a variant.

use crate::def::{ContentsArgument, FAST_UNSAFE};
use crate::{error::Error, fairness::given_up_guarantees, filesystems, lifecycle};
use fsarena_core::{cell::Variant, factor};

/// The most common filesystems, in the order in which a run with a short budget tries them.
const USUAL_FILESYSTEMS: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// The rank of a variant in a run with a short budget: the usual filesystems have the lowest ranks and are tried first.
pub fn short_budget_rank(variant: &Variant) -> usize {
    let fs = variant.level(factor::FS);
    USUAL_FILESYSTEMS.iter().position(|usual| *usual == fs).unwrap_or(USUAL_FILESYSTEMS.len())
}

/// Mount options that every filesystem accepts and that no option set has.
const EXTRA_MOUNT_OPTIONS: [&str; 1] = ["lazytime"];

/// Returns each surviving variant with each option set of its filesystem and with each of `EXTRA_MOUNT_OPTIONS`, and the
/// names of the variants that are left out because they give up safety (none with `allow_unsafe`). The defaults of all
/// filesystems come first, then the second set of each, and so on, because not all may fit the budget. Sets that require
/// further devices are left out.
///
/// # Errors
/// The filesystem of a variant is unknown, or its options are wrong.
pub fn option_variants(survivors: &[Variant], allow_unsafe: bool) -> Result<(Vec<Variant>, Vec<String>), Error> {
    let (mut allowed, mut unsafe_names) = (vec![], vec![]);
    for (survivor_index, survivor) in survivors.iter().enumerate() {
        let def = filesystems::find(survivor.level(factor::FS))?;
        let option_sets = def.option_sets.iter().filter(|set| set.journal.is_empty() && set.raid.is_empty());
        let set_levels = option_sets.map(|set| (factor::OPTIONS, set.id));
        let levels = set_levels.chain(EXTRA_MOUNT_OPTIONS.map(|option| (factor::MOUNT, option)));
        let given_up_before = given_up_guarantees(survivor)?.len();
        for (level_index, (factor, level)) in levels.enumerate() {
            let variant = with_level(survivor, factor, level);
            let keeps_safety = level != FAST_UNSAFE && given_up_guarantees(&variant)?.len() <= given_up_before;
            if allow_unsafe || keeps_safety {
                allowed.push(((level_index, survivor_index), variant));
            } else {
                unsafe_names.push(variant.name);
            }
        }
    }
    allowed.sort_by_key(|(order, _)| *order);
    Ok((allowed.into_iter().map(|(_, variant)| variant).collect(), unsafe_names))
}

/// A variant with one more level, which its name ends with: `ext4/noatime`. The level `default` changes nothing. Mount options
/// that the variant has already stay.
fn with_level(survivor: &Variant, factor: &str, level: &str) -> Variant {
    let mut variant = survivor.clone();
    if level == "default" {
        return variant;
    }
    variant.name = format!("{}/{level}", survivor.name);
    let level = match survivor.level(factor) {
        former if factor == factor::MOUNT && !former.is_empty() => format!("{former},{level}"),
        _ => level.into(),
    };
    variant.levels.insert(factor.into(), level);
    variant
}

/// The command line that makes and mounts a variant: `mkfs.xfs -m crc=0 DEVICE && mount -t xfs -o noatime DEVICE DIRECTORY`.
///
/// # Errors
/// Its filesystem is unknown, or its options are wrong.
pub fn command_line(variant: &Variant) -> Result<String, Error> {
    let def = filesystems::find(variant.level(factor::FS))?;
    let options = lifecycle::variant_options(def, variant)?;
    let mkfs_options = options.mkfs.join(" ");
    let device = if def.traits.volatile { def.id } else { "DEVICE" };
    let source = def.pool.map_or(device, |pool| pool.name);
    let pool_command = if def.pool.is_some() { lifecycle::mkfs_words(def, &options)?.join(" ") } else { String::new() };
    let mut command = match def.contents_argument.filter(|_| def.traits.read_only) {
        _ if def.mkfs.is_empty() => vec![],
        _ if def.pool.is_some() => vec![pool_command.as_str(), device, "&&"],
        Some(ContentsArgument::First) => vec![def.mkfs, "FILES", device, &mkfs_options, "&&"],
        Some(_) => vec![def.mkfs, &mkfs_options, device, "FILES", "&&"],
        None => vec![def.mkfs, &mkfs_options, device, "&&"],
    };
    command.extend(["mount", "-t", def.id]);
    if !options.mount.is_empty() {
        command.extend(["-o", &options.mount]);
    }
    command.extend([source, "DIRECTORY"]);
    command.retain(|word| !word.is_empty());
    Ok(command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default_variant(fs: &str) -> Variant {
        Variant { name: fs.into(), levels: [(factor::FS.to_string(), fs.to_string())].into() }
    }

    #[test]
    fn options_that_give_up_safety_require_allow_unsafe() {
        let (allowed, unsafe_names) = option_variants(&[default_variant("ext4")], false).unwrap();
        let names: Vec<&str> = allowed.iter().map(|variant| variant.name.as_str()).collect();
        assert!(["ext4", "ext4/noatime", "ext4/lazytime"].iter().all(|name| names.contains(name)), "{names:?}");
        assert!(["ext4/nobarrier", "ext4/no-journal"].iter().all(|name| unsafe_names.contains(&name.to_string())));
        assert!(!names.iter().any(|name| unsafe_names.contains(&name.to_string())));
        let with_unsafe = option_variants(&[default_variant("ext4")], true).unwrap();
        let variants_of_two = option_variants(&[default_variant("ext4"), default_variant("xfs")], false).unwrap().0;
        let first: Vec<&str> = variants_of_two[..4].iter().map(|variant| variant.name.as_str()).collect();
        assert_eq!(first, ["ext4", "xfs", "ext4/noatime", "xfs/noatime"]);
        assert_eq!((with_unsafe.0.len(), with_unsafe.1.len()), (allowed.len() + unsafe_names.len(), 0));
        // ext2 has no journal to begin with, so its options give up nothing more.
        assert!(option_variants(&[default_variant("ext2")], false).unwrap().0.len() > 1);
    }

    #[test]
    fn a_mount_option_is_added_to_those_of_the_variant() {
        let mut survivor = default_variant("ext4");
        survivor.levels.insert(factor::MOUNT.into(), "noatime".into());
        let variants = option_variants(&[survivor], false).unwrap().0;
        let lazytime = variants.iter().find(|variant| variant.name == "ext4/lazytime").unwrap();
        assert_eq!(lazytime.level(factor::MOUNT), "noatime,lazytime");
    }

    #[test]
    fn the_command_line_makes_and_mounts_a_variant() {
        let line = |variant| command_line(&variant).unwrap();
        assert_eq!(line(default_variant("xfs")), "mkfs.xfs DEVICE && mount -t xfs DEVICE DIRECTORY");
        assert_eq!(
            line(with_level(&default_variant("xfs"), factor::OPTIONS, "noatime")),
            "mkfs.xfs DEVICE && mount -t xfs -o noatime DEVICE DIRECTORY"
        );
        assert_eq!(line(default_variant("tmpfs")), "mount -t tmpfs tmpfs DIRECTORY");
        assert_eq!(
            line(with_level(&default_variant("squashfs"), factor::OPTIONS, "zstd")),
            "mksquashfs FILES DEVICE -comp zstd && mount -t squashfs DEVICE DIRECTORY"
        );
        assert_eq!(line(default_variant("erofs")), "mkfs.erofs DEVICE FILES && mount -t erofs DEVICE DIRECTORY");
        let zfs = line(default_variant("zfs"));
        assert!(zfs.starts_with("zpool create -f -m legacy "), "{zfs}");
        assert!(zfs.ends_with(" fsarena DEVICE && mount -t zfs fsarena DIRECTORY"), "{zfs}");
    }
}
