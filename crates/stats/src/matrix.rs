//! Finds anomalies in a block-size × threads matrix: cells that break a rule of storage, grouped by cause.
//!
//! A rule compares the throughput of cells with a tolerance (see `rules.rs`). With several rounds, each comparison is an
//! interval of the within-round log ratio ([`crate::hodges_lehmann`]). A published table has one value per cell; that value
//! itself is compared, and a cell whose neighbours keep the rule is reported only if it is far off (`ISOLATED_LIMIT` in
//! `screening.rs`).
//!
//! Flagged cells become findings in three steps: adjacent cells of one rule form a region ([`finding::group_into_regions`]);
//! regions that describe the same cells form one finding ([`finding`]); findings are ranked by size × extent. A finding stays
//! unconfirmed until new rounds show the same ([`finding::confirm`]).

pub mod cells;
pub mod finding;
mod rules;
mod screening;

use crate::evalue::e_bh;
use cells::Matrix;
pub use finding::ALPHA;
use finding::Finding;
use screening::Screening;

/// The anomalies of a matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixAnalysis {
    /// The findings, largest first.
    pub findings: Vec<Finding>,
    /// The number of comparisons that the rules made.
    pub comparisons: usize,
    /// The number of comparisons that e-BH selected: at most the share [`ALPHA`] of these is expected to be false. With
    /// few rounds, e-BH selects none in a large matrix, and new rounds must confirm the findings.
    pub selected_comparisons: usize,
    /// The largest number of values of a cell; 1 for a published table.
    pub rounds: usize,
}

/// Searches a matrix for anomalies. `device_bandwidth` is the largest bandwidth of the device in bytes per second, if known
/// from another source; otherwise cells of the bare device in the matrix provide it.
pub fn find_anomalies(matrix: &Matrix, device_bandwidth: Option<f64>) -> MatrixAnalysis {
    let mut screening = Screening::new(matrix, device_bandwidth);
    rules::apply_within_variants(&mut screening);
    screening.drop_isolated_flags();
    rules::apply_between_variants(&mut screening);
    screening.drop_isolated_flags();
    let Screening { flags, e_values, borders, .. } = screening;
    let selected = e_bh(&e_values, ALPHA);
    MatrixAnalysis {
        findings: finding::group_into_findings(flags, &borders, &selected),
        comparisons: e_values.len(),
        selected_comparisons: selected.len(),
        rounds: matrix.rounds(),
    }
}
