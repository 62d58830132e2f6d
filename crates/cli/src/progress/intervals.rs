//! How the arms compare so far, and how their intervals narrow: a line an arm, no wider than 80 columns.

use fsarena_core::metric::reading;
use fsarena_core::sample::{Direction, Sample};
use fsarena_stats::comparison::compare;
use std::collections::HashMap;

/// Columns of a terminal that nobody has made wider.
const WIDTH: usize = 80;
/// The most arms that are shown: the display must leave room for the rest.
const ARMS: usize = 8;
/// The most blocks that one sparkline shows.
const SPARKS: usize = 20;
/// Columns of a name.
const NAME: usize = 28;

/// The time of all tasks, by arm and block, and how wide intervals were.
#[derive(Debug, Default)]
pub struct Intervals {
    arms: Vec<String>,
    /// `[arm][block]`; NaN where a block lacks the arm.
    times: Vec<Vec<f64>>,
    /// The width of each arm's interval, ln(high/low), after each block.
    widths: HashMap<String, Vec<f64>>,
    /// The arm and the time of the cell that runs.
    current: Option<(usize, f64)>,
}

impl Intervals {
    /// A run of these arms begins.
    pub fn start(&mut self, arms: &[String]) {
        *self = Intervals { arms: arms.to_vec(), times: vec![vec![]; arms.len()], ..Intervals::default() };
    }

    /// A cell of an arm begins.
    pub fn cell(&mut self, arm: &str) {
        self.current = self.arms.iter().position(|known| known == arm).map(|arm| (arm, 0.0));
    }

    /// A step was measured.
    pub fn sample(&mut self, sample: &Sample) {
        let elapsed = sample.readings.0.get(reading::ELAPSED).filter(|_| sample.step.in_composite);
        if let (Some((_, sum)), Some(elapsed)) = (&mut self.current, elapsed) {
            *sum += elapsed;
        }
    }

    /// The cell ended; its time counts where it did all its work.
    pub fn cell_done(&mut self, block: u32, done: bool) {
        let Some((arm, sum)) = self.current.take().filter(|(_, sum)| done && *sum > 0.0) else { return };
        let times = &mut self.times[arm];
        times.resize(times.len().max(block as usize + 1), f64::NAN);
        times[block as usize] = sum;
    }

    /// A line for each arm, the fastest first. Nothing before there are two arms and two blocks.
    pub fn lines(&mut self) -> Vec<String> {
        let blocks = self.times.iter().map(Vec::len).max().unwrap_or(0);
        for times in &mut self.times {
            times.resize(blocks, f64::NAN);
        }
        let comparison = compare(&self.times, Direction::Lower);
        if blocks < 2 || comparison.order.len() < 2 {
            return vec![];
        }
        let mut lines = vec![];
        for arm in comparison.order.iter().copied().take(ARMS) {
            let name = shortened(&self.arms[arm]);
            lines.push(match comparison.arms[arm].ratio {
                None => format!("  {name:NAME$} fastest so far"),
                Some(ratio) => {
                    let widths = self.widths.entry(self.arms[arm].clone()).or_default();
                    widths.push((ratio.high / ratio.low).ln());
                    let few = if ratio.provisional { "?" } else { " " };
                    let interval = format!("{:.2}{few}[{:.2}–{:.2}]", ratio.value, ratio.low, ratio.high);
                    format!("  {name:NAME$} {interval:22} {}", sparkline(widths))
                }
            });
        }
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
    use fsarena_core::cell::{StepId, StepInfo};
    use fsarena_core::sample::Readings;

    fn sample(elapsed: f64, in_composite: bool) -> Sample {
        let step = StepInfo { id: StepId::new("touch"), title: "Touch".into(), number: None, in_composite };
        let readings = Readings([(reading::ELAPSED.to_string(), elapsed)].into());
        Sample { step, started_at: 0.0, readings, series: vec![] }
    }

    fn after(blocks: u32, names: [&str; 2]) -> Vec<Vec<String>> {
        let mut intervals = Intervals::default();
        intervals.start(&names.map(String::from));
        let block = |block: u32| {
            for (name, time) in names.iter().zip([2.0, 3.0]) {
                intervals.cell(name);
                intervals.sample(&sample(99.0, false));
                intervals.sample(&sample(time * 1e9 * (1.0 + f64::from(block % 3) / 10.0), true));
                intervals.cell_done(block, true);
            }
            intervals.lines()
        };
        (0..blocks).map(block).collect()
    }

    #[test]
    fn lines_come_with_the_second_block_and_carry_the_history() {
        let lines = after(9, ["ext4", "xfs"]);
        assert!(lines[0].is_empty());
        assert!(lines[1][0].starts_with("  ext4") && lines[1][0].ends_with("fastest so far"), "{lines:?}");
        assert!(lines[1][1].contains("1.50?[1.50–1.50]"), "{lines:?}");
        assert!(lines[8][1].contains("1.50 [1.50–1.50]"), "{lines:?}");
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
