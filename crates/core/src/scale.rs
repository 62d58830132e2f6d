//! The scale of a study: how much work its tasks do.

use serde::{Deserialize, Serialize};

crate::named_enum! {
    /// The three sizes at which every shipped study runs.
    ///
    /// One rule shrinks all counts alike, so that a smaller scale keeps the proportions of the original:
    /// see [`Scale::scaled_count`].
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default)]
    #[serde(rename_all = "lowercase")]
    pub enum Scale {
        /// The published sizes.
        Paper = "paper",
        /// A few minutes on two cores: every count divided by [`Scale::divisor`].
        #[default]
        Quick = "quick",
        /// Seconds: for tests, and for the default run if the machine is too slow for [`Scale::Quick`]. Its tasks are short,
        /// so small differences need more rounds.
        Tiny = "tiny",
    }
}

impl Scale {
    /// The number by which this scale divides the published counts.
    pub const fn divisor(self) -> u64 {
        match self {
            Scale::Paper => 1,
            Scale::Quick => 32,
            Scale::Tiny => 500,
        }
    }

    /// The published count at this scale: divided by [`Scale::divisor`], rounded up, never under `min`.
    ///
    /// ```
    /// use fsarena_core::scale::Scale;
    /// assert_eq!(Scale::Paper.scaled_count(10_000, 20), 10_000);
    /// assert_eq!(Scale::Quick.scaled_count(10_000, 20), 313);
    /// assert_eq!(Scale::Tiny.scaled_count(1_000, 20), 20);
    /// ```
    pub const fn scaled_count(self, published: u64, min: u64) -> u64 {
        let scaled = published.div_ceil(self.divisor());
        if scaled < min { min } else { scaled }
    }
}
