//! How the cost of one unit of work grows with the amount of work: the law that it follows, where it bends, and the cost at up
//! to ten times the largest amount that was measured.

use super::Series;
use super::laws::{FittedLaw, Law, LawChoice, distinct_count, fit_power};
use super::least_squares::LinearFit;
use crate::average::{mean, variance};
use crate::ratio::Estimate;
use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

/// Costs are extrapolated up to this many times the largest measured amount.
pub const MAX_MULTIPLE: f64 = 10.0;
/// A change of the exponent below this counts as none: 0.1 is 26% more or less cost at ten times the amount.
pub const SLIGHT_CHANGE: f64 = 0.1;

/// The analysis of the cost of one unit over the amount of work.
#[derive(Debug, Clone)]
pub struct Growth {
    /// The cost of one unit at each amount.
    pub series: Series,
    /// The fitted laws. None if there are too few values for any.
    pub choice: Option<LawChoice>,
    /// Whether the growth changes within the data.
    pub bend: BendFinding,
    /// The cost beyond the data. None if no law was fitted, if there are fewer than four amounts, or if a law that may be right
    /// has so many parameters that the amounts leave fewer than two degrees of freedom.
    pub beyond: Option<Extrapolation>,
}

/// Whether the exponent of the growth changes within the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum BendFinding {
    /// It changes.
    Bends(Bend),
    /// It changes by less than [`SLIGHT_CHANGE`] at any amount, with 95% confidence.
    Straight,
    /// The data neither show a change nor exclude one.
    NotExcluded,
}

/// A change of the exponent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bend {
    /// The amount of work where the exponent changes, with its 95% interval.
    pub at: Estimate,
    /// The exponent before it.
    pub before: f64,
    /// The exponent after it.
    pub after: f64,
}

/// A cost beyond the data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extrapolation {
    /// The amount of work.
    pub amount: f64,
    /// The cost of one unit there, with a 95% interval that holds if nothing bends beyond the data.
    pub cost: Estimate,
}

/// Analyses one series of costs.
pub fn analyse_growth(series: Series) -> Growth {
    let points = series.points();
    let choice = LawChoice::among(&fit_growth_laws(&points), &points);
    let levels = Levels::of(&series);
    Growth {
        bend: levels.find_bend(choice.as_ref()),
        beyond: choice.as_ref().and_then(|choice| levels.extrapolate(choice, MAX_MULTIPLE)),
        choice,
        series,
    }
}

impl Growth {
    /// The costs from the largest amount to [`MAX_MULTIPLE`] times it, with their intervals, at `steps` equal ratios and the
    /// largest amount itself; empty where [`Growth::beyond`] is None.
    pub fn extrapolations(&self, steps: u32) -> Vec<Extrapolation> {
        let (Some(choice), levels) = (&self.choice, Levels::of(&self.series)) else { return vec![] };
        let at = |step: u32| levels.extrapolate(choice, MAX_MULTIPLE.powf(f64::from(step) / f64::from(steps)));
        (0..=steps).filter_map(at).collect()
    }
}

/// Fits every law of growth for which there are enough points: constant, power law, a fixed cost beside that of each unit,
/// logarithmic growth, and a power law that bends.
fn fit_growth_laws(points: &[(f64, f64)]) -> Vec<FittedLaw> {
    let distinct = distinct_count(points);
    if distinct < 3 {
        return vec![];
    }
    let level = mean(points.iter().map(|point| point.1)).exp();
    let first = points[0].0;
    let mut fits = vec![FittedLaw::of(Law::Constant { a: level }, points), fit_power(points)];
    fits.push(fit_by_profile(points, (1e-4 * first, 1e4 * first), |r, a| Law::Fixed { a, c: a * r }));
    fits.push(fit_by_profile(points, (1e-4, 1e4), |b, a| Law::Logarithm { a, b, first }));
    if distinct > 4 {
        fits.extend(fit_bend(points));
    }
    fits
}

/// The best of the laws that differ in one parameter and in the level `a`, the parameter within a range, by least squares.
fn fit_by_profile(points: &[(f64, f64)], range: (f64, f64), law: impl Fn(f64, f64) -> Law) -> FittedLaw {
    const STEPS: u32 = 160;
    let fit = |parameter: f64| {
        let shape = law(parameter, 1.0);
        let level = mean(points.iter().map(|(n, y)| y - shape.ln_at(*n)));
        FittedLaw::of(law(parameter, level.exp()), points)
    };
    let (low, high) = (range.0.ln(), range.1.ln());
    let width = (high - low) / f64::from(STEPS);
    let at = |step: f64| fit((low + width * step).exp());
    let best = (0..=STEPS).map(|step| (f64::from(step), at(f64::from(step))));
    let Some((mut centre, mut best)) = best.min_by(|a, b| a.1.rss.total_cmp(&b.1.rss)) else {
        return fit(0.0);
    };
    let mut reach = 0.5;
    while reach > 1e-4 {
        match [centre - reach, centre + reach].map(|step| (step, at(step))).into_iter().find(|f| f.1.rss < best.rss) {
            Some(better) => (centre, best) = better,
            None => reach /= 2.0,
        }
    }
    best
}

