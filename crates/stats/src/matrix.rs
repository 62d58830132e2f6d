//! Finds anomalies in a block-size × threads matrix: cells that break a rule of storage, grouped by cause.
//!
//! A rule compares the throughput of cells with a tolerance (see the constants below). With several rounds, each comparison is an interval
//! of the within-round log ratio ([`crate::hodges_lehmann`]). A published table has one value per cell; that value itself is
//! compared, and a cell whose neighbours keep the rule is reported only if it is far off ([`ALONE`]).
//!
//! Flagged cells become findings in three steps: adjacent cells of one rule form a region ([`finding::regions`]); regions that
//! describe the same cells form one finding ([`finding`]); findings are ranked by size × extent. A finding stays unconfirmed
//! until new rounds show the same ([`finding::confirm`]).

pub mod cells;
pub mod finding;
mod rules;
mod screen;

use crate::evalue::e_bh;
use cells::Matrix;
use finding::Finding;
use screen::Screen;

// The tolerances of the rules. All are ratios, unless their comment gives another unit.

/// If a cell exceeds the bare device by more than this factor, something else served it, such as a cache.
pub const ABOVE_DEVICE: f64 = 1.05;
/// If a cell has less than this share of the bare device's throughput, the filesystem is its limit.
pub const BELOW_DEVICE: f64 = 0.70;
/// Sequential throughput below this share of random throughput breaks a rule.
pub const SEQUENTIAL: f64 = 0.95;
/// Larger blocks break a rule if their bandwidth is below this share of that of smaller blocks. They also break one if their
/// operations per second are above 1/[`MONOTONE`] times those of smaller blocks.
pub const MONOTONE: f64 = 0.95;
/// Throughput below this share of the throughput at the next smaller thread count breaks a rule.
pub const SCALING: f64 = 0.95;
/// More threads gain nothing if throughput stays below this times that of the smallest thread count, over a range of threads
/// of at least [`RANGE`].
pub const GAIN: f64 = 1.25;
/// The range of threads over which a rule expects a gain: the largest count divided by the smallest.
pub const RANGE: f64 = 4.0;
/// The device is not the limit of a cell if another cell has more than this times its throughput.
pub const HEADROOM: f64 = 1.25;
/// A cell is far behind if it has less than this share of the throughput of every other variant.
pub const BEHIND: f64 = 0.5;
/// Cliff: if blocks are smaller by a factor q, the throughput relative to every other variant falls to less than this
/// divided by q. For example, a limit on operations per second halves the relative throughput when the block size is halved
/// and bandwidth limits the other variants. That is no cliff; a cliff falls to less than 0.4 of the ratio at the larger blocks.
pub const CLIFF: f64 = 0.8;
/// The smallest residual of the median polish that is flagged, in standard deviations (1.4826·MAD).
pub const RESIDUAL: f64 = 3.5;
/// A residual is flagged only if the cell is also below this share of the value interpolated between its neighbours, along both
/// axes.
pub const PIT: f64 = 0.8;
/// From this share of the device's bandwidth on, the device limits a cell, and rules do not apply to it.
pub const CEILING: f64 = 0.9;
/// With few rounds, a flagged cell without flagged neighbours may be a single bad measurement. The flag is kept only if the
/// ratio of the cell to the value that the rule compares it with is below this or above 1/[`ALONE`].
pub const ALONE: f64 = 0.8;
/// The expected share of false findings among those that e-BH selects is at most this.
pub const ALPHA: f64 = 0.05;

/// The anomalies of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The findings, largest first.
    pub findings: Vec<Finding>,
    /// The number of comparisons that the rules made.
    pub trials: usize,
    /// The number of comparisons that e-BH selected: at most the share [`ALPHA`] of these is expected to be false. With
    /// few rounds, e-BH selects none in a large matrix, and new rounds must confirm the findings.
    pub selected: usize,
    /// The largest number of values of a cell; 1 for a published table.
    pub rounds: usize,
}

/// Searches a matrix for anomalies. `device` is the largest bandwidth of the device in bytes per second, if known from another
/// source; otherwise cells of the bare device in the matrix provide it.
pub fn analyse(matrix: &Matrix, device: Option<f64>) -> Analysis {
    let mut screen = Screen::new(matrix, device);
    rules::within(&mut screen);
    screen.drop_isolated_flags();
    rules::between(&mut screen);
    screen.drop_isolated_flags();
    let Screen { flags, e_values, breaks, .. } = screen;
    let chosen = e_bh(&e_values, ALPHA);
    Analysis {
        findings: finding::findings(flags, &breaks, &chosen),
        trials: e_values.len(),
        selected: chosen.len(),
        rounds: matrix.rounds(),
    }
}
