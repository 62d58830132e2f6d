//! Which average of the rounds a comparison is about.

use serde::{Deserialize, Serialize};
use std::fmt::{Display, Formatter, Result};

/// Which average of the rounds a comparison is about: claims, and the search for the best variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Average {
    /// The typical round: the pseudo-median of the ratios within rounds, on which rare stalls have little influence.
    #[default]
    Typical,
    /// The mean cost: the ratio of the sums over all rounds, in which every stall counts in full.
    Mean,
}

impl Average {
    /// Both of them.
    pub const ALL: [Average; 2] = [Average::Typical, Average::Mean];

    /// Its word in claims, plans and flags.
    pub fn name(self) -> &'static str {
        match self {
            Average::Typical => "typical",
            Average::Mean => "mean",
        }
    }

    /// The average with this name.
    pub fn named(name: &str) -> Option<Average> {
        Average::ALL.into_iter().find(|average| average.name() == name)
    }

    /// Whether it is the default, which plans do not mention.
    pub fn is_typical(&self) -> bool {
        *self == Average::Typical
    }
}

impl Display for Average {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.name())
    }
}
