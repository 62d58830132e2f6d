//! The aged images of a run.
//!
//! Ageing from one seed gives one of many possible histories, so an aged image is a random effect: rounds that begin with the
//! same image are not independent. The value of a variant on an image is therefore the mean over its rounds on that image, and
//! statistics compare images instead of rounds.

use super::values::{VariantValues, dropped_rounds, rounds};
use crate::average::Average;
use crate::metric::reading;
use crate::record::RunRecord;
use std::collections::{BTreeMap, BTreeSet};

/// The rounds of a run, grouped by the seed of the image that they began with.
///
/// A pass is one round on each image. Only the rounds of complete passes count, so every image has the same number of
/// rounds, and a stopping rule sees new values only after a complete pass. Rounds that were dropped from the analysis
/// still count when passes are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundsByImage {
    /// For each image, the columns of its counted rounds in a table `[variant][round]`. The table has all rounds except the
    /// excluded ones. The groups are ordered by their first column. A round without an image is a group by itself.
    groups: Vec<Vec<usize>>,
    /// The number of images.
    pub image_count: usize,
    /// The number of complete passes over all images.
    pub complete_passes: usize,
    /// The number of rounds that do not count, because their pass is not complete.
    pub uncounted_rounds: usize,
}

/// The seed of the image of each round that began with an aged image. It is the same for all variants of a round.
fn image_seeds(record: &RunRecord) -> BTreeMap<u32, u64> {
    let Some(column) = record.reading_column(reading::IMAGE_SEED) else { return BTreeMap::new() };
    let rows = record.samples.values[column].iter().zip(&record.samples.cell);
    let with_seed = rows.filter(|(seed, _)| !seed.is_nan());
    with_seed.map(|(seed, cell)| (record.cells[*cell as usize].round, *seed as u64)).collect()
}

