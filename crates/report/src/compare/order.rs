//! Where two orders of the same variants differ.

use crate::document::{Document, Table, row};
use crate::{error::Error, number::three};
use fsarena_core::{names::unknown, published::Published};
use fsarena_stats::comparison::Comparison;
use fsarena_stats::ranks::{kendall_tau_b, swapped};
use serde_json::{Value, json};

/// Refuses published figures without a metric.
pub fn require_metric(published: &Published, metric: &str) -> Result<(), Error> {
    if published.metrics().contains(&metric) {
        return Ok(());
    }
    let unknown = unknown("metric", metric, published.metrics());
    Err(unknown.at(format!("in published:{}", published.name())).into())
}

/// Two orders of the same variants on one task.
pub struct OrderPair<'a> {
    /// The variants.
    pub names: Vec<&'a str>,
    /// The earlier one.
    pub then: VariantOrder,
    /// The later one.
    pub here: VariantOrder,
}

/// One order.
pub struct VariantOrder {
    /// The values that order the variants, the least first.
    values: Vec<f64>,
    /// Which pairs differ significantly. `None` if nothing is known of the spread.
    differs: Option<Vec<Vec<bool>>>,
}

impl VariantOrder {
    /// The order of figures without a spread.
    pub fn of_figures(values: Vec<f64>) -> VariantOrder {
        VariantOrder { values, differs: None }
    }

    /// The order of these variants in a comparison. `None` if one of them has no data.
    pub fn of_variants(comparison: &Comparison, variants: &[usize]) -> Option<VariantOrder> {
        let place =
            |variant: &usize| comparison.order.iter().position(|other| other == variant).map(|at| at as f64);
        let row =
            |variant: &usize| variants.iter().map(|other| comparison.separated[*variant][*other]).collect();
        Some(VariantOrder {
            values: variants.iter().map(place).collect::<Option<_>>()?,
            differs: Some(variants.iter().map(row).collect()),
        })
    }

    /// The variants with the least value.
    fn first(&self) -> Vec<usize> {
        let least = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        (0..self.values.len()).filter(|variant| self.values[*variant] == least).collect()
    }

    fn differs(&self, i: usize, j: usize) -> bool {
        self.differs.as_ref().is_none_or(|pairs| pairs[i][j])
    }

    /// Whether the first differs significantly from every other.
    fn decided(&self) -> bool {
        let [first] = self.first()[..] else { return false };
        (0..self.values.len()).all(|variant| variant == first || self.differs(first, variant))
    }
}

impl OrderPair<'_> {
    fn first_names(&self, order: &VariantOrder) -> Vec<&str> {
        order.first().into_iter().map(|variant| self.names[variant]).collect()
    }

    /// The first variants of an order: `ext2 = xfs` for equal figures, `ext2 ?` for an inconclusive lead.
    fn first(&self, order: &VariantOrder) -> String {
        let names = self.first_names(order);
        let open = names.len() == 1 && !order.decided();
        format!("{}{}", names.join(" = "), if open { " ?" } else { "" })
    }

    /// The first variants of both orders, the earlier order first.
    pub fn firsts(&self) -> (String, String) {
        (self.first(&self.then), self.first(&self.here))
    }

    /// The pairs that changed places: former better, former worse, and whether both orders are sure of it.
    pub fn changes(&self) -> Vec<(&str, &str, bool)> {
        let sure = |i, j| self.then.differs(i, j) && self.here.differs(i, j);
        let pairs = swapped(&self.then.values, &self.here.values).into_iter();
        pairs.map(|(i, j)| (self.names[i], self.names[j], sure(i, j))).collect()
    }

    /// The changes in words; those that are not sure in brackets, for they may be chance.
    fn changes_in_words(&self) -> String {
        let words = |(a, b, sure): (&str, &str, bool)| {
            if sure { format!("{b} passed {a}") } else { format!("({b} passed {a})") }
        };
        let all: Vec<String> = self.changes().into_iter().map(words).collect();
        if all.is_empty() { "none".into() } else { all.join(", ") }
    }

    fn tau(&self) -> Option<f64> {
        kendall_tau_b(&self.then.values, &self.here.values)
    }

    /// All of it for programs.
    pub fn json(&self) -> Value {
        let change = |(passed, by, sure): (&str, &str, bool)| json!({"passed": passed, "by": by, "significantly_different": sure});
        json!({
            "variants": self.names,
            "first_then": self.first_names(&self.then),
            "first_here": self.first_names(&self.here),
            "first_here_decided": self.here.decided(),
            "kendall_tau_b": self.tau(),
            "changes": self.changes().into_iter().map(change).collect::<Vec<_>>(),
        })
    }
}

