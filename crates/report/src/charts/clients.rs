//! Client curves: throughput over the number of clients, the law that fits, where it saturates and where it peaks.

use crate::chart_context::ChartContext;
use crate::drawing::{Anchor, Axis, Chart, Key, Look, Mark, Panel, Shape, Sign, axis::trimmed, theme};
use crate::{number::Scale, scaling, scaling::curves::Curves};
use fsarena_core::record::MetricSpec;
use fsarena_stats::{ratio::Ratio, scaling::Scaling};

/// How much the band of saturation covers.
const BAND: f64 = 0.35;

/// Throughput over the number of clients: all curves together, and each with the law that fits.
pub fn charts(context: &ChartContext) -> Vec<Chart> {
    let Some(run) = Curves::shown(context.record()) else { return vec![] };
    let (metric, mut analysed) = (&run.metric, run.analysed(context.record().plan.seed));
    // As everywhere, in the order of the run's variants.
    analysed.sort_by_key(|(variant, _)| *variant);
    let rest = run.left_out().map_or(String::new(), |words| format!(" {words}"));
    let curves = analysed.iter().enumerate().map(|(at, (variant, one))| {
        // Several curves of a variant, of several workloads, are shades of its colour.
        let before = analysed[..at].iter().filter(|(other, _)| other == variant).count();
        Curve { one, look: context.shade(*variant, before) }
    });
    let curves: Vec<Curve> = curves.collect();
    let together = (curves.len() > 1).then(|| together(metric, &curves, &rest));
    together.into_iter().chain([fitted(metric, &curves, &rest)]).collect()
}

/// One curve, and how it is drawn.
struct Curve<'a> {
    one: &'a Scaling,
    look: Look,
}

impl Curve<'_> {
    /// The number of clients, and the geometric mean over rounds.
    fn points(&self) -> Vec<(f64, f64)> {
        let means = self.one.series.means();
        self.one.series.n.iter().copied().zip(means.into_iter().map(f64::exp)).collect()
    }

    /// The intervals of the typical value at each number of clients.
    fn intervals(&self) -> Vec<(f64, Ratio)> {
        let of = |(n, x): (&f64, &Vec<f64>)| Some((*n, Ratio::typical(x)?));
        self.one.series.n.iter().zip(&self.one.series.x).filter_map(of).collect()
    }

    fn last(&self) -> f64 {
        self.one.series.n.last().copied().unwrap_or(1.0)
    }

    fn most(&self) -> f64 {
        let highs = self.intervals().into_iter().map(|(_, typical)| typical.high);
        let modelled = self.law().into_iter().map(|(_, x)| x);
        self.points().into_iter().map(|(_, x)| x).chain(highs).chain(modelled).fold(0.0, f64::max)
    }

    /// The measured points with their intervals.
    fn measured(&self) -> Vec<Mark> {
        let up = |(x, typical): (f64, Ratio)| self.look.interval(x, (typical.low, typical.high));
        self.intervals().into_iter().map(up).chain(self.look.dots(self.points())).collect()
    }

    /// The law that fits best, as points; empty if the numbers of clients are too few for any.
    fn law(&self) -> Vec<(f64, f64)> {
        const STEPS: u32 = 80;
        let fit = self.one.choice.as_ref().and_then(|choice| choice.fits.first());
        let Some((fit, first)) = fit.zip(self.one.series.n.first()) else { return vec![] };
        let at = |step: u32| first + (self.last() - first) * f64::from(step) / f64::from(STEPS);
        (0..=STEPS).map(at).map(|n| (n, fit.law.ln_at(n).exp())).collect()
    }

    /// Where twice the clients stop paying: the band from where they may to where they do.
    fn saturation(&self, top: f64) -> Vec<Mark> {
        let Some(saturation) = &self.one.saturation else { return vec![] };
        let Some(from) = saturation.from else { return vec![] };
        let until = saturation.at.unwrap_or(self.last());
        let band =
            Mark::Box { x: (from.min(until), until), y: (0.0, top), colour: theme::SHADE, opacity: BAND };
        let line = saturation.at.map(|at| Mark::line([(at, 0.0), (at, top)], theme::SOFT, 1.5));
        std::iter::once(band).chain(line).collect()
    }

    fn peak(&self) -> Vec<Mark> {
        let peak = &self.one.peak;
        let across = peak.interval.map(|x| Mark::HorizontalInterval { x, y: peak.throughput, beyond: None });
        let dot = Mark::Dot { at: (peak.at, peak.throughput), colour: theme::INK, shape: Shape::Diamond };
        across.into_iter().chain([dot]).collect()
    }
}

