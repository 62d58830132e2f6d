//! The loops that a big run spends its reading in: millions of rows of nothing but numbers.
//!
//! [`rusqlite::Row`] asks SQLite three times for every column: how many there are, which type this one has, what it
//! holds. Here each is asked for once, and a million samples of 21 readings are read in two thirds of the time. That is
//! right because the tables are `STRICT`: SQLite refused every other type when the row was written. Those of somebody
//! else's may not be, so the types in such a one are looked at before.

use crate::rows::Source;
use crate::{Error, Result};
use rusqlite::{Connection, ffi};
use std::ffi::CStr;

/// A table of numbers, or the columns of it that are read.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns of its key, by which its rows are sorted.
    pub(crate) key: &'static str,
    /// Columns of whole numbers.
    pub(crate) whole: &'static [&'static str],
    /// The column of numbers, which comes last.
    pub(crate) real: &'static str,
}

impl Table {
    /// Calls `each` with the rows that meet a condition (`WHERE …` or nothing).
    ///
    /// # Errors
    /// Where the file is damaged or a column holds something else than a number; and what `each` returns.
    pub(crate) fn each(
        &self,
        source: &Source,
        which: &str,
        mut each: impl FnMut(&Statement) -> Result<()>,
    ) -> Result<()> {
        self.check_types(source)?;
        let (whole, Table { name, key, real, .. }) = (self.whole.join(", "), self);
        let sql = format!("SELECT {whole}, {real} FROM {name} {which} ORDER BY {key}");
        let statement = Statement::prepare(source.db, &sql).map_err(Error::read(source.path))?;
        while statement.step().map_err(Error::read(source.path))? {
            each(&statement)?;
        }
        Ok(())
    }

    /// What is said of a row that refers to none.
    pub(crate) fn lost(&self, source: &Source) -> Error {
        let what = format!("damaged: a reference to a row that is not there in table {}", self.name);
        Error::damaged(source.path, what)
    }

    /// Looks for what is not a number, where SQLite has not done so itself.
    fn check_types(&self, source: &Source) -> Result<()> {
        let strict = "SELECT 1 FROM pragma_table_list(?1) WHERE schema = 'main' AND strict";
        let strict = source.db.prepare(strict).and_then(|mut ask| ask.exists([self.name]));
        if strict.map_err(Error::read(source.path))? {
            return Ok(());
        }
        let whole = self.whole.join(") || typeof(");
        let sql = format!("SELECT typeof({whole}), typeof({}) FROM {}", self.real, self.name);
        let integers = "integer".repeat(self.whole.len());
        source.each(self.name, &sql, |row| match row.text(1)?.as_str() {
            _ if row.text(0)? != integers => Err(row.damaged("something that is not a whole number")),
            "real" | "integer" => Ok(()),
            _ => Err(row.damaged("something that is not a number")),
        })
    }
}

/// A compiled statement, which cannot outlive its connection, and the row that it found.
pub(crate) struct Statement<'a> {
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
    pub(crate) fn int(&self, column: i32) -> i64 {
        // SAFETY: as in `step`. SQLite gives 0 for a column or a row that is not there.
        unsafe { ffi::sqlite3_column_int64(self.raw, column) }
    }

    /// A column of the row that the last step found: a number.
    pub(crate) fn real(&self, column: i32) -> f64 {
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
