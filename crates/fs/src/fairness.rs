//! The fairness lint: notes on differences between variants that make their comparison unfair, with a remedy for each.

use crate::lifecycle::{self, VariantOptions};
use crate::{Error, def::FsDef, filesystems};
use fsarena_core::event::{Note, NoteKind};
use fsarena_core::setting_text::setting;
use fsarena_core::{cell::Variant, factor};
use std::collections::{BTreeMap, BTreeSet};

/// A behaviour that is unfair if some variants have it and others do not.
struct Rule {
    /// Whether a variant has the behaviour. The second argument is whether the workload may clone files when it copies them.
    applies: fn(&VariantFacts, bool) -> bool,
    /// The text after the name of the variant: the difference and its effect.
    text: &'static str,
    /// The remedy.
    fix: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        applies: |variant, _| variant.def.traits.volatile,
        text: "keeps its files in memory, while other variants keep them on a device: a sync does nothing, no task starts with a cold cache (a new mount would lose all files), and its files take memory that other variants use as page cache",
        fix: "read it as the ceiling of what the work can reach, not as a choice",
    },
    Rule {
        applies: |variant, _| variant.def.traits.read_only,
        text: "is read-only and was packed by its mkfs, others hold files that were written one by one: its files lie in the order of packing, without free space between them",
        fix: "read the difference as the price of a filesystem that can be written to, or compare read-only ones alone",
    },
    Rule {
        applies: |variant, _| variant.keeps_files_on_device() && !variant.uses_barriers(),
        text: "does not flush the device's cache and others do: it looks faster wherever data must be synced, and a power cut may lose data that it reported as stored",
        fix: "mount it with barriers (`barrier=1` where the filesystem has it), or all variants without",
    },
    Rule {
        applies: |variant, _| variant.has_lazy_init(),
        text: "leaves inode tables to be written after the timed mkfs (by a second mkfs that is not timed, or by the kernel), unlike others: its mkfs looks faster, and no task includes that time",
        fix: "use the option set `eager` for it",
    },
    Rule {
        applies: |variant, may_clone| may_clone && variant.supports_reflink(),
        text: "can copy a file by sharing its blocks and others cannot: a `cp` that clones moves no data",
        fix: "copy with `cp --reflink=never`, or make the filesystem without reflink if its mkfs can",
    },
    Rule {
        applies: |variant, _| variant.compresses(),
        text: "compresses file data and others do not: with compressible payloads it writes less, and pays in CPU time",
        fix: "use incompressible payloads, or mount all variants alike",
    },
    Rule {
        applies: |variant, _| variant.has_data_checksums(),
        text: "keeps checksums of file data and others do not: it does more work and finds silent corruption",
        fix: "use an option set without them (`nodatasum`, `no-checksums`) if only speed matters",
    },
    Rule {
        applies: |variant, _| variant.def.pool.is_some(),
        text: "caches file data in memory of its own, and others use the page cache: a limit of memory does not bound this cache, only its own limit does; to empty it, fsarena exports and imports the pool, and the times of mount and unmount include that; a sync writes data only to the log, and the bytes written lack the second write, to the final place, which comes after the task",
        fix: "read warm figures as those of two caches, and give all variants the same memory (`memory`)",
    },
    Rule {
        applies: |variant, _| variant.discards_freed_blocks(),
        text: "discards freed blocks as it goes and others do not: its deletions cost more now and spare the device later",
        fix: "mount all variants with `discard`, or all with `nodiscard`; or withhold discard from the device",
    },
    Rule {
        applies: |variant, _| variant.options.journal.is_some(),
        text: "keeps its journal on a separate device and others do not: it uses a second device, and journal and data need not wait for each other",
        fix: "give all variants `journal=external` that can have it, or none",
    },
    Rule {
        applies: |variant, _| variant.options.raid.is_some(),
        text: "is spread over several devices and others are not: it uses more devices",
        fix: "use `raid` in no variant, or read the difference as the effect of several devices",
    },
    Rule {
        applies: |variant, _| variant.has_level_of(factor::LAYER),
        text: "works through a layer over its filesystem and others do not: every call takes the way through both",
        fix: "read the difference as the cost of the layer, or give all variants the same `layer`",
    },
    Rule {
        applies: |variant, _| variant.has_level_of(factor::FILL),
        text: "is full of other files and others are not: its allocator searches longer, and its directories and bitmaps are larger",
        fix: "read the difference as the cost of a full filesystem, or give all variants the same `fill`",
    },
    Rule {
        applies: |variant, _| variant.has_level_of(factor::STACK),
        text: "lies on a device that transforms or copies what is written and others do not: its requests take more CPU time, and can become more",
        fix: "read the difference as the cost of the stack, or give all variants the same `stack`",
    },
];

