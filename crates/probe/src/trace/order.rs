//! Puts the events of several buffers into the order in which they happened.

use crate::trace::{chains::ChainId, decode::What};

/// Something that happened, as it is kept until its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub time: u64,
    /// The CPU it happened on.
    pub cpu: u32,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// What happened.
    pub what: What<ChainId>,
}

/// Events whose turn has not come.
///
/// A wait may begin on one CPU and end on another, and each CPU's buffers are read at another moment. Once
/// all buffers have been read, nothing older than the beginning of that round is to come.
#[derive(Debug, Default)]
pub struct Order(Vec<Event>);

impl Order {
    /// Takes an event, in any order.
    pub fn push(&mut self, event: Event) {
        self.0.push(event);
    }

    /// Gives back, oldest first, the events up to a time.
    pub fn until(&mut self, time: u64) -> std::vec::Drain<'_, Event> {
        // Mostly runs that are in order already, which this sort is good at.
        self.0.sort_by_key(|event| event.time);
        let due = self.0.partition_point(|event| event.time <= time);
        self.0.drain(..due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64, cpu: u32) -> Event {
        Event { time, cpu, pid: 1, tid: 1, what: What::Fork { parent: 0 } }
    }

    #[test]
    fn events_of_all_cpus_come_by_time_and_not_before_their_turn() {
        let mut order = Order::default();
        for event in [at(10, 0), at(30, 0), at(50, 0), at(20, 1), at(40, 1)] {
            order.push(event);
        }
        assert_eq!(order.until(30).collect::<Vec<_>>(), [at(10, 0), at(20, 1), at(30, 0)]);
        order.push(at(35, 1));
        assert_eq!(order.until(u64::MAX).collect::<Vec<_>>(), [at(35, 1), at(40, 1), at(50, 0)]);
    }
}
