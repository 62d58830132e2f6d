//! The types of a parsed claim, its canonical text form, and the error for a text that is not a claim.

use crate::average::Average;
use crate::cell::TaskId;
use crate::exit::{ExitCode, HasExitCode};
use crate::sample::Direction;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// A statement about a run.
///
/// Its `Display` is the canonical form, which parses to the same statement. In TOML and JSON it is a
/// string.
///
/// # Examples
/// ```
/// use fsarena_core::claim::Claim;
///
/// let claim: Claim = "untar.elapsed: xfs < ext4 by 5%".parse()?;
/// assert_eq!((claim.subject.task.as_deref(), claim.subject.metric.as_str()), (Some("untar"), "elapsed"));
/// assert_eq!(claim.to_string().parse::<Claim>()?.relation, claim.relation);
/// # Ok::<(), fsarena_core::claim::ClaimError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Claim {
    /// The text as the user wrote it, without surrounding blanks and without its comment.
    pub text: String,
    /// The measured quantity.
    pub subject: Quantity,
    /// The relation that the claim states.
    pub relation: Relation,
    /// The average of the rounds that it compares: the typical round, or the mean cost if the claim ends with `by mean`.
    pub average: Average,
}

crate::named_enum! {
    /// The outcome of a claim after some rounds.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum ClaimOutcome {
        /// The data show that the claim is true.
        Held = "held",
        /// The data show the opposite.
        Refuted = "refuted",
        /// The claim states a difference, but the data show that any difference is within the margin.
        Equivalent = "equivalent",
        /// The data allow both.
        Inconclusive = "inconclusive",
    }
}

impl ClaimOutcome {
    /// Swaps held and refuted if `negated`: the outcome of a claim with `not`, from the outcome of the same claim without it.
    pub fn negated_if(self, negated: bool) -> ClaimOutcome {
        match self {
            ClaimOutcome::Held if negated => ClaimOutcome::Refuted,
            ClaimOutcome::Refuted if negated => ClaimOutcome::Held,
            outcome => outcome,
        }
    }
}

/// Something measured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Quantity {
    /// The task: `untar`; `total` or `geomean` for all tasks together. None for whichever task has the metric.
    pub task: Option<String>,
    /// The metric: `elapsed`.
    pub metric: String,
    /// The parameters of the task: `bs` → `4096`. A task with further parameters also matches.
    pub params: BTreeMap<String, String>,
}

/// The relation that a claim states.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    /// One variant compared with another variant, or with another quantity of the same variant.
    Pair(PairRelation),
    /// One variant compared with all others.
    Extreme(ExtremeRelation),
}

/// `LEFT OPERATOR [FACTOR *] RIGHT [by|within PERCENT%]`.
///
/// The statement is about the ratio ρ = left/right. fsarena compares θ = ln ρ with ln `factor`. With x the
/// percentage as a fraction and f the factor:
///
/// | claim | meaning | on the scale of θ |
/// |---|---|---|
/// | `a < b by x` | a is more than x below f·b | θ < ln f + ln(1 − x) |
/// | `a > b by x` | a is more than x above f·b | θ > ln f + ln(1 + x) |
/// | `a != b by x` | they differ by more than x | \|θ − ln f\| > ln(1 + x) |
/// | `a == b within x` | they differ by x at most | \|θ − ln f\| ≤ ln(1 + x) |
/// | `a <= b within x` | a is at most x above f·b | θ ≤ ln f + ln(1 + x) |
/// | `a >= b within x` | a is at most x below f·b | θ ≥ ln f − ln(1 + x) |
///
/// The percentage after `by` refers to the right side, so `a < b by 5%` means a < 0.95·b. The tolerance after `within` is
/// symmetric on the logarithmic scale: a factor of 1 + x either way. So the order of the two variants does not matter.
///
/// ρ is the ratio in a typical round, or the ratio of the means if the claim ends with `by mean` ([`Average`]).
#[derive(Debug, Clone, PartialEq)]
pub struct PairRelation {
    /// The variant on the left.
    pub left: String,
    /// The operator.
    pub op: ClaimOperator,
    /// The factor of the right side; 1 if the claim has none.
    pub factor: f64,
    /// The right side.
    pub right: RightSide,
    /// The percentage after `by` (for `<`, `>`, `!=`) or `within` (for `==`, `<=`, `>=`). None if the claim has none: then it
    /// is 0 for `by`, and the margin of the run for `within`.
    pub percent: Option<f64>,
}

/// The right side of a [`PairRelation`].
#[derive(Debug, Clone, PartialEq)]
pub enum RightSide {
    /// The same quantity of another variant.
    Variant(String),
    /// Another quantity of the same variant.
    Quantity(Quantity),
}

/// `best is VARIANT`, `worst is VARIANT`, `best is not VARIANT`, `worst is not VARIANT`.
///
/// `best` means better than every other variant, `worst` means worse than every other. The metric defines whether lower or
/// higher values are better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtremeRelation {
    /// Whether it is about the best or the worst variant.
    pub place: BestOrWorst,
    /// The variant.
    pub variant: String,
    /// Whether the claim has `not`: `best is not VARIANT`.
    pub negated: bool,
}

