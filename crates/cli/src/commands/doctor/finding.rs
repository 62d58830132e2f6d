//! The result of one check of the machine.

use fsarena_core::row::Row;
use fsarena_fs::available::Availability;
use fsarena_sys::program;
use serde::Serialize;

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub what: &'static str,
    /// State of what was checked.
    pub state: State,
    /// Result of the check.
    pub found: String,
    /// How to get more; empty where there is nothing to do.
    pub fix: String,
}

impl Row for Finding {
    const COLUMNS: &'static [&'static str] = &["what", "state", "found", "fix: TO GET MORE"];
}

/// State of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// As good as it gets.
    Ok,
    /// Usable, with less to tell.
    Limited,
    /// Not usable.
    Missing,
}

/// All is well.
pub fn ok(what: &'static str, found: impl Into<String>) -> Finding {
    Finding { what, state: State::Ok, found: found.into(), fix: String::new() }
}

/// Usable, and how to get more.
pub fn limited(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, state: State::Limited, found: found.into(), fix: fix.into() }
}

/// Not usable, and how to change that.
pub fn missing(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { what, state: State::Missing, found: found.into(), fix: fix.into() }
}

/// Those of these programs that `PATH` has, and the others.
pub fn installed<'a>(programs: impl IntoIterator<Item = &'a str>) -> (Vec<&'a str>, Vec<&'a str>) {
    programs.into_iter().partition(|name| program::find(name).is_some())
}

/// The ids of filesystems in a line.
pub fn ids<'a>(found: impl IntoIterator<Item = &'a Availability>) -> String {
    found.into_iter().map(|have| have.def.id).collect::<Vec<_>>().join(" ")
}
