//! Checks the conclusions of authors: "then" on their published figures, "here" on a run.

mod then;

use crate::judge::{Judged, judge_all, judge_among};
use crate::recompute::evidence;
use crate::verdict::{Outcome, Verdict};
use fsarena_core::claim::{Claim, Pair, Relation, Right};
use fsarena_core::conclusion::{Conclusion, Conclusions, Least};
use fsarena_core::{matrix::PLAIN, published::Published, record::RunRecord};
use std::collections::BTreeSet;
use then::Part;

/// A conclusion, then and here.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The author's conclusion.
    pub conclusion: Conclusion,
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
    /// How many comparisons hold, how many could be checked, and of how many the conclusion is made.
    pub comparisons: Comparisons,
    /// What a run says of each of its claims that it can say something of; none of published figures.
    pub verdicts: Vec<Verdict>,
    /// Why a run says nothing of it.
    pub missing: Option<String>,
}

/// The comparisons that a conclusion is made of: one for each claim about a pair, one for each rival of a claim that a
/// variant is best or worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Comparisons {
    /// Those that hold.
    pub held: usize,
    /// Those for which there are figures.
    pub checked: usize,
    /// All.
    pub of: usize,
}

/// Checks every conclusion of a study's author.
pub fn check(conclusions: &Conclusions, sets: &[Published], record: &RunRecord) -> Vec<Checked> {
    let answers = then(conclusions, sets).into_iter().zip(here(conclusions, sets, record));
    let checked = answers.zip(&conclusions.list);
    checked.map(|((then, here), of)| Checked { conclusion: of.clone(), then, here }).collect()
}

/// The verdict of the author's own figures on each conclusion. Fits, averages of others and figures that do not follow
/// from those they were made of decide nothing.
pub fn then(conclusions: &Conclusions, sets: &[Published]) -> Vec<Answer> {
    let sets: Vec<Published> = sets.iter().map(evidence).collect();
    let answer = |conclusion: &Conclusion| {
        let rivals = conclusions.rivals(&conclusion.set, &sets);
        let part = |claim| then::judge(claim, &conclusion.set, &sets, &conclusions.trust, &rivals);
        let parts: Vec<Part> = conclusion.claims.iter().map(part).collect();
        combine(conclusion.least, &parts, BTreeSet::new())
    };
    conclusions.list.iter().map(answer).collect()
}

/// The verdict of a run on each conclusion.
fn here(conclusions: &Conclusions, sets: &[Published], record: &RunRecord) -> Vec<Answer> {
    let claims = |conclusion: &Conclusion| -> Vec<Claim> {
        conclusion.claims.iter().map(|claim| cast(claim, &conclusions.roles, record)).collect()
    };
    // All claims at once: what they share is derived once.
    let all: Vec<Claim> = conclusions.list.iter().flat_map(claims).collect();
    let published = sets.iter().flat_map(|set| set.variants());
    let published = published.chain(conclusions.filesystems.iter().map(String::as_str));
    let published: Vec<&str> = published.map(|name| here_called(record, name)).collect();
    // A variant that plays a role is compared with all others, and so is every variant where no rivals are known.
    let everyone = published.is_empty() || !conclusions.roles.is_empty();
    let judged = if everyone { judge_all(record, &all) } else { judge_among(record, &all, &published) };
    let mut judged = judged.into_iter();
    let answer = |conclusion: &Conclusion| {
        let rivals = conclusions.rivals(&conclusion.set, sets);
        answer_here(conclusion, sets, record, &rivals, judged.by_ref().take(conclusion.claims.len()))
    };
    conclusions.list.iter().map(answer).collect()
}

/// The verdict of a run on one conclusion, whose claims were judged in their order.
fn answer_here(
    conclusion: &Conclusion,
    sets: &[Published],
    record: &RunRecord,
    rivals: &[&str],
    judged: impl Iterator<Item = Judged>,
) -> Answer {
    let ran = |variant: &&str| record.variant(here_called(record, variant)).is_some();
    let mut without = BTreeSet::new();
    let (mut verdicts, mut missing, mut parts) = (Vec::new(), None, Vec::new());
    for judged in judged {
        let outcome = judged.verdict.map(|verdict| verdict.outcome);
        let mut named = judged.claim.variants();
        let part = match &judged.claim.relation {
            Relation::Pair(_) => Part::of_pair(outcome),
            Relation::Extreme(extreme) => {
                named.extend(rivals);
                let is_other = |rival: &&&str| here_called(record, rival) != extreme.variant;
                let rivals: Vec<&&str> = rivals.iter().filter(is_other).collect();
                let checked =
                    if outcome.is_some() { rivals.iter().filter(|rival| ran(rival)).count() } else { 0 };
                Part { outcome, checked, of: rivals.len() }
            }
        };
        parts.push(part);
        without.extend(named.into_iter().filter(|variant| !ran(variant)).map(String::from));
        verdicts.extend(judged.verdict);
        let among = among_then(&judged.claim, sets);
        let among = among.then(|| "it compares published figures with each other".to_string());
        missing = missing.or(among).or(judged.missing);
    }
    let missing = missing.filter(|_| verdicts.is_empty());
    Answer { verdicts, missing, ..combine(conclusion.least, &parts, without) }
}

/// Whether a claim is about variants of published sets, `SET/VARIANT`.
fn among_then(claim: &Claim, sets: &[Published]) -> bool {
    let of_set = |variant: &str| {
        sets.iter().any(|set| variant.split_once('/').is_some_and(|(name, _)| name == set.set))
    };
    claim.variants().into_iter().any(of_set)
}

