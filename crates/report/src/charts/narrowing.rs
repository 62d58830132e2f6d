//! How the interval narrowed, round by round.

use crate::drawing::{Axis, Chart, Mark, Panel, axis::trimmed, colour::PURPLE, theme};
use crate::paired::{self, Paired};
use crate::seen::{Seen, ends};
use crate::{number::plural, words::not_drawn};
use fsarena_stats::{ratio::Ratio, table::FIRST_LOOK};

/// The most panels.
const MOST: usize = 12;
/// The most looks of one panel.
const LOOKS: usize = 60;

/// The charts of this kind.
pub fn charts(seen: &Seen) -> Vec<Chart> {
    let (series, short): (Vec<Paired>, Vec<Paired>) =
        paired::of(seen).into_iter().partition(|paired| paired.d.len() > 2);
    let panels: Vec<Panel> = series.iter().take(MOST).map(|paired| panel(seen, paired)).collect();
    let about = format!(
        "The estimate after every round and its interval; in grey, before round {FIRST_LOOK}, the extremes seen. A \
         verdict stands once the interval keeps away from \"same\"; these intervals allow for looking again and again.{}{}",
        match series.len().saturating_sub(MOST) {
            0 => String::new(),
            rest =>
                format!(" The first {MOST} are drawn; {} more are in the tables.", plural(rest, "comparison")),
        },
        not_drawn(&paired::labels(&short), "under three rounds in which both have a value above zero"),
    );
    vec![Chart::new("narrowing", "How sure, round by round", about).in_pairs(panels)]
}

fn panel(seen: &Seen, paired: &Paired) -> Panel {
    let look = |n: usize| Some((n as f64, Ratio::of(paired.d[..n].to_vec())?));
    let looks: Vec<(f64, Ratio)> = looks(paired.d.len()).into_iter().filter_map(look).collect();
    let colour = paired.variant.map_or(PURPLE, |variant| seen.looks[variant].colour);
    let band = |provisional: bool, colour| {
        let of = looks.iter().filter(|(_, ratio)| ratio.provisional == provisional);
        Mark::Band { points: of.map(|(n, ratio)| (*n, ratio.low.ln(), ratio.high.ln())).collect(), colour }
    };
    let (low, high) = ends((0.0, 0.0), looks.iter().flat_map(|(_, ratio)| [ratio.low.ln(), ratio.high.ln()]));
    let last = paired.d.len() as f64;
    let mut marks = vec![Mark::line([(1.0, 0.0), (last, 0.0)], theme::SOFT, 1.5)];
    let is_wide = |mark: &Mark| matches!(mark, Mark::Band { points, .. } if points.len() > 1);
    marks.extend([band(true, theme::SOFT), band(false, colour)].into_iter().filter(is_wide));
    let points: Vec<_> = looks.iter().map(|(n, ratio)| (*n, ratio.value.ln())).collect();
    marks.push(Mark::line(points, colour, 2.0));
    let up = |(n, ratio): &(f64, Ratio)| Mark::Up {
        x: *n,
        y: (ratio.low.ln(), ratio.high.ln()),
        colour: theme::INK,
    };
    marks.extend(looks.last().map(up));
    let whole = |n: f64| if n.fract() == 0.0 { trimmed(n) } else { String::new() };
    let (x, y) = (Axis::linear("rounds", 1.0, last, whole), Axis::changes("difference", low, high));
    Panel::new(&paired.label, x, y, 190, marks)
}

/// After how many rounds to look: each of few, fewer of many.
fn looks(rounds: usize) -> Vec<usize> {
    if rounds <= LOOKS {
        return (2..=rounds).collect();
    }
    let ratio = (rounds as f64 / 8.0).powf(1.0 / (LOOKS - 8) as f64);
    let later = (0..=LOOKS - 8).map(|at| (8.0 * ratio.powi(at as i32)).round() as usize);
    let mut looks: Vec<usize> = (2..8).chain(later).chain([rounds]).collect();
    looks.retain(|look| *look <= rounds);
    looks.dedup();
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_few_and_end_with_all() {
        assert_eq!(looks(4), [2, 3, 4]);
        let many = looks(400);
        assert!(many.len() <= LOOKS + 1 && many.last() == Some(&400), "{many:?}");
        assert!(many.windows(2).all(|two| two[0] < two[1]));
    }
}
