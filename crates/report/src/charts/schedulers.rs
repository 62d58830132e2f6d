//! Where variants differ in the I/O scheduler: each filesystem in per cent of the best under the same scheduler, and in per
//! cent of what it reaches under its own best one.

use super::bars::{bar, limit};
use crate::crossed::Crossed;
use crate::seen::Seen;
use crate::words::{label, not_drawn};
use fsarena_charts::{Axis, Chart, Panel};
use fsarena_core::record::MetricInfo;
use fsarena_core::sample::{Direction, Unit};
use fsarena_stats::comparison::{Comparison, compare};

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let Some(analysis) = seen.report.analyses.first() else { return vec![] };
    let Some(crossed) = Crossed::of(&seen.record().variants) else { return vec![] };
    let (metric, grid) = (&analysis.metric, &analysis.grid);
    if metric.direction == Direction::Neutral {
        return vec![];
    }
    let charts = analysis.tasks().filter_map(|task| {
        let at = seen.record().task(&task.task.id)?;
        let (name, id) = (label(&task.task), task.task.id.to_string());
        let of = Task { seen, crossed: &crossed, metric, name, id, values: &grid.values[at] };
        Some([of.under_each_scheduler(), of.of_each_filesystem()])
    });
    charts.flatten().collect()
}

/// The values of one task.
struct Task<'a> {
    seen: &'a Seen<'a>,
    crossed: &'a Crossed,
    metric: &'a MetricInfo,
    name: String,
    id: String,
    /// `[variant][round]`
    values: &'a [Vec<f64>],
}

impl Task<'_> {
    /// A panel a scheduler, a bar a filesystem.
    fn under_each_scheduler(&self) -> Chart {
        let crossed = self.crossed;
        let column = |at: usize| crossed.at.iter().map(|row| row[at]).collect::<Vec<_>>();
        let groups: Vec<_> = (0..crossed.schedulers.len()).map(column).collect();
        let title = format!("{}: the best filesystem under each scheduler = 100%", self.name);
        self.chart("filesystems", &title, (&crossed.schedulers, &crossed.names), &groups)
    }

    /// A panel a filesystem, a bar a scheduler.
    fn of_each_filesystem(&self) -> Chart {
        let title = format!("{}: each filesystem's best scheduler = 100%", self.name);
        self.chart("schedulers", &title, (&self.crossed.names, &self.crossed.schedulers), &self.crossed.at)
    }

    fn chart(
        &self,
        id: &str,
        title: &str,
        (panels, bars): (&[String], &[String]),
        groups: &[Vec<Option<usize>>],
    ) -> Chart {
        let compared: Vec<Comparison> = groups.iter().map(|variants| self.compared(variants)).collect();
        let limit = limit(compared.iter());
        let panel = |((title, variants), comparison): ((&String, &Vec<Option<usize>>), &Comparison)| {
            let row = |(row, variant): (usize, &Option<usize>)| {
                let (at, colour) = (Axis::slot(row), self.seen.colours[self.crossed.first((*variant)?)]);
                Some(bar(comparison, row, colour, (at - 0.38, at + 0.38), limit))
            };
            Panel {
                title: title.clone(),
                x: Axis::from_zero("", limit * 1.3, Unit::Percent),
                y: Axis::names(bars),
                marks: variants.iter().enumerate().filter_map(row).flatten().collect(),
                height: 56 + 20 * bars.len() as u32,
            }
        };
        let about = format!(
            "Bars of {} in per cent of the best of their panel. Whiskers are 95% intervals, within rounds (under 8 \
             rounds the extremes seen, marked ?); the best has none, the others are measured by it. One that goes on \
             beyond the picture has an arrow and its end behind it. Variants of a panel that share a letter are not significantly \
             different.{}",
            self.metric.id,
            self.left_out((panels, bars), groups, &compared)
        );
        Chart {
            panels: panels.iter().zip(groups).zip(&compared).map(panel).collect(),
            columns: 2,
            ..Chart::new(format!("{id}-{}-{}", self.metric.id, self.id), title, about)
        }
    }

    /// The bars that are not there, and why.
    fn left_out(
        &self,
        (panels, bars): (&[String], &[String]),
        groups: &[Vec<Option<usize>>],
        compared: &[Comparison],
    ) -> String {
        let (mut lacking, mut apart) = (vec![], vec![]);
        for ((panel, variants), comparison) in panels.iter().zip(groups).zip(compared) {
            for (row, variant) in variants.iter().enumerate() {
                let (name, result) = (format!("{} in {panel}", bars[row]), &comparison.variants[row]);
                if variant.is_none() || result.rounds == 0 {
                    lacking.push(name);
                } else if comparison.best() != Some(row) && result.ratio.is_none() {
                    apart.push(name);
                }
            }
        }
        not_drawn(&lacking, "no value")
            + &not_drawn(&apart, "no round in which it and the best are above zero")
    }

    /// How some variants compare; where there is none, nothing does.
    fn compared(&self, variants: &[Option<usize>]) -> Comparison {
        let none = vec![f64::NAN; self.values.first().map_or(0, Vec::len)];
        let values: Vec<Vec<f64>> = variants
            .iter()
            .map(|variant| variant.map_or(none.clone(), |variant| self.values[variant].clone()))
            .collect();
        compare(&values, self.metric.direction)
    }
}
