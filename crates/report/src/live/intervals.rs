//! How the variants compare so far, and how their intervals narrow. In a terminal a line a variant, no wider than 80 columns.

use fsarena_core::metric::{self, MetricDef};
use fsarena_core::sample::Sample;
use fsarena_stats::analyse::adds_up;
use fsarena_stats::comparison::compare;
use fsarena_stats::ratio::Ratio;
use std::collections::HashMap;

/// Columns of a terminal that nobody has made wider.
const WIDTH: usize = 80;
/// The most variants that are shown: the display must leave room for the rest.
const VARIANTS: usize = 8;
/// The most rounds that one sparkline shows.
const SPARKS: usize = 20;
/// Columns of a name.
const NAME: usize = 28;

/// How all tasks of a cell went, by variant and round, and how wide intervals were.
#[derive(Debug, Default)]
pub struct Intervals {
    variants: Vec<String>,
    /// The metric that answers for the work.
    metric: Option<&'static MetricDef>,
    /// `[variant][round]`: the total over tasks, or the geometric mean of what does not add up; NaN where a round lacks the
    /// variant.
    values: Vec<Vec<f64>>,
    /// The width of each variant's interval, ln(high/low), after each round.
    widths: HashMap<String, Vec<f64>>,
    current: Option<Current>,
}

/// The cell that runs, and the values of its tasks.
#[derive(Debug)]
struct Current {
    variant: usize,
    values: Vec<f64>,
}

/// How a variant compares with the best so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its name.
    pub variant: String,
    /// Its ratio to the best; none of the best itself.
    pub ratio: Option<Ratio>,
    /// How the interval narrowed, as bars.
    pub narrowing: String,
}

impl Intervals {
    /// Intervals of this metric; nothing is shown of one that is not derived.
    pub fn of(metric: &str) -> Intervals {
        Intervals { metric: metric::find(metric), ..Intervals::default() }
    }

    /// A run of these variants begins.
    pub fn start(&mut self, variants: &[String]) {
        let (variants, values) = (variants.to_vec(), vec![vec![]; variants.len()]);
        *self = Intervals { metric: self.metric, variants, values, ..Intervals::default() };
    }

    /// The same, with what is known already of a run of the same variants that goes on.
    pub fn start_or_go_on(&mut self, variants: &[String]) {
        if self.variants != variants {
            self.start(variants);
        }
    }

    /// A cell of a variant begins.
    pub fn cell(&mut self, variant: &str) {
        let variant = self.variants.iter().position(|known| known == variant);
        self.current = variant.map(|variant| Current { variant, values: vec![] });
    }

    /// A task was measured.
    pub fn sample(&mut self, sample: &Sample) {
        let Some(metric) = self.metric.filter(|_| sample.task.in_composite) else { return };
        let value = (metric.from)(&|id| sample.readings.0.get(id).copied()).filter(|value| *value > 0.0);
        if let (Some(cell), Some(value)) = (&mut self.current, value) {
            cell.values.push(value);
        }
    }

    /// The cell ended; its values count where it did all its work.
    pub fn cell_done(&mut self, round: u32, done: bool) {
        let Some(cell) = self.current.take().filter(|cell| done && !cell.values.is_empty()) else { return };
        let values = &mut self.values[cell.variant];
        values.resize(values.len().max(round as usize + 1), f64::NAN);
        values[round as usize] = if self.metric.is_some_and(|metric| adds_up(metric.unit)) {
            cell.values.iter().sum()
        } else {
            (cell.values.iter().map(|value| value.ln()).sum::<f64>() / cell.values.len() as f64).exp()
        };
    }

    /// A row for each variant, the best first. Nothing before there are two variants and two rounds.
    pub fn rows(&mut self) -> Vec<Row> {
        let Some(metric) = self.metric else { return vec![] };
        let rounds = self.values.iter().map(Vec::len).max().unwrap_or(0);
        for values in &mut self.values {
            values.resize(rounds, f64::NAN);
        }
        let comparison = compare(&self.values, metric.direction);
        if rounds < 2 || comparison.order.len() < 2 {
            return vec![];
        }
        let mut rows = vec![];
        for variant in comparison.order.iter().copied() {
            let ratio = comparison.variants[variant].ratio;
            let widths = self.widths.entry(self.variants[variant].clone()).or_default();
            widths.extend(ratio.map(|ratio| (ratio.high / ratio.low).ln()));
            rows.push(Row { variant: self.variants[variant].clone(), ratio, narrowing: sparkline(widths) });
        }
        rows
    }

