//! The profile of file sizes, file ages and directories that churn reproduces.
//!
//! Source: the profile `agrawal` of Geriatrix (Kadekodi, Nagarajan, Ganger: "Geriatrix: Aging what you see and what you
//! don't see", USENIX ATC 2018), which has the distributions of Agrawal, Bolosky, Douceur, Lorch: "A Five-Year Study of
//! File-System Metadata", FAST 2007: 60,000 filesystems of Windows desktops.

use rand::{Rng, RngExt};

/// The weight of each class of file sizes. The first class ends at [`FIRST_CLASS_BYTES`], and each further class at four
/// times the end of the class before. A class begins at a quarter of its end.
const SIZE_CLASS_WEIGHTS: [u32; 11] = [1, 7, 16, 40, 50, 46, 35, 20, 10, 4, 1];
/// The end of the first class of file sizes, in bytes.
const FIRST_CLASS_BYTES: u64 = 8;

/// Upper bounds of classes of file ages in hours, and the weight of each class.
const AGE_CLASSES: [(f64, u32); 10] = [
    (10.74, 1),
    (31.0, 2),
    (85.98, 8),
    (240.0, 20),
    (687.87, 44),
    (1945.59, 75),
    (5502.98, 144),
    (15_768.0, 146),
    (44_023.9, 23),
    (122_640.0, 1),
];

/// The weight of the files at each depth from 1.
const FILE_WEIGHTS_BY_DEPTH: [u32; 15] = [1, 2, 14, 15, 23, 24, 42, 22, 15, 12, 7, 4, 3, 2, 1];
/// The number of directories at each depth from 1.
const DIRECTORIES_BY_DEPTH: [u32; 15] = [1, 5, 13, 19, 30, 36, 32, 26, 22, 17, 8, 5, 2, 1, 1];

/// Draws the index of a class by the weights of the classes.
fn draw_class(rng: &mut impl Rng, weights: &[u32]) -> usize {
    let mut remaining = rng.random_range(0..weights.iter().sum::<u32>());
    for (class, weight) in weights.iter().enumerate() {
        if remaining < *weight {
            return class;
        }
        remaining -= weight;
    }
    unreachable!("the number is below the sum of the weights")
}

/// Draws the size of a file in bytes: first a class by weight, then a size whose logarithm is uniform within the class.
/// At most `max_bytes`.
///
/// # Panics
/// If `max_bytes` is 0.
pub fn draw_file_bytes(rng: &mut impl Rng, max_bytes: u64) -> u64 {
    let class_end = FIRST_CLASS_BYTES << (2 * draw_class(rng, &SIZE_CLASS_WEIGHTS));
    let bytes = class_end as f64 * 4f64.powf(-rng.random::<f64>());
    (bytes.round() as u64).clamp(1, max_bytes)
}

/// The ages of files, and the lifetimes that lead to them.
///
/// If files are created at a constant rate and the distribution of ages does not change, the density of ages is
/// proportional to the share of files that live at least as long. So it cannot rise with age. Within a class the
/// density is constant, and a class that is denser than the class before is joined with it.
pub struct AgeDistribution {
    classes: Vec<AgeClass>,
}

/// A class of ages with a constant density.
#[derive(Debug, Clone, Copy)]
struct AgeClass {
    begin_hours: f64,
    end_hours: f64,
    /// Share of the files for each hour of the class.
    density: f64,
}

impl AgeClass {
    /// Share of the files in the class.
    fn share(&self) -> f64 {
        self.density * (self.end_hours - self.begin_hours)
    }
}

impl AgeDistribution {
    /// The ages of the profile.
    pub fn new() -> AgeDistribution {
        let total: f64 = AGE_CLASSES.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let (mut classes, mut begin_hours) = (Vec::<AgeClass>::new(), 0.0);
        for (end_hours, weight) in AGE_CLASSES {
            let density = f64::from(weight) / total / (end_hours - begin_hours);
            let mut class = AgeClass { begin_hours, end_hours, density };
            while let Some(before) = classes.pop_if(|before| before.density < class.density) {
                let share = before.share() + class.share();
                let begin_hours = before.begin_hours;
                class = AgeClass { begin_hours, density: share / (class.end_hours - begin_hours), ..class };
            }
            classes.push(class);
            begin_hours = end_hours;
        }
        AgeDistribution { classes }
    }

    /// The mean lifetime of a file in hours: the number of files divided by the files that are created in an hour.
    pub fn mean_lifetime_hours(&self) -> f64 {
        1.0 / self.classes[0].density
    }

