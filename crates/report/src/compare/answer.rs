//! The answer of a comparison in words: how many figures are better, worse, equivalent or inconclusive, and which of them
//! differ most.

use crate::number::{self, percent};
use crate::ratio_verdict::RatioVerdict;
use fsarena_core::sample::Direction;
use fsarena_stats::cost::Estimate;
use std::borrow::Borrow;

/// The answer names this many of the largest differences of each class.
const MAX_NAMED: usize = 3;

/// One ratio of a comparison.
#[derive(Debug, Clone)]
pub struct ComparedRatio {
    /// The task or the resource.
    pub subject: String,
    /// The variant; empty if the comparison does not distinguish variants.
    pub variant: String,
    /// The comparison that the ratio belongs to, as an index into [`RatioSummary::comparisons`].
    pub comparison: usize,
    /// The ratio with its 95% interval. `None` if numerator or denominator has no values.
    pub ratio: Option<Estimate>,
    /// Whether the ratio is significant, equivalent or inconclusive.
    pub verdict: RatioVerdict,
    /// Whether lower or higher values of the metric are better.
    pub direction: Direction,
    /// Whether the ratio is that of a total.
    pub is_total: bool,
    /// The same ratio in published figures, if the comparison is with such figures.
    pub published: Option<f64>,
}

/// The classes of ratios that the answer counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioClass {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// Significantly different in a metric without a better direction.
    NeutralDifference,
    /// Significantly different, but within the margin.
    Negligible,
    /// Equivalent within the margin.
    Equivalent,
    /// No significant difference, and not equivalent either.
    Inconclusive,
    /// Too few values for a verdict.
    TooFewValues,
}

impl RatioClass {
    /// All classes, in the order in which answers and legends have them.
    pub const ALL: [RatioClass; 7] = [
        RatioClass::Better,
        RatioClass::Worse,
        RatioClass::NeutralDifference,
        RatioClass::Negligible,
        RatioClass::Equivalent,
        RatioClass::Inconclusive,
        RatioClass::TooFewValues,
    ];

    /// The class in words, with these words for better and worse.
    pub fn describe(self, [better, worse]: [&str; 2]) -> &str {
        match self {
            RatioClass::Better => better,
            RatioClass::Worse => worse,
            RatioClass::NeutralDifference => "different",
            RatioClass::Negligible => "different, but within the margin",
            RatioClass::Equivalent => "equivalent",
            RatioClass::Inconclusive => "inconclusive",
            RatioClass::TooFewValues => "too few values",
        }
    }
}

impl ComparedRatio {
    /// A ratio of the first comparison, without a variant.
    pub fn new(subject: &str, ratio: Option<Estimate>, verdict: RatioVerdict, direction: Direction) -> ComparedRatio {
        let (subject, variant) = (subject.into(), String::new());
        ComparedRatio { subject, variant, comparison: 0, ratio, verdict, direction, is_total: false, published: None }
    }

    /// The class of the ratio.
    pub fn class(&self) -> RatioClass {
        let is_larger = self.ratio.is_some_and(|ratio| ratio.value > 1.0);
        match (self.verdict, self.direction) {
            (RatioVerdict::Different, Direction::Neutral) => RatioClass::NeutralDifference,
            (RatioVerdict::Different, Direction::Higher) if is_larger => RatioClass::Better,
            (RatioVerdict::Different, Direction::Lower) if !is_larger => RatioClass::Better,
            (RatioVerdict::Different, _) => RatioClass::Worse,
            (RatioVerdict::Negligible, _) => RatioClass::Negligible,
            (RatioVerdict::Equivalent, _) => RatioClass::Equivalent,
            (RatioVerdict::Inconclusive, _) => RatioClass::Inconclusive,
            (RatioVerdict::Provisional, _) => RatioClass::TooFewValues,
        }
    }

    /// The distance of the ratio from 1, as a natural logarithm; 0 without a ratio.
    fn log_distance(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| ratio.value.ln().abs())
    }
}

/// Joins the first five names, and adds an ellipsis if there are more.
pub fn join_first(names: &[impl Borrow<str>], separator: &str) -> String {
    const MAX_LISTED: usize = 5;
    let shown: Vec<&str> = names.iter().take(MAX_LISTED).map(Borrow::borrow).collect();
    let ellipsis = if names.len() > MAX_LISTED { format!("{separator}…") } else { String::new() };
    format!("{}{ellipsis}", shown.join(separator))
}

/// The number of names, and the first of them in brackets: `2 rows (cp, mv)`.
pub fn count_and_list(names: &[impl Borrow<str>], noun: &str) -> String {
    format!("{} ({})", number::plural(names.len(), noun), join_first(names, ", "))
}

