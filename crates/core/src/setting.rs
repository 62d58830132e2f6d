//! Settings of a workload: their definitions, values and checks.

use crate::escape;
use crate::names::{nearest, unknown_name};
use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, ops::RangeInclusive};

/// A value in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a fraction.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<SettingValue>),
    /// A table of settings.
    Table(BTreeMap<String, SettingValue>),
}

impl SettingValue {
    fn as_text(&self) -> Option<&str> {
        if let SettingValue::Text(value) = self { Some(value) } else { None }
    }

    /// Parses `text` as a value of the same kind as `self`; returns [`SettingValue::Text`] if that fails. For a list,
    /// returns a list with one item. For a whole number, also accepts a fraction: a plan may write `1` where a fraction
    /// is allowed.
    pub fn parse_same_kind(&self, text: &str) -> SettingValue {
        let parsed = match self {
            SettingValue::Bool(_) => text.parse().ok().map(SettingValue::Bool),
            SettingValue::Int(_) => match (text.parse(), text.parse()) {
                (Ok(whole), _) => Some(SettingValue::Int(whole)),
                (_, Ok(fraction)) => Some(SettingValue::Float(fraction)),
                _ => parse_size(text).ok().map(|bytes| SettingValue::Int(bytes as i64)),
            },
            SettingValue::Float(_) => text.parse().ok().map(SettingValue::Float),
            SettingValue::List(items) => {
                let item = items.first().map_or(SettingValue::Text(text.into()), |first| first.parse_same_kind(text));
                Some(SettingValue::List(vec![item]))
            }
            SettingValue::Text(current) if MODES.iter().any(|(mode, _)| mode == current) => {
                Some(SettingValue::Text(sysbench_mode(text).into()))
            }
            SettingValue::Text(_) | SettingValue::Table(_) => None,
        };
        parsed.unwrap_or_else(|| SettingValue::Text(text.into()))
    }

    fn as_int(&self) -> Option<i64> {
        if let SettingValue::Int(value) = self { Some(*value) } else { None }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingValue::Bool(value) => write!(f, "{value}"),
            SettingValue::Int(value) => write!(f, "{value}"),
            SettingValue::Float(value) => write!(f, "{value}"),
            SettingValue::Text(value) => f.write_str(value),
            SettingValue::List(values) => {
                f.write_str(&values.iter().map(SettingValue::to_string).collect::<Vec<_>>().join(","))
            }
            SettingValue::Table(values) => f.debug_map().entries(values).finish(),
        }
    }
}

/// The words that a setting accepts.
pub type Words = &'static [&'static str];

/// The values that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingKind {
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
    Choice(Words),
    /// A path; empty if not set.
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
    /// A size in bytes, both ends of the range included: a whole number, or text such as `4k`.
    Size {
        /// Smallest value in bytes.
        min: i64,
        /// Largest value in bytes.
        max: i64,
    },
    /// A list of sizes in bytes.
    Sizes {
        /// Smallest value in bytes.
        min: i64,
        /// Largest value in bytes.
        max: i64,
    },
    /// A list of some of these I/O modes. Plans may use the name of a mode in sysbench or in fio (see [`MODES`]).
    Modes(Words),
    /// A text or a list of texts.
    Texts,
    /// A list of tables with these settings. A table may leave out any of them.
    Tables(&'static [SettingDef]),
}

/// The I/O modes of a load as pairs: the name in sysbench, which fsarena uses for tasks, and the name in fio.
pub const MODES: [(&str, &str); 5] =
    [("seqrd", "read"), ("seqwr", "write"), ("rndrd", "randread"), ("rndwr", "randwrite"), ("rndrw", "randrw")];

/// Translates fio's name of an I/O mode to sysbench's; returns any other word unchanged.
fn sysbench_mode(word: &str) -> &str {
    MODES.iter().find(|(_, fio)| *fio == word).map_or(word, |(sysbench, _)| sysbench)
}

/// Parses a size in bytes: `4k` and `4KiB` are 4096, `4kB` is 4000, a plain number is bytes.
///
/// # Errors
/// The text is not a size above 0; the message shows how to write one.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match parse_size_or_zero(text) {
        Some(size) if size.as_u64() > 0 => Ok(size.as_u64()),
        _ => Err(format!("cannot read the size `{text}`; write it like 4k, 64KiB or 1g")),
    }
}

