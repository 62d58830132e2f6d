//! Runs beside a first one: the answer, its picture, its tables, what differs between the runs and what readers should know.

use super::run_pair::{ComparedRun, RunPair, TaskRatios};
use crate::compare::answer::{ComparedRatio, RatioSummary, counted};
use crate::compare::order::{self, OrderPair};
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Document, Table, labelled_row, row};
use crate::sections::warnings::notes_of_kind;
use crate::words::{begun, each_host, label};
use crate::{compare::comparison_report::ComparisonReport, error::Error, number::plural, sections::head};
use fsarena_core::plan::{Backing, Emulator};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{event::NoteKind, names::distinct, sample::Direction};
use fsarena_stats::ratio::Ratio;
use serde_json::{Map, Value, json};

/// Compares runs with the first of them, variant by variant and task by task: the ratios to it, estimated from two
/// independent samples (see [`fsarena_stats::hodges_lehmann`]), and where the order of the variants changed. Of several, those that
/// cannot be compared with the first are left out, with the reason.
///
/// # Errors
/// Where the first does not know the metric, or every other does not either, or has no variant or no task in common with it.
pub fn compare_runs(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    let [first, others @ ..] = records else { return Ok(ComparisonReport::default()) };
    let a = ComparedRun::of(first, metric)?;
    let mut refused = vec![];
    let beside = |other| a.comparable(other).and_then(|()| ComparedRun::of(other, metric));
    let sides = successes(others.iter().map(beside), &mut refused);
    let pairs = successes(sides.iter().map(|other| RunPair::of(&a, other)), &mut refused);
    if pairs.is_empty() {
        return refused.into_iter().next().map_or(Ok(ComparisonReport::default()), Err);
    }
    Ok(comparison_report(&pairs, &refused))
}

/// The values of successful results; errors are added to `refused`.
fn successes<T>(results: impl Iterator<Item = Result<T, Error>>, refused: &mut Vec<Error>) -> Vec<T> {
    results.filter_map(|result| result.map_err(|error| refused.push(error)).ok()).collect()
}

/// Runs beside the first of them, and why others are not.
fn comparison_report(pairs: &[RunPair], refused: &[Error]) -> ComparisonReport {
    let a = pairs[0].a;
    let sides: Vec<&ComparedRun> = std::iter::once(a).chain(pairs.iter().map(|pair| pair.b)).collect();
    let metric = &a.analysis.metric;
    let letters: Vec<String> = (0..sides.len()).map(run_letter).collect();
    let only = pairs.len() == 1;
    let name = |letter: &String| if only { format!("{letter} beside A") } else { letter.clone() };
    let names: Vec<String> = letters[1..].iter().map(name).collect();
    let (figures, margin) = (all_ratios(pairs), Some(margin(a.record)));
    let answer = RatioSummary { figures: &figures, sides: &names, margin, terms: ["better", "worse"] };
    let axis = if only { " in B over A" } else { " over that of A" };
    let others = if only { format!("run {}", sides[1].record.id) } else { plural(pairs.len(), "run") };
    let rounds = |side: &ComparedRun| plural(side.analysis.grid.rounds.len(), "round");
    let lettered = || sides.iter().zip(&letters);
    let mut compared = ComparisonReport {
        title: format!("{others} beside run {}, by {}", a.record.id, metric.id),
        facts: lettered().map(|(side, at)| format!("{at}: {}, {}", side.record.id, rounds(side))).collect(),
        chart: answer
            .chart(format!("{}, ratios to A with 95% intervals", metric.id), format!("{}{axis}", metric.id)),
        json: comparison_json(pairs, metric),
        ..ComparisonReport::default()
    };
    if let Some(confounded) = confounded_note(pairs) {
        compared.answer.warning(confounded);
    }
    if figures.iter().any(|figure| figure.finding == Finding::Provisional && figure.ratio.is_some()) {
        compared.answer.warning("PROVISIONAL where marked ?: fewer than 8 rounds on one side.");
    }
    let mut words = answer.words();
    for (pair, letter) in pairs.iter().zip(&letters[1..]) {
        words.extend(left_out_of_pair(pair, ["A", letter]));
    }
    // Of several each has its own below.
    if only {
        words.extend(run_differences(a.record, sides[1].record));
    }
    words.extend(refused.iter().map(|why| format!("Left out: {why}")));
    compared.set_answer(words);
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
    add_tables(&mut compared.data, pairs, &letters);
    add_circumstances(&mut compared.method, &sides, pairs, &letters);
    compared.method.text(
        "The intervals contain only the spread inside each run. To compare two settings with certainty, make them variants \
         of one run.",
    );
    compared
}

