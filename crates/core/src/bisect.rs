//! The state of a bisection: its candidates, the comparisons so far, and the part of the error probability of 5% that each
//! comparison may use.
//!
//! A candidate is a commit of a git repository, or a level of a factor. The cost of a candidate is compared with that of both
//! ends, GOOD and BAD, in the same rounds; it belongs to the end that it is nearer to.

use crate::claim::Claim;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format of the file with the state.
pub const FORMAT_VERSION: u32 = 1;

/// The levels of one variant, by the names of the factors.
pub type VariantLevels = BTreeMap<String, String>;

/// A bisection. It is stored in one file, which is all that is needed to continue it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// [`FORMAT_VERSION`].
    pub format: u32,
    /// Its id: the name of its directory.
    pub id: String,
    /// The arguments of fsarena that began it.
    pub command: Vec<String>,
    /// Where the candidates come from.
    #[serde(rename = "history")]
    pub source: CandidateSource,
    /// The levels of every candidate. `{level}`, `{tree}` and `{file:PATH}` stand for the parts that differ between candidates.
    pub template: VariantLevels,
    /// The plan of a comparison of the ends, as TOML.
    pub plan: String,
    /// The claim that GOOD meets and BAD does not. In its text, `baseline` is GOOD and `candidate` is the other variant.
    pub claim: Claim,
    /// The user who builds candidates, and that workloads run as; None for the user who started fsarena.
    pub user: Option<String>,
    /// Whether the figures are counts of instructions, which hardly vary between rounds.
    #[serde(rename = "counts")]
    pub figures_are_counts: bool,
    /// The most rounds of a comparison.
    pub max_rounds: usize,
    /// The time budget of the whole bisection in seconds.
    pub budget_s: Option<f64>,
    /// The time that the bisection has taken so far, in seconds.
    pub elapsed_s: f64,
    /// The id of GOOD, the candidate that meets the claim.
    pub good: String,
    /// The id of BAD, the candidate that does not meet the claim.
    pub bad: String,
    /// The number of candidates that could be the first bad one before any step: those between the ends, and BAD.
    #[serde(rename = "candidates")]
    pub candidate_count: usize,
    /// The candidates that were tried, by their ids.
    pub tried: BTreeMap<String, Candidate>,
    /// The comparisons, in order.
    pub comparisons: Vec<Comparison>,
    /// How the bisection ended; None while it continues.
    pub ending: Option<Ending>,
}

/// Where the candidates of a bisection come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CandidateSource {
    /// The commits of a git repository that BAD contains and GOOD does not. An id is the hash of a commit.
    Git {
        /// The repository.
        repo: String,
        /// The commands that build a commit, as argument vectors. They run one after another in the tree of the commit.
        build: Vec<Vec<String>>,
        /// Whether only first parents are followed.
        first_parent: bool,
        /// The candidates are only the commits that change one of these paths; all commits if empty.
        paths: Vec<String>,
    },
    /// A list, from GOOD to BAD. An id is a level.
    List(Vec<String>),
}

/// A candidate that was tried.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Candidate {
    /// Its short name: the abbreviated hash, or the level.
    pub label: String,
    /// The subject of the commit; empty without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// The levels of its variant; empty if the candidate could not be built.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: VariantLevels,
    /// Why the candidate is skipped: it does not build, boot or do the work.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "skipped")]
    pub skip_reason: Option<String>,
}

impl Candidate {
    /// Its short name, and its subject in brackets if it has one.
    pub fn title(&self) -> String {
        if self.subject.is_empty() { self.label.clone() } else { format!("{} ({})", self.label, self.subject) }
    }
}

/// The question of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Whether BAD breaks the claim against GOOD.
    Ends,
    /// Which end a candidate is nearer to. Its variants are GOOD, the candidate, BAD.
    Step,
    /// Whether the first bad candidate differs from the last good one.
    Confirmation,
}

