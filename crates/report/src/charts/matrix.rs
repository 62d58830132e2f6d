//! Charts of a matrix of block sizes and threads: operations a second over threads, and heat maps with frames around
//! anomalies.

use crate::chart_context::{ChartContext, ratio_point, widen_range};
use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Look, Mark, Panel, Sign};
use crate::matrix::{matrix_of_run, size_words};
use crate::{drawing::colour::ON_DARK, number::three};
use fsarena_core::sample::Unit;
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::{comparison::median, matrix::analyse, ratio::Ratio};
use std::collections::BTreeSet;

/// A chart for each mode of operations a second over threads, with a panel for each block size.
pub fn thread_curves(context: &ChartContext) -> Vec<Chart> {
    let Ok(matrix) = matrix_of_run(context.record()) else { return vec![] };
    // A curve requires at least two thread counts.
    if matrix.threads.len() < 2 {
        return vec![];
    }
    let looks = matrix_looks(context, &matrix);
    (0..matrix.modes.len()).map(|mode| curve_chart(&matrix, mode, &looks)).collect()
}

/// The variants of a matrix with their looks, in the order of the run's variants, the bare device last. If several tools
/// measured a variant of the run, the matrix has a variant for each, `xfs by fio`: each gets another shade and dash pattern.
fn matrix_looks(context: &ChartContext, matrix: &Matrix) -> Vec<(usize, Look)> {
    let variant_of_run = |name: &str| {
        let matches = |own: &str| name == own || name.starts_with(&format!("{own} by "));
        context.record().variants.iter().position(|variant| matches(&variant.name))
    };
    let mut found: Vec<(bool, usize, usize)> = (matrix.variants.iter().enumerate())
        .filter_map(|(at, variant)| Some((variant.raw, variant_of_run(&variant.name)?, at)))
        .collect();
    found.sort_by_key(|(raw, own, at)| (*raw, *own, &matrix.variants[*at].name));
    let mut looks = vec![];
    for (place, (_, own, variant)) in found.iter().enumerate() {
        let shade = found[..place].iter().filter(|(_, other, _)| other == own).count();
        looks.push((*variant, context.shade(*own, shade)));
    }
    looks
}

/// The median of a cell over rounds, which charts and tables show.
fn cell_median(matrix: &Matrix, at: At) -> Option<f64> {
    median(matrix.values(at))
}

fn curve_chart(matrix: &Matrix, mode: usize, looks: &[(usize, Look)]) -> Chart {
    let places = || matrix.places().filter(|at| at.mode == mode);
    let intervals = places().filter_map(|at| Ratio::typical_value(matrix.values(at)));
    let intervals = intervals.flat_map(|typical| [typical.low, typical.high]);
    let values = places().filter_map(|at| cell_median(matrix, at)).chain(intervals);
    let (low, high) = widen_range((f64::INFINITY, 0.0), values);
    let y = Axis::log_in("operations a second", low / 1.2, high * 1.2, Unit::PerSecond);
    let panels =
        (0..matrix.sizes.len()).map(|size| curve_panel(matrix, mode, size, looks, y.clone())).collect();
    let name = &matrix.modes[mode].name;
    let legend = looks.iter().map(|(variant, look)| look.key(&matrix.variants[*variant].name)).collect();
    let about = "Operations a second over the number of threads, a panel for each block size, both axes logarithmic \
                 and the same in every panel. Points are medians over rounds, as in the tables; bars at them are 95% intervals \
                 of the typical value (with fewer than 8 rounds, the smallest and the largest value; with one round, \
                 none). A point is missing where nothing was measured.";
    let title = format!("{name}: operations a second over threads");
    Chart { legend, ..Chart::new(format!("iops-{name}"), title, about).in_pairs(panels) }
}

fn curve_panel(matrix: &Matrix, mode: usize, size: usize, looks: &[(usize, Look)], y: Axis) -> Panel {
    let mut marks = vec![];
    for (variant, look) in looks {
        let point = |at: &At| {
            let threads = f64::from(matrix.threads[at.threads]);
            Some(ratio_point(threads, cell_median(matrix, *at)?, Ratio::typical_value(matrix.values(*at))))
        };
        let points = matrix.along_threads(*variant, mode, size).iter().filter_map(point).collect::<Vec<_>>();
        marks.extend(look.series(&points, 1.75));
    }
    let threads: Vec<f64> = matrix.threads.iter().map(|count| f64::from(*count)).collect();
    let x = Axis::values("threads", &threads, |count| count.to_string());
    Panel::new(format!("{} blocks", size_words(matrix.sizes[size])), x, y, 240, marks)
}

