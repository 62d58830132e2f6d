//! The factor `age`: how a filesystem was used before the work of a cell begins.

use serde::{Deserialize, Serialize};

/// A way to age a filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Age {
    /// fsarena creates, deletes, overwrites and appends to files.
    Churn {
        /// The bytes written after the filesystem was filled, in hundredths of its size.
        percent: u32,
    },
    /// fsarena pulls the commits of a git repository one after the other.
    Git {
        /// The number of pulls.
        pulls: u32,
    },
    /// A command of the user.
    Command {
        /// How often it runs.
        runs: u32,
        /// The program and its arguments.
        #[serde(rename = "words")]
        argv: Vec<String>,
    },
}

/// The level of a filesystem that is not aged.
pub const NOT_AGED: &str = "none";
/// How to write a level.
const SYNTAX: &str = "`none`, `churn:3x`, `git:1000` or `command:10:'PROGRAM ARGUMENTS'`";
/// The most bytes that churn may write, as a multiple of the size of the filesystem. A typing error must not age for a year.
const MAX_CHURN_MULTIPLE: f64 = 1000.0;
/// The most git pulls of a level.
const MAX_PULLS: u32 = 100_000;
/// The most runs of a command of a level.
const MAX_RUNS: u32 = 10_000;

/// Parses a level. None for `none` or an empty level: a filesystem that is not aged.
///
/// # Errors
/// Another level; the message shows how to write one.
pub fn parse_age(level: &str) -> Result<Option<Age>, String> {
    if level == NOT_AGED {
        return Ok(None);
    }
    super::parse_level(level, "age", SYNTAX, parse_way_of_ageing)
}

fn parse_way_of_ageing(level: &str) -> Option<Age> {
    let parse_count = |text: &str, max: u32| text.parse().ok().filter(|count| (1..=max).contains(count));
    match level.split_once(':')? {
        ("churn", multiple) => {
            let multiple = multiple.strip_suffix('x')?.parse::<f64>().ok()?;
            let percent = (multiple * 100.0).round() as u32;
            ((0.01..=MAX_CHURN_MULTIPLE).contains(&multiple)).then_some(Age::Churn { percent })
        }
        ("git", pulls) => Some(Age::Git { pulls: parse_count(pulls, MAX_PULLS)? }),
        ("command", rest) => {
            // A number before the command is always a number of runs, also an invalid one.
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
            let (runs, command) = match rest.split_once(':').filter(|(runs, _)| is_number(runs)) {
                Some((runs, command)) => (parse_count(runs, MAX_RUNS)?, command),
                None => (1, rest),
            };
            let argv = split_words(command)?;
            (!argv.is_empty()).then_some(Age::Command { runs, argv })
        }
        _ => None,
    }
}

/// The words of a command, split at blanks outside single or double quotes. None if a quote is not closed.
fn split_words(text: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for letter in text.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_churn_pulls_or_a_command() {
        assert_eq!([parse_age(""), parse_age("none")], [Ok(None), Ok(None)]);
        assert_eq!(parse_age("churn:3x"), Ok(Some(Age::Churn { percent: 300 })));
        assert_eq!(parse_age("churn:0.25x"), Ok(Some(Age::Churn { percent: 25 })));
        assert_eq!(parse_age("git:1000"), Ok(Some(Age::Git { pulls: 1000 })));
        let command = |runs, words: &[&str]| {
            Ok(Some(Age::Command { runs, argv: words.iter().map(|word| word.to_string()).collect() }))
        };
        assert_eq!(parse_age("command:10:age 'a b' c\"d\""), command(10, &["age", "a b", "cd"]));
        assert_eq!(parse_age("command:/bin/a:b ''"), command(1, &["/bin/a:b", ""]));
        for wrong in ["churn", "churn:3", "churn:0x", "churn:NaNx", "git:0", "git:x", "command:", "command:'a"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
        for wrong_runs in ["command:0:sync", "command:10001:sync", "command:99999999999:sync"] {
            assert!(parse_age(wrong_runs).is_err(), "{wrong_runs}");
        }
    }
}
