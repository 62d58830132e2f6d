//! Typed access to the rows of a database that may be damaged.

use crate::{Error, Result};
use rusqlite::{Connection, Row, StatementStatus, types::ValueRef};
use serde::de::DeserializeOwned;
use std::{ops::ControlFlow, path::Path};

/// The name of a table, for errors.
type TableName = &'static str;
/// Whether to continue with the next row, or the error of the visitor.
type VisitResult = Result<ControlFlow<()>>;

/// Rounds from this number on count as damage. `fsarena watch` with windows of 10 ms would reach it in four months.
const ROUND_LIMIT: u32 = 1 << 30;
/// Times from this one on, in seconds since 1970, count as damage. It is more than three thousand years after 1970.
const TIME_LIMIT_S: f64 = 1e11;

/// The open database of a run, and its path for error messages.
pub struct RunDatabase<'a> {
    pub db: &'a Connection,
    pub path: &'a Path,
}

/// One row of a table.
pub struct TableRow<'a> {
    row: &'a Row<'a>,
    table: TableName,
    path: &'a Path,
}

impl RunDatabase<'_> {
    /// Calls `visit` with each row until it breaks or fails. Returns whether SQLite had to sort the rows.
    fn visit_rows(&self, table: TableName, sql: &str, mut visit: impl FnMut(&TableRow) -> VisitResult) -> Result<bool> {
        let mut statement = self.db.prepare(sql).map_err(Error::while_reading(self.path))?;
        let mut rows = statement.query([]).map_err(Error::while_reading(self.path))?;
        while let Some(row) = rows.next().map_err(Error::while_reading(self.path))? {
            if visit(&TableRow { row, table, path: self.path })?.is_break() {
                break;
            }
        }
        drop(rows);
        Ok(statement.get_status(StatementStatus::Sort) > 0)
    }

    /// Calls `visit` with the rows of a large table, which `sql` selects in the order of its key, until it breaks or fails.
    ///
    /// # Errors
    /// The table lacks the key (SQLite sorts the rows only then), or `visit` fails.
    pub fn visit_in_key_order(
        &self,
        table: TableName,
        sql: &str,
        visit: impl FnMut(&TableRow) -> VisitResult,
    ) -> Result<()> {
        if self.visit_rows(table, sql, visit)? {
            return Err(Error::damaged(self.path, format!("damaged: a missing key in table {table}")));
        }
        Ok(())
    }

    /// Calls `visit` with every row.
    pub fn for_each_row(
        &self,
        table: TableName,
        sql: &str,
        mut visit: impl FnMut(&TableRow) -> Result<()>,
    ) -> Result<()> {
        self.visit_rows(table, sql, |row| visit(row).map(ControlFlow::Continue)).map(drop)
    }

    /// Reads a table: the value that `read` returns for each row, and the ids, which the first column has in ascending order.
    pub fn read_table<T>(
        &self,
        table: TableName,
        sql: &str,
        read: impl Fn(&TableRow) -> Result<T>,
    ) -> Result<(Vec<T>, RowIds)> {
        let (mut values, mut ids) = (vec![], RowIds::default());
        self.for_each_row(table, sql, |row| {
            ids.0.push(row.int(0)?);
            values.push(read(row)?);
            Ok(())
        })?;
        Ok((values, ids))
    }

    /// The value that `read` returns for the last row; an error if the table is empty.
    pub fn read_one<T>(&self, table: TableName, sql: &str, read: impl Fn(&TableRow) -> Result<T>) -> Result<T> {
        let mut value = None;
        self.for_each_row(table, sql, |row| {
            value = Some(read(row)?);
            Ok(())
        })?;
        value.ok_or_else(|| Error::damaged(self.path, format!("damaged: table {table} is empty")))
    }
}

impl TableRow<'_> {
    /// The error for damage in this table.
    pub fn damaged(&self, damage: &str) -> Error {
        Error::damaged(self.path, format!("damaged: {damage} in table {}", self.table))
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>> {
        self.row.get_ref(column).map_err(Error::while_reading(self.path))
    }

    /// A whole number.
    pub fn int(&self, column: usize) -> Result<i64> {
        match self.value(column)? {
            ValueRef::Integer(value) => Ok(value),
            _ => Err(self.damaged("something that is not a whole number")),
        }
    }

    /// A whole number of another type. An error if the number does not fit it.
    pub fn int_as<T: TryFrom<i64>>(&self, column: usize) -> Result<T> {
        T::try_from(self.int(column)?).map_err(|_| self.damaged("a number out of range"))
    }

    /// A number.
    pub fn real(&self, column: usize) -> Result<f64> {
        match self.value(column)? {
            ValueRef::Real(value) => Ok(value),
            ValueRef::Integer(value) => Ok(value as f64),
            _ => Err(self.damaged("something that is not a number")),
        }
    }

    /// A number that is neither NaN nor infinite.
    pub fn finite(&self, column: usize) -> Result<f64> {
        let value = self.real(column)?;
        if value.is_finite() { Ok(value) } else { Err(self.damaged("a number that is not finite")) }
    }

    /// A time in seconds since 1970.
    pub fn time(&self, column: usize) -> Result<f64> {
        let time = self.real(column)?;
        let is_valid = (0.0..TIME_LIMIT_S).contains(&time);
        if is_valid { Ok(time) } else { Err(self.damaged("an impossible time")) }
    }

    /// The number of a round, from 0. `fsarena watch` stores each of its windows as a round.
    pub fn round(&self, column: usize) -> Result<u32> {
        let round = self.int_as(column)?;
        if round < ROUND_LIMIT { Ok(round) } else { Err(self.damaged("a round out of range")) }
    }

    /// Text.
    pub fn text(&self, column: usize) -> Result<String> {
        match self.value(column)? {
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(text.to_string()),
                Err(_) => Err(self.damaged("text that is not UTF-8")),
            },
            ValueRef::Null => Err(self.damaged("missing text")),
            _ => Err(self.damaged("something that is not text")),
        }
    }

    /// The value that `read` returns for a column; None if the column is NULL.
    pub fn optional<T>(&self, column: usize, read: fn(&Self, usize) -> Result<T>) -> Result<Option<T>> {
        if matches!(self.value(column)?, ValueRef::Null) {
            return Ok(None);
        }
        read(self, column).map(Some)
    }

    /// A value stored as JSON.
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T> {
        serde_json::from_str(&self.text(column)?).map_err(|error| self.damaged(&format!("JSON ({error})")))
    }

    /// A value stored as its serde name without quotes.
    pub fn serde_name<T: DeserializeOwned>(&self, column: usize) -> Result<T> {
        let name = self.text(column)?;
        let value = serde_json::Value::String(name.clone());
        serde_json::from_value(value).map_err(|_| self.damaged(&format!("the unknown word '{name}'")))
    }
}

/// The row ids of a table in ascending order. The position of an id is the index that a `RunRecord` uses.
#[derive(Default)]
pub struct RowIds(pub Vec<i64>);

impl RowIds {
    /// The position of an id that `row` refers to.
    pub fn index(&self, id: i64, row: &TableRow) -> Result<usize> {
        self.0.binary_search(&id).map_err(|_| row.damaged("a reference to a row that does not exist"))
    }

    /// The position of an id that `row` refers to. `guess` is its most likely position, which saves the search.
    pub fn index_near(&self, id: i64, guess: usize, row: &TableRow) -> Result<usize> {
        if self.0.get(guess) == Some(&id) { Ok(guess) } else { self.index(id, row) }
    }
}
