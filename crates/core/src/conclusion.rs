//! The conclusions of a study's author, expressed as claims. fsarena checks these on the published figures and on a run.

use crate::claim::{Claim, ClaimError};
use crate::plan::file::{ConclusionTable, PublishedTable};
use crate::published::{LIFECYCLE_TASKS, PublishedSet};
use crate::{number::parse_percentage, plan::ParsedPlan, plan::error::PlanError, study::Study};
use std::{collections::BTreeMap, ops::Range};

/// The conclusions of a study's author.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusions {
    /// The conclusions.
    pub list: Vec<Conclusion>,
    /// The precision of the published figures.
    pub precision: FigurePrecision,
    /// Every filesystem that the author compared. Empty if the published sets have all of them.
    pub filesystems: Vec<String>,
    /// The names of the published variants, such as `before` and `after`, for which the variants of a run stand in order:
    /// the first variant of a run stands for the first name. Empty if runs use the published variants themselves.
    pub roles: Vec<String>,
    /// The machines that the author describes, by set.
    pub machines: BTreeMap<String, MachineParts>,
}

/// The parts of a machine: `memory` → `768 MB`.
pub type MachineParts = BTreeMap<String, String>;

/// One conclusion.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// The conclusion in fsarena's words.
    pub statement: String,
    /// A short paraphrase of the author's sentence, with its place in the article.
    pub source: String,
    /// The part of the claims that fsarena added, such as a threshold.
    pub our_addition: Option<String>,
    /// The set of published figures that it is about. Its claims name variants of other sets as `SET/VARIANT`.
    pub set: String,
    /// The stage that it is about; None for any stage.
    pub stage: Option<String>,
    /// Whether it is about a rotating disk, so that runs on other devices do not check it.
    pub requires_rotating_disk: bool,
    /// The claims that express it.
    pub claims: Vec<Claim>,
    /// How many of the claims have to hold.
    pub required: RequiredClaims,
}

/// How many claims of a conclusion have to hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RequiredClaims {
    /// All of them.
    All,
    /// At least this number of them. Reading a plan does not compare it with the number of claims; a test of the shipped
    /// plans does.
    Count(usize),
    /// At least this share of them, 0–1.
    Share(f64),
}

/// The precision of published figures, each of which is a single value without an interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FigurePrecision {
    /// The relative difference below which two figures count as equal, as a fraction.
    pub tolerance: f64,
    /// The step of the last printed digit.
    pub resolution: f64,
}

impl FigurePrecision {
    /// The smallest and largest value of ln(left/right) that two printed figures allow. Both were rounded to the resolution,
    /// and a repeated measurement would differ by the tolerance. NaN if a figure is NaN, or if both are 0 and the resolution
    /// is 0.
    pub fn log_ratio_range(&self, left: f64, right: f64) -> (f64, f64) {
        let (half_step, tolerance) = (self.resolution / 2.0, self.tolerance.ln_1p());
        let smallest = ((left - half_step).max(0.0) / (right + half_step)).ln() - tolerance;
        let largest = ((left + half_step) / (right - half_step).max(0.0)).ln() + tolerance;
        (smallest, largest)
    }
}

/// Reads the conclusions of a study's author from its plan. The list is empty if the plan has none.
///
/// # Errors
/// The plan that ships with fsarena is invalid.
pub fn conclusions_of_study(study: &Study) -> Result<Conclusions, PlanError> {
    let ParsedPlan { file, text, .. } = study.parse_plan()?;
    let tolerance = match &file.published.tolerance {
        Some(text) => parse_percentage(text).ok_or_else(|| {
            PlanError::without_position(study.name, "the tolerance of published figures is a percentage")
        })?,
        None => 0.0,
    };
    let precision = FigurePrecision { tolerance, resolution: file.published.resolution.unwrap_or(0.0) };
    let reader = ConclusionReader { study, text: &text, set: file.published.figure_set.clone().unwrap_or_default() };
    let list = file.conclusions.iter().map(|written| reader.read_conclusion(written)).collect::<Result<_, _>>()?;
    let PublishedTable { filesystems, roles, machine: machines, .. } = file.published;
    Ok(Conclusions { list, precision, filesystems, roles, machines })
}

/// Reads conclusions from a study's plan.
struct ConclusionReader<'a> {
    study: &'a Study,
    /// The text of the plan, for the positions of errors.
    text: &'a str,
    /// The set of conclusions that do not name one.
    set: String,
}

impl Conclusions {
    /// The filesystems of a set that are compared by a conclusion about the best or the worst filesystem.
    pub fn compared_filesystems<'a>(&'a self, set: &str, sets: &'a [PublishedSet]) -> Vec<&'a str> {
        if !self.filesystems.is_empty() {
            return self.filesystems.iter().map(String::as_str).collect();
        }
        sets.iter().find(|published| published.set == set).map_or(vec![], PublishedSet::variants)
    }
}

impl Conclusion {
    /// The paraphrase of the author's sentence with its place, and the part of the claims that fsarena added.
    pub fn origin(&self) -> String {
        let addition = self.our_addition.as_ref().map_or(String::new(), |addition| format!(" Ours: {addition}"));
        format!("{}{addition}", self.source)
    }
}

