//! Analysis of paired differences at one look: the estimate and its repeated confidence intervals.

use crate::{select::Multiset, sign, table, walsh::Walsh};

/// The centre θ of paired log ratios, as known after some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Centre {
    /// The Hodges–Lehmann estimate.
    pub estimate: f64,
    /// The 95% interval; it may be looked at at every look of [`crate::table`].
    pub wide: (f64, f64),
    /// The 90% interval: for equivalence, both of whose one-sided tests then err 5% of the time.
    pub narrow: (f64, f64),
    /// The median of d and its 95% interval by the sign test, at this look alone.
    pub median: (f64, (f64, f64)),
    /// The number of differences.
    pub rounds: usize,
    /// Too few rounds for an exact interval: all intervals are the extremes that were seen.
    pub provisional: bool,
}

impl Centre {
    /// Judges paired log ratios. None where there is none, or one is not finite.
    pub fn of(d: &[f64]) -> Option<Centre> {
        let walsh = Walsh::new(d.to_vec())?;
        let extremes = walsh.extremes();
        let look = table::at(d.len());
        let interval = |c: Option<usize>| c.map_or(extremes, |c| walsh.interval(c));
        Some(Centre {
            estimate: walsh.estimate(),
            wide: interval(look.map(|look| look.c05)),
            narrow: interval(look.map(|look| look.c10)),
            median: sign::interval(d)?,
            rounds: d.len(),
            provisional: look.is_none(),
        })
    }

    /// Whether the rounds are not alike to both sides: the interval of the median leaves out the
    /// Hodges–Lehmann estimate, or the interval of that leaves out the median. For symmetric d both
    /// estimate the same centre.
    pub fn shapes_differ(&self) -> bool {
        let (median, by_sign) = self.median;
        !self.provisional && (!holds(by_sign, self.estimate) || !holds(self.wide, median))
    }
}

/// Whether the interval [w_(c+1), w_(M−c)] lies wholly above θ. Counting is cheaper than finding the ends.
pub(crate) fn lies_above(walsh: &Walsh, c: usize, theta: f64) -> bool {
    walsh.count(theta) <= c
}

/// Whether it lies wholly below θ.
pub(crate) fn lies_below(walsh: &Walsh, c: usize, theta: f64) -> bool {
    walsh.count(theta.next_down()) >= walsh.len() - c
}

fn holds((low, high): (f64, f64), value: f64) -> bool {
    low <= value && value <= high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_rounds_by_hand() {
        // n = 10: c(.05) = 1, c(.10) = 3. Walsh averages of 1…10: 1, 1.5, 2, 2, 2.5, …
        let d: Vec<f64> = (1..=10).map(f64::from).collect();
        let centre = Centre::of(&d).unwrap();
        assert_eq!((centre.estimate, centre.wide, centre.narrow), (5.5, (1.5, 9.5), (2.0, 9.0)));
        assert!(!centre.provisional && !centre.shapes_differ());
    }

    #[test]
    fn counting_says_what_the_interval_says() {
        let d: Vec<f64> = (0..30).map(|i| f64::from(i * i % 31) / 4.0).collect();
        let walsh = Walsh::new(d).unwrap();
        for c in [0, 10, 99, 200] {
            let (low, high) = walsh.interval(c);
            for theta in (-8..80).map(|i| f64::from(i) / 8.0) {
                assert_eq!(lies_above(&walsh, c, theta), low > theta, "{c} {theta}");
                assert_eq!(lies_below(&walsh, c, theta), high < theta, "{c} {theta}");
            }
        }
    }

    #[test]
    fn seven_rounds_are_provisional() {
        let centre = Centre::of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert!(centre.provisional && centre.wide == (1.0, 7.0) && centre.narrow == (1.0, 7.0));
        assert_eq!(Centre::of(&[]), None);
        assert_eq!(Centre::of(&[f64::NAN]), None);
    }

    #[test]
    fn a_skewed_sample_is_said_to_be() {
        // Two thirds of the rounds at 0, one third spread far out: the median is 0, the centre is not.
        let d: Vec<f64> = (0..60).map(|i| if i % 3 == 0 { 1.0 + f64::from(i) } else { 0.0 }).collect();
        assert!(Centre::of(&d).unwrap().shapes_differ());
    }
}
