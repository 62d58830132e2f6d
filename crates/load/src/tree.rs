//! A file tree shaped like the Linux kernel's, generated from a seed.

mod shape;

use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use rand::{RngExt, SeedableRng, seq::SliceRandom};
use std::collections::HashSet;

/// The name of the directory that every archived tree unpacks to.
pub const TOP: &str = "tree";

/// When Linux 2.6.14.4 was released (2005-12-15): no generated file is younger.
const RELEASED: u64 = 1_134_604_800;

/// Three years: how much older the oldest generated file may be.
const HISTORY: u64 = 3 * 365 * 86_400;

/// A file or directory of a generated tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its path, from [`TOP`] on.
    pub path: String,
    /// The bytes of a file; none for a directory.
    pub bytes: Option<u64>,
    /// When it was last changed: seconds since 1970.
    pub mtime: u64,
}

/// Generates a tree of `files` files. Every directory comes before its contents, depth first, as in an archive.
///
/// The sizes of files and directories are the quantiles of their distributions, so they are the same for
/// every seed, and a small tree is a fair miniature of a large one. The seed decides which file gets
/// which size, where it is, and all names.
pub fn generate(seed: u64, files: u64) -> Vec<Entry> {
    let mut rng = ChaCha8Rng::seed_from_u64(mix(seed, 1));
    let mut sizes = shape::file_bytes(files);
    sizes.shuffle(&mut rng);
    let directories = place(shape::directories(files), &mut rng);
    let mut entries = Vec::with_capacity(files as usize + directories.len());
    let mut writer = Writer { directories: &directories, sizes: sizes.into_iter(), entries: &mut entries };
    writer.directory(0, TOP.to_string(), &mut rng);
    entries
}

/// The same tree with `per_10000` in 10,000 files duplicated beside the original, spread evenly. This adds a known
/// amount of the same work.
pub fn with_twins(entries: Vec<Entry>, per_10000: u64) -> Vec<Entry> {
    let mut all = Vec::with_capacity(entries.len());
    let mut seen = 0;
    for entry in entries {
        let twin = entry.bytes.map(|_| Entry { path: format!("{}.twin", entry.path), ..entry.clone() });
        all.push(entry);
        if let Some(twin) = twin {
            seen += 1;
            all.extend((seen * per_10000 / 10_000 > (seen - 1) * per_10000 / 10_000).then_some(twin));
        }
    }
    all
}

/// A directory before it has a name.
#[derive(Default)]
struct Directory {
    files: u64,
    children: Vec<usize>,
}

/// Hangs each directory under one of the level above it, at random. The first is the top.
fn place(planned: Vec<shape::Planned>, rng: &mut ChaCha8Rng) -> Vec<Directory> {
    let mut directories: Vec<Directory> = Vec::with_capacity(planned.len());
    let mut levels: Vec<Vec<usize>> = Vec::new();
    for (index, shape::Planned { files, depth }) in planned.into_iter().enumerate() {
        // A small tree lacks directories at some depths: what would hang under nothing moves up.
        let level = (depth - 1).min(levels.len());
        if level > 0 {
            let above = &levels[level - 1];
            let parent = above[rng.random_range(0..above.len())];
            directories[parent].children.push(index);
        }
        if level == levels.len() {
            levels.push(Vec::new());
        }
        levels[level].push(index);
        directories.push(Directory { files, children: Vec::new() });
    }
    directories
}

/// Gives names and sizes, depth first.
struct Writer<'a> {
    directories: &'a [Directory],
    sizes: std::vec::IntoIter<u64>,
    entries: &'a mut Vec<Entry>,
}

