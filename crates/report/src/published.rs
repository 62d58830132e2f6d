//! Pages of published figures: tables as the author printed them, the author's conclusions, and a check whether the figures that
//! the author computed follow from the columns that they were computed from.

use crate::document::{Cell, Document, Table, labelled_row};
use crate::sections::claims::{add_published_conclusions, published_conclusions_json};
use crate::{error::Error, matrix, number::plural, page::Page};
use fsarena_core::conclusion::{self, Conclusion, Conclusions, MachineParts};
use fsarena_core::published::{Figure, FigureKind, PublishedSet};
use fsarena_core::study::{self, Study};
use fsarena_core::{factor, names, sample::Unit};
use fsarena_stats::conclusion::{ConclusionVerdict, check_published};
use fsarena_stats::published_values::{Misfit, RecomputedFigures, recompute};
use serde_json::{Map, Value, json};

/// Finds a set of published figures by its name, such as `piszcz-I`.
///
/// # Errors
/// The name is unknown, or the figures that ship with a study are invalid.
pub fn find_published(name: &str) -> Result<PublishedSet, Error> {
    let sets = study::STUDIES.iter().map(Study::published_sets).collect::<Result<Vec<_>, _>>()?.concat();
    let names: Vec<String> = sets.iter().map(|set| format!("published:{}", set.name())).collect();
    let sets_by_name = names.iter().map(String::as_str).zip(&sets);
    Ok(names::find_by_id("published figures", &format!("published:{name}"), sets_by_name, |(name, _)| name)?.1.clone())
}

/// The page of one set: for each metric a table of tasks by variants, then the author's conclusions, checked against these
/// figures.
///
/// # Errors
/// The figures or the plan that ship with the study are invalid.
pub fn published_page(published: &PublishedSet) -> Result<Page, Error> {
    let mut document = Document::default();
    document.heading(1, format!("published:{}", published.name()));
    let recomputed = recompute(published);
    if !published.samples().is_empty() {
        add_sample_tables(&mut document, published, &recomputed);
        document.text("Figures as the author printed them.");
    } else {
        add_task_tables(&mut document, published);
    }
    add_consistency_section(&mut document, &recomputed);
    let machine = stated_machine(published)?;
    if !machine.is_empty() {
        document.heading(2, "The machine, as its author states it");
        document.table(Table::of_pairs(["", "what"], machine.clone()));
    }
    let checked_conclusions = check_author_conclusions(published)?;
    add_published_conclusions(&mut document, &checked_conclusions);
    let mut json = figures_json(published);
    json["machine"] = json!(machine);
    json["recomputed"] = recomputed_json(&recomputed);
    json["conclusions"] = published_conclusions_json(&checked_conclusions);
    Ok(Page { document, json })
}

/// The page that checks whether the figures that the author computed follow from the other columns.
pub fn consistency_page(published: &PublishedSet) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("published:{}", published.name()));
    let recomputed = recompute(published);
    add_consistency_section(&mut document, &recomputed);
    Page { document, json: json!({ "name": published.name(), "recomputed": recomputed_json(&recomputed) }) }
}

/// The conclusions of the author of the study; `None` if the set has no study.
pub(crate) fn study_conclusions(published: &PublishedSet) -> Result<Option<Conclusions>, Error> {
    Ok(study::find(&published.study).map(conclusion::conclusions_of_study).transpose()?)
}

/// Checks the conclusions that the author drew from this set, on the published figures. Returns each with its verdict.
pub(crate) fn check_author_conclusions(
    published: &PublishedSet,
) -> Result<Vec<(Conclusion, ConclusionVerdict)>, Error> {
    let Some(study) = study::find(&published.study) else { return Ok(vec![]) };
    let conclusions = conclusion::conclusions_of_study(study)?;
    let verdicts = check_published(&conclusions, &study.published_sets()?);
    let of_all_sets = conclusions.list.into_iter().zip(verdicts);
    Ok(of_all_sets.filter(|(conclusion, _)| conclusion.set == published.set).collect())
}

/// The machine as the author describes it; empty without a description.
pub(crate) fn stated_machine(published: &PublishedSet) -> Result<MachineParts, Error> {
    let conclusions = study_conclusions(published)?;
    Ok(conclusions.and_then(|mut conclusions| conclusions.machines.remove(&published.set)).unwrap_or_default())
}

/// Adds a table of tasks by variants for each metric, or tables of block sizes by threads.
fn add_task_tables(document: &mut Document, published: &PublishedSet) {
    let is_matrix = published.figures.iter().all(|row| matrix::block_size_and_threads(&row.task_id()).is_some());
    for metric in published.metrics() {
        document.heading(2, metric);
        if is_matrix {
            add_matrices(document, published, metric)
        } else {
            document.table(task_table(published, metric))
        }
    }
    let has_fits = published.figures.iter().any(|row| row.kind == FigureKind::Fit);
    document.text(if is_matrix {
        "Figures as the author printed them. The highest of each block size and number of threads stands out."
    } else if has_fits {
        "Figures as the author stated them. Values marked (fit) are of a curve that he fitted, within its range."
    } else {
        "Figures as the author printed them; totals are their sums."
    });
}

