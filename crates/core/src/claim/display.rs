//! The canonical form of a claim.

use super::cursor::{in_name, in_value};
use super::parse::{KEYWORDS, reads_as_quantity};
use super::statement::{Claim, End, Extreme, Op, Pair, Quantity, Relation, Right};
use std::fmt::{Display, Formatter, Result};

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.subject, self.relation)?;
        if self.average.is_typical() { Ok(()) } else { write!(f, " by {}", self.average) }
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(task) = &self.task {
            write!(f, "{task}.")?;
        }
        f.write_str(&self.metric)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            let value = quoted(value, !value.is_empty() && value.chars().all(in_value));
            write!(f, "{}{key}={value}", if i == 0 { "[" } else { "," })?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let name = |name: &str| quoted(name, is_name(name));
        match self {
            Relation::Extreme(Extreme { end, variant, negated }) => {
                write!(f, "{end} is {}{}", if *negated { "not " } else { "" }, name(variant))
            }
            Relation::Pair(Pair { left, op, factor, right, percent }) => {
                let factor = Some(factor).filter(|factor| **factor != 1.0);
                let factor = factor.map_or(String::new(), |factor| format!("{factor} * "));
                write!(f, "{} {op} {factor}{right}", name(left))?;
                let word = if op.tolerates() { "within" } else { "by" };
                percent.map_or(Ok(()), |percent| write!(f, " {word} {percent}%"))
            }
        }
    }
}

impl Display for Right {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Right::Variant(variant) => {
                f.write_str(&quoted(variant, is_name(variant) && !reads_as_quantity(variant)))
            }
            Right::Quantity(quantity) => {
                quantity.fmt(f)?;
                // Without brackets a metric alone would read as a variant.
                let bare = quantity.task.is_none() && quantity.params.is_empty();
                f.write_str(if bare { "[]" } else { "" })
            }
        }
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(if *self == End::Best { "best" } else { "worst" })
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let own = Op::ALL.iter().find(|(_, op)| op == self);
        own.map_or(Ok(()), |(text, _)| f.write_str(text))
    }
}

/// Whether a variant needs no quotes. A name that ends in `=` or begins with it could grow into an operator.
fn is_name(text: &str) -> bool {
    let plain = !text.is_empty() && text.chars().all(in_name);
    let operator = text.contains("==") || text.starts_with('=') || text.ends_with('=');
    plain && !operator && !KEYWORDS.contains(&text)
}

/// A name or value, in quotes where it needs them.
fn quoted(text: &str, plain: bool) -> String {
    if plain {
        return text.to_string();
    }
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
