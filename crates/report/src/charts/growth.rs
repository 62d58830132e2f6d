//! Charts of scale grids: the cost of one unit of work over the amount of work, with the law that it follows, where it bends, and
//! the cost up to ten times the largest amount.

use crate::chart_context::{ChartContext, MAX_TASKS, widen_range};
use crate::drawing::{Axis, Chart, Dash, KeySign, LegendKey, Mark, Panel, SeriesStyle, theme};
use crate::phrases::task_label;
use crate::scaling::growth::{GrowthCurve, GrowthCurves, format_amount, grid_setting, growth_metrics, growth_of_run};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_stats::ratio::Ratio;
use fsarena_stats::scaling::growth::{BendFinding, Extrapolation, MAX_MULTIPLE};

/// The number of steps in which a law is drawn.
const LAW_STEPS: u32 = 60;
/// An interval beyond the data is cut at this multiple of the largest cost, and at this part of the smallest.
const CUT_OFF_MULTIPLE: f64 = 10.0;
/// Opacity of the interval of a bend.
const BEND_OPACITY: f64 = 0.15;

/// For each metric of the report a chart with a panel for each task.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let record = context.record();
    let Some(setting) = grid_setting(record) else { return vec![] };
    let metrics = growth_metrics(context.report.analyses.iter().map(|analysis| analysis.metric.id.as_str()));
    metrics
        .into_iter()
        .filter_map(|metric| Some(chart(context, &growth_of_run(record, setting, metric).ok()?)))
        .collect()
}

fn chart(context: &ChartContext, run: &GrowthCurves) -> Chart {
    let mut tasks: Vec<&TaskId> = run.curves.iter().map(|curve| &curve.task).collect();
    tasks.dedup();
    let left_out = match tasks.len().saturating_sub(MAX_TASKS) {
        0 => String::new(),
        count => format!(" The last {count} tasks are not drawn."),
    };
    tasks.truncate(MAX_TASKS);
    let panels = tasks.iter().map(|task| panel(context, run, task)).collect();
    let about = format!(
        "{}, over {}. Points are geometric means over rounds, bars 95% intervals of the typical value (with fewer than 8 rounds, \
         the smallest and the largest value; with one round, none). Lines are the laws that fit best by AICc. The area beyond \
         the data is the 95% interval up to {MAX_MULTIPLE} times the largest value, which holds if nothing bends there; it is cut \
         at {CUT_OFF_MULTIPLE} times the largest and a tenth of the smallest cost.{left_out}",
        run.quantity(),
        run.setting
    );
    let mut legend: Vec<LegendKey> = vec![];
    for curve in &run.curves {
        if legend.iter().all(|key| key.label != curve.variant_name) {
            legend.push(context.styles[curve.variant].legend_key(&curve.variant_name));
        }
    }
    if run.curves.iter().any(|curve| curve.growth.beyond.is_some()) {
        legend.push(LegendKey::new("beyond the data, with its interval", theme::MUTED, KeySign::Area(0.2)));
    }
    if run.curves.iter().any(|curve| matches!(curve.growth.bend, BendFinding::Bends(_))) {
        legend.push(LegendKey::new(
            "where it bends, with its interval",
            theme::MUTED,
            KeySign::VerticalLine(Dash::Solid),
        ));
    }
    let title = format!("How {} grows with {}", run.quantity(), run.setting);
    Chart { legend, ..Chart::new(format!("growth-{}", run.metric.id), title, about).with_panels(panels) }
}

fn panel(context: &ChartContext, run: &GrowthCurves, task: &TaskId) -> Panel {
    let curves: Vec<DrawnCurve> = run
        .curves
        .iter()
        .filter(|curve| curve.task == *task)
        .map(|curve| DrawnCurve::new(curve, context.styles[curve.variant]))
        .collect();
    let empty_range = (f64::INFINITY, 0.0);
    let measured = curves.iter().fold(empty_range, |range, curve| widen_range(range, curve.costs()));
    let (low, high) = (measured.0 / CUT_OFF_MULTIPLE, measured.1 * CUT_OFF_MULTIPLE);
    let extrapolated =
        curves.iter().flat_map(|curve| &curve.extrapolated).flat_map(|beyond| [beyond.cost.low, beyond.cost.high]);
    let range = widen_range(measured, extrapolated.map(|cost| cost.clamp(low, high)));
    let y = Axis::log_in_unit(run.quantity(), range.0 / 1.05, range.1 * 1.05, run.metric.unit);
    let amounts = curves.iter().flat_map(DrawnCurve::amounts);
    let (first, last) = widen_range(empty_range, amounts);
    let x = Axis::log(run.setting.clone(), first / 1.15, last * 1.15, format_amount);
    let marks = curves.iter().flat_map(|curve| curve.marks(y.range)).collect();
    Panel::new(title(context, run, task), x, y, 300, marks)
}

