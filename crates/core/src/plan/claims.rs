//! Claims in plans and on the command line: where a fault lies, and whether what they name is there.

use super::overrides::{Overrides, Vocabulary};
use super::{Plan, Written, error::PlanError};
use crate::cell::{TaskId, TaskInfo, Variant};
use crate::claim::{Claim, ClaimError, Pair, Quantity, Relation, Right};
use crate::{matrix, metric, names::unknown};
use std::ops::Range;

/// The name of the sum over all tasks in claims.
pub const TOTAL: &str = "total";
/// That of the geometric mean over all tasks, in which each counts alike.
pub const GEOMEAN: &str = "geomean";
/// The names of all tasks together.
pub const WHOLES: [&str; 2] = [TOTAL, GEOMEAN];

/// Reads the claims of a plan and those of the command line, and checks them against the plan's variants and
/// tasks.
///
/// # Errors
/// The first text that is not a claim or contains an unknown name, with line and column of the character at fault.
pub(super) fn resolve(
    Written { origin, text, file, .. }: &Written,
    over: &Overrides,
    plan: &Plan,
    words: &Vocabulary,
) -> Result<Vec<Claim>, PlanError> {
    let (variants, tasks) = (matrix::expand(plan), (words.outline)(plan));
    let names = Names { variants, tasks, metrics: &words.metrics, prints: plan.prints() };
    let mut claims = Vec::new();
    for spanned in &file.claims {
        claims.push(names.claim(spanned.get_ref()).map_err(|fault| {
            let at = character(text, spanned.span(), fault.column);
            PlanError::at(origin, text, at..at, format!("claim: {}", fault.message))
        })?);
    }
    for flag in &over.claims {
        claims.push(names.claim(flag).map_err(|fault| {
            let error = fault.to_string();
            PlanError::flag("--claim", error.strip_prefix("claim, ").unwrap_or(&error))
        })?);
    }
    Ok(claims)
}

/// What claims may name.
struct Names<'a> {
    variants: Vec<Variant>,
    tasks: Vec<TaskInfo>,
    metrics: &'a [String],
    /// Whether a workload can print metrics, which a plan does not know.
    prints: bool,
}

/// The byte of the claim's text at which a fault lies, and what is wrong.
type Fault = (usize, String);

impl Names<'_> {
    fn claim(&self, text: &str) -> Result<Claim, ClaimError> {
        let claim: Claim = text.parse()?;
        match self.fault(&claim, text) {
            None => Ok(claim),
            Some((at, message)) => {
                let column = text[..at].chars().count() + 1;
                Err(ClaimError { column, text: text.to_string(), line: None, message })
            }
        }
    }

    fn fault(&self, claim: &Claim, text: &str) -> Option<Fault> {
        let begin = text.len() - text.trim_start().len();
        let relation = relation_begins(text, begin + claim.subject.name().len());
        // A name with escapes in quotes is not found as it is: then the relation as a whole is pointed at.
        let place = |word: &str| relation + text[relation..].find(word).unwrap_or(0);
        let subject = || self.quantity_fault(&claim.subject).map(|(at, message)| (begin + at, message));
        let variant = || self.variant_fault(claim).map(|(name, message)| (place(name), message));
        let right = || match &claim.relation {
            Relation::Pair(Pair { right: Right::Quantity(right), .. }) => {
                let beside = self.quantity_fault(&right.beside(&claim.subject));
                let fault = beside.and_then(|_| self.quantity_fault(right));
                fault.map(|(at, message)| (place(&right.name()) + at, message))
            }
            _ => None,
        };
        subject().or_else(variant).or_else(right)
    }

    fn variant_fault<'c>(&self, claim: &'c Claim) -> Option<(&'c str, String)> {
        let known = || self.variants.iter().map(|variant| variant.name.as_str());
        let names = claim.variants();
        if let Some(name) = names.iter().find(|name| !known().any(|variant| variant == **name)) {
            return Some((name, unknown("variant", name, known()).into()));
        }
        if let [left, right] = names[..]
            && left == right
        {
            return Some((left, "the claim compares a variant with itself".into()));
        }
        let lonely = matches!(claim.relation, Relation::Extreme(_)) && self.variants.len() < 2;
        lonely.then(|| (names[0], "this is the only variant: `best` and `worst` need two or more".into()))
    }

    /// The byte of the quantity's name at which the fault lies, and what is wrong.
    fn quantity_fault(&self, quantity: &Quantity) -> Option<Fault> {
        let metric = &quantity.metric;
        if !self.metrics.contains(metric) && !self.prints {
            let at = quantity.name().len() - metric.len();
            let unknown = unknown("metric", metric, self.metrics.iter().map(String::as_str));
            return Some((at, unknown.list("fsarena list metrics").into()));
        }
        let task = quantity.task.as_deref().filter(|task| !WHOLES.contains(task))?;
        let siblings: Vec<&TaskInfo> = self.tasks.iter().filter(|info| info.id.name == task).collect();
        if siblings.is_empty() {
            let names = self.tasks.iter().map(|info| info.id.name.as_str()).chain(WHOLES);
            return Some((0, unknown("task", task, names).into()));
        }
        let all = || siblings.iter().map(|info| info.id.to_string()).collect::<Vec<_>>().join(", ");
        match siblings.iter().filter(|info| quantity.fits(&info.id)).count() {
            1 => None,
            0 => Some((0, format!("no task has these parameters. Available: {}", all()))),
            _ => Some((0, format!("several tasks have this name; name one of {}", all()))),
        }
    }
}

