//! The levels of one side: `fs=ext4,mount=noatime,nodiratime`.

use fsarena_core::names::unknown;
use fsarena_run::axes;
use std::collections::BTreeMap;

/// The level of each factor that a side names.
pub type Levels = BTreeMap<String, String>;

/// Reads `factor=level,…`. A level goes on over commas until the next `factor=`. In quotes, single or double,
/// a comma is part of the level whatever follows; a backslash is nothing special.
pub fn parse(text: &str) -> Result<Levels, String> {
    let factors = axes::factors();
    let known = || factors.iter().map(|factor| factor.id);
    let words = |letters: &[Letter]| letters.iter().map(|(letter, _)| *letter).collect::<String>();
    let (mut levels, mut open) = (Levels::new(), None::<String>);
    for piece in unquoted(text)?.split(|letter| *letter == (',', false)) {
        let equals = piece.iter().position(|letter| *letter == ('=', false));
        let split = equals.map(|at| (words(&piece[..at]), words(&piece[at + 1..])));
        match (split, &open) {
            (Some((id, level)), _) if known().any(|factor| factor == id) => {
                if levels.insert(id.clone(), level).is_some() {
                    return Err(format!("`{id}` is given twice: a variant has one level of each factor"));
                }
                open = Some(id);
            }
            (_, Some(id)) => levels.entry(id.clone()).or_default().extend([",", &words(piece)]),
            (Some((id, _)), None) => return Err(unknown("factor", &id, known()).into()),
            (None, None) => {
                let text = words(piece);
                return Err(format!(
                    "write `factor=level` instead of `{text}` (list factors: fsarena list factors)"
                ));
            }
        }
    }
    Ok(levels)
}

/// A letter, and whether it stands in quotes.
type Letter = (char, bool);

/// The letters without the quotes.
fn unquoted(text: &str) -> Result<Vec<Letter>, String> {
    let (mut letters, mut quote) = (vec![], None);
    for letter in text.chars() {
        match quote {
            None if ['"', '\''].contains(&letter) => quote = Some(letter),
            Some(open) if open == letter => quote = None,
            _ => letters.push((letter, quote.is_some())),
        }
    }
    quote.map_or(Ok(letters), |quote| Err(format!("the quote {quote} is not closed")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().collect()
    }

    fn pair(id: &str, level: &str) -> (String, String) {
        (id.into(), level.into())
    }

    #[test]
    fn a_level_goes_on_to_the_next_factor() {
        assert_eq!(
            levels("fs=ext4,mount=noatime,nodiratime,mkfs=-O ^has_journal"),
            [pair("fs", "ext4"), pair("mkfs", "-O ^has_journal"), pair("mount", "noatime,nodiratime")]
        );
        assert_eq!(levels("mount=data=writeback,commit=60"), [pair("mount", "data=writeback,commit=60")]);
    }

    #[test]
    fn quotes_keep_what_looks_like_a_factor() {
        assert_eq!(levels("mount=\"ro,fs=x\",fs=xfs"), [pair("fs", "xfs"), pair("mount", "ro,fs=x")]);
        assert_eq!(levels("mount='a,b',fs=xfs"), [pair("fs", "xfs"), pair("mount", "a,b")]);
        assert_eq!(levels("fs=ext4,mount="), [pair("fs", "ext4"), pair("mount", "")]);
    }

    #[test]
    fn faults_say_what_would_be_right() {
        assert!(
            parse("fss=ext4")
                .unwrap_err()
                .contains("Unknown factor `fss`. Did you mean `fs`? Available: fs, options")
        );
        assert!(parse("ext4").unwrap_err().contains("write `factor=level` instead of `ext4`"));
        assert!(parse("").unwrap_err().contains("write `factor=level`"));
        assert!(parse("fs=a,fs=b").unwrap_err().contains("twice"));
        assert!(parse("mount=\"ro").unwrap_err().contains("not closed"));
    }
}
