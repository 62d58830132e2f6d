//! The section that compares two variants, B with A: the difference in each metric, and the metric that needs the fewest
//! rounds.

use crate::document::{Cell, Detail, Document, FigureSource, Table, row, row_with_source};
use crate::figures::{describe_mean_ratio, mean_cost_caveat, mean_ratio_cell, mean_ratio_json};
use crate::number::{effect_and_interval, percent, plural};
use crate::report::Report;
use crate::{pair::PairRow, phrases::format_rounds_needed, ratio_verdict::RatioVerdict, scaling::curves::ClientCurves};
use fsarena_stats::mean_ratio::ROUNDS_FOR_MEAN_RATIO;
use serde_json::{Value, json};

/// The difference of B to A with its interval: `+7.5% [+2% to +13%]`; without the interval if there is only one round.
pub fn describe_difference(row: &PairRow, margin: f64) -> String {
    let (value, interval) = difference_lines(row, margin);
    if row.ratio.rounds < 2 { value } else { format!("{value} [{interval}]") }
}

/// A cell with the difference of B to A, and in its second line the interval and the number of excluded rounds.
pub fn difference_cell(row: &PairRow, margin: f64) -> Cell {
    let (value, interval) = difference_lines(row, margin);
    Cell::two_lines(value, format!("{interval}{}", row.excluded_rounds_note()))
}

/// The difference of B to A and its interval, formatted: `+7.5%` and `+2% to +13%`.
fn difference_lines(row: &PairRow, margin: f64) -> (String, String) {
    let edges = [margin, -margin / (1.0 + margin)];
    effect_and_interval(row.ratio.value - 1.0, (row.ratio.low - 1.0, row.ratio.high - 1.0), &edges)
}

/// Adds the difference of B to A in words and as a table; nothing unless the run has two variants.
pub fn add_pair(document: &mut Document, report: &Report, detail: Detail) {
    let rows = report.pair_rows();
    let [a, b] = report.record.variants.as_slice() else { return };
    // If the number of clients varies, a brief report shows the scaling of the two variants instead.
    if rows.is_empty() || (detail < Detail::Full && ClientCurves::for_report(&report.record).is_some()) {
        return;
    }
    document.heading(3, format!("B ({}) compared with A ({})", b.name, a.name));
    let overall_rows = rows.iter().filter(|row| row.covers_all_tasks);
    document.list(overall_rows.map(|row| row_sentence(row, report.margin)).collect());
    let means = rows.iter().filter(|row| row.covers_all_tasks).filter_map(|row| row.mean_ratio);
    let rounds = means.map(|ratio| ratio.rounds).filter(|rounds| *rounds >= ROUNDS_FOR_MEAN_RATIO).min();
    document.text(rounds.map_or(String::new(), mean_cost_caveat));
    if detail < Detail::Full {
        return;
    }
    let margin = percent(report.margin);
    let header = ["task and metric", "B − A", "verdict", "by mean cost", "σ", &format!("rounds for {margin}")];
    let least_noisy = least_noisy_row(rows);
    let cells = |(index, row): (usize, &PairRow)| {
        // The source of the figures: both variants, B first, in the task of the row or in all tasks.
        let task = report.record.tasks.iter().position(|task| task.id.to_string() == row.task);
        row_with_source(FigureSource::new(task, [1, 0]), row_cells(row, report.margin, least_noisy == Some(index)))
    };
    document.table(Table::of_figures(header).with_rows(rows.iter().enumerate().map(cells)));
    let interval_kind = if rows.iter().any(|row| row.ratio.provisional) {
        "the range of the rounds if fewer than 8, else 95% intervals"
    } else {
        "95% intervals"
    };
    document.text(format!(
        "Differences are those of B over A in a typical round, with {interval_kind}. By mean cost is the sum over all rounds of \
         B over that of A, with a 95% interval from {ROUNDS_FOR_MEAN_RATIO} rounds on. σ is the spread of the log ratio within \
         rounds; the last column is the number of rounds that finds a difference of {margin} in four of five runs. {}",
        least_noisy.map_or(String::new(), |index| least_noisy_sentence(&rows[index]))
    ));
}

/// A sentence about the difference of B to A in one metric, and one about its mean cost if there are enough rounds.
fn row_sentence(row: &PairRow, margin: f64) -> String {
    let difference = format!("{}{}", describe_difference(row, margin), row.excluded_rounds_note());
    let (effect, margin) = (row.describe_effect(), percent(margin));
    let verdict = match row.verdict {
        RatioVerdict::Different => format!("B {effect}: {difference}"),
        RatioVerdict::Negligible => {
            format!("B {effect}, but by less than the margin of {margin}: {difference}")
        }
        RatioVerdict::Equivalent => format!("equivalent within {margin}: {difference}"),
        RatioVerdict::Inconclusive => {
            let rounds = format_rounds_needed(row.rounds_for_margin);
            format!("inconclusive: {difference}; with this spread, {margin} requires {rounds} rounds")
        }
        RatioVerdict::Provisional => format!("provisional, fewer than 8 rounds: {difference}"),
    };
    // With fewer rounds the ratio of mean cost has no interval, and only the table shows it.
    let mean_ratio = row.mean_ratio.filter(|ratio| ratio.rounds >= ROUNDS_FOR_MEAN_RATIO);
    let mean_cost =
        mean_ratio.map_or(String::new(), |ratio| format!(" By mean cost: {}.", describe_mean_ratio(&ratio)));
    format!("By {} in a typical round: {verdict}.{mean_cost}", row.metric.id)
}

