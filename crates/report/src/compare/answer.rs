//! The answer of a comparison in words: how many figures are better, worse, equivalent or inconclusive, and which differ
//! most.

use crate::number::{self, percent};
use crate::ratio_verdict::RatioVerdict;
use fsarena_core::sample::Direction;
use fsarena_stats::cost::Estimate;
use std::borrow::Borrow;

/// The answer names this many of the largest differences in each direction.
const MAX_NAMED: usize = 3;

/// One ratio of a comparison.
#[derive(Debug, Clone)]
pub struct ComparedRatio {
    /// The task or the resource.
    pub subject: String,
    /// The variant; empty if the comparison does not distinguish variants.
    pub variant: String,
    /// The side of the comparison, as an index into [`RatioSummary::sides`].
    pub side: usize,
    /// The ratio with its 95% interval. `None` if numerator or denominator has no values.
    pub ratio: Option<Estimate>,
    /// Whether the ratio is significant, equivalent or inconclusive.
    pub verdict: RatioVerdict,
    /// Whether a lower or a higher value of the metric is better.
    pub direction: Direction,
    /// Whether the figure is a total over other figures.
    pub is_total: bool,
    /// The same ratio in published figures.
    pub published: Option<f64>,
}

/// The class that the answer counts a ratio in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioClass {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// Significantly different in a metric without a better direction.
    Other,
    /// Significantly different, but within the margin.
    Negligible,
    /// Equivalent within the margin.
    Equivalent,
    /// No significant difference, and not equivalent either.
    Inconclusive,
    /// Too few values for a verdict.
    Few,
}

impl RatioClass {
    /// All classes, in the order in which answers and legends have them.
    pub const ALL: [RatioClass; 7] = [
        RatioClass::Better,
        RatioClass::Worse,
        RatioClass::Other,
        RatioClass::Negligible,
        RatioClass::Equivalent,
        RatioClass::Inconclusive,
        RatioClass::Few,
    ];

    /// The class in words. `terms` are the words for better and worse.
    pub fn words(self, terms: [&str; 2]) -> &str {
        match self {
            RatioClass::Better => terms[0],
            RatioClass::Worse => terms[1],
            RatioClass::Other => "different",
            RatioClass::Negligible => "different, but within the margin",
            RatioClass::Equivalent => "equivalent",
            RatioClass::Inconclusive => "inconclusive",
            RatioClass::Few => "too few values",
        }
    }
}

impl ComparedRatio {
    /// A figure of the first side, without a variant.
    pub fn new(
        subject: &str,
        ratio: Option<Estimate>,
        verdict: RatioVerdict,
        direction: Direction,
    ) -> ComparedRatio {
        let (subject, variant) = (subject.into(), String::new());
        ComparedRatio {
            subject,
            variant,
            side: 0,
            ratio,
            verdict,
            direction,
            is_total: false,
            published: None,
        }
    }

    /// The class of the ratio.
    pub fn class(&self) -> RatioClass {
        let up = self.ratio.is_some_and(|ratio| ratio.value > 1.0);
        match (self.verdict, self.direction) {
            (RatioVerdict::Different, Direction::Neutral) => RatioClass::Other,
            (RatioVerdict::Different, Direction::Higher) if up => RatioClass::Better,
            (RatioVerdict::Different, Direction::Lower) if !up => RatioClass::Better,
            (RatioVerdict::Different, _) => RatioClass::Worse,
            (RatioVerdict::Negligible, _) => RatioClass::Negligible,
            (RatioVerdict::Equivalent, _) => RatioClass::Equivalent,
            (RatioVerdict::Inconclusive, _) => RatioClass::Inconclusive,
            (RatioVerdict::Provisional, _) => RatioClass::Few,
        }
    }

    /// The distance of the ratio from 1, in logarithms.
    fn distance(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| ratio.value.ln().abs())
    }
}

/// Joins the first five names, and adds an ellipsis if there are more.
pub fn first_of(names: &[impl Borrow<str>], between: &str) -> String {
    const MOST: usize = 5;
    let shown: Vec<&str> = names.iter().take(MOST).map(Borrow::borrow).collect();
    let more = if names.len() > MOST { format!("{between}…") } else { String::new() };
    format!("{}{more}", shown.join(between))
}

/// The number of names with the first of them: `2 rows (cp, mv)`.
pub fn counted(names: &[impl Borrow<str>], what: &str) -> String {
    format!("{} ({})", number::plural(names.len(), what), first_of(names, ", "))
}