    /// Draws how many more hours an existing file lives. These times have the same distribution as the ages.
    pub fn draw_remaining_hours(&self, rng: &mut impl Rng) -> f64 {
        let mut remaining = rng.random::<f64>();
        for class in &self.classes {
            if remaining < class.share() {
                return class.begin_hours + remaining / class.density;
            }
            remaining -= class.share();
        }
        self.classes.last().map_or(0.0, |class| class.end_hours)
    }

    /// Draws how many hours a new file lives. The share of survivors is proportional to the density, so it falls only
    /// where a class ends; the deaths there are spread by ±25%.
    pub fn draw_lifetime_hours(&self, rng: &mut impl Rng) -> f64 {
        let density_at_death = rng.random::<f64>() * self.classes[0].density;
        let last_class =
            self.classes.iter().rfind(|class| class.density > density_at_death).unwrap_or(&self.classes[0]);
        last_class.end_hours * rng.random_range(0.75..1.25)
    }
}

/// The directories of the profile. They are numbered from 0, by depth.
pub struct DirectoryTree {
    /// The number of each directory's parent. The first directory is the top, and its own parent.
    pub parents: Vec<usize>,
    /// The range of the numbers of the directories at each depth from 1.
    ranges_by_depth: Vec<std::ops::Range<usize>>,
}

impl DirectoryTree {
    /// Draws the parent of each directory: a random directory of the depth above it.
    pub fn draw(rng: &mut impl Rng) -> DirectoryTree {
        let (mut parents, mut ranges_by_depth) = (vec![], Vec::<std::ops::Range<usize>>::new());
        for count in DIRECTORIES_BY_DEPTH {
            let start = parents.len();
            for _ in 0..count {
                let possible_parents = ranges_by_depth.last().cloned().unwrap_or(0..1);
                parents.push(rng.random_range(possible_parents));
            }
            ranges_by_depth.push(start..parents.len());
        }
        DirectoryTree { parents, ranges_by_depth }
    }

    /// Draws the number of the directory of a new file.
    pub fn draw_directory(&self, rng: &mut impl Rng) -> usize {
        let depth = draw_class(rng, &FILE_WEIGHTS_BY_DEPTH);
        rng.random_range(self.ranges_by_depth[depth].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha8Rng;
    use rand::SeedableRng;

    #[test]
    fn sizes_have_the_median_of_the_profile() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut sizes: Vec<u64> = (0..20_000).map(|_| draw_file_bytes(&mut rng, u64::MAX)).collect();
        sizes.sort_unstable();
        // 114 of 230 files are in the classes to 2048 bytes.
        assert!((1900..2250).contains(&sizes[10_000]), "{}", sizes[10_000]);
        assert!(sizes[0] >= 1 && sizes[19_999] <= 8 << 20);
        let mean = sizes.iter().sum::<u64>() as f64 / 20_000.0;
        // Within a class from b/4 to b the mean is 3b/(4 ln 4), so 62 kB in all.
        assert!((55_000.0..69_000.0).contains(&mean), "{mean}");
    }

    #[test]
    fn lifetimes_lead_to_the_ages_of_the_profile() {
        let (ages, mut rng) = (AgeDistribution::new(), ChaCha8Rng::seed_from_u64(2));
        // 31 of 464 files are younger than 240 hours, and the density falls from there on.
        assert!((ages.mean_lifetime_hours() - 240.0 * 464.0 / 31.0).abs() < 1.0, "{}", ages.mean_lifetime_hours());
        let lifetimes: Vec<f64> = (0..40_000).map(|_| ages.draw_lifetime_hours(&mut rng)).collect();
        let total: f64 = lifetimes.iter().sum();
        assert!((total / 40_000.0 / ages.mean_lifetime_hours() - 1.0).abs() < 0.02, "{}", total / 40_000.0);
        // A file of lifetime L has, at a random moment of its life, an age below a with probability min(a, L)/L.
        for (age, weight) in [(1945.59, 150.0), (5502.98, 294.0), (15_768.0, 440.0)] {
            let younger = lifetimes.iter().map(|lifetime| lifetime.min(age)).sum::<f64>() / total;
            let remaining_share =
                (0..40_000).filter(|_| ages.draw_remaining_hours(&mut rng) < age).count() as f64 / 40_000.0;
            let published = weight / 464.0;
            // Deaths are spread around the end of a class, which makes the oldest class older.
            assert!((younger - published).abs() < 0.04, "{age} hours: {younger}, published {published}");
            assert!(
                (remaining_share - published).abs() < 0.01,
                "{age} hours: {remaining_share}, published {published}"
            );
        }
    }
}
