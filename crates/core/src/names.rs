//! Names that people type: what to say about one that does not exist.

use crate::exit::{ExitCode, Exits};
use crate::safe;
use std::fmt;

/// Longest list of names that a message spells out.
const MOST: usize = 24;
/// Longest name that a message repeats, in characters.
const LONGEST: usize = 200;
/// Least similarity (Jaro-Winkler, 0 to 1) of a name that is proposed.
const NEAR: f64 = 0.8;
/// Similarity of a part of a name to the name.
const PART: f64 = 0.85;

/// A name that does not exist: ``Unknown workload `tre`. Did you mean `tree`? Available: coreutils, tree``.
///
/// Boxed, so that errors that hold it stay small.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}.{} {}", .0.unknown, .0.place, .0.proposal, .0.names)]
pub struct Unknown(Box<Message>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    unknown: String,
    place: String,
    proposal: String,
    names: String,
}

/// Each item once, in the order in which they come first.
pub fn distinct<T: PartialEq>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen = Vec::new();
    for item in items {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Says that `name` is not the name of a `what`, and which names are.
pub fn unknown<'a>(what: &str, name: &str, available: impl IntoIterator<Item = &'a str>) -> Unknown {
    let all = distinct(available);
    let shown = safe::shortened(name, LONGEST).replace(char::is_control, "\u{fffd}");
    let proposal = nearest(name, all.iter().copied());
    let more = if all.len() > MOST { ", …" } else { "" };
    Unknown(Box::new(Message {
        unknown: format!("Unknown {what} `{shown}`"),
        place: String::new(),
        proposal: proposal.map_or(String::new(), |name| format!(" Did you mean `{name}`?")),
        names: match &all[..all.len().min(MOST)] {
            [] => "There are none.".into(),
            names => format!("Available: {}{more}", names.join(", ")),
        },
    }))
}

/// The item of that name.
///
/// # Errors
/// Where no item has it.
pub fn find<'a, T>(
    what: &str,
    name: &str,
    items: impl IntoIterator<Item = T, IntoIter: Clone>,
    id: impl Fn(&T) -> &'a str,
) -> Result<T, Unknown> {
    let items = items.into_iter();
    let ids = items.clone().map(|item| id(&item));
    items.clone().find(|item| id(item) == name).ok_or_else(|| unknown(what, name, ids))
}

/// The word that is most similar to a mistyped one, where any is similar.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = wrong.to_lowercase();
    words
        .into_iter()
        .map(|word| (similarity(&wrong, &word.to_lowercase()), word))
        .filter(|(similarity, _)| *similarity > NEAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}

fn similarity(wrong: &str, word: &str) -> f64 {
    // A part of a name counts as near: `speed` for `cpu_speed`.
    let part = wrong.len() >= 3 && word.contains(wrong);
    strsim::jaro_winkler(wrong, word).max(if part { PART } else { 0.0 })
}

impl Unknown {
    /// Adds where the name was looked up: `of workload tree`, `in run 2026…`.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Unknown {
        self.0.place = format!(" {place}");
        self
    }

    /// Names the command that lists all names, instead of the names.
    #[must_use]
    pub fn list(mut self, command: &'static str) -> Unknown {
        self.0.names = format!("List them: {command}");
        self
    }
}

impl Exits for Unknown {
    fn exit_code(&self) -> ExitCode {
        ExitCode::Usage
    }
}

impl From<Unknown> for String {
    fn from(unknown: Unknown) -> String {
        unknown.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_word_is_proposed_and_a_far_one_is_not() {
        assert_eq!(nearest("drvier", ["driver", "tree"]), Some("driver"));
        assert_eq!(nearest("EXT4", ["xfs", "ext4"]), Some("ext4"));
        assert_eq!(nearest("speed", ["cpus", "cpu_speed"]), Some("cpu_speed"));
        assert_eq!(nearest("xyzzy", ["driver", "tree"]), None);
    }

    #[test]
    fn a_message_names_the_nearest_and_all_or_how_to_list_them() {
        let typo = unknown("workload", "tre", ["coreutils", "tree", "tree"]);
        assert_eq!(
            typo.to_string(),
            "Unknown workload `tre`. Did you mean `tree`? Available: coreutils, tree"
        );
        let listed = unknown("metric", "x", ["elapsed"]).at("in run 1").list("fsarena list metrics");
        assert_eq!(listed.to_string(), "Unknown metric `x` in run 1. List them: fsarena list metrics");
        assert_eq!(unknown("run", "a\nb", []).to_string(), "Unknown run `a\u{fffd}b`. There are none.");
    }

    #[test]
    fn items_are_found_by_their_ids() {
        assert_eq!(find("number", "two", [(1, "one"), (2, "two")], |(_, id)| id).unwrap().0, 2);
        assert!(find("number", "tow", [(1, "one"), (2, "two")], |(_, id)| id).is_err());
    }
}
