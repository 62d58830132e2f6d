//! What a comparison comes to, in words: how many figures are better, worse, the same or open, and which differ most.

use crate::difference::Finding;
use crate::number::{self, percent};
use fsarena_core::{names::distinct, sample::Direction};
use fsarena_stats::cost::Estimate;
use std::borrow::Borrow;

/// The most differences that are named each way.
const NAMED: usize = 3;

/// One ratio of a comparison.
#[derive(Debug, Clone)]
pub struct ComparedRatio {
    /// The task or the resource.
    pub what: String,
    /// On what; empty where that says nothing.
    pub variant: String,
    /// Which of the sides it belongs to.
    pub side: usize,
    /// How many times as much, with its 95% interval. None where one of the two has no values.
    pub ratio: Option<Estimate>,
    /// What that says.
    pub finding: Finding,
    /// Which way is better.
    pub direction: Direction,
    /// Whether it sums up others.
    pub over_all: bool,
    /// What the same ratio was in published figures.
    pub then: Option<f64>,
}

/// What a figure counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RatioClass {
    /// Significantly better.
    Better,
    /// Significantly worse.
    Worse,
    /// Significantly different, where neither way is better.
    Other,
    /// Significantly different, but within the margin.
    Negligible,
    /// Equivalent within the margin.
    Equivalent,
    /// No significant difference, and not equivalent either.
    Inconclusive,
    /// Of too few values.
    Few,
}

impl ComparedRatio {
    /// A figure of the first side, on no particular variant.
    pub fn new(what: &str, ratio: Option<Estimate>, finding: Finding, direction: Direction) -> ComparedRatio {
        let (what, variant) = (what.into(), String::new());
        ComparedRatio { what, variant, side: 0, ratio, finding, direction, over_all: false, then: None }
    }

    /// What it counts as.
    pub fn class(&self) -> RatioClass {
        let up = self.ratio.is_some_and(|ratio| ratio.value > 1.0);
        match (self.finding, self.direction) {
            (Finding::Different, Direction::Neutral) => RatioClass::Other,
            (Finding::Different, Direction::Higher) if up => RatioClass::Better,
            (Finding::Different, Direction::Lower) if !up => RatioClass::Better,
            (Finding::Different, _) => RatioClass::Worse,
            (Finding::Negligible, _) => RatioClass::Negligible,
            (Finding::Equivalent, _) => RatioClass::Equivalent,
            (Finding::Inconclusive, _) => RatioClass::Inconclusive,
            (Finding::Provisional, _) => RatioClass::Few,
        }
    }

    fn distance(&self) -> f64 {
        self.ratio.map_or(0.0, |ratio| ratio.value.ln().abs())
    }
}

/// The first five names, and an ellipsis where there are more.
pub fn first_of(names: &[impl Borrow<str>], between: &str) -> String {
    const MOST: usize = 5;
    let shown: Vec<&str> = names.iter().take(MOST).map(Borrow::borrow).collect();
    let more = if names.len() > MOST { format!("{between}…") } else { String::new() };
    format!("{}{more}", shown.join(between))
}

/// `2 rows (cp, mv)`: how many of a thing there are, and the first of their names.
pub fn counted(names: &[impl Borrow<str>], what: &str) -> String {
    format!("{} ({})", number::plural(names.len(), what), first_of(names, ", "))
}

/// Figures and what they are called.
pub struct RatioSummary<'a> {
    /// All of them.
    pub figures: &'a [ComparedRatio],
    /// What the figures of each side compare: `B beside A`.
    pub sides: &'a [String],
    /// The difference that matters, where one is known.
    pub margin: Option<f64>,
    /// What better and worse are called.
    pub terms: [&'a str; 2],
}

