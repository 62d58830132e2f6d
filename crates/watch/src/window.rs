//! A window of a watch, and the marks of what disturbed it.
//!
//! Three clocks tell whether the machine slept or its time was set; a tally turns readings of a counter into requests.

use crate::counters::Trouble;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::Readings;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;

/// A stretch of time with what happened in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// Its number, from 0; goes on after a restart.
    pub number: u32,
    /// When it began: seconds since 1970, UTC.
    pub started_at: f64,
    /// Its length by the monotonic clock.
    pub seconds: f64,
    /// The readings.
    pub readings: Readings,
    /// What disturbed it.
    pub marks: Vec<Mark>,
}

/// Something that disturbed a window.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// The counter failed to answer.
    CounterSilent {
        /// How often.
        times: u32,
        /// The first reason.
        why: String,
    },
    /// The counter did not answer at the beginning or at the end.
    RequestsUnknown,
    /// The counter went back.
    CounterBack {
        /// From where.
        from: f64,
        /// To where.
        to: f64,
    },
    /// Seconds by which the wall clock was stepped.
    ClockStep(f64),
    /// Seconds that the machine slept.
    Slept(f64),
    /// The device under the path is gone or another one.
    Device(String),
    /// Something could not be read.
    Unreadable(String),
    /// It took much longer than asked, in seconds: the machine was too busy to look.
    Long(f64),
    /// A signal ended it before its time.
    Cut,
}

impl Mark {
    /// Whether a comparison leaves the window out. Each of these is a reason that cannot see what was measured.
    pub fn spoils(&self) -> bool {
        match self {
            Mark::CounterBack { .. } | Mark::Slept(_) | Mark::Device(_) => true,
            // A missing value is missing in the comparison too; rates need neither the wall clock nor a whole window.
            Mark::CounterSilent { .. }
            | Mark::RequestsUnknown
            | Mark::ClockStep(_)
            | Mark::Unreadable(_)
            | Mark::Long(_)
            | Mark::Cut => false,
        }
    }

    /// As the store keeps it.
    pub fn note(&self) -> Note {
        let kind = match self {
            mark if mark.spoils() => NoteKind::Dropped,
            Mark::CounterSilent { .. } | Mark::RequestsUnknown | Mark::Unreadable(_) => NoteKind::Unavailable,
            _ => NoteKind::Remark,
        };
        Note::new(kind, self.to_string())
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::CounterSilent { times: 1, why } => write!(f, "the counter did not answer: {why}"),
            Mark::CounterSilent { times, why } => {
                write!(f, "the counter did not answer {times} times, at first: {why}")
            }
            Mark::RequestsUnknown => {
                f.write_str("requests unknown: the counter did not answer at the beginning or the end")
            }
            Mark::CounterBack { from, to } => {
                write!(
                    f,
                    "the counter went back from {from} to {to}: the service was restarted, and requests just before that are lost"
                )
            }
            Mark::ClockStep(seconds) => write!(f, "the clock was stepped by {seconds:+.3} s"),
            Mark::Slept(seconds) => write!(f, "the machine slept for {seconds:.1} s"),
            Mark::Device(what) => f.write_str(what),
            Mark::Unreadable(what) => f.write_str(what),
            Mark::Long(seconds) => {
                write!(f, "it took {seconds:.1} s: the machine was too busy to look in time")
            }
            Mark::Cut => f.write_str("cut short by a signal"),
        }
    }
}

/// Differences below this are those of reading three clocks one after the other, and of slewing.
const NOTICED_S: f64 = 0.1;

/// One moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`: stands still while the machine sleeps, in seconds.
    pub awake_s: f64,
    /// `CLOCK_BOOTTIME`.
    pub since_boot_s: f64,
    /// `CLOCK_REALTIME`: seconds since 1970; may be stepped.
    pub wall_s: f64,
}

impl Moment {
    /// Now.
    pub fn now() -> Moment {
        let read = |clock| {
            let now = clock_gettime(clock);
            now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
        };
        Moment {
            awake_s: read(ClockId::Monotonic),
            since_boot_s: read(ClockId::Boottime),
            wall_s: read(ClockId::Realtime),
        }
    }

    /// The marks for sleep and clock steps since an earlier moment. Slewing changes a clock by at most 500 ppm.
    pub fn marks(&self, earlier: &Moment) -> Vec<Mark> {
        let boot = self.since_boot_s - earlier.since_boot_s;
        let slept = boot - (self.awake_s - earlier.awake_s);
        let stepped = self.wall_s - earlier.wall_s - boot;
        let mut marks = vec![];
        if slept > NOTICED_S {
            marks.push(Mark::Slept(slept));
        }
        if stepped.abs() > NOTICED_S + boot * 500e-6 {
            marks.push(Mark::ClockStep(stepped));
        }
        marks
    }
}

