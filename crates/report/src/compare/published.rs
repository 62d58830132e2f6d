//! A run beside published figures: who won then, who wins here.

use super::Compared;
use super::answer::{Answer, Figure, first_of};
use super::order::{self, Order, Orders, Tasks};
use crate::published::{conclusions_of, machine};
use crate::words::{label, machines, sentence};
use crate::{difference::Finding, document::Table, error::Error, number::plural, sections::head};
use fsarena_core::observations::MetricSeries;
use fsarena_core::{conclusion::Machine, factor, published::Published, record::RunRecord};
use fsarena_stats::analyse::{Analysis, analyse};
use fsarena_stats::comparison::Comparison;
use serde_json::json;

/// Compares the orders of the filesystems that are in both. Sizes of work and machines differ, so times
/// themselves are not compared.
///
/// # Errors
/// Where the metric is unknown on either side, or fewer than two filesystems or no task are in both.
pub fn compare_published(record: &RunRecord, published: &Published, metric: &str) -> Result<Compared, Error> {
    order::knows(published, metric)?;
    let name = format!("published:{}", published.name());
    let nothing = |what| Error::nothing_in_common(&record.id, &name, what);
    let analysis = analyse(MetricSeries::of(record, metric)?);
    let roles = conclusions_of(published)?.map_or(vec![], |of| of.roles);
    let role = |name: &str| {
        let part = roles.iter().position(|role| role == name);
        part.filter(|_| roles.len() == record.variants.len())
    };
    let here = |name| Some((name, variant_of(record, name).or_else(|| role(name))?));
    let pairs: Vec<(&str, usize)> = published.variants().into_iter().filter_map(here).collect();
    if pairs.len() < 2 {
        return Err(nothing("two variants"));
    }
    let (mut rows, mut figures) = (Vec::new(), Vec::new());
    for task in analysis.tasks() {
        let then =
            |variant: &str| published.figure(&task.task.id, variant, metric).map(|figure| figure.value);
        figures.extend(drawn(&pairs, &task.comparison, then, &label(&task.task), &analysis));
        rows.extend(orders(&pairs, &task.comparison, then).map(|orders| (label(&task.task), orders)));
    }
    if rows.is_empty() {
        return Err(nothing("task"));
    }
    let total = analysis.overall.as_ref().and_then(|overall| {
        let here = &overall.main().comparison;
        let sums = overall.total.is_some();
        let orders = orders(&pairs, here, |variant| published.total(variant, metric).filter(|_| sums))?;
        Some((format!("{} of {}", overall.name.to_uppercase(), plural(overall.tasks, "task")), orders))
    });
    let noun = if roles.is_empty() { "filesystem" } else { "variant" };
    let machine = machine(published)?;
    let (analysis, pairs, orders) = (&analysis, &pairs[..], Tasks { rows, total });
    Ok(Known { record, published, metric, analysis, pairs, noun, machine, orders }.compared(&figures))
}

/// The variant that is this filesystem: the one of this name, or else the only one made with it.
fn variant_of(record: &RunRecord, filesystem: &str) -> Option<usize> {
    let named = record.variant(filesystem);
    let made_with = |at: &usize| {
        let variant = &record.variants[*at];
        variant.level(factor::FS) == filesystem && variant.level(factor::DIR).is_empty()
    };
    let mut made = (0..record.variants.len()).filter(made_with);
    named.or_else(|| made.next().filter(|_| made.next().is_none()))
}

/// The two orders of the filesystems that have a figure then and data here; at least two of them.
fn orders<'a>(
    pairs: &[(&'a str, usize)],
    comparison: &'a Comparison,
    then: impl Fn(&str) -> Option<f64>,
) -> Option<Orders<'a>> {
    let measured = pairs.iter().filter(|(_, variant)| comparison.order.contains(variant));
    let known = measured.filter_map(|(name, variant)| Some(((*name, then(name)?), *variant)));
    let (figures, variants): (Vec<(&str, f64)>, Vec<usize>) = known.unzip();
    (variants.len() > 1).then_some(())?;
    let (names, values) = figures.into_iter().unzip();
    Some(Orders { names, then: Order::of_figures(values), here: Order::of_variants(comparison, &variants)? })
}

/// The ratios to the best here, with what they were then. None where the best here has no figure.
fn drawn(
    pairs: &[(&str, usize)],
    comparison: &Comparison,
    then: impl Fn(&str) -> Option<f64>,
    what: &str,
    analysis: &Analysis,
) -> Vec<Figure> {
    let best = comparison.best().and_then(|best| pairs.iter().find(|(_, variant)| *variant == best));
    let Some((best, least)) = best.and_then(|pair| Some((pair, then(pair.0)?))) else { return vec![] };
    let figure = |(name, variant): &(&str, usize)| {
        let ratio = comparison.variants[*variant].ratio?;
        let finding = Finding::judged(ratio.provisional, ratio.separated(), false);
        let figure = Figure::new(what, Some(ratio.into()), finding, analysis.metric.direction);
        Some(Figure { variant: name.to_string(), then: Some(then(name)? / least), ..figure })
    };
    pairs.iter().filter(|pair| *pair != best).filter_map(figure).collect()
}

