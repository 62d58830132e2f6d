//! Three clocks that tell steps and sleep from time.

use crate::window::Mark;
use rustix::time::{ClockId, clock_gettime};

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

    /// What the clocks say of the time since an earlier moment. Slewing changes a clock by 500 ppm at most.
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
}