/// The ratios of a comparison, with the words for its sides and directions.
pub struct RatioSummary<'a> {
    /// All ratios.
    pub figures: &'a [ComparedRatio],
    /// The names of the sides: `B compared with A`.
    pub sides: &'a [String],
    /// The smallest difference that matters, as a fraction, if the comparison has one.
    pub margin: Option<f64>,
    /// The words for better and worse.
    pub terms: [&'a str; 2],
}

impl RatioSummary<'_> {
    /// The sentences of the answer, most important first.
    pub fn words(&self) -> Vec<String> {
        let all = self.single_figures(|_| true);
        let mut items: Vec<String> = vec![];
        if self.sides.len() > 1 && !all.is_empty() {
            items.push(format!("Of all {}: {}.", figures(all.len()), self.tally(&all)));
        }
        for (at, side) in self.sides.iter().enumerate() {
            let of_side = self.single_figures(|figure| figure.side == at);
            if !of_side.is_empty() {
                items.push(format!("{side}, {}: {}.", figures(of_side.len()), self.tally(&of_side)));
            }
        }
        items.extend(self.totals());
        items.extend(self.largest_differences());
        items
    }

    /// The figures with a ratio that pass the filter, without totals.
    fn single_figures(&self, filter: impl Fn(&ComparedRatio) -> bool) -> Vec<&ComparedRatio> {
        self.figures
            .iter()
            .filter(|figure| !figure.is_total && figure.ratio.is_some() && filter(figure))
            .collect()
    }

    /// Counts figures by class: `1 better, 2 worse, 3 inconclusive`.
    fn tally(&self, figures: &[&ComparedRatio]) -> String {
        let count = |class: RatioClass| figures.iter().filter(|figure| figure.class() == class).count();
        if count(RatioClass::Few) == figures.len() {
            return "all inconclusive, too few values".into();
        }
        let within = self.margin.map_or(String::new(), |margin| format!(" within {}", percent(margin)));
        let mut counts = vec![];
        for class in RatioClass::ALL {
            let words = match class {
                RatioClass::Other => "with more or less".into(),
                RatioClass::Negligible => format!("different, but{within}"),
                RatioClass::Equivalent => format!("equivalent{within}"),
                RatioClass::Few => "with too few values".into(),
                other => other.words(self.terms).to_string(),
            };
            // Readers expect the counts of these classes even if they are zero.
            let always = match class {
                RatioClass::Better | RatioClass::Worse | RatioClass::Inconclusive => true,
                RatioClass::Equivalent => self.margin.is_some(),
                _ => false,
            };
            if always || count(class) > 0 {
                counts.push(format!("{} {words}", count(class)));
            }
        }
        counts.join(", ")
    }

    /// A sentence for each total, with all its variants and sides.
    fn totals(&self) -> Vec<String> {
        let mut sentences: Vec<(&str, Vec<String>)> = vec![];
        for figure in self.figures.iter().filter(|figure| figure.is_total) {
            let Some(ratio) = figure.ratio else { continue };
            let (side, times) = (self.side_suffix(figure), ratio_with_interval(ratio));
            let words = format!("{}{side} {times}, {}", figure.variant, figure.class().words(self.terms));
            match sentences.iter_mut().find(|(title, _)| *title == figure.subject) {
                Some((_, figures)) => figures.push(words),
                None => sentences.push((&figure.subject, vec![words])),
            }
        }
        sentences.into_iter().map(|(title, figures)| format!("{title}: {}.", figures.join("; "))).collect()
    }

    /// Sentences that name the largest significant differences, or the largest ratio if no difference is significant.
    fn largest_differences(&self) -> Vec<String> {
        let mut items = vec![];
        for class in [RatioClass::Worse, RatioClass::Better, RatioClass::Other] {
            let words = format!("Largest differences, {}", class.words(self.terms));
            items.extend(self.largest_of(class, &words, MAX_NAMED));
        }
        if items.is_empty() {
            let words =
                "No significant difference larger than the margin. Largest ratio, which may be chance";
            let inconclusive = self.largest_of(RatioClass::Inconclusive, words, 1);
            items.extend(inconclusive.or_else(|| self.largest_of(RatioClass::Few, words, 1)));
        }
        items
    }

    /// A sentence with the `count` figures of a class that differ most; `None` if the class is empty.
    fn largest_of(&self, class: RatioClass, words: &str, count: usize) -> Option<String> {
        let mut figures = self.single_figures(|figure| figure.class() == class);
        figures.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        let mut named = vec![];
        for figure in figures.into_iter().take(count) {
            let comma = if figure.variant.is_empty() { "" } else { ", " };
            let (variant, side) = (&figure.variant, self.side_suffix(figure));
            let ratio = ratio_with_interval(figure.ratio?);
            named.push(format!("{}{comma}{variant}{side}: {ratio}", figure.subject));
        }
        (!named.is_empty()).then(|| format!("{words}: {}.", named.join("; ")))
    }

    /// The name of a figure's side in brackets; empty if there is only one side.
    fn side_suffix(&self, figure: &ComparedRatio) -> String {
        if self.sides.len() > 1 { format!(" ({})", self.sides[figure.side]) } else { String::new() }
    }
}

