//! Compares a run with published figures, or two sets of published figures of the same study: the order of the filesystems
//! and the best one in each task. `then` is as published, `here` is in the run.

use crate::compare::answer::{ComparedRatio, RatioSummary, first_of};
use crate::compare::order::{self, OrderPair, TaskOrders, VariantOrder};
use crate::document::{Table, row};
use crate::number::{plural, three};
use crate::published::{stated_machine, study_conclusions};
use crate::words::{machines, sentence, task_label};
use crate::{error::Error, page::ComparisonReport, ratio_verdict::RatioVerdict, sections::head};
use fsarena_core::conclusion::{Machine, Trust};
use fsarena_core::observations::MetricSeries;
use fsarena_core::published::{Figure, Published};
use fsarena_core::{factor, metric, names::distinct, record::RunRecord, sample::Direction};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use serde_json::json;

/// Compares a run with published figures by the order of the filesystems that both have. It does not compare times,
/// because machines and sizes of the work differ.
///
/// # Errors
/// If the run or the figures lack the metric, or have fewer than two filesystems or no task in common.
pub fn compare_published(
    record: &RunRecord,
    published: &Published,
    metric: &str,
) -> Result<ComparisonReport, Error> {
    order::require_metric(published, metric)?;
    let name = format!("published:{}", published.name());
    let nothing = |what| Error::nothing_in_common(&record.id, &name, what);
    let analysis = analyse(MetricSeries::of(record, metric)?);
    let roles = study_conclusions(published)?.map_or(vec![], |of| of.roles);
    let mut pairs: Vec<(&str, usize)> = vec![];
    for name in published.variants() {
        let variant = variant_of(record, name).or_else(|| variant_of_role(record, &roles, name));
        pairs.extend(variant.map(|variant| (name, variant)));
    }
    if pairs.len() < 2 {
        return Err(nothing("two variants"));
    }
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for task in analysis.tasks() {
        let then =
            |variant: &str| published.figure(&task.task.id, variant, metric).map(|figure| figure.value);
        ratios.extend(ratios_to_best(&pairs, &task.comparison, then, &task_label(&task.task), &analysis));
        rows.extend(orders(&pairs, &task.comparison, then).map(|orders| (task_label(&task.task), orders)));
    }
    if rows.is_empty() {
        return Err(nothing("task"));
    }
    let total = total_orders(&analysis, &pairs, published, metric);
    let comparison = PublishedComparison {
        record,
        published,
        metric,
        analysis: &analysis,
        pairs: &pairs,
        noun: if roles.is_empty() { "filesystem" } else { "variant" },
        machine: stated_machine(published)?,
        orders: TaskOrders { rows, total },
    };
    Ok(comparison.report(&ratios))
}

/// The variant of the run that takes a role of the author's study. A role is a variant of the author, such as `old kernel`;
/// the roles belong to the variants of the run by position. `None` if the run does not have as many variants as the study has
/// roles.
fn variant_of_role(record: &RunRecord, roles: &[String], name: &str) -> Option<usize> {
    let variant = roles.iter().position(|role| role == name)?;
    (roles.len() == record.variants.len()).then_some(variant)
}

