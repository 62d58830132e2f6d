//! Sums up the events of the traced processes.

use crate::trace::chains::{ChainId, Chains};
use crate::trace::pairing::{Begun, Pairing, Task};
use crate::trace::{decode::What, order::Event};
use crate::trace::{kind::LockKind, options::Target, user::UserMaps, waits::Waits};
use std::collections::{HashMap, HashSet};

/// The sums so far.
#[derive(Debug)]
pub struct Tally {
    /// None for every process.
    processes: Option<HashSet<u32>>,
    /// The tracer's own reader thread, which the tally excludes.
    pub not_this_thread: Option<u32>,
    /// Every chain.
    pub chains: Chains,
    /// Begun waits.
    pub pairing: Pairing,
    /// Waits by kind of lock and chain.
    pub locks: HashMap<(LockKind, ChainId), Waits>,
    /// Samples by chain.
    pub cpu: HashMap<ChainId, u64>,
    /// The program's frames, for chains that contain them.
    pub users: HashMap<ChainId, Vec<String>>,
    maps: UserMaps,
    /// Records that the kernel had no room for.
    pub lost: u64,
}

impl Tally {
    /// Nothing seen yet.
    pub fn new(target: &Target, maps: UserMaps) -> Tally {
        let processes = match target {
            Target::Pids(pids) => Some(pids.iter().copied().collect()),
            Target::WholeMachine => None,
        };
        Tally {
            processes,
            not_this_thread: None,
            chains: Chains::default(),
            pairing: Pairing::default(),
            locks: HashMap::new(),
            cpu: HashMap::new(),
            users: HashMap::new(),
            maps,
            lost: 0,
        }
    }

    /// Takes the next event. Events must come in the order in which they happened.
    pub fn add(&mut self, event: &Event) {
        match event.what {
            What::Lost { records } => {
                self.lost += records;
                self.pairing.lost();
            }
            What::Fork { parent } => self.fork(event.pid, parent),
            _ if !self.concerns(event) => {}
            What::Begin { lock, flags, chain } => {
                self.pairing.begin(task(event), lock, Begun { time: event.time, flags, chain });
            }
            What::End { lock, gave_up } => self.end(event, lock, gave_up),
            // The idle task runs when nothing does.
            What::Cpu { .. } if event.pid == 0 => {}
            What::Cpu { chain } => {
                self.note_user(event.pid, chain);
                *self.cpu.entry(chain).or_default() += 1;
            }
        }
    }

    fn concerns(&self, event: &Event) -> bool {
        Some(event.tid) != self.not_this_thread
            && self.processes.as_ref().is_none_or(|processes| processes.contains(&event.pid))
    }

    /// The children of a process that is looked at are looked at too.
    fn fork(&mut self, pid: u32, parent: u32) {
        if let Some(processes) = &mut self.processes
            && processes.contains(&parent)
        {
            processes.insert(pid);
        }
    }

    fn end(&mut self, event: &Event, lock: u64, gave_up: bool) {
        let Some(begun) = self.pairing.end(task(event), lock) else { return };
        self.note_user(event.pid, begun.chain);
        let waits =
            self.locks.entry((LockKind::from_flags(begun.flags), begun.chain)).or_insert_with(Waits::new);
        waits.add(event.time.saturating_sub(begun.time), gave_up);
    }

    /// Names where the program stood, while it is there to be asked what it has mapped.
    fn note_user(&mut self, pid: u32, chain: ChainId) {
        let user = &self.chains.get(chain).user;
        if !user.is_empty() && !self.users.contains_key(&chain) {
            let names = user.iter().map(|address| self.maps.name(pid, *address)).collect();
            self.users.insert(chain, names);
        }
    }
}

fn task(event: &Event) -> Task {
    if event.tid == 0 { Task::Idle(event.cpu) } else { Task::Thread(event.tid) }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::trace::decode::tests::addresses;
    use fsarena_sys::kernel::SysRoot;

    pub fn tally(target: Target) -> Tally {
        Tally::new(&target, UserMaps::new(&SysRoot::at("/nowhere")))
    }

    pub fn event(time: u64, pid: u32, tid: u32, what: What<ChainId>) -> Event {
        Event { time, cpu: 0, pid, tid, what }
    }

    /// A wait of a thread for the lock at 100, of a time, in a chain.
    pub fn wait(tally: &mut Tally, (pid, tid): (u32, u32), flags: u32, ns: u64, chain: &[u64]) {
        let chain = tally.chains.intern(&addresses(chain));
        tally.add(&event(1_000, pid, tid, What::Begin { lock: 100, flags, chain }));
        tally.add(&event(1_000 + ns, pid, tid, What::End { lock: 100, gave_up: false }));
    }

    fn total(tally: &Tally) -> u64 {
        tally.locks.values().map(|waits| waits.total).sum()
    }

    #[test]
    fn only_the_wanted_processes_and_their_children_count() {
        let mut tally = tally(Target::Pids(vec![10]));
        wait(&mut tally, (10, 11), 2, 5, &[1]);
        wait(&mut tally, (20, 20), 2, 70, &[1]);
        assert_eq!(total(&tally), 5);
        tally.add(&event(2_000, 20, 20, What::Fork { parent: 10 }));
        tally.add(&event(2_000, 30, 30, What::Fork { parent: 20 }));
        tally.add(&event(2_000, 50, 50, What::Fork { parent: 40 }));
        wait(&mut tally, (20, 20), 2, 70, &[1]);
        wait(&mut tally, (30, 31), 2, 900, &[1]);
        wait(&mut tally, (50, 50), 2, 8_000, &[1]);
        assert_eq!(total(&tally), 975);
        assert_eq!(tally.pairing.without_begin, 0, "the ends of untraced processes do not count as lost");
    }

    #[test]
    fn the_whole_machine_is_all_but_the_reader() {
        let mut tally = tally(Target::WholeMachine);
        tally.not_this_thread = Some(99);
        wait(&mut tally, (10, 11), 2, 5, &[1]);
        wait(&mut tally, (10, 99), 2, 70, &[1]);
        assert_eq!(total(&tally), 5);
    }

    #[test]
    fn a_loss_ends_all_waits_that_are_open() {
        let mut tally = tally(Target::WholeMachine);
        let chain = tally.chains.intern(&[]);
        tally.add(&event(1, 1, 1, What::Begin { lock: 100, flags: 0, chain }));
        tally.add(&event(2, 0, 0, What::Lost { records: 7 }));
        tally.add(&event(900, 1, 1, What::End { lock: 100, gave_up: false }));
        assert_eq!((total(&tally), tally.lost), (0, 7));
        assert_eq!((tally.pairing.without_begin, tally.pairing.without_end), (1, 1));
    }

    #[test]
    fn idling_is_not_running() {
        let mut tally = tally(Target::WholeMachine);
        let chain = tally.chains.intern(&addresses(&[1]));
        tally.add(&event(1, 0, 0, What::Cpu { chain }));
        tally.add(&event(2, 5, 6, What::Cpu { chain }));
        assert_eq!(tally.cpu.values().sum::<u64>(), 1);
    }
}
