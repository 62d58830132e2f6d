//! Which arguments of mkfs and which mount options a plan may set. None of them can name a second device or file:
//! further devices come from the factors `journal` and `raid` alone, and the target stays the only path.
//!
//! mkfs gets what the grammar of its filesystem lists and nothing else, by exact names: getopt(3) would also take
//! abbreviations, and arguments without an option as further devices. Mount options are too many and too new to list, so
//! those are refused that mount(8) or a driver could take for a path.
//!
//! Also here: fixed values instead of those that mkfs draws at random, and suggestions for mistyped names.

use crate::def::{FsDef, Takes};
use crate::{Error, error::refused};
use fsarena_core::names::nearest;

/// Mount options that mount(8) itself acts upon, that attach further devices, or that mount something else.
const MOUNT_REFUSED: &str = "bind fsname helper loop lowerdir move offset private rbind remount \
                             rprivate rshared rslave runbindable shared sizelimit slave source uhelper unbindable upperdir workdir";
/// How keys of mount options begin that mount(8) itself acts upon.
const MOUNT_REFUSED_PREFIXES: &[&str] = &["X-", "x-", "verity."];
/// How keys of mount options end whose values name a device or a file: `jdev`, `journal_dev`, `journal_path`, `device`.
const MOUNT_REFUSED_SUFFIXES: &[&str] = &["dev", "device", "dir", "file", "path"];

/// Checks the arguments that a plan gives mkfs. Short options come back one a word, each followed by its value, so that
/// mkfs reads them as this grammar does.
///
/// # Errors
/// [`Error::Refused`] where an argument could name a second device or file, [`Error::Options`] for any other that the
/// grammar does not list.
pub fn check_mkfs_arguments(def: &FsDef, words: &[String]) -> Result<Vec<String>, Error> {
    let mut accepted = vec![];
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word.starts_with("--") && word.len() > 2 {
            let (option, attached) = split(word);
            accepted.push(word.to_string());
            match (def.takes(option)?, attached) {
                (Takes::Nothing, None) => {}
                (Takes::Nothing, Some(_)) => return Err(def.wrong(option, "it takes no value")),
                (takes, Some(value)) => drop(def.value(option, takes, Some(value))?),
                (takes, None) => accepted.push(def.value(option, takes, words.next())?),
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !["", "-"].contains(letters)) {
            for (at, letter) in letters.char_indices() {
                let option = format!("-{letter}");
                let takes = def.takes(&option)?;
                accepted.push(option.clone());
                if takes != Takes::Nothing {
                    let attached = Some(&letters[at + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
                    accepted.push(def.value(&option, takes, attached.or_else(|| words.next()))?);
                    break;
                }
            }
        } else {
            let why = format!("{} takes it for a device or a file", def.mkfs);
            return Err(refused(word, why, def.listed()));
        }
    }
    Ok(accepted)
}

/// Checks the mount options that a plan gives, one by one.
///
/// # Errors
/// [`Error::Refused`] where one could name a device or a file, [`Error::Options`] where it is not written as one.
pub fn check_mount_options<'a>(options: impl IntoIterator<Item = &'a str>) -> Result<(), Error> {
    for option in options {
        let (key, value) = split(option);
        // `lowerdir+` adds to what `lowerdir` is.
        let name = key.trim_end_matches('+');
        let acted_upon = MOUNT_REFUSED.split(' ').any(|refused| refused == name)
            || MOUNT_REFUSED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
            || value.is_some() && MOUNT_REFUSED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
        if acted_upon || option.contains('/') {
            let why = "as a mount option it could reach another device, file or directory";
            let fix = "Leave it out; the factors `journal` and `raid` add devices";
            return Err(refused(option, why, fix));
        }
        let plain = is_plain(key) && value.is_none_or(|value| value.is_empty() || is_plain(value));
        // A second option behind a comma would not be looked at.
        if !plain || option.contains(',') {
            let how = "write it as NAME or NAME=VALUE, without blanks or quotes";
            return Err(Error::Options(format!("Mount option `{option}`: {how}")));
        }
    }
    Ok(())
}

impl FsDef {
    fn takes(&self, option: &str) -> Result<Takes, Error> {
        let named = |(_, names): &&(Takes, &str)| names.split(' ').any(|name| name == option);
        match self.arguments.iter().find(named) {
            Some((Takes::Path, _)) => Err(self.reaches(option)),
            Some((takes, _)) => Ok(*takes),
            None => {
                let accepted = self.arguments.iter().filter(|(takes, _)| !matches!(takes, Takes::Path));
                let names = accepted.flat_map(|(_, names)| names.split(' '));
                Err(self.wrong(option, &format!("fsarena does not pass it on{}", near(option, names))))
            }
        }
    }

    /// The value of an option, checked.
    fn value(&self, option: &str, takes: Takes, value: Option<&str>) -> Result<String, Error> {
        let value = value.ok_or_else(|| self.wrong(option, "it needs a value"))?;
        if let Takes::Keys(keys) = takes {
            for part in value.split(',') {
                let (key, _) = split(part);
                if keys.split(' ').any(|name| name.strip_prefix('!') == Some(key)) {
                    return Err(self.reaches(&format!("{option} {part}")));
                }
                if !keys.split(' ').any(|name| name == key) {
                    let near = near(key, keys.split(' ').filter(|name| !name.starts_with('!')));
                    let why = format!("fsarena does not pass it on{near}");
                    return Err(self.wrong(&format!("{option} {part}"), &why));
                }
            }
        }
        if value.contains('/') {
            return Err(self.reaches(&format!("{option} {value}")));
        }
        if !is_plain(value) {
            return Err(self.wrong(&format!("{option} {value}"), "write a number, a name or a list"));
        }
        Ok(value.to_string())
    }

    fn reaches(&self, argument: &str) -> Error {
        let why = format!("{} takes it for a second device or file", self.mkfs);
        refused(argument, why, self.listed())
    }

    fn wrong(&self, argument: &str, why: &str) -> Error {
        Error::Options(format!("mkfs argument `{argument}`: {why}. {}", self.listed()))
    }

    /// The options of its mkfs, for people.
    fn listed(&self) -> String {
        let of = |wanted: Takes| {
            let names =
                self.arguments.iter().filter(move |(takes, _)| *takes == wanted).map(|(_, names)| *names);
            names.collect::<Vec<_>>().join(" ")
        };
        let with_keys = self.arguments.iter().filter_map(|(takes, names)| match takes {
            Takes::Keys(keys) => {
                let keys: Vec<&str> = keys.split(' ').filter(|key| !key.starts_with('!')).collect();
                (!keys.is_empty()).then(|| format!("{names} with {}", keys.join(",")))
            }
            _ => None,
        });
        let (flags, values) = (of(Takes::Nothing), of(Takes::Value));
        let devices = match (self.journal, self.raid) {
            (None, None) => "",
            (Some(_), None) => "; a journal on a second device: the factor `journal`",
            (None, Some(_)) => "; further devices: the factor `raid`",
            (Some(_), Some(_)) => "; further devices: the factors `journal` and `raid`",
        };
        let listed =
            [flags, format!("with a value {values}")].into_iter().chain(with_keys).collect::<Vec<_>>();
        format!("{} accepts here: {}{devices}", self.mkfs, listed.join("; "))
    }
}

/// Proposes the nearest name: ` (did you mean …?)`.
fn near<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> String {
    nearest(wrong, names).map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

/// A key or an option, and the value behind `=`.
fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)))
}

