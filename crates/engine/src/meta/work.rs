//! The hot loop of a metadata phase.

use super::super::clock::Clock;
use super::super::drive::Work;
use super::super::error::Error;
use super::super::tally::Recorder;
use super::operation::{Operation, failed};
use super::tree::{Tree, Writer};
use std::time::Instant;

/// One kind of operation on all names.
pub struct Phase<'a> {
    /// The directories.
    pub tree: &'a Tree,
    /// The operation.
    pub operation: Operation,
}

impl Work for Phase<'_> {
    type Worker<'h>
        = Writer<'h>
    where
        Self: 'h;

    fn prepare(&self, thread: u32) -> Result<Writer<'_>, Error> {
        Ok(self.tree.writer(thread, self.operation))
    }

    fn work<'h, C: Clock>(
        &'h self,
        writer: &mut Writer<'h>,
        recorder: &mut Recorder,
        clock: C,
    ) -> Result<(), Error> {
        let scale = recorder.times.scale;
        let mut start = clock.now();
        for number in 0..self.tree.names {
            let names = writer.names(number);
            if let Err(error) = self.operation.perform(&names) {
                return Err(failed(self.operation, &names, error));
            }
            let end = clock.now();
            let turned = end >= recorder.boundary && !recorder.turn(end);
            recorder.tally.lanes[0].raw.record(scale.ns(end.saturating_sub(start)));
            if turned {
                // Another worker failed.
                break;
            }
            start = end;
        }
        Ok(())
    }

    fn finish<'h>(&'h self, _: Writer<'h>) -> Result<u64, Error> {
        Ok(0)
    }
}

/// Nanoseconds that the generator takes for one operation: writing its names, stamping and counting.
pub fn generator_ns(tree: &Tree) -> f64 {
    const ROUND: u32 = 10_000;
    let mut writer = tree.writer(0, Operation::Stat);
    let mut latencies = super::super::collect::histogram();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let begun = Instant::now();
        for number in 0..ROUND {
            std::hint::black_box(writer.names(number).name);
            latencies.saturating_record(begun.elapsed().as_nanos() as u64);
        }
        best = best.min(begun.elapsed().as_nanos() as f64 / f64::from(ROUND));
    }
    best
}
