//! The numbers of a loadfile, which can be literal, random, or relative to the previous operation, and its random
//! strings.

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

/// A number of a loadfile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Number {
    /// `4096`, `0x40`, `-1`.
    Literal(i64),
    /// `*%1024/2+1`: a random number, to which the qualifiers are applied from left to right.
    Random(Vec<Qualifier>),
    /// `+1024`: the number of the previous operation in the same position, plus this value.
    PreviousPlus(i64),
    /// `+child`: the number of the previous operation in the same position, plus the client's number, from 0.
    PreviousPlusChild,
    /// `+num_children`: the number of the previous operation in the same position, plus the number of clients.
    PreviousPlusClients,
    /// `$3`: the value of the random string with number 3.
    RandomStringValue(u8),
}

/// An operation that is applied to a random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Qualifier {
    /// `%n`: takes the remainder.
    Modulo(i64),
    /// `/n`: rounds down to a multiple.
    Align(i64),
    /// `+n`: adds.
    Plus(i64),
}

impl Number {
    /// Parses a number in any of its forms.
    ///
    /// # Errors
    /// If the text is not a number; the message is for the user.
    pub fn parse(text: &[u8]) -> Result<Number, String> {
        let shown = || String::from_utf8_lossy(text).into_owned();
        let number = match text {
            b"+child" => Some(Number::PreviousPlusChild),
            b"+num_children" => Some(Number::PreviousPlusClients),
            [b'+', rest @ ..] => parse_integer(rest).map(Number::PreviousPlus),
            [b'*', rest @ ..] => return parse_random(rest).map_err(|reason| format!("`{}`: {reason}", shown())),
            [b'$', digit @ b'0'..=b'9'] => Some(Number::RandomStringValue(digit - b'0')),
            _ => parse_integer(text).map(Number::Literal),
        };
        number.ok_or_else(|| format!("`{}`: expected an integer, +n, +child, +num_children, $0–$9 or *…", shown()))
    }
}

/// Parses the qualifiers of a random number, after its `*`.
fn parse_random(mut text: &[u8]) -> Result<Number, String> {
    let mut qualifiers = vec![];
    while let [sign, rest @ ..] = text {
        let end = rest.iter().position(|byte| b"%/+".contains(byte)).unwrap_or(rest.len());
        let value = parse_integer(&rest[..end]).filter(|value| *value > 0);
        let value = value.ok_or("after %, / or + comes a number above 0")?;
        qualifiers.push(match sign {
            b'%' => Qualifier::Modulo(value),
            b'/' => Qualifier::Align(value),
            b'+' => Qualifier::Plus(value),
            _ => return Err("a random number is qualified by %, / or +".into()),
        });
        text = &rest[end..];
    }
    Ok(Number::Random(qualifiers))
}

/// Parses an integer as C does: hexadecimal after `0x`, octal after `0`, otherwise decimal.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', digits @ ..] => (16, digits),
        [b'0', digits @ ..] if !digits.is_empty() => (8, digits),
        digits => (10, digits),
    };
    // `from_str_radix` would accept a second sign.
    if !digits.first()?.is_ascii_hexdigit() {
        return None;
    }
    let value = i64::from_str_radix(std::str::from_utf8(digits).ok()?, radix).ok()?;
    Some(if is_negative { -value } else { value })
}

impl Qualifier {
    /// Applies the operation to a number.
    pub fn apply(self, value: i64) -> i64 {
        match self {
            Qualifier::Modulo(divisor) => value % divisor,
            Qualifier::Align(unit) => value / unit * unit,
            Qualifier::Plus(summand) => value.saturating_add(summand),
        }
    }
}

/// The longest random string, in bytes, as in the real dbench.
const MAX_STRING_BYTES: usize = 255;

/// The text of RANDOMSTRING. Each draw replaces each `[set]` by one of its characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RandomString(Vec<StringPart>);

/// A part of a random string.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum StringPart {
    Text(Vec<u8>),
    /// A `[set]`: each draw takes one of its bytes.
    OneOf(Vec<u8>),
}

