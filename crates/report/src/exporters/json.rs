//! The JSON export: the analysed run as one document. Raw samples are in the CSV export, raw time series in the export of
//! series.

use crate::exporter::{Exporter, write_json};
use crate::sections::claims::{answer_json, conclusion_json};
use crate::sections::slow_rounds::{modes_json, slow_rounds_json};
use crate::sections::tails::tails_json;
use crate::time_series::{self, TimeSeries};
use crate::{error::Error, figures::mean_ratio_json, report::Report, sections::answer::answer_sentences};
use crate::{sections::baseline::baseline_json, sections::costs::costs_json};
use crate::{sections::data_path::data_path_json, sections::decision::Decision, sections::gate::gate_json};
use crate::{sections::layout::layout_json, sections::pair::pair_json, sections::ranking::ranking_json};
use fsarena_core::observations::{AgedImages, invalid_reason};
use fsarena_core::record::RunRecord;
use fsarena_stats::analyse::{Analysis, Overall, TaskAnalysis};
use fsarena_stats::comparison::{Comparison, VariantResult};
use fsarena_stats::judge::{JudgedClaim, decided_in_family};
use fsarena_stats::{conclusion::CheckedConclusion, mean_ratio::WithheldReason, verdict::exit_code};
use serde_json::{Value, json};
use std::io::Write;

/// The exporter of the analysed run as one JSON document.
pub const JSON: Exporter = Exporter {
    file_in_run_dir: |_| Some("report.json"),
    ..Exporter::new("json", "the analysed run as one document, with units in names; rounds count from 0", export_json)
};

fn export_json(report: &Report, out: &mut dyn Write) -> Result<(), Error> {
    let record = &report.record;
    let notes: Vec<Value> = record.notes.iter().map(|(round, note)| json!({"round": round, "note": note})).collect();
    let document = json!({
        "format": 1,
        "run": run_json(record),
        "plan": record.plan,
        "hosts": record.hosts,
        "variants": record.variants,
        "cells": record.cells,
        "resolution": report.resolution_sentence,
        "decision": Decision::new(report).map(|decision| decision.json()),
        "gate": gate_json(report),
        "pair": pair_json(report),
        "baseline": baseline_json(report),
        "costs": costs_json(report),
        "modes": modes_json(report),
        "slow_rounds": slow_rounds_json(report),
        "ranking": ranking_json(report),
        "analyses": report.analyses.iter().map(|analysis| analysis_json(record, analysis)).collect::<Vec<_>>(),
        "reached": data_path_json(report),
        "layout": layout_json(report),
        "time_series": time_series_json(record),
        "pooled_latencies": tails_json(report),
        "series_left_out_count": record.series.left_out,
        "claims": claims_json(&report.claims),
        "exit": report.exit_code().code(),
        "conclusions": report.conclusions.iter().map(checked_json).collect::<Vec<_>>(),
        "notes": notes,
    });
    write_json(&document, out)
}

fn run_json(record: &RunRecord) -> Value {
    json!({
        "id": record.id,
        "fsarena": record.version,
        "started": record.started,
        "ended": record.ended,
        "complete": record.status.complete,
        "why": record.status.why,
        "commands": record.commands,
    })
}

fn analysis_json(record: &RunRecord, analysis: &Analysis) -> Value {
    let names = record.names();
    let median_key = analysis.metric.unit.with_suffix("median");
    let to_json = |comparison: &Comparison| comparison_json(&names, &median_key, comparison);
    let task = |task: &TaskAnalysis| {
        let mut value = to_json(&task.comparison);
        value["task"] = json!(task.task);
        // The reason why the totals leave the task out; null if they include it.
        let left_out = task
            .unranked_because
            .and_then(|_| invalid_reason(record, &analysis.metric.id, record.task(&task.task.id)?));
        value["left_out"] = json!(left_out);
        value
    };
    let overall = |overall: &Overall| {
        json!({
            "tasks": overall.tasks,
            "of_tasks": overall.tasks_in_totals,
            "total": overall.total.as_ref().map(|total| to_json(&total.comparison)),
            "geometric_mean": to_json(&overall.geometric.comparison),
            // Rounds without a value of every task. They differ from the dropped rounds, which were disturbed.
            "left_out_rounds": overall.total_or_geometric().left_out_rounds,
            "with_dropped_rounds": overall.with_all_rounds.as_ref().map(to_json),
        })
    };
    let mut value = json!({
        "metric": analysis.metric,
        "rounds": analysis.grid.by_round().rounds,
        "dropped_rounds": analysis.dropped,
        "provisional": analysis.is_provisional(),
        "interval": "95% for the median ratio of each pair, not corrected for the number of pairs",
        "tasks": analysis.tasks.iter().map(task).collect::<Vec<_>>(),
        "overall": analysis.overall.as_ref().map(overall),
        "answer": answer_sentences(&names, analysis),
    });
    // Intervals are over images if the run has aged ones.
    if let Some(AgedImages { count, passes, incomplete, .. }) = analysis.grid.images() {
        value["aged_images"] = json!({ "count": count, "rounds_on_each": passes, "left_out_rounds": incomplete });
    }
    value
}