/// Returns notes on everything that makes the comparison of these variants unfair. `may_clone` is whether the workload
/// may clone files when it copies them; only then a filesystem that can clone has an advantage. A variant with a level
/// of a factor in `single_factors` differs from another variant in this factor only, so these factors need no check for
/// confounding.
pub fn lint(variants: &[VariantFacts], may_clone: bool, single_factors: &[&str]) -> Vec<Note> {
    let mut notes = vec![];
    for rule in RULES {
        let exceptions = find_unless_all(variants, |variant| (rule.applies)(variant, may_clone));
        notes.extend(exceptions.map(|variant| fairness_note(variant, rule.text).fix(rule.fix)));
    }
    notes.extend(durability_notes(variants));
    for (loss, gives_up) in LOST_GUARANTEES {
        let weaker_note = |variant: &VariantFacts| Note::new(NoteKind::Weaker, loss).variant(&variant.name);
        notes.extend(find_unless_all(variants, gives_up).map(weaker_note));
    }
    notes.extend(size_note(variants));
    notes.extend(axis_notes(variants, single_factors));
    notes
}

/// The variants for which `applies` returns true; empty if it returns true for all variants.
fn find_unless_all(
    variants: &[VariantFacts],
    applies: impl Fn(&VariantFacts) -> bool,
) -> impl Iterator<Item = &VariantFacts> {
    let mut exceptions: Vec<_> = variants.iter().filter(|variant| applies(variant)).collect();
    if exceptions.len() == variants.len() {
        exceptions.clear();
    }
    exceptions.into_iter()
}

fn fairness_note(variant: &VariantFacts, text: &str) -> Note {
    Note::new(NoteKind::Fairness, text).variant(&variant.name)
}

/// A function that returns whether a variant gives up a guarantee.
type GivesUpFn = fn(&VariantFacts) -> bool;

/// The guarantees for data that a variant can give up: the loss, and whether a variant has it. Missing checksums count only if
/// the filesystem has them by default and an option turned them off.
const LOST_GUARANTEES: [(&str, GivesUpFn); 5] = [
    ("no storage: an unmount, a crash or a power cut loses every file", |variant| !variant.keeps_files_on_device()),
    ("no journal, so an inconsistent filesystem after a crash", |variant| {
        variant.keeps_files_on_device() && variant.durability() == Durability::None
    }),
    ("stale data in files after a crash (data=writeback)", |variant| variant.durability() == Durability::Writeback),
    ("no flush of the device's cache, so synced data can be lost in a power cut", |variant| {
        variant.keeps_files_on_device() && !variant.uses_barriers()
    }),
    ("no checksums of data", |variant| variant.def.traits.data_checksums && !variant.has_data_checksums()),
];

/// The losses of a variant that gives up guarantees for data, from its options alone: before its filesystem is made.
///
/// # Errors
/// The filesystem is unknown, or does not have these options.
pub fn given_up_guarantees(variant: &Variant) -> Result<Vec<&'static str>, Error> {
    let def = filesystems::find(variant.level(factor::FS))?;
    let facts = VariantFacts {
        name: variant.name.clone(),
        def,
        options: lifecycle::variant_options(def, variant)?,
        effective_options: String::new(),
        size_bytes: 0,
        features: String::new(),
        levels: variant.levels.clone(),
    };
    Ok(LOST_GUARANTEES.into_iter().filter(|(_, gives_up)| gives_up(&facts)).map(|(loss, _)| loss).collect())
}

/// Notes on variants that protect written data from a crash in another way than the others do.
fn durability_notes(variants: &[VariantFacts]) -> Vec<Note> {
    let variants: Vec<&VariantFacts> = variants.iter().filter(|variant| variant.keeps_files_on_device()).collect();
    let durabilities: Vec<Durability> = variants.iter().map(|variant| variant.durability()).collect();
    if durabilities.iter().all(|durability| *durability == durabilities[0]) {
        return vec![];
    }
    let some_order_data = durabilities.iter().any(|durability| *durability >= Durability::Ordered);
    let text_and_fix = |durability| match durability {
        Durability::None => Some((
            "keeps no journal and others keep one: it writes less, and a crash can leave it inconsistent until fsck has run",
            "compare it with variants without a journal (`no-journal` for ext4), or read it as the price of a journal",
        )),
        Durability::Writeback if some_order_data => Some((
            "does not order data before metadata (data=writeback) and others do: after a crash a file may hold stale blocks",
            "mount it with data=ordered, or all variants that can with data=writeback",
        )),
        Durability::Writeback | Durability::Ordered => None,
        Durability::Journal => Some((
            "writes file data through its journal (data=journal) and others do not: it writes data twice, and loses less of it",
            "mount it with data=ordered, or read it as the price of that safety",
        )),
    };
    let notes = variants.iter().zip(durabilities).filter_map(|(variant, durability)| {
        let (text, fix) = text_and_fix(durability)?;
        Some(fairness_note(variant, text).fix(fix))
    });
    notes.collect()
}

