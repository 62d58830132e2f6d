//! Checks the conclusions of authors: "then" on their published figures, "here" on a run.

mod published_values;

use crate::judge::Judged;
use crate::verdict::{Outcome, Verdict};
use fsarena_core::claim::{Claim, Pair, Relation, Right};
use fsarena_core::conclusion::{Conclusion, Conclusions, Least};
use fsarena_core::{matrix::PLAIN, published::Published};
use published_values::Part;
pub use published_values::{Misfit, Recomputed, evidence, recompute};
use std::collections::BTreeSet;

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
    /// The comparisons that hold.
    pub held: usize,
    /// The comparisons for which there are figures.
    pub checked: usize,
    /// All comparisons.
    pub of: usize,
}

/// Checks every conclusion of a study's author on his published sets and on a run with variants of these names. `judge` judges
/// claims on the run; those about all variants are about the given ones only, or without a list about all.
pub fn check(
    conclusions: &Conclusions,
    sets: &[Published],
    variants: &[&str],
    judge: impl FnOnce(&[Claim], Option<Vec<&str>>) -> Vec<Judged>,
) -> Vec<Checked> {
    let then = check_published(conclusions, sets);
    let here = StudyRun { conclusions, sets, variants }.check(judge);
    let answers = conclusions.list.iter().zip(then.into_iter().zip(here));
    answers.map(|(of, (then, here))| Checked { conclusion: of.clone(), then, here }).collect()
}

/// The verdict of the author's own figures on each conclusion. Fits, averages of others and figures that do not follow
/// from those they were made of decide nothing.
pub fn check_published(conclusions: &Conclusions, sets: &[Published]) -> Vec<Answer> {
    let sets: Vec<Published> = sets.iter().map(evidence).collect();
    let mut answers = vec![];
    for Conclusion { set, claims, least, .. } in &conclusions.list {
        let rivals = conclusions.rivals(set, &sets);
        let judge = |claim| published_values::judge(claim, set, &sets, &conclusions.trust, &rivals);
        let parts: Vec<Part> = claims.iter().map(judge).collect();
        answers.push(combine(*least, &parts, BTreeSet::new()));
    }
    answers
}

/// A run on which the conclusions of a study are checked.
struct StudyRun<'a> {
    conclusions: &'a Conclusions,
    sets: &'a [Published],
    /// The names of the run's variants.
    variants: &'a [&'a str],
}

impl<'a> StudyRun<'a> {
    /// The verdict of the run on each conclusion.
    fn check(&self, judge: impl FnOnce(&[Claim], Option<Vec<&str>>) -> Vec<Judged>) -> Vec<Answer> {
        // All claims at once: what they share is derived once.
        let claims = self.conclusions.list.iter().flat_map(|conclusion| &conclusion.claims);
        let claims: Vec<Claim> = claims.map(|claim| self.translated(claim)).collect();
        let published = self.sets.iter().flat_map(|set| set.variants());
        let published = published.chain(self.conclusions.filesystems.iter().map(String::as_str));
        let published: Vec<&str> = published.map(|name| self.name_here(name)).collect();
        // A variant that plays a role is compared with all others, and so is every variant if no rivals are known.
        let everyone = published.is_empty() || !self.conclusions.roles.is_empty();
        let mut judged = judge(&claims, (!everyone).then_some(published)).into_iter();
        let mut answers = vec![];
        for conclusion in &self.conclusions.list {
            let judged: Vec<Judged> = judged.by_ref().take(conclusion.claims.len()).collect();
            answers.push(self.answer(conclusion, judged));
        }
        answers
    }

