//! Targets for plans, claims, arguments of mkfs, and mount options.

use crate::support::{assert_sensible_message, check_error};
use fsarena_core::claim::{Claim, parse_claims};
use fsarena_core::plan::file::PlanFile;
use fsarena_core::plan::resolve::{Overrides, Vocabulary, resolve};
use fsarena_core::plan::{ParsedPlan, Plan};
use fsarena_fs::{filesystems::FILESYSTEMS, grammar};
use fsarena_run::registry;
use fsarena_sys::kernel::SysRoot;
use std::sync::OnceLock;

/// The largest number of stages that are resolved of a plan. It bounds the time for one input.
const MAX_STAGES: usize = 3;

/// Parses a plan, and checks it and its first stages.
pub fn fuzz_plan(bytes: &[u8]) {
    let Some(parsed) = check_error(PlanFile::parse("plan.toml", bytes), bytes) else { return };
    check_resolved(&parsed, bytes);
    let stages = parsed.file.stages.iter().take(MAX_STAGES);
    stages.for_each(|stage| check_resolved(&parsed.of_stage(stage), bytes));
}

/// Resolves a plan, and checks that the resolved plan, as its run stores it, resolves to the same plan again.
fn check_resolved(parsed: &ParsedPlan, bytes: &[u8]) {
    let mut overrides = Overrides { fresh_seed: 1, ..Overrides::default() };
    // An error means that the plan erased a device. Resolving must still end with a plan or a sensible message.
    let _ = overrides.keep_devices_of(parsed);
    let Some(plan) = check_error(resolve(parsed, &overrides, vocabulary()), bytes) else { return };
    let text = toml::to_string(&plan).expect("a plan is TOML");
    assert_eq!(toml::from_str::<Plan>(&text).expect("a stored plan"), plan);
    let stored = PlanFile::parse("plan.toml", text.as_bytes()).expect("a stored plan");
    let mut overrides = Overrides::default();
    // Without the devices of the stored plan, the plan would differ.
    if overrides.keep_devices_of(&stored).is_ok() {
        let resolved_again =
            resolve(&stored, &overrides, vocabulary()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(toml::to_string(&resolved_again).expect("a plan is TOML"), text);
    }
}

/// The names that a plan can use on a machine with every filesystem.
fn vocabulary() -> &'static Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY.get_or_init(|| Vocabulary {
        available_filesystems: FILESYSTEMS.iter().map(|def| def.id.into()).collect(),
        ..registry::collect_vocabulary(&SysRoot::host(), None, &Overrides::default())
            .expect("the vocabulary of this machine")
    })
}

/// Parses a claim, and checks that its text form parses to the same claim.
pub fn fuzz_claim(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    check_error(parse_claims(text), bytes);
    match text.parse::<Claim>() {
        Err(error) => {
            assert!((1..=text.chars().count() + 1).contains(&error.column), "column {}", error.column);
            assert_sensible_message(&error, bytes);
        }
        Ok(claim) => {
            let parsed: Claim = claim.to_string().parse().expect("a claim as it is displayed");
            assert_eq!((&parsed.subject, &parsed.relation), (&claim.subject, &claim.relation));
            assert_eq!(parsed.average, claim.average);
            assert_eq!(parsed.to_string(), claim.to_string());
        }
    }
}

/// Checks the first line as arguments of mkfs, and the second line as mount options. No accepted input may name a second file:
/// each argument of mkfs must be an option or the value of an option, no word may have a slash, and no mount option may have a
/// key that names a device.
pub fn fuzz_filesystem_options(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (mkfs_line, mount_line) = text.split_once('\n').unwrap_or((text, ""));
    let words: Vec<String> = mkfs_line.split(' ').map(String::from).collect();
    for def in FILESYSTEMS {
        let Some(accepted) = check_error(grammar::check_mkfs_arguments(def, &words), bytes) else { continue };
        assert_harmless(&accepted);
        let accepted_again =
            grammar::check_mkfs_arguments(def, &accepted).expect("accepted arguments are accepted again");
        assert_eq!(accepted_again, accepted, "{}", def.id);
        for (index, word) in accepted.iter().enumerate() {
            let is_value = index > 0 && accepted[index - 1].starts_with('-') && !accepted[index - 1].contains('=');
            assert!(
                word.starts_with('-') || is_value,
                "mkfs of {} would use {word:?} of {accepted:?} as a file",
                def.id
            );
        }
    }
    let options: Vec<&str> = mount_line.split(',').collect();
    if check_error(grammar::check_mount_options(options.iter().copied()), bytes).is_some() {
        assert_harmless(&options);
        let names_a_file = |option: &&str| {
            let key = option.split_once('=').map_or("", |(key, _)| key);
            ["dev", "device", "dir", "file", "path"].iter().any(|end| key.ends_with(end)) || *option == "loop"
        };
        assert!(!options.iter().any(names_a_file), "{options:?}");
    }
}

/// Checks that no word is empty or has a character that is special in a shell or a path.
fn assert_harmless(words: &[impl AsRef<str>]) {
    let is_special =
        |letter: char| letter.is_whitespace() || letter.is_control() || "/~$*?'\"\\;&|<>()".contains(letter);
    let harmful = words.iter().find(|word| word.as_ref().contains(is_special) || word.as_ref().is_empty());
    assert!(harmful.is_none(), "{:?}", harmful.map(AsRef::as_ref));
}
