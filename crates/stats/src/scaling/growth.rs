//! How the cost of one unit of work grows with the amount of work: the law that it follows, where it bends, and the cost at up
//! to ten times the largest amount that was measured.

use super::Series;
use super::laws::{FittedLaw, Law, LawChoice, distinct_numbers, fit_power};
use crate::average::{mean, variance};
use crate::cost::{t_quantile, welch_degrees_of_freedom};
use crate::ratio::Estimate;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// Costs are extrapolated up to this many times the largest measured amount.
pub const MAX_MULTIPLE: f64 = 10.0;
/// A change of the exponent below this counts as none: +0.1 is 26% more cost at ten times the amount, −0.1 is 21% less.
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
    /// The cost at [`MAX_MULTIPLE`] times the largest amount. None if no law was fitted, if there are fewer than four
    /// amounts, or if a law that may be right leaves fewer than two degrees of freedom (amounts minus parameters).
    pub extrapolation: Option<Extrapolation>,
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
    pub amount: Estimate,
    /// The exponent before it.
    pub exponent_before: f64,
    /// The exponent after it.
    pub exponent_after: f64,
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
    let choice = LawChoice::compare(&fit_growth_laws(&points), &points);
    let means = AmountMeans::from_series(&series);
    Growth {
        bend: means.find_bend(choice.as_ref()),
        extrapolation: choice.as_ref().and_then(|choice| means.extrapolate(choice, MAX_MULTIPLE)),
        choice,
        series,
    }
}

impl Growth {
    /// The costs at the largest amount and at `steps` further amounts up to [`MAX_MULTIPLE`] times the largest, with their
    /// intervals. Each amount is the same multiple of the one before. Empty if [`Growth::extrapolation`] is None.
    pub fn extrapolations(&self, steps: u32) -> Vec<Extrapolation> {
        let Some(choice) = &self.choice else { return vec![] };
        let means = AmountMeans::from_series(&self.series);
        let at_step = |step: u32| means.extrapolate(choice, MAX_MULTIPLE.powf(f64::from(step) / f64::from(steps)));
        (0..=steps).filter_map(at_step).collect()
    }
}

/// Fits every law of growth for which there are enough points: constant, power law, a fixed cost in addition to the cost of each
/// unit, logarithmic growth, and a power law that bends.
/// The points are (N, ln Y) of amounts N and costs Y, sorted by amount.
fn fit_growth_laws(points: &[(f64, f64)]) -> Vec<FittedLaw> {
    let distinct = distinct_numbers(points).len();
    if distinct < 3 {
        return vec![];
    }
    let level = mean(points.iter().map(|point| point.1)).exp();
    let first = points[0].0;
    let mut fits = vec![FittedLaw::new(Law::Constant { a: level }, points), fit_power(points)];
    fits.push(fit_by_profile(points, (1e-4 * first, 1e4 * first), |r, a| Law::Fixed { a, c: a * r }));
    fits.push(fit_by_profile(points, (1e-4, 1e4), |b, a| Law::Logarithm { a, b, first }));
    if distinct > 4 {
        fits.extend(fit_bend(points));
    }
    fits
}

/// Fits a law with one parameter besides the level `a`, by least squares. `law(parameter, a)` makes the law.
/// Searches the parameter in `range` on a logarithmic grid, then in ever smaller steps around the best grid value.
fn fit_by_profile(points: &[(f64, f64)], range: (f64, f64), law: impl Fn(f64, f64) -> Law) -> FittedLaw {
    const GRID_STEPS: u32 = 160;
    let fit = |parameter: f64| {
        // The best level for a parameter needs no search: ln Y is the sum of ln a and of a term without it.
        let shape = law(parameter, 1.0);
        let level = mean(points.iter().map(|(n, y)| y - shape.ln_at(*n)));
        FittedLaw::new(law(parameter, level.exp()), points)
    };
    let (low, high) = (range.0.ln(), range.1.ln());
    let grid_step = (high - low) / f64::from(GRID_STEPS);
    // Positions are in steps of the grid.
    let fit_at = |position: f64| fit((low + grid_step * position).exp());
    let grid_fits = (0..=GRID_STEPS).map(|step| (f64::from(step), fit_at(f64::from(step))));
    let best = grid_fits.min_by(|a, b| a.1.rss.total_cmp(&b.1.rss));
    // The grid is never empty.
    let Some(best) = best else { return fit_at(0.0) };
    refine(best, (0.5, 1e-4), |position| Some(fit_at(position)), |fit| fit.rss).1
}

