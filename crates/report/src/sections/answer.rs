//! The answer in plain words, and what it leaves open.

mod best;

use super::{Detail, Section, either, label};
use crate::document::{Chapter, Document, Part};
use crate::matrix;
use crate::number::{self, plural, three};
use crate::report::Report;
use fsarena_core::event::Outcome;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::{Analysis, Overall, TaskAnalysis};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table::FIRST_LOOK;

/// The answer in plain words.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// The answer by each metric; in full with how to read it.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let names: Vec<&str> = report.record.variants.iter().map(|variant| variant.name.as_str()).collect();
    for analysis in report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty()) {
        if !report.ranks() {
            // Once, whatever the metrics.
            document.list(worked(&report.record));
            break;
        }
        document.heading(3, format!("By {}", analysis.metric.id));
        if analysis.provisional() && names.len() > 1 && !all_zero(analysis) {
            document.parts.push(Part::Loud(provisional(analysis)));
        }
        let sentences = sentences(&names, analysis);
        document.list(best::of_each(&report.record, analysis).into_iter().chain(sentences).collect());
    }
    if detail >= Detail::Full {
        document.text(legend(report));
    }
    document
}

/// How to read the answers of a report.
fn legend(report: &Report) -> String {
    let Some(first) = report.analyses.first().filter(|_| report.ranks() && report.record.variants.len() > 1)
    else {
        return String::new();
    };
    let metrics = report.analyses.iter().map(|analysis| &analysis.metric);
    let metrics: Vec<String> = metrics.map(|metric| format!("{}, {}", metric.id, metric.help)).collect();
    let brackets = match first.provisional() {
        true => "stand the extremes seen: no interval is exact yet",
        false => {
            "stands the 95% interval of that; where it holds 1, or variants share a letter, nothing is decided between them"
        }
    };
    format!(
        "How to read this: a variant is one of what is compared, here {}, by {}. A figure is a ratio to the best variant, \
         measured within rounds, in each of which every variant runs once: 1.20 is 1.20 times as much. In brackets \
         {brackets}.",
        named(&report.record),
        metrics.join("; and by "),
    )
}