/// A sentence with the least noisy metric: `Least noisy: system of cp: 12 rounds.`
fn least_noisy_sentence(row: &PairRow) -> String {
    let rounds = row.rounds_for_margin.map_or(String::new(), |rounds| format!(": {}", plural(rounds, "round")));
    format!("Least noisy: {} of {}{rounds}.", row.metric.id, row.task)
}

/// The index of the row with the smallest spread above 0; a spread of 0 only shows that the clock is too coarse. `None` if
/// there is only one row.
fn least_noisy_row(rows: &[PairRow]) -> Option<usize> {
    if rows.len() < 2 {
        return None;
    }
    let spread_and_index = |(index, row): (usize, &PairRow)| Some((row.sigma.filter(|sigma| *sigma > 0.0)?, index));
    let spreads = rows.iter().enumerate().filter_map(spread_and_index);
    spreads.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, index)| index)
}

/// The cells of a row of the table; `is_least_noisy` highlights its spread.
fn row_cells(row: &PairRow, margin: f64, is_least_noisy: bool) -> Vec<Cell> {
    let rounds = row.sigma.map_or("–".to_string(), |_| format_rounds_needed(row.rounds_for_margin));
    let sigma = Cell::from(row.sigma.map_or("–".to_string(), percent)).highlighted_if(is_least_noisy);
    row![
        format!("{} {}", row.task, row.metric.id),
        difference_cell(row, margin),
        row.verdict.describe(Some(row.ratio), row.metric.direction, margin),
        row.mean_ratio.map_or("–".into(), |ratio| mean_ratio_cell(&ratio)),
        sigma,
        rounds,
    ]
}

/// The comparison of two variants as JSON; null for another number of variants.
pub fn pair_json(report: &Report) -> Value {
    let [a, b] = report.record.variants.as_slice() else { return Value::Null };
    let row = |row: &PairRow| {
        json!({
            "task": row.task,
            "metric": row.metric.id,
            "ratio_b_to_a": row.ratio,
            "mean_ratio_b_to_a": row.mean_ratio.as_ref().map(mean_ratio_json),
            "verdict": row.verdict,
            "sigma_of_log_ratio": row.sigma,
            "rounds_for_margin": row.rounds_for_margin,
        })
    };
    json!({
        "a": a.name,
        "b": b.name,
        "margin": report.margin,
        "rows": report.pair_rows().iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pair::pair_row;
    use fsarena_core::{metric, record::MetricSpec};
    use fsarena_stats::ratio::LogRatios;

    fn sentence_for(metric: &str, d: Vec<f64>, excluded_rounds: usize) -> String {
        let def = metric::find(metric).unwrap();
        let info = MetricSpec::from(&def.spec);
        row_sentence(&pair_row(("ALL".into(), true), &info, LogRatios { d, excluded_rounds }, 0.01).unwrap(), 0.01)
    }

    #[test]
    fn the_sentence_describes_the_difference_of_b_to_a() {
        let around = |middle: f64, step: f64| -> Vec<f64> {
            (-4..5).map(|steps| (middle + step * f64::from(steps)).ln()).collect()
        };
        let higher = sentence_for("elapsed", around(1.1, 0.001), 0);
        assert!(higher.starts_with("By elapsed in a typical round: B costs more: +10% [+9."), "{higher}");
        let lower = sentence_for("elapsed", around(0.9, 0.001), 1);
        assert!(lower.starts_with("By elapsed in a typical round: B costs less: −10%"), "{lower}");
        assert!(lower.ends_with("; 1 of 10 rounds left out: a value is zero."), "{lower}");
        assert!(
            sentence_for("elapsed", around(1.0, 0.0001), 0)
                .starts_with("By elapsed in a typical round: equivalent within 1%: ")
        );
        let inconclusive = sentence_for("elapsed", around(1.0, 0.05), 0);
        assert!(
            inconclusive.starts_with("By elapsed in a typical round: inconclusive: ")
                && inconclusive.contains("1% requires "),
            "{inconclusive}"
        );
        assert!(
            sentence_for("elapsed", vec![0.1; 3], 0)
                .starts_with("By elapsed in a typical round: provisional, fewer than 8 rounds: ")
        );
        // A large difference is a factor: 10.0× instead of +900%.
        let tenfold = sentence_for("elapsed", around(10.0, 0.1), 0);
        assert!(tenfold.contains("B costs more: 10.0× [9.") && !tenfold.contains('%'), "{tenfold}");
    }
}
