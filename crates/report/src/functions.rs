//! Where instructions went: the functions of the kernel in which samples found each variant, how the variants differ, and
//! flame graphs.

use crate::document::{Document, Table, labelled_row};
use crate::{error::Error, page::Page};
use fsarena_core::{cell::TaskId, metric::reading, record::RunRecord};
use inferno::flamegraph::{self, Options};
use serde::Serialize;
use serde_json::json;
use std::{collections::BTreeMap, path::Path};

/// Functions that are printed.
const TOP: usize = 20;
/// A normal deviate is within this many standard deviations in 95% of cases.
const Z95: f64 = 1.96;

/// The stack samples of one task in one variant.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionSamples {
    /// The variant.
    pub variant: String,
    /// Instructions of the kernel in the task, counted without sampling.
    pub instructions: f64,
    /// Chains of functions, outermost first, with their samples.
    pub stacks: Vec<(Vec<String>, u64)>,
}

/// A function, by variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Function {
    /// Its name.
    pub function: String,
    /// Samples that found it running itself, not what it calls; one number a variant.
    pub samples: Vec<u64>,
    /// Its part of the counted instructions, one number a variant.
    pub instructions: Vec<f64>,
    /// The second variant less the first; `None` unless there are two variants.
    pub difference: Option<f64>,
    /// The 95% margin of error of that difference: samples are counts, so their variance is their
    /// number.
    pub margin: Option<f64>,
}

impl FunctionSamples {
    fn samples(&self) -> u64 {
        self.stacks.iter().map(|(_, samples)| samples).sum()
    }

    /// Instructions that one sample stands for.
    fn weight(&self) -> f64 {
        match self.samples() {
            0 => 0.0,
            samples => self.instructions / samples as f64,
        }
    }
}

/// The task of a name, or without one that which took most; and its instructions of the kernel by variant, one number a
/// round.
///
/// # Errors
/// Where the run has counted nothing, or has no such task.
pub fn counted_instructions(
    record: &RunRecord,
    name: &str,
) -> Result<(TaskId, BTreeMap<String, Vec<f64>>), Error> {
    let Some((_, values)) = record.metric(reading::KERNEL_INSTRUCTIONS) else {
        return Err(Error::Usage(format!("run {} has counted nothing yet", record.id)));
    };
    let mut counted: BTreeMap<TaskId, BTreeMap<String, Vec<f64>>> = BTreeMap::new();
    for (row, value) in values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
        let task = &record.tasks[record.samples.task[row] as usize];
        let variant = &record.variants[record.cells[record.samples.cell[row] as usize].variant];
        if task.in_totals {
            let of_task = counted.entry(task.id.clone()).or_default();
            of_task.entry(variant.name.clone()).or_default().push(*value);
        }
    }
    let most = |of_task: &BTreeMap<String, Vec<f64>>| of_task.values().flatten().copied().fold(0.0, f64::max);
    let named = counted.into_iter().filter(|(task, _)| name.is_empty() || task.to_string() == name);
    named.max_by(|a, b| most(&a.1).total_cmp(&most(&b.1))).ok_or_else(|| record.no_task(name).into())
}

/// Every function of every variant: of two variants the largest difference first, else the largest of the first variant.
pub fn functions(variants: &[FunctionSamples]) -> Vec<Function> {
    let mut found: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (at, variant) in variants.iter().enumerate() {
        for (frames, samples) in &variant.stacks {
            let name = frames.last().map_or("(unknown)", String::as_str);
            found.entry(name).or_insert_with(|| vec![0; variants.len()])[at] += samples;
        }
    }
    let weights: Vec<f64> = variants.iter().map(FunctionSamples::weight).collect();
    let mut functions: Vec<Function> =
        found.into_iter().map(|(name, samples)| function(name, samples, &weights)).collect();
    let size = |function: &Function| function.difference.unwrap_or(function.instructions[0]).abs();
    functions.sort_by(|a, b| size(b).total_cmp(&size(a)));
    functions
}

fn function(name: &str, samples: Vec<u64>, weights: &[f64]) -> Function {
    let instructions: Vec<f64> = samples.iter().zip(weights).map(|(n, weight)| *n as f64 * weight).collect();
    let variance: f64 = samples.iter().zip(weights).map(|(n, weight)| *n as f64 * weight * weight).sum();
    let pair = <[f64; 2]>::try_from(instructions.clone()).ok();
    Function {
        function: name.into(),
        samples,
        instructions,
        difference: pair.map(|[a, b]| b - a),
        margin: pair.map(|_| Z95 * variance.sqrt()),
    }
}

