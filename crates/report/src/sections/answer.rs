//! The answer in plain words, and what it leaves open.

mod best;

use super::decision::Decision;
use super::{Detail, Section, either};
use crate::document::{Chapter, Document, Part};
use crate::matrix;
use crate::number::{self, plural};
use crate::report::Report;
use fsarena_core::event::Outcome;
use fsarena_core::metric::label as label_of;
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::sample::Direction;
use fsarena_stats::analyse::{Analysis, Overall, TaskAnalysis};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::ratio::Ratio;
use fsarena_stats::table::FIRST_LOOK;
use fsarena_stats::trust::{Doubt, doubts, reason};

/// The answer in plain words.
pub const SECTION: Section = Section { chapter: Some(Chapter::Answer), parts };

/// The answer by each metric; in full with how to read it.
fn parts(report: &Report, detail: Detail) -> Document {
    let mut document = Document::default();
    let names: Vec<&str> = report.record.variants.iter().map(|variant| variant.name.as_str()).collect();
    let brief = detail < Detail::Full;
    // The headline and the table below it say the rest.
    let decided = brief && Decision::of(report).is_some();
    for analysis in report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty()) {
        if !report.ranks() {
            // Once, whatever the metrics.
            document.list(worked(&report.record));
            break;
        }
        if decided {
            document.list(in_brief(&names, &report.record, analysis));
            break;
        }
        if brief && with_data(analysis) < 2 {
            // The figures stand above.
            document.list(sentences(&names, analysis));
            break;
        }
        document.heading(3, format!("By {}", label_of(&analysis.metric.id)));
        if analysis.provisional() && names.len() > 1 && !all_zero(analysis) {
            document.parts.push(Part::Loud(provisional(analysis)));
        }
        let sentences = sentences(&names, analysis);
        document.list(best::of_each(&report.record, analysis).into_iter().chain(sentences).collect());
    }
    if report.ranks() {
        let left_out = left_out(report).into_iter();
        document.list(left_out.map(|one| if decided { clipped(&one) } else { one }).collect());
    }
    if detail >= Detail::Full {
        document.text(legend(report));
    }
    document
}

/// The tasks that have a clear winner, a line for each variant.
fn in_brief(names: &[&str], record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    // Of two variants the decision names the tasks that the choice loses.
    let sure = !analysis.provisional() && names.len() > 2;
    let tasks = sure.then(|| won(names, analysis).into_iter().chain(inconclusive(names, analysis)));
    let all = best::of_each(record, analysis).into_iter().chain(tasks.into_iter().flatten());
    all.chain(dropped(names, analysis)).map(|sentence| clipped(&sentence)).collect()
}

/// The tasks that rank no variant, and why.
fn left_out(report: &Report) -> Vec<String> {
    let Some(first) = report.analyses.first() else { return vec![] };
    let record = &report.record;
    let figures: Vec<((usize, usize), Doubt)> = doubts(record, &first.metric.id)
        .into_iter()
        .filter(|((_, variant), _)| !record.variants[*variant].is_bare_device())
        .collect();
    let sentence = |doubt: Doubt| {
        let of = figures.iter().filter(|(_, why)| *why == doubt);
        let named: Vec<String> = of
            .map(|((task, variant), _)| {
                format!("{} at {}", record.variants[*variant].name, record.tasks[*task].id)
            })
            .collect();
        let subject = few(named).join(", ");
        (!subject.is_empty())
            .then(|| format!("{subject} {}: left out of the ranking, for all variants.", doubt.words()))
    };
    let of_any_metric = Doubt::ALL.into_iter().filter(|doubt| *doubt != Doubt::FewRequests);
    of_any_metric
        .filter_map(sentence)
        .chain(report.analyses.iter().filter_map(|one| tails(record, one)))
        .collect()
}

/// The tasks that a percentile does not rank, for they have too few requests.
fn tails(record: &RunRecord, analysis: &Analysis) -> Option<String> {
    let short = analysis.tasks().filter(|task| task.set_aside == Some(Doubt::FewRequests));
    let tasks: Vec<usize> = short.filter_map(|task| record.task(&task.task.id)).collect();
    let why = reason(record, &analysis.metric.id, *tasks.first()?)?;
    let more = match tasks.len() - 1 {
        0 => String::new(),
        more => format!("; likewise {}", plural(more, "more task")),
    };
    Some(format!("Not ranked by {}: {why}{more}.", label_of(&analysis.metric.id)))
}

