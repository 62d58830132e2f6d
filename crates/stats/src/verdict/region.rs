//! The values of θ for which a claim is true.

use super::Outcome;
use crate::sequential::Centre;
use fsarena_core::claim::{Op, Pair};

/// The θ = ln(left/right) in [low, high], or all others where `negated`: a tolerant claim holds on a closed
/// interval, a strict one outside of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Region {
    /// The lower end; −∞ where there is none.
    pub low: f64,
    /// The upper end; ∞ where there is none.
    pub high: f64,
    /// Whether the claim is true outside, not inside.
    pub negated: bool,
    /// Whether the claim tolerates or demands a difference of some size: what lies in between is then
    /// shown by one-sided tests.
    margin: bool,
}

impl Region {
    /// The region of a claim; the table in [`Pair`] in numbers. `margin` serves tolerant claims that name
    /// none.
    pub fn of(pair: &Pair, margin: Option<f64>) -> Region {
        let by = pair.fraction().unwrap_or(0.0);
        let within = pair.fraction().or(margin).unwrap_or(0.0);
        let factor = pair.factor.ln();
        let (low, high) = match pair.op {
            Op::Less => (factor + (-by).ln_1p(), f64::INFINITY),
            Op::More => (f64::NEG_INFINITY, factor + by.ln_1p()),
            Op::NotEqual => (factor - by.ln_1p(), factor + by.ln_1p()),
            Op::Equal => (factor - within.ln_1p(), factor + within.ln_1p()),
            Op::AtMost => (f64::NEG_INFINITY, factor + within.ln_1p()),
            Op::AtLeast => (factor - within.ln_1p(), f64::INFINITY),
        };
        let margin = match pair.op {
            Op::Less | Op::More => false,
            Op::NotEqual => by > 0.0,
            Op::Equal | Op::AtMost | Op::AtLeast => within > 0.0,
        };
        Region { low, high, negated: !pair.op.tolerates(), margin }
    }

    /// A factor of 1 + x either way around a centre.
    pub fn around(centre: f64, x: f64) -> Region {
        Region { low: centre - x.ln_1p(), high: centre + x.ln_1p(), negated: false, margin: x > 0.0 }
    }

    /// Whether an interval lies in [low, high].
    pub(super) fn covers(&self, (low, high): (f64, f64)) -> bool {
        self.low <= low && high <= self.high
    }

    /// Whether an interval has a value in common with [low, high].
    pub(super) fn meets(&self, (low, high): (f64, f64)) -> bool {
        low <= self.high && self.low <= high
    }

    /// What the intervals say of the claim.
    pub(super) fn judge(&self, centre: &Centre) -> Outcome {
        let (inside, outside) =
            if self.negated { (Outcome::Refuted, Outcome::Held) } else { (Outcome::Held, Outcome::Refuted) };
        if !self.meets(centre.wide) {
            outside
        } else if self.covers(if self.margin { centre.narrow } else { centre.wide }) {
            inside
        } else {
            Outcome::Inconclusive
        }
    }
}
