//! The comparison of two orders of the same variants, best first: which variant leads in each order, and which variants
//! changed places.

use crate::document::{Document, Table, row};
use crate::number::three_digits;
use fsarena_stats::comparison::Comparison;
use fsarena_stats::ranks::{kendall_tau_b, swapped_pairs};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// Two orders of the same variants, on one task or over all tasks.
pub struct OrderPair<'a> {
    /// The names of the variants.
    pub names: Vec<&'a str>,
    /// The earlier order.
    pub earlier: VariantOrder,
    /// The later order.
    pub later: VariantOrder,
}

/// Two variants that changed places between two orders. Displayed as `xfs passed ext4`.
pub struct PlaceChange<'a> {
    /// The variant that was better in the earlier order.
    pub overtaken: &'a str,
    /// The variant that is better in the later order.
    pub overtaking: &'a str,
    /// Whether the two differ significantly in both orders.
    pub is_significant: bool,
}

impl Display for PlaceChange<'_> {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        write!(f, "{} passed {}", self.overtaking, self.overtaken)
    }
}

/// One order of variants.
pub struct VariantOrder {
    /// The value of each variant; the smallest is first in the order.
    values: Vec<f64>,
    /// Whether each pair of variants differs significantly. `None` for figures without a spread.
    differ_significantly: Option<Vec<Vec<bool>>>,
}

impl VariantOrder {
    /// The order of figures without a spread.
    pub fn of_figures(values: Vec<f64>) -> VariantOrder {
        VariantOrder { values, differ_significantly: None }
    }

    /// The order of these variants in a comparison. `None` if one of them has no data.
    pub fn of_variants(comparison: &Comparison, variants: &[usize]) -> Option<VariantOrder> {
        let (mut values, mut differ_significantly) = (vec![], vec![]);
        for variant in variants {
            values.push(comparison.order.iter().position(|other| other == variant)? as f64);
            differ_significantly.push(variants.iter().map(|other| comparison.differs[*variant][*other]).collect());
        }
        Some(VariantOrder { values, differ_significantly: Some(differ_significantly) })
    }

    /// The indexes of the variants that share the smallest value.
    fn leaders(&self) -> Vec<usize> {
        let smallest = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        (0..self.values.len()).filter(|variant| self.values[*variant] == smallest).collect()
    }

    /// Whether two variants differ significantly; figures without a spread always do.
    fn differ(&self, variant: usize, other: usize) -> bool {
        self.differ_significantly.as_ref().is_none_or(|pairs| pairs[variant][other])
    }

    /// Whether one variant leads and differs significantly from every other.
    fn has_clear_leader(&self) -> bool {
        let [leader] = self.leaders()[..] else { return false };
        (0..self.values.len()).all(|variant| variant == leader || self.differ(leader, variant))
    }
}

impl OrderPair<'_> {
    /// The names of the variants that lead in an order.
    fn leader_names(&self, order: &VariantOrder) -> Vec<&str> {
        order.leaders().into_iter().map(|variant| self.names[variant]).collect()
    }

    /// The first variants of an order: `ext2 = xfs` for equal figures, `ext2 ?` for an inconclusive lead.
    fn describe_leaders(&self, order: &VariantOrder) -> String {
        let names = self.leader_names(order);
        let is_inconclusive = names.len() == 1 && !order.has_clear_leader();
        format!("{}{}", names.join(" = "), if is_inconclusive { " ?" } else { "" })
    }

    /// The first variants of the earlier and of the later order, in words.
    pub fn describe_both_leaders(&self) -> (String, String) {
        (self.describe_leaders(&self.earlier), self.describe_leaders(&self.later))
    }

    /// The pairs of variants that changed places.
    pub fn place_changes(&self) -> Vec<PlaceChange<'_>> {
        let change = |(overtaken, overtaking): (usize, usize)| PlaceChange {
            overtaken: self.names[overtaken],
            overtaking: self.names[overtaking],
            is_significant: self.earlier.differ(overtaken, overtaking) && self.later.differ(overtaken, overtaking),
        };
        swapped_pairs(&self.earlier.values, &self.later.values).into_iter().map(change).collect()
    }

    /// The changes in words. Changes that are not significant are in brackets, because they may be chance.
    fn describe_place_changes(&self) -> String {
        let describe =
            |change: &PlaceChange| if change.is_significant { change.to_string() } else { format!("({change})") };
        let changes: Vec<String> = self.place_changes().iter().map(describe).collect();
        if changes.is_empty() { "none".into() } else { changes.join(", ") }
    }

    /// Kendall's τ-b of both orders.
    fn tau(&self) -> Option<f64> {
        kendall_tau_b(&self.earlier.values, &self.later.values)
    }

    /// The orders and their changes as JSON.
    pub fn to_json(&self) -> Value {
        let change_json = |change: &PlaceChange| {
            json!({
                "passed": change.overtaken,
                "by": change.overtaking,
                "significantly_different": change.is_significant,
            })
        };
        json!({
            "variants": self.names,
            "first_then": self.leader_names(&self.earlier),
            "first_here": self.leader_names(&self.later),
            "first_here_decided": self.later.has_clear_leader(),
            "kendall_tau_b": self.tau(),
            "changes": self.place_changes().iter().map(change_json).collect::<Vec<_>>(),
        })
    }
}