/// A page of one task: `pictures` names the flame graphs that were written, with what they show.
pub fn page(run: &str, task: &str, variants: &[FunctionSamples], pictures: &[(String, String)]) -> Page {
    let functions = functions(variants);
    let mut document = Document::default();
    document.heading(1, format!("Where the instructions of {task} go"));
    document.text(answer(variants, &functions));
    document.table(table(variants, &functions));
    document.list(pictures.iter().map(|(about, path)| format!("{about}: {path}")).collect());
    document.text(
        "FunctionSamples in boots of their own, by a timer of the guest's clock, and scaled to the counted instructions. Where the \
         kernel has interrupts off, the sample falls on the function that allows them again.",
    );
    let counted = |variant: &FunctionSamples| json!({"variant": variant.variant, "instructions": variant.instructions, "samples": variant.samples()});
    let json = json!({
        "format": 1,
        "run": run,
        "task": task,
        "variants": variants.iter().map(counted).collect::<Vec<_>>(),
        "functions": functions,
    });
    Page { document, json }
}

/// Summarises the table in one sentence.
fn answer(variants: &[FunctionSamples], functions: &[Function]) -> String {
    let (Some(first), [a, b]) = (functions.first(), variants) else {
        let total = |one: &FunctionSamples| format!("{} {} M", one.variant, millions(one.instructions));
        let totals: Vec<String> = variants.iter().map(total).collect();
        return format!("Millions of instructions of the kernel: {}.", totals.join(", "));
    };
    let (from, to) = (a.instructions, b.instructions);
    let whole = format!(
        "{} takes {} M instructions of the kernel, {} {} M: {} M {}.",
        a.variant,
        millions(from),
        b.variant,
        millions(to),
        millions((to - from).abs()),
        if to < from { "less" } else { "more" },
    );
    match (first.difference, first.margin) {
        (Some(difference), Some(margin)) if difference.abs() > margin => format!(
            "{whole} Most of the difference is in {} ({} ± {} M).",
            first.function,
            millions(difference),
            millions(margin)
        ),
        _ => format!("{whole} No function differs by more than sampling does."),
    }
}

fn table(variants: &[FunctionSamples], functions: &[Function]) -> Table {
    let names = variants.iter().map(|variant| format!("{} (M)", variant.variant));
    let pair = ["difference (M)", "±"].map(String::from).into_iter().filter(|_| variants.len() == 2);
    let row = |one: &Function| {
        let figures = one.instructions.iter().copied().chain(one.difference).chain(one.margin);
        labelled_row(one.function.as_str(), figures.map(|figure| millions(figure).into()))
    };
    let header = std::iter::once("function".into()).chain(names).chain(pair);
    Table::figures(header).with(functions.iter().take(TOP).map(row))
}

fn millions(instructions: f64) -> String {
    format!("{:.2}", instructions / 1e6)
}

/// The flame graph of one variant: every call chain with its thousands of instructions.
///
/// # Errors
/// Fails without samples.
pub fn flame_graph(title: &str, variant: &FunctionSamples) -> Result<Vec<u8>, Error> {
    let lines = variant.stacks.iter().map(|(frames, samples)| {
        format!("{} {}", frames.join(";"), thousand_instructions(variant, *samples))
    });
    draw_flame_graph(title, lines.collect())
}

/// The differential flame graph of two variants. Widths are those of the second; red is more than the first, blue less.
///
/// # Errors
/// Fails without samples.
pub fn differential_flame_graph(
    title: &str,
    [first, second]: [&FunctionSamples; 2],
) -> Result<Vec<u8>, Error> {
    let mut chains: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (at, variant) in [first, second].into_iter().enumerate() {
        for (frames, samples) in &variant.stacks {
            chains.entry(frames.join(";")).or_default()[at] += thousand_instructions(variant, *samples);
        }
    }
    draw_flame_graph(title, chains.into_iter().map(|(chain, [a, b])| format!("{chain} {a} {b}")).collect())
}

fn thousand_instructions(variant: &FunctionSamples, samples: u64) -> u64 {
    (samples as f64 * variant.weight() / 1e3).round() as u64
}