/// The name in a run of the author's variant: where the run varies a further factor, such as the CPU's speed, the variant
/// that leaves that factor alone, `jfs/bfq/plain`.
fn here_called<'a>(record: &'a RunRecord, name: &'a str) -> &'a str {
    let names = || record.variants.iter().map(|variant| variant.name.as_str());
    let bare = |known: &&str| known.split('/').filter(|part| *part != PLAIN).eq(name.split('/'));
    if names().any(|known| known == name) { name } else { names().find(bare).unwrap_or(name) }
}

/// The claim with the variants of the run in the parts that the author's variants played, in whichever set.
fn cast(claim: &Claim, roles: &[String], record: &RunRecord) -> Claim {
    let mut claim = claim.clone();
    let play = |variant: &mut String| {
        let name = variant.split_once('/').map_or(variant.as_str(), |(_, name)| name);
        let part = roles.iter().position(|role| role == name);
        let played = part.filter(|_| roles.len() == record.variants.len());
        *variant = played.map_or(here_called(record, variant), |part| record.name(part)).to_string();
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

/// One answer of many. A conclusion holds only if all of it could be checked; one refuted claim refutes it, unless a
/// number or share of them is enough.
fn combine(least: Least, parts: &[Part], without: BTreeSet<String>) -> Answer {
    let count = |wanted: &[Outcome]| {
        parts.iter().filter(|part| part.outcome.is_some_and(|outcome| wanted.contains(&outcome))).count()
    };
    let (held, of) = (count(&[Outcome::Held]), parts.len());
    // The author claimed a difference: a difference of nothing refutes that.
    let refuted = count(&[Outcome::Refuted, Outcome::Equivalent]);
    let sum = |value: &dyn Fn(&Part) -> usize| parts.iter().map(value).sum();
    let comparisons = Comparisons {
        held: sum(&|part| if part.outcome == Some(Outcome::Held) { part.checked } else { 0 }),
        checked: sum(&|part| part.checked),
        of: sum(&|part| part.of),
    };
    let needed = match least {
        Least::All => of,
        Least::Count(least) => least,
        Least::Share(share) => (share * of as f64).ceil() as usize,
    };
    let outcome = match () {
        () if parts.iter().all(|part| part.outcome.is_none()) => None,
        () if of - refuted < needed => Some(Outcome::Refuted),
        () if held >= needed && comparisons.checked == comparisons.of => Some(Outcome::Held),
        () => Some(Outcome::Inconclusive),
    };
    let counted = (least != Least::All).then_some((held, of));
    Answer { outcome, without, counted, comparisons, ..Answer::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Equivalent, Held, Inconclusive, Refuted};

    fn of_pairs(least: Least, outcomes: &[Option<Outcome>]) -> Answer {
        let parts: Vec<Part> = outcomes.iter().map(|outcome| Part::of_pair(*outcome)).collect();
        combine(least, &parts, BTreeSet::new())
    }

    #[test]
    fn all_have_to_hold_or_as_many_as_are_asked_for() {
        let combined = |least, outcomes: &[Option<Outcome>]| of_pairs(least, outcomes).outcome;
        assert_eq!(combined(Least::All, &[Some(Held), Some(Held)]), Some(Held));
        assert_eq!(combined(Least::All, &[Some(Held), Some(Inconclusive)]), Some(Inconclusive));
        assert_eq!(combined(Least::All, &[Some(Inconclusive), Some(Refuted)]), Some(Refuted));
        assert_eq!(combined(Least::All, &[None, None]), None);
        assert_eq!(combined(Least::Count(1), &[Some(Held), Some(Refuted)]), Some(Held));
        assert_eq!(combined(Least::Count(2), &[Some(Held), Some(Equivalent)]), Some(Refuted));
        assert_eq!(of_pairs(Least::Count(2), &[Some(Held), None]).counted, Some((1, 2)));
    }

    #[test]
    fn a_conclusion_that_could_be_checked_in_part_never_holds() {
        for least in [Least::All, Least::Count(1), Least::Count(2), Least::Share(0.5)] {
            let answer = of_pairs(least, &[Some(Held), None]);
            assert_eq!(answer.outcome, Some(Inconclusive), "{least:?}");
            assert_eq!(answer.comparisons, Comparisons { held: 1, checked: 1, of: 2 });
        }
        assert_eq!(of_pairs(Least::All, &[None, Some(Refuted)]).outcome, Some(Refuted));
        // A best of two rivals where the author compared six.
        let best = [Part { outcome: Some(Held), checked: 2, of: 6 }];
        let answer = combine(Least::All, &best, BTreeSet::new());
        assert_eq!(
            (answer.outcome, answer.comparisons.checked, answer.comparisons.of),
            (Some(Inconclusive), 2, 6)
        );
    }

    #[test]
    fn a_share_is_of_all_claims() {
        let half = |outcomes: &[Option<Outcome>]| of_pairs(Least::Share(0.5), outcomes);
        assert_eq!(half(&[Some(Held), Some(Refuted)]).outcome, Some(Held));
        assert_eq!(half(&[Some(Held), Some(Refuted), Some(Refuted)]).outcome, Some(Refuted));
        assert_eq!(half(&[Some(Held), Some(Inconclusive), Some(Refuted)]).outcome, Some(Inconclusive));
        assert_eq!(half(&[Some(Held), Some(Refuted), None]).counted, Some((1, 3)));
        assert_eq!(half(&[None]).outcome, None);
    }
}
