//! What a history says in words.

use super::point::{Asked, Point};
use crate::number::{self, plural, three, with_unit};
use crate::words::begun;
use fsarena_core::sample::Direction;
use fsarena_stats::change_point::{Change, Standing};

/// How changes are found and confirmed.
pub const METHOD: &str = "Changes are found by E-divisive over one value a run (the Hodges–Lehmann estimate over its \
    rounds), at 5%. A change is confirmed when the next three runs after it was first seen lie on the new level \
    (Mann–Whitney, one-sided, 5%); until then it is suspected.";

/// The heading.
pub fn title(asked: &Asked, paired: bool) -> String {
    let against = match &asked.reference {
        Some(reference) if paired => format!(" over {reference}, within rounds"),
        _ => String::new(),
    };
    format!("{}: {} of {}{against}", asked.study, asked.metric, asked.variant)
}

/// A sentence for each change, or one that there is none.
pub fn changes(asked: &Asked, points: &[Point], changes: &[Change], paired: bool) -> Vec<String> {
    match (points, changes) {
        ([], _) => vec![format!("No run of {} has {} of {}.", asked.study, asked.metric, asked.variant)],
        (points, []) => vec![format!("No change was found over {}.", plural(points.len(), "run"))],
        (points, changes) => changes.iter().map(|change| sentence(points, change, paired)).collect(),
    }
}

fn sentence(points: &[Point], change: &Change, paired: bool) -> String {
    let (point, earlier) = (&points[change.at], &points[change.at - 1]);
    let factor = (change.after - change.before).exp();
    let better = match point.info.direction {
        Direction::Neutral => "",
        Direction::Lower if factor < 1.0 => ", better",
        Direction::Higher if factor > 1.0 => ", better",
        _ => ", worse",
    };
    let level = |log: f64| if paired { three(log.exp()) } else { with_unit(log.exp(), point.info.unit) };
    let machine = if point.machine == earlier.machine {
        String::new()
    } else {
        format!(" With it the machine changed: {} → {}.", earlier.machine, point.machine)
    };
    format!(
        "{} Since run {} ({}): {} → {} ({}{better}).{machine}",
        standing(change),
        point.run,
        begun(&point.started),
        level(change.before),
        level(change.after),
        number::change(factor),
    )
}

/// How a change stands.
pub fn standing(change: &Change) -> String {
    match change.standing {
        Standing::Confirmed { p } => format!("Confirmed by later runs (p = {}).", three(p)),
        Standing::Suspected { wanting: 0 } => "Suspected: later runs did not confirm it.".into(),
        Standing::Suspected { wanting } => format!("Suspected: {} will tell.", plural(wanting, "more run")),
    }
}

/// The runs left out of the history, and why.
pub fn left_out(other_work: usize, unpaired: usize) -> String {
    let mut words = vec![];
    if other_work > 0 {
        words.push(format!(
            "{} left out: of another scale, other settings of the work, or another kind of device than the last.",
            plural(other_work, "run")
        ));
    }
    if unpaired > 0 {
        words.push(format!("{} left out: without the reference.", plural(unpaired, "run")));
    }
    words.join(" ")
}
