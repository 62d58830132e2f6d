//! The sections with the answer in plain words, the tasks that the ranking leaves out, and how to read the answer.

use crate::document::{Detail, Document};
use crate::phrases::{
    format_ratio, is_synced_time, is_task_time, join_with_or, list_sentence, shorten_list, shorten_list_to,
    shorten_sentence,
};
use crate::{figures::value_or_dash, matrix, number::plural, report::Report, sections::decision::Decision};
use fsarena_core::observations::{InvalidReason, invalid_figures, invalid_reason};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::{factor::FS, matrix::EMPTY_LEVEL_NAME, sample::Direction};
use fsarena_stats::analyse::{Analysis, BestLevel, Overall, TaskAnalysis, best_levels};
use fsarena_stats::{comparison::Comparison, critical_values::FIRST_LOOK_ROUNDS, verdict::Outcome};
use std::cmp::Reverse;

/// Adds the answer by each metric. In a brief report with a headline, adds only the sentences that the headline and the table
/// below it do not contain.
pub fn add_answer(document: &mut Document, report: &Report, detail: Detail) {
    let (record, names) = (&report.record, report.record.variant_names());
    let mut analyses = report.analyses.iter().filter(|analysis| !analysis.tasks.is_empty());
    if has_brief_headline(report, detail) {
        let Some(main_analysis) = analyses.next() else { return };
        return document.list(brief_sentences(&names, record, main_analysis));
    }
    for analysis in analyses {
        if detail < Detail::Full && count_variants_with_data(analysis) < 2 {
            // With a single variant the answer is the same for all metrics.
            return document.list(answer_sentences(&names, analysis));
        }
        document.heading(3, format!("By {}", analysis.metric.id));
        if analysis.is_provisional()
            && analysis.overall.is_some()
            && names.len() > 1
            && !lacks_ratios_because_of_zeros(analysis)
        {
            document.warning(provisional_warning(analysis));
        }
        let best_levels = best_level_sentences(record, analysis);
        document.list(best_levels.into_iter().chain(answer_sentences(&names, analysis)).collect());
    }
}

/// Whether a brief report has a headline, which with the table below it contains the answer.
pub fn has_brief_headline(report: &Report, detail: Detail) -> bool {
    detail < Detail::Full && Decision::new(report).is_some()
}

/// The sentences of the answer that the headline and the table do not contain, shortened to a line: mainly
/// the tasks that each variant wins.
fn brief_sentences(names: &[&str], record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let mut sentences = best_level_sentences(record, analysis);
    // For two variants, the decision already names the tasks that the choice loses.
    sentences.extend(task_sentences(names, analysis, names.len() > 2));
    sentences.iter().map(|sentence| shorten_sentence(sentence)).collect()
}

/// The largest number of variants that have data for the same task, without the bare device.
fn count_variants_with_data(analysis: &Analysis) -> usize {
    let count = |task: &TaskAnalysis| {
        let variants = task.comparison.variants.iter().enumerate();
        variants.filter(|(index, result)| !analysis.grid.references.contains(index) && result.median.is_some()).count()
    };
    analysis.tasks.iter().map(count).max().unwrap_or(0)
}

/// The sentences of the answer by one metric; if the variants cannot be compared, the reason.
pub fn answer_sentences(names: &[&str], analysis: &Analysis) -> Vec<String> {
    match count_variants_with_data(analysis) {
        0 => return vec!["No variant has data.".into()],
        1 => return vec!["Only one variant has data. A comparison requires two.".into()],
        _ => {}
    }
    let metric = &analysis.metric.id;
    if analysis.metric.direction == Direction::Neutral {
        return vec![format!("{metric} describes the run: neither more nor less is better.")];
    }
    if lacks_ratios_because_of_zeros(analysis) {
        return vec![format!(
            "{metric} cannot be compared: too few values are above zero, and a ratio requires values above zero."
        )];
    }
    let mut sentences = match &analysis.overall {
        Some(overall) => overall_sentences(names, &analysis.metric, overall, analysis.is_provisional()),
        None if analysis.tasks_in_totals().all(|task| task.unranked_because.is_none()) => vec![],
        None => vec!["No task is left that may rank the variants.".into()],
    };
    sentences.extend(task_sentences(names, analysis, true));
    sentences
}

