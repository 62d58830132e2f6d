//! Escapes untrusted text, such as names of variants and output of failed commands, before fsarena displays it.

use crate::number::plural;

/// Escapes a text as one line: control characters, newlines, and invisible characters that change the direction of text or break a
/// line become visible. Other invisible characters, such as U+200B, stay.
pub fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push('⏎'),
            c if c.is_control() || is_invisible_mark(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes a text as one line of Markdown, also inside a table. A list marker (`- `, `1. `) at the beginning stays: a caller that
/// writes a paragraph escapes it.
pub fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in line(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '$' | '!') {
            safe.push('\\');
        }
        safe.push(c);
    }
    safe
}

/// Escapes each line of a text; tabs become blanks.
pub fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|text| line(&text.replace('\t', "    ")))
}

/// The longest line of a message, in characters.
const MAX_LINE_LENGTH: usize = 2_000;

/// Escapes each line of a message, and shortens long lines.
pub fn message(text: &str) -> String {
    lines(text).map(|line| shorten(&line, MAX_LINE_LENGTH)).collect::<Vec<_>>().join("\n")
}

/// Shortens a text to about `max_length` characters: replaces its middle with the number of characters left out. The result can be
/// longer than `max_length` by this remark.
pub fn shorten(text: &str, max_length: usize) -> String {
    let length = text.chars().count();
    if length <= max_length {
        return text.into();
    }
    let half = max_length / 2;
    let (head, tail): (String, String) =
        (text.chars().take(half).collect(), text.chars().skip(length - half).collect());
    format!("{head} [… {} …] {tail}", plural(length - 2 * half, "character"))
}

/// Whether a character is invisible and changes the direction of text or breaks a line, or is the byte order mark U+FEFF.
fn is_invisible_mark(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(line("a\u{1b}[31mb\nc\r\u{202e}d"), "a\\u{1b}[31mb⏎c\\r\\u{202e}d");
        assert_eq!(line("a\u{61c}b"), "a\\u{61c}b");
        assert_eq!(line("Größe – 1"), "Größe – 1");
    }

    #[test]
    fn long_lines_of_a_message_are_shortened_in_the_middle() {
        assert_eq!(shorten("abcdefgh", 4), "ab [… 4 characters …] gh");
        assert_eq!(shorten("abcde", 4), "ab [… 1 character …] de");
        assert_eq!(shorten("abcd", 4), "abcd");
        let long = message(&format!("\u{1b}[2J\n{}", "x".repeat(120_000)));
        assert!(long.starts_with("\\u{1b}[2J\nxx") && long.len() < 2_100, "{long}");
    }

    #[test]
    fn markdown_syntax_is_escaped() {
        assert_eq!(markdown("a|b`c`<i>*d*"), "a\\|b\\`c\\`\\<i\\>\\*d\\*");
    }
}