/// The power law that bends, by least squares. None if two amounts before or after the bend are the same.
fn fit_bend(points: &[(f64, f64)]) -> Option<FittedLaw> {
    let mut n: Vec<f64> = points.iter().map(|point| point.0).collect();
    n.dedup();
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(n, y)| (n.ln(), *y)).unzip();
    let (knee, fit) = best_knee(&n, &x, &y)?;
    let law = Law::Bend { a: fit.beta[0].exp(), b: fit.beta[1], knee: knee.exp(), after: fit.beta[2] };
    Some(FittedLaw::of(law, points))
}

/// The place of the bend with the least squares, and its fit.
fn best_knee(n: &[f64], x: &[f64], y: &[f64]) -> Option<(f64, LinearFit)> {
    let ends = (n[1].ln(), n[n.len() - 2].ln());
    let fit = |knee: f64| Some((knee, fit_at_knee(x, y, knee)?));
    let mut best = knees(n).filter_map(fit).min_by(|a, b| a.1.rss.total_cmp(&b.1.rss))?;
    let mut reach = (ends.1 - ends.0) / 64.0;
    while reach > 1e-6 {
        let beside = [best.0 - reach, best.0 + reach].into_iter().filter(|knee| (ends.0..=ends.1).contains(knee));
        match beside.filter_map(fit).find(|beside| beside.1.rss < best.1.rss) {
            Some(better) => best = better,
            None => reach /= 2.0,
        }
    }
    Some(best)
}

/// The logarithms of the amounts at which a power law may bend: 16 between any two amounts, from the second to the last but
/// one.
fn knees(n: &[f64]) -> impl Iterator<Item = f64> + '_ {
    const KNEES_BETWEEN: u32 = 16;
    n[1..n.len() - 1].windows(2).flat_map(|ends| {
        let step = (ends[1] / ends[0]).ln() / f64::from(KNEES_BETWEEN);
        (0..=KNEES_BETWEEN).map(move |at| ends[0].ln() + step * f64::from(at))
    })
}

/// A fit of ln Y = α + b·min(x, knee) + c·max(x − knee, 0), with x = ln N.
fn fit_at_knee(x: &[f64], y: &[f64], knee: f64) -> Option<LinearFit> {
    LinearFit::of(&x.iter().map(|x| row_at_knee(*x, knee)).collect::<Vec<_>>(), y)
}

fn row_at_knee(x: f64, knee: f64) -> Vec<f64> {
    vec![1.0, x.min(knee), (x - knee).max(0.0)]
}

/// The number of parameters of the curve of a power law that bends.
const BEND_PARAMETERS: usize = 4;

/// The means over rounds of ln Y at each amount. Intervals are computed from these, not from every value, so that the
/// deviation of the amounts from a law counts besides the noise of rounds.
struct Levels {
    n: Vec<f64>,
    x: Vec<f64>,
    y: Vec<f64>,
    /// What all amounts of a round have in common: the variance of its mean over rounds, and the number of rounds. 0 without
    /// rounds.
    round_variance: (f64, usize),
}

impl Levels {
    fn of(series: &Series) -> Levels {
        let y = series.means();
        let offset = |round: usize| {
            let known = series.x.iter().zip(&y).filter_map(|(x, mean)| {
                let x = x.get(round).filter(|x| !x.is_nan())?;
                Some(x.ln() - mean)
            });
            mean(known)
        };
        let rounds = if series.paired { series.rounds() } else { 0 };
        let offsets: Vec<f64> = (0..rounds).map(offset).filter(|offset| offset.is_finite()).collect();
        let between = if offsets.len() > 1 { variance(&offsets) / offsets.len() as f64 } else { 0.0 };
        let x = series.n.iter().map(|n| n.ln()).collect();
        Levels { n: series.n.clone(), x, y, round_variance: (between, offsets.len()) }
    }

    /// Degrees of freedom that a law with this many parameters leaves; None if it leaves none.
    fn degrees_of_freedom(&self, parameters: usize) -> Option<f64> {
        (self.y.len() > parameters).then(|| (self.y.len() - parameters) as f64)
    }