/// Parses a size as [`parse_size`] does, but accepts 0. None if the text is not a size.
pub(crate) fn parse_size_or_zero(text: &str) -> Option<ByteSize> {
    // [`ByteSize`] reads a letter alone as a power of 1000; fio, dd and mkfs read it as a power of 1024.
    let has_suffix_of_one_letter = text.ends_with(['k', 'K', 'm', 'M', 'g', 'G', 't', 'T', 'p', 'P', 'e', 'E']);
    if has_suffix_of_one_letter { format!("{text}iB").parse().ok() } else { text.parse().ok() }
}

impl fmt::Display for SettingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingKind::Bool => f.write_str("true or false"),
            SettingKind::Int { min, max } => write!(f, "a whole number from {min} to {max}"),
            SettingKind::Ints { min, max } => write!(f, "whole numbers from {min} to {max}"),
            SettingKind::Float { min, max } => write!(f, "a number from {min} to {max}"),
            SettingKind::Choice(words) => write!(f, "one of {}", words.join(", ")),
            SettingKind::Path => f.write_str("a path"),
            SettingKind::Text => f.write_str("text"),
            SettingKind::Size { min, max } | SettingKind::Sizes { min, max } => {
                let noun = if matches!(self, SettingKind::Size { .. }) { "a size" } else { "sizes" };
                write!(f, "{noun} from {} to {}", ByteSize(*min as u64), ByteSize(*max as u64))
            }
            SettingKind::Modes(words) => {
                let mut names = vec![];
                for word in *words {
                    names.push(match MODES.iter().find(|(name, _)| name == word) {
                        Some((name, fio)) => format!("{name} ({fio})"),
                        None => word.to_string(),
                    });
                }
                write!(f, "some of {}", names.join(", "))
            }
            SettingKind::Texts => f.write_str("a text or a list of texts"),
            SettingKind::Tables(defs) => {
                let names: Vec<String> = defs.iter().map(|def| format!("`{}` ({})", def.id, def.kind)).collect();
                write!(f, "tables with {}", names.join(", "))
            }
        }
    }
}

impl SettingKind {
    /// Converts a value to the form that settings store: sizes in bytes, modes by the names of sysbench. None if this kind
    /// does not accept the value.
    pub fn convert(&self, value: SettingValue) -> Option<SettingValue> {
        Some(self.canonicalize(value)).filter(|value| self.accepts(value))
    }

    /// Converts sizes to bytes and modes to the names of sysbench, and adds the settings that a table leaves out. Other
    /// values stay the same.
    fn canonicalize(&self, value: SettingValue) -> SettingValue {
        match (self, value) {
            (_, SettingValue::List(values)) => {
                SettingValue::List(values.into_iter().map(|value| self.canonicalize(value)).collect())
            }
            (SettingKind::Size { .. } | SettingKind::Sizes { .. }, SettingValue::Text(text)) => {
                // A plain number may be 0, which `parse_size` refuses.
                let bytes = text.parse().or_else(|_| parse_size(&text).map(|bytes| bytes as i64));
                bytes.map_or(SettingValue::Text(text), SettingValue::Int)
            }
            (SettingKind::Modes(_), SettingValue::Text(text)) => SettingValue::Text(sysbench_mode(&text).to_string()),
            (SettingKind::Tables(defs), SettingValue::Table(values)) => {
                let mut completed = Settings::defaults(defs).0;
                completed.extend(values.into_iter().map(|(id, value)| {
                    let def = defs.iter().find(|def| def.id == id);
                    let value = def.map_or(value.clone(), |def| def.kind.canonicalize(value));
                    (id, value)
                }));
                SettingValue::Table(completed)
            }
            (_, value) => value,
        }
    }