/// The ratios of one or more comparisons, with the names of the comparisons and the words for better and worse.
pub struct RatioSummary<'a> {
    /// All ratios.
    pub ratios: &'a [ComparedRatio],
    /// The names of the comparisons: `B compared with A`.
    pub comparisons: &'a [String],
    /// The smallest difference that matters, as a fraction, if the comparison has one.
    pub margin: Option<f64>,
    /// The words for better and worse.
    pub terms: [&'a str; 2],
}

impl RatioSummary<'_> {
    /// The sentences of the answer, most important first.
    pub fn sentences(&self) -> Vec<String> {
        let all = self.ratios_without_totals(|_| true);
        let mut sentences: Vec<String> = vec![];
        if self.comparisons.len() > 1 && !all.is_empty() {
            sentences.push(format!("Of all {}: {}.", number::plural(all.len(), "figure"), self.count_by_class(&all)));
        }
        for (index, name) in self.comparisons.iter().enumerate() {
            let of_comparison = self.ratios_without_totals(|compared| compared.comparison == index);
            if !of_comparison.is_empty() {
                sentences.push(format!(
                    "{name}, {}: {}.",
                    number::plural(of_comparison.len(), "figure"),
                    self.count_by_class(&of_comparison)
                ));
            }
        }
        sentences.extend(self.total_sentences());
        sentences.extend(self.largest_difference_sentences());
        sentences
    }

    /// The ratios that have a value and pass the filter, except those of totals.
    fn ratios_without_totals(&self, filter: impl Fn(&ComparedRatio) -> bool) -> Vec<&ComparedRatio> {
        self.ratios
            .iter()
            .filter(|compared| !compared.is_total && compared.ratio.is_some() && filter(compared))
            .collect()
    }

    /// Counts ratios by class: `1 better, 2 worse, 3 inconclusive`.
    fn count_by_class(&self, ratios: &[&ComparedRatio]) -> String {
        let count = |class: RatioClass| ratios.iter().filter(|compared| compared.class() == class).count();
        if count(RatioClass::TooFewValues) == ratios.len() {
            return "all inconclusive, too few values".into();
        }
        let within_margin = self.margin.map_or(String::new(), |margin| format!(" within {}", percent(margin)));
        let mut counts = vec![];
        for class in RatioClass::ALL {
            let class_text = match class {
                RatioClass::NeutralDifference => "with more or less".into(),
                RatioClass::Negligible => format!("different, but{within_margin}"),
                RatioClass::Equivalent => format!("equivalent{within_margin}"),
                RatioClass::TooFewValues => "with too few values".into(),
                other => other.describe(self.terms).to_string(),
            };
            // Readers expect the counts of these classes even if they are zero.
            let is_always_shown = match class {
                RatioClass::Better | RatioClass::Worse | RatioClass::Inconclusive => true,
                RatioClass::Equivalent => self.margin.is_some(),
                _ => false,
            };
            if is_always_shown || count(class) > 0 {
                counts.push(format!("{} {class_text}", count(class)));
            }
        }
        counts.join(", ")
    }

    /// A sentence for each total, with all its variants and comparisons.
    fn total_sentences(&self) -> Vec<String> {
        let mut sentences: Vec<(&str, Vec<String>)> = vec![];
        for compared in self.ratios.iter().filter(|compared| compared.is_total) {
            let Some(ratio) = compared.ratio else { continue };
            let (comparison, ratio_text) = (self.comparison_suffix(compared), format_estimate(ratio));
            let description =
                format!("{}{comparison} {ratio_text}, {}", compared.variant, compared.class().describe(self.terms));
            match sentences.iter_mut().find(|(title, _)| *title == compared.subject) {
                Some((_, ratios)) => ratios.push(description),
                None => sentences.push((&compared.subject, vec![description])),
            }
        }
        sentences.into_iter().map(|(title, ratios)| format!("{title}: {}.", ratios.join("; "))).collect()
    }

    /// Sentences that name the largest significant differences, or the largest ratio if no difference is significant.
    fn largest_difference_sentences(&self) -> Vec<String> {
        let mut sentences = vec![];
        for class in [RatioClass::Worse, RatioClass::Better, RatioClass::NeutralDifference] {
            let heading = format!("Largest differences, {}", class.describe(self.terms));
            sentences.extend(self.largest_ratios_sentence(class, &heading, MAX_NAMED));
        }
        if sentences.is_empty() {
            let larger = self.margin.map_or("", |_| " larger than the margin");
            let heading = format!("No significant difference{larger}. Largest ratio, which may be chance");
            let inconclusive = self.largest_ratios_sentence(RatioClass::Inconclusive, &heading, 1);
            sentences
                .extend(inconclusive.or_else(|| self.largest_ratios_sentence(RatioClass::TooFewValues, &heading, 1)));
        }
        sentences
    }

    /// A sentence with the ratios of a class that differ most from 1, at most `max_ratios`; `None` if the class is empty.
    fn largest_ratios_sentence(&self, class: RatioClass, heading: &str, max_ratios: usize) -> Option<String> {
        let mut ratios = self.ratios_without_totals(|compared| compared.class() == class);
        ratios.sort_by(|a, b| b.log_distance().total_cmp(&a.log_distance()));
        let mut named = vec![];
        for compared in ratios.into_iter().take(max_ratios) {
            let comma = if compared.variant.is_empty() { "" } else { ", " };
            let (variant, comparison) = (&compared.variant, self.comparison_suffix(compared));
            let ratio = format_estimate(compared.ratio?);
            named.push(format!("{}{comma}{variant}{comparison}: {ratio}", compared.subject));
        }
        (!named.is_empty()).then(|| format!("{heading}: {}.", named.join("; ")))
    }

    /// The name of a ratio's comparison in brackets; empty if there is only one comparison.
    fn comparison_suffix(&self, compared: &ComparedRatio) -> String {
        if self.comparisons.len() > 1 { format!(" ({})", self.comparisons[compared.comparison]) } else { String::new() }
    }
}

