//! The aged images of a run.
//!
//! Ageing from one seed gives one of many possible histories, so an aged image is a random effect: rounds that begin with the
//! same image are not independent. The value of a variant on an image is therefore the mean over its rounds on that image, and
//! statistics compare images instead of rounds.

use super::values::{VariantValues, dropped, rounds};
use crate::average::Average;
use crate::metric::reading;
use crate::record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// The rounds of a run, grouped by the seed of the image that they began with.
///
/// Every image has the same number of rounds: those of complete passes over all images so far. Rounds of a pass that is not
/// complete are left out, so that a stopping rule sees new values only after a complete pass. Dropped rounds count for passes.
#[derive(Debug, Clone, PartialEq)]
pub struct Images {
    /// For each image, the indices of its columns in values by round; ordered by first round. A round without an image is a
    /// group of its own.
    groups: Vec<Vec<usize>>,
    /// The number of images.
    pub count: usize,
    /// The number of complete passes over all images.
    pub passes: usize,
    /// The number of rounds that are left out, because their pass is not complete.
    pub left_out: usize,
}

/// The seed of the image of each round that began with an aged image.
fn seeds(record: &RunRecord) -> BTreeMap<u32, u64> {
    let Some(column) = record.reading(reading::IMAGE_SEED) else { return BTreeMap::new() };
    let rows = record.samples.values[column].iter().zip(&record.samples.cell);
    let known = rows.filter(|(seed, _)| !seed.is_nan());
    known.map(|(seed, cell)| (record.cells[*cell as usize].round, *seed as u64)).collect()
}

impl Images {
    /// The images of a run without the rounds of `leave_out`. None if no round began with an aged image.
    pub fn of(record: &RunRecord, leave_out: &BTreeSet<u32>) -> Option<Images> {
        let seeds = seeds(record);
        let counted = rounds(record, &(leave_out - &dropped(record)));
        let mut by_seed: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (round, seed) in counted.iter().filter_map(|round| Some((*round, seeds.get(round)?))) {
            by_seed.entry(*seed).or_default().push(round);
        }
        let passes = by_seed.values().map(Vec::len).min()?;
        let kept = rounds(record, leave_out);
        let column = |round: &u32| kept.binary_search(round).ok();
        let without_image = counted.iter().filter(|round| !seeds.contains_key(round));
        let mut groups: Vec<Vec<usize>> = without_image.filter_map(column).map(|one| vec![one]).collect();
        groups.extend(by_seed.values().map(|rounds| rounds[..passes].iter().filter_map(column).collect()));
        groups.retain(|group| !group.is_empty());
        groups.sort_unstable();
        let left_out = kept.len() - groups.iter().map(Vec::len).sum::<usize>();
        Some(Images { groups, count: by_seed.len(), passes, left_out })
    }

    /// For each group, its first column.
    pub(super) fn first_columns(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().map(|group| group[0])
    }

    /// Averages values by round, `[variant][round]`, over the rounds of each image: `[variant][image]`. The average of
    /// [`Average::Typical`] is geometric, so that the log ratio of two variants is the mean of their log ratios by round; that
    /// of [`Average::Mean`] is arithmetic.
    pub fn average(&self, values: &[Vec<f64>], average: Average) -> VariantValues {
        let mut averaged: VariantValues = vec![Vec::with_capacity(self.groups.len()); values.len()];
        for group in &self.groups {
            let of_image = average_on_image(values, group, average);
            averaged.iter_mut().zip(of_image).for_each(|(variant, value)| variant.push(value));
        }
        averaged
    }
}

/// The average of each variant over the rounds of one image; NaN for a variant without a value.
///
/// A variant that lacks some of the rounds, because it left the run, is compared within the rounds that it has: its average is
/// multiplied by the ratio of the other variants' average over all rounds to that over its own rounds. So a machine that
/// became slower between the rounds does not change the comparison.
fn average_on_image(values: &[Vec<f64>], group: &[usize], average: Average) -> Vec<f64> {
    let has = |variant: &Vec<f64>, column: &usize| !variant[*column].is_nan();
    let has_all = |variant: &&Vec<f64>, columns: &[usize]| columns.iter().all(|column| has(variant, column));
    let mut columns = group.to_vec();
    if !values.iter().any(|variant| has_all(&variant, group)) {
        let present = |variant: &&Vec<f64>| group.iter().any(|column| has(variant, column));
        columns.retain(|column| values.iter().filter(present).all(|variant| has(variant, column)));
    }
    let complete: Vec<&Vec<f64>> = values.iter().filter(|variant| has_all(variant, &columns)).collect();
    let mean_log = |columns: &[usize]| {
        let logs = complete.iter().flat_map(|variant| columns.iter().map(|column| variant[*column].ln()));
        logs.sum::<f64>() / (columns.len() * complete.len()) as f64
    };
    let of_variant = |variant: &Vec<f64>| {
        let own: Vec<usize> = columns.iter().copied().filter(|column| has(variant, column)).collect();
        let known: Vec<f64> = own.iter().map(|column| variant[*column]).collect();
        let mean = mean(&known, average);
        if own.len() == columns.len() { mean } else { mean * (mean_log(&columns) - mean_log(&own)).exp() }
    };
    values.iter().map(of_variant).collect()
}

