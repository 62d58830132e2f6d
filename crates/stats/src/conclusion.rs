//! Checks the conclusions of a study's author, on the published figures and on a run.

use crate::judge::JudgedClaim;
use crate::published_values::{self, ClaimCheck};
use crate::verdict::{Outcome, Verdict};
use fsarena_core::claim::{Claim, PairRelation, Relation, RightSide};
use fsarena_core::conclusion::{Conclusion, Conclusions, RequiredClaims};
use fsarena_core::{matrix::EMPTY_LEVEL_NAME, published::PublishedSet};
use std::collections::BTreeSet;

/// A conclusion with its verdicts on the published figures and on a run.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckedConclusion {
    /// The author's conclusion.
    pub conclusion: Conclusion,
    /// The verdict on the author's own figures.
    pub published_verdict: ConclusionVerdict,
    /// The verdict on the run.
    pub run_verdict: ConclusionVerdict,
}

/// The verdict on a conclusion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ConclusionVerdict {
    /// Held, refuted or inconclusive; None if no part of the conclusion can be checked.
    pub outcome: Option<Outcome>,
    /// The variants that the conclusion names and the run lacks; the verdict is without them.
    pub missing_variants: BTreeSet<String>,
    /// The number of claims that hold, and the number of all claims, if only some of the claims need to hold.
    pub held_of_claims: Option<(usize, usize)>,
    /// How many comparisons the conclusion makes, and how many of them were checked and hold.
    pub comparisons: Comparisons,
    /// The verdicts of a run on the claims that it can judge; empty for published figures.
    pub verdicts: Vec<Verdict>,
    /// Why a run cannot judge any of the claims.
    pub why_unjudged: Option<String>,
}

/// The comparisons of a conclusion: one for each claim about a pair, and one for each rival of a claim about the best or the
/// worst variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Comparisons {
    /// The number of comparisons that hold.
    pub held: usize,
    /// The number of comparisons for which there are figures.
    pub checked: usize,
    /// The number of all comparisons.
    pub all: usize,
}

/// Checks every conclusion of a study's author on the published sets and on a run with these variants. `judge` judges claims on
/// the run. Its second argument lists the variants that claims about the best or the worst compare; None for all.
pub fn check_conclusions(
    conclusions: &Conclusions,
    sets: &[PublishedSet],
    variants: &[&str],
    judge: impl FnOnce(&[Claim], Option<Vec<&str>>) -> Vec<JudgedClaim>,
) -> Vec<CheckedConclusion> {
    let published_verdicts = check_published(conclusions, sets);
    let run_verdicts = StudyRun { conclusions, sets, variants }.check_conclusions(judge);
    let mut checked = vec![];
    for (conclusion, (published_verdict, run_verdict)) in
        conclusions.list.iter().zip(published_verdicts.into_iter().zip(run_verdicts))
    {
        checked.push(CheckedConclusion { conclusion: conclusion.clone(), published_verdict, run_verdict });
    }
    checked
}

/// Checks each conclusion on the author's own figures. Only figures of [`published_values::usable_figures`] count.
pub fn check_published(conclusions: &Conclusions, sets: &[PublishedSet]) -> Vec<ConclusionVerdict> {
    let sets: Vec<PublishedSet> = sets.iter().map(published_values::usable_figures).collect();
    let mut verdicts = vec![];
    for Conclusion { set, claims, required, .. } in &conclusions.list {
        let rivals = conclusions.compared_filesystems(set, &sets);
        let check_claim = |claim| published_values::check_claim(claim, set, &sets, &conclusions.precision, &rivals);
        let checks: Vec<ClaimCheck> = claims.iter().map(check_claim).collect();
        verdicts.push(combine(*required, &checks, BTreeSet::new()));
    }
    verdicts
}

/// A run on which the conclusions of a study are checked.
struct StudyRun<'a> {
    conclusions: &'a Conclusions,
    sets: &'a [PublishedSet],
    /// The names of the run's variants.
    variants: &'a [&'a str],
}

impl<'a> StudyRun<'a> {
    /// The verdict of the run on each conclusion.
    fn check_conclusions(
        &self,
        judge: impl FnOnce(&[Claim], Option<Vec<&str>>) -> Vec<JudgedClaim>,
    ) -> Vec<ConclusionVerdict> {
        // Judge all claims at once, so that values that several claims use are computed once.
        let claims = self.conclusions.list.iter().flat_map(|conclusion| &conclusion.claims);
        let claims: Vec<Claim> = claims.map(|claim| self.translate(claim)).collect();
        let published_names = self.sets.iter().flat_map(|set| set.variants());
        let published_names = published_names.chain(self.conclusions.filesystems.iter().map(String::as_str));
        let rivals: Vec<&str> = published_names.map(|name| self.name_in_run(name)).collect();
        // Compare with all variants if the study has roles, or if its filesystems are unknown.
        let compares_all = rivals.is_empty() || !self.conclusions.roles.is_empty();
        let mut judged_claims = judge(&claims, (!compares_all).then_some(rivals)).into_iter();
        let mut verdicts = vec![];
        for conclusion in &self.conclusions.list {
            let judged: Vec<JudgedClaim> = judged_claims.by_ref().take(conclusion.claims.len()).collect();
            verdicts.push(self.combine_claims(conclusion, judged));
        }
        verdicts
    }

