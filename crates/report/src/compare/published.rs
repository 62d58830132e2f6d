//! A run beside published figures: who won then, who wins here.

use super::order::{self, Order, Orders};
use crate::document::Document;
use crate::error::Error;
use crate::page::Page;
use crate::sections::label;
use fsarena_core::factor;
use fsarena_core::published::Published;
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::analyse;
use fsarena_stats::comparison::Comparison;
use serde_json::{Value, json};

/// Compares the orders of the filesystems that are in both. Sizes of work and machines differ, so times
/// themselves are not compared.
///
/// # Errors
/// Where the metric is unknown on either side, or fewer than two filesystems or no task are in both.
pub fn compare_published(record: &RunRecord, published: &Published, metric: &str) -> Result<Page, Error> {
    super::ranks(record)?;
    if !published.metrics().contains(&metric) {
        return Err(Error::NotPublished {
            published: published.name(),
            metric: metric.into(),
            known: published.metrics().join(", "),
        });
    }
    let nothing = |what| Error::NothingInCommon {
        a: record.id.clone(),
        b: format!("published:{}", published.name()),
        what,
    };
    let analysis = analyse(record, metric)?;
    let pairs: Vec<(&str, usize)> =
        published.arms().into_iter().filter_map(|name| Some((name, arm_of(record, name)?))).collect();
    if pairs.len() < 2 {
        return Err(nothing("two arms"));
    }
    let mut rows = Vec::new();
    for task in analysis.tasks() {
        let then = |arm: &str| published.figure(&task.step.id, arm, metric).map(|figure| figure.value);
        rows.extend(orders(&pairs, &task.comparison, then).map(|orders| (label(&task.step), orders)));
    }
    if rows.is_empty() {
        return Err(nothing("step"));
    }
    let total = analysis.overall.as_ref().and_then(|overall| {
        let here = &overall.main().comparison;
        let sums = overall.total.is_some();
        let orders = orders(&pairs, here, |arm| published.total(arm, metric).filter(|_| sums))?;
        Some((format!("TOTAL of {} tasks", overall.steps), orders))
    });
    Ok(page(record, published, metric, analysis.provisional(), &rows, total.as_ref()))
}

/// The arm that is this filesystem: the one of this name, or else the only one made with it.
fn arm_of(record: &RunRecord, filesystem: &str) -> Option<usize> {
    if let Some(arm) = record.arms.iter().position(|arm| arm.name == filesystem) {
        return Some(arm);
    }
    let made_with = |arm: &fsarena_core::cell::Arm| {
        arm.level(factor::FS) == filesystem && arm.level(factor::DIR).is_empty()
    };
    let mut arms = record.arms.iter().enumerate().filter(|(_, arm)| made_with(arm)).map(|(at, _)| at);
    arms.next().filter(|_| arms.next().is_none())
}

/// The two orders of the filesystems that have a figure then and data here; at least two of them.
fn orders<'a>(
    pairs: &[(&'a str, usize)],
    comparison: &'a Comparison,
    then: impl Fn(&str) -> Option<f64>,
) -> Option<Orders<'a>> {
    let known: Vec<(&str, usize, f64)> = pairs
        .iter()
        .filter(|(_, arm)| comparison.order.contains(arm))
        .filter_map(|(name, arm)| Some((*name, *arm, then(name)?)))
        .collect();
    if known.len() < 2 {
        return None;
    }
    let arms: Vec<usize> = known.iter().map(|(_, arm, _)| *arm).collect();
    Some(Orders {
        names: known.iter().map(|(name, ..)| *name).collect(),
        then: Order::of_figures(known.iter().map(|(.., value)| *value).collect()),
        here: Order::of_arms(comparison, &arms)?,
    })
}

fn page(
    record: &RunRecord,
    published: &Published,
    metric: &str,
    provisional: bool,
    rows: &[(String, Orders)],
    total: Option<&(String, Orders)>,
) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("run {} beside published:{}, by {metric}", record.id, published.name()));
    document.text(
        "Only the order of the filesystems is compared, and only of those in both: machine, kernel and often the \
         size of the work differ. The author gave no spread, so any of his differences may be chance.",

    );
    if provisional {
        document.parts.push(crate::document::Part::Loud(
            "PROVISIONAL: this run has too few blocks to tell anything apart.".into(),
        ));
    }
    let all = rows.iter().chain(total).map(|(title, orders)| (title.as_str(), orders));
    document.table(order::table(["first then".into(), "first here".into()], all));
    document.text(order::LEGEND);
    document.list(conclusions(rows, total));
    let task = |(title, orders): &(String, Orders)| -> Value {
        let mut value = orders.json();
        value["task"] = json!(title);
        value
    };
    let json = json!({
        "run": record.id,
        "published": published.name(),
        "metric": metric,
        "provisional": provisional,
        "tasks": rows.iter().map(task).collect::<Vec<_>>(),
        "total": total.map(task),
    });
    Page { document, json }
}

fn conclusions(rows: &[(String, Orders)], total: Option<&(String, Orders)>) -> Vec<String> {
    let same = rows.iter().filter(|(_, orders)| orders.same_first()).count();
    let mut items = vec![format!("The same filesystem leads in {same} of {} tasks.", rows.len())];
    if let Some((_, orders)) = total {
        let (then, here) = orders.firsts();
        items.push(format!("Over all tasks: first then {then}, first here {here}."));
    }
    items
}
