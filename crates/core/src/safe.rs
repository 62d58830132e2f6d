//! Text of others (names of variants, words of failed commands), made harmless where it is shown.

/// One line without control characters: escape sequences, newlines and characters that turn the
/// direction of text are spelled out.
pub fn line(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push('⏎'),
            c if c.is_control() || turns_text(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}

/// One line of Markdown that reads as the text itself, also inside a table.
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

/// Several lines, each made harmless.
pub fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|text| line(&text.replace('\t', "    ")))
}

/// The longest line of a message, in characters.
const LONGEST: usize = 2_000;

/// A message of several lines, each made harmless, and those that repeat a long input shortened.
pub fn message(text: &str) -> String {
    lines(text).map(|line| shortened(&line, LONGEST)).collect::<Vec<_>>().join("\n")
}

/// A text of at most `longest` characters, and a remark on the number that is left out in its middle.
pub fn shortened(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.into();
    }
    let half = longest / 2;
    let (head, tail): (String, String) =
        (text.chars().take(half).collect(), text.chars().skip(length - half).collect());
    format!("{head} [… {} characters …] {tail}", length - 2 * half)
}

fn turns_text(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_spelled_out() {
        assert_eq!(line("a\u{1b}[31mb\nc\r\u{202e}d"), "a\\u{1b}[31mb⏎c\\r\\u{202e}d");
        assert_eq!(line("Größe – 1"), "Größe – 1");
    }

    #[test]
    fn long_lines_of_a_message_are_shortened_in_the_middle() {
        assert_eq!(shortened("abcdefgh", 4), "ab [… 4 characters …] gh");
        assert_eq!(shortened("abcd", 4), "abcd");
        let long = message(&format!("\u{1b}[2J\n{}", "x".repeat(120_000)));
        assert!(long.starts_with("\\u{1b}[2J\nxx") && long.len() < 2_100, "{long}");
    }

    #[test]
    fn markdown_stays_text() {
        assert_eq!(markdown("a|b`c`<i>*d*"), "a\\|b\\`c\\`\\<i\\>\\*d\\*");
    }
}