/// How to read the answers of a report.
fn legend(report: &Report) -> String {
    let Some(first) = report.analyses.first().filter(|_| report.ranks() && report.record.variants.len() > 1)
    else {
        return String::new();
    };
    let metrics = report.analyses.iter().map(|analysis| &analysis.metric);
    let metrics: Vec<String> =
        metrics.map(|metric| format!("{} ({})", label_of(&metric.id), metric.help)).collect();
    let brackets = match first.provisional() {
        true => {
            "are the smallest and the largest of the rounds so far: fewer than 8 rounds give no exact interval"
        }
        false => {
            "is its 95% confidence interval; an interval that contains 1 means no significant difference"
        }
    };
    format!(
        "How to read this: the variants are {}, compared by {}. Every round runs each variant once, and a figure is the \
         ratio to the best variant within rounds: 1.20 is 1.20 times as much. In brackets {brackets}.",
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

/// How many variants have data of the task that most have data of.
pub fn with_data(analysis: &Analysis) -> usize {
    let of_task = |task: &TaskAnalysis| {
        let variants = task.comparison.variants.iter().enumerate();
        let candidates = variants.filter(|(at, _)| !analysis.grid.references.contains(at));
        candidates.filter(|(_, variant)| variant.median.is_some()).count()
    };
    analysis.tasks.iter().map(of_task).max().unwrap_or(0)
}

/// The sentences of the answer.
pub fn sentences(names: &[&str], analysis: &Analysis) -> Vec<String> {
    match with_data(analysis) {
        0 => return vec!["No variant has data.".into()],
        1 => return vec!["Only one variant has data. A comparison requires two.".into()],
        _ => {}
    }
    if analysis.metric.direction == Direction::Neutral {
        return vec![format!(
            "{} describes the run: neither more nor less is better.",
            label_of(&analysis.metric.id)
        )];
    }
    if all_zero(analysis) {
        return vec![format!(
            "{} cannot be compared: too few values are above zero, and a ratio requires values above zero.",
            label_of(&analysis.metric.id)
        )];
    }
    let mut sentences = Vec::new();
    if analysis.overall.is_none() && analysis.tasks().any(|task| task.set_aside.is_some()) {
        sentences.push("No task is left that may rank the variants.".into());
    }
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
        sentence("Completed all tasks", &good),
        sentence("Failed", &bad),
        sentence("Did not run", &open),
        Some("These times do not rank the variants: in User Mode Linux a system call costs more than most filesystem work.".into()),
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
        "PROVISIONAL: {} so far, and a verdict requires {FIRST_LOOK}. Every result below is inconclusive.",
        plural(rounds, "round")
    )
}

/// `was fastest`, `had the lowest user`.
fn was_best(metric: &MetricInfo) -> String {
    match (metric.id.as_str(), metric.direction) {
        ("elapsed" | "elapsed_ns", _) => "was fastest".into(),
        ("durable" | "durable_ns", _) => "was fastest to have its data synced".into(),
        (id, Direction::Higher) => format!("had the highest {}", label_of(id)),
        (id, _) => format!("had the lowest {}", label_of(id)),
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
        return vec![format!("{tasks}: inconclusive. No variant completed all of them in any round.")];
    };
    let others = |keep: &dyn Fn(usize) -> bool| -> Vec<String> {
        let kept = main.order.iter().skip(1).copied().filter(|variant| keep(*variant));
        let all: Vec<String> =
            kept.map(|variant| format!("{} {}", names[variant], of_best(main, variant))).collect();
        few(all)
    };
    if provisional {
        let rest = others(&|_| true).join(", ");
        if rest.is_empty() {
            return vec![format!("{tasks}, only {best} has a complete round so far.")];
        }
        let several = main.variants.iter().filter_map(|variant| variant.ratio).any(|ratio| ratio.rounds > 1);
        let seen = if several { " with the range of the rounds" } else { "" };
        return vec![format!("{tasks}, {best} leads so far. Ratio of the {what} to {best}{seen}: {rest}.")];
    }
    let mut sentences = vec![verdict(names, metric, main, &tasks, what)];
    let behind = others(&|variant| main.variants[variant].ratio.is_some_and(|ratio| ratio.separated()));
    if !behind.is_empty() {
        sentences.push(format!("Ratio of the {what} to {best}: {}.", behind.join(", ")));
    }
    let thin = main
        .thin()
        .into_iter()
        .map(|variant| format!("{} ({})", names[variant], plural(main.variants[variant].rounds, "round")));
    let thin: Vec<String> = thin.collect();
    if !thin.is_empty() {
        sentences.push(format!("Too few complete rounds for a verdict: {}.", thin.join(", ")));
    }
    if overall.total.is_some() {
        sentences.push(weighted(names, main, &overall.geometric.comparison));
    }
    sentences
}

/// The first of many: the tables have all.
pub fn few(all: Vec<String>) -> Vec<String> {
    few_of(all, 6)
}

/// At most this many of them.
pub fn few_of(mut all: Vec<String>, most: usize) -> Vec<String> {
    if all.len() > most {
        let rest = all.len() - (most - 1);
        all.truncate(most - 1);
        all.push(format!("and {rest} more"));
    }
    all
}

/// The beginning of a text, as much as two lines hold.
pub fn clipped(text: &str) -> String {
    const MOST: usize = 180;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => {
            format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words))
        }
        None => text.into(),
    }
}

