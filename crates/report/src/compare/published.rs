//! Compares a run with published figures, or two sets of published figures of the same study: the order of the filesystems
//! and the best one in each task.

use crate::compare::answer::{ComparedRatio, RatioSummary, join_first};
use crate::compare::order::{OrderPair, TaskOrders, VariantOrder};
use crate::document::{Table, row};
use crate::number::{plural, three_digits};
use crate::phrases::{describe_machines, list_sentence, task_label};
use crate::published::{stated_machine, study_conclusions};
use crate::{error::Error, page::ComparisonReport, ratio_verdict::RatioVerdict, sections::head};
use fsarena_core::conclusion::{FigurePrecision, MachineParts};
use fsarena_core::names::{distinct, unknown_name};
use fsarena_core::observations::MetricSeries;
use fsarena_core::published::{Figure, PublishedSet};
use fsarena_core::{factor, metric, record::RunRecord, sample::Direction, setting_text::setting};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use serde_json::json;

/// Compares a run with published figures on the filesystems that both have: their order, and their ratios to the best
/// of the run. It does not compare the values themselves, because machines and sizes of the work differ.
///
/// # Errors
/// If the run or the figures lack the metric, or have fewer than two filesystems or no task in common; if neither more nor less
/// of the metric is better; or if the file of the study is invalid.
pub fn compare_published(
    record: &RunRecord,
    published: &PublishedSet,
    metric: &str,
) -> Result<ComparisonReport, Error> {
    require_metric(published, metric)?;
    let name = format!("published:{}", published.name());
    let nothing_in_common = |kind| Error::nothing_in_common(&record.id, &name, kind);
    let analysis = analyse(MetricSeries::of(record, metric)?);
    let order_sign = order_sign(analysis.metric.direction).ok_or_else(|| no_order_error(metric))?;
    let roles = study_conclusions(published)?.map_or(vec![], |conclusions| conclusions.roles);
    let mut matched: Vec<(&str, usize)> = vec![];
    for name in published.variants() {
        let variant = variant_on_filesystem(record, name).or_else(|| variant_of_role(record, &roles, name));
        matched.extend(variant.map(|variant| (name, variant)));
    }
    if matched.len() < 2 {
        return Err(nothing_in_common("two variants"));
    }
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for task in analysis.tasks_in_totals() {
        let published_value =
            |variant: &str| published.figure(&task.task.id, variant, metric).map(|figure| figure.value);
        ratios.extend(ratios_to_best(&matched, &task.comparison, published_value, &task_label(&task.task), &analysis));
        rows.extend(
            order_pair(&matched, &task.comparison, order_sign, published_value)
                .map(|orders| (task_label(&task.task), orders)),
        );
    }
    if rows.is_empty() {
        return Err(nothing_in_common("task"));
    }
    let total = total_orders(&analysis, &matched, published, metric, order_sign);
    let comparison = PublishedComparison {
        record,
        published,
        metric,
        analysis: &analysis,
        matched: &matched,
        noun: if roles.is_empty() { "filesystem" } else { "variant" },
        machine: stated_machine(published)?,
        orders: TaskOrders { rows, total },
    };
    Ok(comparison.report(&ratios))
}

/// Checks that published figures have a metric.
///
/// # Errors
/// If they lack the metric.
fn require_metric(published: &PublishedSet, metric: &str) -> Result<(), Error> {
    if published.metrics().contains(&metric) {
        return Ok(());
    }
    let unknown = unknown_name("metric", metric, published.metrics());
    Err(unknown.with_place(format!("in published:{}", published.name())).into())
}

/// The variant of the run that corresponds to a role. A role is the name of a variant in the author's study, such as
/// `old kernel`. The first role corresponds to the first variant of the run, and so on. `None` if the study has no such
/// role, or if the numbers of roles and of variants differ.
fn variant_of_role(record: &RunRecord, roles: &[String], name: &str) -> Option<usize> {
    let variant = roles.iter().position(|role| role == name)?;
    (roles.len() == record.variants.len()).then_some(variant)
}