/// The orders over all tasks, with a title; `None` if the run has no total or fewer than two filesystems have one.
fn total_orders<'a>(
    analysis: &'a Analysis,
    pairs: &[(&'a str, usize)],
    published: &Published,
    metric: &str,
) -> Option<(String, OrderPair<'a>)> {
    let overall = analysis.overall.as_ref()?;
    overall.total.as_ref()?;
    let then = |variant: &str| published.total(variant, metric);
    let orders = orders(pairs, &overall.main().comparison, then)?;
    Some((format!("{} of {}", overall.name.to_uppercase(), plural(overall.tasks, "task")), orders))
}

/// The variant of a filesystem: the variant of this name, else the only variant on this filesystem that fsarena creates
/// (not one on an existing directory).
fn variant_of(record: &RunRecord, filesystem: &str) -> Option<usize> {
    if let Some(named) = record.variant(filesystem) {
        return Some(named);
    }
    let created_with = |at: &usize| {
        let variant = &record.variants[*at];
        variant.level(factor::FS) == filesystem && variant.level(factor::DIR).is_empty()
    };
    let mut created = (0..record.variants.len()).filter(created_with);
    let only = created.next()?;
    created.next().is_none().then_some(only)
}

/// The published and the measured order of the filesystems that have both a published figure and data in the run; `None` if
/// there are fewer than two.
fn orders<'a>(
    pairs: &[(&'a str, usize)],
    comparison: &'a Comparison,
    then: impl Fn(&str) -> Option<f64>,
) -> Option<OrderPair<'a>> {
    let measured = pairs.iter().filter(|(_, variant)| comparison.order.contains(variant));
    let known = measured.filter_map(|(name, variant)| Some(((*name, then(name)?), *variant)));
    let (figures, variants): (Vec<(&str, f64)>, Vec<usize>) = known.unzip();
    if variants.len() < 2 {
        return None;
    }
    let (names, values) = figures.into_iter().unzip();
    Some(OrderPair {
        names,
        earlier: VariantOrder::of_figures(values),
        later: VariantOrder::of_variants(comparison, &variants)?,
    })
}

/// The ratios to the best variant of the run on a task, each with the same ratio of the published figures. Empty if the
/// best variant has no published figure.
fn ratios_to_best(
    pairs: &[(&str, usize)],
    comparison: &Comparison,
    then: impl Fn(&str) -> Option<f64>,
    task: &str,
    analysis: &Analysis,
) -> Vec<ComparedRatio> {
    let best = comparison.best().and_then(|best| pairs.iter().find(|(_, variant)| *variant == best));
    let Some((best_name, best)) = best else { return vec![] };
    let Some(best_then) = then(best_name) else { return vec![] };
    let ratio_to_best = |(name, variant): &(&str, usize)| {
        let ratio = comparison.variants[*variant].ratio?;
        let verdict = RatioVerdict::from_tests(ratio.provisional, ratio.separated(), false);
        let figure = ComparedRatio::new(task, Some(ratio.into()), verdict, analysis.metric.direction);
        Some(ComparedRatio { variant: name.to_string(), published: Some(then(name)? / best_then), ..figure })
    };
    pairs
        .iter()
        .filter(|(name, variant)| (name, variant) != (best_name, best))
        .filter_map(ratio_to_best)
        .collect()
}

/// A run and published figures with everything that their comparison reports.
struct PublishedComparison<'a> {
    record: &'a RunRecord,
    published: &'a Published,
    metric: &'a str,
    analysis: &'a Analysis,
    /// The compared filesystems: the published name, and the index of the variant in the run.
    pairs: &'a [(&'a str, usize)],
    /// The word for the author's variants: `filesystem` or `variant`.
    noun: &'static str,
    /// The machine of the published figures.
    machine: Machine,
    orders: TaskOrders<'a>,
}

impl PublishedComparison<'_> {
    fn report(&self, ratios: &[ComparedRatio]) -> ComparisonReport {
        let PublishedComparison { record, published, metric, analysis, noun, .. } = self;
        let sides = [format!("{}: ratio to the best {noun} of this run", record.id)];
        let answer =
            RatioSummary { figures: ratios, sides: &sides, margin: None, terms: ["better", "behind"] };
        let title = format!("{metric}, ratios to the best {noun} of this run");
        let mut compared = ComparisonReport {
            title: format!("run {} compared with published:{}, by {metric}", record.id, published.name()),
            facts: vec![plural(analysis.grid.rounds.len(), "round"), plural(self.pairs.len(), noun)],
            chart: answer.chart(title, format!("{metric} over the best of this run")),
            json: self.orders.json(json!({
                "run": record.id,
                "published": published.name(),
                "metric": metric,
                "provisional": analysis.provisional(),
            })),
            ..ComparisonReport::default()
        };
        if analysis.provisional() {
            compared.answer.warning("PROVISIONAL: this run has too few rounds for a verdict.");
        }
        let mut words = conclusions(&self.orders, noun);
        words.extend(self.roles_note());
        words.extend(self.left_out());
        compared.set_answer(words);
        compared.answer.text(format!(
            "This compares only the order of the {noun}s that both have, because machine, kernel and often the size of \
             the work differ. The author gave no spread, so any published difference may be chance."
        ));
        self.orders.add(&mut compared.data, ["best as published".into(), "best in this run".into()]);
        compared.method.table(self.circumstances());
        compared
    }

    /// A sentence that lists the variants whose name differs from the role that they take in the author's study.
    fn roles_note(&self) -> Option<String> {
        let name = |at: &usize| self.record.variants[*at].name.as_str();
        let roles = self.pairs.iter().filter(|(role, at)| *role != name(at) && self.noun == "variant");
        let roles: Vec<String> = roles.map(|(role, at)| format!("{} as {role}", name(at))).collect();
        sentence("Matched to the published variants by position", &roles)
    }

    /// Names the variants that only the published figures or only the run has.
    fn left_out(&self) -> Vec<String> {
        let mut only_published = self.published.variants();
        only_published.retain(|name| !self.pairs.iter().any(|(other, _)| other == name));
        let mut only_here = vec![];
        for (at, name) in self.record.names().into_iter().enumerate() {
            if !self.pairs.iter().any(|(_, variant)| *variant == at) {
                only_here.push(name);
            }
        }
        let published = sentence("Not compared, only published", &only_published);
        published.into_iter().chain(sentence("Not compared, only in this run", &only_here)).collect()
    }

    /// The table of machine, scale and rounds of the run, and of the stated machine of the figures.
    fn circumstances(&self) -> Table {
        let record = self.record;
        let filesystems: Vec<&str> = self.pairs.iter().map(|(name, _)| *name).collect();
        let machine: Vec<String> = self.machine.iter().map(|(part, what)| format!("{part} {what}")).collect();
        let rows = [
            ("run", record.id.clone()),
            ("figures", format!("published:{}", self.published.name())),
            ("machine", machines(record)),
            (
                "machine as published",
                if machine.is_empty() { "not stated".into() } else { machine.join("; ") },
            ),
            ("filesystems on", head::describe_storage(record)),
            ("scale", record.plan.scale.name().to_string()),
            ("rounds", self.analysis.grid.rounds.len().to_string()),
            ("compared", filesystems.join(", ")),
        ];
        Table::pairs(["", "what"], rows)
    }
}