/// The orders for each task, and for all tasks together.
pub struct TaskOrders<'a> {
    /// The title of each task, with its orders.
    pub rows: Vec<(String, OrderPair<'a>)>,
    /// The title of the total and its orders, if the metric has a total.
    pub total: Option<(String, OrderPair<'a>)>,
}

impl TaskOrders<'_> {
    /// Adds the table of all orders, and the explanation of its signs.
    pub fn add_to(&self, document: &mut Document, header: [String; 2]) {
        let rows = self.rows.iter().chain(&self.total).map(|(title, orders)| (title.as_str(), orders));
        document.table(order_table(header, rows));
        document.text(ORDER_LEGEND);
    }

    /// Returns `facts`, a JSON object, with the orders of the tasks and of the total added.
    pub fn add_to_json(&self, mut facts: Value) -> Value {
        let task = |(title, orders): &(String, OrderPair)| {
            let mut value = orders.to_json();
            value["task"] = json!(title);
            value
        };
        facts["tasks"] = self.rows.iter().map(task).collect();
        facts["total"] = json!(self.total.as_ref().map(task));
        facts
    }

    /// The number of tasks in which the same variants are first in both orders.
    pub fn count_same_leaders(&self) -> usize {
        self.rows.iter().filter(|(_, orders)| orders.earlier.leaders() == orders.later.leaders()).count()
    }
}

/// A table of orders with a row for each task.
pub fn order_table<'a>(header: [String; 2], rows: impl Iterator<Item = (&'a str, &'a OrderPair<'a>)>) -> Table {
    let [earlier, later] = header;
    let row = |(title, orders): (&str, &OrderPair)| {
        let (earlier_leaders, later_leaders) = orders.describe_both_leaders();
        let tau = orders.tau().map_or("–".to_string(), three_digits);
        row![title, earlier_leaders, later_leaders, tau, orders.describe_place_changes()]
    };
    Table::of_words(["task", &earlier, &later, "τ", "changes of place"]).with_rows(rows.map(row))
}

/// One table with the orders of several runs, each compared with the same first run. `letters` names all runs, the first run
/// first. `None` for only one pair, or if the leaders in the first run differ between the pairs, because these have other
/// variants or tasks in common.
pub fn combined_order_table(pairs: &[Vec<(&str, &OrderPair)>], letters: &[String]) -> Option<Table> {
    let (first, others) = pairs.split_first()?;
    let first_run_leaders = |pair: &[(&str, &OrderPair)]| -> Vec<(String, String)> {
        pair.iter().map(|(title, orders)| (title.to_string(), orders.describe_both_leaders().0)).collect()
    };
    if others.is_empty() || others.iter().any(|other| first_run_leaders(other) != first_run_leaders(first)) {
        return None;
    }
    let mut table = Table::of_words(["task", &format!("first in {}", letters[0])]);
    for letter in &letters[1..] {
        table.header.extend([format!("first in {letter}"), format!("changes of place in {letter}")]);
    }
    for (index, (title, orders)) in first.iter().enumerate() {
        let mut row = row![*title, orders.describe_both_leaders().0];
        for pair in pairs {
            let orders = pair[index].1;
            row.extend(row![orders.describe_both_leaders().1, orders.describe_place_changes()]);
        }
        table.rows.push(row);
    }
    Some(table)
}

/// Explains the signs in [`order_table`].
pub const ORDER_LEGEND: &str = "? marks a first place without a significant lead over all others, a = b equal figures. A change in \
                          brackets is between variants that do not differ significantly. τ is Kendall's: 1 is the same order, \
                          -1 the opposite one.";
