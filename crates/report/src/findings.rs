//! Anomalies of a block-size × threads matrix, for people and for programs.

pub(crate) mod figures;
pub mod rows;
pub(crate) mod summary;
mod tables;
mod words;

use crate::{document::Document, page::Page};
use fsarena_stats::matrix::Analysis;
use fsarena_stats::matrix::cells::{At, Matrix};
use fsarena_stats::matrix::finding::Flag;
use fsarena_stats::matrix::finding::{Finding, Part, Standing};
use serde_json::{Value, json};
use summary::{grounds, summary, told};
use words::Speaker;

/// The findings of a run or of a published set (`source`: `run X`, `published:Y`). With `tables` the document
/// shows the figures too; the JSON always has them.
pub fn page(source: &str, matrix: &Matrix, analysis: &Analysis, tables: bool) -> Page {
    let mut document = Document::default();
    document.heading(1, format!("Anomalies in {source}"));
    document.text(summary(matrix, analysis));
    document.text(grounds(analysis));
    if analysis.findings.iter().any(|finding| finding.standing == Standing::Provisional) {
        document.loud("PROVISIONAL: fewer than 8 rounds give no exact interval.");
    }
    let speaker = Speaker { matrix };
    document.text(speaker.client_bound());
    for (number, (title, sentences)) in told(matrix, analysis).into_iter().enumerate() {
        document.heading(2, format!("{}. {title}", number + 1));
        document.list(sentences);
    }
    if tables {
        tables::add(&mut document, matrix, &analysis.findings);
    }
    Page { document, json: whole(source, matrix, analysis) }
}

/// The whole document. Rows of the matrices are block sizes, columns are thread counts; null is a hole.
fn whole(source: &str, matrix: &Matrix, analysis: &Analysis) -> Value {
    let speaker = Speaker { matrix };
    json!({
        "format": 1,
        "source": source,
        "rounds": analysis.rounds,
        "comparisons": analysis.trials,
        "selected_by_e_bh": analysis.selected,
        "findings": analysis.findings.iter().map(|f| finding(&speaker, f)).collect::<Vec<_>>(),
        "client_bound": matrix.all_client_bound().iter().map(|at| place(matrix, *at)).collect::<Vec<_>>(),
        "block_size_bytes": matrix.sizes,
        "threads": matrix.threads,
        "matrices": matrices(matrix),
    })
}

fn finding(speaker: &Speaker, finding: &Finding) -> Value {
    let matrix = speaker.matrix;
    json!({
        "variant": matrix.variants[finding.variant].name,
        "mode": matrix.modes[finding.mode].name,
        "title": speaker.title(finding),
        "sentences": speaker.sentences(finding),
        "standing": finding.standing,
        "selected_by_e_bh": finding.selected,
        "weight": finding.weight(),
        "cells": finding.cells().len(),
        "parts": finding.parts.iter().map(|p| part(matrix, p)).collect::<Vec<_>>(),
    })
}

fn part(matrix: &Matrix, part: &Part) -> Value {
    json!({
        "rule": part.rule,
        "worst": flag(matrix, part.worst()),
        "cells": part.flags.iter().map(|f| flag(matrix, f)).collect::<Vec<_>>(),
    })
}

fn flag(matrix: &Matrix, flag: &Flag) -> Value {
    let interval = (flag.ratio.rounds > 1).then_some([flag.ratio.low, flag.ratio.high]);
    json!({
        "cell": place(matrix, flag.at),
        "against": flag.against.map(|at| place(matrix, at)),
        "ratio": flag.ratio.value,
        "interval": interval,
        "rounds": flag.ratio.rounds,
    })
}

fn place(matrix: &Matrix, at: At) -> Value {
    json!({
        "variant": matrix.variants[at.variant].name,
        "mode": matrix.modes[at.mode].name,
        "block_size_bytes": matrix.sizes[at.size],
        "threads": matrix.threads[at.threads],
        "iops": matrix.iops(at),
    })
}

fn matrices(matrix: &Matrix) -> Vec<Value> {
    let rows = |variant: usize, mode: usize, figure: &dyn Fn(At) -> Option<f64>| -> Vec<Vec<Option<f64>>> {
        let row = |size| {
            (0..matrix.threads.len()).map(|threads| figure(At { variant, mode, size, threads })).collect()
        };
        (0..matrix.sizes.len()).map(row).collect()
    };
    let one = |(mode, variant): (usize, usize)| {
        json!({
            "variant": matrix.variants[variant].name,
            "raw_device": matrix.variants[variant].raw,
            "mode": matrix.modes[mode].name,
            "iops": rows(variant, mode, &|at| matrix.iops(at)),
            "mb_per_s": rows(variant, mode, &|at| matrix.bandwidth(at).map(|moved| moved / 1e6)),
        })
    };
    let modes = 0..matrix.modes.len();
    modes.flat_map(|mode| (0..matrix.variants.len()).map(move |variant| (mode, variant))).map(one).collect()
}