/// Adds a table of block sizes by threads for each mode.
fn add_matrices(document: &mut Document, published: &PublishedSet, metric: &str) {
    let variants = published.variants();
    let matrix_figure = |row: &Figure| {
        let coordinates = matrix::block_size_and_threads(&row.task_id())?;
        let variant = variants.iter().position(|variant| *variant == row.variant)?;
        let is_bare_device = row.variant == factor::RAW;
        Some(matrix::MatrixFigure {
            is_bare_device,
            can_be_best: !is_bare_device,
            mode: row.task.clone(),
            coordinates,
            variant,
            value: row.value,
            mark: String::new(),
            task: None,
        })
    };
    let of_metric = published.figures.iter().filter(|row| row.metric == metric);
    let figures: Vec<matrix::MatrixFigure> = of_metric.filter_map(matrix_figure).collect();
    let Some(spec) = published.spec(metric) else { return };
    matrix::add_matrix_tables(document, &variants, &figures, &spec);
}

/// A table of tasks by variants, with totals if the metric has any.
fn task_table(published: &PublishedSet, metric: &str) -> Table {
    let variants = published.variants();
    let mut table = Table::of_figures(std::iter::once(&"task").chain(&variants).copied());
    let Some(spec) = published.spec(metric) else { return table };
    let (unit, total_name) = (spec.unit, spec.over.tasks.total_name());
    let of_metric = published.figures.iter().filter(|figure| figure.metric == metric);
    let most_decimals = of_metric.map(|figure| figure.decimals).max().unwrap_or(0);
    for task in published.tasks() {
        let params: Vec<String> = task.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let params = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
        let text_and_value = |variant: &&str| {
            let figure = published.figure(&task.task_id(), variant, metric)?;
            let text = format_as_printed(figure.value, figure.unit, figure.decimals);
            Some((text + &kind_suffix(figure.kind), figure.value))
        };
        let label = format!("{} {}{params}", task.number, task.title);
        table.rows.push(figure_row(label, variants.iter().map(text_and_value).collect(), total_name.is_some()));
    }
    if let Some(total_name) = total_name {
        let text_and_total = |variant: &&str| {
            let total = published.total(variant, metric)?;
            Some((format_as_printed(total, unit, most_decimals), total))
        };
        let label = format!("{} of {} tasks", total_name.to_uppercase(), published.tasks_in_totals().len());
        table.rows.push(figure_row(label, variants.iter().map(text_and_total).collect(), true));
    }
    table
}

/// A table row with a label, and the text and the value of each figure. If `highlights_smallest`, the smallest figure is
/// highlighted.
fn figure_row(label: String, figures: Vec<Option<(String, f64)>>, highlights_smallest: bool) -> Vec<Cell> {
    let smallest = figures.iter().flatten().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let cell = |figure: Option<(String, f64)>| match figure {
        Some((text, value)) if highlights_smallest && value == smallest => Cell::from(text).highlighted(),
        Some((text, _)) => text.into(),
        None => "–".into(),
    };
    labelled_row(label, figures.into_iter().map(cell))
}

/// A figure with its unit, not rounded further than the author did. `decimals` is the number of digits that the author printed
/// after the decimal point; seconds have at least two.
fn format_as_printed(value: f64, unit: Unit, decimals: u8) -> String {
    match unit {
        Unit::Seconds => format!("{value:.*} s", usize::from(decimals.max(2))),
        Unit::Percent => format!("{value}%"),
        unit => format!("{value} {}", unit.symbol()).trim_end().to_string(),
    }
}

/// The kind of a figure in parentheses, ` (fit)`; empty for a measured value.
fn kind_suffix(kind: FigureKind) -> String {
    if kind == FigureKind::Measured { String::new() } else { format!(" ({})", kind.name()) }
}

/// The figures of a set and their totals as JSON.
fn figures_json(published: &PublishedSet) -> Value {
    let figure_json = |row: &Figure| {
        let mut value = json!({"number": row.number, "task": row.task, "title": row.title, "variant": row.variant, "kind": row.kind});
        if !row.params.is_empty() {
            value["params"] = json!(row.params);
        }
        if !row.sample.is_empty() {
            value["sample"] = json!(row.sample);
        }
        value[row.unit.with_suffix(&row.metric)] = json!(row.value);
        value
    };
    let totals_of_metric = |metric: &&str| {
        let spec = published.spec(metric)?;
        let total = |variant: &&str| Some((variant.to_string(), json!(published.total(variant, metric)?)));
        let totals: Map<String, Value> = published.variants().iter().filter_map(total).collect();
        // Samples are the same quantity at many times, and have no sum.
        let has_total = spec.over.tasks.total_name().is_some() && published.samples().is_empty();
        has_total.then(|| (spec.unit.with_suffix(metric), json!(totals)))
    };
    json!({
        "name": published.name(),
        "study": published.study,
        "set": published.set,
        "figures": published.figures.iter().map(figure_json).collect::<Vec<_>>(),
        "totals": published.metrics().iter().filter_map(totals_of_metric).collect::<Map<_, _>>(),
    })
}