/// What the vertical axis measures, and its unit: `throughput in MB/s`.
fn axes(metric: &MetricSpec, last: f64, most: f64) -> (Axis, Axis) {
    let symbol = Scale::of(most * 1.05, metric.unit).symbol;
    let unit = if symbol.is_empty() { String::new() } else { format!(" in {symbol}") };
    let y = Axis::from_zero(format!("{}{unit}", metric.id), most * 1.05, metric.unit);
    (Axis::linear("clients", 0.0, last * 1.04, trimmed), y)
}

/// All curves in one panel.
fn together(metric: &MetricSpec, curves: &[Curve], rest: &str) -> Chart {
    let last = curves.iter().map(Curve::last).fold(1.0, f64::max);
    let (x, y) = axes(metric, last, curves.iter().map(Curve::most).fold(0.0, f64::max));
    let line = |curve: &Curve| curve.look.line(&curve.points(), 1.5);
    let marks = curves.iter().flat_map(|curve| std::iter::once(line(curve)).chain(curve.measured()));
    let panel = Panel::new("", x, y, 340, marks.collect());
    let about = format!(
        "{}, over the number of clients. Points are geometric means over rounds, bars 95% intervals of the typical \
         value (under 8 rounds the extremes seen), none of one round.{rest}",
        metric.help
    );
    let legend = curves.iter().map(|curve| curve.look.key(&curve.one.series.name)).collect();
    Chart {
        panels: vec![panel],
        legend,
        ..Chart::new("clients", format!("{} over clients", metric.id), about)
    }
}

/// A panel a curve, with what fits it.
fn fitted(metric: &MetricSpec, curves: &[Curve], rest: &str) -> Chart {
    let legend = vec![
        Key::new("measured", theme::SOFT, Sign::Point(Shape::Disc)),
        Key::new("saturation, from where it may be to where it is", theme::SHADE, Sign::Area(BAND)),
        Key::new("peak, with its interval", theme::INK, Sign::Point(Shape::Diamond)),
    ];
    let about = "Each curve with the law that fits best by AICc, as a line. The band begins at the first number of clients \
                 whose double may bring under 5%, and ends with an upright line at the first whose double certainly \
                 does; without that line it is open. The diamond is the peak, its whisker where the peak is in 95% of \
                 resamples of rounds. Each panel has a scale of its own, from zero.";
    let panels = curves.iter().map(|curve| panel(metric, curve)).collect();
    let title = "What fits, where it saturates, where it peaks";
    Chart { legend, ..Chart::new("clients-fit", title, format!("{about}{rest}")).in_pairs(panels) }
}

fn panel(metric: &MetricSpec, curve: &Curve) -> Panel {
    let one = curve.one;
    let (x, y) = axes(metric, curve.last(), curve.most());
    let mut marks = curve.saturation(y.range.1);
    marks.push(Mark::line(curve.law(), curve.look.colour, 2.0));
    marks.extend(curve.measured());
    marks.extend(curve.peak());
    marks.push(Mark::words((x.range.1, 0.0), (-4, -10), scaling::law_name(one), theme::INK, Anchor::End));
    let (saturation, peak) = (scaling::saturation_range(one), scaling::peak_range(one));
    let title = format!("{}: saturation {saturation}, peak {peak}", one.series.name);
    Panel::new(title, x, y, 230, marks)
}
