//! What the options of a variant mean for the fairness of a comparison.

use crate::{def::FsDef, lifecycle::VariantOptions};
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
pub(super) enum Durability {
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

    /// Whether mount options turn something on or off; none of them where it is as the filesystem has it.
    fn turns(&self, on: &[&str], off: &[&str]) -> Option<bool> {
        self.mounted_with(|option| {
            on.contains(&option).then_some(true).or(off.contains(&option).then_some(false))
        })
    }

    /// Whether an argument of mkfs contains the words.
    fn made_with(&self, words: &str) -> bool {
        self.options.mkfs.iter().any(|arg| arg.split(',').any(|part| part == words))
    }

    pub(super) fn barriers(&self) -> bool {
        let without = ["nobarrier", "barrier=0", "barrier=none", "fsync_mode=nobarrier", "no_write_barrier"];
        self.turns(&["barrier", "barrier=1", "barrier=flush"], &without).unwrap_or(self.def.traits.barriers)
    }

    pub(super) fn durability(&self) -> Durability {
        // A filesystem that lists its features without a journal has none, however it came to that.
        let listed = self.features.lines().find_map(|line| line.strip_prefix("Filesystem features:"));
        let without = listed.is_some_and(|list| !list.split_whitespace().any(|f| f == "has_journal"));
        let unused = self.turns(&["nointegrity", "nolog"], &["integrity"]).unwrap_or(false);
        if !self.def.traits.crash_safe || without || unused || self.made_with("^has_journal") {
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

    pub(super) fn lazy_init(&self) -> bool {
        self.def.traits.lazy_init && !self.made_with("lazy_itable_init=0")
    }

    pub(super) fn reflink(&self) -> bool {
        self.def.traits.reflink && !self.made_with("reflink=0") && !self.features.contains("reflink=0")
    }

    pub(super) fn data_checksums(&self) -> bool {
        self.turns(&[], &["nodatasum", "nodatacow"]).unwrap_or(self.def.traits.data_checksums)
    }

    pub(super) fn compression(&self) -> bool {
        let told = self.mounted_with(|option| {
            let compresses = matches!(option.split('=').next(), Some("compress" | "compress-force"));
            compresses.then_some(!option.ends_with("=no") && !option.ends_with("=none"))
        });
        told.unwrap_or(self.def.traits.compression)
    }

    pub(super) fn discards(&self) -> bool {
        self.turns(&["discard", "discard=async", "discard=sync"], &["nodiscard"]).unwrap_or(false)
    }
}
