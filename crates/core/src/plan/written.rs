//! Reads the text of a plan.

use super::Plan;
use super::error::{PlanError, line_and_column, plain};
use super::file::{MAX_BYTES, PlanFile, StageFile};
use super::stored::{as_written, is_stored};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A plan as it was written: what was parsed, and the text that errors point into.
#[derive(Debug, Clone)]
pub struct Written {
    /// What errors call it: the file's path, `study NAME`.
    pub origin: String,
    /// The text.
    pub text: String,
    /// What the text says.
    pub file: PlanFile,
    /// The complete plan of a run, where this was made of one.
    pub stored: Option<Plan>,
}

impl Written {
    /// The plan of one of its stages, in the same text.
    pub fn of_stage(&self, stage: &StageFile) -> Written {
        Written { file: self.file.of_stage(stage), ..self.clone() }
    }
}

impl PlanFile {
    /// Parses a plan, be it one that a person wrote or the stored one of a run. `origin` names it in errors.
    ///
    /// # Errors
    /// One, with line and column: for what is not UTF-8, not TOML, an unknown key, a wrong type.
    ///
    /// # Examples
    /// ```
    /// use fsarena_core::plan::file::PlanFile;
    ///
    /// let text = "name = 'mail'\n[factors]\nfs = ['ext4', 'xfs']\n[[workload]]\nuse = 'tree'\n";
    /// let written = PlanFile::parse("mail.toml", text.as_bytes())?;
    /// assert_eq!(*written.file.name.get_ref(), "mail");
    ///
    /// let error = PlanFile::parse("mail.toml", b"name = 'mail'\nfactor = 1\n").unwrap_err();
    /// assert!(error.to_string().contains("line 2, column 1"), "{error}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(origin: &str, bytes: &[u8]) -> Result<Written, PlanError> {
        if bytes.len() > MAX_BYTES {
            let message = format!("too large for a plan; the limit is {} MiB", MAX_BYTES >> 20);
            return Err(PlanError { origin: origin.into(), at: Some((1, 1)), message });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| PlanError {
            origin: origin.into(),
            at: Some(line_and_column(bytes, error.valid_up_to())),
            message: "a plan is UTF-8 text, and this byte is not".into(),
        })?;
        let bad = |error: toml::de::Error| {
            let first = error.message().lines().next().unwrap_or("is not TOML");
            // Without a place it is nested too deeply to go on anywhere.
            PlanError::at(origin, text, error.span().unwrap_or(0..0), plain(first))
        };
        let table = DeTable::parse(text).map_err(bad)?;
        if let Some(place) = table.get_ref().iter().find_map(|(key, value)| nul_in(key, value)) {
            let message = "no path, option, command or name can have a NUL character in it: take it out";
            return Err(PlanError::at(origin, text, place, message));
        }
        let stored: Option<Plan> = is_stored(text).then(|| toml::from_str(text)).transpose().map_err(bad)?;
        let file =
            stored.as_ref().map_or_else(|| toml::from_str(text).map_err(bad), |plan| Ok(as_written(plan)))?;
        match file.stages_fault() {
            Some(fault) => Err(PlanError::flag(origin, fault)),
            None => Ok(Written { origin: origin.into(), text: text.into(), file, stored }),
        }
    }
}

/// Where a key or a value has a NUL character in it, which the system takes for the end of a path or an argument.
fn nul_in(key: &Spanned<DeString>, value: &Spanned<DeValue>) -> Option<Range<usize>> {
    if key.get_ref().contains('\0') {
        return Some(key.span());
    }
    match value.get_ref() {
        DeValue::String(text) if text.contains('\0') => Some(value.span()),
        DeValue::Array(values) => values.iter().find_map(|value| nul_in(key, value)),
        DeValue::Table(table) => table.iter().find_map(|(key, value)| nul_in(key, value)),
        _ => None,
    }
}