    /// Whether this kind accepts a value in the form of [`SettingKind::convert`]. The kinds of lists also accept a
    /// single item.
    fn accepts(&self, value: &SettingValue) -> bool {
        match (self, value) {
            (SettingKind::Bool, SettingValue::Bool(_)) => true,
            (SettingKind::Int { min, max } | SettingKind::Size { min, max }, SettingValue::Int(v)) => {
                (min..=max).contains(&v)
            }
            (SettingKind::Float { min, max }, SettingValue::Float(v)) => (min..=max).contains(&v),
            (SettingKind::Float { min, max }, SettingValue::Int(v)) => (*min..=*max).contains(&(*v as f64)),
            (SettingKind::Choice(words), SettingValue::Text(v)) => words.contains(&v.as_str()),
            (SettingKind::Path | SettingKind::Text | SettingKind::Texts, SettingValue::Text(_)) => true,
            (
                SettingKind::Ints { .. } | SettingKind::Sizes { .. } | SettingKind::Modes(_),
                SettingValue::List(values),
            ) => {
                !values.is_empty()
                    && values.iter().all(|value| !matches!(value, SettingValue::List(_)) && self.accepts(value))
            }
            (SettingKind::Ints { min, max } | SettingKind::Sizes { min, max }, SettingValue::Int(v)) => {
                (min..=max).contains(&v)
            }
            (SettingKind::Modes(words), value) => SettingKind::Choice(words).accepts(value),
            (SettingKind::Texts, SettingValue::List(values)) => {
                values.iter().all(|value| SettingKind::Text.accepts(value))
            }
            (SettingKind::Tables(_), SettingValue::List(values)) => {
                values.iter().all(|value| !matches!(value, SettingValue::List(_)) && self.accepts(value))
            }
            (SettingKind::Tables(defs), SettingValue::Table(values)) => {
                let accepts_setting =
                    |def: &SettingDef| values.get(def.id).is_some_and(|value| def.kind.accepts(value));
                values.keys().all(|id| defs.iter().any(|def| def.id == id)) && defs.iter().all(accepts_setting)
            }
            _ => false,
        }
    }

    /// Parses a value from the command line (`--set driver=native`). None if this kind does not accept it.
    pub fn parse(&self, text: &str) -> Option<SettingValue> {
        let value = match self {
            SettingKind::Bool => SettingValue::Bool(text.parse().ok()?),
            SettingKind::Int { .. } => SettingValue::Int(text.parse().ok()?),
            SettingKind::Float { .. } => SettingValue::Float(text.parse().ok()?),
            SettingKind::Choice(_) | SettingKind::Path | SettingKind::Text | SettingKind::Size { .. } => {
                SettingValue::Text(text.to_string())
            }
            SettingKind::Ints { .. } => SettingValue::List(
                text.split(',').map(|item| item.trim().parse().ok().map(SettingValue::Int)).collect::<Option<_>>()?,
            ),
            SettingKind::Sizes { .. } | SettingKind::Modes(_) => {
                SettingValue::List(text.split(',').map(|item| SettingValue::Text(item.trim().into())).collect())
            }
            // Texts may contain commas.
            SettingKind::Texts => SettingValue::List(vec![SettingValue::Text(text.to_string())]),
            SettingKind::Tables(_) => return None,
        };
        self.convert(value)
    }
}

/// The default value of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SettingDefault {
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
    Words(Words),
}

impl From<SettingDefault> for SettingValue {
    fn from(default: SettingDefault) -> SettingValue {
        match default {
            SettingDefault::Bool(value) => SettingValue::Bool(value),
            SettingDefault::Int(value) => SettingValue::Int(value),
            SettingDefault::Float(value) => SettingValue::Float(value),
            SettingDefault::Text(value) => SettingValue::Text(value.to_string()),
            SettingDefault::Ints(values) => SettingValue::List(values.iter().copied().map(SettingValue::Int).collect()),
            SettingDefault::Words(words) => {
                SettingValue::List(words.iter().map(|word| SettingValue::Text(word.to_string())).collect())
            }
        }
    }
}

/// The definition of one setting. Parsing, checking, `list workloads` and the docs all use it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SettingDef {
    /// The name in plans and in `--set NAME=VALUE`.
    pub id: &'static str,
    /// The values that it accepts.
    pub kind: SettingKind,
    /// Its default value.
    pub default: SettingDefault,
    /// One line of help.
    pub help: &'static str,
}

impl SettingDef {
    /// The error message for a value that the setting does not accept.
    pub(crate) fn rejection_message(&self, value: &str) -> String {
        let suggestion = match self.kind {
            SettingKind::Choice(words) | SettingKind::Modes(words) => nearest(value, words.iter().copied()),
            _ => None,
        };
        let suggestion = suggestion.map_or(String::new(), |word| format!(" Did you mean `{word}`?"));
        let value = escape::shorten(value, MAX_VALUE_LENGTH);
        format!("`{}` accepts {}, not `{value}`.{suggestion}", self.id, self.kind)
    }
}

