//! Claims judged on a run: from samples to the d of each claim, and to its verdict.

mod quantity;

use crate::pairs::{Pairs, log_ratios};
use crate::verdict::{self, ALPHA, Outcome, Region, Verdict};
use crate::{evalue::e_bh, grid, mean_ratio::SharedCosts, sequential::Centre};
use fsarena_core::average::Average;
use fsarena_core::claim::{Claim, End, Extreme, Pair, Relation, Right};
use fsarena_core::{event, names::unknown, record::RunRecord, sample::Direction};
use quantity::Quantities;
use std::collections::BTreeSet;

/// A claim and what a run says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// The claim.
    pub claim: Claim,
    /// The verdict. None where the run says nothing; then `missing` says why.
    pub verdict: Option<Verdict>,
    /// Why a verdict is missing.
    pub missing: Option<String>,
    /// The variant compared with: the right side, or the rival that decides a claim about all variants or leaves it
    /// open. None where two quantities of one variant are compared.
    pub rival: Option<String>,
    /// ln(left/right) of the decisive comparison, round by round.
    pub d: Vec<f64>,
    /// Rounds of it that a zero or negative value made useless.
    pub excluded: usize,
    /// The variants whose next round could decide it; none once it is decided.
    pub needs: Vec<usize>,
    /// What the verdict would be with the rounds that were dropped, where some were.
    pub with_drops: Option<Outcome>,
}

impl Judged {
    /// What became of it; inconclusive where the run says nothing.
    pub fn outcome(&self) -> Outcome {
        self.verdict.map_or(Outcome::Inconclusive, |verdict| verdict.outcome)
    }

    /// Whether another round could still decide it.
    pub fn open(&self) -> bool {
        self.outcome() == Outcome::Inconclusive
    }
}

/// Judges claims on a run. Any stored run can be judged, by any claim.
pub fn judge_all(record: &RunRecord, claims: &[Claim]) -> Vec<Judged> {
    let candidates = record.variants.iter().filter(|variant| !variant.is_bare_device());
    let everyone: Vec<&str> = candidates.map(|variant| variant.name.as_str()).collect();
    judge_among(record, claims, &everyone)
}

/// The same, where claims about all variants are about these only.
pub fn judge_among(record: &RunRecord, claims: &[Claim], among: &[&str]) -> Vec<Judged> {
    let (warmup, left_out) = (grid::warmup(record), grid::left_out(record));
    let mut judge = Judge::new(record, among, &left_out);
    let mut judged: Vec<Judged> = claims.iter().map(|claim| judge.judge(claim)).collect();
    if left_out != warmup {
        let mut with_all = Judge::new(record, among, &warmup);
        for judged in &mut judged {
            judged.with_drops = with_all.judge(&judged.claim).verdict.map(|verdict| verdict.outcome);
        }
    }
    judged
}

/// Judges one claim.
///
/// # Examples
/// ```
/// use fsarena_core::record::RunRecord;
/// use fsarena_stats::judge::judge;
/// use fsarena_stats::verdict::Outcome;
///
/// fn untars_faster(record: &RunRecord) -> Result<bool, Box<dyn std::error::Error>> {
///     let judged = judge(record, &"untar.elapsed: xfs < ext4 by 5%".parse()?);
///     Ok(judged.outcome() == Outcome::Held)
/// }
/// ```
pub fn judge(record: &RunRecord, claim: &Claim) -> Judged {
    judge_all(record, std::slice::from_ref(claim)).remove(0)
}

/// The claims that are decided also as a family: of those that e-BH selects at 5%, at most the share 0.05 is
/// expected to be decided wrongly, however many claims there are.
pub fn family(judged: &[Judged]) -> Vec<usize> {
    // Hypotheses that are not rejected still count among the m of the family.
    let rejects = |judged: &Judged| matches!(judged.outcome(), Outcome::Held | Outcome::Refuted);
    let evidence =
        |judged: &Judged| judged.verdict.filter(|_| rejects(judged)).map_or(0.0, |verdict| verdict.e_value);
    let mut selected = e_bh(&judged.iter().map(evidence).collect::<Vec<_>>(), ALPHA);
    selected.sort_unstable();
    selected
}