/// Adds a table of samples by variants for each metric. Computed figures that do not follow from their columns are marked.
pub fn add_sample_tables(document: &mut Document, published: &PublishedSet, recomputed: &RecomputedFigures) {
    for metric in published.metrics() {
        document.heading(2, metric_title(published, metric));
        document.table(sample_table(published, |sample, variant| {
            Some(sample_cell(published.figure_of_sample(sample, variant, metric)?, recomputed))
        }));
    }
}

/// A table of samples by variants, with the cells that `cell(sample, variant)` returns.
pub fn sample_table(published: &PublishedSet, cell: impl Fn(&str, &str) -> Option<Cell>) -> Table {
    let variants = published.variants();
    let mut table = Table::of_figures(std::iter::once(&"sample").chain(&variants).copied());
    for sample in published.samples() {
        let cells = variants.iter().map(|variant| cell(sample, variant).unwrap_or("–".into()));
        table.rows.push(labelled_row(sample, cells));
    }
    table
}

/// The heading of a metric: `iowait, percent`, or for a computed metric `iowait_per_request = iowait / requests`.
fn metric_title(published: &PublishedSet, metric: &str) -> String {
    if let Some(derived) = published.quotients.iter().find(|derived| derived.metric == metric) {
        return format!("{metric} = {} / {}", derived.numerator, derived.denominator);
    }
    match published.figures.iter().find(|row| row.metric == metric).map(|row| row.unit) {
        None => metric.into(),
        Some(Unit::PerSecond) => format!("{metric} a second"),
        Some(unit) => format!("{metric}, {}", unit.suffix()),
    }
}

/// The cell of a figure. If the figure does not follow from its columns, the recomputed value is below it.
fn sample_cell(figure: &Figure, recomputed: &RecomputedFigures) -> Cell {
    let printed = format!("{:.*}", usize::from(figure.decimals), figure.value);
    let is_this_figure = |misfit: &&Misfit| {
        (&misfit.sample, &misfit.variant, &misfit.derived.metric) == (&figure.sample, &figure.variant, &figure.metric)
    };
    match recomputed.misfits.iter().find(is_this_figure) {
        Some(misfit) => Cell::two_lines(printed, format!("≠ {}", format_quotient(misfit))).highlighted(),
        None => printed.into(),
    }
}

/// The recomputed quotient of two columns, with two decimals.
fn format_quotient(misfit: &Misfit) -> String {
    format!("{:.2}", misfit.numerator / misfit.denominator)
}

/// Adds a section on whether the figures that the author computed follow from their columns. Adds nothing without such figures.
pub fn add_consistency_section(document: &mut Document, recomputed: &RecomputedFigures) {
    if recomputed.figures == 0 {
        return;
    }
    document.heading(2, "Do the computed figures follow from their columns?");
    let figures = plural(recomputed.figures, "figure");
    let result = match recomputed.misfits.len() {
        0 => "all of them follow from these columns, within the rounding of the columns.".to_string(),
        misfits => format!("{misfits} of them cannot follow from these columns, even with their rounding:"),
    };
    document.text(format!("The author computed {figures} from other columns; {result}"));
    document.list(recomputed.misfits.iter().map(misfit_sentence).collect());
}

/// A sentence about a printed figure that does not follow from its columns.
fn misfit_sentence(misfit: &Misfit) -> String {
    let Misfit { sample, variant, derived, printed, numerator, denominator, possible: (low, high) } = misfit;
    format!(
        "{sample}, {variant}: {} is printed as {printed:.2}, but {} / {} = {numerator} / {denominator} = {} (from \
         {low:.3} to {high:.3})",
        derived.metric,
        derived.numerator,
        derived.denominator,
        format_quotient(misfit)
    )
}

/// The number of recomputed figures, and the figures that do not follow from their columns, as JSON.
pub fn recomputed_json(recomputed: &RecomputedFigures) -> Value {
    let misfit_json = |misfit: &Misfit| {
        json!({
            "sample": misfit.sample,
            "variant": misfit.variant,
            "metric": misfit.derived.metric,
            "made_of": [misfit.derived.numerator, misfit.derived.denominator],
            "printed": misfit.printed,
            "follows_low": misfit.possible.0,
            "follows_high": misfit.possible.1,
        })
    };
    json!({
        "figures": recomputed.figures,
        "do_not_follow": recomputed.misfits.iter().map(misfit_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_keep_the_digits_of_the_author() {
        assert_eq!(format_as_printed(157.800_932, Unit::Seconds, 6), "157.800932 s");
        assert_eq!(format_as_printed(10.0, Unit::Seconds, 0), "10.00 s");
        assert_eq!(format_as_printed(4867.0, Unit::PerSecond, 0), "4867 /s");
    }
}