/// A comparison of two or three candidates in the same rounds, by one or more runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Its question.
    pub purpose: Purpose,
    /// The candidates, from GOOD's side to BAD's.
    pub candidates: Vec<String>,
    /// The probability of a wrong result is at most 5% divided by this number.
    #[serde(rename = "share")]
    pub error_split: u32,
    /// Its runs.
    pub runs: Vec<String>,
    /// The number of these runs that were judged.
    #[serde(rename = "judged")]
    pub judged_runs: usize,
    /// The time that its runs took in seconds.
    #[serde(rename = "seconds")]
    pub elapsed_s: f64,
    /// The longest time that the comparison may take, in seconds; None without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_s: Option<f64>,
    /// Its result; None while it continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ComparisonResult>,
    /// The difference between [`Comparison::tested_candidate`] and the first candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Whether its last rounds had no usable figure, so that further rounds are useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stuck: bool,
}

impl Comparison {
    /// A comparison that has not begun.
    pub fn new(purpose: Purpose, candidates: &[&str], error_split: u32) -> Comparison {
        Comparison {
            purpose,
            candidates: candidates.iter().map(|id| id.to_string()).collect(),
            error_split,
            runs: vec![],
            judged_runs: 0,
            elapsed_s: 0.0,
            allowed_s: None,
            result: None,
            effect: None,
            stuck: false,
        }
    }

    /// The id of the candidate that is compared with an end or with the last good one: the middle one of a step, else the last.
    pub fn tested_candidate(&self) -> &str {
        &self.candidates[1]
    }
}

crate::named_enum! {
    /// The result of a comparison.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ComparisonResult {
        /// The ends: the claim is refuted, and BAD has more than GOOD.
        More = "more",
        /// The ends: the claim is refuted, and BAD has less than GOOD.
        Less = "less",
        /// The ends: the claim holds. A confirmation: the candidates do not differ.
        NoChange = "no change",
        /// A step: nearer to GOOD.
        Good = "good",
        /// A step: nearer to BAD.
        Bad = "bad",
        /// A confirmation: the candidates differ.
        Confirmed = "confirmed",
        /// Its rounds or its time ran out before it was decided.
        Inconclusive = "inconclusive",
        /// The candidate could not do the work.
        Skipped = "skipped",
    }
}

/// The difference of two candidates: the ratio of a typical round minus 1, as fractions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The estimate.
    pub estimate: f64,
    /// The lower end of its 95% interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of rounds. With fewer than 8, the interval is the range of the rounds.
    pub rounds: usize,
}

/// How a bisection ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Ending {
    /// The cost changed at a candidate.
    Found {
        /// The id of the last good candidate.
        #[serde(rename = "parent")]
        last_good: String,
        /// The id of the first bad candidate.
        #[serde(rename = "child")]
        first_bad: String,
        /// The ids of the candidates between them that could not be tested: each may be the first bad one.
        possible: Vec<String>,
    },
    /// The claim holds between the ends, so there is nothing to find.
    NoChange,
    /// It could not be decided.
    Inconclusive {
        /// The reason.
        why: String,
        /// The ids of the candidates that may be the first bad one; empty if it is unknown whether the cost changed.
        possible: Vec<String>,
    },
}

impl Bisection {
    /// A candidate, by its id. For one that was not tried, a candidate with the id as label.
    pub fn candidate(&self, id: &str) -> Candidate {
        let untried = || Candidate { label: id.into(), ..Candidate::default() };
        self.tried.get(id).cloned().unwrap_or_else(untried)
    }