    /// The fit of a power law that bends at each amount, and the largest sum of squares that 95% confidence allows.
    fn bend_fits(&self) -> Option<(Vec<(f64, LinearFit)>, f64)> {
        let freedom = self.degrees_of_freedom(BEND_PARAMETERS)?;
        let at = |knee: f64| Some((knee, fit_at_knee(&self.x, &self.y, knee)?));
        let best = best_knee(&self.n, &self.x, &self.y);
        let fits: Vec<(f64, LinearFit)> = knees(&self.n).filter_map(at).chain(best).collect();
        let least = fits.iter().map(|(_, fit)| fit.rss).fold(f64::INFINITY, f64::min);
        let most = least * (1.0 + FisherSnedecor::new(1.0, freedom).ok()?.inverse_cdf(0.95) / freedom);
        Some((fits, most + f64::MIN_POSITIVE))
    }

    /// Whether the growth bends: the bent law is the winner and its change of the exponent significant; or the change is slight
    /// wherever it may be.
    fn find_bend(&self, choice: Option<&LawChoice>) -> BendFinding {
        let Some((fits, most)) = self.bend_fits() else { return BendFinding::NotExcluded };
        let freedom = self.degrees_of_freedom(BEND_PARAMETERS).unwrap_or(1.0);
        let change = |fit: &LinearFit, rss: f64| {
            let error = (rss / freedom * fit.leverage(&[0.0, -1.0, 1.0])).sqrt();
            let half = t_quantile(freedom) * error;
            let change = fit.beta[2] - fit.beta[1];
            (change - half, change + half)
        };
        if let Some(Law::Bend { b, knee, after, .. }) = choice.and_then(LawChoice::winner).map(|fit| fit.law) {
            let best = fits.iter().min_by(|a, b| a.1.rss.total_cmp(&b.1.rss));
            let is_certain = best.map(|(_, fit)| change(fit, fit.rss)).is_some_and(|(low, high)| low * high > 0.0);
            let possible_knees = || fits.iter().filter(|(_, fit)| fit.rss <= most).map(|(knee, _)| knee.exp());
            let (low, high) = (possible_knees().fold(knee, f64::min), possible_knees().fold(knee, f64::max));
            if is_certain {
                return BendFinding::Bends(Bend { at: Estimate { value: knee, low, high }, before: b, after });
            }
        }
        let is_slight = |(_, fit): &(f64, LinearFit)| {
            let (low, high) = change(fit, fit.rss);
            -SLIGHT_CHANGE < low && high < SLIGHT_CHANGE
        };
        if fits.iter().all(is_slight) { BendFinding::Straight } else { BendFinding::NotExcluded }
    }

    /// The cost at a multiple of the largest amount. Its interval has those of all laws that may be right.
    fn extrapolate(&self, choice: &LawChoice, multiple: f64) -> Option<Extrapolation> {
        if self.n.len() < 4 {
            return None;
        }
        let amount = multiple * self.n.last()?;
        let value = choice.fits.first()?.law.ln_at(amount);
        let (mut low, mut high) = (value, value);
        for fit in choice.contenders() {
            for (from, to) in self.prediction_intervals(&fit.law, amount)? {
                (low, high) = (low.min(from), high.max(to));
            }
        }
        let cost = Estimate { value: value.exp(), low: low.exp(), high: high.exp() };
        Some(Extrapolation { amount, cost })
    }

    /// The 95% prediction intervals of ln Y at an amount by one law; by a law that bends, for each place of the bend that the
    /// data allow. None if the amounts are too few for an interval of use.
    fn prediction_intervals(&self, law: &Law, amount: f64) -> Option<Vec<(f64, f64)>> {
        let freedom = self.degrees_of_freedom(law.curve_parameters()).filter(|freedom| *freedom >= 2.0)?;
        if let Law::Bend { .. } = law {
            let (fits, most) = self.bend_fits()?;
            let possible = fits.iter().filter(|(_, fit)| fit.rss <= most);
            let intervals = possible
                .map(|(knee, fit)| {
                    let row = row_at_knee(amount.ln(), *knee);
                    let centre = super::least_squares::dot_product(&row, &fit.beta);
                    self.prediction_interval(centre, fit.rss / freedom, fit.leverage(&row), freedom)
                })
                .collect();
            return Some(intervals);
        }
        let rows: Vec<Vec<f64>> = self.n.iter().map(|n| law.gradient(*n)).collect();
        let residuals: Vec<f64> = self.n.iter().zip(&self.y).map(|(n, y)| y - law.ln_at(*n)).collect();
        let fit = LinearFit::of(&rows, &residuals)?;
        let rss = residuals.iter().map(|residual| residual * residual).sum::<f64>();
        let leverage = fit.leverage(&law.gradient(amount));
        Some(vec![self.prediction_interval(law.ln_at(amount), rss / freedom, leverage, freedom)])
    }

