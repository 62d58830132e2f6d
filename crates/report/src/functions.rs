//! Where kernel instructions go: the instructions of each kernel function by variant, estimated from samples of the call stack;
//! their differences between two variants; and flame graphs.

use crate::document::{Document, Table, labelled_row};
use crate::{error::Error, page::Page};
use fsarena_core::{cell::TaskId, metric::reading, record::RunRecord};
use inferno::flamegraph::{self, Options};
use serde::Serialize;
use serde_json::json;
use std::{collections::BTreeMap, path::Path};

/// The table shows at most this many functions.
const MAX_TABLE_ROWS: usize = 20;
/// A normal deviate is within this many standard deviations in 95% of cases.
const Z95: f64 = 1.96;

/// The call stacks that were sampled while one variant ran one task.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantStacks {
    /// The variant.
    pub variant: String,
    /// Kernel instructions of the task, counted without sampling.
    pub instructions: f64,
    /// Call stacks, outermost function first, each with its number of samples.
    pub stacks: Vec<(Vec<String>, u64)>,
}

/// The instructions of one function in each variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionInstructions {
    /// The name of the function.
    pub function: String,
    /// Samples by variant in the function itself, without the functions that it calls.
    pub samples: Vec<u64>,
    /// Instructions by variant: the share of the samples times the counted instructions.
    pub instructions: Vec<f64>,
    /// Instructions of the second variant minus those of the first; `None` unless there are two variants.
    pub difference: Option<f64>,
    /// The 95% margin of error of the difference. The number of samples is a Poisson count, so its variance is the count
    /// itself.
    pub margin: Option<f64>,
}

impl VariantStacks {
    fn total_samples(&self) -> u64 {
        self.stacks.iter().map(|(_, samples)| samples).sum()
    }

    /// Instructions for each sample; 0 without samples.
    fn instructions_per_sample(&self) -> f64 {
        match self.total_samples() {
            0 => 0.0,
            samples => self.instructions / samples as f64,
        }
    }
}

/// Returns the task of this name, and its counted kernel instructions by variant, a value for each round. If `name` is empty,
/// it returns the task with the largest count.
///
/// # Errors
/// If the run has counted no instructions, or has no task of this name.
pub fn counted_instructions(record: &RunRecord, name: &str) -> Result<(TaskId, BTreeMap<String, Vec<f64>>), Error> {
    let Some((_, values)) = record.metric(reading::KERNEL_INSTRUCTIONS) else {
        return Err(Error::Usage(format!(
            "run {} has no counts of kernel instructions yet; it has some after its first finished cell",
            record.id
        )));
    };
    let mut counted: BTreeMap<TaskId, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let task = &record.tasks[record.samples.task[row] as usize];
        let variant = &record.variants[record.cells[record.samples.cell[row] as usize].variant];
        if task.in_totals {
            let by_variant = counted.entry(task.id.clone()).or_default();
            by_variant.entry(variant.name.clone()).or_default().push(*value);
        }
    }
    let largest = |by_variant: &BTreeMap<String, Vec<f64>>| by_variant.values().flatten().copied().fold(0.0, f64::max);
    let candidates = counted.into_iter().filter(|(task, _)| name.is_empty() || task.to_string() == name);
    candidates.max_by(|a, b| largest(&a.1).total_cmp(&largest(&b.1))).ok_or_else(|| record.unknown_task(name).into())
}

/// All functions of all variants. With two variants the largest difference comes first, else the function with the most
/// instructions in the first variant.
fn instructions_by_function(variants: &[VariantStacks]) -> Vec<FunctionInstructions> {
    let mut samples_by_function: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (index, variant) in variants.iter().enumerate() {
        for (frames, samples) in &variant.stacks {
            let name = frames.last().map_or("(unknown)", String::as_str);
            samples_by_function.entry(name).or_insert_with(|| vec![0; variants.len()])[index] += samples;
        }
    }
    let instructions_per_sample: Vec<f64> = variants.iter().map(VariantStacks::instructions_per_sample).collect();
    let mut functions: Vec<FunctionInstructions> = samples_by_function
        .into_iter()
        .map(|(name, samples)| instructions_of_function(name, samples, &instructions_per_sample))
        .collect();
    let sort_key = |function: &FunctionInstructions| function.difference.unwrap_or(function.instructions[0]).abs();
    functions.sort_by(|a, b| sort_key(b).total_cmp(&sort_key(a)));
    functions
}

