//! The lines of published files: tasks, a matrix, or samples.

use super::figure::{Derived, Figure, Kind};
use crate::{names, sample::Unit};
use csv::StringRecord;
use std::collections::BTreeMap;

/// The columns of a file of tasks; any other is a parameter of the task.
const TASK: [&str; 8] = ["set", "task", "title", "filesystem", "metric", "value", "unit", "kind"];
/// The task name for files of samples, which do not name their task.
const WINDOW: &str = "window";

/// What the lines of a file mean, by its header.
pub enum Form {
    /// A figure a line.
    Tasks,
    /// Operations a second by block size and threads.
    Matrix,
    /// All figures of one variant in one sample.
    Samples(Vec<Column>),
}

/// A column of a file of samples.
pub struct Column {
    name: String,
    metric: String,
    unit: Unit,
}

impl Form {
    /// The form that a header tells of, and the columns that follow from others.
    pub fn of(headers: &StringRecord) -> Result<(Form, Vec<Derived>), String> {
        let has = |wanted: &str| headers.iter().any(|name| name == wanted);
        if has("sample") {
            return samples(headers);
        }
        Ok((if has("mode") { Form::Matrix } else { Form::Tasks }, vec![]))
    }

    /// The figures of one line, and their set.
    pub fn read(
        &self,
        record: &StringRecord,
        headers: &StringRecord,
        tasks: &BTreeMap<String, String>,
    ) -> Result<(String, Vec<Figure>), String> {
        let line = Line { record, headers };
        match self {
            Form::Tasks => Ok((line.text("set")?.to_string(), vec![line.task(tasks)?])),
            Form::Matrix => Ok((String::new(), vec![line.matrix()?])),
            Form::Samples(columns) => Ok((
                String::new(),
                columns.iter().map(|column| line.sample(column)).collect::<Result<_, _>>()?,
            )),
        }
    }
}

/// `iowait_percent` is a metric in a unit; `iowait_per_request = iowait_percent / requests_per_s` follows from
/// two others.
fn samples(headers: &StringRecord) -> Result<(Form, Vec<Derived>), String> {
    let (mut columns, mut derived) = (Vec::new(), Vec::new());
    for name in headers.iter().filter(|name| !["sample", "filesystem", "kind"].contains(name)) {
        let (metric, unit) = match name.split_once('=') {
            None => metric(name)?,
            Some((result, formula)) => {
                let broken = || format!("column `{name}`: expected `RESULT = COLUMN / COLUMN`");
                let (above, below) = formula.split_once('/').ok_or_else(broken)?;
                let result = result.trim().to_string();
                for source in [above, below] {
                    if !headers.iter().any(|other| other == source.trim()) {
                        return Err(format!("column `{name}`: missing column `{}`", source.trim()));
                    }
                }
                let (above, below) = (metric(above.trim())?.0, metric(below.trim())?.0);
                derived.push(Derived { metric: result.clone(), above, below });
                (result, Unit::Ratio)
            }
        };
        columns.push(Column { name: name.to_string(), metric, unit });
    }
    Ok((Form::Samples(columns), derived))
}

/// A metric and its unit, which is the end of the column's name.
fn metric(column: &str) -> Result<(String, Unit), String> {
    let ends = column.match_indices('_').map(|(at, _)| at);
    let found = ends.filter_map(|at| Some((column[..at].to_string(), Unit::from_suffix(&column[at + 1..])?)));
    found.min_by_key(|(name, _)| name.len()).ok_or_else(|| format!("column `{column}` ends in no unit"))
}

struct Line<'a> {
    record: &'a StringRecord,
    headers: &'a StringRecord,
}

impl<'a> Line<'a> {
    fn text(&self, column: &str) -> Result<&'a str, String> {
        let at = self.headers.iter().position(|name| name == column);
        at.and_then(|at| self.record.get(at)).ok_or_else(|| format!("missing column `{column}`"))
    }

    fn number<T: std::str::FromStr>(&self, column: &str) -> Result<T, String> {
        let text = self.text(column)?;
        text.parse().map_err(|_| format!("column `{column}`: expected a number, found `{text}`"))
    }

    /// The kind in the column of that name; measured where the file has no such column.
    fn kind(&self) -> Result<Kind, String> {
        match self.text("kind") {
            Ok(name) => Ok(names::find("kind of figure", name, Kind::ALL, |kind| kind.name())?),
            Err(_) => Ok(Kind::Measured),
        }
    }

    /// A figure of one task, its value in a column.
    fn figure(&self, task: &str, column: &str, metric: &str, unit: Unit) -> Result<Figure, String> {
        Ok(Figure {
            sample: String::new(),
            number: String::new(),
            task: task.to_string(),
            params: BTreeMap::new(),
            title: String::new(),
            variant: self.text("filesystem")?.to_string(),
            metric: metric.to_string(),
            value: self.number(column)?,
            decimals: decimals(self.text(column)?),
            unit,
            kind: self.kind()?,
        })
    }

    fn task(&self, tasks: &BTreeMap<String, String>) -> Result<Figure, String> {
        let unit = self.text("unit")?;
        let unit = Unit::from_suffix(unit).ok_or_else(|| format!("unknown unit `{unit}`"))?;
        let number = self.text("task")?.to_string();
        let task = tasks.get(&number).ok_or_else(|| format!("no task does task `{number}`"))?;
        let params = self.headers.iter().zip(self.record);
        let params = params.filter(|(name, value)| !TASK.contains(name) && !value.is_empty());
        let params = params.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let title = self.text("title")?.to_string();
        Ok(Figure { number, params, title, ..self.figure(task, "value", self.text("metric")?, unit)? })
    }

    fn matrix(&self) -> Result<Figure, String> {
        let (size, threads): (u64, u32) = (self.number("block_size_bytes")?, self.number("threads")?);
        let params = [("bs", size.to_string()), ("threads", threads.to_string())];
        let params = params.map(|(name, value)| (name.to_string(), value)).into();
        let mode = self.text("mode")?;
        Ok(Figure { params, title: mode.into(), ..self.figure(mode, "iops", "iops", Unit::PerSecond)? })
    }

    fn sample(&self, column: &Column) -> Result<Figure, String> {
        let sample = self.text("sample")?.to_string();
        Ok(Figure { sample, ..self.figure(WINDOW, &column.name, &column.metric, column.unit)? })
    }
}

fn decimals(text: &str) -> u8 {
    text.split_once('.').map_or(0, |(_, digits)| digits.len() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_ends_in_its_unit() {
        assert_eq!(metric("requests_per_s"), Ok(("requests".into(), Unit::PerSecond)));
        assert_eq!(metric("moved_bytes_per_s"), Ok(("moved".into(), Unit::BytesPerSecond)));
        assert_eq!(metric("iowait_percent"), Ok(("iowait".into(), Unit::Percent)));
        assert!(metric("iowait").is_err());
    }

    #[test]
    fn digits_are_those_printed() {
        assert_eq!(["48", "48.0", "0.17"].map(decimals), [0, 1, 2]);
    }
}
