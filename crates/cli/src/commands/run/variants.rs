//! Variants on the command line (`--variant`, and `--a` and `--b` of `fsarena ab`), and the plans that compare them.

use crate::failure::{Failure, usage_error};
use fsarena_core::claim::{Claim, Quantity};
use fsarena_core::plan::file::Pairs;
use fsarena_core::plan::resolve::Overrides;
use fsarena_core::plan::{Backing, ParsedPlan, Plan, error::PlanError};
use fsarena_core::{factor, matrix, names::unknown_name};
use fsarena_run::RunError;
use fsarena_run::{axes, registry, work};
use std::collections::BTreeMap;
use toml::Spanned;

/// The level of each factor that the text of a variant names.
pub type Levels = BTreeMap<String, String>;

/// The key of a variant's own name among its levels.
pub const NAME_KEY: &str = "name";

/// Parses `factor=level,…`; a first word alone is the filesystem: `btrfs,options=compress-zstd`. A level extends over
/// commas to the next `factor=`. In single or double quotes a comma belongs to the level whatever follows it. A backslash
/// has no special meaning.
///
/// # Errors
/// An unknown or repeated factor, or an open quote.
pub fn parse_variant(text: &str) -> Result<Levels, String> {
    let factors = axes::all_factors();
    let mut levels = Levels::new();
    // The factor whose level a piece without `factor=` extends.
    let mut last_factor = None::<String>;
    for piece in remove_quotes(text)?.split(|letter| *letter == (',', false)) {
        let equals = piece.iter().position(|letter| *letter == ('=', false));
        if let Some(index) = equals {
            let (id, level) = (letters_to_text(&piece[..index]), letters_to_text(&piece[index + 1..]));
            if factor::check_name(&id, &factors).is_ok() {
                if levels.insert(id.clone(), level).is_some() {
                    return Err(format!("`{id}` is given twice: a variant has one level of each factor"));
                }
                last_factor = Some(id);
                continue;
            }
            if last_factor.is_none() {
                return Err(unknown_name("factor", &id, factors.iter().map(|factor| factor.id)).into());
            }
        }
        let text = letters_to_text(piece);
        if let Some(id) = &last_factor {
            levels.entry(id.clone()).or_default().extend([",", &text]);
        } else if levels.is_empty() && !text.is_empty() {
            levels.insert(factor::FS.into(), text);
        } else {
            return Err(format!("write `factor=level` instead of `{text}` (list factors: fsarena list factors)"));
        }
    }
    Ok(levels)
}

/// Splits levels at commas, except those in single or double quotes.
///
/// # Errors
/// An open quote.
pub fn split_levels(text: &str) -> Result<Vec<String>, String> {
    Ok(remove_quotes(text)?.split(|letter| *letter == (',', false)).map(letters_to_text).collect())
}

/// A letter, and whether it is inside quotes.
type Letter = (char, bool);

/// The letters as text.
fn letters_to_text(letters: &[Letter]) -> String {
    letters.iter().map(|(letter, _)| *letter).collect()
}

/// The letters of a text without the quotes around parts of it.
///
/// # Errors
/// A quote that is not closed.
fn remove_quotes(text: &str) -> Result<Vec<Letter>, String> {
    let (mut letters, mut quote) = (vec![], None);
    for letter in text.chars() {
        match quote {
            None if ['"', '\''].contains(&letter) => quote = Some(letter),
            Some(open) if open == letter => quote = None,
            _ => letters.push((letter, quote.is_some())),
        }
    }
    match quote {
        Some(quote) => Err(format!("the quote {quote} is not closed")),
        None => Ok(letters),
    }
}

/// The plan that compares variant A with variant B instead of its own variants. `gate_claims` returns the
/// claims of a gate, if there is one. A plan without a claim gets one for each main metric of the work: that
/// B is equivalent to A.
///
/// # Errors
/// Variants that cannot be compared, or a plan that cannot be resolved.
pub fn ab_plan(
    variants: &[Levels; 2],
    mut parsed_plan: ParsedPlan,
    mut overrides: Overrides,
    gate_claims: impl FnOnce(&Plan) -> Result<Vec<String>, Failure>,
) -> Result<Plan, Failure> {
    check_common_levels(variants, &overrides)?;
    replace_variants(variants, &mut parsed_plan, &mut overrides, "--a dir=PATH --b dir=PATH")?;
    let plan = resolve_plan(&parsed_plan, &overrides, "--a, --b")?;
    let gate_claims = gate_claims(&plan)?;
    overrides.has_gate = !gate_claims.is_empty();
    if plan.claims.is_empty() && gate_claims.is_empty() {
        overrides.claims = equivalence_claims(&plan);
    } else if gate_claims.is_empty() {
        return Ok(plan);
    }
    overrides.claims.extend(gate_claims);
    // The stopping rule depends on the claims, so the plan is resolved again.
    resolve_plan(&parsed_plan, &overrides, "--a, --b")
}