/// The instructions of a function: the number of its samples by variant, times the instructions for each sample by variant.
fn instructions_of_function(name: &str, samples: Vec<u64>, instructions_per_sample: &[f64]) -> FunctionInstructions {
    let weighted = samples.iter().zip(instructions_per_sample);
    let instructions: Vec<f64> = weighted.clone().map(|(count, weight)| *count as f64 * weight).collect();
    let variance: f64 = weighted.map(|(count, weight)| *count as f64 * weight * weight).sum();
    let pair = <[f64; 2]>::try_from(instructions.clone()).ok();
    FunctionInstructions {
        function: name.into(),
        samples,
        instructions,
        difference: pair.map(|[a, b]| b - a),
        margin: pair.map(|_| Z95 * variance.sqrt()),
    }
}

/// Makes the page of one task of a run. `flame_graphs` has a title and a path for each flame graph.
pub fn instructions_page(run: &str, task: &str, variants: &[VariantStacks], flame_graphs: &[(String, String)]) -> Page {
    let functions = instructions_by_function(variants);
    let mut document = Document::default();
    document.heading(1, format!("Where the instructions of {task} go"));
    document.text(summary_sentences(variants, &functions));
    document.table(functions_table(variants, &functions));
    document.list(flame_graphs.iter().map(|(title, path)| format!("{title}: {path}")).collect());
    document.text(
        "The samples come from other boots than the counts. A timer of the guest's clock takes them, and fsarena scales \
         them to the counts. No sample is taken while the kernel has interrupts disabled: that time counts for the function \
         that enables interrupts again.",
    );
    let variant_json = |stacks: &VariantStacks| json!({"variant": stacks.variant, "instructions": stacks.instructions, "samples": stacks.total_samples()});
    let json = json!({
        "format": 1,
        "run": run,
        "task": task,
        "variants": variants.iter().map(variant_json).collect::<Vec<_>>(),
        "functions": functions,
    });
    Page { document, json }
}

/// The summary above the table: the difference of two variants and the function that differs most; for another number of
/// variants, the total of each.
fn summary_sentences(variants: &[VariantStacks], functions: &[FunctionInstructions]) -> String {
    let (Some(first), [a, b]) = (functions.first(), variants) else {
        let total = |stacks: &VariantStacks| format!("{} {} M", stacks.variant, format_millions(stacks.instructions));
        let totals: Vec<String> = variants.iter().map(total).collect();
        return format!("Millions of instructions of the kernel: {}.", totals.join(", "));
    };
    let (first_total, second_total) = (a.instructions, b.instructions);
    let totals = format!(
        "{} takes {} M instructions of the kernel, {} {} M: {} M {}.",
        a.variant,
        format_millions(first_total),
        b.variant,
        format_millions(second_total),
        format_millions((second_total - first_total).abs()),
        if second_total < first_total { "less" } else { "more" },
    );
    match (first.difference, first.margin) {
        (Some(difference), Some(margin)) if difference.abs() > margin => {
            // Differences of other functions can add up to more, or have the opposite sign, so that the total even stays equal.
            let total_difference = second_total - first_total;
            let is_most = total_difference != 0.0 && difference / total_difference > 0.5;
            let phrase = if is_most { "Most of the difference is in" } else { "The function that differs most is" };
            format!(
                "{totals} {phrase} {} ({} ± {} M).",
                first.function,
                format_millions(difference),
                format_millions(margin)
            )
        }
        _ => format!("{totals} No function differs by more than its margin of error."),
    }
}

