//! Judges claims: computes the log ratios of the values that each claim compares, and its verdict.

use crate::gate::{judge_gate_claim, judge_gate_claim_by_means};
use crate::ratio::{LogRatios, log_ratios};
use crate::verdict::{self, ALPHA, Outcome, Region, Verdict};
use crate::{evalue::e_bh, mean_ratio::SharedCosts, sequential::Centre};
use fsarena_core::average::Average;
use fsarena_core::claim::{BestOrWorst, Claim, Extreme, Pair, Relation, RightSide};
use fsarena_core::observations::{ClaimSeries, ComparedSeries, Rival};
use fsarena_core::sample::Direction;

/// A claim with the verdict of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedClaim {
    /// The claim.
    pub claim: Claim,
    /// What a value of a variant stands for, in the singular: `round`, or `aged image`.
    pub column_noun: &'static str,
    /// The verdict. None if the run cannot judge the claim; `why_unjudged` then has the reason.
    pub verdict: Option<Verdict>,
    /// Why there is no verdict.
    pub why_unjudged: Option<String>,
    /// The variant on the right side; for a claim about the best or the worst, the rival that decides it or keeps it
    /// inconclusive. None for two quantities of one variant.
    pub rival: Option<String>,
    /// ln(left/right) of the decisive comparison in each round.
    pub d: Vec<f64>,
    /// The number of rounds of that comparison without a log ratio, because a value is zero or negative.
    pub excluded: usize,
    /// The variants that need further rounds to decide the claim; empty once it is decided.
    pub needs: Vec<usize>,
    /// The outcome over all rounds, including the dropped ones; None if no round was dropped.
    pub outcome_with_all_rounds: Option<Outcome>,
}

impl JudgedClaim {
    /// The outcome; inconclusive if there is no verdict.
    pub fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::Inconclusive, |verdict| verdict.outcome)
    }

    /// Whether the claim is part of a gate.
    pub fn belongs_to_gate(&self) -> bool {
        self.verdict.is_some_and(|verdict| verdict.gate.is_some())
    }

    /// Whether another round could still decide it.
    pub fn is_inconclusive(&self) -> bool {
        self.outcome() == Outcome::Inconclusive
    }
}

/// Judges claims from their values, which [`fsarena_core::observations::claim_series`] returns for any stored run.
///
/// # Examples
/// ```
/// use fsarena_core::{claim::Claim, observations::claim_series, record::RunRecord};
/// use fsarena_stats::{judge::judge_all, verdict::Outcome};
///
/// fn untars_faster(record: &RunRecord) -> Result<bool, Box<dyn std::error::Error>> {
///     let claims: Vec<Claim> = vec!["untar.elapsed: xfs < ext4 by 5%".parse()?];
///     let judged = judge_all(claim_series(record, &claims));
///     Ok(judged[0].outcome() == Outcome::Held)
/// }
/// ```
pub fn judge_all(series: impl IntoIterator<Item = ClaimSeries>) -> Vec<JudgedClaim> {
    series.into_iter().map(judge).collect()
}

/// Judges one claim.
pub fn judge(series: ClaimSeries) -> JudgedClaim {
    let ClaimSeries { claim, margin, gate_error_split, column_noun, variants, series, with_dropped } = series;
    let mut judged = judge_series(claim, series, variants.clone(), (margin, gate_error_split));
    judged.column_noun = column_noun;
    if let Some(series) = with_dropped {
        let with_all_rounds = judge_series(judged.claim.clone(), series, variants, (margin, gate_error_split));
        judged.outcome_with_all_rounds = with_all_rounds.verdict.map(|verdict| verdict.outcome);
    }
    judged
}

