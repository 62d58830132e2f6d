//! Charts of scale grids: the cost of one unit of work over the amount of work, with the law that it follows, where it
//! bends, and the cost up to ten times the largest amount.

use crate::chart_context::{ChartContext, MAX_TASKS, points_of_curve, widen_range};
use crate::drawing::{Axis, Chart, Dash, KeySign, LegendKey, Mark, Panel, SeriesPoint, SeriesStyle, theme};
use crate::phrases::task_label;
use crate::scaling::format_amount;
use crate::scaling::growth::{GrowthCurve, GrowthCurves, grid_setting, growth_metrics, growth_of_run};
use fsarena_core::cell::{TaskId, TaskInfo};
use fsarena_stats::scaling::growth::{BendFinding, Extrapolation, MAX_MULTIPLE};

/// The number of steps in which a law is drawn.
const LAW_STEPS: u32 = 60;
/// The vertical axis cuts intervals beyond the data at this multiple of the largest cost, and at the smallest cost divided
/// by it.
const CUT_OFF_MULTIPLE: f64 = 10.0;
/// Opacity of the interval of a bend.
const BEND_OPACITY: f64 = 0.15;

/// For each metric of the report a chart with a panel for each task.
pub fn growth_charts(context: &ChartContext) -> Vec<Chart> {
    let record = context.record();
    let Some(setting) = grid_setting(record) else { return vec![] };
    let metrics = growth_metrics(context.report.analyses.iter().map(|analysis| analysis.metric.id.as_str()));
    metrics
        .into_iter()
        .filter_map(|metric| Some(growth_chart(context, &growth_of_run(record, setting, metric).ok()?)))
        .collect()
}

fn growth_chart(context: &ChartContext, run: &GrowthCurves) -> Chart {
    let mut tasks: Vec<&TaskId> = run.curves.iter().map(|curve| &curve.task).collect();
    tasks.dedup();
    let left_out_note = match tasks.len().saturating_sub(MAX_TASKS) {
        0 => String::new(),
        count => format!(" The last {count} tasks are not drawn."),
    };
    tasks.truncate(MAX_TASKS);
    let panels = tasks.iter().map(|task| growth_panel(context, run, task)).collect();
    let caption = format!(
        "{}, over {}. Points are geometric means over rounds, bars 95% intervals of the typical value (with fewer than 8 rounds, \
         the smallest and the largest value; with one round, none). Lines are the laws that fit best by AICc. The area beyond \
         the data is the 95% interval up to {MAX_MULTIPLE} times the largest value, which holds if nothing bends there; it is cut \
         at {CUT_OFF_MULTIPLE} times the largest and a tenth of the smallest cost.{left_out_note}",
        run.quantity(),
        run.setting
    );
    let mut legend: Vec<LegendKey> = vec![];
    for curve in &run.curves {
        if legend.iter().all(|key| key.label != curve.variant_name) {
            legend.push(context.styles[curve.variant].legend_key(&curve.variant_name));
        }
    }
    if run.curves.iter().any(|curve| curve.growth.extrapolation.is_some()) {
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
    Chart { legend, ..Chart::new(format!("growth-{}", run.metric.id), title, caption).with_panels(panels) }
}

/// The panel of one task, with a curve for each variant.
fn growth_panel(context: &ChartContext, run: &GrowthCurves, task: &TaskId) -> Panel {
    let curves: Vec<DrawnGrowthCurve> = run
        .curves
        .iter()
        .filter(|curve| curve.task == *task)
        .map(|curve| DrawnGrowthCurve::new(curve, context.styles[curve.variant]))
        .collect();
    let empty_range = (f64::INFINITY, 0.0);
    let measured_range = curves.iter().fold(empty_range, |range, curve| widen_range(range, curve.costs()));
    let (low, high) = (measured_range.0 / CUT_OFF_MULTIPLE, measured_range.1 * CUT_OFF_MULTIPLE);
    let extrapolated_costs =
        curves.iter().flat_map(|curve| &curve.extrapolated).flat_map(|point| [point.cost.low, point.cost.high]);
    let range = widen_range(measured_range, extrapolated_costs.map(|cost| cost.clamp(low, high)));
    let y_axis = Axis::log_in_unit(run.quantity(), range.0 / 1.05, range.1 * 1.05, run.metric.unit);
    let amounts = curves.iter().flat_map(DrawnGrowthCurve::amounts);
    let (smallest, largest) = widen_range(empty_range, amounts);
    let x_axis = Axis::log(run.setting.clone(), smallest / 1.15, largest * 1.15, format_amount);
    let marks = curves.iter().flat_map(|curve| curve.marks(y_axis.range)).collect();
    Panel::new(panel_title(context, run, task), x_axis, y_axis, 300, marks)
}

/// The title of a panel: the label of the task without the setting.
fn panel_title(context: &ChartContext, run: &GrowthCurves, task: &TaskId) -> String {
    let with_setting = context.record().tasks.iter().find(|info| {
        let mut id = info.id.clone();
        id.params.remove(&run.setting);
        id == *task
    });
    with_setting.map_or(task.to_string(), |info| task_label(&TaskInfo { id: task.clone(), ..info.clone() }))
}

/// A curve with the points that are drawn.
struct DrawnGrowthCurve<'a> {
    curve: &'a GrowthCurve,
    style: SeriesStyle,
    /// The measured points: the amount, the geometric mean of the cost over rounds, and the interval of the typical cost.
    points: Vec<SeriesPoint>,
    /// The points (amount, cost) of the law that fits best; empty without a law.
    law_points: Vec<(f64, f64)>,
    /// The costs at amounts beyond the data.
    extrapolated: Vec<Extrapolation>,
}