impl RatioSummary<'_> {
    /// The answer, most important first.
    pub fn words(&self) -> Vec<String> {
        let single = self.counted(|_| true);
        let mut items: Vec<String> = vec![];
        if self.sides.len() > 1 && !single.is_empty() {
            items.push(format!("Of all {}: {}.", figures(single.len()), self.tally(&single)));
        }
        for (at, side) in self.sides.iter().enumerate() {
            let of_side = self.counted(|figure| figure.side == at);
            if !of_side.is_empty() {
                items.push(format!("{side}, {}: {}.", figures(of_side.len()), self.tally(&of_side)));
            }
        }
        items.extend(self.over_all());
        items.extend(self.largest());
        items
    }

    /// The figures that are compared, without those that sum up others.
    fn counted(&self, of: impl Fn(&ComparedRatio) -> bool) -> Vec<&ComparedRatio> {
        self.figures
            .iter()
            .filter(|figure| !figure.over_all && figure.ratio.is_some() && of(figure))
            .collect()
    }

    fn tally(&self, figures: &[&ComparedRatio]) -> String {
        let count = |class: RatioClass| figures.iter().filter(|figure| figure.class() == class).count();
        if count(RatioClass::Few) == figures.len() {
            return "all inconclusive, too few values".into();
        }
        let [better, worse] = self.terms;
        let within = self.margin.map_or(String::new(), |margin| format!(" within {}", percent(margin)));
        // Always print these counts, even if they are zero: readers expect them.
        let all = [
            (RatioClass::Better, better.to_string(), true),
            (RatioClass::Worse, worse.to_string(), true),
            (RatioClass::Other, "with more or less".into(), false),
            (RatioClass::Negligible, format!("different, but{within}"), false),
            (RatioClass::Equivalent, format!("equivalent{within}"), self.margin.is_some()),
            (RatioClass::Inconclusive, "inconclusive".into(), true),
            (RatioClass::Few, "with too few values".into(), false),
        ];
        let said = all.into_iter().filter(|(class, _, always)| *always || count(*class) > 0);
        said.map(|(class, words, _)| format!("{} {words}", count(class))).collect::<Vec<_>>().join(", ")
    }

    /// The totals, a sentence each.
    fn over_all(&self) -> Vec<String> {
        let totals = || self.figures.iter().filter(|figure| figure.over_all && figure.ratio.is_some());
        let sentence = |title: &str| {
            let one = |figure: &ComparedRatio| {
                let (name, times) = (self.in_side(figure), times(figure.ratio?));
                Some(format!("{}{name} {times}, {}", figure.variant, self.verdict(figure)))
            };
            let each: Vec<String> = totals().filter(|f| f.what == title).filter_map(one).collect();
            format!("{title}: {}.", each.join("; "))
        };
        distinct(totals().map(|figure| figure.what.as_str())).into_iter().map(sentence).collect()
    }

    /// What differs most, each way.
    fn largest(&self) -> Vec<String> {
        let [better, worse] = self.terms;
        let ways =
            [(RatioClass::Worse, worse), (RatioClass::Better, better), (RatioClass::Other, "different")];
        let most = |(class, word)| self.most(class, &format!("Largest differences, {word}"));
        let mut items: Vec<String> = ways.into_iter().filter_map(most).collect();
        if items.is_empty() {
            let words =
                "No significant difference larger than the margin. Largest ratio, which may be chance";
            let open =
                self.most(RatioClass::Inconclusive, words).or_else(|| self.most(RatioClass::Few, words));
            items.extend(open);
        }
        items
    }

    fn most(&self, class: RatioClass, words: &str) -> Option<String> {
        let mut of = self.counted(|figure| figure.class() == class);
        of.sort_by(|a, b| b.distance().total_cmp(&a.distance()));
        let open = matches!(class, RatioClass::Inconclusive | RatioClass::Few);
        let named = of.iter().take(if open { 1 } else { NAMED }).filter_map(|figure| {
            let comma = if figure.variant.is_empty() { "" } else { ", " };
            let (variant, side) = (&figure.variant, self.in_side(figure));
            Some(format!("{}{comma}{variant}{side}: {}", figure.what, times(figure.ratio?)))
        });
        let named: Vec<String> = named.collect();
        (!named.is_empty()).then(|| format!("{words}: {}.", named.join("; ")))
    }

    fn in_side(&self, figure: &ComparedRatio) -> String {
        if self.sides.len() > 1 { format!(" ({})", self.sides[figure.side]) } else { String::new() }
    }

    fn verdict(&self, figure: &ComparedRatio) -> &str {
        match figure.class() {
            RatioClass::Better => self.terms[0],
            RatioClass::Worse => self.terms[1],
            RatioClass::Other => "different",
            RatioClass::Negligible => "different, but within the margin",
            RatioClass::Equivalent => "equivalent",
            RatioClass::Inconclusive => "inconclusive",
            RatioClass::Few => "of too few values",
        }
    }
}

