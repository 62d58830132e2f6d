//! The data that clients write: made once, before the start, and shared by all clients.

use super::program::Program;
use chacha20::ChaCha8Rng;
use fsarena_core::schedule::mix;
use fsarena_engine::Content;
use rand::{Rng, SeedableRng};

/// Places at which a write can begin in the noise, so that one differs from the next.
const PLACES: usize = 256;
/// Bytes between two such places.
const APART: usize = 509;

/// Sources of what is written.
#[derive(Debug)]
pub struct Payloads {
    /// Where the loadfile has no pattern.
    plain: Vec<u8>,
    /// Whether each write takes another part of it.
    varies: bool,
    patterns: Vec<Vec<u8>>,
}

impl Payloads {
    /// Makes them.
    pub fn new(program: &Program, content: Content, seed: u64) -> Payloads {
        let varies = content != Content::Zeros;
        let mut plain = vec![0; program.largest + if varies { PLACES * APART } else { 0 }];
        if varies {
            ChaCha8Rng::seed_from_u64(mix(seed, 3)).fill_bytes(&mut plain);
        }
        let fill = |pattern: &Vec<u8>| pattern.iter().copied().cycle().take(program.largest).collect();
        Payloads { plain, varies, patterns: program.patterns.iter().map(fill).collect() }
    }

    /// So many bytes for the write of this number.
    #[inline]
    pub fn slice(&self, pattern: Option<usize>, write: usize, bytes: usize) -> &[u8] {
        match pattern {
            Some(which) => &self.patterns[which][..bytes],
            None => {
                let from = if self.varies { write % PLACES * APART } else { 0 };
                &self.plain[from..from + bytes]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::loadfile;
    use super::*;

    #[test]
    fn patterns_zeros_and_noise() {
        let text = "WRITEPATTERN ab\nWriteX 1 0 7 7 *\n";
        let program = loadfile::parse("f", text.as_bytes()).unwrap();
        let zeros = Payloads::new(&program, Content::Zeros, 1);
        assert_eq!(zeros.slice(None, 5, 7), [0; 7]);
        assert_eq!(zeros.slice(Some(0), 5, 7), b"ab\nab\na");
        let noise = Payloads::new(&program, Content::Random, 1);
        assert_ne!(noise.slice(None, 1, 7), noise.slice(None, 2, 7));
        assert_eq!(noise.slice(None, 1, 7), Payloads::new(&program, Content::Random, 1).slice(None, 1, 7));
    }
}
