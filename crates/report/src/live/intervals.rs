//! How the variants compare so far, and how their intervals narrow.

use fsarena_core::observations::{combine_tasks, references};
use fsarena_core::{event::Event, record::RunRecord, state::RunState};
use fsarena_stats::comparison::{Comparison, compare_with};
use fsarena_stats::cost::Estimate;
use fsarena_stats::ratio::Ratio;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most rounds that one sparkline shows.
const SPARKS: usize = 20;

/// How the variants compare by the total over tasks, or by the geometric mean of what does not add up.
#[derive(Debug, Default)]
pub struct Intervals {
    metric: String,
    /// The comparison of the first `n` rounds by `n`, for the latest values of `n`. It caches them, because they no
    /// longer change and comparing them again after every round would take far longer.
    after: BTreeMap<usize, Comparison>,
    rows: Vec<Row>,
}

/// How a variant compares with the best so far.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub variant: String,
    /// Its ratio to the best; none of the best itself.
    #[serde(rename = "ratio_to_best", serialize_with = "ratio")]
    pub ratio: Option<Ratio>,
    /// The ratio and its interval in words: `1.50 [1.48–1.52]`.
    pub known: String,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl Intervals {
    /// Intervals of this metric; there are none of one that the run does not have.
    pub fn of(metric: &str) -> Intervals {
        Intervals { metric: metric.into(), ..Intervals::default() }
    }

    /// Compares again where a round ended with this event.
    pub fn see(&mut self, event: &Event, state: &RunState) {
        if matches!(event, Event::RoundFinished { .. }) {
            self.compare(&state.record);
        }
    }

    /// A row for each variant, the best first. Nothing before there are two variants and two rounds.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn compare(&mut self, record: &RunRecord) {
        self.rows.clear();
        let Ok((info, values)) = combine_tasks(record, &self.metric) else { return };
        let rounds = values.iter().map(Vec::len).max().unwrap_or(0);
        // A round that was dropped moves those behind it.
        let moved = self.after.last_key_value().is_some_and(|(last, _)| *last > rounds);
        let first = (rounds + 1).saturating_sub(SPARKS).max(2);
        self.after.retain(|after, _| !moved && (first..rounds).contains(after));
        for after in first..=rounds {
            self.after.entry(after).or_insert_with(|| {
                let until: Vec<Vec<f64>> = values.iter().map(|values| values[..after].to_vec()).collect();
                compare_with(&until, &references(record), info.direction)
            });
        }
        let Some((_, now)) = self.after.last_key_value().filter(|(_, now)| now.order.len() >= 2) else {
            return;
        };
        let row = |&variant: &usize| {
            let ratios = self.after.values().filter_map(|comparison| comparison.variants[variant].ratio);
            let widths: Vec<f64> = ratios.map(|ratio| (ratio.high / ratio.low).ln()).collect();
            let ratio = now.variants[variant].ratio;
            let known = ratio.map_or("best so far".to_string(), |ratio| {
                let few = if ratio.provisional { "?" } else { " " };
                format!("{:.2}{few}[{:.2}–{:.2}]", ratio.value, ratio.low, ratio.high)
            });
            let variant = record.variants[variant].name.clone();
            Row { variant, ratio, known, narrowing: sparkline(&widths) }
        };
        self.rows = now.order.iter().map(row).collect();
    }
}

fn ratio<S: serde::Serializer>(ratio: &Option<Ratio>, serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Numbers {
        #[serde(flatten)]
        ratio: Estimate,
        provisional: bool,
    }
    let numbers = |ratio: Ratio| Numbers { ratio: ratio.into(), provisional: ratio.provisional };
    ratio.map(numbers).serialize(serializer)
}

/// The last of some widths as bars, the widest of them as the highest.
pub(super) fn sparkline(widths: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &widths[widths.len().saturating_sub(SPARKS)..];
    let most = shown.iter().copied().filter(|width| width.is_finite()).fold(0.0, f64::max);
    let bar = |width: &f64| match width / most {
        share if share.is_nan() => BARS[0],
        share => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    shown.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::sparkline;

    #[test]
    fn narrowing_bars() {
        assert_eq!(sparkline(&[0.8, 0.4, 0.2, 0.1]), "█▄▂▁");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[f64::INFINITY, 1.0]), "██");
    }
}