/// The orders over all tasks, with a title. The measured order is over the tasks of the run, the published order over those
/// of the study. `None` if the run has no total, or if fewer than two filesystems have a total.
fn total_orders<'a>(
    analysis: &'a Analysis,
    matched: &[(&'a str, usize)],
    published: &PublishedSet,
    metric: &str,
    order_sign: f64,
) -> Option<(String, OrderPair<'a>)> {
    let overall = analysis.overall.as_ref()?;
    let total = overall.total.as_ref()?;
    let published_value = |variant: &str| published.total(variant, metric);
    let orders = order_pair(matched, &total.comparison, order_sign, published_value)?;
    Some((format!("{} of {}", overall.name.to_uppercase(), plural(overall.task_count, "task")), orders))
}

/// The variant of a filesystem: the variant of this name, else the only variant whose filesystem fsarena makes and that is of this
/// type. A variant on an existing directory does not count.
fn variant_on_filesystem(record: &RunRecord, filesystem: &str) -> Option<usize> {
    if let Some(named) = record.variant_index(filesystem) {
        return Some(named);
    }
    let is_created = |index: &usize| {
        let variant = &record.variants[*index];
        variant.level(factor::FS) == filesystem && variant.level(factor::DIR).is_empty()
    };
    let mut created = (0..record.variants.len()).filter(is_created);
    let only = created.next()?;
    created.next().is_none().then_some(only)
}

/// The published and the measured order of the filesystems that have both a published figure and data in the run; `None` if
/// there are fewer than two.
fn order_pair<'a>(
    matched: &[(&'a str, usize)],
    comparison: &'a Comparison,
    order_sign: f64,
    published_value: impl Fn(&str) -> Option<f64>,
) -> Option<OrderPair<'a>> {
    let (mut names, mut figures, mut variants) = (vec![], vec![], vec![]);
    for (name, variant) in matched {
        if let Some(value) = published_value(name).filter(|_| comparison.order.contains(variant)) {
            names.push(*name);
            figures.push(order_sign * value);
            variants.push(*variant);
        }
    }
    if variants.len() < 2 {
        return None;
    }
    let later = VariantOrder::of_variants(comparison, &variants)?;
    Some(OrderPair { names, earlier: VariantOrder::of_figures(figures), later })
}

/// The sign of the values in an order. An order puts the smallest value first, so a metric where higher is better needs the
/// opposite sign. `None` if neither direction is better, because then the values have no order.
fn order_sign(direction: Direction) -> Option<f64> {
    match direction {
        Direction::Lower => Some(1.0),
        Direction::Higher => Some(-1.0),
        Direction::Neutral => None,
    }
}

/// The error for a metric whose values have no order from best to worst.
fn no_order_error(metric: &str) -> Error {
    Error::Usage(format!(
        "published figures are compared by the order of their variants, and it is unknown whether more or less {metric} is \
         better; choose another metric ({})",
        setting("metric", "")
    ))
}

/// The ratio of each other variant to the best variant of the run on a task. [`ComparedRatio::published`] has the ratio of the
/// published figures of the same two variants. Empty if the best variant has no published figure above zero.
fn ratios_to_best(
    matched: &[(&str, usize)],
    comparison: &Comparison,
    published_value: impl Fn(&str) -> Option<f64>,
    task: &str,
    analysis: &Analysis,
) -> Vec<ComparedRatio> {
    let best = comparison.best().and_then(|best| matched.iter().find(|(_, variant)| *variant == best));
    let Some((best_name, best)) = best else { return vec![] };
    // Zero has no ratio.
    let Some(published_best) = published_value(best_name).filter(|value| *value > 0.0) else { return vec![] };
    let ratio_to_best = |(name, variant): &(&str, usize)| {
        let ratio = comparison.variants[*variant].ratio?;
        // Without a margin, no ratio is equivalent.
        let verdict = RatioVerdict::from_tests(ratio.provisional, ratio.is_significant(), false);
        let compared = ComparedRatio::new(task, Some(ratio.into()), verdict, analysis.metric.direction);
        Some(ComparedRatio {
            variant: name.to_string(),
            published: Some(published_value(name)? / published_best),
            ..compared
        })
    };
    matched.iter().filter(|(name, variant)| (name, variant) != (best_name, best)).filter_map(ratio_to_best).collect()
}

/// A run and published figures with everything that their comparison reports.
struct PublishedComparison<'a> {
    record: &'a RunRecord,
    published: &'a PublishedSet,
    metric: &'a str,
    analysis: &'a Analysis,
    /// The compared filesystems: the published name, and the index of the variant in the run.
    matched: &'a [(&'a str, usize)],
    /// The word for the author's variants: `filesystem` or `variant`.
    noun: &'static str,
    /// The machine of the published figures.
    machine: MachineParts,
    orders: TaskOrders<'a>,
}