/// Improves a fit by its parameter; `best` has the parameter and the fit to start from.
/// Tries one step below and above the parameter, and halves the step if neither has a smaller sum of squares (`rss`).
/// The search ends below `min_step`.
fn refine<Fit>(
    mut best: (f64, Fit),
    (mut step, min_step): (f64, f64),
    fit_at: impl Fn(f64) -> Option<Fit>,
    rss: fn(&Fit) -> f64,
) -> (f64, Fit) {
    while step > min_step {
        let parameters = [best.0 - step, best.0 + step].into_iter();
        let mut neighbours = parameters.filter_map(|parameter| Some((parameter, fit_at(parameter)?)));
        match neighbours.find(|(_, fit)| rss(fit) < rss(&best.1)) {
            Some(better) => best = better,
            None => step /= 2.0,
        }
    }
    best
}

/// Fits the power law that bends to points (N, ln Y), by least squares. None if no place of the bend allows a fit.
/// The points must be sorted by amount.
fn fit_bend(points: &[(f64, f64)]) -> Option<FittedLaw> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(n, y)| (n.ln(), *y)).unzip();
    let (knee, fit) = best_knee(&distinct_numbers(points), &x, &y)?;
    let law = Law::Bend { a: fit.beta[0].exp(), b: fit.beta[1], c: fit.beta[2], knee: knee.exp() };
    Some(FittedLaw::new(law, points))
}

/// The logarithm of the amount at which a bend gives the least sum of squares, and the fit with this bend. `n` has the distinct
/// amounts, and each point has x = ln N and y = ln Y.
fn best_knee(n: &[f64], x: &[f64], y: &[f64]) -> Option<(f64, LinearFit)> {
    let ends = (n[1].ln(), n[n.len() - 2].ln());
    let fit = |knee: f64| Some((knee, fit_at_knee(x, y, knee)?));
    let best = candidate_knees(n).filter_map(fit).min_by(|a, b| a.1.rss.total_cmp(&b.1.rss))?;
    let fit_between_ends = |knee: f64| {
        if (ends.0..=ends.1).contains(&knee) { fit_at_knee(x, y, knee) } else { None }
    };
    Some(refine(best, ((ends.1 - ends.0) / 64.0, 1e-6), fit_between_ends, |fit| fit.rss))
}

/// The logarithms of the amounts at which a bend is tried: each amount from the second to the last but one, and 15
/// values in equal steps between neighbours.
fn candidate_knees(n: &[f64]) -> impl Iterator<Item = f64> + '_ {
    const STEPS_BETWEEN: u32 = 16;
    n[1..n.len() - 1].windows(2).flat_map(|ends| {
        let step = (ends[1] / ends[0]).ln() / f64::from(STEPS_BETWEEN);
        (0..=STEPS_BETWEEN).map(move |index| ends[0].ln() + step * f64::from(index))
    })
}

/// A fit of ln Y = α + b·min(x, knee) + c·max(x − knee, 0), with x = ln N.
/// None if the points do not determine α, b and c.
fn fit_at_knee(x: &[f64], y: &[f64], knee: f64) -> Option<LinearFit> {
    LinearFit::fit(&x.iter().map(|x| row_with_knee(*x, knee)).collect::<Vec<_>>(), y)
}

/// The factors of α, b and c in [`fit_at_knee`] for one x: a row of the matrix X of [`LinearFit`].
fn row_with_knee(x: f64, knee: f64) -> Vec<f64> {
    vec![1.0, x.min(knee), (x - knee).max(0.0)]
}

