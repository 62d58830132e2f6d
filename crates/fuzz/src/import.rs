//! Targets for importing the figures of other tools, and for scaling curves.

use crate::support::assert_sensible;
use fsarena_report::{compare::compare_samples, import, scaling};

/// Imports figures in a format, or with `None` in the format that the importer detects, and checks that all are finite.
pub fn samples(bytes: &[u8], format: Option<&str>) {
    match import::parse("a file", bytes, format) {
        Err(error) => assert_sensible(&error, bytes),
        Ok(samples) => {
            let mut values = samples.series.iter().flat_map(|series| &series.values);
            assert!(values.clone().next().is_some() && values.all(|value| value.is_finite()));
            for mean in
                samples.series.iter().flat_map(|series| &series.rounds).flat_map(|rounds| rounds.values())
            {
                assert!(mean.is_finite(), "the mean of a round");
            }
            let _ = compare_samples(&samples, &samples, None, 0.01);
        }
    }
}

/// Reads a file of scaling curves, and checks that no number is infinite.
pub fn curves(bytes: &[u8]) {
    match scaling::file::read("curves.csv", bytes) {
        Err(error) => assert_sensible(&error, bytes),
        Ok(curves) => {
            for curve in curves.series {
                // NaN is allowed: it stands for a round without a figure.
                assert!(!curve.n.iter().chain(curve.x.iter().flatten()).any(|number| number.is_infinite()));
            }
        }
    }
}
