//! The fairness lint: what makes the variants of a comparison unequal, why it matters, and what to do.

mod axes;

use crate::def::FsDef;
use crate::lifecycle::{self, VariantOptions};
use crate::{Error, filesystems};
use fsarena_core::cell::Variant;
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::factor;
use std::collections::BTreeMap;

/// The facts about one variant after its mount that the fairness rules check.
#[derive(Debug, Clone)]
pub struct VariantFacts {
    /// Its name.
    pub variant: String,
    /// Its filesystem.
    pub def: &'static FsDef,
    /// The options it was given.
    pub options: VariantOptions,
    /// The mount options as the kernel reports them; empty where they are not known.
    pub effective: String,
    /// Size of its device in bytes.
    pub size_bytes: u64,
    /// The features it was made with, as its tool prints them; empty where they are not known.
    pub features: String,
    /// The level of each factor that the variant has.
    pub levels: BTreeMap<String, String>,
}

/// How much of what was written survives a crash. Weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Durability {
    /// Neither journal, log nor copy on write.
    None,
    /// Metadata, but it may name blocks whose data never arrived.
    Writeback,
    /// Metadata, and data before it.
    Ordered,
    /// Data goes through the journal.
    Journal,
}

impl VariantFacts {
    /// The last mount option that the test knows decides, as with mount(8); the kernel's word before the
    /// user's.
    fn mounted_with<T>(&self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let last = |options: &str| options.split(',').rev().find_map(&meaning);
        last(&self.effective).or_else(|| last(&self.options.mount))
    }

    /// Whether an argument of mkfs contains the words.
    fn made_with(&self, words: &str) -> bool {
        self.options.mkfs.iter().any(|arg| arg.split(',').any(|part| part == words))
    }

    fn barriers(&self) -> bool {
        let told = self.mounted_with(|option| match option {
            "nobarrier" | "barrier=0" | "barrier=none" | "fsync_mode=nobarrier" => Some(false),
            "barrier" | "barrier=1" | "barrier=flush" => Some(true),
            _ => None,
        });
        told.unwrap_or(self.def.traits.barriers)
    }

    fn durability(&self) -> Durability {
        // A filesystem that lists its features without a journal has none, however it came to that.
        let listed = self.features.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
        let without = listed.is_some_and(|list| !list.split_whitespace().any(|f| f == "has_journal"));
        if !self.def.traits.crash_safe || without || self.made_with("^has_journal") {
            return Durability::None;
        }
        let told = self.mounted_with(|option| match option {
            "data=writeback" => Some(Durability::Writeback),
            "data=ordered" => Some(Durability::Ordered),
            "data=journal" => Some(Durability::Journal),
            _ => None,
        });
        told.unwrap_or(Durability::Ordered)
    }

    fn lazy_init(&self) -> bool {
        self.def.traits.lazy_init && !self.made_with("lazy_itable_init=0")
    }

    fn reflink(&self) -> bool {
        self.def.traits.reflink && !self.made_with("reflink=0") && !self.features.contains("reflink=0")
    }

    fn data_checksums(&self) -> bool {
        let told = self.mounted_with(|option| matches!(option, "nodatasum" | "nodatacow").then_some(false));
        told.unwrap_or(self.def.traits.data_checksums)
    }

    fn compression(&self) -> bool {
        let told = self.mounted_with(|option| match option.split('=').next() {
            Some("compress" | "compress-force") => {
                Some(!option.ends_with("=no") && !option.ends_with("=none"))
            }
            _ => None,
        });
        told.unwrap_or(self.def.traits.compression)
    }

    fn discards(&self) -> bool {
        let told = self.mounted_with(|option| match option {
            "discard" | "discard=async" | "discard=sync" => Some(true),
            "nodiscard" => Some(false),
            _ => None,
        });
        told.unwrap_or(false)
    }
}

/// Something that some variants do and others do not.
struct Rule {
    /// Whether it applies only to copies that clone files.
    of_clones: bool,
    /// Whether a variant does it.
    does: fn(&VariantFacts) -> bool,
    /// The difference and why it matters; follows the name of the variant.
    text: &'static str,
    /// What to do about it.
    fix: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        of_clones: false,
        does: |variant| !variant.barriers(),
        text: "does not flush the device's cache and others do: it looks faster wherever data must be synced, and a power cut may lose data that it reported as stored",
        fix: "mount it with barriers (`barrier=1` where the filesystem has it), or all variants without",
    },
    Rule {
        of_clones: false,
        does: VariantFacts::lazy_init,
        text: "leaves inode tables to be written after mount and others do not: its mkfs looks faster, and no task carries the rest of that work",
        fix: "use the option set `eager` for it",
    },
    Rule {
        of_clones: true,
        does: VariantFacts::reflink,
        text: "can copy a file by sharing its blocks and others cannot: a `cp` that clones moves no data",
        fix: "have copies made with `cp --reflink=never`, or make it without reflink where mkfs allows",
    },
    Rule {
        of_clones: false,
        does: VariantFacts::compression,
        text: "compresses file data and others do not: with compressible payloads it writes less, and pays in CPU time",
        fix: "use incompressible payloads, or mount all variants alike",
    },
    Rule {
        of_clones: false,
        does: VariantFacts::data_checksums,
        text: "keeps checksums of file data and others do not: it does more work and finds silent corruption",
        fix: "use the option set `nodatasum` if only speed matters",
    },
    Rule {
        of_clones: false,
        does: VariantFacts::discards,
        text: "discards freed blocks as it goes and others do not: its deletions cost more now and spare the device later",
        fix: "mount all variants with `discard`, or all with `nodiscard`; or withhold discard from the device",
    },
    Rule {
        of_clones: false,
        does: |variant| variant.options.journal.is_some(),
        text: "keeps its journal on a separate device and others do not: it uses a second device, and journal and data need not wait for each other",
        fix: "give all variants `journal=external` that can have it, or none",
    },
    Rule {
        of_clones: false,
        does: |variant| variant.options.raid.is_some(),
        text: "is spread over several devices and others are not: it uses more devices",
        fix: "use `raid` in no variant, or read the difference as the effect of several devices",
    },
];

