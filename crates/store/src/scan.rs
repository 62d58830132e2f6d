//! Reads the tables that hold most of a big run: millions of rows with numeric columns only.

use crate::rows::Source;
use crate::{Error, Result};
use rusqlite::StatementStatus;
use rusqlite::types::ValueRef;
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

impl Table {
    /// Calls `visit` with each row in the order of the key, starting at the value `from` of the first key column, until
    /// `visit` breaks or fails.
    ///
    /// # Errors
    /// Where the file is damaged or its table lacks the key; and the errors of `visit`.
    pub(crate) fn each(
        &self,
        source: &Source,
        from: Option<i64>,
        mut visit: impl FnMut(&Row) -> Result<ControlFlow<()>>,
    ) -> Result<()> {
        let Table { name, key, whole, real } = self;
        let from = from.map_or(String::new(), |from| format!("WHERE {} >= {from} ", whole[0]));
        let sql = format!("SELECT {}, {real} FROM {name} {from}ORDER BY {key}", whole.join(", "));
        let mut statement = source.db.prepare(&sql).map_err(Error::read(source.path))?;
        let mut rows = statement.query([]).map_err(Error::read(source.path))?;
        while let Some(row) = rows.next().map_err(Error::read(source.path))? {
            if visit(&Row { row, table: self, source })?.is_break() {
                break;
            }
        }
        drop(rows);
        // The key of an intact file gives this order. SQLite sorts only where the key is missing.
        let sorted = statement.get_status(StatementStatus::Sort) > 0;
        if sorted { Err(self.damaged(source, "a missing key")) } else { Ok(()) }
    }

    /// The error for a row that refers to a missing row.
    pub(crate) fn lost(&self, source: &Source) -> Error {
        self.damaged(source, "a reference to a row that is not there")
    }

    fn damaged(&self, source: &Source, what: &str) -> Error {
        Error::damaged(source.path, format!("damaged: {what} in table {}", self.name))
    }
}

/// One row of a [`Table`].
pub(crate) struct Row<'a> {
    row: &'a rusqlite::Row<'a>,
    table: &'a Table,
    source: &'a Source<'a>,
}

impl Row<'_> {
    /// The whole number in a column.
    pub(crate) fn int(&self, column: usize) -> Result<i64> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Integer(value)) => Ok(value),
            _ => Err(self.table.damaged(self.source, "something that is not a whole number")),
        }
    }

    /// The number in a column.
    pub(crate) fn real(&self, column: usize) -> Result<f64> {
        match self.row.get_ref(column) {
            Ok(ValueRef::Real(value)) => Ok(value),
            Ok(ValueRef::Integer(value)) => Ok(value as f64),
            _ => Err(self.table.damaged(self.source, "something that is not a number")),
        }
    }
}
