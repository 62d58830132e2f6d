//! Renders a profile as text, at most 100 columns wide.

use crate::trace::profile::{CpuSite, LockSite, Profile};

const WIDTH: usize = 100;
/// The indentation of lines that continue the line above.
const INDENT: &str = "        ";

impl Profile {
    /// Formats the profile as text: at most `max_sites` of the most contended locks, and as many of the busiest functions. A
    /// lock is shown with at most `max_callers` callers and at least one, which is the function that took the lock. A
    /// function on the CPU is shown with at most `max_callers` callers, but with none if that is 1.
    pub fn format_text(&self, max_sites: usize, max_callers: usize) -> String {
        let mut out = String::new();
        let duration = format_duration(self.duration_ns);
        if self.lock_sites.is_empty() {
            push_line(&mut out, &format!("No task waited for a lock in {duration}."));
        } else {
            let (total, waits) = (format_duration(self.total_wait_ns), self.waits);
            push_line(&mut out, &format!("Waiting for locks, all tasks: {total} in {duration}, {waits} waits."));
            out.push_str("  share     total    waits      mean       p99       max  lock\n");
            for site in self.lock_sites.iter().take(max_sites) {
                push_lock(&mut out, site, max_callers);
            }
            push_hidden_count(&mut out, self.lock_sites.len(), max_sites, "places where locks were waited for");
        }
        if let Some(event) = &self.cpu_event {
            push_line(&mut out, &format!("\nOn the CPU: {} samples by {event}.", self.cpu_samples));
            for site in self.cpu_sites.iter().take(max_sites) {
                push_function(&mut out, site, max_callers);
            }
            push_hidden_count(&mut out, self.cpu_sites.len(), max_sites, "functions");
        }
        self.push_remarks(&mut out);
        out
    }

    /// Appends remarks on lost records and uncounted waits.
    fn push_remarks(&self, out: &mut String) {
        if self.lost_records > 0 {
            let lost = self.lost_records;
            push_line(out, &format!("\n{lost} records were lost: the reader fell behind. Shares are of the rest."));
        }
        let (begin, end) = (self.waits_without_begin, self.waits_without_end);
        if begin + end > 0 {
            push_line(out, &format!("\nNot counted: {begin} waits without their beginning, {end} without their end."));
        }
    }
}

/// Appends a line with the figures of a place, and lines with its lock function and callers.
fn push_lock(out: &mut String, site: &LockSite, max_callers: usize) {
    let figures = format!(
        "{:>6.1}% {:>9} {:>8} {:>9} {:>9} {:>9}  {}",
        site.share * 100.0,
        format_duration(site.total_ns),
        site.waits,
        format_duration(site.mean_ns),
        format_duration(site.p99_ns),
        format_duration(site.max_ns),
        site.kind.name(),
    );
    push_line(out, &figures);
    push_chain(out, &site.function, &site.callers, max_callers.max(1));
}

/// Appends a line with a function on the CPU, and lines with its callers.
fn push_function(out: &mut String, site: &CpuSite, max_callers: usize) {
    push_line(out, &format!("{:>6.1}% {}", site.share * 100.0, site.function));
    if let Some((first, callers)) = site.callers.split_first()
        && max_callers > 1
    {
        push_chain(out, &format!("← {first}"), callers, max_callers - 1);
    }
}

/// Appends `down_read ← ext4_file_write_iter ← vfs_write`, with a line break before an arrow if it is too wide.
fn push_chain(out: &mut String, first: &str, callers: &[String], max_callers: usize) {
    let mut text = format!("{INDENT}{first}");
    for caller in callers.iter().take(max_callers) {
        let part = format!(" ← {caller}");
        if text.chars().count() + part.chars().count() > WIDTH {
            push_line(out, &text);
            text = format!("{INDENT}  {}", part.trim_start());
        } else {
            text.push_str(&part);
        }
    }
    push_line(out, &text);
}

/// Appends the number of entries that are not shown, if any; `entries` names them: `functions`.
fn push_hidden_count(out: &mut String, count: usize, max_shown: usize, entries: &str) {
    if count > max_shown {
        push_line(out, &format!("{INDENT}and {} more {entries}", count - max_shown));
    }
}