/// Notes on everything that makes the comparison of these variants unfair.
///
/// That a filesystem can clone files matters only where the work lets its copies do so (`may_clone`).
pub fn lint(variants: &[VariantFacts], may_clone: bool) -> Vec<Note> {
    let mut notes = vec![];
    for rule in RULES.iter().filter(|rule| may_clone || !rule.of_clones) {
        let those: Vec<_> = variants.iter().filter(|variant| (rule.does)(variant)).collect();
        if those.len() < variants.len() {
            notes.extend(those.iter().map(|variant| note(variant, rule.text).fix(rule.fix)));
        }
    }
    notes.extend(durability(variants));
    notes.extend(weaker(variants));
    notes.extend(sizes(variants));
    notes.extend(axes::lint(variants));
    notes
}

fn note(variant: &VariantFacts, text: &str) -> Note {
    Note::new(NoteKind::Fairness, text).variant(&variant.variant)
}

type GivesUp = fn(&VariantFacts) -> bool;

/// What a variant can give up of the safety of data. Checksums count where the user gave up those that the filesystem keeps
/// by default: who compares filesystems knows which of them keep any.
const SAFETY: [(&str, GivesUp); 4] = [
    ("no journal, so an inconsistent filesystem after a crash", |one| one.durability() == Durability::None),
    ("stale data in files after a crash (data=writeback)", |one| one.durability() == Durability::Writeback),
    ("no flush of the device's cache, so synced data can be lost in a power cut", |one| !one.barriers()),
    ("no checksums of data", |one| one.def.traits.data_checksums && !one.data_checksums()),
];

/// What a variant gives up of the safety of data, as far as its options tell before it is made.
///
/// # Errors
/// Where its options are not those of its filesystem.
pub fn gives_up(variant: &Variant) -> Result<Vec<&'static str>, Error> {
    let def = filesystems::find(variant.level(factor::FS))?;
    let facts = VariantFacts {
        variant: variant.name.clone(),
        def,
        options: lifecycle::options(def, variant)?,
        effective: String::new(),
        size_bytes: 0,
        features: String::new(),
        levels: variant.levels.clone(),
    };
    Ok(SAFETY.into_iter().filter(|(_, gives_up)| gives_up(&facts)).map(|(words, _)| words).collect())
}

/// What variants give up of the safety of data that others of the run have.
fn weaker(variants: &[VariantFacts]) -> Vec<Note> {
    let given_up = |(words, gives_up): (&'static str, GivesUp)| {
        let those: Vec<_> = variants.iter().filter(|variant| gives_up(variant)).collect();
        let all = those.len() == variants.len();
        let note = |variant: &&VariantFacts| Note::new(NoteKind::Weaker, words).variant(&variant.variant);
        those.iter().filter(|_| !all).map(note).collect::<Vec<_>>()
    };
    SAFETY.into_iter().flat_map(given_up).collect()
}

fn durability(variants: &[VariantFacts]) -> Vec<Note> {
    let all: Vec<Durability> = variants.iter().map(VariantFacts::durability).collect();
    if all.iter().all(|durability| *durability == all[0]) {
        return vec![];
    }
    let said = |(variant, durability): (&VariantFacts, &Durability)| {
        match durability {
        Durability::None => Some(
            note(variant, "keeps no journal and others keep one: it writes less, and a crash can leave it inconsistent until fsck has run")
                .fix("compare it with variants without a journal (`no-journal` for ext4), or read it as the price of a journal"),
        ),
        Durability::Writeback => Some(
            note(variant, "does not order data before metadata (data=writeback) and others do: after a crash a file may hold stale blocks")
                .fix("mount it with data=ordered, or all variants that can with data=writeback"),
        ),
        Durability::Ordered => None,
        Durability::Journal => Some(
            note(variant, "writes file data through its journal (data=journal) and others do not: it writes data twice, and loses less of it")
                .fix("mount it with data=ordered, or read it as the price of that safety"),
        ),
    }
    };
    variants.iter().zip(&all).filter_map(said).collect()
}

fn sizes(variants: &[VariantFacts]) -> Option<Note> {
    let smallest = variants.iter().min_by_key(|variant| variant.size_bytes)?;
    let largest = variants.iter().max_by_key(|variant| variant.size_bytes)?;
    if smallest.size_bytes == largest.size_bytes {
        return None;
    }
    let mib = |variant: &VariantFacts| format!("{} ({} MiB)", variant.variant, variant.size_bytes >> 20);
    let text = format!(
        "the devices differ in size, from {} to {}: distances, allocation and the share in use differ with it",
        mib(smallest),
        mib(largest)
    );
    Some(Note::new(NoteKind::Fairness, text).fix("give one size for all with --size"))
}

#[cfg(test)]
mod tests;