/// The number of parameters of a power law that bends: α, b, c and the knee.
const BEND_PARAMETERS: usize = 4;

/// The means over rounds of ln Y at each amount. Intervals are computed from these means, not from every value, so that they
/// include the deviations of the amounts from a law and not only the noise of rounds.
struct AmountMeans {
    /// The amounts N.
    n: Vec<f64>,
    /// ln N.
    x: Vec<f64>,
    /// The mean of ln Y.
    y: Vec<f64>,
    /// The variance that rounds add to every mean: that of the mean effect of rounds. The effect of a round is the mean
    /// of its deviations from `y`. 0 with fewer than two rounds.
    round_variance: f64,
    /// The number of rounds; 0 if the series is not paired.
    rounds: usize,
}

impl AmountMeans {
    fn from_series(series: &Series) -> AmountMeans {
        let y = series.log_means();
        let round_effect = |round: usize| {
            let known = series.x.iter().zip(&y).filter_map(|(x, mean)| {
                let x = x.get(round).filter(|x| !x.is_nan())?;
                Some(x.ln() - mean)
            });
            mean(known)
        };
        let rounds = if series.paired { series.rounds() } else { 0 };
        let effects: Vec<f64> = (0..rounds).map(round_effect).filter(|effect| effect.is_finite()).collect();
        let round_variance = if effects.len() > 1 { variance(&effects) / effects.len() as f64 } else { 0.0 };
        let x = series.n.iter().map(|n| n.ln()).collect();
        AmountMeans { n: series.n.clone(), x, y, round_variance, rounds: effects.len() }
    }

    /// Degrees of freedom that a law with this many parameters leaves; None if it leaves none.
    fn degrees_of_freedom(&self, parameters: usize) -> Option<f64> {
        (self.y.len() > parameters).then(|| (self.y.len() - parameters) as f64)
    }

    /// The fits of a power law that bends, each after the logarithm of the amount at which it bends, and the largest
    /// sum of squares of a fit in the 95% confidence region. None if the law leaves no degree of freedom.
    fn bend_fits(&self) -> Option<(Vec<(f64, LinearFit)>, f64)> {
        let freedom = self.degrees_of_freedom(BEND_PARAMETERS)?;
        let fit = |knee: f64| Some((knee, fit_at_knee(&self.x, &self.y, knee)?));
        let best = best_knee(&self.n, &self.x, &self.y);
        let fits: Vec<(f64, LinearFit)> = candidate_knees(&self.n).filter_map(fit).chain(best).collect();
        let min_rss = fits.iter().map(|(_, fit)| fit.rss).fold(f64::INFINITY, f64::min);
        let max_rss = min_rss * (1.0 + FisherSnedecor::new(1.0, freedom).ok()?.inverse_cdf(0.95) / freedom);
        // Above 0, so that an exact fit is within its own region.
        Some((fits, max_rss + f64::MIN_POSITIVE))
    }

    /// Whether the growth bends. It does if the law that bends is the winner and its change of the exponent is significant. It
    /// is straight if the change of the exponent is slight at every amount, with 95% confidence.
    fn find_bend(&self, choice: Option<&LawChoice>) -> BendFinding {
        let Some((fits, max_rss)) = self.bend_fits() else { return BendFinding::NotExcluded };
        let Some(freedom) = self.degrees_of_freedom(BEND_PARAMETERS) else { return BendFinding::NotExcluded };
        let change_interval = |fit: &LinearFit| {
            let standard_error = (fit.rss / freedom * fit.leverage(&[0.0, -1.0, 1.0])).sqrt();
            let half_width = t_quantile(freedom).unwrap_or(f64::INFINITY) * standard_error;
            let change = fit.beta[2] - fit.beta[1];
            (change - half_width, change + half_width)
        };
        if let Some(Law::Bend { b, c, knee, .. }) = choice.and_then(LawChoice::winner).map(|fit| fit.law) {
            let best = fits.iter().min_by(|a, b| a.1.rss.total_cmp(&b.1.rss));
            let is_significant = best.map(|(_, fit)| change_interval(fit)).is_some_and(|(low, high)| low * high > 0.0);
            let possible_knees = || fits.iter().filter(|(_, fit)| fit.rss <= max_rss).map(|(knee, _)| knee.exp());
            let (low, high) = (possible_knees().fold(knee, f64::min), possible_knees().fold(knee, f64::max));
            if is_significant {
                let amount = Estimate { value: knee, low, high };
                return BendFinding::Bends(Bend { amount, exponent_before: b, exponent_after: c });
            }
        }
        let is_slight = |(_, fit): &(f64, LinearFit)| {
            let (low, high) = change_interval(fit);
            -SLIGHT_CHANGE < low && high < SLIGHT_CHANGE
        };
        if fits.iter().all(is_slight) { BendFinding::Straight } else { BendFinding::NotExcluded }
    }