/// The sentences about the winners of single tasks, unless `show_winners` is false or the figures are provisional, and about
/// dropped rounds.
fn task_sentences(names: &[&str], analysis: &Analysis, show_winners: bool) -> Vec<String> {
    let mut sentences = vec![];
    if show_winners && !analysis.is_provisional() {
        sentences.extend(wins_by_variant(names, analysis));
        sentences.extend(tasks_without_winner(names, analysis));
    }
    sentences.extend(dropped_rounds_sentence(names, analysis));
    sentences
}

/// Whether no comparison has a ratio because values are zero.
fn lacks_ratios_because_of_zeros(analysis: &Analysis) -> bool {
    let comparisons = || analysis.tasks.iter().map(|task| &task.comparison);
    let zeros = comparisons().flat_map(|comparison| &comparison.variants).any(|variant| variant.excluded_rounds > 0);
    zeros && !comparisons().any(Comparison::has_ratio)
}

/// The warning that there are too few rounds for a verdict.
fn provisional_warning(analysis: &Analysis) -> String {
    let variants = analysis.overall.iter().flat_map(|overall| &overall.total_or_geometric().comparison.variants);
    let rounds = variants.filter_map(|variant| Some(variant.ratio?.rounds)).max().unwrap_or(0);
    let rounds = plural(rounds, analysis.grid.column_noun());
    let image_note = analysis.grid.images().map_or("", |_| " and about these images only");
    format!(
        "PROVISIONAL: {rounds} so far, and a verdict requires {FIRST_LOOK_ROUNDS}. Every result below is inconclusive{image_note}."
    )
}

/// The predicate for the best variant: `was fastest`, `had the lowest user`.
fn best_predicate(metric: &MetricSpec) -> String {
    match metric.direction {
        _ if is_synced_time(metric) => "was fastest to have its data synced".into(),
        _ if is_task_time(metric) => "was fastest".into(),
        Direction::Higher => format!("had the highest {}", metric.id),
        _ => format!("had the lowest {}", metric.id),
    }
}

/// The sentences about all tasks together: the best variant, and the ratios of the others to it.
fn overall_sentences(names: &[&str], metric: &MetricSpec, overall: &Overall, is_provisional: bool) -> Vec<String> {
    let comparison = &overall.total_or_geometric().comparison;
    let measure = overall.name;
    let scope = match (overall.task_count, overall.task_count_in_totals) {
        (1, 1) => "In the one task".to_string(),
        (tasks, all) if tasks == all => format!("Over all {tasks} tasks"),
        _ => format!("Over {}", overall.scope()),
    };
    let Some(best) = comparison.best().map(|best| names[best]) else {
        return vec![format!("{scope}: inconclusive. No variant completed all of them in any round.")];
    };
    let ratios = |variants: Vec<usize>| {
        let ratio = |variant: usize| format!("{} {}", names[variant], ratio_to_best(comparison, variant));
        shorten_list(variants.into_iter().map(ratio).collect(), "variants")
    };
    let mut others: Vec<usize> = comparison.order.iter().skip(1).copied().collect();
    if is_provisional {
        let ratios = ratios(others).join(", ");
        if ratios.is_empty() {
            return vec![format!("{scope}, only {best} has a complete round so far.")];
        }
        let has_several_rounds =
            comparison.variants.iter().filter_map(|variant| variant.ratio).any(|ratio| ratio.rounds > 1);
        let range = if has_several_rounds { " with the range of the rounds" } else { "" };
        return vec![format!("{scope}, {best} leads so far. Ratio of the {measure} to {best}{range}: {ratios}.")];
    }
    let mut sentences = vec![overall_verdict(names, metric, comparison, &scope, measure)];
    others.retain(|variant| comparison.variants[*variant].ratio.is_some_and(|ratio| ratio.is_significant()));
    sentences.extend(list_sentence(&format!("Ratio of the {measure} to {best}"), &ratios(others)));
    let rounds = |variant: usize| plural(comparison.variants[variant].rounds, "round");
    let with_few_rounds =
        comparison.with_too_few_rounds().into_iter().map(|variant| format!("{} ({})", names[variant], rounds(variant)));
    sentences.extend(list_sentence("Too few complete rounds for a verdict", &with_few_rounds.collect::<Vec<_>>()));
    if overall.total.is_some() {
        sentences.push(equal_weight_sentence(names, comparison, &overall.geometric.comparison));
    }
    sentences
}

