//! Typed access to rows of a file that may be damaged.

use crate::{Error, Result};
use rusqlite::{Connection, Row, StatementStatus, types::ValueRef};
use serde::de::DeserializeOwned;
use std::{ops::ControlFlow, path::Path};

/// The name of a table, for errors.
type Table = &'static str;
/// Whether to continue with the next row.
type Flow = Result<ControlFlow<()>>;
/// The rows of a table, each as one value, and their ids.
type Rows<T> = Result<(Vec<T>, Ids)>;

/// Rounds from this one on are damage: a watch with windows of 10 ms gets here in four months.
const LAST_ROUND: u32 = 1 << 30;
/// A moment from this one on is damage, in seconds since 1970: more than three thousand years.
const LAST_MOMENT_S: f64 = 1e11;

/// A database opened for reading, with the name that errors give.
pub struct Source<'a> {
    pub db: &'a Connection,
    pub path: &'a Path,
}

/// One row of a table.
pub struct Cursor<'a> {
    row: &'a Row<'a>,
    table: Table,
    path: &'a Path,
}

impl Source<'_> {
    /// Calls `visit` with each row until it breaks or fails. Returns whether SQLite had to sort the rows.
    fn visit(&self, table: Table, sql: &str, mut visit: impl FnMut(&Cursor) -> Flow) -> Result<bool> {
        let mut statement = self.db.prepare(sql).map_err(Error::read(self.path))?;
        let mut rows = statement.query([]).map_err(Error::read(self.path))?;
        while let Some(row) = rows.next().map_err(Error::read(self.path))? {
            if visit(&Cursor { row, table, path: self.path })?.is_break() {
                break;
            }
        }
        drop(rows);
        Ok(statement.get_status(StatementStatus::Sort) > 0)
    }

    /// Calls `visit` with the rows of a large table, which `sql` selects in the order of its key, until it breaks or fails.
    ///
    /// # Errors
    /// Where the table lacks the key, as SQLite sorts only then; and the errors of `visit`.
    pub fn in_order(&self, table: Table, sql: &str, visit: impl FnMut(&Cursor) -> Flow) -> Result<()> {
        if self.visit(table, sql, visit)? {
            return Err(Error::damaged(self.path, format!("damaged: a missing key in table {table}")));
        }
        Ok(())
    }

    /// Calls `each` with every row.
    pub fn each(&self, table: Table, sql: &str, mut each: impl FnMut(&Cursor) -> Result<()>) -> Result<()> {
        self.visit(table, sql, |row| each(row).map(ControlFlow::Continue)).map(drop)
    }

    /// Reads a table: the value that `of` returns for each row, and the ids, which the first column holds in ascending order.
    pub fn table<T>(&self, table: Table, sql: &str, of: impl Fn(&Cursor) -> Result<T>) -> Rows<T> {
        let (mut all, mut ids) = (vec![], Ids::default());
        self.each(table, sql, |row| {
            ids.0.push(row.int(0)?);
            all.push(of(row)?);
            Ok(())
        })?;
        Ok((all, ids))
    }

    /// The last row of a table that cannot be empty.
    pub fn one<T>(&self, table: Table, sql: &str, of: impl Fn(&Cursor) -> Result<T>) -> Result<T> {
        let mut found = None;
        self.each(table, sql, |row| {
            found = Some(of(row)?);
            Ok(())
        })?;
        found.ok_or_else(|| Error::damaged(self.path, format!("damaged: table {table} is empty")))
    }
}

impl Cursor<'_> {
    /// An error about this table.
    pub fn damaged(&self, what: &str) -> Error {
        Error::damaged(self.path, format!("damaged: {what} in table {}", self.table))
    }

    fn value(&self, column: usize) -> Result<ValueRef<'_>> {
        self.row.get_ref(column).map_err(Error::read(self.path))
    }

    /// A whole number.
    pub fn int(&self, column: usize) -> Result<i64> {
        match self.value(column)? {
            ValueRef::Integer(value) => Ok(value),
            _ => Err(self.damaged("something that is not a whole number")),
        }
    }

    /// A whole number that fits another type.
    pub fn number<T: TryFrom<i64>>(&self, column: usize) -> Result<T> {
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

    /// A number that arithmetic can use.
    pub fn finite(&self, column: usize) -> Result<f64> {
        let value = self.real(column)?;
        if value.is_finite() { Ok(value) } else { Err(self.damaged("a number that is not finite")) }
    }

    /// A time in seconds since 1970.
    pub fn moment(&self, column: usize) -> Result<f64> {
        let moment = self.real(column)?;
        let there = (0.0..LAST_MOMENT_S).contains(&moment);
        if there { Ok(moment) } else { Err(self.damaged("a moment of no clock")) }
    }

    /// The number of a round, from 0. A watch has one for each of its windows.
    pub fn round(&self, column: usize) -> Result<u32> {
        let round = self.number(column)?;
        if round < LAST_ROUND { Ok(round) } else { Err(self.damaged("a round out of range")) }
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

    /// The value that `of` reads from a column; None if the column is NULL.
    pub fn optional<T>(&self, column: usize, of: fn(&Self, usize) -> Result<T>) -> Result<Option<T>> {
        let there = !matches!(self.value(column)?, ValueRef::Null);
        there.then(|| of(self, column)).transpose()
    }

    /// A value kept as JSON.
    pub fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T> {
        serde_json::from_str(&self.text(column)?).map_err(|error| self.damaged(&format!("JSON ({error})")))
    }

    /// A value kept as the bare word that serde gives it.
    pub fn word<T: DeserializeOwned>(&self, column: usize) -> Result<T> {
        let word = self.text(column)?;
        let value = serde_json::Value::String(word.clone());
        serde_json::from_value(value).map_err(|_| self.damaged(&format!("the unknown word '{word}'")))
    }
}

/// The row ids of a table in ascending order; their places are the indices that a record uses.
#[derive(Default)]
pub struct Ids(pub Vec<i64>);

impl Ids {
    /// The place of the id that a row refers to.
    pub fn index(&self, id: i64, row: &Cursor) -> Result<usize> {
        self.0.binary_search(&id).map_err(|_| row.damaged("a reference to a row that is not there"))
    }

    /// The place of the id that a row refers to. `guess` is its most likely place, which saves the search.
    pub fn near(&self, id: i64, guess: usize, row: &Cursor) -> Result<usize> {
        if self.0.get(guess) == Some(&id) { Ok(guess) } else { self.index(id, row) }
    }
}
