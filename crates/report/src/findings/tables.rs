//! The matrices themselves: for each mode and variant a table of block sizes by threads.

use super::figures::{iops, megabytes, size, threads};
use crate::document::{Cell, Document, Table, labelled};
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::matrix::finding::Finding;
use std::collections::BTreeMap;

/// Adds the tables. A cell shows operations and megabytes a second, and in brackets the findings it is in.
pub fn add(document: &mut Document, matrix: &Matrix, findings: &[Finding]) {
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
        Cell::two(format!("{}{client}{mark}", iops(operations)), megabytes(moved))
    };
    document.heading(2, "The figures");
    document
        .text("Operations a second, under them megabytes a second. In brackets: the findings of that cell.");
    for (mode, named) in matrix.modes.iter().enumerate() {
        document.heading(3, named.name.as_str());
        for (variant, subject) in matrix.variants.iter().enumerate() {
            let heads = matrix.threads.iter().map(|count| threads(*count));
            let mut table = Table::figures(std::iter::once(subject.name.clone()).chain(heads));
            for (at, bytes) in matrix.sizes.iter().enumerate() {
                let place = |threads| At { variant, mode, size: at, threads };
                let shown: Vec<Cell> = (0..matrix.threads.len()).map(place).map(&cell).collect();
                if shown.iter().any(|cell| !cell.lines.is_empty()) {
                    table.rows.push(labelled(size(*bytes), shown));
                }
            }
            document.table(table);
        }
    }
}
