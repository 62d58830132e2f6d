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

/// `Failed: xfs, jfs.`; none without names.
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

/// A sentence, with a space before it, on what a chart leaves out; nothing where there is nothing.
pub fn not_drawn(what: &[String], why: &str) -> String {
    if what.is_empty() { String::new() } else { format!(" Not drawn: {} ({why}).", listed(what)) }
}

/// `a`, `a and b`, `a, b and 5 more`.
pub fn listed(what: &[String]) -> String {
    const MOST: usize = 6;
    match what {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] if what.len() <= MOST => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {}", what[..MOST].join(", "), plural(what.len() - MOST, "other")),
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

/// The beginning of a text, as much as two lines hold.
pub fn clipped(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(180) else { return text.into() };
    let start = &text[..end];
    format!("{}…", start.rsplit_once(' ').map_or(start, |(words, _)| words))
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
    fn long_lists_are_cut_and_say_so() {
        let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
        assert_eq!(listed(&names[..2]), "t0 and t1");
        assert_eq!(listed(&names), "t0, t1, t2, t3, t4, t5 and 2 others");
        assert_eq!(not_drawn(&[], "x"), "");
    }
}
