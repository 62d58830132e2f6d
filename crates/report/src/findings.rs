//! The report on anomalies of a matrix of block sizes and threads, as text and as JSON: the searched cells, the findings,
//! their evidence, and the figures.

use crate::document::{Cell, Document, Table, labelled_row};
use crate::matrix::{format_bandwidth, format_iops, format_size, format_threads};
use crate::number::{percent, plural};
use crate::{finding_sentences::FindingWriter, page::Page};
use fsarena_stats::critical_values::FIRST_LOOK_ROUNDS;
use fsarena_stats::matrix::cells::{CellPosition, Matrix};
use fsarena_stats::matrix::finding::{Finding, FindingPart, Flag, Reliability};
use fsarena_stats::matrix::{ALPHA, MatrixAnalysis};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Makes the page of the findings in a run or in published figures. `source` is the name of the run or figures: `run X`,
/// `published:Y`. If `show_tables` is true, the document also has the tables of figures; the JSON always has the figures.
pub fn findings_page(source: &str, matrix: &Matrix, analysis: &MatrixAnalysis, show_tables: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Anomalies in {source}"));
    document.text(summarise_findings(matrix, analysis));
    document.text(describe_evidence(analysis));
    if analysis.findings.iter().any(|finding| finding.reliability == Reliability::Provisional) {
        document.warning("PROVISIONAL: fewer than 8 rounds give no exact interval.");
    }
    let writer = FindingWriter { matrix };
    document.text(writer.client_bound_note());
    for (number, (title, sentences)) in titled_sentences(matrix, analysis).into_iter().enumerate() {
        document.heading(2, format!("{}. {title}", number + 1));
        document.list(sentences);
    }
    if show_tables {
        add_figure_tables(&mut document, matrix, &analysis.findings);
    }
    Page { document, json: page_json(source, matrix, analysis) }
}

/// The page as JSON. In its matrices, rows are block sizes, columns are thread counts, and null is a missing cell.
fn page_json(source: &str, matrix: &Matrix, analysis: &MatrixAnalysis) -> Value {
    let writer = FindingWriter { matrix };
    json!({
        "format": 1,
        "source": source,
        "rounds": analysis.rounds,
        "comparisons": analysis.comparisons,
        "selected_by_e_bh": analysis.selected_comparisons,
        "findings": analysis.findings.iter().map(|finding| finding_json(&writer, finding)).collect::<Vec<_>>(),
        "client_bound": matrix.client_bound.iter().map(|cell| cell_json(matrix, *cell)).collect::<Vec<_>>(),
        "block_size_bytes": matrix.sizes,
        "threads": matrix.threads,
        "matrices": matrices_json(matrix),
    })
}

fn finding_json(writer: &FindingWriter, finding: &Finding) -> Value {
    let matrix = writer.matrix;
    json!({
        "variant": matrix.variants[finding.variant].name,
        "mode": matrix.modes[finding.mode].name,
        "title": writer.title(finding),
        "sentences": writer.sentences(finding),
        "standing": finding.reliability,
        "selected_by_e_bh": finding.selected,
        "weight": finding.weight(),
        "cells": finding.cells().len(),
        "parts": finding.parts.iter().map(|part| part_json(matrix, part)).collect::<Vec<_>>(),
    })
}

fn part_json(matrix: &Matrix, part: &FindingPart) -> Value {
    json!({
        "rule": part.rule,
        "worst": flag_json(matrix, part.worst_flag()),
        "cells": part.flags.iter().map(|flag| flag_json(matrix, flag)).collect::<Vec<_>>(),
    })
}

fn flag_json(matrix: &Matrix, flag: &Flag) -> Value {
    let interval = (flag.ratio.rounds > 1).then_some([flag.ratio.low, flag.ratio.high]);
    json!({
        "cell": cell_json(matrix, flag.cell),
        "against": flag.reference.map(|cell| cell_json(matrix, cell)),
        "ratio": flag.ratio.value,
        "interval": interval,
        "rounds": flag.ratio.rounds,
    })
}

fn cell_json(matrix: &Matrix, cell: CellPosition) -> Value {
    json!({
        "variant": matrix.variants[cell.variant].name,
        "mode": matrix.modes[cell.mode].name,
        "block_size_bytes": matrix.sizes[cell.size],
        "threads": matrix.threads[cell.threads],
        "iops": matrix.centre_iops(cell),
    })
}

/// The figures of each variant in each mode.
fn matrices_json(matrix: &Matrix) -> Vec<Value> {
    let mut matrices = vec![];
    for (mode, mode_info) in matrix.modes.iter().enumerate() {
        for (variant, variant_info) in matrix.variants.iter().enumerate() {
            let bandwidth_mb_per_s = |cell| matrix.bandwidth(cell).map(|bytes_per_s| bytes_per_s / 1e6);
            matrices.push(json!({
                "variant": variant_info.name,
                "raw_device": variant_info.is_bare_device,
                "mode": mode_info.name,
                "iops": figure_rows(matrix, variant, mode, |cell| matrix.centre_iops(cell)),
                "mb_per_s": figure_rows(matrix, variant, mode, bandwidth_mb_per_s),
            }));
        }
    }
    matrices
}

