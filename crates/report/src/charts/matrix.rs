//! Charts of a matrix of block sizes and threads: operations a second over threads, and heat maps with frames around
//! anomalies.

use crate::chart_context::{ChartContext, point_with_interval, widen_range};
use crate::drawing::{Anchor, Axis, Chart, Colour, KeySign, LegendKey, Mark, Panel, SeriesStyle};
use crate::matrix::{format_size, matrix_of_run};
use crate::{drawing::colour::TEXT_ON_DARK, number::three_digits};
use fsarena_core::sample::Unit;
use fsarena_stats::matrix::cells::{CellPosition, Matrix};
use fsarena_stats::{comparison::median, matrix::find_anomalies, ratio::Ratio};
use std::collections::BTreeSet;

/// A chart for each mode of operations a second over threads, with a panel for each block size.
pub fn thread_curve_charts(context: &ChartContext) -> Vec<Chart> {
    let Ok(matrix) = matrix_of_run(context.record()) else { return vec![] };
    // A curve requires at least two thread counts.
    if matrix.threads.len() < 2 {
        return vec![];
    }
    let styles = matrix_styles(context, &matrix);
    (0..matrix.modes.len()).map(|mode| thread_curve_chart(&matrix, mode, &styles)).collect()
}

/// The variants of a matrix with their styles, in the order of the run's variants, the bare device last. If several tools
/// measured a variant of the run, the matrix has a variant for each tool (`xfs by fio`), each with another shade and dash
/// pattern.
fn matrix_styles(context: &ChartContext, matrix: &Matrix) -> Vec<(usize, SeriesStyle)> {
    let index_in_run = |name: &str| {
        let matches = |run_name: &str| name == run_name || name.starts_with(&format!("{run_name} by "));
        context.record().variants.iter().position(|variant| matches(&variant.name))
    };
    // The indexes of each variant in the run and in the matrix.
    let mut indexes = vec![];
    for (in_matrix, variant) in matrix.variants.iter().enumerate() {
        indexes.extend(index_in_run(&variant.name).map(|in_run| (in_run, in_matrix)));
    }
    indexes.sort_by_key(|(in_run, in_matrix)| {
        let variant = &matrix.variants[*in_matrix];
        (variant.is_bare_device, *in_run, &variant.name)
    });
    let mut styles = vec![];
    for (position, (in_run, in_matrix)) in indexes.iter().enumerate() {
        let earlier = indexes[..position].iter().filter(|(other, _)| other == in_run).count();
        styles.push((*in_matrix, context.series_style(*in_run, earlier)));
    }
    styles
}

/// The median of a cell over rounds, which charts and tables show.
fn cell_median(matrix: &Matrix, cell: CellPosition) -> Option<f64> {
    median(matrix.values(cell))
}

/// The curves of one mode. `styles` has the variants that are drawn, by their indexes in the matrix.
fn thread_curve_chart(matrix: &Matrix, mode: usize, styles: &[(usize, SeriesStyle)]) -> Chart {
    let cells_of_mode = || matrix.cells().filter(|cell| cell.mode == mode);
    let typical_values = cells_of_mode().filter_map(|cell| Ratio::typical_value(matrix.values(cell)));
    let interval_ends = typical_values.flat_map(|typical| [typical.low, typical.high]);
    let values = cells_of_mode().filter_map(|cell| cell_median(matrix, cell)).chain(interval_ends);
    let (low, high) = widen_range((f64::INFINITY, 0.0), values);
    let y_axis = Axis::log_in_unit("operations a second", low / 1.2, high * 1.2, Unit::PerSecond);
    let panel = |size| thread_curve_panel(matrix, mode, size, styles, y_axis.clone());
    let panels = (0..matrix.sizes.len()).map(panel).collect();
    let name = &matrix.modes[mode].name;
    let legend = styles.iter().map(|(variant, style)| style.legend_key(&matrix.variants[*variant].name)).collect();
    let caption = "Operations a second over the number of threads, a panel for each block size, both axes logarithmic \
                 and the same in every panel. Points are medians over rounds, as in the tables; bars at them are 95% intervals \
                 of the typical value (with fewer than 8 rounds, the smallest and the largest value; with one round, \
                 none). A point is missing where nothing was measured.";
    let title = format!("{name}: operations a second over threads");
    Chart { legend, ..Chart::new(format!("iops-{name}"), title, caption).with_panels(panels) }
}

/// The panel of one block size, given by its index.
fn thread_curve_panel(
    matrix: &Matrix,
    mode: usize,
    size: usize,
    styles: &[(usize, SeriesStyle)],
    y_axis: Axis,
) -> Panel {
    let mut marks = vec![];
    for (variant, style) in styles {
        let point = |cell: &CellPosition| {
            let threads = f64::from(matrix.threads[cell.threads]);
            Some(point_with_interval(threads, cell_median(matrix, *cell)?, Ratio::typical_value(matrix.values(*cell))))
        };
        let points = matrix.along_threads(*variant, mode, size).iter().filter_map(point).collect::<Vec<_>>();
        marks.extend(style.series_marks(&points, 1.75));
    }
    let threads: Vec<f64> = matrix.threads.iter().map(|count| f64::from(*count)).collect();
    let x_axis = Axis::log_with_ticks("threads", &threads, |count| count.to_string());
    Panel::new(format!("{} blocks", format_size(matrix.sizes[size])), x_axis, y_axis, 240, marks)
}

