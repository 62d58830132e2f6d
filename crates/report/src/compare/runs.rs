//! The comparison of runs with a first run: the answer, its chart, its tables, the recorded differences between the runs,
//! and the warnings.

use super::run_pair::{ComparedRun, RunPair, TaskRatios};
use crate::compare::answer::{ComparedRatio, RatioSummary, count_and_list};
use crate::compare::order::{self, OrderPair};
use crate::document::{Cell, Document, Table, labelled_row};
use crate::phrases::{format_start_time, join_host_facts, task_label};
use crate::ratio_verdict::{RatioVerdict, ratio_cell};
use crate::sections::warnings::notes_of_kind;
use crate::{error::Error, number::plural, page::ComparisonReport, sections::head};
use fsarena_core::cell::Variant;
use fsarena_core::record::{MetricSpec, RunRecord, RunStatus};
use fsarena_core::{event::NoteKind, names::distinct, sample::Direction};
use fsarena_stats::{analyse::TaskAnalysis, ratio::Ratio};
use serde_json::{Map, Value, json};

/// Compares runs with the first of them, variant by variant and task by task: the ratios to the first run, estimated from
/// two independent samples (see [`fsarena_stats::hodges_lehmann`]), and where the order of the variants changed. The report
/// leaves out runs that cannot be compared with the first, and states the reason.
///
/// # Errors
/// If the first run lacks the metric, or if no other run can be compared: each lacks the metric, or has no variant or no
/// task in common with the first.
pub fn compare_runs(records: &[RunRecord], metric: &str) -> Result<ComparisonReport, Error> {
    let [first, others @ ..] = records else { return Ok(ComparisonReport::default()) };
    let a = ComparedRun::analyse(first, metric)?;
    let mut refused = vec![];
    let analyse_comparable = |other| a.check_same_executor(other).and_then(|()| ComparedRun::analyse(other, metric));
    let others = collect_successes(others.iter().map(analyse_comparable), &mut refused);
    let pairs = collect_successes(others.iter().map(|other| RunPair::compare(&a, other)), &mut refused);
    if pairs.is_empty() {
        return refused.into_iter().next().map_or(Ok(ComparisonReport::default()), Err);
    }
    Ok(comparison_report(&pairs, &refused))
}

/// The values of successful results; errors are added to `refused`.
fn collect_successes<T>(results: impl Iterator<Item = Result<T, Error>>, refused: &mut Vec<Error>) -> Vec<T> {
    results.filter_map(|result| result.map_err(|error| refused.push(error)).ok()).collect()
}

/// The report on pairs that all have the same first run. `refused` are the reasons why other runs are left out.
fn comparison_report(pairs: &[RunPair], refused: &[Error]) -> ComparisonReport {
    let a = pairs[0].a;
    let runs: Vec<&ComparedRun> = std::iter::once(a).chain(pairs.iter().map(|pair| pair.b)).collect();
    let metric = &a.analysis.metric;
    let letters: Vec<String> = (0..runs.len()).map(run_letter).collect();
    let ratios = all_ratios(pairs);
    let (other_runs, comparison_names, axis_suffix) = match pairs {
        [pair] => (format!("run {}", pair.b.record.id), vec!["B compared with A".into()], " in B over A"),
        _ => (plural(pairs.len(), "run"), letters[1..].to_vec(), " over that of A"),
    };
    let summary = RatioSummary {
        ratios: &ratios,
        comparisons: &comparison_names,
        margin: Some(a.record.plan.stop.margin()),
        terms: ["better", "worse"],
    };
    let chart_title = format!("{}, ratios to A with 95% intervals", metric.id);
    let mut report = ComparisonReport {
        title: format!("{other_runs} compared with run {}, by {}", a.record.id, metric.id),
        chart: summary.chart(chart_title, format!("{}{axis_suffix}", metric.id)),
        json: comparison_json(pairs, metric),
        ..ComparisonReport::default()
    };
    for (run, letter) in runs.iter().zip(&letters) {
        let rounds = plural(run.analysis.grid.rounds.len(), "round");
        report.facts.push(format!("{letter}: {}, {rounds}", run.record.id));
    }
    if let Some(warning) = separate_runs_warning(pairs) {
        report.answer.warning(warning);
    }
    if ratios.iter().any(|compared| compared.verdict == RatioVerdict::Provisional && compared.ratio.is_some()) {
        report.answer.warning("PROVISIONAL where marked ?: fewer than 8 rounds on one side.");
    }
    report.add_answer(answer_sentences(&summary, pairs, refused, &letters));
    report.answer.text(explain_letters(metric, &runs, &letters));
    add_tables(&mut report.data, pairs, &letters);
    add_circumstances(&mut report.method, &runs, pairs, &letters);
    report.method.text(
        "The intervals contain only the spread inside each run. To compare two settings with certainty, make them variants \
         of one run.",
    );
    report
}

