//! Axes of the machine that differ between variants together with something else.

use super::VariantFacts;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor::{self, FactorDef};
use std::collections::{BTreeMap, BTreeSet};

/// A note for each axis that is not fully crossed with the other factors: the cause of a difference is then ambiguous. An
/// axis is fully crossed if each combination of the other factors occurs with each of its levels.
pub fn lint(variants: &[VariantFacts]) -> Vec<Note> {
    factor::axes().filter_map(|axis| mixed_up(axis, variants)).collect()
}

fn mixed_up(axis: &FactorDef, variants: &[VariantFacts]) -> Option<Note> {
    let level =
        |variant: &VariantFacts| variant.levels.get(axis.id).map_or(axis.default, String::as_str).to_string();
    let mut by_rest: BTreeMap<Vec<(&String, &String)>, BTreeSet<String>> = BTreeMap::new();
    for variant in variants {
        let rest = variant.levels.iter().filter(|(id, value)| *id != axis.id && !value.is_empty()).collect();
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
        axis.id,
        each.join(", ")
    );
    let fix = format!("give all variants the same `{0}`, or each of them every level of it", axis.id);
    Some(Note::new(NoteKind::Fairness, text).fix(fix))
}
