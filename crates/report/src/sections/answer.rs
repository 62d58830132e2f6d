//! The answer in plain words, and what it leaves open.

use super::decision::Decision;
use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::words::{clipped, either, few, interval, sentence};
use crate::{matrix, number::plural};
use fsarena_core::record::{MetricInfo, RunRecord};
use fsarena_core::{event, factor::FS, matrix::PLAIN, metric::label as label_of, sample::Direction};
use fsarena_stats::analyse::{Analysis, Overall, TaskAnalysis};
use fsarena_stats::best::{self, Best};
use fsarena_stats::trust::{Doubt, doubts, reason};
use fsarena_stats::{comparison::Comparison, table::FIRST_LOOK, verdict::Outcome};
use std::cmp::Reverse;

/// The answer in plain words.
pub const SECTION: Section = Section::new(Chapter::Answer, add);

/// The answer by each metric; in full with how to read it.
fn add(document: &mut Document, report: &Report, detail: Detail) {
    let names = report.record.names();
    let brief = detail < Detail::Full;
    // The headline and the table below it say the rest.
    let decided = brief && Decision::of(report).is_some();
    for analysis in report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty()) {
        let alone = if !report.ranks() {
            worked(&report.record)
        } else if decided {
            in_brief(&names, &report.record, analysis)
        } else if brief && with_data(analysis) < 2 {
            // The figures stand above.
            sentences(&names, analysis)
        } else {
            document.heading(3, format!("By {}", label_of(&analysis.metric.id)));
            if analysis.provisional() && names.len() > 1 && !all_zero(analysis) {
                document.loud(provisional(analysis));
            }
            let best = best_of_each(&report.record, analysis);
            document.list(best.into_iter().chain(sentences(&names, analysis)).collect());
            continue;
        };
        // Once, whatever the metrics.
        document.list(alone);
        break;
    }
    if report.ranks() {
        let left_out = left_out(report).into_iter();
        document.list(left_out.map(|one| if decided { clipped(&one) } else { one }).collect());
    }
    if !brief {
        document.text(legend(report));
    }
}

/// The tasks that have a clear winner, a line for each variant.
fn in_brief(names: &[&str], record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    // Of two variants the decision names the tasks that the choice loses.
    let sure = !analysis.provisional() && names.len() > 2;
    let tasks = sure.then(|| won(names, analysis).into_iter().chain(inconclusive(names, analysis)));
    let all = best_of_each(record, analysis).into_iter().chain(tasks.into_iter().flatten());
    all.chain(dropped(names, analysis)).map(|sentence| clipped(&sentence)).collect()
}

/// The tasks that rank no variant, and why.
fn left_out(report: &Report) -> Vec<String> {
    let Some(first) = report.analyses.first() else { return vec![] };
    let record = &report.record;
    let mut figures = doubts(record, &first.metric.id);
    figures.retain(|(_, variant), _| !record.variants[*variant].is_bare_device());
    let sentence = |doubt: Doubt| {
        let named = figures.iter().filter(|(_, why)| **why == doubt);
        let named = named
            .map(|((task, variant), _)| format!("{} at {}", record.name(*variant), record.tasks[*task].id));
        let subject = few(named.collect()).join(", ");
        (!subject.is_empty())
            .then(|| format!("{subject} {}: left out of the ranking, for all variants.", doubt.words()))
    };
    let of_any_metric = Doubt::ALL.into_iter().filter(|doubt| *doubt != Doubt::FewRequests);
    let of_tails = report.analyses.iter().filter_map(|one| tails(record, one));
    of_any_metric.filter_map(sentence).chain(of_tails).collect()
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
    let names = report.record.names();
    let compares = report.ranks() && names.len() > 1;
    let Some(first) = report.analyses.first().filter(|_| compares) else { return String::new() };
    let metrics = report.analyses.iter().map(|analysis| &analysis.metric);
    let metrics = metrics.map(|metric| format!("{} ({})", label_of(&metric.id), metric.help));
    let metrics = metrics.collect::<Vec<_>>().join("; and by ");
    let brackets = if first.provisional() {
        "are the smallest and the largest of the rounds so far: fewer than 8 rounds give no exact interval"
    } else {
        "is its 95% confidence interval; an interval that contains 1 means no significant difference"
    };
    // As far as people read.
    let more = names.len().saturating_sub(6);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = names[..names.len() - more].join(", ");
    format!(
        "How to read this: the variants are {names}{rest}, compared by {metrics}. Every round runs each variant once, and a \
         figure is the ratio to the best variant within rounds: 1.20 is 1.20 times as much. In brackets {brackets}."
    )
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
    let metric = label_of(&analysis.metric.id);
    if analysis.metric.direction == Direction::Neutral {
        return vec![format!("{metric} describes the run: neither more nor less is better.")];
    }
    if all_zero(analysis) {
        return vec![format!(
            "{metric} cannot be compared: too few values are above zero, and a ratio requires values above zero."
        )];
    }
    let mut sentences = match &analysis.overall {
        Some(overall) => over_all(names, &analysis.metric, overall, analysis.provisional()),
        None if analysis.tasks().all(|task| task.set_aside.is_none()) => vec![],
        None => vec!["No task is left that may rank the variants.".into()],
    };
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
    let failed = |at: usize| of_variant(at).any(|cell| matches!(cell.outcome, event::Outcome::Failed { .. }));
    let ran = |at: usize| of_variant(at).next().is_some();
    let those = |is: &dyn Fn(usize) -> bool| -> Vec<&str> {
        (0..record.variants.len()).filter(|at| is(*at)).map(|at| record.name(at)).collect()
    };
    let told = [
        sentence("Completed all tasks", &those(&|at| ran(at) && !failed(at))),
        sentence("Failed", &those(&failed)),
        sentence("Did not run", &those(&|at| !ran(at))),
        Some("These times do not rank the variants: in User Mode Linux a system call costs more than most filesystem work.".into()),
    ];
    told.into_iter().flatten().collect()
}