/// The sentences of the answer: the summary of the ratios, then the tasks and variants that are not compared, the differences
/// between two runs, and the runs that are left out.
fn answer_sentences(summary: &RatioSummary, pairs: &[RunPair], refused: &[Error], letters: &[String]) -> Vec<String> {
    let mut sentences = summary.sentences();
    for (pair, letter) in pairs.iter().zip(&letters[1..]) {
        sentences.extend(left_out_sentences(pair, ["A", letter]));
    }
    // With several pairs, the chapter on the method lists the differences of each.
    if let [pair] = pairs {
        sentences.extend(run_differences(pair.a.record, pair.b.record));
    }
    sentences.extend(refused.iter().map(|reason| format!("Left out: {reason}")));
    sentences
}

/// Explains the letters of the runs, and which direction of the metric is better.
fn explain_letters(metric: &MetricSpec, runs: &[&ComparedRun], letters: &[String]) -> String {
    let better = match metric.direction {
        Direction::Lower => "lower is better",
        Direction::Higher => "higher is better",
        Direction::Neutral => "neither more nor less is better",
    };
    let name = |(run, letter): (&&ComparedRun, &String)| format!("{letter} is run {}", run.record.id);
    let names: Vec<String> = runs.iter().zip(letters).map(name).collect();
    format!("{}. For {}, {better}. Each ratio is for one task on one variant.", names.join(", "), metric.id)
}

/// The letter of a run in the report, by its index: A, B, … and from the 27th run on `run 27`.
fn run_letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(letter @ 0..=25) => char::from(b'A' + letter).to_string(),
        _ => format!("run {}", index + 1),
    }
}

/// The ratios of all pairs, task by task and variant by variant.
fn all_ratios(pairs: &[RunPair]) -> Vec<ComparedRatio> {
    let mut ratios = vec![];
    for (comparison, pair) in pairs.iter().enumerate() {
        let direction = pair.a.analysis.metric.direction;
        for task in &pair.tasks {
            for (variant, ratio) in variant_names(pair).zip(&task.ratios) {
                let verdict = RatioVerdict::of_samples(*ratio, pair.a.record.plan.stop.margin());
                let compared = ComparedRatio::new(&task.title, ratio.map(Into::into), verdict, direction);
                ratios.push(ComparedRatio { variant: variant.into(), comparison, is_total: task.is_total, ..compared });
            }
        }
    }
    ratios
}

/// The names of the variants that both runs of a pair have.
fn variant_names<'p>(pair: &'p RunPair) -> impl Iterator<Item = &'p str> {
    pair.variants.iter().map(|(variant, _)| pair.a.record.variants[*variant].name.as_str())
}

/// Adds the tables of ratios and of the order of the variants.
fn add_tables(document: &mut Document, pairs: &[RunPair], letters: &[String]) {
    let metric = &pairs[0].a.analysis.metric.id;
    if let [pair] = pairs {
        let (a, b) = (&pair.a.record.id, &pair.b.record.id);
        document.heading(3, format!("{metric} in {b} over {metric} in {a}"));
        document.table(ratio_table(pair));
    } else {
        document.heading(3, format!("{metric} of each run over {metric} in A"));
        document.table(combined_ratio_table(pairs, letters));
    }
    document.text(
        "Ratio (Hodges–Lehmann, two samples) over its 95% Mann–Whitney interval, for each variant and task, not \
         corrected for their number. * marks those that exclude 1.",
    );
    document.heading(3, "Order of the variants");
    let orders: Vec<_> = pairs.iter().map(task_orders).collect();
    if let Some(table) = order::combined_order_table(&orders, letters) {
        document.table(table);
    } else {
        for (pair, orders) in pairs.iter().zip(&orders) {
            let ids = [pair.a, pair.b].map(|run| format!("first in {}", run.record.id));
            document.table(order::order_table(ids, orders.iter().copied()));
        }
    }
    let has_orders = orders.iter().any(|orders| !orders.is_empty());
    document.text(if has_orders { order::ORDER_LEGEND } else { "There are not two variants in common." });
}

