//! The hot loop of a metadata phase.

use super::super::clock::Clock;
use super::super::drive::Work;
use super::super::error::Result;
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

impl<'a> Work<'a> for Phase<'_> {
    type Worker = Writer<'a>;

    fn prepare(&'a self, thread: u32) -> Result<Writer<'a>> {
        Ok(self.tree.writer(thread, self.operation))
    }

    fn work<C: Clock>(&self, writer: &mut Writer, recorder: &mut Recorder, clock: C) -> Result {
        let mut start = clock.now();
        for number in 0..self.tree.names {
            let names = writer.names(number);
            if let Err(error) = self.operation.perform(&names) {
                return Err(failed(self.operation, &names, error));
            }
            let end = clock.now();
            if !recorder.count(0, start, None, end) {
                // Another worker failed.
                break;
            }
            start = end;
        }
        Ok(())
    }
}

/// Nanoseconds that the generator takes for one operation: writing its names, stamping and counting.
pub fn generator_ns(tree: &Tree) -> f64 {
    const ROUND: u32 = 10_000;
    let mut writer = tree.writer(0, Operation::Stat);
    let mut latencies = super::super::histogram::histogram();
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
