//! Anomalies in a block-size × threads matrix: which cells break a rule of storage, grouped by cause.
//!
//! A rule compares the throughput of cells against a tolerance ([`limits`]). With replicates each
//! comparison is an interval of the within-round log ratio ([`crate::hodges_lehmann`]); a published table has one
//! value a cell, so there the value itself is held against the tolerance, and a break that no neighbour
//! shares is not claimed unless it is large ([`limits::ALONE`]).
//!
//! Flags become findings in three steps: cells of one rule that touch are one region ([`finding::regions`]);
//! regions that describe the same cells are one finding ([`finding`]); findings are ranked by size ×
//! extent. What a run's own rounds suggest stays unconfirmed until fresh rounds say the same
//! ([`finding::confirm`]).

pub mod cells;
pub mod finding;
pub mod limits;
mod rules;
mod screen;

use crate::evalue::e_bh;
use cells::Matrix;
use finding::Finding;
use limits::ALPHA;
use screen::Screen;

/// What the rules made of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The findings, largest first.
    pub findings: Vec<Finding>,
    /// Comparisons that the rules made.
    pub trials: usize,
    /// Comparisons that e-BH selected at [`limits::ALPHA`]: of these at most that share is expected to be
    /// false. With few rounds a large matrix cannot reach it; that is what fresh rounds are for.
    pub selected: usize,
    /// The most replicates that a cell has; 1 for a published table.
    pub rounds: usize,
}

/// Searches a matrix. `device` is the most that the device can move, in bytes a second, where that is
/// known from outside; raw-device cells in the matrix say it otherwise.
pub fn analyse(matrix: &Matrix, device: Option<f64>) -> Analysis {
    let mut screen = Screen::new(matrix, device);
    rules::within(&mut screen);
    screen.keep_company();
    rules::between(&mut screen);
    screen.keep_company();
    let Screen { flags, e, breaks, .. } = screen;
    let chosen = e_bh(&e, ALPHA);
    Analysis {
        findings: finding::findings(flags, &breaks, &chosen),
        trials: e.len(),
        selected: chosen.len(),
        rounds: matrix.rounds(),
    }
}