    /// The cost at a multiple of the largest amount by the best law. Its interval covers the prediction intervals of all laws
    /// that may be right. None in the cases of [`Growth::extrapolation`].
    fn extrapolate(&self, choice: &LawChoice, multiple: f64) -> Option<Extrapolation> {
        if self.n.len() < 4 {
            return None;
        }
        let amount = multiple * self.n.last()?;
        let value = choice.fits.first()?.law.ln_at(amount);
        let (mut low, mut high) = (value, value);
        for fit in choice.contenders() {
            for (law_low, law_high) in self.prediction_intervals(&fit.law, amount)? {
                (low, high) = (low.min(law_low), high.max(law_high));
            }
        }
        let cost = Estimate { value: value.exp(), low: low.exp(), high: high.exp() };
        Some(Extrapolation { amount, cost })
    }

    /// The 95% prediction intervals of ln Y at an amount by one law. A law that bends has one interval for each place
    /// of the bend that the data allow; any other law has one.
    /// None if the amounts leave fewer than two degrees of freedom.
    fn prediction_intervals(&self, law: &Law, amount: f64) -> Option<Vec<(f64, f64)>> {
        let freedom = self.degrees_of_freedom(law.curve_parameters()).filter(|freedom| *freedom >= 2.0)?;
        if let Law::Bend { .. } = law {
            let (fits, max_rss) = self.bend_fits()?;
            let mut intervals = vec![];
            for (knee, fit) in fits.iter().filter(|(_, fit)| fit.rss <= max_rss) {
                let row = row_with_knee(amount.ln(), *knee);
                let centre = dot_product(&row, &fit.beta);
                intervals.push(self.prediction_interval(centre, fit.rss / freedom, fit.leverage(&row), freedom));
            }
            return Some(intervals);
        }
        // Not every law is linear in its parameters: the leverage is that of its linearisation at the fitted values.
        let rows: Vec<Vec<f64>> = self.n.iter().map(|n| law.gradient(*n)).collect();
        let residuals: Vec<f64> = self.n.iter().zip(&self.y).map(|(n, y)| y - law.ln_at(*n)).collect();
        let fit = LinearFit::fit(&rows, &residuals)?;
        let rss = residuals.iter().map(|residual| residual * residual).sum::<f64>();
        let leverage = fit.leverage(&law.gradient(amount));
        Some(vec![self.prediction_interval(law.ln_at(amount), rss / freedom, leverage, freedom)])
    }

    /// The 95% prediction interval around `centre`, from the leverage and from the variance of residuals with `freedom`
    /// degrees of freedom.
    /// Includes the variance of rounds, with the degrees of freedom of the sum (Welch 1947, Satterthwaite 1946).
    fn prediction_interval(&self, centre: f64, residual_variance: f64, leverage: f64, freedom: f64) -> (f64, f64) {
        let of_amounts = (residual_variance * (1.0 + leverage), freedom);
        let of_rounds = (self.round_variance, (self.rounds.max(2) - 1) as f64);
        let variance = of_amounts.0 + of_rounds.0;
        let combined = welch_degrees_of_freedom(of_amounts, of_rounds);
        // Not finite if the variances are so small that their squares are rounded to 0.
        let freedom = if combined.is_finite() { combined } else { freedom };
        let half_width = t_quantile(freedom).unwrap_or(f64::INFINITY) * variance.sqrt();
        (centre - half_width, centre + half_width)
    }
}