/// The name of the `at`-th run: A, B, … and from the 27th on `run 27`.
fn run_letter(at: usize) -> String {
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
fn all_ratios(pairs: &[RunPair]) -> Vec<ComparedRatio> {
    let mut figures = vec![];
    for (side, pair) in pairs.iter().enumerate() {
        let direction = pair.a.analysis.metric.direction;
        for task in &pair.tasks {
            for (variant, ratio) in variant_names(pair).zip(&task.ratios) {
                let finding = Finding::of_independent(*ratio, margin(pair.a.record));
                let figure = ComparedRatio::new(&task.title, ratio.map(Into::into), finding, direction);
                figures.push(ComparedRatio {
                    variant: variant.into(),
                    side,
                    over_all: task.over_all,
                    ..figure
                });
            }
        }
    }
    figures
}

/// The names of the variants of a pair.
fn variant_names<'p>(pair: &'p RunPair) -> impl Iterator<Item = &'p str> {
    pair.variants.iter().map(|(variant, _)| pair.a.record.variants[*variant].name.as_str())
}

fn add_tables(document: &mut Document, pairs: &[RunPair], letters: &[String]) {
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
    let orders: Vec<_> = pairs.iter().map(task_orders).collect();
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

fn task_orders<'p>(pair: &'p RunPair) -> Vec<(&'p str, &'p OrderPair<'p>)> {
    pair.tasks.iter().filter_map(|task| Some((task.title.as_str(), task.orders.as_ref()?))).collect()
}

/// Task by variant.
fn ratio_table(pair: &RunPair) -> Table {
    let row = |task: &TaskRatios| labelled_row(task.title.as_str(), task.ratios.iter().map(marked_ratio));
    Table::figures(std::iter::once("task").chain(variant_names(pair))).with(pair.tasks.iter().map(row))
}

/// Task and variant by run: all that any pair has.
fn side_by_side(pairs: &[RunPair], letters: &[String]) -> Table {
    let mut table = Table::figures(["task, variant"]);
    table.header.extend(letters[1..].iter().map(|letter| format!("{letter}/A")));
    for title in distinct(pairs.iter().flat_map(|pair| &pair.tasks).map(|task| task.title.as_str())) {
        for variant in pairs[0].a.record.names() {
            let ratios: Vec<Option<Ratio>> =
                pairs.iter().map(|pair| ratio_of(pair, title, variant)).collect();
            if ratios.iter().any(Option::is_some) {
                table.rows.push(labelled_row(format!("{title}, {variant}"), ratios.iter().map(marked_ratio)));
            }
        }
    }
    table
}

/// The ratio of a pair on a task and a variant.
fn ratio_of(pair: &RunPair, task: &str, variant: &str) -> Option<Ratio> {
    let task = pair.tasks.iter().find(|other| other.title == task)?;
    task.ratios[variant_names(pair).position(|other| other == variant)?]
}

/// A ratio, marked where it is provisional or excludes 1.
fn marked_ratio(ratio: &Option<Ratio>) -> Cell {
    let Some(ratio) = *ratio else { return "–".into() };
    let mark = if ratio.separated() { " *" } else { "" };
    ratio_cell(ratio, if ratio.provisional { " ?" } else { mark })
}

