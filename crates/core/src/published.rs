//! The figures that a study published, as its author printed them.

mod figure;
mod lines;

pub use figure::{AROUND, Derived, Figure, Kind, Published};

use crate::exit::{ExitCode, Exits};
use lines::Form;
use std::collections::BTreeMap;

/// Why published figures could not be read.
#[derive(Debug, thiserror::Error)]
#[error("published figures of {study}, line {line}: {why}")]
pub struct Error {
    /// The study.
    pub study: String,
    /// The line of the file, from 1.
    pub line: u64,
    /// The fault.
    pub why: String,
}

impl Exits for Error {
    /// The figures ship with fsarena, so a fault in them is ours.
    fn exit_code(&self) -> ExitCode {
        ExitCode::Internal
    }
}

/// Reads published figures, one [`Published`] a set, in the order of the file. There are three forms:
///
/// - tasks: `set,task,title,filesystem,metric,value,unit`, one figure a line; any further column is a parameter
///   of the task. `tasks` gives our task for each of the author's task numbers.
///   A column `kind` names the [`Kind`] of each figure, in this form and in samples; without it all are measured.
/// - a matrix: `filesystem,mode,block_size_bytes,threads,iops`. Its modes are tasks by themselves.
/// - samples of something that was watched: `sample,filesystem`, then a column for each metric, its unit at the
///   end of its name (`iowait_percent`). A column that the author worked out from two others says how:
///   `iowait_per_request = iowait_percent / requests_per_s`.
///
/// # Errors
/// A line that is not such a record, an unknown unit or task, a negative or infinite value, or a duplicate figure.
pub fn parse(study: &str, csv: &str, tasks: &BTreeMap<String, String>) -> Result<Vec<Published>, Error> {
    let mut sets: Vec<Published> = Vec::new();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let fault = |line: u64, why: String| Error { study: study.to_string(), line, why };
    let headers = reader.headers().map_err(|e| fault(1, e.to_string()))?.clone();
    let (form, derived) = Form::of(&headers).map_err(|why| fault(1, why))?;
    let mut seen = std::collections::BTreeSet::new();
    for record in reader.records() {
        let record = record.map_err(|e| fault(e.position().map_or(0, csv::Position::line), e.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let (set, figures) = form.read(&record, &headers, tasks).map_err(|why| fault(line, why))?;
        for figure in &figures {
            sound(figure).map_err(|why| fault(line, why))?;
            let identity = (set.clone(), figure.sample.clone(), figure.task_id());
            if !seen.insert((identity, figure.variant.clone(), figure.metric.clone())) {
                let (metric, variant, task) = (&figure.metric, &figure.variant, figure.task_id());
                return Err(fault(line, format!("{metric} of {variant} in {task} is given twice")));
            }
        }
        match sets.iter_mut().find(|published| published.set == set) {
            Some(published) => published.rows.extend(figures),
            None => sets.push(Published {
                study: study.to_string(),
                set,
                rows: figures,
                derived: derived.clone(),
            }),
        }
    }
    Ok(sets)
}

fn sound(figure: &Figure) -> Result<(), String> {
    // A difference of two figures may be negative, any other figure may not.
    let least = if figure.kind == Kind::Summary { f64::MIN } else { 0.0 };
    let sound = figure.value.is_finite() && figure.value >= least;
    if sound { Ok(()) } else { Err(format!("invalid value {}; expected a number from 0", figure.value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{cell::TaskId, sample::Unit};

    const HEAD: &str = "set,task,title,filesystem,metric,value,unit\n";

    fn steps() -> BTreeMap<String, String> {
        let numbered = (1..=21).map(|n| (format!("{n:03}"), format!("task-{n}")));
        numbered.chain([("mkfs".into(), "mkfs".into())]).collect()
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
        assert_eq!(sets[0].figure(&TaskId::new("task-1"), "xfs", "elapsed").unwrap().value, 2.5);
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
                .contains("line 3: no task does task `099`")
        );
        assert!(error("I,001,A,xfs,elapsed,-1,s\n").contains("invalid value -1"));
        assert!(error("I,001,A,xfs,elapsed,1,s\nI,001,A,xfs,elapsed,2,s\n").contains("line 3"));
        assert!(error("I,001,A,xfs,elapsed,many,s\n").contains("line 2"));
        assert!(error("I,001,A\n").contains("line 2"));
    }

    #[test]
    fn a_matrix_has_tasks_with_parameters() {
        let head = "filesystem,mode,block_size_bytes,threads,iops\n";
        let csv = format!("{head}ext4,seqrd,512,1,100\next4,seqrd,512,2,150\nxfs,seqrd,512,1,90\n");
        let set = &parse("old", &csv, &BTreeMap::new()).unwrap()[0];
        assert_eq!((set.name().as_str(), set.tasks().len()), ("old", 2));
        assert_eq!(set.rows[1].task_id().to_string(), "seqrd[bs=512,threads=2]");
        assert_eq!(set.figure(&set.rows[1].task_id(), "ext4", "iops").unwrap().value, 150.0);
        assert!(set.figure(&set.rows[1].task_id(), "xfs", "iops").is_none());
        let twice = format!("{head}ext4,seqrd,512,1,100\next4,seqrd,512,1,100\n");
        let said = parse("old", &twice, &BTreeMap::new()).unwrap_err().to_string();
        assert!(said.contains("line 3: iops of ext4 in seqrd[bs=512,threads=1] is given twice"), "{said}");
    }

    #[test]
    fn the_shipped_figures_are_complete() {
        let csv = include_str!("../../../studies/engel/published.csv");
        let set = &parse("engel", csv, &BTreeMap::new()).unwrap()[0];
        // 4 modes of 6 block sizes by 8 numbers of threads, on 3 filesystems.
        assert_eq!((set.variants().len(), set.tasks().len(), set.rows.len()), (3, 4 * 48, 3 * 4 * 48));

        let csv = include_str!("../../../studies/piszcz/published.csv");
        let sets = parse("piszcz", csv, &steps()).unwrap();
        for (name, variants) in [("piszcz-I", 5), ("piszcz-II", 6)] {
            let set = sets.iter().find(|set| set.name() == name).unwrap();
            assert_eq!((set.variants().len(), set.work().len()), (variants, 21));
            let measured = set.rows.iter().filter(|row| row.kind == Kind::Measured);
            assert_eq!(measured.count(), variants * 21 * 2);
        }
        let vondra = crate::study::find("vondra").unwrap().published().unwrap();
        assert_eq!((vondra.len(), vondra.iter().map(|set| set.rows.len()).sum::<usize>()), (12, 306));
        // Σ of the 21 elapsed times of ext2 in set II, summed by awk over the file.
        let total = sets.iter().find(|s| s.set == "II").unwrap().total("ext2", "elapsed").unwrap();
        assert!((total - 359.81).abs() < 1e-9, "{total}");
    }
}
