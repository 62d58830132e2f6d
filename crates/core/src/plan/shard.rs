//! Shards: the rounds of one plan, divided among machines that do not communicate.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// One of `count` equal parts of a plan's rounds: rounds `number`, `number + count`, … counted from 1.
///
/// Shards may be numbered from 1 to `count` or from 0 to `count - 1`, because job schedulers do either. Shard 0 has the same
/// rounds as shard `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    /// The number of this part.
    pub number: u32,
    /// The number of parts.
    pub count: u32,
}

impl Shard {
    /// Whether a round, counted from 0, belongs to this shard.
    pub fn has_round(self, round: u32) -> bool {
        (u64::from(round) + 1) % u64::from(self.count) == u64::from(self.number % self.count)
    }

    /// How many of the first `all` rounds of a plan belong to this shard.
    pub fn count_rounds(self, all: u32) -> u32 {
        // Shard 0 has the same rounds as shard `count`.
        let number = if self.number == 0 { self.count } else { self.number };
        ((u64::from(all) + u64::from(self.count - number)) / u64::from(self.count)) as u32
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let parts = text.split_once('/').and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match parts {
            Some((number, count)) if count > 0 && number <= count => Ok(Shard { number, count }),
            _ => Err("write it I/N, such as 3/8, with I from 1 to N (or from 0 to N-1)".into()),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Shard, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> String {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_belongs_to_one_shard_counted_from_0_or_from_1() {
        for count in 1..6 {
            for round in 0..20 {
                for first in [0, 1] {
                    let shards = (first..count + first).map(|number| Shard { number, count });
                    assert_eq!(shards.clone().filter(|shard| shard.has_round(round)).count(), 1);
                    for shard in shards {
                        let rounds = (0..round).filter(|round| shard.has_round(*round)).count();
                        assert_eq!(shard.count_rounds(round) as usize, rounds, "{shard} of {round}");
                    }
                }
            }
        }
        // Rounds 2, 5 and 8, counted from 1.
        let second: Shard = "2/3".parse().unwrap();
        assert_eq!((0..8).filter(|round| second.has_round(*round)).collect::<Vec<_>>(), [1, 4, 7]);
        assert_eq!((second.count_rounds(8), second.count_rounds(1)), (3, 0));
    }

    #[test]
    fn invalid_shards_are_rejected() {
        for text in ["", "3", "3/", "/3", "4/3", "0/0", "-1/3", "1/3/5", "99999999999/3"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
