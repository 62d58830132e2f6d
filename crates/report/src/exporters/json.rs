//! The JSON export: the analysed run as one document. Raw samples are in the CSV export, raw time series in the export of
//! series.

use crate::exporter::{Exporter, write_json};
use crate::sections::claims::{conclusion_json, conclusion_verdict_json};
use crate::sections::slow_rounds::{modes_json, slow_rounds_json};
use crate::sections::tails::tails_json;
use crate::time_series::{self, TimeSeries};
use crate::{error::Error, figures::mean_ratio_json, report::Report, sections::answer::answer_sentences};
use crate::{sections::baseline::baseline_json, sections::level_costs::level_costs_json};
use crate::{sections::data_path::data_path_json, sections::decision::Decision, sections::gate::gate_json};
use crate::{sections::layout::layout_json, sections::pair::pair_json, sections::ranking::ranking_json};
use fsarena_core::observations::{RoundsByImage, invalid_reason};
use fsarena_core::record::{MetricSpec, RunRecord};
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
        "decision": Decision::new(report).map(|decision| decision.to_json()),
        "gate": gate_json(report),
        "pair": pair_json(report),
        "baseline": baseline_json(report),
        "costs": level_costs_json(report),
        "modes": modes_json(report),
        "slow_rounds": slow_rounds_json(report),
        "ranking": ranking_json(report),
        "analyses": report.analyses.iter().map(|analysis| analysis_json(record, analysis)).collect::<Vec<_>>(),
        "reached": data_path_json(report),
        "layout": layout_json(report),
        "time_series": time_series_json(record),
        "pooled_latencies": tails_json(report),
        "series_left_out_count": record.series.omitted_count,
        "claims": claims_json(&report.claims),
        "exit": report.exit_code().code(),
        "conclusions": report.conclusions.iter().map(checked_conclusion_json).collect::<Vec<_>>(),
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
        "commands": record.command_count,
    })
}

fn analysis_json(record: &RunRecord, analysis: &Analysis) -> Value {
    let names = record.variant_names();
    let mut value = json!({
        "metric": analysis.metric,
        "rounds": analysis.grid.by_round().rounds,
        "dropped_rounds": analysis.dropped,
        "provisional": analysis.is_provisional(),
        "interval": "95% for the median ratio of each pair, not corrected for the number of pairs",
        "tasks": analysis.tasks.iter().map(|task| task_json(record, &analysis.metric, task)).collect::<Vec<_>>(),
        "overall": analysis.overall.as_ref().map(|overall| overall_json(record, &analysis.metric, overall)),
        "answer": answer_sentences(&names, analysis),
    });
    // Intervals are over images if the run has aged ones.
    if let Some(RoundsByImage { image_count, complete_passes, uncounted_rounds, .. }) = analysis.grid.images() {
        value["aged_images"] =
            json!({ "count": image_count, "rounds_on_each": complete_passes, "left_out_rounds": uncounted_rounds });
    }
    value
}

/// The comparison of the variants on one task. `left_out` is the reason why the totals leave the task out; null if they include
/// it.
fn task_json(record: &RunRecord, metric: &MetricSpec, task: &TaskAnalysis) -> Value {
    let left_out =
        task.unranked_because.and_then(|_| invalid_reason(record, &metric.id, record.task_index(&task.task.id)?));
    let mut value = comparison_json(record, metric, &task.comparison);
    value["task"] = json!(task.task);
    value["left_out"] = json!(left_out);
    value
}

/// The comparison of the variants over all tasks.
fn overall_json(record: &RunRecord, metric: &MetricSpec, overall: &Overall) -> Value {
    json!({
        "tasks": overall.task_count,
        "of_tasks": overall.task_count_in_totals,
        "total": overall.total.as_ref().map(|total| comparison_json(record, metric, &total.comparison)),
        "geometric_mean": comparison_json(record, metric, &overall.geometric.comparison),
        // Rounds without a value of every task. They differ from the dropped rounds, which were disturbed.
        "left_out_rounds": overall.total_or_geometric().left_out_rounds,
        "with_dropped_rounds": overall.with_all_rounds.as_ref().map(|all| comparison_json(record, metric, all)),
    })
}

