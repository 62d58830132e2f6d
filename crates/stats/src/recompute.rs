//! Published figures worked out again from the columns that they were made of.

use fsarena_core::published::{Derived, Figure, Published};

/// What came of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recomputed {
    /// Figures that could be worked out again.
    pub figures: usize,
    /// Those that do not follow.
    pub misfits: Vec<Misfit>,
}

/// A figure that does not follow from those it was made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// When it was taken.
    pub sample: String,
    /// Of which variant.
    pub variant: String,
    /// What it should be: how it was made.
    pub made: Derived,
    /// As printed.
    pub printed: f64,
    /// Numerator and denominator, as printed.
    pub above: f64,
    /// By what.
    pub below: f64,
    /// The least and the most that the quotient can be, whatever was rounded off before printing.
    pub follows: (f64, f64),
}

/// Works out every derived figure again. A figure follows where some values that print as its two sources have
/// a quotient that prints as it. A column is printed in steps of the last digit of its most exact figure: a
/// lone `48` in a column of `48.2` was `48.0`.
pub fn recompute(published: &Published) -> Recomputed {
    let mut all = Recomputed::default();
    for made in &published.derived {
        let half = |metric: &str| half_step(published, metric);
        let (printed_half, above_half, below_half) =
            (half(&made.metric), half(&made.above), half(&made.below));
        for figure in published.rows.iter().filter(|row| row.metric == made.metric) {
            let source = |metric: &str| published.sampled(&figure.sample, &figure.variant, metric);
            let (Some(above), Some(below)) = (source(&made.above), source(&made.below)) else { continue };
            all.figures += 1;
            let low = (above.value - above_half).max(0.0) / (below.value + below_half);
            let high = (above.value + above_half) / (below.value - below_half).max(0.0);
            if figure.value + printed_half < low || figure.value - printed_half > high {
                all.misfits.push(Misfit {
                    sample: figure.sample.clone(),
                    variant: figure.variant.clone(),
                    made: made.clone(),
                    printed: figure.value,
                    above: above.value,
                    below: below.value,
                    follows: (low, high),
                });
            }
        }
    }
    all
}

/// The figures that conclusions and comparisons may rest on: without fits and averages of others, and without those
/// that do not follow from others together with their numerators, because either may be the wrong one.
pub fn evidence(published: &Published) -> Published {
    let misfits = recompute(published).misfits;
    let is_misfit = |row: &Figure| {
        misfits.iter().any(|misfit| {
            (&misfit.sample, &misfit.variant) == (&row.sample, &row.variant)
                && [&misfit.made.metric, &misfit.made.above].contains(&&row.metric)
        })
    };
    let mut kept = published.clone();
    kept.rows.retain(|row| row.kind.is_evidence() && !is_misfit(row));
    kept
}

/// Half a step of the last digit that a column is printed with.
fn half_step(published: &Published, metric: &str) -> f64 {
    let of_metric = published.rows.iter().filter(|row| row.metric == metric);
    let digits = of_metric.map(|row| row.decimals).max().unwrap_or(0);
    0.5 * 10f64.powi(-i32::from(digits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::published::parse;

    fn misfits(lines: &str) -> Vec<String> {
        let csv = format!(
            "sample,filesystem,cpu_percent,requests_per_s,cost = cpu_percent / requests_per_s\n{lines}"
        );
        let all = recompute(&parse("old", &csv, &Default::default()).unwrap()[0]);
        assert_eq!(all.figures, lines.lines().count());
        all.misfits.into_iter().map(|misfit| format!("{} {}", misfit.sample, misfit.variant)).collect()
    }

    #[test]
    fn what_rounding_explains_follows() {
        // 7.6/28.2 = 0.2695; with ±0.05 from 0.2673 to 0.2718, and 0.27 may be 0.265 to 0.275.
        assert!(misfits("s,a,7.6,28.2,0.27\n").is_empty());
        assert_eq!(misfits("s,a,7.6,28.2,0.28\ns,b,7.6,28.2,0.26\n"), ["s a", "s b"]);
    }

    #[test]
    fn a_column_has_the_digits_of_its_most_exact_figure() {
        // 14.5/48: 0.30 alone, were 48 exact to a tenth; 0.305 if it were anything from 47.5 on.
        assert_eq!(misfits("s,a,14.5,48,0.31\nt,a,14.5,48.2,0.30\n"), ["s a"]);
        assert!(misfits("s,a,14.5,48,0.31\n").is_empty());
    }

    #[test]
    fn what_does_not_follow_is_no_evidence_nor_is_its_numerator() {
        let csv = "sample,filesystem,cpu_percent,requests_per_s,cost = cpu_percent / requests_per_s\n\
                   s,a,7.6,28.2,0.28\nt,a,7.6,28.2,0.27\n";
        let kept = evidence(&parse("old", csv, &Default::default()).unwrap()[0]);
        let kept: Vec<_> = kept.rows.iter().map(|row| format!("{} {}", row.sample, row.metric)).collect();
        assert_eq!(kept, ["s requests", "t cpu", "t requests", "t cost"]);
    }

    #[test]
    fn the_figures_of_the_proxies() {
        let csv = include_str!("../../../studies/wilton/published.csv");
        let all = recompute(&parse("wilton", csv, &Default::default()).unwrap()[0]);
        assert_eq!((all.figures, all.misfits.len()), (132, 2));
        // By hand: 8.4/28 = 0.300, printed as 0.17; 10.4/28.2 = 0.369, printed as 0.15.
        let cells: Vec<_> =
            all.misfits.iter().map(|m| (m.variant.as_str(), m.made.metric.as_str(), m.printed)).collect();
        assert_eq!(cells, [("reiserfs", "system_per_request", 0.17), ("ext3", "iowait_per_request", 0.15)]);
        assert!(all.misfits.iter().all(|misfit| misfit.sample == "daily-average"));
    }
}