    /// The comparison of the ends.
    pub fn ends_comparison(&self) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.purpose == Purpose::Ends)
    }

    /// The sign of the change from GOOD to BAD: 1 if BAD has more, −1 if it has less; None before that is known.
    pub fn direction(&self) -> Option<f64> {
        match self.ends_comparison()?.result? {
            ComparisonResult::More => Some(1.0),
            ComparisonResult::Less => Some(-1.0),
            _ => None,
        }
    }

    /// The ids of the candidates known to be good, GOOD first, and of the first one known to be bad.
    pub fn bracket(&self) -> (Vec<&str>, &str) {
        let (mut goods, mut bad) = (vec![self.good.as_str()], self.bad.as_str());
        for step in self.comparisons.iter().filter(|comparison| comparison.purpose == Purpose::Step) {
            match step.result {
                Some(ComparisonResult::Good) => goods.push(step.tested_candidate()),
                Some(ComparisonResult::Bad) => bad = step.tested_candidate(),
                _ => {}
            }
        }
        (goods, bad)
    }

    /// The error split of the next comparison: the probability of a wrong result is at most 5% divided by it.
    /// `remaining_steps` is the number of steps still to do, this one included.
    ///
    /// The probabilities of all comparisons add up to at most 5%, however many steps the bisection takes. With s expected steps
    /// the comparison of the ends gets 5%/(s + 2), and as much is reserved for the confirmation. Each step gets an equal part of
    /// what is neither spent nor reserved. If the bisection takes exactly s steps, each comparison has 5%/(s + 2).
    pub fn next_error_split(&self, purpose: Purpose, remaining_steps: usize) -> u32 {
        let spent: f64 = self.comparisons.iter().map(|comparison| 1.0 / f64::from(comparison.error_split)).sum();
        let reserved_for_confirmation = self.ends_comparison().map_or(0.0, |ends| 1.0 / f64::from(ends.error_split));
        let (parts, remaining) = match purpose {
            Purpose::Ends => (remaining_steps + 2, 1.0),
            Purpose::Step => (remaining_steps, 1.0 - spent - reserved_for_confirmation),
            Purpose::Confirmation => (1, 1.0 - spent),
        };
        // Binary fractions must not turn 8 into 9.
        (parts as f64 / remaining.max(1e-6) - 1e-6).ceil() as u32
    }
}

/// The number of steps that find one of these candidates in the worst case: ⌈log₂⌉.
pub fn worst_case_steps(candidate_count: usize) -> usize {
    candidate_count.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bisection(error_splits: &[u32]) -> Bisection {
        Bisection {
            format: FORMAT_VERSION,
            id: String::new(),
            command: vec![],
            source: CandidateSource::List(vec![]),
            template: VariantLevels::new(),
            plan: String::new(),
            claim: "total.elapsed: candidate <= baseline".parse().unwrap(),
            user: None,
            figures_are_counts: false,
            max_rounds: 400,
            budget_s: None,
            elapsed_s: 0.0,
            good: "0".into(),
            bad: "64".into(),
            candidate_count: 64,
            tried: BTreeMap::new(),
            comparisons: error_splits
                .iter()
                .enumerate()
                .map(|(index, error_split)| {
                    let purpose = if index == 0 { Purpose::Ends } else { Purpose::Step };
                    Comparison::new(purpose, &["0", "1", "64"], *error_split)
                })
                .collect(),
            ending: None,
        }
    }

    #[test]
    fn the_errors_of_all_comparisons_add_up_to_five_per_cent() {
        assert_eq!([1, 2, 3, 63, 64, 65].map(worst_case_steps), [0, 1, 2, 6, 6, 7]);
        // 64 candidates: the ends, six steps and the confirmation.
        assert_eq!(bisection(&[]).next_error_split(Purpose::Ends, 6), 8);
        for done in 1..7 {
            assert_eq!(bisection(&vec![8; done]).next_error_split(Purpose::Step, 7 - done), 8);
        }
        assert_eq!(bisection(&[8; 7]).next_error_split(Purpose::Confirmation, 0), 8);
        // Failed candidates cost further steps: the other steps take smaller parts, and the confirmation keeps its part.
        let mut state = bisection(&[8]);
        for steps in [6, 6, 5, 5, 4, 3, 2, 2, 1] {
            let error_split = state.next_error_split(Purpose::Step, steps);
            state.comparisons.push(Comparison::new(Purpose::Step, &["0", "1", "64"], error_split));
        }
        let error_split = state.next_error_split(Purpose::Confirmation, 0);
        state.comparisons.push(Comparison::new(Purpose::Confirmation, &["0", "1"], error_split));
        let spent: f64 = state.comparisons.iter().map(|comparison| 1.0 / f64::from(comparison.error_split)).sum();
        assert!(error_split <= 8 && spent <= 1.0 + 1e-9 && spent > 0.8, "{error_split} {spent}");
    }

    #[test]
    fn steps_narrow_the_bracket() {
        let mut state = bisection(&[8, 8, 8, 8]);
        for (index, (id, result)) in
            [("32", ComparisonResult::Bad), ("16", ComparisonResult::Good), ("24", ComparisonResult::Inconclusive)]
                .into_iter()
                .enumerate()
        {
            state.comparisons[index + 1].candidates[1] = id.into();
            state.comparisons[index + 1].result = Some(result);
        }
        assert_eq!(state.bracket(), (vec!["0", "16"], "32"));
    }
}
