//! Which name of a feature or mount option was probably meant, where mkfs or the kernel has refused one.

use crate::def::FsDef;
use fsarena_core::names::nearest;

/// Mount options of every filesystem: those that mount(8) or the kernel's common code takes.
const COMMON: &str = "async atime auto defaults dev diratime dirsync exec iversion lazytime loud mand noatime noauto \
                      nodev nodiratime noexec noiversion nolazytime nomand norelatime nostrictatime nosuid \
                      nosymfollow relatime ro rw silent strictatime suid sync";

/// The feature that is near a word of these arguments of mkfs, where that word names none.
pub fn feature(def: &FsDef, arguments: &str) -> Option<&'static str> {
    let known = || def.features.split(' ').filter(|name| !name.is_empty());
    let words = arguments.split(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)));
    let words = words.filter(|word| word.len() > 2 && !word.starts_with('-'));
    words.filter(|word| !known().any(|name| name == *word)).find_map(|word| nearest(word, known()))
}

/// The mount option that is near this one; none where its name is known and its value is free.
pub fn mount_option(def: &FsDef, option: &str) -> Option<&'static str> {
    let known = COMMON.split(' ').chain(def.mount_names.split(' '));
    let key = |option: &'static str| option.split('=').next().unwrap_or_default();
    let asked = option.split('=').next().unwrap_or_default();
    let known: Vec<&'static str> = known.filter(|name| !name.is_empty()).collect();
    if known.iter().any(|name| key(name) == asked) {
        let values = known.into_iter().filter(|name| name.contains('=') && key(name) == asked);
        return nearest(option, values).filter(|near| *near != option);
    }
    nearest(asked, known.into_iter().map(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems::{FILESYSTEMS, find};

    #[test]
    fn a_mistyped_name_has_a_nearest_one() {
        let feature = |fs: &str, words: &str| feature(find(fs).unwrap(), words);
        assert_eq!(feature("ext4", "-b 4096 -O extent,^has_jounal"), Some("has_journal"));
        assert_eq!(feature("btrfs", "no-hole"), Some("no-holes"));
        assert_eq!(feature("ext4", "-O extent,^has_journal"), None);
        let mount = |fs: &str, option: &str| mount_option(find(fs).unwrap(), option);
        assert_eq!(mount("vfat", "noatme"), Some("noatime"));
        assert_eq!(mount("ext3", "data=writebak"), Some("data=writeback"));
        assert_eq!(mount("btrfs", "compres=zstd:3"), Some("compress"));
        // The name is right: only the kernel knows which values are.
        assert_eq!(mount("xfs", "logbufs=800"), None);
        assert_eq!(mount("xfs", "qwertz"), None);
    }

    #[test]
    fn the_option_sets_use_known_names() {
        for def in FILESYSTEMS {
            for set in def.options {
                for option in set.mount {
                    let name = option.split('=').next().unwrap();
                    let known = COMMON.split(' ').chain(def.mount_names.split(' '));
                    assert!(known.clone().any(|known| known == name), "{}: {option}", def.id);
                }
            }
        }
    }
}
