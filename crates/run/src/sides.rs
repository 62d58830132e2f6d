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

/// Reads `factor=level,…`; a first word alone is the filesystem: `btrfs,options=compress-zstd`. A level goes on over commas
/// until the next `factor=`. In quotes, single or double, a comma is part of the level whatever follows; a backslash is
/// nothing special.
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
            (None, None) if levels.is_empty() && !piece.is_empty() => {
                levels.insert(factor::FS.into(), words(piece));
            }
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

/// The written plan with the sides A and B in place of the variants that it names. Without a claim, B is claimed to be
/// equivalent to A, by each main metric of the work.
///
/// # Errors
/// Sides that cannot be compared, or a plan that cannot be resolved.
pub fn plan(sides: &Sides, mut written: Written, mut over: Overrides) -> Result<Plan> {
    place(sides, &mut written, &mut over, "--a dir=PATH --b dir=PATH")?;
    let plan = resolved(&written, &over, "--a, --b")?;
    if !plan.claims.is_empty() {
        return Ok(plan);
    }
    // Who claims nothing has a question all the same; how long to go on depends on it.
    over.claims = question(&plan);
    resolved(&written, &over, "--a, --b")
}

/// The written plan with the variants of `--variant` in place of those that it names.
///
/// # Errors
/// Variants that cannot be compared, a factor that both a variant and another flag set, or a plan that cannot be resolved.
pub fn plan_of_variants(variants: &[Levels], mut written: Written, mut over: Overrides) -> Result<Plan> {
    for (id, _) in &over.factors {
        let message = format!("a --variant has its own {id}; leave out one of them");
        require(!variants.iter().any(|levels| levels.contains_key(id)), || {
            PlanError::flag(&format!("--{id}"), message).into()
        })?;
    }
    place(variants, &mut written, &mut over, "--variant dir=PATH")?;
    resolved(&written, &over, "--variant")
}

/// Puts variants in place of those that a plan names; `directories` is how to write variants that are directories.
fn place(variants: &[Levels], written: &mut Written, over: &mut Overrides, directories: &str) -> Result<()> {
    over.where_it_ran(written)?;
    require(over.backing != Some(Backing::Dir), || {
        Fatal::Plan(format!("name each directory with its variant: {directories}, without --on"))
    })?;
    let file = &mut written.file;
    file.factors.clear();
    // They speak of the plan's own variants; of these, --claim does.
    file.claims.clear();
    match self::directories(variants)? {
        Some(paths) => {
            file.variants.clear();
            over.backing = Some(Backing::Dir);
            over.factors = vec![(factor::DIR.into(), paths)];
        }
        None => file.variants = self::variants(variants),
    }
    Ok(())
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

/// The plan whose variants are those of these flags.
fn resolved(written: &Written, over: &Overrides, flags: &str) -> Result<Plan> {
    let mut plan = vocabulary::resolve(written, over).map_err(|error| match error {
        // The very beginning of the text is the place of the variants: see `variants`.
        Fatal::File(PlanError { at: Some((1, 1)), message, .. }) => PlanError::flag(flags, message).into(),
        error => error,
    })?;
    if over.backing != Some(Backing::Dir) {
        // Filled in where a plan says nothing; here the sides say all.
        plan.factors.clear();
    }
    Ok(plan)
}

/// The directories, where the variants are directories as they are.
fn directories(variants: &[Levels]) -> Result<Option<Vec<String>>> {
    let dirs: Vec<String> = variants.iter().filter_map(|one| one.get(factor::DIR).cloned()).collect();
    let alone = dirs.len() == variants.len() && variants.iter().all(|one| one.len() == 1);
    require(dirs.is_empty() || alone, || {
        Fatal::Plan(
            "a variant that is a directory has no other factor, and then all variants are directories".into(),
        )
    })?;
    Ok((!dirs.is_empty()).then_some(dirs))
}

/// The variants as a plan would have them. They are not in its text: their place is its very beginning, where
/// nothing else can be at fault.
fn variants(variants: &[Levels]) -> Vec<Pairs> {
    let spanned = |key: &str, value: &str| {
        (Spanned::new(0..0, key.to_string()), Spanned::new(0..0, toml::Value::String(value.into())))
    };
    let pairs = |(one, name): (&Levels, String)| {
        let levels = one.iter().map(|(key, level)| spanned(key, level));
        levels.chain([spanned("name", &name)]).collect()
    };
    variants.iter().zip(names(variants)).map(pairs).collect()
}

/// Names each variant by its levels: `ext4`, `ext4/^has_journal`. Equal ones get the suffixes `/a`, `/b`, … .
fn names(variants: &[Levels]) -> Vec<String> {
    let name = |one: &Levels| {
        let levels =
            factor::in_order(one.iter().filter(|(_, level)| !level.is_empty()).collect(), |(id, _)| id);
        levels.into_iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join("/")
    };
    let plain: Vec<String> = variants.iter().map(name).collect();
    let lettered = |(at, name): (usize, &String)| {
        let before = plain[..at].iter().filter(|other| *other == name).count();
        let equal = plain.iter().filter(|other| *other == name).count();
        match (equal, ('a'..='z').nth(before)) {
            (2.., Some(letter)) => format!("{name}/{letter}"),
            _ => name.clone(),
        }
    };
    plain.iter().enumerate().map(lettered).collect()
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
    fn a_first_word_alone_is_the_filesystem() {
        assert_eq!(levels("ext4"), [pair("fs", "ext4")]);
        assert_eq!(levels("btrfs,mount=a,b"), [pair("fs", "btrfs"), pair("mount", "a,b")]);
        assert!(parse("ext4,fs=xfs").unwrap_err().contains("`fs` is given twice"));
    }

    #[test]
    fn faults_say_what_would_be_right() {
        assert!(
            parse("fss=ext4")
                .unwrap_err()
                .contains("Unknown factor `fss`. Did you mean `fs`? Available: fs, options")
        );
        assert!(parse("ext4,noatime").unwrap_err().contains("write `factor=level` instead of `noatime`"));
        assert!(parse("").unwrap_err().contains("write `factor=level`"));
        assert!(parse("fs=a,fs=b").unwrap_err().contains("twice"));
        assert!(parse("mount=\"ro").unwrap_err().contains("not closed"));
    }

    fn sides(a: &str, b: &str) -> Sides {
        [parse(a).unwrap(), parse(b).unwrap()]
    }

    #[test]
    fn variants_are_named_by_their_levels() {
        assert_eq!(names(&sides("fs=ext4", "fs=ext4,mkfs=^has_journal")), ["ext4", "ext4/^has_journal"]);
        assert_eq!(names(&sides("fs=ext4", "fs=ext4")), ["ext4/a", "ext4/b"]);
        let three = ["xfs", "ext4", "xfs"].map(|text| parse(text).unwrap());
        assert_eq!(names(&three), ["xfs/a", "ext4", "xfs/b"]);
    }

    #[test]
    fn directories_stand_alone() {
        assert!(directories(&sides("dir=/a", "fs=ext4")).is_err());
        assert!(directories(&sides("dir=/a,fs=ext4", "dir=/b")).is_err());
        assert_eq!(directories(&sides("dir=/a", "dir=/b")).unwrap().unwrap(), ["/a", "/b"]);
    }
}
