//! The names and values in claims: the characters that they may have, and when they need quotes.

/// The reserved words. The name of a variant that equals one of them needs quotes.
pub(super) const KEYWORDS: [&str; 6] = ["best", "worst", "is", "not", "by", "within"];

/// Whether the parser takes an unquoted name on the right side for `task.metric`.
pub(super) fn reads_as_quantity(name: &str) -> bool {
    let word = |part: &str| part.chars().next().is_some_and(char::is_alphabetic) && part.chars().all(in_word);
    name.split('.').count() >= 2 && name.split('.').all(word)
}

/// Whether a character may be part of a variant's name without quotes.
pub(super) fn in_name(c: char) -> bool {
    !c.is_whitespace() && !c.is_control() && !"<>!\"#*[]".contains(c)
}

/// Whether a character may be part of a parameter's value without quotes.
pub(super) fn in_value(c: char) -> bool {
    in_name(c) && c != ','
}

/// Whether a character may be part of a task, metric or parameter.
pub(super) fn in_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// Whether the name of a variant can be written without quotes. A name that begins or ends with `=` cannot: together with an
/// operator beside it, the parser would read another operator.
pub(super) fn is_name(text: &str) -> bool {
    let plain = !text.is_empty() && text.chars().all(in_name);
    let operator = text.contains("==") || text.starts_with('=') || text.ends_with('=');
    plain && !operator && !KEYWORDS.contains(&text)
}

/// Returns a name or value unchanged if it is `plain`, otherwise in quotes with special characters escaped.
pub(super) fn quoted(text: &str, plain: bool) -> String {
    if plain {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