/// A heat map for each mode of operations a second by block size and threads, with frames around anomalies.
pub fn heatmap_charts(context: &ChartContext) -> Vec<Chart> {
    let Ok(matrix) = matrix_of_run(context.record()) else { return vec![] };
    let anomalies: BTreeSet<CellPosition> =
        find_anomalies(&matrix, None).findings.iter().flat_map(|finding| finding.cells()).collect();
    let variants: Vec<usize> = matrix_styles(context, &matrix).into_iter().map(|(variant, _)| variant).collect();
    (0..matrix.modes.len()).map(|mode| heatmap_chart(&matrix, mode, &variants, &anomalies)).collect()
}

/// The heat map of one mode, with a panel for each variant. `anomalies` are the framed cells.
fn heatmap_chart(matrix: &Matrix, mode: usize, variants: &[usize], anomalies: &BTreeSet<CellPosition>) -> Chart {
    let values = matrix.cells().filter(|cell| cell.mode == mode).filter_map(|cell| cell_median(matrix, cell));
    let (low, high) = widen_range((f64::INFINITY, 0.0), values);
    let panels = variants.iter().map(|variant| heatmap_panel(matrix, *variant, mode, (low, high), anomalies)).collect();
    let name = &matrix.modes[mode].name;
    let caption = format!(
        "Thousands of operations a second in mode {name}, medians over rounds as in the tables, by block size and \
         threads, on one scale for all panels (logarithmic: {} to {} k/s); the bare device is the last panel where it \
         was measured. An empty cell was not measured. Framed cells are in a finding of the anomaly search, which looks \
         at the typical value (Hodges–Lehmann): where rounds differ much, it is another than the median. The curves \
         have the intervals.",
        format_thousands(low),
        format_thousands(high)
    );
    let scale_key = |fraction: f64, value: f64| {
        LegendKey::new(format!("{} k/s", format_thousands(value)), Colour::on_heat_scale(fraction), KeySign::Area(1.0))
    };
    let middle = (low.ln() / 2.0 + high.ln() / 2.0).exp();
    let mut legend = vec![scale_key(0.0, low), scale_key(0.5, middle), scale_key(1.0, high)];
    if anomalies.iter().any(|cell| cell.mode == mode) {
        legend.push(LegendKey::new("framed: in a finding", TEXT_ON_DARK, KeySign::Frame));
    }
    let title = format!("{name}: thousands of operations a second");
    Chart { panels, columns: 2, legend, ..Chart::new(format!("heat-{name}"), title, caption) }
}

/// The heat map of one variant in one mode. The colours cover the range from `low` to `high`.
fn heatmap_panel(
    matrix: &Matrix,
    variant: usize,
    mode: usize,
    (low, high): (f64, f64),
    anomalies: &BTreeSet<CellPosition>,
) -> Panel {
    let (mut marks, mut frames) = (vec![], vec![]);
    for size in 0..matrix.sizes.len() {
        for threads in 0..matrix.threads.len() {
            let cell = CellPosition { variant, mode, size, threads };
            let Some(value) = cell_median(matrix, cell) else { continue };
            let colour = Colour::on_heat_scale(if high > low { (value / low).ln() / (high / low).ln() } else { 0.5 });
            let (left, top) = (threads as f64, -(size as f64));
            let (x, y) = ((left, left + 1.0), (top - 1.0, top));
            marks.push(Mark::Box { x, y, colour, opacity: 1.0 });
            let is_anomaly = anomalies.contains(&cell);
            marks.push(Mark::Text {
                point: (left + 0.5, top - 0.5),
                offset: (0, 0),
                text: format_thousands(value),
                colour: colour.text_colour(),
                anchor: Anchor::Middle,
                bold: is_anomaly,
            });
            if is_anomaly {
                let (x, y) = ((x.0 + 0.03, x.1 - 0.03), (y.0 + 0.05, y.1 - 0.05));
                // The colour of the text is visible on the cell and is not the colour of a filesystem.
                frames.push(Mark::Frame { x, y, colour: colour.text_colour() });
            }
        }
    }
    marks.extend(frames);
    let threads: Vec<String> = matrix.threads.iter().map(u32::to_string).collect();
    let device_note = if matrix.variants[variant].is_bare_device { " (bare device)" } else { "" };
    let title = format!("{}{device_note}", matrix.variants[variant].name);
    let sizes = matrix.sizes.iter().map(|bytes| format_size(*bytes));
    let mut panel = Panel::with_rows(title, Axis::of_columns("threads", &threads), sizes, (80, 26), marks);
    panel.y_axis.label = "block size".into();
    panel
}

/// Operations a second in thousands, without the unit `k/s`.
fn format_thousands(iops: f64) -> String {
    three_digits(iops / 1000.0)
}
