//! Checks the arguments of mkfs and the mount options that a plan may set. None of them can name a second device or file:
//! further devices come only from the factors `journal` and `raid`, and the target is the only path.
//!
//! mkfs gets only arguments that the grammar of its filesystem lists, by exact names: getopt(3) would also accept
//! abbreviations, and mkfs would treat an argument that belongs to no option as a further device. There are too many mount options
//! to list them, so fsarena refuses those that mount(8) or a driver could take for a path.
//!
//! This file also passes fixed values to mkfs for UUIDs and seeds, which mkfs would choose at random, and suggests names for
//! mistyped options.

use crate::def::{FsDef, ValueKind};
use crate::{Error, error::refused};
use fsarena_core::names::nearest;

/// Mount options that could reach another device, file or directory: mount(8) or a driver attaches a further device, mounts another
/// filesystem or another part of the device, or starts a helper program.
const REFUSED_MOUNT_OPTIONS: &str = "bind fsname helper loop lowerdir move offset private rbind remount \
                             rprivate rshared rslave runbindable shared sizelimit slave source uhelper unbindable upperdir workdir";
/// The beginnings of keys of mount options that only mount(8) reads, and that could reach other paths.
const REFUSED_KEY_PREFIXES: &[&str] = &["X-", "x-", "verity."];
/// The ends of keys of mount options whose values name a device or a file: `jdev`, `journal_path`, `device`.
const REFUSED_KEY_SUFFIXES: &[&str] = &["dev", "device", "dir", "file", "path"];

/// Checks the arguments that a plan sets for mkfs, and returns them with each short option as a separate word, followed by its
/// value, so that mkfs reads them in the same way as this grammar.
///
/// # Errors
/// [`Error::Refused`] for an argument that could name a second device or file, [`Error::Options`] for any other argument that
/// the grammar does not list.
pub fn check_mkfs_arguments(def: &FsDef, words: &[String]) -> Result<Vec<String>, Error> {
    let mut accepted = vec![];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word.len() > 2 && (word.starts_with("--") || word.starts_with('-') && def.has_long_names()) {
            let (option, attached) = split_key_value(word);
            accepted.push(word.to_string());
            match (def.value_kind(option)?, attached) {
                (ValueKind::Nothing, None) => {}
                (ValueKind::Nothing, Some(_)) => return Err(def.option_error(option, "it takes no value")),
                (kind, Some(value)) => drop(def.check_value(option, kind, Some(value))?),
                (kind, None) => accepted.push(def.check_value(option, kind, words.next())?),
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !["", "-"].contains(letters)) {
            for (index, letter) in letters.char_indices() {
                let option = format!("-{letter}");
                let kind = def.value_kind(&option)?;
                accepted.push(option.clone());
                if kind != ValueKind::Nothing {
                    let attached = Some(&letters[index + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
                    accepted.push(def.check_value(&option, kind, attached.or_else(|| words.next()))?);
                    break;
                }
            }
        } else {
            let why = format!("{} takes it for a device or a file", def.mkfs);
            return Err(refused(word, why, def.list_accepted_options()));
        }
    }
    Ok(accepted)
}

/// Checks the mount options that a plan sets, one by one.
///
/// # Errors
/// [`Error::Refused`] for an option that could name a device or a file, [`Error::Options`] for one that does not have the form
/// `NAME` or `NAME=VALUE`.
pub fn check_mount_options<'a>(options: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    for option in options {
        let (key, value) = split_key_value(option);
        // `lowerdir+` is a form of `lowerdir`.
        let name = key.trim_end_matches('+');
        let may_reach_other_path = REFUSED_MOUNT_OPTIONS.split(' ').any(|refused| refused == name)
            || REFUSED_KEY_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
            || value.is_some() && REFUSED_KEY_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        if may_reach_other_path || option.contains('/') {
            let why = "as a mount option it could reach another device, file or directory";
            let fix = "Leave it out; the factors `journal` and `raid` add devices";
            return Err(refused(option, why, fix));
        }
        let has_plain_form = is_plain(key) && value.is_none_or(|value| value.is_empty() || is_plain(value));
        // A second option after a comma would not be checked.
        if !has_plain_form || option.contains(',') {
            let how = "write it as NAME or NAME=VALUE, without blanks, quotes or commas";
            return Err(Error::Options(format!("Mount option `{option}`: {how}")));
        }
    }
    Ok(())
}