fn figures(count: usize) -> String {
    number::plural(count, "figure")
}

/// A ratio with its interval: `1.10 [1.09–1.11]`.
fn ratio_with_interval(ratio: Estimate) -> String {
    number::ratio(ratio.value, ratio.low, ratio.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(what: &str, verdict: RatioVerdict, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1.1 });
        let (variant, direction) = ("xfs".into(), Direction::Lower);
        ComparedRatio { variant, ..ComparedRatio::new(what, ratio, verdict, direction) }
    }

    fn words(figures: &[ComparedRatio], sides: &[&str]) -> Vec<String> {
        let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
        RatioSummary { figures, sides: &sides, margin: Some(0.01), terms: ["better", "worse"] }.words()
    }

    #[test]
    fn the_answer_counts_every_figure_once_and_names_the_largest() {
        let total = ComparedRatio { is_total: true, ..figure("TOTAL", RatioVerdict::Different, 1.5) };
        let figures = [
            figure("cp", RatioVerdict::Different, 1.2),
            figure("rm", RatioVerdict::Different, 2.0),
            figure("tar", RatioVerdict::Different, 0.5),
            figure("cat", RatioVerdict::Equivalent, 1.0),
            figure("ls", RatioVerdict::Inconclusive, 1.3),
            figure("mv", RatioVerdict::Negligible, 1.004),
            figure("ln", RatioVerdict::Provisional, 9.0),
            ComparedRatio { ratio: None, ..figure("none", RatioVerdict::Provisional, 1.0) },
            total,
        ];
        assert_eq!(
            words(&figures, &["B compared with A"]),
            [
                "B compared with A, 7 figures: 1 better, 2 worse, 1 different, but within 1%, 1 equivalent within 1%, \
                 1 inconclusive, 1 with too few values.",
                "TOTAL: xfs 1.50 [1.35–1.65], worse.",
                "Largest differences, worse: rm, xfs: 2.00 [1.80–2.20]; cp, xfs: 1.20 [1.08–1.32].",
                "Largest differences, better: tar, xfs: 0.500 [0.450–0.550].",
            ]
        );
    }

    #[test]
    fn a_larger_ratio_is_better_if_the_direction_is_higher() {
        let more =
            ComparedRatio { direction: Direction::Higher, ..figure("iops", RatioVerdict::Different, 2.0) };
        let neutral = ComparedRatio { direction: Direction::Neutral, ..more.clone() };
        assert_eq!((more.class(), neutral.class()), (RatioClass::Better, RatioClass::Other));
    }

    #[test]
    fn each_of_several_sides_has_a_sentence_with_its_name() {
        let other = ComparedRatio { side: 1, ..figure("cp", RatioVerdict::Different, 3.0) };
        let answer = words(&[figure("cp", RatioVerdict::Inconclusive, 1.0), other], &["B", "C"]);
        assert!(answer[0].starts_with("Of all 2 figures: 0 better, 1 worse"), "{answer:?}");
        assert!(
            answer[1].starts_with("B, 1 figure: ") && answer[2].starts_with("C, 1 figure: "),
            "{answer:?}"
        );
        assert!(answer[3].contains("cp, xfs (C): 3.00 ["), "{answer:?}");
    }

    #[test]
    fn too_few_values_are_inconclusive() {
        let answer = words(&[figure("cp", RatioVerdict::Provisional, 1.4)], &["B"]);
        assert!(
            answer[0].contains("all inconclusive") && answer[1].contains("may be chance: cp"),
            "{answer:?}"
        );
    }
}