/// A claim as it is understood: `true where ext4/xfs is under 0.95`. `margin` serves claims that name none.
pub fn meaning(claim: &Claim, margin: f64) -> String {
    let pair = match &claim.relation {
        Relation::Extreme(Extreme { end, variant, negated }) => {
            let (every, than) =
                if *negated { ("some other variant is", "not ") } else { ("every other variant is", "") };
            let side = if (*end == End::Best) == *negated { "better" } else { "worse" };
            let average = if claim.average.is_typical() { "" } else { " by mean cost" };
            return format!("{variant} is {than}{end}: true where {every} {side} than {variant}{average}");
        }
        Relation::Pair(pair) => pair,
    };
    let average = if claim.average.is_typical() { "" } else { "the mean " };
    let right = match &pair.right {
        Right::Variant(variant) => variant.clone(),
        Right::Quantity(quantity) => quantity.to_string(),
    };
    let region = Region::of(pair, Some(margin));
    let end = |end: f64| format!("{:.4}", end.exp()).trim_end_matches('0').trim_end_matches('.').to_string();
    let (low, high) = (end(region.low), end(region.high));
    let where_ = match (region.negated, region.low.is_finite(), region.high.is_finite()) {
        (true, true, false) => format!("under {low}"),
        (true, false, _) => format!("over {high}"),
        (true, true, true) => format!("under {low} or over {high}"),
        (false, true, false) => format!("{low} or more"),
        (false, false, _) => format!("{high} or less"),
        (false, true, true) => format!("from {low} to {high}"),
    };
    format!("true where {average}{} of {} over {right} is {where_}", claim.subject, pair.left)
}

struct Judge<'a> {
    record: &'a RunRecord,
    among: &'a [&'a str],
    quantities: Quantities<'a>,
}

/// A comparison that could not be made, for people.
type Missing = String;

impl<'a> Judge<'a> {
    fn new(record: &'a RunRecord, among: &'a [&'a str], leave_out: &'a BTreeSet<u32>) -> Judge<'a> {
        Judge { record, among, quantities: Quantities::new(record, leave_out) }
    }

    fn judge(&mut self, claim: &Claim) -> Judged {
        let mut judged = Judged {
            claim: claim.clone(),
            verdict: None,
            missing: None,
            rival: None,
            d: vec![],
            excluded: 0,
            needs: vec![],
            with_drops: None,
        };
        let result = match &claim.relation {
            Relation::Pair(pair) => self.pair(&mut judged, pair),
            Relation::Extreme(extreme) => self.extreme(&mut judged, extreme),
        };
        if let Err(missing) = result {
            judged.missing = Some(missing);
            judged.needs = claim.variants().iter().filter_map(|name| self.variant(name).ok()).collect();
        }
        judged
    }

    fn pair(&mut self, judged: &mut Judged, pair: &Pair) -> Result<(), Missing> {
        let left = self.variant(&pair.left)?;
        let subject = self.quantities.get(&judged.claim.subject)?;
        let (right, values) = match &pair.right {
            Right::Variant(name) => {
                let right = self.variant(name)?;
                (Some(right), subject.values[right].clone())
            }
            Right::Quantity(other) => {
                let beside = self.quantities.get(&other.beside(&judged.claim.subject));
                let series = beside.or_else(|_| self.quantities.get(other))?;
                (None, series.values.into_iter().nth(left).unwrap_or_default())
            }
        };
        let Pairs { d, mut excluded } = log_ratios(&values, &subject.values[left]);
        let margin = Some(self.record.plan.stop.margin());
        let verdict = match judged.claim.average {
            Average::Typical => verdict::judge(pair, &d, margin),
            Average::Mean => {
                excluded = 0; // Sums count zeros.
                let costs = SharedCosts::of(&values, &subject.values[left]);
                costs.map(|costs| verdict::judge_means(pair, &costs, margin))
            }
        };
        let verdict = verdict.ok_or_else(|| match excluded {
            0 => "no round has both sides of it".to_string(),
            _ => {
                format!("no round has both sides of it: {excluded} have a value of zero, which has no ratio")
            }
        })?;
        if verdict.outcome == Outcome::Inconclusive {
            judged.needs = [left].into_iter().chain(right).collect();
        }
        judged.verdict = Some(verdict);
        judged.rival = right.map(|right| self.record.name(right).to_string());
        (judged.d, judged.excluded) = (d, excluded);
        Ok(())
    }

