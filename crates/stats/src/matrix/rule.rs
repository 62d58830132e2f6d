//! The rules, and what they flag.

use super::{cells::At, contrast::Contrast};
use crate::ratio::Ratio;

/// A rule that a sound matrix keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Not above the bare device.
    AboveDevice,
    /// Not far below the bare device.
    BelowDevice,
    /// Sequential no slower than random.
    SequentialBelowRandom,
    /// Bandwidth does not fall as blocks grow.
    BandwidthFalls,
    /// Operations a second do not rise as blocks grow.
    IopsRise,
    /// More threads do not lose throughput.
    ScalingCollapse,
    /// More threads gain, as long as the device has more to give.
    Serialised,
    /// No variant far behind all others in the same mode.
    FarBehind,
    /// No variant falls behind from one block size to the next.
    Cliff,
    /// No cell far below what its row and its column explain (median polish).
    Interaction,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 10] = [
        Rule::AboveDevice,
        Rule::BelowDevice,
        Rule::SequentialBelowRandom,
        Rule::BandwidthFalls,
        Rule::IopsRise,
        Rule::ScalingCollapse,
        Rule::Serialised,
        Rule::FarBehind,
        Rule::Cliff,
        Rule::Interaction,
    ];

    /// The name in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Rule::AboveDevice => "above-device",
            Rule::BelowDevice => "below-device",
            Rule::SequentialBelowRandom => "sequential-below-random",
            Rule::BandwidthFalls => "bandwidth-falls",
            Rule::IopsRise => "iops-rise",
            Rule::ScalingCollapse => "scaling-collapse",
            Rule::Serialised => "serialised",
            Rule::FarBehind => "far-behind",
            Rule::Cliff => "cliff",
            Rule::Interaction => "interaction",
        }
    }

    /// Whether the rule sees a break between neighbouring cells, and not a level that is off.
    pub fn breaks(self) -> bool {
        match self {
            Rule::BandwidthFalls | Rule::IopsRise | Rule::ScalingCollapse | Rule::Cliff => true,
            Rule::AboveDevice
            | Rule::BelowDevice
            | Rule::SequentialBelowRandom
            | Rule::Serialised
            | Rule::FarBehind
            | Rule::Interaction => false,
        }
    }

    /// Whether the rule sees on its own cells alone where a region ends.
    pub fn bounds(self) -> bool {
        self.breaks() && self != Rule::Cliff
    }
}

/// One cell that breaks a rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Flag {
    /// The rule.
    pub rule: Rule,
    /// The cell.
    pub at: At,
    /// The cell to compare with; None if the yardstick is a stated ceiling or a fit.
    pub against: Option<At>,
    /// The cell's throughput over the other's: bandwidth where block sizes differ under a rule about
    /// bandwidth, operations a second otherwise.
    pub ratio: Ratio,
    /// All that must hold for the flag, for fresh rounds to try again.
    pub tests: Vec<Contrast>,
    /// Which of the screen's comparisons raised it.
    pub trial: usize,
}

impl Flag {
    /// How far off the cell is: |ln ratio|.
    pub fn size(&self) -> f64 {
        self.ratio.value.ln().abs()
    }
}
