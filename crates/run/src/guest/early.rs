//! Guests that begin before the runner runs their cells. Only guests that count instructions do: other load on the
//! machine does not change their counts, so as many of them run at a time as the machine has CPUs. The runner still
//! takes the cells one by one.

use super::saved_machines::RestoredGuest;
use super::session::GuestExit;
use crate::error::{Result, RunError};
use crate::executor::CellSink;
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::event::CellEvent;
use fsarena_sys::{host::available_memory_bytes, kernel::SysRoot};
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// The largest number of guests that have begun, for each guest that may run at a time. The surplus guests have ended
/// and wait until the runner takes their cells.
const MAX_BEGUN_PER_RUNNING: usize = 4;

/// The guests of a run that began before the turns of their cells.
pub struct EarlyGuests {
    /// The cells that will probably come next, in this order, whose guests have not begun.
    upcoming: VecDeque<Cell>,
    /// The guests that have begun, also those that have ended.
    guests: Vec<EarlyGuest>,
    /// The number of guests that run at a time.
    max_running: usize,
}

/// A guest that runs on a separate thread.
struct EarlyGuest {
    cell: CellId,
    /// The events of the cell before its guest began.
    earlier_events: Vec<CellEvent>,
    events: Receiver<CellEvent>,
    /// The thread that runs the guest; None after it was joined.
    thread: Option<JoinHandle<Result<GuestExit>>>,
    /// Becomes true when the run no longer needs the guest.
    is_needless: Arc<AtomicBool>,
}

impl EarlyGuests {
    /// No guests yet. At most one will run for each CPU of this process, and no more than fit into the free memory;
    /// `guest_memory_bytes` is the memory of one guest.
    pub fn new(kernel: &SysRoot, guest_memory_bytes: u64) -> EarlyGuests {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        let fitting = available_memory_bytes(kernel).map_or(1, |free| free / guest_memory_bytes.max(1));
        EarlyGuests { upcoming: VecDeque::new(), guests: vec![], max_running: cpus.min(fitting as usize).max(1) }
    }

    /// Receives the cells that will probably be run next, in this order. Ends guests of other cells.
    pub fn announce(&mut self, cells: Vec<Cell>) {
        let ids: Vec<CellId> = cells.iter().map(Cell::id).collect();
        self.guests.retain(|guest| ids.contains(&guest.cell));
        let is_new = |cell: &Cell| self.guests.iter().all(|guest| guest.cell != cell.id());
        self.upcoming = cells.into_iter().filter(is_new).collect();
    }

    /// Begins to run the guest of a cell. `earlier_events` are the events of the cell so far.
    pub fn begin(&mut self, cell: &Cell, earlier_events: Vec<CellEvent>, guest: RestoredGuest) {
        let id = cell.id();
        self.upcoming.retain(|upcoming| upcoming.id() != id);
        self.guests.push(EarlyGuest::begin(id, earlier_events, guest));
    }

    /// The next cell whose guest may begin now; None if enough guests run, or there is no such cell.
    pub fn next_cell(&mut self) -> Option<Cell> {
        let running = self.guests.iter().filter(|guest| guest.is_running()).count();
        if running >= self.max_running || self.guests.len() >= MAX_BEGUN_PER_RUNNING * self.max_running {
            return None;
        }
        self.upcoming.pop_front()
    }

    /// Whether the guest of a cell has begun.
    pub fn has_begun(&self, cell: &Cell) -> bool {
        let id = cell.id();
        self.guests.iter().any(|guest| guest.cell == id)
    }

    /// Emits the events of the guest of a cell until the guest ends. Returns how it ended.
    ///
    /// # Errors
    /// Those of [`RestoredGuest::run`].
    pub fn wait(&mut self, cell: &Cell, emit: CellSink) -> Result<GuestExit> {
        let id = cell.id();
        let index = self.guests.iter().position(|guest| guest.cell == id);
        let index = index.ok_or_else(|| RunError::Agent("the guest of a cell has not begun".into()))?;
        self.guests.remove(index).wait(emit)
    }
}

impl EarlyGuest {
    /// Begins to run the guest of a cell.
    fn begin(cell: CellId, earlier_events: Vec<CellEvent>, guest: RestoredGuest) -> EarlyGuest {
        let (sender, events) = channel();
        let is_needless = Arc::new(AtomicBool::new(false));
        let flag = is_needless.clone();
        let thread = std::thread::spawn(move || {
            guest.run(&flag, &mut |event| {
                // Nobody receives the events of a guest that has become needless.
                let _ = sender.send(event);
            })
        });
        EarlyGuest { cell, earlier_events, events, thread: Some(thread), is_needless }
    }

    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Emits the events of the guest until it ends. Returns how it ended.
    fn wait(mut self, emit: CellSink) -> Result<GuestExit> {
        self.earlier_events.drain(..).for_each(&mut *emit);
        while let Ok(event) = self.events.recv() {
            emit(event);
        }
        let thread = self.thread.take().expect("only `wait` takes the thread");
        thread.join().unwrap_or_else(|_| Err(RunError::Agent("the thread of a guest panicked".into())))
    }
}

impl Drop for EarlyGuest {
    fn drop(&mut self) {
        self.is_needless.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fsarena_core::matrix;

    #[test]
    fn cells_begin_in_the_announced_order() {
        let record = crate::testing::empty_record(&["ext4", "xfs"], &[]);
        let cells = matrix::cells_of_round(&record.plan, &record.variants, &[0, 1], 0);
        let mut early = EarlyGuests { upcoming: VecDeque::new(), guests: vec![], max_running: 1 };
        assert!(early.next_cell().is_none());
        early.announce(cells.clone());
        assert!(!early.has_begun(&cells[0]));
        assert_eq!(early.next_cell().as_ref(), cells.first());
        early.announce(cells[1..].to_vec());
        assert_eq!(early.next_cell().as_ref(), cells.last());
    }
}
