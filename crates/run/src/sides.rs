//! Two variants against each other: how people write them, and the plan that compares them.

use crate::executor::{Fatal, Result, require};
use crate::{axes, vocabulary, work};
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::file::Pairs;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, Plan, Written, error::PlanError};
use fsarena_core::{factor, matrix, names::unknown};
use std::collections::BTreeMap;
use toml::Spanned;

/// The level of each factor that a side names.
pub type Levels = BTreeMap<String, String>;

/// Both sides.
pub type Sides = [Levels; 2];

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
            (Some((id, level)), _) if factor::check_name(&id, &factors).is_ok() => {
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

/// The written plan with these two variants in place of those that it names. Without a claim, B is claimed to be equivalent
/// to A, by each main metric of the work.
///
/// # Errors
/// Sides that cannot be compared, or a plan that cannot be resolved.
pub fn plan(sides: &Sides, mut written: Written, mut over: Overrides) -> Result<Plan> {
    over.where_it_ran(&written)?;
    require(over.backing != Some(Backing::Dir), || {
        Fatal::Plan("directories are sides here: --a dir=PATH --b dir=PATH, without --on".into())
    })?;
    let file = &mut written.file;
    file.factors.clear();
    // They speak of the plan's own variants; of these sides, --claim does.
    file.claims.clear();
    match directories(sides)? {
        Some(paths) => {
            file.variants.clear();
            over.backing = Some(Backing::Dir);
            over.factors = vec![(factor::DIR.into(), paths)];
        }
        None => file.variants = variants(sides),
    }
    let plan = resolved(&written, &over)?;
    if !plan.claims.is_empty() {
        return Ok(plan);
    }
    // Who claims nothing has a question all the same; how long to go on depends on it.
    over.claims = question(&plan);
    resolved(&written, &over)
}

/// Whether B is the same as A within the margin, by each main metric of the work.
fn question(plan: &Plan) -> Vec<String> {
    let variants = matrix::expand(plan);
    // 0.07 * 100 is not exactly 7 in binary floating point, hence the rounding.
    let percent = (plan.stop.margin() * 1e8).round() / 1e6;
    let same =
        |metric| Claim::same(Quantity::of_all(metric), &variants[1].name, &variants[0].name, Some(percent));
    work::metrics(plan).into_iter().map(|metric| same(metric).text).collect()
}

fn resolved(written: &Written, over: &Overrides) -> Result<Plan> {
    let mut plan = vocabulary::resolve(written, over).map_err(|error| match error {
        // The very beginning of the text is the place of the sides: see `variants`.
        Fatal::File(PlanError { at: Some((1, 1)), message, .. }) => {
            PlanError::flag("--a, --b", message).into()
        }
        error => error,
    })?;
    if over.backing != Some(Backing::Dir) {
        // Filled in where a plan says nothing; here the sides say all.
        plan.factors.clear();
    }
    Ok(plan)
}

/// The two directories, where the sides are directories as they are.
fn directories(sides: &Sides) -> Result<Option<Vec<String>>> {
    let dirs: Vec<String> = sides.iter().filter_map(|side| side.get(factor::DIR).cloned()).collect();
    let alone = dirs.len() == 2 && sides.iter().all(|side| side.len() == 1);
    require(dirs.is_empty() || alone, || {
        Fatal::Plan("a side that is a directory has no other factor, and both sides are directories".into())
    })?;
    Ok((!dirs.is_empty()).then_some(dirs))
}

/// The sides as a plan would have them. They are not in its text: their place is its very beginning, where
/// nothing else can be at fault.
fn variants(sides: &Sides) -> Vec<Pairs> {
    let spanned = |key: &str, value: &str| {
        (Spanned::new(0..0, key.to_string()), Spanned::new(0..0, toml::Value::String(value.into())))
    };
    sides
        .iter()
        .zip(names(sides))
        .map(|(side, name)| {
            let levels = side.iter().map(|(key, level)| spanned(key, level));
            levels.chain([spanned("name", &name)]).collect()
        })
        .collect()
}

/// Names each variant by its levels: `ext4`, `ext4/^has_journal`. Equal variants get the suffixes `/a` and `/b`.
fn names(sides: &Sides) -> [String; 2] {
    let name = |side: &Levels| {
        let levels =
            factor::in_order(side.iter().filter(|(_, level)| !level.is_empty()).collect(), |(id, _)| id);
        levels.into_iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join("/")
    };
    match [name(&sides[0]), name(&sides[1])] {
        [a, b] if a == b => [format!("{a}/a"), format!("{b}/b")],
        names => names,
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
        assert_eq!(levels("fs=ext4,set.journal=wal"), [pair("fs", "ext4"), pair("set.journal", "wal")]);
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

    fn sides(a: &str, b: &str) -> Sides {
        [parse(a).unwrap(), parse(b).unwrap()]
    }

    #[test]
    fn sides_are_named_by_their_levels() {
        assert_eq!(names(&sides("fs=ext4", "fs=ext4,mkfs=^has_journal")), ["ext4", "ext4/^has_journal"]);
        assert_eq!(names(&sides("fs=ext4", "fs=ext4")), ["ext4/a", "ext4/b"]);
    }

    #[test]
    fn directories_stand_alone() {
        assert!(directories(&sides("dir=/a", "fs=ext4")).is_err());
        assert!(directories(&sides("dir=/a,fs=ext4", "dir=/b")).is_err());
        assert_eq!(directories(&sides("dir=/a", "dir=/b")).unwrap().unwrap(), ["/a", "/b"]);
    }
}
