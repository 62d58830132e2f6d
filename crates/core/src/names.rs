//! Error messages for unknown names: they suggest a similar name and list the accepted names.

use crate::escape;
use crate::exit::{ExitCode, HasExitCode};
use std::fmt;

/// The most names that a message lists.
const MAX_LISTED: usize = 24;
/// The longest name that a message repeats in full, in characters; of a longer one it leaves out the middle.
const MAX_NAME_LENGTH: usize = 200;
/// The similarity (Jaro-Winkler, 0 to 1) above which a name is suggested.
const MIN_SIMILARITY: f64 = 0.8;
/// The similarity of a word that contains the mistyped one, so that `speed` suggests `cpu_speed`.
const SUBSTRING_SIMILARITY: f64 = 0.85;

/// The error for an unknown name: ``Unknown workload `tre`. Did you mean `tree`? Available: coreutils, tree``.
///
/// The message is boxed, to keep errors that contain it small.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}.{} {}", .0.unknown, .0.place, .0.suggestion, .0.list_or_hint)]
pub struct UnknownName(Box<UnknownNameParts>);

/// The parts of the message of an [`UnknownName`].
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnknownNameParts {
    unknown: String,
    place: String,
    suggestion: String,
    list_or_hint: String,
}

/// Removes repeated items; keeps the first of each.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut unique = Vec::new();
    for item in items {
        if !unique.contains(&item) {
            unique.push(item);
        }
    }
    unique
}

/// Makes the error for a `name` that is not one of the `available` ones. `kind` is what the name stands
/// for: `workload`, `metric`.
pub fn unknown_name<'a>(kind: &str, name: &str, available: impl IntoIterator<Item = &'a str>) -> UnknownName {
    let names = distinct(available);
    let shown = escape::shorten(name, MAX_NAME_LENGTH).replace(char::is_control, "\u{fffd}");
    let suggestion = nearest(name, names.iter().copied());
    let ellipsis = if names.len() > MAX_LISTED { ", …" } else { "" };
    UnknownName(Box::new(UnknownNameParts {
        unknown: format!("Unknown {kind} `{shown}`"),
        place: String::new(),
        suggestion: suggestion.map_or(String::new(), |name| format!(" Did you mean `{name}`?")),
        list_or_hint: match &names[..names.len().min(MAX_LISTED)] {
            [] => "There are none.".into(),
            listed => format!("Available: {}{ellipsis}", listed.join(", ")),
        },
    }))
}

/// Finds the item whose id is `name`. `kind` is what the items are, for the error: `workload`, `metric`.
///
/// # Errors
/// No item has this name.
pub fn find_by_id<'a, T>(
    kind: &str,
    name: &str,
    items: impl IntoIterator<Item = T, IntoIter: Clone>,
    id: impl Fn(&T) -> &'a str,
) -> Result<T, UnknownName> {
    let items = items.into_iter();
    let ids = items.clone().map(|item| id(&item));
    items.clone().find(|item| id(item) == name).ok_or_else(|| unknown_name(kind, name, ids))
}

/// The word that is most similar to a mistyped one; None if no word is similar enough.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    words
        .into_iter()
        .map(|word| (similarity(&wrong, &word.to_lowercase()), word))
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

fn similarity(wrong: &str, word: &str) -> f64 {
    let is_substring = wrong.len() >= 3 && word.contains(wrong);
    strsim::jaro_winkler(wrong, word).max(if is_substring { SUBSTRING_SIMILARITY } else { 0.0 })
}

impl UnknownName {
    /// Adds the place where the name was looked up: `of workload tree`, `in run 2026…`.
    #[must_use]
    pub fn with_place(mut self, place: impl fmt::Display) -> UnknownName {
        self.0.place = format!(" {place}");
        self
    }

    /// Replaces the list of names with the command that lists them.
    #[must_use]
    pub fn with_list_command(self, command: &'static str) -> UnknownName {
        self.with_hint(format!("List them: {command}"))
    }

    /// Replaces the list of names with this sentence.
    #[must_use]
    pub fn with_hint(mut self, hint: String) -> UnknownName {
        self.0.list_or_hint = hint;
        self
    }
}

impl HasExitCode for UnknownName {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl From<UnknownName> for String {
    fn from(unknown: UnknownName) -> String {
        unknown.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_a_similar_word_or_none() {
        assert_eq!(nearest("drvier", ["driver", "tree"]), Some("driver"));
        assert_eq!(nearest("EXT4", ["xfs", "ext4"]), Some("ext4"));
        assert_eq!(nearest("speed", ["cpus", "cpu_speed"]), Some("cpu_speed"));
        assert_eq!(nearest("xyzzy", ["driver", "tree"]), None);
    }

    #[test]
    fn the_message_suggests_a_name_and_lists_all_or_the_command_that_does() {
        let typo = unknown_name("workload", "tre", ["coreutils", "tree", "tree"]);
        assert_eq!(typo.to_string(), "Unknown workload `tre`. Did you mean `tree`? Available: coreutils, tree");
        let listed =
            unknown_name("metric", "x", ["elapsed"]).with_place("in run 1").with_list_command("fsarena list metrics");
        assert_eq!(listed.to_string(), "Unknown metric `x` in run 1. List them: fsarena list metrics");
        assert_eq!(unknown_name("run", "a\nb", []).to_string(), "Unknown run `a\u{fffd}b`. There are none.");
    }

    #[test]
    fn items_are_found_by_their_ids() {
        assert_eq!(find_by_id("number", "two", [(1, "one"), (2, "two")], |(_, id)| id).unwrap().0, 2);
        assert!(find_by_id("number", "tow", [(1, "one"), (2, "two")], |(_, id)| id).is_err());
    }
}