    /// Combines the verdicts of the run on the claims of one conclusion, in their order.
    fn combine_claims(&self, conclusion: &Conclusion, judged_claims: Vec<JudgedClaim>) -> ConclusionVerdict {
        let rivals = self.conclusions.compared_filesystems(&conclusion.set, self.sets);
        let is_in_run = |variant: &str| self.variants.contains(&self.name_in_run(variant));
        let (mut missing_variants, mut verdicts, mut checks) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut why_unjudged = None;
        for judged in judged_claims {
            let outcome = judged.verdict.map(|verdict| verdict.outcome);
            let mut named = judged.claim.variants();
            match &judged.claim.relation {
                Relation::Pair(_) => checks.push(ClaimCheck::of_pair(outcome)),
                Relation::Extreme(extreme) => {
                    let mut others = rivals.clone();
                    others.retain(|rival| self.name_in_run(rival) != extreme.variant);
                    let checked = others.iter().filter(|rival| outcome.is_some() && is_in_run(rival)).count();
                    checks.push(ClaimCheck { outcome, checked, comparisons: others.len() });
                    named.extend(&rivals);
                }
            }
            missing_variants.extend(named.into_iter().filter(|variant| !is_in_run(variant)).map(String::from));
            if why_unjudged.is_none() && self.names_published_variants(&judged.claim) {
                why_unjudged = Some("it compares published figures with each other".to_string());
            }
            why_unjudged = why_unjudged.or(judged.why_unjudged);
            verdicts.extend(judged.verdict);
        }
        if !verdicts.is_empty() {
            why_unjudged = None;
        }
        ConclusionVerdict { verdicts, why_unjudged, ..combine(conclusion.required, &checks, missing_variants) }
    }

    /// Whether a claim is about variants of published sets, `SET/VARIANT`.
    fn names_published_variants(&self, claim: &Claim) -> bool {
        let is_of_set = |variant: &str| {
            self.sets.iter().any(|set| variant.split_once('/').is_some_and(|(name, _)| name == set.set))
        };
        claim.variants().into_iter().any(is_of_set)
    }

    /// The run's name of the author's variant. If the run varies a further factor, such as the CPU's speed, it is the name of
    /// the variant with the empty level of that factor: `jfs/bfq/plain`. A part of the author's name may list the levels of
    /// several scales: `ext4/git:1000|git:10`.
    fn name_in_run<'n>(&self, name: &'n str) -> &'n str
    where
        'a: 'n,
    {
        let fits_level = |part: &str, known: &str| part.split('|').any(|level| level == known);
        let is_plain = |known: &str| {
            let mut parts = known.split('/').filter(|part| *part != EMPTY_LEVEL_NAME);
            name.split('/').all(|part| parts.next().is_some_and(|known| fits_level(part, known)))
                && parts.next().is_none()
        };
        if self.variants.contains(&name) {
            return name;
        }
        self.variants.iter().copied().find(|known| is_plain(known)).unwrap_or(name)
    }

    /// Returns the claim with the names of the run's variants instead of the author's, without the names of published sets.
    fn translate(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        let translate = |variant: &mut String| {
            let name = variant.split_once('/').map_or(variant.as_str(), |(_, name)| name);
            let roles = &self.conclusions.roles;
            let role = roles.iter().position(|role| role == name);
            let position = role.filter(|_| roles.len() == self.variants.len());
            *variant = position.map_or(self.name_in_run(variant), |role| self.variants[role]).to_string();
        };
        match &mut claim.relation {
            Relation::Pair(PairRelation { left, right: RightSide::Variant(right), .. }) => {
                translate(left);
                translate(right);
            }
            Relation::Pair(PairRelation { left, .. }) => translate(left),
            Relation::Extreme(extreme) => translate(&mut extreme.variant),
        }
        claim
    }
}

