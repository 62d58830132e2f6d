//! The figures that a study published, as its author printed them.

use crate::cell::TaskId;
use crate::exit::{ExitCode, HasExitCode};
use crate::metric::find;
use crate::names::{self, distinct};
use crate::sample::{Direction, MetricSpec, Unit};
use csv::StringRecord;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// An error in a file of published figures.
#[derive(Debug, thiserror::Error)]
#[error("published figures of {study}, line {line}: {why}")]
pub struct PublishedError {
    /// The study.
    pub study: String,
    /// The line of the file, from 1.
    pub line: u64,
    /// What is wrong with the line.
    pub why: String,
}

impl HasExitCode for PublishedError {
    /// The figures ship with fsarena, so an error in them is a bug of fsarena.
    fn exit_code(&self) -> ExitCode {
        ExitCode::Internal
    }
}

/// Parses the CSV file of a study's published figures: one [`PublishedSet`] for each set, in the order of the file. The header
/// selects one of three forms:
///
/// - tasks: `set,task,title,filesystem,metric,value,unit`, one figure per line. Any further column is a parameter of the
///   task. `task_names` maps the author's task numbers to the names of fsarena's tasks.
/// - a matrix: `filesystem,mode,block_size_bytes,threads,iops`. Each mode is a task.
/// - samples of a running system: `sample,filesystem`, then one column per metric, named with its unit
///   (`iowait_percent`). A column that the author computed from two others has the formula as its name:
///   `iowait_per_request = iowait_percent / requests_per_s`.
///
/// In tasks and samples, an optional column `kind` names the [`FigureKind`] of each figure; the default is measured.
///
/// # Errors
/// A line does not fit the form, has an unknown unit or task, a negative or infinite value, or repeats a figure.
pub fn parse_published(
    study: &str,
    csv: &str,
    task_names: &BTreeMap<String, String>,
) -> Result<Vec<PublishedSet>, PublishedError> {
    let mut sets: Vec<PublishedSet> = Vec::new();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let error = |line: u64, why: String| PublishedError { study: study.to_string(), line, why };
    let headers = reader.headers().map_err(|e| error(1, e.to_string()))?.clone();
    let (form, quotients) = FileForm::from_header(&headers).map_err(|why| error(1, why))?;
    let mut identities = BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(|e| error(e.position().map_or(0, csv::Position::line), e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let (set, figures) = form.read_line(&record, &headers, task_names).map_err(|why| error(line, why))?;
        for figure in &figures {
            check_value(figure).map_err(|why| error(line, why))?;
            let sample_and_task = (set.clone(), figure.sample.clone(), figure.task_id());
            if !identities.insert((sample_and_task, figure.variant.clone(), figure.metric.clone())) {
                let (metric, variant, task) = (&figure.metric, &figure.variant, figure.task_id());
                return Err(error(line, format!("{metric} of {variant} in {task} is given twice")));
            }
        }
        match sets.iter_mut().find(|published| published.set == set) {
            Some(published) => published.figures.extend(figures),
            None => sets.push(PublishedSet { study: study.to_string(), set, figures, quotients: quotients.clone() }),
        }
    }
    Ok(sets)
}

fn check_value(figure: &Figure) -> Result<(), String> {
    // A summary can be the difference of two figures, so it may be negative.
    let min = if figure.kind == FigureKind::Summary { f64::MIN } else { 0.0 };
    if figure.value.is_finite() && figure.value >= min {
        return Ok(());
    }
    Err(format!("invalid value {}; expected a number from 0", figure.value))
}

/// Tasks that prepare or clean up a filesystem. Totals, and claims about all tasks, exclude them.
pub const LIFECYCLE_TASKS: [&str; 3] = ["mkfs", "mount", "unmount"];

/// One published set of figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishedSet {
    /// The study: `piszcz`.
    pub study: String,
    /// The name of the set: `II`. Empty if the author published only one.
    pub set: String,
    /// The figures, in the author's order.
    #[serde(rename = "rows")]
    pub figures: Vec<Figure>,
    /// The metrics that the author computed from two others of the same sample.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "derived")]
    pub quotients: Vec<PublishedQuotient>,
}

/// A metric that the author computed as the quotient of two others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PublishedQuotient {
    /// The metric.
    pub metric: String,
    /// The metric above the line.
    #[serde(rename = "above")]
    pub numerator: String,
    /// The metric below the line.
    #[serde(rename = "below")]
    pub denominator: String,
}