/// Who was best over all, or between whom that is open.
fn verdict(names: &[&str], metric: &MetricInfo, main: &Comparison, tasks: &str, what: &str) -> String {
    let (best, was_best) = (names[main.order[0]], was_best(metric));
    if main.winner().is_some() {
        let next = main.order[1];
        let lead = main.variants[next].ratio.map_or(String::new(), |ratio| interval(ratio.inverse()));
        return format!(
            "{tasks}, {best} {was_best}: its {what} is {lead} times that of the next variant, {}.",
            names[next]
        );
    }
    let tied: Vec<String> = main
        .tied()
        .into_iter()
        .map(|variant| format!("{} ({what} {})", names[variant], of_best(main, variant)))
        .collect();
    match tied.is_empty() {
        true => {
            format!("{tasks}: inconclusive which variant {was_best}. Only {best} has enough complete rounds.")
        }
        false => format!("{tasks}: inconclusive which variant {was_best}, {best} or {}.", either(&tied)),
    }
}

/// What becomes of the answer where long tasks do not weigh more.
fn weighted(names: &[&str], total: &Comparison, geometric: &Comparison) -> String {
    const EQUAL: &str = "With equal weight for every task (geometric mean)";
    match (geometric.best(), geometric.winner()) {
        (_, Some(winner)) if total.winner() == Some(winner) => {
            format!("{EQUAL}, {} is also best.", names[winner])
        }
        (_, Some(winner)) => format!("{EQUAL}, {} is best.", names[winner]),
        (Some(best), None) => {
            let tied: Vec<String> =
                geometric.tied().iter().map(|variant| names[*variant].to_string()).collect();
            match tied.is_empty() {
                true => format!("{EQUAL}, inconclusive: no other variant has enough complete rounds."),
                false => format!("{EQUAL}, inconclusive: {} or {}.", names[best], either(&tied)),
            }
        }
        (None, None) => format!("{EQUAL}, inconclusive."),
    }
}

/// `1.12 [1.10–1.14]`, the ratio to the best.
fn of_best(comparison: &Comparison, variant: usize) -> String {
    comparison.variants[variant].ratio.map_or("no common round".to_string(), interval)
}

/// `1.12 [1.10–1.14]`; of one round, which has no extremes, `1.12`.
pub fn interval(ratio: Ratio) -> String {
    if ratio.rounds < 2 {
        return number::beside(ratio.value, &[1.0]);
    }
    number::ratio(ratio.value, ratio.low, ratio.high)
}

/// The tasks in which each variant was best.
fn won(names: &[&str], analysis: &Analysis) -> Vec<String> {
    let all = plural(analysis.tasks().count(), "task");
    let won = |variant: usize| analysis.tasks().filter(move |task| task.comparison.winner() == Some(variant));
    let mut variants: Vec<(usize, usize)> = (0..names.len())
        .map(|variant| (won(variant).count(), variant))
        .filter(|(count, _)| *count > 0)
        .collect();
    variants.sort_by_key(|(count, variant)| (std::cmp::Reverse(*count), *variant));
    let sentence = |(count, variant): (usize, usize)| {
        let tasks: Vec<String> = won(variant).map(name).collect();
        let tasks = if matrix::fits(analysis) { String::new() } else { format!(": {}", tasks.join(", ")) };
        format!("{} is best in {count} of {all}{tasks}.", names[variant])
    };
    variants.into_iter().map(sentence).collect()
}

/// The tasks without a clear winner, each with the variants that do not differ significantly from the best.
fn inconclusive(names: &[&str], analysis: &Analysis) -> Option<String> {
    let open: Vec<&TaskAnalysis> = analysis
        .tasks()
        .filter(|task| task.comparison.winner().is_none() && task.set_aside.is_none())
        .collect();
    if open.is_empty() {
        return None;
    }
    let count = format!("No clear winner in {} of {}", open.len(), plural(analysis.tasks().count(), "task"));
    if matrix::fits(analysis) {
        return Some(format!("{count}; the tables show them."));
    }
    let open: Vec<String> = open.iter().map(|task| candidates(names, task)).collect();
    Some(format!("{count}: {}.", open.join(", ")))
}

/// `untar (ext4 ≈ xfs)`.
fn candidates(names: &[&str], task: &TaskAnalysis) -> String {
    let comparison = &task.comparison;
    let candidates = comparison.best().into_iter().chain(comparison.tied());
    let candidates: Vec<&str> = candidates.map(|variant| names[variant]).collect();
    match candidates.len() {
        0 | 1 => format!("{} (too few rounds)", name(task)),
        _ => format!("{} ({})", name(task), candidates.join(" ≈ ")),
    }
}

/// A task by its short name.
fn name(task: &TaskAnalysis) -> String {
    task.task.id.to_string()
}

/// The verdict as it would be with the dropped rounds.
fn dropped(names: &[&str], analysis: &Analysis) -> Option<String> {
    let overall = analysis.overall.as_ref()?;
    let all = overall.without_drops.as_ref()?;
    let dropped = plural(analysis.dropped.len(), "round");
    let name = |winner: Option<usize>| {
        winner.map_or("inconclusive".to_string(), |variant| names[variant].to_string())
    };
    Some(if all.winner() == overall.main().comparison.winner() {
        format!("{dropped} dropped. The verdict is the same with all rounds.")
    } else {
        format!("{dropped} dropped. With all rounds the verdict would differ: {}.", name(all.winner()))
    })
}
