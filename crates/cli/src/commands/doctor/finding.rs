//! The result of one check of the machine.

use fsarena_core::row::Row;
use fsarena_fs::available::Availability;
use fsarena_sys::program;
use serde::Serialize;

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Name of the check.
    #[serde(rename = "what")]
    pub check: &'static str,
    /// Whether the checked feature is usable.
    pub state: SupportState,
    /// Description of what the check found.
    pub found: String,
    /// How to enable the feature, or the part of it that is not usable; empty if there is nothing to do.
    pub fix: String,
}

impl Row for Finding {
    // The field `fix` has the heading TO GET MORE.
    const COLUMNS: &'static [&'static str] = &["what", "state", "found", "fix: TO GET MORE"];
}

/// Whether a checked feature is usable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SupportState {
    /// Fully usable.
    Ok,
    /// Usable with restrictions.
    Limited,
    /// Not usable.
    Missing,
}

/// The result for a feature that is fully usable.
pub fn ok(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, state: SupportState::Ok, found: found.into(), fix: String::new() }
}

/// The result for a feature that is usable with restrictions.
pub fn limited(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, state: SupportState::Limited, found: found.into(), fix: fix.into() }
}

/// The result for a feature that is not usable.
pub fn missing(check: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Finding {
    Finding { check, state: SupportState::Missing, found: found.into(), fix: fix.into() }
}

/// Splits programs into those that `PATH` has, and the others.
pub fn split_by_presence<'a>(programs: impl IntoIterator<Item = &'a str>) -> (Vec<&'a str>, Vec<&'a str>) {
    programs.into_iter().partition(|name| program::find(name).is_some())
}

/// Joins the ids of filesystems with spaces.
pub fn join_ids<'a>(filesystems: impl IntoIterator<Item = &'a Availability>) -> String {
    filesystems.into_iter().map(|fs| fs.def.id).collect::<Vec<_>>().join(" ")
}
