//! Parses the claims of plans and of the command line, and checks that their variants, tasks and metrics exist.

use super::overrides::{Overrides, Vocabulary};
use super::{ParsedPlan, Plan, error::PlanError};
use crate::cell::{TaskInfo, Variant};
use crate::claim::{Claim, ClaimError, PairRelation, Quantity, Relation, RightSide};
use crate::{matrix, metric, names::unknown_name};
use std::ops::Range;

/// The name of the sum over all tasks in claims.
pub const TOTAL: &str = "total";
/// The name of the geometric mean over all tasks in claims; each task has the same weight.
pub const GEOMEAN: &str = "geomean";
/// The task names in claims that mean all tasks together.
pub const ALL_TASKS: [&str; 2] = [TOTAL, GEOMEAN];

/// Parses the claims of a plan and of the command line, and checks them against the plan's variants and its `tasks`.
///
/// # Errors
/// A text is not a claim or contains an unknown name. The error of a claim in the plan has the position of the wrong part.
pub(super) fn resolve_claims(
    ParsedPlan { origin, text, file, .. }: &ParsedPlan,
    overrides: &Overrides,
    plan: &Plan,
    tasks: Vec<TaskInfo>,
    vocabulary: &Vocabulary,
) -> Result<Vec<Claim>, PlanError> {
    let (variants, can_print_metrics) = (matrix::expand(plan), plan.can_print_metrics());
    let names = ClaimNames { variants, tasks, metrics: &vocabulary.metrics, can_print_metrics };
    let mut claims = Vec::new();
    for claim_in_plan in &file.claims {
        claims.push(names.parse_claim(claim_in_plan.get_ref()).map_err(|error| {
            let offset = byte_offset_of_character(text, claim_in_plan.span(), error.column);
            PlanError::at_span(origin, text, offset..offset, format!("claim: {}", error.message))
        })?);
    }
    for claim_of_user in &overrides.claims {
        claims.push(names.parse_claim(claim_of_user).map_err(|error| {
            let message = error.to_string();
            PlanError::in_setting("claim", message.strip_prefix("claim, ").unwrap_or(&message))
        })?);
    }
    Ok(claims)
}

/// The names of the variants that claims can compare: all but the bare device.
pub fn compared_variants(variants: &[Variant]) -> Vec<&str> {
    let compared = variants.iter().filter(|variant| !variant.is_bare_device());
    compared.map(|variant| variant.name.as_str()).collect()
}

/// The names that claims may use.
struct ClaimNames<'a> {
    variants: Vec<Variant>,
    tasks: Vec<TaskInfo>,
    metrics: &'a [String],
    /// Whether a workload can print metrics that fsarena does not define. Then any metric is accepted.
    can_print_metrics: bool,
}

/// An error in a text: its byte offset, and the message.
type Fault = (usize, String);

impl ClaimNames<'_> {
    /// Parses and checks one claim. The words `baseline` and `candidate` stand for the two compared variants.
    fn parse_claim(&self, text: &str) -> Result<Claim, ClaimError> {
        let mut claim: Claim = text.parse()?;
        claim.replace_roles(&compared_variants(&self.variants));
        self.check_names(&claim, text).map_err(|(offset, message)| {
            let column = text[..offset].chars().count() + 1;
            ClaimError { column, text: text.to_string(), line: None, message }
        })?;
        Ok(claim)
    }

    /// Checks the names in a claim.
    ///
    /// # Errors
    /// The subject, a variant, or the quantity on the right is unknown. The offset is a position in `text`.
    fn check_names(&self, claim: &Claim, text: &str) -> Result<(), Fault> {
        let start = text.len() - text.trim_start().len();
        // The text has the task and the metric exactly as `name` returns them: the parser accepts no blanks or escapes there.
        let relation = relation_start(text, start + claim.subject.name().len());
        // The position of a word in the relation; the beginning of the relation if the word has escapes in the text.
        let position_of = |word: &str| relation + text[relation..].find(word).unwrap_or(0);
        self.check_quantity(&claim.subject).map_err(|(offset, message)| (start + offset, message))?;
        self.check_variants(claim).map_err(|(name, message)| (position_of(name), message))?;
        if let Relation::Pair(PairRelation { right: RightSide::Quantity(right), .. }) = &claim.relation {
            // Valid if a task has the parameters of both sides, or the parameters of the right side alone.
            let fits_with_left_params = self.check_quantity(&right.with_params_of(&claim.subject)).is_ok();
            if !fits_with_left_params {
                let start = position_of(&right.name());
                self.check_quantity(right).map_err(|(offset, message)| (start + offset, message))?;
            }
        }
        Ok(())
    }

    /// Checks the variants in a claim.
    ///
    /// # Errors
    /// The variants cannot be compared: the name of the wrong variant, and the message.
    fn check_variants<'c>(&self, claim: &'c Claim) -> Result<(), (&'c str, String)> {
        let variants = || self.variants.iter().map(|variant| variant.name.as_str());
        let names = claim.variants();
        if let Some(name) = names.iter().find(|name| !variants().any(|variant| variant == **name)) {
            return Err((*name, unknown_name("variant", name, variants()).into()));
        }
        if let [left, right] = names[..]
            && left == right
        {
            return Err((left, "the claim compares a variant with itself".into()));
        }
        let has_rival = || compared_variants(&self.variants).iter().any(|variant| *variant != names[0]);
        if matches!(claim.relation, Relation::Extreme(_)) && !has_rival() {
            return Err((
                names[0],
                "no other variant competes with this one: `best` and `worst` need two or more".into(),
            ));
        }
        Ok(())
    }

    /// Checks the metric and the task of a quantity.
    ///
    /// # Errors
    /// One of them is unknown, or several tasks fit. The offset is a position in [`Quantity::name`].
    fn check_quantity(&self, quantity: &Quantity) -> Result<(), Fault> {
        let metric = &quantity.metric;
        if !self.metrics.contains(metric) && !self.can_print_metrics {
            let offset = quantity.name().len() - metric.len();
            let unknown = unknown_name("metric", metric, self.metrics.iter().map(String::as_str));
            return Err((offset, unknown.with_list_command("fsarena list metrics").into()));
        }
        let Some(task) = quantity.task.as_deref().filter(|task| !ALL_TASKS.contains(task)) else { return Ok(()) };
        let siblings: Vec<&TaskInfo> = self.tasks.iter().filter(|info| info.id.name == task).collect();
        if siblings.is_empty() {
            let names = self.tasks.iter().map(|info| info.id.name.as_str()).chain(ALL_TASKS);
            return Err((0, unknown_name("task", task, names).into()));
        }
        let sibling_names = || siblings.iter().map(|info| info.id.to_string()).collect::<Vec<_>>().join(", ");
        match siblings.iter().filter(|info| quantity.fits(&info.id)).count() {
            1 => Ok(()),
            0 => Err((0, format!("no task has these parameters. Available: {}", sibling_names()))),
            _ => Err((0, format!("several tasks have this name; name one of {}", sibling_names()))),
        }
    }
}

