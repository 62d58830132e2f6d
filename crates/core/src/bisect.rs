//! The state of a bisection: its candidates, the comparisons so far, and the share of the error that each may take.
//!
//! A candidate is a commit of a git repository, or a level of a factor. The cost of a candidate is compared with that of both
//! ends, GOOD and BAD, in the same rounds; it belongs to the end that it is nearer to.

use crate::claim::Claim;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of the format of the file with the state.
pub const FORMAT: u32 = 1;

/// The levels of factors, by the names of the factors.
pub type Levels = BTreeMap<String, String>;

/// A bisection. The file with it is all that is needed to continue it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bisection {
    /// [`FORMAT`].
    pub format: u32,
    /// Its id: the name of its directory.
    pub id: String,
    /// The arguments of fsarena that began it.
    pub command: Vec<String>,
    /// Where the candidates come from.
    pub history: History,
    /// The levels of a candidate, with `{level}`, `{tree}` and `{file:PATH}` for what differs between candidates.
    pub template: Levels,
    /// The plan of a comparison of the ends, as TOML.
    pub plan: String,
    /// The claim that GOOD meets and BAD does not, about `candidate` and `baseline`.
    pub claim: Claim,
    /// The user who builds candidates, and that workloads run as; None for the user who started fsarena.
    pub user: Option<String>,
    /// Whether the figures are counts of instructions, which hardly vary between rounds.
    #[serde(rename = "counts")]
    pub figures_are_counts: bool,
    /// The most rounds of a comparison.
    pub max_rounds: usize,
    /// The time for the whole bisection in seconds.
    pub budget_s: Option<f64>,
    /// The time that it has taken in seconds.
    pub elapsed_s: f64,
    /// The candidate that meets the claim.
    pub good: String,
    /// The candidate that does not.
    pub bad: String,
    /// The number of candidates that could be the first bad one at the beginning: those between the ends, and BAD.
    #[serde(rename = "candidates")]
    pub candidate_count: usize,
    /// What is known of the candidates that were tried, by their ids.
    pub tried: BTreeMap<String, Candidate>,
    /// The comparisons, in order.
    pub comparisons: Vec<Comparison>,
    /// How it ended; None while it goes on.
    pub ending: Option<Ending>,
}

/// Where the candidates of a bisection come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum History {
    /// The commits of a git repository that BAD contains and GOOD does not. An id is the hash of a commit.
    Git {
        /// The repository.
        repo: String,
        /// The argument vectors that build a commit, one after another, in its tree.
        build: Vec<Vec<String>>,
        /// Whether only first parents are followed.
        first_parent: bool,
        /// Only commits that change one of these paths; empty for all.
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
    /// The levels of its variant; empty if it was not made.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub levels: Levels,
    /// Why it is skipped: it does not build, boot or do the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
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
    /// It may err with the probability 5%/`error_split`.
    #[serde(rename = "share")]
    pub error_split: u32,
    /// Its runs.
    pub runs: Vec<String>,
    /// The number of these that were judged.
    #[serde(rename = "judged")]
    pub judged_runs: usize,
    /// The time that its runs took in seconds.
    pub seconds: f64,
    /// The time that it may take before it is set aside, in seconds; None without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_s: Option<f64>,
    /// Its result; None while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ComparisonResult>,
    /// The difference between the candidate that it is about and the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Whether its last rounds had no usable figure, so that further ones are useless.
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
            seconds: 0.0,
            allowed_s: None,
            result: None,
            effect: None,
            stuck: false,
        }
    }

    /// The candidate that the comparison is about: of a step the middle one, else the last.
    pub fn subject(&self) -> &str {
        &self.candidates[1]
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ComparisonResult {
    /// The ends: the claim is refuted, and BAD has more than GOOD.
    More,
    /// The ends: the claim is refuted, and BAD has less than GOOD.
    Less,
    /// The ends: the claim holds. A confirmation: the candidates do not differ.
    NoChange,
    /// A step: nearer to GOOD.
    Good,
    /// A step: nearer to BAD.
    Bad,
    /// A confirmation: the candidates differ.
    Confirmed,
    /// Its rounds or its time were over first.
    Inconclusive,
    /// The candidate failed at the work.
    Skipped,
}

impl ComparisonResult {
    /// Its word in reports.
    pub fn name(self) -> &'static str {
        match self {
            ComparisonResult::More => "more",
            ComparisonResult::Less => "less",
            ComparisonResult::NoChange => "no change",
            ComparisonResult::Good => "good",
            ComparisonResult::Bad => "bad",
            ComparisonResult::Confirmed => "confirmed",
            ComparisonResult::Inconclusive => "inconclusive",
            ComparisonResult::Skipped => "skipped",
        }
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
    /// The number of rounds; under 8 of them the interval is the range of the rounds.
    pub rounds: usize,
}

/// How a bisection ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Ending {
    /// The cost changed at a candidate.
    Found {
        /// The last good candidate.
        parent: String,
        /// The first bad one.
        child: String,
        /// Further candidates between them, which could not be tested and can be the first bad one.
        possible: Vec<String>,
    },
    /// The claim holds between the ends, so there is nothing to find.
    NoChange,
    /// It could not be decided.
    Inconclusive {
        /// The reason.
        why: String,
        /// The candidates that can be the first bad one; empty if it is unknown whether there is one.
        possible: Vec<String>,
    },
}

