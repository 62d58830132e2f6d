//! Verdicts on claims: held, refuted, inconclusive or equivalent.
//!
//! The primary rule is the group-sequential signed-rank test with repeated confidence intervals
//! ([`crate::table`]): a verdict may be asked for at every look, and over all of them it errs with the
//! probability of one test.

mod extreme;
mod region;

pub use extreme::{Rival, judge_extreme};
pub use region::Region;

use crate::{evalue::e_value, sequential::Centre};
use fsarena_core::claim::{Op, Pair};
use fsarena_core::exit::ExitCode;

/// Level of the intervals that tell variants apart.
pub(crate) const ALPHA: f64 = 0.05;

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
    /// The word for it in every output.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Held => "held",
            Outcome::Refuted => "refuted",
            Outcome::Inconclusive => "inconclusive",
            Outcome::Equivalent => "equivalent",
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
    /// Under 8 rounds nothing is exact.
    pub provisional: bool,
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
    /// The evidence against "the claimed threshold is the truth", for [`crate::ebh::e_bh`] over a family of
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

    fn of(centre: &Centre, outcome: Outcome) -> Verdict {
        let ratio = |theta: f64| theta.exp_m1();
        let ends = |(low, high): (f64, f64)| (ratio(low), ratio(high));
        Verdict {
            outcome: if centre.provisional { Outcome::Inconclusive } else { outcome },
            provisional: centre.provisional,
            effect: ratio(centre.estimate),
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

/// Judges a claim about a pair from its paired log ratios d_i = ln(left_i/right_i), in the order of the
/// rounds; [`crate::pairs::log_ratios`]`(right, left)` gives them. `margin` is what the user said matters,
/// as a fraction: the `within` of a claim that names none, and the width of "equivalent". None without
/// any round.
///
/// - A tolerant claim (`==`, `<=`, `>=`) is held where the 90% interval lies in its region: two one-sided
///   tests at 5% (TOST; Schuirmann 1987), or one of them. It is refuted where the 95% interval lies outside.
/// - A strict claim (`<`, `>`, `!=`) is held or refuted where the 95% interval lies on one side of its
///   threshold. Where it is neither and the 90% interval lies within the margin, the variants are equivalent.
pub fn judge(pair: &Pair, d: &[f64], margin: Option<f64>) -> Option<Verdict> {
    let centre = Centre::of(d)?;
    let region = Region::of(pair, margin);
    let factor = pair.factor.ln();
    let small = if pair.op.tolerates() { pair.fraction().or(margin) } else { margin };
    let matters_not = small.is_some_and(|x| Region::around(factor, x).covers(centre.narrow));
    let outcome = match region.judge(&centre) {
        Outcome::Inconclusive if matters_not && !pair.op.tolerates() => Outcome::Equivalent,
        outcome => outcome,
    };
    let differs = !Region::around(factor, 0.0).meets(centre.wide);
    Some(Verdict {
        negligible: differs && matters_not && !centre.provisional,
        edges: [region.low.exp_m1(), region.high.exp_m1()],
        e_value: e_value(d, threshold(pair, &region, centre.estimate)),
        ..Verdict::of(&centre, outcome)
    })
}

/// The end of the region that is nearest to the estimate; the middle for `==` and `!=` without a margin.
fn threshold(pair: &Pair, region: &Region, estimate: f64) -> f64 {
    match pair.op {
        Op::Less | Op::AtLeast => region.low,
        Op::More | Op::AtMost => region.high,
        Op::Equal | Op::NotEqual if estimate < pair.factor.ln() => region.low,
        Op::Equal | Op::NotEqual => region.high,
    }
}

#[cfg(test)]
mod tests;