/// The byte offset of the relation: after the colon that follows the name and parameters of the subject. Ignores colons and
/// brackets in the values of parameters.
fn relation_start(text: &str, name_end: usize) -> usize {
    let (mut in_params, mut in_quotes, mut is_escaped) = (false, false, false);
    for (offset, character) in text[name_end..].char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' if in_quotes => is_escaped = true,
            '"' => in_quotes = !in_quotes,
            _ if in_quotes => {}
            '[' | ']' => in_params = character == '[',
            ':' if !in_params => return name_end + offset + 1,
            _ => {}
        }
    }
    name_end
}

impl Quantity {
    /// A metric over all tasks together: the total, or the geometric mean if the metric has no total.
    pub fn of_all(metric: &str) -> Quantity {
        let has_total = metric::find(metric).is_some_and(|metric| metric.spec.total_name().is_some());
        let task = if has_total { TOTAL } else { GEOMEAN };
        Quantity { task: Some(task.into()), metric: metric.into(), params: Default::default() }
    }
}

/// Converts a character position in a TOML string to a byte offset in the file. `column` counts from 1; `span` is the string
/// with its quotes.
fn byte_offset_of_character(text: &str, span: Range<usize>, column: usize) -> usize {
    let quoted = &text[span.clone()];
    let quotes = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
    let has_escapes = quoted.starts_with('"');
    // A line break right after three quotes is not part of the string.
    let line_break = ["\n", "\r\n"].into_iter().find(|line_break| quotes == 3 && quoted[3..].starts_with(line_break));
    let content_start = quotes + line_break.map_or(0, str::len);
    // A claim of a stored plan has an empty span.
    let Some(content) = quoted.get(content_start..) else { return span.start };
    let mut rest = content.chars();
    for _ in 1..column {
        if rest.next() == Some('\\') && has_escapes {
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
    fn byte_offsets_of_characters_in_toml_strings() {
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
            ("\"\"\"\r\nabc\"\"\"", 2, 6),
            ("'''abc'''", 2, 4),
        ] {
            assert_eq!(byte_offset_of_character(raw, 0..raw.len(), column), expected, "{raw} {column}");
        }
    }

    #[test]
    fn the_best_variant_needs_a_rival_besides_the_bare_device() {
        let variant = |fs: &str| Variant { name: fs.into(), levels: [("fs".to_string(), fs.to_string())].into() };
        let parse = |filesystems: &[&str]| {
            let variants = filesystems.iter().map(|fs| variant(fs)).collect();
            let metrics = ["elapsed".to_string()];
            let names = ClaimNames { variants, tasks: vec![], metrics: &metrics, can_print_metrics: false };
            names.parse_claim("elapsed: best is ext4").map_err(|error| error.message)
        };
        assert!(parse(&["raw", "ext4"]).unwrap_err().contains("need two or more"));
        assert!(parse(&["ext4"]).is_err() && parse(&["raw", "ext4", "xfs"]).is_ok());
    }

    #[test]
    fn the_relation_begins_after_the_parameters_and_the_colon() {
        let text = "x.y[a=\"b:c\", d=2] : e < f";
        assert_eq!(&text[relation_start(text, 3)..], " e < f");
        assert_eq!(relation_start("x: e < f", 1), 2);
        for text in [r#"x[a="]:e"]: e < f"#, r#"x[a="\"]:"]: e < f"#, "x[a=b:c]: e < f"] {
            assert_eq!(&text[relation_start(text, 1)..], " e < f", "{text}");
        }
    }
}
