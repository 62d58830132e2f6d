//! Runs beside a first one: the answer, its picture, its tables.

mod circumstances;
mod pair;

use super::Compared;
use super::answer::{Answer, Figure};
use super::order::{self, Orders};
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Document, Table, labelled};
use crate::{error::Error, number::plural};
use circumstances::differences;
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{names::distinct, sample::Direction};
use fsarena_stats::ratio::Ratio;
use pair::{Pair, Side, Task};
use serde_json::{Map, Value, json};

/// Compares runs with the first of them, variant by variant and task by task: the ratios to it, estimated from two
/// independent samples (see [`fsarena_stats::hodges_lehmann`]), and where the order of the variants changed. Of several, those that
/// cannot be compared with the first are left out, with the reason.
///
/// # Errors
/// Where the first does not know the metric, or every other does not either, or has no variant or no task in common with it.
pub fn compare_runs(records: &[RunRecord], metric: &str) -> Result<Compared, Error> {
    let [first, others @ ..] = records else { return Ok(Compared::default()) };
    let a = Side::of(first, metric)?;
    let mut refused = vec![];
    let beside = |other| a.comparable(other).and_then(|()| Side::of(other, metric));
    let sides = kept(others.iter().map(beside), &mut refused);
    let pairs = kept(sides.iter().map(|other| Pair::of(&a, other)), &mut refused);
    if pairs.is_empty() {
        return refused.into_iter().next().map_or(Ok(Compared::default()), Err);
    }
    Ok(compared(&pairs, &refused))
}

/// What went well; what did not is added to a list.
fn kept<T>(results: impl Iterator<Item = Result<T, Error>>, refused: &mut Vec<Error>) -> Vec<T> {
    results.filter_map(|result| result.map_err(|error| refused.push(error)).ok()).collect()
}

/// Runs beside the first of them, and why others are not.
fn compared(pairs: &[Pair], refused: &[Error]) -> Compared {
    let a = pairs[0].a;
    let sides: Vec<&Side> = std::iter::once(a).chain(pairs.iter().map(|pair| pair.b)).collect();
    let metric = &a.analysis.metric;
    let letters: Vec<String> = (0..sides.len()).map(letter).collect();
    let only = pairs.len() == 1;
    let name = |letter: &String| if only { format!("{letter} beside A") } else { letter.clone() };
    let names: Vec<String> = letters[1..].iter().map(name).collect();
    let (figures, margin) = (figures(pairs), Some(margin(a.record)));
    let answer = Answer { figures: &figures, sides: &names, margin, terms: ["better", "worse"] };
    let axis = if only { " in B over A" } else { " over that of A" };
    let others = if only { format!("run {}", sides[1].record.id) } else { plural(pairs.len(), "run") };
    let rounds = |side: &Side| plural(side.analysis.grid.rounds.len(), "round");
    let lettered = || sides.iter().zip(&letters);
    let mut compared = Compared {
        title: format!("{others} beside run {}, by {}", a.record.id, metric.id),
        facts: lettered().map(|(side, at)| format!("{at}: {}, {}", side.record.id, rounds(side))).collect(),
        chart: answer
            .chart(format!("{}, ratios to A with 95% intervals", metric.id), format!("{}{axis}", metric.id)),
        json: as_json(pairs, metric),
        ..Compared::default()
    };
    if let Some(confounded) = circumstances::confounded(pairs) {
        compared.answer.loud(confounded);
    }
    if figures.iter().any(|figure| figure.finding == Finding::Provisional && figure.ratio.is_some()) {
        compared.answer.loud("PROVISIONAL where marked ?: fewer than 8 rounds on one side.");
    }
    let mut words = answer.words();
    for (pair, letter) in pairs.iter().zip(&letters[1..]) {
        words.extend(circumstances::left_out(pair, ["A", letter]));
    }
    // Of several each has its own below.
    if only {
        words.extend(differences(a.record, sides[1].record));
    }
    words.extend(refused.iter().map(|why| format!("Left out: {why}")));
    compared.say(words);
    let better = match metric.direction {
        Direction::Lower => "lower is better",
        Direction::Higher => "higher is better",
        Direction::Neutral => "neither more nor less of it is better",
    };
    let named: Vec<String> = lettered().map(|(side, at)| format!("{at} is run {}", side.record.id)).collect();
    compared.answer.text(format!(
        "{}. For {}, {better}. A figure is one task on one variant.",
        named.join(", "),
        metric.id
    ));
    tables(&mut compared.data, pairs, &letters);
    circumstances::add(&mut compared.method, &sides, pairs, &letters);
    compared.method.text(
        "The intervals contain only the spread inside each run. To compare two settings with certainty, make them variants \
         of one run.",
    );
    compared
}

/// What the `at`-th run is called: A, B, … and from the 27th on by its number.
fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at @ 0..=25) => char::from(b'A' + at).to_string(),
        _ => format!("run {}", at + 1),
    }
}

/// The difference that matters, as the first run's plan has it.
fn margin(record: &RunRecord) -> f64 {
    record.plan.stop.margin()
}

