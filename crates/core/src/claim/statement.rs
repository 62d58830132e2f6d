//! What a claim says, and the error of a text that is none.

use super::parse::{KEYWORDS, in_name, in_value, reads_as_quantity};
use crate::average::Average;
use crate::exit::{ExitCode, Exits};
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
    /// As it was written, without blanks around it and without its comment.
    pub text: String,
    /// The measured quantity.
    pub subject: Quantity,
    /// The relation that the claim states.
    pub relation: Relation,
    /// The average of the rounds that it compares: `by mean` at its end.
    pub average: Average,
}

/// The outcome of a claim after some rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimOutcome {
    /// The data show it.
    Held,
    /// The data show the opposite.
    Refuted,
    /// Neither: the data allow both.
    Inconclusive,
    /// A difference was claimed, and there is none that matters.
    Equivalent,
}

impl ClaimOutcome {
    /// Every outcome, in the order of reports.
    pub const ALL: [ClaimOutcome; 4] =
        [ClaimOutcome::Held, ClaimOutcome::Refuted, ClaimOutcome::Equivalent, ClaimOutcome::Inconclusive];

    /// The word for it in every output.
    pub fn name(self) -> &'static str {
        match self {
            ClaimOutcome::Held => "held",
            ClaimOutcome::Refuted => "refuted",
            ClaimOutcome::Inconclusive => "inconclusive",
            ClaimOutcome::Equivalent => "equivalent",
        }
    }

    /// The outcome of a claim with or without `not`, from the outcome without it.
    pub fn turned(self, negated: bool) -> ClaimOutcome {
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
    /// The task: `untar`; `total` or `geomean` for all of them together. None: whichever task has the metric.
    pub task: Option<String>,
    /// The metric: `elapsed`.
    pub metric: String,
    /// The parameters of the task: `bs` → `4096`. A task that has more of them still matches.
    pub params: BTreeMap<String, String>,
}

/// What a claim says.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    /// One variant compared with something.
    Pair(Pair),
    /// One variant compared with all others.
    Extreme(Extreme),
}

/// `LEFT OPERATOR [FACTOR *] RIGHT [by|within PERCENT%]`.
///
/// The statement is about the ratio ρ = left/right, judged as θ = ln ρ against ln `factor`. With x the
/// percentage as a fraction and f the factor:
///
/// | written | says | on the scale of θ |
/// |---|---|---|
/// | `a < b by x` | a is more than x below f·b | θ < ln f + ln(1 − x) |
/// | `a > b by x` | a is more than x above f·b | θ > ln f + ln(1 + x) |
/// | `a != b by x` | they differ by more than x | \|θ − ln f\| > ln(1 + x) |
/// | `a == b within x` | they differ by x at most | \|θ − ln f\| ≤ ln(1 + x) |
/// | `a <= b within x` | a is at most x above f·b | θ ≤ ln f + ln(1 + x) |
/// | `a >= b within x` | a is at most x below f·b | θ ≥ ln f − ln(1 + x) |
///
/// `by` takes percent of the right side as people do, so `a < b by 5%` means a < 0.95·b. What `within`
/// tolerates is symmetric on the logarithmic scale: a factor of 1 + x either way, so that it does not
/// matter which variant is written first.
///
/// ρ is the ratio in a typical round, or that of the means where the claim ends with `by mean` ([`Average`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The variant on the left.
    pub left: String,
    /// The operator.
    pub op: Op,
    /// What the right side is multiplied by; 1 where nothing is written.
    pub factor: f64,
    /// The right side.
    pub right: Right,
    /// Per cent behind `by` (for `<`, `>`, `!=`) or `within` (for `==`, `<=`, `>=`). None where nothing is
    /// written: 0 for `by`; for `within` the margin of the run.
    pub percent: Option<f64>,
}

/// The right side of a [`Pair`].
#[derive(Debug, Clone, PartialEq)]
pub enum Right {
    /// The same quantity of another variant.
    Variant(String),
    /// Another quantity of the same variant.
    Quantity(Quantity),
}

/// `best is VARIANT`, `worst is VARIANT`, `best is not VARIANT`, `worst is not VARIANT`.
///
/// Best means better than every other variant, worst worse than every other; which way is better, the metric
/// says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extreme {
    /// Which end.
    pub end: End,
    /// The variant.
    pub variant: String,
    /// Whether the claim denies it: `best is not VARIANT`.
    pub negated: bool,
}

/// An end of the order of variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Better than every other.
    Best,
    /// Worse than every other.
    Worst,
}

/// How two values compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `>=`
    AtLeast,
    /// `>`
    More,
}

impl Op {
    /// The operators as they are written; one that begins like another comes before it.
    pub(super) const ALL: [(&str, Op); 6] = [
        ("<=", Op::AtMost),
        ("<", Op::Less),
        (">=", Op::AtLeast),
        (">", Op::More),
        ("==", Op::Equal),
        ("!=", Op::NotEqual),
    ];