/// Whether zeros leave nothing to compare.
fn all_zero(analysis: &Analysis) -> bool {
    let comparisons = || analysis.tasks.iter().map(|task| &task.comparison);
    let zeros = comparisons().flat_map(|one| &one.variants).any(|variant| variant.excluded > 0);
    zeros && !comparisons().any(Comparison::compares)
}

fn provisional(analysis: &Analysis) -> String {
    let variants = analysis.overall.iter().flat_map(|overall| &overall.main().comparison.variants);
    let rounds = variants.filter_map(|variant| Some(variant.ratio?.rounds)).max().unwrap_or(0);
    let rounds = plural(rounds, "round");
    format!(
        "PROVISIONAL: {rounds} so far, and a verdict requires {FIRST_LOOK}. Every result below is inconclusive."
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
    let others = |keep: &dyn Fn(usize) -> bool| {
        let kept = main.order.iter().skip(1).copied().filter(|variant| keep(*variant));
        few(kept.map(|variant| format!("{} {}", names[variant], of_best(main, variant))).collect())
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
    sentences.extend(sentence(&format!("Ratio of the {what} to {best}"), &behind));
    let rounds = |variant: usize| plural(main.variants[variant].rounds, "round");
    let thin = main.thin().into_iter().map(|variant| format!("{} ({})", names[variant], rounds(variant)));
    sentences.extend(sentence("Too few complete rounds for a verdict", &thin.collect::<Vec<_>>()));
    sentences.extend(overall.total.as_ref().map(|_| weighted(names, main, &overall.geometric.comparison)));
    sentences
}

/// Who was best over all, or between whom that is open.
fn verdict(names: &[&str], metric: &MetricInfo, main: &Comparison, tasks: &str, what: &str) -> String {
    let (best, was_best) = (names[main.order[0]], was_best(metric));
    if main.winner().is_some() {
        let next = main.order[1];
        let lead = main.variants[next].ratio.map_or(String::new(), |ratio| interval(ratio.inverse()));
        let next = names[next];
        return format!(
            "{tasks}, {best} {was_best}: its {what} is {lead} times that of the next variant, {next}."
        );
    }
    let tied = |variant: usize| format!("{} ({what} {})", names[variant], of_best(main, variant));
    let tied: Vec<String> = main.tied().into_iter().map(tied).collect();
    let tied = match either(&tied) {
        none if none.is_empty() => format!(". Only {best} has enough complete rounds"),
        tied => format!(", {best} or {tied}"),
    };
    format!("{tasks}: inconclusive which variant {was_best}{tied}.")
}

/// What becomes of the answer where long tasks do not weigh more.
fn weighted(names: &[&str], total: &Comparison, geometric: &Comparison) -> String {
    let tied: Vec<String> = geometric.tied().iter().map(|variant| names[*variant].to_string()).collect();
    let verdict = match (geometric.best(), geometric.winner()) {
        (_, Some(winner)) if total.winner() == Some(winner) => format!("{} is also best", names[winner]),
        (_, Some(winner)) => format!("{} is best", names[winner]),
        (None, None) => "inconclusive".into(),
        _ if tied.is_empty() => "inconclusive: no other variant has enough complete rounds".into(),
        (Some(best), None) => format!("inconclusive: {} or {}", names[best], either(&tied)),
    };
    format!("With equal weight for every task (geometric mean), {verdict}.")
}

/// `1.12 [1.10–1.14]`, the ratio to the best.
fn of_best(comparison: &Comparison, variant: usize) -> String {
    comparison.variants[variant].ratio.map_or("no common round".to_string(), interval)
}

/// The tasks in which each variant was best.
fn won(names: &[&str], analysis: &Analysis) -> Vec<String> {
    let all = plural(analysis.tasks().count(), "task");
    let won = |variant: usize| analysis.tasks().filter(move |task| task.comparison.winner() == Some(variant));
    let mut variants: Vec<_> = (0..names.len()).map(|variant| (won(variant).count(), variant)).collect();
    variants.retain(|(count, _)| *count > 0);
    variants.sort_by_key(|(count, variant)| (Reverse(*count), *variant));
    let sentence = |(count, variant): (usize, usize)| {
        let tasks: Vec<String> = won(variant).map(|task| task.task.id.to_string()).collect();
        let tasks = if matrix::fits(analysis) { String::new() } else { format!(": {}", tasks.join(", ")) };
        format!("{} is best in {count} of {all}{tasks}.", names[variant])
    };
    variants.into_iter().map(sentence).collect()
}

/// The tasks without a clear winner, each with the variants that do not differ significantly from the best.
fn inconclusive(names: &[&str], analysis: &Analysis) -> Option<String> {
    let open = analysis.tasks();
    let open = open.filter(|task| task.comparison.winner().is_none() && task.set_aside.is_none());
    let open: Vec<String> = open.map(|task| candidates(names, task)).collect();
    let (count, all) = (open.len(), plural(analysis.tasks().count(), "task"));
    (count > 0).then(|| match matrix::fits(analysis) {
        true => format!("No clear winner in {count} of {all}; the tables show them."),
        false => format!("No clear winner in {count} of {all}: {}.", open.join(", ")),
    })
}

/// `untar (ext4 ≈ xfs)`.
fn candidates(names: &[&str], task: &TaskAnalysis) -> String {
    let (comparison, id) = (&task.comparison, &task.task.id);
    let candidates = comparison.best().into_iter().chain(comparison.tied());
    let candidates: Vec<&str> = candidates.map(|variant| names[variant]).collect();
    let told = if candidates.len() < 2 { "too few rounds" } else { &candidates.join(" ≈ ") };
    format!("{id} ({told})")
}

/// The verdict as it would be with the dropped rounds.
fn dropped(names: &[&str], analysis: &Analysis) -> Option<String> {
    let overall = analysis.overall.as_ref()?;
    let all = overall.without_drops.as_ref()?;
    let dropped = plural(analysis.dropped.len(), "round");
    let winner = all.winner().map_or("inconclusive", |variant| names[variant]);
    Some(match all.winner() == overall.main().comparison.winner() {
        true => format!("{dropped} dropped. The verdict is the same with all rounds."),
        false => format!("{dropped} dropped. With all rounds the verdict would differ: {winner}."),
    })
}

impl Report {
    /// The answer in one line: the number of claims by outcome, and the first sentence about the main metric.
    pub fn in_a_line(&self) -> String {
        let counted = |outcome: Outcome| {
            let count = self.claims.iter().filter(|judged| judged.outcome() == outcome).count();
            (count > 0).then(|| format!("{count} {}", outcome.name()))
        };
        let claims = [Outcome::Held, Outcome::Refuted, Outcome::Equivalent, Outcome::Inconclusive];
        let claims: Vec<String> = claims.into_iter().filter_map(counted).collect();
        let headline = Decision::of(self).map(|decision| decision.headline());
        let first = || sentences(&self.record.names(), self.analyses.first()?).into_iter().next();
        let claims = (!claims.is_empty()).then(|| format!("{}.", claims.join(", ")));
        claims.into_iter().chain(headline.or_else(first)).collect::<Vec<_>>().join(" ")
    }
}

/// Where more than the filesystem varies, a study asks which level of it is best for which filesystem:
/// `Best scheduler by throughput: ext4 kyber, xfs bfq (by the estimate, inconclusive).`
fn best_of_each(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let several = |id: &str| record.plan.factors.get(id).is_some_and(|levels| levels.len() > 1);
    if !several(FS) || analysis.metric.direction == Direction::Neutral {
        return vec![];
    }
    let sentence = |id: &String| {
        let bests = best::of(record, analysis, id);
        // Said once where it is so of all.
        let all_open = bests.iter().all(|best| !best.decided);
        let open = |open: bool| if open { " (by the estimate, inconclusive)" } else { "" };
        let one = |best: &Best| {
            let level = if best.level.is_empty() { PLAIN } else { &best.level };
            format!("{} {level}{}", best.variant.name, open(!best.decided && !all_open))
        };
        let named = bests.iter().map(one).collect::<Vec<_>>().join(", ");
        format!("Best {id} by {}: {named}{}.", label_of(&analysis.metric.id), open(all_open))
    };
    record.plan.factors.keys().filter(|id| *id != FS && several(id)).map(sentence).collect()
}