/// Every ratio of every pair.
fn figures(pairs: &[Pair]) -> Vec<Figure> {
    let mut figures = vec![];
    for (side, pair) in pairs.iter().enumerate() {
        let direction = pair.a.analysis.metric.direction;
        for task in &pair.tasks {
            for (variant, ratio) in names(pair).zip(&task.ratios) {
                let finding = Finding::of_independent(*ratio, margin(pair.a.record));
                let figure = Figure::new(&task.title, ratio.map(Into::into), finding, direction);
                figures.push(Figure { variant: variant.into(), side, over_all: task.over_all, ..figure });
            }
        }
    }
    figures
}

/// The names of the variants of a pair.
fn names<'p>(pair: &'p Pair) -> impl Iterator<Item = &'p str> {
    pair.variants.iter().map(|(variant, _)| pair.a.record.variants[*variant].name.as_str())
}

fn tables(document: &mut Document, pairs: &[Pair], letters: &[String]) {
    let metric = &pairs[0].a.analysis.metric.id;
    if let [pair] = pairs {
        let (a, b) = (&pair.a.record.id, &pair.b.record.id);
        document.heading(3, format!("{metric} in {b} over {metric} in {a}"));
        document.table(ratio_table(pair));
    } else {
        document.heading(3, format!("{metric} of each run over {metric} in A"));
        document.table(side_by_side(pairs, letters));
    }
    document.text(
        "Ratio (Hodges–Lehmann, two samples) over its 95% Mann–Whitney interval, for each variant and task, not \
         corrected for their number. * marks those that exclude 1.",
    );
    document.heading(3, "Order of the variants");
    let orders: Vec<_> = pairs.iter().map(orders).collect();
    if let Some(table) = order::merged(&orders, letters) {
        document.table(table);
    } else {
        for (pair, orders) in pairs.iter().zip(&orders) {
            let ids = [pair.a, pair.b].map(|side| format!("first in {}", side.record.id));
            document.table(order::table(ids, orders.iter().copied()));
        }
    }
    let some = orders.iter().any(|orders| !orders.is_empty());
    document.text(if some { order::LEGEND } else { "There are not two variants in common." });
}

fn orders<'p>(pair: &'p Pair) -> Vec<(&'p str, &'p Orders<'p>)> {
    pair.tasks.iter().filter_map(|task| Some((task.title.as_str(), task.orders.as_ref()?))).collect()
}

/// Task by variant.
fn ratio_table(pair: &Pair) -> Table {
    let row = |task: &Task| labelled(task.title.as_str(), task.ratios.iter().map(marked));
    Table::figures(std::iter::once("task").chain(names(pair))).with(pair.tasks.iter().map(row))
}

/// Task and variant by run: all that any pair has.
fn side_by_side(pairs: &[Pair], letters: &[String]) -> Table {
    let mut table = Table::figures(["task, variant"]);
    table.header.extend(letters[1..].iter().map(|letter| format!("{letter}/A")));
    for title in distinct(pairs.iter().flat_map(|pair| &pair.tasks).map(|task| task.title.as_str())) {
        for variant in pairs[0].a.record.names() {
            let ratios: Vec<Option<Ratio>> = pairs.iter().map(|pair| of(pair, title, variant)).collect();
            if ratios.iter().any(Option::is_some) {
                table.rows.push(labelled(format!("{title}, {variant}"), ratios.iter().map(marked)));
            }
        }
    }
    table
}

/// The ratio of a pair on a task and a variant.
fn of(pair: &Pair, task: &str, variant: &str) -> Option<Ratio> {
    let task = pair.tasks.iter().find(|other| other.title == task)?;
    task.ratios[names(pair).position(|other| other == variant)?]
}

/// A ratio, marked where it is provisional or excludes 1.
fn marked(ratio: &Option<Ratio>) -> Cell {
    let Some(ratio) = *ratio else { return "–".into() };
    let mark = if ratio.separated() { " *" } else { "" };
    ratio_cell(ratio, if ratio.provisional { " ?" } else { mark })
}

fn as_json(pairs: &[Pair], metric: &MetricSpec) -> Value {
    let mut all: Vec<Value> = pairs.iter().map(|pair| pair_json(pair, metric)).collect();
    if all.len() == 1 { all.remove(0) } else { json!({ "comparisons": all }) }
}

fn pair_json(pair: &Pair, metric: &MetricSpec) -> Value {
    let (a, b) = (pair.a.record, pair.b.record);
    let task = |task: &Task| {
        let named = names(pair).zip(&task.ratios);
        let ratios: Map<String, Value> = named.map(|(name, ratio)| (name.into(), json!(ratio))).collect();
        json!({"task": task.title, "ratio_b_to_a": ratios, "order": task.orders.as_ref().map(Orders::json)})
    };
    json!({
        "a": a.id,
        "b": b.id,
        "metric": metric,
        "paired": false,
        "differences": differences(a, b),
        "tasks": pair.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}