    /// The verdict of the run on one conclusion, whose claims were judged in their order.
    fn answer(&self, conclusion: &Conclusion, judged: Vec<Judged>) -> Answer {
        let rivals = self.conclusions.rivals(&conclusion.set, self.sets);
        let ran = |variant: &str| self.variants.contains(&self.name_here(variant));
        let (mut without, mut verdicts, mut parts) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut missing = None;
        for judged in judged {
            let outcome = judged.verdict.map(|verdict| verdict.outcome);
            let mut named = judged.claim.variants();
            match &judged.claim.relation {
                Relation::Pair(_) => parts.push(Part::of_pair(outcome)),
                Relation::Extreme(extreme) => {
                    let mut others = rivals.clone();
                    others.retain(|rival| self.name_here(rival) != extreme.variant);
                    let checked = others.iter().filter(|rival| outcome.is_some() && ran(rival)).count();
                    parts.push(Part { outcome, checked, of: others.len() });
                    named.extend(&rivals);
                }
            }
            without.extend(named.into_iter().filter(|variant| !ran(variant)).map(String::from));
            if missing.is_none() && self.names_published_variants(&judged.claim) {
                missing = Some("it compares published figures with each other".to_string());
            }
            missing = missing.or(judged.missing);
            verdicts.extend(judged.verdict);
        }
        if !verdicts.is_empty() {
            missing = None;
        }
        Answer { verdicts, missing, ..combine(conclusion.least, &parts, without) }
    }

    /// Whether a claim is about variants of published sets, `SET/VARIANT`.
    fn names_published_variants(&self, claim: &Claim) -> bool {
        let of_set = |variant: &str| {
            self.sets.iter().any(|set| variant.split_once('/').is_some_and(|(name, _)| name == set.set))
        };
        claim.variants().into_iter().any(of_set)
    }

    /// The name in the run of the author's variant. If the run varies a further factor, such as the CPU's speed, it is the
    /// variant that leaves that factor alone, `jfs/bfq/plain`.
    fn name_here<'n>(&self, name: &'n str) -> &'n str
    where
        'a: 'n,
    {
        let is_plain = |known: &str| known.split('/').filter(|part| *part != PLAIN).eq(name.split('/'));
        if self.variants.contains(&name) {
            return name;
        }
        self.variants.iter().copied().find(|known| is_plain(known)).unwrap_or(name)
    }

    /// The claim with the run's variants instead of the author's, in whichever set they are.
    fn translated(&self, claim: &Claim) -> Claim {
        let mut claim = claim.clone();
        let translate = |variant: &mut String| {
            let name = variant.split_once('/').map_or(variant.as_str(), |(_, name)| name);
            let roles = &self.conclusions.roles;
            let role = roles.iter().position(|role| role == name);
            let played = role.filter(|_| roles.len() == self.variants.len());
            *variant = played.map_or(self.name_here(variant), |role| self.variants[role]).to_string();
        };
        match &mut claim.relation {
            Relation::Pair(Pair { left, right: Right::Variant(right), .. }) => {
                translate(left);
                translate(right);
            }
            Relation::Pair(Pair { left, .. }) => translate(left),
            Relation::Extreme(extreme) => translate(&mut extreme.variant),
        }
        claim
    }
}

/// Combines the outcomes of all claims of a conclusion. It holds only if all of it could be checked; one refuted claim refutes
/// it, unless a number or share of them is enough.
fn combine(least: Least, parts: &[Part], without: BTreeSet<String>) -> Answer {
    let count = |wanted: &[Outcome]| {
        parts.iter().filter(|part| part.outcome.is_some_and(|outcome| wanted.contains(&outcome))).count()
    };
    let (held, of) = (count(&[Outcome::Held]), parts.len());
    // The author claimed a difference: a difference of nothing refutes that.
    let refuted = count(&[Outcome::Refuted, Outcome::Equivalent]);
    let has_held = |part: &&Part| part.outcome == Some(Outcome::Held);
    let comparisons = Comparisons {
        held: parts.iter().filter(has_held).map(|part| part.checked).sum(),
        checked: parts.iter().map(|part| part.checked).sum(),
        of: parts.iter().map(|part| part.of).sum(),
    };
    let needed = match least {
        Least::All => of,
        Least::Count(least) => least,
        Least::Share(share) => (share * of as f64).ceil() as usize,
    };
    let outcome = if parts.iter().all(|part| part.outcome.is_none()) {
        None
    } else if of - refuted < needed {
        Some(Outcome::Refuted)
    } else if held >= needed && comparisons.checked == comparisons.of {
        Some(Outcome::Held)
    } else {
        Some(Outcome::Inconclusive)
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