impl PublishedComparison<'_> {
    /// The report on the comparison. `ratios` are those to the best variant of the run.
    fn report(&self, ratios: &[ComparedRatio]) -> ComparisonReport {
        let PublishedComparison { record, published, metric, analysis, noun, .. } = self;
        let names = [format!("{}: ratio to the best {noun} of this run", record.id)];
        let summary = RatioSummary { ratios, comparisons: &names, margin: None, terms: ["better", "behind"] };
        let title = format!("{metric}, ratios to the best {noun} of this run");
        let mut report = ComparisonReport {
            title: format!("run {} compared with published:{}, by {metric}", record.id, published.name()),
            facts: vec![plural(analysis.grid.rounds.len(), "round"), plural(self.matched.len(), noun)],
            chart: summary.chart(title, format!("{metric} over the best of this run")),
            json: self.orders.add_to_json(json!({
                "run": record.id,
                "published": published.name(),
                "metric": metric,
                "provisional": analysis.is_provisional(),
            })),
            ..ComparisonReport::default()
        };
        if analysis.is_provisional() {
            report.answer.warning("PROVISIONAL: this run has too few rounds for a verdict.");
        }
        let mut sentences = answer_sentences(&self.orders, noun);
        sentences.extend(self.roles_note());
        sentences.extend(self.left_out_sentences());
        report.add_answer(sentences);
        report.answer.text(format!(
            "This compares only the order of the {noun}s that both have, because machine, kernel and often the size of \
             the work differ. The author gave no spread, so any published difference may be chance."
        ));
        self.orders.add_to(&mut report.data, ["best as published".into(), "best in this run".into()]);
        report.method.table(self.circumstance_table());
        report
    }

    /// A sentence that lists the variants whose name differs from the role that they take in the author's study.
    fn roles_note(&self) -> Option<String> {
        let name = |variant: &usize| self.record.variants[*variant].name.as_str();
        let roles = self.matched.iter().filter(|(role, variant)| *role != name(variant) && self.noun == "variant");
        let roles: Vec<String> = roles.map(|(role, variant)| format!("{} as {role}", name(variant))).collect();
        list_sentence("Matched to the published variants by position", &roles)
    }

    /// Sentences that name the variants that only the published figures or only the run has.
    fn left_out_sentences(&self) -> Vec<String> {
        let mut only_published = self.published.variants();
        only_published.retain(|name| !self.matched.iter().any(|(other, _)| other == name));
        let mut only_in_run = vec![];
        for (index, name) in self.record.variant_names().into_iter().enumerate() {
            if !self.matched.iter().any(|(_, variant)| *variant == index) {
                only_in_run.push(name);
            }
        }
        let published = list_sentence("Not compared, only published", &only_published);
        published.into_iter().chain(list_sentence("Not compared, only in this run", &only_in_run)).collect()
    }

    /// The table of machine, scale and rounds of the run, and of the stated machine of the figures.
    fn circumstance_table(&self) -> Table {
        let record = self.record;
        let filesystems: Vec<&str> = self.matched.iter().map(|(name, _)| *name).collect();
        let machine: Vec<String> = self.machine.iter().map(|(part, value)| format!("{part} {value}")).collect();
        let rows = [
            ("run", record.id.clone()),
            ("figures", format!("published:{}", self.published.name())),
            ("machine", describe_machines(record)),
            ("machine as published", if machine.is_empty() { "not stated".into() } else { machine.join("; ") }),
            ("filesystems on", head::describe_storage(record)),
            ("scale", record.plan.scale.name().to_string()),
            ("rounds", self.analysis.grid.rounds.len().to_string()),
            ("compared", filesystems.join(", ")),
        ];
        Table::of_pairs(["", "what"], rows)
    }
}

/// The sentences of the answer: in how many tasks the leader is the same, and which variants changed places.
fn answer_sentences(orders: &TaskOrders, noun: &str) -> Vec<String> {
    let TaskOrders { rows, total } = orders;
    let mut sentences =
        vec![format!("The same {noun} leads in {} of {} tasks.", orders.count_same_leaders(), rows.len())];
    if let Some((_, pair)) = total {
        let (published, measured) = pair.describe_both_leaders();
        sentences
            .push(format!("Over all tasks, {published} was first as published, and {measured} is first in this run."));
    }
    let (mut significant_changes, mut other_count) = (vec![], 0);
    for (title, pair) in rows {
        for change in pair.place_changes() {
            if change.is_significant {
                significant_changes.push(format!("{change} ({title})"));
            } else {
                other_count += 1;
            }
        }
    }
    let changes_are = |count: usize, adjective: &str| match count {
        1 => format!("1 {adjective}change of place is"),
        _ => format!("{count} {adjective}changes of place are"),
    };
    sentences.push(match significant_changes.len() {
        0 => format!("No two {noun}s that differ significantly in this run changed places."),
        count => {
            let named = join_first(&significant_changes, "; ");
            format!("{} significant in this run: {named}.", changes_are(count, ""))
        }
    });
    if other_count > 0 {
        sentences.push(format!(
            "{} between {noun}s that do not differ significantly in this run; this may be chance.",
            changes_are(other_count, "other ")
        ));
    }
    sentences
}

