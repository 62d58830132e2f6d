//! The run over time: what every cell gave when, where the machine was busy, and what was left out as warm-up.

use crate::drawing::{Axis, Chart, Key, Mark, Panel, Sign, colour::ORANGE, theme};
use crate::number::{ordinal, with_unit};
use crate::{seen::Seen, words::over_all};
use fsarena_core::event::SpentOn;
use fsarena_core::record::RunRecord;
use fsarena_core::{event::NoteKind, sample::Unit};
use fsarena_stats::comparison::median;
use std::collections::BTreeSet;

/// The most cells that are drawn one by one; of more, every n-th round.
const MOST: usize = 1500;
/// Opacity of the mark on a cell that began on a busy machine.
const BUSY: f64 = 0.2;

/// One cell.
struct Cell {
    /// Seconds since the run began.
    from: f64,
    /// Until when it took.
    to: f64,
    variant: usize,
    round: u32,
    /// Its value: the rate of its tasks, relative to the middle of all cells.
    rate: f64,
    /// Seconds spent waiting until the machine was idle.
    idle: f64,
    /// Seconds left out as warm-up.
    warm_up: f64,
}

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let mut cells = cells(seen);
    if cells.len() < 3 {
        return vec![];
    }
    cells.sort_by(|a, b| a.from.total_cmp(&b.from));
    let every = cells.len().div_ceil(MOST) as u32;
    cells.retain(|cell| cell.round % every == 0);
    let drawn = seen.variants(|variant| cells.iter().any(|cell| cell.variant == variant));
    let metric = seen.report.analyses.first().map_or(String::new(), over_all);
    let about = format!(
        "One point a cell, at the time it began: throughput, the work of a cell over its {metric}, in per cent of \
         the median of all cells. A line that wanders is a machine that drifts. Below: the share of each cell's \
         time that went into idle wait and warm-up, which no figure counts; orange marks cells that \
         began on a busy machine. A point is one measurement and has no interval.{}{}",
        match every {
            1 => String::new(),
            every => format!(" Every {} round is drawn.", ordinal(every.into())),
        },
        seen.not_drawn(&drawn, "no cell with a value of every task"),
    );
    let panels = vec![rates(seen, &cells), waiting(seen, &cells)];
    let mut legend = seen.legend(&drawn, true);
    legend.push(Key::new("idle wait", theme::SHADE, Sign::Area(1.0)));
    let (warm_up, busy) = (cells.iter().any(|cell| cell.warm_up > 0.0), !busy(seen.record()).is_empty());
    legend.extend(warm_up.then(|| Key::new("warm-up", theme::WARM, Sign::Area(1.0))));
    legend.extend(busy.then(|| Key::new("began on a busy machine", ORANGE, Sign::Area(BUSY))));
    vec![Chart { panels, legend, ..Chart::new("timeline", "Throughput over time", about) }]
}

fn cells(seen: &Seen) -> Vec<Cell> {
    let record = seen.record();
    let Some(analysis) = seen.report.analyses.first() else { return vec![] };
    let Some((info, rows)) = record.metric(&analysis.metric.id) else { return vec![] };
    let warm_ups = record.metric("warmup_ns").map(|(_, rows)| rows);
    // The mean logarithm: cells with the same tasks compare, whatever the tasks weigh.
    let mut sums = vec![(0.0, 0usize, 0.0); record.cells.len()];
    for (row, value) in rows.iter().enumerate() {
        let sum = &mut sums[record.samples.cell[row] as usize];
        if *value > 0.0 && record.tasks[record.samples.task[row] as usize].in_totals {
            *sum = (sum.0 + value.ln(), sum.1 + 1, sum.2);
        }
        let warm_up = warm_ups.as_ref().map(|rows| rows[row]).filter(|ns| !ns.is_nan());
        sum.2 += warm_up.unwrap_or(0.0) / 1e9;
    }
    let most = sums.iter().map(|sum| sum.1).max().unwrap_or(0);
    let sign = if matches!(info.unit, Unit::PerSecond | Unit::BytesPerSecond) { 1.0 } else { -1.0 };
    let whole = |(at, sum): (usize, &(f64, usize, f64))| {
        (most > 0 && sum.1 == most).then(|| (at, sum.0 / most as f64))
    };
    let levels: Vec<(usize, f64)> = sums.iter().enumerate().filter_map(whole).collect();
    let middle = median(&levels.iter().map(|(_, level)| *level).collect::<Vec<_>>()).unwrap_or(0.0);
    let begun = record.cells.iter().map(|cell| cell.started_at).fold(f64::INFINITY, f64::min);
    let cell = |(at, level): (usize, f64)| {
        let cell = &record.cells[at];
        let spent = |part: SpentOn| cell.spent_on(part) as f64 / 1e9;
        Cell {
            from: cell.started_at - begun,
            to: cell.started_at - begun + spent(SpentOn::Total),
            variant: cell.variant,
            round: cell.round,
            rate: 100.0 * (sign * (level - middle)).exp(),
            idle: spent(SpentOn::Idle),
            warm_up: sums[at].2,
        }
    };
    levels.into_iter().map(cell).collect()
}