/// The sentence with the best variant over all tasks, or with the variants that may be the best. `scope` is `Over all 21
/// tasks`, and `measure` is `total`.
fn overall_verdict(names: &[&str], metric: &MetricSpec, comparison: &Comparison, scope: &str, measure: &str) -> String {
    let (best, best_predicate) = (names[comparison.order[0]], best_predicate(metric));
    if comparison.winner().is_some() {
        let next = comparison.order[1];
        let lead = comparison.variants[next].ratio.map_or(String::new(), |ratio| format_ratio(ratio.inverse()));
        let next = names[next];
        return format!(
            "{scope}, {best} {best_predicate}: its {measure} is {lead} times that of the next variant, {next}."
        );
    }
    let tied = |variant: usize| format!("{} ({measure} {})", names[variant], ratio_to_best(comparison, variant));
    let tied: Vec<String> = comparison.without_significant_difference().into_iter().map(tied).collect();
    let candidates = if tied.is_empty() {
        format!(". Only {best} has enough complete rounds")
    } else {
        format!(", {best} or {}", join_with_or(&tied))
    };
    format!("{scope}: inconclusive which variant {best_predicate}{candidates}.")
}

/// The sentence with the answer if every task has the same weight.
fn equal_weight_sentence(names: &[&str], total: &Comparison, geometric: &Comparison) -> String {
    let tied: Vec<String> =
        geometric.without_significant_difference().iter().map(|variant| names[*variant].to_string()).collect();
    let verdict = match (geometric.best(), geometric.winner()) {
        (_, Some(winner)) if total.winner() == Some(winner) => format!("{} is also best", names[winner]),
        (_, Some(winner)) => format!("{} is best", names[winner]),
        (None, None) => "inconclusive".into(),
        _ if tied.is_empty() => "inconclusive: no other variant has enough complete rounds".into(),
        (Some(best), None) => format!("inconclusive: {} or {}", names[best], join_with_or(&tied)),
    };
    format!("With equal weight for every task (geometric mean), {verdict}.")
}

/// The ratio of a variant to the best one, with its interval: `1.12 [1.10–1.14]`.
fn ratio_to_best(comparison: &Comparison, variant: usize) -> String {
    comparison.variants[variant].ratio.map_or("no common round".to_string(), format_ratio)
}

/// For each variant a sentence with the tasks that it won; the variant with the most wins is first.
fn wins_by_variant(names: &[&str], analysis: &Analysis) -> Vec<String> {
    let mut wins: Vec<(&str, Vec<String>)> = names.iter().map(|name| (*name, vec![])).collect();
    for task in analysis.tasks_in_totals() {
        if let Some(winner) = task.comparison.winner() {
            wins[winner].1.push(task.task.id.to_string());
        }
    }
    wins.retain(|(_, tasks)| !tasks.is_empty());
    wins.sort_by_key(|(_, tasks)| Reverse(tasks.len()));
    let all = plural(analysis.tasks_in_totals().count(), "task");
    let mut sentences = vec![];
    for (name, tasks) in wins {
        let count = tasks.len();
        // A matrix has too many tasks for a list; its tables show them.
        let list = if matrix::is_matrix(analysis) { String::new() } else { format!(": {}", tasks.join(", ")) };
        sentences.push(format!("{name} is best in {count} of {all}{list}."));
    }
    sentences
}

/// A sentence with the tasks without a clear winner, each with the variants that do not differ significantly from the best.
/// `None` if every task has a winner.
fn tasks_without_winner(names: &[&str], analysis: &Analysis) -> Option<String> {
    let mut without_winner = vec![];
    for task in analysis.tasks_in_totals() {
        if task.comparison.winner().is_none() && task.unranked_because.is_none() {
            without_winner.push(task_with_candidates(names, task));
        }
    }
    if without_winner.is_empty() {
        return None;
    }
    let list = if matrix::is_matrix(analysis) {
        "; the tables show them".to_string()
    } else {
        format!(": {}", without_winner.join(", "))
    };
    let all = plural(analysis.tasks_in_totals().count(), "task");
    Some(format!("No clear winner in {} of {all}{list}.", without_winner.len()))
}

