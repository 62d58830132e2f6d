//! A place in the text of a claim, and the pieces that are read there.

use super::ClaimError;

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
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
}

impl<'a> Cursor<'a> {
    /// At its beginning.
    pub(super) fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, chars: text.chars().collect(), at: 0 }
    }
}

impl Cursor<'_> {
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
                (None, _) => {
                    self.at = begin;
                    return self.fail("this quote is never closed");
                }
            }
            self.at += 1; // the escaped character
        }
    }

    /// Digits with at most one point among them.
    pub(super) fn digits(&mut self) -> Option<String> {
        let text = self.run(|c| c.is_ascii_digit() || c == '.');
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn positive(&mut self, text: String, begin: usize) -> Parsed<f64> {
        match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            _ => {
                self.at = begin;
                self.fail(format!("expected a number above 0, found `{text}`"))
            }
        }
    }

    /// Takes a word where it stands by itself.
    pub(super) fn keyword(&mut self, word: &str) -> bool {
        self.blanks();
        let begin = self.at;
        let found = self.take(word) && !self.peek().is_some_and(in_name);
        if !found {
            self.at = begin;
        }
        found
    }

    pub(super) fn run(&mut self, of: impl Fn(char) -> bool) -> String {
        let rest = &self.chars[self.at..];
        let length = rest.iter().position(|c| !of(*c)).unwrap_or(rest.len());
        self.at += length;
        rest[..length].iter().collect()
    }

    pub(super) fn blanks(&mut self) {
        self.run(char::is_whitespace);
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.at += usize::from(next.is_some());
        next
    }

    pub(super) fn ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.ahead(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    pub(super) fn expected<T>(&self, what: &str) -> Parsed<T> {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(c) if in_name(c) => {
                let rest = &self.chars[self.at..];
                let word: String = rest.iter().copied().take_while(|c| in_name(*c)).take(20).collect();
                format!("`{word}`")
            }
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        self.fail(format!("expected {what}, found {found}"))
    }

    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let (text, column) = (self.text.trim_end_matches('\n').to_string(), self.at + 1);
        Err(ClaimError { text, line: None, column, message: message.into() })
    }
}
