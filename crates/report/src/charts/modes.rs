//! Variants with two speeds: each round of theirs, coloured by the cluster that it is in.

use crate::drawing::{Axis, Chart, Key, Mark, Panel, Shape, Sign, theme};
use crate::seen::{Seen, ends, spread};
use crate::words::label;

/// The most rows: of more, the clearest are shown.
const ROWS: usize = 12;
/// The most dots of one cluster: of more, every n-th round is shown.
const DOTS: usize = 100;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let modes = &seen.report.modes()[..seen.report.modes().len().min(ROWS)];
    let Some(analysis) = seen.report.analyses.first().filter(|_| !modes.is_empty()) else { return vec![] };
    let (mut names, mut marks, mut all) = (vec![], vec![], vec![]);
    for (row, one) in modes.iter().enumerate() {
        names.push(format!("{}: {}", seen.name(one.variant), label(&seen.record().tasks[one.task])));
        let values = &analysis.grid.values[one.task][one.variant];
        for (cluster, colour) in one.clusters.iter().zip([theme::SOFT, seen.looks[one.variant].colour]) {
            for column in cluster.columns.iter().step_by(cluster.columns.len().div_ceil(DOTS).max(1)) {
                let x = (values[*column] / one.clusters[0].median).ln();
                all.push(x);
                let at = (x, Axis::slot(row) + 0.5 * spread(*column, row));
                marks.push(Mark::Dot { at, colour, shape: Shape::Disc });
            }
        }
    }
    let (low, high) = ends((0.0, 0.0), all);
    let x = Axis::changes("difference from the median of the lower cluster", low, high);
    let panel = Panel::rows("", x, names, (60, 34), marks);
    let about = "Every dot is a round of a variant whose values fall into two clusters. Comparisons of such a task depend on \
                 how many rounds fell into which.";
    let legend = vec![
        Key::new("lower cluster", theme::SOFT, Sign::Point(Shape::Disc)),
        Key::new("higher cluster, in the colour of its variant", theme::INK, Sign::Point(Shape::Disc)),
    ];
    vec![Chart { panels: vec![panel], legend, ..Chart::new("modes", "Two speeds", about) }]
}