/// The comparison of all variants.
fn comparison_json(record: &RunRecord, metric: &MetricSpec, comparison: &Comparison) -> Value {
    let name = |variant: usize| &record.variants[variant].name;
    let median_key = metric.unit.with_suffix("median");
    let variant_json = |(variant, result): (usize, &VariantResult)| {
        let mut value = json!({
            "variant": name(variant),
            "rounds": result.rounds,
            "rank": result.rank,
            "ratio_to_best": result.ratio,
            "mean_ratio_to_best": result.mean_ratio.as_ref().map(mean_ratio_json),
            "groups": result.letters,
            "excluded_pairs": result.excluded_rounds,
        });
        value[median_key.as_str()] = json!(result.median);
        value
    };
    json!({
        "best": comparison.best().map(name),
        "winner": comparison.winner().map(name),
        "not_significantly_different_from_best": comparison.without_significant_difference().into_iter().map(name).collect::<Vec<_>>(),
        "too_few_rounds": comparison.with_too_few_rounds().into_iter().map(name).collect::<Vec<_>>(),
        "provisional": comparison.is_provisional(),
        "variants": comparison.variants.iter().enumerate().map(variant_json).collect::<Vec<_>>(),
    })
}

/// The time series of all tasks and variants that have one.
fn time_series_json(record: &RunRecord) -> Value {
    let series_json = |series: &TimeSeries| {
        let mut value = json!(series);
        value["task"] = json!(record.tasks[series.task].id.to_string());
        value["variant"] = json!(record.variants[series.variant].name);
        value
    };
    Value::Array(time_series::time_series_of_run(record).iter().map(series_json).collect())
}

fn claims_json(claims: &[JudgedClaim]) -> Value {
    let decided = decided_in_family(claims);
    let claims = claims.iter().enumerate();
    Value::Array(claims.map(|(index, judged)| claim_json(judged, decided.contains(&index))).collect())
}

/// A claim and its verdict. `is_decided_in_family`: whether the claim is still decided after the correction for the number of
/// claims.
fn claim_json(judged: &JudgedClaim, is_decided_in_family: bool) -> Value {
    let mut value = json!({
        "claim": judged.claim,
        "average": judged.claim.average,
        "outcome": judged.outcome().name(),
        "exit": exit_code(&[judged.outcome()]).code(),
        "missing": judged.why_unjudged,
        "against": judged.rival,
        "stands_in_family": is_decided_in_family,
        "excluded_pairs": judged.excluded_rounds,
        "outcome_with_dropped_rounds": judged.outcome_with_all_rounds.map(|outcome| outcome.name()),
    });
    if let Some(verdict) = &judged.verdict {
        // Effects are changes: 0.05 is a ratio of 1.05.
        let ratio_interval = |(low, high): (f64, f64)| json!({"low": 1.0 + low, "high": 1.0 + high});
        value["rounds"] = json!(verdict.rounds);
        value["provisional"] = json!(verdict.provisional);
        value["no_interval_because"] = json!(verdict.withheld.map(WithheldReason::name));
        value["effect_ratio"] = json!(1.0 + verdict.effect);
        value["interval_95_ratio"] = ratio_interval(verdict.interval);
        value["interval_90_ratio"] = ratio_interval(verdict.interval_90);
        value["excludes_beyond_percent"] = json!(100.0 * verdict.largest_possible_difference());
        value["smaller_than_margin"] = json!(verdict.negligible);
        value["shapes_differ"] = json!(verdict.shapes_differ);
        // JSON has no infinity.
        value["e_value"] = json!(verdict.e_value.min(f64::MAX));
    }
    value
}

/// A conclusion with its verdicts on the published figures (`then`) and on the run (`here`).
fn checked_conclusion_json(checked: &CheckedConclusion) -> Value {
    let (then, here) =
        (conclusion_verdict_json(&checked.published_verdict), conclusion_verdict_json(&checked.run_verdict));
    conclusion_json(&checked.conclusion, json!({"then": then, "here": here}))
}
