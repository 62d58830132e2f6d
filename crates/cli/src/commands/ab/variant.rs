//! The levels of one side: `fs=ext4,mount=noatime,nodiratime`.

use fsarena_core::names::unknown;
use fsarena_run::axes;
use std::collections::BTreeMap;

/// The level of each factor that a side names.
pub type Levels = BTreeMap<String, String>;

/// Reads `factor=level,…`. A level goes on over commas until the next `factor=`. In quotes, single or double,
/// a comma is part of the level whatever follows; a backslash is nothing special.
pub fn parse(text: &str) -> Result<Levels, String> {
    let mut levels = Levels::new();
    let mut open: Option<String> = None;
    let factors = axes::factors();
    for piece in pieces(text)? {
        let named = piece.head.as_deref().filter(|id| factors.iter().any(|factor| factor.id == *id));
        match (named, &open) {
            (Some(id), _) => {
                if levels.insert(id.to_string(), piece.level).is_some() {
                    return Err(format!("`{id}` is given twice: a variant has one level of each factor"));
                }
                open = Some(id.to_string());
            }
            (None, Some(id)) => {
                let level = levels.get_mut(id).expect("open means that it is there");
                level.push(',');
                level.push_str(&piece.text);
            }
            (None, None) => return Err(fault(&piece)),
        }
    }
    Ok(levels)
}

fn fault(piece: &Piece) -> String {
    match &piece.head {
        Some(id) => unknown("factor", id, axes::factors().iter().map(|factor| factor.id)).into(),
        None => {
            format!("write `factor=level` instead of `{}` (list factors: fsarena list factors)", piece.text)
        }
    }
}

/// What stands between two commas, without its quotes.
struct Piece {
    /// All of it.
    text: String,
    /// What stands before the first `=` that is not in quotes.
    head: Option<String>,
    /// What stands behind that.
    level: String,
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut piece, mut equals, mut quote) = (String::new(), None, None);
    let finish = |piece: &mut String, equals: &mut Option<usize>| {
        let text = std::mem::take(piece);
        let split = equals.take().map(|at: usize| (text[..at].to_string(), text[at + 1..].to_string()));
        let (head, level) = split.map_or((None, String::new()), |(head, level)| (Some(head), level));
        Piece { text, head, level }
    };
    for c in text.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (',', None) => pieces.push(finish(&mut piece, &mut equals)),
            _ => {
                if c == '=' && quote.is_none() && equals.is_none() {
                    equals = Some(piece.len());
                }
                piece.push(c);
            }
        }
    }
    match quote {
        Some(quote) => Err(format!("the quote {quote} is not closed")),
        None => {
            pieces.push(finish(&mut piece, &mut equals));
            Ok(pieces)
        }
    }
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