/// Judges a claim from these values, or records why it cannot be judged. `named` has the variants that the claim names;
/// `gate_error_split` is as in [`ClaimSeries`].
fn judge_series(
    claim: Claim,
    series: Result<ComparedSeries, String>,
    named: Vec<usize>,
    (margin, gate_error_split): (f64, Option<usize>),
) -> JudgedClaim {
    let mut judged = JudgedClaim {
        claim,
        column_noun: "round",
        verdict: None,
        why_unjudged: None,
        rival: None,
        d: vec![],
        excluded: 0,
        needs: vec![],
        outcome_with_all_rounds: None,
    };
    let result = match series {
        Ok(ComparedSeries::Pair { relation, variant, left, right }) => {
            judge_pair(&mut judged, &relation, (variant, &left), &right, (margin, gate_error_split))
        }
        Ok(ComparedSeries::Extreme { relation, variant, own, rivals, direction }) => {
            judge_extreme(&mut judged, &relation, (variant, &own), &rivals, direction, margin)
        }
        Err(why_unjudged) => Err(why_unjudged),
    };
    if let Err(why_unjudged) = result {
        judged.why_unjudged = Some(why_unjudged);
        judged.needs = named;
    }
    judged
}

/// The indices of the claims that stay decided when all claims are judged together: e-BH selects them at 5%, so at most the
/// share 0.05 of them is expected to be decided wrongly, however many claims there are.
pub fn decided_in_family(judged: &[JudgedClaim]) -> Vec<usize> {
    // A claim that is not decided gets the e-value 0: e-BH cannot select it, but still counts it in the size of the
    // family.
    let is_decided = |judged: &JudgedClaim| matches!(judged.outcome(), Outcome::Held | Outcome::Refuted);
    let evidence =
        |judged: &JudgedClaim| judged.verdict.filter(|_| is_decided(judged)).map_or(0.0, |verdict| verdict.e_value);
    let mut selected = e_bh(&judged.iter().map(evidence).collect::<Vec<_>>(), ALPHA);
    selected.sort_unstable();
    selected
}

/// A sentence about the meaning of a claim: `true where untar.elapsed of xfs over ext4 is under 0.95`. `margin` is for
/// claims without their own percentage.
pub fn explain_claim(claim: &Claim, margin: f64) -> String {
    let pair = match &claim.relation {
        Relation::Extreme(Extreme { end, variant, negated }) => {
            let (others, not) =
                if *negated { ("some other variant is", "not ") } else { ("every other variant is", "") };
            let comparison = if (*end == BestOrWorst::Best) == *negated { "better" } else { "worse" };
            let average = if claim.average.is_typical() { "" } else { " by mean cost" };
            return format!("{variant} is {not}{end}: true where {others} {comparison} than {variant}{average}");
        }
        Relation::Pair(pair) => pair,
    };
    let average = if claim.average.is_typical() { "" } else { "the mean " };
    let right = match &pair.right {
        RightSide::Variant(variant) => variant.clone(),
        RightSide::Quantity(quantity) => quantity.to_string(),
    };
    let region = Region::of(pair, Some(margin));
    let end = |end: f64| format!("{:.4}", end.exp()).trim_end_matches('0').trim_end_matches('.').to_string();
    let (low, high) = (end(region.low), end(region.high));
    let condition = match (region.negated, region.low.is_finite(), region.high.is_finite()) {
        (true, true, false) => format!("under {low}"),
        (true, false, _) => format!("over {high}"),
        (true, true, true) => format!("under {low} or over {high}"),
        (false, true, false) => format!("{low} or more"),
        (false, false, _) => format!("{high} or less"),
        (false, true, true) => format!("from {low} to {high}"),
    };
    format!("true where {average}{} of {} over {right} is {condition}", claim.subject, pair.left)
}

/// A sentence about why a comparison is impossible.
type WhyUnjudged = String;

