//! What the author of a study concluded, as claims that can be checked: on the figures that were published,
//! and on a run here.

use crate::claim::Claim;
use crate::plan::error::PlanError;
use crate::plan::file::{ConclusionFile, PlanFile};
use crate::plan::resolve::percentage;
use crate::study::Study;

/// One conclusion.
#[derive(Debug, Clone, PartialEq)]
pub struct Conclusion {
    /// In our words.
    pub says: String,
    /// The set of published figures that it is about. Arms of other sets are written `SET/ARM`.
    pub set: String,
    /// The claims that it is made of.
    pub claims: Vec<Claim>,
    /// How many of them have to hold; all where nothing is said.
    pub at_least: Option<usize>,
}

/// How far published figures can be trusted: each is one value without an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trust {
    /// Two figures tell nothing apart whose ratio is nearer to 1 than this, as a fraction.
    pub tolerance: f64,
    /// The step of the last printed digit.
    pub resolution: f64,
}

/// The conclusions of a study's author, and how far his figures can be trusted. Empty where there are none.
///
/// # Errors
/// A fault in the plan that ships with fsarena.
pub fn of(study: &Study) -> Result<(Vec<Conclusion>, Trust), PlanError> {
    let (file, text) = PlanFile::parse(study.name, study.plan.as_bytes())?;
    let set = file.published.set.clone().unwrap_or_default();
    let tolerance = file.published.tolerance.as_deref().map_or(Some(0.0), percentage);
    let fault = || PlanError::flag(study.name, "the tolerance of published figures is a percentage");
    let trust = Trust {
        tolerance: tolerance.ok_or_else(fault)?,
        resolution: file.published.resolution.unwrap_or(0.0),
    };
    let steps: Vec<&str> = study.tasks.iter().map(|(_, step)| *step).collect();
    let conclusion = |written: &ConclusionFile| -> Result<Conclusion, PlanError> {
        let mut claims = Vec::new();
        for pattern in &written.claims {
            for claim in expanded(pattern.get_ref(), &steps) {
                let bad = |error: crate::claim::ClaimError| {
                    PlanError::at(
                        study.name,
                        &text,
                        Some(pattern.span()),
                        format!("`{claim}`: {}", error.message),
                    )
                };
                claims.push(claim.parse().map_err(bad)?);
            }
        }
        let set = written.set.clone().unwrap_or_else(|| set.clone());
        Ok(Conclusion { says: written.says.clone(), set, claims, at_least: written.at_least })
    };
    Ok((file.conclusions.iter().map(conclusion).collect::<Result<_, _>>()?, trust))
}

/// Every choice from each pair of braces: `{a,b} < {c,d}` makes four claims, `{*}` stands for all steps.
fn expanded(pattern: &str, steps: &[&str]) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_string()] };
    let Some((inside, after)) = rest.split_once('}') else { return vec![pattern.to_string()] };
    let choices: Vec<&str> = if inside == "*" { steps.to_vec() } else { inside.split(',').collect() };
    let after = expanded(after, steps);
    choices
        .iter()
        .flat_map(|choice| after.iter().map(move |after| format!("{before}{choice}{after}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::STUDIES;

    #[test]
    fn braces_give_every_choice() {
        assert_eq!(expanded("x: {a,b} < {c,d}", &[]), ["x: a < c", "x: a < d", "x: b < c", "x: b < d"]);
        assert_eq!(expanded("{*}.t: a < b", &["one", "two"]), ["one.t: a < b", "two.t: a < b"]);
        assert_eq!(expanded("x: a < b", &[]), ["x: a < b"]);
    }

    #[test]
    fn shipped_conclusions_are_about_published_arms_and_steps() {
        // Measured by us, published by none: the author told of them without figures.
        const UNPUBLISHED: [&str; 3] = ["mkfs", "mount", "composite"];
        for study in STUDIES {
            let (conclusions, _) = of(study).unwrap_or_else(|error| panic!("{error}"));
            let sets = study.published().unwrap();
            for conclusion in &conclusions {
                assert!(sets.iter().any(|set| set.set == conclusion.set), "{conclusion:?}");
                assert!(
                    conclusion.at_least.is_none_or(|least| (1..=conclusion.claims.len()).contains(&least))
                );
                assert!(!conclusion.claims.is_empty(), "{}", conclusion.says);
                for claim in &conclusion.claims {
                    let step = claim.subject.step.as_deref().unwrap_or("mount");
                    assert!(
                        UNPUBLISHED.contains(&step) || study.tasks.iter().any(|(_, ours)| *ours == step),
                        "{claim}"
                    );
                    for arm in claim.arms() {
                        let (set, arm) = arm.split_once('/').unwrap_or((&conclusion.set, arm));
                        let known = sets.iter().find(|known| known.set == set).unwrap();
                        assert!(known.arms().contains(&arm), "{claim}");
                    }
                }
            }
        }
    }
}
