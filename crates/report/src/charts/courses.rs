//! Throughput within a step: operations a second, stretch by stretch, and what was left out as warm-up.

use super::latency::{chosen, place};
use super::{Kind, Seen, not_drawn};
use crate::course::{Course, courses, left_out};
use crate::plot::colour::theme;
use crate::plot::{Axis, Chart, Key, Mark, Panel, Shape, Sign};
use crate::sections::label;
use fsarena_core::sample::Unit;

/// The course of loads.
pub struct Courses;

/// How much the mark of the warm-up covers.
const WARM_UP: f64 = 0.35;

impl Kind for Courses {
    fn id(&self) -> &'static str {
        "courses"
    }

    fn charts(&self, seen: &Seen) -> Vec<Chart> {
        let courses = courses(seen.record());
        let mut steps: Vec<usize> =
            courses.iter().filter(|course| course.stretches.len() > 1).map(|course| course.step).collect();
        steps.dedup();
        let mut shown = chosen(seen, &steps);
        if shown.is_empty() {
            return vec![];
        }
        shown.sort_by_key(|step| place(&seen.record().steps[*step]));
        let of_step = |step: &usize| courses.iter().filter(|course| course.step == *step).collect::<Vec<_>>();
        let panels: Vec<Panel> = shown.iter().map(|step| panel(seen, *step, &of_step(step))).collect();
        let mut arms: Vec<usize> = courses.iter().map(|course| course.arm).collect();
        arms.sort_unstable();
        arms.dedup();
        let absent = not_drawn(&seen.others(&arms), "no course of a load");
        let mut legend = seen.legend(arms, true);
        if courses.iter().flat_map(|course| &course.stretches).any(|stretch| stretch.warm_up) {
            legend.push(Key {
                label: "warm-up, left out of all figures".into(),
                colour: theme::WARM,
                sign: Sign::Area(WARM_UP),
            });
        }
        let rest = match steps.len() - shown.len() {
            0 => String::new(),
            _ => format!(" Of {} steps, those with the most threads of each mode are shown.", steps.len()),
        };
        let about = format!(
            "Operations a second in each stretch of a step: lines are medians over blocks, bands the least and the most \
             of all blocks, none of one block. A load that is steady is level.{rest}{absent}{}",
            left_out(&seen.record().series)
                .map_or(String::new(), |rest| format!(" Not all blocks are drawn: {rest}."))
        );
        vec![Chart {
            columns: if panels.len() > 1 { 2 } else { 1 },
            panels,
            legend,
            ..Chart::new("courses", "Throughput within a step", about)
        }]
    }
}

fn panel(seen: &Seen, step: usize, courses: &[&Course]) -> Panel {
    let stretches = || courses.iter().flat_map(|course| &course.stretches);
    let end = stretches().map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let most = stretches().map(|stretch| stretch.operations_range_per_s.1).fold(0.0, f64::max);
    let warm = stretches().filter(|stretch| stretch.warm_up);
    let warm = warm.map(|stretch| stretch.start_s + stretch.length_s).fold(0.0, f64::max);
    let mut marks = vec![];
    if warm > 0.0 {
        marks.push(Mark::Box {
            x: (0.0, warm),
            y: (0.0, most * 1.02),
            colour: theme::WARM,
            opacity: WARM_UP,
        });
    }
    for course in courses {
        let colour = seen.colours[course.arm];
        let middles = || course.stretches.iter().map(|one| (one.start_s + one.length_s / 2.0, one));
        let band = middles().map(|(x, one)| (x, one.operations_range_per_s.0, one.operations_range_per_s.1));
        let points: Vec<(f64, f64)> = middles().map(|(x, one)| (x, one.operations_per_s)).collect();
        if course.blocks > 1 {
            marks.push(Mark::Band { points: band.collect(), colour });
        }
        marks.push(Mark::Line { points: points.clone(), colour, width: 1.5, dash: seen.dashes[course.arm] });
        let shape = Shape::of_series(course.arm);
        // A few points tell lines apart where colours do not.
        let every = points.len().div_ceil(8).max(1);
        marks.extend(points.into_iter().step_by(every).map(|at| Mark::Dot { at, colour, shape }));
    }
    Panel {
        title: label(&seen.record().steps[step]),
        x: Axis::from_zero("since the load began", end, Unit::Seconds),
        y: Axis::from_zero("operations a second", most, Unit::PerSecond),
        marks,
        height: 230,
    }
}
