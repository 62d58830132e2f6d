//! Variants that differ in the I/O scheduler, by filesystem and by scheduler.

use fsarena_core::{cell::Variant, factor::SCHEDULER};
use fsarena_stats::best::without;

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
        let distinct = |all: &[String]| {
            let mut kept: Vec<String> = Vec::new();
            all.iter().for_each(|one| kept.extend(Some(one).filter(|one| !kept.contains(one)).cloned()));
            kept
        };
        let of: Vec<String> = variants.iter().map(|variant| variant.level(SCHEDULER).to_string()).collect();
        let rests: Vec<String> = variants.iter().map(|variant| without(variant, SCHEDULER).name).collect();
        let (levels, names) = (distinct(&of), distinct(&rests));
        let find = |name: &String, scheduler: &String| {
            (0..variants.len()).find(|at| rests[*at] == *name && of[*at] == *scheduler)
        };
        let row = |name| levels.iter().map(|level| find(name, level)).collect();
        let at: Vec<Vec<Option<usize>>> = names.iter().map(row).collect();
        let shown = |level: &String| if level.is_empty() { "as it is".into() } else { level.clone() };
        let schedulers = levels.iter().map(shown).collect();
        let crossed = at.iter().any(|row| row.iter().flatten().count() > 1);
        crossed.then_some(Crossed { names, schedulers, at })
    }

    /// The first of the variants that differ from this one in the scheduler alone.
    pub fn first(&self, variant: usize) -> usize {
        let row = self.at.iter().find(|row| row.contains(&Some(variant)));
        row.and_then(|row| row.iter().flatten().min().copied()).unwrap_or(variant)
    }
}
