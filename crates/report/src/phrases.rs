//! Phrases that sections, charts and comparisons share: names of tasks, facts of runs, lists, and ratios with their intervals.

use crate::number::{self, plural};
use fsarena_core::record::{MetricSpec, RunRecord};
use fsarena_core::sample::{Direction, Unit};
use fsarena_core::{cell::TaskInfo, host::Host, metric::reading};
use fsarena_stats::{analyse::Analysis, critical_values::LAST_LOOK_ROUNDS, ratio::Ratio};

/// The metrics of the cost of a request, in seconds of CPU time or of waiting for I/O.
pub const REQUEST_COST_METRICS: [&str; 4] =
    ["user_per_request", "system_per_request", "cpu_per_request", "iowait_per_request"];

/// The name of a task in tables: number, title and parameters, `009 Untar the kernel tree`.
pub fn task_label(task: &TaskInfo) -> String {
    let number = task.number.as_ref().map_or(String::new(), |number| format!("{number} "));
    // The label leaves out parameters whose value is a word of the title.
    let is_in_title = |value: &str| task.title.split(|c: char| !c.is_alphanumeric()).any(|word| word == value);
    let params = task.id.params.iter().filter(|(_, value)| !is_in_title(value));
    let params: Vec<String> = params.map(|(key, value)| format!("{key}={value}")).collect();
    let params = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
    format!("{number}{}{params}", task.title)
}

/// A sentence that lists names: `Failed: xfs, jfs.` `None` if there are none.
pub fn list_sentence(heading: &str, names: &[impl AsRef<str>]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    (!names.is_empty()).then(|| format!("{heading}: {}.", names.join(", ")))
}

/// Joins alternatives: `a, b or c`. Empty without names.
pub fn join_with_or(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// Puts commas between groups of three digits of a whole number without a sign: `98,400`.
pub fn group_digits(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats the start of a run, a time in RFC 3339, to the minute: `2026-11-22 10:00`. The time is in the time zone of `started`,
/// whose offset is left out.
pub fn format_start_time(started: &str) -> String {
    started.chars().take(16).collect::<String>().replace('T', " ")
}

/// The machines of a run with their kernels: `alpha, Linux 6.8; beta, Linux 6.9`.
pub fn describe_machines(record: &RunRecord) -> String {
    join_host_facts(record, "; ", |host| format!("{}, Linux {}", host.hostname, host.kernel))
}

/// Joins a fact of each machine of a run by `separator`.
pub fn join_host_facts(record: &RunRecord, separator: &str, fact: impl Fn(&Host) -> String) -> String {
    record.hosts.iter().map(fact).collect::<Vec<_>>().join(separator)
}

/// A sentence, with a space before it, that names what a chart leaves out and the reason; empty without names.
pub fn not_drawn_note(names: &[String], reason: &str) -> String {
    if names.is_empty() { String::new() } else { format!(" Not drawn: {} ({reason}).", join_with_and(names)) }
}

/// Joins at most six items, and counts the others: `a`, `a and b`, `a, b, c, d, e, f and 5 others`.
pub fn join_with_and(items: &[String]) -> String {
    join_with_and_up_to(items, 6)
}

/// Joins at most `max_items` items, and counts the others: `ext4, xfs and 3 others`.
pub fn join_with_and_up_to(items: &[String], max_items: usize) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] if items.len() <= max_items => format!("{} and {last}", first.join(", ")),
        _ => format!("{} and {}", items[..max_items].join(", "), plural(items.len() - max_items, "other")),
    }
}

/// Shortens a list to at most six entries. If it was longer, the last entry counts the items that are left out, with `noun` as their
/// name in the plural: `and 5 more variants`.
pub fn shorten_list(items: Vec<String>, noun: &str) -> Vec<String> {
    shorten_list_to(items, 6, noun)
}

/// [`shorten_list`] to at most `max_entries` entries.
pub fn shorten_list_to(mut items: Vec<String>, max_entries: usize, noun: &str) -> Vec<String> {
    if items.len() > max_entries {
        let rest = items.len() - (max_entries - 1);
        items.truncate(max_entries - 1);
        items.push(format!("and {rest} more {noun}"));
    }
    items
}

