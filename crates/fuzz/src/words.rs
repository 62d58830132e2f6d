//! Changes of an input by whole words and lines, as people and programs write them. libFuzzer's own are by bytes.

use fsarena_core::schedule::mix;
use std::path::Path;
use std::sync::OnceLock;

/// Words at the edges of what numbers and names can be.
const EDGES: &str = "0 1 -1 4294967296 -9223372036854775808 18446744073709551616 1e308 -1e308 1e-320 nan inf 0x7fffffff \
                     100% 99999999EB 1y .. ../x / \" ' = , : [ ] { } \u{0} \u{7f}\u{301}\u{202e} \n \r\n \t \\ \\u0000";

/// Edges, and the words of every corpus.
fn pool() -> &'static [Vec<u8>] {
    static POOL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    POOL.get_or_init(|| {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let folders = std::fs::read_dir(corpus).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path())).flatten().flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let mut words: Vec<Vec<u8>> = texts.flat_map(|text| words(text.as_bytes())).collect();
        words.sort();
        words.dedup();
        words.extend(EDGES.split(' ').map(|word| word.as_bytes().to_vec()));
        words
    })
}

/// The text cut into words and what is between them.
fn words(text: &[u8]) -> Vec<Vec<u8>> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.%".contains(&byte);
    text.chunk_by(|a, b| is_word(*a) && is_word(*b)).map(<[u8]>::to_vec).collect()
}

/// Another input made of one, by up to four changes.
pub fn change(input: &[u8], seed: u32) -> Vec<u8> {
    let mut state = mix(seed.into(), 0);
    let mut below = |limit: usize| {
        state = mix(state, 1);
        state as usize % limit.max(1)
    };
    let by_lines = below(4) == 0;
    let mut parts: Vec<Vec<u8>> = match by_lines {
        true => input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect(),
        false => words(input),
    };
    for _ in 0..=below(4) {
        let (at, other) = (below(parts.len()), below(parts.len()));
        let new = match parts.get(other) {
            Some(part) if by_lines || below(3) == 0 => part.clone(),
            _ => pool()[below(pool().len())].clone(),
        };
        match below(5) {
            0 if at < parts.len() => drop(parts.remove(at)),
            1 if at < parts.len() => parts.swap(at, other),
            2 if at < parts.len() => parts[at] = new,
            3 if at < parts.len() => drop(parts.splice(at..at, vec![new; 1 << below(8)])),
            _ => parts.insert(at, new),
        }
    }
    parts.concat()
}
