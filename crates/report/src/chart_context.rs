//! A report as charts see it, and the marks that they share.

use crate::drawing::{Axis, Colour, Dash, Key, Look, Mark, Panel, Shape, Sign};
use crate::number::{plural, with_unit};
use crate::{report::Report, words::not_drawn};
use fsarena_core::{record::RunRecord, sample::Unit, schedule::mix};

/// The most tasks that one chart holds; of more, only all together.
pub const MAX_TASKS: usize = 40;
/// An interval longer than this many times the longest bar ends there with an arrow: more would make the bars short.
pub const MAX_REACH: f64 = 2.0;

/// How far the dot of a round lies beside its row, from −½ to ½: by chance, but the same every time.
pub fn jitter(round: usize, row: usize) -> f64 {
    (mix(round as u64, row as u64) % 1000) as f64 / 1000.0 - 0.5
}

/// A bar: its variant, its value and its whisker.
pub type BarRow = (usize, Option<f64>, Option<(f64, f64)>);

/// A report as charts see it.
pub struct ChartContext<'a> {
    /// The report.
    pub report: &'a Report,
    /// How each variant is drawn.
    pub looks: Vec<Look>,
}

impl<'a> ChartContext<'a> {
    /// A report and the looks of its variants.
    pub fn new(report: &'a Report) -> ChartContext<'a> {
        ChartContext { report, looks: Look::of_variants(&report.record.variants) }
    }

    /// The run.
    pub fn record(&self) -> &'a RunRecord {
        &self.report.record
    }

    /// The name of a variant.
    pub fn name(&self, variant: usize) -> &'a str {
        self.record().name(variant)
    }

    /// The look of a variant's further series, in a shade of its colour: the variant's own where none is `before` it.
    pub fn shade(&self, variant: usize, before: usize) -> Look {
        let look = self.looks[variant];
        let dash = if before == 0 { look.dash } else { Dash::of_shade(before) };
        Look { colour: look.colour.shade(before), shape: Shape::of_series(variant + before), dash }
    }

    /// The variants of which something is so.
    pub fn variants(&self, is: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.record().variants.len()).filter(|variant| is(*variant)).collect()
    }

    /// A sentence, with a space before it, on the variants other than those drawn; empty if there is none.
    pub fn not_drawn(&self, drawn: &[usize], why: &str) -> String {
        let others = self.variants(|variant| !drawn.contains(&variant)).into_iter();
        not_drawn(&others.map(|variant| self.name(variant).to_string()).collect::<Vec<_>>(), why)
    }

    /// The legend of some variants, with their lines and the shapes of their points where they have some.
    pub fn legend(&self, variants: &[usize], shapes: bool) -> Vec<Key> {
        let key = |variant: &usize| {
            let (name, look) = (self.name(*variant), self.looks[*variant]);
            if shapes { look.key(name) } else { Key::new(name, look.colour, Sign::Area(1.0)) }
        };
        variants.iter().map(key).collect()
    }

    /// A panel of bars from zero, one a variant with its value and its whisker. The panel ends where the longest bar reaches
    /// [`MAX_REACH`] times.
    pub fn bars(
        &self,
        (title, label): (&str, &str),
        unit: Unit,
        rows: &[BarRow],
        height: (u32, u32),
    ) -> Panel {
        let longest = rows.iter().filter_map(|(_, value, _)| *value).fold(0.0, f64::max);
        let furthest =
            rows.iter().filter_map(|(.., whisker)| Some(whisker.as_ref()?.1)).fold(longest, f64::max);
        // Of bars of zero only the intervals are seen.
        let limit = if longest > 0.0 { furthest.min(longest * MAX_REACH) } else { furthest };
        let mut marks = vec![];
        for (row, (variant, value, whisker)) in rows.iter().enumerate() {
            let Some(value) = value else { continue };
            let (y, colour) = (Axis::slot(row), self.looks[*variant].colour);
            marks.push(Mark::Box { x: (0.0, *value), y: (y - 0.38, y + 0.38), colour, opacity: 1.0 });
            let (whisker, end) = clipped_whisker(limit, *whisker, y, |high| with_unit(high, unit));
            marks.extend(whisker);
            marks.push(Mark::figure(y, format!("{}{end}", with_unit(*value, unit))));
        }
        let names = rows.iter().map(|(variant, ..)| self.name(*variant));
        Panel::rows(title, Axis::from_zero(label, limit * 1.3, unit), names, height, marks)
    }
}

/// The whisker of a bar, which ends with an arrow where it goes on beyond the limit, and its end in words then.
pub fn clipped_whisker(
    limit: f64,
    x: Option<(f64, f64)>,
    y: f64,
    say: impl Fn(f64) -> String,
) -> (Option<Mark>, String) {
    let beyond = x.filter(|(_, high)| *high > limit);
    let mark = x.map(|x| Mark::HorizontalInterval { x, y, beyond: beyond.map(|_| String::new()) });
    (mark, beyond.map_or(String::new(), |(_, high)| format!(" →{}", say(high))))
}

/// The parts of a bar in the `row`-th slot of names one after the other, and where they end.
pub fn stacked_bar(row: usize, parts: impl IntoIterator<Item = (f64, Colour)>) -> (Vec<Mark>, f64) {
    let y = (Axis::slot(row) - 0.35, Axis::slot(row) + 0.35);
    let (mut marks, mut from) = (vec![], 0.0);
    for (length, colour) in parts {
        marks.extend(Mark::edged((from, from + length), y, colour));
        from += length;
    }
    (marks, from)
}

/// The least and the most of some values, beyond those to begin with.
pub fn widen_range(begin: (f64, f64), values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values.into_iter().fold(begin, |(low, high), value| (low.min(value), high.max(value)))
}

/// Says that there are too many tasks to draw each, with a leading space; empty for few tasks.
pub fn too_many_tasks_note(tasks: usize) -> String {
    let words = format!(" Of {}, all together are drawn and none alone.", plural(tasks, "task"));
    if tasks > MAX_TASKS { words } else { String::new() }
}
