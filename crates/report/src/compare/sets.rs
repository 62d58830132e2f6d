//! Published figures beside later ones of the same study: whether the filesystems and their order changed.

use super::order::{self, Order, Orders, Tasks};
use super::{Compared, answer::first_of};
use crate::document::{Table, row};
use crate::number::{plural, three};
use crate::published::{stated_machine, study_conclusions};
use crate::{error::Error, words::sentence};
use fsarena_core::published::{Figure, Published};
use fsarena_core::{conclusion::Trust, metric, names::distinct, sample::Direction};
use serde_json::json;

/// Compares two sets of published figures, task by task, on the filesystems that both have.
///
/// # Errors
/// Where a set lacks the metric, or they have no two filesystems or no task in common.
pub fn compare_sets(a: &Published, b: &Published, metric: &str) -> Result<Compared, Error> {
    let name = |set: &Published| format!("published:{}", set.name());
    order::knows(a, metric)?;
    order::knows(b, metric)?;
    let nothing = |what| Error::nothing_in_common(&name(a), &name(b), what);
    let mut names = a.variants();
    names.retain(|variant| b.variants().contains(variant));
    if names.len() < 2 {
        return Err(nothing("two variants"));
    }
    let whole = |set: &Published, task: &Figure| {
        names.iter().all(|name| set.figure(&task.task_id(), name, metric).is_some())
    };
    let mut tasks = a.work();
    tasks.retain(|task| whole(a, task) && whole(b, task));
    if tasks.is_empty() {
        return Err(nothing("task"));
    }
    let trust = study_conclusions(b)?.map_or(Trust::default(), |of| of.trust);
    Sets { sets: [a, b], names, tasks, metric, trust }.compared()
}

struct Sets<'a> {
    sets: [&'a Published; 2],
    names: Vec<&'a str>,
    tasks: Vec<&'a Figure>,
    metric: &'a str,
    trust: Trust,
}

impl Sets<'_> {
    fn compared(&self) -> Result<Compared, Error> {
        let row = |task: &&Figure| (format!("{} {}", task.number, task.title), self.orders(&[task]));
        let rows = self.tasks.iter().map(row).collect();
        let total = (format!("TOTAL of {}", plural(self.tasks.len(), "task")), self.orders(&self.tasks));
        let orders = Tasks { rows, total: Some(total) };
        let [a, b] = self.sets.map(Published::name);
        let mut compared = Compared {
            title: format!("published:{b} beside published:{a}, by {}", self.metric),
            facts: vec![
                plural(self.tasks.len(), "task"),
                plural(self.names.len(), "filesystem"),
                "one figure each, without spread".into(),
            ],
            json: orders.json(json!({ "published": [a, b], "metric": self.metric })),
            ..Compared::default()
        };
        compared.say(self.words(&orders));
        orders.add(&mut compared.data, [format!("first in {a}"), format!("first in {b}")]);
        compared.method.table(self.machines()?);
        Ok(compared)
    }

    /// The order of the filesystems in each set, by the sum over some tasks.
    fn orders(&self, tasks: &[&Figure]) -> Orders<'_> {
        let sign = match metric::find(self.metric).map(|def| def.spec.direction) {
            Some(Direction::Higher) => -1.0,
            _ => 1.0,
        };
        let order = |set| {
            let sum = |name: &&str| sign * tasks.iter().map(|task| self.value(set, task, name)).sum::<f64>();
            Order::of_figures(self.names.iter().map(sum).collect())
        };
        Orders { names: self.names.clone(), then: order(self.sets[0]), here: order(self.sets[1]) }
    }

    fn value(&self, set: &Published, task: &Figure, name: &str) -> f64 {
        set.figure(&task.task_id(), name, self.metric).map_or(f64::NAN, |figure| figure.value)
    }

    fn words(&self, orders: &Tasks) -> Vec<String> {
        let [a, b] = self.sets.map(Published::name);
        let Some((_, total)) = &orders.total else { return vec![] };
        let (first, later) = total.firsts();
        let passed = |(passed, by, _)| format!("{by} passed {passed}");
        let places: Vec<String> = total.changes().into_iter().map(passed).collect();
        let changed = if places.is_empty() { "did not change" } else { "changed" };
        let other = orders.rows.len() - orders.same_first();
        let mut words = vec![format!(
            "The order over all {} {changed} from {a} to {b}: first {first}, then {later}; another filesystem leads in \
             {other} of the tasks.",
            plural(orders.rows.len(), "task"),
        )];
        if !places.is_empty() {
            words.push(format!("Changes of place over all tasks: {}.", first_of(&places, "; ")));
        }
        words.extend(self.names.iter().map(|name| self.one(name)));
        let only = |set: &Published, label: &str| {
            let mut only = set.variants();
            only.retain(|name| !self.names.contains(name));
            sentence(&format!("Not compared, only in {label}"), &only)
        };
        words.extend(only(self.sets[0], &a).into_iter().chain(only(self.sets[1], &b)));
        words
    }

    /// `xfs: 0.817 times the total; lower in 15 of 21 tasks, higher in 4, too near to tell in 2.`
    fn one(&self, name: &str) -> String {
        let pair = |task: &&Figure| self.sets.map(|set| self.value(set, task, name));
        let pairs: Vec<[f64; 2]> = self.tasks.iter().map(pair).collect();
        let lower = pairs.iter().filter(|[a, b]| self.trust.ratio(*b, *a).1 < 0.0).count();
        let higher = pairs.iter().filter(|[a, b]| self.trust.ratio(*b, *a).0 > 0.0).count();
        let [a, b] = [0, 1].map(|set| pairs.iter().map(|pair| pair[set]).sum::<f64>());
        format!(
            "{name}: {} times the total; lower in {lower} of {}, higher in {higher}, too near to tell in {}.",
            three(b / a),
            plural(pairs.len(), "task"),
            pairs.len() - lower - higher,
        )
    }

    fn machines(&self) -> Result<Table, Error> {
        let [a, b] = [stated_machine(self.sets[0])?, stated_machine(self.sets[1])?];
        let stated = |part: Option<&String>| part.map_or("–".to_string(), String::clone);
        let row = |part: &String| row![part.as_str(), stated(a.get(part)), stated(b.get(part))];
        let header = ["machine".into(), self.sets[0].name(), self.sets[1].name()];
        Ok(Table::words(header).with(distinct(a.keys().chain(b.keys())).into_iter().map(row)))
    }
}
