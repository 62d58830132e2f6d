//! What a resumed run need not do again.

use crate::rows::Source;
use crate::{Result, RunDir, schema};
use fsarena_core::cell::CellId;
use fsarena_core::event::{Cause, Departure, Outcome};
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

/// The variants that left the run: those with a failed cell or a note that says so.
///
/// # Errors
/// Where the run cannot be read.
pub fn dead_variants(run: &RunDir) -> Result<BTreeMap<String, Departure>> {
    let path = run.database();
    let db = schema::open_to_read(&path)?;
    let source = Source { db: &db, path: &path };
    let mut dead = BTreeMap::new();
    let failed =
        "SELECT variant.name, cell.outcome, cell.round FROM cell JOIN variant ON variant.id = cell.variant";
    source.each("cell", failed, |row| {
        if let Outcome::Failed { why, cause } = row.json(1)? {
            dead.insert(row.text(0)?, Departure { round: row.number(2)?, why, cause });
        }
        Ok(())
    })?;
    let noted = "SELECT variant, round, text FROM note WHERE kind = 'variant_failed' AND variant IS NOT NULL";
    source.each("note", noted, |row| {
        let round = row.optional_number(1)?.unwrap_or(0);
        let departure = Departure { round, why: row.text(2)?, cause: Cause::default() };
        dead.entry(row.text(0)?).or_insert(departure);
        Ok(())
    })?;
    Ok(dead)
}