/// Compares two sets of published figures, task by task, on the filesystems that both have. A task counts only if both sets
/// have a figure for each of these filesystems.
///
/// # Errors
/// If a set lacks the metric, or the sets have fewer than two filesystems or no task in common; if it is unknown whether more or
/// less of the metric is better; or if the file of a study is invalid.
pub fn compare_published_sets(a: &PublishedSet, b: &PublishedSet, metric: &str) -> Result<ComparisonReport, Error> {
    let name = |set: &PublishedSet| format!("published:{}", set.name());
    require_metric(a, metric)?;
    require_metric(b, metric)?;
    let direction = metric::find(metric).map(|def| def.spec.direction);
    let order_sign = direction.and_then(order_sign).ok_or_else(|| no_order_error(metric))?;
    let nothing_in_common = |kind| Error::nothing_in_common(&name(a), &name(b), kind);
    let mut names = a.variants();
    names.retain(|variant| b.variants().contains(variant));
    if names.len() < 2 {
        return Err(nothing_in_common("two variants"));
    }
    let is_complete = |set: &PublishedSet, task: &Figure| {
        names.iter().all(|name| set.figure(&task.task_id(), name, metric).is_some())
    };
    let mut tasks = a.tasks_in_totals();
    tasks.retain(|task| is_complete(a, task) && is_complete(b, task));
    if tasks.is_empty() {
        return Err(nothing_in_common("task"));
    }
    // The precision of `b` applies to both sets, which are meant to be of the same study.
    let precision = study_conclusions(b)?.map_or(FigurePrecision::default(), |conclusions| conclusions.precision);
    SetComparison { sets: [a, b], names, tasks, metric, order_sign, precision }.report()
}

/// Two sets of published figures, with the filesystems and the tasks that both have.
struct SetComparison<'a> {
    sets: [&'a PublishedSet; 2],
    names: Vec<&'a str>,
    tasks: Vec<&'a Figure>,
    metric: &'a str,
    /// The sign with which figures of the metric are ordered; see [`order_sign`].
    order_sign: f64,
    /// The precision of the figures, which have no interval.
    precision: FigurePrecision,
}