/// A task with the variants that may be its best: `untar (ext4 ≈ xfs)`.
fn task_with_candidates(names: &[&str], task: &TaskAnalysis) -> String {
    let (comparison, id) = (&task.comparison, &task.task.id);
    let candidates = comparison.best().into_iter().chain(comparison.without_significant_difference());
    let candidates: Vec<&str> = candidates.map(|variant| names[variant]).collect();
    let candidates = if candidates.len() < 2 { "too few rounds" } else { &candidates.join(" ≈ ") };
    format!("{id} ({candidates})")
}

/// A sentence on whether the dropped rounds would change the verdict; `None` if no round was dropped.
fn dropped_rounds_sentence(names: &[&str], analysis: &Analysis) -> Option<String> {
    let overall = analysis.overall.as_ref()?;
    let with_all_rounds = overall.with_all_rounds.as_ref()?;
    let dropped = plural(analysis.dropped.len(), "round");
    let winner = with_all_rounds.winner().map_or("inconclusive", |variant| names[variant]);
    Some(if with_all_rounds.winner() == overall.total_or_geometric().comparison.winner() {
        format!("{dropped} dropped. The verdict is the same with all rounds.")
    } else {
        format!("{dropped} dropped. With all rounds the verdict would differ: {winner}.")
    })
}

impl Report {
    /// The answer in one line: the number of claims by outcome, and the first sentence about the main metric.
    pub fn one_line_answer(&self) -> String {
        let mut counts = vec![];
        for outcome in Outcome::ALL {
            let count = self.claims.iter().filter(|judged| judged.outcome() == outcome).count();
            if count > 0 {
                counts.push(format!("{count} {}", outcome.name()));
            }
        }
        let mut sentences = vec![];
        if !counts.is_empty() {
            sentences.push(format!("{}.", counts.join(", ")));
        }
        if let Some(decision) = Decision::new(self) {
            sentences.push(decision.headline());
        } else if let Some(analysis) = self.analyses.first() {
            sentences.extend(answer_sentences(&self.record.variant_names(), analysis).into_iter().next());
        }
        sentences.join(" ")
    }
}

/// For each factor other than the filesystem, a sentence with its best level for each filesystem:
/// `Best scheduler by throughput: ext4 kyber, xfs bfq (by the estimate, inconclusive).`
fn best_level_sentences(record: &RunRecord, analysis: &Analysis) -> Vec<String> {
    let varies = |id: &str| record.plan.factors.get(id).is_some_and(|levels| levels.len() > 1);
    if !varies(FS) || analysis.metric.direction == Direction::Neutral {
        return vec![];
    }
    let mut sentences = vec![];
    for id in record.plan.factors.keys().filter(|id| *id != FS && varies(id)) {
        let best_levels = best_levels(&record.variants, analysis, id);
        if best_levels.is_empty() {
            continue;
        }
        // If all are inconclusive, one remark is enough. It is before the list, because brief reports cut long lists.
        let all_inconclusive = best_levels.iter().all(|best| !best.is_decided);
        let remark_if = |is_inconclusive: bool| if is_inconclusive { " (by the estimate, inconclusive)" } else { "" };
        let item = |best: &BestLevel| {
            let level = if best.level.is_empty() { EMPTY_LEVEL_NAME } else { &best.level };
            format!("{} {level}{}", best.variant.name, remark_if(!best.is_decided && !all_inconclusive))
        };
        let items = best_levels.iter().map(item).collect::<Vec<_>>().join(", ");
        sentences.push(format!("Best {id} by {}{}: {items}.", analysis.metric.id, remark_if(all_inconclusive)));
    }
    sentences
}

/// Adds the tasks that the ranking leaves out, and in a brief report their values.
pub fn add_unranked_tasks(document: &mut Document, report: &Report, detail: Detail) {
    let mut sentences = unranked_sentences(report);
    // A full report has the values in its tables.
    if detail < Detail::Full {
        sentences.extend(unranked_value_sentences(report));
    }
    document.list(sentences);
}

/// The largest number of unranked tasks whose values a brief report shows.
const MAX_UNRANKED_TASKS: usize = 3;

