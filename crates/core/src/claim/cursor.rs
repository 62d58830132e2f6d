//! A place in the text of a claim, and the pieces that are read there.

use super::statement::ClaimError;

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

/// The parsed value, or the error.
pub(super) type Parsed<T> = Result<T, ClaimError>;

/// A place in the text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    /// The byte where it stands.
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// At its beginning.
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes characters as long as they are of a kind.
    pub(super) fn run(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    pub(super) fn quoted(&mut self) -> Parsed<String> {
        let begin = self.at;
        let mut text = String::new();
        self.at += 1;
        loop {
            match (self.next(), self.peek()) {
                (Some('"'), _) => return Ok(text),
                (Some('\\'), Some('n')) => text.push('\n'),
                (Some('\\'), Some(escaped @ ('"' | '\\'))) => text.push(escaped),
                (Some('\\'), _) => return self.expected("`\"`, `\\` or `n` behind `\\`"),
                (Some(c), _) => {
                    text.push(c);
                    continue;
                }
                (None, _) => return self.fail_at(begin, "this quote is never closed"),
            }
            self.at += 1; // the escaped character
        }
    }

    /// Digits with at most one point among them.
    pub(super) fn digits(&mut self) -> Option<&'a str> {
        Some(self.run(|c| c.is_ascii_digit() || c == '.')).filter(|text| !text.is_empty())
    }

    pub(super) fn positive(&mut self, text: &str, begin: usize) -> Parsed<f64> {
        match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            _ => self.fail_at(begin, format!("expected a number above 0, found `{text}`")),
        }
    }

    /// Takes a word where it stands by itself.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let found = self.rest().strip_prefix(word).is_some_and(|rest| !rest.starts_with(in_name));
        found && self.take(word)
    }

    pub(super) fn blanks(&mut self) {
        self.run(char::is_whitespace);
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += next.map_or(0, char::len_utf8);
        next
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.rest().starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    pub(super) fn require(&mut self, text: &str, what: &str) -> Parsed<()> {
        if self.take(text) { Ok(()) } else { self.expected(what) }
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(c) if in_name(c) => {
                let word: String = self.rest().chars().take_while(|c| in_name(*c)).take(20).collect();
                format!("`{word}`")
            }
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        self.fail_at(self.at, format!("expected {what}, found {found}"))
    }

    pub(super) fn fail_at<T>(&self, at: usize, message: impl Into<String>) -> Parsed<T> {
        let column = self.text[..at].chars().count() + 1;
        let text = self.text.trim_end_matches('\n').to_string();
        Err(ClaimError { text, line: None, column, message: message.into() })
    }
}