/// The longest value that a message repeats, in characters.
const MAX_VALUE_LENGTH: usize = 200;

/// One constructor for each [`SettingKind`]; [`SettingDef::help`] then adds the help text.
impl SettingDef {
    const fn new(id: &'static str, kind: SettingKind, default: SettingDefault) -> SettingDef {
        SettingDef { id, kind, default, help: "" }
    }

    /// Returns the definition with this line of help.
    pub const fn help(self, help: &'static str) -> SettingDef {
        SettingDef { help, ..self }
    }

    /// `true` or `false`.
    pub const fn flag(id: &'static str, default: bool) -> SettingDef {
        Self::new(id, SettingKind::Bool, SettingDefault::Bool(default))
    }

    /// A whole number.
    pub const fn int(id: &'static str, range: RangeInclusive<i64>, default: i64) -> SettingDef {
        Self::new(id, SettingKind::Int { min: *range.start(), max: *range.end() }, SettingDefault::Int(default))
    }

    /// A number with a fraction.
    pub const fn float(id: &'static str, range: RangeInclusive<f64>, default: f64) -> SettingDef {
        Self::new(id, SettingKind::Float { min: *range.start(), max: *range.end() }, SettingDefault::Float(default))
    }

    /// A size in bytes.
    pub const fn size(id: &'static str, range: RangeInclusive<i64>, default: i64) -> SettingDef {
        Self::new(id, SettingKind::Size { min: *range.start(), max: *range.end() }, SettingDefault::Int(default))
    }

    /// A list of whole numbers.
    pub const fn ints(id: &'static str, range: RangeInclusive<i64>, default: &'static [i64]) -> SettingDef {
        Self::new(id, SettingKind::Ints { min: *range.start(), max: *range.end() }, SettingDefault::Ints(default))
    }

    /// A list of sizes in bytes.
    pub const fn sizes(id: &'static str, range: RangeInclusive<i64>, default: &'static [i64]) -> SettingDef {
        Self::new(id, SettingKind::Sizes { min: *range.start(), max: *range.end() }, SettingDefault::Ints(default))
    }

    /// One of these words.
    pub const fn choice(id: &'static str, words: Words, default: &'static str) -> SettingDef {
        Self::new(id, SettingKind::Choice(words), SettingDefault::Text(default))
    }

    /// Some of these words.
    pub const fn modes(id: &'static str, words: Words, default: Words) -> SettingDef {
        Self::new(id, SettingKind::Modes(words), SettingDefault::Words(default))
    }

    /// A path, by default empty.
    pub const fn path(id: &'static str) -> SettingDef {
        Self::new(id, SettingKind::Path, SettingDefault::Text(""))
    }

    /// Free text, by default empty.
    pub const fn text(id: &'static str) -> SettingDef {
        Self::new(id, SettingKind::Text, SettingDefault::Text(""))
    }

    /// A list of texts, by default empty.
    pub const fn texts(id: &'static str) -> SettingDef {
        Self::new(id, SettingKind::Texts, SettingDefault::Words(&[]))
    }

    /// A list of tables with these settings, by default empty.
    pub const fn tables(id: &'static str, settings: &'static [SettingDef]) -> SettingDef {
        Self::new(id, SettingKind::Tables(settings), SettingDefault::Words(&[]))
    }
}

/// The settings that select who does the work: an external program, or fsarena's own system calls (`native`).
pub const DRIVER_SETTINGS: [&str; 2] = ["driver", "engine"];

/// The complete, checked settings of a workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Settings(pub BTreeMap<String, SettingValue>);

impl Settings {
    /// Settings that all have their default values.
    pub fn defaults(defs: &[SettingDef]) -> Settings {
        Settings(defs.iter().map(|def| (def.id.to_string(), def.default.into())).collect())
    }

    /// Sets these settings, each one of [`DRIVER_SETTINGS`], to `native`, so that no external program is needed.
    pub fn set_native(&mut self, settings: &[&str]) {
        for (_, value) in self.0.iter_mut().filter(|(id, _)| settings.contains(&id.as_str())) {
            *value = SettingValue::Text("native".into());
        }
    }