/// Sentences with the values of tasks that are not ranked: `untar, not ranked: ext4 402 ms, xfs 440 ms (medians of elapsed).`
fn unranked_value_sentences(report: &Report) -> Vec<String> {
    let Some(main_analysis) = report.analyses.first() else { return vec![] };
    let mut sentences = vec![];
    for task in main_analysis.tasks_in_totals().filter(|task| task.unranked_because.is_some()) {
        let mut values = vec![];
        for (variant, name) in task.comparison.variants.iter().zip(report.record.variant_names()) {
            if variant.median.is_some() {
                values.push(format!("{name} {}", value_or_dash(variant.median, main_analysis.metric.unit)));
            }
        }
        let (id, values) = (&task.task.id, shorten_list(values, "variants").join(", "));
        sentences.push(format!("{id}, not ranked: {values} (medians of {}).", main_analysis.metric.id));
    }
    shorten_list_to(sentences, MAX_UNRANKED_TASKS, "tasks that are not ranked")
}

/// For each reason a sentence with the figures that are left out of the ranking.
fn unranked_sentences(report: &Report) -> Vec<String> {
    let Some(main_analysis) = report.analyses.first() else { return vec![] };
    let record = &report.record;
    let mut figures = invalid_figures(record, &main_analysis.metric.id);
    figures.retain(|(_, variant), _| !record.variants[*variant].is_bare_device());
    let mut sentences = vec![];
    // `few_requests_sentence` reports percentiles with too few requests, for each metric.
    for reason in InvalidReason::ALL.into_iter().filter(|reason| *reason != InvalidReason::FewRequests) {
        let with_reason = figures.iter().filter(|(_, other)| **other == reason);
        let names = with_reason
            .map(|((task, variant), _)| format!("{} at {}", record.variant_name(*variant), record.tasks[*task].id));
        let subject = shorten_list(names.collect(), "figures").join(", ");
        if !subject.is_empty() {
            let predicate = reason.predicate();
            sentences.push(format!("{subject} {predicate}: left out of the ranking, for all variants."));
        }
    }
    sentences.extend(report.analyses.iter().filter_map(|analysis| few_requests_sentence(record, analysis)));
    sentences
}

/// A sentence with the tasks that the metric, a percentile, does not rank because they have too few requests. `None` if there
/// are no such tasks.
fn few_requests_sentence(record: &RunRecord, analysis: &Analysis) -> Option<String> {
    let with_few_requests =
        analysis.tasks_in_totals().filter(|task| task.unranked_because == Some(InvalidReason::FewRequests));
    let tasks: Vec<usize> = with_few_requests.filter_map(|task| record.task_index(&task.task.id)).collect();
    let reason = invalid_reason(record, &analysis.metric.id, *tasks.first()?)?;
    let more_tasks = match tasks.len() - 1 {
        0 => String::new(),
        count => format!("; likewise {}", plural(count, "more task")),
    };
    Some(format!("Not ranked by {}: {reason}{more_tasks}.", analysis.metric.id))
}

/// Explains the figures of the answer and their brackets; nothing for a single variant.
pub fn add_answer_legend(document: &mut Document, report: &Report, _: Detail) {
    let names = report.record.variant_names();
    let Some(main_analysis) = report.analyses.first().filter(|_| names.len() > 1) else { return };
    let metrics = report.analyses.iter().map(|analysis| &analysis.metric);
    let metrics = metrics.map(|metric| format!("{} ({})", metric.id, metric.help));
    let metrics = metrics.collect::<Vec<_>>().join("; and by ");
    let bracket_meaning = if main_analysis.is_provisional() {
        "are the smallest and the largest of the rounds so far: fewer than 8 rounds give no exact interval"
    } else {
        "is its 95% confidence interval; an interval that contains 1 means no significant difference"
    };
    const MAX_NAMED: usize = 6;
    let hidden_count = names.len().saturating_sub(MAX_NAMED);
    let rest = if hidden_count > 0 { format!(" and {hidden_count} more") } else { String::new() };
    let names = names[..names.len() - hidden_count].join(", ");
    document.text(format!(
        "How to read this: the variants are {names}{rest}, compared by {metrics}. Every round runs each variant once, and a \
         figure is the ratio to the best variant in a typical round: 1.20 is 1.20 times as much. In brackets {bracket_meaning}. Rare \
         slow rounds hardly change a typical round; the ratio of mean cost counts them."
    ));
}