impl ConclusionReader<'_> {
    fn error_at(&self, span: Range<usize>, message: String) -> PlanError {
        PlanError::at_span(self.study.name, self.text, span, message)
    }

    fn read_conclusion(&self, written: &ConclusionTable) -> Result<Conclusion, PlanError> {
        let tasks = self.study.labelled_tasks().map(|(_, task)| task);
        let tasks: Vec<&str> = tasks.filter(|task| !LIFECYCLE_TASKS.contains(task)).collect();
        let mut claims = Vec::new();
        for pattern in &written.claims {
            for claim in expand_braces(pattern.get_ref(), &tasks) {
                let parsed = claim.parse();
                let syntax_error =
                    |error: ClaimError| self.error_at(pattern.span(), format!("`{claim}`: {}", error.message));
                claims.push(parsed.map_err(syntax_error)?);
            }
        }
        let set = written.figure_set.clone().unwrap_or_else(|| self.set.clone());
        let ConclusionTable { statement, source, our_addition, stage, requires_rotating_disk, .. } = written.clone();
        Ok(Conclusion {
            statement,
            source,
            our_addition,
            set,
            stage,
            requires_rotating_disk,
            claims,
            required: self.required_claims(written)?,
        })
    }

    fn required_claims(&self, written: &ConclusionTable) -> Result<RequiredClaims, PlanError> {
        let Some(required) = &written.at_least else { return Ok(RequiredClaims::All) };
        let value = required.get_ref();
        if let Some(count) = value.as_integer().and_then(|count| usize::try_from(count).ok()) {
            return Ok(RequiredClaims::Count(count));
        }
        if let Some(share) = value.as_str().and_then(parse_percentage) {
            return Ok(RequiredClaims::Share(share));
        }
        Err(self.error_at(required.span(), "at_least is a number of claims, or a percentage of them".into()))
    }
}

/// Expands the braces of a claim: `{a,b} < {c,d}` makes four claims, one for each combination; `{*}` stands for all tasks.
fn expand_braces(pattern: &str, tasks: &[&str]) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_string()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![pattern.to_string()] };
    let choices: Vec<&str> = if inside == "*" { tasks.to_vec() } else { inside.split(',').collect() };
    let endings = expand_braces(after, tasks);
    choices.iter().flat_map(|choice| endings.iter().map(move |ending| format!("{before}{choice}{ending}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{published::Figure, study::STUDIES};

    #[test]
    fn braces_expand_to_every_combination() {
        assert_eq!(expand_braces("x: {a,b} < {c,d}", &[]), ["x: a < c", "x: a < d", "x: b < c", "x: b < d"]);
        assert_eq!(expand_braces("{*}.t: a < b", &["one", "two"]), ["one.t: a < b", "two.t: a < b"]);
        assert_eq!(expand_braces("x: a < b", &[]), ["x: a < b"]);
    }

    #[test]
    fn shipped_conclusions_are_about_published_variants_and_tasks() {
        for study in STUDIES {
            let conclusions = conclusions_of_study(study).unwrap_or_else(|error| panic!("{error}"));
            let sets = study.published_sets().unwrap();
            let mut variants: Vec<&str> = sets.iter().flat_map(|set| set.variants()).collect();
            variants.retain(|variant| conclusions.roles.iter().any(|role| role == variant));
            assert!(conclusions.roles.iter().all(|role| variants.contains(&role.as_str())), "{}", study.name);
            for conclusion in &conclusions.list {
                assert!(!conclusion.claims.is_empty(), "{}", conclusion.statement);
                assert!(conclusion.source.ends_with('.'), "{} names no place in the article", conclusion.statement);
                // A threshold must be either in the author's conclusion or declared as added by fsarena.
                let has_threshold = conclusion.claims.iter().any(|claim| claim.to_string().contains('%'));
                let is_explained = conclusion.our_addition.is_some() || conclusion.statement.contains('%');
                assert!(
                    !has_threshold || is_explained,
                    "{}: the source of its threshold is missing",
                    conclusion.statement
                );
                if let RequiredClaims::Count(required) = conclusion.required {
                    assert!((1..=conclusion.claims.len()).contains(&required), "{}", conclusion.statement);
                }
                if !sets.is_empty() {
                    for claim in &conclusion.claims {
                        assert_names_are_published(study, &sets, conclusion, claim);
                    }
                }
            }
        }
    }

    fn assert_names_are_published(study: &Study, sets: &[PublishedSet], conclusion: &Conclusion, claim: &Claim) {
        // Tasks and filesystems that have no published figures: fsarena measures them, or sums published figures (`total`,
        // `geomean`).
        const UNPUBLISHED_TASKS: [&str; 5] = ["mkfs", "mount", "total", "geomean", "recover"];
        const UNPUBLISHED_VARIANTS: [&str; 7] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "jfs", "reiserfs"];
        let set_named = |name: &str| sets.iter().find(|set| set.set == name);
        let set = set_named(&conclusion.set).unwrap_or_else(|| panic!("{conclusion:?}"));
        let is_unpublished = claim.subject.task.as_deref().is_some_and(|task| UNPUBLISHED_TASKS.contains(&task));
        // Samples have no task, so any claim about their metric fits.
        let fits_task = |figure: &Figure| !figure.sample.is_empty() || claim.subject.fits(&figure.task_id());
        let has_figure = |figure: &Figure| fits_task(figure) && figure.metric == claim.subject.metric;
        assert!(is_unpublished || set.figures.iter().any(has_figure), "{}: {claim}", study.name);
        for variant in claim.variants() {
            // `II/xfs` names a set and a variant; `xfs/bfq` is a variant of a stage.
            let is_variant_of_stage = |(name, _): &(&str, &str)| set_named(name).is_none();
            let (name, variant) = match variant.split_once('/') {
                Some(parts) if is_variant_of_stage(&parts) => (conclusion.set.as_str(), parts.0),
                Some(parts) => parts,
                None => (conclusion.set.as_str(), variant),
            };
            let has_variant = |set: &PublishedSet| set.variants().contains(&variant);
            assert!(set_named(name).is_some_and(has_variant) || UNPUBLISHED_VARIANTS.contains(&variant), "{claim}");
        }
    }
}