fn figures(count: usize) -> String {
    number::plural(count, "figure")
}

/// `1.10 [1.09–1.11]`.
fn times(ratio: Estimate) -> String {
    number::ratio(ratio.value, ratio.low, ratio.high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(what: &str, finding: Finding, value: f64) -> ComparedRatio {
        let ratio = Some(Estimate { value, low: value * 0.9, high: value * 1.1 });
        let (variant, direction) = ("xfs".into(), Direction::Lower);
        ComparedRatio { variant, ..ComparedRatio::new(what, ratio, finding, direction) }
    }

    fn words(figures: &[ComparedRatio], sides: &[&str]) -> Vec<String> {
        let sides: Vec<String> = sides.iter().map(|side| side.to_string()).collect();
        RatioSummary { figures, sides: &sides, margin: Some(0.01), terms: ["better", "worse"] }.words()
    }

    #[test]
    fn every_figure_is_counted_once_and_the_largest_are_named() {
        let total = ComparedRatio { over_all: true, ..figure("TOTAL", Finding::Different, 1.5) };
        let figures = [
            figure("cp", Finding::Different, 1.2),
            figure("rm", Finding::Different, 2.0),
            figure("tar", Finding::Different, 0.5),
            figure("cat", Finding::Equivalent, 1.0),
            figure("ls", Finding::Inconclusive, 1.3),
            figure("mv", Finding::Negligible, 1.004),
            figure("ln", Finding::Provisional, 9.0),
            ComparedRatio { ratio: None, ..figure("none", Finding::Provisional, 1.0) },
            total,
        ];
        assert_eq!(
            words(&figures, &["B beside A"]),
            [
                "B beside A, 7 figures: 1 better, 2 worse, 1 different, but within 1%, 1 equivalent within 1%, \
                 1 inconclusive, 1 with too few values.",
                "TOTAL: xfs 1.50 [1.35–1.65], worse.",
                "Largest differences, worse: rm, xfs: 2.00 [1.80–2.20]; cp, xfs: 1.20 [1.08–1.32].",
                "Largest differences, better: tar, xfs: 0.500 [0.450–0.550].",
            ]
        );
    }

    #[test]
    fn what_is_more_is_better_where_that_is_the_direction() {
        let more = ComparedRatio { direction: Direction::Higher, ..figure("iops", Finding::Different, 2.0) };
        let neutral = ComparedRatio { direction: Direction::Neutral, ..more.clone() };
        assert_eq!((more.class(), neutral.class()), (RatioClass::Better, RatioClass::Other));
    }

    #[test]
    fn several_sides_have_a_line_each_and_are_named() {
        let other = ComparedRatio { side: 1, ..figure("cp", Finding::Different, 3.0) };
        let said = words(&[figure("cp", Finding::Inconclusive, 1.0), other], &["B", "C"]);
        assert!(said[0].starts_with("Of all 2 figures: 0 better, 1 worse"), "{said:?}");
        assert!(said[1].starts_with("B, 1 figure: ") && said[2].starts_with("C, 1 figure: "), "{said:?}");
        assert!(said[3].contains("cp, xfs (C): 3.00 ["), "{said:?}");
    }

    #[test]
    fn few_values_decide_nothing() {
        let said = words(&[figure("cp", Finding::Provisional, 1.4)], &["B"]);
        assert!(said[0].contains("all inconclusive") && said[1].contains("may be chance: cp"), "{said:?}");
    }
}
