//! Axes of the machine that differ between arms together with something else.

use super::ArmFacts;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor::{self, FactorDef};
use std::collections::{BTreeMap, BTreeSet};

/// A note for each axis that is not crossed with all that differs besides: then nobody can tell what a difference
/// comes from. An axis of which every arm has every level is the question, and needs no note.
pub fn lint(arms: &[ArmFacts]) -> Vec<Note> {
    factor::axes().filter_map(|axis| mixed_up(axis, arms)).collect()
}

fn mixed_up(axis: &FactorDef, arms: &[ArmFacts]) -> Option<Note> {
    let level = |arm: &ArmFacts| arm.levels.get(axis.id).map_or(axis.default, String::as_str).to_string();
    let mut by_rest: BTreeMap<Vec<(&String, &String)>, BTreeSet<String>> = BTreeMap::new();
    for arm in arms {
        let rest = arm.levels.iter().filter(|(id, value)| *id != axis.id && !value.is_empty()).collect();
        by_rest.entry(rest).or_default().insert(level(arm));
    }
    let mut sets = by_rest.values();
    let first = sets.next()?;
    if sets.all(|set| set == first) {
        return None;
    }
    let shown = |level: String| if level.is_empty() { "none said".to_string() } else { level };
    let each: Vec<String> = arms.iter().map(|arm| format!("{} ({})", arm.arm, shown(level(arm)))).collect();
    let text = format!(
        "`{}` differs between arms together with something else, {}: a difference between them may come from \
         either",
        axis.id,
        each.join(", ")
    );
    let fix = format!("give all arms the same `{0}`, or each of them every level of it", axis.id);
    Some(Note::new(NoteKind::Fairness, text).fix(fix))
}