    fn extreme(&mut self, judged: &mut Judged, extreme: &Extreme) -> Result<(), Missing> {
        let variant = self.variant(&extreme.variant)?;
        let subject = self.quantities.get(&judged.claim.subject)?;
        let rivals = (0..self.record.variants.len()).filter(|one| *one != variant && self.competes(*one));
        let own = &subject.values[variant];
        let pairs = |rival: usize| (rival, log_ratios(&subject.values[rival], own));
        let mut rivals: Vec<(usize, Pairs)> = rivals.map(pairs).collect();
        let direction = subject.metric.direction;
        if direction == Direction::Neutral {
            return Err(format!("neither more nor less of {} is better", subject.metric.id));
        }
        let margin = Some(self.record.plan.stop.margin());
        let (verdict, centres) = match judged.claim.average {
            Average::Typical => {
                let races: Vec<&Vec<f64>> = rivals.iter().map(|(_, pairs)| &pairs.d).collect();
                let centres: Vec<Option<Centre>> = races.iter().map(|d| Centre::of(d)).collect();
                (verdict::judge_extreme(extreme, &races, direction, margin), centres)
            }
            Average::Mean => {
                rivals.iter_mut().for_each(|(_, pairs)| pairs.excluded = 0); // Sums count zeros.
                let costs = rivals.iter().map(|(rival, _)| SharedCosts::of(&subject.values[*rival], own));
                let costs: Vec<Option<SharedCosts>> = costs.collect();
                let centres = costs.iter().map(|costs| costs.as_ref().map(Centre::of_means)).collect();
                (verdict::judge_extreme_means(extreme, &costs, direction, margin), centres)
            }
        };
        let verdict = verdict.ok_or("no round has another variant beside it")?;
        if verdict.outcome == Outcome::Inconclusive {
            let ahead_is_below = extreme.is_least(direction);
            let racing = rivals.iter().zip(&centres).filter(|(_, centre)| !ahead(centre, ahead_is_below));
            judged.needs = racing.map(|((rival, _), _)| *rival).chain([variant]).collect();
        }
        judged.verdict = Some(verdict);
        if let Some((rival, pairs)) = verdict.rival.map(|at| &rivals[at]) {
            judged.rival = Some(self.record.name(*rival).to_string());
            (judged.d, judged.excluded) = (pairs.d.clone(), pairs.excluded);
        }
        Ok(())
    }

    fn variant(&self, name: &str) -> Result<usize, Missing> {
        self.record.variant(name).ok_or_else(|| unknown("variant", name, self.record.names()).into())
    }

    /// A variant that failed left the run: without its samples no variant can be better or worse than it.
    fn competes(&self, variant: usize) -> bool {
        let failed = |outcome: &event::Outcome| matches!(outcome, event::Outcome::Failed { .. });
        self.among.contains(&self.record.name(variant))
            && !self.record.cells.iter().any(|cell| cell.variant == variant && failed(&cell.outcome))
    }
}

/// Whether the variant of the claim is significantly ahead of this rival.
fn ahead(centre: &Option<Centre>, ahead_is_below: bool) -> bool {
    centre.is_some_and(|centre| {
        let (low, high) = centre.wide;
        !centre.provisional && if ahead_is_below { high < 0.0 } else { low > 0.0 }
    })
}

#[cfg(test)]
mod tests;