/// A linear model y = X·β, fitted by ordinary least squares.
#[derive(Debug, Clone)]
struct LinearFit {
    /// The parameters.
    beta: Vec<f64>,
    /// (XᵀX)⁻¹, from which the variance of a prediction follows.
    inverse: Vec<Vec<f64>>,
    /// The sum of the squared residuals.
    rss: f64,
}

impl LinearFit {
    /// Fits y = X·β by the normal equations; `rows` are the rows of X. None if the columns of X depend on each other.
    fn fit(rows: &[Vec<f64>], y: &[f64]) -> Option<LinearFit> {
        let columns = rows.first()?.len();
        let sum = |term: &dyn Fn(&Vec<f64>, f64) -> f64| rows.iter().zip(y).map(|(row, y)| term(row, *y)).sum::<f64>();
        let squares = (0..columns).map(|i| (0..columns).map(|j| sum(&|row, _| row[i] * row[j])).collect());
        let inverse = invert(squares.collect())?;
        let moments: Vec<f64> = (0..columns).map(|i| sum(&|row, y| row[i] * y)).collect();
        let beta: Vec<f64> = inverse.iter().map(|row| dot_product(row, &moments)).collect();
        let rss = sum(&|row, y| (y - dot_product(row, &beta)).powi(2));
        Some(LinearFit { beta, inverse, rss })
    }

    /// xᵀ(XᵀX)⁻¹x: the variance of x·β in units of the variance of a residual.
    fn leverage(&self, x: &[f64]) -> f64 {
        let weighted: Vec<f64> = self.inverse.iter().map(|row| dot_product(row, x)).collect();
        dot_product(&weighted, x)
    }
}

