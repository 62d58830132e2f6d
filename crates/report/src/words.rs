//! Words that sections, charts and comparisons share: names of tasks, facts of runs, lists, and ratios with their intervals.

use crate::number::{self, plural};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{cell::TaskInfo, host::Host, metric::reading};
use fsarena_stats::{analyse::Analysis, ratio::Ratio, table::LOOKS};

/// A task as tables name it: `009 Untar the kernel tree`.
pub fn label(task: &TaskInfo) -> String {
    let number = task.number.as_ref().map_or(String::new(), |number| format!("{number} "));
    // What the title says already is not said again.
    let said = |value: &str| task.title.split(|c: char| !c.is_alphanumeric()).any(|word| word == value);
    let params = task.id.params.iter().filter(|(_, value)| !said(value));
    let params: Vec<String> = params.map(|(key, value)| format!("{key}={value}")).collect();
    let params = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
    format!("{number}{}{params}", task.title)
}

/// `Failed: xfs, jfs.`; `None` without names.
pub fn sentence(what: &str, names: &[impl AsRef<str>]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    (!names.is_empty()).then(|| format!("{what}: {}.", names.join(", ")))
}

/// `a, b or c`.
pub fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// When a run began, from RFC 3339: `2026-11-22 10:00`.
pub fn begun(started: &str) -> String {
    started.chars().take(16).collect::<String>().replace('T', " ")
}

/// Its machines and their kernels: `alpha, Linux 6.8; beta, Linux 6.9`.
pub fn machines(record: &RunRecord) -> String {
    each_host(record, "; ", |host| format!("{}, Linux {}", host.hostname, host.kernel))
}

/// A fact of each machine.
pub fn each_host(record: &RunRecord, between: &str, fact: impl Fn(&Host) -> String) -> String {
    record.hosts.iter().map(fact).collect::<Vec<_>>().join(between)
}

/// A sentence, with a space before it, on what a chart leaves out; empty if there is nothing.
pub fn not_drawn(what: &[String], why: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" Not drawn: {} ({why}).", listed(what)) }
}

/// `a`, `a and b`, `a, b, c, d, e, f and 5 others`.
pub fn listed(what: &[String]) -> String {
    listed_up_to(what, 6)
}

/// A list of at most `most` items: `ext4, xfs and 3 others`.
pub fn listed_up_to(what: &[String], most: usize) -> String {
    match what {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if what.len() <= most => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {}", what[..most].join(", "), plural(what.len() - most, "other")),
    }
}

/// The first of many: the tables have all.
pub fn few(all: Vec<String>) -> Vec<String> {
    few_of(all, 6)
}

/// At most this many of them.
pub fn few_of(mut all: Vec<String>, most: usize) -> Vec<String> {
    if all.len() > most {
        let rest = all.len() - (most - 1);
        all.truncate(most - 1);
        all.push(format!("and {rest} more"));
    }
    all
}

/// A sentence that ends in a list, with as many of the list's items as two lines hold: `Slow: a, b and 3 more.`. No item and
/// no other sentence is cut.
pub fn clipped(text: &str) -> String {
    const ROOM: usize = 160;
    let whole = || text.to_string();
    let Some((what, list)) = text.split_once(": ").filter(|_| text.chars().count() > ROOM) else {
        return whole();
    };
    let items = items(list.trim_end_matches('.'));
    let mut room = ROOM.saturating_sub(what.chars().count());
    let fits = |item: &&&str| {
        let left = room.checked_sub(item.chars().count() + 2);
        room = left.unwrap_or(0);
        left.is_some()
    };
    let shown = items.iter().take_while(fits).count().max(1);
    match items.len() - shown {
        0 => whole(),
        more => format!("{what}: {} and {more} more.", items[..shown].join(", ")),
    }
}

/// The items of a list; commas in brackets separate none.
fn items(list: &str) -> Vec<&str> {
    let (mut items, mut from, mut depth) = (vec![], 0, 0_usize);
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && list[at..].starts_with(", ") => {
                items.push(&list[from..at]);
                from = at + 2;
            }
            _ => {}
        }
    }
    items.push(&list[from..]);
    items
}

/// `1.12 [1.10–1.14]`; of one round, which has no extremes, `1.12`.
pub fn interval(Ratio { value, low, high, rounds, .. }: Ratio) -> String {
    if rounds < 2 { number::beside(value, &[1.0]) } else { number::ratio(value, low, high) }
}

/// How many rounds find a difference: `24`, `over 400`.
pub fn rounds_needed(rounds: Option<usize>) -> String {
    rounds.map_or_else(|| format!("over {}", LOOKS[LOOKS.len() - 1].n), |rounds| rounds.to_string())
}

/// Whether a metric is the time of tasks: of less of it people say that it is faster.
pub fn is_time(metric: &MetricSpec) -> bool {
    let times = ["elapsed", "synced", reading::ELAPSED, reading::SYNCED];
    metric.direction == Direction::Lower
        && matches!(metric.unit, Unit::Nanoseconds | Unit::Seconds)
        && times.contains(&metric.id.as_str())
}

/// Whether a metric is the time of tasks until their data was synced.
pub fn is_synced_time(metric: &MetricSpec) -> bool {
    is_time(metric) && ["synced", reading::SYNCED].contains(&metric.id.as_str())
}

/// `total elapsed`, `geometric mean of iops`, or the one task there is: what an analysis says of all tasks.
pub fn over_all(analysis: &Analysis) -> String {
    let metric = &analysis.metric.id;
    match &analysis.overall {
        Some(overall) if overall.tasks == 1 => metric.clone(),
        Some(overall) if overall.total.is_some() => format!("{} {metric}", overall.name),
        _ => format!("geometric mean of {metric}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_keeps_whole_items_and_counts_the_others() {
        let items = (0..20).map(|n| format!("ext4 at update-{n} [1.2, 3.4]"));
        let text = format!("No clear winner in 20 tasks: {}.", items.collect::<Vec<_>>().join(", "));
        let clipped = clipped(&text);
        assert!(clipped.ends_with("ext4 at update-3 [1.2, 3.4] and 16 more."), "{clipped}");
        assert!(
            clipped.chars().count() < 180 && text.starts_with(&clipped[..clipped.len() - 13]),
            "{clipped}"
        );
        let prose = "A sentence without a list stays whole however long it is. ".repeat(5);
        assert_eq!(super::clipped(&prose), prose);
        assert_eq!(super::clipped("Won: a, b."), "Won: a, b.");
    }

    #[test]
    fn long_lists_are_cut_and_say_so() {
        let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
        assert_eq!(listed(&names[..2]), "t0 and t1");
        assert_eq!(listed(&names), "t0, t1, t2, t3, t4, t5 and 2 others");
        assert_eq!(not_drawn(&[], "x"), "");
    }
}
