//! The parser of claims: recursive descent over characters.

use super::statement::{
    BestOrWorst, Claim, ClaimError, ClaimOperator, ExtremeRelation, PairRelation, Quantity, Relation, RightSide,
};
use super::statement::{KEYWORDS, is_name_char, is_value_char, is_word_char, reads_as_quantity};
use crate::average::Average;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Parses a text with one claim per line. Skips empty lines and comments (`# …`).
///
/// # Errors
/// A line is not a claim. Only the first such line is reported.
pub fn parse_claims(text: &str) -> Result<Vec<Claim>, ClaimError> {
    let is_empty_or_comment = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
    text.lines()
        .enumerate()
        .filter(|(_, line)| !is_empty_or_comment(line))
        .map(|(index, line)| line.parse().map_err(|error| ClaimError { line: Some(index + 1), ..error }))
        .collect()
}

impl FromStr for Claim {
    type Err = ClaimError;

    /// Parses one claim; a comment may follow it.
    fn from_str(text: &str) -> Result<Claim, ClaimError> {
        let mut cursor = Cursor::new(text);
        cursor.skip_blanks();
        let start = cursor.offset;
        let subject = cursor.parse_quantity("a quantity such as `untar.elapsed`")?;
        cursor.skip_blanks();
        cursor.require(":", "`:` and a relation")?;
        let relation = cursor.parse_relation()?;
        let average = cursor.parse_average().unwrap_or_default();
        let end = cursor.offset;
        cursor.skip_blanks();
        if !matches!(cursor.peek(), None | Some('#')) {
            return cursor.fail_expected("the end of the claim");
        }
        Ok(Claim { text: text[start..end].trim_end().to_string(), subject, relation, average })
    }
}

impl Cursor<'_> {
    fn parse_relation(&mut self) -> ParseResult<Relation> {
        let Some(place) = BestOrWorst::ALL.into_iter().find(|place| self.take_keyword(place.name())) else {
            return self.parse_pair().map(Relation::Pair);
        };
        if !self.take_keyword("is") {
            return self.fail_expected("`is`");
        }
        let negated = self.take_keyword("not");
        Ok(Relation::Extreme(ExtremeRelation { place, variant: self.parse_variant()?, negated }))
    }

    fn parse_pair(&mut self) -> ParseResult<PairRelation> {
        let left = self.parse_variant()?;
        let op = self.parse_op()?;
        let factor = self.parse_factor()?;
        let right = self.parse_right_side()?;
        let percent = self.parse_percent(op)?;
        Ok(PairRelation { left, op, factor, right, percent })
    }

    fn parse_op(&mut self) -> ParseResult<ClaimOperator> {
        self.skip_blanks();
        match ClaimOperator::ALL.into_iter().find(|op| self.take(op.name())) {
            Some(op) => Ok(op),
            None if self.peek() == Some('=') => self.fail_expected("`==` for equal"),
            None => self.fail_expected("one of < <= == != >= >"),
        }
    }

    /// Parses `0.97 *`; returns 1 if there is no factor.
    fn parse_factor(&mut self) -> ParseResult<f64> {
        self.skip_blanks();
        let start = self.offset;
        if let Some(number) = self.take_digits() {
            self.skip_blanks();
            if self.take("*") {
                return self.parse_positive_number(number, start);
            }
        }
        self.offset = start;
        Ok(1.0)
    }

    fn parse_right_side(&mut self) -> ParseResult<RightSide> {
        self.skip_blanks();
        let start = self.offset;
        if self.peek() == Some('"') {
            return Ok(RightSide::Variant(self.parse_quoted()?));
        }
        let name = self.parse_variant()?;
        if reads_as_quantity(&name) || self.peek() == Some('[') {
            self.offset = start;
            return self.parse_quantity("a variant, or a quantity such as `untar.elapsed`").map(RightSide::Quantity);
        }
        Ok(RightSide::Variant(name))
    }

    /// Parses `by mean` or `by typical`; returns None and stays in place if neither follows.
    fn parse_average(&mut self) -> Option<Average> {
        let start = self.offset;
        let mut average = None;
        if self.take_keyword("by") {
            average = Average::ALL.into_iter().find(|average| self.take_keyword(average.name()));
        }
        if average.is_none() {
            self.offset = start;
        }
        average
    }

    /// Parses `by 5%` or `within 0.5%`; returns None if neither follows.
    fn parse_percent(&mut self, op: ClaimOperator) -> ParseResult<Option<f64>> {
        self.skip_blanks();
        let start = self.offset;
        if self.parse_average().is_some() {
            self.offset = start;
            return Ok(None);
        }
        let (own_word, other_word) = if op.has_tolerance() { ("within", "by") } else { ("by", "within") };
        if self.take_keyword(other_word) {
            return self.fail_at(start, format!("`{}` goes with `{own_word}`, not with `{other_word}`", op.name()));
        }
        if !self.take_keyword(own_word) {
            return Ok(None);
        }
        self.skip_blanks();
        let start = self.offset;
        let Some(number) = self.take_digits() else {
            return self.fail_expected("a percentage such as `5%`, or `mean`");
        };
        self.require("%", "`%`")?;
        let number = self.parse_positive_number(number, start)?;
        if op == ClaimOperator::Less && number >= 100.0 {
            return self.fail_at(start, "nothing can be 100% or more below something else");
        }
        Ok(Some(number))
    }

    /// Parses `task.metric[parameter=value]`. `expected` describes the quantity in the error.
    fn parse_quantity(&mut self, expected: &str) -> ParseResult<Quantity> {
        let start = self.offset;
        let name = self.take_while(|c| is_word_char(c) || c == '.');
        if name.is_empty() || name.split('.').any(str::is_empty) {
            self.offset = start;
            return self.fail_expected(expected);
        }
        let (task, metric) = match name.rsplit_once('.') {
            Some((task, metric)) => (Some(task.to_string()), metric.to_string()),
            None => (None, name.to_string()),
        };
        Ok(Quantity { task, metric, params: self.parse_params()? })
    }

    fn parse_params(&mut self) -> ParseResult<BTreeMap<String, String>> {
        let mut params = BTreeMap::new();
        if !self.take("[") {
            return Ok(params);
        }
        self.skip_blanks();
        while !self.take("]") {
            let start = self.offset;
            let key = self.take_while(is_word_char);
            if key.is_empty() {
                return self.fail_expected("a parameter such as `bs=4096`, or `]`");
            }
            self.require("=", "`=`")?;
            let value = match self.peek() {
                Some('"') => self.parse_quoted()?,
                Some(c) if is_value_char(c) => self.take_while(is_value_char).to_string(),
                _ => return self.fail_expected("a value"),
            };
            if params.insert(key.to_string(), value).is_some() {
                return self.fail_at(start, "this parameter is given twice");
            }
            self.skip_blanks();
            if self.take(",") {
                self.skip_blanks();
            } else if self.peek() != Some(']') {
                return self.fail_expected("`,` or `]`");
            }
        }
        Ok(params)
    }

    fn parse_variant(&mut self) -> ParseResult<String> {
        self.skip_blanks();
        if self.peek() == Some('"') {
            return self.parse_quoted();
        }
        let start = self.offset;
        // `==` ends a name, a single `=` is part of it: `fs=ext4==fs=xfs` compares `fs=ext4` and `fs=xfs`.
        let name = self.take_while(is_name_char);
        let name = name.split_once("==").map_or(name, |(name, _)| name);
        if name.is_empty() || name.starts_with('=') || KEYWORDS.contains(&name) {
            self.offset = start;
            return self.fail_expected("a variant");
        }
        self.offset = start + name.len();
        Ok(name.to_string())
    }
}