/// The sentences of the answer: in how many tasks the leader is the same, and which variants changed places.
fn conclusions(tasks: &TaskOrders, noun: &str) -> Vec<String> {
    let TaskOrders { rows, total } = tasks;
    let mut items = vec![format!("The same {noun} leads in {} of {} tasks.", tasks.same_first(), rows.len())];
    if let Some((_, orders)) = total {
        let (then, here) = orders.firsts();
        items
            .push(format!("Over all tasks, {then} was first as published, and {here} is first in this run."));
    }
    let (mut significant, mut others) = (vec![], 0);
    for (title, orders) in rows {
        for (former, later, is_significant) in orders.changes() {
            if is_significant {
                significant.push(format!("{later} passed {former} ({title})"));
            } else {
                others += 1;
            }
        }
    }
    let changes_are = |count: usize, other: &str| match count {
        1 => format!("1 {other}change of place is"),
        _ => format!("{count} {other}changes of place are"),
    };
    items.push(match significant.len() {
        0 => format!("No two {noun}s that differ significantly in this run changed places."),
        count => {
            let named = first_of(&significant, "; ");
            format!("{} significant in this run: {named}.", changes_are(count, ""))
        }
    });
    if others > 0 {
        items.push(format!(
            "{} between {noun}s that do not differ significantly in this run; this may be chance.",
            changes_are(others, "other ")
        ));
    }
    items
}

/// Compares two sets of published figures, task by task, on the filesystems that both have. A task counts only if both sets
/// have a figure for each of these filesystems.
///
/// # Errors
/// If a set lacks the metric, or the sets have fewer than two filesystems or no task in common.
pub fn compare_sets(a: &Published, b: &Published, metric: &str) -> Result<ComparisonReport, Error> {
    let name = |set: &Published| format!("published:{}", set.name());
    order::require_metric(a, metric)?;
    order::require_metric(b, metric)?;
    let nothing = |what| Error::nothing_in_common(&name(a), &name(b), what);
    let mut names = a.variants();
    names.retain(|variant| b.variants().contains(variant));
    if names.len() < 2 {
        return Err(nothing("two variants"));
    }
    let is_complete = |set: &Published, task: &Figure| {
        names.iter().all(|name| set.figure(&task.task_id(), name, metric).is_some())
    };
    let mut tasks = a.work();
    tasks.retain(|task| is_complete(a, task) && is_complete(b, task));
    if tasks.is_empty() {
        return Err(nothing("task"));
    }
    let trust = study_conclusions(b)?.map_or(Trust::default(), |of| of.trust);
    SetComparison { sets: [a, b], names, tasks, metric, trust }.report()
}

/// Two sets of published figures, with the filesystems and the tasks that both have.
struct SetComparison<'a> {
    sets: [&'a Published; 2],
    names: Vec<&'a str>,
    tasks: Vec<&'a Figure>,
    metric: &'a str,
    /// The precision of the figures, which have no interval.
    trust: Trust,
}

