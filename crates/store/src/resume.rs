//! What a resumed run need not do again.

use crate::rows::Source;
use crate::{Result, RunDir, schema};
use fsarena_core::cell::CellId;
use fsarena_core::event::Outcome;
use std::collections::{BTreeSet, HashSet};

/// The cells that were measured to their end.
///
/// # Errors
/// Where the run cannot be read.
pub fn done_cells(run: &RunDir) -> Result<HashSet<CellId>> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let mut done = HashSet::new();
    Source { db: &db, path: &path }.each("cell", "SELECT hash, outcome FROM cell", |row| {
        if row.json::<Outcome>(1)? == Outcome::Done {
            done.insert(CellId(row.text(0)?));
        }
        Ok(())
    })?;
    Ok(done)
}

/// The names of the arms that left the run: those with a failed cell or a note that says so.
///
/// # Errors
/// Where the run cannot be read.
pub fn dead_arms(run: &RunDir) -> Result<BTreeSet<String>> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };
    let mut dead = BTreeSet::new();
    let failed = "SELECT arm.name, cell.outcome FROM cell JOIN arm ON arm.id = cell.arm";
    source.each("cell", failed, |row| {
        if matches!(row.json::<Outcome>(1)?, Outcome::Failed { .. }) {
            dead.insert(row.text(0)?);
        }
        Ok(())
    })?;
    let noted = "SELECT arm FROM note WHERE kind = 'arm_failed' AND arm IS NOT NULL";
    source.each("note", noted, |row| {
        dead.insert(row.text(0)?);
        Ok(())
    })?;
    Ok(dead)
}
