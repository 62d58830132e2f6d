//! Heat maps of a block-size × threads matrix: a mode each, variants side by side with the bare device, anomalies framed.

use super::curves::{looks, middle};
use crate::drawing::{Anchor, Axis, Chart, Colour, Key, Mark, Panel, Sign, colour::ON_DARK};
use crate::seen::{Seen, ends};
use crate::{findings::figures::size, findings::rows::matrix_of_run, number::three};
use fsarena_stats::matrix::analyse;
use fsarena_stats::matrix::cells::{At, Matrix};
use std::collections::BTreeSet;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let Ok(matrix) = matrix_of_run(seen.record()) else { return vec![] };
    let anomalies: BTreeSet<At> =
        analyse(&matrix, None).findings.iter().flat_map(|finding| finding.cells()).collect();
    let variants: Vec<usize> = looks(seen, &matrix).into_iter().map(|(variant, _)| variant).collect();
    (0..matrix.modes.len()).map(|mode| chart(&matrix, mode, &variants, &anomalies)).collect()
}

fn chart(matrix: &Matrix, mode: usize, variants: &[usize], anomalies: &BTreeSet<At>) -> Chart {
    let cells = |at: &At| at.mode == mode;
    let values = matrix.places().filter(cells).filter_map(|at| middle(matrix, at));
    let (low, high) = ends((f64::INFINITY, 0.0), values);
    let panels =
        variants.iter().map(|variant| panel(matrix, *variant, mode, (low, high), anomalies)).collect();
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

fn panel(
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
            let Some(value) = middle(matrix, at) else { continue };
            let colour = Colour::heat(if high > low { (value / low).ln() / (high / low).ln() } else { 0.5 });
            let (left, top) = (threads as f64, -(size as f64));
            let (x, y) = ((left, left + 1.0), (top - 1.0, top));
            marks.push(Mark::Box { x, y, colour, opacity: 1.0 });
            let (text, colour, strong) = (thousands(value), colour.text(), anomalies.contains(&at));
            let (at, shift, anchor) = ((left + 0.5, top - 0.5), (0, 0), Anchor::Middle);
            marks.push(Mark::Words { at, shift, text, colour, anchor, strong });
            if strong {
                let (x, y) = ((x.0 + 0.03, x.1 - 0.03), (y.0 + 0.05, y.1 - 0.05));
                // Seen on its cell, and of no colour that is a filesystem's.
                frames.push(Mark::Frame { x, y, colour });
            }
        }
    }
    marks.extend(frames);
    let threads: Vec<String> = matrix.threads.iter().map(u32::to_string).collect();
    let raw = if matrix.variants[variant].raw { " (bare device)" } else { "" };
    let title = format!("{}{raw}", matrix.variants[variant].name);
    let sizes = matrix.sizes.iter().map(|bytes| size(*bytes));
    let mut panel = Panel::rows(title, Axis::columns("threads", &threads), sizes, (80, 26), marks);
    panel.y.label = "block size".into();
    panel
}

fn thousands(iops: f64) -> String {
    three(iops / 1000.0)
}