/// The variants, as far as people read.
fn named(record: &RunRecord) -> String {
    const MOST: usize = 6;
    let names: Vec<&str> = record.variants.iter().take(MOST).map(|variant| variant.name.as_str()).collect();
    let rest = record.variants.len() - names.len();
    let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// The sentences of the answer.
pub fn sentences(names: &[&str], analysis: &Analysis) -> Vec<String> {
    let with_data = analysis.tasks.iter().map(|task| task.comparison.order.len()).max().unwrap_or(0);
    if with_data < 2 {
        return vec!["Only one variant has data: there is nothing to compare.".into()];
    }
    if analysis.metric.direction == Direction::Neutral {
        return vec![format!(
            "{} is a circumstance: neither more nor less of it is better.",
            analysis.metric.id
        )];
    }
    if all_zero(analysis) {
        return vec![format!(
            "By {} the variants cannot be compared: too few of its values are above zero, and zero has no ratio.",
            analysis.metric.id
        )];
    }
    let mut sentences = Vec::new();
    if let Some(overall) = &analysis.overall {
        sentences.extend(over_all(names, &analysis.metric, overall, analysis.provisional()));
    }
    if !analysis.provisional() {
        sentences.extend(won(names, analysis));
        sentences.extend(inconclusive(names, analysis));
    }
    sentences.extend(dropped(names, analysis));
    sentences
}

/// What a run answers that ranks nothing: which variants did all their work.
fn worked(record: &RunRecord) -> Vec<String> {
    let of_variant = |variant: usize| record.cells.iter().filter(move |cell| cell.variant == variant);
    let (mut good, mut bad, mut open) = (vec![], vec![], vec![]);
    for (at, variant) in record.variants.iter().enumerate() {
        let failed = of_variant(at).any(|cell| matches!(cell.outcome, Outcome::Failed { .. }));
        let list = match of_variant(at).next() {
            _ if failed => &mut bad,
            Some(_) => &mut good,
            None => &mut open,
        };
        list.push(variant.name.as_str());
    }
    let sentence =
        |what: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")));
    let told = [
        sentence("Mounted, did all its work, and unmounted", &good),
        sentence("Failed", &bad),
        sentence("Did not run", &open),
        Some("These times rank nothing: a system call of User Mode Linux costs more than most of what follows it.".into()),
    ];
    told.into_iter().flatten().collect()
}

/// Whether zeros leave nothing to compare.
fn all_zero(analysis: &Analysis) -> bool {
    let mut comparisons = analysis.tasks.iter().map(|task| &task.comparison);
    let zeros =
        analysis.tasks.iter().flat_map(|task| &task.comparison.variants).any(|variant| variant.excluded > 0);
    zeros && !comparisons.any(Comparison::compares)
}

fn provisional(analysis: &Analysis) -> String {
    let comparisons = analysis.overall.iter().map(|overall| &overall.main().comparison);
    let ratios = comparisons.flat_map(|comparison| &comparison.variants).filter_map(|variant| variant.ratio);
    let rounds = ratios.map(|ratio| ratio.rounds).max().unwrap_or(0);
    format!(
        "PROVISIONAL: {} to compare, and a verdict needs {FIRST_LOOK}. Nothing below is decided.",
        plural(rounds, "round")
    )
}

/// `was fastest`, `had the lowest user`.
fn was_best(metric: &MetricInfo) -> String {
    match (metric.id.as_str(), metric.direction) {
        ("elapsed" | "elapsed_ns", _) => "was fastest".into(),
        ("durable" | "durable_ns", _) => "was fastest until its data was on the device".into(),
        (id, Direction::Higher) => format!("had the highest {id}"),
        (id, _) => format!("had the lowest {id}"),
    }
}

fn over_all(names: &[&str], metric: &MetricInfo, overall: &Overall, provisional: bool) -> Vec<String> {
    let main = &overall.main().comparison;
    let what = if overall.total.is_some() { "total" } else { "geometric mean" };
    let tasks = match overall.tasks {
        1 => "In the one task".to_string(),
        tasks => format!("Over all {tasks} tasks"),
    };
    let Some(best) = main.best().map(|best| names[best]) else {
        return vec![format!("{tasks} there is no answer: in no round did a variant do them all.")];
    };
    let others = |keep: &dyn Fn(usize) -> bool| -> Vec<String> {
        let kept = main.order.iter().skip(1).copied().filter(|variant| keep(*variant));
        let all: Vec<String> =
            kept.map(|variant| format!("{} {}", names[variant], of_best(main, variant))).collect();
        few(all)
    };
    if provisional {
        let rest = others(&|_| true).join(", ");
        let several = main.variants.iter().filter_map(|variant| variant.ratio).any(|ratio| ratio.rounds > 1);
        let seen = if several { " and with the extremes seen" } else { "" };
        return vec![format!("{tasks} {best} leads so far. By the {what}, over {best}{seen}: {rest}.")];
    }
    let mut sentences = vec![verdict(names, metric, main, &tasks, what)];
    let behind = others(&|variant| main.variants[variant].ratio.is_some_and(|ratio| ratio.separated()));
    if !behind.is_empty() {
        sentences.push(format!("Behind {best} by the {what}: {}.", behind.join(", ")));
    }
    let thin = main
        .thin()
        .into_iter()
        .map(|variant| format!("{} ({})", names[variant], plural(main.variants[variant].rounds, "round")));
    let thin: Vec<String> = thin.collect();
    if !thin.is_empty() {
        sentences.push(format!("Not judged over all, for too few whole rounds: {}.", thin.join(", ")));
    }
    if overall.total.is_some() {
        sentences.push(weighted(names, main, &overall.geometric.comparison));
    }
    sentences
}

/// The first of many: the tables have all.
fn few(mut all: Vec<String>) -> Vec<String> {
    const MOST: usize = 6;
    if all.len() > MOST {
        let rest = all.len() - (MOST - 1);
        all.truncate(MOST - 1);
        all.push(format!("and {rest} more"));
    }
    all
}

/// Who was best over all, or between whom that is open.
fn verdict(names: &[&str], metric: &MetricInfo, main: &Comparison, tasks: &str, what: &str) -> String {
    let (best, was_best) = (names[main.order[0]], was_best(metric));
    if main.winner().is_some() {
        let next = main.order[1];
        let lead = main.variants[next].ratio.map_or(String::new(), |ratio| interval(ratio.inverse()));
        return format!(
            "{tasks} {best} {was_best}: its {what} is {lead} of that of {}, the next.",
            names[next]
        );
    }
    let tied: Vec<String> = main
        .tied()
        .into_iter()
        .map(|variant| format!("{} ({what} {})", names[variant], of_best(main, variant)))
        .collect();
    format!("{tasks} it is not decided what {was_best}: {best} or {}.", either(&tied))
}

/// What becomes of the answer where long tasks do not weigh more.
fn weighted(names: &[&str], total: &Comparison, geometric: &Comparison) -> String {
    const EQUAL: &str = "Where every task counts the same (geometric mean)";
    match (geometric.best(), geometric.winner()) {
        (_, Some(winner)) if total.winner() == Some(winner) => {
            format!("{EQUAL}, {} wins too.", names[winner])
        }
        (_, Some(winner)) => format!("{EQUAL}, {} wins.", names[winner]),
        (Some(best), None) => {
            let tied: Vec<String> =
                geometric.tied().iter().map(|variant| names[*variant].to_string()).collect();
            format!("{EQUAL}, it is not decided: {} or {}.", names[best], either(&tied))
        }
        (None, None) => format!("{EQUAL}, there is no answer."),
    }
}

/// `1.12 [1.10–1.14]`, the ratio to the best.
fn of_best(comparison: &Comparison, variant: usize) -> String {
    comparison.variants[variant].ratio.map_or("without a common round".to_string(), interval)
}

/// `1.12 [1.10–1.14]`; of one round, which has no extremes, `1.12`.
pub fn interval(ratio: Ratio) -> String {
    if ratio.rounds < 2 {
        return three(ratio.value);
    }
    format!("{} [{}]", three(ratio.value), number::interval(ratio.low, ratio.high))
}

/// Who won which tasks.
fn won(names: &[&str], analysis: &Analysis) -> Vec<String> {
    let in_tables = matrix::fits(analysis);
    let winners: Vec<usize> = analysis.tasks().filter_map(|task| task.comparison.winner()).collect();
    let mut variants: Vec<(usize, usize)> = (0..names.len())
        .map(|variant| (winners.iter().filter(|w| **w == variant).count(), variant))
        .filter(|(n, _)| *n > 0)
        .collect();
    variants.sort_by_key(|(tasks, variant)| (std::cmp::Reverse(*tasks), *variant));
    variants
        .iter()
        .map(|(count, variant)| {
            let tasks: Vec<String> = analysis
                .tasks()
                .filter(|task| task.comparison.winner() == Some(*variant))
                .map(|task| task.task.number.clone().unwrap_or_else(|| task.task.title.clone()))
                .collect();
            match in_tables {
                true => format!("{} won {}.", names[*variant], plural(*count, "task")),
                false => format!("{} won {}: {}.", names[*variant], plural(*count, "task"), tasks.join(", ")),
            }
        })
        .collect()
}

/// Inconclusive tasks that are worth a name and their candidates each; of more, nobody reads them.
const FEW: usize = 6;

/// The tasks that nobody won.
fn inconclusive(names: &[&str], analysis: &Analysis) -> Option<String> {
    let open: Vec<&TaskAnalysis> =
        analysis.tasks().filter(|task| task.comparison.winner().is_none()).collect();
    if open.is_empty() {
        return None;
    }
    let tasks = plural(open.len(), "task");
    if matrix::fits(analysis) {
        return Some(format!("Not decided: {tasks}; the tables show them."));
    }
    if open.len() > FEW {
        let short = |task: &&TaskAnalysis| task.task.number.clone().unwrap_or(task.task.title.clone());
        let short: Vec<String> = open.iter().map(short).collect();
        let between = "each time between the variants that share the letter of the best";
        return Some(format!("Not decided, {tasks}, {between}: {}.", short.join(", ")));
    }
    let open: Vec<String> = open.iter().map(|task| candidates(names, task)).collect();
    Some(format!("Not decided, {tasks}: {}.", open.join("; ")))
}

/// An inconclusive task, and between whom it is open.
fn candidates(names: &[&str], task: &TaskAnalysis) -> String {
    let comparison = &task.comparison;
    let candidates = comparison.best().into_iter().chain(comparison.tied());
    let candidates: Vec<String> = candidates.map(|variant| names[variant].to_string()).collect();
    match candidates.len() {
        0 | 1 => format!("{} (too few rounds)", label(&task.task)),
        _ => format!("{} ({})", label(&task.task), either(&candidates)),
    }
}

/// The verdict as it would be with the dropped rounds.
fn dropped(names: &[&str], analysis: &Analysis) -> Option<String> {
    let overall = analysis.overall.as_ref()?;
    let all = overall.without_drops.as_ref()?;
    let dropped = plural(analysis.dropped.len(), "round");
    let name = |winner: Option<usize>| {
        winner
            .map_or("nothing would be decided".to_string(), |variant| format!("{} would win", names[variant]))
    };
    Some(if all.winner() == overall.main().comparison.winner() {
        format!("{dropped} dropped; with nothing dropped the verdict over all would be the same.")
    } else {
        format!(
            "{dropped} dropped; with nothing dropped the verdict over all would differ: {}.",
            name(all.winner())
        )
    })
}
