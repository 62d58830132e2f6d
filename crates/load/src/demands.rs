//! The capabilities that a tree requires of its filesystem.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Entries that not every filesystem can hold: the first one of each kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demands {
    /// A symbolic link.
    pub link: Option<PathBuf>,
    /// An entry with an owner other than the user who unpacks it, if the task restores owners.
    pub owned: Option<PathBuf>,
    /// An entry whose name differs from another of its directory only in case.
    pub twin_but_for_case: Option<PathBuf>,
    /// An entry whose name has a character that Windows reserves.
    pub reserved: Option<PathBuf>,
    /// The entry with the longest name.
    pub longest: Option<PathBuf>,
    /// Files that are opened with `O_DIRECT`.
    pub direct_io: bool,
}

/// Characters that Windows forbids in names (Microsoft, "Naming Files, Paths, and Namespaces").
const RESERVED: &[char] = &['"', '*', ':', '<', '>', '?', '\\', '|'];

impl Demands {
    /// The demands of the given paths, in order.
    pub fn of_names<'a>(paths: impl Iterator<Item = &'a Path>) -> Demands {
        let mut demands = Demands::default();
        let mut seen = HashSet::new();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !seen.insert(path.to_string_lossy().to_lowercase()) {
                demands.twin_but_for_case.get_or_insert_with(|| path.into());
            }
            let odd = |letter: char| RESERVED.contains(&letter) || letter.is_control();
            if name.contains(odd) || name.ends_with(['.', ' ']) {
                demands.reserved.get_or_insert_with(|| path.into());
            }
            if name_bytes(path) > demands.longest.as_deref().map_or(0, name_bytes) {
                demands.longest = Some(path.into());
            }
        }
        demands
    }

    /// These demands merged with those of other work on the same filesystem.
    pub fn and(self, other: Demands) -> Demands {
        Demands {
            link: self.link.or(other.link),
            owned: self.owned.or(other.owned),
            twin_but_for_case: self.twin_but_for_case.or(other.twin_but_for_case),
            reserved: self.reserved.or(other.reserved),
            longest: self.longest.into_iter().chain(other.longest).max_by_key(|path| name_bytes(path)),
            direct_io: self.direct_io || other.direct_io,
        }
    }
}

/// The length of a path's last name in bytes.
pub fn name_bytes(path: &Path) -> u64 {
    path.file_name().map_or(0, |name| name.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Demands {
        Demands::of_names(names.iter().map(Path::new))
    }

    #[test]
    fn names_that_only_some_filesystems_can_hold_are_found() {
        let path = |text: &str| Some(PathBuf::from(text));
        let plain = of(&["t/a.c", "t/b/a.c", "t/A"]);
        assert_eq!(plain, Demands { longest: path("t/a.c"), ..Demands::default() });
        let odd = of(&["t/xt_TCPMSS.h", "t/xt_tcpmss.h", "t/Digest::MD5.3", "t/what?"]);
        assert_eq!(odd.twin_but_for_case, path("t/xt_tcpmss.h"));
        assert_eq!((odd.reserved, odd.longest), (path("t/Digest::MD5.3"), path("t/Digest::MD5.3")));
        assert_eq!(of(&["t/etc."]).reserved, path("t/etc."));
    }

    #[test]
    fn the_first_of_a_kind_and_the_longest_of_all_stay() {
        let link = Demands { link: Some("t/l".into()), ..of(&["t/short"]) };
        let both = of(&["t/a:", "t/longest-of-all"]).and(link);
        assert_eq!(both.link, Some("t/l".into()));
        assert_eq!((both.reserved, both.longest), (Some("t/a:".into()), Some("t/longest-of-all".into())));
    }
}