/// The tasks of a pair whose variants have an order, with the titles of the tasks.
fn task_orders<'p>(pair: &'p RunPair) -> Vec<(&'p str, &'p OrderPair<'p>)> {
    pair.tasks.iter().filter_map(|task| Some((task.title.as_str(), task.orders.as_ref()?))).collect()
}

/// The ratios of one pair: a row for each task, a column for each variant.
fn ratio_table(pair: &RunPair) -> Table {
    let row = |task: &TaskRatios| labelled_row(task.title.as_str(), task.ratios.iter().map(ratio_cell_with_mark));
    Table::of_figures(std::iter::once("task").chain(variant_names(pair))).with_rows(pair.tasks.iter().map(row))
}

/// The ratios of several pairs: a row for each task and variant that any pair has, a column for each run.
fn combined_ratio_table(pairs: &[RunPair], letters: &[String]) -> Table {
    let mut table = Table::of_figures(["task, variant"]);
    table.header.extend(letters[1..].iter().map(|letter| format!("{letter}/A")));
    for title in distinct(pairs.iter().flat_map(|pair| &pair.tasks).map(|task| task.title.as_str())) {
        for variant in pairs[0].a.record.variant_names() {
            let ratios: Vec<Option<Ratio>> = pairs.iter().map(|pair| find_ratio(pair, title, variant)).collect();
            if ratios.iter().any(Option::is_some) {
                table.rows.push(labelled_row(format!("{title}, {variant}"), ratios.iter().map(ratio_cell_with_mark)));
            }
        }
    }
    table
}

/// The ratio of a pair for a task and a variant; `None` if the pair lacks it.
fn find_ratio(pair: &RunPair, task: &str, variant: &str) -> Option<Ratio> {
    let task = pair.tasks.iter().find(|other| other.title == task)?;
    task.ratios[variant_names(pair).position(|other| other == variant)?]
}

/// A cell with a ratio, marked `?` if it is provisional, else `*` if its interval excludes 1.
fn ratio_cell_with_mark(ratio: &Option<Ratio>) -> Cell {
    let Some(ratio) = *ratio else { return "–".into() };
    let mark = if ratio.is_significant() { " *" } else { "" };
    ratio_cell(ratio, if ratio.provisional { " ?" } else { mark })
}

fn comparison_json(pairs: &[RunPair], metric: &MetricSpec) -> Value {
    let mut comparisons: Vec<Value> = pairs.iter().map(|pair| pair_json(pair, metric)).collect();
    if comparisons.len() == 1 { comparisons.remove(0) } else { json!({ "comparisons": comparisons }) }
}