impl SetComparison<'_> {
    /// The report on the comparison.
    ///
    /// # Errors
    /// If a study's file is invalid.
    fn report(&self) -> Result<ComparisonReport, Error> {
        let row = |task: &&Figure| (format!("{} {}", task.number, task.title), self.order_pair(&[task]));
        let rows = self.tasks.iter().map(row).collect();
        let total = (format!("TOTAL of {}", plural(self.tasks.len(), "task")), self.order_pair(&self.tasks));
        let orders = TaskOrders { rows, total: Some(total) };
        let [a, b] = self.sets.map(PublishedSet::name);
        let mut report = ComparisonReport {
            title: format!("published:{b} compared with published:{a}, by {}", self.metric),
            facts: vec![
                plural(self.tasks.len(), "task"),
                plural(self.names.len(), "filesystem"),
                "one figure each, without spread".into(),
            ],
            json: orders.add_to_json(json!({ "published": [a, b], "metric": self.metric })),
            ..ComparisonReport::default()
        };
        report.add_answer(self.answer_sentences(&orders));
        orders.add_to(&mut report.data, [format!("first in {a}"), format!("first in {b}")]);
        report.method.table(self.machine_table()?);
        Ok(report)
    }

    /// The order of the filesystems in each set, by the sum of their figures over these tasks.
    fn order_pair(&self, tasks: &[&Figure]) -> OrderPair<'_> {
        let order_in = |set| {
            let sum = |name: &&str| tasks.iter().map(|task| self.figure_or_nan(set, task, name)).sum::<f64>();
            VariantOrder::of_figures(self.names.iter().map(|name| self.order_sign * sum(name)).collect())
        };
        OrderPair { names: self.names.clone(), earlier: order_in(self.sets[0]), later: order_in(self.sets[1]) }
    }

    /// The figure of a filesystem for a task; NaN without one.
    fn figure_or_nan(&self, set: &PublishedSet, task: &Figure, name: &str) -> f64 {
        set.figure(&task.task_id(), name, self.metric).map_or(f64::NAN, |figure| figure.value)
    }

    /// The sentences of the answer.
    fn answer_sentences(&self, orders: &TaskOrders) -> Vec<String> {
        let [a, b] = self.sets.map(PublishedSet::name);
        let Some((_, total)) = &orders.total else { return vec![] };
        let (leader_in_a, leader_in_b) = total.describe_both_leaders();
        let changes: Vec<String> = total.place_changes().iter().map(ToString::to_string).collect();
        let changed_or_not = if changes.is_empty() { "did not change" } else { "changed" };
        let different_leaders = orders.rows.len() - orders.count_same_leaders();
        let mut sentences = vec![format!(
            "The order over all {} {changed_or_not} from {a} to {b}: {leader_in_a} was first in {a}, {leader_in_b} in {b}; the best filesystem \
             differs in {different_leaders} of the tasks.",
            plural(orders.rows.len(), "task"),
        )];
        if !changes.is_empty() {
            sentences.push(format!("Changes of place over all tasks: {}.", join_first(&changes, "; ")));
        }
        sentences.extend(self.names.iter().map(|name| self.filesystem_sentence(name)));
        let only_in_sentence = |set: &PublishedSet, label: &str| {
            let mut names = set.variants();
            names.retain(|name| !self.names.contains(name));
            list_sentence(&format!("Not compared, only in {label}"), &names)
        };
        sentences.extend(only_in_sentence(self.sets[0], &a));
        sentences.extend(only_in_sentence(self.sets[1], &b));
        sentences
    }

    /// States how a filesystem changed: `xfs: 0.817 times the total; lower in 15 of 21 tasks, higher in 4, too close to
    /// decide in 2.`
    fn filesystem_sentence(&self, name: &str) -> String {
        let figures = |task: &&Figure| self.sets.map(|set| self.figure_or_nan(set, task, name));
        let pairs: Vec<[f64; 2]> = self.tasks.iter().map(figures).collect();
        let (mut lower, mut higher) = (0, 0);
        for [a, b] in &pairs {
            let (smallest_log, largest_log) = self.precision.log_ratio_range(*b, *a);
            lower += usize::from(largest_log < 0.0);
            higher += usize::from(smallest_log > 0.0);
        }
        let [total_a, total_b] = [0, 1].map(|set| pairs.iter().map(|pair| pair[set]).sum::<f64>());
        format!(
            "{name}: {} times the total; lower in {lower} of {}, higher in {higher}, too close to decide in {}.",
            three_digits(total_b / total_a),
            plural(pairs.len(), "task"),
            pairs.len() - lower - higher,
        )
    }

    /// The table of the stated machines of both sets.
    fn machine_table(&self) -> Result<Table, Error> {
        let [a, b] = [stated_machine(self.sets[0])?, stated_machine(self.sets[1])?];
        let stated = |part: Option<&String>| part.map_or("–".to_string(), String::clone);
        let row = |part: &String| row![part.as_str(), stated(a.get(part)), stated(b.get(part))];
        let header = ["machine".into(), self.sets[0].name(), self.sets[1].name()];
        Ok(Table::of_words(header).with_rows(distinct(a.keys().chain(b.keys())).into_iter().map(row)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::published::parse_published;

    /// Two sets with a figure of ext4 and xfs each, for one task.
    fn sets(metric: &str, unit: &str) -> Vec<PublishedSet> {
        let lines: Vec<String> = [("I", "ext4", 20), ("I", "xfs", 10), ("II", "ext4", 30), ("II", "xfs", 40)]
            .map(|(set, filesystem, value)| format!("{set},001,Load,{filesystem},{metric},{value},{unit}"))
            .into();
        let csv = format!("set,task,title,filesystem,metric,value,unit\n{}\n", lines.join("\n"));
        parse_published("old", &csv, &[("001".to_string(), "load".to_string())].into()).unwrap()
    }

    #[test]
    fn the_best_published_figure_depends_on_the_direction_of_its_metric() {
        let first = |metric: &str, unit: &str| {
            let sets = sets(metric, unit);
            let report = compare_published_sets(&sets[0], &sets[1], metric).unwrap();
            report.json["total"]["first_then"][0].as_str().unwrap().to_string()
        };
        assert_eq!([first("elapsed", "s"), first("iops", "per_s")], ["xfs", "ext4"]);
        // A metric that fsarena does not know has no better direction.
        let wins = sets("wins", "count");
        let error = compare_published_sets(&wins[0], &wins[1], "wins").unwrap_err().to_string();
        assert!(error.contains("whether more or less wins is better"), "{error}");
    }
}
