//! The section on the layout of aged and full filesystems: the fragmentation of files and of free space on the device.

use crate::document::{Detail, Document, Table, labelled_row};
use crate::{figures::median_cells, report::Report, sections::tasks::variant_header};
use fsarena_core::metric::reading::{
    DYNAMIC_LAYOUT_SCORE, EXTENTS_PER_FILE, FREE_EXTENT_CLASSES, FREE_EXTENTS, LARGEST_FREE_EXTENT, LAYOUT_AFTER,
    LAYOUT_BEFORE, LAYOUT_SCORE,
};
use fsarena_core::observations::{Grid, has_data};
use fsarena_core::{cell::TaskId, sample::Unit};
use fsarena_stats::{comparison::median, ratio::Ratio};
use serde_json::{Value, json};

/// The readings of the layout: id, and name in the table.
fn layout_readings() -> impl Iterator<Item = (&'static str, String)> {
    let scores = [
        (EXTENTS_PER_FILE, "extents per file"),
        (LAYOUT_SCORE, "layout score"),
        (DYNAMIC_LAYOUT_SCORE, "dynamic layout score"),
        (FREE_EXTENTS, "free extents"),
        (LARGEST_FREE_EXTENT, "largest free extent"),
    ];
    let classes = FREE_EXTENT_CLASSES.into_iter().map(|(id, _, class)| (id, format!("free in extents of {class}")));
    scores.into_iter().map(|(id, name)| (id, name.to_string())).chain(classes)
}

/// The values of a figure at one moment, by variant and round or aged image.
struct LayoutFigure {
    /// The index of the task that took the readings.
    task: usize,
    /// `before the work` or `after the work`.
    moment: &'static str,
    /// The id of the reading.
    id: &'static str,
    /// The name in the table.
    name: String,
    unit: Unit,
    values: Vec<Vec<f64>>,
}

/// The figures that the run measured, before and after the work.
fn layout_figures(report: &Report) -> Vec<LayoutFigure> {
    let mut figures = vec![];
    for (task, moment) in [(LAYOUT_BEFORE, "before the work"), (LAYOUT_AFTER, "after the work")] {
        let Some(task) = report.record.task_index(&TaskId::new(task)) else { continue };
        for (id, name) in layout_readings() {
            let Some(mut grid) = Grid::of(&report.record, id) else { continue };
            if has_data(&grid.values[task]) {
                let (unit, values) = (grid.metric.unit, grid.values.swap_remove(task));
                figures.push(LayoutFigure { task, moment, id, name, unit, values });
            }
        }
    }
    figures
}

/// Adds a table of the layout before and after the work.
pub fn add_layout(document: &mut Document, report: &Report, _: Detail) {
    let figures = layout_figures(report);
    if figures.is_empty() {
        return;
    }
    let row = |figure: &LayoutFigure| {
        // A score is a plain number, not a multiple of something.
        let unit = if figure.unit == Unit::Ratio { Unit::Count } else { figure.unit };
        let label = format!("{}, {}", figure.name, figure.moment);
        labelled_row(label, median_cells(&figure.values, unit, Some(figure.task)))
    };
    document.heading(3, "Layout of files and free space");
    document.table(Table::of_figures(variant_header(&report.record, "state")).with_rows(figures.iter().map(row)));
    document.text(
        "The layout score is the share of the blocks of files that follow the block before on the device (Smith and Seltzer \
         1997): 1 means that no file is fragmented. The dynamic layout score is the same for one read of all files in the \
         order of their directories, so it also counts jumps from file to file. Both are from FIEMAP, without metadata; a \
         file in several extents that touch is one piece. Free extents are from GETFSMAP, which ext4 and xfs have. A figure \
         is absent where the filesystem does not report it.",
    );
}

/// The layout as JSON: for each task and figure the median of each variant, with its 95% interval.
pub fn layout_json(report: &Report) -> Value {
    let figure = |figure: &LayoutFigure| {
        let variant = |(name, values): (&str, &Vec<f64>)| {
            let typical = Ratio::typical_value(values);
            json!({
                "variant": name,
                "median": median(values),
                "low": typical.map(|typical| typical.low),
                "high": typical.map(|typical| typical.high),
            })
        };
        let variants = report.record.variant_names().into_iter().zip(&figure.values).map(variant);
        json!({
            "task": report.record.tasks[figure.task].id,
            "metric": figure.id,
            "unit": figure.unit,
            "variants": variants.collect::<Vec<_>>(),
        })
    };
    layout_figures(report).iter().map(figure).collect()
}