/// One published figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The name of the sample: `daily-average`. Empty if the study has no samples.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sample: String,
    /// The author's number of the task: `009`. Empty in files of the other two forms.
    pub number: String,
    /// The corresponding task in fsarena: `untar`.
    pub task: String,
    /// The parameters of the task: `bs` → `4096`. Usually empty.
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
    /// The number of digits that the author printed after the decimal point.
    #[serde(skip)]
    pub decimals: u8,
    /// The unit.
    pub unit: Unit,
    /// How the author obtained it.
    pub kind: FigureKind,
}

crate::named_enum! {
    /// How the author obtained a figure.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum FigureKind {
        /// A measured value, printed as a number.
        #[default]
        Measured = "measured",
        /// A value that the author states in a sentence: "about one third of the best".
        Stated = "stated",
        /// A value that was read off a chart.
        Chart = "chart",
        /// A point on a curve that the author fitted, within the range that the author gives for the curve.
        Fit = "fit",
        /// An average of other figures of the same set, or a difference of two.
        Summary = "summary",
    }
}

impl FigureKind {
    /// Whether a figure of this kind may support a conclusion. A fit presupposes the author's conclusion, and a summary
    /// repeats other figures.
    pub fn is_evidence(self) -> bool {
        !matches!(self, FigureKind::Fit | FigureKind::Summary)
    }
}

impl Figure {
    /// The name and parameters of its task.
    pub fn task_id(&self) -> TaskId {
        TaskId { name: self.task.clone(), params: self.params.clone() }
    }
}

impl PublishedSet {
    /// The name on the command line, after `published:`; `piszcz-II`.
    pub fn name(&self) -> String {
        if self.set.is_empty() { self.study.clone() } else { format!("{}-{}", self.study, self.set) }
    }

    /// The names of its variants, in the author's order.
    pub fn variants(&self) -> Vec<&str> {
        distinct(self.figures.iter().map(|figure| figure.variant.as_str()))
    }

    /// The names of its metrics, in the author's order.
    pub fn metrics(&self) -> Vec<&str> {
        distinct(self.figures.iter().map(|figure| figure.metric.as_str()))
    }

    /// The first figure of each task; it has the task's number, title and parameters.
    pub fn tasks(&self) -> Vec<&Figure> {
        let mut task_ids = BTreeSet::new();
        self.figures.iter().filter(|figure| task_ids.insert((&figure.task, &figure.params))).collect()
    }

    /// The first figure of each task in the totals: of every task that is not in [`LIFECYCLE_TASKS`].
    pub fn tasks_in_totals(&self) -> Vec<&Figure> {
        let tasks = self.tasks().into_iter();
        tasks.filter(|figure| !LIFECYCLE_TASKS.contains(&figure.task.as_str())).collect()
    }

    /// The names of the samples, in the author's order. Empty for most studies.
    pub fn samples(&self) -> Vec<&str> {
        distinct(self.figures.iter().map(|figure| figure.sample.as_str()).filter(|sample| !sample.is_empty()))
    }

    /// A figure of a sample, by variant and metric.
    pub fn figure_of_sample(&self, sample: &str, variant: &str, metric: &str) -> Option<&Figure> {
        self.figures
            .iter()
            .find(|figure| figure.sample == sample && figure.variant == variant && figure.metric == metric)
    }

    /// A figure, by task, variant and metric.
    pub fn figure(&self, task: &TaskId, variant: &str, metric: &str) -> Option<&Figure> {
        // Parameters last: they take longest to compare, and a matrix has hundreds of figures.
        let is_of_task = |figure: &Figure| figure.task == task.name && figure.params == task.params;
        self.figures.iter().find(|figure| figure.variant == variant && figure.metric == metric && is_of_task(figure))
    }

    /// The total of a metric for one variant over the tasks of [`PublishedSet::tasks_in_totals`]. None if the variant lacks a
    /// task, or the metric has no total.
    pub fn total(&self, variant: &str, metric: &str) -> Option<f64> {
        self.spec(metric)?.over.tasks.combine(self.values_in_totals(variant, metric)?)
    }

