//! The gate: whether a candidate costs at most a margin more than the baseline, in one task or in several at once.
//!
//! A gate consists of claims of the form `candidate <= baseline within 1%`. It passes if all claims are held, and fails
//! if one claim is refuted. Passing and failing have separate bounds, because each can be an error. For a claim with
//! `<=`:
//!
//! - **pass**: the upper 95% bound is within the margin. All claims must be held, so their number needs no correction
//!   (intersection–union test; Berger 1982).
//! - **fail**: the lower bound is beyond the margin. Its level is 0.05/m for m claims (Bonferroni), so the gate fails
//!   at most one in twenty candidates that are within every margin.
//!
//! For a claim with `>=`, upper and lower are exchanged. All bounds spend their error over the looks of
//! [`crate::critical_values`], so a gate can be read after every round.

use crate::critical_values;
use crate::hodges_lehmann::WalshAverages;
use crate::mean_ratio::SharedCosts;
use crate::verdict::{self, GateBounds, Outcome, Region, Verdict};
use fsarena_core::claim::{ClaimOperator, PairRelation};

/// Judges one claim of a gate of `claim_count` claims: the verdict of [`verdict::judge_pair`], but with the outcome by
/// one-sided bounds. None without any round.
pub fn judge_gate_claim(pair: &PairRelation, d: &[f64], margin: Option<f64>, claim_count: usize) -> Option<Verdict> {
    let (verdict, walsh) = (verdict::judge_pair(pair, d, margin)?, WalshAverages::new(d.to_vec())?);
    let bounds = |count| critical_values::critical_value(d.len(), count).map(|c| walsh.interval(c));
    Some(verdict_by_bounds(pair, verdict, margin, bounds(1), bounds(claim_count)))
}

/// Judges one claim about mean costs in a gate of `claim_count` claims, by the same rules.
pub fn judge_gate_claim_by_means(
    pair: &PairRelation,
    costs: &SharedCosts,
    margin: Option<f64>,
    claim_count: usize,
) -> Verdict {
    let verdict = verdict::judge_pair_by_means(pair, costs, margin);
    let bounds = |count| costs.bounds(count).ok().map(|(low, high)| (low.ln(), high.ln()));
    verdict_by_bounds(pair, verdict, margin, bounds(1), bounds(claim_count))
}

/// Replaces the outcome of a verdict by that of two bounds of ln(left/right). One end of `pass_bounds`, at level 0.05,
/// decides whether the claim passes. The opposite end of `fail_bounds`, at level 0.05/m for m claims, decides whether
/// it fails.
fn verdict_by_bounds(
    pair: &PairRelation,
    verdict: Verdict,
    margin: Option<f64>,
    pass_bounds: Option<(f64, f64)>,
    fail_bounds: Option<(f64, f64)>,
) -> Verdict {
    let region = Region::of_claim(pair, margin);
    let low_of = |bounds: Option<(f64, f64)>| bounds.map(|(low, _)| low);
    let high_of = |bounds: Option<(f64, f64)>| bounds.map(|(_, high)| high);
    let is_at_most = pair.op == ClaimOperator::AtMost;
    let (low, high) = if is_at_most {
        (low_of(fail_bounds), high_of(pass_bounds))
    } else {
        (low_of(pass_bounds), high_of(fail_bounds))
    };
    let (passes, fails) = if is_at_most {
        (high.is_some_and(|high| high <= region.high), low.is_some_and(|low| low > region.high))
    } else {
        (low.is_some_and(|low| low >= region.low), high.is_some_and(|high| high < region.low))
    };
    let outcome = match (passes, fails) {
        _ if verdict.provisional => Outcome::Inconclusive,
        (true, _) => Outcome::Held,
        (false, true) => Outcome::Refuted,
        (false, false) => Outcome::Inconclusive,
    };
    let as_fraction = |bound: Option<f64>| bound.map(f64::exp_m1);
    Verdict { outcome, gate: Some(GateBounds { low: as_fraction(low), high: as_fraction(high) }), ..verdict }
}

/// The outcome of a gate from the outcomes of its claims: refuted (failed) if one claim is refuted, held (passed) if none is
/// refuted or inconclusive.
pub fn gate_outcome(outcomes_of_claims: impl IntoIterator<Item = Outcome>) -> Outcome {
    let mut gate = Outcome::Held;
    for outcome in outcomes_of_claims {
        match outcome {
            Outcome::Refuted => return Outcome::Refuted,
            Outcome::Inconclusive => gate = Outcome::Inconclusive,
            Outcome::Held | Outcome::Equivalent => {}
        }
    }
    gate
}

