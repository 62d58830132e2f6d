//! What a comparison of runs says: its answer, its picture, its tables.

use super::circumstances::{self, differences};
use super::{Pair, Side, Task};
use crate::compare::Compared;
use crate::compare::answer::{Answer, Figure, estimate};
use crate::compare::order::{self, Orders};
use crate::compare::picture::Picture;
use crate::difference::Finding;
use crate::document::{Cell, Document, Part, Table};
use crate::error::Error;
use crate::exporters::ratio_json;
use crate::number::{self, plural};
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::ratio::Ratio;
use serde_json::{Value, json};

const TERMS: [&str; 2] = ["better", "worse"];

/// Runs beside the first of them, and why others are not.
pub fn compared(pairs: &[Pair], refused: &[Error]) -> Compared {
    let a = pairs[0].a;
    let sides: Vec<&Side> = std::iter::once(a).chain(pairs.iter().map(|pair| pair.b)).collect();
    let metric = &a.analysis.metric;
    let letters: Vec<String> = (0..sides.len()).map(letter).collect();
    let name = |letter: &String| if pairs.len() == 1 { format!("{letter} beside A") } else { letter.clone() };
    let names: Vec<String> = letters[1..].iter().map(name).collect();
    let figures = figures(pairs);
    let answer = Answer { figures: &figures, sides: &names, margin: Some(margin(a.record)), terms: TERMS };
    let axis = match &names[..] {
        [_] => format!("{} in B over A", metric.id),
        _ => format!("{} over that of A", metric.id),
    };
    let title = format!("{}, ratios to A with 95% intervals", metric.id);
    let chart = Picture { figures: &figures, sides: &names, title, axis, terms: TERMS }.chart();
    let mut compared = Compared {
        title: title_of(&sides, metric),
        facts: sides
            .iter()
            .zip(&letters)
            .map(|(side, letter)| {
                format!("{letter}: {}, {}", side.record.id, plural(side.analysis.grid.rounds.len(), "round"))
            })
            .collect(),
        chart,
        json: as_json(pairs, metric),
        ..Compared::default()
    };
    if figures.iter().any(|figure| figure.finding == Finding::Provisional && figure.ratio.is_some()) {
        let words = "PROVISIONAL where marked ?: fewer than 8 rounds on one side.";
        compared.answer.parts.push(Part::Loud(words.into()));
    }
    let mut words = answer.words();
    for (pair, letter) in pairs.iter().zip(&letters[1..]) {
        words.extend(circumstances::left_out(pair, ["A", letter]));
    }
    // Of several each has its own below.
    if let [pair] = pairs {
        words.extend(differences(pair.a.record, pair.b.record));
    }
    words.extend(refused.iter().map(|why| format!("Left out: {why}")));
    compared.say(words);
    compared.answer.text(which(&sides, &letters, metric));
    tables(&mut compared.data, pairs, &letters);
    circumstances::add(&mut compared.method, &sides, pairs, &letters);
    compared.method.text(
        "These are different runs without common rounds: whatever else changed between them (load, temperature, free \
         space) is in these ratios, and the intervals contain only the spread inside each run. To compare two settings \
         with certainty, make them variants of one run.",
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

fn title_of(sides: &[&Side], metric: &MetricInfo) -> String {
    let (first, others) = (&sides[0].record.id, &sides[1..]);
    match others {
        [one] => format!("run {} beside run {first}, by {}", one.record.id, metric.id),
        _ => format!("{} beside run {first}, by {}", plural(others.len(), "run"), metric.id),
    }
}

/// The difference that matters, as the first run's plan has it.
fn margin(record: &RunRecord) -> f64 {
    record.plan.stop.margin()
}

/// What the letters stand for.
fn which(sides: &[&Side], letters: &[String], metric: &MetricInfo) -> String {
    let named: Vec<String> = sides
        .iter()
        .zip(letters)
        .map(|(side, letter)| format!("{letter} is run {}", side.record.id))
        .collect();
    let better = match metric.direction {
        Direction::Lower => "lower is better",
        Direction::Higher => "higher is better",
        Direction::Neutral => "neither more nor less of it is better",
    };
    format!("{}. For {}, {better}. A figure is one task on one variant.", named.join(", "), metric.id)
}

/// Every ratio of every pair.
fn figures(pairs: &[Pair]) -> Vec<Figure> {
    let mut figures = vec![];
    for (side, pair) in pairs.iter().enumerate() {
        let direction = pair.a.analysis.metric.direction;
        let margin = margin(pair.a.record);
        for task in &pair.tasks {
            for ((variant, _), ratio) in pair.variants.iter().zip(&task.ratios) {
                // For two independent samples the 95% interval stands in for the 90% one: stricter, never laxer.
                let narrow = ratio.map(|ratio| (ratio.low.ln(), ratio.high.ln()));
                figures.push(Figure {
                    what: task.title.clone(),
                    variant: pair.a.record.variants[*variant].name.clone(),
                    side,
                    ratio: ratio.as_ref().map(estimate),
                    finding: Finding::of(*ratio, narrow, margin),
                    direction,
                    over_all: task.over_all,
                    then: None,
                });
            }
        }
    }
    figures
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
    let some = pairs.iter().any(|pair| pair.tasks.iter().any(|task| task.orders.is_some()));
    document.heading(3, "Order of the variants");
    if let Some(table) = order::merged(&pairs.iter().map(of_pair).collect::<Vec<_>>(), letters) {
        document.table(table);
    } else {
        for pair in pairs {
            let ids = [pair.a, pair.b].map(|side| format!("first in {}", side.record.id));
            document.table(order::table(ids, of_pair(pair).into_iter()));
        }
    }
    document.text(if some { order::LEGEND } else { "There are not two variants in common." });
}

fn of_pair<'p>(pair: &'p Pair) -> Vec<(&'p str, &'p Orders<'p>)> {
    pair.tasks.iter().filter_map(|task| Some((task.title.as_str(), task.orders.as_ref()?))).collect()
}

/// Task by variant.
fn ratio_table(pair: &Pair) -> Table {
    let mut table = Table::figures(["task"]);
    table
        .header
        .extend(pair.variants.iter().map(|(variant, _)| pair.a.record.variants[*variant].name.clone()));
    for task in &pair.tasks {
        let mut row: Vec<Cell> = vec![task.title.as_str().into()];
        row.extend(task.ratios.iter().map(|ratio| ratio.as_ref().map_or("–".into(), ratio_cell)));
        table.rows.push(row);
    }
    table
}

/// Task and variant by run: all that any pair has.
fn side_by_side(pairs: &[Pair], letters: &[String]) -> Table {
    let mut table = Table::figures(["task, variant"]);
    table.header.extend(letters[1..].iter().map(|letter| format!("{letter}/A")));
    let mut titles: Vec<&str> = vec![];
    for task in pairs.iter().flat_map(|pair| &pair.tasks) {
        if !titles.contains(&task.title.as_str()) {
            titles.push(&task.title);
        }
    }
    for title in titles {
        for variant in &pairs[0].a.record.variants {
            let ratios: Vec<Option<&Ratio>> =
                pairs.iter().map(|pair| of(pair, title, &variant.name)).collect();
            if ratios.iter().any(Option::is_some) {
                let cells = ratios.into_iter().map(|ratio| ratio.map_or("–".into(), ratio_cell));
                table.rows.push(
                    std::iter::once(format!("{title}, {}", variant.name).into()).chain(cells).collect(),
                );
            }
        }
    }
    table
}

/// The ratio of a pair on a task and a variant.
fn of<'p>(pair: &'p Pair, task: &str, variant: &str) -> Option<&'p Ratio> {
    let task = pair.tasks.iter().find(|other| other.title == task)?;
    let at = pair.variants.iter().position(|(other, _)| pair.a.record.variants[*other].name == variant)?;
    task.ratios[at].as_ref()
}

fn ratio_cell(ratio: &Ratio) -> Cell {
    let mark = if ratio.provisional {
        " ?"
    } else if ratio.separated() {
        " *"
    } else {
        ""
    };
    Cell::two(
        format!("{}{mark}", number::beside(ratio.value, &[1.0])),
        number::interval(ratio.low, ratio.high),
    )
}

fn as_json(pairs: &[Pair], metric: &MetricInfo) -> Value {
    let mut all: Vec<Value> = pairs.iter().map(|pair| pair_json(pair, metric)).collect();
    if all.len() == 1 { all.remove(0) } else { json!({ "comparisons": all }) }
}

fn pair_json(pair: &Pair, metric: &MetricInfo) -> Value {
    let (a, b) = (pair.a.record, pair.b.record);
    let task = |task: &Task| {
        let names = pair.variants.iter().map(|(variant, _)| &a.variants[*variant].name);
        let ratios: serde_json::Map<String, Value> = names
            .zip(&task.ratios)
            .map(|(name, ratio)| (name.to_string(), ratio.as_ref().map_or(Value::Null, ratio_json)))
            .collect();
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