/// A figure of all cells of a variant in a mode: a row for each block size, a column for each thread count.
fn figure_rows(
    matrix: &Matrix,
    variant: usize,
    mode: usize,
    figure: impl Fn(CellPosition) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    let row = |size: usize| {
        (0..matrix.threads.len()).map(|threads| figure(CellPosition { variant, mode, size, threads })).collect()
    };
    (0..matrix.sizes.len()).map(row).collect()
}

/// The title and the sentences of each finding.
pub fn titled_sentences(matrix: &Matrix, analysis: &MatrixAnalysis) -> Vec<(String, Vec<String>)> {
    let writer = FindingWriter { matrix };
    let title = |finding: &Finding| format!("{}{}", writer.title(finding), reliability_tag(finding));
    analysis.findings.iter().map(|finding| (title(finding), writer.sentences(finding))).collect()
}

/// States the number of findings and the searched cells.
pub fn summarise_findings(matrix: &Matrix, analysis: &MatrixAnalysis) -> String {
    let cell_count = matrix.cells().filter(|cell| !matrix.variants[cell.variant].is_bare_device).count();
    let filesystems = matrix.variants.iter().filter(|variant| !variant.is_bare_device);
    let names: Vec<&str> = filesystems.map(|variant| variant.name.as_str()).collect();
    let searched = format!(
        "{} of {}: {}, {}, {}",
        plural(cell_count, "cell"),
        names.join(", "),
        plural(matrix.modes.len(), "mode"),
        plural(matrix.sizes.len(), "block size"),
        plural(matrix.threads.len(), "thread count"),
    );
    match analysis.findings.len() {
        0 => format!("No anomaly in {searched}."),
        count => format!("{} in {searched}. The largest over the most cells comes first.", plural(count, "finding")),
    }
}

/// Explains the evidence for the findings, which depends on the number of rounds.
pub fn describe_evidence(analysis: &MatrixAnalysis) -> String {
    match analysis.rounds {
        0 | 1 => "Each cell has one value, so chance is unknown: values are compared with fixed tolerances, and a \
                  deviation that no neighbouring cell shares is left out unless it is over 20%."
            .into(),
        rounds if rounds < FIRST_LOOK_ROUNDS => format!(
            "Up to {rounds} rounds a cell. A cell is flagged if the range of its rounds lies beyond the tolerance: with \
             fewer than {FIRST_LOOK_ROUNDS} rounds this range is no confidence interval, and nothing is decided."
        ),
        rounds => format!(
            "Up to {rounds} rounds a cell. A cell is flagged if its 95% interval within rounds lies beyond the \
             tolerance, not corrected for the {} comparisons made; e-BH at {} selects {} of them. A finding \
             is unconfirmed until fresh rounds show it again.",
            analysis.comparisons,
            percent(ALPHA),
            analysis.selected_comparisons
        ),
    }
}

/// Whether fresh rounds confirmed a finding, as a suffix of its title.
fn reliability_tag(finding: &Finding) -> &'static str {
    match finding.reliability {
        Reliability::SingleValues => "",
        Reliability::Provisional => " (provisional)",
        Reliability::Unconfirmed => " (unconfirmed)",
        Reliability::Confirmed => " (confirmed on fresh rounds)",
        Reliability::NotConfirmed => " (NOT confirmed on fresh rounds)",
    }
}

/// Adds the tables of figures. A cell shows operations and megabytes a second, and in brackets the numbers of its findings.
fn add_figure_tables(document: &mut Document, matrix: &Matrix, findings: &[Finding]) {
    let mut finding_numbers: BTreeMap<CellPosition, Vec<String>> = BTreeMap::new();
    for (index, finding) in findings.iter().enumerate() {
        for cell in finding.cells() {
            finding_numbers.entry(cell).or_default().push((index + 1).to_string());
        }
    }
    let table_cell = |cell: CellPosition| {
        let (Some(iops), Some(bandwidth)) = (matrix.centre_iops(cell), matrix.bandwidth(cell)) else {
            return Cell::default();
        };
        let numbers = finding_numbers.get(&cell).map_or(String::new(), |numbers| format!(" [{}]", numbers.join(",")));
        let client_mark = if matrix.client_bound.contains(&cell) { " !" } else { "" };
        Cell::two_lines(format!("{}{client_mark}{numbers}", format_iops(iops)), format_bandwidth(bandwidth))
    };
    document.heading(2, "The figures");
    document.text("Operations a second, under them megabytes a second. In brackets: the findings of that cell.");
    for (mode, mode_info) in matrix.modes.iter().enumerate() {
        document.heading(3, mode_info.name.as_str());
        for (variant, variant_info) in matrix.variants.iter().enumerate() {
            let header = matrix.threads.iter().map(|count| format_threads(*count));
            let mut table = Table::of_figures(std::iter::once(variant_info.name.clone()).chain(header));
            for (size, bytes) in matrix.sizes.iter().enumerate() {
                let position = |threads| CellPosition { variant, mode, size, threads };
                let cells: Vec<Cell> = (0..matrix.threads.len()).map(position).map(&table_cell).collect();
                if cells.iter().any(|cell| !cell.lines.is_empty()) {
                    table.rows.push(labelled_row(format_size(*bytes), cells));
                }
            }
            document.table(table);
        }
    }
}
