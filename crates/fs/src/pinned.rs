//! Fixed values instead of those that mkfs draws at random: equal options then make equal filesystems.

use crate::def::FsDef;

/// The identity and the seed: any will do, as long as it is always the same.
const ID: &str = "6673a2e4-a000-4000-8000-000000000001";

/// Adds fixed values to the arguments of a mkfs. What they say already stays as it is.
pub fn pin(def: &FsDef, words: &mut Vec<String>) {
    for (flag, key) in def.pins {
        set(words, flag, key, &format!("{key}{ID}"));
    }
}

/// Gives a flag a value, unless its list already says something with this key.
pub(crate) fn set(words: &mut Vec<String>, flag: &str, key: &str, value: &str) {
    let given = words.iter().rposition(|word| word == flag).and_then(|at| words.get_mut(at + 1));
    match given {
        // Of two such flags the last would hold alone.
        Some(list) if !key.is_empty() && !list.contains(key) => list.push_str(&format!(",{value}")),
        Some(_) => {}
        None => words.extend([flag.to_string(), value.to_string()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filesystems::find;

    fn pinned(fs: &str, words: &[&str]) -> String {
        let mut words = words.iter().map(|word| word.to_string()).collect();
        pin(find(fs).unwrap(), &mut words);
        words.join(" ").replace(ID, "ID")
    }

    #[test]
    fn what_is_said_already_stays() {
        assert_eq!(pinned("ext4", &[]), "-U ID -E hash_seed=ID");
        assert_eq!(pinned("ext4", &["-E", "lazy_itable_init=0"]), "-E lazy_itable_init=0,hash_seed=ID -U ID");
        assert_eq!(pinned("ext4", &["-E", "hash_seed=x", "-U", "y"]), "-E hash_seed=x -U y");
        assert_eq!(pinned("xfs", &["-m", "crc=0"]), "-m crc=0,uuid=ID");
        assert_eq!(pinned("jfs", &["-q"]), "-q");
    }

    #[test]
    fn two_filesystems_that_are_made_alike_are_alike() {
        let dir = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let image = dir.path().join(name);
            std::fs::File::create(&image).unwrap().set_len(16 << 20).unwrap();
            let mut words = vec!["-q".to_string(), "-F".into()];
            pin(find("ext4").unwrap(), &mut words);
            let made = fsarena_sys::argv::Argv::new("mkfs.ext4").args(words).arg(&image).expect(&mut |_| {});
            made.unwrap();
            let shown = fsarena_sys::argv::Argv::new("dumpe2fs").arg("-h").arg(&image).expect(&mut |_| {});
            let of = |line: &&str| line.contains("UUID") || line.contains("Hash Seed");
            shown.unwrap().stdout.lines().filter(of).map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(made("a"), made("b"));
        assert_eq!(made("a").len(), 2);
    }
}