fn functions_table(variants: &[VariantStacks], functions: &[FunctionInstructions]) -> Table {
    let variant_headers = variants.iter().map(|variant| format!("{} (M)", variant.variant));
    let difference_headers = ["difference (M)", "±"].map(String::from).into_iter().filter(|_| variants.len() == 2);
    let row = |function: &FunctionInstructions| {
        let figures = function.instructions.iter().copied().chain(function.difference).chain(function.margin);
        labelled_row(function.function.as_str(), figures.map(|figure| format_millions(figure).into()))
    };
    let header = std::iter::once("function".into()).chain(variant_headers).chain(difference_headers);
    Table::of_figures(header).with_rows(functions.iter().take(MAX_TABLE_ROWS).map(row))
}

fn format_millions(instructions: f64) -> String {
    format!("{:.2}", instructions / 1e6)
}

/// A line for each call stack in the "folded" format that inferno reads: its functions, separated by semicolons, and its
/// thousands of instructions in each variant.
fn folded_stacks(variants: &[&VariantStacks]) -> Vec<String> {
    let mut thousands_by_stack: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (index, variant) in variants.iter().enumerate() {
        for (frames, samples) in &variant.stacks {
            let thousands = (*samples as f64 * variant.instructions_per_sample() / 1e3).round() as u64;
            let by_variant = thousands_by_stack.entry(frames.join(";")).or_insert_with(|| vec![0; variants.len()]);
            by_variant[index] += thousands;
        }
    }
    let mut lines = vec![];
    for (mut line, by_variant) in thousands_by_stack {
        for thousands in by_variant {
            line += &format!(" {thousands}");
        }
        lines.push(line);
    }
    lines
}

/// Draws a flame graph of one variant, or of the differences of two, as SVG. In a graph of differences, the widths show the
/// second variant; red functions take more instructions than in the first, blue ones fewer.
///
/// # Errors
/// If there are no samples.
fn draw_flame_graph(title: &str, variants: &[&VariantStacks]) -> Result<Vec<u8>, Error> {
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "thousand instructions".into();
    // Colours depend on the names of functions, so that the same samples always give the same file.
    options.hash = true;
    let lines = folded_stacks(variants);
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Error::FlameGraph(error.to_string()))?;
    Ok(svg)
}

/// Writes the flame graphs of one task into a directory, which it creates. Returns a title and a path for each.
///
/// # Errors
/// If there are no samples, or a file cannot be written.
pub fn write_flame_graphs(dir: &Path, task: &str, variants: &[VariantStacks]) -> Result<Vec<(String, String)>, Error> {
    std::fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let mut graphs = vec![];
    for (index, variant) in variants.iter().enumerate() {
        graphs.push((format!("{} {task}", variant.variant), index.to_string(), vec![variant]));
    }
    if let [a, b] = variants {
        let title = format!("{task}: {} against {}", b.variant, a.variant);
        graphs.push((title, "difference".into(), vec![a, b]));
    }
    let mut titles_and_paths = vec![];
    for (title, suffix, variants) in graphs {
        let path = dir.join(format!("{}-{suffix}.svg", file_stem(task)));
        std::fs::write(&path, draw_flame_graph(&title, &variants)?).map_err(Error::file(&path))?;
        titles_and_paths.push((title, path.display().to_string()));
    }
    Ok(titles_and_paths)
}

