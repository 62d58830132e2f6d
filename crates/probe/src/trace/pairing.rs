//! Pairs the beginning and the end of each wait.

use crate::trace::{chains::ChainId, kind::LockKind};
use std::{collections::HashMap, collections::hash_map::Entry};

/// A waiting task: a thread, or the idle task of a CPU (the idle tasks of all CPUs share one thread number).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Task {
    /// A thread.
    Thread(u32),
    /// The idle task of a CPU; interrupts that come while it runs are counted to it.
    Idle(u32),
}

/// The beginning of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begun {
    /// Nanoseconds.
    pub time: u64,
    /// LCB_F_* flags.
    pub flags: u32,
    /// Where.
    pub chain: ChainId,
}

/// Waits that have begun.
///
/// A task may wait for several locks at a time: a waiter for a mutex also takes the mutex's internal spinlock, and an
/// interrupt may occur. Task and lock together identify a wait.
#[derive(Debug, Default)]
pub struct Pairing {
    open: HashMap<(Task, u64), Begun>,
    /// Ends whose beginning was not seen: it was before the trace, or lost.
    pub without_begin: u64,
    /// Beginnings whose end was not seen: it came after the trace, or was lost.
    pub without_end: u64,
}

impl Pairing {
    /// A task begins to wait. A mutex reports another beginning when the wait changes between spinning and sleeping; the
    /// first one counts. For any other lock, a second beginning means that the end of the previous wait was lost.
    pub fn begin(&mut self, task: Task, lock: u64, begun: Begun) {
        match self.open.entry((task, lock)) {
            Entry::Occupied(_) if LockKind::from_flags(begun.flags) == LockKind::Mutex => {}
            Entry::Occupied(mut before) => {
                before.insert(begun);
                self.without_end += 1;
            }
            Entry::Vacant(free) => drop(free.insert(begun)),
        }
    }

    /// A task's wait is over: when and where it began, where that was seen.
    pub fn end(&mut self, task: Task, lock: u64) -> Option<Begun> {
        let begun = self.open.remove(&(task, lock));
        if begun.is_none() {
            self.without_begin += 1;
        }
        begun
    }

    /// Records were lost up to now. Any open wait may be one whose end was lost, and would be taken for one
    /// that lasts until the task waits for the same lock again: all are given up.
    pub fn lost(&mut self) {
        self.without_end += self.open.len() as u64;
        self.open.clear();
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        self.lost();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::chains::Chains;

    const A: Task = Task::Thread(1);
    const B: Task = Task::Thread(2);

    const RWSEM_READ: u32 = 2;
    const MUTEX: u32 = 0x20;
    const MUTEX_SPINNING: u32 = 0x21;

    fn begun(time: u64) -> Begun {
        flagged(time, RWSEM_READ)
    }

    fn flagged(time: u64, flags: u32) -> Begun {
        Begun { time, flags, chain: Chains::default().intern(&[]) }
    }

    #[test]
    fn waits_of_tasks_and_locks_do_not_mix() {
        let mut pairing = Pairing::default();
        pairing.begin(A, 100, begun(1));
        pairing.begin(B, 100, begun(2));
        pairing.begin(A, 200, begun(3));
        assert_eq!(pairing.end(A, 200), Some(begun(3)));
        assert_eq!(pairing.end(A, 100), Some(begun(1)));
        assert_eq!(pairing.end(B, 100), Some(begun(2)));
        pairing.finish();
        assert_eq!((pairing.without_begin, pairing.without_end), (0, 0));
    }

    #[test]
    fn a_mutex_that_goes_from_spinning_to_sleeping_began_when_it_first_said_so() {
        let mut pairing = Pairing::default();
        pairing.begin(A, 100, flagged(1, MUTEX_SPINNING));
        pairing.begin(A, 100, flagged(9, MUTEX));
        assert_eq!(pairing.end(A, 100), Some(flagged(1, MUTEX_SPINNING)));
        assert_eq!(pairing.end(A, 100), None);
        assert_eq!((pairing.without_begin, pairing.without_end), (1, 0));
    }

    #[test]
    fn a_wait_that_begins_anew_has_lost_its_end() {
        let mut pairing = Pairing::default();
        pairing.begin(A, 100, begun(1));
        pairing.begin(A, 100, begun(9));
        assert_eq!(pairing.end(A, 100), Some(begun(9)));
        assert_eq!((pairing.without_begin, pairing.without_end), (0, 1));
    }

    #[test]
    fn idle_tasks_of_two_cpus_are_two() {
        let mut pairing = Pairing::default();
        pairing.begin(Task::Idle(0), 100, begun(1));
        assert_eq!(pairing.end(Task::Idle(1), 100), None);
        assert_eq!(pairing.end(Task::Idle(0), 100), Some(begun(1)));
    }

    #[test]
    fn a_lost_end_does_not_make_a_wait_that_never_was() {
        let mut pairing = Pairing::default();
        pairing.begin(A, 100, begun(1));
        // Here its end, and the beginning of the next wait, are lost.
        pairing.lost();
        assert_eq!(pairing.end(A, 100), None);
        assert_eq!((pairing.without_begin, pairing.without_end), (1, 1));
        pairing.begin(A, 100, begun(50));
        assert_eq!(pairing.end(A, 100), Some(begun(50)));
    }

    #[test]
    fn a_wait_that_is_not_over_is_counted() {
        let mut pairing = Pairing::default();
        pairing.begin(A, 100, begun(1));
        pairing.finish();
        assert_eq!(pairing.without_end, 1);
    }
}