/// The parsed value, or the error.
type ParseResult<T> = Result<T, ClaimError>;

/// A position in the text. Each parsing method starts there and advances it past the parsed text.
struct Cursor<'a> {
    text: &'a str,
    /// The byte offset of the next character.
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of the text.
    fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, offset: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    /// Takes characters as long as `accepts` returns true.
    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|c| !accepts(c)).unwrap_or(rest.len());
        self.offset += length;
        &rest[..length]
    }

    /// Parses a text in quotes, in which `\"`, `\\` and `\n` are escapes.
    fn parse_quoted(&mut self) -> ParseResult<String> {
        let start = self.offset;
        let mut text = String::new();
        self.offset += 1;
        loop {
            match (self.next(), self.peek()) {
                (Some('"'), _) => return Ok(text),
                (Some('\\'), Some('n')) => text.push('\n'),
                (Some('\\'), Some(escaped @ ('"' | '\\'))) => text.push(escaped),
                (Some('\\'), _) => return self.fail_expected("`\"`, `\\` or `n` behind `\\`"),
                (Some(c), _) => {
                    text.push(c);
                    continue;
                }
                (None, _) => return self.fail_at(start, "this quote is never closed"),
            }
            self.offset += 1; // the escaped character
        }
    }

    /// Takes digits and points; None if there are none. [`Cursor::parse_positive_number`] then parses the number.
    fn take_digits(&mut self) -> Option<&'a str> {
        Some(self.take_while(|c| c.is_ascii_digit() || c == '.')).filter(|text| !text.is_empty())
    }

    fn parse_positive_number(&mut self, text: &str, start: usize) -> ParseResult<f64> {
        match text.parse::<f64>() {
            Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
            _ => self.fail_at(start, format!("expected a number above 0, found `{text}`")),
        }
    }

    /// Takes a word, unless it is only the beginning of a longer name.
    fn take_keyword(&mut self, word: &str) -> bool {
        self.skip_blanks();
        let follows = self.rest().strip_prefix(word).is_some_and(|rest| !rest.starts_with(is_name_char));
        follows && self.take(word)
    }

    fn skip_blanks(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek();
        self.offset += next.map_or(0, char::len_utf8);
        next
    }

    /// Takes `text` if it follows; returns whether it did.
    fn take(&mut self, text: &str) -> bool {
        let follows = self.rest().starts_with(text);
        if follows {
            self.offset += text.len();
        }
        follows
    }

    /// Takes `text`; fails with the message `expected EXPECTED, found …` if it does not follow.
    fn require(&mut self, text: &str, expected: &str) -> ParseResult<()> {
        if self.take(text) { Ok(()) } else { self.fail_expected(expected) }
    }

    /// Fails with the message `expected EXPECTED, found …` at the current position.
    fn fail_expected<T>(&self, expected: &str) -> ParseResult<T> {
        let found = match self.peek() {
            None => "the end".to_string(),
            Some(c) if is_name_char(c) => {
                let word: String = self.rest().chars().take_while(|c| is_name_char(*c)).take(20).collect();
                format!("`{word}`")
            }
            Some(c) => format!("`{}`", c.escape_debug()),
        };
        self.fail_at(self.offset, format!("expected {expected}, found {found}"))
    }

    /// Fails with a message at a byte offset of the text.
    fn fail_at<T>(&self, offset: usize, message: impl Into<String>) -> ParseResult<T> {
        let column = self.text[..offset].chars().count() + 1;
        let text = self.text.trim_end_matches('\n').to_string();
        Err(ClaimError { text, line: None, column, message: message.into() })
    }
}