/// Whether this can be a number, a name or a list, and nothing that a program expands or reads as an option.
fn is_plain(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphanumeric() || first == '^')
        && text.chars().all(|letter| letter.is_alphanumeric() || "_.,:=+%^-".contains(letter))
}

/// The UUID and hash seed of pinned filesystems. Any constant would do.
const PINNED_ID: &str = "6673a2e4-a000-4000-8000-000000000001";

/// Adds fixed values to the arguments of a mkfs for those that it would draw at random, so that equal options make equal
/// filesystems. Values that the arguments already set stay.
pub fn pin_random_values(def: &FsDef, words: &mut Vec<String>) {
    for (flag, key) in def.pins {
        set_flag_value(words, flag, key, &format!("{key}{PINNED_ID}"));
    }
}

/// Sets the value of a flag, unless its list already contains the key.
pub(crate) fn set_flag_value(words: &mut Vec<String>, flag: &str, key: &str, value: &str) {
    let given = words.iter().rposition(|word| word == flag).and_then(|at| words.get_mut(at + 1));
    match given {
        // mkfs would ignore the first of two such flags.
        Some(list) if !key.is_empty() && !list.contains(key) => list.push_str(&format!(",{value}")),
        Some(_) => {}
        None => words.extend([flag.to_string(), value.to_string()]),
    }
}

/// Mount options of every filesystem, which mount(8) or the kernel's common code handles.
const COMMON_MOUNT_OPTIONS: &str = "async atime auto defaults dev diratime dirsync exec iversion lazytime loud mand noatime noauto \
                      nodev nodiratime noexec noiversion nolazytime nomand norelatime nostrictatime nosuid \
                      nosymfollow relatime ro rw silent strictatime suid sync";

/// The feature that was probably meant by an unknown word in arguments of mkfs.
pub fn suggest_feature(def: &FsDef, arguments: &str) -> Option<&'static str> {
    let known = || def.features.split(' ').filter(|name| !name.is_empty());
    let words = arguments.split(|letter: char| !(letter.is_alphanumeric() || "_-".contains(letter)));
    let words = words.filter(|word| word.len() > 2 && !word.starts_with('-'));
    words.filter(|word| !known().any(|name| name == *word)).find_map(|word| nearest(word, known()))
}

/// The mount option that was probably meant by one that the kernel refused; None if its name is right and its value is not
/// one of a few names.
pub fn suggest_mount_option(def: &FsDef, option: &str) -> Option<&'static str> {
    let known = COMMON_MOUNT_OPTIONS.split(' ').chain(def.mount_names.split(' '));
    let key = |option: &'static str| option.split('=').next().unwrap_or_default();
    let asked = option.split('=').next().unwrap_or_default();
    let known: Vec<&'static str> = known.filter(|name| !name.is_empty()).collect();
    if known.iter().any(|name| key(name) == asked) {
        let values = known.into_iter().filter(|name| name.contains('=') && key(name) == asked);
        return nearest(option, values).filter(|near| *near != option);
    }
    nearest(asked, known.into_iter().map(key))
}

#[cfg(test)]
mod tests;