/// Appends a line, cut off at [`WIDTH`].
fn push_line(out: &mut String, text: &str) {
    if text.chars().count() > WIDTH {
        out.extend(text.chars().take(WIDTH - 1).chain(['…']));
    } else {
        out.push_str(text);
    }
    out.push('\n');
}

/// Formats a duration with three digits and a unit: `251 µs`, `1.20 s`.
fn format_duration(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        // From 999.5 on, a value would be rounded to 1000.
        1_000..999_500 => (ns as f64 / 1e3, "µs"),
        999_500..999_500_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::lock_kind::LockKind;

    fn profile() -> Profile {
        let site = |share, function: &str, callers: &[&str]| LockSite {
            kind: LockKind::RwsemRead,
            function: function.into(),
            callers: callers.iter().map(|name| name.to_string()).collect(),
            share,
            waits: 1_000,
            gave_up: 0,
            total_ns: 900_000_000,
            mean_ns: 900_000,
            p99_ns: 2_345_678,
            max_ns: 12_345_678,
        };
        Profile {
            duration_ns: 1_000_000_000,
            lock_sites: vec![
                site(0.9, "down_read", &["some_fs_write_iter", "vfs_write", "ksys_pwrite64"]),
                site(0.1, &"l".repeat(120), &[&"n".repeat(90), &"m".repeat(60)]),
                site(0.0, "down_read", &["third"]),
            ],
            waits: 3_000,
            total_wait_ns: 2_700_000_000,
            cpu_sites: vec![],
            stacks: vec![],
            cpu_samples: 0,
            cpu_event: None,
            lost_records: 0,
            waits_without_begin: 0,
            waits_without_end: 0,
        }
    }

    #[test]
    fn the_most_contended_lock_comes_first() {
        let text = profile().format_text(1, 1);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Waiting for locks, all tasks: 2.70 s in 1.00 s, 3000 waits.");
        assert_eq!(lines[2], "  90.0%    900 ms     1000    900 µs   2.35 ms   12.3 ms  rwsem read");
        assert_eq!(lines[3].trim(), "down_read ← some_fs_write_iter");
        assert_eq!(lines[4].trim(), "and 2 more places where locks were waited for");
        assert!(profile().format_text(1, 3).contains("down_read ← some_fs_write_iter ← vfs_write ← ksys_pwrite64\n"));
    }

    #[test]
    fn no_line_is_wider_than_a_hundred_columns() {
        let mut profile = profile();
        profile.cpu_event = Some("cpu-clock".into());
        profile.lost_records = u64::MAX;
        profile.waits_without_begin = 1 << 60;
        let name = "f".repeat(150);
        profile.cpu_sites = vec![CpuSite { function: name.clone(), callers: vec![name; 3], share: 1.0, samples: 9 }];
        for line in profile.format_text(10, 4).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn lost_records_are_reported() {
        let mut profile = profile();
        assert!(!profile.format_text(3, 1).contains("lost"));
        profile.lost_records = 17;
        profile.waits_without_end = 3;
        let text = profile.format_text(3, 1);
        assert!(text.contains("17 records were lost"), "{text}");
        assert!(text.contains("0 waits without their beginning, 3 without their end"), "{text}");
    }

    #[test]
    fn a_trace_without_contention_says_so() {
        let empty = Profile { lock_sites: vec![], ..profile() };
        assert_eq!(empty.format_text(3, 1), "No task waited for a lock in 1.00 s.\n");
    }

    #[test]
    fn durations_have_three_digits() {
        let formatted = [0, 999, 1_000, 9_994, 9_995, 99_949, 99_950, 999_499, 59_900_000_000].map(format_duration);
        let next_unit = [999_500, 999_499_999, 999_500_000].map(format_duration);
        assert_eq!(next_unit, ["1.00 ms", "999 ms", "1.00 s"]);
        assert_eq!(
            formatted,
            ["0 ns", "999 ns", "1.00 µs", "9.99 µs", "10.0 µs", "99.9 µs", "100 µs", "999 µs", "59.9 s"]
        );
    }

    #[test]
    fn a_profile_survives_json() {
        let text = serde_json::to_string(&profile()).unwrap();
        assert!(text.contains("\"kind\":\"rwsem_read\"") && text.contains("\"total_wait_ns\":2700000000"));
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile());
    }
}