/// Combines the outcomes of the claims of a conclusion. The conclusion holds only if all its comparisons could be checked. One
/// refuted claim refutes it, unless only a number or share of the claims has to hold.
fn combine(required: RequiredClaims, checks: &[ClaimCheck], missing_variants: BTreeSet<String>) -> ConclusionVerdict {
    let count = |outcomes: &[Outcome]| {
        checks.iter().filter(|check| check.outcome.is_some_and(|outcome| outcomes.contains(&outcome))).count()
    };
    let (held, claims) = (count(&[Outcome::Held]), checks.len());
    // The author claimed a difference, so equivalence refutes the claim.
    let refuted = count(&[Outcome::Refuted, Outcome::Equivalent]);
    let has_held = |check: &&ClaimCheck| check.outcome == Some(Outcome::Held);
    let comparisons = Comparisons {
        held: checks.iter().filter(has_held).map(|check| check.checked).sum(),
        checked: checks.iter().map(|check| check.checked).sum(),
        all: checks.iter().map(|check| check.comparisons).sum(),
    };
    let required_count = match required {
        RequiredClaims::All => claims,
        RequiredClaims::Count(count) => count,
        // 28% of 25 claims are 7, although 0.28 · 25 is rounded to a number above 7.
        RequiredClaims::Share(share) => (share * claims as f64 - 1e-9).ceil() as usize,
    };
    let outcome = if checks.iter().all(|check| check.outcome.is_none()) {
        None
    } else if claims - refuted < required_count {
        Some(Outcome::Refuted)
    } else if held >= required_count && comparisons.checked == comparisons.all {
        Some(Outcome::Held)
    } else {
        Some(Outcome::Inconclusive)
    };
    let held_of_claims = (required != RequiredClaims::All).then_some((held, claims));
    ConclusionVerdict { outcome, missing_variants, held_of_claims, comparisons, ..ConclusionVerdict::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Equivalent, Held, Inconclusive, Refuted};

    /// The verdict on a conclusion from these outcomes of claims about pairs.
    fn of_pairs(required: RequiredClaims, outcomes: &[Option<Outcome>]) -> ConclusionVerdict {
        let checks: Vec<ClaimCheck> = outcomes.iter().map(|outcome| ClaimCheck::of_pair(*outcome)).collect();
        combine(required, &checks, BTreeSet::new())
    }

    #[test]
    fn a_conclusion_holds_if_all_or_the_required_number_of_claims_hold() {
        let combined = |required, outcomes: &[Option<Outcome>]| of_pairs(required, outcomes).outcome;
        assert_eq!(combined(RequiredClaims::All, &[Some(Held), Some(Held)]), Some(Held));
        assert_eq!(combined(RequiredClaims::All, &[Some(Held), Some(Inconclusive)]), Some(Inconclusive));
        assert_eq!(combined(RequiredClaims::All, &[Some(Inconclusive), Some(Refuted)]), Some(Refuted));
        assert_eq!(combined(RequiredClaims::All, &[None, None]), None);
        assert_eq!(combined(RequiredClaims::Count(1), &[Some(Held), Some(Refuted)]), Some(Held));
        assert_eq!(combined(RequiredClaims::Count(2), &[Some(Held), Some(Equivalent)]), Some(Refuted));
        assert_eq!(of_pairs(RequiredClaims::Count(2), &[Some(Held), None]).held_of_claims, Some((1, 2)));
    }

    #[test]
    fn a_conclusion_that_is_only_partly_checked_never_holds() {
        for required in
            [RequiredClaims::All, RequiredClaims::Count(1), RequiredClaims::Count(2), RequiredClaims::Share(0.5)]
        {
            let verdict = of_pairs(required, &[Some(Held), None]);
            assert_eq!(verdict.outcome, Some(Inconclusive), "{required:?}");
            assert_eq!(verdict.comparisons, Comparisons { held: 1, checked: 1, all: 2 });
        }
        assert_eq!(of_pairs(RequiredClaims::All, &[None, Some(Refuted)]).outcome, Some(Refuted));
        // The best of two rivals, although the author compared six.
        let best = [ClaimCheck { outcome: Some(Held), checked: 2, comparisons: 6 }];
        let verdict = combine(RequiredClaims::All, &best, BTreeSet::new());
        assert_eq!((verdict.outcome, verdict.comparisons.checked, verdict.comparisons.all), (Some(Inconclusive), 2, 6));
    }

    #[test]
    fn a_share_is_of_all_claims() {
        let half = |outcomes: &[Option<Outcome>]| of_pairs(RequiredClaims::Share(0.5), outcomes);
        assert_eq!(half(&[Some(Held), Some(Refuted)]).outcome, Some(Held));
        assert_eq!(half(&[Some(Held), Some(Refuted), Some(Refuted)]).outcome, Some(Refuted));
        assert_eq!(half(&[Some(Held), Some(Inconclusive), Some(Refuted)]).outcome, Some(Inconclusive));
        assert_eq!(half(&[Some(Held), Some(Refuted), None]).held_of_claims, Some((1, 3)));
        assert_eq!(half(&[None]).outcome, None);
        let seven_of_25: Vec<Option<Outcome>> = (0..25).map(|i| Some(if i < 7 { Held } else { Refuted })).collect();
        let required = |share| of_pairs(RequiredClaims::Share(share), &seven_of_25).outcome;
        assert_eq!([required(0.28), required(0.29)], [Some(Held), Some(Refuted)]);
    }
}
