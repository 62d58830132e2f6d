//! Variants that differ in the I/O scheduler, by filesystem and by scheduler.

use fsarena_core::{cell::Variant, factor::SCHEDULER, names::distinct};
use fsarena_stats::analyse::without_level;

/// Variants by what they are besides their scheduler, and by scheduler.
pub struct Crossed {
    /// What variants are besides their scheduler.
    pub names: Vec<String>,
    /// The schedulers.
    pub schedulers: Vec<String>,
    /// `at[name][scheduler]`: a variant of the run.
    pub at: Vec<Vec<Option<usize>>>,
}

impl Crossed {
    /// The variants of a report by filesystem and scheduler. None if no filesystem was measured with two schedulers,
    /// because then there is nothing to compare.
    pub fn of(variants: &[Variant]) -> Option<Crossed> {
        let of: Vec<&str> = variants.iter().map(|variant| variant.level(SCHEDULER)).collect();
        let rests: Vec<String> =
            variants.iter().map(|variant| without_level(variant, SCHEDULER).name).collect();
        let (levels, names) = (distinct(of.iter().copied()), distinct(rests.iter().map(String::as_str)));
        let find = |name: &str, level: &str| (0..of.len()).find(|at| rests[*at] == name && of[*at] == level);
        let row = |name: &&str| levels.iter().map(|level| find(name, level)).collect();
        let at: Vec<Vec<Option<usize>>> = names.iter().map(row).collect();
        let shown = |level: &&str| if level.is_empty() { "as it is".into() } else { level.to_string() };
        let schedulers = levels.iter().map(shown).collect();
        let names = names.into_iter().map(String::from).collect();
        let crossed = at.iter().any(|row| row.iter().flatten().count() > 1);
        crossed.then_some(Crossed { names, schedulers, at })
    }

    /// The first of the variants that differ from this one in the scheduler alone.
    pub fn first(&self, variant: usize) -> usize {
        let row = self.at.iter().find(|row| row.contains(&Some(variant)));
        row.and_then(|row| row.iter().flatten().min().copied()).unwrap_or(variant)
    }
}