    /// The definition of a metric: fsarena's own if the author uses the same unit, else the defaults of the author's unit.
    /// None if the set does not have the metric.
    pub fn spec(&self, metric: &str) -> Option<MetricSpec> {
        let unit = self.figures.iter().find(|figure| figure.metric == metric)?.unit;
        let own_spec = find(metric).map(|def| MetricSpec::from(&def.spec)).filter(|spec| spec.unit == unit);
        let of_unit = || MetricSpec::new(metric.into(), unit, Direction::Neutral, String::new());
        Some(own_spec.unwrap_or_else(of_unit))
    }

    /// The values of a metric for one variant, one for each task of [`PublishedSet::tasks_in_totals`]. None if a value is
    /// missing.
    pub fn values_in_totals(&self, variant: &str, metric: &str) -> Option<Vec<f64>> {
        let value = |task: &Figure| self.figure(&task.task_id(), variant, metric).map(|figure| figure.value);
        self.tasks_in_totals().into_iter().map(value).collect()
    }
}

/// The columns with a fixed meaning in a file of tasks. Any other column is a parameter of the task.
const TASK_COLUMNS: [&str; 8] = ["set", "task", "title", "filesystem", "metric", "value", "unit", "kind"];
/// The task name of all figures in a file of samples, which has no task column.
const TASK_OF_SAMPLES: &str = "window";

/// The form of a file; see [`parse_published`].
enum FileForm {
    /// Each line has one figure.
    Tasks,
    /// Each line has the operations per second for one block size and number of threads.
    Matrix,
    /// Each line has all figures of one variant in one sample.
    Samples(Vec<SampleColumn>),
}

/// A metric's column in a file of samples.
struct SampleColumn {
    name: String,
    metric: String,
    unit: Unit,
}

impl FileForm {
    /// Returns the form of a file with this header, and its derived metrics.
    fn from_header(headers: &StringRecord) -> Result<(FileForm, Vec<PublishedQuotient>), String> {
        let has = |column: &str| headers.iter().any(|name| name == column);
        if has("sample") {
            return sample_columns(headers);
        }
        Ok((if has("mode") { FileForm::Matrix } else { FileForm::Tasks }, vec![]))
    }

    /// Reads one line: returns the name of its set, and its figures.
    fn read_line(
        &self,
        record: &StringRecord,
        headers: &StringRecord,
        task_names: &BTreeMap<String, String>,
    ) -> Result<(String, Vec<Figure>), String> {
        let line = TableLine { record, headers };
        match self {
            FileForm::Tasks => Ok((line.text("set")?.to_string(), vec![line.task_figure(task_names)?])),
            FileForm::Matrix => Ok((String::new(), vec![line.matrix_figure()?])),
            FileForm::Samples(columns) => {
                Ok((String::new(), columns.iter().map(|column| line.sample_figure(column)).collect::<Result<_, _>>()?))
            }
        }
    }
}

/// Parses the header of a file of samples. `iowait_percent` is a metric with its unit;
/// `iowait_per_request = iowait_percent / requests_per_s` is a derived metric.
fn sample_columns(headers: &StringRecord) -> Result<(FileForm, Vec<PublishedQuotient>), String> {
    let (mut columns, mut quotients) = (Vec::new(), Vec::new());
    for name in headers.iter().filter(|name| !["sample", "filesystem", "kind"].contains(name)) {
        let (metric, unit) = match name.split_once('=') {
            None => split_unit(name)?,
            Some((result, formula)) => {
                let syntax_error = || format!("column `{name}`: expected `RESULT = COLUMN / COLUMN`");
                let (numerator, denominator) = formula.split_once('/').ok_or_else(syntax_error)?;
                let result = result.trim().to_string();
                for source in [numerator, denominator] {
                    if !headers.iter().any(|other| other == source.trim()) {
                        return Err(format!("column `{name}`: missing column `{}`", source.trim()));
                    }
                }
                let (numerator, denominator) = (split_unit(numerator.trim())?.0, split_unit(denominator.trim())?.0);
                quotients.push(PublishedQuotient { metric: result.clone(), numerator, denominator });
                (result, Unit::Ratio)
            }
        };
        columns.push(SampleColumn { name: name.to_string(), metric, unit });
    }
    Ok((FileForm::Samples(columns), quotients))
}

/// Splits a column's name into its metric and its unit. The longest suffix that is a unit counts: `moved_bytes_per_s` is
/// `moved` in bytes per second.
fn split_unit(column: &str) -> Result<(String, Unit), String> {
    for (index, _) in column.match_indices('_') {
        if let Some(unit) = Unit::from_suffix(&column[index + 1..]) {
            return Ok((column[..index].to_string(), unit));
        }
    }
    Err(format!("column `{column}` ends in no unit"))
}

