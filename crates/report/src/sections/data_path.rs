//! The section with the data path of each task: page cache, device or mixed.

use crate::document::{Detail, Document};
use crate::{matrix, number::plural, report::Report};
use fsarena_core::{metric::DataPath, observations::Grid};
use fsarena_stats::analyse::{TaskMedians, task_medians};
use serde_json::{Value, json};

/// The metric with the device's share of the bytes.
const DEVICE_SHARE: &str = "device_share";
/// All data paths, in the order of the list.
const DATA_PATHS: [DataPath; 3] = [DataPath::Cache, DataPath::Mixed, DataPath::Device];

/// Adds a line for each data path, with its tasks.
pub fn add_data_path(document: &mut Document, report: &Report, _: Detail) {
    let Some(shares) = Grid::of(&report.record, DEVICE_SHARE).map(|grid| task_medians(&grid)) else { return };
    let names = report.record.variant_names();
    let paths = |task: &TaskMedians| task.medians.iter().map(|share| share.map(DataPath::of)).collect();
    let tasks: Vec<TaskPaths> = shares.iter().map(|task| (task.task.id.to_string(), paths(task))).collect();
    // The tables of a matrix mark the data path of each figure, so the numbers are enough here.
    let describe = if report.analyses.first().is_some_and(matrix::is_matrix) { count_figures } else { list_tasks };
    let lines: Vec<String> = DATA_PATHS.into_iter().filter_map(|path| describe(&tasks, path, &names)).collect();
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

/// The name of a task, and the data path of each variant; `None` for a variant without a figure.
type TaskPaths = (String, Vec<Option<DataPath>>);

/// The tasks with this data path: `cache: untar (xfs device), touch`. `None` if no task has it. `names` are those of the
/// variants.
fn list_tasks(tasks: &[TaskPaths], path: DataPath, names: &[&str]) -> Option<String> {
    let items: Vec<String> =
        tasks.iter().filter_map(|(task, paths)| task_with_exceptions(task, paths, path, names)).collect();
    (!items.is_empty()).then(|| format!("{}: {}", path.name(), items.join(", ")))
}

/// The number of figures with this data path: `device: 52 of 54 figures (ext4 26, xfs 26)`. `None` if no figure has it.
fn count_figures(tasks: &[TaskPaths], path: DataPath, names: &[&str]) -> Option<String> {
    let figure_count = tasks.iter().flat_map(|(_, paths)| paths.iter().flatten()).count();
    let (mut with_path, mut variants) = (0, vec![]);
    for (variant, name) in names.iter().enumerate() {
        let count = tasks.iter().filter(|(_, paths)| paths[variant] == Some(path)).count();
        with_path += count;
        if count > 0 {
            variants.push(format!("{name} {count}"));
        }
    }
    if with_path == 0 {
        return None;
    }
    let figures = plural(figure_count, "figure");
    Some(format!("{}: {with_path} of {figures} ({})", path.name(), variants.join(", ")))
}

/// The task with the variants that have another data path, `untar (xfs device)`. `None` unless `path` is that of most variants;
/// if several are equally frequent, the first of [`DATA_PATHS`] counts.
fn task_with_exceptions(task: &str, paths: &[Option<DataPath>], path: DataPath, names: &[&str]) -> Option<String> {
    let count = |path: DataPath| paths.iter().filter(|other| **other == Some(path)).count();
    let most_frequent = DATA_PATHS.into_iter().rev().max_by_key(|path| count(*path))?;
    if most_frequent != path || count(path) == 0 {
        return None;
    }
    let mut exceptions = vec![];
    for (other_path, name) in paths.iter().zip(names) {
        if let Some(other_path) = other_path.filter(|other| *other != path) {
            exceptions.push(format!("{name} {}", other_path.name()));
        }
    }
    Some(if exceptions.is_empty() { task.to_string() } else { format!("{task} ({})", exceptions.join(", ")) })
}

/// The data path of each task and variant, as JSON.
pub fn data_path_json(report: &Report) -> Value {
    let Some(shares) = Grid::of(&report.record, DEVICE_SHARE).map(|grid| task_medians(&grid)) else {
        return Value::Null;
    };
    let task = |task: &TaskMedians| {
        let variant = |(share, variant): (&Option<f64>, &str)| {
            let path = share.map(|share| DataPath::of(share).name());
            json!({ "variant": variant, "device_share_ratio": share, "reached": path })
        };
        let variants = task.medians.iter().zip(report.record.variant_names()).map(variant);
        json!({ "task": task.task.id, "variants": variants.collect::<Vec<_>>() })
    };
    shares.iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_a_matrix_are_counted() {
        use DataPath::{Cache, Device};
        let tasks = [("a".into(), vec![Some(Device), Some(Cache)]), ("b".into(), vec![Some(Device), None])];
        let names = ["ext4", "raw"];
        assert_eq!(count_figures(&tasks, Device, &names).unwrap(), "device: 2 of 3 figures (ext4 2)");
        assert_eq!(count_figures(&tasks, Cache, &names).unwrap(), "cache: 1 of 3 figures (raw 1)");
        assert_eq!(count_figures(&tasks, DataPath::Mixed, &names), None);
    }

    #[test]
    fn a_task_is_listed_under_the_data_path_of_most_variants() {
        use DataPath::{Cache, Device, Mixed};
        let names = ["a", "b", "c"];
        let paths = [Some(Cache), Some(Device), Some(Cache)];
        assert_eq!(task_with_exceptions("untar", &paths, Cache, &names), Some("untar (b device)".into()));
        assert_eq!(task_with_exceptions("untar", &paths, Device, &names), None);
        let equal = [Some(Mixed), Some(Device), None];
        assert_eq!(task_with_exceptions("untar", &equal, Mixed, &names), Some("untar (b device)".into()));
        assert_eq!(task_with_exceptions("untar", &[None, None, None], Cache, &names), None);
    }
}