/// A note if the devices of the variants differ in size.
fn size_note(variants: &[VariantFacts]) -> Option<Note> {
    let smallest = variants.iter().min_by_key(|variant| variant.size_bytes)?;
    let largest = variants.iter().max_by_key(|variant| variant.size_bytes)?;
    if smallest.size_bytes == largest.size_bytes {
        return None;
    }
    let mib = |variant: &VariantFacts| format!("{} ({} MiB)", variant.name, variant.size_bytes >> 20);
    let text = format!(
        "the devices differ in size, from {} to {}: distances, allocation and the share in use differ with it",
        mib(smallest),
        mib(largest)
    );
    Some(Note::new(NoteKind::Fairness, text).fix(format!("give one size for all ({})", setting("size", ""))))
}

/// A note for each axis (a factor of the machine, not of the filesystem or the workload) that is not fully crossed with
/// the other factors, because the cause of a difference is then ambiguous. An axis is fully crossed if each combination
/// of the other factors occurs with the same levels of the axis.
fn axis_notes(variants: &[VariantFacts], single_factors: &[&str]) -> Vec<Note> {
    let factors: BTreeSet<&str> =
        variants.iter().flat_map(|variant| variant.levels.keys().map(String::as_str)).collect();
    let axes = factors.into_iter().filter(|id| factor::is_machine_factor(id) && !single_factors.contains(id));
    axes.filter_map(|axis| confounding_note(axis, variants)).collect()
}

/// A note if an axis is not fully crossed with the other factors.
fn confounding_note(axis: &str, variants: &[VariantFacts]) -> Option<Note> {
    let level = |variant: &VariantFacts| variant.levels.get(axis).cloned().unwrap_or_default();
    let mut levels_by_other_factors: BTreeMap<Vec<(&String, &String)>, BTreeSet<String>> = BTreeMap::new();
    for variant in variants {
        let other_factors = variant.levels.iter().filter(|(id, value)| *id != axis && !value.is_empty()).collect();
        levels_by_other_factors.entry(other_factors).or_default().insert(level(variant));
    }
    let mut level_sets = levels_by_other_factors.values();
    let first = level_sets.next()?;
    if level_sets.all(|set| set == first) {
        return None;
    }
    let level_text = |level: String| if level.is_empty() { "not set".to_string() } else { level };
    let descriptions: Vec<String> =
        variants.iter().map(|variant| format!("{} ({})", variant.name, level_text(level(variant)))).collect();
    let text = format!(
        "`{axis}` differs between variants that differ in other factors too, {}: a difference in their results may come \
         from either",
        descriptions.join(", ")
    );
    let fix = format!(
        "give all variants the same `{axis}`, or every combination of the other factors the same levels of `{axis}`"
    );
    Some(Note::new(NoteKind::Fairness, text).fix(fix))
}

/// The facts about one variant after its mount that the fairness rules check.
#[derive(Debug, Clone)]
pub struct VariantFacts {
    /// Its name.
    pub name: String,
    /// Its filesystem.
    pub def: &'static FsDef,
    /// The options that fsarena passed to mkfs and mount. A short option of mkfs and its value are separate words:
    /// `-z`, `lz4`.
    pub options: VariantOptions,
    /// The mount options as the kernel reports them; empty if unknown.
    pub effective_options: String,
    /// The size of its device in bytes.
    pub size_bytes: u64,
    /// The features it was made with, as its tool prints them; empty if unknown.
    pub features: String,
    /// The level of each factor that the variant has.
    pub levels: BTreeMap<String, String>,
}

/// The options from the last to the first, without those that a later option with the same key overrides.
fn in_force<'a>(options: impl DoubleEndedIterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let mut keys = BTreeSet::new();
    options.rev().filter(move |option| option.split_once('=').is_none_or(|(key, _)| keys.insert(key)))
}

/// The guarantee for written data after a crash, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Durability {
    /// Neither journal, log nor copy on write.
    None,
    /// Metadata survives, but a file may have blocks whose data was never written.
    Writeback,
    /// Metadata survives, and file data is written before it.
    Ordered,
    /// File data goes through the journal too.
    Journal,
}

impl VariantFacts {
    /// Calls `meaning` with one mount option after the other, from the last to the first because the last one wins, and
    /// returns the first value that is not `None`. It first searches the mount options that the kernel reports, then those that
    /// fsarena passed to mount, then the properties of the pool (arguments of its mkfs).
    fn find_mount_option_or_property<T>(&self, meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
        let last_in = |options: &str| in_force(options.split(',')).find_map(&meaning);
        let words = if self.def.pool.is_some() { &self.options.mkfs[..] } else { &[] };
        let properties = words.iter().flat_map(|list| list.split(','));
        last_in(&self.effective_options)
            .or_else(|| last_in(&self.options.mount))
            .or_else(|| in_force(properties).find_map(&meaning))
    }