/// A line of the file, with the header that names its columns.
struct TableLine<'a> {
    record: &'a StringRecord,
    headers: &'a StringRecord,
}

impl<'a> TableLine<'a> {
    fn text(&self, column: &str) -> Result<&'a str, String> {
        let index = self.headers.iter().position(|name| name == column);
        index.and_then(|index| self.record.get(index)).ok_or_else(|| format!("missing column `{column}`"))
    }

    fn number<T: std::str::FromStr>(&self, column: &str) -> Result<T, String> {
        let text = self.text(column)?;
        text.parse().map_err(|_| format!("column `{column}`: expected a number, found `{text}`"))
    }

    /// The kind in the column `kind`; measured if the file has no such column.
    fn kind(&self) -> Result<FigureKind, String> {
        match self.text("kind") {
            Ok(name) => Ok(names::find_by_id("kind of figure", name, FigureKind::ALL, |kind| kind.name())?),
            Err(_) => Ok(FigureKind::Measured),
        }
    }

    /// A figure of one task, with its value from this column.
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
            decimals: count_decimals(self.text(column)?),
            unit,
            kind: self.kind()?,
        })
    }

    fn task_figure(&self, task_names: &BTreeMap<String, String>) -> Result<Figure, String> {
        let unit = self.text("unit")?;
        let unit = Unit::from_suffix(unit).ok_or_else(|| format!("unknown unit `{unit}`"))?;
        let number = self.text("task")?.to_string();
        let task = task_names.get(&number).ok_or_else(|| format!("no task does task `{number}`"))?;
        let params = self.headers.iter().zip(self.record);
        let params = params.filter(|(name, value)| !TASK_COLUMNS.contains(name) && !value.is_empty());
        let params = params.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let title = self.text("title")?.to_string();
        Ok(Figure { number, params, title, ..self.figure(task, "value", self.text("metric")?, unit)? })
    }

    fn matrix_figure(&self) -> Result<Figure, String> {
        let (size, threads): (u64, u32) = (self.number("block_size_bytes")?, self.number("threads")?);
        let params = [("bs", size.to_string()), ("threads", threads.to_string())];
        let params = params.map(|(name, value)| (name.to_string(), value)).into();
        let mode = self.text("mode")?;
        Ok(Figure { params, title: mode.into(), ..self.figure(mode, "iops", "iops", Unit::PerSecond)? })
    }

    fn sample_figure(&self, column: &SampleColumn) -> Result<Figure, String> {
        let sample = self.text("sample")?.to_string();
        Ok(Figure { sample, ..self.figure(TASK_OF_SAMPLES, &column.name, &column.metric, column.unit)? })
    }
}