impl RoundsByImage {
    /// The images of a run without `excluded_rounds`. None if no round began with an aged image.
    pub fn of(record: &RunRecord, excluded_rounds: &BTreeSet<u32>) -> Option<RoundsByImage> {
        let seeds = image_seeds(record);
        let counted = rounds(record, &(excluded_rounds - &dropped_rounds(record)));
        let mut by_seed: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for (round, seed) in counted.iter().filter_map(|round| Some((*round, seeds.get(round)?))) {
            by_seed.entry(*seed).or_default().push(round);
        }
        let complete_passes = by_seed.values().map(Vec::len).min()?;
        let columns = rounds(record, excluded_rounds);
        let column = |round: &u32| columns.binary_search(round).ok();
        let without_image = counted.iter().filter(|round| !seeds.contains_key(round));
        let mut groups: Vec<Vec<usize>> = without_image.filter_map(column).map(|column| vec![column]).collect();
        groups.extend(by_seed.values().map(|rounds| rounds[..complete_passes].iter().filter_map(column).collect()));
        groups.retain(|group| !group.is_empty());
        groups.sort_unstable();
        let uncounted_rounds = columns.len() - groups.iter().map(Vec::len).sum::<usize>();
        Some(RoundsByImage { groups, image_count: by_seed.len(), complete_passes, uncounted_rounds })
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
/// A variant that left the run lacks some of the rounds. Its average over its own rounds is multiplied by a/b: a is the
/// average of the complete variants over all compared rounds, and b is the average of the complete variants over the
/// variant's own rounds. So a machine that became slower between the rounds does not change the comparison.
fn average_on_image(values: &[Vec<f64>], group: &[usize], average: Average) -> Vec<f64> {
    let columns = compared_columns(values, group);
    let complete_variants: Vec<&Vec<f64>> = values.iter().filter(|variant| has_all_values(variant, &columns)).collect();
    let values_of_complete = |columns: &[usize]| -> Vec<f64> {
        complete_variants.iter().flat_map(|variant| columns.iter().map(|column| variant[*column])).collect()
    };
    // Compute a and b as the same kind of average, even if the rounds of only one of them include a zero.
    let has_logarithms = values_of_complete(&columns).iter().all(|value| *value > 0.0);
    let correction_average = if has_logarithms { average } else { Average::Mean };
    let complete_in_columns = |columns: &[usize]| average_of(&values_of_complete(columns), correction_average);
    let average_of_variant = |variant: &Vec<f64>| {
        let own_columns: Vec<usize> = columns.iter().copied().filter(|column| !variant[*column].is_nan()).collect();
        let own_values: Vec<f64> = own_columns.iter().map(|column| variant[*column]).collect();
        let average_of_own = average_of(&own_values, average);
        let complete_in_own_columns = complete_in_columns(&own_columns);
        // Without a positive average there is no ratio to correct by.
        if own_columns.len() == columns.len() || complete_in_own_columns.is_nan() || complete_in_own_columns <= 0.0 {
            return average_of_own;
        }
        average_of_own * complete_in_columns(&columns) / complete_in_own_columns
    };
    values.iter().map(average_of_variant).collect()
}

/// The columns of an image that are averaged: all of them if at least one variant has a value in each; else only those in
/// which every variant that has any value on the image has a value. Without such a column no variant has an average on the
/// image, because the averages would be of different rounds.
fn compared_columns(values: &[Vec<f64>], group: &[usize]) -> Vec<usize> {
    let mut columns = group.to_vec();
    if !values.iter().any(|variant| has_all_values(variant, group)) {
        let is_present = |variant: &&Vec<f64>| group.iter().any(|column| !variant[*column].is_nan());
        columns.retain(|column| values.iter().filter(is_present).all(|variant| !variant[*column].is_nan()));
    }
    columns
}

/// Whether a variant has a value in each of these columns.
fn has_all_values(variant: &[f64], columns: &[usize]) -> bool {
    columns.iter().all(|column| !variant[*column].is_nan())
}

/// The average of values. It is arithmetic if any value is zero or less, because that has no logarithm. NaN without values. A
/// single value is returned without rounding.
fn average_of(values: &[f64], average: Average) -> f64 {
    let count = values.len() as f64;
    if average.is_typical() && values.iter().all(|value| *value > 0.0) && values.len() > 1 {
        return (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp();
    }
    values.iter().sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::CellRecord;

    /// A run of one variant with these seeds of images by round; NaN for a round without one.
    fn run_with_image_seeds(seeds: &[f64]) -> RunRecord {
        let mut record = RunRecord::default();
        let spec = crate::metric::LIFECYCLE_READINGS.iter().find(|reading| reading.id == reading::IMAGE_SEED);
        record.readings.push(spec.unwrap().into());
        for round in 0..seeds.len() as u32 {
            record.cells.push(CellRecord { workload: "tree".into(), ..CellRecord::done(round, 0) });
            record.samples.cell.push(round);
        }
        record.samples.values = vec![seeds.to_vec()];
        record
    }

    #[test]
    fn only_complete_passes_over_the_images_count() {
        let groups = |seeds: &[f64], excluded_rounds: &[u32]| {
            let images =
                RoundsByImage::of(&run_with_image_seeds(seeds), &excluded_rounds.iter().copied().collect()).unwrap();
            (images.groups, images.complete_passes, images.uncounted_rounds)
        };
        // In the first pass each round is a new image.
        assert_eq!(groups(&[7.0, 8.0], &[]), (vec![vec![0], vec![1]], 1, 0));
        // The second pass counts when it is complete.
        assert_eq!(groups(&[7.0, 8.0, 7.0], &[]), (vec![vec![0], vec![1]], 1, 1));
        assert_eq!(groups(&[7.0, 8.0, 8.0, 7.0], &[]), (vec![vec![0, 3], vec![1, 2]], 2, 0));
        // A warm-up round does not belong to a pass, and has no column.
        assert_eq!(groups(&[7.0, 8.0, 7.0], &[0]), (vec![vec![0], vec![1]], 1, 0));
        assert_eq!(groups(&[7.0, MISSING, 8.0], &[]), (vec![vec![0], vec![1], vec![2]], 1, 0));
        assert_eq!(RoundsByImage::of(&run_with_image_seeds(&[MISSING]), &BTreeSet::new()), None);
    }

    const MISSING: f64 = f64::NAN;

    fn images(groups: &[&[usize]]) -> RoundsByImage {
        RoundsByImage {
            groups: groups.iter().map(|group| group.to_vec()).collect(),
            image_count: 2,
            complete_passes: 2,
            uncounted_rounds: 0,
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
        let with_zero = images.average(&[vec![0.0, 1.0, 3.0]], Average::Typical);
        assert_eq!(with_zero, [[1.5, 1.0]]);
    }

    #[test]
    fn a_variant_that_left_is_compared_within_its_rounds() {
        // The machine is ten times as slow in the second round, which the third variant lacks.
        let values = vec![vec![1.0, 10.0], vec![2.0, 20.0], vec![3.0, MISSING], vec![MISSING, MISSING]];
        let typical = images(&[&[0, 1]]).average(&values, Average::Typical);
        assert!((typical[2][0] / typical[0][0] - 3.0).abs() < 1e-12, "{typical:?}");
        assert!((typical[2][0] / typical[1][0] - 1.5).abs() < 1e-12 && typical[3][0].is_nan());
        // The arithmetic means are compared within its rounds too.
        let mean = images(&[&[0, 1]]).average(&values, Average::Mean);
        assert!((mean[2][0] / mean[0][0] - 3.0).abs() < 1e-12, "{mean:?}");
        // A zero has no logarithm: the correction is 10 / 5 by arithmetic means.
        let zero = vec![vec![5.0, 15.0, 0.0, 20.0], vec![3.0, MISSING, MISSING, MISSING]];
        assert_eq!(images(&[&[0, 1, 2, 3]]).average(&zero, Average::Typical)[1], [6.0]);
        let zero_in_both = vec![vec![0.0, 4.0, 5.0], vec![2.0, 4.0, MISSING]];
        assert_eq!(images(&[&[0, 1, 2]]).average(&zero_in_both, Average::Mean)[1], [4.5]);
        // No variant has every round: only the shared one counts.
        let values = vec![vec![1.0, 10.0, MISSING], vec![2.0, MISSING, 3.0]];
        assert_eq!(images(&[&[0, 1, 2]]).average(&values, Average::Typical), [[1.0], [2.0]]);
    }
}
