//! Checks the conclusions of authors: "then" on their published figures, "here" on a run.

mod then;

use crate::judge::{judge_all, judge_among};
use crate::verdict::{Outcome, Verdict};
use fsarena_core::claim::{Claim, Pair, Relation, Right};
use fsarena_core::conclusion::{Conclusion, Conclusions, Least, Trust};
use fsarena_core::published::Published;
use fsarena_core::record::RunRecord;
use std::collections::BTreeSet;

/// A conclusion, then and here.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// What the author concluded.
    pub says: String,
    /// What his own figures say of it.
    pub then: Answer,
    /// What the run says of it.
    pub here: Answer,
}

/// What some figures say of a conclusion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    /// Held, refuted or inconclusive; none where nothing of it can be checked.
    pub outcome: Option<Outcome>,
    /// The variants that it names and the run lacks: the verdict holds without them.
    pub without: BTreeSet<String>,
    /// Where only some of the claims need to hold: how many do, of how many.
    pub counted: Option<(usize, usize)>,
    /// What a run says of each of its claims that it can say something of; none of published figures.
    pub verdicts: Vec<Verdict>,
    /// Why a run says nothing of it.
    pub missing: Option<String>,
}

/// Checks every conclusion of a study's author.
pub fn check(conclusions: &Conclusions, sets: &[Published], record: &RunRecord) -> Vec<Checked> {
    let here = here(conclusions, sets, record);
    let checked = |(conclusion, here): (&Conclusion, Answer)| Checked {
        says: conclusion.says.clone(),
        then: then(conclusion, sets, &conclusions.trust),
        here,
    };
    conclusions.list.iter().zip(here).map(checked).collect()
}

/// What the author's own figures say of a conclusion.
pub fn then(conclusion: &Conclusion, sets: &[Published], trust: &Trust) -> Answer {
    let judge = |claim| then::judge(claim, &conclusion.set, sets, trust);
    let outcomes: Vec<Option<Outcome>> = conclusion.claims.iter().map(judge).collect();
    combine(conclusion.least, &outcomes, BTreeSet::new())
}

/// What a run says of each conclusion.
fn here(conclusions: &Conclusions, sets: &[Published], record: &RunRecord) -> Vec<Answer> {
    let claims = |conclusion: &Conclusion| -> Vec<Claim> {
        conclusion.claims.iter().map(|claim| cast(claim, &conclusions.roles, record)).collect()
    };
    // All claims at once: what they share is derived once.
    let all: Vec<Claim> = conclusions.list.iter().flat_map(claims).collect();
    let published: Vec<&str> = sets.iter().flat_map(|set| set.variants()).collect();
    // Who stands for another is compared with everyone, and so is everyone where no rivals are known.
    let judged = match published.is_empty() || !conclusions.roles.is_empty() {
        true => judge_all(record, &all),
        false => judge_among(record, &all, &published),
    };
    let mut judged = judged.into_iter();
    let ran = |variant: &str| record.variants.iter().any(|known| known.name == variant);
    let answer = |conclusion: &Conclusion| {
        let mut without = BTreeSet::new();
        let (mut verdicts, mut missing) = (Vec::new(), None);
        let mut outcomes = Vec::new();
        for judged in judged.by_ref().take(conclusion.claims.len()) {
            let rivals = match judged.claim.relation {
                Relation::Extreme(_) => {
                    sets.iter().find(|set| set.set == conclusion.set).map(Published::variants)
                }
                Relation::Pair(_) => None,
            };
            let named = judged.claim.variants().into_iter().chain(rivals.into_iter().flatten());
            without.extend(named.filter(|variant| !ran(variant)).map(String::from));
            outcomes.push(judged.verdict.map(|verdict| verdict.outcome));
            verdicts.extend(judged.verdict);
            missing = missing.or(match among_then(&judged.claim, sets) {
                true => Some("it holds figures of then against each other".into()),
                false => judged.missing,
            });
        }
        let missing = missing.filter(|_| verdicts.is_empty());
        Answer { verdicts, missing, ..combine(conclusion.least, &outcomes, without) }
    };
    conclusions.list.iter().map(answer).collect()
}

