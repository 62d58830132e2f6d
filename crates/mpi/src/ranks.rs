//! The ranks of a job as rank 0 knows them: who they are, what they answer, and how their clocks differ.

use crate::clock::{self, Offset};
use crate::merge::{Specs, specs};
use crate::message::{FromRank, Machine, ToRank};
use crate::wire::{self, GLANCE, LEAVING, Wire};
use crate::{guard, mapping, remarks::Seen};
use fsarena_load::workload::Client;
use fsarena_run::{RunError, protocol::Request};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, process::ChildStdin, rc::Rc};

/// How long a rank may take at most to answer that has no work.
const ANSWER: Duration = Duration::from_secs(30);
/// The same as a multiple of what its tasks may take.
const TIMES: u32 = 4;
/// How long ranks may take to leave a job that failed: one of them may hang.
const FAILED: Duration = Duration::from_secs(5);

/// The ranks of a job, as the clients of a run.
pub struct Ranks {
    pub(crate) wire: Rc<dyn Wire>,
    /// The longest that one task may take.
    pub(crate) patience: Duration,
    /// The machine of each rank.
    pub(crate) machines: Vec<Machine>,
    /// The first rank of each machine.
    pub(crate) leaders: Vec<u32>,
    pub(crate) clocks: BTreeMap<Machine, Offset>,
    pub(crate) specs: Specs,
    pub(crate) seen: Seen,
    clients: Vec<Client>,
    _guard: ChildStdin,
}

impl Ranks {
    /// Meets all ranks.
    ///
    /// # Errors
    /// One that does not answer.
    pub fn meet(wire: Rc<dyn Wire>, patience: Duration) -> Result<Ranks, RunError> {
        let mut machines = vec![None; wire.size() as usize];
        machines[0] = Some(Machine::here());
        let all = wire::wait(ANSWER, || {
            while let Some((from, message)) = wire::told(&*wire) {
                if let FromRank::Hello(machine) = message {
                    machines[from as usize] = Some(machine);
                }
            }
            machines.iter().cloned().collect::<Option<Vec<Machine>>>()
        });
        let Some(machines) = all else {
            let silent = machines.iter().position(Option::is_none).unwrap_or(0);
            return Err(RunError::Missing(format!("rank {silent} did not answer within {ANSWER:?}")));
        };
        let (clients, leaders) = (mapping::clients(&machines), mapping::leaders(&machines));
        let (clocks, specs, seen, _guard) = (BTreeMap::new(), specs(), Seen::default(), guard::start()?);
        let ranks = Ranks { wire, patience, machines, leaders, clocks, specs, seen, clients, _guard };
        ranks.ask_all(ranks.other_leaders(), &ToRank::Guard);
        Ok(ranks)
    }

    /// All ranks but this one.
    pub(crate) fn others(&self) -> std::ops::Range<u32> {
        1..self.wire.size()
    }

    /// The first rank of each machine but this one.
    pub(crate) fn other_leaders(&self) -> impl Iterator<Item = u32> {
        self.leaders.iter().copied().filter(|leader| *leader != 0)
    }

    /// `rank 3 on node7`.
    pub(crate) fn name(&self, rank: u32) -> String {
        format!("rank {rank} on {}", self.machines[rank as usize].host)
    }

    /// The request to a rank as one of the clients.
    pub(crate) fn request(&self, request: &Request, rank: u32) -> Request {
        Request { client: Some(self.clients[rank as usize]), ..request.clone() }
    }

    pub(crate) fn ask_all(&self, ranks: impl Iterator<Item = u32>, message: &ToRank) {
        ranks.for_each(|rank| wire::ask(&*self.wire, rank, message));
    }

    /// Waits until every other rank has answered what is looked for.
    pub(crate) fn await_all(
        &self,
        mut take: impl FnMut(u32, FromRank) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let mut missing: Vec<u32> = self.others().collect();
        let begun = Instant::now();
        while !missing.is_empty() {
            match wire::wait(GLANCE, || wire::told(&*self.wire)) {
                Some((from, message)) => {
                    missing.retain(|rank| *rank != from);
                    take(from, message)?;
                }
                None if begun.elapsed() > self.answer() => return Err(self.silent(missing[0], self.answer())),
                None => {}
            }
        }
        Ok(())
    }

    /// How long a rank may take to answer.
    pub(crate) fn answer(&self) -> Duration {
        ANSWER.min(TIMES * self.patience)
    }

    /// The failure of a rank that did not answer in time.
    pub(crate) fn silent(&self, rank: u32, patience: Duration) -> RunError {
        let rank = self.name(rank);
        RunError::Missing(format!(
            "{rank} did not answer within {patience:?}: its machine or its filesystem hangs; leave it out and resume"
        ))
    }

    /// Measures the clocks of all other machines.
    pub(crate) fn set_clocks(&mut self) {
        let own = (self.machines[0].clone(), Offset::default());
        let others = self
            .other_leaders()
            .map(|leader| (self.machines[leader as usize].clone(), clock::measure(&*self.wire, leader)));
        self.clocks = others.chain([own]).collect();
    }

    /// Ends the job for all ranks. False where not all of them leave it.
    #[must_use]
    pub fn leave(wire: &dyn Wire, failed: bool) -> bool {
        (1..wire.size()).for_each(|rank| wire::ask(wire, rank, &ToRank::End));
        wire.barrier(if failed { FAILED } else { LEAVING })
    }
}
