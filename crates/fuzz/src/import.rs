//! Figures of other tools, and curves.

use crate::room::sensible;
use fsarena_report::{compare::compare_samples, import, scaling};

/// Figures in a format, or in whichever they are.
pub fn samples(bytes: &[u8], format: Option<&str>) {
    match import::parse("a file", bytes, format) {
        Err(error) => sensible(&error, bytes),
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

pub fn curves(bytes: &[u8]) {
    match scaling::file::read("curves.csv", bytes) {
        Err(error) => sensible(&error, bytes),
        Ok(curves) => {
            for curve in curves.series {
                // A round without a figure has no number.
                assert!(!curve.n.iter().chain(curve.x.iter().flatten()).any(|number| number.is_infinite()));
            }
        }
    }
}