impl RandomString {
    /// Parses a text such as `file[0123456789].dat`.
    ///
    /// # Errors
    /// If a set is empty or has no end, or the string is too long; the message is for the user.
    pub fn parse(text: &[u8]) -> Result<RandomString, String> {
        let mut parts = vec![];
        let mut rest = text;
        while let Some(open) = rest.iter().position(|byte| *byte == b'[') {
            let set = &rest[open + 1..];
            let close = set.iter().position(|byte| *byte == b']').ok_or("`[` without `]`")?;
            if close == 0 {
                return Err("nothing to draw from: `[]`".into());
            }
            parts.push(StringPart::Text(rest[..open].to_vec()));
            parts.push(StringPart::OneOf(set[..close].to_vec()));
            rest = &set[close + 1..];
        }
        parts.push(StringPart::Text(rest.to_vec()));
        let length: usize =
            parts.iter().map(|part| if let StringPart::Text(text) = part { text.len() } else { 1 }).sum();
        match length {
            0..=MAX_STRING_BYTES => Ok(RandomString(parts)),
            _ => Err(format!("a random string of {length} bytes; {MAX_STRING_BYTES} is the longest")),
        }
    }

    /// Draws a string into a buffer, which it clears first.
    pub fn draw_into(&self, rng: &mut impl Rng, buffer: &mut Vec<u8>) {
        buffer.clear();
        for part in &self.0 {
            match part {
                StringPart::Text(text) => buffer.extend_from_slice(text),
                StringPart::OneOf(set) => buffer.push(set[rng.random_range(0..set.len())]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{SeedableRng, rngs::Xoshiro256PlusPlus};

    #[test]
    fn integers_are_parsed_as_in_c() {
        for (text, value) in [("0", 0), ("16385", 16385), ("0x40", 64), ("010", 8), ("-1", -1), ("0X1f", 31)] {
            assert_eq!(parse_integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in ["", "-", "0x", "08", "1.5", "+1", "--1", "-+1", "0x-1", "x", "9223372036854775808", "é"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_form_of_a_number_is_parsed() {
        let parse = |text: &str| Number::parse(text.as_bytes());
        assert_eq!(parse("*"), Ok(Number::Random(vec![])));
        let qualifiers = vec![Qualifier::Modulo(0x1000), Qualifier::Align(4096), Qualifier::Plus(1)];
        assert_eq!(parse("*%0x1000/4096+1"), Ok(Number::Random(qualifiers)));
        assert_eq!(parse("+1024"), Ok(Number::PreviousPlus(1024)));
        assert_eq!(parse("+child"), Ok(Number::PreviousPlusChild));
        assert_eq!(parse("+num_children"), Ok(Number::PreviousPlusClients));
        assert_eq!(parse("$7"), Ok(Number::RandomStringValue(7)));
        assert!(parse("4k").unwrap_err().starts_with("`4k`: expected an integer"));
        assert!(parse("*%0").unwrap_err().contains("above 0"));
        assert!(parse("*-1").unwrap_err().contains("qualified by"));
        assert!(parse("*%").unwrap_err().contains("above 0"));
    }

    #[test]
    fn qualifiers_are_applied_from_left_to_right() {
        let qualified = |qualifiers: &[Qualifier]| qualifiers.iter().fold(10_007, |n, q| q.apply(n));
        assert_eq!(qualified(&[Qualifier::Modulo(5000), Qualifier::Align(4), Qualifier::Plus(3)]), 7);
        assert_eq!(qualified(&[Qualifier::Align(4), Qualifier::Modulo(5000)]), 4);
        assert_eq!(Qualifier::Plus(9).apply(i64::MAX), i64::MAX);
    }

    #[test]
    fn every_character_of_a_set_is_drawn() {
        let string = RandomString::parse(b"f[ab]x[0]").unwrap();
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut strings = std::collections::BTreeSet::new();
        let mut buffer = vec![];
        for _ in 0..100 {
            string.draw_into(&mut rng, &mut buffer);
            strings.insert(String::from_utf8(buffer.clone()).unwrap());
        }
        assert_eq!(strings.into_iter().collect::<Vec<_>>(), ["fax0", "fbx0"]);
    }

    #[test]
    fn invalid_random_strings_are_refused() {
        assert!(RandomString::parse(b"a[b").unwrap_err().contains("without"));
        assert!(RandomString::parse(b"a[]").unwrap_err().contains("nothing"));
        assert!(RandomString::parse(&[b'a'; 256]).unwrap_err().contains("256"));
        assert!(RandomString::parse(b"a]").is_ok());
    }
}
