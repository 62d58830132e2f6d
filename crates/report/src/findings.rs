//! The report on anomalies of a matrix of block sizes and threads, as text and as JSON: the searched cells, the findings,
//! their evidence, and the figures.

use crate::document::{Cell, Document, Table, labelled_row};
use crate::matrix::{bandwidth_words, iops_words, size_words, thread_words};
use crate::number::{percent, plural};
use crate::{finding_sentences::MatrixWriter, page::Page};
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::matrix::finding::{Finding, Flag, Part, Standing};
use fsarena_stats::matrix::{ALPHA, Analysis};
use fsarena_stats::table::FIRST_LOOK;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Makes the page of the findings in a run or in published figures. `source` names these: `run X`, `published:Y`. With
/// `tables` the document also shows the figures; the JSON always has them.
pub fn page(source: &str, matrix: &Matrix, analysis: &Analysis, tables: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Anomalies in {source}"));
    document.text(summary(matrix, analysis));
    document.text(grounds(analysis));
    if analysis.findings.iter().any(|finding| finding.standing == Standing::Provisional) {
        document.warning("PROVISIONAL: fewer than 8 rounds give no exact interval.");
    }
    let writer = MatrixWriter { matrix };
    document.text(writer.client_bound());
    for (number, (title, sentences)) in titled_sentences(matrix, analysis).into_iter().enumerate() {
        document.heading(2, format!("{}. {title}", number + 1));
        document.list(sentences);
    }
    if tables {
        add_tables(&mut document, matrix, &analysis.findings);
    }
    Page { document, json: page_json(source, matrix, analysis) }
}

/// The page as JSON. In its matrices, rows are block sizes, columns are thread counts, and null is a missing cell.
fn page_json(source: &str, matrix: &Matrix, analysis: &Analysis) -> Value {
    let writer = MatrixWriter { matrix };
    json!({
        "format": 1,
        "source": source,
        "rounds": analysis.rounds,
        "comparisons": analysis.trials,
        "selected_by_e_bh": analysis.selected,
        "findings": analysis.findings.iter().map(|finding| finding_json(&writer, finding)).collect::<Vec<_>>(),
        "client_bound": matrix.all_client_bound().iter().map(|at| cell_json(matrix, *at)).collect::<Vec<_>>(),
        "block_size_bytes": matrix.sizes,
        "threads": matrix.threads,
        "matrices": matrices_json(matrix),
    })
}

fn finding_json(writer: &MatrixWriter, finding: &Finding) -> Value {
    let matrix = writer.matrix;
    json!({
        "variant": matrix.variants[finding.variant].name,
        "mode": matrix.modes[finding.mode].name,
        "title": writer.title(finding),
        "sentences": writer.sentences(finding),
        "standing": finding.standing,
        "selected_by_e_bh": finding.selected,
        "weight": finding.weight(),
        "cells": finding.cells().len(),
        "parts": finding.parts.iter().map(|part| part_json(matrix, part)).collect::<Vec<_>>(),
    })
}

fn part_json(matrix: &Matrix, part: &Part) -> Value {
    json!({
        "rule": part.rule,
        "worst": flag_json(matrix, part.worst()),
        "cells": part.flags.iter().map(|flag| flag_json(matrix, flag)).collect::<Vec<_>>(),
    })
}

fn flag_json(matrix: &Matrix, flag: &Flag) -> Value {
    let interval = (flag.ratio.rounds > 1).then_some([flag.ratio.low, flag.ratio.high]);
    json!({
        "cell": cell_json(matrix, flag.at),
        "against": flag.against.map(|at| cell_json(matrix, at)),
        "ratio": flag.ratio.value,
        "interval": interval,
        "rounds": flag.ratio.rounds,
    })
}

fn cell_json(matrix: &Matrix, at: At) -> Value {
    json!({
        "variant": matrix.variants[at.variant].name,
        "mode": matrix.modes[at.mode].name,
        "block_size_bytes": matrix.sizes[at.size],
        "threads": matrix.threads[at.threads],
        "iops": matrix.iops(at),
    })
}

fn matrices_json(matrix: &Matrix) -> Vec<Value> {
    let mut matrices = vec![];
    for (mode, info) in matrix.modes.iter().enumerate() {
        for (variant, subject) in matrix.variants.iter().enumerate() {
            let bandwidth_mb = |at| matrix.bandwidth(at).map(|bytes| bytes / 1e6);
            matrices.push(json!({
                "variant": subject.name,
                "raw_device": subject.raw,
                "mode": info.name,
                "iops": matrix_rows(matrix, variant, mode, |at| matrix.iops(at)),
                "mb_per_s": matrix_rows(matrix, variant, mode, bandwidth_mb),
            }));
        }
    }
    matrices
}

