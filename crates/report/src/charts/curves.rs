//! Operations a second over threads: one chart a mode, one panel a block size, one line a variant.

use crate::drawing::{Axis, Chart, Look, Panel};
use crate::seen::{Seen, ends};
use crate::{findings::figures::size, findings::rows::matrix_of_run};
use fsarena_core::sample::Unit;
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::{comparison::median, ratio::Ratio};

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    match matrix_of_run(seen.record()) {
        // A curve takes two numbers of threads.
        Ok(matrix) if matrix.threads.len() > 1 => {
            let looks = looks(seen, &matrix);
            (0..matrix.modes.len()).map(|mode| chart(&matrix, mode, &looks)).collect()
        }
        _ => vec![],
    }
}

/// The variants of a matrix in the order of the run's variants and with their looks, the bare device last. Where several tools
/// measured, each follows its variant, in its own shade and line.
pub fn looks(seen: &Seen, matrix: &Matrix) -> Vec<(usize, Look)> {
    let own = |name: &str| {
        let is_it = |own: &str| name == own || name.starts_with(&format!("{own} by "));
        seen.record().variants.iter().position(|variant| is_it(&variant.name))
    };
    let mut found: Vec<(bool, usize, usize)> = (matrix.variants.iter().enumerate())
        .filter_map(|(at, variant)| Some((variant.raw, own(&variant.name)?, at)))
        .collect();
    found.sort_by_key(|(raw, own, at)| (*raw, *own, &matrix.variants[*at].name));
    let of = |(place, (_, own, variant)): (usize, &(bool, usize, usize))| {
        let tools = found[..place].iter().filter(|(_, other, _)| other == own).count();
        (*variant, seen.shade(*own, tools))
    };
    found.iter().enumerate().map(of).collect()
}

/// The median of a cell over rounds: the value that is drawn, and that tables show.
pub fn middle(matrix: &Matrix, at: At) -> Option<f64> {
    median(matrix.values(at))
}

fn chart(matrix: &Matrix, mode: usize, looks: &[(usize, Look)]) -> Chart {
    let places = || matrix.places().filter(|at| at.mode == mode);
    let intervals = places().filter_map(|at| Ratio::typical(matrix.values(at)));
    let intervals = intervals.flat_map(|typical| [typical.low, typical.high]);
    let values = places().filter_map(|at| middle(matrix, at)).chain(intervals);
    let (low, high) = ends((f64::INFINITY, 0.0), values);
    let y = Axis::log_in("operations a second", low / 1.2, high * 1.2, Unit::PerSecond);
    let panels = (0..matrix.sizes.len()).map(|size| panel(matrix, mode, size, looks, y.clone())).collect();
    let name = &matrix.modes[mode].name;
    let legend = looks.iter().map(|(variant, look)| look.key(&matrix.variants[*variant].name)).collect();
    let about = "Operations a second over the number of threads, a panel for each block size, both axes logarithmic \
                 and the same in every panel. Points are medians over rounds, as in the tables; bars at them are 95% intervals \
                 of the typical value (under 8 rounds the extremes seen), none of one round. A point is missing where \
                 nothing was measured.";
    let title = format!("{name}: operations a second over threads");
    Chart { legend, ..Chart::new(format!("iops-{name}"), title, about).in_pairs(panels) }
}

fn panel(matrix: &Matrix, mode: usize, at_size: usize, looks: &[(usize, Look)], y: Axis) -> Panel {
    let mut marks = vec![];
    for (variant, look) in looks {
        let along = matrix.along_threads(*variant, mode, at_size).into_iter();
        let line: Vec<(f64, At)> = along.map(|at| (f64::from(matrix.threads[at.threads]), at)).collect();
        let points = line.iter().filter_map(|(x, at)| Some((*x, middle(matrix, *at)?)));
        let points: Vec<(f64, f64)> = points.collect();
        marks.push(look.line(&points, 1.75));
        let intervals = line.into_iter().filter_map(|(x, at)| Some((x, Ratio::typical(matrix.values(at))?)));
        marks.extend(intervals.map(|(x, typical)| look.up(x, (typical.low, typical.high))));
        marks.extend(look.dots(points));
    }
    let threads: Vec<f64> = matrix.threads.iter().map(|count| f64::from(*count)).collect();
    let x = Axis::values("threads", &threads, |count| count.to_string());
    Panel::new(format!("{} blocks", size(matrix.sizes[at_size])), x, y, 240, marks)
}
