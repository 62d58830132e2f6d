//! A window of a watch, and the marks of events that disturbed it.
//!
//! [`Moment`] compares three clocks to detect that the machine slept or that somebody set its time. [`RequestTally`] computes
//! the requests of a window from the readings of a counter.

use crate::watch::counter::CounterError;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::Readings;
use rustix::time::{ClockId, clock_gettime};
use std::fmt;

/// A window of time, with its readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    /// The number of the window, from 0. The numbers continue after a restart of the watch.
    pub number: u32,
    /// The beginning of the window, in seconds since 1970, UTC.
    pub started_at: f64,
    /// The length of the window by the monotonic clock, in seconds.
    pub seconds: f64,
    /// The readings.
    pub readings: Readings,
    /// The events that disturbed the window.
    pub marks: Vec<WindowMark>,
}

/// An event that disturbed a window.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowMark {
    /// The counter failed to answer.
    CounterSilent {
        /// The number of failures.
        failures: u32,
        /// The first error.
        why: String,
    },
    /// The counter did not answer at the beginning or at the end of the window.
    RequestsUnknown,
    /// The counter decreased.
    CounterDecreased {
        /// The value before.
        before: f64,
        /// The value after.
        after: f64,
    },
    /// The wall clock was stepped by this number of seconds.
    ClockStepped(f64),
    /// The machine slept for this number of seconds.
    MachineSlept(f64),
    /// The device of the watched path has disappeared, or another one has replaced it; the text describes the change.
    DeviceChanged(String),
    /// A probe could not be read; the text is the error.
    ProbeUnreadable(String),
    /// The window took this number of seconds, much longer than intended, because the machine was too busy to read in time.
    TooLong(f64),
    /// The process that the watch names by this id has ended, which ends the watch.
    ProcessEnded(i32),
    /// A signal ended the window before its time.
    CutShort,
}

impl WindowMark {
    /// Whether comparisons leave out the window. That depends only on the kind of event, never on the measured values, so
    /// that it cannot bias a comparison.
    pub fn invalidates_window(&self) -> bool {
        self.note_kind() == NoteKind::Dropped
    }

    /// The note about this mark in the store.
    pub fn to_note(&self) -> Note {
        Note::new(self.note_kind(), self.to_string())
    }

    /// The kind of the note about this mark: `Dropped` if comparisons leave out the window.
    fn note_kind(&self) -> NoteKind {
        match self {
            WindowMark::CounterDecreased { .. }
            | WindowMark::MachineSlept(_)
            | WindowMark::DeviceChanged(_)
            | WindowMark::ProcessEnded(_) => NoteKind::Dropped,
            // Metrics that require the missing counter or reading have no value for this window, so their comparisons
            // leave it out anyway.
            WindowMark::CounterSilent { .. } | WindowMark::RequestsUnknown | WindowMark::ProbeUnreadable(_) => {
                NoteKind::Unavailable
            }
            // A clock step or a different length does not change rates.
            WindowMark::ClockStepped(_) | WindowMark::TooLong(_) | WindowMark::CutShort => NoteKind::Remark,
        }
    }
}

impl fmt::Display for WindowMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowMark::CounterSilent { failures: 1, why } => write!(f, "the counter did not answer: {why}"),
            WindowMark::CounterSilent { failures, why } => {
                write!(f, "the counter did not answer in {failures} readings; the first error: {why}")
            }
            WindowMark::RequestsUnknown => {
                f.write_str("requests unknown: the counter did not answer at the beginning or the end")
            }
            WindowMark::CounterDecreased { before, after } => {
                write!(
                    f,
                    "the counter went back from {before} to {after}: the service was restarted, and requests just before that are lost"
                )
            }
            WindowMark::ClockStepped(seconds) => write!(f, "the clock was stepped by {seconds:+.3} s"),
            WindowMark::MachineSlept(seconds) => write!(f, "the machine slept for {seconds:.1} s"),
            WindowMark::DeviceChanged(text) | WindowMark::ProbeUnreadable(text) => f.write_str(text),
            WindowMark::TooLong(seconds) => {
                write!(f, "the window took {seconds:.1} s: the machine was too busy to read the probes in time")
            }
            WindowMark::ProcessEnded(pid) => {
                write!(f, "process {pid} ended: its CPU time since the last reading is lost")
            }
            WindowMark::CutShort => f.write_str("cut short by a signal"),
        }
    }
}

