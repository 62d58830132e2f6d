//! Errors in plans, with their position.

use crate::exit::{ExitCode, HasExitCode};
use crate::names::unknown_name;
use crate::setting_text::setting;
use std::ops::Range;

/// One error of a plan: its position, what is wrong, and what is accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{origin}{}: {message}", describe_position(.position))]
pub struct PlanError {
    /// Where the error is: the file, the study or plan, or the setting as its users write it (`--budget`).
    pub origin: String,
    /// Line and column of the first character, both from 1; None outside a text.
    pub position: Option<(usize, usize)>,
    /// The message.
    pub message: String,
}

impl PlanError {
    /// An error at the first byte of a byte range of a text.
    pub fn at_span(origin: &str, text: &str, span: Range<usize>, message: impl Into<String>) -> PlanError {
        PlanError {
            origin: origin.to_string(),
            position: Some(line_and_column(text.as_bytes(), span.start)),
            message: message.into(),
        }
    }

    /// An error in the value of a setting that the user gave outside the plan. `name` is the name of the setting.
    pub fn in_setting(name: &str, message: impl Into<String>) -> PlanError {
        // Without a value, `setting` formats the name alone.
        PlanError::without_position(&setting(name, ""), message)
    }

    /// An error without a position in a text. `origin` is [`PlanError::origin`].
    pub fn without_position(origin: &str, message: impl Into<String>) -> PlanError {
        PlanError { origin: origin.to_string(), position: None, message: message.into() }
    }
}

/// Line and column (in characters) of a byte offset, both from 1.
pub(crate) fn line_and_column(text: &[u8], offset: usize) -> (usize, usize) {
    let before = &text[..offset.min(text.len())];
    let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |i| i + 1);
    let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
    (line, String::from_utf8_lossy(&before[line_start..]).chars().count() + 1)
}

fn describe_position(position: &Option<(usize, usize)>) -> String {
    position.map_or(String::new(), |(line, column)| format!(", line {line}, column {column}"))
}

impl HasExitCode for PlanError {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

/// Rewrites a message of the TOML parser in the words of plans. If the message has none of the parser's words in `WORDS`, such
/// as a message about another number type, it stays as it is.
pub(crate) fn reword_parser_message(message: &str) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("recursion limit", "nested too deeply"),
        ("cannot recurse further; max recursion depth met", "nested too deeply"),
        ("missing field", "missing key"),
        ("invalid type: ", "wrong type: "),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
        // A number that requires 128 bits: "integer `99999999999999999999` as i128, expected u64".
        (" as i128, expected u64", ", expected a smaller whole number"),
        ("expected u64", "expected a whole number from 0"),
    ];
    if message.starts_with("unknown ")
        && let Some((_, rest)) = message.split_once('`')
        // The unknown name can contain a backtick; the accepted names do not.
        && let Some((name, accepted)) = rest.rsplit_once("`, expected ").or_else(|| rest.rsplit_once('`'))
    {
        let kind = if message.starts_with("unknown field") { "key" } else { "value" };
        return unknown_name(kind, name, accepted.split('`').skip(1).step_by(2)).into();
    }
    WORDS
        .iter()
        .fold(message.to_string(), |text, (parser_words, plan_words)| text.replacen(parser_words, plan_words, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_messages_are_rewritten_in_the_words_of_plans() {
        assert_eq!(
            reword_parser_message("unknown field `nme`, expected `name` or `seed`"),
            "Unknown key `nme`. Did you mean `name`? Available: name, seed"
        );
        assert_eq!(
            reword_parser_message("unknown field `x`, expected `name` or `seed`"),
            "Unknown key `x`. Available: name, seed"
        );
        assert_eq!(
            reword_parser_message("unknown field `a`b`, expected one of `name`, `seed`"),
            "Unknown key `a`b`. Available: name, seed"
        );
        assert_eq!(
            reword_parser_message("invalid type: string \"many\", expected u32"),
            "wrong type: string \"many\", expected a whole number from 0 to 4294967295"
        );
    }

    #[test]
    fn columns_count_characters() {
        let text = "a\nžluť = 1";
        assert_eq!(line_and_column(text.as_bytes(), 0), (1, 1));
        assert_eq!(line_and_column(text.as_bytes(), text.find('=').unwrap()), (2, 6));
        assert_eq!(line_and_column(text.as_bytes(), 999), (2, 9));
    }
}
