//! Operations a second over threads: one picture a mode, one panel a block size, one line a variant.

use crate::findings::figures::size;
use crate::findings::rows::matrix_of_run;
use crate::seen::{Seen, typical};
use fsarena_charts::colour::Colour;
use fsarena_charts::{Axis, Chart, Dash, Key, Mark, Panel, Shape, Sign};
use fsarena_core::sample::Unit;
use fsarena_stats::comparison::median;
use fsarena_stats::matrix::cells::{At, Matrix};

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

/// How a variant of a matrix is drawn.
pub struct Look {
    /// Its number in the matrix.
    pub variant: usize,
    colour: Colour,
    shape: Shape,
    dash: Dash,
}

/// The variants of a matrix in the order of the run's variants and with their looks, the bare device last. Where several tools
/// measured, each follows its variant, in its own shade and line.
pub fn looks(seen: &Seen, matrix: &Matrix) -> Vec<Look> {
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
        Look {
            variant: *variant,
            colour: seen.colours[*own].shade(tools),
            shape: Shape::of_series(own + tools),
            dash: if tools == 0 { seen.dashes[*own] } else { Dash::of_shade(tools) },
        }
    };
    found.iter().enumerate().map(of).collect()
}

/// The median of a cell over rounds: the value that is drawn, and that tables show.
pub fn middle(matrix: &Matrix, at: At) -> Option<f64> {
    median(matrix.values(at))
}

fn chart(matrix: &Matrix, mode: usize, looks: &[Look]) -> Chart {
    let places = || matrix.places().filter(|at| at.mode == mode);
    let ends =
        places().filter_map(|at| typical(matrix.values(at))).flat_map(|typical| [typical.low, typical.high]);
    let values = places().filter_map(|at| middle(matrix, at)).chain(ends);
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let panels: Vec<Panel> = (0..matrix.sizes.len())
        .map(|size| panel(matrix, mode, size, looks, (low / 1.2, high * 1.2)))
        .collect();
    let name = &matrix.modes[mode].name;
    let legend = looks.iter().map(|look| {
        let name = &matrix.variants[look.variant].name;
        Key::new(name, look.colour, Sign::Series(look.shape, look.dash))
    });
    let about = "Operations a second over the number of threads, a panel for each block size, both axes logarithmic \
                 and the same in every panel. Points are medians over rounds, as in the tables; bars at them are 95% intervals \
                 of the typical value (under 8 rounds the extremes seen), none of one round. A point is missing where \
                 nothing was measured.";
    Chart {
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: legend.collect(),
        ..Chart::new(format!("iops-{name}"), format!("{name}: operations a second over threads"), about)
    }
}

fn panel(matrix: &Matrix, mode: usize, at_size: usize, looks: &[Look], (low, high): (f64, f64)) -> Panel {
    let mut marks = vec![];
    for Look { variant, colour, shape, dash } in looks {
        let (variant, colour, shape, dash) = (*variant, *colour, *shape, *dash);
        let line: Vec<(f64, At)> = (matrix.along_threads(variant, mode, at_size).into_iter())
            .map(|at| (f64::from(matrix.threads[at.threads]), at))
            .collect();
        let points: Vec<(f64, f64)> =
            line.iter().filter_map(|(x, at)| Some((*x, middle(matrix, *at)?))).collect();
        marks.push(Mark::Line { points: points.clone(), colour, width: 1.75, dash });
        for (x, at) in line {
            if let Some(typical) = typical(matrix.values(at)) {
                marks.push(Mark::Up { x, y: (typical.low, typical.high), colour });
            }
        }
        marks.extend(points.into_iter().map(|at| Mark::Dot { at, colour, shape }));
    }
    let threads: Vec<f64> = matrix.threads.iter().map(|count| f64::from(*count)).collect();
    Panel {
        title: format!("{} blocks", size(matrix.sizes[at_size])),
        x: Axis::values("threads", &threads, |count| count.to_string()),
        y: Axis::log_in("operations a second", low, high, Unit::PerSecond),
        marks,
        height: 240,
    }
}
