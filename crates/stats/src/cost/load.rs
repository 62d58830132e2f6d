//! Checks whether two services had comparable load.

/// Loads that lie within this share of their middle count as one load.
const SAME: f64 = 0.1;
/// What ranges must share at least.
pub const LEAST: f64 = 0.5;

/// The loads that two services both had, and how much of their ranges that is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overlap {
    /// The part of the wider range that lies in both, from 0 to 1; 1 where all loads are practically one.
    pub share: f64,
    /// The middle of what both had: the load at which they can be compared.
    pub middle: f64,
}

impl Overlap {
    /// Of the loads of two services. None where one has none.
    pub fn of(a: &[f64], b: &[f64]) -> Option<Overlap> {
        let range = |loads: &[f64]| {
            let low = loads.iter().copied().reduce(f64::min)?;
            Some((low, loads.iter().copied().reduce(f64::max)?))
        };
        let ((low_a, high_a), (low_b, high_b)) = (range(a)?, range(b)?);
        let (low, high) = (low_a.max(low_b), high_a.min(high_b));
        let (least, most) = (low_a.min(low_b), high_a.max(high_b));
        let middle = (low + high) / 2.0;
        let wider = (high_a - low_a).max(high_b - low_b);
        let share = match () {
            () if most - least <= SAME * (most + least) / 2.0 => 1.0,
            () if wider > 0.0 => ((high - low) / wider).max(0.0),
            () => 0.0,
        };
        Some(Overlap { share, middle })
    }

    /// Whether there is enough of it to compare.
    pub fn enough(&self) -> bool {
        self.share >= LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_share_what_both_had() {
        let half = Overlap::of(&[10.0, 30.0], &[20.0, 40.0]).unwrap();
        assert_eq!((half.share, half.middle, half.enough()), (0.5, 25.0, true));
        let less = Overlap::of(&[10.0, 30.0], &[21.0, 40.0]).unwrap();
        assert!(!less.enough());
        assert_eq!(Overlap::of(&[10.0, 20.0], &[30.0, 40.0]).unwrap().share, 0.0);
        // A narrow range within a wide one: the wide one was mostly elsewhere.
        assert!(!Overlap::of(&[10.0, 12.0], &[10.0, 100.0]).unwrap().enough());
        assert_eq!(Overlap::of(&[], &[1.0]), None);
    }

    #[test]
    fn equal_loads_overlap_though_they_have_no_range() {
        assert!(Overlap::of(&[100.0, 100.0], &[100.0, 100.0]).unwrap().enough());
        assert!(Overlap::of(&[99.0, 100.0], &[101.0, 102.0]).unwrap().enough());
        assert!(!Overlap::of(&[100.0], &[200.0]).unwrap().enough());
    }
}