/// The title of a panel: the label of the task without the setting.
fn title(context: &ChartContext, run: &GrowthCurves, task: &TaskId) -> String {
    let with_setting = context.record().tasks.iter().find(|info| {
        let mut id = info.id.clone();
        id.params.remove(&run.setting);
        id == *task
    });
    with_setting.map_or(task.to_string(), |info| task_label(&TaskInfo { id: task.clone(), ..info.clone() }))
}

/// A curve as it is drawn.
struct DrawnCurve<'a> {
    curve: &'a GrowthCurve,
    style: SeriesStyle,
    /// The amount, the geometric mean over rounds, and the interval of the typical value.
    points: Vec<(f64, f64, Option<Ratio>)>,
    /// The law that fits best.
    law: Vec<(f64, f64)>,
    /// The costs beyond the data.
    extrapolated: Vec<Extrapolation>,
}

impl DrawnCurve<'_> {
    fn new(curve: &GrowthCurve, style: SeriesStyle) -> DrawnCurve<'_> {
        let series = &curve.growth.series;
        let values = series.n.iter().zip(series.means()).zip(&series.x);
        let points = values.map(|((n, mean), values)| (*n, mean.exp(), Ratio::typical_value(values))).collect();
        let mut law = vec![];
        let fit = curve.growth.choice.as_ref().and_then(|choice| choice.fits.first());
        if let (Some(fit), [first, .., last]) = (fit, series.n.as_slice()) {
            let amount_at = |step: u32| first * (last / first).powf(f64::from(step) / f64::from(LAW_STEPS));
            law = (0..=LAW_STEPS).map(amount_at).map(|n| (n, fit.law.ln_at(n).exp())).collect();
        }
        DrawnCurve { curve, style, points, law, extrapolated: curve.growth.extrapolations(LAW_STEPS / 3) }
    }

    fn amounts(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.0).chain(self.extrapolated.last().map(|beyond| beyond.amount))
    }

    /// All costs within the data.
    fn costs(&self) -> impl Iterator<Item = f64> {
        let typical = self.points.iter().filter_map(|point| point.2).flat_map(|typical| [typical.low, typical.high]);
        let law = self.law.iter().map(|point| point.1);
        self.points.iter().map(|point| point.1).chain(typical).chain(law).filter(|cost| *cost > 0.0)
    }

    fn marks(&self, y: (f64, f64)) -> Vec<Mark> {
        let (style, colour) = (self.style, self.style.colour);
        let mut marks = vec![];
        if let BendFinding::Bends(bend) = self.curve.growth.bend {
            marks.push(Mark::Box { x: (bend.at.low, bend.at.high), y, colour, opacity: BEND_OPACITY });
            marks.push(style.line_mark(&[(bend.at.value, y.0), (bend.at.value, y.1)], 1.0));
        }
        let band = self.extrapolated.iter().map(|beyond| (beyond.amount, beyond.cost.low, beyond.cost.high)).collect();
        marks.push(Mark::Band { points: band, colour });
        let beyond_data: Vec<_> = self.extrapolated.iter().map(|beyond| (beyond.amount, beyond.cost.value)).collect();
        marks.push(style.line_mark(&beyond_data, 0.75));
        marks.push(style.line_mark(&self.law, 1.5));
        marks.extend(self.points.iter().filter_map(|(n, _, typical)| {
            let typical = typical.as_ref()?;
            Some(style.interval_mark(*n, (typical.low, typical.high)))
        }));
        marks.extend(style.dot_marks(self.points.iter().map(|point| (point.0, point.1))));
        marks
    }
}
