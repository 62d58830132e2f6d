//! Which law: AICc between them, and whether the winner fits at all.

use super::laws::{self, Fitted, Law, distinct};
use super::series::Series;
use crate::average::squares;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// A law is named the winner only where the next is this much behind it in AICc.
pub const DECISIVE: f64 = 4.0;
/// A law whose lack of fit has a smaller p-value does not describe the curve.
pub const MISFIT: f64 = 0.01;
/// Printed values have no more than this many digits, so no residual means anything below it.
const RESOLUTION: f64 = 1e-9;

/// A fitted law and how well it does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fit {
    /// The law.
    pub law: Law,
    /// The sum of squared residuals of ln X.
    pub rss: f64,
    /// The share of the variance of ln X that it explains. It proves nothing: a power law reaches 0.92 on data
    /// that follow another law.
    pub r_squared: f64,
    /// AICc = n·ln(RSS/n) + 2k + 2k(k+1)/(n−k−1) (Hurvich and Tsai 1989).
    pub aicc: f64,
    /// Whether what it leaves is more than replicates differ among themselves. None without replicates.
    pub lack: Option<Lack>,
}

/// Lack of fit against pure error: F = [(RSS − SSPE)/(d − p)] / [SSPE/(n − d)], with d numbers of clients, p
/// parameters of the curve, n points (Draper and Smith 1998, 2.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lack {
    /// The statistic.
    pub f: f64,
    /// The probability of as much where the law is right.
    pub p: f64,
}

/// All laws, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    /// The fits by rising AICc.
    pub fits: Vec<Fit>,
}

impl Choice {
    /// Fits every law that the points can carry. None where they carry none.
    pub fn of(series: &Series) -> Option<Choice> {
        let points = series.points();
        let mut fits: Vec<Fit> = laws::all(&points).iter().filter_map(|fit| judged(fit, &points)).collect();
        fits.sort_by(|a, b| a.aicc.total_cmp(&b.aicc));
        (!fits.is_empty()).then_some(Choice { fits })
    }

    /// The law that the data choose.
    pub fn winner(&self) -> Option<&Fit> {
        let next = self.fits.get(1).map_or(f64::INFINITY, |next| next.aicc);
        self.fits.first().filter(|first| next - first.aicc >= DECISIVE)
    }

    /// The laws between which the data do not choose; one where they do.
    pub fn contenders(&self) -> Vec<&Fit> {
        let best = self.fits[0].aicc;
        self.fits.iter().filter(|fit| fit.aicc - best < DECISIVE).collect()
    }
}

fn judged(fit: &Fitted, points: &[(f64, f64)]) -> Option<Fit> {
    let (n, k) = (points.len() as f64, fit.law.parameters() as f64);
    if n - k - 1.0 <= 0.0 {
        return None;
    }
    let rss = fit.rss.max(n * RESOLUTION * RESOLUTION);
    let total = squares(points.iter().map(|p| p.1));
    Some(Fit {
        law: fit.law,
        rss: fit.rss,
        r_squared: if total > 0.0 { 1.0 - fit.rss / total } else { f64::NAN },
        aicc: n * (rss / n).ln() + 2.0 * k + 2.0 * k * (k + 1.0) / (n - k - 1.0),
        lack: lack(fit, points),
    })
}

fn lack(fit: &Fitted, points: &[(f64, f64)]) -> Option<Lack> {
    let (n, d, p) = (points.len(), distinct(points), fit.law.shape());
    // How much replicates differ from their own mean.
    let pure: f64 = points.chunk_by(|a, b| a.0 == b.0).map(|group| squares(group.iter().map(|p| p.1))).sum();
    if n <= d || d <= p || pure <= 0.0 {
        return None;
    }
    let (above, below) = ((d - p) as f64, (n - d) as f64);
    let f = ((fit.rss - pure).max(0.0) / above) / (pure / below);
    Some(Lack { f, p: FisherSnedecor::new(above, below).ok()?.sf(f) })
}

#[cfg(test)]
mod tests;
