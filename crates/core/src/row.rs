//! The rows of the tables and the JSON output of `fsarena list` and `fsarena selftest`.

use serde::Serialize;

/// A row of a listing. JSON output has all its serialized fields; the table has one column for each field of
/// [`Row::COLUMNS`].
pub trait Row: Serialize {
    /// The fields of the table, in order. An entry `fix: REMEDY` shows the field `fix` under the heading REMEDY; an entry
    /// without a colon has the name of its field as heading. A field that does not exist gives an empty column.
    const COLUMNS: &'static [&'static str];

    /// The text of a field in the table; None if it is the same as in JSON.
    fn table_text(&self, _field: &str) -> Option<String> {
        None
    }
}
