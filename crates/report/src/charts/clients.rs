//! Charts of client curves: throughput over the number of clients, the scalability law that fits best, the saturation and
//! the peak.

use crate::chart_context::{ChartContext, points_of_curve};
use crate::drawing::{Anchor, Axis, Chart, KeySign, LegendKey, Mark, Panel, PointShape, SeriesPoint, SeriesStyle};
use crate::drawing::{axis::format_trimmed, theme};
use crate::{number::UnitMultiple, scaling, scaling::curves::ClientCurves};
use fsarena_core::record::MetricSpec;
use fsarena_stats::scaling::Scaling;

/// Opacity of the band of saturation.
const BAND_OPACITY: f64 = 0.35;

/// One or two charts of throughput over the number of clients: all curves in one panel, if there are several; and a panel for
/// each curve with the law that fits it best.
pub fn client_charts(context: &ChartContext) -> Vec<Chart> {
    let Some(client_curves) = ClientCurves::for_report(context.record()) else { return vec![] };
    let (metric, mut scalings) = (&client_curves.metric, client_curves.analyse(context.record().plan.seed));
    // All charts have the order of the run's variants.
    scalings.sort_by_key(|(variant, _)| *variant);
    let left_out_note = client_curves.left_out_sentence().map_or(String::new(), |sentence| format!(" {sentence}"));
    let mut curves = vec![];
    for (index, (variant, scaling)) in scalings.iter().enumerate() {
        // A variant has a curve for each workload, each in another shade.
        let earlier = scalings[..index].iter().filter(|(other, _)| other == variant).count();
        curves.push(DrawnClientCurve { scaling, style: context.series_style(*variant, earlier) });
    }
    let mut charts = vec![];
    if curves.len() > 1 {
        charts.push(all_curves_chart(metric, &curves, &left_out_note));
    }
    charts.push(fit_chart(metric, &curves, &left_out_note));
    charts
}

/// A client curve and its style.
struct DrawnClientCurve<'a> {
    scaling: &'a Scaling,
    style: SeriesStyle,
}

impl DrawnClientCurve<'_> {
    /// The throughput over rounds for each number of clients.
    fn points(&self) -> Vec<SeriesPoint> {
        points_of_curve(&self.scaling.series)
    }

    fn max_clients(&self) -> f64 {
        self.scaling.series.n.last().copied().unwrap_or(1.0)
    }

    /// The largest throughput of the points, their intervals and the law.
    fn max_throughput(&self) -> f64 {
        let modelled = self.law_points().into_iter().map(|(_, throughput)| throughput);
        modelled.fold(SeriesPoint::vertical_range(&self.points(), (0.0, 0.0)).1, f64::max)
    }

    /// The points (clients, throughput) of the law that fits best; empty if there are too few numbers of clients to fit a law.
    fn law_points(&self) -> Vec<(f64, f64)> {
        const STEPS: u32 = 80;
        let fit = self.scaling.choice.as_ref().and_then(|choice| choice.fits.first());
        let Some((fit, first)) = fit.zip(self.scaling.series.n.first()) else { return vec![] };
        let clients_at = |step: u32| first + (self.max_clients() - first) * f64::from(step) / f64::from(STEPS);
        (0..=STEPS).map(clients_at).map(|clients| (clients, fit.law.ln_at(clients).exp())).collect()
    }

    /// The band of saturation, up to the height `top`: from the first number of clients where doubling perhaps gains under 5%
    /// to the first where doubling certainly gains under 5%.
    fn saturation_marks(&self, top: f64) -> Vec<Mark> {
        let Some(saturation) = &self.scaling.saturation else { return vec![] };
        let Some(possible_start) = saturation.possible_from else { return vec![] };
        let end = saturation.clients.unwrap_or(self.max_clients());
        let mut marks = vec![Mark::Box {
            x: (possible_start.min(end), end),
            y: (0.0, top),
            colour: theme::GREY,
            opacity: BAND_OPACITY,
        }];
        if let Some(certain_start) = saturation.clients {
            marks.push(Mark::line([(certain_start, 0.0), (certain_start, top)], theme::MUTED, 1.5));
        }
        marks
    }

    /// A diamond at the peak, and the interval of its number of clients.
    fn peak_marks(&self) -> Vec<Mark> {
        let peak = &self.scaling.peak;
        let mut marks = vec![];
        if let Some(x) = peak.interval {
            marks.push(Mark::HorizontalInterval { x, y: peak.throughput, clipped_end: None });
        }
        marks.push(Mark::Dot {
            point: (peak.clients, peak.throughput),
            colour: theme::INK,
            shape: PointShape::Diamond,
        });
        marks
    }
}