fn pair_json(pair: &RunPair, metric: &MetricSpec) -> Value {
    let (a, b) = (pair.a.record, pair.b.record);
    let task = |task: &TaskRatios| {
        let named = variant_names(pair).zip(&task.ratios);
        let ratios: Map<String, Value> = named.map(|(name, ratio)| (name.into(), json!(ratio))).collect();
        json!({"task": task.title, "ratio_b_to_a": ratios, "order": task.orders.as_ref().map(OrderPair::to_json)})
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

/// The table of facts has a column for each run if there are at most this many; otherwise it has a row for each run.
const MAX_RUN_COLUMNS: usize = 4;

/// Adds the facts, the warnings and the differences of the runs. `letters` are the names of `runs` in the report.
fn add_circumstances(document: &mut Document, runs: &[&ComparedRun], pairs: &[RunPair], letters: &[String]) {
    document.table(fact_table(runs, letters));
    let warnings: Vec<String> =
        runs.iter().zip(letters).flat_map(|(run, letter)| run_warnings(run.record, letter)).collect();
    document.titled_list("Warnings", warnings);
    for pair in pairs {
        let (a, b, metric) = (pair.a.record, pair.b.record, &pair.a.analysis.metric.id);
        let differences = run_differences(a, b);
        // If there are only two runs, the title names them and the answer states how they differ.
        if pairs.len() > 1 {
            document.heading(3, format!("run {} compared with run {}, by {metric}", b.id, a.id));
            document.list(differences.clone());
        }
        if differences.is_empty() {
            document.text(
                "Nothing that was recorded differs between them: machine, kernel, storage, scale, settings, version.",
            );
        }
    }
}

/// A fact of a run in the table: its title, and a function that returns its value.
type RunFact = (&'static str, fn(&ComparedRun) -> String);

/// The facts of a run in the table.
const RUN_FACTS: [RunFact; 9] = [
    ("study", |run| run.record.plan.name.clone()),
    ("begun", |run| format_start_time(&run.record.started)),
    ("machine", |run| join_hostnames(run.record)),
    ("kernel", |run| join_kernels(run.record)),
    ("filesystems on", |run| head::describe_storage(run.record)),
    ("scale", |run| run.record.plan.scale.name().into()),
    ("rounds", |run| run.analysis.grid.rounds.len().to_string()),
    ("ended", |run| match &run.record.status {
        RunStatus { complete: true, .. } => "complete".into(),
        RunStatus { why, .. } => why.clone(),
    }),
    ("fsarena", |run| run.record.version.clone()),
];

/// The table of the facts of each run.
fn fact_table(runs: &[&ComparedRun], letters: &[String]) -> Table {
    let names = runs.iter().zip(letters).map(|(run, letter)| format!("{letter}: {}", run.record.id));
    if runs.len() <= MAX_RUN_COLUMNS {
        let row = |(title, value): &RunFact| labelled_row(*title, runs.iter().map(|run| value(run).into()));
        return Table::of_words(std::iter::once(String::new()).chain(names)).with_rows(RUN_FACTS.iter().map(row));
    }
    let row =
        |(name, run): (String, &&ComparedRun)| labelled_row(name, RUN_FACTS.iter().map(|(_, value)| value(run).into()));
    let titles = RUN_FACTS.iter().map(|(title, _)| *title);
    Table::of_words(std::iter::once("").chain(titles)).with_rows(names.zip(runs).map(row))
}

fn join_hostnames(record: &RunRecord) -> String {
    join_host_facts(record, ", ", |host| host.hostname.clone())
}

fn join_kernels(record: &RunRecord) -> String {
    join_host_facts(record, ", ", |host| host.kernel.clone())
}

/// The warnings of a run, each with the letter of the run before it.
fn run_warnings(record: &RunRecord, letter: &str) -> Vec<String> {
    let mut items = notes_of_kind(record, NoteKind::VariantFailed);
    items.extend(notes_of_kind(record, NoteKind::Fairness));
    let counted_notes = [
        (NoteKind::Dropped, "round", "dropped because something disturbed them"),
        (NoteKind::IdleTimeout, "task", "begun on a busy machine"),
    ];
    for (kind, noun, event) in counted_notes {
        let count = record.notes_of(kind).count();
        if count > 0 {
            items.push(format!("{} {event}", plural(count, noun)));
        }
    }
    items.into_iter().map(|item| format!("{letter}: {item}")).collect()
}

/// Names the tasks and variants that only one of two runs has, which are therefore not compared.
fn left_out_sentences(pair: &RunPair, [a, b]: [&str; 2]) -> Vec<String> {
    let mut sentences = vec![];
    for (run, other, letter) in [(pair.a, pair.b, a), (pair.b, pair.a, b)] {
        let lacks_task = |task: &&TaskAnalysis| other.analysis.tasks.iter().all(|known| known.task.id != task.task.id);
        let tasks = run.analysis.tasks.iter().filter(lacks_task).map(|task| task_label(&task.task)).collect();
        let mut variants = run.record.variant_names();
        variants.retain(|name| other.record.variant_index(name).is_none());
        let variants: Vec<String> = variants.into_iter().map(String::from).collect();
        for (noun, names) in [("variant", variants), ("task", tasks)] {
            if !names.is_empty() {
                let names = count_and_list(&names, noun);
                sentences.push(format!("Not compared, because only {letter} has values: {names}."));
            }
        }
    }
    sentences
}

/// The warning that the ratios contain everything that changed on the machine between the runs. If nothing else differs, it
/// adds that all differences come from the machine. `None` if all runs count instructions in an exact emulator, because these
/// counts do not depend on the machine. All runs have the executor of the first: see [`ComparedRun::check_same_executor`].
fn separate_runs_warning(pairs: &[RunPair]) -> Option<String> {
    if pairs.iter().all(|pair| pair.a.record.plan.device.backing.counts_instructions()) {
        return None;
    }
    let is_same_setup = |pair: &RunPair| {
        let [a, b] = [pair.a.record, pair.b.record];
        a.variants == b.variants && run_differences(a, b).is_empty()
    };
    let time_apart = match pairs {
        [pair] => time_between(&pair.a.record.started, &pair.b.record.started)
            .map_or(String::new(), |time| format!(" {time} apart")),
        _ => String::new(),
    };
    let warning = format!(
        "Different runs{time_apart}, without common rounds: whatever changed on the machine between them (load, temperature, \
         free space) is in these ratios."
    );
    Some(if pairs.iter().all(is_same_setup) {
        format!(
            "{warning} Nothing else that was recorded differs, not even the variants: all differences come from the machine, \
             not from a filesystem."
        )
    } else {
        warning
    })
}

/// The time between the starts of two runs, given in RFC 3339: `10 s`, `3 min`, `5 h`, `2 days`; `None` if a time is invalid.
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

/// The recorded differences between two runs, a sentence each, without the difference in time.
fn run_differences(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let facts: [(&str, String, String); 5] = [
        ("The scale of the work", a.plan.scale.name().into(), b.plan.scale.name().into()),
        ("The machine", join_hostnames(a), join_hostnames(b)),
        ("The kernel", join_kernels(a), join_kernels(b)),
        ("The backing storage", head::describe_storage(a), head::describe_storage(b)),
        ("The version of fsarena", a.version.clone(), b.version.clone()),
    ];
    let mut differences = vec![];
    for (fact, in_a, in_b) in facts {
        if in_a != in_b {
            differences.push(format!("{fact} differs: {in_a} in {}, {in_b} in {}", a.id, b.id));
        }
    }
    if a.plan.workloads != b.plan.workloads {
        differences.push("The settings of the workload differ: the work is not the same.".into());
    }
    let mut changed_names = vec![];
    for variant in &a.variants {
        let other = b.variants.iter().find(|other| other.name == variant.name);
        if other.is_some_and(|other| !have_same_levels(variant, other)) {
            changed_names.push(variant.name.as_str());
        }
    }
    if !changed_names.is_empty() {
        let names = count_and_list(&changed_names, "variant");
        differences.push(format!("The settings of {names} differ, although their names are the same."));
    }
    differences
}

/// Whether two variants have the same level of every factor. Variants of the same name can differ, because a name lacks the
/// factors that do not vary in a run.
fn have_same_levels(a: &Variant, b: &Variant) -> bool {
    a.levels.keys().chain(b.levels.keys()).all(|factor| a.level(factor) == b.level(factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_of_the_same_name_may_have_other_levels() {
        let ext4 = |levels: &[(&str, &str)]| Variant {
            name: "ext4".into(),
            levels: levels.iter().map(|(factor, level)| (factor.to_string(), level.to_string())).collect(),
        };
        let [plain, default, noatime] = [&[][..], &[("options", "default")], &[("options", "noatime")]].map(ext4);
        assert!(have_same_levels(&plain, &default));
        assert!(!have_same_levels(&plain, &noatime) && !have_same_levels(&noatime, &default));
    }

    #[test]
    fn the_time_between_runs_is_a_whole_number_of_its_unit() {
        let time_from_ten = |b: &str| time_between("2026-11-25T10:00:00Z", b);
        assert_eq!(time_from_ten("2026-11-25T10:00:10Z").as_deref(), Some("10 s"));
        assert_eq!(time_from_ten("2026-11-25T09:30:00Z").as_deref(), Some("30 min"));
        assert_eq!(time_from_ten("2026-11-28T10:00:00.5Z").as_deref(), Some("3 days"));
        assert_eq!(time_from_ten("yesterday"), None);
    }
}
