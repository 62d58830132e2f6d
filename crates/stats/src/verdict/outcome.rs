//! What a verdict is, and where a claim is true.

use crate::{mean_ratio::Withheld, sequential::Centre};
use fsarena_core::claim::{Op, Pair};
use fsarena_core::exit::ExitCode;

/// What became of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The data show it.
    Held,
    /// The data show the opposite.
    Refuted,
    /// Neither: see [`Verdict::excludes`].
    Inconclusive,
    /// A difference was claimed, and there is none that matters.
    Equivalent,
}

impl Outcome {
    /// Every outcome, in the order of reports.
    pub const ALL: [Outcome; 4] =
        [Outcome::Held, Outcome::Refuted, Outcome::Equivalent, Outcome::Inconclusive];

    /// The word for it in every output.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Refuted => "refuted",
            Outcome::Inconclusive => "inconclusive",
            Outcome::Equivalent => "equivalent",
        }
    }

    /// The opposite of what was shown, where the claim is negated.
    pub(crate) fn turned(self, negated: bool) -> Outcome {
        match self {
            Outcome::Held if negated => Outcome::Refuted,
            Outcome::Refuted if negated => Outcome::Held,
            outcome => outcome,
        }
    }
}

/// The exit code that all claims together call for: a refuted one before an inconclusive one. Equivalence is an
/// answer.
pub fn exit_code(outcomes: &[Outcome]) -> ExitCode {
    if outcomes.contains(&Outcome::Refuted) {
        ExitCode::Refuted
    } else if outcomes.contains(&Outcome::Inconclusive) {
        ExitCode::Inconclusive
    } else {
        ExitCode::Done
    }
}

/// A judged claim.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// What became of it. Always inconclusive where it is provisional.
    pub outcome: Outcome,
    /// Under 8 rounds nothing is exact; or an interval by mean cost is withheld.
    pub provisional: bool,
    /// Why an interval by mean cost is withheld: the intervals are then the range of the rounds.
    pub withheld: Option<Withheld>,
    /// Left over right, minus 1: the estimate exp(θ) − 1. Of a claim about all variants, the variant over `rival`.
    pub effect: f64,
    /// Its 95% interval.
    pub interval: (f64, f64),
    /// Its 90% interval, for equivalence.
    pub narrow: (f64, f64),
    /// The ends of what the claim allows, as fractions: the interval is held against them.
    pub edges: [f64; 2],
    /// Rounds behind it.
    pub rounds: usize,
    /// The difference is real, but smaller than the margin: smaller than what you said matters.
    pub negligible: bool,
    /// The sign test disagrees: the variants differ in shape, not only in place.
    pub shapes_differ: bool,
    /// The evidence against "the claimed threshold is the truth", for [`crate::evalue::e_bh`] over a family of
    /// claims. Anytime-valid.
    pub e_value: f64,
    /// Of a claim about all variants, the rival that decided it or leaves it open.
    pub rival: Option<usize>,
}

impl Verdict {
    /// The largest difference, either way, that the rounds leave possible at 95%: what is larger, the run
    /// excludes. As a fraction: 0.03 for 3%.
    pub fn excludes(&self) -> f64 {
        self.interval.0.abs().max(self.interval.1.abs())
    }

    pub(super) fn of(centre: &Centre, outcome: Outcome) -> Verdict {
        let ends = |(low, high): (f64, f64)| (low.exp_m1(), high.exp_m1());
        Verdict {
            outcome: if centre.provisional { Outcome::Inconclusive } else { outcome },
            provisional: centre.provisional,
            withheld: centre.withheld,
            effect: centre.estimate.exp_m1(),
            interval: ends(centre.wide),
            narrow: ends(centre.narrow),
            edges: [0.0; 2],
            rounds: centre.rounds,
            negligible: false,
            shapes_differ: centre.shapes_differ(),
            e_value: 1.0,
            rival: None,
        }
    }
}

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
        !(high < self.low || low > self.high)
    }

    /// What an interval says of the claim; the narrow one of what lies inside, where one-sided tests show that.
    pub(crate) fn judge(&self, wide: (f64, f64), narrow: (f64, f64)) -> Outcome {
        let outcome = if !self.meets(wide) {
            Outcome::Refuted
        } else if self.covers(if self.margin { narrow } else { wide }) {
            Outcome::Held
        } else {
            Outcome::Inconclusive
        };
        outcome.turned(self.negated)
    }
}
