//! What authors concluded, checked: then, on the figures that they published, and here, on a run.

mod then;

use crate::judge::judge_among;
use crate::verdict::Outcome;
use fsarena_core::claim::{Claim, Relation};
use fsarena_core::conclusion::{Conclusion, Trust};
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
    /// Held, refuted or undecided; none where nothing of it can be checked.
    pub outcome: Option<Outcome>,
    /// The arms that it names and that are not there: what is said holds without them.
    pub without: BTreeSet<String>,
    /// Where only some of the claims need to hold: how many do, of how many.
    pub counted: Option<(usize, usize)>,
}

/// Checks every conclusion of a study's author.
pub fn check(
    conclusions: &[Conclusion],
    sets: &[Published],
    trust: &Trust,
    record: &RunRecord,
) -> Vec<Checked> {
    let here = conclusions_here(conclusions, sets, record);
    conclusions
        .iter()
        .zip(here)
        .map(|(conclusion, here)| {
            let then = |claim| then::judge(claim, &conclusion.set, sets, trust);
            let outcomes = conclusion.claims.iter().map(then).collect::<Vec<_>>();
            Checked {
                says: conclusion.says.clone(),
                then: combine(conclusion, &outcomes, BTreeSet::new()),
                here,
            }
        })
        .collect()
}

fn conclusions_here(conclusions: &[Conclusion], sets: &[Published], record: &RunRecord) -> Vec<Answer> {
    // All claims at once: what they share is derived once.
    let all: Vec<Claim> = conclusions.iter().flat_map(|conclusion| conclusion.claims.clone()).collect();
    let published: Vec<&str> = sets.iter().flat_map(|set| set.arms()).collect();
    let mut judged = judge_among(record, &all, &published).into_iter();
    let ran = |arm: &str| record.arms.iter().any(|known| known.name == arm);
    let answer = |conclusion: &Conclusion| {
        let mut without = BTreeSet::new();
        let mut outcomes = Vec::new();
        for claim in &conclusion.claims {
            let rivals = match claim.relation {
                Relation::Extreme(_) => {
                    sets.iter().find(|set| set.set == conclusion.set).map(Published::arms)
                }
                Relation::Pair(_) => None,
            };
            let named = claim.arms().into_iter().chain(rivals.into_iter().flatten());
            without.extend(named.filter(|arm| !ran(arm)).map(String::from));
            let verdict = judged.next().and_then(|judged| judged.verdict);
            outcomes.push(verdict.map(|verdict| verdict.outcome));
        }
        combine(conclusion, &outcomes, without)
    };
    conclusions.iter().map(answer).collect()
}

/// One answer of many: claims that cannot be checked are left out, unless they are to be counted.
fn combine(conclusion: &Conclusion, outcomes: &[Option<Outcome>], without: BTreeSet<String>) -> Answer {
    let count = |wanted: &[Outcome]| {
        outcomes.iter().filter(|outcome| outcome.is_some_and(|outcome| wanted.contains(&outcome))).count()
    };
    let (held, known) = (count(&[Outcome::Held]), outcomes.iter().flatten().count());
    // A difference was claimed and there is none that matters: that is not what was concluded.
    let refuted = count(&[Outcome::Refuted, Outcome::Equivalent]);
    let (needed, possible) = match conclusion.at_least {
        Some(least) => (least, outcomes.len() - refuted),
        None => (known, known - refuted),
    };
    let outcome = match () {
        () if known == 0 => None,
        () if held >= needed => Some(Outcome::Held),
        () if possible < needed => Some(Outcome::Refuted),
        () => Some(Outcome::Undecided),
    };
    Answer { outcome, without, counted: conclusion.at_least.map(|_| (held, outcomes.len())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conclusion(at_least: Option<usize>) -> Conclusion {
        Conclusion { says: String::new(), set: String::new(), claims: vec![], at_least }
    }

    #[test]
    fn all_have_to_hold_or_as_many_as_are_asked_for() {
        use Outcome::{Equivalent, Held, Refuted, Undecided};
        let combined = |at_least, outcomes: &[Option<Outcome>]| {
            combine(&conclusion(at_least), outcomes, BTreeSet::new()).outcome
        };
        assert_eq!(combined(None, &[Some(Held), None]), Some(Held));
        assert_eq!(combined(None, &[Some(Held), Some(Undecided)]), Some(Undecided));
        assert_eq!(combined(None, &[Some(Undecided), Some(Refuted)]), Some(Refuted));
        assert_eq!(combined(None, &[None, None]), None);
        assert_eq!(combined(Some(1), &[Some(Held), Some(Refuted)]), Some(Held));
        assert_eq!(combined(Some(2), &[Some(Held), Some(Equivalent)]), Some(Refuted));
        // What cannot be checked could hold.
        assert_eq!(combined(Some(2), &[Some(Held), None]), Some(Undecided));
        let answer = combine(&conclusion(Some(2)), &[Some(Held), None], BTreeSet::new());
        assert_eq!(answer.counted, Some((1, 2)));
    }
}
