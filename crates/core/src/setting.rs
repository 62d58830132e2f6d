//! Settings of a workload: their definitions, values and checks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// A value in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Float(value) => write!(f, "{value}"),
            Value::Text(value) => f.write_str(value),
            Value::List(values) => {
                for (i, value) in values.iter().enumerate() {
                    write!(f, "{}{value}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

/// What a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A whole number in a range, both ends included.
    Int {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A number in a range, both ends included.
    Float {
        /// Smallest value.
        min: f64,
        /// Largest value.
        max: f64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A path; empty where it is not given.
    Path,
    /// Free text.
    Text,
    /// A list of whole numbers in a range.
    Ints {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// A list of some of these words.
    Words(&'static [&'static str]),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Bool => f.write_str("true or false"),
            Kind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            Kind::Float { min, max } => write!(f, "a number from {min} to {max}"),
            Kind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            Kind::Path => f.write_str("a path"),
            Kind::Text => f.write_str("text"),
            Kind::Ints { min, max } => write!(f, "whole numbers from {min} to {max}"),
            Kind::Words(words) => write!(f, "some of {}", words.join(", ")),
        }
    }
}

impl Kind {
    /// Whether the value fits.
    pub fn accepts(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Bool, Value::Bool(_)) => true,
            (Kind::Int { min, max }, Value::Int(v)) => (min..=max).contains(&v),
            (Kind::Float { min, max }, Value::Float(v)) => (min..=max).contains(&v),
            (Kind::Float { min, max }, Value::Int(v)) => (*min..=*max).contains(&(*v as f64)),
            (Kind::Choice(words), Value::Text(v)) => words.contains(&v.as_str()),
            (Kind::Path | Kind::Text, Value::Text(_)) => true,
            (Kind::Ints { min, max }, Value::List(vs)) => {
                !vs.is_empty() && vs.iter().all(|v| matches!(v, Value::Int(v) if (min..=max).contains(&v)))
            }
            (Kind::Ints { min, max }, Value::Int(v)) => (min..=max).contains(&v),
            (Kind::Words(words), Value::List(vs)) => {
                !vs.is_empty() && vs.iter().all(|v| Kind::Choice(words).accepts(v))
            }
            (Kind::Words(words), value) => Kind::Choice(words).accepts(value),
            _ => false,
        }
    }

    /// Reads a value from the command line (`--set driver=native`).
    pub fn parse(&self, text: &str) -> Option<Value> {
        let value = match self {
            Kind::Bool => Value::Bool(text.parse().ok()?),
            Kind::Int { .. } => Value::Int(text.parse().ok()?),
            Kind::Float { .. } => Value::Float(text.parse().ok()?),
            Kind::Choice(_) | Kind::Path | Kind::Text => Value::Text(text.to_string()),
            Kind::Ints { .. } => Value::List(
                text.split(',').map(|t| t.trim().parse().map(Value::Int)).collect::<Result<_, _>>().ok()?,
            ),
            Kind::Words(_) => Value::List(text.split(',').map(|t| Value::Text(t.trim().into())).collect()),
        };
        self.accepts(&value).then_some(value)
    }
}

/// The default of a setting.
#[derive(Debug, Clone, Copy)]
pub enum Default {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text, a path or a choice.
    Text(&'static str),
    /// A list of whole numbers.
    Ints(&'static [i64]),
    /// A list of words.
    Words(&'static [&'static str]),
}

impl From<Default> for Value {
    fn from(default: Default) -> Value {
        match default {
            Default::Bool(value) => Value::Bool(value),
            Default::Int(value) => Value::Int(value),
            Default::Float(value) => Value::Float(value),
            Default::Text(value) => Value::Text(value.to_string()),
            Default::Ints(values) => Value::List(values.iter().copied().map(Value::Int).collect()),
            Default::Words(words) => {
                Value::List(words.iter().map(|word| Value::Text(word.to_string())).collect())
            }
        }
    }
}

/// The definition of one setting: it drives parsing, checking, `list workloads` and the docs.
#[derive(Debug, Clone, Copy)]
pub struct SettingDef {
    /// The name in plans and in `--set NAME=VALUE`.
    pub id: &'static str,
    /// What it accepts.
    pub kind: Kind,
    /// What holds where nothing is said.
    pub default: Default,
    /// One line for people.
    pub help: &'static str,
}

/// The complete, checked settings of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, std::default::Default)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, Value>);

impl Settings {
    /// The defaults of these definitions.
    pub fn defaults(defs: &[SettingDef]) -> Settings {
        Settings(defs.iter().map(|def| (def.id.to_string(), def.default.into())).collect())
    }

    /// The text of a setting.
    ///
    /// # Panics
    /// Where the setting is not defined as text: settings are complete and checked when the plan is resolved.
    pub fn text(&self, id: &str) -> &str {
        match self.0.get(id) {
            Some(Value::Text(value)) => value,
            other => panic!("setting {id} is not text: {other:?}"),
        }
    }

    /// The whole number of a setting.
    ///
    /// # Panics
    /// Where the setting is not defined as a whole number.
    pub fn int(&self, id: &str) -> i64 {
        match self.0.get(id) {
            Some(Value::Int(value)) => *value,
            other => panic!("setting {id} is not a whole number: {other:?}"),
        }
    }

    /// The number of a setting.
    ///
    /// # Panics
    /// Where the setting is not defined as a number.
    pub fn float(&self, id: &str) -> f64 {
        match self.0.get(id) {
            Some(Value::Float(value)) => *value,
            Some(Value::Int(value)) => *value as f64,
            other => panic!("setting {id} is not a number: {other:?}"),
        }
    }

    /// The truth of a setting.
    ///
    /// # Panics
    /// Where the setting is not defined as `true` or `false`.
    pub fn flag(&self, id: &str) -> bool {
        match self.0.get(id) {
            Some(Value::Bool(value)) => *value,
            other => panic!("setting {id} is neither true nor false: {other:?}"),
        }
    }

    /// The whole numbers of a setting, of which there may be one only.
    ///
    /// # Panics
    /// Where the setting is not defined as whole numbers.
    pub fn ints(&self, id: &str) -> Vec<i64> {
        let number = |value: &Value| match value {
            Value::Int(value) => *value,
            other => panic!("setting {id} is not whole numbers: {other:?}"),
        };
        match self.0.get(id) {
            Some(Value::List(values)) => values.iter().map(number).collect(),
            Some(value) => vec![number(value)],
            None => panic!("setting {id} is not there"),
        }
    }

    /// The words of a setting, of which there may be one only.
    ///
    /// # Panics
    /// Where the setting is not defined as words.
    pub fn words(&self, id: &str) -> Vec<&str> {
        fn word<'a>(id: &str, value: &'a Value) -> &'a str {
            match value {
                Value::Text(value) => value,
                other => panic!("setting {id} is not words: {other:?}"),
            }
        }
        match self.0.get(id) {
            Some(Value::List(values)) => values.iter().map(|value| word(id, value)).collect(),
            Some(value) => vec![word(id, value)],
            None => panic!("setting {id} is not there"),
        }
    }
}

/// What core needs to know of a workload to check a plan.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadDef {
    /// The name in plans and reports.
    pub id: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Its settings.
    pub settings: &'static [SettingDef],
}