fn comparison_json(pairs: &[RunPair], metric: &MetricSpec) -> Value {
    let mut all: Vec<Value> = pairs.iter().map(|pair| pair_json(pair, metric)).collect();
    if all.len() == 1 { all.remove(0) } else { json!({ "comparisons": all }) }
}

fn pair_json(pair: &RunPair, metric: &MetricSpec) -> Value {
    let (a, b) = (pair.a.record, pair.b.record);
    let task = |task: &TaskRatios| {
        let named = variant_names(pair).zip(&task.ratios);
        let ratios: Map<String, Value> = named.map(|(name, ratio)| (name.into(), json!(ratio))).collect();
        json!({"task": task.title, "ratio_b_to_a": ratios, "order": task.orders.as_ref().map(OrderPair::json)})
    };
    json!({
        "a": a.id,
        "b": b.id,
        "metric": metric,
        "paired": false,
        "differences": run_differences(a, b),
        "tasks": pair.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}

/// The most runs that are columns; more are rows.
const MAX_COLUMNS: usize = 4;

/// The runs, their differences and their warnings. `letters` are what they are called.
pub fn add_circumstances(
    document: &mut Document,
    sides: &[&ComparedRun],
    pairs: &[RunPair],
    letters: &[String],
) {
    document.table(machine_table(sides, letters));
    let warnings: Vec<String> =
        sides.iter().zip(letters).flat_map(|(side, letter)| run_warnings(side.record, letter)).collect();
    if !warnings.is_empty() {
        document.heading(3, "Warnings");
        document.list(warnings);
    }
    for pair in pairs {
        let (a, b, metric) = (pair.a.record, pair.b.record, &pair.a.analysis.metric.id);
        let differences = run_differences(a, b);
        // If there are only two runs, the title names them and the answer says how they differ.
        if pairs.len() > 1 {
            document.heading(3, format!("run {} beside run {}, by {metric}", b.id, a.id));
            document.list(differences.clone());
        }
        if differences.is_empty() {
            document
                .text("Nothing that was recorded differs between them: machine, kernel, scale, settings.");
        }
    }
}

/// Facts of each run.
fn machine_table(sides: &[&ComparedRun], letters: &[String]) -> Table {
    let names =
        ["", "study", "begun", "machine", "kernel", "filesystems on", "scale", "rounds", "ended", "fsarena"];
    let mut rows: Vec<Vec<Cell>> = vec![names.into_iter().map(Cell::from).collect()];
    for (side, letter) in sides.iter().zip(letters) {
        let record = side.record;
        let ended = if record.status.complete { "complete".to_string() } else { record.status.why.clone() };
        rows.push(row![
            format!("{letter}: {}", record.id),
            record.plan.name.as_str(),
            begun(&record.started),
            hostnames(record),
            kernels(record),
            head::describe_storage(record),
            record.plan.scale.name(),
            side.analysis.grid.rounds.len().to_string(),
            ended,
            record.version.as_str(),
        ]);
    }
    if sides.len() <= MAX_COLUMNS {
        let columns = names.len();
        rows = (0..columns).map(|at| rows.iter().map(|row| row[at].clone()).collect()).collect();
    }
    let heads = rows.remove(0);
    Table { rows, ..Table::words(heads.iter().map(|cell| cell.lines.concat())) }
}

fn hostnames(record: &RunRecord) -> String {
    each_host(record, ", ", |host| host.hostname.clone())
}

fn kernels(record: &RunRecord) -> String {
    each_host(record, ", ", |host| host.kernel.clone())
}

/// The warnings of a run.
fn run_warnings(record: &RunRecord, letter: &str) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    items.extend(notes_of_kind(record, NoteKind::Fairness));
    let count = |kind: NoteKind| record.notes_of(kind).count();
    let counted = [
        (count(NoteKind::Dropped), "round", "dropped because something disturbed them"),
        (count(NoteKind::IdleTimeout), "task", "begun on a busy machine"),
    ];
    let counted = counted.into_iter().filter(|(count, ..)| *count > 0);
    items.extend(counted.map(|(count, what, why)| format!("{} {why}", plural(count, what))));
    items.into_iter().map(|item| format!("{letter}: {item}")).collect()
}

/// Tasks and variants of only one of two runs, which cannot be compared.
pub fn left_out_of_pair(pair: &RunPair, [a, b]: [&str; 2]) -> Vec<String> {
    let variants = |side: &ComparedRun| side.record.names().into_iter().map(String::from).collect();
    let tasks = |side: &ComparedRun| side.analysis.tasks.iter().map(|task| label(&task.task)).collect();
    let mut items = vec![];
    let mut only = |what: &str, these: Vec<String>, others: Vec<String>, letter: &str| {
        let only: Vec<String> = these.into_iter().filter(|name| !others.contains(name)).collect();
        if !only.is_empty() {
            items.push(format!("Not compared, for only {letter} has values: {}.", counted(&only, what)));
        }
    };
    for (these, others, letter) in [(pair.a, pair.b, a), (pair.b, pair.a, b)] {
        only("variant", variants(these), variants(others), letter);
        only("task", tasks(these), tasks(others), letter);
    }
    items
}

/// What the comparison of runs cannot tell from a difference of filesystems: all that changed with time, and where nothing
/// else differs, that this alone is compared.
/// Instructions depend on no machine: of those it is none.
pub fn confounded_note(pairs: &[RunPair]) -> Option<String> {
    let counts = |pair: &RunPair| match &pair.a.record.plan.device.backing {
        Backing::Guest(guest) => guest.emulator == Emulator::Exact,
        _ => false,
    };
    if pairs.iter().all(counts) {
        return None;
    }
    let alike = |pair: &RunPair| {
        let [a, b] = [pair.a.record, pair.b.record];
        a.variants == b.variants && run_differences(a, b).is_empty()
    };
    let apart = match pairs {
        [pair] => time_between(&pair.a.record.started, &pair.b.record.started)
            .map_or(String::new(), |time| format!(" {time} apart")),
        _ => String::new(),
    };
    let time = format!(
        "Different runs{apart}, without common rounds: whatever changed on the machine between them (load, temperature, \
         free space) is in these ratios."
    );
    Some(if pairs.iter().all(alike) {
        format!(
            "{time} Nothing else that was recorded differs, the variants included: what is better or worse here is the \
             machine, not a filesystem."
        )
    } else {
        time
    })
}

/// The time between the beginnings of two runs, RFC 3339: `10 s`, `3 min`, `5 h`, `2 days`.
fn time_between(a: &str, b: &str) -> Option<String> {
    let [a, b] = [a, b].map(|time| time.parse::<jiff::Timestamp>().ok());
    let seconds = b?.duration_since(a?).as_secs().unsigned_abs();
    Some(match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    })
}

/// The recorded differences of two runs besides their time.
pub fn run_differences(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let mut items = Vec::new();
    let mut differ = |what: &str, x: String, y: String| {
        if x != y {
            items.push(format!("{what} differs: {x} in {}, {y} in {}", a.id, b.id));
        }
    };
    differ("The scale of the work", a.plan.scale.name().into(), b.plan.scale.name().into());
    differ("The machine", hostnames(a), hostnames(b));
    differ("The kernel", kernels(a), kernels(b));
    differ("What carries the filesystems", head::describe_storage(a), head::describe_storage(b));
    if a.plan.workloads != b.plan.workloads {
        items.push("The settings of the workload differ: the work is not the same.".into());
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_between_runs_is_a_round_number() {
        let since = |b: &str| time_between("2026-11-25T10:00:00Z", b);
        assert_eq!(since("2026-11-25T10:00:10Z").as_deref(), Some("10 s"));
        assert_eq!(since("2026-11-25T09:30:00Z").as_deref(), Some("30 min"));
        assert_eq!(since("2026-11-28T10:00:00.5Z").as_deref(), Some("3 days"));
        assert_eq!(since("yesterday"), None);
    }
}