/// The number of digits after the decimal point.
fn count_decimals(text: &str) -> u8 {
    text.split_once('.').map_or(0, |(_, digits)| digits.len() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::TaskId;
    use crate::sample::Unit;

    const HEAD: &str = "set,task,title,filesystem,metric,value,unit\n";

    fn task_numbers() -> BTreeMap<String, String> {
        let numbered = (1..=21).map(|number| (format!("{number:03}"), format!("task-{number}")));
        numbered.chain([("mkfs".into(), "mkfs".into())]).collect()
    }

    fn parse_error(lines: &str) -> String {
        parse_published("old", &format!("{HEAD}{lines}"), &task_numbers()).unwrap_err().to_string()
    }

    #[test]
    fn sets_keep_the_order_of_the_file() {
        let csv =
            format!("{HEAD}II,001,\"Touch, twice\",xfs,elapsed,2.5,s\nI,001,Touch,xfs,cpu_utilization,1,percent\n");
        let sets = parse_published("old", &csv, &task_numbers()).unwrap();
        assert_eq!(sets.iter().map(PublishedSet::name).collect::<Vec<_>>(), ["old-II", "old-I"]);
        assert_eq!(sets[0].figures[0].title, "Touch, twice");
        assert_eq!(sets[0].figure(&TaskId::new("task-1"), "xfs", "elapsed").unwrap().value, 2.5);
        assert_eq!(sets[1].figures[0].unit, Unit::Percent);
    }

    #[test]
    fn the_total_of_a_variant_that_lacks_a_task_is_none() {
        let csv = format!("{HEAD}I,001,A,xfs,elapsed,2.5,s\nI,002,B,xfs,elapsed,4,s\nI,001,A,jfs,elapsed,1,s\n");
        let set = &parse_published("old", &csv, &task_numbers()).unwrap()[0];
        assert_eq!(set.total("xfs", "elapsed"), Some(6.5));
        assert_eq!(set.total("jfs", "elapsed"), None);
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        assert_eq!(
            parse_error("I,001,A,xfs,elapsed,1,parsec\n"),
            "published figures of old, line 2: unknown unit `parsec`"
        );
        assert!(
            parse_error("I,001,A,xfs,elapsed,1,s\nI,099,A,xfs,elapsed,1,s\n")
                .contains("line 3: no task does task `099`")
        );
        assert!(parse_error("I,001,A,xfs,elapsed,-1,s\n").contains("invalid value -1"));
        assert!(parse_error("I,001,A,xfs,elapsed,1,s\nI,001,A,xfs,elapsed,2,s\n").contains("line 3"));
        assert!(parse_error("I,001,A,xfs,elapsed,many,s\n").contains("line 2"));
        assert!(parse_error("I,001,A\n").contains("line 2"));
    }

    #[test]
    fn block_size_and_threads_of_a_matrix_become_task_parameters() {
        let head = "filesystem,mode,block_size_bytes,threads,iops\n";
        let csv = format!("{head}ext4,seqrd,512,1,100\next4,seqrd,512,2,150\nxfs,seqrd,512,1,90\n");
        let set = &parse_published("old", &csv, &BTreeMap::new()).unwrap()[0];
        assert_eq!((set.name().as_str(), set.tasks().len()), ("old", 2));
        assert_eq!(set.figures[1].task_id().to_string(), "seqrd[bs=512,threads=2]");
        assert_eq!(set.figure(&set.figures[1].task_id(), "ext4", "iops").unwrap().value, 150.0);
        assert!(set.figure(&set.figures[1].task_id(), "xfs", "iops").is_none());
        let twice = format!("{head}ext4,seqrd,512,1,100\next4,seqrd,512,1,100\n");
        let error = parse_published("old", &twice, &BTreeMap::new()).unwrap_err().to_string();
        assert!(error.contains("line 3: iops of ext4 in seqrd[bs=512,threads=1] is given twice"), "{error}");
    }

    #[test]
    fn the_shipped_figures_are_complete() {
        let csv = include_str!("../../../studies/engel/published.csv");
        let set = &parse_published("engel", csv, &BTreeMap::new()).unwrap()[0];
        // 4 modes of 6 block sizes by 8 numbers of threads, on 3 filesystems.
        assert_eq!((set.variants().len(), set.tasks().len(), set.figures.len()), (3, 4 * 48, 3 * 4 * 48));

        let csv = include_str!("../../../studies/piszcz/published.csv");
        let sets = parse_published("piszcz", csv, &task_numbers()).unwrap();
        for (name, variants) in [("piszcz-I", 5), ("piszcz-II", 6)] {
            let set = sets.iter().find(|set| set.name() == name).unwrap();
            assert_eq!((set.variants().len(), set.tasks_in_totals().len()), (variants, 21));
            let measured = set.figures.iter().filter(|figure| figure.kind == FigureKind::Measured);
            assert_eq!(measured.count(), variants * 21 * 2);
        }
        let vondra = crate::study::find("vondra").unwrap().published_sets().unwrap();
        assert_eq!((vondra.len(), vondra.iter().map(|set| set.figures.len()).sum::<usize>()), (12, 306));
        // Σ of the 21 elapsed times of ext2 in set II, summed by awk over the file.
        let total = sets.iter().find(|set| set.set == "II").unwrap().total("ext2", "elapsed").unwrap();
        assert!((total - 359.81).abs() < 1e-9, "{total}");
    }

    #[test]
    fn a_column_name_is_split_into_metric_and_unit() {
        assert_eq!(split_unit("requests_per_s"), Ok(("requests".into(), Unit::PerSecond)));
        assert_eq!(split_unit("moved_bytes_per_s"), Ok(("moved".into(), Unit::BytesPerSecond)));
        assert_eq!(split_unit("iowait_percent"), Ok(("iowait".into(), Unit::Percent)));
        assert!(split_unit("iowait").is_err());
    }

    #[test]
    fn count_decimals_counts_trailing_zeros() {
        assert_eq!(["48", "48.0", "0.17"].map(count_decimals), [0, 1, 2]);
    }
}
