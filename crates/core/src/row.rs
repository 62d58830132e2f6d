//! The rows of listings.

use serde::Serialize;

/// Something that lists as a row: for programs its fields, for people a column for each of some.
pub trait Row: Serialize {
    /// The fields to show, in order. The head of a column is the name of its field, unless another follows: `fix: REMEDY`.
    const COLUMNS: &'static [&'static str];

    /// A field as text for people, where that is not the same as for programs.
    fn for_people(&self, _field: &str) -> Option<String> {
        None
    }
}
