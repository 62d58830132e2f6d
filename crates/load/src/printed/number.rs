//! Numbers in the output of programs; a part of a longer number is rejected.

use std::ops::Range;

/// Parses a finite number.
pub fn number(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a number"))
}

/// Parses a figure that a benchmark prints; None unless it is finite and at least 0.
pub fn figure(text: &str) -> Option<f64> {
    number(text.trim()).ok().filter(|value| *value >= 0.0)
}

/// Checks that a piece of a line is not part of a longer number, as `1.5` of `1.5e+06`, `1` of `1,234`, or `12.5` of `12.5k`.
///
/// A letter or `%` directly after the piece, and digits or a sign directly before it, are accepted if the pattern names
/// them. To find out, the character is replaced: `named` returns whether the pattern no longer matches the changed line.
/// `percent` accepts any `%` after the piece.
///
/// # Errors
/// A message that quotes the whole number.
pub fn whole(
    line: &str,
    piece: Range<usize>,
    percent: bool,
    named: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let (before, after) = (&line[..piece.start], &line[piece.end..]);
    let next = after.chars().next();
    let suffix = next.filter(|next| next.is_alphabetic() || (*next == '%' && !percent));
    // A replacement of the same length, so that the offset of the piece does not change.
    let replacement = |next: char| "\u{1}".repeat(next.len_utf8());
    let has_suffix = suffix.is_some_and(|next| {
        let rest = &after[next.len_utf8()..];
        !named(&format!("{before}{}{}{rest}", &line[piece.clone()], replacement(next)))
    });
    let has_prefix = begins_before(before)
        && before.chars().next_back().is_some_and(|last| {
            let rest = &before[..before.len() - last.len_utf8()];
            !named(&format!("{rest}{}{}", replacement(last), &line[piece.start..]))
        });
    if !has_suffix && !has_prefix && !continues(after) {
        return Ok(());
    }
    let of_number = |c: char| c.is_alphanumeric() || ".,+-%'".contains(c);
    let start = before.rfind(|c: char| !of_number(c)).map_or(0, |at| at + char_len_at(before, at));
    let end = piece.end + after.find(|c: char| !of_number(c)).unwrap_or(after.len());
    let (part, all) = (&line[piece], line[start..end].trim_end_matches(['.', ',', '-', '\'']));
    Err(format!(
        "`{part}` is only part of `{all}`; match the whole number, or name the unit behind it in the pattern"
    ))
}

/// Whether a number continues in the text after it: with digits, a separator and digits, or an exponent.
fn continues(after: &str) -> bool {
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let after_one_of = |marks: &[char]| after.strip_prefix(marks);
    let exponent = |rest: &str| digit(rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digit(after)
        || after_one_of(&['.', ',', '\'']).is_some_and(digit)
        || after_one_of(&['e', 'E']).is_some_and(exponent)
}

/// Whether a number begins in the text before it: with digits, or with a minus sign that is not an operator.
fn begins_before(before: &str) -> bool {
    let digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    let ends_a_word =
        |text: &str| text.is_empty() || text.ends_with(|c: char| c.is_whitespace() || "=:(".contains(c));
    digit(before)
        || before.strip_suffix(['.', ',', '\'']).is_some_and(digit)
        || before.strip_suffix('-').is_some_and(ends_a_word)
}

/// The length in bytes of the character at an offset; 0 at the end.
fn char_len_at(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}