/// The smallest difference between clocks that gets a mark, in seconds. Smaller differences come from reading the clocks one
/// after the other. Slewing (adjtime, NTP) makes no difference, because Linux slews all three clocks alike.
const MIN_DIFFERENCE_S: f64 = 0.1;

/// A moment by three clocks, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// `CLOCK_MONOTONIC`, which stops while the machine sleeps.
    pub awake_s: f64,
    /// `CLOCK_BOOTTIME`, which continues while the machine sleeps.
    pub since_boot_s: f64,
    /// `CLOCK_REALTIME`, since 1970; may be stepped.
    pub wall_s: f64,
}

impl Moment {
    /// The current moment.
    pub fn now() -> Moment {
        let read_seconds = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
        };
        Moment {
            awake_s: read_seconds(ClockId::Monotonic),
            since_boot_s: read_seconds(ClockId::Boottime),
            wall_s: read_seconds(ClockId::Realtime),
        }
    }

    /// The marks for sleep and clock steps since an earlier moment.
    pub fn marks_since(&self, earlier: &Moment) -> Vec<WindowMark> {
        let elapsed_s = self.since_boot_s - earlier.since_boot_s;
        let slept_s = elapsed_s - (self.awake_s - earlier.awake_s);
        let stepped_s = self.wall_s - earlier.wall_s - elapsed_s;
        let mut marks = vec![];
        if slept_s > MIN_DIFFERENCE_S {
            marks.push(WindowMark::MachineSlept(slept_s));
        }
        if stepped_s.abs() > MIN_DIFFERENCE_S {
            marks.push(WindowMark::ClockStepped(stepped_s));
        }
        marks
    }
}

/// Counts the requests of the open window.
#[derive(Debug, Default)]
pub struct RequestTally {
    /// The last value of the counter that was read.
    last_value: Option<f64>,
    /// Whether the counter answered at the beginning of the window.
    answered_at_begin: bool,
    /// The growth of the counter since the beginning of the window.
    growth: f64,
    /// The number of failed readings, and the first error.
    failures: Option<(u32, String)>,
    /// A mark for each time that the counter decreased.
    decreases: Vec<WindowMark>,
}

impl RequestTally {
    /// Adds a reading.
    pub fn add(&mut self, reading: &Result<f64, CounterError>) {
        let value = match reading {
            Ok(value) => *value,
            Err(CounterError(why)) => {
                let (failures, _) = self.failures.get_or_insert((0, why.clone()));
                *failures += 1;
                return;
            }
        };
        match self.last_value {
            Some(last) if value < last => {
                // The counter restarted from zero, so its value is the number of requests since then. The requests between the
                // last reading and the restart are unknown, hence the mark.
                self.decreases.push(WindowMark::CounterDecreased { before: last, after: value });
                self.growth += value;
            }
            Some(last) => self.growth += value - last,
            None => {}
        }
        self.last_value = Some(value);
    }

    /// Closes the window with a reading, and begins the next one with the same reading. Returns the requests of the window and
    /// its marks. The requests are `None` if the counter did not answer at the beginning or at the end.
    pub fn close(&mut self, reading: &Result<f64, CounterError>) -> (Option<f64>, Vec<WindowMark>) {
        self.add(reading);
        let has_answered = reading.is_ok();
        let requests = (self.answered_at_begin && has_answered).then_some(self.growth);
        let mut marks = std::mem::take(&mut self.decreases);
        if let Some((failures, why)) = self.failures.take() {
            marks.push(WindowMark::CounterSilent { failures, why });
        }
        if requests.is_none() {
            marks.push(WindowMark::RequestsUnknown);
        }
        self.answered_at_begin = has_answered;
        self.growth = 0.0;
        (requests, marks)
    }