    /// The value of one setting. Panics if the setting is missing or `convert` returns None. `expected` describes the
    /// value in the message of the panic.
    fn get_or_panic<'s, T>(&'s self, id: &str, expected: &str, convert: impl Fn(&'s SettingValue) -> Option<T>) -> T {
        let value = self.0.get(id);
        value.and_then(convert).unwrap_or_else(|| panic!("setting {id} is not {expected}: {value:?}"))
    }

    /// The values of a setting. A value that is not a list counts as a list of one.
    fn get_all_or_panic<'s, T>(
        &'s self,
        id: &str,
        expected: &str,
        convert: impl Fn(&'s SettingValue) -> Option<T>,
    ) -> Vec<T> {
        self.get_or_panic(id, expected, |value| match value {
            SettingValue::List(values) => values.iter().map(&convert).collect(),
            value => convert(value).map(|item| vec![item]),
        })
    }

    /// The text of a setting.
    ///
    /// # Panics
    /// If the setting is not defined as text. No plan can cause this: a resolved plan has every setting, with a checked
    /// value.
    pub fn text(&self, id: &str) -> &str {
        self.get_or_panic(id, "text", SettingValue::as_text)
    }

    /// The whole number of a setting.
    ///
    /// # Panics
    /// If the setting is not defined as a whole number.
    pub fn int(&self, id: &str) -> i64 {
        self.get_or_panic(id, "a whole number", SettingValue::as_int)
    }

    /// The number of a setting.
    ///
    /// # Panics
    /// If the setting is not defined as a number.
    pub fn float(&self, id: &str) -> f64 {
        self.get_or_panic(id, "a number", |value| match value {
            SettingValue::Float(value) => Some(*value),
            SettingValue::Int(value) => Some(*value as f64),
            _ => None,
        })
    }

    /// Whether a setting is `true`.
    ///
    /// # Panics
    /// If the setting is not defined as `true` or `false`.
    pub fn flag(&self, id: &str) -> bool {
        let as_bool = |value: &SettingValue| if let SettingValue::Bool(value) = value { Some(*value) } else { None };
        self.get_or_panic(id, "true or false", as_bool)
    }

    /// The whole numbers of a setting: one or several.
    ///
    /// # Panics
    /// If the setting is not defined as whole numbers.
    pub fn ints(&self, id: &str) -> Vec<i64> {
        self.get_all_or_panic(id, "whole numbers", SettingValue::as_int)
    }

    /// The words of a setting: one or several.
    ///
    /// # Panics
    /// If the setting is not defined as words.
    pub fn words(&self, id: &str) -> Vec<&str> {
        self.get_all_or_panic(id, "words", SettingValue::as_text)
    }
}

/// The definition of a workload. Lists show it, and plans are checked against it.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadDef {
    /// The name in plans and reports.
    pub id: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The metrics to report by default, the primary one first.
    pub metrics: &'static [&'static str],
    /// Its settings.
    pub settings: &'static [SettingDef],
}