    /// A 95% prediction interval around a value, from the variance of a residual with its degrees of freedom, and the leverage;
    /// the variance of rounds is added (Welch 1947, Satterthwaite 1946).
    fn prediction_interval(&self, centre: f64, residual: f64, leverage: f64, freedom: f64) -> (f64, f64) {
        let (between, rounds) = self.round_variance;
        let of_levels = residual * (1.0 + leverage);
        let parts = of_levels.powi(2) / freedom + between.powi(2) / (rounds.max(2) - 1) as f64;
        let freedom = if parts > 0.0 { (of_levels + between).powi(2) / parts } else { freedom };
        let half = t_quantile(freedom) * (of_levels + between).sqrt();
        (centre - half, centre + half)
    }
}

/// The 97.5% quantile of Student's t distribution.
fn t_quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::unreplicated;
    use super::*;

    fn growth_of(law: impl Fn(f64) -> f64) -> Growth {
        // A deviation of 0.1% that is not that of any law.
        let wobble = [1.001, 0.999, 1.0005, 0.9995, 1.0008, 0.9992, 1.0];
        let n = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6];
        analyse_growth(unreplicated(&n.into_iter().zip(wobble).map(|(n, off)| (n, law(n) * off)).collect::<Vec<_>>()))
    }

    #[test]
    fn a_power_law_is_extrapolated_and_does_not_bend() {
        let growth = growth_of(|n| 2.0 * n.powf(0.1));
        assert_eq!(growth.choice.unwrap().winner().unwrap().law.name(), "power law");
        assert_eq!(growth.bend, BendFinding::Straight);
        let beyond = growth.beyond.unwrap();
        assert_eq!(beyond.amount, 1e7);
        let truth = 2.0 * 1e7f64.powf(0.1);
        assert!(beyond.cost.low < truth && truth < beyond.cost.high, "{beyond:?}");
        assert!(beyond.cost.high / beyond.cost.low < 1.05, "{beyond:?}");
    }

    #[test]
    fn extrapolations_reach_from_the_last_amount_to_ten_times_it_and_widen() {
        let growth = growth_of(|n| 2.0 * n.powf(0.1));
        let ahead = growth.extrapolations(8);
        assert_eq!((ahead.len(), ahead[0].amount, ahead[8]), (9, 1e6, growth.beyond.unwrap()));
        let widths: Vec<f64> = ahead.iter().map(|at| at.cost.high / at.cost.low).collect();
        assert!(widths.is_sorted(), "{widths:?}");
        assert!(analyse_growth(unreplicated(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)])).extrapolations(8).is_empty());
    }

    #[test]
    fn a_fixed_cost_and_a_logarithm_are_recognised() {
        let law = |growth: &Growth| growth.choice.as_ref().unwrap().fits[0].law;
        let Law::Fixed { a, c } = law(&growth_of(|n| 5.0 + 20_000.0 / n)) else { panic!("not a fixed cost") };
        assert!((a - 5.0).abs() < 0.05 && (c / 20_000.0 - 1.0).abs() < 0.01, "{a} {c}");
        let Law::Logarithm { a, b, .. } = law(&growth_of(|n| 5.0 * (1.0 + 0.4 * (n / 1e3).ln()))) else {
            panic!("no logarithm")
        };
        assert!((a - 5.0).abs() < 0.05 && (b - 0.4).abs() < 0.01, "{a} {b}");
        assert_eq!(law(&growth_of(|_| 3.0)).name(), "constant");
    }

    #[test]
    fn a_bend_has_its_place_and_its_exponents() {
        let rows: Vec<(f64, u32, f64)> = (0..4u32)
            .flat_map(|round| {
                [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6].map(|n: f64| {
                    let noise = 1.0 + 0.001 * (f64::from(round) - 1.5) * (n.ln() % 1.0 - 0.5);
                    (n, round, 3.0 * n.powf(0.05) * (n / 5e4).max(1.0).powf(0.5) * noise)
                })
            })
            .collect();
        let growth = analyse_growth(Series::new("s", &rows).unwrap());
        let BendFinding::Bends(bend) = growth.bend else { panic!("{growth:?}") };
        assert!((bend.at.value / 5e4 - 1.0).abs() < 0.01 && bend.at.high / bend.at.low < 1.5, "{bend:?}");
        assert!((bend.before - 0.05).abs() < 0.01 && (bend.after - 0.55).abs() < 0.01, "{bend:?}");
        let truth = 3.0 * 1e7f64.powf(0.05) * 200f64.powf(0.5);
        let cost = growth.beyond.unwrap().cost;
        assert!(cost.low < truth && truth < cost.high, "{cost:?} {truth}");
    }

    #[test]
    fn three_amounts_without_rounds_exclude_no_bend() {
        let growth = analyse_growth(unreplicated(&[(1e7, 10.9), (1e8, 62.3), (1e9, 62.4)]));
        assert_eq!((growth.bend, growth.beyond), (BendFinding::NotExcluded, None));
        assert!(growth.choice.is_none());
    }
}