/// The two sides.
struct Known<'a> {
    record: &'a RunRecord,
    published: &'a Published,
    metric: &'a str,
    analysis: &'a Analysis,
    pairs: &'a [(&'a str, usize)],
    /// What the author's variants are.
    noun: &'static str,
    machine: Machine,
    orders: Tasks<'a>,
}

impl Known<'_> {
    fn compared(&self, figures: &[Figure]) -> Compared {
        let Known { record, published, metric, analysis, noun, .. } = self;
        let sides = [format!("{} beside the best here", record.id)];
        let answer = Answer { figures, sides: &sides, margin: None, terms: ["better", "behind"] };
        let title = format!("{metric}, ratios to the {noun} that is best here");
        let mut compared = Compared {
            title: format!("run {} beside published:{}, by {metric}", record.id, published.name()),
            facts: vec![plural(analysis.grid.rounds.len(), "round"), plural(self.pairs.len(), noun)],
            chart: answer.chart(title, format!("{metric} over the best here")),
            json: self.orders.json(json!({
                "run": record.id,
                "published": published.name(),
                "metric": metric,
                "provisional": analysis.provisional(),
            })),
            ..Compared::default()
        };
        if analysis.provisional() {
            compared.answer.loud("PROVISIONAL: this run has too few rounds for a verdict.");
        }
        let mut words = conclusions(&self.orders, noun);
        words.extend(self.cast());
        words.extend(self.left_out());
        compared.say(words);
        compared.answer.text(format!(
            "This compares only the order of the {noun}s that both have, because machine, kernel and often the size of \
             the work differ. The author gave no spread, so any published difference may be chance."
        ));
        self.orders.add(&mut compared.data, ["first then".into(), "first here".into()]);
        compared.method.table(self.circumstances());
        compared
    }

    /// Which variant has which role of the author's, where their names do not say it.
    fn cast(&self) -> Option<String> {
        let name = |at: &usize| self.record.variants[*at].name.as_str();
        let roles = self.pairs.iter().filter(|(role, at)| *role != name(at) && self.noun == "variant");
        let roles: Vec<String> = roles.map(|(role, at)| format!("{} as {role}", name(at))).collect();
        sentence("Compared by their order in the run", &roles)
    }

    /// Figures of one side only.
    fn left_out(&self) -> Vec<String> {
        let known = |name: &&str| !self.pairs.iter().any(|(other, _)| other == name);
        let then: Vec<&str> = self.published.variants().into_iter().filter(known).collect();
        let here = self.record.names().into_iter().enumerate();
        let here = here.filter(|(at, _)| !self.pairs.iter().any(|(_, variant)| variant == at));
        let here: Vec<&str> = here.map(|(_, name)| name).collect();
        let only_then = sentence("Not compared, only published", &then);
        only_then.into_iter().chain(sentence("Not compared, only in this run", &here)).collect()
    }

    /// The run, beside what is known of the figures.
    fn circumstances(&self) -> Table {
        let record = self.record;
        let filesystems: Vec<&str> = self.pairs.iter().map(|(name, _)| *name).collect();
        let machine: Vec<String> = self.machine.iter().map(|(part, what)| format!("{part} {what}")).collect();
        let rows = [
            ("run", record.id.clone()),
            ("figures", format!("published:{}", self.published.name())),
            ("machine", machines(record)),
            ("machine then", if machine.is_empty() { "not stated".into() } else { machine.join("; ") }),
            ("filesystems on", head::place(record)),
            ("scale", record.plan.scale.name().to_string()),
            ("rounds", self.analysis.grid.rounds.len().to_string()),
            ("compared", filesystems.join(", ")),
        ];
        Table::pairs(["", "what"], rows)
    }
}

fn conclusions(tasks: &Tasks, noun: &str) -> Vec<String> {
    let Tasks { rows, total } = tasks;
    let same = tasks.same_first();
    let mut items = vec![format!("The same {noun} leads in {same} of {} tasks.", rows.len())];
    if let Some((_, orders)) = total {
        let (then, here) = orders.firsts();
        items.push(format!("Over all tasks: first then {then}, first here {here}."));
    }
    let all =
        || rows.iter().flat_map(|(title, orders)| orders.changes().into_iter().map(move |c| (title, c)));
    let passed = |(title, (former, later, _))| format!("{later} passed {former} ({title})");
    let sure: Vec<String> = all().filter(|(_, (.., sure))| *sure).map(passed).collect();
    let open = all().count() - sure.len();
    let named = first_of(&sure, "; ");
    items.push(match sure.len() {
        0 => format!("No two {noun}s that differ significantly here changed places."),
        1 => format!("One change of place is significant here: {named}."),
        some => format!("{some} changes of place are significant here: {named}."),
    });
    if open > 0 {
        let open = if open == 1 { "One".into() } else { open.to_string() };
        items.push(format!(
            "{open} more between {noun}s that do not differ significantly here: they may be chance."
        ));
    }
    items
}