/// Checks that every factor which a flag sets for both variants has one level, and that neither variant sets it too.
fn check_common_levels(variants: &[Levels; 2], overrides: &Overrides) -> Result<(), Failure> {
    for (id, levels) in &overrides.factors {
        if variants.iter().any(|levels| levels.contains_key(id)) {
            return usage_error(format!(
                "--a or --b has its own {id}; leave out {id} there, or the flag for both variants"
            ));
        }
        if levels.len() > 1 {
            return usage_error(format!(
                "A and B have the same {id}, so name one level, or write --a {id}=… --b {id}=…"
            ));
        }
    }
    Ok(())
}

/// The plan that compares the variants of `--variant` instead of its own.
///
/// # Errors
/// Variants that cannot be compared, a factor that both a variant and another flag set, or a plan that cannot be resolved.
pub fn plan_of_variants(
    variants: &[Levels],
    mut parsed_plan: ParsedPlan,
    mut overrides: Overrides,
) -> Result<Plan, Failure> {
    for (id, _) in &overrides.factors {
        if variants.iter().any(|levels| levels.contains_key(id)) {
            let message = format!("a --variant has its own {id}; leave out one of them");
            return Err(PlanError::without_position(&format!("--{id}"), message).into());
        }
    }
    replace_variants(variants, &mut parsed_plan, &mut overrides, "--variant dir=PATH")?;
    resolve_plan(&parsed_plan, &overrides, "--variant")
}

/// Replaces the variants of a plan; `directory_example` shows in an error how to write variants that
/// are directories.
fn replace_variants(
    variants: &[Levels],
    parsed_plan: &mut ParsedPlan,
    overrides: &mut Overrides,
    directory_example: &str,
) -> Result<(), Failure> {
    let (has_backing_flag, paths) = (overrides.backing.is_some(), only_directories(variants)?);
    overrides.keep_devices_of(parsed_plan)?;
    // The directories of the variants replace those of a stored plan.
    if overrides.backing == Some(Backing::Dir) && (has_backing_flag || paths.is_none()) {
        return usage_error(format!("name each directory with its variant: {directory_example}, without --on"));
    }
    let file = &mut parsed_plan.file;
    file.factors.clear();
    // The claims of the plan are about its own variants; --claim is about these.
    file.claims.clear();
    file.stop.gate = None;
    if let Some(paths) = paths {
        file.variants.clear();
        overrides.backing = Some(Backing::Dir);
        overrides.factors = vec![(factor::DIR.into(), paths)];
    } else {
        file.variants = plan_entries(variants);
    }
    Ok(())
}

/// The claim that B is equivalent to A within the margin, for each main metric of the work.
fn equivalence_claims(plan: &Plan) -> Vec<String> {
    let variants = matrix::expand(plan);
    // 0.07 * 100 is not exactly 7 in binary floating point, hence the rounding.
    let percent = (plan.stop.margin() * 1e8).round() / 1e6;
    let mut claims = vec![];
    for metric in work::default_metrics_of_plan(plan) {
        let (a, b) = (&variants[0].name, &variants[1].name);
        claims.push(Claim::equality(Quantity::of_all(metric), b, a, Some(percent)).text);
    }
    claims
}

/// Resolves a plan whose variants come from the flags that `flags` names. An error about the variants names these flags.
fn resolve_plan(parsed_plan: &ParsedPlan, overrides: &Overrides, flags: &str) -> Result<Plan, Failure> {
    let mut plan = match registry::resolve(parsed_plan, overrides) {
        Ok(plan) => plan,
        // Line 1, column 1 is the place of the variants: see `plan_entries`.
        Err(RunError::PlanFile(PlanError { position: Some((1, 1)), message, .. })) => {
            return Err(PlanError::without_position(flags, message).into());
        }
        Err(error) => return Err(error.into()),
    };
    if overrides.backing != Some(Backing::Dir) {
        // Resolving fills in factors that the plan lacks; the variants name all that they have.
        plan.factors.clear();
    }
    Ok(plan)
}

/// The directories of the variants, if all variants are directories; None if none is.
fn only_directories(variants: &[Levels]) -> Result<Option<Vec<String>>, Failure> {
    let dirs: Vec<String> = variants.iter().filter_map(|levels| levels.get(factor::DIR).cloned()).collect();
    if dirs.is_empty() {
        return Ok(None);
    }
    if dirs.len() < variants.len() || variants.iter().any(|levels| levels.len() > 1) {
        return usage_error("a variant that is a directory has no other factor, and then all variants are directories");
    }
    Ok(Some(dirs))
}

/// The variants as entries of a plan file. They are in no text, so their place is line 1, column 1, where no other entry
/// can be at fault.
fn plan_entries(variants: &[Levels]) -> Vec<Pairs> {
    let pair = |(key, level)| (Spanned::new(0..0, key), Spanned::new(0..0, toml::Value::String(level)));
    let mut entries = vec![];
    for (levels, name) in variants.iter().zip(variant_names(variants)) {
        let mut levels = levels.clone();
        levels.insert(NAME_KEY.into(), name);
        entries.push(levels.into_iter().map(pair).collect());
    }
    entries
}