/// Formats a ratio with its interval: `1.10 [1.09–1.11]`.
fn format_estimate(ratio: Estimate) -> String {
    number::ratio_with_interval(ratio.value, ratio.low, ratio.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(subject: &str, verdict: RatioVerdict, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1.1 });
        let (variant, direction) = ("xfs".into(), Direction::Lower);
        ComparedRatio { variant, ..ComparedRatio::new(subject, ratio, verdict, direction) }
    }

    fn sentences(ratios: &[ComparedRatio], names: &[&str]) -> Vec<String> {
        let comparisons: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        RatioSummary { ratios, comparisons: &comparisons, margin: Some(0.01), terms: ["better", "worse"] }.sentences()
    }

    #[test]
    fn the_answer_counts_every_figure_once_and_names_the_largest() {
        let total = ComparedRatio { is_total: true, ..compared("TOTAL", RatioVerdict::Different, 1.5) };
        let ratios = [
            compared("cp", RatioVerdict::Different, 1.2),
            compared("rm", RatioVerdict::Different, 2.0),
            compared("tar", RatioVerdict::Different, 0.5),
            compared("cat", RatioVerdict::Equivalent, 1.0),
            compared("ls", RatioVerdict::Inconclusive, 1.3),
            compared("mv", RatioVerdict::Negligible, 1.004),
            compared("ln", RatioVerdict::Provisional, 9.0),
            ComparedRatio { ratio: None, ..compared("none", RatioVerdict::Provisional, 1.0) },
            total,
        ];
        assert_eq!(
            sentences(&ratios, &["B compared with A"]),
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
        let higher = ComparedRatio { direction: Direction::Higher, ..compared("iops", RatioVerdict::Different, 2.0) };
        let neutral = ComparedRatio { direction: Direction::Neutral, ..higher.clone() };
        assert_eq!((higher.class(), neutral.class()), (RatioClass::Better, RatioClass::NeutralDifference));
    }

    #[test]
    fn each_of_several_comparisons_has_a_sentence_with_its_name() {
        let other = ComparedRatio { comparison: 1, ..compared("cp", RatioVerdict::Different, 3.0) };
        let answer = sentences(&[compared("cp", RatioVerdict::Inconclusive, 1.0), other], &["B", "C"]);
        assert!(answer[0].starts_with("Of all 2 figures: 0 better, 1 worse"), "{answer:?}");
        assert!(answer[1].starts_with("B, 1 figure: ") && answer[2].starts_with("C, 1 figure: "), "{answer:?}");
        assert!(answer[3].contains("cp, xfs (C): 3.00 ["), "{answer:?}");
    }

    #[test]
    fn too_few_values_are_inconclusive() {
        let answer = sentences(&[compared("cp", RatioVerdict::Provisional, 1.4)], &["B"]);
        assert!(answer[0].contains("all inconclusive") && answer[1].contains("may be chance: cp"), "{answer:?}");
        assert!(answer[1].starts_with("No significant difference larger than the margin. "), "{answer:?}");
        let (ratios, comparisons) = ([compared("iowait", RatioVerdict::Inconclusive, 1.4)], ["B".to_string()]);
        let terms = ["cheaper", "dearer"];
        let answer = RatioSummary { ratios: &ratios, comparisons: &comparisons, margin: None, terms }.sentences();
        assert!(answer[1].starts_with("No significant difference. Largest ratio"), "{answer:?}");
    }
}
