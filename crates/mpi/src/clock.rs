//! The offset of another machine's clock, from messages there and back.
//!
//! The answer was stamped at some moment between question and answer. So the middle of the two is at most half a round
//! trip away from it, and the shortest round trip tells most (Cristian 1989).

use crate::message::ToRank;
use crate::wire::{self, Wire};
use std::time::SystemTime;

/// Round trips that measure an offset.
const TRIPS: u32 = 20;

/// How far a clock is ahead of the one of rank 0.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Offset {
    /// Seconds that it is ahead.
    pub ahead_s: f64,
    /// The most that this can be wrong by, in seconds.
    pub error_s: f64,
}

/// Seconds since 1970 by this machine's clock.
pub fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Measures the offset of a rank's clock; for rank 0.
pub fn measure(wire: &dyn Wire, rank: u32) -> Offset {
    wire::ask(wire, rank, &ToRank::Clock(TRIPS));
    let trips = (0..TRIPS).map(|_| {
        let asked = now();
        wire.send_time(rank, asked);
        let stamp = wire.receive_time(rank);
        (asked, stamp, now())
    });
    best(trips)
}

/// Answers [`measure`].
pub fn answer(wire: &dyn Wire, trips: u32) {
    for _ in 0..trips {
        wire.receive_time(0);
        wire.send_time(0, now());
    }
}

/// The offset by the shortest of round trips: when rank 0 asked, what the other clock showed, when rank 0 had the answer.
fn best(trips: impl Iterator<Item = (f64, f64, f64)>) -> Offset {
    let shortest = trips.min_by(|a, b| (a.2 - a.0).total_cmp(&(b.2 - b.0)));
    shortest.map_or(Offset::default(), |(asked, stamp, answered)| Offset {
        ahead_s: stamp - (asked + answered) / 2.0,
        error_s: (answered - asked) / 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_round_trip_tells_most() {
        let trips = [(10.0, 15.0, 14.0), (20.0, 23.5, 21.0), (30.0, 35.0, 32.0)];
        let offset = best(trips.into_iter());
        assert_eq!(offset, Offset { ahead_s: 3.0, error_s: 0.5 });
    }
}