/// Where the relation begins, behind the name and the parameters of the subject.
fn relation_begins(text: &str, name_ends: usize) -> usize {
    let rest = &text[name_ends..];
    let params = if rest.starts_with('[') { rest.find(']').unwrap_or(0) } else { 0 };
    name_ends + params + rest[params..].find(':').map_or(0, |colon| colon + 1)
}

impl Quantity {
    /// A metric of all tasks together, as the answer has it: their total, or the geometric mean where the metric has none.
    pub fn of_all(metric: &str) -> Quantity {
        let total = metric::find(metric).is_some_and(|known| known.spec.whole().is_some());
        let whole = if total { TOTAL } else { GEOMEAN };
        Quantity { task: Some(whole.into()), metric: metric.into(), params: Default::default() }
    }

    /// `task.metric`, or the metric alone, as it is written.
    pub fn name(&self) -> String {
        self.task.as_ref().map_or(self.metric.clone(), |task| format!("{task}.{}", self.metric))
    }

    /// Whether this task is meant: it has the name, where one is given, and all of the parameters. `30|400` is either value.
    pub fn fits(&self, task: &TaskId) -> bool {
        self.task.as_ref().is_none_or(|name| *name == task.name)
            && self.params.iter().all(|(key, values)| {
                task.params.get(key).is_some_and(|own| values.split('|').any(|value| value == own))
            })
    }

    /// The same with the parameters of the quantity on the left that it does not name itself.
    pub fn beside(&self, left: &Quantity) -> Quantity {
        let params = left.params.clone().into_iter().chain(self.params.clone()).collect();
        Quantity { params, ..self.clone() }
    }
}

/// The byte of a TOML file at which a character (from 1) of a string in it stands. `span` is the string with
/// its quotes.
fn character(text: &str, span: Range<usize>, column: usize) -> usize {
    let raw = &text[span.clone()];
    let quotes = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
    let escapes = raw.starts_with('"');
    // A line break right behind three quotes is not part of the string.
    let begin = quotes + usize::from(quotes == 3 && raw[3..].starts_with('\n'));
    // A claim of a stored plan has no place in the text.
    let Some(string) = raw.get(begin..) else { return span.start };
    let mut rest = string.chars();
    for _ in 1..column {
        if rest.next() == Some('\\') && escapes {
            let digits = match rest.next() {
                Some('x') => 2,
                Some('u') => 4,
                Some('U') => 8,
                _ => 0,
            };
            rest.by_ref().take(digits).for_each(drop);
        }
    }
    (span.end - rest.as_str().len()).min(span.end - quotes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_of_toml_strings() {
        for (raw, column, expected) in [
            ("\"abc\"", 1, 1),
            ("\"abc\"", 3, 3),
            ("\"abc\"", 4, 4),
            ("\"abc\"", 9, 4),
            (r"'a\bc'", 3, 3),
            (r#""a\"bc""#, 3, 4),
            (r#""a\u00e9bc""#, 3, 8),
            ("\"žb\"", 2, 3),
            ("\"\"\"\nabc\"\"\"", 2, 5),
            ("'''abc'''", 2, 4),
        ] {
            assert_eq!(character(raw, 0..raw.len(), column), expected, "{raw} {column}");
        }
    }

    #[test]
    fn the_relation_begins_behind_the_parameters() {
        let text = "x.y[a=\"b:c\", d=2] : e < f";
        assert_eq!(&text[relation_begins(text, 3)..], " e < f");
        assert_eq!(relation_begins("x: e < f", 1), 2);
    }
}
