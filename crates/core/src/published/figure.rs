//! Published figures: sets, values, and where the author has them from.

use crate::sample::{Direction, MetricSpec, Unit};
use crate::{cell::TaskId, metric::find, names::distinct};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Tasks around the work: part of no total, and of no claim about all tasks.
pub const AROUND: [&str; 3] = ["mkfs", "mount", "unmount"];

/// One published set of figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// The study: `piszcz`.
    pub study: String,
    /// The set, where the author published more than one: `II`.
    pub set: String,
    /// The figures, in the author's order.
    pub rows: Vec<Figure>,
    /// The metrics that the author worked out from others of the same sample.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<Derived>,
}

/// A metric that follows from two others: `above / below`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Derived {
    /// The metric.
    pub metric: String,
    /// The dividend.
    pub above: String,
    /// The divisor.
    pub below: String,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// When it was taken, where the author took samples: `daily-average`. Empty for most.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sample: String,
    /// The author's number of the task: `009`. Empty where parameters identify the task.
    pub number: String,
    /// The corresponding task in fsarena: `untar`.
    pub task: String,
    /// The parameters that identify the task: `bs` → `4096`. Empty for most.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, String>,
    /// The author's title of the task.
    pub title: String,
    /// The name of the filesystem.
    pub variant: String,
    /// The metric: `elapsed`.
    pub metric: String,
    /// Its value, in `unit`.
    pub value: f64,
    /// Digits that were printed behind the point.
    #[serde(skip)]
    pub decimals: u8,
    /// The unit.
    pub unit: Unit,
    /// Where the author has it from.
    pub kind: Kind,
}

/// Where the author of a figure has it from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A measured value, printed as a number.
    #[default]
    Measured,
    /// A value that the author states in a sentence: "about one third of the best".
    Stated,
    /// A value that was read off a chart.
    Chart,
    /// A value of a curve that the author fitted, within the range for which he states it.
    Fit,
    /// An average of other figures of the same set, or a difference of two.
    Summary,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 5] = [Kind::Measured, Kind::Stated, Kind::Chart, Kind::Fit, Kind::Summary];

    /// Its name in files and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Measured => "measured",
            Kind::Stated => "stated",
            Kind::Chart => "chart",
            Kind::Fit => "fit",
            Kind::Summary => "summary",
        }
    }

    /// Whether a conclusion may rest on it. A fit has the author's conclusion built in, and a summary repeats figures.
    pub fn is_evidence(self) -> bool {
        !matches!(self, Kind::Fit | Kind::Summary)
    }
}

impl Figure {
    /// What identifies its task.
    pub fn task_id(&self) -> TaskId {
        TaskId { name: self.task.clone(), params: self.params.clone() }
    }
}

impl Published {
    /// The name on the command line, after `published:`; `piszcz-II`.
    pub fn name(&self) -> String {
        if self.set.is_empty() { self.study.clone() } else { format!("{}-{}", self.study, self.set) }
    }

    /// The names of its variants, in the author's order.
    pub fn variants(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.variant.as_str()))
    }

    /// The metrics that were published.
    pub fn metrics(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.metric.as_str()))
    }

    /// The first figure of every task, for its number, title and task.
    pub fn tasks(&self) -> Vec<&Figure> {
        let mut seen = std::collections::BTreeSet::new();
        self.rows.iter().filter(|row| seen.insert((&row.task, &row.params))).collect()
    }

    /// The tasks of the work itself, which totals are made of.
    pub fn work(&self) -> Vec<&Figure> {
        let tasks = self.tasks().into_iter();
        tasks.filter(|row| !AROUND.contains(&row.task.as_str())).collect()
    }

    /// The samples, in the author's order; none for most.
    pub fn samples(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.sample.as_str()).filter(|sample| !sample.is_empty()))
    }

    /// A figure of a sample, by variant and metric.
    pub fn sampled(&self, sample: &str, variant: &str, metric: &str) -> Option<&Figure> {
        self.rows.iter().find(|row| row.sample == sample && row.variant == variant && row.metric == metric)
    }

    /// A figure, by task, variant and metric.
    pub fn figure(&self, task: &TaskId, variant: &str, metric: &str) -> Option<&Figure> {
        // Parameters last: they take longest to compare, and a matrix has hundreds of figures.
        let is_task = |row: &Figure| row.task == task.name && row.params == task.params;
        self.rows.iter().find(|row| row.variant == variant && row.metric == metric && is_task(row))
    }

    /// What the tasks of the work make together of a metric for one variant. None where a task is missing, or where the
    /// metric has no total.
    pub fn total(&self, variant: &str, metric: &str) -> Option<f64> {
        self.spec(metric)?.over.tasks.of(self.of_work(variant, metric)?)
    }

    /// What a metric means: fsarena's own definition if the author gives it in that unit, else that of any metric of its
    /// unit. None where the set lacks it.
    pub fn spec(&self, metric: &str) -> Option<MetricSpec> {
        let unit = self.rows.iter().find(|row| row.metric == metric)?.unit;
        let known = find(metric).map(|def| MetricSpec::from(&def.spec)).filter(|spec| spec.unit == unit);
        let of_unit = || MetricSpec::new(metric.into(), unit, Direction::Neutral, String::new());
        Some(known.unwrap_or_else(of_unit))
    }

    /// A metric of one variant in each task of the work. None where one is missing.
    pub fn of_work(&self, variant: &str, metric: &str) -> Option<Vec<f64>> {
        let value = |task: &Figure| self.figure(&task.task_id(), variant, metric).map(|row| row.value);
        self.work().into_iter().map(value).collect()
    }
}
