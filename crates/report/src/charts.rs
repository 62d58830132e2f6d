//! Builds the charts of an analysed run as plain data for the renderer. A kind of chart for which the run has no data returns
//! no chart.

mod ageing;
mod bars;
mod clients;
mod cpu;
pub(crate) mod differences;
mod growth;
mod latency;
mod matrix;
mod requests;
mod schedulers;
pub mod standing;
mod timeline;

use crate::{chart_context::ChartContext, drawing::Chart, report::Report};
use std::collections::BTreeSet;

/// Builds the charts of one kind. Charts without a panel are left out of the report.
type ChartKind = fn(&ChartContext) -> Vec<Chart>;

/// All kinds of charts, in the order of a report. A new kind is a file in `charts/` and a line here.
const CHART_KINDS: &[ChartKind] = &[
    standing::standing_charts,
    bars::ratio_charts,
    bars::median_charts,
    clients::client_charts,
    growth::growth_charts,
    ageing::age_charts,
    ageing::layout_charts,
    schedulers::scheduler_charts,
    requests::request_cost_charts,
    matrix::heatmap_charts,
    matrix::thread_curve_charts,
    differences::two_speed_charts,
    differences::strip_charts,
    differences::narrowing_charts,
    latency::percentile_charts,
    latency::pooled_charts,
    timeline::task_timeline_charts,
    timeline::run_timeline_charts,
    cpu::cpu_charts,
    cpu::time_spent_charts,
];

/// All charts of a report.
pub fn charts_of_report(report: &Report) -> Vec<Chart> {
    let context = ChartContext::new(report);
    let charts = CHART_KINDS.iter().flat_map(|kind| kind(&context));
    with_unique_ids(charts.filter(|chart| !chart.panels.is_empty()))
}

/// Returns the charts with unique ids. An id becomes a file name, so charts of the tasks `cp a` and `cp-a` would have the same.
fn with_unique_ids(charts: impl Iterator<Item = Chart>) -> Vec<Chart> {
    let mut used_ids = BTreeSet::new();
    let mut unique_charts = vec![];
    for mut chart in charts {
        let id = chart.id.clone();
        let mut number = 1;
        while !used_ids.insert(chart.id.clone()) {
            number += 1;
            chart.id = format!("{id}-{number}");
        }
        unique_charts.push(chart);
    }
    unique_charts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_tasks_with_similar_names_have_different_files() {
        let charts = ["cp a", "cp-a", "rm", "cp_a"].map(|id| Chart::new(id, "", ""));
        let ids: Vec<String> = with_unique_ids(charts.into_iter()).into_iter().map(|chart| chart.id).collect();
        assert_eq!(ids, ["cp-a", "cp-a-2", "rm", "cp-a-3"]);
    }

    #[test]
    fn every_kind_is_registered() {
        let name_of_kind = |line: &str| {
            Some(line.strip_prefix("pub fn ")?.strip_suffix("(context: &ChartContext) -> Vec<Chart> {")?.to_string())
        };
        crate::registry::assert_complete("charts", include_str!("charts.rs"), name_of_kind);
    }
}