/// Replaces the characters of a task's name that are not letters or digits by `-`.
fn file_stem(task: &str) -> String {
    task.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, instructions: f64, stacks: &[(&[&str], u64)]) -> VariantStacks {
        let to_strings = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let stacks = stacks.iter().map(|(names, samples)| (to_strings(names), *samples)).collect();
        VariantStacks { variant: name.into(), instructions, stacks }
    }

    #[test]
    fn samples_are_scaled_to_the_counted_instructions() {
        let variants = [
            variant("a", 1000.0, &[(&["vfs", "find"], 60), (&["find"], 20), (&["vfs"], 20)]),
            variant("b", 3000.0, &[(&["vfs", "find"], 100), (&["vfs"], 50)]),
        ];
        let functions = instructions_by_function(&variants);
        let names: Vec<&str> = functions.iter().map(|function| function.function.as_str()).collect();
        assert_eq!(names, ["find", "vfs"]);
        assert_eq!(functions[0].instructions, [800.0, 2000.0]);
        assert_eq!(functions[0].difference, Some(1200.0));
        // 80 samples of weight 10, 100 of weight 20.
        let margin = 1.96 * (80.0 * 100.0 + 100.0 * 400.0_f64).sqrt();
        assert!((functions[0].margin.unwrap() - margin).abs() < 1e-9);
        assert!(summary_sentences(&variants, &functions).contains("Most of the difference is in find"));
    }

    #[test]
    fn a_function_with_less_than_half_of_the_difference_is_not_called_most_of_it() {
        let summary_of = |stacks: [&[(&[&str], u64)]; 2], totals: [f64; 2]| {
            let variants = [variant("a", totals[0], stacks[0]), variant("b", totals[1], stacks[1])];
            summary_sentences(&variants, &instructions_by_function(&variants))
        };
        // The kernel takes 1,000 more: x and y 2,000 more each, z 3,000 fewer.
        let opposite = [
            &[(&["x"][..], 10_000), (&["y"], 10_000), (&["z"], 20_000)][..],
            &[(&["x"], 12_000), (&["y"], 12_000), (&["z"], 17_000)],
        ];
        assert!(summary_of(opposite, [40_000.0, 41_000.0]).contains("The function that differs most is z"));
        // The total stays equal: y takes 10,000 more, x 10,000 fewer.
        let equal_totals = [&[(&["x"][..], 20_000), (&["y"], 10_000)][..], &[(&["x"], 10_000), (&["y"], 20_000)]];
        assert!(summary_of(equal_totals, [30_000.0, 30_000.0]).contains("The function that differs most is"));
        let spread = [
            &[(&["x"][..], 100), (&["y"], 100), (&["z"], 100)][..],
            &[(&["x"], 1_000), (&["y"], 1_000), (&["z"], 1_000)],
        ];
        assert!(summary_of(spread, [300.0, 3_000.0]).contains("The function that differs most is"));
    }

    #[test]
    fn functions_of_one_variant_are_sorted_by_instructions() {
        let functions = instructions_by_function(&[variant("a", 10.0, &[(&["x"], 1), (&["y"], 4)])]);
        assert_eq!((functions[0].function.as_str(), functions[0].difference), ("y", None));
        let page = instructions_page("r", "cp", &[variant("a", 10.0, &[])], &[]);
        assert_eq!(page.json["variants"][0]["samples"], 0);
    }

    #[test]
    fn flame_graphs_name_functions_and_are_reproducible() {
        let a = variant("a", 1e6, &[(&["vfs_write", "ext4_write"], 5), (&["vfs_write"], 5)]);
        let b = variant("b", 2e6, &[(&["vfs_write", "ext4_write"], 15), (&["vfs_write"], 5)]);
        let graph = String::from_utf8(draw_flame_graph("cp", &[&a]).unwrap()).unwrap();
        assert!(graph.contains("<svg") && graph.contains("ext4_write (500 thousand instructions"), "{graph}");
        assert_eq!(draw_flame_graph("cp", &[&a]).unwrap(), graph.as_bytes());
        let difference = String::from_utf8(draw_flame_graph("cp", &[&a, &b]).unwrap()).unwrap();
        assert!(difference.contains("ext4_write (1,500 thousand instructions"), "{difference}");
        assert!(difference.contains("+"), "{difference}");
        assert!(draw_flame_graph("cp", &[&variant("a", 1.0, &[])]).is_err());
    }
}