impl FsDef {
    /// Whether its mkfs takes each word with a single dash as one name: `-comp`. Others take each letter for an option.
    fn has_long_names(&self) -> bool {
        let mut names = self.allowed_arguments.iter().flat_map(|(_, names)| names.split(' '));
        names.any(|name| name.len() > 2 && !name.starts_with("--"))
    }

    /// The kind of value that an option of mkfs takes; an error if plans may not set it.
    fn value_kind(&self, option: &str) -> Result<ValueKind, Error> {
        let has_option = |(_, names): &&(ValueKind, &str)| names.split(' ').any(|name| name == option);
        match self.allowed_arguments.iter().find(has_option) {
            Some((ValueKind::Path, _)) => Err(self.second_path_error(option)),
            Some((kind, _)) => Ok(*kind),
            None => {
                let accepted = self.allowed_arguments.iter().filter(|(kind, _)| !matches!(kind, ValueKind::Path));
                let names = accepted.flat_map(|(_, names)| names.split(' '));
                Err(self.option_error(option, &format!("fsarena does not pass it on{}", suggestion(option, names))))
            }
        }
    }

    /// Checks the value of an option and returns it.
    fn check_value(&self, option: &str, kind: ValueKind, value: Option<&str>) -> Result<String, Error> {
        let value = value.ok_or_else(|| self.option_error(option, "it needs a value"))?;
        // A key with `!` names a device or file (see [`ValueKind::Keys`]).
        if let ValueKind::Keys(keys) = kind {
            for part in value.split(',') {
                let (key, _) = split_key_value(part);
                if keys.split(' ').any(|name| name.strip_prefix('!') == Some(key)) {
                    return Err(self.second_path_error(&format!("{option} {part}")));
                }
                if !keys.split(' ').any(|name| name == key) {
                    let suggestion = suggestion(key, keys.split(' ').filter(|name| !name.starts_with('!')));
                    let why = format!("fsarena does not pass it on{suggestion}");
                    return Err(self.option_error(&format!("{option} {part}"), &why));
                }
            }
        }
        if value.contains('/') {
            return Err(self.second_path_error(&format!("{option} {value}")));
        }
        if !is_plain(value) {
            return Err(self.option_error(&format!("{option} {value}"), "write a number, a name or a list"));
        }
        Ok(value.to_string())
    }

    fn second_path_error(&self, argument: &str) -> Error {
        let why = format!("{} takes it for a second device or file", self.mkfs);
        refused(argument, why, self.list_accepted_options())
    }

    fn option_error(&self, argument: &str, why: &str) -> Error {
        Error::Options(format!("mkfs argument `{argument}`: {why}. {}", self.list_accepted_options()))
    }

    /// A sentence that lists the options of mkfs that plans may set.
    fn list_accepted_options(&self) -> String {
        let options_taking = |kind: ValueKind| {
            let names = self.allowed_arguments.iter().filter(move |(other, _)| *other == kind).map(|(_, names)| *names);
            names.collect::<Vec<_>>().join(" ")
        };
        let with_keys = self.allowed_arguments.iter().filter_map(|(kind, names)| match kind {
            ValueKind::Keys(keys) => {
                let keys: Vec<&str> = keys.split(' ').filter(|key| !key.starts_with('!')).collect();
                (!keys.is_empty()).then(|| format!("{names} with {}", keys.join(",")))
            }
            _ => None,
        });
        let (flags, values) = (options_taking(ValueKind::Nothing), options_taking(ValueKind::Plain));
        let further_devices = match (self.journal, self.raid) {
            (None, None) => "",
            (Some(_), None) => "; a journal on a second device: the factor `journal`",
            (None, Some(_)) => "; further devices: the factor `raid`",
            (Some(_), Some(_)) => "; further devices: the factors `journal` and `raid`",
        };
        let listed = [flags, format!("with a value {values}")].into_iter().chain(with_keys).collect::<Vec<_>>();
        format!("{} accepts here: {}{further_devices}", self.mkfs, listed.join("; "))
    }
}

