//! The figures that a study published, as its author printed them.

use crate::exit::{ExitCode, Exits};
use crate::sample::Unit;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One published set of figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Published {
    /// The study: `piszcz`.
    pub study: String,
    /// The set, where the author published more than one: `II`.
    pub set: String,
    /// The figures, in the author's order.
    pub rows: Vec<Figure>,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The author's number of the task: `009`.
    pub task: String,
    /// The step that does this task here: `untar`.
    pub step: String,
    /// The author's title of the task.
    pub title: String,
    /// What was measured: the name of a filesystem.
    pub arm: String,
    /// The metric: `elapsed`.
    pub metric: String,
    /// Its value, in `unit`.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
}

/// Why published figures could not be read.
#[derive(Debug, thiserror::Error)]
#[error("published figures of {study}, line {line}: {why}")]
pub struct Error {
    /// The study.
    pub study: String,
    /// The line of the file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

impl Exits for Error {
    /// The figures ship with fsarena, so a fault in them is ours.
    fn exit_code(&self) -> ExitCode {
        ExitCode::Internal
    }
}

/// A line of the file.
#[derive(Deserialize)]
struct Line {
    set: String,
    task: String,
    title: String,
    filesystem: String,
    metric: String,
    value: f64,
    unit: String,
}

/// Reads published figures (columns `set,task,title,filesystem,metric,value,unit`), one [`Published`] a
/// set, in the order of the file. `steps` gives our step for each of the author's task numbers.
///
/// # Errors
/// A line that is no such record, an unknown unit or task, a value that is not finite and positive or
/// zero, or a figure given twice.
pub fn parse(study: &str, csv: &str, steps: &BTreeMap<String, String>) -> Result<Vec<Published>, Error> {
    let mut sets: Vec<Published> = Vec::new();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let fault = |line: u64, why: String| Error { study: study.to_string(), line, why };
    let headers = reader.headers().map_err(|e| fault(1, e.to_string()))?.clone();
    let mut seen = std::collections::BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(|e| fault(e.position().map_or(0, csv::Position::line), e.to_string()))?;
        let number = record.position().map_or(0, csv::Position::line);
        let line: Line = record.deserialize(Some(&headers)).map_err(|e| fault(number, e.to_string()))?;
        if !seen.insert((line.set.clone(), line.task.clone(), line.filesystem.clone(), line.metric.clone())) {
            return Err(fault(
                number,
                format!("{} of {} in task {} is given twice", line.metric, line.filesystem, line.task),
            ));
        }
        let set = line.set.clone();
        let figure = figure(line, steps).map_err(|why| fault(number, why))?;
        match sets.iter_mut().find(|published| published.set == set) {
            Some(published) => published.rows.push(figure),
            None => sets.push(Published { study: study.to_string(), set, rows: vec![figure] }),
        }
    }
    Ok(sets)
}

fn figure(line: Line, steps: &BTreeMap<String, String>) -> Result<Figure, String> {
    let unit = Unit::from_suffix(&line.unit).ok_or_else(|| format!("unknown unit `{}`", line.unit))?;
    let step = steps.get(&line.task).ok_or_else(|| format!("no step does task `{}`", line.task))?.clone();
    if !line.value.is_finite() || line.value < 0.0 {
        return Err(format!("the value {} is no measurement", line.value));
    }
    let Line { task, title, filesystem: arm, metric, value, .. } = line;
    Ok(Figure { task, step, title, arm, metric, value, unit })
}

impl Published {
    /// The name on the command line, after `published:`; `piszcz-II`.
    pub fn name(&self) -> String {
        if self.set.is_empty() { self.study.clone() } else { format!("{}-{}", self.study, self.set) }
    }

