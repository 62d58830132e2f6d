//! A number with its confidence interval.

use crate::ratio::Ratio;
use serde::Serialize;

/// A number and the ends of its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<Ratio> for Estimate {
    fn from(Ratio { value, low, high, .. }: Ratio) -> Estimate {
        Estimate { value, low, high }
    }
}

impl Estimate {
    /// An interval that is symmetric on a logarithmic scale.
    pub(crate) fn times(value: f64, reach: f64) -> Estimate {
        Estimate { value, low: value / reach, high: value * reach }
    }

    /// Whether the interval lies on one side of a value.
    pub fn excludes(&self, value: f64) -> bool {
        self.low > value || self.high < value
    }
}