    /// The first rows for a terminal: a line each.
    pub fn lines(&mut self) -> Vec<String> {
        let line = |row: &Row| {
            let name = shortened(&row.variant);
            match row.ratio {
                None => format!("  {name:NAME$} best so far"),
                Some(ratio) => {
                    let few = if ratio.provisional { "?" } else { " " };
                    let interval = format!("{:.2}{few}[{:.2}–{:.2}]", ratio.value, ratio.low, ratio.high);
                    format!("  {name:NAME$} {interval:22} {}", row.narrowing)
                }
            }
        };
        let lines = self.rows().iter().take(VARIANTS).map(line).collect::<Vec<_>>();
        lines.iter().map(|line| line.trim_end().chars().take(WIDTH).collect()).collect()
    }
}

/// The last of some widths as bars, the widest of them as the highest.
pub fn sparkline(widths: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &widths[widths.len().saturating_sub(SPARKS)..];
    let most = shown.iter().copied().filter(|width| width.is_finite()).fold(0.0, f64::max);
    let bar = |width: &f64| match width / most {
        share if share.is_nan() => BARS[0],
        share => BARS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1],
    };
    shown.iter().map(bar).collect()
}

fn shortened(name: &str) -> String {
    let safe: Vec<char> = name.chars().map(|c| if c.is_control() { '·' } else { c }).collect();
    match safe.len() {
        0..=NAME => safe.into_iter().collect(),
        _ => safe[..NAME - 1].iter().chain(['…'].iter()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::cell::{TaskId, TaskInfo};
    use fsarena_core::metric::reading;
    use fsarena_core::sample::Readings;

    fn sample(elapsed: f64, in_composite: bool) -> Sample {
        let task = TaskInfo { id: TaskId::new("touch"), title: "Touch".into(), number: None, in_composite };
        let readings = Readings([(reading::ELAPSED.to_string(), elapsed)].into());
        Sample { task, started_at: 0.0, readings, series: vec![] }
    }

    fn after(rounds: u32, names: [&str; 2]) -> Vec<Vec<String>> {
        let mut intervals = Intervals::of("elapsed");
        intervals.start(&names.map(String::from));
        let round = |round: u32| {
            for (name, time) in names.iter().zip([2.0, 3.0]) {
                intervals.cell(name);
                intervals.sample(&sample(99.0, false));
                intervals.sample(&sample(time * 1e9 * (1.0 + f64::from(round % 3) / 10.0), true));
                intervals.cell_done(round, true);
            }
            intervals.lines()
        };
        (0..rounds).map(round).collect()
    }

    #[test]
    fn lines_come_with_the_second_round_and_carry_the_history() {
        let lines = after(9, ["ext4", "xfs"]);
        assert!(lines[0].is_empty());
        assert!(lines[1][0].starts_with("  ext4") && lines[1][0].ends_with("best so far"), "{lines:?}");
        assert!(lines[1][1].contains("1.50?[1.50–1.50]"), "{lines:?}");
        assert!(lines[8][1].contains("1.50 [1.50–1.50]"), "{lines:?}");
    }

    #[test]
    fn the_faster_of_two_loads_has_the_higher_rate() {
        let mut intervals = Intervals::of("throughput");
        intervals.start(&["ext4".into(), "xfs".into()]);
        for round in 0..2 {
            for (name, rate) in [("ext4", 1e6), ("xfs", 2e6)] {
                intervals.cell(name);
                let mut sample = sample(1e9, true);
                sample.readings.set(reading::THROUGHPUT, rate);
                intervals.sample(&sample);
                intervals.cell_done(round, true);
            }
        }
        let lines = intervals.lines();
        assert!(lines[0].starts_with("  xfs") && lines[1].contains("0.50?"), "{lines:?}");
    }

    #[test]
    fn eighty_columns_whatever_names_hold() {
        let long = "ext4/".repeat(30);
        let lines = after(30, [&long, "x\u{1b}[2Jfs"]).pop().unwrap();
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH && !line.contains('\u{1b}')),
            "{lines:?}"
        );
    }

    #[test]
    fn narrowing_bars() {
        assert_eq!(sparkline(&[0.8, 0.4, 0.2, 0.1]), "█▄▂▁");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[f64::INFINITY, 1.0]), "██");
    }
}
