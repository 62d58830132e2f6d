//! What a reader of a run in progress should know, a sentence each.

use crate::number::plural;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::state::RunState;
use serde::{Serialize, Serializer};

/// Sentences by what they are about.
#[derive(Debug, Default)]
pub struct Words {
    /// The variants that left the run.
    pub failures: Vec<String>,
    /// What makes the comparison unfair, the rounds that were dropped, and what the user should do.
    pub fairness: Vec<String>,
    /// What the budget can resolve.
    pub forecast: Option<String>,
    /// Tasks that began on a busy machine.
    pub timeouts: usize,
}

impl Words {
    /// The sentences so far.
    pub fn of(state: &RunState) -> Words {
        let mut words = Words { forecast: state.forecast.clone(), ..Words::default() };
        let mut fairness: Vec<(&str, Vec<&str>)> = vec![];
        for note @ Note { kind, variant, text, .. } in state.notes() {
            match kind {
                NoteKind::IdleTimeout => words.timeouts += 1,
                NoteKind::VariantFailed => {
                    let failure = format!("{} {text}", variant.as_deref().unwrap_or_default());
                    words.failures.push(failure.trim_start().into());
                }
                NoteKind::Fairness | NoteKind::Dropped | NoteKind::NotCompared => add(&mut fairness, note),
                NoteKind::Remark if note.asks_the_user() => add(&mut fairness, note),
                NoteKind::Options | NoteKind::Weaker | NoteKind::Unavailable | NoteKind::Remark => {}
            }
        }
        words.fairness = fairness.into_iter().map(|(text, variants)| of_variants(text, variants)).collect();
        words
    }

    /// How many tasks began on a busy machine, where any did.
    pub fn busy(&self) -> Option<String> {
        let tasks = plural(self.timeouts, "task");
        (self.timeouts > 0).then(|| format!("{tasks} began while the machine was still busy"))
    }
}

/// Adds a note's variant to those of the same text.
fn add<'a>(sentences: &mut Vec<(&'a str, Vec<&'a str>)>, note: &'a Note) {
    let variant = note.variant.as_deref();
    match sentences.iter_mut().find(|(known, _)| *known == note.text) {
        Some((_, variants)) => variants.extend(variant),
        None => sentences.push((&note.text, variant.into_iter().collect())),
    }
}

/// One sentence for all variants that share `text`: it names the first and counts the others.
fn of_variants(text: &str, mut variants: Vec<&str>) -> String {
    variants.dedup();
    match variants.as_slice() {
        [] => text.into(),
        [variant] => format!("{variant}: {text}"),
        [variant, others @ ..] => format!("{variant} and {} more: {text}", others.len()),
    }
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let said = self.failures.iter().chain(&self.fairness).chain(&self.forecast);
        serializer.collect_seq(said.chain(&self.busy()))
    }
}
