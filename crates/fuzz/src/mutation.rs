//! Changes inputs by whole words and lines, in addition to the changes of libFuzzer, which are by bytes.

use fsarena_core::schedule::mix;
use std::{collections::BTreeSet, path::Path, sync::OnceLock};

/// Words with extreme numbers and unusual characters.
const EDGE_WORDS: &str = "0 1 -1 4294967296 -9223372036854775808 18446744073709551616 1e308 -1e308 1e-320 nan inf 0x7fffffff \
                     100% 99999999EB 1y .. ../x / \" ' = , : [ ] { } \u{0} \u{7f}\u{301}\u{202e} \n \r\n \t \\ \\u0000";

/// For each byte, whether it is a part of a word. A function with comparisons would mislead libFuzzer, which records
/// comparisons to guide its changes.
const IS_WORD_BYTE: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < table.len() {
        table[byte] = (byte as u8).is_ascii_alphanumeric() || matches!(byte as u8, b'_' | b'-' | b'.' | b'%');
        byte += 1;
    }
    table
};

/// The words of every corpus, and [`EDGE_WORDS`].
fn word_pool() -> &'static [Vec<u8>] {
    static POOL: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    POOL.get_or_init(|| {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let folders = std::fs::read_dir(corpus).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| std::fs::read_dir(folder.path())).flatten().flatten();
        let texts: Vec<String> = files.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
        let words: BTreeSet<&[u8]> = texts.iter().flat_map(|text| split_words(text.as_bytes())).collect();
        words.into_iter().chain(EDGE_WORDS.split(' ').map(str::as_bytes)).map(<[u8]>::to_vec).collect()
    })
}

/// Splits a text into words and the separators between them.
fn split_words(text: &[u8]) -> Vec<&[u8]> {
    text.chunk_by(|a, b| IS_WORD_BYTE[usize::from(*a)] & IS_WORD_BYTE[usize::from(*b)]).collect()
}

/// Makes another input from an input by one to four changes of words or lines, which the seed chooses.
pub fn mutate_text(input: &[u8], seed: u32) -> Vec<u8> {
    let mut state = mix(seed.into(), 0);
    let mut random_below = |limit: usize| {
        state = mix(state, 1);
        state as usize % limit.max(1)
    };
    let by_lines = random_below(4) == 0;
    let mut parts: Vec<&[u8]> =
        if by_lines { input.split_inclusive(|byte| *byte == b'\n').collect() } else { split_words(input) };
    for _ in 0..=random_below(4) {
        let (index, other) = (random_below(parts.len()), random_below(parts.len()));
        let new_part = match parts.get(other) {
            Some(part) if by_lines || random_below(3) == 0 => part,
            _ => word_pool()[random_below(word_pool().len())].as_slice(),
        };
        match random_below(5) {
            // Delete a part, swap two, replace one, insert one 1 to 128 times, or insert one once.
            0 if index < parts.len() => drop(parts.remove(index)),
            1 if index < parts.len() => parts.swap(index, other),
            2 if index < parts.len() => parts[index] = new_part,
            3 if index < parts.len() => drop(parts.splice(index..index, vec![new_part; 1 << random_below(8)])),
            _ => parts.insert(index, new_part),
        }
    }
    parts.concat()
}
