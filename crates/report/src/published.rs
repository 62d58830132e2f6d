//! Published figures as tables; their totals come from the figures. And what their author concluded from them.

pub(crate) mod samples;

use crate::document::{Cell, Document, Table, labelled};
use crate::{error::Error, matrix, page::Page, sections::conclusions};
use fsarena_core::conclusion::{self, Conclusion, Conclusions, Machine};
use fsarena_core::published::{Figure, Kind, Published};
use fsarena_core::sample::Unit;
use fsarena_core::study::{self, Study};
use fsarena_core::{factor, names};
use fsarena_stats::conclusion::recompute;
use fsarena_stats::conclusion::{Answer, check_published};
use serde_json::{Map, Value, json};

/// The set of this name: `piszcz-I`.
///
/// # Errors
/// A name that no set has, or a fault in the figures that ship with a study.
pub fn find(name: &str) -> Result<Published, Error> {
    let sets = study::STUDIES.iter().map(Study::published).collect::<Result<Vec<_>, _>>()?.concat();
    let names: Vec<String> = sets.iter().map(|set| format!("published:{}", set.name())).collect();
    let named = names.iter().map(String::as_str).zip(&sets);
    Ok(names::find("published figures", &format!("published:{name}"), named, |(name, _)| name)?.1.clone())
}

/// The tables of one set: each metric, task by variant. Then what the author concluded, held against them.
///
/// # Errors
/// A fault in the figures or the plan that ship with the study.
pub fn show(published: &Published) -> Result<Page, Error> {
    let mut document = Document::default();
    document.heading(1, format!("published:{}", published.name()));
    let recomputed = recompute(published);
    if !published.samples().is_empty() {
        samples::tables(&mut document, published, &recomputed);
        document.text("Figures as the author printed them.");
    } else {
        tasks(&mut document, published);
    }
    samples::check(&mut document, &recomputed);
    let machine = machine(published)?;
    if !machine.is_empty() {
        document.heading(2, "The machine, as its author states it");
        document.table(Table::pairs(["", "what"], machine.clone()));
    }
    let concluded = concluded(published)?;
    conclusions::add_then(&mut document, &concluded);
    let mut json = as_json(published);
    json["machine"] = json!(machine);
    json["recomputed"] = samples::json(&recomputed);
    json["conclusions"] = conclusions::json_then(&concluded);
    Ok(Page { document, json })
}

/// Whether the figures that the author worked out follow from the others.
pub fn consistency(published: &Published) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("published:{}", published.name()));
    let recomputed = recompute(published);
    samples::check(&mut document, &recomputed);
    Page { document, json: json!({ "name": published.name(), "recomputed": samples::json(&recomputed) }) }
}

/// All that the author of the study concluded; none of a set without a study.
pub(crate) fn conclusions_of(published: &Published) -> Result<Option<Conclusions>, Error> {
    Ok(study::find(&published.study).map(conclusion::of).transpose()?)
}

/// The author's conclusions from this set, and what its figures say of them.
pub(crate) fn concluded(published: &Published) -> Result<Vec<(Conclusion, Answer)>, Error> {
    let Some(study) = study::find(&published.study) else { return Ok(vec![]) };
    let conclusions = conclusion::of(study)?;
    let answers = check_published(&conclusions, &study.published()?);
    let all = conclusions.list.into_iter().zip(answers);
    Ok(all.filter(|(conclusion, _)| conclusion.set == published.set).collect())
}

/// The author's machine; empty where he says nothing of it.
pub(crate) fn machine(published: &Published) -> Result<Machine, Error> {
    let machine = |mut of: Conclusions| of.machine.remove(&published.set);
    Ok(conclusions_of(published)?.and_then(machine).unwrap_or_default())
}

fn tasks(document: &mut Document, published: &Published) {
    let is_matrix = published.rows.iter().all(|row| matrix::place(&row.task_id()).is_some());
    for metric in published.metrics() {
        document.heading(2, metric);
        match is_matrix {
            true => matrices(document, published, metric),
            false => document.table(table(published, metric)),
        }
    }
    document.text(match is_matrix {
        true => "Figures as the author printed them. The highest of each block size and number of threads stands out.",
        false if published.rows.iter().any(|row| row.kind == Kind::Fit) => {
            "Figures as the author stated them. Values marked (fit) are of a curve that he fitted, within its range."
        }
        false => "Figures as the author printed them; totals are their sums.",
    });
}

