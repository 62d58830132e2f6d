//! The fairness lint: what makes the arms of a comparison unequal, why it matters, and what to do.

mod axes;

use crate::def::FsDef;
use crate::lifecycle::ArmOptions;
use fsarena_core::event::{Note, NoteKind};
use std::collections::BTreeMap;

/// What is known of one arm once its filesystem is mounted.
#[derive(Debug, Clone)]
pub struct ArmFacts {
    /// Its name.
    pub arm: String,
    /// Its filesystem.
    pub def: &'static FsDef,
    /// The options it was given.
    pub options: ArmOptions,
    /// The mount options as the kernel reports them; empty where they are not known.
    pub effective: String,
    /// Size of its device in bytes.
    pub size_bytes: u64,
    /// The features it was made with, as its tool prints them; empty where they are not known.
    pub features: String,
    /// The level of each factor that the arm has.
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

impl ArmFacts {
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

/// Something that some arms do and others do not.
struct Rule {
    /// Whether it is about copies that clone.
    of_clones: bool,
    /// Whether an arm does it.
    does: fn(&ArmFacts) -> bool,
    /// What it does, and why that matters; follows the name of the arm.
    text: &'static str,
    /// What to do about it.
    fix: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        of_clones: false,
        does: |arm| !arm.barriers(),
        text: "does not flush the device's cache and others do: it looks faster wherever data must be durable, and a power cut may lose what it said was stored",
        fix: "mount it with barriers (`barrier=1` where the filesystem has it), or all arms without",
    },
    Rule {
        of_clones: false,
        does: ArmFacts::lazy_init,
        text: "leaves inode tables to be written after mount and others do not: its mkfs looks faster, and its first minutes carry the rest of that work",
        fix: "use the option set `eager` for it",
    },
    Rule {
        of_clones: true,
        does: ArmFacts::reflink,
        text: "can copy a file by sharing its blocks and others cannot: a `cp` that clones moves no data",
        fix: "have copies made with `cp --reflink=never`, or make it without reflink where mkfs allows",
    },
    Rule {
        of_clones: false,
        does: ArmFacts::compression,
        text: "compresses file data and others do not: with compressible payloads it writes less, and pays in CPU time",
        fix: "use incompressible payloads, or mount all arms alike",
    },
    Rule {
        of_clones: false,
        does: ArmFacts::data_checksums,
        text: "keeps checksums of file data and others do not: it does more work and finds silent corruption",
        fix: "use the option set `nodatasum` if only speed is asked for",
    },
    Rule {
        of_clones: false,
        does: ArmFacts::discards,
        text: "discards freed blocks as it goes and others do not: its deletions cost more now and spare the device later",
        fix: "mount all arms with `discard`, or all with `nodiscard`; or withhold discard from the device",
    },
    Rule {
        of_clones: false,
        does: |arm| arm.options.journal.is_some(),
        text: "keeps its journal on a device of its own and others do not: it has a second device to itself, and journal and data need not wait for each other",
        fix: "give all arms `journal=external` that can have it, or none",
    },
    Rule {
        of_clones: false,
        does: |arm| arm.options.raid.is_some(),
        text: "is spread over several devices and others are not: it has more device to itself",
        fix: "give no arm `raid`, or read it as what several devices bring",
    },
];

/// Everything that makes these arms unequal. Nothing where they are equal.
///
/// That a filesystem can clone files matters only where the work lets its copies do so (`may_clone`).
pub fn lint(arms: &[ArmFacts], may_clone: bool) -> Vec<Note> {
    let mut notes = vec![];
    for rule in RULES.iter().filter(|rule| may_clone || !rule.of_clones) {
        let those: Vec<_> = arms.iter().filter(|arm| (rule.does)(arm)).collect();
        if those.len() < arms.len() {
            notes.extend(those.iter().map(|arm| note(arm, rule.text).fix(rule.fix)));
        }
    }
    notes.extend(durability(arms));
    notes.extend(sizes(arms));
    notes.extend(axes::lint(arms));
    notes
}

fn note(arm: &ArmFacts, text: &str) -> Note {
    Note::new(NoteKind::Fairness, text).arm(&arm.arm)
}

fn durability(arms: &[ArmFacts]) -> Vec<Note> {
    let all: Vec<Durability> = arms.iter().map(ArmFacts::durability).collect();
    if all.iter().all(|durability| *durability == all[0]) {
        return vec![];
    }
    let said = |(arm, durability): (&ArmFacts, &Durability)| {
        match durability {
        Durability::None => Some(
            note(arm, "keeps no journal and others keep one: it writes less, and a crash can leave it inconsistent until fsck has run")
                .fix("compare it with arms without a journal (`no-journal` for ext4), or read it as the price of a journal"),
        ),
        Durability::Writeback => Some(
            note(arm, "does not order data before metadata (data=writeback) and others do: after a crash a file may hold stale blocks")
                .fix("mount it with data=ordered, or all arms that can with data=writeback"),
        ),
        Durability::Ordered => None,
        Durability::Journal => Some(
            note(arm, "writes file data through its journal (data=journal) and others do not: it writes data twice, and loses less of it")
                .fix("mount it with data=ordered, or read it as the price of that safety"),
        ),
    }
    };
    arms.iter().zip(&all).filter_map(said).collect()
}

fn sizes(arms: &[ArmFacts]) -> Option<Note> {
    let smallest = arms.iter().min_by_key(|arm| arm.size_bytes)?;
    let largest = arms.iter().max_by_key(|arm| arm.size_bytes)?;
    if smallest.size_bytes == largest.size_bytes {
        return None;
    }
    let mib = |arm: &ArmFacts| format!("{} ({} MiB)", arm.arm, arm.size_bytes >> 20);
    let text = format!(
        "the devices differ in size, from {} to {}: distances, allocation and the share in use differ with it",
        mib(smallest),
        mib(largest)
    );
    Some(Note::new(NoteKind::Fairness, text).fix("give one size for all with --size"))
}

#[cfg(test)]
mod tests;