/// The outcome at one look of a claim in a gate of `claim_count` claims: the centre of the differences is at most
/// `log_margin`. It counts Walsh averages instead of computing the bounds, which is faster in simulations.
pub(crate) fn gate_claim_outcome(walsh: &WalshAverages, log_margin: f64, claim_count: usize) -> Outcome {
    let critical = |count| critical_values::critical_value(walsh.sample_size(), count);
    if critical(1).is_some_and(|c| walsh.lies_below(c, log_margin)) {
        return Outcome::Held;
    }
    let fails = critical(claim_count).is_some_and(|c| walsh.lies_above(c, log_margin));
    if fails { Outcome::Refuted } else { Outcome::Inconclusive }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::claim::{Claim, Relation};

    fn pair(text: &str) -> PairRelation {
        match text.parse::<Claim>().unwrap().relation {
            Relation::Pair(pair) => pair,
            other => panic!("{other:?}"),
        }
    }

    /// The log ratios of ten rounds, 0.001 … 0.010 plus `shift`. Without a shift, their sorted Walsh averages are 1, 1.5, 2, 2,
    /// 2.5, 2.5, 3, 3, 3, …, 10 thousandths.
    fn ten_rounds(shift: f64) -> Vec<f64> {
        (1..=10).map(|i| f64::from(i) / 1000.0 + shift).collect()
    }

    #[test]
    fn bounds_match_values_computed_by_hand() {
        // n = 10: c = 3 at level 0.05, and c = 1 for two claims ([`critical_values::critical_value`]). So the lower
        // bounds are the fourth and the second average, 2 and 1.5 thousandths.
        let at_most = pair("x: b <= a within 1%");
        let bounds = |claims| judge_gate_claim(&at_most, &ten_rounds(0.0), None, claims).unwrap().gate.unwrap();
        let near = |found: Option<f64>, ln: f64| (found.unwrap() - ln.exp_m1()).abs() < 1e-12;
        assert!(near(bounds(1).low, 0.002) && near(bounds(1).high, 0.009));
        assert!(near(bounds(2).low, 0.0015) && near(bounds(2).high, 0.009));
        // Ten rounds do not reach the level of twelve claims.
        assert_eq!(bounds(12).low, None);
        assert!(near(bounds(12).high, 0.009));
    }

    #[test]
    fn a_claim_passes_below_its_margin_and_fails_above_it() {
        let outcome = |text: &str, shift: f64, claims: usize| {
            judge_gate_claim(&pair(text), &ten_rounds(shift), None, claims).unwrap().outcome
        };
        // Upper bound 0.9%, below 1%.
        assert_eq!(outcome("x: b <= a within 1%", 0.0, 8), Outcome::Held);
        assert_eq!(outcome("x: b <= a within 0.8%", 0.0, 1), Outcome::Inconclusive);
        // Lower bounds 1.2% for one claim, 1.15% for two.
        assert_eq!(outcome("x: b <= a within 1.17%", 0.01, 1), Outcome::Refuted);
        assert_eq!(outcome("x: b <= a within 1.17%", 0.01, 2), Outcome::Inconclusive);
        // A rate: the candidate may be lower by the margin.
        let rate = |shift: f64| judge_gate_claim(&pair("x: b >= a within 1%"), &ten_rounds(shift), None, 1).unwrap();
        assert_eq!(
            [-0.011, -0.02, -0.015].map(|shift| rate(shift).outcome),
            [Outcome::Held, Outcome::Refuted, Outcome::Inconclusive]
        );
        assert!(rate(-0.02).gate.unwrap().high.unwrap() < -0.01);
    }

    #[test]
    fn fewer_than_eight_rounds_decide_nothing() {
        let of_seven = judge_gate_claim(&pair("x: b <= a within 50%"), &ten_rounds(0.0)[..7], None, 1).unwrap();
        assert_eq!(
            (of_seven.outcome, of_seven.gate),
            (Outcome::Inconclusive, Some(GateBounds { low: None, high: None }))
        );
        // Counts without any noise decide at the first look.
        let outcome_of_counts =
            |d: f64| judge_gate_claim(&pair("x: b <= a within 0.1%"), &[d; 8], None, 1).unwrap().outcome;
        assert_eq!((outcome_of_counts(0.0005), outcome_of_counts(0.0014)), (Outcome::Held, Outcome::Refuted));
    }

    #[test]
    fn claims_about_means_count_rare_stalls() {
        // Every eighth round takes 1.8 times as long: 10% more by mean, nothing in a typical round.
        let b: Vec<f64> = (0..96).map(|i| if i % 8 == 0 { 1.8 } else { 1.0 + f64::from(i) / 1e5 }).collect();
        let costs = SharedCosts::new(&[1.0; 96], &b).unwrap();
        let judged = judge_gate_claim_by_means(&pair("x: b <= a within 2%"), &costs, None, 1);
        assert_eq!(judged.outcome, Outcome::Refuted);
        assert!(judged.gate.unwrap().low.unwrap() > 0.02);
        let typical: Vec<f64> = b.iter().map(|b| b.ln()).collect();
        assert_eq!(judge_gate_claim(&pair("x: b <= a within 2%"), &typical, None, 1).unwrap().outcome, Outcome::Held);
    }

    #[test]
    fn a_gate_is_as_good_as_its_worst_claim() {
        use Outcome::{Held, Inconclusive, Refuted};
        assert_eq!(gate_outcome([Held, Held]), Held);
        assert_eq!(gate_outcome([Held, Inconclusive]), Inconclusive);
        assert_eq!(gate_outcome([Inconclusive, Refuted, Held]), Refuted);
    }

    #[test]
    fn counting_averages_decides_as_the_bounds_do() {
        for claims in [1, 2, 5] {
            for log_margin in (0..30).map(|i| f64::from(i) / 2000.0) {
                let text = format!("x: b <= a within {}%", 100.0 * log_margin.exp_m1() + 1e-9);
                let judged = judge_gate_claim(&pair(&text), &ten_rounds(0.0), None, claims).unwrap().outcome;
                let walsh = WalshAverages::new(ten_rounds(0.0)).unwrap();
                assert_eq!(
                    gate_claim_outcome(&walsh, (log_margin.exp_m1() + 1e-11).ln_1p(), claims),
                    judged,
                    "{claims} {log_margin}"
                );
            }
        }
    }
}
