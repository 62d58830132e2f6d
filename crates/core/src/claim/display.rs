//! The canonical form of a claim.

use super::cursor::{in_name, in_value};
use super::parse::{KEYWORDS, reads_as_quantity};
use super::{Claim, End, Extreme, Op, Pair, Quantity, Relation, Right};
use std::fmt::{Display, Formatter, Result};

impl Display for Claim {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}: {}", self.subject, self.relation)
    }
}

impl Display for Quantity {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some(task) = &self.task {
            write!(f, "{task}.")?;
        }
        f.write_str(&self.metric)?;
        for (i, (key, value)) in self.params.iter().enumerate() {
            write!(f, "{}{key}={}", if i == 0 { "[" } else { "," }, Value(value))?;
        }
        f.write_str(if self.params.is_empty() { "" } else { "]" })
    }
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Relation::Pair(pair) => pair.fmt(f),
            Relation::Extreme(extreme) => extreme.fmt(f),
        }
    }
}

impl Display for Pair {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} {} ", Name(&self.left), self.op)?;
        if self.factor != 1.0 {
            write!(f, "{} * ", self.factor)?;
        }
        write!(f, "{}", self.right)?;
        match self.percent {
            None => Ok(()),
            Some(percent) if self.op.tolerates() => write!(f, " within {percent}%"),
            Some(percent) => write!(f, " by {percent}%"),
        }
    }
}

impl Display for Right {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Right::Variant(variant) if reads_as_quantity(variant) => quote(variant, f),
            Right::Variant(variant) => Name(variant).fmt(f),
            Right::Quantity(quantity) => {
                quantity.fmt(f)?;
                // Without brackets a metric alone would read as a variant.
                let bare = quantity.task.is_none() && quantity.params.is_empty();
                f.write_str(if bare { "[]" } else { "" })
            }
        }
    }
}

impl Display for Extreme {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let not = if self.negated { "not " } else { "" };
        write!(f, "{} is {not}{}", self.end, Name(&self.variant))
    }
}

impl Display for End {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            End::Best => "best",
            End::Worst => "worst",
        })
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Op::Less => "<",
            Op::AtMost => "<=",
            Op::Equal => "==",
            Op::NotEqual => "!=",
            Op::AtLeast => ">=",
            Op::More => ">",
        })
    }
}

/// A variant, in quotes where it needs them.
struct Name<'a>(&'a str);

impl Display for Name<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let plain = !self.0.is_empty()
            && self.0.chars().all(in_name)
            && !self.0.contains("==")
            && !KEYWORDS.contains(&self.0);
        // A name that ends in `=` or begins with it could grow into an operator.
        if plain && !self.0.starts_with('=') && !self.0.ends_with('=') {
            f.write_str(self.0)
        } else {
            quote(self.0, f)
        }
    }
}

/// The value of a parameter, in quotes where it needs them.
struct Value<'a>(&'a str);

impl Display for Value<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if !self.0.is_empty() && self.0.chars().all(in_value) {
            f.write_str(self.0)
        } else {
            quote(self.0, f)
        }
    }
}

fn quote(text: &str, f: &mut Formatter<'_>) -> Result {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    write!(f, "\"{escaped}\"")
}
