//! Claims on published figures: single values, each with what it can be trusted to.

use crate::verdict::{Outcome, Region};
use fsarena_core::cell::StepId;
use fsarena_core::claim::{Claim, End, Extreme, Pair, Quantity, Relation, Right};
use fsarena_core::conclusion::Trust;
use fsarena_core::metric;
use fsarena_core::plan::COMPOSITE;
use fsarena_core::published::Published;
use fsarena_core::sample::Direction;

/// Judges a claim on the figures of `set`; arms of other sets are written `SET/ARM`. None where a figure is
/// missing.
pub fn judge(claim: &Claim, set: &str, sets: &[Published], trust: &Trust) -> Option<Outcome> {
    let figures = Figures { set, sets, trust };
    match &claim.relation {
        Relation::Pair(pair) => figures.pair(&claim.subject, pair),
        Relation::Extreme(extreme) => figures.extreme(&claim.subject, extreme),
    }
}

struct Figures<'a> {
    set: &'a str,
    sets: &'a [Published],
    trust: &'a Trust,
}

impl Figures<'_> {
    fn pair(&self, subject: &Quantity, pair: &Pair) -> Option<Outcome> {
        let left = self.value(subject, &pair.left)?;
        let right = match &pair.right {
            Right::Arm(arm) => self.value(subject, arm)?,
            Right::Quantity(other) => self.value(other, &pair.left)?,
        };
        Some(judged(&Region::of(pair, None), self.ratio(left, right)))
    }

    fn extreme(&self, subject: &Quantity, extreme: &Extreme) -> Option<Outcome> {
        let own = self.value(subject, &extreme.arm)?;
        let below =
            (metric::find(&subject.metric)?.direction == Direction::Lower) == (extreme.end == End::Best);
        let set = self.sets.iter().find(|set| set.set == self.set)?;
        let rivals: Vec<(f64, f64)> = set
            .arms()
            .into_iter()
            .filter(|arm| *arm != extreme.arm)
            .filter_map(|arm| Some(self.ratio(own, self.value(subject, arm)?)))
            .map(|(low, high)| if below { (low, high) } else { (-high, -low) })
            .collect();
        let outcome = match () {
            () if rivals.iter().any(|(low, _)| *low > 0.0) => Outcome::Refuted,
            () if rivals.iter().all(|(_, high)| *high < 0.0) => Outcome::Held,
            () => Outcome::Undecided,
        };
        Some(match outcome {
            Outcome::Held if extreme.negated => Outcome::Refuted,
            Outcome::Refuted if extreme.negated => Outcome::Held,
            outcome => outcome,
        })
    }

    fn value(&self, quantity: &Quantity, arm: &str) -> Option<f64> {
        let (set, arm) = arm.split_once('/').unwrap_or((self.set, arm));
        let set = self.sets.iter().find(|known| known.set == set)?;
        match quantity.step.as_deref()? {
            COMPOSITE => set.total(arm, &quantity.metric),
            step => {
                let id = StepId { name: step.into(), params: quantity.params.clone() };
                set.figure(&id, arm, &quantity.metric).map(|figure| figure.value)
            }
        }
    }

    /// Where ln(left/right) lies, as far as two printed figures tell: each was rounded, and repeated it would
    /// have come out a little different.
    fn ratio(&self, left: f64, right: f64) -> (f64, f64) {
        let (half, tolerance) = (self.trust.resolution / 2.0, self.trust.tolerance.ln_1p());
        let least = ((left - half).max(0.0) / (right + half)).ln() - tolerance;
        let most = ((left + half) / (right - half).max(0.0)).ln() + tolerance;
        (least, most)
    }
}

fn judged(region: &Region, (low, high): (f64, f64)) -> Outcome {
    let (inside, outside) =
        if region.negated { (Outcome::Refuted, Outcome::Held) } else { (Outcome::Held, Outcome::Refuted) };
    match () {
        () if high < region.low || low > region.high => outside,
        () if region.low <= low && high <= region.high => inside,
        () => Outcome::Undecided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::published::parse;

    fn said(text: &str) -> Option<Outcome> {
        let csv = "set,task,title,filesystem,metric,value,unit\n\
                   II,001,T,a,elapsed,1.00,s\nII,001,T,b,elapsed,1.02,s\nII,001,T,c,elapsed,2.00,s\n\
                   II,002,U,a,elapsed,0.03,s\nII,002,U,b,elapsed,0.04,s\nII,002,U,c,elapsed,0.09,s\n\
                   I,001,T,a,elapsed,1.50,s\n";
        let steps = [("001", "one"), ("002", "two")].map(|(task, step)| (task.to_string(), step.to_string()));
        let sets = parse("old", csv, &steps.into()).unwrap();
        judge(&text.parse().unwrap(), "II", &sets, &Trust { tolerance: 0.01, resolution: 0.01 })
    }

    #[test]
    fn figures_decide_as_far_as_they_can_be_trusted() {
        use Outcome::{Held, Refuted, Undecided};
        for (text, expected) in [
            // ln(1/1.02) = −0.0198 ± 0.0198 ± 0.00995.
            ("one.elapsed: a < b", Some(Undecided)),
            ("one.elapsed: a < c", Some(Held)),
            ("one.elapsed: c < a", Some(Refuted)),
            ("one.elapsed: a < c by 40%", Some(Held)),
            ("one.elapsed: a < c by 60%", Some(Refuted)),
            ("one.elapsed: a == b within 5%", Some(Held)),
            ("one.elapsed: a == b", Some(Undecided)),
            // 0.03 and 0.04 may be 0.0349 and 0.0351.
            ("two.elapsed: a < b", Some(Undecided)),
            ("two.elapsed: a < c", Some(Held)),
            ("one.elapsed: worst is c", Some(Held)),
            ("one.elapsed: best is c", Some(Refuted)),
            ("one.elapsed: best is not c", Some(Held)),
            ("one.elapsed: best is a", Some(Undecided)),
            ("composite.elapsed: a < c", Some(Held)),
            ("one.elapsed: II/a < I/a", Some(Held)),
            ("two.elapsed: a < I/a", None),
            ("three.elapsed: a < b", None),
            ("one.elapsed: c > two.elapsed", Some(Held)),
        ] {
            assert_eq!(said(text), expected, "{text}");
        }
    }
}
