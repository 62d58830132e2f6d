//! What the next event of a thread is: a request, or the sync of a file.
//!
//! As in sysbench's fileio, after every N requests the next events are the syncs of every file, one each.
//! So events come in rounds of N + files, and the number of an event says all about it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Where a thread gets the numbers of its events.
#[derive(Debug)]
pub enum Tickets<'a> {
    /// From itself.
    Own(u64),
    /// From a counter that all threads share: the one shared write in a hot loop, and only where a shared
    /// cursor or a cadence over all threads is what was asked for.
    Shared(&'a AtomicU64),
}

impl Tickets<'_> {
    /// The next number.
    #[inline(always)]
    pub fn next(&mut self) -> u64 {
        match self {
            Tickets::Own(next) => {
                *next += 1;
                *next - 1
            }
            Tickets::Shared(next) => next.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// What an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The so-manieth request.
    Request(u64),
    /// The sync of a file.
    Sync(u32),
}

/// When files are synced.
#[derive(Debug, Clone, Copy)]
pub struct Cadence {
    requests: u64,
    round: u64,
}

impl Cadence {
    /// Syncs each of `files` files after every `requests` requests; never if `requests` is absent.
    pub fn new(requests: Option<u64>, files: u32) -> Cadence {
        let requests = requests.unwrap_or(0);
        Cadence { requests, round: if requests == 0 { 0 } else { requests + u64::from(files) } }
    }

    /// What an event is.
    #[inline(always)]
    pub fn event(&self, ticket: u64) -> Event {
        if self.round == 0 {
            return Event::Request(ticket);
        }
        let (round, at) = (ticket / self.round, ticket % self.round);
        match at.checked_sub(self.requests) {
            None => Event::Request(round * self.requests + at),
            Some(file) => Event::Sync(file as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_every_hundred_requests_each_file_is_synced() {
        let cadence = Cadence::new(Some(100), 3);
        let events: Vec<Event> = (0..309).map(|ticket| cadence.event(ticket)).collect();
        assert_eq!(events[99], Event::Request(99));
        assert_eq!(events[100..104], [Event::Sync(0), Event::Sync(1), Event::Sync(2), Event::Request(100)]);
        assert_eq!(events.iter().filter(|event| matches!(event, Event::Sync(_))).count(), 9);
        let requests: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Request(number) => Some(*number),
                Event::Sync(_) => None,
            })
            .collect();
        assert_eq!(requests, (0..300).collect::<Vec<_>>());
    }

    #[test]
    fn without_a_cadence_there_are_requests_only() {
        let cadence = Cadence::new(None, 128);
        assert!((0..1000).all(|ticket| cadence.event(ticket) == Event::Request(ticket)));
    }

    #[test]
    fn a_shared_counter_gives_each_number_once() {
        let counter = AtomicU64::new(0);
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut tickets = Tickets::Shared(&counter);
                        (0..1000).map(|_| tickets.next()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..8000).collect::<Vec<_>>());
    }
}