/// Counts the requests of the window that is open.
#[derive(Debug, Default)]
pub struct Tally {
    /// The last number that was read.
    last: Option<f64>,
    /// Whether the counter answered when the window began.
    whole: bool,
    /// The growth of the counter since then.
    grown: f64,
    silent: Option<(u32, String)>,
    back: Vec<Mark>,
}

impl Tally {
    /// Adds a reading.
    pub fn take(&mut self, reading: &Result<f64, Trouble>) {
        match (reading, self.last) {
            (Ok(now), Some(last)) if *now < last => {
                // The counter restarted from zero, so its value counts requests since then. Requests between the last
                // reading and the restart are unknown, hence the mark.
                self.back.push(Mark::CounterBack { from: last, to: *now });
                self.grown += now;
                self.last = Some(*now);
            }
            (Ok(now), last) => {
                self.grown += last.map_or(0.0, |last| now - last);
                self.last = Some(*now);
            }
            (Err(Trouble(why)), _) => {
                let (times, _) = self.silent.get_or_insert((0, why.clone()));
                *times += 1;
            }
        }
    }

    /// Ends the window with a reading and begins the next with it. The requests are not known where the counter
    /// did not answer at one of its ends.
    pub fn close(&mut self, reading: &Result<f64, Trouble>) -> (Option<f64>, Vec<Mark>) {
        let last_known = self.last.is_some();
        self.take(reading);
        let answered = reading.is_ok();
        let requests = (self.whole && answered && last_known).then_some(self.grown);
        let mut marks = std::mem::take(&mut self.back);
        if let Some((times, why)) = self.silent.take() {
            marks.push(Mark::CounterSilent { times, why });
        }
        if requests.is_none() {
            marks.push(Mark::RequestsUnknown);
        }
        (self.whole, self.grown) = (answered, 0.0);
        (requests, marks)
    }

    /// Begins the first window.
    pub fn begin(&mut self, reading: &Result<f64, Trouble>) {
        self.take(reading);
        (self.whole, self.grown) = (reading.is_ok(), 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(start: &Moment, awake: f64, boot: f64, wall: f64) -> Vec<Mark> {
        let end = Moment {
            awake_s: start.awake_s + awake,
            since_boot_s: start.since_boot_s + boot,
            wall_s: start.wall_s + wall,
        };
        end.marks(start)
    }

    #[test]
    fn steps_and_sleep_are_told_apart() {
        let start = Moment { awake_s: 1024.0, since_boot_s: 4096.0, wall_s: 1_763_768_142.0 };
        assert_eq!(later(&start, 300.0, 300.0, 300.0), []);
        assert_eq!(later(&start, 300.0, 300.0, 300.125), []);
        assert_eq!(later(&start, 300.0, 300.0, -3300.0), [Mark::ClockStep(-3600.0)]);
        assert_eq!(later(&start, 300.0, 360.0, 360.0), [Mark::Slept(60.0)]);
        assert_eq!(later(&start, 1.0, 1.0, 3.0), [Mark::ClockStep(2.0)]);
    }

    fn down() -> Result<f64, Trouble> {
        Err(Trouble::new("refused"))
    }

    fn silent(times: u32) -> Mark {
        Mark::CounterSilent { times, why: "refused".into() }
    }

    #[test]
    fn a_window_has_what_the_counter_grew_by() {
        let mut tally = Tally::default();
        tally.begin(&Ok(100.0));
        tally.take(&Ok(130.0));
        assert_eq!(tally.close(&Ok(150.0)), (Some(50.0), vec![]));
        // The next one begins where this one ended.
        assert_eq!(tally.close(&Ok(157.0)), (Some(7.0), vec![]));
    }

    #[test]
    fn a_counter_that_goes_back_is_counted_on_and_marked() {
        let mut tally = Tally::default();
        tally.begin(&Ok(1000.0));
        tally.take(&Ok(1010.0));
        tally.take(&Ok(4.0));
        let back = Mark::CounterBack { from: 1010.0, to: 4.0 };
        assert_eq!(tally.close(&Ok(6.0)), (Some(16.0), vec![back]));
    }

    #[test]
    fn silence_within_a_window_loses_nothing() {
        let mut tally = Tally::default();
        tally.begin(&Ok(10.0));
        tally.take(&down());
        tally.take(&down());
        assert_eq!(tally.close(&Ok(30.0)), (Some(20.0), vec![silent(2)]));
    }

    #[test]
    fn silence_at_an_end_leaves_both_windows_without_a_number() {
        let mut tally = Tally::default();
        tally.begin(&Ok(10.0));
        assert_eq!(tally.close(&down()), (None, vec![silent(1), Mark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(50.0)), (None, vec![Mark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(53.0)), (Some(3.0), vec![]));
    }

    #[test]
    fn a_counter_that_never_answered_is_waited_for() {
        let mut tally = Tally::default();
        tally.begin(&down());
        assert_eq!(tally.close(&down()).0, None);
        assert_eq!(tally.close(&Ok(5.0)).0, None);
        assert_eq!(tally.close(&Ok(9.0)).0, Some(4.0));
    }
}
