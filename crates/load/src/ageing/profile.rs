//! The profile of file sizes, file ages and directories that churn reproduces.
//!
//! Source: the profile `agrawal` of Geriatrix (Kadekodi, Nagarajan, Ganger: "Geriatrix: Aging what you see and what you don't
//! see", USENIX ATC 2018), which has the distributions of Agrawal, Bolosky, Douceur, Lorch: "A Five-Year Study of File-System
//! Metadata", FAST 2007: 60,000 filesystems of Windows desktops.

use rand::{Rng, RngExt};

/// Upper bounds of classes of file sizes in bytes, and the weight of each class. A class begins at a quarter of its bound.
const SIZES: [(u64, u32); 11] = [
    (8, 1),
    (32, 7),
    (128, 16),
    (512, 40),
    (2048, 50),
    (8192, 46),
    (32_768, 35),
    (131_072, 20),
    (524_288, 10),
    (2_097_152, 4),
    (8_388_608, 1),
];

/// Upper bounds of classes of file ages in hours, and the weight of each class.
const AGES: [(f64, u32); 10] = [
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

/// For each depth from 1: the weight of the files there, and the number of directories.
const DEPTHS: [(u32, u32); 15] = [
    (1, 1),
    (2, 5),
    (14, 13),
    (15, 19),
    (23, 30),
    (24, 36),
    (42, 32),
    (22, 26),
    (15, 22),
    (12, 17),
    (7, 8),
    (4, 5),
    (3, 2),
    (2, 1),
    (1, 1),
];

/// Draws one of some classes by their weights.
fn draw_class(rng: &mut impl Rng, weights: impl Iterator<Item = u32> + Clone) -> usize {
    let mut left = rng.random_range(0..weights.clone().sum::<u32>());
    for (class, weight) in weights.enumerate() {
        if left < weight {
            return class;
        }
        left -= weight;
    }
    unreachable!("the number is below the sum of the weights")
}

/// Draws the size of a file in bytes: its class by weight, evenly by ln bytes within the class. At most `largest`.
pub fn draw_size(rng: &mut impl Rng, largest: u64) -> u64 {
    let (bound, _) = SIZES[draw_class(rng, SIZES.iter().map(|(_, weight)| *weight))];
    let bytes = bound as f64 * 4f64.powf(-rng.random::<f64>());
    (bytes.round() as u64).clamp(1, largest)
}

/// The ages of files, and the lifetimes that lead to them.
///
/// If files are created at a constant rate and the distribution of ages does not change, the density of ages is
/// proportional to the share of files that live at least so long. The density is constant within a class, except that classes
/// whose density rises with age are joined with those before them, because no lifetimes lead to a rising density.
pub struct Ages {
    /// For each class: where it begins and ends in hours, and its density per hour.
    classes: Vec<(f64, f64, f64)>,
}

impl Ages {
    /// The ages of the profile.
    pub fn new() -> Ages {
        let all: f64 = AGES.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let (mut classes, mut begin) = (Vec::<(f64, f64, f64)>::new(), 0.0);
        for (end, weight) in AGES {
            let mut class = (begin, end, f64::from(weight) / all / (end - begin));
            while let Some((before, middle, density)) = classes.pop_if(|before| before.2 < class.2) {
                let share = density * (middle - before) + class.2 * (class.1 - class.0);
                class = (before, class.1, share / (class.1 - before));
            }
            classes.push(class);
            begin = end;
        }
        Ages { classes }
    }

    /// The mean lifetime of a file in hours: the number of files divided by the files that are created in an hour.
    pub fn mean_lifetime(&self) -> f64 {
        1.0 / self.classes[0].2
    }

    /// Draws how many hours a file lives that already exists. These times are distributed as the ages.
    pub fn draw_rest(&self, rng: &mut impl Rng) -> f64 {
        let mut left = rng.random::<f64>();
        for (begin, end, density) in &self.classes {
            let share = density * (end - begin);
            if left < share {
                return begin + left / density;
            }
            left -= share;
        }
        self.classes.last().map_or(0.0, |class| class.1)
    }

    /// Draws how many hours a new file lives. The share of files that live on falls at the end of each class to the density of
    /// the next; the deaths are spread around that moment.
    pub fn draw_lifetime(&self, rng: &mut impl Rng) -> f64 {
        let survivors = rng.random::<f64>() * self.classes[0].2;
        let last = self.classes.iter().rfind(|class| class.2 > survivors).unwrap_or(&self.classes[0]);
        last.1 * rng.random_range(0.75..1.25)
    }
}

/// The directories of a profile, each with its parent, and which of them are at each depth.
pub struct Directories {
    /// The parent of each directory but the first, which is the top.
    pub parents: Vec<usize>,
    /// The directories at each depth from 1.
    depths: Vec<std::ops::Range<usize>>,
}

impl Directories {
    /// Draws a place for each directory below a random one of the depth above it.
    pub fn draw(rng: &mut impl Rng) -> Directories {
        let (mut parents, mut depths) = (vec![], Vec::<std::ops::Range<usize>>::new());
        for (_, count) in DEPTHS {
            let begin = parents.len();
            for _ in 0..count {
                let above = depths.last().cloned().unwrap_or(0..1);
                parents.push(rng.random_range(above));
            }
            depths.push(begin..parents.len());
        }
        Directories { parents, depths }
    }

    /// Draws the directory of a new file.
    pub fn draw_place(&self, rng: &mut impl Rng) -> usize {
        let depth = draw_class(rng, DEPTHS.iter().map(|(weight, _)| *weight));
        rng.random_range(self.depths[depth].clone())
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
        let mut sizes: Vec<u64> = (0..20_000).map(|_| draw_size(&mut rng, u64::MAX)).collect();
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
        let (ages, mut rng) = (Ages::new(), ChaCha8Rng::seed_from_u64(2));
        // 31 of 464 files are younger than 240 hours, and the density falls from there on.
        assert!((ages.mean_lifetime() - 240.0 * 464.0 / 31.0).abs() < 1.0, "{}", ages.mean_lifetime());
        let lifetimes: Vec<f64> = (0..40_000).map(|_| ages.draw_lifetime(&mut rng)).collect();
        let all: f64 = lifetimes.iter().sum();
        assert!((all / 40_000.0 / ages.mean_lifetime() - 1.0).abs() < 0.02, "{}", all / 40_000.0);
        // A file of lifetime L has, at a random moment of its life, an age below a with probability min(a, L)/L.
        for (age, weight) in [(1945.59, 150.0), (5502.98, 294.0), (15_768.0, 440.0)] {
            let younger = lifetimes.iter().map(|lifetime| lifetime.min(age)).sum::<f64>() / all;
            let rest = (0..40_000).filter(|_| ages.draw_rest(&mut rng) < age).count() as f64 / 40_000.0;
            let published = weight / 464.0;
            // Deaths are spread around the end of a class, which makes the oldest class older.
            assert!((younger - published).abs() < 0.04, "{age} hours: {younger}, published {published}");
            assert!((rest - published).abs() < 0.01, "{age} hours: {rest}, published {published}");
        }
    }
}