/// The comparison of all variants. `median_key` is the key of their medians, with the unit.
fn comparison_json(names: &[&str], median_key: &str, comparison: &Comparison) -> Value {
    let name = |variant: usize| names[variant];
    let variant = |(variant, result): (usize, &VariantResult)| {
        let mut value = json!({
            "variant": names[variant],
            "rounds": result.rounds,
            "rank": result.rank,
            "ratio_to_best": result.ratio,
            "mean_ratio_to_best": result.mean_ratio.as_ref().map(mean_ratio_json),
            "groups": result.letters,
            "excluded_pairs": result.excluded,
        });
        value[median_key] = json!(result.median);
        value
    };
    json!({
        "best": comparison.best().map(name),
        "winner": comparison.winner().map(name),
        "not_significantly_different_from_best": comparison.without_significant_difference().into_iter().map(name).collect::<Vec<_>>(),
        "too_few_rounds": comparison.with_too_few_rounds().into_iter().map(name).collect::<Vec<_>>(),
        "provisional": comparison.is_provisional(),
        "variants": comparison.variants.iter().enumerate().map(variant).collect::<Vec<_>>(),
    })
}

/// The time series of all tasks and variants that have one.
fn time_series_json(record: &RunRecord) -> Value {
    let series = |series: &TimeSeries| {
        let mut value = json!(series);
        value["task"] = json!(record.tasks[series.task].id.to_string());
        value["variant"] = json!(record.variants[series.variant].name);
        value
    };
    Value::Array(time_series::time_series_of_run(record).iter().map(series).collect())
}

fn claims_json(claims: &[JudgedClaim]) -> Value {
    let family = decided_in_family(claims);
    let claims = claims.iter().enumerate();
    Value::Array(claims.map(|(index, judged)| claim_json(judged, family.contains(&index))).collect())
}

/// A claim and its verdict. `in_family` is whether the claim holds after the correction for the number of claims.
fn claim_json(judged: &JudgedClaim, in_family: bool) -> Value {
    let mut value = json!({
        "claim": judged.claim,
        "average": judged.claim.average,
        "outcome": judged.outcome().name(),
        "exit": exit_code(&[judged.outcome()]).code(),
        "missing": judged.why_unjudged,
        "against": judged.rival,
        "stands_in_family": in_family,
        "excluded_pairs": judged.excluded,
        "outcome_with_dropped_rounds": judged.outcome_with_all_rounds.map(|outcome| outcome.name()),
    });
    if let Some(verdict) = &judged.verdict {
        // Effects are changes: 0.05 is a ratio of 1.05.
        let ratios = |(low, high): (f64, f64)| json!({"low": 1.0 + low, "high": 1.0 + high});
        value["rounds"] = json!(verdict.rounds);
        value["provisional"] = json!(verdict.provisional);
        value["no_interval_because"] = json!(verdict.withheld.map(WithheldReason::text));
        value["effect_ratio"] = json!(1.0 + verdict.effect);
        value["interval_95_ratio"] = ratios(verdict.interval);
        value["interval_90_ratio"] = ratios(verdict.interval_90);
        value["excludes_beyond_percent"] = json!(100.0 * verdict.largest_possible_difference());
        value["smaller_than_margin"] = json!(verdict.negligible);
        value["shapes_differ"] = json!(verdict.shapes_differ);
        // JSON has no infinity.
        value["e_value"] = json!(verdict.e_value.min(f64::MAX));
    }
    value
}

fn checked_json(checked: &CheckedConclusion) -> Value {
    let (then, here) = (answer_json(&checked.published_verdict), answer_json(&checked.run_verdict));
    conclusion_json(&checked.conclusion, json!({"then": then, "here": here}))
}