/// Judges a claim about a pair: compares the values of the left variant with the values of the right side.
fn judge_pair(
    judged: &mut JudgedClaim,
    pair: &Pair,
    (variant, left): (usize, &[f64]),
    right: &Rival,
    (margin, gate_error_split): (f64, Option<usize>),
) -> Result<(), WhyUnjudged> {
    let LogRatios { d, mut excluded } = log_ratios(&right.values, left);
    let margin = Some(margin);
    let verdict = match judged.claim.average {
        Average::Typical => match gate_error_split {
            Some(split) => judge_gate_claim(pair, &d, margin, split),
            None => verdict::judge(pair, &d, margin),
        },
        Average::Mean => {
            excluded = 0; // sums include values of zero
            let costs = SharedCosts::of(&right.values, left);
            costs.map(|costs| match gate_error_split {
                Some(split) => judge_gate_claim_by_means(pair, &costs, margin, split),
                None => verdict::judge_means(pair, &costs, margin),
            })
        }
    };
    let Some(verdict) = verdict else {
        return Err(match excluded {
            0 => "no round has both sides of it".into(),
            _ => {
                format!("no round has both sides of it: {excluded} have a value of zero, which has no ratio")
            }
        });
    };
    if verdict.outcome == Outcome::Inconclusive {
        judged.needs = [variant].into_iter().chain(right.variant.as_ref().map(|(at, _)| *at)).collect();
    }
    judged.verdict = Some(verdict);
    judged.rival = right.variant.as_ref().map(|(_, name)| name.clone());
    judged.d = d;
    judged.excluded = excluded;
    Ok(())
}

/// Judges a claim about the best or the worst: compares the values of a variant with the values of all rivals.
fn judge_extreme(
    judged: &mut JudgedClaim,
    claim: &Extreme,
    (variant, own): (usize, &[f64]),
    rivals: &[Rival],
    direction: Direction,
    margin: f64,
) -> Result<(), WhyUnjudged> {
    let ratios: Vec<LogRatios> = rivals.iter().map(|rival| log_ratios(&rival.values, own)).collect();
    let (verdict, centres): (Option<Verdict>, Vec<Option<Centre>>) = match judged.claim.average {
        Average::Typical => {
            let d: Vec<&Vec<f64>> = ratios.iter().map(|ratios| &ratios.d).collect();
            let verdict = verdict::judge_extreme(claim, &d, direction, Some(margin));
            (verdict, d.iter().map(|d| Centre::of(d)).collect())
        }
        Average::Mean => {
            let costs = rivals.iter().map(|rival| SharedCosts::of(&rival.values, own));
            let costs: Vec<Option<SharedCosts>> = costs.collect();
            let verdict = verdict::judge_extreme_means(claim, &costs, direction, Some(margin));
            (verdict, costs.iter().map(|costs| costs.as_ref().map(Centre::of_means)).collect())
        }
    };
    let verdict = verdict.ok_or("no round has another variant beside it")?;
    if verdict.outcome == Outcome::Inconclusive {
        let ahead_is_below = claim.is_about_smallest(direction);
        for (rival, centre) in rivals.iter().zip(&centres) {
            if !is_ahead(centre, ahead_is_below) {
                judged.needs.extend(rival.variant.as_ref().map(|(at, _)| *at));
            }
        }
        judged.needs.push(variant);
    }
    judged.verdict = Some(verdict);
    if let Some(decisive) = verdict.rival {
        judged.rival = rivals[decisive].variant.as_ref().map(|(_, name)| name.clone());
        judged.d.clone_from(&ratios[decisive].d);
        // Sums include values of zero.
        judged.excluded = if judged.claim.average.is_typical() { ratios[decisive].excluded } else { 0 };
    }
    Ok(())
}

/// Whether the variant of the claim is significantly ahead of this rival.
fn is_ahead(centre: &Option<Centre>, ahead_is_below: bool) -> bool {
    centre.is_some_and(|centre| {
        let (low, high) = centre.interval_95;
        !centre.provisional && if ahead_is_below { high < 0.0 } else { low > 0.0 }
    })
}

#[cfg(test)]
mod tests;