/// The cells with a task that began on a busy machine: round and variant.
fn busy(record: &RunRecord) -> BTreeSet<(u32, usize)> {
    let timeouts = record.notes_of(NoteKind::IdleTimeout);
    timeouts.filter_map(|(round, note)| Some((round?, record.variant(note.variant.as_deref()?)?))).collect()
}

fn time_axis(cells: &[Cell]) -> Axis {
    let end = cells.iter().map(|cell| cell.to).fold(0.0, f64::max);
    Axis::from_zero("since the run began", end, Unit::Seconds)
}

fn rates(seen: &Seen, cells: &[Cell]) -> Panel {
    let most = cells.iter().map(|cell| cell.rate).fold(0.0, f64::max);
    let late = busy(seen.record());
    let busy = cells.iter().filter(|cell| late.contains(&(cell.round, cell.variant)));
    let y = (0.0, most * 1.02);
    let mark = |cell: &Cell| Mark::Box { x: (cell.from, cell.to), y, colour: ORANGE, opacity: BUSY };
    let mut marks: Vec<Mark> = busy.map(mark).collect();
    for (variant, look) in seen.looks.iter().enumerate() {
        let of = cells.iter().filter(|cell| cell.variant == variant);
        let points: Vec<(f64, f64)> = of.map(|cell| (cell.from, cell.rate)).collect();
        if points.len() > 1 {
            marks.push(look.line(&points, 1.0));
        }
        marks.extend(look.dots(points));
    }
    let x = Axis { label: String::new(), ..time_axis(cells) };
    let y = Axis::from_zero("% of the median", most, Unit::Percent);
    Panel::new("throughput, median of all cells = 100%", x, y, 230, marks)
}

fn waiting(seen: &Seen, cells: &[Cell]) -> Panel {
    let share = |part: f64, cell: &Cell| 100.0 * part / (cell.to - cell.from).max(1e-9);
    let most = cells.iter().map(|cell| share(cell.idle + cell.warm_up, cell)).fold(0.0, f64::max);
    let mut marks = vec![];
    for cell in cells {
        let (idle, warm_up) = (share(cell.idle, cell), share(cell.warm_up, cell));
        let x = (cell.from, cell.to);
        let parts = [((0.0, idle), theme::SHADE), ((idle, idle + warm_up), theme::WARM)];
        let parts = parts.into_iter().filter(|((from, to), _)| to > from);
        marks.extend(parts.map(|(y, colour)| Mark::Box { x, y, colour, opacity: 1.0 }));
    }
    let all: u64 = seen.record().cells.iter().map(|cell| cell.spent_on(SpentOn::Idle)).sum();
    let all = with_unit(all as f64, Unit::Nanoseconds);
    let title = format!("share of a cell's time not measured; the idle wait took {all} in all");
    let y = Axis::from_zero("% of its time", most, Unit::Percent);
    Panel::new(title, time_axis(cells), y, 150, marks)
}
