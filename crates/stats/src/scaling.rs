//! Scaling of throughput with clients: the law that it follows, where it saturates, where it peaks, and the share
//! of the peak that remains at the most clients.

pub mod choice;
pub mod law;
pub mod laws;
pub mod peak;
pub mod saturation;
pub mod series;
mod usl;

use crate::ratio::Estimate;
use choice::Choice;
use peak::Peak;
use saturation::Saturation;
use series::Series;

/// All findings about one series.
#[derive(Debug, Clone)]
pub struct Scaling {
    /// The name of the series.
    pub series: Series,
    /// The laws that were fitted. None where the points are too few for any.
    pub choice: Option<Choice>,
    /// Where more clients stop paying. None where no number and its double were measured.
    pub saturation: Option<Saturation>,
    /// The highest throughput, and what is left of it at the end.
    pub peak: Peak,
    /// The peak of the fitted USL, where that has been chosen and has one.
    pub modelled_peak: Option<Estimate>,
}

/// Analyses one series. The same series and seed give the same intervals.
pub fn analyse(series: Series, seed: u64) -> Scaling {
    let choice = Choice::of(&series);
    let usl = choice.as_ref().and_then(Choice::winner).is_some_and(|fit| fit.law.peak().is_some());
    Scaling {
        saturation: Saturation::of(&series),
        peak: Peak::of(&series, seed),
        modelled_peak: usl.then(|| peak::modelled(&series, seed)).flatten(),
        choice,
        series,
    }
}