    /// What was measured, in the author's order.
    pub fn arms(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.arm.as_str()))
    }

    /// The metrics that were published.
    pub fn metrics(&self) -> Vec<&str> {
        distinct(self.rows.iter().map(|row| row.metric.as_str()))
    }

    /// The first figure of every task, for its number, title and step.
    pub fn tasks(&self) -> Vec<&Figure> {
        let mut tasks: Vec<&Figure> = Vec::new();
        for row in &self.rows {
            if tasks.iter().all(|task| task.task != row.task) {
                tasks.push(row);
            }
        }
        tasks
    }

    /// A figure, by step, arm and metric.
    pub fn figure(&self, step: &str, arm: &str, metric: &str) -> Option<&Figure> {
        self.rows.iter().find(|row| row.step == step && row.arm == arm && row.metric == metric)
    }

    /// The sum of a metric over all tasks for one arm: the author's composite. None where a task is missing.
    pub fn total(&self, arm: &str, metric: &str) -> Option<f64> {
        self.tasks().iter().map(|task| self.figure(&task.step, arm, metric).map(|row| row.value)).sum()
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "set,task,title,filesystem,metric,value,unit\n";

    fn steps() -> BTreeMap<String, String> {
        (1..=21).map(|n| (format!("{n:03}"), format!("step-{n}"))).collect()
    }

    fn error(lines: &str) -> String {
        parse("old", &format!("{HEAD}{lines}"), &steps()).unwrap_err().to_string()
    }

    #[test]
    fn sets_keep_the_order_of_the_file() {
        let csv = format!(
            "{HEAD}II,001,\"Touch, twice\",xfs,elapsed,2.5,s\nI,001,Touch,xfs,cpu_utilization,1,percent\n"
        );
        let sets = parse("old", &csv, &steps()).unwrap();
        assert_eq!(sets.iter().map(Published::name).collect::<Vec<_>>(), ["old-II", "old-I"]);
        assert_eq!(sets[0].rows[0].title, "Touch, twice");
        assert_eq!(sets[0].figure("step-1", "xfs", "elapsed").unwrap().value, 2.5);
        assert_eq!(sets[1].rows[0].unit, Unit::Percent);
    }

    #[test]
    fn a_total_needs_every_task() {
        let csv =
            format!("{HEAD}I,001,A,xfs,elapsed,2.5,s\nI,002,B,xfs,elapsed,4,s\nI,001,A,jfs,elapsed,1,s\n");
        let set = &parse("old", &csv, &steps()).unwrap()[0];
        assert_eq!(set.total("xfs", "elapsed"), Some(6.5));
        assert_eq!(set.total("jfs", "elapsed"), None);
    }

    #[test]
    fn faults_name_their_line() {
        assert_eq!(
            error("I,001,A,xfs,elapsed,1,parsec\n"),
            "published figures of old, line 2: unknown unit `parsec`"
        );
        assert!(
            error("I,001,A,xfs,elapsed,1,s\nI,099,A,xfs,elapsed,1,s\n")
                .contains("line 3: no step does task `099`")
        );
        assert!(error("I,001,A,xfs,elapsed,-1,s\n").contains("no measurement"));
        assert!(error("I,001,A,xfs,elapsed,1,s\nI,001,A,xfs,elapsed,2,s\n").contains("line 3"));
        assert!(error("I,001,A,xfs,elapsed,many,s\n").contains("line 2"));
        assert!(error("I,001,A\n").contains("line 2"));
    }

    #[test]
    fn the_shipped_figures_are_complete() {
        let csv = include_str!("../../../studies/piszcz/published.csv");
        let sets = parse("piszcz", csv, &steps()).unwrap();
        for (name, arms) in [("piszcz-I", 5), ("piszcz-II", 6)] {
            let set = sets.iter().find(|set| set.name() == name).unwrap();
            assert_eq!((set.arms().len(), set.tasks().len()), (arms, 21));
            assert_eq!(set.rows.len(), arms * 21 * 2);
        }
        // Σ of the 21 elapsed times of ext2 in set II, summed by awk over the file.
        let total = sets.iter().find(|s| s.set == "II").unwrap().total("ext2", "elapsed").unwrap();
        assert!((total - 359.81).abs() < 1e-9, "{total}");
    }
}