/// The nearest name as the end of a message: ` (did you mean …?)`; empty if no name is near.
fn suggestion<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(wrong, names).map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

/// Splits `KEY=VALUE` into key and value; the value is None without `=`.
fn split_key_value(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (text, None),
    }
}

/// Whether a text has only characters of numbers, names and lists, so that no program expands it or takes it for an option.
fn is_plain(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphanumeric() || first == '^')
        && text.chars().all(|letter| letter.is_alphanumeric() || "_.,:=+%^-".contains(letter))
}

/// The fixed UUID and hash seed of all filesystems that fsarena makes. The value itself has no meaning.
const PINNED_ID: &str = "6673a2e4-a000-4000-8000-000000000001";

/// Adds the arguments of [`FsDef::pinned_flags`]: fixed UUIDs and seeds, which mkfs would otherwise choose at random, so that equal
/// options make equal filesystems. Values that the arguments already set stay.
pub fn pin_random_values(def: &FsDef, words: &mut Vec<String>) {
    for &(names, key) in def.pinned_flags {
        let (flag, long_names) = names.split_once(' ').unwrap_or((names, ""));
        let is_set = |name: &str| words.iter().any(|word| split_key_value(word).0 == name);
        if !long_names.split_whitespace().any(is_set) {
            add_flag_value(words, flag, key, &format!("{key}{PINNED_ID}"));
        }
    }
}

/// Replaces the UUID that [`pin_random_values`] has set. Other pinned values stay, such as the seed of directory hashes.
pub fn replace_pinned_uuid(words: &mut [String], uuid: &str) {
    for word in words {
        if word == PINNED_ID {
            *word = uuid.into();
        } else {
            *word = word.replace(&format!("uuid={PINNED_ID}"), &format!("uuid={uuid}"));
        }
    }
}

/// Adds `value` (`KEY=…`) to the list after a flag unless the list has the key; adds the flag too if it is missing. An empty `key`
/// means that the flag takes a single value, no list: a value that it has stays.
pub(crate) fn add_flag_value(words: &mut Vec<String>, flag: &str, key: &str, value: &str) {
    let flag_index = words.iter().rposition(|word| word == flag);
    match flag_index.and_then(|index| words.get_mut(index + 1)) {
        // Extends the list, because mkfs would ignore the first of two such flags.
        Some(list) if !key.is_empty() && !list.contains(key) => list.push_str(&format!(",{value}")),
        Some(_) => {}
        None => words.extend([flag.to_string(), value.to_string()]),
    }
}

/// Mount options of every filesystem, which mount(8) or the kernel's common code handles.
const COMMON_MOUNT_OPTIONS: &str = "async atime auto defaults dev diratime dirsync exec iversion lazytime loud mand noatime noauto \
                      nodev nodiratime noexec noiversion nolazytime nomand norelatime nostrictatime nosuid \
                      nosymfollow relatime ro rw silent strictatime suid sync";

/// The feature that is nearest to an unknown word in the arguments of mkfs; None if no feature is near.
pub fn suggest_feature(def: &FsDef, arguments: &str) -> Option<&'static str> {
    let known = || def.features.split(' ').filter(|name| !name.is_empty());
    let words = arguments.split(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)));
    let words = words.filter(|word| word.len() > 2 && !word.starts_with('-'));
    words.filter(|word| !known().any(|name| name == *word)).find_map(|word| nearest(word, known()))
}

/// The mount option that is nearest to `option`, which the kernel refused. None if no option is near, or if `option` has a correct
/// name and fsarena has no list of its values.
pub fn suggest_mount_option(def: &FsDef, option: &str) -> Option<&'static str> {
    let known = COMMON_MOUNT_OPTIONS.split(' ').chain(def.mount_names.split(' '));
    let key_of = |option: &'static str| option.split('=').next().unwrap_or_default();
    let key = option.split('=').next().unwrap_or_default();
    let known: Vec<&'static str> = known.filter(|name| !name.is_empty()).collect();
    if known.iter().any(|name| key_of(name) == key) {
        let values = known.into_iter().filter(|name| name.contains('=') && key_of(name) == key);
        return nearest(option, values).filter(|near| *near != option);
    }
    nearest(key, known.into_iter().map(key_of))
}

#[cfg(test)]
mod tests;
