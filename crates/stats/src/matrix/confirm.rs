//! Fresh rounds: a finding was chosen because it stood out, so the rounds that suggested it cannot be the
//! ones that prove it.

use super::cells::{At, Matrix};
use super::finding::{Finding, Standing};
use super::limits::ALPHA;
use crate::{evalue::e_bh, table::FIRST_LOOK};
use std::collections::BTreeSet;

/// The cells to run again on fresh rounds: for every part of every finding its worst cell, and all that
/// cell is held against.
pub fn rerun(findings: &[Finding]) -> BTreeSet<At> {
    let worst = findings.iter().flat_map(|finding| &finding.parts).map(|part| part.worst());
    worst.flat_map(|flag| &flag.tests).flat_map(|test| &test.terms).map(|(at, _)| *at).collect()
}

/// Holds the findings against fresh rounds of the cells of [`rerun`]. `fresh` names variants, modes and axes as
/// `matrix` does, and may lack everything else.
///
/// A finding is confirmed where for its first part's worst cell every test's interval breaks the rule
/// again, and e-BH over all findings tried selects it; it is refuted where an interval does not. It keeps
/// its standing where the fresh rounds are under eight, lack a cell, or are too few for e-BH.
pub fn confirm(findings: &mut [Finding], matrix: &Matrix, fresh: &Matrix) {
    let again = |(i, finding)| again(finding, matrix, fresh).map(|(beyond, e)| (i, beyond, e));
    let tried: Vec<(usize, bool, f64)> = findings.iter().enumerate().filter_map(again).collect();
    let e: Vec<f64> = tried.iter().map(|(.., e)| *e).collect();
    let chosen = e_bh(&e, ALPHA);
    for (k, (i, beyond, _)) in tried.into_iter().enumerate() {
        match (beyond, chosen.contains(&k)) {
            (true, true) => findings[i].standing = Standing::Confirmed,
            (true, false) => {}
            (false, _) => findings[i].standing = Standing::NotConfirmed,
        }
    }
}

fn again(finding: &Finding, matrix: &Matrix, fresh: &Matrix) -> Option<(bool, f64)> {
    let mut all = (true, f64::INFINITY);
    for test in &finding.first().worst().tests {
        let outcome = test.moved(matrix, fresh)?.outcome(fresh)?;
        if outcome.ratio.rounds < FIRST_LOOK {
            return None;
        }
        all = (all.0 && outcome.beyond, all.1.min(outcome.e));
    }
    Some(all)
}