/// The axes of a panel up to this number of clients and this throughput. The label of the vertical axis has the unit:
/// `throughput in MB/s`.
fn clients_and_throughput_axes(metric: &MetricSpec, max_clients: f64, max_throughput: f64) -> (Axis, Axis) {
    let symbol = UnitMultiple::of(max_throughput * 1.05, metric.unit).symbol;
    let unit = if symbol.is_empty() { String::new() } else { format!(" in {symbol}") };
    let y_axis = Axis::from_zero(format!("{}{unit}", metric.id), max_throughput * 1.05, metric.unit);
    (Axis::linear("clients", 0.0, max_clients * 1.04, format_trimmed), y_axis)
}

/// The chart of all curves in one panel.
fn all_curves_chart(metric: &MetricSpec, curves: &[DrawnClientCurve], left_out_note: &str) -> Chart {
    let max_clients = curves.iter().map(DrawnClientCurve::max_clients).fold(1.0, f64::max);
    let max_throughput = curves.iter().map(DrawnClientCurve::max_throughput).fold(0.0, f64::max);
    let (x_axis, y_axis) = clients_and_throughput_axes(metric, max_clients, max_throughput);
    let marks = curves.iter().flat_map(|curve| curve.style.series_marks(&curve.points(), 1.5));
    let panel = Panel::new("", x_axis, y_axis, 340, marks.collect());
    let caption = format!(
        "{}, over the number of clients. Points are geometric means over rounds, bars 95% intervals of the typical \
         value (with fewer than 8 rounds, the smallest and the largest value; with one round, none).{left_out_note}",
        metric.help
    );
    let legend = curves.iter().map(|curve| curve.style.legend_key(&curve.scaling.series.name)).collect();
    Chart { panels: vec![panel], legend, ..Chart::new("clients", format!("{} over clients", metric.id), caption) }
}

/// The chart with a panel for each curve: its law, saturation and peak.
fn fit_chart(metric: &MetricSpec, curves: &[DrawnClientCurve], left_out_note: &str) -> Chart {
    let legend = vec![
        LegendKey::new("measured", theme::MUTED, KeySign::Point(PointShape::Disc)),
        LegendKey::new("saturation, from where it may be to where it is", theme::GREY, KeySign::Area(BAND_OPACITY)),
        LegendKey::new("peak, with its interval", theme::INK, KeySign::Point(PointShape::Diamond)),
    ];
    let meaning = "Each curve with the law that fits best by AICc, as a line. The band begins at the first number of clients \
                 where doubling perhaps gains under 5%. It ends, with a vertical line, at the first where doubling \
                 certainly gains under 5%. If no number is certain, the band has no line and goes on to the right edge. \
                 The diamond is the peak; its whisker covers the peaks of 95% of the resamples of rounds. Each panel has \
                 a scale of its own, from zero.";
    let panels = curves.iter().map(|curve| fit_panel(metric, curve)).collect();
    let title = "What fits, where it saturates, where it peaks";
    Chart { legend, ..Chart::new("clients-fit", title, format!("{meaning}{left_out_note}")).with_panels(panels) }
}

/// The panel of one curve: its law, saturation and peak.
fn fit_panel(metric: &MetricSpec, curve: &DrawnClientCurve) -> Panel {
    let scaling = curve.scaling;
    let (x_axis, y_axis) = clients_and_throughput_axes(metric, curve.max_clients(), curve.max_throughput());
    let mut marks = curve.saturation_marks(y_axis.range.1);
    marks.push(Mark::line(curve.law_points(), curve.style.colour, 2.0));
    marks.extend(curve.style.point_marks(&curve.points()));
    marks.extend(curve.peak_marks());
    marks.push(Mark::text((x_axis.range.1, 0.0), (-4, -10), scaling::best_law_label(scaling), theme::INK, Anchor::End));
    let (saturation, peak) = (scaling::saturation_range(scaling), scaling::peak_range(scaling));
    let title = format!("{}: saturation {saturation}, peak {peak}", scaling.series.name);
    Panel::new(title, x_axis, y_axis, 230, marks)
}