/// A figure of all cells of a variant in a mode: a row for each block size, a column for each thread count.
fn matrix_rows(
    matrix: &Matrix,
    variant: usize,
    mode: usize,
    figure: impl Fn(At) -> Option<f64>,
) -> Vec<Vec<Option<f64>>> {
    let row = |size: usize| {
        (0..matrix.threads.len()).map(|threads| figure(At { variant, mode, size, threads })).collect()
    };
    (0..matrix.sizes.len()).map(row).collect()
}

/// The title and the sentences of each finding.
pub fn titled_sentences(matrix: &Matrix, analysis: &Analysis) -> Vec<(String, Vec<String>)> {
    let writer = MatrixWriter { matrix };
    let title = |finding: &Finding| format!("{}{}", writer.title(finding), standing_tag(finding));
    analysis.findings.iter().map(|finding| (title(finding), writer.sentences(finding))).collect()
}

/// States the number of findings and the searched cells.
pub fn summary(matrix: &Matrix, analysis: &Analysis) -> String {
    let cells = matrix.places().filter(|at| !matrix.variants[at.variant].raw).count();
    let filesystems = matrix.variants.iter().filter(|variant| !variant.raw);
    let names: Vec<&str> = filesystems.map(|variant| variant.name.as_str()).collect();
    let searched = format!(
        "{} of {}: {}, {}, {}",
        plural(cells, "cell"),
        names.join(", "),
        plural(matrix.modes.len(), "mode"),
        plural(matrix.sizes.len(), "block size"),
        plural(matrix.threads.len(), "thread count"),
    );
    match analysis.findings.len() {
        0 => format!("No anomaly in {searched}."),
        found => format!(
            "{} in {searched}. The largest over the most cells comes first.",
            plural(found, "finding")
        ),
    }
}

/// Explains the evidence for the findings, which depends on the number of rounds.
pub fn grounds(analysis: &Analysis) -> String {
    match analysis.rounds {
        0 | 1 => {
            "Each cell has one value, so chance is unknown: values are compared with fixed tolerances, and a \
                  deviation that no neighbouring cell shares is left out unless it is over 20%."
                .into()
        }
        rounds if rounds < FIRST_LOOK => format!(
            "Up to {rounds} rounds a cell. A cell is flagged if the range of its rounds lies beyond the tolerance: with \
             fewer than {FIRST_LOOK} rounds this range is no confidence interval, and nothing is decided."
        ),
        rounds => format!(
            "Up to {rounds} rounds a cell. A cell is flagged if its 95% interval within rounds lies beyond the \
             tolerance, not corrected for the {} comparisons made; e-BH at {} selects {} of them. A finding \
             is unconfirmed until fresh rounds show it again.",
            analysis.trials,
            percent(ALPHA),
            analysis.selected
        ),
    }
}

/// Whether fresh rounds confirmed a finding, as a suffix of its title.
fn standing_tag(finding: &Finding) -> &'static str {
    match finding.standing {
        Standing::Table => "",
        Standing::Provisional => " (provisional)",
        Standing::Unconfirmed => " (unconfirmed)",
        Standing::Confirmed => " (confirmed on fresh rounds)",
        Standing::NotConfirmed => " (NOT confirmed on fresh rounds)",
    }
}

/// Adds the tables of figures. A cell shows operations and megabytes a second, and in brackets the numbers of its findings.
fn add_tables(document: &mut Document, matrix: &Matrix, findings: &[Finding]) {
    let mut marks: BTreeMap<At, Vec<String>> = BTreeMap::new();
    for (number, finding) in findings.iter().enumerate() {
        for at in finding.cells() {
            marks.entry(at).or_default().push((number + 1).to_string());
        }
    }
    let cell = |at: At| {
        let (Some(operations), Some(moved)) = (matrix.iops(at), matrix.bandwidth(at)) else {
            return Cell::default();
        };
        let mark = marks.get(&at).map_or(String::new(), |numbers| format!(" [{}]", numbers.join(",")));
        let client = if matrix.client_bound(at) { " !" } else { "" };
        Cell::two_lines(format!("{}{client}{mark}", iops_words(operations)), bandwidth_words(moved))
    };
    document.heading(2, "The figures");
    document
        .text("Operations a second, under them megabytes a second. In brackets: the findings of that cell.");
    for (mode, named) in matrix.modes.iter().enumerate() {
        document.heading(3, named.name.as_str());
        for (variant, subject) in matrix.variants.iter().enumerate() {
            let heads = matrix.threads.iter().map(|count| thread_words(*count));
            let mut table = Table::figures(std::iter::once(subject.name.clone()).chain(heads));
            for (at, bytes) in matrix.sizes.iter().enumerate() {
                let place = |threads| At { variant, mode, size: at, threads };
                let shown: Vec<Cell> = (0..matrix.threads.len()).map(place).map(&cell).collect();
                if shown.iter().any(|cell| !cell.lines.is_empty()) {
                    table.rows.push(labelled_row(size_words(*bytes), shown));
                }
            }
            document.table(table);
        }
    }
}