impl Writer<'_> {
    fn directory(&mut self, index: usize, path: String, rng: &mut ChaCha8Rng) {
        let Directory { files, children } = &self.directories[index];
        let mtime = RELEASED - rng.random_range(0..HISTORY);
        self.entries.push(Entry { path: path.clone(), bytes: None, mtime });
        let mut taken = HashSet::new();
        for bytes in self.sizes.by_ref().take(*files as usize) {
            let name = unused(&mut taken, || file_name(rng));
            let mtime = RELEASED - rng.random_range(0..HISTORY);
            self.entries.push(Entry { path: format!("{path}/{name}"), bytes: Some(bytes), mtime });
        }
        for &child in children {
            let name = unused(&mut taken, || letters(rng, 4, 10));
            self.directory(child, format!("{path}/{name}"), rng);
        }
    }
}

/// Draws until the name is new in its directory.
fn unused(taken: &mut HashSet<String>, mut draw: impl FnMut() -> String) -> String {
    loop {
        let name = draw();
        if taken.insert(name.clone()) {
            return name;
        }
    }
}

/// 8 to 16 characters, 12 on average.
fn file_name(rng: &mut ChaCha8Rng) -> String {
    let extension = ["c", "h", "S"][[0, 0, 0, 0, 1, 1, 1, 1, 2][rng.random_range(0..9)]];
    format!("{}.{extension}", letters(rng, 6, 14))
}

fn letters(rng: &mut ChaCha8Rng, shortest: usize, longest: usize) -> String {
    let length = rng.random_range(shortest..=longest);
    (0..length).map(|_| char::from(rng.random_range(b'a'..=b'z'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn files(entries: &[Entry]) -> impl Iterator<Item = &Entry> {
        entries.iter().filter(|entry| entry.bytes.is_some())
    }

    #[test]
    fn the_same_seed_gives_the_same_tree_and_another_seed_another() {
        assert_eq!(generate(7, 300), generate(7, 300));
        assert_ne!(generate(7, 300), generate(8, 300));
    }

    #[test]
    fn twins_are_as_many_as_asked_for_and_spread_evenly() {
        let tree = generate(7, 2143);
        let more = |per_10000| files(&with_twins(tree.clone(), per_10000)).count() - 2143;
        assert_eq!([more(0), more(14), more(50), more(100), more(10_000)], [0, 3, 10, 21, 2143]);
        let all = with_twins(tree.clone(), 14);
        let twin = all.iter().position(|entry| entry.path.ends_with(".twin")).unwrap();
        assert_eq!(all[twin].bytes, all[twin - 1].bytes);
        let first = files(&all[..twin]).count();
        assert!((700..730).contains(&first), "{first}");
    }

    #[test]
    fn depth_runs_from_2_to_10_with_the_mode_at_4() {
        for seed in 0..5 {
            let mut by_depth = BTreeMap::new();
            let entries = generate(seed, 20_000);
            for file in files(&entries) {
                *by_depth.entry(file.path.split('/').count()).or_insert(0) += 1;
            }
            let mode = by_depth.iter().max_by_key(|(_, count)| **count).map(|(depth, _)| *depth);
            assert_eq!(mode, Some(4), "{by_depth:?}");
            assert_eq!(by_depth.keys().copied().collect::<Vec<_>>(), (2..=10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn files_have_names_of_about_12_characters() {
        let entries = generate(1, 20_000);
        let lengths: Vec<_> =
            files(&entries).map(|file| file.path.rsplit('/').next().unwrap().len()).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((11.8..12.2).contains(&mean), "{mean}");
        assert!(lengths.iter().all(|length| (8..=16).contains(length)));
    }

    proptest::proptest! {
        #[test]
        fn a_tree_of_any_size_is_whole(seed: u64, count in 1u64..400) {
            let entries = generate(seed, count);
            let mut directories = HashSet::new();
            let mut paths = HashSet::new();
            for entry in &entries {
                assert!(paths.insert(&entry.path), "{} is there twice", entry.path);
                if let Some((parent, _)) = entry.path.rsplit_once('/') {
                    assert!(directories.contains(parent), "{} comes before its directory", entry.path);
                }
                if entry.bytes.is_none() {
                    directories.insert(entry.path.as_str());
                }
            }
            assert_eq!(files(&entries).count() as u64, count);
        }
    }
}