/// The average of values. It is arithmetic if one of them is zero or less, which has no logarithm. NaN without values.
fn mean(values: &[f64], average: Average) -> f64 {
    let count = values.len() as f64;
    if average.is_typical() && values.iter().all(|value| *value > 0.0) && values.len() > 1 {
        return (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp();
    }
    values.iter().sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{event::Outcome, record::CellRecord};

    /// A run of one variant with these seeds of images by round; NaN for a round without one.
    fn run(seeds: &[f64]) -> RunRecord {
        let mut record = RunRecord::default();
        let spec = crate::metric::LIFECYCLE.iter().find(|reading| reading.id == reading::IMAGE_SEED);
        record.readings.push(spec.unwrap().into());
        for round in 0..seeds.len() as u32 {
            record.cells.push(CellRecord {
                id: round.to_string(),
                round,
                position: 0,
                variant: 0,
                workload: "tree".into(),
                outcome: Outcome::Done,
                host: 0,
                started_at: 0.0,
                spent: vec![],
            });
            record.samples.cell.push(round);
        }
        record.samples.values = vec![seeds.to_vec()];
        record
    }

    #[test]
    fn only_complete_passes_over_the_images_count() {
        let groups = |seeds: &[f64], leave_out: &[u32]| {
            let images = Images::of(&run(seeds), &leave_out.iter().copied().collect()).unwrap();
            (images.groups, images.passes, images.left_out)
        };
        // In the first pass each round is a new image.
        assert_eq!(groups(&[7.0, 8.0], &[]), (vec![vec![0], vec![1]], 1, 0));
        // The second pass counts when it is complete.
        assert_eq!(groups(&[7.0, 8.0, 7.0], &[]), (vec![vec![0], vec![1]], 1, 1));
        assert_eq!(groups(&[7.0, 8.0, 8.0, 7.0], &[]), (vec![vec![0, 3], vec![1, 2]], 2, 0));
        // A warm-up round is no part of a pass, and columns do not count it.
        assert_eq!(groups(&[7.0, 8.0, 7.0], &[0]), (vec![vec![0], vec![1]], 1, 0));
        assert_eq!(groups(&[7.0, MISSING, 8.0], &[]), (vec![vec![0], vec![1], vec![2]], 1, 0));
        assert_eq!(Images::of(&run(&[MISSING]), &BTreeSet::new()), None);
    }

    const MISSING: f64 = f64::NAN;

    fn images(groups: &[&[usize]]) -> Images {
        Images {
            groups: groups.iter().map(|group| group.to_vec()).collect(),
            count: 2,
            passes: 2,
            left_out: 0,
        }
    }

    #[test]
    fn an_image_has_the_mean_of_the_log_ratios_of_its_rounds() {
        let values = vec![vec![1.0, 4.0, 4.0], vec![2.0, 5.0, 32.0]];
        let images = images(&[&[0, 2], &[1]]);
        // ln 2 and ln 8 have the mean ln 4; the arithmetic means are 2.5 and 17.
        let typical = images.average(&values, Average::Typical);
        assert!((typical[1][0] / typical[0][0] - 4.0).abs() < 1e-12 && typical[1][1] == 5.0, "{typical:?}");
        assert_eq!(images.average(&values, Average::Mean), [[2.5, 4.0], [17.0, 5.0]]);
        let zero = images.average(&[vec![0.0, 1.0, 3.0]], Average::Typical);
        assert_eq!(zero, [[1.5, 1.0]]);
    }

    #[test]
    fn a_variant_that_left_is_compared_within_its_rounds() {
        // The machine is ten times as slow in the second round, which the third variant lacks.
        let values = vec![vec![1.0, 10.0], vec![2.0, 20.0], vec![3.0, MISSING], vec![MISSING, MISSING]];
        let typical = images(&[&[0, 1]]).average(&values, Average::Typical);
        assert!((typical[2][0] / typical[0][0] - 3.0).abs() < 1e-12, "{typical:?}");
        assert!((typical[2][0] / typical[1][0] - 1.5).abs() < 1e-12 && typical[3][0].is_nan());
        // No variant has every round: only the shared one counts.
        let values = vec![vec![1.0, 10.0, MISSING], vec![2.0, MISSING, 3.0]];
        assert_eq!(images(&[&[0, 1, 2]]).average(&values, Average::Typical), [[1.0], [2.0]]);
    }
}
