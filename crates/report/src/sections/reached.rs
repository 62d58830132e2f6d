//! The data path of each task: page cache, device or mixed.

use crate::section::{Chapter, Detail, Document, Report, Section};
use crate::{matrix, number::plural};
use fsarena_core::metric::DataPath;
use fsarena_core::observations::Grid;
use fsarena_stats::analyse::{TaskMedians, medians};
use serde_json::{Value, json};

/// The metric that holds the device's share of the bytes.
const SHARE: &str = "device_share";
/// In the order of the list.
const REACHES: [DataPath; 3] = [DataPath::Cache, DataPath::Mixed, DataPath::Device];

/// The data path of each task.
pub const DATA_PATH: Section = Section::full(Chapter::Method, add_data_path);

/// A line for each label, with the tasks that have it.
fn add_data_path(document: &mut Document, report: &Report, _: Detail) {
    let Some(shares) = Grid::of(&report.record, SHARE).map(|grid| medians(&grid)) else { return };
    let names = report.record.names();
    let reaches = |task: &TaskMedians| task.variants.iter().map(|share| share.map(DataPath::of)).collect();
    let tasks: Vec<_> = shares.iter().map(|task| (task.task.id.to_string(), reaches(task))).collect();
    // Where a table has a cell for each block size and thread count, its cells say which; here stands how many.
    let line =
        if report.analyses.first().is_some_and(matrix::is_matrix) { count_figures } else { list_tasks };
    let lines: Vec<String> = REACHES.into_iter().filter_map(|reach| line(&tasks, reach, &names)).collect();
    if lines.is_empty() {
        return;
    }
    document.heading(3, "Data path");
    document.text(
        "Bytes that the device moved until the data was synced, divided by bytes that the task read and wrote (medians): \
         cache is under a tenth, device is nine tenths or more. Bytes of other disks count as read and written, and \
         metadata counts as moved.",
    );
    document.list(lines);
}

/// `cache: untar (xfs device), touch`.
fn list_tasks(tasks: &[(String, Vec<Option<DataPath>>)], reach: DataPath, names: &[&str]) -> Option<String> {
    let named: Vec<String> =
        tasks.iter().filter_map(|(task, of)| task_with_exceptions(task, of, reach, names)).collect();
    (!named.is_empty()).then(|| format!("{}: {}", reach.label(), named.join(", ")))
}

/// `device: 52 of 54 figures (ext4 26, xfs 26)`.
fn count_figures(
    tasks: &[(String, Vec<Option<DataPath>>)],
    reach: DataPath,
    names: &[&str],
) -> Option<String> {
    let known = tasks.iter().flat_map(|(_, of)| of.iter().flatten()).count();
    let of_variant = |variant: usize| tasks.iter().filter(|(_, of)| of[variant] == Some(reach)).count();
    let variants = names.iter().enumerate().filter(|(variant, _)| of_variant(*variant) > 0);
    let variants: Vec<String> =
        variants.map(|(variant, name)| format!("{name} {}", of_variant(variant))).collect();
    let all: usize = (0..names.len()).map(of_variant).sum();
    (all > 0)
        .then(|| format!("{}: {all} of {} ({})", reach.label(), plural(known, "figure"), variants.join(", ")))
}

/// The task where this label is that of most variants, with the variants that have another; of equally many the label that
/// comes first.
fn task_with_exceptions(
    task: &str,
    of: &[Option<DataPath>],
    reach: DataPath,
    names: &[&str],
) -> Option<String> {
    let count = |reach: DataPath| of.iter().filter(|own| **own == Some(reach)).count();
    let most = REACHES.into_iter().rev().max_by_key(|reach| count(*reach))?;
    if most != reach || count(reach) == 0 {
        return None;
    }
    let other = |(own, name): (&Option<DataPath>, &&str)| {
        own.filter(|own| *own != reach).map(|own| format!("{name} {}", own.label()))
    };
    let others: Vec<String> = of.iter().zip(names).filter_map(other).collect();
    Some(if others.is_empty() { task.to_string() } else { format!("{task} ({})", others.join(", ")) })
}

/// The data path of each task and variant, as JSON.
pub fn data_path_json(report: &Report) -> Value {
    let Some(shares) = Grid::of(&report.record, SHARE).map(|grid| medians(&grid)) else { return Value::Null };
    let task = |task: &TaskMedians| {
        let variant = |(share, variant): (&Option<f64>, &str)| {
            let reached = share.map(|share| DataPath::of(share).label());
            json!({ "variant": variant, "device_share_ratio": share, "reached": reached })
        };
        let variants = task.variants.iter().zip(report.record.names()).map(variant);
        json!({ "task": task.task.id, "variants": variants.collect::<Vec<_>>() })
    };
    shares.iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cells_of_a_matrix_are_counted() {
        use DataPath::{Cache, Device};
        let tasks = [("a".into(), vec![Some(Device), Some(Cache)]), ("b".into(), vec![Some(Device), None])];
        let names = ["ext4", "raw"];
        assert_eq!(count_figures(&tasks, Device, &names).unwrap(), "device: 2 of 3 figures (ext4 2)");
        assert_eq!(count_figures(&tasks, Cache, &names).unwrap(), "cache: 1 of 3 figures (raw 1)");
        assert_eq!(count_figures(&tasks, DataPath::Mixed, &names), None);
    }

    #[test]
    fn a_task_stands_where_most_variants_are() {
        use DataPath::{Cache, Device, Mixed};
        let names = ["a", "b", "c"];
        let of = [Some(Cache), Some(Device), Some(Cache)];
        assert_eq!(task_with_exceptions("untar", &of, Cache, &names), Some("untar (b device)".into()));
        assert_eq!(task_with_exceptions("untar", &of, Device, &names), None);
        let equal = [Some(Mixed), Some(Device), None];
        assert_eq!(task_with_exceptions("untar", &equal, Mixed, &names), Some("untar (b device)".into()));
        assert_eq!(task_with_exceptions("untar", &[None, None, None], Cache, &names), None);
    }
}
