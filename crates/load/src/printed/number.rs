//! Numbers in what programs print, whole or refused.

use std::ops::Range;

/// What may stand between the digits of a number.
const SEPARATORS: [char; 5] = ['.', ',', '\'', '’', '_'];

/// A finite number.
pub fn number(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a number"))
}

/// A figure that a benchmark prints: finite, and not below 0.
pub fn figure(text: &str) -> Option<f64> {
    number(text.trim()).ok().filter(|value| *value >= 0.0)
}

/// Refuses a piece of a line that is the front or the back of a longer number, such as `1.5` of `1.5e+06`, `1` of `1,234`, or
/// `12.5` of `12.5k`. A letter or a per cent sign behind it, and what stands before it, count unless the pattern names them:
/// `named` tells whether the pattern no longer finds the piece in a line with another character there. Where the value is in
/// per cent, its sign may follow.
pub fn whole(
    line: &str,
    piece: Range<usize>,
    percent: bool,
    named: impl Fn(&str) -> bool,
) -> Result<(), String> {
    let (before, after) = (&line[..piece.start], &line[piece.end..]);
    let next = after.chars().next();
    // `5:06` are minutes and seconds.
    let clock = after.strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let suffix = next.filter(|next| next.is_alphabetic() || (*next == '%' && !percent) || clock);
    // Of the same length, so that the piece stays where it is.
    let other = |next: char| "\u{1}".repeat(next.len_utf8());
    let has_suffix = suffix.is_some_and(|next| {
        let rest = &after[next.len_utf8()..];
        !named(&format!("{before}{}{}{rest}", &line[piece.clone()], other(next)))
    });
    let has_prefix = began_earlier(before)
        && before.chars().next_back().is_some_and(|last| {
            let rest = &before[..before.len() - last.len_utf8()];
            !named(&format!("{rest}{}{}", other(last), &line[piece.start..]))
        });
    if !has_suffix && !has_prefix && !goes_on(after) {
        return Ok(());
    }
    let of_number = |c: char| c.is_alphanumeric() || ".,+-%:".contains(c) || SEPARATORS.contains(&c);
    let start = before.rfind(|c: char| !of_number(c)).map_or(0, |at| at + char_at(before, at));
    let end = piece.end + after.find(|c: char| !of_number(c)).unwrap_or(after.len());
    let (part, all) = (&line[piece], line[start..end].trim_end_matches(['.', ',', '-', '\'']));
    Err(format!(
        "`{part}` is only part of `{all}`; match the whole number, or name the unit behind it in the pattern"
    ))
}

/// Whether digits go on behind a number, after a separator or as its exponent.
fn goes_on(after: &str) -> bool {
    let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let behind = |marks: &[char]| after.strip_prefix(marks);
    let exponent = |rest: &str| digit(rest.strip_prefix(['+', '-']).unwrap_or(rest));
    digit(after) || behind(&SEPARATORS).is_some_and(digit) || behind(&['e', 'E']).is_some_and(exponent)
}

/// Whether a number began before its piece: with digits, or with a sign.
fn began_earlier(before: &str) -> bool {
    let digit = |text: &str| text.ends_with(|c: char| c.is_ascii_digit());
    let begins =
        |text: &str| text.is_empty() || text.ends_with(|c: char| c.is_whitespace() || "=:(".contains(c));
    digit(before)
        || before.strip_suffix(SEPARATORS).is_some_and(digit)
        || before.strip_suffix('-').is_some_and(begins)
}

fn char_at(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}