    /// Begins the first window with a reading.
    pub fn begin(&mut self, reading: &Result<f64, CounterError>) {
        self.add(reading);
        self.answered_at_begin = reading.is_ok();
        self.growth = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks of a window in which each clock advanced by these seconds.
    fn marks_after(start: &Moment, awake_s: f64, boot_s: f64, wall_s: f64) -> Vec<WindowMark> {
        let end = Moment {
            awake_s: start.awake_s + awake_s,
            since_boot_s: start.since_boot_s + boot_s,
            wall_s: start.wall_s + wall_s,
        };
        end.marks_since(start)
    }

    #[test]
    fn clock_steps_and_sleep_get_different_marks() {
        let start = Moment { awake_s: 1024.0, since_boot_s: 4096.0, wall_s: 1_763_768_142.0 };
        assert_eq!(marks_after(&start, 300.0, 300.0, 300.0), []);
        assert_eq!(marks_after(&start, 300.0, 300.0, 300.0625), []);
        assert_eq!(marks_after(&start, 3600.0, 3600.0, 3601.0), [WindowMark::ClockStepped(1.0)]);
        assert_eq!(marks_after(&start, 300.0, 300.0, -3300.0), [WindowMark::ClockStepped(-3600.0)]);
        assert_eq!(marks_after(&start, 300.0, 360.0, 360.0), [WindowMark::MachineSlept(60.0)]);
        assert_eq!(marks_after(&start, 1.0, 1.0, 3.0), [WindowMark::ClockStepped(2.0)]);
    }

    fn failed_reading() -> Result<f64, CounterError> {
        Err(CounterError("refused".into()))
    }

    fn silent_mark(failures: u32) -> WindowMark {
        WindowMark::CounterSilent { failures, why: "refused".into() }
    }

    #[test]
    fn the_requests_are_the_growth_of_the_counter() {
        let mut tally = RequestTally::default();
        tally.begin(&Ok(100.0));
        tally.add(&Ok(130.0));
        assert_eq!(tally.close(&Ok(150.0)), (Some(50.0), vec![]));
        // The next window begins where this one ended.
        assert_eq!(tally.close(&Ok(157.0)), (Some(7.0), vec![]));
    }

    #[test]
    fn a_restarted_counter_continues_with_a_mark() {
        let mut tally = RequestTally::default();
        tally.begin(&Ok(1000.0));
        tally.add(&Ok(1010.0));
        tally.add(&Ok(4.0));
        let back = WindowMark::CounterDecreased { before: 1010.0, after: 4.0 };
        assert_eq!(tally.close(&Ok(6.0)), (Some(16.0), vec![back]));
    }

    #[test]
    fn failed_readings_within_a_window_lose_no_requests() {
        let mut tally = RequestTally::default();
        tally.begin(&Ok(10.0));
        tally.add(&failed_reading());
        tally.add(&failed_reading());
        assert_eq!(tally.close(&Ok(30.0)), (Some(20.0), vec![silent_mark(2)]));
    }

    #[test]
    fn a_failed_reading_between_windows_leaves_both_without_requests() {
        let mut tally = RequestTally::default();
        tally.begin(&Ok(10.0));
        assert_eq!(tally.close(&failed_reading()), (None, vec![silent_mark(1), WindowMark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(50.0)), (None, vec![WindowMark::RequestsUnknown]));
        assert_eq!(tally.close(&Ok(53.0)), (Some(3.0), vec![]));
    }

    #[test]
    fn requests_are_counted_once_the_counter_answers() {
        let mut tally = RequestTally::default();
        tally.begin(&failed_reading());
        assert_eq!(tally.close(&failed_reading()).0, None);
        assert_eq!(tally.close(&Ok(5.0)).0, None);
        assert_eq!(tally.close(&Ok(9.0)).0, Some(4.0));
    }
}
