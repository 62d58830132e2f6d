//! Operations a second over threads: one picture a mode, one panel a block size, one line an arm.

use super::{Kind, Seen};
use crate::findings::figures::size;
use crate::findings::rows::matrix_of_run;
use crate::number::with_unit;
use crate::plot::colour::{Colour, of_names};
use crate::plot::{Axis, Chart, Key, Mark, Panel, Shape, Sign};
use fsarena_core::factor;
use fsarena_core::sample::Unit;
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::ratio::Ratio;

/// Curves of operations a second.
pub struct Curves;

impl Kind for Curves {
    fn id(&self) -> &'static str {
        "curves"
    }

    fn charts(&self, seen: &Seen) -> Vec<Chart> {
        match matrix_of_run(seen.record()) {
            // One number of threads is no curve.
            Ok(matrix) if matrix.threads.len() > 1 => {
                let colours = colours(seen, &matrix);
                (0..matrix.modes.len()).map(|mode| chart(&matrix, mode, &colours)).collect()
            }
            _ => vec![],
        }
    }
}

/// The colours of the arms of a matrix: those of the run's arms, where the names are theirs.
fn colours(seen: &Seen, matrix: &Matrix) -> Vec<Colour> {
    let arm = |name: &str| seen.record().arms.iter().position(|arm| arm.name == name);
    let own: Option<Vec<Colour>> = matrix.arms.iter().map(|a| Some(seen.colours[arm(&a.name)?])).collect();
    let names: Vec<&str> =
        matrix.arms.iter().map(|arm| if arm.raw { factor::RAW } else { arm.name.as_str() }).collect();
    own.unwrap_or_else(|| of_names(&names))
}

fn chart(matrix: &Matrix, mode: usize, colours: &[Colour]) -> Chart {
    let places = || matrix.places().filter(|at| at.mode == mode);
    let ends = places().filter_map(|at| typical(matrix, at)).flat_map(|typical| [typical.low, typical.high]);
    let values = places().filter_map(|at| matrix.iops(at)).chain(ends);
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    let panels: Vec<Panel> = (0..matrix.sizes.len())
        .map(|size| panel(matrix, mode, size, colours, (low / 1.2, high * 1.2)))
        .collect();
    let name = &matrix.modes[mode].name;
    let legend = matrix.arms.iter().enumerate().map(|(arm, of)| Key {
        label: of.name.clone(),
        colour: colours[arm],
        sign: Sign::Point(Shape::of_series(arm)),
    });
    let about = "Operations a second over the number of threads, a panel for each block size, both axes logarithmic \
                 and the same in every panel. Bars at the points are 95% intervals over blocks (under 8 blocks the \
                 extremes seen).";
    Chart {
        columns: if panels.len() > 1 { 2 } else { 1 },
        panels,
        legend: legend.collect(),
        ..Chart::new(format!("iops-{name}"), format!("{name}: operations a second over threads"), about)
    }
}

/// The interval of the typical value of a cell; none of one block.
fn typical(matrix: &Matrix, at: At) -> Option<Ratio> {
    let logs = matrix.values(at).iter().filter(|value| !value.is_nan()).map(|value| value.ln()).collect();
    Ratio::of(logs).filter(|typical| typical.blocks > 1)
}

fn panel(matrix: &Matrix, mode: usize, at_size: usize, colours: &[Colour], (low, high): (f64, f64)) -> Panel {
    let mut marks = vec![];
    for (arm, colour) in colours.iter().copied().enumerate() {
        let line: Vec<(f64, At)> = (matrix.along_threads(arm, mode, at_size).into_iter())
            .map(|at| (f64::from(matrix.threads[at.threads]), at))
            .collect();
        let points: Vec<(f64, f64)> =
            line.iter().filter_map(|(x, at)| Some((*x, matrix.iops(*at)?))).collect();
        marks.push(Mark::Line { points: points.clone(), colour, width: 1.75 });
        for (x, at) in line {
            if let Some(typical) = typical(matrix, at) {
                marks.push(Mark::Up { x, y: (typical.low, typical.high), colour });
            }
        }
        marks.extend(points.into_iter().map(|at| Mark::Dot { at, colour, shape: Shape::of_series(arm) }));
    }
    let threads: Vec<f64> = matrix.threads.iter().map(|count| f64::from(*count)).collect();
    Panel {
        title: format!("{} blocks", size(matrix.sizes[at_size])),
        x: Axis::values("threads", &threads, |count| count.to_string()),
        y: Axis::log("operations a second", low, high, |iops| with_unit(iops, Unit::PerSecond)),
        marks,
        height: 240,
    }
}