/// The orders on several tasks, and on all of them together.
pub struct TaskOrders<'a> {
    /// By the title of the task.
    pub rows: Vec<(String, OrderPair<'a>)>,
    /// The total, where the metric has one.
    pub total: Option<(String, OrderPair<'a>)>,
}

impl TaskOrders<'_> {
    /// A table of all of them, and what its signs mean.
    pub fn add(&self, document: &mut Document, header: [String; 2]) {
        let all = self.rows.iter().chain(&self.total).map(|(title, orders)| (title.as_str(), orders));
        document.table(table(header, all));
        document.text(LEGEND);
    }

    /// All of it for programs, with what else is known.
    pub fn json(&self, mut facts: Value) -> Value {
        let task = |(title, orders): &(String, OrderPair)| {
            let mut value = orders.json();
            value["task"] = json!(title);
            value
        };
        facts["tasks"] = self.rows.iter().map(task).collect();
        facts["total"] = json!(self.total.as_ref().map(task));
        facts
    }

    /// The tasks on which the same variant is first in both.
    pub fn same_first(&self) -> usize {
        self.rows.iter().filter(|(_, orders)| orders.then.first() == orders.here.first()).count()
    }
}

/// A table of orders, a row a task.
pub fn table<'a>(header: [String; 2], rows: impl Iterator<Item = (&'a str, &'a OrderPair<'a>)>) -> Table {
    let [then, here] = header;
    let row = |(title, orders): (&str, &OrderPair)| {
        let (first, second) = orders.firsts();
        let tau = orders.tau().map_or("–".to_string(), three);
        row![title, first, second, tau, orders.changes_in_words()]
    };
    Table::words(["task", &then, &here, "τ", "changes of place"]).with(rows.map(row))
}

/// One table of the orders of several runs beside those of the first, whose letter is the first. `None` if the
/// first's own orders are not the same in all: its runs have not the same variants or tasks in common with it.
pub fn merged(pairs: &[Vec<(&str, &OrderPair)>], letters: &[String]) -> Option<Table> {
    let (first, others) = pairs.split_first()?;
    let of_first = |pair: &[(&str, &OrderPair)]| -> Vec<(String, String)> {
        pair.iter().map(|(title, orders)| (title.to_string(), orders.firsts().0)).collect()
    };
    if others.is_empty() || others.iter().any(|other| of_first(other) != of_first(first)) {
        return None;
    }
    let mut table = Table::words(["task", &format!("first in {}", letters[0])]);
    for letter in &letters[1..] {
        table.header.extend([format!("first in {letter}"), format!("changes of place in {letter}")]);
    }
    for (at, (title, orders)) in first.iter().enumerate() {
        let others = pairs.iter().map(|pair| pair[at].1);
        let cells = others.flat_map(|orders| row![orders.firsts().1, orders.changes_in_words()]);
        table.rows.push(row![*title, orders.firsts().0].into_iter().chain(cells).collect());
    }
    Some(table)
}

/// Explains the signs in [`table`].
pub const LEGEND: &str = "? marks a first place without a significant lead over all others, a = b equal figures. A change in \
                          brackets is between variants that do not differ significantly. τ is Kendall's: 1 is the same order, \
                          -1 the opposite one.";