/// Shortens a sentence that ends in a list to about two lines by leaving out items: `Slow: a, b and 3 more.`. Does not cut
/// items, and does not shorten sentences without a list.
pub fn shorten_sentence(text: &str) -> String {
    const MAX_CHARS: usize = 160;
    if text.chars().count() <= MAX_CHARS {
        return text.to_string();
    }
    let Some((heading, list)) = text.split_once(": ") else { return text.to_string() };
    let items = split_list(list.trim_end_matches('.'));
    let mut char_count = heading.chars().count();
    let mut shown = 0;
    for item in &items {
        char_count += item.chars().count() + 2;
        if char_count > MAX_CHARS && shown > 0 {
            break;
        }
        shown += 1;
    }
    match items.len() - shown {
        0 => text.to_string(),
        left_out => format!("{heading}: {} and {left_out} more.", items[..shown].join(", ")),
    }
}

/// Splits a list at its commas, but not at commas in brackets.
fn split_list(list: &str) -> Vec<&str> {
    let (mut items, mut item_start, mut depth) = (vec![], 0, 0_usize);
    for (index, character) in list.char_indices() {
        match character {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 && list[index..].starts_with(", ") => {
                items.push(&list[item_start..index]);
                item_start = index + 2;
            }
            _ => {}
        }
    }
    items.push(&list[item_start..]);
    items
}

/// Formats a ratio with its interval: `1.12 [1.10–1.14]`; without the interval if there is only one round.
pub fn format_ratio(Ratio { value, low, high, rounds, .. }: Ratio) -> String {
    if rounds < 2 { number::three_digits_beside(value, &[1.0]) } else { number::ratio_with_interval(value, low, high) }
}

/// Formats the number of rounds needed to find a difference: `24`, or `over 400` for `None`.
pub fn format_rounds_needed(rounds: Option<usize>) -> String {
    match rounds {
        Some(rounds) => rounds.to_string(),
        None => format!("over {}", LAST_LOOK_ROUNDS),
    }
}

/// Whether a metric is the time of tasks. By such a metric, reports call the variant with the smaller value faster.
pub fn is_task_time(metric: &MetricSpec) -> bool {
    let time_ids = ["elapsed", "synced", reading::ELAPSED, reading::SYNCED];
    metric.direction == Direction::Lower
        && matches!(metric.unit, Unit::Nanoseconds | Unit::Seconds)
        && time_ids.contains(&metric.id.as_str())
}

/// Whether a metric is the time of tasks until their data was synced.
pub fn is_synced_time(metric: &MetricSpec) -> bool {
    is_task_time(metric) && ["synced", reading::SYNCED].contains(&metric.id.as_str())
}

/// The name of the figure over all tasks: `total elapsed`, `geometric mean of iops`. If there is only one task, the name of the
/// metric.
pub fn overall_figure_name(analysis: &Analysis) -> String {
    let metric = &analysis.metric.id;
    match &analysis.overall {
        Some(overall) if overall.task_count == 1 => metric.clone(),
        Some(overall) if overall.total.is_some() => format!("{} {metric}", overall.name),
        _ => format!("geometric mean of {metric}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_keep_whole_items_and_count_the_others() {
        let items = (0..20).map(|n| format!("ext4 at update-{n} [1.2, 3.4]"));
        let text = format!("No clear winner in 20 tasks: {}.", items.collect::<Vec<_>>().join(", "));
        let shortened = shorten_sentence(&text);
        assert!(shortened.ends_with("ext4 at update-3 [1.2, 3.4] and 16 more."), "{shortened}");
        assert!(shortened.chars().count() < 180 && text.starts_with(&shortened[..shortened.len() - 13]), "{shortened}");
        let prose = "A sentence without a list stays whole however long it is. ".repeat(5);
        assert_eq!(shorten_sentence(&prose), prose);
        assert_eq!(shorten_sentence("Won: a, b."), "Won: a, b.");
    }

    #[test]
    fn lists_name_six_items_and_count_the_others() {
        let names: Vec<String> = (0..8).map(|n| format!("t{n}")).collect();
        assert_eq!(join_with_and(&names[..2]), "t0 and t1");
        assert_eq!(join_with_and(&names), "t0, t1, t2, t3, t4, t5 and 2 others");
        assert_eq!(not_drawn_note(&[], "x"), "");
    }
}
