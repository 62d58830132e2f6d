//! The loops that a big run spends its reading in: millions of rows of nothing but numbers.
//!
//! A program that goes through a result goes into SQLite's machine and out of it with every row, and asks it for each
//! column. Here the rows stay inside: a function of this file is part of the statement's condition, is handed the
//! columns of every row, and says no to all of them, so that there is a result only when it wants no more. A million
//! samples of 21 readings are read in three quarters of the time.

use crate::rows::Source;
use crate::{Error, Result};
use rusqlite::{Connection, StatementStatus, ffi};
use std::ffi::{CStr, c_int, c_void};
use std::ops::ControlFlow;

/// A table of numbers, or the columns of it that are read.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns of its key, by which its rows are sorted.
    pub(crate) key: &'static str,
    /// Columns of whole numbers; the first is the first of the key.
    pub(crate) whole: &'static [&'static str],
    /// The column of numbers, which comes last.
    pub(crate) real: &'static str,
}

/// What the function is called in SQL.
const VISIT: &CStr = c"visit";
/// Not for views, triggers or columns that a file from elsewhere may hold: only for the statement of this file.
const FLAGS: c_int = ffi::SQLITE_UTF8 | ffi::SQLITE_DIRECTONLY;

impl Table {
    /// Calls `visit` with the rows, in the order of the key, from this value of its first column on, until it breaks
    /// off or fails.
    ///
    /// # Errors
    /// Where the file is damaged or has no such order; and what `visit` returns.
    pub(crate) fn each(
        &self,
        source: &Source,
        from: Option<i64>,
        mut visit: impl FnMut(&Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let mut result = Ok(());
        let stop = |values: &[*mut ffi::sqlite3_value]| match visit(&Row { values, table: self, source }) {
            Ok(flow) => flow.is_break(),
            Err(error) => {
                result = Err(error);
                true
            }
        };
        let sorted = self.run(source.db, from, stop).map_err(Error::read(source.path))?;
        result?;
        // Rows are visited before they are sorted; those of a file of ours lie in the order of their key.
        if sorted { Err(self.damaged(source, "a missing key")) } else { Ok(()) }
    }

    /// Visits rows until `stop` says so, and whether SQLite had to sort them.
    fn run<F>(&self, db: &Connection, from: Option<i64>, mut stop: F) -> rusqlite::Result<bool>
    where
        F: FnMut(&[*mut ffi::sqlite3_value]) -> bool,
    {
        let (key, columns) = (self.whole[0], self.whole.join(", "));
        let Table { name, real, .. } = self;
        let from = from.map_or(String::new(), |from| format!("{key} >= {from} AND "));
        let sql = format!("SELECT 1 FROM {name} WHERE {from}visit({columns}, {real}) ORDER BY {}", self.key);
        let _registered = Registered::new(db, self.whole.len() + 1, &mut stop)?;
        let mut statement = db.prepare(&sql)?;
        statement.exists([])?;
        Ok(statement.get_status(StatementStatus::Sort) > 0)
    }

    /// What is said of a row that refers to none.
    pub(crate) fn lost(&self, source: &Source) -> Error {
        self.damaged(source, "a reference to a row that is not there")
    }

    fn damaged(&self, source: &Source, what: &str) -> Error {
        Error::damaged(source.path, format!("damaged: {what} in table {}", self.name))
    }
}

/// A row that is visited.
pub(crate) struct Row<'a> {
    values: &'a [*mut ffi::sqlite3_value],
    table: &'a Table,
    source: &'a Source<'a>,
}

impl Row<'_> {
    /// A column: a whole number.
    pub(crate) fn int(&self, column: usize) -> Result<i64> {
        let value = self.values[column];
        // SAFETY: SQLite keeps the values of a call until it returns, and a row does not live longer.
        match unsafe { ffi::sqlite3_value_type(value) } {
            ffi::SQLITE_INTEGER => Ok(unsafe { ffi::sqlite3_value_int64(value) }),
            _ => Err(self.table.damaged(self.source, "something that is not a whole number")),
        }
    }

    /// A column: a number.
    pub(crate) fn real(&self, column: usize) -> Result<f64> {
        let value = self.values[column];
        // SAFETY: as in `int`.
        match unsafe { ffi::sqlite3_value_type(value) } {
            ffi::SQLITE_FLOAT | ffi::SQLITE_INTEGER => Ok(unsafe { ffi::sqlite3_value_double(value) }),
            _ => Err(self.table.damaged(self.source, "something that is not a number")),
        }
    }
}

/// A closure that SQL knows under [`VISIT`], until this is dropped.
struct Registered<'a> {
    db: &'a Connection,
    arguments: c_int,
}

impl<'a> Registered<'a> {
    fn new<F>(db: &'a Connection, arguments: usize, stop: &'a mut F) -> rusqlite::Result<Registered<'a>>
    where
        F: FnMut(&[*mut ffi::sqlite3_value]) -> bool,
    {
        let registered = Registered { db, arguments: arguments as c_int };
        let code = registered.is(std::ptr::from_mut(stop).cast(), Some(visit::<F>));
        if code == ffi::SQLITE_OK {
            Ok(registered)
        } else {
            Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
        }
    }

    /// Says what the name stands for from now on.
    fn is(&self, data: *mut c_void, function: Option<Function>) -> c_int {
        // SAFETY: the connection is open while it is borrowed. `data` is a closure that is borrowed for as long as it is
        // registered, of the type that `function` takes it for.
        unsafe {
            let (db, name) = (self.db.handle(), VISIT.as_ptr());
            ffi::sqlite3_create_function_v2(db, name, self.arguments, FLAGS, data, function, None, None, None)
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.is(std::ptr::null_mut(), None);
    }
}

/// What SQLite calls.
type Function = unsafe extern "C" fn(*mut ffi::sqlite3_context, c_int, *mut *mut ffi::sqlite3_value);

/// Calls the closure with the columns of a row. True ends the statement, as that is its condition.
unsafe extern "C" fn visit<F>(
    call: *mut ffi::sqlite3_context,
    count: c_int,
    values: *mut *mut ffi::sqlite3_value,
) where
    F: FnMut(&[*mut ffi::sqlite3_value]) -> bool,
{
    // SAFETY: SQLite passes on what was registered, which is an `F` that nobody else uses while the statement runs, and
    // as many values as it says.
    unsafe {
        let stop = &mut *ffi::sqlite3_user_data(call).cast::<F>();
        let values = std::slice::from_raw_parts(values, count as usize);
        ffi::sqlite3_result_int(call, stop(values).into());
    }
}