/// The scalar product.
fn dot_product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The inverse of XᵀX by Gauss and Jordan's method; such a matrix needs no exchange of rows. None if a column of X depends on the
/// columns before it.
fn invert(mut matrix: Vec<Vec<f64>>) -> Option<Vec<Vec<f64>>> {
    // A column depends on the columns before it if they explain all but this share of its sum of squares, which can be
    // due to rounding. A share, because squares depend on the unit: those of 1/N are tiny if N is in millions.
    const ROUNDING_SHARE: f64 = 1e-12;
    let size = matrix.len();
    for (i, row) in matrix.iter_mut().enumerate() {
        row.extend((0..size).map(|column| f64::from(u8::from(column == i))));
    }
    let sums_of_squares: Vec<f64> = (0..size).map(|i| matrix[i][i]).collect();
    for i in 0..size {
        let unexplained = matrix[i][i];
        if unexplained <= ROUNDING_SHARE * sums_of_squares[i] {
            return None;
        }
        matrix[i].iter_mut().for_each(|value| *value /= unexplained);
        let pivot_row = matrix[i].clone();
        for (_, row) in matrix.iter_mut().enumerate().filter(|(other, _)| *other != i) {
            let factor = row[i];
            row.iter_mut().zip(&pivot_row).for_each(|(value, pivot)| *value -= factor * pivot);
        }
    }
    Some(matrix.into_iter().map(|row| row[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::super::series::tests::one_round;
    use super::*;

    /// The analysis of costs that follow a law, at seven amounts in one round.
    fn growth_of(law: impl Fn(f64) -> f64) -> Growth {
        // Deviations of 0.1% that follow none of the laws.
        let deviations = [1.001, 0.999, 1.0005, 0.9995, 1.0008, 0.9992, 1.0];
        let n = [1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6];
        analyse_growth(one_round(
            &n.into_iter().zip(deviations).map(|(n, deviation)| (n, law(n) * deviation)).collect::<Vec<_>>(),
        ))
    }

    #[test]
    fn a_power_law_is_extrapolated_and_does_not_bend() {
        let growth = growth_of(|n| 2.0 * n.powf(0.1));
        assert_eq!(growth.choice.unwrap().winner().unwrap().law.name(), "power law");
        assert_eq!(growth.bend, BendFinding::Straight);
        let extrapolation = growth.extrapolation.unwrap();
        assert_eq!(extrapolation.amount, 1e7);
        let (truth, cost) = (2.0 * 1e7f64.powf(0.1), extrapolation.cost);
        assert!(cost.low < truth && truth < cost.high, "{cost:?}");
        assert!(cost.high / cost.low < 1.05, "{cost:?}");
    }

    #[test]
    fn extrapolations_reach_from_the_last_amount_to_ten_times_it_and_widen() {
        let growth = growth_of(|n| 2.0 * n.powf(0.1));
        let all = growth.extrapolations(8);
        assert_eq!((all.len(), all[0].amount, all[8]), (9, 1e6, growth.extrapolation.unwrap()));
        let widths: Vec<f64> =
            all.iter().map(|extrapolation| extrapolation.cost.high / extrapolation.cost.low).collect();
        assert!(widths.is_sorted(), "{widths:?}");
        assert!(analyse_growth(one_round(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)])).extrapolations(8).is_empty());
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
    fn amounts_in_millions_are_extrapolated_like_smaller_ones() {
        let extrapolate = |unit: f64| {
            let points = [1.0, 3.0, 10.0, 30.0, 100.0].map(|n| (n * unit, 5.0 + 20.0 / n + 0.01 * (n % 7.0)));
            analyse_growth(one_round(&points)).extrapolation.unwrap().cost
        };
        let (cost, large) = (extrapolate(1.0), extrapolate(1e8));
        assert!((large.low / cost.low - 1.0).abs() < 1e-4 && (large.high / cost.high - 1.0).abs() < 1e-4, "{large:?}");
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
        assert!((bend.amount.value / 5e4 - 1.0).abs() < 0.01 && bend.amount.high / bend.amount.low < 1.5, "{bend:?}");
        assert!((bend.exponent_before - 0.05).abs() < 0.01 && (bend.exponent_after - 0.55).abs() < 0.01, "{bend:?}");
        let truth = 3.0 * 1e7f64.powf(0.05) * 200f64.powf(0.5);
        let cost = growth.extrapolation.unwrap().cost;
        assert!(cost.low < truth && truth < cost.high, "{cost:?} {truth}");
    }

    #[test]
    fn three_amounts_without_rounds_exclude_no_bend() {
        let growth = analyse_growth(one_round(&[(1e7, 10.9), (1e8, 62.3), (1e9, 62.4)]));
        assert_eq!((growth.bend, growth.extrapolation), (BendFinding::NotExcluded, None));
        assert!(growth.choice.is_none());
    }

    #[test]
    fn the_fit_of_a_line_agrees_with_r() {
        // R: lm(c(1, 3, 2, 5, 4) ~ c(1, 2, 3, 4, 5)): intercept 0.6, slope 0.8, deviance 3.6; leverage at 6: 1/5 + 9/10.
        let rows: Vec<Vec<f64>> = (1..=5).map(|x| vec![1.0, f64::from(x)]).collect();
        let fit = LinearFit::fit(&rows, &[1.0, 3.0, 2.0, 5.0, 4.0]).unwrap();
        assert!((fit.beta[0] - 0.6).abs() < 1e-9 && (fit.beta[1] - 0.8).abs() < 1e-9, "{fit:?}");
        assert!((fit.rss - 3.6).abs() < 1e-9 && (fit.leverage(&[1.0, 6.0]) - 1.1).abs() < 1e-9, "{fit:?}");
        let dependent = vec![vec![1.0, 2.0]; 3];
        assert!(LinearFit::fit(&dependent, &[1.0, 2.0, 3.0]).is_none());
    }
}
