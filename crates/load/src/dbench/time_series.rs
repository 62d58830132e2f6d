//! What all clients did over time, by looking at their recorders now and then.

use super::board::{Board, Recorder};
use super::options::Options;
use fsarena_core::series::{MOST_POINTS, Point};
use fsarena_engine::series::{Stretch, points};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The shortest stretch that is told.
const SHORTEST: Duration = Duration::from_millis(100);

/// Operations and bytes of all clients, stretch by stretch. Latencies are not in it: to sum the histograms of a
/// thousand clients again and again would take time from them.
pub struct TimeSeries {
    begun: Instant,
    every: Duration,
    /// When the last stretch ended, and what was counted until then.
    last: (Duration, u64, u64),
    stretches: Vec<Stretch<'static>>,
    warm_up: usize,
}

impl TimeSeries {
    /// Begins now.
    pub fn begin(options: &Options) -> TimeSeries {
        let every = ((options.warm_up + options.measured) / MOST_POINTS as u32).max(SHORTEST);
        let last = (Duration::ZERO, 0, 0);
        TimeSeries { begun: Instant::now(), every, last, stretches: vec![], warm_up: 0 }
    }

    /// Looks at the recorders, where it is time.
    pub fn look(&mut self, board: &Board) {
        if self.begun.elapsed() >= self.last.0 + self.every {
            self.close(board);
        }
    }

    /// The warm-up is over.
    pub fn warmed_up(&mut self, board: &Board) {
        self.close(board);
        self.warm_up = self.stretches.len();
    }

    /// All is over.
    pub fn points(mut self, board: &Board) -> Vec<Point> {
        self.close(board);
        points(&self.stretches, self.warm_up)
    }

    fn close(&mut self, board: &Board) {
        let now = self.begun.elapsed();
        let sum = |counter: fn(&Recorder) -> u64| board.recorders().map(counter).sum::<u64>();
        let operations = sum(|recorder| recorder.operations.load(Relaxed));
        let bytes = sum(|recorder| recorder.bytes.load(Relaxed));
        let (before, operations_before, bytes_before) = self.last;
        if now > before {
            self.stretches.push(Stretch {
                start_s: before.as_secs_f64(),
                length_s: (now - before).as_secs_f64(),
                operations: operations - operations_before,
                bytes: bytes - bytes_before,
                latencies: &[],
            });
        }
        self.last = (now, operations, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dbench::{ClientMode, board::add};
    use fsarena_engine::Content;

    #[test]
    fn what_desks_count_is_told_by_phase() {
        let options = Options {
            clients: 2,
            mode: ClientMode::Threads,
            warm_up: Duration::ZERO,
            measured: Duration::from_secs(1),
            rate_mb_s: None,
            content: Content::Zeros,
            seed: 1,
        };
        let board = Board::new(2).unwrap();
        let mut series = TimeSeries::begin(&options);
        assert_eq!(series.every, SHORTEST);
        add(&board.recorder(0).operations, 3);
        add(&board.recorder(1).bytes, 500);
        series.warmed_up(&board);
        add(&board.recorder(1).operations, 4);
        let points = series.points(&board);
        let told: Vec<_> = points.iter().map(|one| (one.warm_up, one.operations, one.bytes)).collect();
        assert_eq!(told, [(true, 3, 500), (false, 4, 0)]);
        assert_eq!(points[0].end_s(), points[1].start_s);
    }
}