/// For each mode a table of block sizes by threads.
fn matrices(document: &mut Document, published: &Published, metric: &str) {
    let variants = published.variants();
    let figure = |row: &Figure| {
        let at = matrix::place(&row.task_id())?;
        let variant = variants.iter().position(|variant| *variant == row.variant)?;
        Some(matrix::Figure {
            bare: row.variant == factor::RAW,
            mode: row.task.clone(),
            at,
            variant,
            value: row.value,
            mark: String::new(),
            task: None,
        })
    };
    let of_metric = published.rows.iter().filter(|row| row.metric == metric);
    let figures: Vec<matrix::Figure> = of_metric.filter_map(figure).collect();
    let Some(spec) = published.spec(metric) else { return };
    matrix::tables(document, &variants, &figures, (spec.unit, spec.direction));
}

fn table(published: &Published, metric: &str) -> Table {
    let variants = published.variants();
    let mut table = Table::figures(std::iter::once(&"task").chain(&variants).copied());
    let Some(spec) = published.spec(metric) else { return table };
    let (unit, whole) = (spec.unit, spec.over.tasks.name());
    for task in published.tasks() {
        let params: Vec<String> = task.params.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let told = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
        let figure = |variant: &&str| {
            let figure = published.figure(&task.task_id(), variant, metric)?;
            Some((exact(figure.value, figure.unit) + &kind(figure.kind), figure.value))
        };
        let head = format!("{} {}{told}", task.number, task.title);
        table.rows.push(row(head, variants.iter().map(figure).collect(), whole.is_some()));
    }
    if let Some(whole) = whole {
        let total = |variant: &&str| published.total(variant, metric).map(|sum| (exact(sum, unit), sum));
        let head = format!("{} of {} tasks", whole.to_uppercase(), published.work().len());
        table.rows.push(row(head, variants.iter().map(total).collect(), true));
    }
    table
}

/// Figures behind what they are of; the least stands out where that ranks.
fn row(head: String, figures: Vec<Option<(String, f64)>>, ranks: bool) -> Vec<Cell> {
    let least = figures.iter().flatten().map(|(_, value)| *value).fold(f64::INFINITY, f64::min);
    let cell = |figure: Option<(String, f64)>| match figure {
        Some((text, value)) if ranks && value == least => Cell::from(text).strong(),
        Some((text, _)) => text.into(),
        None => "–".into(),
    };
    labelled(head, figures.into_iter().map(cell))
}

/// As the author printed it: other people's figures are not rounded again.
fn exact(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{value:.2} s"),
        Unit::Percent => format!("{value}%"),
        unit => format!("{value} {}", unit.symbol()).trim_end().to_string(),
    }
}

/// ` (fit)`; nothing for a measured value.
fn kind(kind: Kind) -> String {
    if kind == Kind::Measured { String::new() } else { format!(" ({})", kind.name()) }
}

fn as_json(published: &Published) -> Value {
    let figure = |row: &Figure| {
        let mut value = json!({"number": row.number, "task": row.task, "title": row.title, "variant": row.variant, "kind": row.kind});
        if !row.params.is_empty() {
            value["params"] = json!(row.params);
        }
        if !row.sample.is_empty() {
            value["sample"] = json!(row.sample);
        }
        value[row.unit.named(&row.metric)] = json!(row.value);
        value
    };
    let totals = |metric: &&str| {
        let spec = published.spec(metric)?;
        let of = |variant: &&str| Some((variant.to_string(), json!(published.total(variant, metric)?)));
        let totals: Map<String, Value> = published.variants().iter().filter_map(of).collect();
        // Samples are of one thing at many times, and have no sum.
        let has_total = spec.over.tasks.name().is_some() && published.samples().is_empty();
        has_total.then(|| (spec.unit.named(metric), json!(totals)))
    };
    json!({
        "name": published.name(),
        "study": published.study,
        "set": published.set,
        "figures": published.rows.iter().map(figure).collect::<Vec<_>>(),
        "totals": published.metrics().iter().filter_map(totals).collect::<Map<_, _>>(),
    })
}