crate::named_enum! {
    /// The first or last place in the order of variants.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum BestOrWorst {
        /// Better than every other.
        Best = "best",
        /// Worse than every other.
        Worst = "worst",
    }
}

crate::named_enum! {
    /// How two values compare. `<=` comes before `<`, and `>=` before `>`, because the parser takes the first that matches.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ClaimOperator {
        /// At most as large.
        AtMost = "<=",
        /// Smaller.
        Less = "<",
        /// At least as large.
        AtLeast = ">=",
        /// Larger.
        More = ">",
        /// Equal.
        Equal = "==",
        /// Not equal.
        NotEqual = "!=",
    }
}

impl ClaimOperator {
    /// Whether its percentage follows `within` and is a tolerance. Otherwise it follows `by` and is a minimal difference.
    pub fn has_tolerance(self) -> bool {
        matches!(self, ClaimOperator::AtMost | ClaimOperator::Equal | ClaimOperator::AtLeast)
    }
}

impl Quantity {
    /// The quantity without its parameters, in the syntax of claims: `task.metric`, or the metric alone.
    pub fn name(&self) -> String {
        self.task.as_ref().map_or(self.metric.clone(), |task| format!("{task}.{}", self.metric))
    }

    /// Whether the quantity includes this task. The task must have all parameters of the quantity, and also the task name of the
    /// quantity unless that is None. The parameter value `30|400` of a quantity matches 30 and 400.
    pub fn fits(&self, task: &TaskId) -> bool {
        self.task.as_ref().is_none_or(|name| *name == task.name)
            && self.params.iter().all(|(key, values)| {
                task.params.get(key).is_some_and(|of_task| values.split('|').any(|value| value == of_task))
            })
    }

    /// This quantity with additional parameters: all parameters of `left` that this quantity does not set.
    pub fn with_params_of(&self, left: &Quantity) -> Quantity {
        let params = left.params.clone().into_iter().chain(self.params.clone()).collect();
        Quantity { params, ..self.clone() }
    }
}

impl PairRelation {
    /// The percentage as a fraction: 0.05 for 5%.
    pub fn fraction(&self) -> Option<f64> {
        self.percent.map(|percent| percent / 100.0)
    }
}

impl ExtremeRelation {
    /// Whether the claim is about the smallest values, for a metric with this direction.
    pub fn is_about_smallest(&self, direction: Direction) -> bool {
        (direction == Direction::Lower) == (self.place == BestOrWorst::Best)
    }
}

impl Claim {
    /// The claim that two variants are equal: `left == right within percent%`. Without a percentage, the margin of the run
    /// applies.
    pub fn equality(subject: Quantity, left: &str, right: &str, percent: Option<f64>) -> Claim {
        let (left, right) = (left.to_string(), RightSide::Variant(right.to_string()));
        let relation = Relation::Pair(PairRelation { left, op: ClaimOperator::Equal, factor: 1.0, right, percent });
        let mut claim = Claim { text: String::new(), subject, relation, average: Average::Typical };
        claim.text = claim.to_string();
        claim
    }

    /// The smallest difference that decides the claim, as a fraction: its percentage, or `margin`, that of the run, if the claim
    /// has none.
    pub fn margin_or(&self, margin: f64) -> f64 {
        match &self.relation {
            Relation::Pair(pair) => pair.fraction().unwrap_or(margin),
            Relation::Extreme(_) => margin,
        }
    }

    /// Whether the claim compares two variants one-sidedly: `a <= b`, `a >= b`.
    pub fn is_one_sided(&self) -> bool {
        let Relation::Pair(pair) = &self.relation else { return false };
        matches!(pair.op, ClaimOperator::AtMost | ClaimOperator::AtLeast) && matches!(pair.right, RightSide::Variant(_))
    }

    /// Replaces the words `baseline` and `candidate` by the names of the two variants that are compared, in this order. A
    /// variant that has such a name keeps it. Changes nothing unless there are two variants.
    pub fn replace_roles(&mut self, variants: &[&str]) {
        let [baseline, candidate] = variants else { return };
        let mut is_changed = false;
        let mut rename = |name: &mut String| {
            let variant = match name.as_str() {
                "baseline" => baseline,
                "candidate" => candidate,
                _ => return,
            };
            if !variants.contains(&name.as_str()) {
                *name = variant.to_string();
                is_changed = true;
            }
        };
        match &mut self.relation {
            Relation::Pair(pair) => {
                rename(&mut pair.left);
                if let RightSide::Variant(right) = &mut pair.right {
                    rename(right);
                }
            }
            Relation::Extreme(extreme) => rename(&mut extreme.variant),
        }
        if is_changed {
            self.text = self.to_string();
        }
    }

