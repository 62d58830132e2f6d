//! Axes of the machine that differ between variants together with something else.

use super::VariantFacts;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use std::collections::{BTreeMap, BTreeSet};

/// A note for each axis that is not fully crossed with the other factors: the cause of a difference is then ambiguous. An
/// axis is fully crossed if each combination of the other factors occurs with each of its levels.
pub fn lint(variants: &[VariantFacts]) -> Vec<Note> {
    let ids: BTreeSet<&str> =
        variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
    ids.into_iter().filter(|id| factor::is_axis(id)).filter_map(|axis| mixed_up(axis, variants)).collect()
}

fn mixed_up(axis: &str, variants: &[VariantFacts]) -> Option<Note> {
    let level = |variant: &VariantFacts| variant.levels.get(axis).cloned().unwrap_or_default();
    let mut by_rest: BTreeMap<Vec<(&String, &String)>, BTreeSet<String>> = BTreeMap::new();
    for variant in variants {
        let rest = variant.levels.iter().filter(|(id, value)| *id != axis && !value.is_empty()).collect();
        by_rest.entry(rest).or_default().insert(level(variant));
    }
    let mut sets = by_rest.values();
    let first = sets.next()?;
    if sets.all(|set| set == first) {
        return None;
    }
    let shown = |level: String| if level.is_empty() { "none said".to_string() } else { level };
    let each: Vec<String> =
        variants.iter().map(|variant| format!("{} ({})", variant.variant, shown(level(variant)))).collect();
    let text = format!(
        "`{}` differs between variants together with something else, {}: a difference between them may come from \
         either",
        axis,
        each.join(", ")
    );
    let fix = format!("give all variants the same `{0}`, or each of them every level of it", axis);
    Some(Note::new(NoteKind::Fairness, text).fix(fix))
}
