//! Reads the pages of the book for tests: their text and their fenced blocks. Two test programs include this file.

use std::path::{Path, PathBuf};

/// A fenced block of a page.
pub struct Block {
    pub page: PathBuf,
    /// The first word after the fence.
    pub language: String,
    /// The second word after the fence: the name of the file that the block shows; empty without one.
    pub file: String,
    pub text: String,
}

/// The root of the repository.
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the book, and the README.
pub fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository_root().join("README.md")];
    let mut dirs = vec![repository_root().join("docs")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("md") => pages.push(path),
                _ if path.is_dir() => dirs.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

/// The text of a page.
pub fn read_page(page: &Path) -> String {
    std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// The fenced blocks of a page, and the text outside them.
pub fn split_page(page: &Path) -> (Vec<Block>, String) {
    let (mut blocks, mut prose, mut open) = (vec![], String::new(), None::<Block>);
    for line in read_page(page).lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(words), None) => {
                let mut words = words.split_whitespace().map(String::from);
                let (language, file) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                open = Some(Block { page: page.into(), language, file, text: String::new() });
            }
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "{}: a block has no end", page.display());
    (blocks, prose)
}