/// A heat map for each mode of operations a second by block size and threads, with frames around anomalies.
pub fn heatmaps(context: &ChartContext) -> Vec<Chart> {
    let Ok(matrix) = matrix_of_run(context.record()) else { return vec![] };
    let anomalies: BTreeSet<At> =
        analyse(&matrix, None).findings.iter().flat_map(|finding| finding.cells()).collect();
    let variants: Vec<usize> =
        matrix_looks(context, &matrix).into_iter().map(|(variant, _)| variant).collect();
    (0..matrix.modes.len()).map(|mode| heatmap(&matrix, mode, &variants, &anomalies)).collect()
}

fn heatmap(matrix: &Matrix, mode: usize, variants: &[usize], anomalies: &BTreeSet<At>) -> Chart {
    let cells = |at: &At| at.mode == mode;
    let values = matrix.places().filter(cells).filter_map(|at| cell_median(matrix, at));
    let (low, high) = widen_range((f64::INFINITY, 0.0), values);
    let panels = variants
        .iter()
        .map(|variant| heatmap_panel(matrix, *variant, mode, (low, high), anomalies))
        .collect();
    let name = &matrix.modes[mode].name;
    let about = format!(
        "Thousands of operations a second in mode {name}, medians over rounds as in the tables, by block size and \
         threads, on one scale for all panels (logarithmic: {} to {} k/s); the bare device is the last panel where it \
         was measured. An empty cell was not measured. Framed cells are in a finding of the anomaly search, which looks \
         at the typical value (Hodges–Lehmann): where rounds differ much, it is another than the median. The curves \
         have the intervals.",
        thousands(low),
        thousands(high)
    );
    let scale = |share: f64, value: f64| {
        Key::new(format!("{} k/s", thousands(value)), Colour::heat(share), Sign::Area(1.0))
    };
    let middle = (low.ln() / 2.0 + high.ln() / 2.0).exp();
    let mut legend = vec![scale(0.0, low), scale(0.5, middle), scale(1.0, high)];
    if anomalies.iter().any(|at| at.mode == mode) {
        legend.push(Key::new("framed: in a finding", ON_DARK, Sign::Frame));
    }
    let title = format!("{name}: thousands of operations a second");
    Chart { panels, columns: 2, legend, ..Chart::new(format!("heat-{name}"), title, about) }
}

fn heatmap_panel(
    matrix: &Matrix,
    variant: usize,
    mode: usize,
    (low, high): (f64, f64),
    anomalies: &BTreeSet<At>,
) -> Panel {
    let (mut marks, mut frames) = (vec![], vec![]);
    for size in 0..matrix.sizes.len() {
        for threads in 0..matrix.threads.len() {
            let at = At { variant, mode, size, threads };
            let Some(value) = cell_median(matrix, at) else { continue };
            let colour = Colour::heat(if high > low { (value / low).ln() / (high / low).ln() } else { 0.5 });
            let (left, top) = (threads as f64, -(size as f64));
            let (x, y) = ((left, left + 1.0), (top - 1.0, top));
            marks.push(Mark::Box { x, y, colour, opacity: 1.0 });
            let (text, colour, strong) = (thousands(value), colour.text(), anomalies.contains(&at));
            let (at, shift, anchor) = ((left + 0.5, top - 0.5), (0, 0), Anchor::Middle);
            marks.push(Mark::Words { at, shift, text, colour, anchor, strong });
            if strong {
                let (x, y) = ((x.0 + 0.03, x.1 - 0.03), (y.0 + 0.05, y.1 - 0.05));
                // The colour of the text is visible on the cell and is not the colour of a filesystem.
                frames.push(Mark::Frame { x, y, colour });
            }
        }
    }
    marks.extend(frames);
    let threads: Vec<String> = matrix.threads.iter().map(u32::to_string).collect();
    let raw = if matrix.variants[variant].raw { " (bare device)" } else { "" };
    let title = format!("{}{raw}", matrix.variants[variant].name);
    let sizes = matrix.sizes.iter().map(|bytes| size_words(*bytes));
    let mut panel = Panel::rows(title, Axis::columns("threads", &threads), sizes, (80, 26), marks);
    panel.y.label = "block size".into();
    panel
}

fn thousands(iops: f64) -> String {
    three(iops / 1000.0)
}
