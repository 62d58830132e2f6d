//! The ranks of a job, for rank 0: their machines and clocks, and whose files each client reads.
//!
//! The page cache of a machine contains the files that its own clients wrote. So each client reads the files of a client on
//! another machine. IOR's options `-C` and `-Q` do this by a fixed distance between ranks; fsarena uses the machines that the
//! ranks reported.

use crate::guard;
use crate::merge::{ClientObservations, ReadingSpecs, built_in_specs};
use crate::wire::{self, ClockOffset, FromRank, LEAVE_TIMEOUT, Machine, ToRank, Wire};
use fsarena_load::workload::Client;
use fsarena_run::{RunError, protocol::AgentRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use std::{process::ChildStdin, rc::Rc};

/// Longest time limit for the answer of a rank that does no work at that moment.
const MAX_ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time limit for such an answer is at most this multiple of the time limit of a task.
const ANSWER_TIMEOUT_FACTOR: u32 = 4;
/// Time limit for ranks to leave a job that failed. It is short because one of them may hang.
const FAILED_LEAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// The ranks of a job, as the clients of a run.
pub struct Ranks {
    pub(crate) wire: Rc<dyn Wire>,
    /// The time limit of one task.
    pub(crate) task_timeout: Duration,
    /// The machine of each rank.
    pub(crate) machines: Vec<Machine>,
    /// The first rank of each machine.
    pub(crate) leaders: Vec<u32>,
    /// The clock offset of each machine.
    pub(crate) clocks: BTreeMap<Machine, ClockOffset>,
    /// The definitions of all readings, including those that commands have printed.
    pub(crate) specs: ReadingSpecs,
    /// Which clients straggled, and which read from a cache.
    pub(crate) observations: ClientObservations,
    /// The client number of each rank, and the client whose files it reads.
    clients: Vec<Client>,
    /// The pipe to the guard of this machine (see [`crate::guard`]), which cleans up once the pipe is closed.
    _guard: ChildStdin,
}

impl Ranks {
    /// Waits for the first message of every rank and starts the guard of every machine.
    ///
    /// # Errors
    /// If a rank does not answer.
    pub fn connect(wire: Rc<dyn Wire>, task_timeout: Duration) -> Result<Ranks, RunError> {
        let mut machines = vec![Machine::here(); wire.size() as usize];
        let silent = wire::receive_from_each(&*wire, MAX_ANSWER_TIMEOUT, |rank, message| {
            // Every rank sends this message first.
            if let FromRank::Hello(machine) = message {
                machines[rank as usize] = machine;
            }
        });
        if let Some(rank) = silent.first() {
            return Err(RunError::Missing(format!("rank {rank} did not answer within {MAX_ANSWER_TIMEOUT:?}")));
        }
        let ranks = Ranks {
            wire,
            task_timeout,
            leaders: machine_leaders(&machines),
            clocks: BTreeMap::new(),
            specs: built_in_specs(),
            observations: ClientObservations::default(),
            clients: assign_clients(&machines),
            machines,
            _guard: guard::start()?,
        };
        ranks.send_to_each(ranks.other_leaders(), &ToRank::StartGuard)?;
        Ok(ranks)
    }

    /// The workers: all ranks except rank 0.
    pub(crate) fn workers(&self) -> std::ops::Range<u32> {
        1..self.wire.size()
    }

    /// The first rank of each machine except that of rank 0.
    pub(crate) fn other_leaders(&self) -> impl Iterator<Item = u32> {
        self.leaders.iter().copied().filter(|leader| *leader != 0)
    }

    /// The name of a rank in messages: `rank 3 on node7`.
    pub(crate) fn rank_name(&self, rank: u32) -> String {
        format!("rank {rank} on {}", self.machines[rank as usize].host)
    }

    /// The request of a cell for one rank, with its number as a client.
    pub(crate) fn request_for(&self, request: &AgentRequest, rank: u32) -> AgentRequest {
        AgentRequest { client: Some(self.clients[rank as usize]), ..request.clone() }
    }

    /// Sends a message to a rank that does no work at that moment.
    ///
    /// # Errors
    /// If the rank does not receive it in time.
    pub(crate) fn send_to(&self, rank: u32, message: &ToRank) -> Result<(), RunError> {
        let timeout = self.answer_timeout();
        let is_sent = wire::send_to_worker(&*self.wire, rank, message, timeout);
        if is_sent { Ok(()) } else { Err(self.silent_rank_error(rank, timeout)) }
    }

    /// Sends a message to each of these ranks.
    ///
    /// # Errors
    /// If a rank does not receive it in time.
    pub(crate) fn send_to_each(&self, mut ranks: impl Iterator<Item = u32>, message: &ToRank) -> Result<(), RunError> {
        ranks.try_for_each(|rank| self.send_to(rank, message))
    }

    /// Receives one message of every other rank and passes it to `handle`, with the rank.
    ///
    /// # Errors
    /// If a rank does not answer in time, or the first error of `handle`.
    pub(crate) fn receive_from_all(
        &self,
        mut handle: impl FnMut(u32, FromRank) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let (timeout, mut result) = (self.answer_timeout(), Ok(()));
        let silent = wire::receive_from_each(&*self.wire, timeout, |rank, message| {
            if result.is_ok() {
                result = handle(rank, message);
            }
        });
        match silent.first() {
            Some(rank) if result.is_ok() => Err(self.silent_rank_error(*rank, timeout)),
            _ => result,
        }
    }

    /// Time limit for the answer of a rank that does no work at that moment.
    pub(crate) fn answer_timeout(&self) -> Duration {
        MAX_ANSWER_TIMEOUT.min(ANSWER_TIMEOUT_FACTOR * self.task_timeout)
    }

    /// The error of a rank that did not answer in time.
    pub(crate) fn silent_rank_error(&self, rank: u32, timeout: Duration) -> RunError {
        let name = self.rank_name(rank);
        RunError::Missing(format!(
            "{name} did not answer within {timeout:?}: its machine or its filesystem hangs; leave it out and resume"
        ))
    }

    /// Measures the clock offsets of all machines from the clock of rank 0.
    ///
    /// # Errors
    /// If a rank does not answer in time.
    pub(crate) fn measure_clocks(&mut self) -> Result<(), RunError> {
        let timeout = self.answer_timeout();
        let mut clocks = BTreeMap::from([(self.machines[0].clone(), ClockOffset::default())]);
        for leader in self.other_leaders() {
            let offset = wire::measure_clock_offset(&*self.wire, leader, timeout);
            let offset = offset.ok_or_else(|| self.silent_rank_error(leader, timeout))?;
            clocks.insert(self.machines[leader as usize].clone(), offset);
        }
        self.clocks = clocks;
        Ok(())
    }

    /// Ends the job: tells all ranks to leave, and waits for them. Returns false if a rank did not leave in time. After a
    /// failure (`failed`) the time limit is shorter.
    #[must_use]
    pub fn leave(wire: &dyn Wire, failed: bool) -> bool {
        let timeout = if failed { FAILED_LEAVE_TIMEOUT } else { LEAVE_TIMEOUT };
        (1..wire.size()).all(|rank| wire::send_to_worker(wire, rank, &ToRank::End, timeout)) && wire.barrier(timeout)
    }
}

/// Assigns each rank a client number and the client whose files it reads, by the machines of the ranks.
///
/// In the list of ranks sorted by machine, each reads from the rank that stands `shift` places further, where `shift`
/// is the largest number of ranks on one machine; after the last rank the list continues with the first. So each reads
/// from another machine, unless one machine has more than half of all ranks.
fn assign_clients<M: Ord>(machines: &[M]) -> Vec<Client> {
    let mut sorted: Vec<usize> = (0..machines.len()).collect();
    sorted.sort_by_key(|rank| &machines[*rank]);
    let largest_machine_size =
        sorted.chunk_by(|a, b| machines[*a] == machines[*b]).map(<[usize]>::len).max().unwrap_or(0);
    // With only one machine, each rank at least reads the files of another rank.
    let shift = if largest_machine_size == machines.len() { 1 } else { largest_machine_size };
    let mut clients = vec![Client::ALONE; machines.len()];
    for (place, rank) in sorted.iter().enumerate() {
        let reads_from = sorted[(place + shift) % sorted.len()] as u32;
        clients[*rank] = Client { index: *rank as u32, client_count: machines.len() as u32, reads_from };
    }
    clients
}

/// The first rank of each machine.
fn machine_leaders<M: Ord>(machines: &[M]) -> Vec<u32> {
    let mut known_machines = BTreeSet::new();
    (0..).zip(machines).filter(|(_, machine)| known_machines.insert(*machine)).map(|(rank, _)| rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each rank, the rank whose files it reads.
    fn read_ranks(machines: &[&str]) -> Vec<u32> {
        assign_clients(machines).iter().map(|client| client.reads_from).collect()
    }

    #[test]
    fn every_client_reads_what_another_machine_wrote() {
        assert_eq!(read_ranks(&["a", "a", "b", "b"]), [2, 3, 0, 1]);
        // The ranks alternate between the machines.
        assert_eq!(read_ranks(&["a", "b", "a", "b"]), [1, 0, 3, 2]);
        for machines in [&["a", "a", "b", "c", "c"][..], &["a", "b", "c"], &["b", "a", "a", "b", "c", "c", "c"]] {
            let mut ranks = read_ranks(machines);
            assert!(ranks.iter().enumerate().all(|(reader, writer)| machines[reader] != machines[*writer as usize]));
            ranks.sort_unstable();
            assert!(ranks.iter().enumerate().all(|(index, rank)| index as u32 == *rank), "all files are read");
        }
    }

    #[test]
    fn on_one_machine_each_client_reads_the_files_of_the_next() {
        assert_eq!(read_ranks(&["a", "a", "a"]), [1, 2, 0]);
        assert_eq!(read_ranks(&["a"]), [0]);
    }

    #[test]
    fn each_machine_has_one_leader() {
        assert_eq!(machine_leaders(&["b", "a", "b", "c", "a"]), [0, 1, 3]);
    }
}