impl SetComparison<'_> {
    fn report(&self) -> Result<ComparisonReport, Error> {
        let row = |task: &&Figure| (format!("{} {}", task.number, task.title), self.orders(&[task]));
        let rows = self.tasks.iter().map(row).collect();
        let total = (format!("TOTAL of {}", plural(self.tasks.len(), "task")), self.orders(&self.tasks));
        let orders = TaskOrders { rows, total: Some(total) };
        let [a, b] = self.sets.map(Published::name);
        let mut compared = ComparisonReport {
            title: format!("published:{b} compared with published:{a}, by {}", self.metric),
            facts: vec![
                plural(self.tasks.len(), "task"),
                plural(self.names.len(), "filesystem"),
                "one figure each, without spread".into(),
            ],
            json: orders.json(json!({ "published": [a, b], "metric": self.metric })),
            ..ComparisonReport::default()
        };
        compared.set_answer(self.words(&orders));
        orders.add(&mut compared.data, [format!("first in {a}"), format!("first in {b}")]);
        compared.method.table(self.machines()?);
        Ok(compared)
    }

    /// The order of the filesystems in each set, by the sum of their figures over these tasks.
    fn orders(&self, tasks: &[&Figure]) -> OrderPair<'_> {
        // Orders put the smallest value first: where higher is better the sign turns the order.
        let sign = match metric::find(self.metric).map(|def| def.spec.direction) {
            Some(Direction::Higher) => -1.0,
            _ => 1.0,
        };
        let order = |set| {
            let sum = |name: &&str| sign * tasks.iter().map(|task| self.value(set, task, name)).sum::<f64>();
            VariantOrder::of_figures(self.names.iter().map(sum).collect())
        };
        OrderPair { names: self.names.clone(), earlier: order(self.sets[0]), later: order(self.sets[1]) }
    }

    /// The figure of a filesystem for a task; NaN without one.
    fn value(&self, set: &Published, task: &Figure, name: &str) -> f64 {
        set.figure(&task.task_id(), name, self.metric).map_or(f64::NAN, |figure| figure.value)
    }

    /// The sentences of the answer.
    fn words(&self, orders: &TaskOrders) -> Vec<String> {
        let [a, b] = self.sets.map(Published::name);
        let Some((_, total)) = &orders.total else { return vec![] };
        let (first, later) = total.firsts();
        let passed = |(passed, by, _)| format!("{by} passed {passed}");
        let places: Vec<String> = total.changes().into_iter().map(passed).collect();
        let changed = if places.is_empty() { "did not change" } else { "changed" };
        let other = orders.rows.len() - orders.same_first();
        let mut words = vec![format!(
            "The order over all {} {changed} from {a} to {b}: {first} was first in {a}, {later} in {b}; the best filesystem \
             differs in {other} of the tasks.",
            plural(orders.rows.len(), "task"),
        )];
        if !places.is_empty() {
            words.push(format!("Changes of place over all tasks: {}.", first_of(&places, "; ")));
        }
        words.extend(self.names.iter().map(|name| self.filesystem_sentence(name)));
        let only = |set: &Published, label: &str| {
            let mut only = set.variants();
            only.retain(|name| !self.names.contains(name));
            sentence(&format!("Not compared, only in {label}"), &only)
        };
        words.extend(only(self.sets[0], &a).into_iter().chain(only(self.sets[1], &b)));
        words
    }

    /// States how a filesystem changed: `xfs: 0.817 times the total; lower in 15 of 21 tasks, higher in 4, too close to
    /// decide in 2.`
    fn filesystem_sentence(&self, name: &str) -> String {
        let pair = |task: &&Figure| self.sets.map(|set| self.value(set, task, name));
        let pairs: Vec<[f64; 2]> = self.tasks.iter().map(pair).collect();
        let (mut lower, mut higher) = (0, 0);
        for [a, b] in &pairs {
            let (smallest_log, largest_log) = self.trust.ratio(*b, *a);
            lower += usize::from(largest_log < 0.0);
            higher += usize::from(smallest_log > 0.0);
        }
        let [a, b] = [0, 1].map(|set| pairs.iter().map(|pair| pair[set]).sum::<f64>());
        format!(
            "{name}: {} times the total; lower in {lower} of {}, higher in {higher}, too close to decide in {}.",
            three(b / a),
            plural(pairs.len(), "task"),
            pairs.len() - lower - higher,
        )
    }

    /// The table of the stated machines of both sets.
    fn machines(&self) -> Result<Table, Error> {
        let [a, b] = [stated_machine(self.sets[0])?, stated_machine(self.sets[1])?];
        let stated = |part: Option<&String>| part.map_or("–".to_string(), String::clone);
        let row = |part: &String| row![part.as_str(), stated(a.get(part)), stated(b.get(part))];
        let header = ["machine".into(), self.sets[0].name(), self.sets[1].name()];
        Ok(Table::words(header).with(distinct(a.keys().chain(b.keys())).into_iter().map(row)))
    }
}