fn draw_flame_graph(title: &str, lines: Vec<String>) -> Result<Vec<u8>, Error> {
    let mut options = Options::default();
    options.title = title.into();
    options.count_name = "thousand instructions".into();
    // The same samples give the same picture.
    options.hash = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, lines.iter().map(String::as_str), &mut svg)
        .map_err(|error| Error::Flame(error.to_string()))?;
    Ok(svg)
}

/// Writes the flame graphs of one task into a directory, and says which file shows what.
///
/// # Errors
/// Fails without samples, or where a file cannot be written.
pub fn write_flame_graphs(
    dir: &Path,
    task: &str,
    variants: &[FunctionSamples],
) -> Result<Vec<(String, String)>, Error> {
    std::fs::create_dir_all(dir).map_err(Error::file(dir))?;
    let mut pictures = vec![];
    let mut keep = |about: String, name: String, svg: Vec<u8>| {
        let path = dir.join(name);
        std::fs::write(&path, svg).map_err(Error::file(&path))?;
        pictures.push((about, path.display().to_string()));
        Ok::<(), Error>(())
    };
    for (at, variant) in variants.iter().enumerate() {
        let about = format!("{} {task}", variant.variant);
        keep(about.clone(), format!("{}-{at}.svg", file_name(task)), flame_graph(&about, variant)?)?;
    }
    if let [a, b] = variants {
        let about = format!("{task}: {} against {}", b.variant, a.variant);
        keep(
            about.clone(),
            format!("{}-difference.svg", file_name(task)),
            differential_flame_graph(&about, [a, b])?,
        )?;
    }
    Ok(pictures)
}

/// A name that any filesystem takes.
fn file_name(task: &str) -> String {
    task.chars().map(|letter| if letter.is_alphanumeric() { letter } else { '-' }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn variant(name: &str, instructions: f64, stacks: &[(&[&str], u64)]) -> FunctionSamples {
        let own = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let stacks = stacks.iter().map(|(names, samples)| (own(names), *samples)).collect();
        FunctionSamples { variant: name.into(), instructions, stacks }
    }

    #[test]
    fn samples_are_scaled_to_what_was_counted() {
        let variants = [
            variant("a", 1000.0, &[(&["vfs", "find"], 60), (&["find"], 20), (&["vfs"], 20)]),
            variant("b", 3000.0, &[(&["vfs", "find"], 100), (&["vfs"], 50)]),
        ];
        let found = functions(&variants);
        let names: Vec<&str> = found.iter().map(|one| one.function.as_str()).collect();
        assert_eq!(names, ["find", "vfs"]);
        assert_eq!(found[0].instructions, [800.0, 2000.0]);
        assert_eq!(found[0].difference, Some(1200.0));
        // 80 samples of weight 10, 100 of weight 20.
        let margin = 1.96 * (80.0 * 100.0 + 100.0 * 400.0_f64).sqrt();
        assert!((found[0].margin.unwrap() - margin).abs() < 1e-9);
        assert!(answer(&variants, &found).contains("Most of the difference is in find"));
    }

    #[test]
    fn one_variant_has_no_difference() {
        let found = functions(&[variant("a", 10.0, &[(&["x"], 1), (&["y"], 4)])]);
        assert_eq!((found[0].function.as_str(), found[0].difference), ("y", None));
        let page = page("r", "cp", &[variant("a", 10.0, &[])], &[]);
        assert_eq!(page.json["variants"][0]["samples"], 0);
    }

    #[test]
    fn pictures_name_functions_and_are_always_the_same() {
        let a = variant("a", 1e6, &[(&["vfs_write", "ext4_write"], 5), (&["vfs_write"], 5)]);
        let b = variant("b", 2e6, &[(&["vfs_write", "ext4_write"], 15), (&["vfs_write"], 5)]);
        let one = String::from_utf8(flame_graph("cp", &a).unwrap()).unwrap();
        assert!(one.contains("<svg") && one.contains("ext4_write (500 thousand instructions"), "{one}");
        assert_eq!(flame_graph("cp", &a).unwrap(), one.as_bytes());
        let two = String::from_utf8(differential_flame_graph("cp", [&a, &b]).unwrap()).unwrap();
        assert!(two.contains("ext4_write (1,500 thousand instructions") && two.contains("+"), "{two}");
        assert!(flame_graph("cp", &variant("a", 1.0, &[])).is_err());
    }
}