/// Whether a claim is about variants of published sets, `SET/VARIANT`.
fn among_then(claim: &Claim, sets: &[Published]) -> bool {
    let of_set = |variant: &str| {
        sets.iter().any(|set| variant.split_once('/').is_some_and(|(name, _)| name == set.set))
    };
    claim.variants().into_iter().any(of_set)
}

/// The claim with the variants of the run in the parts that the author's variants played, in whichever set.
fn cast(claim: &Claim, roles: &[String], record: &RunRecord) -> Claim {
    let mut claim = claim.clone();
    if roles.len() != record.variants.len() {
        return claim;
    }
    let play = |variant: &mut String| {
        let name = variant.split_once('/').map_or(variant.as_str(), |(_, name)| name);
        if let Some(part) = roles.iter().position(|role| role == name) {
            *variant = record.variants[part].name.clone();
        }
    };
    match &mut claim.relation {
        Relation::Pair(Pair { left, right: Right::Variant(right), .. }) => {
            play(left);
            play(right);
        }
        Relation::Pair(Pair { left, .. }) => play(left),
        Relation::Extreme(extreme) => play(&mut extreme.variant),
    }
    claim
}

/// One answer of many: claims that cannot be checked are left out, unless they are to be counted.
fn combine(least: Least, outcomes: &[Option<Outcome>], without: BTreeSet<String>) -> Answer {
    let count = |wanted: &[Outcome]| {
        outcomes.iter().filter(|outcome| outcome.is_some_and(|outcome| wanted.contains(&outcome))).count()
    };
    let (held, known) = (count(&[Outcome::Held]), outcomes.iter().flatten().count());
    // A difference was claimed and there is none that matters: that is not what was concluded.
    let refuted = count(&[Outcome::Refuted, Outcome::Equivalent]);
    let (needed, of) = match least {
        Least::All => (known, known),
        Least::Count(least) => (least, outcomes.len()),
        Least::Share(share) => ((share * known as f64).ceil() as usize, known),
    };
    let outcome = match () {
        () if known == 0 => None,
        () if held >= needed => Some(Outcome::Held),
        () if of - refuted < needed => Some(Outcome::Refuted),
        () => Some(Outcome::Inconclusive),
    };
    Answer { outcome, without, counted: (least != Least::All).then_some((held, of)), ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_have_to_hold_or_as_many_as_are_asked_for() {
        use Outcome::{Equivalent, Held, Inconclusive, Refuted};
        let combined =
            |least, outcomes: &[Option<Outcome>]| combine(least, outcomes, BTreeSet::new()).outcome;
        assert_eq!(combined(Least::All, &[Some(Held), None]), Some(Held));
        assert_eq!(combined(Least::All, &[Some(Held), Some(Inconclusive)]), Some(Inconclusive));
        assert_eq!(combined(Least::All, &[Some(Inconclusive), Some(Refuted)]), Some(Refuted));
        assert_eq!(combined(Least::All, &[None, None]), None);
        assert_eq!(combined(Least::Count(1), &[Some(Held), Some(Refuted)]), Some(Held));
        assert_eq!(combined(Least::Count(2), &[Some(Held), Some(Equivalent)]), Some(Refuted));
        // What cannot be checked could hold.
        assert_eq!(combined(Least::Count(2), &[Some(Held), None]), Some(Inconclusive));
        let answer = combine(Least::Count(2), &[Some(Held), None], BTreeSet::new());
        assert_eq!(answer.counted, Some((1, 2)));
    }

    #[test]
    fn a_share_is_of_what_can_be_checked() {
        use Outcome::{Held, Inconclusive, Refuted};
        let half = |outcomes: &[Option<Outcome>]| combine(Least::Share(0.5), outcomes, BTreeSet::new());
        assert_eq!(half(&[Some(Held), Some(Refuted), None, None]).outcome, Some(Held));
        assert_eq!(half(&[Some(Held), Some(Refuted), Some(Refuted)]).outcome, Some(Refuted));
        assert_eq!(half(&[Some(Held), Some(Inconclusive), Some(Refuted)]).outcome, Some(Inconclusive));
        assert_eq!(half(&[Some(Held), Some(Refuted), None]).counted, Some((1, 2)));
        assert_eq!(half(&[None]).outcome, None);
    }
}