    /// Every variant that the claim names.
    pub fn variants(&self) -> Vec<&str> {
        match &self.relation {
            Relation::Pair(PairRelation { left, right: RightSide::Variant(right), .. }) => vec![left, right],
            Relation::Pair(PairRelation { left, .. }) => vec![left],
            Relation::Extreme(extreme) => vec![&extreme.variant],
        }
    }
}

impl TryFrom<String> for Claim {
    type Error = ClaimError;

    fn try_from(text: String) -> Result<Claim, ClaimError> {
        text.parse()
    }
}

impl From<Claim> for String {
    fn from(claim: Claim) -> String {
        claim.text
    }
}

/// A syntax error in a claim. Its message shows the position:
///
/// ```text
/// claim, column 20: expected a variant, found `by`
///   untar.elapsed: xfs < by 5%
///                        ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim, {}column {column}: {message}\n  {}", line_prefix(.line), with_caret(.text, *.column))]
pub struct ClaimError {
    /// The line as the user wrote it.
    pub text: String,
    /// The number of the line in a text of several claims, from 1.
    pub line: Option<usize>,
    /// The position of the error in characters, from 1; one after the last character if something is missing at the end.
    pub column: usize,
    /// The expected and the actual text.
    pub message: String,
}

fn line_prefix(line: &Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}, "))
}

/// The most characters that a message shows before the error, and after it.
const MAX_CONTEXT: usize = 150;

/// The text around an error, and a second line with a caret under the character at `column`.
fn with_caret(text: &str, column: usize) -> String {
    let skipped = (column - 1).saturating_sub(MAX_CONTEXT);
    let excerpt: String = text.chars().skip(skipped).take(2 * MAX_CONTEXT).collect();
    // Tabs stay tabs, so that the caret is under its character.
    let before_caret = excerpt.chars().take(column - skipped - 1);
    let blanks: String = before_caret.map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    format!("{excerpt}\n  {blanks}^")
}

impl HasExitCode for ClaimError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.relation)?;
        if self.average.is_typical() { Ok(()) } else { write!(f, " by {}", self.average.name()) }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(task) = &self.task {
            write!(f, "{task}.")?;
        }
        f.write_str(&self.metric)?;
        for (index, (key, value)) in self.params.iter().enumerate() {
            let value = quote_unless_plain(value, !value.is_empty() && value.chars().all(is_value_char));
            write!(f, "{}{key}={value}", if index == 0 { "[" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |name: &str| quote_unless_plain(name, is_unquoted_name(name));
        match self {
            Relation::Extreme(ExtremeRelation { place, variant, negated }) => {
                write!(f, "{} is {}{}", place.name(), if *negated { "not " } else { "" }, name(variant))
            }
            Relation::Pair(PairRelation { left, op, factor, right, percent }) => {
                write!(f, "{} {} ", name(left), op.name())?;
                if *factor != 1.0 {
                    write!(f, "{factor} * ")?;
                }
                write!(f, "{right}")?;
                let word = if op.has_tolerance() { "within" } else { "by" };
                match percent {
                    Some(percent) => write!(f, " {word} {percent}%"),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Display for RightSide {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RightSide::Variant(variant) => {
                f.write_str(&quote_unless_plain(variant, is_unquoted_name(variant) && !reads_as_quantity(variant)))
            }
            RightSide::Quantity(quantity) => {
                quantity.fmt(f)?;
                // Without brackets the parser would take a metric alone for a variant.
                let is_metric_alone = quantity.task.is_none() && quantity.params.is_empty();
                f.write_str(if is_metric_alone { "[]" } else { "" })
            }
        }
    }
}

/// The reserved words. The name of a variant that equals one of them needs quotes.
pub(super) const KEYWORDS: [&str; 6] = ["best", "worst", "is", "not", "by", "within"];

/// Whether the parser takes an unquoted name on the right side for `task.metric`.
pub(super) fn reads_as_quantity(name: &str) -> bool {
    let is_word = |part: &str| part.chars().next().is_some_and(char::is_alphabetic) && part.chars().all(is_word_char);
    name.split('.').count() >= 2 && name.split('.').all(is_word)
}

/// Whether a character may be part of a variant's name without quotes.
pub(super) fn is_name_char(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"<>!\"#*[]".contains(c)
}

/// Whether a character may be part of a parameter's value without quotes.
pub(super) fn is_value_char(c: char) -> bool {
    is_name_char(c) && c != ','
}

/// Whether a character may be part of a task, metric or parameter.
pub(super) fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Whether the name of a variant can be written without quotes. A name that begins or ends with `=` cannot: together with an
/// operator beside it, the parser would read another operator.
pub(super) fn is_unquoted_name(text: &str) -> bool {
    let has_plain_characters = !text.is_empty() && text.chars().all(is_name_char);
    let has_operator = text.contains("==") || text.starts_with('=') || text.ends_with('=');
    has_plain_characters && !has_operator && !KEYWORDS.contains(&text)
}

/// Returns a name or value unchanged if `is_plain`, otherwise in quotes with special characters escaped.
pub(super) fn quote_unless_plain(text: &str, is_plain: bool) -> String {
    if is_plain {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
