//! A window, and what disturbed it.

use fsarena_core::event::{Note, NoteKind};
use fsarena_core::sample::Readings;
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
