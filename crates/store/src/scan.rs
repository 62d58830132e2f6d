//! The one loop that a big run spends its reading in: tens of millions of rows of three numbers.
//!
//! [`rusqlite::Row`] asks SQLite three times for every column: how many there are, which type this one has, what it
//! holds. Here each is asked for once, and a million samples of 21 readings are read in two thirds of the time. That is
//! right because the table is `STRICT`: SQLite refused every other type when the row was written. A table of somebody
//! else's may not be, so the types of such a one are looked at before.

use crate::rows::Source;
use crate::{Error, Result};
use rusqlite::{Connection, ffi};
use std::ffi::CStr;

/// A row of table `value`.
pub(crate) struct Value {
    pub(crate) sample: i64,
    pub(crate) metric: i64,
    pub(crate) value: f64,
}

/// Calls `each` with the rows of table `value` that meet a condition (`WHERE …` or nothing), sorted by sample and metric.
///
/// # Errors
/// Where the file is damaged or a column holds something else than a number; and what `each` returns.
pub(crate) fn values(source: &Source, which: &str, mut each: impl FnMut(Value) -> Result<()>) -> Result<()> {
    check_types(source)?;
    let sql = format!("SELECT sample, metric, value FROM value {which} ORDER BY sample, metric");
    let statement = Statement::prepare(source.db, &sql).map_err(Error::read(source.path))?;
    while statement.step().map_err(Error::read(source.path))? {
        each(Value { sample: statement.int(0), metric: statement.int(1), value: statement.real(2) })?;
    }
    Ok(())
}

/// Looks for what is not a number, where SQLite has not done so itself.
fn check_types(source: &Source) -> Result<()> {
    let strict = "SELECT 1 FROM pragma_table_list('value') WHERE schema = 'main' AND strict";
    if source.db.prepare(strict).and_then(|mut ask| ask.exists([])).map_err(Error::read(source.path))? {
        return Ok(());
    }
    let sql = "SELECT typeof(sample) = 'integer' AND typeof(metric) = 'integer', typeof(value) FROM value";
    source.each("value", sql, |row| match (row.int(0)?, row.text(1)?.as_str()) {
        (1, "real" | "integer") => Ok(()),
        (1, _) => Err(row.damaged("something that is not a number")),
        _ => Err(row.damaged("something that is not a whole number")),
    })
}

/// A compiled statement, which cannot outlive its connection.
struct Statement<'a> {
    db: &'a Connection,
    raw: *mut ffi::sqlite3_stmt,
}

impl<'a> Statement<'a> {
    fn prepare(db: &'a Connection, sql: &str) -> rusqlite::Result<Statement<'a>> {
        let length = sql.len().try_into().expect("the statement of this file is short");
        let mut raw = std::ptr::null_mut();
        // SAFETY: the connection is open while it is borrowed, and `sql` has `length` bytes. Nothing is asked of what
        // stands behind the statement.
        let code = unsafe {
            ffi::sqlite3_prepare_v2(db.handle(), sql.as_ptr().cast(), length, &mut raw, std::ptr::null_mut())
        };
        let statement = Statement { db, raw };
        if code == ffi::SQLITE_OK { Ok(statement) } else { Err(statement.error(code)) }
    }

    /// Whether there is another row.
    fn step(&self) -> rusqlite::Result<bool> {
        // SAFETY: `raw` is a statement of an open connection, which no other thread uses: `Connection` is not `Sync`.
        match unsafe { ffi::sqlite3_step(self.raw) } {
            ffi::SQLITE_ROW => Ok(true),
            ffi::SQLITE_DONE => Ok(false),
            code => Err(self.error(code)),
        }
    }

    /// A column of the row that the last step found: a whole number. Another type would be converted, never misread.
    fn int(&self, column: i32) -> i64 {
        // SAFETY: as in `step`. SQLite gives 0 for a column or a row that is not there.
        unsafe { ffi::sqlite3_column_int64(self.raw, column) }
    }

    /// A column of the row that the last step found: a number.
    fn real(&self, column: i32) -> f64 {
        // SAFETY: as in `int`.
        unsafe { ffi::sqlite3_column_double(self.raw, column) }
    }

    /// What SQLite says of its last failure.
    fn error(&self, code: i32) -> rusqlite::Error {
        // SAFETY: the text is SQLite's own, ends with a zero, and stays until the connection is used again.
        let text = unsafe { CStr::from_ptr(ffi::sqlite3_errmsg(self.db.handle())) };
        let text = text.to_string_lossy().into_owned();
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), Some(text))
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made by `sqlite3_prepare_v2` and is finalised once; a null pointer is allowed.
        unsafe { ffi::sqlite3_finalize(self.raw) };
    }
}
