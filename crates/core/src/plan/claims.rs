//! Claims in plans and on the command line: where a fault lies, and whether what they name is there.

use super::Plan;
use super::error::{PlanError, did_you_mean};
use super::resolve::Vocabulary;
use crate::cell::{Arm, StepInfo};
use crate::claim::{Claim, ClaimError, Pair, Quantity, Relation, Right};
use crate::matrix;
use std::ops::Range;
use toml::Spanned;

/// The name of all steps together in claims.
pub const COMPOSITE: &str = "composite";

/// Reads the claims of a plan and those of the command line, and checks them against the plan's arms and
/// steps.
///
/// # Errors
/// The first that is no claim, or names what is not there: with line and column of the character at fault.
pub(super) fn resolve(
    (origin, text): (&str, &str),
    written: &[Spanned<String>],
    flags: &[String],
    plan: &Plan,
    words: &Vocabulary,
) -> Result<Vec<Claim>, PlanError> {
    let names = Names { arms: matrix::expand(plan), steps: (words.outline)(plan), metrics: &words.metrics };
    let mut claims = Vec::new();
    for spanned in written {
        let read = names.claim(spanned.get_ref());
        claims.push(read.map_err(|fault| {
            let at = character(text, spanned.span(), fault.column);
            PlanError::at(origin, text, Some(at..at), format!("claim: {}", fault.message))
        })?);
    }
    for flag in flags {
        claims.push(names.claim(flag).map_err(|fault| {
            let error = fault.to_string();
            PlanError::flag("--claim", error.strip_prefix("claim, ").unwrap_or(&error))
        })?);
    }
    Ok(claims)
}

/// What claims may name.
struct Names<'a> {
    arms: Vec<Arm>,
    steps: Vec<StepInfo>,
    metrics: &'a [String],
}

impl Names<'_> {
    fn claim(&self, text: &str) -> Result<Claim, ClaimError> {
        let claim: Claim = text.parse()?;
        match self.fault(&claim) {
            None => Ok(claim),
            Some((place, message)) => Err(ClaimError {
                column: text[..place.of(text, &claim)].chars().count() + 1,
                text: text.to_string(),
                line: None,
                message,
            }),
        }
    }

    fn fault(&self, claim: &Claim) -> Option<(Place, String)> {
        let right = match &claim.relation {
            Relation::Pair(Pair { right: Right::Quantity(right), .. }) => Some(right),
            _ => None,
        };
        let subject = self.quantity_fault(&claim.subject).map(|(word, message)| (Place::Subject(word), message));
        let other =
            || self.quantity_fault(right?).map(|(word, message)| (Place::Relation(word), message));
        subject.or_else(|| self.arm_fault(claim)).or_else(other)
    }

    fn arm_fault(&self, claim: &Claim) -> Option<(Place, String)> {
        let known = || self.arms.iter().map(|arm| arm.name.as_str());
        let names = claim.arms();
        if let Some(name) = names.iter().find(|name| !known().any(|arm| arm == **name)) {
            let message = format!(
                "no arm is called `{name}`{}; the arms are {}",
                did_you_mean(name, known()),
                known().collect::<Vec<_>>().join(", ")
            );
            return Some((Place::Relation(name.to_string()), message));
        }
        let same = names.len() == 2 && names[0] == names[1];
        if same {
            return Some((Place::Relation(names[0].into()), "an arm is not compared with itself".into()));
        }
        let lonely = matches!(claim.relation, Relation::Extreme(_)) && self.arms.len() < 2;
        lonely.then(|| (Place::Relation(names[0].into()), "this is the only arm: there is no other".into()))
    }

    /// The word at fault, and what is wrong with it.
    fn quantity_fault(&self, quantity: &Quantity) -> Option<(String, String)> {
        let metric = &quantity.metric;
        if !self.metrics.contains(metric) {
            let near = did_you_mean(metric, self.metrics.iter().map(String::as_str));
            return Some((metric.clone(), format!("no metric is called `{metric}`{near}")));
        }
        let step = quantity.step.as_ref()?;
        if step == COMPOSITE {
            return None;
        }
        let steps = || self.steps.iter().map(|info| info.id.name.as_str());
        if !steps().any(|name| name == step) {
            let near = did_you_mean(step, steps().chain([COMPOSITE]));
            return Some((step.clone(), format!("no step is called `{step}`{near}")));
        }
        let siblings: Vec<String> =
            self.steps.iter().filter(|info| info.id.name == *step).map(|info| info.id.to_string()).collect();
        match self.steps.iter().filter(|info| quantity.fits(info)).count() {
            1 => None,
            0 => Some((step.clone(), format!("no step fits these parameters; there are {}", siblings.join(", ")))),
            _ => Some((step.clone(), format!("several steps fit this; say which: {}", siblings.join(", ")))),
        }
    }
}

impl Quantity {
    /// Whether this step is meant: it has the name, where one is given, and all of the parameters.
    pub fn fits(&self, step: &StepInfo) -> bool {
        self.step.as_ref().is_none_or(|name| *name == step.id.name)
            && self.params.iter().all(|(key, value)| step.id.params.get(key) == Some(value))
    }
}

/// A word of a claim, and on which side of the colon it stands.
enum Place {
    Subject(String),
    Relation(String),
}

impl Place {
    /// The byte of the claim's text at which the word begins.
    fn of(&self, text: &str, claim: &Claim) -> usize {
        // The subject holds no colon outside of quoted parameters, which its own words come before.
        let colon = text.len() - text.trim_start().len() + claim.subject.to_string().len().min(claim.text.len());
        let colon = (0..=colon.min(text.len())).rev().find(|at| text[*at..].starts_with(':')).unwrap_or(colon);
        match self {
            Place::Subject(word) => text.find(word.as_str()).unwrap_or(0),
            Place::Relation(word) => text.get(colon..).and_then(|rest| rest.find(word.as_str())).map_or(0, |at| colon + at),
        }
    }
}
