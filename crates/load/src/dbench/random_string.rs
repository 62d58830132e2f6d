//! Random strings: text in which a character of each `[set]` is drawn.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

/// The longest random string, in bytes, as in the real dbench.
const LONGEST: usize = 255;

/// What RANDOMSTRING says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomString(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Part {
    Text(Vec<u8>),
    OneOf(Vec<u8>),
}

impl RandomString {
    /// Reads `file[0123456789].dat`.
    ///
    /// # Errors
    /// Describes the error for the user.
    pub fn parse(text: &[u8]) -> Result<RandomString, String> {
        let mut parts = vec![];
        let mut rest = text;
        while let Some(open) = rest.iter().position(|byte| *byte == b'[') {
            let set = &rest[open + 1..];
            let close = set.iter().position(|byte| *byte == b']').ok_or("`[` without `]`")?;
            if close == 0 {
                return Err("nothing to draw from: `[]`".into());
            }
            parts.push(Part::Text(rest[..open].to_vec()));
            parts.push(Part::OneOf(set[..close].to_vec()));
            rest = &set[close + 1..];
        }
        parts.push(Part::Text(rest.to_vec()));
        let length: usize =
            parts.iter().map(|part| if let Part::Text(text) = part { text.len() } else { 1 }).sum();
        match length {
            0..=LONGEST => Ok(RandomString(parts)),
            _ => Err(format!("a random string of {length} bytes; {LONGEST} is the longest")),
        }
    }

    /// Draws one.
    pub fn draw(&self, rng: &mut impl Rng, into: &mut Vec<u8>) {
        into.clear();
        for part in &self.0 {
            match part {
                Part::Text(text) => into.extend_from_slice(text),
                Part::OneOf(set) => into.push(set[rng.random_range(0..set.len())]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    #[test]
    fn every_character_of_a_set_is_drawn() {
        let string = RandomString::parse(b"f[ab]x[0]").unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut seen = std::collections::BTreeSet::new();
        let mut drawn = vec![];
        for _ in 0..100 {
            string.draw(&mut rng, &mut drawn);
            seen.insert(String::from_utf8(drawn.clone()).unwrap());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["fax0", "fbx0"]);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        assert!(RandomString::parse(b"a[b").unwrap_err().contains("without"));
        assert!(RandomString::parse(b"a[]").unwrap_err().contains("nothing"));
        assert!(RandomString::parse(&[b'a'; 256]).unwrap_err().contains("256"));
        assert!(RandomString::parse(b"a]").is_ok());
    }
}
