//! Runs beside a first one: the answer, its picture, its tables.

mod circumstances;

use crate::compare::answer::{ComparedRatio, RatioSummary};
use crate::compare::order::{self, OrderPair, VariantOrder};
use crate::difference::{Finding, ratio_cell};
use crate::document::{Cell, Document, Table, labelled};
use crate::{compare::ComparisonReport, compare::runs::circumstances::differences, error::Error};
use crate::{number::plural, words::label};
use fsarena_core::observations::{MetricSeries, has_data};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{metric::Declared, names::distinct, sample::Direction};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::hodges_lehmann::independent_ratio;
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

/// What went well; what did not is added to a list.
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
    circumstances::add(&mut compared.method, &sides, pairs, &letters);
    compared.method.text(
        "The intervals contain only the spread inside each run. To compare two settings with certainty, make them variants \
         of one run.",
    );
    compared
}

/// What the `at`-th run is called: A, B, … and from the 27th on by its number.
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
    let row = |task: &TaskRatios| labelled(task.title.as_str(), task.ratios.iter().map(marked_ratio));
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
                table.rows.push(labelled(format!("{title}, {variant}"), ratios.iter().map(marked_ratio)));
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
        "differences": differences(a, b),
        "tasks": pair.tasks.iter().map(task).collect::<Vec<_>>(),
    })
}

/// The comparison of one task: b over a for each common variant, and the two orders.
pub struct TaskRatios<'a> {
    /// What it is called.
    pub title: String,
    /// In the order of the variants of the pair.
    pub ratios: Vec<Option<Ratio>>,
    /// None where fewer than two variants are in both.
    pub orders: Option<OrderPair<'a>>,
    /// Whether it sums up others.
    pub over_all: bool,
}

/// One run with its analysis and its values.
pub struct ComparedRun<'a> {
    /// The run.
    pub record: &'a RunRecord,
    /// By the metric that is compared.
    pub analysis: Analysis,
}

/// A run beside the first.
pub struct RunPair<'a> {
    /// The first run.
    pub a: &'a ComparedRun<'a>,
    /// The other run.
    pub b: &'a ComparedRun<'a>,
    /// The variants that are in both.
    pub variants: Variants,
    /// The tasks that are in both, and their total.
    pub tasks: Vec<TaskRatios<'a>>,
}

/// Indices of the same variants in both runs.
type Variants = Vec<(usize, usize)>;

impl<'a> ComparedRun<'a> {
    /// A run, analysed by a metric.
    pub fn of(record: &'a RunRecord, metric: &str) -> Result<ComparedRun<'a>, Error> {
        Ok(ComparedRun { record, analysis: analyse(MetricSeries::of(record, metric)?) })
    }

    /// The values of a task, by variant and round.
    fn values(&self, task: usize) -> &Vec<Vec<f64>> {
        &self.analysis.grid.values[task]
    }

    /// Refuses another run if it is of another executor.
    pub fn comparable(&self, other: &RunRecord) -> Result<(), Error> {
        let [in_a, in_b] = [self.record, other].map(|record| record.plan.device.backing.executor());
        if in_a != in_b {
            let (a, b) = (&self.record.id, &other.id);
            return Err(Error::Usage(format!(
                "{a} ran in {in_a} and {b} in {in_b}: figures of different executors are not compared; run both in the same"
            )));
        }
        Ok(())
    }
}

impl<'a> RunPair<'a> {
    /// What both runs have.
    ///
    /// # Errors
    /// If they have no variant or task in common, or the metric means something else in the other.
    pub fn of(a: &'a ComparedRun, b: &'a ComparedRun) -> Result<RunPair<'a>, Error> {
        let mut declared = Declared::default();
        for side in [a, b] {
            declared
                .declare(&side.analysis.metric, &format!("run {}", side.record.id))
                .map_err(|contradiction| Error::Usage(contradiction.to_string()))?;
        }
        let nothing = |what| Error::nothing_in_common(&a.record.id, &b.record.id, what);
        let variants = common(&a.record.variants, &b.record.variants, |variant| &variant.name);
        if variants.is_empty() {
            return Err(nothing("variant"));
        }
        let shared = common(&a.record.tasks, &b.record.tasks, |task| &task.id);
        let mut pair = RunPair { a, b, variants, tasks: vec![] };
        pair.tasks = shared.iter().filter_map(|(i, j)| pair.task(*i, *j)).collect();
        if pair.tasks.is_empty() {
            return Err(nothing("task"));
        }
        pair.tasks.extend(pair.total(&shared));
        Ok(pair)
    }

    fn task(&self, i: usize, j: usize) -> Option<TaskRatios<'a>> {
        let info = &self.a.record.tasks[i];
        let of = |side: &'a ComparedRun| side.analysis.tasks.iter().find(|task| task.task.id == info.id);
        let orders = self.orders(&of(self.a)?.comparison, &of(self.b)?.comparison);
        let ratios = self.ratios(self.a.values(i), self.b.values(j));
        let known = ratios.iter().any(Option::is_some);
        known.then(|| TaskRatios { title: label(info), ratios, orders, over_all: false })
    }

    /// The total over the tasks in the totals that are in both.
    fn total(&self, tasks: &[(usize, usize)]) -> Option<TaskRatios<'a>> {
        let (a, b) = (self.a, self.b);
        let counts = |i: usize| a.record.tasks[i].in_totals && has_data(a.values(i));
        let tasks = tasks.iter().filter(|(i, j)| counts(*i) && has_data(b.values(*j)));
        let (first, second): (Vec<usize>, Vec<usize>) = tasks.copied().unzip();
        let (overall_a, overall_b) = (a.analysis.overall.as_ref()?, b.analysis.overall.as_ref()?);
        if first.is_empty() {
            return None;
        }
        let totals = |run: &ComparedRun, tasks: &[usize]| run.analysis.grid.totals(tasks);
        // The orders are those of each run's own total; they speak of the same work only if it has the same tasks.
        let same = overall_a.tasks == first.len() && overall_b.tasks == first.len();
        let orders = self.orders(&overall_a.main().comparison, &overall_b.main().comparison);
        Some(TaskRatios {
            title: format!("{} of {}", overall_a.name.to_uppercase(), plural(first.len(), "task")),
            ratios: self.ratios(&totals(a, &first)?, &totals(b, &second)?),
            orders: orders.filter(|_| same),
            over_all: true,
        })
    }

    fn ratios(&self, a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Option<Ratio>> {
        self.variants.iter().map(|(i, j)| independent_ratio(&a[*i], &b[*j])).collect()
    }

    fn orders(&self, a: &'a Comparison, b: &'a Comparison) -> Option<OrderPair<'a>> {
        let there = |(i, j): &&(usize, usize)| a.order.contains(i) && b.order.contains(j);
        let (first, second): (Vec<usize>, Vec<usize>) = self.variants.iter().filter(there).copied().unzip();
        (first.len() > 1).then_some(())?;
        Some(OrderPair {
            names: first.iter().map(|variant| self.a.record.variants[*variant].name.as_str()).collect(),
            then: VariantOrder::of_variants(a, &first)?,
            here: VariantOrder::of_variants(b, &second)?,
        })
    }
}

/// Where the same key is in both lists.
fn common<T, K: PartialEq>(a: &[T], b: &[T], key: impl Fn(&T) -> &K) -> Vec<(usize, usize)> {
    a.iter().enumerate().filter_map(|(i, x)| Some((i, b.iter().position(|y| key(y) == key(x))?))).collect()
}