/// The names of variants: a variant without its own name is named by its levels, `ext4/^has_journal`. Equal names get
/// the suffixes `/a`, `/b` and so on.
fn variant_names(variants: &[Levels]) -> Vec<String> {
    let mut base_names = vec![];
    for levels in variants {
        if let Some(name) = levels.get(NAME_KEY) {
            base_names.push(name.clone());
            continue;
        }
        let named = levels.iter().filter(|(_, level)| !level.is_empty()).collect();
        let ordered = factor::sorted_for_names(named, |(id, _)| id);
        base_names.push(ordered.into_iter().map(|(_, level)| level.as_str()).collect::<Vec<_>>().join("/"));
    }
    let mut names = vec![];
    for (index, name) in base_names.iter().enumerate() {
        let equal_count = base_names.iter().filter(|other| *other == name).count();
        let equal_before = base_names[..index].iter().filter(|other| *other == name).count();
        names.push(match ('a'..='z').nth(equal_before) {
            Some(letter) if equal_count > 1 => format!("{name}/{letter}"),
            _ => name.clone(),
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_levels(text: &str) -> Vec<(String, String)> {
        parse_variant(text).unwrap().into_iter().collect()
    }

    fn pair(id: &str, level: &str) -> (String, String) {
        (id.into(), level.into())
    }

    #[test]
    fn a_level_extends_to_the_next_factor() {
        assert_eq!(
            parse_levels("fs=ext4,mount=noatime,nodiratime,mkfs=-O ^has_journal"),
            [pair("fs", "ext4"), pair("mkfs", "-O ^has_journal"), pair("mount", "noatime,nodiratime")]
        );
        assert_eq!(parse_levels("mount=data=writeback,commit=60"), [pair("mount", "data=writeback,commit=60")]);
        assert_eq!(parse_levels("fs=ext4,set.journal=wal"), [pair("fs", "ext4"), pair("set.journal", "wal")]);
    }

    #[test]
    fn text_in_quotes_is_never_a_factor() {
        assert_eq!(parse_levels("mount=\"ro,fs=x\",fs=xfs"), [pair("fs", "xfs"), pair("mount", "ro,fs=x")]);
        assert_eq!(parse_levels("mount='a,b',fs=xfs"), [pair("fs", "xfs"), pair("mount", "a,b")]);
        assert_eq!(parse_levels("fs=ext4,mount="), [pair("fs", "ext4"), pair("mount", "")]);
    }

    #[test]
    fn levels_split_at_commas_outside_quotes() {
        assert_eq!(split_levels(",\"a,b\",c").unwrap(), ["", "a,b", "c"]);
        assert!(split_levels("'a,b").unwrap_err().contains("not closed"));
    }

    #[test]
    fn a_first_word_alone_is_the_filesystem() {
        assert_eq!(parse_levels("ext4"), [pair("fs", "ext4")]);
        assert_eq!(parse_levels("btrfs,mount=a,b"), [pair("fs", "btrfs"), pair("mount", "a,b")]);
        assert!(parse_variant("ext4,fs=xfs").unwrap_err().contains("`fs` is given twice"));
    }

    #[test]
    fn errors_show_the_correct_form() {
        assert!(
            parse_variant("fss=ext4")
                .unwrap_err()
                .contains("Unknown factor `fss`. Did you mean `fs`? Available: fs, options")
        );
        assert!(parse_variant("ext4,noatime").unwrap_err().contains("write `factor=level` instead of `noatime`"));
        assert!(parse_variant("").unwrap_err().contains("write `factor=level`"));
        assert!(parse_variant("fs=a,fs=b").unwrap_err().contains("twice"));
        assert!(parse_variant("mount=\"ro").unwrap_err().contains("not closed"));
    }

    fn variant_pair(a: &str, b: &str) -> [Levels; 2] {
        [parse_variant(a).unwrap(), parse_variant(b).unwrap()]
    }

    #[test]
    fn variants_are_named_by_their_levels() {
        assert_eq!(variant_names(&variant_pair("fs=ext4", "fs=ext4,mkfs=^has_journal")), ["ext4", "ext4/^has_journal"]);
        assert_eq!(variant_names(&variant_pair("fs=ext4", "fs=ext4")), ["ext4/a", "ext4/b"]);
        let three = ["xfs", "ext4", "xfs"].map(|text| parse_variant(text).unwrap());
        assert_eq!(variant_names(&three), ["xfs/a", "ext4", "xfs/b"]);
    }

    #[test]
    fn a_directory_has_no_other_factor_and_no_other_kind_of_variant_beside_it() {
        assert!(only_directories(&variant_pair("dir=/a", "fs=ext4")).is_err());
        assert!(only_directories(&variant_pair("dir=/a,fs=ext4", "dir=/b")).is_err());
        assert_eq!(only_directories(&variant_pair("dir=/a", "dir=/b")).unwrap().unwrap(), ["/a", "/b"]);
    }
}