impl WorkloadDef {
    /// The definition of a setting, by its id; None if the workload does not have it.
    pub fn setting(&self, id: &str) -> Option<&'static SettingDef> {
        self.settings.iter().find(|setting| setting.id == id)
    }

    /// Checks settings that did not pass through [`crate::plan::resolve`]: settings of a stored plan, or from another process.
    ///
    /// # Errors
    /// A setting is missing, is unknown, or has a value that its definition does not accept. Only the first such setting is
    /// reported.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let fail = |why: String| Err(format!("workload {}: {why}", self.id));
        for def in self.settings {
            match settings.0.get(def.id) {
                None => return fail(format!("the setting `{}` is missing", def.id)),
                Some(value) if !def.kind.accepts(value) => return fail(def.rejection_message(&value.to_string())),
                Some(_) => {}
            }
        }
        let known_ids = || self.settings.iter().map(|def| def.id);
        match settings.0.keys().find(|id| !known_ids().any(|known| known == *id)) {
            Some(id) => fail(unknown_name("setting", id, known_ids()).to_string()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_parsed_as_the_kind_of_the_value_it_replaces() {
        let list =
            |items: &[&str]| SettingValue::List(items.iter().map(|item| SettingValue::Text((*item).into())).collect());
        assert_eq!(SettingValue::Bool(true).parse_same_kind("false"), SettingValue::Bool(false));
        assert_eq!(SettingValue::Int(0).parse_same_kind("4k"), SettingValue::Int(4096));
        assert_eq!(SettingValue::Float(0.5).parse_same_kind("2"), SettingValue::Float(2.0));
        assert_eq!(
            SettingValue::List(vec![SettingValue::Int(1), SettingValue::Int(4)]).parse_same_kind("8"),
            SettingValue::List(vec![SettingValue::Int(8)])
        );
        assert_eq!(list(&["seqrd", "seqwr"]).parse_same_kind("randread"), list(&["rndrd"]));
        // A plan may write `seconds = 1` for a number with a fraction, and `modes = "rndrd"` for a list.
        assert_eq!(SettingValue::Int(1).parse_same_kind("1.5"), SettingValue::Float(1.5));
        assert_eq!(SettingValue::Text("rndrd".into()).parse_same_kind("write"), SettingValue::Text("seqwr".into()));
        assert_eq!(SettingValue::Text("a".into()).parse_same_kind("write"), SettingValue::Text("write".into()));
        assert_eq!(list(&["wal", "delete"]).parse_same_kind("delete"), list(&["delete"]));
        assert_eq!(SettingValue::Int(0).parse_same_kind("many"), SettingValue::Text("many".into()));
    }

    #[test]
    fn sizes_are_binary_as_in_fio() {
        let sizes = ["512", "4k", "4K", "4KiB", "4kB", "1g", "1P"].map(|text| parse_size(text).unwrap());
        assert_eq!(sizes, [512, 4096, 4096, 4096, 4000, 1 << 30, 1 << 50]);
        for wrong in ["", "0", "k", "-4k", "4x", "4 potatoes"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn check_rejects_missing_unknown_and_out_of_range_settings() {
        const DEF: WorkloadDef = WorkloadDef {
            id: "own",
            help: "",
            metrics: &[],
            settings: &[SettingDef::float("timeout", 0.0..=9.0, 1.0), SettingDef::int("room", 1..=9, 2)],
        };
        let check_with = |id: &str, value: SettingValue| {
            let mut settings = Settings::defaults(DEF.settings);
            settings.0.insert(id.into(), value);
            DEF.check(&settings)
        };
        assert_eq!(check_with("room", SettingValue::Int(9)), Ok(()));
        for (id, value) in [
            ("timeout", SettingValue::Float(-1.0)),
            ("timeout", SettingValue::Float(f64::NAN)),
            ("timeout", SettingValue::Float(1e30)),
            ("room", SettingValue::Float(18446744073709551615.0)),
            ("room", SettingValue::Text("2".into())),
            ("more", SettingValue::Int(1)),
        ] {
            assert!(check_with(id, value.clone()).is_err_and(|why| why.contains(&format!("`{id}`"))), "{id} {value}");
        }
        assert!(DEF.check(&Settings::default()).unwrap_err().contains("`timeout` is missing"));
    }

    #[test]
    fn settings_accept_sizes_with_suffixes_and_the_modes_of_fio_and_sysbench() {
        let sizes = SettingKind::Sizes { min: 512, max: 16 << 20 };
        let ints = |values: &[i64]| Some(SettingValue::List(values.iter().copied().map(SettingValue::Int).collect()));
        assert_eq!(sizes.parse("512,4k,1MiB"), ints(&[512, 4096, 1 << 20]));
        assert_eq!(sizes.parse("4x"), None);
        assert_eq!(SettingKind::Size { min: 0, max: 9000 }.parse("0"), Some(SettingValue::Int(0)));
        assert_eq!(sizes.convert(SettingValue::Text("4k".into())), Some(SettingValue::Int(4096)));
        assert_eq!(sizes.convert(SettingValue::Int(256)), None);
        let modes = SettingKind::Modes(&["seqrd", "rndrd"]);
        assert_eq!(modes.parse("randread,seqrd"), modes.parse("rndrd,read"));
        assert_eq!(modes.parse("randwrite"), None);
    }

    #[test]
    fn tables_are_one_table_or_a_list_of_tables_but_no_lists_of_lists() {
        let tables = SettingKind::Tables(&[]);
        let (table, list) =
            (SettingValue::Table(BTreeMap::new()), |value: &SettingValue| SettingValue::List(vec![value.clone()]));
        assert!(tables.convert(table.clone()).is_some() && tables.convert(list(&table)).is_some());
        assert_eq!(tables.convert(list(&list(&table))), None);
    }
}