    /// Whether its percentage follows `within`: what the statement tolerates. Else `by`: what it demands.
    pub fn tolerates(self) -> bool {
        matches!(self, Op::AtMost | Op::Equal | Op::AtLeast)
    }
}

impl Pair {
    /// The percentage as a fraction: 0.05 for 5%.
    pub fn fraction(&self) -> Option<f64> {
        self.percent.map(|percent| percent / 100.0)
    }
}

impl Extreme {
    /// Whether it is about the least values, where a metric is better in this direction.
    pub fn is_least(&self, direction: Direction) -> bool {
        (direction == Direction::Lower) == (self.end == End::Best)
    }
}

impl Claim {
    /// The claim that a variant is the same as another: `left == right within percent%`; without a percentage
    /// within the margin of the run.
    pub fn same(subject: Quantity, left: &str, right: &str, percent: Option<f64>) -> Claim {
        let (left, right) = (left.to_string(), Right::Variant(right.to_string()));
        let relation = Relation::Pair(Pair { left, op: Op::Equal, factor: 1.0, right, percent });
        let mut claim = Claim { text: String::new(), subject, relation, average: Average::Typical };
        claim.text = claim.to_string();
        claim
    }

    /// Every variant that the claim names.
    pub fn variants(&self) -> Vec<&str> {
        match &self.relation {
            Relation::Pair(Pair { left, right: Right::Variant(right), .. }) => vec![left, right],
            Relation::Pair(Pair { left, .. }) => vec![left],
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

/// A claim that could not be read. Points at the character:
///
/// ```text
/// claim, column 20: expected a variant, found `by`
///   untar.elapsed: xfs < by 5%
///                        ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim, {}column {column}: {message}\n  {}", place(.line), pointed(.text, *.column))]
pub struct ClaimError {
    /// The line as it was written.
    pub text: String,
    /// Its number, from 1, where there are several.
    pub line: Option<usize>,
    /// The character at fault, from 1; one behind the last where something is missing at the end.
    pub column: usize,
    /// The message: the expected and the actual text.
    pub message: String,
}

fn place(line: &Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}, "))
}

/// The most characters that are shown before the fault, and behind it.
const AROUND: usize = 150;

/// The text around the fault, and below it a caret.
fn pointed(text: &str, column: usize) -> String {
    let from = (column - 1).saturating_sub(AROUND);
    let shown: String = text.chars().skip(from).take(2 * AROUND).collect();
    format!("{shown}\n  {}^", indent(&shown, column - from))
}

/// Blanks up to the character at fault. Tabs stay tabs, so that the caret stands under it.
fn indent(text: &str, column: usize) -> String {
    text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
}

impl Exits for ClaimError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.relation)?;
        if self.average.is_typical() { Ok(()) } else { write!(f, " by {}", self.average) }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(task) = &self.task {
            write!(f, "{task}.")?;
        }
        f.write_str(&self.metric)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            let value = quoted(value, !value.is_empty() && value.chars().all(in_value));
            write!(f, "{}{key}={value}", if i == 0 { "[" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = |name: &str| quoted(name, is_name(name));
        match self {
            Relation::Extreme(Extreme { end, variant, negated }) => {
                write!(f, "{end} is {}{}", if *negated { "not " } else { "" }, name(variant))
            }
            Relation::Pair(Pair { left, op, factor, right, percent }) => {
                let factor = Some(factor).filter(|factor| **factor != 1.0);
                let factor = factor.map_or(String::new(), |factor| format!("{factor} * "));
                write!(f, "{} {op} {factor}{right}", name(left))?;
                let word = if op.tolerates() { "within" } else { "by" };
                percent.map_or(Ok(()), |percent| write!(f, " {word} {percent}%"))
            }
        }
    }
}

impl Display for Right {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Right::Variant(variant) => {
                f.write_str(&quoted(variant, is_name(variant) && !reads_as_quantity(variant)))
            }
            Right::Quantity(quantity) => {
                quantity.fmt(f)?;
                // Without brackets a metric alone would read as a variant.
                let bare = quantity.task.is_none() && quantity.params.is_empty();
                f.write_str(if bare { "[]" } else { "" })
            }
        }
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == End::Best { "best" } else { "worst" })
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let own = Op::ALL.iter().find(|(_, op)| op == self);
        own.map_or(Ok(()), |(text, _)| f.write_str(text))
    }
}

/// Whether a variant needs no quotes. A name that ends in `=` or begins with it could grow into an operator.
fn is_name(text: &str) -> bool {
    let plain = !text.is_empty() && text.chars().all(in_name);
    let operator = text.contains("==") || text.starts_with('=') || text.ends_with('=');
    plain && !operator && !KEYWORDS.contains(&text)
}

/// A name or value, in quotes where it needs them.
fn quoted(text: &str, plain: bool) -> String {
    if plain {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
