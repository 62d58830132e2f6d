//! Errors in claims, with their position.

use crate::exit::{ExitCode, Exits};

/// A claim that could not be read. Points at the character:
///
/// ```text
/// claim, column 20: expected a variant, found `by`
///   untar.elapsed: xfs < by 5%
///                        ^
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("claim, {}column {column}: {message}\n  {}", place(.line), pointed(.text, *.column))]
pub struct ClaimError {
    /// The line as it was written.
    pub text: String,
    /// Its number, from 1, where there are several.
    pub line: Option<usize>,
    /// The character at fault, from 1; one behind the last where something is missing at the end.
    pub column: usize,
    /// The message: the expected and the actual text.
    pub message: String,
}

fn place(line: &Option<usize>) -> String {
    line.map_or(String::new(), |line| format!("line {line}, "))
}

/// The most characters that are shown before the fault, and behind it.
const AROUND: usize = 150;

/// The text around the fault, and below it a caret.
fn pointed(text: &str, column: usize) -> String {
    let from = (column - 1).saturating_sub(AROUND);
    let shown: String = text.chars().skip(from).take(2 * AROUND).collect();
    format!("{shown}\n  {}^", indent(&shown, column - from))
}

/// Blanks up to the character at fault. Tabs stay tabs, so that the caret stands under it.
fn indent(text: &str, column: usize) -> String {
    text.chars().take(column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect()
}

impl Exits for ClaimError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}