    /// Whether the mount options turn a behaviour on (true) or off (false); None if no option in `on` or `off` is set.
    fn is_turned_on(&self, on: &[&str], off: &[&str]) -> Option<bool> {
        self.find_mount_option_or_property(|option| {
            if on.contains(&option) {
                return Some(true);
            }
            off.contains(&option).then_some(false)
        })
    }

    /// Whether an argument of mkfs, or a part of a comma-separated argument, equals `option`.
    fn was_made_with(&self, option: &str) -> bool {
        self.options.mkfs.iter().any(|arg| arg.split(',').any(|part| part == option))
    }

    /// Whether one of these features is among those that the tool of an ext filesystem lists; None if there is no such list.
    fn lists_feature(&self, names: &[&str]) -> Option<bool> {
        let list = self.features.lines().find_map(|line| line.strip_prefix("Filesystem features:"))?;
        Some(list.split_whitespace().any(|feature| names.contains(&feature)))
    }

    /// Whether it has a level of an axis other than the plain one: `none`, `0%` or no level.
    fn has_level_of(&self, axis: &str) -> bool {
        self.levels.get(axis).is_some_and(|level| !["", "none", "0%"].contains(&level.as_str()))
    }

    /// Whether it keeps files on a device at all.
    fn keeps_files_on_device(&self) -> bool {
        !self.def.traits.volatile
    }

    fn uses_barriers(&self) -> bool {
        let off = [
            // Of bcachefs: `journal_flush_disabled`; of reiser4: `no_write_barrier`; of the pool of zfs:
            // `sync=disabled`.
            "nobarrier",
            "barrier=0",
            "barrier=none",
            "fsync_mode=nobarrier",
            "no_write_barrier",
            "journal_flush_disabled",
            "sync=disabled",
        ];
        self.is_turned_on(&["barrier", "barrier=1", "barrier=flush"], &off).unwrap_or(self.def.traits.barriers)
    }

    fn durability(&self) -> Durability {
        if self.def.traits.read_only {
            // Nothing is written after mkfs, so a crash damages nothing.
            return Durability::Ordered;
        }
        let lacks_journal = self.lists_feature(&["has_journal"]) == Some(false);
        // `nointegrity` is an option of jfs, `nolog` of reiserfs.
        let is_journal_unused = self.is_turned_on(&["nointegrity", "nolog"], &["integrity"]).unwrap_or(false);
        if !self.def.traits.crash_safe || lacks_journal || is_journal_unused || self.was_made_with("^has_journal") {
            return Durability::None;
        }
        let mode = self.find_mount_option_or_property(|option| match option {
            "data=writeback" => Some(Durability::Writeback),
            "data=ordered" => Some(Durability::Ordered),
            "data=journal" => Some(Durability::Journal),
            _ => None,
        });
        mode.unwrap_or(Durability::Ordered)
    }

    fn has_lazy_init(&self) -> bool {
        // Without group checksums mkfs writes all inode tables itself.
        let has_checksums = self.lists_feature(&["metadata_csum", "uninit_bg"]) != Some(false);
        self.def.traits.lazy_init && has_checksums && !self.was_made_with("lazy_itable_init=0")
    }

    fn supports_reflink(&self) -> bool {
        self.def.traits.reflink && !self.was_made_with("reflink=0") && !self.features.contains("reflink=0")
    }

    fn has_data_checksums(&self) -> bool {
        self.is_turned_on(&["datasum"], &["nodatasum", "nodatacow", "nocow", "data_checksum=none", "checksum=off"])
            .unwrap_or(self.def.traits.data_checksums)
    }

    fn compresses(&self) -> bool {
        let by_option = self.find_mount_option_or_property(|option| {
            let compresses = matches!(option.split('=').next(), Some("compress" | "compress-force" | "compression"));
            compresses.then_some(!["=no", "=none", "=off"].iter().any(|off| option.ends_with(off)))
        });
        // mkfs.erofs compresses only with `-z`. mksquashfs, which compresses by default, does not compress file data
        // with `-noD`.
        let packs_compressed = self.def.traits.read_only && self.was_made_with("-z");
        by_option.unwrap_or(packs_compressed || self.def.traits.compression && !self.was_made_with("-noD"))
    }

    fn discards_freed_blocks(&self) -> bool {
        self.is_turned_on(&["discard", "discard=async", "discard=sync"], &["nodiscard"]).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests;
