//! Samples that an author took: each metric, sample by variant, and the figures that do not follow from others.

use crate::document::{Cell, Document, Table, labelled};
use crate::number::plural;
use fsarena_core::published::{Figure, Published};
use fsarena_core::sample::Unit;
use fsarena_stats::conclusion::{Misfit, Recomputed};
use serde_json::{Value, json};

/// A table for each metric. Figures that do not follow are marked.
pub fn tables(document: &mut Document, published: &Published, recomputed: &Recomputed) {
    for metric in published.metrics() {
        document.heading(2, title(published, metric));
        document.table(table(published, |sample, variant| {
            Some(cell(published.sampled(sample, variant, metric)?, recomputed))
        }));
    }
}

/// A table of samples by variants.
pub fn table(published: &Published, cell: impl Fn(&str, &str) -> Option<Cell>) -> Table {
    let variants = published.variants();
    let mut table = Table::figures(std::iter::once(&"sample").chain(&variants).copied());
    for sample in published.samples() {
        let cells = variants.iter().map(|variant| cell(sample, variant).unwrap_or("–".into()));
        table.rows.push(labelled(sample, cells));
    }
    table
}

/// `iowait, percent`, `iowait_per_request = iowait / requests`.
fn title(published: &Published, metric: &str) -> String {
    if let Some(made) = published.derived.iter().find(|made| made.metric == metric) {
        return format!("{metric} = {} / {}", made.above, made.below);
    }
    match published.rows.iter().find(|row| row.metric == metric).map(|row| row.unit) {
        None => metric.into(),
        Some(Unit::PerSecond) => format!("{metric} a second"),
        Some(unit) => format!("{metric}, {}", unit.suffix()),
    }
}

fn cell(figure: &Figure, recomputed: &Recomputed) -> Cell {
    let printed = format!("{:.*}", usize::from(figure.decimals), figure.value);
    let is_it = |misfit: &&Misfit| {
        (&misfit.sample, &misfit.variant, &misfit.made.metric)
            == (&figure.sample, &figure.variant, &figure.metric)
    };
    match recomputed.misfits.iter().find(is_it) {
        Some(misfit) => Cell::two(printed, format!("≠ {}", quotient(misfit))).strong(),
        None => printed.into(),
    }
}

fn quotient(misfit: &Misfit) -> String {
    format!("{:.2}", misfit.above / misfit.below)
}

/// Whether the figures that the author worked out follow from the others, where there are such.
pub fn check(document: &mut Document, recomputed: &Recomputed) {
    if recomputed.figures == 0 {
        return;
    }
    document.heading(2, "Does it follow from its own columns?");
    let worked_out = plural(recomputed.figures, "figure");
    let grace = "whatever was rounded off before printing";
    document.text(match recomputed.misfits.len() {
        0 => format!("{worked_out} were worked out from other columns, and all of them follow, {grace}."),
        some => format!(
            "{worked_out} were worked out from other columns. {} of them do not follow, {grace}:",
            if some == 1 { "One".to_string() } else { some.to_string() }
        ),
    });
    document.list(recomputed.misfits.iter().map(sentence).collect());
}

fn sentence(misfit: &Misfit) -> String {
    let Misfit { sample, variant, made, printed, above, below, follows: (low, high) } = misfit;
    format!(
        "{sample}, {variant}: {} is printed as {printed:.2}, but {} / {} = {above} / {below} = {} (from {low:.3} to \
         {high:.3})",
        made.metric,
        made.above,
        made.below,
        quotient(misfit)
    )
}

/// The same for programs.
pub fn json(recomputed: &Recomputed) -> Value {
    let misfit = |misfit: &Misfit| {
        json!({
            "sample": misfit.sample,
            "variant": misfit.variant,
            "metric": misfit.made.metric,
            "made_of": [misfit.made.above, misfit.made.below],
            "printed": misfit.printed,
            "follows_low": misfit.follows.0,
            "follows_high": misfit.follows.1,
        })
    };
    json!({
        "figures": recomputed.figures,
        "do_not_follow": recomputed.misfits.iter().map(misfit).collect::<Vec<_>>(),
    })
}
