//! Guests that begin before the turns of their cells. Other load does not change counts of instructions, so as many guests run at
//! a time as there are CPUs. The runner still takes the cells one after the other.

use super::saved_machines::RestoredGuest;
use super::session::GuestExit;
use crate::error::{Result, RunError};
use crate::executor::CellSink;
use fsarena_core::cell::{Cell, CellId};
use fsarena_core::event::CellEvent;
use fsarena_sys::{host::available_memory, kernel::SysRoot};
use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// The largest number of begun guests for each guest that may run at a time. The others have ended before the turns of their
/// cells.
const MAX_BEGUN_PER_RUNNING: usize = 4;

/// The guests of a run that began before the turns of their cells.
pub struct EarlyGuests {
    /// The cells that will probably come next, in this order, whose guests have not begun.
    upcoming: VecDeque<Cell>,
    begun: Vec<EarlyGuest>,
    /// The number of guests that run at a time.
    max_running: usize,
}

/// A guest that runs on a separate thread.
struct EarlyGuest {
    cell: CellId,
    /// The events before the guest began.
    before: Vec<CellEvent>,
    events: Receiver<CellEvent>,
    /// None after the guest has ended and its exit was taken.
    thread: Option<JoinHandle<Result<GuestExit>>>,
    is_needless: Arc<AtomicBool>,
}

impl EarlyGuests {
    /// No guests yet. At most one will run for each CPU of this process, and no more than fit into the free memory;
    /// `guest_memory` is the memory of a guest in bytes.
    pub fn new(kernel: &SysRoot, guest_memory: u64) -> EarlyGuests {
        let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
        let fitting = available_memory(kernel).map_or(1, |free| free / guest_memory.max(1));
        EarlyGuests { upcoming: VecDeque::new(), begun: vec![], max_running: cpus.min(fitting as usize).max(1) }
    }

    /// Takes the cells that will probably come next, in this order. Guests of other cells are ended.
    pub fn announce(&mut self, cells: Vec<Cell>) {
        let ids: Vec<CellId> = cells.iter().map(Cell::id).collect();
        self.begun.retain(|guest| ids.contains(&guest.cell));
        let is_new = |cell: &Cell| self.begun.iter().all(|guest| guest.cell != cell.id());
        self.upcoming = cells.into_iter().filter(is_new).collect();
    }

    /// Begins to run the guest of a cell; `before` are the events of the cell so far.
    pub fn begin(&mut self, cell: &Cell, before: Vec<CellEvent>, guest: RestoredGuest) {
        let id = cell.id();
        self.upcoming.retain(|upcoming| upcoming.id() != id);
        self.begun.push(EarlyGuest::begin(id, before, guest));
    }

    /// The next cell whose guest may begin now; None if enough guests run, or there is no such cell.
    pub fn next_cell(&mut self) -> Option<Cell> {
        let running = self.begun.iter().filter(|guest| guest.is_running()).count();
        if running >= self.max_running || self.begun.len() >= MAX_BEGUN_PER_RUNNING * self.max_running {
            return None;
        }
        self.upcoming.pop_front()
    }

    /// Whether the guest of a cell has begun.
    pub fn has_begun(&self, cell: &Cell) -> bool {
        let id = cell.id();
        self.begun.iter().any(|guest| guest.cell == id)
    }

    /// Passes the events of a cell's guest on until it ends, and returns how it ended.
    ///
    /// # Errors
    /// Those of [`RestoredGuest::run`].
    pub fn wait(&mut self, cell: &Cell, emit: CellSink) -> Result<GuestExit> {
        let id = cell.id();
        let at = self.begun.iter().position(|guest| guest.cell == id);
        let at = at.ok_or_else(|| RunError::Agent("the guest of a cell has not begun".into()))?;
        self.begun.remove(at).wait(emit)
    }
}

impl EarlyGuest {
    /// Begins to run the guest of a cell.
    fn begin(cell: CellId, before: Vec<CellEvent>, guest: RestoredGuest) -> EarlyGuest {
        let (sender, events) = channel();
        let is_needless = Arc::new(AtomicBool::new(false));
        let flag = is_needless.clone();
        let thread = std::thread::spawn(move || {
            guest.run(&flag, &mut |event| {
                // Nobody receives the events of a guest that has become needless.
                let _ = sender.send(event);
            })
        });
        EarlyGuest { cell, before, events, thread: Some(thread), is_needless }
    }

    fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Passes the events of the guest on until it ends, and returns how it ended.
    fn wait(mut self, emit: CellSink) -> Result<GuestExit> {
        self.before.drain(..).for_each(&mut *emit);
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
        let cells = matrix::cells(&record.plan, &record.variants, &[0, 1], 0);
        let mut early = EarlyGuests { upcoming: VecDeque::new(), begun: vec![], max_running: 1 };
        assert!(early.next_cell().is_none());
        early.announce(cells.clone());
        assert!(!early.has_begun(&cells[0]));
        assert_eq!(early.next_cell().as_ref(), cells.first());
        early.announce(cells[1..].to_vec());
        assert_eq!(early.next_cell().as_ref(), cells.last());
    }
}