impl Bisection {
    /// What is known of a candidate. One that was not tried is named by its id.
    pub fn candidate(&self, id: &str) -> Candidate {
        let unknown = || Candidate { label: id.into(), ..Candidate::default() };
        self.tried.get(id).cloned().unwrap_or_else(unknown)
    }

    /// The comparison of the ends.
    pub fn ends(&self) -> Option<&Comparison> {
        self.comparisons.iter().find(|comparison| comparison.purpose == Purpose::Ends)
    }

    /// The sign of the change from GOOD to BAD: 1 if BAD has more, −1 if it has less; None before that is known.
    pub fn direction(&self) -> Option<f64> {
        match self.ends()?.result? {
            ComparisonResult::More => Some(1.0),
            ComparisonResult::Less => Some(-1.0),
            _ => None,
        }
    }

    /// The candidates known to be good, GOOD first, and the first one known to be bad.
    pub fn bracket(&self) -> (Vec<&str>, &str) {
        let (mut goods, mut bad) = (vec![self.good.as_str()], self.bad.as_str());
        for step in self.comparisons.iter().filter(|comparison| comparison.purpose == Purpose::Step) {
            match step.result {
                Some(ComparisonResult::Good) => goods.push(step.subject()),
                Some(ComparisonResult::Bad) => bad = step.subject(),
                _ => {}
            }
        }
        (goods, bad)
    }

    /// The error split of the next comparison: 5% divided by it is its probability of an error. `steps` are the steps that are
    /// left, this one included.
    ///
    /// The probabilities of all comparisons add up to at most 5%, whatever the number of steps turns out to be: the ends and the
    /// confirmation have one part each, and each step takes an equal part of what is left for steps. With s steps as planned
    /// that is 5%/(s + 2) for each.
    pub fn next_error_split(&self, purpose: Purpose, steps: usize) -> u32 {
        let spent: f64 = self.comparisons.iter().map(|comparison| 1.0 / f64::from(comparison.error_split)).sum();
        let of_confirmation = self.ends().map_or(0.0, |ends| 1.0 / f64::from(ends.error_split));
        let (parts, left) = match purpose {
            Purpose::Ends => (steps + 2, 1.0),
            Purpose::Step => (steps, 1.0 - spent - of_confirmation),
            Purpose::Confirmation => (1, 1.0 - spent),
        };
        // Binary fractions must not turn 8 into 9.
        (parts as f64 / left.max(1e-6) - 1e-6).ceil() as u32
    }
}

/// The number of steps that find one of these candidates in the worst case: ⌈log₂⌉.
pub fn steps(candidate_count: usize) -> usize {
    candidate_count.max(1).next_power_of_two().trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bisection(error_splits: &[u32]) -> Bisection {
        Bisection {
            format: FORMAT,
            id: String::new(),
            command: vec![],
            history: History::List(vec![]),
            template: Levels::new(),
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
                .map(|(at, error_split)| {
                    let purpose = if at == 0 { Purpose::Ends } else { Purpose::Step };
                    Comparison::new(purpose, &["0", "1", "64"], *error_split)
                })
                .collect(),
            ending: None,
        }
    }

    #[test]
    fn the_errors_of_all_comparisons_add_up_to_five_per_cent() {
        assert_eq!([1, 2, 3, 63, 64, 65].map(steps), [0, 1, 2, 6, 6, 7]);
        // 64 candidates: the ends, six steps and the confirmation.
        assert_eq!(bisection(&[]).next_error_split(Purpose::Ends, 6), 8);
        for done in 1..7 {
            assert_eq!(bisection(&vec![8; done]).next_error_split(Purpose::Step, 7 - done), 8);
        }
        assert_eq!(bisection(&[8; 7]).next_error_split(Purpose::Confirmation, 0), 8);
        // Candidates that fail take steps more: the others take less, and the confirmation keeps its part.
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
        for (at, (id, result)) in
            [("32", ComparisonResult::Bad), ("16", ComparisonResult::Good), ("24", ComparisonResult::Inconclusive)]
                .into_iter()
                .enumerate()
        {
            state.comparisons[at + 1].candidates[1] = id.into();
            state.comparisons[at + 1].result = Some(result);
        }
        assert_eq!(state.bracket(), (vec!["0", "16"], "32"));
    }
}