impl DrawnGrowthCurve<'_> {
    fn new(curve: &GrowthCurve, style: SeriesStyle) -> DrawnGrowthCurve<'_> {
        let series = &curve.growth.series;
        let mut law_points = vec![];
        let fit = curve.growth.choice.as_ref().and_then(|choice| choice.fits.first());
        if let (Some(fit), [first, .., last]) = (fit, series.n.as_slice()) {
            let amount_at = |step: u32| first * (last / first).powf(f64::from(step) / f64::from(LAW_STEPS));
            law_points = (0..=LAW_STEPS).map(amount_at).map(|amount| (amount, fit.law.ln_at(amount).exp())).collect();
        }
        let (points, extrapolated) = (points_of_curve(series), curve.growth.extrapolations(LAW_STEPS / 3));
        DrawnGrowthCurve { curve, style, points, law_points, extrapolated }
    }

    /// The measured amounts, and the largest extrapolated amount.
    fn amounts(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|point| point.x).chain(self.extrapolated.last().map(|point| point.amount))
    }

    /// All costs above zero at measured amounts: of points, of the ends of their intervals, and of the law.
    fn costs(&self) -> impl Iterator<Item = f64> {
        let ends = self.points.iter().filter_map(|point| point.interval).flat_map(|(low, high)| [low, high]);
        let law_costs = self.law_points.iter().map(|(_, cost)| *cost);
        self.points.iter().map(|point| point.y).chain(ends).chain(law_costs).filter(|cost| *cost > 0.0)
    }

    /// The marks of the curve in a panel whose vertical axis has the range `y`.
    fn marks(&self, y: (f64, f64)) -> Vec<Mark> {
        let (style, colour) = (self.style, self.style.colour);
        let mut marks = vec![];
        if let BendFinding::Bends(bend) = self.curve.growth.bend {
            marks.push(Mark::Box { x: (bend.amount.low, bend.amount.high), y, colour, opacity: BEND_OPACITY });
            marks.push(style.line_mark(&[(bend.amount.value, y.0), (bend.amount.value, y.1)], 1.0));
        }
        let band = self.extrapolated.iter().map(|point| (point.amount, point.cost.low, point.cost.high)).collect();
        marks.push(Mark::Band { points: band, colour });
        let beyond_data: Vec<_> = self.extrapolated.iter().map(|point| (point.amount, point.cost.value)).collect();
        marks.push(style.line_mark(&beyond_data, 0.75));
        marks.push(style.line_mark(&self.law_points, 1.5));
        marks.extend(style.point_marks(&self.points));
        marks
    }
}
