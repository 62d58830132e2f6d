//! What a resumed run need not do again.

use crate::rows::Source;
use crate::{Result, RunDir, schema};
use fsarena_core::cell::CellId;
use fsarena_core::event::Outcome;
use std::collections::{BTreeMap, HashSet};

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

/// The variants that left the run, those with a failed cell or a note that says so, and in which round.
///
/// # Errors
/// Where the run cannot be read.
pub fn dead_variants(run: &RunDir) -> Result<BTreeMap<String, u32>> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };
    let mut dead = BTreeMap::new();
    let failed =
        "SELECT variant.name, cell.outcome, cell.round FROM cell JOIN variant ON variant.id = cell.variant";
    source.each("cell", failed, |row| {
        if matches!(row.json::<Outcome>(1)?, Outcome::Failed { .. }) {
            dead.insert(row.text(0)?, row.number(2)?);
        }
        Ok(())
    })?;
    let noted = "SELECT variant, round FROM note WHERE kind = 'variant_failed' AND variant IS NOT NULL";
    source.each("note", noted, |row| {
        dead.entry(row.text(0)?).or_insert(row.optional_number(1)?.unwrap_or(0));
        Ok(())
    })?;
    Ok(dead)
}
